"""`lazy_intersection`: Tromble & Eisner (2006), figures 2 (hard rules) and 7 (soft rules), with their counters."""

from __future__ import annotations

from typing import Any

from bridle.decoding.problem import Answers
from bridle.engines.base import NativeEngine
from bridle.errors import EngineError
from bridle.rules.base import Rule, Soft


class LazyIntersection(NativeEngine):
    name = "lazy_intersection"
    absorbs = False
    counters = tuple(map(str, range(64)))  # as laid out in cpp/product.cpp

    def accept(self, rules: tuple[Rule, ...], absorbed: list[bool]) -> None:
        for rule in rules:
            if isinstance(rule, Soft) and rule.per == "violation":
                raise EngineError(
                    "engine 'lazy_intersection' takes only binary soft rules, as its paper does", got=str(rule),
                    wanted="soft(..., per='sequence')", cause="Use engine='search' for penalties per violation.",
                )

    def stats(self, answers: Answers, b: int) -> dict[str, Any]:
        intersections, branches, n_arcs, *rest = answers.counters[b].tolist()
        arcs, n_violated, rules = rest[:21], rest[21], rest[22:]
        return {
            "violated": rules[:n_violated],  # rules that the best path of the plain lattice breaks (Tables 3 and 4)
            "intersections": intersections,
            "branches": branches,
            "arcs": arcs[:n_arcs],  # of the lattice, at first and after each intersection (figure 6)
        }
