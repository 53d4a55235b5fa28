"""Engines of span selection: which one answers, and how rules reach it.

Without rules, a dynamic program over intervals. Under rules, the best path through items, into which rules are folded
when it breaks them; spans that may nest are arcs that hold others. Where folding takes too much: an integer program.
"""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.deadline import Deadline, OutOfTime, current_stop
from bridle.decoding.problem import INFEASIBLE, LIMIT, NOTHING_FOUND, OPTIMAL, TOO_LARGE, Limits
from bridle.errors import BridleError
from bridle.lattice import Scores
from bridle.rules.compiled import CompiledRules
from bridle.spans.candidates import Candidates
from bridle.spans.item_rules import ItemRules
from bridle.spans.items import Task, item_graph
from bridle.spans.labels import SpanLabels
from bridle.spans.packed import without_forbidden
from bridle.spans.programs import SelectionProblem
from bridle.spans.selection import Choice

Overlap = Literal["forbid", "nest"]
_MOST_STATES = 1 << 14  # of folded rules. Measured with 1,000 candidates: from there on the integer program is faster


class CompiledSelector:
    """Rules for some labels, in the kernels' hands."""

    def __init__(self, labels: SpanLabels, items: ItemRules, overlap: Overlap, limits: Limits) -> None:
        self.labels, self.items, self.overlap, self.limits = labels, items, overlap, limits
        folding = Limits(limits.time_limit, _MOST_STATES, limits.max_memory)
        try:
            self._rules = CompiledRules(labels, items.rules, folding.native(), absorb="words")
        except BridleError as error:
            raise items.about_spans(error) from None

    def best(self, task: Task, deadline: Deadline) -> Choice:
        """The best choice under the rules."""
        try:
            folded = self._by_folding(task)
            if folded.status in (OPTIMAL, INFEASIBLE) or deadline.passed():
                return folded
            try:
                problem = SelectionProblem(task, self.items, self.labels, deadline, nested=self.overlap == "nest")
            except OutOfTime:
                return folded
            return problem.best(deadline, folded)
        except BridleError as error:
            raise self.items.about_spans(error) from None

    def _by_folding(self, task: Task) -> Choice:
        """The best path through items, rules folded in as they are broken."""
        graph = item_graph(task)
        values = self.items.given(task.document, graph.start, graph.end, self.labels, task.given)
        offsets = np.array([0, len(graph.label)], dtype=np.int64)
        native, bound, gains = self._rules.native("words"), None, graph.gains
        if native.depends:
            texts = task.document.texts(graph.start, graph.end) if self.items.needs_texts else None
            bound = self._rules.bind(native, offsets, [values], many=False, texts=texts)
            gains = without_forbidden(gains, graph.label, cast("npt.NDArray[np.uint64] | None", bound.allowed))
        problem = _native.Problem(native, bound, gains, offsets, None, [(None, None, None)], None)
        path, length = np.zeros(len(graph.label), dtype=np.int32), np.zeros(1, dtype=np.int32)
        score, upper, status = np.full(1, -np.inf), np.full(1, np.inf), np.zeros(1, dtype=np.uint8)
        violations = np.zeros((1, len(self.items.rules)), dtype=np.int32)
        counters = np.zeros((1, _native.N_COUNTERS), dtype=np.int64)
        n = np.array([graph.n], dtype=np.int32)
        extents = np.stack([graph.start, graph.end], axis=1) if self.overlap == "nest" else None
        answers = path, length, score, upper, status, violations, counters
        problem.decode_spans(n, graph.nodes, graph.label, True, current_stop() or _native.Stop(), *answers, extents)
        chosen = path[: length[0]]
        indices = (chosen[chosen >= graph.first] - graph.first).tolist()
        stats = {"rounds": int(counters[0, 0]), "states": int(counters[0, 1])}
        most = float(upper[0]) if upper[0] < np.inf else _most(graph.gains)
        ended = NOTHING_FOUND if status[0] == TOO_LARGE else int(status[0])
        return Choice(indices, float(score[0]), most, ended, violations[0].tolist(), "search", stats)


def best_without_rules(candidates: Candidates, overlap: Overlap, deadline: Deadline) -> Choice:
    """The best choice, by a dynamic program over intervals; disjoint spans if time is up before nested ones are."""
    start, end, gains = candidates.start, candidates.end, candidates.gains
    seconds = -1.0 if deadline.left is None else deadline.left
    chosen = _native.best_intervals(start, end, gains, overlap == "nest", seconds, current_stop())
    if chosen is not None:
        score = float(gains[chosen].sum())
        return Choice(chosen, score, score, OPTIMAL, [], "intervals", {})
    chosen = _native.best_intervals(start, end, gains, nested=False)
    assert chosen is not None
    score = float(gains[chosen].sum())
    return Choice(chosen, score, max(score, _most(gains)), LIMIT, [], "intervals", {})


def _most(gains: Scores) -> float:
    """What no choice exceeds."""
    return float(np.maximum(gains, 0.0).sum())
