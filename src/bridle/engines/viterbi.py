"""`viterbi`: rules that are masks only; the base of everything else."""

from __future__ import annotations

from dataclasses import dataclass

from bridle.engines import NativeEngine
from bridle.errors import EngineError
from bridle.rules.compiled import CompiledRules


@dataclass(frozen=True)
class Viterbi(NativeEngine):
    """The best path under masks on labels and transitions: what `auto` uses when all rules are masks.

    It takes no options.

    Examples
    --------
    >>> import bridle
    >>> decoder = bridle.Decoder(["A", "B"], ["forbid B at 0"])
    >>> decoder.plan.engine, decoder.plan.why
    ('viterbi', 'every rule is a mask on labels and transitions')
    """

    name = "viterbi"

    def accept(self, rules: CompiledRules) -> None:
        super().accept(rules)
        for rule, mask in zip(rules.rules, rules.absorbed(), strict=True):
            if not mask:
                raise EngineError(
                    "engine 'viterbi' takes only rules that are masks on labels and transitions",
                    got=str(rule),
                    wanted="hard rules about single tokens and neighbours",
                    cause="Use engine='auto'.",
                )
