"""Rules about single tokens: forbid, allow, fix, label_at."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from bridle.automata import Walk
from bridle.labels import Labels
from bridle.rules.base import Mask, Names, Place, Rule, Scene, Sets, flags, union


@dataclass(frozen=True)
class _TokenRule(Rule):
    """Some labels are wrong at some places (everywhere, if `at` is None); each wrong token is one violation."""

    @property
    @abstractmethod
    def _place(self) -> Place | None: ...

    @abstractmethod
    def _wrong(self, sets: Sets, labels: Labels) -> frozenset[int]: ...

    def breaks(self, scene: Scene) -> int:
        wrong = self._wrong(scene.sets(self.names()[0]), scene.labels)
        return sum(scene.ids[t] in wrong for t in scene.positions(self._place))

    def walks(self, sets: tuple[Sets, ...], labels: Labels) -> list[Walk]:
        wrong, everywhere = self._wrong(sets[0], labels), self._place is None
        return [Walk(0, lambda s, y, mark: (s, int(y in wrong and (everywhere or mark & 1))))]

    def mask(self, sets: tuple[Sets, ...], labels: Labels) -> Mask | None:
        return Mask(token=~flags(self._wrong(sets[0], labels), len(labels)))


def _others(sets: Sets, labels: Labels) -> frozenset[int]:
    return frozenset(range(len(labels))) - union(sets)


@dataclass(frozen=True)
class Forbid(_TokenRule):
    text = ("forbid {labels:names} at {at:place}", "forbid {labels:names}")
    labels: Names
    at: Place | None = None

    @property
    def _place(self) -> Place | None:
        return self.at

    def _wrong(self, sets: Sets, labels: Labels) -> frozenset[int]:
        return union(sets)


@dataclass(frozen=True)
class Allow(_TokenRule):
    text = ("allow {labels:names} at {at:place}", "allow {labels:names}")
    labels: Names
    at: Place | None = None

    @property
    def _place(self) -> Place | None:
        return self.at

    def _wrong(self, sets: Sets, labels: Labels) -> frozenset[int]:
        return _others(sets, labels)


@dataclass(frozen=True)
class Fix(_TokenRule):
    text = ("fix {label:names} at {at:place}",)
    at: Place
    label: Names

    @property
    def _place(self) -> Place | None:
        return self.at

    def _wrong(self, sets: Sets, labels: Labels) -> frozenset[int]:
        return _others(sets, labels)


@dataclass(frozen=True)
class LabelAt(_TokenRule):
    text = ("label at {at:place} is {label:names}",)
    at: Place
    label: Names

    @property
    def _place(self) -> Place | None:
        return self.at

    def _wrong(self, sets: Sets, labels: Labels) -> frozenset[int]:
        return _others(sets, labels)
