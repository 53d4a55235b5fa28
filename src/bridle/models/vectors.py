"""Long vectors: sums and products, read once, in threads. The bits do not depend on the number of threads.

Whole blocks go to a thread; the products are those of blocks, added in order of the blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.threads import over_parts

Vector = npt.NDArray[np.float64]
BLOCK = _native.VECTOR_BLOCK
_WORTH = 1 << 17  # numbers that are worth a thread


def products(rows: Sequence[Vector], columns: Sequence[Vector], threads: int = 1) -> Vector:
    """(rows, columns): the product of each row with each column."""
    blocks = -(-len(rows[0]) // BLOCK)
    out = np.zeros((max(blocks, 1), len(rows), len(columns)))

    def work(low: int, high: int, _: _native.Stop) -> None:
        _native.products(list(rows), list(columns), low, high, out)

    over_parts(work, _cut(blocks, len(rows[0]) * len(rows), threads), threads)
    return reduce(np.add, out)


def combine(shares: Sequence[float], rows: Sequence[Vector], *, out: Vector, threads: int = 1) -> None:
    """out = sum of share x row; out may be one of the rows."""
    factors = np.array(shares, dtype=np.float64)

    def work(low: int, high: int, _: _native.Stop) -> None:
        _native.combine(factors, list(rows), low, high, out)

    parts = _cut(-(-len(out) // BLOCK), len(out) * len(rows), threads)
    over_parts(work, [(low * BLOCK, min(high * BLOCK, len(out))) for low, high in parts], threads)


def product(a: Vector, b: Vector, threads: int = 1) -> float:
    """a . b"""
    return float(products([a], [b], threads)[0, 0])


def _cut(count: int, numbers: int, threads: int) -> list[tuple[int, int]]:
    """0 .. count in parts, as many as threads are worth it."""
    parts = max(1, min(threads, numbers // _WORTH))
    at = [count * k // parts for k in range(parts + 1)]
    return list(pairwise(at))
