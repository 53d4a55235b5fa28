"""Significance of rules and of differences between two ways to label the same sequences.

    binomial        P(X >= k),  X = successes in n trials that succeed with p
    hypergeometric  P(X >= k) or P(X <= k),  X = marked items among n drawn from N of which K are marked

Sequences that succeed with different p_k are counted as if all had their mean: far above the mean this overstates the
tail (Hoeffding 1956), so a rule can only be missed by it, not invented.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.report.sequences import SequenceScores

Floats = npt.NDArray[np.float64]
_SAMPLES, _SEED = 2000, 0  # of the bootstrap
_DRAWN = 1 << 22  # numbers of a bootstrap that are held at once
_TINY = 1e-12  # what is left of a tail when its terms are that much smaller than their sum


def log_binomial(k: int, n: int, p: float) -> float:
    """Return log P(X >= k); 0 where k is not above the mean.

    >>> round(math.exp(log_binomial(9, 10, 0.5)), 6)  # 11 of 1024
    0.010742
    """
    if k <= n * p:
        return 0.0
    if p <= 0 or k > n:
        return -math.inf
    first = _log_choose(n, k) + k * math.log(p) + (n - k) * math.log1p(-p)
    odds = p / (1 - p)
    return first + _log_sum(lambda j: (n - j) / (j + 1) * odds, k, n)


def log_hypergeometric(k: int, N: int, K: int, n: int, *, tail: str) -> float:
    """Return log P(X >= k) (tail="upper") or log P(X <= k) ("lower"); 0 where k is on the other side of the mean.

    >>> round(math.exp(log_hypergeometric(4, 8, 4, 4, tail="upper")), 6)  # 1 of 70
    0.014286
    """
    if tail == "lower":  # marked items that are not drawn
        return log_hypergeometric(K - k, N, K, N - n, tail="upper")
    most = min(K, n)
    if N == 0 or k * N <= n * K:
        return 0.0
    if k > most:
        return -math.inf
    first = _log_choose(K, k) + _log_choose(N - K, n - k) - _log_choose(N, n)
    return first + _log_sum(lambda j: (K - j) * (n - j) / ((j + 1) * (N - K - n + j + 1)), k, most)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _log_sum(ratio: Callable[[int], float], low: int, high: int) -> float:
    """Return log of 1 + r(low) + r(low) r(low+1) + ...; above the mean the terms shrink quickly."""
    total = term = 1.0
    for j in range(low, high):
        term *= ratio(j)
        total += term
        if term < _TINY * total:
            break
    return math.log(total)


def benjamini_hochberg(log_tails: Sequence[float], level: float) -> list[bool]:
    """Select tails so that a share of at most `level` of the selected is expected to be chance (1995).

    >>> benjamini_hochberg([math.log(0.001), math.log(0.03), math.log(0.02)], 0.03)
    [True, True, True]
    """
    order = sorted(range(len(log_tails)), key=lambda i: log_tails[i])
    limit = -math.inf
    for rank, i in enumerate(order, start=1):
        if log_tails[i] <= math.log(level * rank / len(log_tails)):
            limit = log_tails[i]
    return [tail <= limit for tail in log_tails]


def holm(tails: Sequence[float]) -> list[float]:
    """Correct p-values for their number, so that the chance of any false finding is kept (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected, largest = [0.0] * len(tails), 0.0
    for rank, i in enumerate(sorted(range(len(tails)), key=lambda i: tails[i])):
        largest = max(largest, min(1.0, (len(tails) - rank) * tails[i]))
        corrected[i] = largest
    return corrected


def bootstrap_sums(columns: npt.NDArray[np.int64], samples: int, seed: int) -> Floats:
    """Return (samples, C): sums of the columns (B, C) over samples of B rows, drawn with replacement."""
    rows, counts = np.unique(columns, axis=0, return_counts=True)
    rng, total = np.random.default_rng(seed), int(counts.sum())
    sums = np.zeros((samples, columns.shape[1]))
    at_once = max(1, _DRAWN // max(len(rows), 1))
    for low in range(0, samples if total else 0, at_once):
        part = slice(low, min(low + at_once, samples))
        sums[part] = rng.multinomial(total, counts / total, size=part.stop - low) @ rows
    return sums


@dataclass(frozen=True, slots=True)
class Comparison:
    """The gain of the second of two ways to label over the first.

    Attributes
    ----------
    gain : float
        Mean difference per sequence.
    low, high : float
        Ends of its 95 % bootstrap interval.
    better, worse : int
        Sequences for which the second way is better, and worse.
    p : float
        Probability of so uneven a count by chance: a sign test, two-sided.
    """

    gain: float
    low: float
    high: float
    better: int
    worse: int
    p: float

    @classmethod
    def of(cls, before: npt.ArrayLike, after: npt.ArrayLike) -> Comparison:
        """Compare figures of the same sequences, one by one.

        Parameters
        ----------
        before, after : array of float, shape (B,)
            A figure of each sequence, by the first way and by the second.

        Returns
        -------
        Comparison
            What the second way gains.

        Examples
        --------
        >>> from bridle.learn import Comparison
        >>> Comparison.of([0, 0, 1, 1], [1, 1, 1, 0]).gain
        0.25
        """
        d = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
        better, worse = int((d > 0).sum()), int((d < 0).sum())
        low, high = _interval(d)
        return cls(float(d.mean()) if len(d) else 0.0, low, high, better, worse, sign_test(better, worse))

    def to_dict(self) -> dict[str, Any]:
        """Convert to what JSON can hold.

        Returns
        -------
        dict
            All attributes by name.
        """
        return asdict(self)

    def __str__(self) -> str:
        points = [f"{100 * x:+.2f}" for x in (self.gain, self.low, self.high)]
        return f"{points[0]} points, 95 % interval {points[1]} to {points[2]}, p = {self.p:.2g}"


def _interval(d: Floats) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the mean; samples are drawn as counts of distinct values."""
    values, counts = np.unique(d, return_counts=True)
    if len(values) < 2:
        return (float(values[0]),) * 2 if len(values) else (0.0, 0.0)
    drawn = np.random.default_rng(_SEED).multinomial(len(d), counts / len(d), size=_SAMPLES)
    low, high = np.quantile(drawn @ values / len(d), [0.025, 0.975])
    return float(low), float(high)


def sign_test(better: int, worse: int) -> float:
    """Return the two-sided p of a sign test.

    >>> round(sign_test(9, 1), 4), sign_test(3, 3)
    (0.0215, 1.0)
    """
    tail = log_binomial(max(better, worse), better + worse, 0.5) if better != worse else 0.0
    return min(1.0, 2 * math.exp(tail))


def log_tail(d: Floats) -> float:
    """Return log of the probability that a sum of differences with random signs is so far above 0."""
    square = float(d @ d)
    z = float(d.sum()) / math.sqrt(square) if square > 0 else 0.0
    return math.log(max(math.erfc(z / math.sqrt(2)) / 2, 1e-300))


def compare_scores(before: SequenceScores, after: SequenceScores) -> dict[str, Comparison]:
    """Compare two labellings by the share of sequences all right (``"exact"``) and by quality."""
    return {
        "exact": Comparison.of(before.exact.astype(np.float64), after.exact.astype(np.float64)),
        "quality": Comparison.of(before.quality, after.quality),
    }
