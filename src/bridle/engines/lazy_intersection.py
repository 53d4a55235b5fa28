"""`lazy_intersection`: Tromble & Eisner (2006), figures 2 (hard rules) and 7 (soft rules), with their counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from bridle.arrays import is_integer
from bridle.decoding.problem import bad_option
from bridle.engines import NativeEngine
from bridle.errors import EngineError
from bridle.rules.base import Soft
from bridle.rules.compiled import CompiledRules


@dataclass(frozen=True)
class LazyIntersection(NativeEngine):
    """Rules as automata, intersected with the lattice only when the best path violates them.

    Parameters
    ----------
    seed : int, default 0
        Seed of the order in which rules are looked at.

    Raises
    ------
    EngineError
        If the option is bad. A decoder raises it for soft rules with a penalty per violation.

    Examples
    --------
    >>> import bridle
    >>> lattice = bridle.Lattice([[0, 2], [0, 1], [0, 3]])
    >>> engine = bridle.engines.LazyIntersection(seed=1)
    >>> d = bridle.Decoder(["A", "B"], ["at most 2 tokens of B", "at most 3 tokens of A"], engine).decode(lattice)
    >>> d.labels, d.stats["intersections"]
    (['B', 'A', 'B'], 1)
    """

    name = "lazy_intersection"
    native_options = ("seed", "arcs")
    arcs: ClassVar[bool] = True
    absorb = "nothing"
    counters = tuple(map(str, range(64)))  # as laid out in cpp/search/product.cpp
    seed: int = 0

    def __post_init__(self) -> None:
        if not is_integer(self.seed, 0, 2**64 - 1):
            raise bad_option("seed", self.seed, "an integer from 0 to 2**64 - 1")

    def accept(self, rules: CompiledRules) -> None:
        super().accept(rules)
        for rule in rules.rules:
            if isinstance(rule, Soft) and rule.per == "violation":
                raise EngineError(
                    "engine 'lazy_intersection' takes only binary soft rules, as its paper does",
                    got=str(rule),
                    wanted="soft(..., per='sequence')",
                    cause="Use engine='search' for penalties per violation.",
                )

    def stats(self, counters: list[int]) -> dict[str, Any]:
        intersections, branches, n_arcs, *rest = counters
        arcs, n_violated, rules = rest[:21], rest[21], rest[22:]
        return {
            "violated": rules[:n_violated],  # rules that the best path of the plain lattice breaks (Tables 3 and 4)
            "intersections": intersections,
            "branches": branches,
            "arcs": arcs[:n_arcs],  # of the lattice, at first and after each intersection (figure 6)
        }
