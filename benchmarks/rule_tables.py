"""Rules as tables that any solver can take: which state follows, and what it costs, for each position.

    after[t, s, y] = s'    price[t, s, y] = what reading label y at t in state s costs; inf: a hard rule forbids it
    n positions (t)    m labels (y)    S states (s); every automaton begins in state 0

A soft rule that is paid for once moves to a state where nothing costs any more. A rule that is several automata becomes
their product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.automata import CountingAutomaton
from bridle.labels import Labels
from bridle.rules import Rule
from bridle.rules.base import Soft

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
MOST_STATES = 512


@dataclass(frozen=True, eq=False)
class Table:
    """A rule, or a part of a hard one, over the positions of one sequence."""

    after: Ints  # (n, S, m)
    price: Floats  # (n, S, m)

    @property
    def n_states(self) -> int:
        return int(self.after.shape[1])


def tables_of(rules: Sequence[Rule], labels: Labels, given: Mapping[str, Any], n: int) -> list[Table]:
    """All rules as tables over n positions."""
    return [
        _table(part, rule if isinstance(rule, Soft) else None, labels, given, n)
        for rule in rules
        for part in ((rule.rule,) if isinstance(rule, Soft) else rule.conjuncts())
    ]


def _table(part: Rule, soft: Soft | None, labels: Labels, given: Mapping[str, Any], n: int) -> Table:
    marks = np.zeros(n, dtype=np.int64)
    for k, place in enumerate(part.places()):
        marks[place.positions(n, given)] |= 1 << k
    kinds, kind = np.unique(marks, return_inverse=True)
    step, count, final = _automaton(part, labels, given, kinds.tolist())
    after, count = step[kind], count[kind]
    count[-1] += final[after[-1]]
    if soft is not None and soft.per == "sequence":
        states = after.shape[1]
        free = np.full((n, 1, len(labels)), states)
        after = np.concatenate([np.where(count > 0, states, after), free], axis=1)
        count = np.concatenate([np.minimum(count, 1), np.zeros_like(free)], axis=1)
    price = np.where(count > 0, np.inf, 0.0) if soft is None else count * soft.penalty
    return Table(after, np.asarray(price, dtype=np.float64))


def _automaton(part: Rule, labels: Labels, given: Mapping[str, Any], kinds: list[int]) -> tuple[Ints, Ints, Ints]:
    """The next state (K, S, m), violations on the way (K, S, m) and at the end (S,), for each kind of position."""
    k, m = len(kinds), len(labels)
    step, count, final = np.zeros((k, 1, m), np.int64), np.zeros((k, 1, m), np.int64), np.zeros(1, np.int64)
    for lazy in part.automata(tuple(names.resolve(labels, given) for names in part.names()), labels):
        automaton = CountingAutomaton.build(lazy, m, kinds).by_label()
        s = automaton.n_states
        step = (step[:, :, None] * s + automaton.step[:, None]).reshape(k, -1, m)
        count = (count[:, :, None] + automaton.violations[:, None]).reshape(k, -1, m)
        final = (final[:, None] + automaton.final).ravel()
        reached = _reached(step)
        if len(reached) > MOST_STATES:
            raise ValueError(f"a rule of more than {MOST_STATES} states: {part}")
        place = np.zeros(step.shape[1], np.int64)
        place[reached] = np.arange(len(reached))
        step, count, final = place[step[:, reached]], count[:, reached], final[reached]
    return step, count, final


def _reached(step: Ints) -> Ints:
    """The states that can be reached, 0 first."""
    seen = np.zeros(step.shape[1], bool)
    fresh = np.zeros(1, np.int64)
    while len(fresh):
        seen[fresh] = True
        following = np.unique(step[:, fresh])
        fresh = following[~seen[following]]
    return np.flatnonzero(seen)
