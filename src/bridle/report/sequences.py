"""Scores of each sequence, to compare ways to label the same sequences. B sequences (b), N tokens (t), end to end.

    quality = (1 if all labels are right, else 0) / 2  +  F1 of its segments / 2          of one sequence

Half of it asks for whole sequences, which is what rules are for; the other half tells nearly right from all wrong, so
that small samples can be compared. A sequence without segments, in gold and in the guess, has F1 = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from bridle.arrays import ranges
from bridle.labels import MISSING, Labels
from bridle.report.metrics import Counts
from bridle.report.scoring import (
    UNANSWERED,
    Bools,
    Ints,
    PackedSegments,
    SegmentCounter,
    misfit,
    same_segments,
)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SequenceScores:
    """Counts for each of B sequences."""

    right: Ints  # (B,)  tokens with the right label
    lengths: Ints  # (B,)  tokens whose gold label is known
    correct: Ints  # (B,)  segments
    guessed: Ints  # (B,)
    gold: Ints  # (B,)

    @classmethod
    def of(
        cls,
        labels: Labels,
        gold: npt.NDArray[np.integer],
        guessed: npt.NDArray[np.integer],
        offsets: npt.NDArray[np.int64],
    ) -> SequenceScores:
        """Compare guesses with gold; both (N,) ids, sequence b in offsets[b] .. offsets[b + 1] - 1.

        Tokens whose gold label is MISSING are not counted, and no segment goes across them.
        """
        owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        begin = np.zeros(len(gold), dtype=bool)
        begin[offsets[:-1][np.diff(offsets) > 0]] = True
        if not (known := gold != MISSING).all():  # only what is known is compared, as if a sequence ended at each gap
            begin[1:] |= ~known[:-1]
            gold, guessed, owner, begin = (each[known] for each in (gold, guessed, owner, begin))
        there, theirs = _segments(labels, gold, begin), _segments(labels, guessed, begin)
        correct = theirs.starts[same_segments(there, theirs)]
        tokens = gold == guessed, slice(None), correct, theirs.starts, there.starts
        return cls(*(np.bincount(owner[at], minlength=len(offsets) - 1).astype(np.int64) for at in tokens))

    def __len__(self) -> int:
        return len(self.right)

    @property
    def exact(self) -> Bools:
        """(B,): is every label right?"""
        all_right: Bools = self.right == self.lengths
        return all_right

    @property
    def quality(self) -> Floats:
        """(B,): from 0 to 1."""
        both = self.guessed + self.gold
        f1 = np.where(both > 0, 2 * self.correct / np.maximum(both, 1), 1.0)
        mean: Floats = (self.exact + f1) / 2
        return mean

    @property
    def segments(self) -> Counts:
        """Segments of all sequences together."""
        return Counts(int(self.correct.sum()), int(self.guessed.sum()), int(self.gold.sum()))

    @property
    def accuracy(self) -> float:
        """Share of the tokens with the right label."""
        return float(self.right.sum() / max(int(self.lengths.sum()), 1))

    def to_dict(self) -> dict[str, float]:
        """Return shares over all sequences, for JSON."""
        return {
            "exact": float(self.exact.mean()) if len(self) else 0.0,
            "f1": self.segments.f1,
            "accuracy": self.accuracy,
            "quality": float(self.quality.mean()) if len(self) else 0.0,
        }


def _segments(labels: Labels, ids: npt.NDArray[np.integer], begin: Bools) -> PackedSegments:
    """Find segments under the labels' own scheme; begin (N,): a sequence starts here."""
    types = np.array(labels.kinds, dtype=np.int64)[ids]
    if not len(ids):
        return PackedSegments(types, types, types)
    first = np.flatnonzero(labels.starts(np.where(begin, len(labels), np.roll(ids, 1)), ids) | begin)
    inside = np.array([bool(tag) for tag in labels.tag_of])[ids[first]]
    return PackedSegments(first[inside], np.append(first[1:], len(ids))[inside], types)


RIGHT, EXACT, CORRECT, GUESSED = range(4)  # columns of counts


class GoldCounts:
    """Gold labels of B sequences, ready to be compared with labellings by ids, as `score` compares them.

    A missing gold label is None: the token is not counted, and segments end before it. names: the labels that ids are
    numbers of; other names in gold are never right. Counts add up over sequences, so that a labelling that differs in
    few sequences is counted by these alone.
    """

    def __init__(
        self,
        gold: Sequence[Sequence[str | None]],
        names: Sequence[str],
        scheme: str | None,
        outside: str | Sequence[str] = "O",
    ) -> None:
        self.offsets: Ints = np.cumsum([0, *map(len, gold)]).astype(np.int64)
        flat = list(chain.from_iterable(gold))
        extra = sorted({name for name in flat if name is not None}.difference(names))
        self.names = [*names, *extra]
        known = {name: y for y, name in enumerate(self.names)} | {None: -1}
        self.ids: Ints = np.array([known[name] for name in flat], dtype=np.int64)  # (N,)  -1: missing
        counter = SegmentCounter(scheme, outside)
        for name in [*self.names, UNANSWERED]:  # the last, which -1 is the number of, stands for "no answer"
            if not counter.add(name):
                raise misfit(name, scheme, counter.outside)
        self._tables = counter.tables()
        here = self.ids >= 0
        self._all_here = bool(here.all())
        self._begin: Bools = np.zeros(len(flat), dtype=bool)  # (N,)  begins a sequence, or follows a gap
        self._begin[self.offsets[:-1][np.diff(self.offsets) > 0]] = True
        self._begin[1:] |= ~here[:-1]
        lengths = np.diff(self.offsets)
        self.sequence: Ints = np.repeat(np.arange(len(gold)), lengths)  # (N,)  of each token
        left = np.bincount(self.sequence[here], minlength=len(gold))
        self.counted: Bools = (left > 0) | (lengths == 0)  # (B,)  sequences that are right or wrong
        self.tokens = int(here.sum())
        self.segments = len(self._tables.segments(self.ids[here], self._begin[here]).starts)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def counts(self, ids: npt.NDArray[np.integer], chosen: npt.NDArray[np.integer] | None = None) -> Ints:
        """Count for all sequences, or the chosen ones: (B, 4). ids: their labels, end to end; -1: none."""
        number, begin, gold, counted = self.sequence, self._begin, self.ids, self.counted
        size = len(self)
        if chosen is not None:
            tokens, cuts = ranges(self.offsets, chosen)
            number, begin, gold = np.repeat(np.arange(len(chosen)), np.diff(cuts)), begin[tokens], gold[tokens]
            counted, size = counted[chosen], len(chosen)
        guessed = np.asarray(ids, dtype=np.int64)
        if not self._all_here:
            here = gold >= 0
            number, begin, gold, guessed = number[here], begin[here], gold[here], guessed[here]
        right = gold == guessed
        there, theirs = self._tables.segments(gold, begin), self._tables.segments(guessed, begin)
        out = np.zeros((size, 4), dtype=np.int64)
        out[:, RIGHT] = np.bincount(number[right], minlength=size)
        out[:, EXACT] = counted & (np.bincount(number[~right], minlength=size) == 0)
        same = theirs.starts[same_segments(there, theirs)]
        out[:, CORRECT] = np.bincount(number[same], minlength=size)
        out[:, GUESSED] = np.bincount(number[theirs.starts], minlength=size)
        return out

    def shares(self, counts: Ints) -> tuple[float, float, float]:
        """Return accuracy, F1 of segments and the share of sequences without a wrong label, of summed counts (4,)."""
        right, exact, correct, guessed = counts.tolist()
        sequences = int(self.counted.sum())
        f1 = Counts(correct, guessed, self.segments).f1
        return right / self.tokens if self.tokens else 0.0, f1, exact / sequences if sequences else 0.0
