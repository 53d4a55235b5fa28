"""`product`: intersect the lattice with the automata of all rules, then take the best path (Tromble & Eisner 2006)."""

from __future__ import annotations

from bridle.engines.base import NativeEngine


class Product(NativeEngine):
    name = "product"
    absorbs = False
    counters = ("states", "arcs")
