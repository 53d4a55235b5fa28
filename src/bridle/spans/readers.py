"""Automata that read the items of a selection, for the integer program.

E items that may occur (e), in the order in which they are read    m labels    S states (s)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle.automata import CountingAutomaton, LazyAutomaton
from bridle.labels import Labels
from bridle.rules.base import Rule, Soft, named
from bridle.rules.conditions import Tokens
from bridle.rules.patterns import matcher
from bridle.spans.lattice import Ints


@dataclass(frozen=True, slots=True, eq=False)
class Reader:
    """One automaton, and what it reads of each item."""

    rule: int  # its number
    automaton: CountingAutomaton
    table: Ints  # (E,)  which table (mark) the automaton uses at each item
    column: Ints  # (E,)  which class the label of each item has
    matters: npt.NDArray[np.bool_]  # (E,)  can the item change its state, or break it?
    sum: (
        tuple[npt.NDArray[np.bool_], int, Literal["<=", ">="]] | None
    )  # it only counts these labels (m,), up to a limit

    def violations(self, items: Sequence[int]) -> int:
        """How often these items, in order, break it."""
        state, total = 0, 0
        for e in items:
            at = self.table[e], state, self.column[e]
            total += int(self.automaton.violations[at])
            state = int(self.automaton.step[at])
        return total + int(self.automaton.final[state])


def readers_of(
    number: int, rule: Rule, label: Ints, labels: Labels, given: Mapping[str, Any], texts: list[str]
) -> list[Reader]:
    """The automata of one rule about items. texts: of all items, if the rule asks for them."""
    out = []
    with named(rule):
        for part in (rule.rule,) if isinstance(rule, Soft) else rule.conjuncts():
            sets = tuple(names.resolve(labels, given) for names in part.names())
            marks = np.zeros(len(label), dtype=np.int64)
            for k, place in enumerate(part.places()):
                if isinstance(place.source, Tokens):
                    matching = matcher((place.source.pattern, place.source.engine))
                    at = [e for e, text in enumerate(texts) if matching(text)]
                else:
                    at = place.positions(len(label), given)
                marks[at] |= 1 << k
            kinds, table = np.unique(np.append(marks, 0), return_inverse=True)
            marked = kinds.tolist(), table[:-1].astype(np.int32)
            out += [_reader(number, lazy, label, len(labels), *marked) for lazy in part.automata(sets, labels)]
    return out


def _reader(number: int, lazy: LazyAutomaton, label: Ints, m: int, marks: list[int], table: Ints) -> Reader:
    automaton = CountingAutomaton.build(lazy, m, marks)
    column = automaton.class_of[label].astype(np.int32)
    still = (automaton.step == np.arange(automaton.n_states)[None, :, None]) & (automaton.violations == 0)
    matters = ~still.all(axis=1)[table, column]
    total = None
    if lazy.count is not None and lazy.classes is not None:
        edges = lazy.counted()  # (m + 1, m)
        if (edges == edges[0]).all():
            total = edges[0], lazy.count.limit, lazy.count.sense
    return Reader(number, automaton, table, column, matters, total)
