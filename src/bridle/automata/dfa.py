"""Deterministic automata over label ids 0..m-1, complete (every state steps on every label), with their algebra.

a & b  both        a | b  either        ~a  not        a <= b  inclusion        a == b  same language
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bridle.automata.refine import refine
from bridle.deadline import check_stopped


@dataclass(frozen=True, slots=True, eq=False)
class DFA:
    """Accepts the label sequences that lead from state 0 to an accepting state."""

    step: npt.NDArray[np.int64]  # (S, m)  the next state
    accepting: npt.NDArray[np.bool_]  # (S,)

    @property
    def n_states(self) -> int:
        return int(self.step.shape[0])

    @property
    def n_labels(self) -> int:
        return int(self.step.shape[1])

    def accepts(self, ids: Iterable[int]) -> bool:
        s = 0
        for y in ids:
            s = int(self.step[s, y])
        return bool(self.accepting[s])

    def __and__(self, other: DFA) -> DFA:
        return self._product(other, np.logical_and)

    def __or__(self, other: DFA) -> DFA:
        return self._product(other, np.logical_or)

    def __invert__(self) -> DFA:
        return DFA(self.step, ~self.accepting)

    def __le__(self, other: DFA) -> bool:
        return (self & ~other).empty()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DFA):
            return NotImplemented
        return self <= other <= self

    __hash__ = None  # type: ignore[assignment]

    def _product(self, other: DFA, verdict: Callable[..., npt.NDArray[np.bool_]]) -> DFA:
        """Pairs of states that can be reached together, the verdict taken on their acceptance, minimised."""
        ids: dict[tuple[int, int], int] = {(0, 0): 0}
        todo, rows = [(0, 0)], []
        for a, b in todo:  # grows while we walk
            check_stopped()
            row = []
            for pair in zip(self.step[a].tolist(), other.step[b].tolist(), strict=True):
                if pair not in ids:
                    ids[pair] = len(todo)
                    todo.append(pair)
                row.append(ids[pair])
            rows.append(row)
        left, right = np.array(todo).T
        accepting = verdict(self.accepting[left], other.accepting[right])
        return DFA(np.array(rows, dtype=np.int64), accepting).minimal()

    def minimal(self) -> DFA:
        """The smallest automaton of the same language."""
        reached, frontier = {0}, [0]
        while frontier:
            check_stopped()
            fresh = set(self.step[frontier].ravel().tolist()) - reached
            reached |= fresh
            frontier = sorted(fresh)
        keep = np.array(sorted(reached))
        where = np.full(self.n_states, -1)
        where[keep] = np.arange(len(keep))
        step, accepting = where[self.step[keep]], self.accepting[keep]
        block = refine(accepting[:, None].astype(np.int64), step)
        _, first = np.unique(block, return_index=True)
        return DFA(block[step[first]], accepting[first])

    def empty(self) -> bool:
        """Does the automaton accept nothing?"""
        return not self.minimal().accepting.any()

    def shortest(self) -> list[int] | None:
        """A shortest accepted sequence, or None."""
        came: dict[int, tuple[int, int] | None] = {0: None}
        todo = [0]
        for s in todo:  # breadth first
            check_stopped()
            if self.accepting[s]:
                path: list[int] = []
                while (back := came[s]) is not None:
                    s, y = back
                    path.append(y)
                return path[::-1]
            for y, nxt in enumerate(self.step[s].tolist()):
                if nxt not in came:
                    came[nxt] = (s, y)
                    todo.append(nxt)
        return None

    @classmethod
    def everything(cls, n_labels: int) -> DFA:
        return cls(np.zeros((1, n_labels), dtype=np.int64), np.ones(1, dtype=bool))
