"""`product`: intersect the lattice with the automata of all rules, then take the best path (Tromble & Eisner 2006)."""

from __future__ import annotations

from dataclasses import dataclass

from bridle import _native
from bridle.decoding.problem import Limits
from bridle.engines.base import NativeEngine


@dataclass(frozen=True)
class Product(NativeEngine):
    """All rules intersected at once: exact, without any cleverness, and soon too large."""

    name = "product"
    absorb = "nothing"
    counters = ("states", "arcs")

    def options(self, limits: Limits) -> _native.Options:
        out = super().options(limits)
        out.arcs = True
        return out
