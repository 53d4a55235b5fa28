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
    reason: str
    beyond: tuple[Rule, ...] = ()  # rules that are the reason

    @property
    def why(self) -> str:
        """The reason in words."""
        more = f" and {len(self.beyond) - 1} more" if len(self.beyond) > 1 else ""
        return f"{self.reason}: {self.beyond[0]}{more}" if self.beyond else self.reason


def planned(
    labels: Labels, rules: Sequence[Rule], asked: str | Engine, limits: Limits
) -> tuple[Engine, CompiledRules, Plan]:
    """The engine that was asked for, or the one that suits the rules; and the rules compiled for it."""
    auto = isinstance(asked, str) and asked == "auto"
    engine: Engine = _SEARCH if auto else asked if isinstance(asked, Engine) else engine_named(asked)
    compiled = CompiledRules(labels, rules, limits.native(engine, engine.told))
    if not auto:
        engine.accept(compiled)
        return engine, compiled, Plan(engine.name, "you selected it")
    if not rules:
        return _VITERBI, compiled, Plan("viterbi", "there are no rules")
    beyond = tuple(rule for rule, mask in zip(rules, compiled.absorbed(), strict=True) if not mask)
    if beyond:
        return _SEARCH, compiled, Plan("search", "masks cannot express", beyond)
    return _VITERBI, compiled, Plan("viterbi", "every rule is a mask on labels and transitions")
