"""Rules about presence and order: present, if_present, followed_by, before, starts_with, ends_with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bridle.automata import LazyAutomaton
from bridle.labels import Labels
from bridle.rules.base import Mask, Names, Rule, RuleContext, Sets, flags, union
from bridle.rules.classes import by_sets


@dataclass(frozen=True)
class Present(Rule):
    """The label occurs."""

    text = ("present {label:names}",)
    label: Names

    def count_violations(self, context: RuleContext) -> int:
        return int(not context.where(self.label))

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        wanted = union(sets[0])
        classes = by_sets(len(labels), wanted)
        return [
            LazyAutomaton(False, lambda seen, y, _mark: (seen or y in wanted, 0), lambda seen: int(not seen), classes)
        ]


@dataclass(frozen=True)
class IfPresent(Rule):
    """If `a` occurs, so does `then`."""

    text = ("if {a:names} then {then:names}",)
    a: Names
    then: Names

    def count_violations(self, context: RuleContext) -> int:
        return int(bool(context.where(self.a)) and not context.where(self.then))

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        a, b = union(sets[0]), union(sets[1])

        def read(state: Any, y: int, _mark: int) -> tuple[Any, int]:
            if state == "done" or y in b:
                return "done", 0
            return ("asked" if y in a else state), 0

        return [LazyAutomaton("", read, lambda state: int(state == "asked"), by_sets(len(labels), a, b))]


@dataclass(frozen=True)
class FollowedBy(Rule):
    """Every `a` has some `b` later on. It is broken as a whole: one violation."""

    text = ("{a:names} followed by {b:names}",)
    a: Names
    b: Names

    def count_violations(self, context: RuleContext) -> int:
        at_a, at_b = context.where(self.a), context.where(self.b)
        return int(bool(at_a) and (not at_b or at_b[-1] <= at_a[-1]))

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        a, b = union(sets[0]), union(sets[1])

        def read(owed: Any, y: int, _mark: int) -> tuple[Any, int]:
            return y in a or (owed and y not in b), 0

        return [LazyAutomaton(False, read, lambda owed: int(bool(owed)), by_sets(len(labels), a, b))]


@dataclass(frozen=True)
class Before(Rule):
    """No `b` before an `a`; each `a` with a `b` somewhere before it is one violation."""

    text = ("{a:names} before {b:names}",)
    a: Names
    b: Names

    def count_violations(self, context: RuleContext) -> int:
        at_b = context.where(self.b)
        return sum(bool(at_b) and at_b[0] < t for t in context.where(self.a))

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        a, b = union(sets[0]), union(sets[1])

        def read(seen: Any, y: int, _mark: int) -> tuple[Any, int]:
            return seen or y in b, int(seen and y in a)

        return [LazyAutomaton(False, read, classes=by_sets(len(labels), a, b))]


@dataclass(frozen=True)
class StartsWith(Rule):
    """The first label, if there is one, is `a`."""

    text = ("starts with {a:names}",)
    a: Names

    def count_violations(self, context: RuleContext) -> int:
        return int(bool(context.ids) and 0 not in context.where(self.a))

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        a = union(sets[0])

        def read(first: Any, y: int, _mark: int) -> tuple[Any, int]:
            return False, int(first and y not in a)

        return [LazyAutomaton(True, read, classes=by_sets(len(labels), a))]

    def mask(self, sets: tuple[Sets, ...], labels: Labels) -> Mask | None:
        return Mask(first=flags(union(sets[0]), len(labels)))


@dataclass(frozen=True)
class EndsWith(Rule):
    """The last label, if there is one, is `b`."""

    text = ("ends with {b:names}",)
    b: Names

    def count_violations(self, context: RuleContext) -> int:
        return int(bool(context.ids) and len(context.ids) - 1 not in context.where(self.b))

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        b = union(sets[0])
        classes = by_sets(len(labels), b)
        return [LazyAutomaton(True, lambda _fine, y, _mark: (y in b, 0), lambda fine: int(not fine), classes)]

    def mask(self, sets: tuple[Sets, ...], labels: Labels) -> Mask | None:
        return Mask(last=flags(union(sets[0]), len(labels)))
