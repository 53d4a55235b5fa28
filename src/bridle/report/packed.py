"""Gold labels against many labellings of the same sequences, by ids: what `score` counts, sequence by sequence.

    counts[b] = right tokens, 1 if no label is wrong, correct segments, guessed segments

    B sequences (b)    N tokens    m labels

Gold is interned and cut once. Numbers add up over sequences, so that a labelling that differs in some of them is
counted by these alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from bridle.ranges import ranges
from bridle.report.metrics import Counts
from bridle.report.scoring import UNANSWERED, Bools, Ints, Segments, misfit, same_segments

RIGHT, EXACT, CORRECT, GUESSED = range(4)  # columns of counts


class GoldCounts:
    """Gold labels of B sequences, ready to be compared with labellings by ids.

    Parameters
    ----------
    gold : sequence of sequence of str
        Gold labels; None where a label is missing: the token is not counted, and segments end before it.
    names : sequence of str
        The labels that ids are numbers of. Other names in gold are never right.
    scheme : str or None
        The tagging scheme, as in `score`.
    """

    def __init__(self, gold: Sequence[Sequence[str | None]], names: Sequence[str], scheme: str | None) -> None:
        self.offsets: Ints = np.cumsum([0, *map(len, gold)]).astype(np.int64)
        flat = list(chain.from_iterable(gold))
        extra = sorted({name for name in flat if name is not None}.difference(names))
        self.names = [*names, *extra]
        known = {name: y for y, name in enumerate(self.names)} | {None: -1}
        self.ids: Ints = np.array([known[name] for name in flat], dtype=np.int64)  # (N,)  -1: missing
        segments = Segments(scheme)
        for name in [*self.names, UNANSWERED]:  # the last, which -1 is the number of, stands for "no answer"
            if not segments.add(name):
                raise misfit(name, scheme)
        self._tables = segments.tables()
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
        self.segments = len(self._tables.found(self.ids[here], self._begin[here]).starts)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def counts(self, ids: npt.NDArray[np.integer], some: npt.NDArray[np.integer] | None = None) -> Ints:
        """Count for some sequences, or for all: (B, 4). ids: the labels of these sequences, end to end; -1: none."""
        number, begin, gold, counted = self.sequence, self._begin, self.ids, self.counted
        size = len(self)
        if some is not None:
            tokens, cuts = ranges(self.offsets, some)
            number, begin, gold = np.repeat(np.arange(len(some)), np.diff(cuts)), begin[tokens], gold[tokens]
            counted, size = counted[some], len(some)
        guessed = np.asarray(ids, dtype=np.int64)
        if not self._all_here:
            here = gold >= 0
            number, begin, gold, guessed = number[here], begin[here], gold[here], guessed[here]
        right = gold == guessed
        there, theirs = self._tables.found(gold, begin), self._tables.found(guessed, begin)
        out = np.zeros((size, 4), dtype=np.int64)
        out[:, RIGHT] = np.bincount(number[right], minlength=size)
        out[:, EXACT] = counted & (np.bincount(number[~right], minlength=size) == 0)
        same = theirs.starts[same_segments(there, theirs)]
        out[:, CORRECT] = np.bincount(number[same], minlength=size)
        out[:, GUESSED] = np.bincount(number[theirs.starts], minlength=size)
        return out

    def shares(self, counts: Ints) -> tuple[float, float, float]:
        """Accuracy, F1 of segments and share of sequences without a wrong label, of summed counts (4,)."""
        right, exact, correct, guessed = counts.tolist()
        sequences = int(self.counted.sum())
        f1 = Counts(correct, guessed, self.segments).f1
        return right / self.tokens if self.tokens else 0.0, f1, exact / sequences if sequences else 0.0
