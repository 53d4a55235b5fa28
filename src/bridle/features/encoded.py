"""Encoded sequences: the numbers of the attributes of every token, row by row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bridle import _native


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """Attributes of all tokens of many sequences, packed end to end."""

    offsets: npt.NDArray[np.int64]  # (B + 1) tokens of sequence b
    indptr: npt.NDArray[np.int64]  # (N + 1) attributes of token t
    attrs: npt.NDArray[np.int32]  # (indptr[N])
    values: npt.NDArray[np.float64] | None = None  # the same; None: all are 1

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

    def part(self, chosen: npt.NDArray[np.int64]) -> Encoded:
        """Some of the sequences, in this order."""
        tokens, offsets = _ranges(self.offsets, chosen)
        rows, indptr = _ranges(self.indptr, tokens)
        return Encoded(offsets, indptr, self.attrs[rows], None if self.values is None else self.values[rows])

    def keep(self, number: npt.NDArray[np.int32]) -> Encoded:
        """Attributes under new numbers; those whose number is negative are left out."""
        new = number[self.attrs]
        kept = new >= 0
        before = np.zeros(len(kept) + 1, dtype=np.int64)
        np.cumsum(kept, out=before[1:])
        values = None if self.values is None else self.values[kept]
        return Encoded(self.offsets, before[self.indptr], new[kept], values)


def _ranges(
    cuts: npt.NDArray[np.int64], chosen: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """All of cuts[k] .. cuts[k + 1] - 1 for some k, end to end, and where each of them begins now."""
    lengths = cuts[chosen + 1] - cuts[chosen]
    begin = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return np.arange(begin[-1]) + np.repeat(cuts[chosen] - begin[:-1], lengths), begin
