"""Which engine answers, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridle.decoding.problem import Limits
from bridle.engines import Engine, Search, Viterbi, engine_named
from bridle.labels import Labels
from bridle.rules.base import Rule
from bridle.rules.compiled import CompiledRules

_SEARCH, _VITERBI = Search(), Viterbi()  # what `auto` chooses from


@dataclass(frozen=True)
class Plan:
    """The name of the engine that answers, and why it was chosen."""

    engine: str
    why: str


def planned(
    labels: Labels, rules: Sequence[Rule], asked: str | Engine, limits: Limits, like: CompiledRules | None
) -> tuple[Engine, CompiledRules, Plan]:
    """The engine that was asked for, or the one that suits the rules; and the rules compiled for it."""
    auto = isinstance(asked, str) and asked == "auto"
    engine: Engine = _SEARCH if auto else asked if isinstance(asked, Engine) else engine_named(asked)
    compiled = CompiledRules(labels, rules, engine.options(limits), like)
    plan = Plan(engine.name, "you asked for it")
    if auto:
        beyond = [rule for rule, mask in zip(rules, compiled.absorbed(), strict=True) if not mask]
        if beyond:
            more = f" and {len(beyond) - 1} more" if len(beyond) > 1 else ""
            plan = Plan("search", f"masks cannot express: {beyond[0]}{more}")
        else:
            engine = _VITERBI
            plan = Plan("viterbi", "every rule is a mask on labels and transitions" if rules else "there are no rules")
    else:
        engine.accept(compiled)
    return engine, compiled, plan
