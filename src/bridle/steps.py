"""Steps: what single tokens add to the transition scores that lead to them.

A model with templates such as ``label[-1] word[0]`` has transition scores that differ from token to token, but mostly
in few of the m x m pairs of labels. So only these are kept; tables are made for some sequences at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.arrays import LARGEST, AnyScores, Scores
from bridle.errors import LatticeError
from bridle.ranges import ranges


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Additions to transition scores, token by token, for the tokens of many sequences end to end.

    Attributes
    ----------
    indptr : array of int, shape (N + 1,)
        Where the additions of each token begin; the first token of a sequence has none.
    pair : array of int, shape (K,)
        The pair of labels, ``i * m + j`` for label j after label i; each once per token.
    score : array of float32, shape (K,)
        What is added.
    """

    indptr: npt.NDArray[np.int64]
    pair: npt.NDArray[np.int32]
    score: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The steps of parts of the tokens, in order."""
        before = np.cumsum([0, *(part.indptr[-1] for part in parts)])
        cuts = [part.indptr[1:] + start for part, start in zip(parts, before, strict=False)]
        return cls(
            np.concatenate([[0], *cuts]).astype(np.int64),
            np.concatenate([part.pair for part in parts]),
            np.concatenate([part.score for part in parts]),
        )

    def part(self, low: int, high: int) -> Self:
        """Those of tokens low .. high-1, without a copy of the scores."""
        begin, end = self.indptr[[low, high]].tolist()
        return type(self)(self.indptr[low : high + 1] - begin, self.pair[begin:end], self.score[begin:end])

    def subset(self, tokens: npt.NDArray[np.integer]) -> Self:
        """Those of some tokens, in this order."""
        at, indptr = ranges(self.indptr, tokens)
        return type(self)(indptr, self.pair[at], self.score[at])

    def tables(self, pairwise: AnyScores | None, low: int, high: int, m: int) -> Scores:
        """(high - low, m, m): the transition scores that lead to tokens low .. high-1; pairwise: those of all."""
        out = np.empty((max(high - low, 0), m, m))
        if len(out):
            base = None if pairwise is None else np.ascontiguousarray(pairwise, dtype=np.float64)
            _native.fill_steps(base, self.indptr, self.pair, self.score, low, out)
        return out

    def check(self, n_tokens: int, m: int) -> None:
        """Refuse what the kernels could not read."""
        fits = (
            [a.dtype.name for a in (self.indptr, self.pair, self.score)] == ["int64", "int32", "float32"]
            and self.indptr.shape == (n_tokens + 1,)
            and self.indptr[0] == 0
            and bool((np.diff(self.indptr) >= 0).all())
            and self.pair.shape == self.score.shape == (self.indptr[-1],)
            and (not self.pair.size or 0 <= int(self.pair.min()) <= int(self.pair.max()) < m * m)
        )
        if not fits:
            raise LatticeError("the steps do not fit the tokens", wanted="additions for pairs of labels, per token")
        self.check_scores()

    def check_scores(self) -> None:
        """Refuse infinite additions."""
        if _native.first_bad(self.score, LARGEST) < self.score.size or np.isneginf(self.score).any():
            raise LatticeError("an addition to transition scores is not a score", wanted="finite numbers")
