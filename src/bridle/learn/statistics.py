"""Significance of rules and of differences between two ways to label the same sequences.

    binomial        P(X >= k),  X = successes in n trials that succeed with p
    hypergeometric  P(X >= k) or P(X <= k),  X = marked items among n drawn from N of which K are marked
    segments        P(c segments of a label | s segments), labels drawn one after another with no memory
    changes         P(b | a ended), if no label prefers another: out[a, b] = row[a] col[b] for a != b, sums as counted

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
    """Return log of 1 + r(low) + r(low) r(low+1) + ...; ratios fall above the mean, so the rest is soon nothing."""
    total = term = 1.0
    for j in range(low, high):
        term *= ratio(j)
        total += term
        if term < _TINY * total:
            break
    return math.log(total)


def change_odds(leaving: npt.NDArray[np.int64], entering: npt.NDArray[np.int64], rounds: int = 100) -> Floats:
    """Return (U, U): P(b comes next | a ended), by iterative proportional fitting: rows and columns in turn."""
    free = 1.0 - np.eye(len(leaving))
    columns = entering.astype(np.float64)
    for _ in range(rounds):
        rows = leaving / np.maximum(free @ columns, 1e-12)
        columns = entering / np.maximum(free @ rows, 1e-12)
    weights = free * columns
    return np.asarray(weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-12))


def segment_counts(share: float, first: float, longest: int, most: int, *, apart: bool) -> Floats:
    """Return (longest + 1, most + 2): P(c segments of a label | s segments in all), the last column for c > most.

    share: of all segments, those of the label; first: of first segments. apart: two segments of one label never touch
    (they would be one), so a label comes next with probability share / (1 - share) after another label, and never after
    itself.
    """
    after_other = min(share / (1 - share), 1.0) if apart and share < 1 else share
    after_self = 0.0 if apart else share
    table = np.zeros((longest + 1, most + 2))
    table[0, 0] = 1
    other, same = table[0].copy(), np.zeros(most + 2)  # by count, the last segment being of another label, or of this
    for s in range(1, longest + 1):
        enters = first if s == 1 else after_other
        into = other * enters + same * after_self
        other = other * (1 - enters) + same * (1 - after_self)
        same = np.concatenate([[0.0], into[:-1]])
        same[-1] += into[-1]
        table[s] = other + same
    return table


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
