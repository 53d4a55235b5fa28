"""Encoded sequences: the numbers of the attributes of every token, row by row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.arrays import ranges


@dataclass(frozen=True, slots=True, eq=False)
class EdgeAttributes:
    """What templates with `label[-1]` beside other places say of tokens; the first one of a sequence has none."""

    indptr: npt.NDArray[np.int64]  # (N + 1) attributes of token t
    attrs: npt.NDArray[np.int32]  # (indptr[N])
    size: int  # attributes that there are: 0 .. size-1

    def part(self, tokens: npt.NDArray[np.int64]) -> EdgeAttributes:
        """Those of some tokens, in this order."""
        rows, indptr = ranges(self.indptr, tokens)
        return EdgeAttributes(indptr, self.attrs[rows], self.size)

    def keep(self, number: npt.NDArray[np.int32], size: int) -> EdgeAttributes:
        """Attributes under new numbers, 0 .. size-1; those whose number is negative are left out."""
        return EdgeAttributes(*_kept(self.indptr, self.attrs, number)[:2], size)


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """Attributes of all tokens of many sequences, packed end to end."""

    offsets: npt.NDArray[np.int64]  # (B + 1) tokens of sequence b
    indptr: npt.NDArray[np.int64]  # (N + 1) attributes of token t
    attrs: npt.NDArray[np.int32]  # (indptr[N])
    values: npt.NDArray[np.float64] | None = None  # the same; None: all are 1
    edges: EdgeAttributes | None = None  # None: no template asks for them

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_tokens(self) -> int:
        """Tokens of all sequences."""
        return int(self.offsets[-1])

    def native(self, y: npt.NDArray[np.int32] | None = None) -> _native.Examples:
        """The same for the kernels, with gold labels if there are any."""
        values = None if self.values is None else self.values.astype(np.float32)
        return _native.Examples(self.offsets, self.indptr, self.attrs, values, y)

    def native_edges(self, y: npt.NDArray[np.int32] | None = None) -> _native.Examples:
        """The attributes of edges for the kernels."""
        assert self.edges is not None
        return _native.Examples(self.offsets, self.edges.indptr, self.edges.attrs, None, y)

    def part(self, chosen: npt.NDArray[np.int64]) -> Encoded:
        """Some of the sequences, in this order."""
        tokens, offsets = ranges(self.offsets, chosen)
        rows, indptr = ranges(self.indptr, tokens)
        values = None if self.values is None else self.values[rows]
        return Encoded(offsets, indptr, self.attrs[rows], values, self.edges and self.edges.part(tokens))

    def keep(self, number: npt.NDArray[np.int32]) -> Encoded:
        """Attributes under new numbers; those whose number is negative are left out."""
        indptr, attrs, kept = _kept(self.indptr, self.attrs, number)
        values = None if self.values is None else self.values[kept]
        return Encoded(self.offsets, indptr, attrs, values, self.edges)


def _kept(
    indptr: npt.NDArray[np.int64], attrs: npt.NDArray[np.int32], number: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """Rows of attributes under new numbers, those with a negative one left out, and which are left."""
    new = number[attrs]
    kept = new >= 0
    before = np.zeros(len(kept) + 1, dtype=np.int64)
    np.cumsum(kept, out=before[1:])
    return before[indptr], new[kept], kept
