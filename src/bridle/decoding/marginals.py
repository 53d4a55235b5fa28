"""Probabilities under rules: sums over all labellings that obey them (cpp/sums.cpp)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bridle.decoding.problem import Problem
from bridle.errors import EngineError, Infeasible
from bridle.lattice import Lattice, Scores
from bridle.rules.base import Rule, Soft

Blame = Callable[[Lattice, Mapping[str, Any], int | None], Infeasible]


@dataclass(frozen=True)
class Probability:
    """Under the model p(y) ~ exp(score(y))."""

    all: float  # all hard rules hold
    each: list[tuple[Rule, float]]  # each rule, hard or soft, by itself


def _log_sum(problem: Problem, parts: list[int], absorb: bool, into: Scores | None = None) -> float:
    value = problem.native(absorb=absorb).log_sum(0, parts, into, problem.options.native)
    if value == math.inf:
        raise EngineError(
            "the sum over all labellings needs too many states", got=f"{len(set(parts))} rules together",
            wanted="fewer rules, or a higher max_states",
            cause="Sums need the product of all automata; decoding does not.",
        )
    return float(value)


def _hard_parts(problem: Problem, absorb: bool) -> list[int]:
    return [k for k, rule in enumerate(problem.parts_of(absorb=absorb)) if not isinstance(problem.rules[rule], Soft)]


def marginals(problem: Problem, blame: Blame) -> Scores:
    """(n, m) posteriors given that the hard rules hold."""
    table = np.zeros((int(problem.offsets[-1]), len(problem.labels)))
    if _log_sum(problem, _hard_parts(problem, absorb=True), absorb=True, into=table) == -math.inf:
        raise blame(problem.lattices[0], problem.given(0), None)
    return table


def probability(problem: Problem, blame: Blame) -> Probability:
    """P(all hard rules hold), and of each rule alone."""
    rule_of = problem.parts_of(absorb=False)
    whole = _log_sum(problem, [], absorb=False)
    if whole == -math.inf:
        raise blame(problem.lattices[0], problem.given(0), None)
    each = [
        (rule, _exp(_log_sum(problem, [k for k, r in enumerate(rule_of) if r == number], absorb=False) - whole))
        for number, rule in enumerate(problem.rules)
    ]
    together = _log_sum(problem, _hard_parts(problem, absorb=True), absorb=True)
    return Probability(_exp(together - whole), each)


def _exp(x: float) -> float:
    return min(1.0, math.exp(min(x, 0.0)))
