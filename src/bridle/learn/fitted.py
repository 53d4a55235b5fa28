"""`fit_rules`: rules from labelled data, priced against a model, kept only if they help.

scores       of sequences that the model has not seen: cross-fitted, or of new data                    scored.py
candidates   rules that hold nearly always and not by chance                                           relational.py
prices       learned jointly from zero, each rule tested                                               pricing.py
verdict      each fold decoded under rules priced on the others, against no rules at all               compare.py
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from bridle.errors import ModelError
from bridle.features import PlainFeatures, sequences_of
from bridle.frames import LabelLists, Sequences, Table
from bridle.learn.evidence import Learned, counter, priced
from bridle.learn.pricing import Effect, Prices, Pricing, Scored, Source
from bridle.learn.relational import RelationalRules
from bridle.learn.statistics import Comparison, compared
from bridle.models.checks import Given, all_known, check_callable, given_of, labellings_of, positive
from bridle.models.folds import CrossFit
from bridle.models.tagger import Tagger
from bridle.report.sequences import SequenceScores
from bridle.rules.base import Rule
from bridle.rules.loading import as_rules

L1 = (4.0, 1.0)  # the first is best on most data; the second where a model makes few mistakes, of one kind
SIGNIFICANCE = 0.1
_SURE = 0.2  # the p of a sign test below which the second is taken


@dataclass(frozen=True, slots=True)
class PricedRule:
    """A rule that was kept.

    Attributes
    ----------
    learned : Learned
        The soft rule with its evidence.
    effect : Effect
        What it does among all.
    """

    learned: Learned
    effect: Effect

    def __str__(self) -> str:
        e = self.effect
        return f"{self.learned}; better in {e.better}, worse in {e.worse}" + ("" if e.p is None else f"; p = {e.p:.2g}")


@dataclass(frozen=True, slots=True)
class FittedRules:
    """Rules priced against a model, and what they gain.

    Attributes
    ----------
    priced : tuple of PricedRule
        The rules that passed all tests, the most useful first.
    won : bool
        Whether they beat no rules at all on held-out sequences. If not, `rules` is empty.
    plain, held_out : dict
        Shares of held-out sequences: ``"exact"``, ``"f1"``, ``"accuracy"``, ``"quality"``, without rules and under
        rules that were priced on other sequences.
    exact, quality : Comparison
        What rules gain there in sequences all right, and in quality, with intervals.
    l1 : float
        The L1 term that was chosen.
    scale : float
        Factor by which the model's scores fit the data best. Below 1, the model is overconfident.
    sequences, folds : int
        Number of sequences and of folds.
    source : str
        ``"cross-fitted"``: scores of the model's own training data by models that have not seen it. ``"model"``: scores
        of new data by the model itself.
    candidates : int
        Number of rules that were considered.
    dropped : dict of str to int
        What became of the others.
    fingerprint : str
        Identifies the model.
    """

    priced: tuple[PricedRule, ...]
    won: bool
    plain: dict[str, float]
    held_out: dict[str, float]
    exact: Comparison
    quality: Comparison
    l1: float
    scale: float
    sequences: int
    folds: int
    source: str
    candidates: int
    dropped: dict[str, int]
    fingerprint: str

    @property
    def learned(self) -> list[Learned]:
        """The rules to use, with their evidence; none if they do not win."""
        return [one.learned for one in self.priced] if self.won else []

    @property
    def rules(self) -> list[Rule]:
        """The rules to use; none if they do not win."""
        return [one.rule for one in self.learned]

    def lines(self) -> list[str]:
        """Print what was found.

        Returns
        -------
        list of str
            Lines of text: what rules gain on held-out sequences, and the verdict.
        """
        how = (
            "each fold scored by a model trained on the others" if self.source == "cross-fitted" else "new to the model"
        )
        found = len(self.priced)
        if self.won:
            verdict = f"{found} of {self.candidates} candidate rules were kept"
        elif found:
            verdict = (
                f"no rules: {found} of {self.candidates} candidates passed the tests, but do not raise the quality"
            )
        else:
            verdict = (
                f"no rules: none of {self.candidates} candidates passed the tests" if self.candidates else "no rules"
            )
        return [
            f"priced for model {self.fingerprint} on {self.sequences:,} sequences in {self.folds} folds, {how}",
            f"sequences all right: {self._both('exact', 1)} ({self.exact})",
            f"F1 of segments: {self._both('f1')}; quality: {self._both('quality')}",
            verdict,
        ]

    def _both(self, figure: str, digits: int = 2) -> str:
        return f"{self.plain[figure]:.{digits}%} without rules, {self.held_out[figure]:.{digits}%} with rules"

    def to_dict(self) -> dict[str, Any]:
        """Convert to what JSON can hold.

        Returns
        -------
        dict
            Figures by name; shares, not percent.
        """
        names = (
            "won",
            "plain",
            "held_out",
            "l1",
            "scale",
            "sequences",
            "folds",
            "source",
            "candidates",
            "dropped",
            "fingerprint",
        )
        return {
            **{name: getattr(self, name) for name in names},
            "exact": self.exact.to_dict(),
            "quality": self.quality.to_dict(),
        }


def fit_rules(
    model: Tagger,
    X: Sequences,
    y: LabelLists,
    *,
    rules: Iterable[Rule | str] | RelationalRules | None = None,
    given: Sequence[Given] | Table | None = None,
    scores: Source = "auto",
    cross_fit: CrossFit | None = None,
    groups: Sequence[Hashable] | Table | None = None,
    l1: float | Literal["auto"] = "auto",
    significance: float = SIGNIFICANCE,
    seed: int = 0,
    threads: int = 0,
    watch: Callable[[str], None] | None = None,
) -> FittedRules:
    """Learn rules from labelled sequences that make a model better, and what breaking each should cost.

    Penalties from counts charge again for what the model already knows. Here they are learned on scores of sequences
    that the model has not seen, jointly and from zero. A rule stays if it makes gold significantly more likely, and all
    of them stay if they beat no rules at all on held-out sequences.

    The reported gain is that of rules priced and tested on other folds. Candidates are found on all of the data,
    and the better of two L1 terms is chosen, so it is a little optimistic on small data.

    Parameters
    ----------
    model : Tagger
        A trained model.
    X, y : sequence
        Labelled sequences, as for `Tagger.fit`: those that the model was trained on, or new ones.
    rules : iterable of Rule or str, or RelationalRules, optional
        Rules to price, or how to find them. By default all that `RelationalRules` finds.
    given : sequence of mapping, optional
        Values that rules refer to by name, a mapping per sequence.
    scores : {"auto", "cross-fitted", "model"}, default "auto"
        Whose scores: of models trained on the other folds, for the training data of `model`; or of `model` itself, for
        data that it has not seen. ``"auto"`` asks `Tagger.share_seen`.
    cross_fit : CrossFit, optional
        Cross-fitted scores of the same data, if you already have them. A `CRF` that chose `c1` or `c2` itself brings
        its own.
    groups : sequence, optional
        A name or a number per sequence, such as its source; a group is held out as a whole. Rules are then priced for
        data from new sources, where a model needs them most.
    l1 : float or "auto", default "auto"
        How much the log-likelihood must gain for a penalty of 1. A higher value leaves fewer rules. ``"auto"`` is 4, or
        1 if that labels held-out sequences better.
    significance : float, default 0.1
        Share of the rules that may be due to chance.
    seed : int, default 0
        Seed of the random number generator, which assigns folds and samples large data.
    threads : int, default 0
        Number of threads; 0 means all cores.
    watch : callable, optional
        Called with a sentence about what is being done.

    Returns
    -------
    FittedRules
        The rules (`rules`, or with their evidence `learned`), and what they gain.

    Raises
    ------
    ModelError
        If the model is not trained, or a setting is invalid.
    LabelError
        If `y` does not fit `X`, or has labels that the model does not know.

    Examples
    --------
    >>> import bridle
    >>> from bridle.data import references
    >>> train = references.references("acm", "lncs", count=60)
    >>> X, y = [e.columns for e in train], [e.labels for e in train]
    >>> model = bridle.CRF(features=["lower[0]", "label[-1]"], c2=0.1, scheme="IO").fit(X, y)
    >>> found = bridle.learn.fit_rules(model, X, y)
    >>> found.won, found.exact.gain > 0.1, len(found.rules) < found.candidates
    (True, True, True)
    """
    if l1 != "auto":
        positive("l1", l1)
    positive("significance", significance)
    if significance > 1:
        raise ModelError("invalid value of `significance`", got=significance, wanted="a number above 0, at most 1")
    check_callable("watch", watch, "a function of a sentence")
    say = watch or (lambda text: None)
    X, y, given = sequences_of(X), labellings_of(y), given_of(given)
    scored = Scored.of(
        model, X, y, given, scores=scores, cross_fit=cross_fit, groups=groups, threads=threads, seed=seed, say=say
    )
    found = _candidates(scored, X, all_known(y), given, rules, seed, say)
    say(f"pricing {len(found)} rules on {len(scored):,} sequences")
    rough = Pricing(scored, [one.rule for one in found], l1=L1[0], significance=significance)
    plain = scored.judge(scored.decode([]))
    best: _Fit | None = None
    for strength in L1 if l1 == "auto" else (float(l1),):
        fit = _Fit.of(rough.at(strength), plain, say)
        if best is None or fit.beats(best):
            best = fit
    assert best is not None  # there is one strength at least
    gains = compared(plain, best.held_out)
    effects = best.pricing.effects(best.prices)
    kept = [PricedRule(_priced(found[r], best.prices, r), effects[r]) for r in best.prices.kept]
    kept.sort(key=lambda one: (one.effect.p or 0.0, str(one.learned.rule)))
    return FittedRules(
        tuple(kept),
        bool(kept) and gains["quality"].gain > 0,
        plain.to_dict(),
        best.held_out.to_dict(),
        gains["exact"],
        gains["quality"],
        best.pricing.l1,
        best.prices.scale,
        len(scored),
        len(set(scored.fold.tolist())),
        scored.source,
        len(found),
        {reason: n for reason, n in best.pricing.dropped.items() if n},
        model.fingerprint_,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """Rules that passed the tests under one L1 term, and how they do on held-out sequences."""

    pricing: Pricing
    prices: Prices
    held_out: SequenceScores

    @classmethod
    def of(cls, pricing: Pricing, plain: SequenceScores, say: Callable[[str], None]) -> _Fit:
        prices = pricing.learn()
        tested = pricing.significant(prices)
        pricing.dropped["add nothing to the model"] = len(pricing.rules) - len(prices.kept)
        pricing.dropped["may be due to chance"] = len(prices.kept) - len(tested.kept)
        say(f"testing {len(tested.kept)} rules by decoding")
        last = pricing.harmless(tested)
        if not last.kept:
            return cls(pricing, last, plain)
        return cls(pricing, last, pricing.scored.held_out(lambda use: pricing.soft(pricing.relearn(last, use))))

    def beats(self, other: _Fit) -> bool:
        """Does it label better, and not by accident?"""
        seen = Comparison.of(other.held_out.quality, self.held_out.quality)
        return seen.gain > 0 and seen.p < _SURE


def _candidates(
    scored: Scored,
    X: Sequence[Any],
    y: Sequence[Sequence[str]],
    given: Sequence[Given] | None,
    rules: Iterable[Rule | str] | RelationalRules | None,
    seed: int,
    say: Callable[[str], None],
) -> list[Learned]:
    """Rules to price, with their evidence."""
    model = scored.model
    if rules is not None and not isinstance(rules, RelationalRules):
        return _with_evidence(as_rules(rules), scored)
    say("looking for rules")
    miner = rules or RelationalRules(select="all", penalty=None, scheme=model.labels_.scheme, seed=seed)
    texts = None if isinstance(model.features_, PlainFeatures) else [list(model.features_.tokens(x)) for x in X]
    if texts is None and given is not None and not all("tokens" in one for one in given):
        given = None
    return [one.hard() for one in miner.fit(texts, y, given if texts is None else None).learned_]


def _with_evidence(rules: Sequence[Rule], scored: Scored) -> list[Learned]:
    """Rules that somebody wrote, with how often gold obeys them; each applies to every sequence."""
    count = counter(rules, scored.labels, threads=scored.threads)
    broken = (count(scored.gold, scored.offsets, scored.asked_by(rules)) > 0).sum(axis=0).tolist()
    return [
        Learned(rule, "written", len(scored) - n, len(scored), len(scored))
        for rule, n in zip(rules, broken, strict=True)
    ]


def _priced(one: Learned, prices: Prices, r: int) -> Learned:
    """With its penalty, rounded so that people can read it."""
    return replace(one, rule=priced(one.rule, float(f"{prices.penalties[r]:.3g}")))
