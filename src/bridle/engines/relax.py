"""`relax`: Tromble & Eisner (2006), figure 2 (hard rules) and figure 7 (soft rules), as printed, with their counters."""

from __future__ import annotations

from typing import Any

from bridle.engines.base import NativeEngine
from bridle.errors import EngineError
from bridle.problem import Answers
from bridle.rules.base import Rule, Soft


class Relax(NativeEngine):
    name = "relax"
    absorbs = False
    counters = ("intersections", "branches", "kept", *(f"arcs {k}" for k in range(21)))

    def accept(self, rules: tuple[Rule, ...], absorbed: list[bool]) -> None:
        for rule in rules:
            if isinstance(rule, Soft) and rule.per == "violation":
                raise EngineError(
                    "engine 'relax' takes only binary soft rules, as its paper does", got=str(rule),
                    wanted="soft(..., per='sequence')", cause="Use engine='search' for penalties per violation.",
                )

    def stats(self, answers: Answers, b: int) -> dict[str, Any]:
        intersections, branches, kept, *arcs = answers.counters[b].tolist()
        return {"intersections": intersections, "branches": branches, "arcs": arcs[:kept]}
