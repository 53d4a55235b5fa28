"""`tune_rules`: which written rules to keep hard, which to make soft and at what price, which to leave out.

A hard rule that gold never breaks starts hard; all others are soft, at prices learned jointly (pricing.py), or off if
the price is 0. Then, rule by rule, another choice is taken if it labels significantly better. The tuned rules (each
fold under rules tuned on the others) are compared with no rules and with the rules as written. Few sequences must be
significantly better under others for the written rules to be given up.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bridle.errors import RuleError, shown
from bridle.frames import LabelLists, Table
from bridle.labels import Bools
from bridle.learn.documents import Cases, Documents
from bridle.learn.evidence import Given, Ids, about_document, priced
from bridle.learn.judged import Judged, ScoredBy
from bridle.learn.pricing import Effect, Pricing, best_multiple, effect_of, fit_prices
from bridle.learn.scores import Scores
from bridle.models.checks import positive
from bridle.models.folds import CrossFit
from bridle.models.tagger import Tagger
from bridle.report.plots import Drawn, draw_bars
from bridle.report.sequences import SequenceScores
from bridle.report.significance import Comparison, Floats, compare_scores
from bridle.report.text import aligned
from bridle.rules.base import Rule, Soft
from bridle.rules.loading import as_rules

Choice = Literal["hard", "soft", "off"]
Ways = Literal["none", "written", "tuned"]
_NAMES: dict[Ways, str] = {"none": "no rules", "written": "as written", "tuned": "tuned"}
_ADVICE: dict[Ways, str] = {
    "none": "use no rules",
    "written": "use the rules as written",
    "tuned": "use the tuned rules",
}
_SURE = 0.1  # the p of a sign test below which another choice is taken
_FEW = 100  # sequences; with fewer, a better mean is no evidence against what a person has written
_HEADS = ("written", "tuned", "gold breaks", "model breaks", "better", "worse", "gain", "rule")


@dataclass(frozen=True, slots=True)
class TunedRule:
    """A written rule and how to use it.

    Attributes
    ----------
    written : Rule
        The rule as it was written.
    choice : {"hard", "soft", "off"}
        The choice that labels best.
    rule : Rule or None
        The tuned rule; None if it is off.
    gold_breaks, model_breaks : int
        Sequences in which gold labels break it, and in which those of the model do without rules; documents if a rule
        is about documents.
    effect : Effect or None
        Its effect among the others; None if it is off.
    """

    written: Rule
    choice: Choice
    rule: Rule | None
    gold_breaks: int
    model_breaks: int
    effect: Effect | None


@dataclass(frozen=True, slots=True)
class TunedRules(Drawn):
    """Written rules with their effects, and how to use them; `plot` draws the gain of each rule among the others.

    Attributes
    ----------
    tuned : tuple of TunedRule
        All rules, in their order.
    best : {"none", "written", "tuned"}
        The way that labels held-out sequences best: no rules, the rules as they were written, or as they were tuned.
        With fewer than 100 sequences, the rules as written, unless another way is significantly better.
    figures : dict
        For each of the three, shares of held-out sequences: ``"exact"``, ``"f1"``, ``"accuracy"``, ``"quality"``.
    gains : dict of str to Comparison
        Gains of ``"written"`` and ``"tuned"`` rules over none in sequences all right.
    against : dict of str to Comparison
        Gains in quality of the best of the three over each of the other two, all by the same test.
    sequences, folds : int
        Number of sequences and of folds.
    source : str
        Whose scores: ``"cross-fitted"`` or ``"model"``, as in `FittedRules`.
    fingerprint : str
        Identifies the model.
    multiple : float
        Factor on the likeliest prices by which held-out sequences are labelled best.
    notes : tuple of str
        Reasons to doubt the result, as in `FittedRules`.
    """

    tuned: tuple[TunedRule, ...]
    best: Ways
    figures: dict[Ways, dict[str, float]]
    gains: dict[str, Comparison]
    against: dict[Ways, Comparison]
    sequences: int
    folds: int
    source: str
    fingerprint: str
    multiple: float
    notes: tuple[str, ...]

    @property
    def rules(self) -> list[Rule]:
        """The rules that label best: tuned, as written, or none."""
        if self.best == "tuned":
            return [row.rule for row in self.tuned if row.rule is not None]
        return [row.written for row in self.tuned] if self.best == "written" else []

    @property
    def verdict(self) -> str:
        """The recommended rules and the figures behind the recommendation, as one sentence."""
        others = (
            f"{self.figures[way]['quality']:.2%} {_NAMES[way].replace('no rules', 'without rules')} (p = {test.p:.2g})"
            for way, test in self.against.items()
        )
        quality = f"quality {self.figures[self.best]['quality']:.2%} on held-out sequences"
        return f"{_ADVICE[self.best]}: {quality}, against {' and '.join(others)}"

    def lines(self) -> list[str]:
        """Print the table and the verdict.

        Returns
        -------
        list of str
            Lines of text: shares in percent, gains in points of quality.
        """
        how = (
            "each fold scored by a model trained on the others" if self.source == "cross-fitted" else "new to the model"
        )
        text = [f"{self.sequences:,} sequences in {self.folds} folds, {how}; {len(self.tuned)} rules"]
        text += [f"note: {note}" for note in self.notes]
        for way, figures in self.figures.items():
            gain = f" ({self.gains[way]})" if way in self.gains else ""
            name = _NAMES[way]
            shares = f"quality {figures['quality']:.2%}, {figures['exact']:.1%} all right, F1 {figures['f1']:.2%}"
            text.append(f"{name + ':':<12}{shares}{gain}")
        return [*text, *aligned([_HEADS, *map(_cells, self.tuned)], left=[len(_HEADS) - 1]), self.verdict]

    def _draw(self, path: str | Path) -> None:
        bars = [
            (str(row.written if row.rule is None else row.rule), 0.0 if row.effect is None else 100 * row.effect.gain)
            for row in self.tuned
        ]
        draw_bars(path, bars, "gain of quality among the tuned rules, points")

    def to_dict(self) -> dict[str, Any]:
        """Convert to what JSON can hold.

        Returns
        -------
        dict
            Figures and rules by name; shares, not percent.
        """
        names = ("best", "verdict", "figures", "sequences", "folds", "source", "fingerprint", "multiple", "notes")
        rows = []
        for row in self.tuned:
            rule = None if row.rule is None else str(row.rule)
            effect = {name: getattr(row.effect, name, None) for name in ("gain", "better", "worse")}
            counts = {"gold_breaks": row.gold_breaks, "model_breaks": row.model_breaks}
            rows.append({"written": str(row.written), "choice": row.choice, "rule": rule, **counts, **effect})
        return {
            **{name: getattr(self, name) for name in names},
            "gains": {way: gain.to_dict() for way, gain in self.gains.items()},
            "against": {way: gain.to_dict() for way, gain in self.against.items()},
            "use": [str(rule) for rule in self.rules],
            "rules": rows,
        }


def _cells(row: TunedRule) -> tuple[str, ...]:
    def price(rule: Rule | None) -> str:
        return "off" if rule is None else f"{rule.penalty:.3g}" if isinstance(rule, Soft) else "hard"

    e = row.effect
    effect = ("", "", "") if e is None else (str(e.better), str(e.worse), f"{100 * e.gain:+.2f}")
    bare = row.written.rule if isinstance(row.written, Soft) else row.written
    return price(row.written), price(row.rule), str(row.gold_breaks), str(row.model_breaks), *effect, str(bare)


def tune_rules(
    model: Tagger | Scores,
    rules: Iterable[Rule | str],
    X: Any,
    y: LabelLists | None = None,
    *,
    given: Sequence[Given] | Table | None = None,
    scored_by: ScoredBy = "auto",
    cross_fit: CrossFit | None = None,
    groups: Sequence[Hashable] | Table | None = None,
    on_unknown: Literal["raise", "skip"] = "raise",
    l1: float = 1.0,
    seed: int = 0,
    threads: int = 0,
    watch: Callable[[str], None] | None = None,
) -> TunedRules:
    """Decide how to use written rules with a model: hard, soft and at what price, or not at all.

    Written rules need less evidence than mined ones, so the default of `l1` is lower than for `fit_rules`.

    Parameters
    ----------
    model : Tagger or Scores
        A trained model; or scores of any model, and then the call is ``tune_rules(scores, rules, y)``.
    rules : iterable of Rule or str
        The rules as they were written, or sentences.
    X, y : sequence
        Labelled sequences, as for `Tagger.fit`: those that the model was trained on, or new ones.
    given : sequence of mapping, optional
        Values that rules refer to by name, a mapping per sequence.
    scored_by, cross_fit, groups, on_unknown
        Whose scores, and of which sequences, as for `fit_rules`. Rules ``in the document: ...`` hold over groups whose
        sequences are in a row.
    l1 : float, default 1.0
        How much the log-likelihood must gain for a penalty of 1.
    seed : int, default 0
        Seed of the random number generator, which assigns folds and samples large data.
    threads : int, default 0
        Number of threads; 0 means all cores.
    watch : callable, optional
        Called with a sentence about each step.

    Returns
    -------
    TunedRules
        A row per rule, the gains as written and as tuned, and the rules that label best (`rules`).

    Raises
    ------
    ModelError
        If the model is not trained, or a setting is invalid.
    RuleError
        If there are no rules.
    LabelError
        If `y` does not fit `X`, or has labels that the model does not know.

    Examples
    --------
    >>> import bridle
    >>> from bridle.data import references
    >>> train = references.references("acm", "lncs", count=40)
    >>> X, y = [e.columns for e in train], [e.labels for e in train]
    >>> model = bridle.CRF(features="fields", c1=0, c2=0.1, scheme="IO").fit(X, y)
    >>> written = ["starts with AUTHOR", "DATE before TITLE"]
    >>> [row.choice for row in bridle.learn.tune_rules(model, written, X, y).tuned]
    ['hard', 'off']
    """
    written = as_rules(rules)
    if not written:
        raise RuleError("there are no rules", got=shown(rules), wanted="a list of rules")
    positive("l1", l1)
    judged = Judged.of(model, X, y, given, scored_by, cross_fit, groups, on_unknown, seed, threads, watch)
    judged.say(f"pricing {len(written)} rules on {len(judged):,} sequences")
    tuner = _Tuner(judged, written, l1)
    chosen = tuner.choose(None)
    folds = [(tuner.fold == fold, tuner.choose(tuner.fold != fold)) for fold in np.unique(tuner.fold)]

    def held_out(multiple: float) -> SequenceScores:
        judged.say(f"{multiple:g} times all prices, on held-out sequences")
        return tuner.held_out([(held, choice.times(multiple)) for held, choice in folds])

    multiple, _ = best_multiple(lambda multiple: tuner.quality(held_out(multiple)))
    judged.say("comparing with no rules and with the rules as written")
    ways: dict[Ways, SequenceScores] = {
        "none": judged.judge(judged.plain),
        "written": judged.judge(tuner.decode(written)),
        "tuned": held_out(multiple),
    }
    qualities = {way: tuner.quality(scores) for way, scores in ways.items()}
    best = _best(qualities)
    notes = [*judged.notes, *tuner.pricing.notes]
    if any(values.mean() > qualities[best].mean() for values in qualities.values()):
        notes.append("the rules as written are kept: so few sequences do not show that another way is better")
    return TunedRules(
        tuner.rows(chosen.times(multiple)),
        best,
        {way: scores.to_dict() for way, scores in ways.items()},
        {way: tuner.compare(ways["none"], scores)["exact"] for way, scores in ways.items() if way != "none"},
        {way: Comparison.of(quality, qualities[best]) for way, quality in qualities.items() if way != best},
        len(judged),
        judged.n_folds,
        judged.scores.source,
        judged.scores.fingerprint,
        multiple,
        tuple(notes),
    )


def _best(quality: dict[Ways, Floats]) -> Ways:
    """Choose the way with the highest mean quality; of equal ones, the one with the fewest rules.

    With few sequences, it must be better than the rules as written by a sign test.
    """
    means = {way: float(values.mean()) for way, values in quality.items()}
    written = quality["written"]
    ways: list[Ways] = ["none", "tuned", "written"]
    if len(written) < _FEW:
        ways = [way for way in ways if way == "written" or Comparison.of(written, quality[way]).p < _SURE]
    return max(ways, key=lambda way: means[way])


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A choice for each rule, among its variants."""

    variants: list[dict[Choice, Rule | None]]  # of each rule: what it is for each choice
    choices: list[Choice]

    def rule(self, r: int) -> Rule | None:
        return self.variants[r][self.choices[r]]

    def rules(self, but: int | None = None) -> list[Rule]:
        """Return the rules that are on, without one of them if it is named."""
        chosen = (self.rule(r) for r in range(len(self.choices)) if r != but)
        return [rule for rule in chosen if rule is not None]

    def with_choice(self, r: int, choice: Choice) -> _Chosen:
        """Return the same choices but one."""
        return _Chosen(self.variants, [*self.choices[:r], choice, *self.choices[r + 1 :]])

    def times(self, multiple: float) -> _Chosen:
        """Return the same choices, soft rules with a multiple of their penalties."""
        variants = [
            {
                choice: priced(rule, float(f"{multiple * rule.penalty:.3g}")) if isinstance(rule, Soft) else rule
                for choice, rule in mine.items()
            }
            for mine in self.variants
        ]
        return _Chosen(variants, self.choices)


class _Tuner:
    """Written rules on scored sequences."""

    def __init__(self, judged: Judged, rules: Sequence[Rule], l1: float) -> None:
        self._judged, self._rules, self._l1 = judged, list(rules), l1
        across = [judged.documents is not None and about_document(rule) for rule in rules]
        self._alone = np.flatnonzero(np.logical_not(across)).tolist()  # rules about sequences
        self.pricing = Pricing(judged, [rules[r] for r in self._alone], l1=l1, significance=1.0)
        self._prices = self.pricing.learn()
        self._documents = Documents(judged, rules) if any(across) else None
        self._cases: dict[int, Cases] = {}  # of rules about documents
        self._given = given = judged.given_for(rules)
        self.fold = judged.fold  # (B,), or with rules about documents (D,), as everything that follows
        if self._documents is None:
            self._gold = judged.broken(rules, judged.gold, given)  # (B, R)
            self._model = judged.broken(rules, judged.plain, given)  # (B, R)
        else:
            self.fold, numbers = self._documents.fold, np.flatnonzero(across).tolist()
            cases = self._documents.cases([rules[r] for r in numbers], self._prices.scale)
            self._cases = dict(zip(numbers, cases, strict=True))
            self._gold = self._documents.broken(rules, judged.gold)
            self._model = self._documents.broken(rules, judged.plain)
        self._touched: Bools = np.asarray(self._model.any(axis=1))

    def decode(self, rules: Sequence[Rule], use: Bools | None = None) -> Ids:
        """(N,): the best labels of all sequences, or of those that are used, under rules."""
        if self._documents is not None:
            return self._documents.decode(rules, use)
        return self._judged.decode(rules, self._given, self._touched, use)

    def held_out(self, folds: Sequence[tuple[Bools, _Chosen]]) -> SequenceScores:
        """Decode each fold under the rules that were chosen for it."""
        ids = np.empty(len(self._judged.gold), dtype=np.int32)
        for held, choice in folds:
            sequences = held if self._documents is None else self._documents.sequences(held)
            ids[np.repeat(sequences, np.diff(self._judged.offsets))] = self.decode(choice.rules(), held)
        return self._judged.judge(ids)

    def quality(self, scores: SequenceScores, use: Bools | None = None) -> Floats:
        """Return the quality of each sequence, or of each document."""
        return scores.quality if self._documents is None else self._documents.quality(scores, use)

    def compare(self, before: SequenceScores, after: SequenceScores) -> dict[str, Comparison]:
        """Compare two labellings of all sequences."""
        return compare_scores(before, after) if self._documents is None else self._documents.compare(before, after)

    def choose(self, use: Bools | None) -> _Chosen:
        """Choose what to do with each rule, judged on the sequences that are used."""
        l1 = self._l1 * (1.0 if use is None else float(use.mean()))
        sequences = use if use is None or self._documents is None else self._documents.sequences(use)
        prices = fit_prices(self.pricing.competitors, l1=l1, start=self._prices, use=sequences)
        penalties = np.zeros(len(self._rules))
        penalties[self._alone] = prices.penalties
        for r, cases in self._cases.items():
            penalties[r] = cases.weight(l1, use) / prices.scale
        variants = [self._variants(r, float(penalty), use) for r, penalty in enumerate(penalties)]
        soft = [isinstance(rule, Soft) or bool(self._broken(r, use)) for r, rule in enumerate(self._rules)]
        chosen = _Chosen(variants, ["soft" if starts else "hard" for starts in soft])
        best = self._quality(chosen.rules(), use)
        for r, mine in enumerate(variants):
            self._judged.say(f"rule {r + 1} of {len(variants)}: hard, soft or off")
            for choice in mine:
                if mine[choice] is not chosen.rule(r):
                    tried = chosen.with_choice(r, choice)
                    quality = self._quality(tried.rules(), use)
                    comparison = Comparison.of(best, quality)
                    if comparison.gain > 0 and comparison.p < _SURE:
                        chosen, best = tried, quality
        return chosen

    def rows(self, chosen: _Chosen) -> tuple[TunedRule, ...]:
        """Measure the effect of each rule among the others."""
        best = self._quality(chosen.rules())
        rows = []
        for r, choice in enumerate(chosen.choices):
            rule, effect = chosen.rule(r), None
            if rule is not None:
                effect = effect_of(best - self._quality(chosen.rules(but=r)))
            gold, model = int(self._gold[:, r].sum()), int(self._model[:, r].sum())
            rows.append(TunedRule(self._rules[r], choice if rule is not None else "off", rule, gold, model, effect))
        return tuple(rows)

    def _quality(self, rules: Sequence[Rule], use: Bools | None = None) -> Floats:
        """Measure the quality of each sequence that is used, decoded under rules."""
        ids = self.decode(rules, use)
        if self._documents is None:
            return self._judged.judge(ids, use).quality
        return self.quality(self._documents.judge(ids, use), use)

    def _broken(self, r: int, use: Bools | None) -> int:
        """Count the sequences that are used in which gold breaks a rule."""
        return int((self._gold[:, r] if use is None else self._gold[use, r]).sum())

    def _variants(self, r: int, price: float, use: Bools | None) -> dict[Choice, Rule | None]:
        """List the variants of a rule: a soft one may become hard if gold never breaks it, a hard one may stay so."""
        written, penalty = self._rules[r], float(f"{price:.3g}")
        variants: dict[Choice, Rule | None] = {"soft": priced(written, penalty) if penalty > 0 else None, "off": None}
        if not isinstance(written, Soft):
            variants["hard"] = written
        elif not self._broken(r, use):
            variants["hard"] = written.rule
        return variants
