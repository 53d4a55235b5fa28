"""Rules about single tokens: forbid, allow, fix, label_at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bridle.automata import LazyAutomaton
from bridle.labels import Labels
from bridle.rules.base import Mask, Names, Place, Rule, RuleContext, Sets, flags, union
from bridle.rules.classes import by_sets


@dataclass(frozen=True)
class _TokenRule(Rule):
    """Only some labels are right at some places (everywhere, if it has none); each wrong token is one violation."""

    def _wrong(self, sets: Sets, labels: Labels) -> frozenset[int]:
        return frozenset(range(len(labels))) - union(sets)

    def count_violations(self, context: RuleContext) -> int:
        wrong = self._wrong(context.sets(self.names()[0]), context.labels)
        place = next(iter(self.places()), None)
        return sum(context.ids[t] in wrong for t in context.positions(place))

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        wrong, everywhere = self._wrong(sets[0], labels), not self.places()

        def read(state: Any, y: int, mark: int) -> tuple[Any, int]:
            return state, int(y in wrong and (everywhere or mark & 1))

        return [LazyAutomaton(0, read, classes=by_sets(len(labels), wrong))]

    def mask(self, sets: tuple[Sets, ...], labels: Labels) -> Mask | None:
        return Mask(token=~flags(self._wrong(sets[0], labels), len(labels)))


@dataclass(frozen=True)
class Forbid(_TokenRule):
    """None of these labels, there or anywhere."""

    text = ("forbid {labels:names} at {at:place}", "forbid {labels:names}")
    labels: Names
    at: Place | None = None

    def _wrong(self, sets: Sets, labels: Labels) -> frozenset[int]:
        return union(sets)


@dataclass(frozen=True)
class Allow(_TokenRule):
    """Only these labels, there or anywhere."""

    text = ("allow {labels:names} at {at:place}", "allow {labels:names}")
    labels: Names
    at: Place | None = None


@dataclass(frozen=True)
class Fix(_TokenRule):
    """These positions carry this label."""

    text = ("fix {labels:names} at {at:place}",)
    labels: Names
    at: Place


@dataclass(frozen=True)
class LabelAt(_TokenRule):
    """The same, as an atom for formulas."""

    text = ("label at {at:place} is {label:names}",)
    at: Place
    label: Names
