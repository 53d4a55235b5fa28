"""`fit_rules`: rules from labelled data, priced against a model, kept only if they help.

Candidates are rules that hold nearly always and not by chance (relational.py). They are priced jointly on scores of
sequences that the model has not seen, and tested (pricing.py). Then each fold is decoded under rules priced on the
others, and compared with no rules at all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np

from bridle.errors import ModelError
from bridle.frames import LabelLists, Table
from bridle.learn.documents import Documents, fit_documents
from bridle.learn.evidence import Given, Learned, about_document, priced, rules_of
from bridle.learn.judged import Judged, ScoredBy, cuts_in_a_row
from bridle.learn.pricing import Effect, Prices, Pricing, best_multiple
from bridle.learn.relational import RelationalRules
from bridle.learn.scores import Scores
from bridle.models.checks import positive
from bridle.models.folds import CrossFit
from bridle.models.tagger import Tagger
from bridle.report.sequences import SequenceScores
from bridle.report.significance import Comparison, Floats, compare_scores
from bridle.rules.base import Rule, Soft
from bridle.rules.loading import as_rules

L1 = (4.0, 1.0)  # the first is best on most data; the second if a model makes few mistakes, of one kind
_SURE = 0.2  # the p of a sign test below which the second is taken


@dataclass(frozen=True, slots=True)
class PricedRule:
    """A rule that was kept.

    Attributes
    ----------
    learned : Learned
        The soft rule with its evidence.
    effect : Effect
        Its effect among all.
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
        Gains there in sequences all right, and in quality, with intervals.
    l1 : float
        The L1 term that was chosen.
    scale : float
        Factor by which the scores fit the data best, the inverse of their temperature. Below 1, the model is
        overconfident.
    multiple : float
        Factor on all prices by which held-out sequences are labelled best; 1 unless another one is significantly
        better.
    document_multiple : float
        The same for rules about documents.
    multiples : dict of float to float
        Quality on held-out sequences under each multiple that was tried.
    notes : tuple of str
        Reasons to doubt the result: signs that the model has seen the sequences, a scale at its bound.
    sequences, folds : int
        Number of sequences and of folds.
    documents : int
        Number of documents, by which gains are then compared; 0 if rules about documents were not looked for.
    source : str
        ``"cross-fitted"``: scores of the model's own training data by models that have not seen it. ``"model"``: scores
        of new data by the model itself.
    candidates : int
        Number of rules that were considered.
    dropped : dict of str to int
        Number of rules that were dropped, by reason.
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
    multiple: float
    document_multiple: float
    multiples: dict[float, float]
    notes: tuple[str, ...]
    sequences: int
    folds: int
    documents: int
    source: str
    candidates: int
    dropped: dict[str, int]
    fingerprint: str

    @property
    def learned(self) -> list[Learned]:
        """The rules to use, with their evidence; none if they do not win."""
        return [rule.learned for rule in self.priced] if self.won else []

    @property
    def rules(self) -> list[Rule]:
        """The rules to use; none if they do not win."""
        return rules_of(self.learned)

    def lines(self) -> list[str]:
        """Print the result.

        Returns
        -------
        list of str
            Lines of text: gains on held-out sequences, and the verdict.
        """
        new = self.source != "cross-fitted"
        how = "new to the model" if new else "each fold scored by a model trained on the others"
        return [
            f"priced for model {self.fingerprint} on {self.sequences:,} sequences{self._of_documents()} in "
            f"{self.folds} folds, {how}",
            f"scale of the scores: {self.scale:.3g}; multiple of the likeliest prices: {self.multiple:g}"
            + (f", of those of rules about documents: {self.document_multiple:g}" if self.documents else ""),
            *(f"note: {note}" for note in self.notes),
            f"sequences all right: {self._both('exact', 1)} ({self.exact})",
            f"F1 of segments: {self._both('f1')}; quality: {self._both('quality')}",
            self.verdict,
        ]

    @property
    def verdict(self) -> str:
        """The recommended rules and the figures behind the recommendation, as one sentence."""
        passed, n = len(self.priced), self.candidates
        if not passed:
            return f"use no rules: none of {n} candidates passed the tests" if n else "use no rules: no rule was found"
        what = f"use these {passed} rules of" if self.won else f"use no rules, although {passed} passed the tests, of"
        held_out = f"quality {self._both('quality')} on held-out sequences (p = {self.quality.p:.2g})"
        return f"{what} {n} candidates: {held_out}"

    def _of_documents(self) -> str:
        return f" of {self.documents:,} documents" if self.documents else ""

    def _both(self, figure: str, digits: int = 2) -> str:
        return f"{self.plain[figure]:.{digits}%} without rules, {self.held_out[figure]:.{digits}%} with rules"

    def to_dict(self) -> dict[str, Any]:
        """Convert to what JSON can hold.

        Returns
        -------
        dict
            Figures by name; shares, not percent.
        """
        figures = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "priced"}
        return {**figures, "exact": self.exact.to_dict(), "quality": self.quality.to_dict()}


def fit_rules(
    model: Tagger | Scores,
    X: Any,
    y: LabelLists | None = None,
    *,
    rules: Iterable[Rule | str] | RelationalRules | None = None,
    given: Sequence[Given] | Table | None = None,
    scored_by: ScoredBy = "auto",
    cross_fit: CrossFit | None = None,
    groups: Sequence[Hashable] | Table | None = None,
    on_unknown: Literal["raise", "skip"] = "raise",
    l1: float | Literal["auto"] = "auto",
    significance: float = 0.1,
    seed: int = 0,
    threads: int = 0,
    watch: Callable[[str], None] | None = None,
) -> FittedRules:
    """Learn rules from labelled sequences that make a model better, and their penalties.

    Penalties from counts charge again for what the model already knows. Here they are learned on scores of sequences
    that the model has not seen, jointly and from zero. A rule stays if it makes gold significantly more likely, and all
    of them stay if they beat no rules at all on held-out sequences.

    The reported gain is that of rules priced and tested on other folds. Candidates are found on all of the data, and
    the better of two L1 terms and the best multiple of the prices are chosen, so it is a little optimistic on small
    data.

    Parameters
    ----------
    model : Tagger or Scores
        A trained model; or scores of any model, and then the call is ``fit_rules(scores, y)``.
    X, y : sequence
        Labelled sequences, as for `Tagger.fit`: those that the model was trained on, or new ones.
    rules : iterable of Rule or str, or RelationalRules, optional
        Rules to price, or how to find them. By default all that `RelationalRules` finds.
    given : sequence of mapping, optional
        Values that rules refer to by name, a mapping per sequence.
    scored_by : {"auto", "cross-fitted", "model"}, default "auto"
        Whose scores: of models trained on the other folds, for the training data of `model`; or of `model` itself, for
        data that it has not seen. ``"auto"`` asks `Tagger.share_seen`.
    cross_fit : CrossFit, optional
        Cross-fitted scores of the same data, if you already have them. A `CRF` that chose `c1` or `c2` itself brings
        its own.
    groups : sequence, optional
        A name or a number per sequence, such as its source; a group is held out as a whole. Rules are then priced for
        data from new sources, where a model needs them most. If the sequences of each group are in a row, the groups
        are documents: rules about documents are looked for and priced, too.
    on_unknown : {"raise", "skip"}, default "raise"
        What to do with a gold label that the model does not know: raise an error, or leave out the sequence.
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
        Called with a sentence about each step.

    Returns
    -------
    FittedRules
        The rules (`rules`, or with their evidence `learned`), and their gains.

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
    >>> fitted = bridle.learn.fit_rules(model, X, y)
    >>> fitted.won, fitted.exact.gain > 0.1, len(fitted.rules) < fitted.candidates
    (True, True, True)
    """
    if l1 != "auto":
        positive("l1", l1)
    positive("significance", significance)
    if significance > 1:
        raise ModelError("invalid value of `significance`", got=significance, wanted="a number above 0, at most 1")
    judged = Judged.of(model, X, y, given, scored_by, cross_fit, groups, on_unknown, seed, threads, watch)
    if rules is None or isinstance(rules, RelationalRules):
        judged.say("looking for rules")
        scheme = judged.labels.scheme
        miner = rules or RelationalRules(select="all", scheme=scheme, seed=seed)
        mined = _mine(miner, judged)
    else:
        mined = _with_evidence(as_rules(rules), judged)
    across = [item for item in mined if judged.documents is not None and about_document(item.rule)]
    candidates = [item for item in mined if item not in across]
    judged.say(f"pricing {len(candidates)} rules on {len(judged):,} sequences")
    plain = judged.judge(judged.plain)
    terms = L1 if l1 == "auto" else (float(l1),)
    first = _Fit.of(Pricing(judged, rules_of(candidates), l1=terms[0], significance=significance), plain)
    others = [_Fit.of(first.pricing.at(term), plain) for term in terms[1:]]
    best, effects = next((fit for fit in others if fit.beats(first)), first).harmless(plain)
    gains, held_out, dropped = compare_scores(plain, best.held_out), best.held_out, best.pricing.dropped
    kept = []
    for r in best.prices.kept:
        penalty = float(f"{best.prices.penalties[r]:.3g}")  # readable
        learned = replace(candidates[r], rule=priced(candidates[r].rule, penalty))
        kept.append(PricedRule(learned, effects[r]))
    kept.sort(key=lambda rule: (rule.effect.p or 0.0, str(rule.learned.rule)))
    document_multiple = 1.0
    if across:
        documents = Documents(judged, [item.rule for item in mined])
        if not (kept and gains["quality"].gain > 0):
            kept, held_out = [], plain
        fit = fit_documents(
            documents,
            [item.rule for item in across],
            best.of_folds() if kept else None,
            scale=best.prices.scale,
            l1=best.pricing.l1,
            significance=significance,
        )
        kept += [PricedRule(replace(across[r], rule=rule), effect) for r, (rule, effect) in fit.kept.items()]
        held_out = fit.held_out if fit.kept else held_out
        gains = documents.compare(plain, held_out)
        dropped, document_multiple = dropped + fit.dropped, fit.multiple
    return FittedRules(
        tuple(kept),
        bool(kept) and gains["quality"].gain > 0,
        plain.to_dict(),
        held_out.to_dict(),
        gains["exact"],
        gains["quality"],
        best.pricing.l1,
        best.prices.scale,
        best.prices.multiple,
        document_multiple,
        best.multiples,
        (*judged.notes, *best.pricing.notes),
        len(judged),
        judged.n_folds,
        len(documents) if across else 0,
        judged.scores.source,
        len(mined),
        {reason: n for reason, n in dropped.items() if n},
        judged.scores.fingerprint,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """Rules that passed the tests under one L1 term, and the held-out sequences decoded under them."""

    pricing: Pricing
    prices: Prices
    folds: list[Prices]  # without each fold
    held_out: SequenceScores
    multiples: dict[float, float]  # quality

    @classmethod
    def of(cls, pricing: Pricing, plain: SequenceScores) -> _Fit:
        prices = pricing.learn()
        tested = pricing.significant(prices)
        pricing.dropped["add nothing to the model"] = len(pricing.rules) - len(prices.kept)
        pricing.dropped["may be due to chance"] = len(prices.kept) - len(tested.kept)
        if not tested.kept:
            return cls(pricing, tested, [], plain, {})
        folds, held_out = pricing.fold_prices(tested), dict[float, SequenceScores]()

        def quality(multiple: float) -> Floats:
            pricing.judged.say(f"{multiple:g} times all prices, on held-out sequences")
            held_out[multiple] = pricing.held_out([replace(prices, multiple=multiple) for prices in folds])
            return held_out[multiple].quality

        best, tried = best_multiple(quality)
        folds = [replace(prices, multiple=best) for prices in folds]
        return cls(pricing, replace(tested, multiple=best), folds, held_out[best], tried)

    def harmless(self, plain: SequenceScores) -> tuple[_Fit, dict[int, Effect]]:
        """Remove rules that make more sequences worse than better; return the effects of the others, too."""
        self.pricing.judged.say(f"testing {len(self.prices.kept)} rules by decoding")
        last, effects = self.pricing.harmless(self.prices)
        if not last.kept:
            return replace(self, prices=last, held_out=plain), effects
        folds = self.pricing.fold_harmless(self.folds)
        return replace(self, prices=last, folds=folds, held_out=self.pricing.held_out(folds)), effects

    def of_folds(self) -> dict[int, list[Soft]]:
        """Return the rules with the prices of each fold, which come from the others."""
        folds = np.unique(self.pricing.judged.fold).tolist()
        return {fold: self.pricing.soft(prices) for fold, prices in zip(folds, self.folds, strict=True)}

    def beats(self, other: _Fit) -> bool:
        """Check whether it labels better, and not by accident."""
        comparison = Comparison.of(other.held_out.quality, self.held_out.quality)
        return comparison.gain > 0 and comparison.p < _SURE


def _mine(miner: RelationalRules, judged: Judged) -> list[Learned]:
    """Find hard rules in data."""
    given, texts = judged.scores.given, judged.texts
    if texts is not None or (given is not None and not all("tokens" in values for values in given)):
        given = None
    y = judged.y
    if given is not None:  # of the scored sequences only
        y = [y[k] for k in judged.scores.sequences.tolist()]
    groups = judged.names
    if groups is not None and given is not None:
        groups = [groups[k] for k in judged.scores.sequences.tolist()]
    mined = miner.fit(texts, y, given, groups=None if cuts_in_a_row(groups) is None else groups).learned_
    return [learned.hard() for learned in mined]


def _with_evidence(rules: Sequence[Rule], judged: Judged) -> list[Learned]:
    """Count how often gold obeys written rules; each applies to every sequence."""
    broken, n = judged.broken(rules, judged.gold, judged.given_for(rules)).sum(axis=0).tolist(), len(judged)
    return [Learned(rule, "written", n - bad, n, n) for rule, bad in zip(rules, broken, strict=True)]
