"""Partition refinement: the coarsest grouping of states that no input can distinguish.

Most automata are settled after a few rounds over all their states (Moore). A long chain, such as that of a count up to
800, needs a round per state: after some rounds, blocks are split by the predecessors of one block at a time (Hopcroft),
O(S C log S) in all.

    S states (s)    C columns (c) of successors    a block is a number, and the list of its states
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bridle.deadline import check_stopped

Ints = npt.NDArray[np.int64]
_ROUNDS = 8  # over all states, before blocks are split one by one
_STRETCH = 1024  # states between two looks at whether the work was stopped


def refine(output: Ints, step: Ints) -> Ints:
    """Block of each state, numbered in order of first appearance.

    output (S, x)  what a state itself shows           step (S, C)  its successors
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
    """The states that lead to each state."""
    check_stopped()
    before: list[list[int]] = [[] for _ in column]
    for s, to in enumerate(column.tolist()):
        before[to].append(s)
    return before


def first_of(block: Ints) -> Ints:
    """The first of each block, if blocks are numbered in order of first appearance."""
    return np.searchsorted(np.maximum.accumulate(block), np.arange(block.max(initial=-1) + 1))


def number(rows: Ints) -> Ints:
    """A number for each distinct row, in order of first appearance."""
    known: dict[bytes, int] = {}
    out = np.empty(len(rows), dtype=np.int64)
    for low in range(0, len(rows), _STRETCH):
        check_stopped()
        some = rows[low : low + _STRETCH]
        out[low : low + _STRETCH] = [known.setdefault(row.tobytes(), len(known)) for row in some]
    return out
