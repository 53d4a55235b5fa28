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
from bridle.models.task import Array, Task, Vector, check_state
from bridle.models.vectors import combine, products
from bridle.threads import over_parts


class Objective:
    """The smooth part of the loss, and its gradient; w is the weights (W) with the label bigrams (m, m) behind them."""

    def __init__(self, task: Task, c2: float, threads: int) -> None:
        self._task, self._c2, self._threads = task, c2, threads
        self._cut, bigrams = task.layout.size, 0 if task.pair_free is None else task.m**2
        self.size = self._cut + bigrams
        self._gold = np.zeros(self.size)
        task.joined.gold(*self.parts(self._gold))
        pinned = np.zeros(self.size, dtype=bool)
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
        self._sums = np.empty((len(self._sequences), self.size))

    def parts(self, vector: Vector) -> tuple[Vector, Vector | None]:
        """Weights (W) and label bigrams (m, m) of a vector."""
        m = self._task.m
        return vector[: self._cut], None if self._task.pair_free is None else vector[self._cut :].reshape(m, m)

    def __call__(self, w: Vector) -> tuple[float, Vector]:
        """The loss and its gradient, in a buffer that the next call overwrites."""
        state, pair = self.parts(w)
        rows = dict(zip(self._sequences, self._sums, strict=True))

        def expect(low: int, high: int, stop: _native.Stop) -> float:
            row = rows[low, high]
            row.fill(0)
            into, pair_into = self.parts(row)
            return self._task.joined.expected(state, pair, low, high, into, pair_into, stop)

        log_z = sum(over_parts(expect, self._sequences, len(self._sequences)))
        gradient = self._sums[0]
        shares = [1.0] * len(self._sums) + [-1.0, 2 * self._c2]
        combine(shares, [*self._sums, self._gold, w], out=gradient, threads=self._threads)
        gradient[self._pinned] = 0
        of_gold, square = products([w], [self._gold, w], self._threads)[0].tolist()
        return log_z - of_gold + self._c2 * square, gradient


class Likelihood:
    """A CRF under way (Lafferty, McCallum, Pereira 2001)."""

    def __init__(self, task: Task, *, c1: float, c2: float, threads: int) -> None:
        self.finished: str | None = None
        self._threads = threads
        self._objective = Objective(task, c2, threads)
        self._optimiser = Lbfgs(self._objective, np.zeros(self._objective.size), c1=c1, threads=threads)

    def step(self) -> float:
        """One iteration of L-BFGS; the loss after it."""
        if not self._optimiser.step():
            self.finished = self._optimiser.why
        return self._optimiser.loss

    def weights(self) -> tuple[Vector, Vector | None]:
        """Weights (W) and label bigrams (m, m)."""
        state, pair = self._objective.parts(self._optimiser.w)
        return state.copy(), None if pair is None else pair.copy()

    def state(self) -> dict[str, Array]:
        """What the optimiser needs to go on."""
        return self._optimiser.state()

    def restore(self, state: Mapping[str, Array]) -> None:
        """Go on from there."""
        check_state(state, self._optimiser.state(), but=("steps", "changes"))  # whose shapes `resume` looks at
        self._optimiser = Lbfgs.resume(self._objective, state, threads=self._threads)
