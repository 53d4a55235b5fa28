"""Maximum likelihood by L-BFGS.

    minimise   sum over sequences of  log Z(x) - (w + mean) . F(x, y)   + c2 |w|^2 + c1 |w|_1
    gradient   expected counts at w + mean - gold counts + 2 c2 w          the mean is 0, or that of unlabelled.py

c2 of label bigrams may be another one (Fersini et al. 2012, equations 5 and 6).

Where labels are not known, the sequence adds  log Z(x) - log Z(labellings that agree with what is known),  and its
gradient is the difference of the expected counts: no longer convex, but training from zero weights works, as the known
labels say what the unknown ones are. task.py says what weights of labels do.

The parts of the data are summed in threads, each into a buffer of its own, and the buffers are added in order: the same
number of threads gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np

from bridle import _native
from bridle.decoding.threads import over_parts
from bridle.errors import ModelError
from bridle.models.lbfgs import Lbfgs, gradient_of
from bridle.models.linear import Array, Vector, Weights
from bridle.models.task import Task, check_state

SINGLE = 20_000  # tokens from which on passes run in single precision: rounding is far below what they leave uncertain


class Objective:
    """The smooth part of the loss, and its gradient.

    w is the weights (W), behind them the label bigrams (m, m), behind them those with the text (E).
    """

    def __init__(
        self,
        task: Task,
        c2: float,
        threads: int,
        class_weight: Vector | None = None,
        mean: Vector | None = None,
        *,
        c2_transitions: float | None = None,
    ) -> None:
        self._task, self._threads = task, threads
        self._c2, self._c2_transitions = c2, c2 if c2_transitions is None else c2_transitions
        self._cost = None if class_weight is None else np.log(class_weight)  # (m) of softmax-margin
        self._bundles = task.bundles
        self._cut, bigrams = task.layout.size, 0 if task.pair_free is None else task.m**2
        self._edge_cut = self._cut + bigrams
        self.size, slots = self._edge_cut + task.n_edges, self._bundles.n_slots
        single = task.encoded.n_tokens >= SINGLE
        self._weights: Array = np.empty(slots, np.float32 if single else np.float64)  # of attributes and of bundles
        tokens = task.encoded.offsets
        at = np.searchsorted(tokens, np.linspace(0, tokens[-1], threads + 1)[1:-1])
        cuts = [0, *at.tolist(), len(tokens) - 1]
        self._sequences = [(low, high) for low, high in pairwise(cuts) if low < high] or [(0, 0)]
        self._counts = np.zeros((len(self._sequences), slots))  # the kernels leave what belongs to bundles at 0
        self._bigrams = np.empty((len(self._sequences), bigrams))
        self._edges = None if task.edges is None else _Edges(task.edges, task, len(self._sequences))
        self._gradient, self._gold = np.empty(self.size), np.zeros(self.size)
        counts, (_, pair, edges) = np.zeros(slots), self.parts(self._gold)
        self._bundles.gold(counts, pair)
        if task.edges is not None and edges is not None:
            task.edges.gold(edges)
        self._gold[: self._cut] = counts[: self._cut]
        self._mean = mean
        self._of_mean = 0.0 if mean is None else float(mean @ counts[: self._cut])
        pinned = np.zeros(self.size, dtype=bool)
        if task.layout.free is not None:
            pinned[: self._cut] = task.layout.free == 0
        if task.pair_free is not None:
            pinned[self._cut : self._edge_cut] = task.pair_free.ravel() == 0
        self.pinned = np.flatnonzero(pinned)  # weights that stay 0
        self._gold[self.pinned] = 0

    def _square(self, bigrams: Vector) -> Vector | None:
        """Reshape label bigrams to (m, m)."""
        return None if self._task.pair_free is None else bigrams.reshape(self._task.m, self._task.m)

    def parts(self, vector: Vector) -> Weights:
        """Split a vector into weights (W), label bigrams (m, m) and those with the text (E)."""
        edges = None if self._task.layout.edges is None else vector[self._edge_cut :]
        return vector[: self._cut], self._square(vector[self._cut : self._edge_cut]), edges

    def __call__(self, w: Vector) -> tuple[float, Vector]:
        """Compute the loss and its gradient, in a buffer that the next call overwrites."""
        _, pair, edge_weights = self.parts(w)
        edges, weights = self._edges, self._weights
        weights[: self._cut] = w[: self._cut] if self._mean is None else w[: self._cut] + self._mean
        self._over(len(self._bundles), lambda low, high: self._bundles.extend(weights, low, high))
        if edges is not None and edge_weights is not None:
            native, *buffers = edges.native, edges.factor, edges.spread
            self._over(edges.size, lambda low, high: native.prepare(edge_weights, low, high, *buffers))
        places = {part: k for k, part in enumerate(self._sequences)}

        def expect(low: int, high: int, stop: _native.Stop) -> float:
            part = places[low, high]
            counts, bigrams = self._counts[part], self._bigrams[part]
            counts[: self._cut] = 0
            bigrams.fill(0)
            rest = low, high, counts, self._square(bigrams)
            if edges is None or edge_weights is None:
                return self._bundles.expected(weights, pair, *rest, stop, self._cost)
            edges.counts[part].fill(0)
            table = pair, edge_weights, edges.factor, edges.spread
            return edges.native.expected(self._bundles, weights, *table, *rest, edges.counts[part], stop, self._cost)

        loss = sum(over_parts(expect, self._sequences, len(self._sequences)))
        state, bigrams = slice(0, self._cut), slice(self._cut, self._edge_cut)
        sums_of = [(state, self._counts[:, state], self._c2), (bigrams, self._bigrams, self._c2_transitions)]
        if self._edges is not None:
            sums_of.append((slice(self._edge_cut, None), self._edges.counts, self._c2_transitions))
        for part, sums, c2 in sums_of:
            of_gold, square = gradient_of(
                list(sums), self._gold[part], w[part], 2 * c2, out=self._gradient[part], threads=self._threads
            )
            loss += c2 * square - of_gold
        self._gradient[self.pinned] = 0
        return loss - self._of_mean, self._gradient

    def _over(self, count: int, work: Callable[[int, int], None]) -> None:
        """Call work(low, high) for parts of 0 .. count, in threads."""
        at = [count * k // self._threads for k in range(self._threads + 1)]
        over_parts(lambda low, high, _: work(low, high), list(pairwise(at)), self._threads)


class _Edges:
    """Buffers of label bigrams together with the text."""

    def __init__(self, native: _native.Edges, task: Task, parts: int) -> None:
        self.native, self.size = native, 0 if task.encoded.edges is None else task.encoded.edges.size
        self.factor, self.spread = np.empty(task.n_edges), np.empty(self.size)  # that `prepare` of the kernels fills
        self.counts = np.empty((parts, task.n_edges))  # expected ones, of each part of the sequences


class Likelihood:
    """The learner of a CRF (Lafferty, McCallum, Pereira 2001)."""

    def __init__(
        self,
        task: Task,
        *,
        c1: float,
        c2: float,
        threads: int,
        start: Weights | None = None,  # weights to begin with, without the mean; None: zeros
        class_weight: Vector | None = None,  # (m); None: all are 1
        mean: Vector | None = None,  # (W) that weights of attributes are drawn to; None: zeros
        c2_transitions: float | None = None,  # of label bigrams, with the text or without; None: c2
    ) -> None:
        self.finished: str | None = None
        self._threads = threads
        self._mean = mean
        self._objective = Objective(task, c2, threads, class_weight, mean, c2_transitions=c2_transitions)
        w = np.zeros(self._objective.size)
        if start is not None:
            w[:] = np.concatenate([part.ravel() for part in start if part is not None])
        self._optimiser = Lbfgs(self._objective, w, c1=c1, threads=threads)

    def step(self) -> float:
        """Do one iteration of L-BFGS; return the loss after it."""
        if not self._optimiser.step():
            self.finished = self._optimiser.why
        return self._optimiser.loss

    def weights(self) -> Weights:
        """Return weights (W), label bigrams (m, m) and those with the text (E)."""
        own, pair, edges = self.learned()
        return own if self._mean is None else own + self._mean, pair, edges

    def learned(self) -> Weights:
        """Return the weights without the mean."""
        state, pair, edges = self._objective.parts(self._optimiser.w)
        return state.copy(), None if pair is None else pair.copy(), None if edges is None else edges.copy()

    def state(self) -> dict[str, Array]:
        """Return what the optimiser needs to go on."""
        return self._optimiser.state()

    def restore(self, state: Mapping[str, Array]) -> None:
        """Go on from a state."""
        now = self._optimiser.state()
        check_state(state, now, but=("steps", "changes"))  # whose shapes `resume` looks at
        if state["numbers"][1] != now["numbers"][1] or state["counts"][0] != now["counts"][0]:
            raise ModelError("the state is that of other settings", wanted="the same c1 and memory")
        if state["counts"].min() < 0:
            raise ModelError("a count is negative", got=state["counts"].tolist(), wanted="numbers >= 0")
        optimiser = Lbfgs.resume(self._objective, state, threads=self._threads)
        if any(state[name][..., self._objective.pinned].any() for name in ("w", "gradient", "steps", "changes")):
            raise ModelError("a weight that this training does not have is not zero", wanted="what training writes")
        self._optimiser = optimiser
