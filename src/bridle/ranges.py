"""Ranges of rows: which rows belong to some of many parts that lie end to end."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def ranges(cuts: Ints, chosen: npt.NDArray[np.integer]) -> tuple[Ints, Ints]:
    """All of cuts[k] .. cuts[k + 1] - 1 for some k, end to end, and where each of them begins now."""
    lengths = cuts[chosen + 1] - cuts[chosen]
    begin = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return np.arange(begin[-1]) + np.repeat(cuts[chosen] - begin[:-1], lengths), begin
