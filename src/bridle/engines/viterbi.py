"""`viterbi`: rules that are masks only; the base of everything else."""

from __future__ import annotations

from bridle.engines.base import NativeEngine
from bridle.errors import EngineError
from bridle.rules.base import Rule


class Viterbi(NativeEngine):
    name = "viterbi"

    def accept(self, rules: tuple[Rule, ...], absorbed: list[bool]) -> None:
        for rule, mask in zip(rules, absorbed, strict=True):
            if not mask:
                raise EngineError(
                    "engine 'viterbi' takes only rules that are masks on labels and transitions", got=str(rule),
                    wanted="hard rules about single tokens and neighbours", cause="Use engine='auto'.",
                )
