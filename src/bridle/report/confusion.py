"""What is wrong with guessed labels: which labels are taken for which, and what became of segments.

    pairs[a, b]   tokens with the gold label a and the guessed label b
    segments      a gold segment that is not right has the wrong type, a wrong boundary, both, or is missed

Counted many sequences at a time, as `scoring.py` hands them over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

ERRORS = {  # fields of SegmentErrors, as tables name them
    "wrong_type": "wrong type",
    "wrong_boundary": "wrong boundary",
    "both": "wrong type and boundary",
    "missed": "missed",
    "spurious": "spurious",
}


@dataclass(frozen=True, slots=True)
class SegmentErrors:
    """Segments that are not right, by what is wrong with them.

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
    >>> found = score([["B-PER", "I-PER", "O", "B-LOC", "O"]], [["B-PER", "O", "O", "B-ORG", "B-ORG"]])
    >>> found.segment_errors
    SegmentErrors(wrong_type=1, wrong_boundary=1, both=0, missed=0, spurious=1)
    """

    wrong_type: int = 0
    wrong_boundary: int = 0
    both: int = 0
    missed: int = 0
    spurious: int = 0

    def to_dict(self) -> dict[str, int]:
        """Convert to what JSON can hold.

        Returns
        -------
        dict
            Counts by name.
        """
        return asdict(self)


class Found(NamedTuple):
    """Segments of many sequences end to end: S segments, N tokens."""

    starts: Ints  # (S,)  the first token
    ends: Ints  # (S,)  the one after the last
    types: Ints  # (N,)  of each token; -1 outside of segments


def segment_errors(gold: Found, guessed: Found) -> Ints:
    """Counts in the order of the fields of `SegmentErrors`."""
    there, theirs = gold.types[gold.starts], guessed.types[gold.starts]
    guessed_end = np.zeros(len(gold.types), dtype=np.int64)  # of the segment that starts here; 0: none does
    guessed_end[guessed.starts] = guessed.ends
    exact = guessed_end[gold.starts] == gold.ends
    same = _within((gold.types >= 0) & (gold.types == guessed.types), gold)
    some = _within(guessed.types >= 0, gold)
    wrong = ~(exact & (there == theirs))
    kinds = (exact, same, some, np.ones_like(exact))
    counts = list[int]()
    for kind in kinds:
        counts.append(int((wrong & kind).sum()))
        wrong = wrong & ~kind
    counts.append(int((~_within(gold.types >= 0, guessed)).sum()))
    return np.array(counts, dtype=np.int64)


def _within(tokens: npt.NDArray[np.bool_], segments: Found) -> npt.NDArray[np.bool_]:
    """(S,): is one of these tokens in the segment?"""
    before = np.cumsum(np.append(0, tokens))
    inside: npt.NDArray[np.bool_] = before[segments.ends] > before[segments.starts]
    return inside


class Pairs:
    """How often a gold label met a guessed one."""

    def __init__(self) -> None:
        self.counts = Counter[tuple[int, int]]()

    def add(self, gold: Ints, guessed: Ints) -> None:
        """Tokens with their labels as ids."""
        width = int(max(gold.max(initial=0), guessed.max(initial=0))) + 1
        pairs, counts = np.unique(gold * width + guessed, return_counts=True)
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            self.counts[divmod(pair, width)] += count

    def named(self, names: Sequence[str]) -> dict[str, dict[str, int]]:
        """By gold label, then by guessed label, both sorted."""
        table: dict[str, dict[str, int]] = {}
        for a, b, count in sorted((names[a], names[b], count) for (a, b), count in self.counts.items()):
            table.setdefault(a, {})[b] = count
        return table


def confusions(table: Mapping[str, Mapping[str, int]]) -> list[tuple[str, str, int]]:
    """Gold label, guessed label and how often, of labels that differ; the most frequent first.

    >>> confusions({"A": {"A": 5, "B": 1}, "B": {"A": 2}})
    [('B', 'A', 2), ('A', 'B', 1)]
    """
    found = [(a, b, count) for a, row in table.items() for b, count in row.items() if a != b]
    return sorted(found, key=lambda one: (-one[2], one[:2]))


def most_confused(table: Mapping[str, Mapping[str, int]], most: int) -> list[str]:
    """The labels to show of a large table: those with the most tokens that are wrong, sorted by name."""
    wrong = Counter[str]()
    for a, b, count in confusions(table):
        wrong[a] += count
        wrong[b] += count
    names = sorted({*table, *(b for row in table.values() for b in row)})
    return sorted(sorted(names, key=lambda name: (-wrong[name], name))[:most])


def confusion_rows(table: Mapping[str, Mapping[str, int]], names: Sequence[str]) -> Iterator[list[int]]:
    """The matrix of some labels: a row for each gold label, a column for each guessed one."""
    for a in names:
        row = table.get(a, {})
        yield [row.get(b, 0) for b in names]
