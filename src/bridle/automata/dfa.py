"""Deterministic automata over label ids 0..m-1, complete (every state steps on every label), with their algebra.

a & b  both        a | b  either        ~a  not        a <= b  inclusion        a == b  same language

Minimisation is partition refinement: the coarsest grouping of states that no input can distinguish. Most automata are
settled after a few rounds over all their states (Moore). A long chain, such as that of a count up to 800, needs a round
per state: after some rounds, blocks are split by the predecessors of one block at a time (Hopcroft: O(S C log S)).

    S states (s)    C columns (c) of successors    a block is a number, and the list of its states
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bridle.deadline import check_stopped

Ints = npt.NDArray[np.int64]
_ROUNDS = 8  # over all states, before blocks are split one by one
_STRETCH = 1024  # states between two looks at whether the work was stopped


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
        """Return the minimal automaton of pairs of states that can be reached together."""
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
        """Return the smallest automaton of the same language."""
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
        """Return whether the automaton accepts nothing."""
        return not self.minimal().accepting.any()

    @classmethod
    def everything(cls, n_labels: int) -> DFA:
        return cls(np.zeros((1, n_labels), dtype=np.int64), np.ones(1, dtype=bool))


# ---- partition refinement -------------------------------------------------------------------------------------------


def refine(output: Ints, step: Ints) -> Ints:
    """Return the block of each state, numbered in order of first appearance.

    output (S, x)  the observable values of a state           step (S, C)  its successors
    """
    block = number(output)
    for _ in range(_ROUNDS):
        check_stopped()
        finer = number(np.concatenate([block[:, None], block[step]], axis=1))
        if finer.max(initial=0) == block.max(initial=0):
            return block
        block = finer
    return number(_split(block.tolist(), step[:, first_of(number(step.T))])[:, None])


def _split(block: list[int], step: Ints) -> Ints:
    """Hopcroft: of two parts of a block, only the smaller one needs to be looked at to split others."""
    members: list[set[int]] = [set() for _ in range(max(block) + 1)]
    for s, b in enumerate(block):
        members[b].add(s)
    before = [_predecessors(column) for column in step.T]
    todo = list(range(len(members)))
    waiting = set(todo)
    while todo:
        check_stopped()
        splitter = todo.pop()
        waiting.discard(splitter)
        states = list(members[splitter])  # as it is now: it may be split by itself
        for column in before:
            leading: dict[int, list[int]] = {}  # block -> those of its states that lead into the splitter
            for s in states:
                for p in column[s]:
                    leading.setdefault(block[p], []).append(p)
            for b, part in leading.items():
                if len(part) == len(members[b]):
                    continue
                members[b].difference_update(part)
                fresh = len(members)
                members.append(set(part))
                if len(part) > len(members[b]) and b not in waiting:  # the larger part keeps the number
                    members[b], members[fresh] = members[fresh], members[b]
                for s in members[fresh]:
                    block[s] = fresh
                todo.append(fresh)
                waiting.add(fresh)
    return np.array(block, dtype=np.int64)


def _predecessors(column: Ints) -> list[list[int]]:
    check_stopped()
    before: list[list[int]] = [[] for _ in column]
    for s, to in enumerate(column.tolist()):
        before[to].append(s)
    return before


def first_of(block: Ints) -> Ints:
    """Return the first member of each block, if blocks are numbered in order of first appearance."""
    return np.searchsorted(np.maximum.accumulate(block), np.arange(block.max(initial=-1) + 1))


def number(rows: Ints) -> Ints:
    """Number the distinct rows in order of first appearance; return the number of each row."""
    known: dict[bytes, int] = {}
    out = np.empty(len(rows), dtype=np.int64)
    for low in range(0, len(rows), _STRETCH):
        check_stopped()
        part = rows[low : low + _STRETCH]
        out[low : low + _STRETCH] = [known.setdefault(row.tobytes(), len(known)) for row in part]
    return out
