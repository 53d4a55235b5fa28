"""Machines: deterministic automata that count violations while they read a labelling.

A rule describes its machine lazily, as a `Walk` (a start state and a step function over any hashable states);
`Machine.build` explores it, merges states that no input can tell apart and lays it out as tables.

Positions may matter through *marks*: position t carries a small number (0: nothing special), and the step may look at
it. A machine holds tables only for the marks that occur.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from bridle.automata.dfa import DFA
from bridle.automata.refine import refine
from bridle.errors import RuleError

State = Hashable
MAX_STATES = 1 << 14


@dataclass(frozen=True, slots=True)
class Count:
    """A machine that only counts: violations = what the sum of `edges` is above (sense <=) or below (>=) `limit`.

    This is the one linear row that a Lagrangian multiplier needs. Row m of `edges` is the start of the sequence.
    """

    edges: npt.NDArray[np.bool_]  # (m + 1, m)  does label j count when it comes just after label i?
    limit: int
    sense: Literal["<=", ">="]


@dataclass(frozen=True, slots=True)
class Walk:
    """A machine given by functions."""

    start: State
    step: Callable[[State, int, int], tuple[State, int]]  # (state, label, mark) -> (next state, violations)
    final: Callable[[State], int] = lambda _state: 0  # violations that show at the end
    count: Count | None = None
    room: Callable[[State], int] = lambda _state: 0  # with `count`: what is left of the limit (>=: minus what lacks)


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """Tables of a counting automaton; it starts in state 0."""

    step: npt.NDArray[np.int32]  # (K, S, m)  next state, for each mark that occurs
    hits: npt.NDArray[np.int32]  # (K, S, m)  violations on the way
    final: npt.NDArray[np.int32]  # (S,)       violations at the end
    marks: tuple[int, ...] = (0,)  # (K,)       the mark that each table is for
    count: Count | None = None
    room: npt.NDArray[np.int32] | None = None  # (S,)

    @property
    def n_states(self) -> int:
        return int(self.step.shape[1])

    @classmethod
    def build(cls, walk: Walk, n_labels: int, marks: Sequence[int] = (0,)) -> Machine:
        """Explore a walk under the given marks and minimise it."""
        ids: dict[State, int] = {walk.start: 0}
        todo: list[State] = [walk.start]
        step: list[list[list[int]]] = []
        hits: list[list[list[int]]] = []
        for state in todo:  # grows while we walk
            moves = [[walk.step(state, y, mark) for y in range(n_labels)] for mark in marks]
            for nxt, _ in (move for row in moves for move in row):
                if nxt not in ids:
                    ids[nxt] = len(todo)
                    todo.append(nxt)
            step.append([[ids[nxt] for nxt, _ in row] for row in moves])
            hits.append([[v for _, v in row] for row in moves])
            if len(todo) > MAX_STATES:
                raise RuleError(
                    "the automaton of a rule is too large",
                    got=f"over {MAX_STATES} states",
                    wanted="a smaller rule",
                    cause="A Boolean formula over many positions, or a large count? Split it into several rules.",
                )
        steps, counts = np.array(step, dtype=np.int64), np.array(hits, dtype=np.int64)  # (S, K, m)
        final = np.array([walk.final(s) for s in todo], dtype=np.int64)
        room = np.array([walk.room(s) for s in todo], dtype=np.int64)
        flat = len(todo)
        shown = np.concatenate([final[:, None], room[:, None], counts.reshape(flat, -1)], axis=1)
        block = refine(shown, steps.reshape(flat, -1))
        _, first = np.unique(block, return_index=True)
        return cls(
            np.ascontiguousarray(block[steps[first]].transpose(1, 0, 2), dtype=np.int32),
            np.ascontiguousarray(counts[first].transpose(1, 0, 2), dtype=np.int32),
            final[first].astype(np.int32),
            tuple(marks),
            walk.count,
            room[first].astype(np.int32) if walk.count is not None else None,
        )

    def violations(self, ids: Sequence[int] | npt.NDArray[np.integer], marks: Sequence[int] | None = None) -> int:
        """Run the machine over a labelling."""
        s, total = 0, 0
        for t, y in enumerate(ids):
            k = self.marks.index(marks[t] if marks is not None else 0)
            total += int(self.hits[k, s, y])
            s = int(self.step[k, s, y])
        return total + int(self.final[s])

    def dfa(self, mark: int = 0) -> DFA:
        """The yes/no automaton of a machine whose positions all carry one mark: accepts what has no violation."""
        k = self.marks.index(mark)
        dead = self.n_states
        step = np.where(self.hits[k] > 0, dead, self.step[k]).astype(np.int64)
        step = np.concatenate([step, np.full((1, step.shape[1]), dead)])
        return DFA(step, np.append(self.final == 0, False)).minimal()
