"""Audit: what each rule is worth, as figures, a table, JSON and bars. `auditing.py` finds it out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridle.report.bars import draw_bars
from bridle.rules.base import Rule, Soft

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
