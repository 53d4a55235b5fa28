"""Learners that are driven by mistakes: weights change where the current ones are wrong.

    structured perceptron (Collins 2002):   y^ = best labelling;  w += F(x, y) - F(x, y^)
    the same, inference-based:              y^ = best labelling under the rules
    local perceptron and winnow:            token by token, also when right by no more than a margin

Tokens without a label are skipped by the local ones. For the structured one, y is then the best of the labellings that
agree with what is known. Updates are scaled by the weights of labels (task.py).

"averaged" gives the mean of the weights over all steps (what Roth & Yih 2005 call voted), "last" those at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.decoding.decoder import Decoder, TrainingRules
from bridle.decoding.problem import INFEASIBLE
from bridle.errors import BridleError, ModelError
from bridle.lattice import Lattice
from bridle.models.linear import Array, Vector, Weights
from bridle.models.task import Task, check_state

Average = Literal["averaged", "last"]


class AveragedWeights:
    """Weights that change step by step, and their mean."""

    def __init__(
        self, task: Task, average: Average, seed: int, start: float = 0.0, class_weight: Vector | None = None
    ) -> None:
        self.finished: str | None = None
        self._class_weight, self._known = class_weight, max(int((task.y >= 0).sum()), 1)
        self._task, self._average, self._seed, self._epoch = task, average, seed, 0
        free = task.layout.free
        self._w = np.full(task.layout.size, start) if free is None else np.where(free, start, 0.0)
        self._sum = np.zeros(task.layout.size)
        self._pair: Vector | None = None if task.pair_free is None else np.zeros((task.m, task.m))
        self._pair_sum: Vector | None = None if self._pair is None else np.zeros_like(self._pair)
        with_text = task.layout.edges is not None
        self._edges: Vector | None = np.zeros(task.n_edges) if with_text else None
        self._edges_sum: Vector | None = np.zeros(task.n_edges) if with_text else None
        self._native = self._moving(0)

    def _moving(self, step: int) -> _native.AveragedWeights:
        pairs = self._pair, self._pair_sum, self._task.pair_free
        edges = self._task.edges, self._edges, self._edges_sum
        return _native.AveragedWeights(self._w, self._sum, *pairs, step, self._class_weight, *edges)

    def _order(self, count: int) -> npt.NDArray[np.int64]:
        """Return another order in each epoch, by the seed and the epoch only, so that training can be resumed."""
        return np.random.default_rng((self._seed, self._epoch)).permutation(count)

    def _ended(self, wrong: int, why: str) -> float:
        self._epoch += 1
        self.finished = why if wrong == 0 else None
        return wrong / self._known

    def weights(self) -> Weights:
        """Return weights (W), label bigrams (m, m) and those with the text (E)."""
        steps = self._native.step if self._average == "averaged" else 0

        def mean(last: Vector, total: Vector) -> Vector:
            return last - total / steps if steps else last.copy()

        pair = None if self._pair is None or self._pair_sum is None else mean(self._pair, self._pair_sum)
        edges = None if self._edges is None or self._edges_sum is None else mean(self._edges, self._edges_sum)
        return mean(self._w, self._sum), pair, edges

    def state(self) -> dict[str, Array]:
        """Return weights, sums, and the numbers of epochs and steps."""
        out: dict[str, Array] = {"w": self._w, "sum": self._sum}
        if self._pair is not None and self._pair_sum is not None:
            out |= {"pair": self._pair, "pair_sum": self._pair_sum}
        if self._edges is not None and self._edges_sum is not None:
            out |= {"edges": self._edges, "edges_sum": self._edges_sum}
        return out | {"at": np.array([self._epoch, self._native.step], dtype=np.int64)}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Go on from a state."""
        check_state(state, self.state())
        epoch, step = (int(x) for x in state["at"])
        if not (0 <= epoch < 1 << 32 and 0 <= step < 1 << 62):
            raise ModelError("a count of steps makes no sense", got=[epoch, step], wanted="what training writes")
        for weights, pair in (("w", "pair"), ("sum", "pair_sum")):
            self._task.check_pinned(state[weights], state.get(pair))
        for name in ("w", "sum", "pair", "pair_sum", "edges", "edges_sum"):
            if name in state:
                getattr(self, f"_{name}")[...] = state[name]
        self._epoch, self._native = epoch, self._moving(step)


class Perceptron(AveragedWeights):
    """The structured perceptron; with a decoder it finds y^ under rules."""

    def __init__(
        self,
        task: Task,
        *,
        average: Average,
        seed: int,
        decoder: Decoder | None = None,
        given: Sequence[Mapping[str, Any]] | None = None,
        class_weight: Vector | None = None,
    ) -> None:
        if decoder is not None and (task.y < 0).any():
            raise ModelError(
                "inference-based training needs all labels",
                got=f"{int((task.y < 0).sum()):,} missing labels",
                wanted="a label for every token",
                cause="Leave out sequences with missing labels, or train with algorithm='lbfgs' or 'perceptron'.",
            )
        super().__init__(task, average, seed, class_weight=class_weight)
        self._decoder, self._given = decoder, given
        self._rules = None if decoder is None else TrainingRules(decoder, task.encoded.offsets, given)

    def step(self) -> float:
        """Do one pass over the sequences; return the share of wrong tokens on the way."""
        order = self._order(len(self._task.encoded))
        if self._decoder is None or self._rules is None:
            wrong = self._native.perceptron_pass(self._task.joined, order)
        else:
            wrong = self._under_rules(self._decoder, self._rules, order)
        return self._ended(wrong, "no mistakes left")

    def _under_rules(self, decoder: Decoder, rules: TrainingRules, order: npt.NDArray[np.int64]) -> int:
        if self._edges is not None:  # the kernel has one table of transitions for all tokens
            return sum(self._update(decoder, int(b)) for b in order)
        wrong = 0
        while len(order):
            done, more, status = self._native.perceptron_pass_under_rules(self._task.joined, rules.native, order)
            wrong, order = wrong + more, order[done:]
            if not len(order):
                break
            b = int(order[0])  # which the kernel has left to us
            try:
                if status == INFEASIBLE and rules.relax():
                    continue
            except BridleError as error:
                error.at(sequence=b)
                raise
            wrong, order = wrong + self._update(decoder, b), order[1:]
        return wrong

    def _update(self, decoder: Decoder, b: int) -> int:
        """Decode one sequence and update the weights; return the number of wrong tokens."""
        low, high = self._task.encoded.offsets[b : b + 2].tolist()
        unary, pairwise = np.empty((high - low, self._task.m)), self._pair
        self._task.joined.score(low, self._w, unary)
        if self._task.edges is not None and self._edges is not None and high - low > 1:
            pairwise = np.empty((high - low - 1, self._task.m, self._task.m))
            self._task.edges.steps(b, self._pair, self._edges, pairwise)
        try:
            decoding = decoder.decode(Lattice(unary, pairwise), None if self._given is None else self._given[b])
        except BridleError as error:
            error.at(sequence=b)
            raise
        return self._native.perceptron_update(self._task.joined, b, np.ascontiguousarray(decoding.ids, dtype=np.int32))


class Local(AveragedWeights):
    """Perceptron and winnow over single tokens, with a margin."""

    def __init__(
        self,
        task: Task,
        *,
        winnow: bool,
        margin: float,
        rate: float,
        average: Average,
        seed: int,
        class_weight: Vector | None = None,
    ) -> None:
        values = task.encoded.values
        if winnow and values is not None and values.size and values.min() < 0:
            raise ModelError(
                "winnow takes no negative values",
                got=float(values.min()),
                wanted="values >= 0",
                cause="Its weights are positive: what speaks against a label cannot be learned.",
            )
        super().__init__(task, average, seed, 1.0 if winnow else 0.0, class_weight)
        self._winnow, self._margin, self._rate = winnow, margin, rate

    def step(self) -> float:
        """Do one pass over the tokens; return the share of wrong tokens on the way."""
        order = self._order(self._task.encoded.n_tokens)
        wrong, updates = self._native.local_pass(self._task.joined, self._winnow, self._margin, self._rate, order)
        share = self._ended(updates, "every token is right by more than the margin")
        return wrong / self._known if updates else share
