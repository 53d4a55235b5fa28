"""`product`: intersect the lattice with the automata of all rules, then take the best path (Tromble & Eisner 2006)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bridle.engines import NativeEngine


@dataclass(frozen=True)
class Product(NativeEngine):
    """All rules intersected at once: exact and simple, but soon too large.

    It takes no options. With many rules it raises `EngineError`, because the product does not fit.

    Examples
    --------
    >>> import bridle
    >>> lattice = bridle.Lattice([[0, 2], [0, 1], [0, 3]])
    >>> d = bridle.Decoder(["A", "B"], ["at most 2 tokens of B"], engine="product").decode(lattice)
    >>> d.labels, sorted(d.stats)
    (['B', 'A', 'B'], ['arcs', 'states'])
    """

    name = "product"
    native_options = ("arcs",)
    arcs: ClassVar[bool] = True
    absorb = "nothing"
    counters = ("states", "arcs")
