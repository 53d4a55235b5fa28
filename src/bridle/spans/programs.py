"""Selections by integer programs that grow: rules enter when the best selection so far breaks them.

The relaxed problem has fewer rules, so that its best score bounds that of the whole. When its best selection breaks no
other rule, it is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.deadline import Deadline, OutOfTime, current_stop
from bridle.decoding.problem import INFEASIBLE, LIMIT, NOTHING_FOUND, OPTIMAL
from bridle.errors import EngineError
from bridle.labels import Labels
from bridle.rules.base import Soft
from bridle.spans.candidates import Candidates
from bridle.spans.item_rules import ItemRules
from bridle.spans.items import OUTSIDE, Task, boundaries, pieces
from bridle.spans.lattice import Ints
from bridle.spans.program import Pieces, Program, Solved
from bridle.spans.readers import Reader, readers_of
from bridle.spans.selection import Choice

_NEAR = 1e-5  # how far the solver's bound may be from the score that it proves, relative to its size
_MOST_HELD = 5_000_000  # pairs of a candidate and a stretch that it holds: as entries of rows, about 400 megabytes


class SelectionProblem:
    """Candidates and rules of one text, ready for integer programs."""

    def __init__(self, task: Task, rules: ItemRules, labels: Labels, deadline: Deadline, *, nested: bool) -> None:
        document, candidates = task.document, task.candidates
        self.candidates, self.rules, self.nested = candidates, rules.rules, nested
        n_candidates = len(candidates)
        cuts, inside = boundaries(document, candidates.start, candidates.end)
        first, last = pieces(document, cuts)
        self.pieces = Pieces(
            _holders(candidates, cuts, deadline), np.stack([first, last], 1), np.stack([inside[first], inside[last]], 1)
        )
        start, end = np.concatenate([candidates.start, cuts[first]]), np.concatenate([candidates.end, cuts[last]])
        self.order = np.lexsort((-end, start))  # (E,)  items as they are read: candidates, then pieces, by number
        self.at = np.empty(len(self.order), dtype=np.int64)  # (E,)  where each is in that order
        self.at[self.order] = np.arange(len(self.order))
        start, end = start[self.order].astype(np.int32), end[self.order].astype(np.int32)
        self.label = np.concatenate([task.ids, np.full(len(first), OUTSIDE, np.int32)])[self.order].astype(np.int32)
        self.outside = self.order >= n_candidates
        values = rules.given(document, start, end, labels, task.given)
        texts = document.texts(start, end) if rules.needs_texts else []
        self.readers: list[list[Reader]] = [
            readers_of(number, rule, self.label, labels, values, texts) for number, rule in enumerate(self.rules)
        ]

    def best(self, deadline: Deadline, found: Choice | None = None) -> Choice:
        """The best selection, by as few rules as it takes. found: what another engine found within its limits."""
        gains, active = self.candidates.gains, set[int]()
        best = Choice([], -np.inf, np.inf, NOTHING_FOUND, [0] * len(self.rules), "ilp", {"programs": 0, "rules": 0})
        if found is not None and found.score > -np.inf:
            best = replace(best, indices=found.indices, score=found.score, violations=found.violations, status=LIMIT)
        seconds = -1.0 if deadline.left is None else deadline.left
        start, end = self.candidates.start, self.candidates.end
        chosen = _native.best_intervals(start, end, gains, self.nested, seconds, current_stop())
        if chosen is None:
            return best if found is None else replace(best, bound=found.bound)
        solved = Solved(chosen, float(gains[chosen].sum()), True)
        while True:
            if solved.infeasible:
                return replace(best, bound=-np.inf, status=INFEASIBLE)
            bound = min(best.bound, solved.bound)
            if solved.chosen is None:
                return replace(best, bound=bound)
            counts = self._violations(solved.chosen)
            total = float(gains[solved.chosen].sum())
            relaxed = total - sum(self._price(r, counts[r]) for r in active)
            if solved.proved:
                _certify(relaxed, solved.bound)
                bound = min(best.bound, relaxed)
            score = total - sum(self._price(r, v) for r, v in enumerate(counts))
            if score > best.score:
                indices = sorted(solved.chosen, key=lambda c: self.at[c])
                best = replace(best, indices=indices, score=score, status=LIMIT, violations=counts)
            new = {r for r, v in enumerate(counts) if v and r not in active and self._price(r, v) > 0}
            if not new:
                bound, status = (best.score, OPTIMAL) if solved.proved else (bound, LIMIT)
                return replace(best, bound=bound, status=status)
            best = replace(best, bound=bound)
            active |= new
            try:
                solved = self._program(active, deadline).solve()
            except OutOfTime:
                return best
            best.stats.update(programs=best.stats["programs"] + 1, rules=len(active))

    def _price(self, number: int, violations: int) -> float:
        rule = self.rules[number]
        return rule.cost(violations) if isinstance(rule, Soft) else np.inf if violations else 0.0

    def _violations(self, chosen: Sequence[int]) -> list[int]:
        n_candidates = len(self.candidates)
        left = [n_candidates + p for p in self.pieces.uncovered(chosen)]
        items = sorted(int(self.at[k]) for k in [*chosen, *left])
        return [sum(reader.violations(items) for reader in some) for some in self.readers]

    def _program(self, active: set[int], deadline: Deadline) -> Program:
        program = Program(self.candidates.gains, deadline)
        program.exclude(_crossing(self.candidates) if self.nested else _clashing(self.pieces.held))
        asks = any(bool((reader.matters & self.outside).any()) for r in active for reader in self.readers[r])
        outside = program.pieces(self.pieces) if asks else [-1] * len(self.pieces.parts)
        columns = np.concatenate([np.arange(len(self.candidates)), np.array(outside, dtype=np.int64)])
        items = columns[self.order].tolist()
        for r in sorted(active):
            program.rule(self.rules[r], self.readers[r], items, self.label)
        return program


def _certify(value: float, bound: float) -> None:
    """Rounding in the solver must not pass as an answer."""
    if not abs(value - bound) <= _NEAR * (1.0 + abs(value)):
        raise EngineError(
            "the solver did not prove its selection to be the best",
            got=bound,
            wanted=value,
            cause="Scores of very different sizes?",
        )


def _holders(candidates: Candidates, cuts: Ints, deadline: Deadline) -> list[list[int]]:
    """Of each stretch between neighbouring boundaries, the candidates that hold it.

    Raises OutOfTime if it is too late, or if there are too many.
    """
    first, last = np.searchsorted(cuts, candidates.start), np.searchsorted(cuts, candidates.end)
    possible = np.flatnonzero(candidates.gains > -np.inf)
    if int((last - first)[possible].sum()) > _MOST_HELD:
        raise OutOfTime
    held: list[list[int]] = [[] for _ in range(len(cuts) - 1)]
    for c in possible.tolist():
        deadline.check()
        for g in range(first[c], last[c]):
            held[g].append(c)
    return held


def _clashing(held: list[list[int]]) -> Iterator[list[int]]:
    """Groups of candidates that share a place."""
    return (its for its in {tuple(its): its for its in held if len(its) > 1}.values())


def _crossing(candidates: Candidates) -> Iterator[Sequence[int]]:
    """Candidates that cross, in pairs; and those that are equal."""
    order = np.lexsort((-candidates.end, candidates.start))
    order = order[candidates.gains[order] > -np.inf]
    start, end = candidates.start[order], candidates.end[order]
    last = np.searchsorted(start, end, "left")  # those that start before it ends
    first = np.searchsorted(start, start, "right")  # ... and after it starts
    for k in range(len(order)):
        others: npt.NDArray[np.intp] = first[k] + np.flatnonzero(end[first[k] : last[k]] > end[k])
        yield from ((int(order[k]), int(order[j])) for j in others)
    equal: dict[tuple[int, int], list[int]] = {}
    for k in order.tolist():
        equal.setdefault((int(candidates.start[k]), int(candidates.end[k])), []).append(k)
    yield from (some for some in equal.values() if len(some) > 1)
