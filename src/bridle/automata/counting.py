"""Deterministic automata that count violations while they read a labelling.

A rule describes its automaton lazily, as a `LazyAutomaton` (a start state and a step function over hashable states);
`CountingAutomaton.build` explores it, merges states that no input can distinguish and lays it out as tables.

Labels that it treats alike share a *class*, and its tables have one column per class: a rule about one label of
a thousand has two. Positions may matter through *marks*: position t carries a small number (0: nothing special), and
the step may look at it. An automaton holds tables only for the marks that occur.

    m labels (y)    C classes (c)    S states (s)    K marks (k)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from bridle.automata.dfa import DFA, Ints, first_of, number, refine
from bridle.deadline import check_stopped
from bridle.errors import RuleError

State = Hashable
Classes = npt.NDArray[np.uint16]
MAX_STATES = 1 << 14
MAX_CELLS = 1 << 24  # of one table


@dataclass(frozen=True, slots=True, eq=False)
class Count:
    """An automaton that only counts: violations = what the sum of `edges` is above (sense <=) or below (>=) `limit`.

    This is the one linear row that a Lagrangian multiplier needs. The last row of `edges` is the start of the sequence.
    """

    edges: npt.NDArray[np.bool_]  # (C + 1, C)  does class j count when it comes just after class i?
    limit: int
    sense: Literal["<=", ">="]


@dataclass(frozen=True, slots=True)
class LazyAutomaton:
    """An automaton defined by functions."""

    start: State
    step: Callable[[State, int, int], tuple[State, int]]  # (state, label, mark) -> (next state, violations)
    final: Callable[[State], int] = lambda _state: 0  # violations that show at the end
    classes: Classes | None = None  # (m,)  labels with the same number are read alike; None: it is not known which are
    count: Count | None = None  # over these classes, numbered from 0

    def counted(self) -> npt.NDArray[np.bool_]:
        """Return (m + 1, m) edges of its count, label by label."""
        assert self.count is not None and self.classes is not None
        edges: npt.NDArray[np.bool_] = self.count.edges[np.append(self.classes, -1)][:, self.classes]
        return edges


def by_sets(m: int, *sets: frozenset[int]) -> Classes:
    """Return (m,) classes: labels that lie in the same ones of some sets share a class."""
    classes = np.zeros(m, dtype=np.uint16)
    for k, ids in enumerate(sets):
        classes[list(ids)] |= 1 << k
    return classes


def joint_classes(automata: Sequence[LazyAutomaton]) -> Classes | None:
    """Return (m,) classes of labels that all automata read alike; None if one of them has no classes."""
    if not automata or any(automaton.classes is None for automaton in automata):
        return None
    columns = np.stack([automaton.classes for automaton in automata if automaton.classes is not None])
    return np.unique(columns, axis=1, return_inverse=True)[1].reshape(-1).astype(np.uint16)


@dataclass(frozen=True, slots=True, eq=False)
class CountingAutomaton:
    """Tables of a counting automaton; it starts in state 0."""

    step: npt.NDArray[np.int32]  # (K, S, C)  next state, for each mark that occurs
    violations: npt.NDArray[np.int32]  # (K, S, C)  violations on the way
    final: npt.NDArray[np.int32]  # (S,)       violations at the end
    class_of: Classes  # (m,)
    marks: tuple[int, ...] = (0,)  # (K,)       the mark that each table is for
    count: Count | None = None
    room: npt.NDArray[np.int32] | None = None  # (S,)  of a count: what is left of the limit (>=: minus what lacks)

    @property
    def n_states(self) -> int:
        return int(self.step.shape[1])

    @classmethod
    def build(cls, automaton: LazyAutomaton, n_labels: int, marks: Sequence[int] = (0,)) -> CountingAutomaton:
        """Explore an automaton under the given marks and minimise it."""
        if automaton.count is not None and automaton.classes is not None:
            return replace(_counting(automaton.count, tuple(marks)), class_of=automaton.classes)
        alike = range(n_labels) if automaton.classes is None else automaton.classes.tolist()
        label_of = {c: y for y, c in reversed(list(enumerate(alike)))}  # the first label of each class
        known = {c: k for k, c in enumerate(label_of)}
        minimal = _minimal(_explore(automaton, list(label_of.values()), marks), marks)
        # The classes may distinguish more labels than the minimal automaton does.
        columns = number(np.concatenate([minimal.step, minimal.violations]).reshape(-1, len(label_of)).T)
        first = first_of(columns)
        step, violations = (np.ascontiguousarray(table[:, :, first]) for table in (minimal.step, minimal.violations))
        class_of = columns[[known[c] for c in alike]].astype(np.uint16)
        return replace(minimal, step=step, violations=violations, class_of=class_of)

    def count_violations(self, ids: Sequence[int] | npt.NDArray[np.integer], marks: Sequence[int] | None = None) -> int:
        """Run the automaton over a labelling."""
        s, total = 0, 0
        for t, y in enumerate(ids):
            k, c = self.marks.index(marks[t] if marks is not None else 0), self.class_of[y]
            total += int(self.violations[k, s, c])
            s = int(self.step[k, s, c])
        return total + int(self.final[s])

    def by_label(self) -> CountingAutomaton:
        """Return the same automaton with a class for each label: tables (K, S, m)."""
        m = len(self.class_of)
        step, violations = (table[:, :, self.class_of] for table in (self.step, self.violations))
        return CountingAutomaton(step, violations, self.final, np.arange(m, dtype=np.uint16), self.marks)

    def dfa(self, mark: int = 0) -> DFA:
        """Return the automaton that accepts labellings without violations, if all positions carry this mark."""
        k = self.marks.index(mark)
        dead = self.n_states
        step = np.where(self.violations[k] > 0, dead, self.step[k]).astype(np.int64)
        step = np.concatenate([step, np.full((1, step.shape[1]), dead)])
        small = DFA(step, np.append(self.final == 0, False)).minimal()
        return DFA(small.step[:, self.class_of], small.accepting)


_Tables = tuple[Ints, Ints, Ints, Ints]  # step (S, K, C), violations (S, K, C), final (S,), room (S,); 0 is the start


def _explore(automaton: LazyAutomaton, labels: list[int], marks: Sequence[int]) -> _Tables:
    """Return tables of all states that can be reached, reading one label of each class."""
    ids: dict[State, int] = {automaton.start: 0}
    todo: list[State] = [automaton.start]
    step, violations, final = list[Ints](), list[Ints](), list[int]()
    for state in todo:  # grows while we walk
        check_stopped()
        moves = [[automaton.step(state, y, mark) for y in labels] for mark in marks]
        for nxt, _ in (move for row in moves for move in row):
            if nxt not in ids:
                ids[nxt] = len(todo)
                todo.append(nxt)
        step.append(np.array([[ids[nxt] for nxt, _ in row] for row in moves], dtype=np.int64))
        violations.append(np.array([[v for _, v in row] for row in moves], dtype=np.int64))
        final.append(automaton.final(state))
        if len(todo) > MAX_STATES or len(todo) * len(marks) * len(labels) > MAX_CELLS:
            raise _too_large(len(todo))
    return np.stack(step), np.stack(violations), np.array(final, dtype=np.int64), np.zeros(len(final), dtype=np.int64)


def _minimal(tables: _Tables, marks: Sequence[int], count: Count | None = None) -> CountingAutomaton:
    """Merge states that no input can distinguish. The labels of the result are the classes."""
    step, violations, final, room = tables
    shown = np.concatenate([final[:, None], room[:, None], violations.reshape(len(final), -1)], axis=1)
    block = refine(shown, step.reshape(len(final), -1))
    first = first_of(block)
    return CountingAutomaton(
        np.ascontiguousarray(block[step[first]].transpose(1, 0, 2), dtype=np.int32),
        np.ascontiguousarray(violations[first].transpose(1, 0, 2), dtype=np.int32),
        final[first].astype(np.int32),
        np.arange(step.shape[2], dtype=np.uint16),
        tuple(marks),
        count,
        None if count is None else room[first].astype(np.int32),
    )


def _counting(count: Count, marks: tuple[int, ...]) -> CountingAutomaton:
    """Build the automaton of a count; small ones are cached, since most rules count in one of a few ways."""
    return (_small_count if count.edges.size * (count.limit + 1) < 1 << 14 else _count)(count, marks)


def _count(count: Count, marks: tuple[int, ...]) -> CountingAutomaton:
    """Build the automaton of a count.

    States: (count so far, kind of the class before); classes after which the same edges count are of one kind.
    """
    rows, kind = np.unique(count.edges, axis=0, return_inverse=True)
    kind, kinds, most = kind.reshape(-1), len(rows), count.sense == "<="
    n_states, n_marks = (count.limit + 1) * kinds, len(marks)
    if n_states > MAX_STATES or n_states * n_marks * count.edges.shape[1] > MAX_CELLS:
        raise _too_large(n_states)
    seen, before = np.divmod(np.arange((count.limit + 1) * kinds), kinds)
    hit, full = rows[before], (seen == count.limit)[:, None]
    step = (seen[:, None] + (hit & ~full)) * kinds + kind[None, :-1]
    reached = _reached(step, int(kind[-1]))
    new = np.zeros(len(step), dtype=np.int64)
    new[reached] = np.arange(len(reached))
    step, violations = new[step[reached]], ((hit & full)[reached] & most).astype(np.int64)
    left = (count.limit - seen)[reached]
    step, violations = (np.repeat(table[:, None], n_marks, axis=1) for table in (step, violations))
    return _minimal((step, violations, left * (not most), left if most else -left), marks, count)


_small_count = lru_cache(maxsize=64)(_count)


def _reached(step: Ints, start: int) -> Ints:
    """Return the states that can be reached, in the order of first appearance, breadth first."""
    known = np.zeros(len(step), dtype=bool)
    known[start] = True
    levels = [np.array([start])]
    while len(levels[-1]):
        check_stopped()
        after = step[levels[-1]].ravel()
        states, first = np.unique(after[~known[after]], return_index=True)
        known[states] = True
        levels.append(states[np.argsort(first)])
    return np.concatenate(levels)


def _too_large(states: int) -> RuleError:
    return RuleError(
        "the automaton of a rule is too large",
        got=f"over {MAX_STATES} states" if states > MAX_STATES else f"{states} states over very many labels",
        wanted="a smaller rule",
        cause="A Boolean formula over many positions, or a large count? Split it into several rules.",
    )
