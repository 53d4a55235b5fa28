"""Measures of labellings: counts of tokens, segments and whole sequences, and what follows from them.

precision = correct / guessed     recall = correct / gold     F1 = 2 correct / (guessed + gold)     0 / 0 = 0
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

ERRORS = {  # fields of SegmentErrors, as tables name them
    "wrong_type": "wrong type",
    "wrong_boundary": "wrong boundary",
    "both": "wrong type and boundary",
    "missed": "missed",
    "spurious": "spurious",
}


@dataclass(frozen=True, slots=True)
class SegmentErrors:
    """Segments that are not right, by kind of error.

    Each gold segment that was not found is counted once, under the first of these that fits: `wrong_type`,
    `wrong_boundary`, `both`, `missed`.

    Parameters
    ----------
    wrong_type : int
        Gold segments that a guessed one covers exactly, with another type.
    wrong_boundary : int
        Gold segments that overlap with a guessed one of the same type, which begins or ends elsewhere.
    both : int
        Gold segments that overlap only with guessed ones of other types.
    missed : int
        Gold segments that overlap with no guessed one.
    spurious : int
        Guessed segments that overlap with no gold one.

    Examples
    --------
    >>> from bridle.report import score
    >>> scores = score([["B-PER", "I-PER", "O", "B-LOC", "O"]], [["B-PER", "O", "O", "B-ORG", "B-ORG"]])
    >>> scores.segment_errors
    SegmentErrors(wrong_type=1, wrong_boundary=1, both=0, missed=0, spurious=1)
    """

    wrong_type: int = 0
    wrong_boundary: int = 0
    both: int = 0
    missed: int = 0
    spurious: int = 0

    def to_dict(self) -> dict[str, int]:
        """Return the counts by name, for JSON."""
        return asdict(self)


def confusions(table: Mapping[str, Mapping[str, int]]) -> list[tuple[str, str, int]]:
    """List gold label, guessed label and number of tokens of labels that differ, the most frequent first.

    >>> confusions({"A": {"A": 5, "B": 1}, "B": {"A": 2}})
    [('B', 'A', 2), ('A', 'B', 1)]
    """
    pairs = [(a, b, count) for a, row in table.items() for b, count in row.items() if a != b]
    return sorted(pairs, key=lambda pair: (-pair[2], pair[:2]))


def most_confused(table: Mapping[str, Mapping[str, int]], most: int) -> list[str]:
    """Choose the labels of a large table with the most wrong tokens, sorted by name."""
    wrong = Counter[str]()
    for a, b, count in confusions(table):
        wrong[a] += count
        wrong[b] += count
    names = sorted({*table, *(b for row in table.values() for b in row)})
    return sorted(sorted(names, key=lambda name: (-wrong[name], name))[:most])


def confusion_rows(table: Mapping[str, Mapping[str, int]], names: Sequence[str]) -> list[list[int]]:
    """Make the matrix of these labels: a row for each gold label, a column for each guessed one."""
    return [[table.get(a, {}).get(b, 0) for b in names] for a in names]


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of labels or segments, and the measures that follow from them.

    Parameters
    ----------
    correct : int
        Number of guessed ones that are right.
    guessed : int
        Number of guessed ones.
    gold : int
        Number of right ones.

    Examples
    --------
    >>> from bridle.report import Counts
    >>> counts = Counts(correct=2, guessed=4, gold=2)
    >>> counts.precision, counts.recall, round(counts.f1, 3)
    (0.5, 1.0, 0.667)
    """

    correct: int
    guessed: int
    gold: int

    @property
    def precision(self) -> float:
        """Share of the guessed ones that is right."""
        return self.correct / self.guessed if self.guessed else 0.0

    @property
    def recall(self) -> float:
        """Share of the right ones that was found."""
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2 * self.correct / (self.guessed + self.gold) if self.correct else 0.0

    def to_dict(self) -> dict[str, float]:
        """Return measures and counts by name, for JSON; shares, not percent."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1, **asdict(self)}


class Average(NamedTuple):
    """The mean of precision, of recall and of F1, each name with the same weight."""

    precision: float
    recall: float
    f1: float


def micro(counts: Iterable[Counts]) -> Counts:
    """Add up counts, so that frequent names have more weight."""
    parts = [(c.correct, c.guessed, c.gold) for c in counts]
    return Counts(*(sum(part[i] for part in parts) for i in range(3)))


def macro(counts: Iterable[Counts]) -> Average:
    """Average over the names, so that each has the same weight."""
    parts = [(c.precision, c.recall, c.f1) for c in counts]
    n = max(len(parts), 1)
    return Average(*(sum(part[i] for part in parts) / n for i in range(3)))


@dataclass(frozen=True, slots=True)
class Scores:
    """Guessed labellings compared with gold; `score` makes it.

    Attributes
    ----------
    scheme : str or None
        How segments were found; ``"auto"`` has become ``"prefixes"`` or None.
    tokens, correct_tokens : int
        Number of tokens, and of those with the right label.
    sequences, exact_sequences : int
        Number of sequences, and of those with no wrong label.
    by_type : dict of str to Counts
        Segments of each type.
    by_label : dict of str to Counts
        Tokens of each label.
    confusion : dict of str to dict of str to int
        Tokens by gold label, then by guessed label.
    segment_errors : SegmentErrors
        Segments that are not right, by kind of error.
    missing_tokens : int
        Number of tokens without a gold label; they are not among `tokens`, and no segment goes across them.
    """

    scheme: str | None
    tokens: int
    correct_tokens: int
    sequences: int
    exact_sequences: int
    by_type: dict[str, Counts]
    by_label: dict[str, Counts]
    confusion: dict[str, dict[str, int]] = field(default_factory=dict)
    segment_errors: SegmentErrors = field(default_factory=SegmentErrors)
    missing_tokens: int = 0

    @property
    def accuracy(self) -> float:
        """Share of the tokens with the right label."""
        return self.correct_tokens / self.tokens if self.tokens else 0.0

    @property
    def exact(self) -> float:
        """Share of the sequences with no wrong label."""
        return self.exact_sequences / self.sequences if self.sequences else 0.0

    @property
    def segments(self) -> Counts:
        """Segments of all types together."""
        return micro(self.by_type.values())

    @property
    def macro(self) -> Average:
        """Mean over all labels, O too, each with the same weight."""
        return macro(self.by_label.values())

    @property
    def micro(self) -> Counts:
        """Tokens of all labels together, O too, which makes its F1 the accuracy."""
        return micro(self.by_label.values())

    def confusions(self) -> list[tuple[str, str, int]]:
        """List the labels that are taken for others.

        Returns
        -------
        list of tuple
            Gold label, guessed label and number of tokens; the most frequent first.

        Examples
        --------
        >>> from bridle.report import score
        >>> score([["D", "N", "N"]], [["D", "V", "V"]]).confusions()
        [('N', 'V', 2)]
        """
        return confusions(self.confusion)

    def to_dict(self) -> dict[str, Any]:
        """Return measures and counts by name, for JSON; shares, not percent."""
        plain = ("scheme", "tokens", "correct_tokens", "missing_tokens", "accuracy", "sequences", "exact_sequences")
        return {
            **{name: getattr(self, name) for name in (*plain, "exact", "confusion")},
            "segments": self.segments.to_dict(),
            "by_type": {name: counts.to_dict() for name, counts in self.by_type.items()},
            "macro": self.macro._asdict(),
            "micro": self.micro.to_dict(),
            "by_label": {name: counts.to_dict() for name, counts in self.by_label.items()},
            "segment_errors": self.segment_errors.to_dict(),
        }

    def lines(self) -> list[str]:
        """Return the lines of conlleval, to the letter, and one about tokens without a gold label if there are any."""
        segments = self.segments
        text = [
            f"processed {self.tokens} tokens with {segments.gold} phrases; "
            f"found: {segments.guessed} phrases; correct: {segments.correct}."
        ]
        if self.tokens:
            text.append(f"accuracy: {100 * self.correct_tokens / self.tokens:6.2f}%; {_percent(segments)}")
        text += [f"{name:>17}: {_percent(counts)}  {counts.guessed}" for name, counts in self.by_type.items()]
        if self.missing_tokens:
            text.append(f"not counted: {self.missing_tokens:,} tokens without a gold label")
        return text


def _percent(counts: Counts) -> str:
    """In conlleval's order of operations, so that the last digit is its own."""
    precision = 100 * counts.correct / counts.guessed if counts.guessed else 0.0
    recall = 100 * counts.correct / counts.gold if counts.gold else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return f"precision: {precision:6.2f}%; recall: {recall:6.2f}%; FB1: {f1:6.2f}"
