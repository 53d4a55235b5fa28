"""Two ways to label the same sequences: which is better, and how sure is that?

difference d[b] of each sequence    mean, with the interval that 95 % of the bootstrap samples of the sequences fall in
sign test                           of the sequences that differ, so many are better: by chance with probability p
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.learn.chance import log_binomial
from bridle.report.sequences import SequenceScores

Floats = npt.NDArray[np.float64]
_SAMPLES, _SEED = 2000, 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the second of two ways gains over the first.

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
    """Where the mean of 95 % of the bootstrap samples falls; those that differ from 0 are drawn by their number."""
    values, counts = np.unique(d, return_counts=True)
    if len(values) < 2:
        return (float(values[0]),) * 2 if len(values) else (0.0, 0.0)
    drawn = np.random.default_rng(_SEED).multinomial(len(d), counts / len(d), size=_SAMPLES)
    low, high = np.quantile(drawn @ values / len(d), [0.025, 0.975])
    return float(low), float(high)


def sign_test(better: int, worse: int) -> float:
    """Two-sided.

    >>> round(sign_test(9, 1), 4), sign_test(3, 3)
    (0.0215, 1.0)
    """
    tail = log_binomial(max(better, worse), better + worse, 0.5) if better != worse else 0.0
    return min(1.0, 2 * math.exp(tail))


def log_tail(d: Floats) -> float:
    """log of the probability that a sum of differences is so far above 0 by chance, each with its sign by chance."""
    square = float(d @ d)
    z = float(d.sum()) / math.sqrt(square) if square > 0 else 0.0
    return math.log(max(math.erfc(z / math.sqrt(2)) / 2, 1e-300))


def compared(before: SequenceScores, after: SequenceScores) -> dict[str, Comparison]:
    """Sequences all right, and quality."""
    return {
        "exact": Comparison.of(before.exact.astype(np.float64), after.exact.astype(np.float64)),
        "quality": Comparison.of(before.quality, after.quality),
    }
