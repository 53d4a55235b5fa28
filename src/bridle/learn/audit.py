"""What each rule is worth: how often gold obeys it, how often a model does, and what it does to the model's labels.

    none   plain decoding                    alone[r]    plain decoding + rule r
    all    decoding with all rules           without[r]  decoding with all rules but r
    gain of r alone = alone[r] - none        gain of r among all = all - without[r]      (F1 of segments, tokens right)

    B sequences (b)    R rules (r)

A rule can change a sequence only if the plain labelling breaks one of the rules that are on: if it breaks none, it is
still the best. So only these are decoded and counted again, which is what makes R + R decodings of a corpus cheap.
Hard rules that no labelling obeys are relaxed to the fewest violations; how many sequences did so is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle.decoding.decoder import Decoder
from bridle.decoding.problem import offsets_of
from bridle.errors import FileError, LabelError, LatticeError
from bridle.labels import Bools, Labels
from bridle.lattice import Lattices, subset
from bridle.learn.weights import Given, violations
from bridle.models.checks import one_of
from bridle.models.tagger import Tagger
from bridle.report.metrics import score
from bridle.rules.base import Rule, Soft

COLUMNS = (
    "rule", "kind", "gold", "plain", "alone_f1", "alone_accuracy", "alone_relaxed", "among_f1", "among_accuracy",
    "without_relaxed",
)  # fmt: skip
_HEADS = ("in gold", "plain", "F1 alone", "tokens alone", "F1 among", "tokens among", "relaxed", "rule")
Labellings = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Figures:
    """How good some labellings are."""

    accuracy: float  # the share of the tokens that are right
    f1: float  # of segments
    relaxed: int = 0  # sequences in which no labelling obeys the hard rules

    def to_dict(self) -> dict[str, float]:
        """For JSON."""
        return {"accuracy": self.accuracy, "f1": self.f1, "relaxed": self.relaxed}


@dataclass(frozen=True, slots=True)
class Row:
    """One rule. What needs scores, or a model's labels, is None without them."""

    rule: Rule
    number: int  # its place among the rules, from 0
    gold: float  # the share of the sequences in which gold obeys it
    plain: float | None = None  # ... and in which the model does, by itself
    alone: Figures | None = None  # decoding with this rule only
    without: Figures | None = None  # decoding with all rules but this one


@dataclass(frozen=True, slots=True)
class Audit:
    """The worth of rules; those that gain most come first."""

    sequences: int
    scheme: str | None  # of the segments
    found: tuple[Row, ...]
    none: Figures | None = None
    all: Figures | None = None

    def rows(self) -> list[tuple[Any, ...]]:
        """A table with the columns `COLUMNS`. Figures are gains over none (alone) and losses without (among)."""
        return [
            (
                str(row.rule), "soft" if isinstance(row.rule, Soft) else "hard", row.gold, row.plain,
                *_gain(self.none, row.alone, row.alone), *_gain(row.without, self.all, row.without),
            )
            for row in self.found
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """For JSON; shares, not percent."""
        return {
            "sequences": self.sequences, "scheme": self.scheme,
            "none": None if self.none is None else self.none.to_dict(),
            "all": None if self.all is None else self.all.to_dict(),
            "rules": [dict(zip(COLUMNS, row, strict=True)) for row in self.rows()],
        }  # fmt: skip

    def lines(self) -> list[str]:
        """The table as text: shares in percent, gains in points."""
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
        """What is drawn: of each rule the gain of F1 alone in points; without scores, the share of gold in percent."""
        if self.none is None:
            return [(str(row.rule), 100 * row.gold) for row in self.found]
        return [(str(row.rule), 100 * (row.alone.f1 - self.none.f1)) for row in self.found if row.alone is not None]

    def plot(self, path: str | Path) -> None:
        """Draw the gains as bars; the suffix says how: .png, .svg, .pdf. Needs matplotlib."""
        try:
            drawing, canvas = import_module("matplotlib.figure"), import_module("matplotlib.backends.backend_agg")
        except ImportError:
            what = f"cannot draw {path}"
            raise FileError(what, got="no package matplotlib", wanted="pip install matplotlib") from None
        bars = self.gains()[::-1]
        figure = drawing.Figure(figsize=(9, 1.2 + 0.28 * len(bars)), layout="constrained")
        canvas.FigureCanvasAgg(figure)
        axes = figure.subplots()
        colours = ["tab:red" if gain < 0 else "tab:blue" for _, gain in bars]
        axes.barh(range(len(bars)), [gain for _, gain in bars], color=colours)
        axes.set_yticks(range(len(bars)), [rule if len(rule) < 60 else rule[:57] + "..." for rule, _ in bars])
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_xlabel("gold obeys, %" if self.none is None else "gain of F1 when added alone, points")
        for label in axes.get_yticklabels():
            label.set_parse_math(False)  # a rule may hold dollar signs
        try:
            figure.savefig(path)
        except (OSError, ValueError) as error:
            got = getattr(error, "strerror", None) or str(error).split("\n")[0]
            wanted = "a .png, .svg or .pdf file"
            raise FileError("cannot draw this file", got=got, wanted=wanted, where=str(path)) from None


def _gain(before: Figures | None, after: Figures | None, told: Figures | None) -> tuple[Any, Any, Any]:
    if before is None or after is None or told is None:
        return None, None, None
    return after.f1 - before.f1, after.accuracy - before.accuracy, told.relaxed


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _points(gain: float | None) -> str:
    return "" if gain is None else f"{100 * gain:+.2f}"


def _count(number: int | None) -> str:
    return str(number or "")


# ---- finding out ----------------------------------------------------------------------------------------------------


def audit(
    rules: Sequence[Rule], gold: Labellings, labels: Labels, *, given: Sequence[Given] | None = None,
    lattices: Lattices | None = None, guesses: Labellings | None = None, leave_out: Literal["each", "none"] = "each",
    threads: int = 0, **options: Any,
) -> Audit:  # fmt: skip
    """Check rules against gold labels and, if there are lattices, what they do to decoding.

    labels: those of the lattices; gold may hold more. guesses: a tagger's labels, to see how often they obey (without
    lattices). leave_out="none": spare the decodings without each rule. options: those of Decoder (engine, time_limit).

    >>> from bridle import Lattice, rules
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
        raise LatticeError("there are two sources of labels", got="lattices and guesses", wanted="one of them")
    in_gold = violations(rules, gold, _wide(labels, gold), given, threads=threads) > 0
    count = len(in_gold)
    kept = (1 - in_gold.mean(axis=0) if count else np.ones(len(rules))).tolist()
    if lattices is None:
        obeys: list[Any] = [None] * len(rules)
        if guesses is not None:
            _same_lengths(gold, guesses)
            broken = violations(rules, guesses, _wide(labels, guesses), given, threads=threads) > 0
            obeys = (1 - broken.mean(axis=0)).tolist() if count else [1.0] * len(rules)
        rows = [Row(rule, r, kept[r], obeys[r]) for r, rule in enumerate(rules)]
        return Audit(count, labels.scheme, tuple(sorted(rows, key=lambda row: -row.gold)))
    trial = _Trial(rules, gold, labels, given, lattices, {"threads": threads, **options})
    everything = list(range(len(rules)))
    none, full = trial.figures([]), trial.figures(everything)
    rows = []
    for r, rule in enumerate(rules):
        others = [k for k in everything if k != r]
        without = trial.figures(others) if leave_out == "each" else None
        obeyed = float(1 - trial.broken[:, r].mean()) if count else 1.0
        rows.append(Row(rule, r, kept[r], obeyed, trial.figures([r]), without))
    return Audit(count, labels.scheme, tuple(sorted(rows, key=lambda row: _worth(row, none, full))), none, full)


def audit_model(
    rules: Sequence[Rule], model: Tagger, X: Sequence[Any], y: Labellings, *, given: Sequence[Given] | None = None,
    threads: int = 0, **options: Any,
) -> Audit:  # fmt: skip
    """The same for a trained model and the sequences it is to label."""
    lattices = model.lattices(X, threads=threads)
    known = model.given(X, model.decoder(rules), given)
    return audit(rules, y, model.labels_, given=known, lattices=lattices, threads=threads, **options)


def _worth(row: Row, none: Figures, everything: Figures) -> tuple[float, ...]:
    """Sorts the best first: gain alone, then gain among all, F1 before tokens, then what gold obeys more."""
    gains = [_gain(none, row.alone, row.alone)[:2], _gain(row.without, everything, row.without)[:2]]
    return (*(-(gain or 0.0) for pair in gains for gain in pair), -row.gold, row.number)


def _wide(labels: Labels, labellings: Labellings) -> Labels:
    """Labels with those that only these labellings have."""
    extra = sorted({name for one in labellings for name in one if isinstance(name, str)} - set(labels.names))
    return Labels([*labels.names, *extra], labels.scheme, outside=labels.outside) if extra else labels


def _same_lengths(gold: Labellings, guesses: Labellings) -> None:
    if list(map(len, gold)) != list(map(len, guesses)):
        raise LabelError(
            "guesses do not fit gold", got=f"{len(guesses)} labellings of other lengths",
            wanted=f"{len(gold)}, each as long as that of gold", cause="Are both from the same input?",
        )  # fmt: skip


class _Trial:
    """Decodes with some of the rules; remembers plain decoding, so that only what may change is done again."""

    def __init__(
        self, rules: Sequence[Rule], gold: Labellings, labels: Labels, given: Sequence[Given] | None,
        lattices: Lattices, options: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self.rules, self.gold, self.labels, self.given, self.lattices = rules, gold, labels, given, lattices
        options = dict(options)
        self.threads, self.options = options.pop("threads"), {"on_infeasible": "relax", **options}
        offsets = offsets_of(lattices)
        if list(map(len, gold)) != np.diff(offsets).tolist():
            raise LabelError(
                "gold does not fit the lattices", got=f"{len(gold)} labellings",
                wanted=f"{len(offsets) - 1}, with a label per token", cause="Are both from the same input, in order?",
            )  # fmt: skip
        self.plain, _ = self._decode([], np.arange(len(gold)))
        self.broken: Bools = violations(rules, self.plain, labels, given, threads=self.threads) > 0  # (B, R)
        self.base = self._counts(range(len(gold)), self.plain)

    def figures(self, chosen: Sequence[int]) -> Figures:
        """Decoding with these rules."""
        some = np.flatnonzero(self.broken[:, list(chosen)].any(axis=1))
        guessed, relaxed = self._decode([self.rules[r] for r in chosen], some)
        before = self._counts(some.tolist(), [self.plain[b] for b in some.tolist()])
        right, tokens, correct, both = (self.base - before + self._counts(some.tolist(), guessed)).tolist()
        return Figures(right / tokens if tokens else 0.0, 2 * correct / both if correct else 0.0, relaxed)

    def _decode(self, rules: Sequence[Rule], some: npt.NDArray[np.integer]) -> tuple[list[list[str]], int]:
        if not len(some):
            return [], 0
        decoder = Decoder(self.labels, rules, **self.options)
        given = None if self.given is None else [self.given[b] for b in some.tolist()]
        found = decoder.decode_batch(subset(self.lattices, some), given, threads=self.threads)
        return found.labels, int(found.relaxed.sum()) if rules else 0

    def _counts(self, some: Sequence[int], guessed: Labellings) -> npt.NDArray[np.int64]:
        """Right tokens, tokens, correct segments, guessed + gold segments: numbers that add up over sequences."""
        scores = score(_picked(self.gold, some), guessed, self.labels.scheme)
        segments = scores.segments
        counts = [scores.correct_tokens, scores.tokens, segments.correct, segments.guessed + segments.gold]
        return np.array(counts, dtype=np.int64)


def _picked(labellings: Labellings, some: Sequence[int]) -> Iterator[Sequence[str]]:
    return (labellings[b] for b in some)


__all__ = ["COLUMNS", "Audit", "Figures", "Row", "audit", "audit_model"]
