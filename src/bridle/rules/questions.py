"""Questions about rules as automata: is there a non-empty word that all of some automata accept?

    rules R leave no word to F       no word in  F & D(R)
    rules R imply r                  no word in  ~D(r) & D(R)

R is grown lazily: a word that breaks a rule brings this rule in, so the products stay small and the rules that matter
are named. A rule of several automata (no duplicates of A, B) is broken when one of them is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridle.automata import DFA
from bridle.deadline import check_stopped
from bridle.rules.base import Rule, Soft
from bridle.rules.findings import Spot

_MOST_STEPS = 1_000_000  # steps of automata that one question may take
_ALL_STEPS = 10_000_000  # and all of them together: a few seconds


class TooLarge(Exception):  # noqa: N818
    """A question that would take too long."""


@dataclass(frozen=True, slots=True, eq=False)
class Static:
    """A rule that looks at no positions: a labelling obeys it if all its automata accept."""

    spot: Spot
    rule: Rule
    parts: tuple[DFA, ...]

    @property
    def hard(self) -> bool:
        return not isinstance(self.rule, Soft)


@dataclass(slots=True)
class Questions:
    """Answers questions about automata, within a budget."""

    left: int = _ALL_STEPS

    def word(self, automata: Sequence[DFA]) -> list[int] | None:
        """A shortest non-empty word that all accept, or None."""
        steps = [d.step.tolist() for d in automata]
        accepting = [d.accepting.tolist() for d in automata]
        alive = [_alive(d) for d in automata]
        start = (0,) * len(automata)
        came: dict[tuple[int, ...], tuple[tuple[int, ...] | None, int]] = {}
        todo: list[tuple[int, ...]] = [start]
        m = automata[0].n_labels
        spent = 0
        for states in todo:  # breadth first; the start counts as reached only when a word leads back to it
            check_stopped()
            spent += m * len(automata)
            if spent > min(_MOST_STEPS, self.left):
                self.left -= spent
                raise TooLarge
            for y in range(m):
                after = tuple([step[s][y] for step, s in zip(steps, states, strict=True)])
                if after in came or not all(a[s] for a, s in zip(alive, after, strict=True)):
                    continue
                came[after] = (None if states is start else states, y)
                if all(a[s] for a, s in zip(accepting, after, strict=True)):
                    self.left -= spent
                    return _traced(came, after)
                if after != start:
                    todo.append(after)
        self.left -= spent
        return None

    def without(self, first: Sequence[DFA], rules: Sequence[Static]) -> list[Static] | None:
        """A minimal set of rules that leaves no word to `first`; None: there is a word under all of them."""
        found = self._closing(first, rules)
        for rule in list(found or ()):
            fewer = [other for other in found or () if other is not rule]
            if (closing := self._closing(first, fewer)) is not None:
                found = closing
        return found

    def _closing(self, first: Sequence[DFA], rules: Sequence[Static]) -> list[Static] | None:
        used: dict[int, Static] = {}
        automata = list(first)
        while True:
            found = self.word(automata) if automata else [0]
            if found is None:
                return list(used.values())
            broken = next(((rule, part) for rule in rules for part in rule.parts if not part.accepts(found)), None)
            if broken is None:
                return None
            used[id(broken[0])] = broken[0]
            automata.append(broken[1])

    def follows(self, rule: Static, rules: Sequence[Static]) -> list[Static] | None:
        """Rules from which another one follows, or None."""
        by: dict[Spot, Static] = {}
        for part in rule.parts:
            found = self.without([~part], rules)
            if found is None:
                return None
            by.update((other.spot, other) for other in found)
        return list(by.values())


def _alive(dfa: DFA) -> list[bool]:
    """(S,): from which states acceptance can be reached."""
    alive = dfa.accepting.copy()
    while True:
        check_stopped()
        more = alive | alive[dfa.step].any(axis=1)
        if (more == alive).all():
            return [bool(x) for x in alive]
        alive = more


def _traced(came: dict[tuple[int, ...], tuple[tuple[int, ...] | None, int]], states: tuple[int, ...]) -> list[int]:
    path: list[int] = []
    at: tuple[int, ...] | None = states
    while at is not None:
        at, y = came[at]
        path.append(y)
    return path[::-1]
