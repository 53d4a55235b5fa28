"""Long vectors: what L-BFGS asks of them, read once, in threads. The bits do not depend on the number of threads.

Whole blocks go to a thread; sums are those of blocks, added in order of the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.decoding.threads import over_parts

Vector = npt.NDArray[np.float64]
History = npt.NDArray[Any]  # float32 or float64
BLOCK = _native.VECTOR_BLOCK
_WORTH = 1 << 17  # numbers that are worth a thread


def _over(size: int, vectors: int, threads: int, sums: int, work: Callable[[int, int, Vector], None]) -> Vector:
    """(sums,): work(low, high, out) writes the sums of block k into out[k]. vectors: how many are read."""
    blocks = -(-size // BLOCK)
    out = np.zeros((max(blocks, 1), sums))
    parts = max(1, min(threads, size * vectors // _WORTH))
    at = [blocks * k // parts for k in range(parts + 1)]
    over_parts(lambda low, high, _: work(low, high, out), list(pairwise(at)), threads)
    return reduce(np.add, out)


def product(a: Vector, b: Vector, threads: int = 1) -> float:
    """a . b"""
    return float(_over(len(a), 2, threads, 1, lambda low, high, out: _native.product(a, b, low, high, out))[0])


def combine(shares: Sequence[float], rows: Sequence[Vector], *, out: Vector, threads: int = 1) -> None:
    """out = sum of share x row; out may be one of the rows."""
    factors = np.array(shares, dtype=np.float64)
    _over(len(out), len(rows), threads, 0, lambda low, high, _: _native.combine(factors, list(rows), low, high, out))


def gradient_of(
    counts: Sequence[Vector], gold: Vector, w: Vector, decay: float, *, out: Vector, threads: int = 1
) -> tuple[float, float]:
    """out = sum of the counts - gold + decay x w; returns w . gold and w . w."""
    sums = _over(
        len(w),
        len(counts) + 3,
        threads,
        2,
        lambda low, high, into: _native.gradient_of(list(counts), gold, w, decay, low, high, out, into),
    )
    return float(sums[0]), float(sums[1])


def take_step(
    there: Vector, w: Vector, gradient: Vector, g: Vector, s: History, y: History, threads: int = 1
) -> tuple[float, float, float, float]:
    """s = there - w, y = gradient - g, g = gradient; returns s . y, y . y, g . g and there . there."""
    sums = _over(
        len(w), 6, threads, 4, lambda low, high, into: _native.take_step(there, w, gradient, g, s, y, low, high, into)
    )
    return float(sums[0]), float(sums[1]), float(sums[2]), float(sums[3])


def products(rows: Sequence[History], change: History, p: Vector, threads: int = 1) -> Vector:
    """(rows, 2): the products of each row with `change` and with `p`."""
    sums = _over(
        len(p),
        len(rows),
        threads,
        2 * len(rows),
        lambda low, high, into: _native.products(list(rows), change, p, low, high, into),
    )
    return sums.reshape(len(rows), 2)


def aim(
    shares: Sequence[float],
    p: Vector,
    rows: Sequence[History],
    w: Vector,
    step: float,
    *,
    d: Vector,
    there: Vector,
    threads: int = 1,
) -> float:
    """d = shares[0] x p + sum of share x row, there = w + step x d; returns d . p."""
    factors = np.array(shares, dtype=np.float64)
    return float(
        _over(
            len(p),
            len(rows) + 3,
            threads,
            1,
            lambda low, high, into: _native.aim(factors, p, list(rows), w, step, low, high, d, there, into),
        )[0]
    )
