"""Maximum likelihood by L-BFGS.

    minimise   sum over sequences of  log Z(x) - w . F(x, y)   + c2 |w|^2 + c1 |w|_1
    gradient   expected counts - gold counts + 2 c2 w

The parts of the data are summed in threads, each into a buffer of its own, and the buffers are added in order: the same
number of threads gives the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from bridle import _native
from bridle.models.lbfgs import Lbfgs
from bridle.models.task import Array, Task, Vector
from bridle.threads import over_parts


class Likelihood:
    """A CRF under way (Lafferty, McCallum, Pereira 2001)."""

    def __init__(self, task: Task, *, c1: float, c2: float, threads: int) -> None:
        self.finished: str | None = None
        self._task, self._c2 = task, c2
        self._cut, bigrams = task.layout.size, 0 if task.pair_free is None else task.m**2
        size = self._cut + bigrams
        self._gold = np.zeros(size)
        task.joined.gold(*self._parts(self._gold))
        pinned = np.zeros(size, dtype=bool)
        if task.layout.free is not None:
            pinned[: self._cut] = task.layout.free == 0
        if task.pair_free is not None:
            pinned[self._cut :] = task.pair_free.ravel() == 0
        self._pinned = np.flatnonzero(pinned)
        self._gold[self._pinned] = 0
        tokens = task.encoded.offsets
        at = np.searchsorted(tokens, np.linspace(0, tokens[-1], threads + 1)[1:-1])
        cuts = [0, *at.tolist(), len(tokens) - 1]
        self._sequences = [(low, high) for low, high in pairwise(cuts) if low < high] or [(0, 0)]
        self._sums = np.empty((len(self._sequences), size))
        self._optimiser = Lbfgs(self._evaluate, np.zeros(size), c1=c1)
        self._c1 = c1

    def step(self) -> float:
        """One iteration of L-BFGS; the loss after it."""
        if not self._optimiser.step():
            self.finished = self._optimiser.why
        return self._optimiser.loss

    def weights(self) -> tuple[Vector, Vector | None]:
        """Weights (W) and label bigrams (m, m)."""
        state, pair = self._parts(self._optimiser.w)
        return state.copy(), None if pair is None else pair.copy()

    def state(self) -> dict[str, Array]:
        """What the optimiser needs to go on."""
        return self._optimiser.state()

    def restore(self, state: Mapping[str, Array]) -> None:
        """Go on from there."""
        self._optimiser = Lbfgs.resume(self._evaluate, state)

    def _parts(self, vector: Vector) -> tuple[Vector, Vector | None]:
        m = self._task.m
        return vector[: self._cut], None if self._task.pair_free is None else vector[self._cut :].reshape(m, m)

    def _evaluate(self, w: Vector) -> tuple[float, Vector]:
        state, pair = self._parts(w)
        rows = dict(zip(self._sequences, self._sums, strict=True))

        def expect(low: int, high: int, stop: _native.Stop) -> float:
            row = rows[low, high]
            row.fill(0)
            into, pair_into = self._parts(row)
            return self._task.joined.expected(state, pair, low, high, into, pair_into, stop)

        log_z = sum(over_parts(expect, self._sequences, len(self._sequences)))
        gradient = self._sums[0]
        for row in self._sums[1:]:
            gradient += row
        gradient -= self._gold
        gradient += (2 * self._c2) * w
        gradient[self._pinned] = 0
        return log_z - _product(w, self._gold) + self._c2 * _product(w, w), gradient


def _product(a: Vector, b: Vector) -> float:
    """a . b, without BLAS, whose threads would decide about the last bits."""
    return float(np.einsum("i,i->", a, b))
