"""The judge: re-derives score, penalty and violations of a decoding. It shares no code with the engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bridle.decoding.result import Decoding
from bridle.lattice import Lattice
from bridle.rules.base import Rule, Soft


@dataclass(frozen=True)
class Verdict:
    """What the judge found."""

    score: float  # lattice score - penalty
    penalty: float
    violations: list[int]  # of each rule
    complaints: list[str]  # empty: the decoding is what it says

    @property
    def ok(self) -> bool:
        return not self.complaints


def check(
    lattice: Lattice,
    rules: Sequence[Rule],
    decoding: Decoding,
    given: Mapping[str, Any] | None = None,
    *,
    tolerance: float = 1e-6,
) -> Verdict:
    """Check a decoding against the plain definitions: a sum of scores, and `violations` of each rule.

    It checks what can be checked without searching: that no other labelling is better is proved by the engine, and
    tested against enumeration.
    """
    ids = decoding.ids
    violations = [rule.violations(ids, decoding.label_set, given) for rule in rules]
    penalty = sum(rule.cost(v) for rule, v in zip(rules, violations, strict=True) if isinstance(rule, Soft))
    score = lattice.score(ids) - penalty
    near = tolerance * max(1.0, abs(score))
    complaints = []
    if not abs(score - decoding.score) <= near:
        complaints.append(f"the score is {score}, not {decoding.score}")
    if not abs(penalty - decoding.penalty) <= near:
        complaints.append(f"the penalty is {penalty}, not {decoding.penalty}")
    for rule, count in zip(rules, violations, strict=True):
        if count and not isinstance(rule, Soft) and not decoding.relaxed:
            complaints.append(f"a hard rule is broken {count} times: {rule}")
    broken = [(rule, count) for rule, count in zip(rules, violations, strict=True) if count]
    if broken != decoding.violated:
        complaints.append(f"violated should be {broken}, not {decoding.violated}")
    if decoding.bound < score - near:
        complaints.append(f"the bound {decoding.bound} is below the score {score}")
    if decoding.optimal and abs(decoding.bound - score) > near:
        complaints.append(f"optimal, but bound {decoding.bound} and score {score} do not meet")
    return Verdict(score, float(penalty), violations, complaints)
