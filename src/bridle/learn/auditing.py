"""What each rule is worth: how often gold obeys it, how often a model does, and what it does to the model's labels.

    none   plain decoding                    alone[r]    plain decoding + rule r
    all    decoding with all rules           without[r]  decoding with all rules but r
    gain of r alone = alone[r] - none        gain of r among all = all - without[r]      (F1 of segments, tokens right)

    B sequences (b)    R rules (r)

A rule can change a sequence only if the plain labelling breaks one of the rules that are on: if it breaks none, it is
still the best. So only these are decoded (trials.py) and counted again, which makes R + R decodings of a corpus cheap.
Hard rules that no labelling obeys are relaxed to the fewest violations; the result says how many sequences did so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bridle.arrays import Ints, ranges
from bridle.decoding.problem import offsets_of
from bridle.errors import LabelError, LatticeError
from bridle.frames import LabelLists, Sequences, Table
from bridle.labels import Labels
from bridle.lattice import Lattices
from bridle.learn.evidence import Given, violations
from bridle.learn.trials import Trial, Trials, plain_ids
from bridle.models.checks import all_known, labellings_of, one_of
from bridle.models.tagger import Tagger
from bridle.report.plots import draw_bars
from bridle.report.sequences import GoldCounts
from bridle.rules.base import Rule, Soft
from bridle.rules.order import Before, FirstBefore

COLUMNS = (
    "rule",
    "kind",
    "gold",
    "plain",
    "alone_f1",
    "alone_accuracy",
    "alone_relaxed",
    "among_f1",
    "among_accuracy",
    "without_relaxed",
)
_HEADS = ("in gold", "plain", "F1 alone", "tokens alone", "F1 among", "tokens among", "relaxed", "rule")


@dataclass(frozen=True, slots=True)
class Figures:
    """How good some labellings are.

    Attributes
    ----------
    accuracy : float
        Share of right tokens.
    f1 : float
        F1 of segments.
    relaxed : int
        Number of sequences in which no labelling obeys the hard rules.
    """

    accuracy: float
    f1: float
    relaxed: int = 0

    def to_dict(self) -> dict[str, float]:
        """Convert to what JSON can hold.

        Returns
        -------
        dict
            Figures by name; shares, not percent.
        """
        return {"accuracy": self.accuracy, "f1": self.f1, "relaxed": self.relaxed}


@dataclass(frozen=True, slots=True)
class Row:
    """What one rule is worth.

    Attributes
    ----------
    rule : Rule
        The rule.
    number : int
        Its place among the rules, from 0.
    gold : float
        Share of the sequences in which gold obeys it.
    plain : float or None
        Share in which the model does without rules; None without scores or guesses.
    alone, without : Figures or None
        Decoding with this rule only, and with all rules but this one; None without scores.
    """

    rule: Rule
    number: int
    gold: float
    plain: float | None = None
    alone: Figures | None = None
    without: Figures | None = None


@dataclass(frozen=True, slots=True)
class Audit:
    """What rules are worth; `audit` returns it.

    Attributes
    ----------
    sequences : int
        Number of sequences.
    scheme : str or None
        Tagging scheme of the segments.
    found : tuple of Row
        A row per rule, those that gain most first.
    none, all : Figures or None
        Decoding without rules, and with all of them; None without scores.
    """

    sequences: int
    scheme: str | None
    found: tuple[Row, ...]
    none: Figures | None = None
    all: Figures | None = None

    def rows(self) -> list[tuple[Any, ...]]:
        """Make a table.

        Returns
        -------
        list of tuple
            A row per rule: sentence, ``"hard"`` or ``"soft"``, share of gold and of plain decoding that obeys; then
            gain of F1, gain of accuracy and relaxed sequences, once for the rule alone over no rules, once for all
            rules over all but this one.
        """
        return [
            (
                str(row.rule),
                "soft" if isinstance(row.rule, Soft) else "hard",
                row.gold,
                row.plain,
                *gain(self.none, row.alone, row.alone),
                *gain(row.without, self.all, row.without),
            )
            for row in self.found
        ]

    def to_dict(self) -> dict[str, Any]:
        """Convert to what JSON can hold.

        Returns
        -------
        dict
            Figures and the rows of the table by name; shares, not percent.
        """
        return {
            "sequences": self.sequences,
            "scheme": self.scheme,
            "none": None if self.none is None else self.none.to_dict(),
            "all": None if self.all is None else self.all.to_dict(),
            "rules": [dict(zip(COLUMNS, row, strict=True)) for row in self.rows()],
        }

    def lines(self) -> list[str]:
        """Print the table.

        Returns
        -------
        list of str
            Lines of text: shares in percent, gains in points. Empty columns are left out.
        """
        text = [f"{self.sequences:,} sequences, {len(self.found)} rules"]
        for name, figures in (("no rules", self.none), ("all rules", self.all)):
            if figures is not None:
                relaxed = f", {figures.relaxed:,} sequences relaxed" if figures.relaxed else ""
                text.append(f"{name + ':':<11}{figures.accuracy:.2%} of the tokens right, F1 {figures.f1:.2%}{relaxed}")
        body = [
            [_percent(gold), _percent(plain), *map(_points, (f1, accuracy, among, tokens)), _count(relaxed), rule]
            for rule, _, gold, plain, f1, accuracy, relaxed, among, tokens, _ in self.rows()
        ]
        shown = [c for c in range(len(_HEADS)) if any(row[c] for row in body)]  # nothing to say: no column
        widths = [max(len(_HEADS[c]), *(len(row[c]) for row in body)) for c in shown]
        for row in [_HEADS, *body] if body else []:
            cells = [row[c].rjust(w) for c, w in zip(shown[:-1], widths, strict=False)]
            text.append("  ".join([*cells, row[-1]]))
        return text

    def gains(self) -> list[tuple[str, float]]:
        """List the gains that `plot` draws.

        Returns
        -------
        list of tuple of str and float
            Of each rule its sentence and the gain of F1 when it is added alone, in points; without scores, the share of
            gold that obeys it, in percent.
        """
        if self.none is None:
            return [(str(row.rule), 100 * row.gold) for row in self.found]
        return [(str(row.rule), 100 * (row.alone.f1 - self.none.f1)) for row in self.found if row.alone is not None]

    def plot(self, path: str | Path) -> None:
        """Draw the gains as bars. It needs matplotlib.

        Parameters
        ----------
        path : str or Path
            The file; its suffix is the format: .png, .svg or .pdf.

        Raises
        ------
        FileError
            If matplotlib is not installed, or the file cannot be written.
        """
        draw_bars(path, self.gains(), "gold obeys, %" if self.none is None else "gain of F1 when added alone, points")


def gain(before: Figures | None, after: Figures | None, told: Figures | None) -> tuple[Any, Any, Any]:
    """The gain of F1 and of accuracy, and how many sequences of `told` were relaxed. None: there are no figures."""
    if before is None or after is None or told is None:
        return None, None, None
    return after.f1 - before.f1, after.accuracy - before.accuracy, told.relaxed


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _points(gain: float | None) -> str:
    return "" if gain is None else f"{100 * gain:+.2f}"


def _count(number: int | None) -> str:
    return str(number or "")


Labellings = Sequence[Sequence[str]]


def audit(
    rules: Sequence[Rule],
    gold: Labellings,
    labels: Labels,
    *,
    given: Sequence[Given] | None = None,
    lattices: Lattices | None = None,
    guesses: Labellings | None = None,
    leave_out: Literal["each", "none"] = "each",
    threads: int = 0,
    **options: Any,
) -> Audit:
    """Check rules against gold labels and measure what they do to decoding.

    Parameters
    ----------
    rules : sequence of Rule
        The rules.
    gold : sequence of sequence of str
        Gold labels.
    labels : Labels
        Labels of the lattices; `gold` may hold more.
    given : sequence of mapping, optional
        Values that the rules refer to by name, a mapping per sequence.
    lattices : Batch or list of Lattice, optional
        Scores of the same sequences. Each rule is tried alone and left out of all; without scores, the audit only
        counts how often it holds.
    guesses : sequence of sequence of str, optional
        Labels of any tagger, to count how often they obey the rules; not together with `lattices`.
    leave_out : {"each", "none"}, default "each"
        ``"none"`` skips the decodings with all rules but one, which take half of the time.
    threads : int, default 0
        Number of threads; 0 means all cores.
    **options
        Options of `Decoder`, such as ``time_limit``.

    Returns
    -------
    Audit
        A row per rule, those that gain most first; `lines` prints it, `rows` and `to_dict` are for programs.

    Raises
    ------
    LatticeError
        If there are both lattices and guesses.
    LabelError
        If gold does not fit the lattices or guesses.

    Examples
    --------
    >>> from bridle import Labels, Lattice, rules
    >>> from bridle.learn import audit
    >>> found = audit([rules.at_most(1, of="A")], [["A", "B", "B"]], Labels(["A", "B"]),
    ...               lattices=[Lattice([[2, 0], [0, 2], [1, 0]])])
    >>> print(*found.lines(), sep="\\n")
    1 sequences, 1 rules
    no rules:  66.67% of the tokens right, F1 40.00%
    all rules: 100.00% of the tokens right, F1 100.00%
    in gold  plain  F1 alone  tokens alone  F1 among  tokens among  rule
     100.0%   0.0%    +60.00        +33.33    +60.00        +33.33  at most 1 segment of A
    """
    one_of("leave_out", leave_out, ("each", "none"))
    rules = list(rules)
    if lattices is not None and guesses is not None:
        raise LatticeError("`lattices` and `guesses` cannot be combined", got="both", wanted="one of them")
    in_gold = violations(rules, gold, widened(labels, gold), given, threads=threads) > 0
    count = len(in_gold)
    kept = (1 - in_gold.mean(axis=0) if count else np.ones(len(rules))).tolist()
    if lattices is None:
        obeys: list[Any] = [None] * len(rules)
        if guesses is not None:
            _same_lengths(gold, guesses)
            broken = violations(rules, guesses, widened(labels, guesses), given, threads=threads) > 0
            obeys = (1 - broken.mean(axis=0)).tolist() if count else [1.0] * len(rules)
        rows = [Row(rule, r, kept[r], obeys[r]) for r, rule in enumerate(rules)]
        return Audit(count, labels.scheme, tuple(sorted(rows, key=lambda row: -row.gold)))
    figures = _Figures(rules, gold, labels, given, lattices, {"threads": threads, **options})
    everything = list(range(len(rules)))
    none, full, broken = figures.of([]), figures.of(everything), figures.trials.broken
    rows = []
    for r, rule in enumerate(rules):
        others = [k for k in everything if k != r]
        without = figures.of(others) if leave_out == "each" else None
        obeyed = float(1 - broken[:, r].mean()) if count else 1.0
        rows.append(Row(rule, r, kept[r], obeyed, figures.of([r]), without))
    return Audit(count, labels.scheme, tuple(sorted(rows, key=lambda row: _worth(row, none, full))), none, full)


def audit_model(
    rules: Sequence[Rule],
    model: Tagger,
    X: Sequences,
    y: LabelLists,
    *,
    given: Sequence[Given] | Table | None = None,
    threads: int = 0,
    **options: Any,
) -> Audit:
    """Measure what rules do to a trained model, as `audit` does.

    Parameters
    ----------
    rules : sequence of Rule
        The rules.
    model : Tagger
        The trained model.
    X : sequence of sequences
        Sequences as the model takes them; not those of its training.
    y : sequence of sequence of str
        Gold labels.
    given : sequence of mapping, optional
        Values that the rules refer to by name, a mapping per sequence. Texts of tokens come from `X`.
    threads : int, default 0
        Number of threads; 0 means all cores.
    **options
        `leave_out` of `audit`, and options of `Decoder`.

    Returns
    -------
    Audit
        A row per rule, those that gain most first.
    """
    lattices = model.lattices(X, threads=threads)
    known = model.given(X, model.decoder(rules), given)
    gold = all_known(labellings_of(y))
    return audit(rules, gold, model.labels_, given=known, lattices=lattices, threads=threads, **options)


def _worth(row: Row, none: Figures, everything: Figures) -> tuple[float, ...]:
    """Sorts the best first: gain alone, then gain among all, F1 before tokens, then what gold obeys more."""
    gains = [gain(none, row.alone, row.alone)[:2], gain(row.without, everything, row.without)[:2]]
    return (*(-(one or 0.0) for pair in gains for one in pair), -row.gold, row.number)


def widened(labels: Labels, labellings: Sequence[Sequence[str | None]]) -> Labels:
    """Labels with those that only these labellings have."""
    extra = sorted({name for one in labellings for name in one if isinstance(name, str)} - set(labels.names))
    return Labels([*labels.names, *extra], labels.scheme, outside=labels.outside) if extra else labels


def _same_lengths(gold: Labellings, guesses: Labellings) -> None:
    if list(map(len, gold)) != list(map(len, guesses)):
        raise LabelError(
            "guesses do not fit gold",
            got=f"{len(guesses)} labellings of other lengths",
            wanted=f"{len(gold)}, each as long as that of gold",
            cause="Are both from the same input?",
        )


class _Figures:
    """How good decoding with some of the rules is."""

    def __init__(
        self,
        rules: Sequence[Rule],
        gold: Labellings,
        labels: Labels,
        given: Sequence[Given] | None,
        lattices: Lattices,
        options: Mapping[str, Any],
    ) -> None:
        self.counts = gold_counts(gold, labels, lattices)
        options = dict(options)
        threads = options.pop("threads")
        plain = plain_ids(labels, lattices, threads=threads, options=options)
        self.trials = Trials(rules, labels, lattices, given, plain, threads=threads, options=options)
        self.base = self.counts.counts(plain)

    def of(self, chosen: Sequence[int]) -> Figures:
        """Decoding with these rules."""
        trial = self.trials.best(chosen)
        accuracy, f1, _ = self.counts.shares(changed_sum(self.counts, self.base, trial))
        return Figures(accuracy, f1, int(trial.relaxed.sum()))


def gold_counts(gold: Sequence[Sequence[str | None]], labels: Labels, lattices: Lattices) -> GoldCounts:
    """Gold labels, ready to be counted, if they fit the lattices."""
    offsets = offsets_of(lattices)
    if list(map(len, gold)) != np.diff(offsets).tolist():
        raise LabelError(
            "gold does not fit the lattices",
            got=f"{len(gold)} labellings",
            wanted=f"{len(offsets) - 1}, with a label per token",
            cause="Are both from the same input, in order?",
        )
    return GoldCounts(gold, labels.names, labels.scheme)


def changed_sum(counts: GoldCounts, base: Ints, trial: Trial) -> Ints:
    """Summed counts of a trial. base: of plain decoding, sequence by sequence."""
    some = trial.touched
    now = counts.counts(trial.ids[ranges(counts.offsets, some)[0]], some)
    total: Ints = base.sum(axis=0) - base[some].sum(axis=0) + now.sum(axis=0)
    return total


_OFTEN, _BETTER = 0.05, 0.05  # shares of the sequences: broken often; held in so many more


@dataclass(frozen=True, slots=True)
class Hint:
    """A rule that was perhaps meant.

    Attributes
    ----------
    rule, instead : Rule
        The rule as it is written, and the other one.
    gold, gold_instead : float
        Share of the sequences in which gold obeys them.
    """

    rule: Rule
    instead: Rule
    gold: float
    gold_instead: float

    def __str__(self) -> str:
        was = f"`{self.rule}` holds in {self.gold:.1%} of gold"
        return f"{was}; did you mean `{self.instead}`, which holds in {self.gold_instead:.1%}?"

    def to_dict(self) -> dict[str, Any]:
        """Convert to what JSON can hold.

        Returns
        -------
        dict
            The sentences, and shares, not percent.
        """
        return {
            "rule": str(self.rule),
            "instead": str(self.instead),
            "gold": self.gold,
            "gold_instead": self.gold_instead,
        }


def hints(
    found: Audit,
    gold: Sequence[Sequence[str]],
    labels: Labels,
    *,
    given: Sequence[Mapping[str, Any]] | None = None,
    threads: int = 0,
) -> list[Hint]:
    """Find rules `A before B` that gold breaks often, where `first A before first B` holds.

    Parameters
    ----------
    found : Audit
        The audit of the rules on the same sequences.
    gold : sequence of sequence of str
        Gold labels.
    labels : Labels
        The labels, as for `audit`.
    given : sequence of mapping, optional
        Values that the rules refer to by name, a mapping per sequence.
    threads : int, default 0
        Number of threads; 0 means all cores.

    Returns
    -------
    list of Hint
        In the order of the audit.

    Examples
    --------
    >>> from bridle import Labels, rules
    >>> from bridle.learn import audit
    >>> gold, labels = [["START", "END", "START", "END"]], Labels(["START", "END"])
    >>> found = audit([rules.before("START", "END")], gold, labels)
    >>> print(*hints(found, gold, labels))
    `START before END` holds in 0.0% of gold; did you mean `first START before first END`, which holds in 100.0%?
    """
    often = {row.rule: row for row in found.found if row.gold < 1 - _OFTEN}.values()  # each rule once
    pairs = [(row, other) for row in often if (other := _first(row.rule)) is not None]
    if not pairs:
        return []
    others = audit([other for _, other in pairs], gold, labels, given=given, threads=threads)
    held = {row.number: row.gold for row in others.found}
    made = [Hint(row.rule, other, row.gold, held[k]) for k, (row, other) in enumerate(pairs)]
    return [one for one in made if one.gold_instead >= one.gold + _BETTER]


def _first(rule: Rule) -> Rule | None:
    """`first A before first B` for `A before B`, at the same price."""
    if isinstance(rule, Soft):
        inner = _first(rule.rule)
        return None if inner is None else replace(rule, rule=inner)
    return FirstBefore(rule.a, rule.b) if isinstance(rule, Before) else None
