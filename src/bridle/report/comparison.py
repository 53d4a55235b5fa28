"""Systems that label the same sequences, compared pair by pair: differences, intervals and tests of significance.

bootstrap   B sequences drawn with replacement, the same ones for all systems; difference of the measures
            interval: from 2.5 % to 97.5 % of K samples          p = 2 (1 + samples on the other side of 0) / (1 + K)
sign test   sequences for which the second system is better or worse: is a coin as uneven?  two-sided, exact
Holm        p-values of one measure and one test, corrected for the number of pairs
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, combinations
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle.errors import LabelError, shown
from bridle.report.metrics import Counts
from bridle.report.page import Page
from bridle.report.scoring import OUTSIDE, SegmentCounter, check_scheme
from bridle.report.sequences import CORRECT, EXACT, GUESSED, RIGHT, GoldCounts
from bridle.report.significance import bootstrap_sums, holm, sign_test
from bridle.report.text import aligned, cut

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Measure = Literal["exact", "f1", "accuracy"]

MEASURES: dict[Measure, str] = {"exact": "sequences all right", "f1": "F1 of segments", "accuracy": "tokens right"}
LEVEL = 0.05  # of significance
_RULES = 30  # that are printed
_NAME = 40  # characters of a system's name that are printed


@dataclass(frozen=True, slots=True)
class System:
    """The figures of one system.

    Attributes
    ----------
    name : str
        Its name.
    exact, f1, accuracy : float
        Share of the sequences all right, F1 of the segments, and share of the tokens right.
    segments : Counts
        Its segments.
    """

    name: str
    exact: float
    f1: float
    accuracy: float
    segments: Counts


@dataclass(frozen=True, slots=True)
class Difference:
    """The gain of the second of two systems over the first in one measure.

    Attributes
    ----------
    measure : {"exact", "f1", "accuracy"}
        What is compared.
    first, second : str
        Names of the systems.
    gain, low, high : float
        Difference of the measure over all sequences, and the ends of its 95 % bootstrap interval.
    better, worse : int
        Sequences for which the second system is better, and worse.
    sign_p, bootstrap_p : float
        Two-sided probability of such a difference by chance, by each test, corrected for the number of pairs.
    """

    measure: Measure
    first: str
    second: str
    gain: float
    low: float
    high: float
    better: int
    worse: int
    sign_p: float
    bootstrap_p: float

    @property
    def significant(self) -> bool:
        """Do both tests, at 5 %, find the same difference?"""
        agree = (self.gain > 0) == (self.better > self.worse)
        return agree and max(self.sign_p, self.bootstrap_p) < LEVEL

    def __str__(self) -> str:
        points = f"{100 * self.gain:+.2f} points, 95 % interval {100 * self.low:+.2f} to {100 * self.high:+.2f}"
        verdict = "is better than" if self.gain > 0 else "is worse than"
        verdict = verdict if self.significant else "does not differ significantly from"
        p = max(self.sign_p, self.bootstrap_p)
        return f"{MEASURES[self.measure]}: {self.second} {verdict} {self.first} ({points}, p = {p:.2g})"


@dataclass(frozen=True, slots=True)
class RuleEffect:
    """The effect of one rule of a system among its other rules.

    Attributes
    ----------
    system, rule : str
        Name of the system, and its rule.
    broken : int
        Number of sequences whose labels without rules break it.
    changed, helped, hurt : int
        Number of sequences whose labels are others because of it, and have more or fewer tokens right.
    tokens : int
        Tokens that are right because of it, less those that are wrong because of it.
    """

    system: str
    rule: str
    broken: int
    changed: int
    helped: int
    hurt: int
    tokens: int


@dataclass(frozen=True, slots=True)
class LabelledSequence:
    """A sequence with the labels of gold and of each system, for pages."""

    name: str
    tokens: Sequence[str]  # (n)
    gold: Sequence[str | None]  # (n)
    labels: Mapping[str, Sequence[str]]  # (n) by system

    @property
    def rows(self) -> dict[str, Sequence[str]]:
        """The labels of gold and of each system."""
        return {"gold": ["?" if y is None else y for y in self.gold], **self.labels}

    @property
    def wrong(self) -> dict[str, list[int]]:
        """The tokens whose label is wrong, by system."""
        return {
            name: [t for t, (a, b) in enumerate(zip(self.gold, labels, strict=True)) if a is not None and a != b]
            for name, labels in self.labels.items()
        }


@dataclass(frozen=True, slots=True)
class SystemComparison:
    """Systems compared on the same sequences; `compare` makes it.

    Attributes
    ----------
    sequences, tokens : int
        Number of sequences and of tokens with a gold label.
    scheme : str or None
        How segments were found; ``"auto"`` has become ``"prefixes"`` or None.
    systems : tuple of System
        The figures of each system.
    differences : tuple of Difference
        One for each measure and pair of systems.
    differing : tuple of int
        Positions of the sequences that two systems label differently.
    rules : tuple of RuleEffect
        What single rules changed, if it was measured.
    """

    sequences: int
    tokens: int
    scheme: str | None
    systems: tuple[System, ...]
    differences: tuple[Difference, ...]
    differing: tuple[int, ...]
    rules: tuple[RuleEffect, ...] = ()

    def with_rules(self, rules: Iterable[RuleEffect]) -> SystemComparison:
        """Add what single rules changed.

        Parameters
        ----------
        rules : iterable of RuleEffect
            The effects.

        Returns
        -------
        SystemComparison
            A copy with them.
        """
        return replace(self, rules=tuple(rules))

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes by name, for JSON; shares, not percent."""
        figures = asdict(self)
        figures["systems"] = [asdict(s) | {"segments": s.segments.to_dict()} for s in self.systems]
        figures["differences"] = [asdict(d) | {"significant": d.significant} for d in self.differences]
        return figures

    def lines(self) -> Iterator[str]:
        """Print the figures, the differences and a verdict for each pair."""
        pairs = len(self.differences) // len(MEASURES)
        differing = f"the systems differ in {len(self.differing):,} of them"
        yield f"{self.sequences:,} sequences, {self.tokens:,} tokens; {differing}"
        yield from ("", *aligned([_SYSTEM, *self._system_rows()]))
        for measure, name in MEASURES.items():
            yield ""
            yield name + (f"; p corrected for {pairs} pairs (Holm)" if pairs > 1 else "")
            yield from aligned([_DIFFERENCE, *self._rows(measure)], left=(0, 1))
        if self.rules:
            yield from ("", *aligned([_RULE, *self._rule_rows()[:_RULES]], left=(0, 1)))
            if len(self.rules) > _RULES:
                yield f"and {len(self.rules) - _RULES:,} more rules"
        yield from ("", *map(str, self._verdicts()))

    def page(self, title: str, below: str = "", sequences: Sequence[LabelledSequence] = ()) -> Page:
        """Make an HTML page of the same, with sequences side by side."""
        page = Page(title, below)
        page.text(f"{self.sequences:,} sequences, {self.tokens:,} tokens.")
        page.table(_SYSTEM, self._system_rows())
        page.heading("Differences")
        page.text(
            "Both tests ask how likely such a difference is by chance, two-sided: an exact sign test on the sequences "
            "that one system has better than the other, and a paired bootstrap on the measure itself. "
            "The values of p are corrected for the number of pairs (Holm).",
            "dim",
        )
        for measure, name in MEASURES.items():
            page.heading(name[:1].upper() + name[1:], 3).table(_DIFFERENCE, self._rows(measure))
        for difference in self._verdicts():
            page.text(str(difference), "good" if difference.significant else "dim")
        if self.rules:
            page.heading("Which rule changed what").table(_RULE, self._rule_rows())
        if sequences:
            page.heading("Sequences on which the systems differ")
            page.text(f"{len(sequences):,} of {len(self.differing):,}. Framed: the label is not that of gold.", "dim")
            for sequence in sequences:
                page.labellings(sequence.name, sequence.tokens, sequence.rows, sequence.wrong)
        return page

    def _verdicts(self) -> list[Difference]:
        return [d for d in self.differences if d.measure == "exact"]

    def _system_rows(self) -> list[list[str]]:
        shares = [(s.name, [s.exact, s.segments.precision, s.segments.recall, s.f1, s.accuracy]) for s in self.systems]
        return [[cut(name, _NAME), *(f"{x:.2%}" for x in figures)] for name, figures in shares]

    def _rows(self, measure: Measure) -> list[list[str]]:
        return [
            [
                *(cut(d.first, _NAME), cut(d.second, _NAME), f"{100 * d.gain:+.2f}"),
                *(f"{100 * d.low:+.2f} to {100 * d.high:+.2f}", f"{d.better:,}", f"{d.worse:,}"),
                *(f"{d.sign_p:.2g}", f"{d.bootstrap_p:.2g}", "yes" if d.significant else "no"),
            ]
            for d in self.differences
            if d.measure == measure
        ]

    def _rule_rows(self) -> list[list[str]]:
        return [
            [
                *(cut(e.system, _NAME), e.rule, f"{e.broken:,}", f"{e.changed:,}"),
                *(f"{e.helped:,}", f"{e.hurt:,}", f"{e.tokens:+,}" if e.tokens else "0"),
            ]
            for e in self.rules
        ]


_SYSTEM = ["system", "all right", "precision", "recall", "F1", "tokens"]
_DIFFERENCE = ["first", "second", "gain", "95 % interval", "better", "worse", "sign p", "bootstrap p", "significant"]
_RULE = ["system", "rule", "broken", "changed", "helped", "hurt", "tokens gained"]


def compare(
    gold: Sequence[Sequence[str | None]],
    systems: Mapping[str, Sequence[Sequence[str]]],
    scheme: str | None = "auto",
    *,
    outside: str | Sequence[str] = OUTSIDE,
    samples: int = 10_000,
    seed: int = 0,
) -> SystemComparison:
    """Compare systems that label the same sequences, with tests of significance for each pair.

    Parameters
    ----------
    gold : sequence of sequence of str
        Gold labels of B sequences; a label that is missing is None, and its token is not counted.
    systems : mapping of str to sequence of sequence of str
        Labels of the same B sequences by two or more systems, by name.
    scheme : str or None, default "auto"
        Tagging scheme, as `score` takes it.
    outside : str or sequence of str, default "O"
        The label of tokens outside all segments; or several.
    samples : int, default 10,000
        Number of bootstrap samples.
    seed : int, default 0
        Seed of the random number generator.

    Returns
    -------
    SystemComparison
        Figures of each system, and the differences of each pair.

    Raises
    ------
    LabelError
        If there are fewer than two systems, or labels do not fit gold or the scheme.

    Examples
    --------
    >>> from bridle.report import compare
    >>> gold = [["A", "B"]] * 9
    >>> comparison = compare(gold, {"plain": [["A", "A"]] * 9, "rules": [["A", "B"]] * 9})
    >>> print(comparison.differences[0])
    sequences all right: rules is better than plain (+100.00 points, 95 % interval +100.00 to +100.00, p = 0.0039)
    """
    if len(systems) < 2:
        raise LabelError("there is nothing to compare", got=f"{len(systems)} systems", wanted="two or more")
    for option, value, least in (("samples", samples, 1), ("seed", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise LabelError(f"bad option {option}", got=shown(value), wanted=f"an integer from {least}")
    for name, labellings in systems.items():
        _check_lengths(name, gold, labellings)
    names = sorted({y for labels in chain(gold, *systems.values()) for y in labels if y is not None})
    way = _scheme(names, scheme, outside)
    truth = GoldCounts(gold, names, way, outside)
    number = {name: y for y, name in enumerate(names)}
    ids = [np.array([number[y] for y in chain.from_iterable(x)], dtype=np.int64) for x in systems.values()]
    whole = truth.counts(truth.ids)[truth.counted]  # (B, 4) of gold itself
    tables = [truth.counts(y)[truth.counted] for y in ids]  # (B, 4) of each system
    totals = bootstrap_sums(np.hstack([whole, *tables]), samples, seed).reshape(samples, -1, 4)
    drawn = [_measures(totals[:, k], totals[:, 0]) for k in range(1, len(ids) + 1)]
    figures = [_measures(table.sum(axis=0)[None].astype(np.float64), whole.sum(axis=0)[None]) for table in tables]
    single = [_per_sequence(table, whole) for table in tables]
    differences = list[Difference]()
    for measure in MEASURES:
        rows = [
            _difference(measure, (a, b), figures, drawn, single, list(systems))
            for a, b in combinations(range(len(ids)), 2)
        ]
        signs, bootstraps = holm([d.sign_p for d in rows]), holm([d.bootstrap_p for d in rows])
        differences += [replace(d, sign_p=p, bootstrap_p=q) for d, p, q in zip(rows, signs, bootstraps, strict=True)]
    other = np.zeros(len(truth.ids), dtype=bool)
    for y in ids[1:]:
        other |= (y != ids[0]) & (truth.ids >= 0)
    return SystemComparison(
        len(whole),
        truth.tokens,
        way,
        tuple(
            System(name, float(x["exact"][0]), float(x["f1"][0]), float(x["accuracy"][0]), _segments(table, truth))
            for name, x, table in zip(systems, figures, tables, strict=True)
        ),
        tuple(differences),
        tuple(np.unique(truth.sequence[other]).tolist()),
    )


def _check_lengths(name: str, gold: Sequence[Sequence[str | None]], labellings: Sequence[Sequence[str]]) -> None:
    if len(labellings) != len(gold):
        got, wanted = f"{len(labellings):,} by {name}", f"{len(gold):,}, as many as in gold"
        raise LabelError("there are not as many labellings as in gold", got=got, wanted=wanted)
    for b, (labels, theirs) in enumerate(zip(gold, labellings, strict=True)):
        if isinstance(theirs, str) or len(theirs) != len(labels):
            got = f"{shown(theirs, 80)} by {name}" if isinstance(theirs, str) else f"{len(theirs)} by {name}"
            raise LabelError("there are not as many labels as in gold", got=got, wanted=f"{len(labels)}", sequence=b)


def _scheme(names: Sequence[str], scheme: str | None, outside: str | Sequence[str]) -> str | None:
    """Return the scheme as `score` chooses it: all prefixes if every label has one."""
    check_scheme(scheme)
    counter = SegmentCounter("prefixes", outside)
    return scheme if scheme != "auto" else "prefixes" if all(map(counter.add, names)) else None


def _segments(table: Ints, truth: GoldCounts) -> Counts:
    correct, guessed = table[:, [CORRECT, GUESSED]].sum(axis=0).tolist()
    return Counts(correct, guessed, truth.segments)


def _measures(totals: Floats, whole: npt.NDArray[Any]) -> dict[Measure, Floats]:
    """Return the measures of sums (K, 4) over sequences; whole (K, 4): the sums of gold."""
    both = totals[:, GUESSED] + whole[:, GUESSED]
    return {
        "exact": totals[:, EXACT] / np.maximum(whole[:, EXACT], 1),
        "f1": 2 * totals[:, CORRECT] / np.maximum(both, 1),
        "accuracy": totals[:, RIGHT] / np.maximum(whole[:, RIGHT], 1),
    }


def _per_sequence(table: Ints, whole: Ints) -> dict[Measure, Floats]:
    """Return the measures of each sequence, (B,); a sequence without segments, in gold and here, has F1 = 1."""
    single = _measures(table.astype(np.float64), whole)
    return single | {"f1": np.where(table[:, GUESSED] + whole[:, GUESSED] > 0, single["f1"], 1.0)}


def _difference(
    measure: Measure,
    pair: tuple[int, int],
    figures: Sequence[dict[Measure, Floats]],
    drawn: Sequence[dict[Measure, Floats]],
    single: Sequence[dict[Measure, Floats]],
    names: Sequence[str],
) -> Difference:
    """Compare two systems in one measure, before any correction."""
    gain, samples, d = (table[pair[1]][measure] - table[pair[0]][measure] for table in (figures, drawn, single))
    better, worse = int((d > 0).sum()), int((d < 0).sum())
    low, high = np.quantile(samples, [0.025, 0.975])
    side = min(int((samples <= 0).sum()), int((samples >= 0).sum()))
    p = min(1.0, 2 * (1 + side) / (1 + len(samples)))
    first, second = (names[k] for k in pair)
    gains = float(gain[0]), float(low), float(high)
    return Difference(measure, first, second, *gains, better, worse, sign_test(better, worse), p)
