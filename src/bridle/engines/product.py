"""`product`: intersect the lattice with the automata of all rules, then take the best path (Tromble & Eisner 2006)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bridle.engines.base import NativeEngine


@dataclass(frozen=True)
class Product(NativeEngine):
    """All rules intersected at once: exact, without any cleverness, and soon too large."""

    name = "product"
    told = ("arcs",)
    arcs: ClassVar[bool] = True
    absorb = "nothing"
    counters = ("states", "arcs")
