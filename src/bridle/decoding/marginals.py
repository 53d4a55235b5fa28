"""Probabilities under rules: sums over all labellings that obey them (cpp/sums.cpp)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bridle import _native
from bridle.deadline import Deadline
from bridle.decoding.problem import FOREVER, Problem
from bridle.errors import EngineError, Infeasible, LimitReached
from bridle.lattice import Scores
from bridle.rules.base import Rule, Soft


@dataclass(frozen=True)
class Probability:
    """How probable rules are under the model p(y) ~ exp(score(y)).

    Attributes
    ----------
    all : float
        The probability that all hard rules hold.
    each : list of (Rule, float)
        The same for each rule by itself, hard or soft.
    """

    all: float
    each: list[tuple[Rule, float]]


def _log_sum(problem: _native.Problem, rules: list[int], deadline: Deadline, into: Scores | None = None) -> float:
    left = deadline.left
    value = problem.log_sum(0, rules, into, -1.0 if left is None else min(left, FOREVER))
    if math.isnan(value):
        raise LimitReached(
            "the sum over all labellings was not done in time",
            bound=math.inf,
            got=f"{len(rules)} rules together",
            wanted="fewer rules, or a higher time_limit" if rules else "a higher time_limit",
            cause="Sums need the product of all automata; decoding does not." if rules else None,
        )
    if value == math.inf:
        raise EngineError(
            "the sum over all labellings needs too many states",
            got=f"{len(rules)} rules together",
            wanted="fewer rules, or a higher max_states or max_memory",
            cause="Sums need the product of all automata; decoding does not.",
        )
    return float(value)


def _hard(problem: Problem) -> list[int]:
    return [k for k, rule in enumerate(problem.rules) if not isinstance(rule, Soft)]


def marginals(problem: Problem, blame: Callable[[float | None], Infeasible], time_limit: float | None) -> Scores:
    """(n, m) posteriors given that the hard rules hold. blame: why none does, within so many seconds."""
    deadline = Deadline.after(time_limit)
    table = np.zeros((int(problem.offsets[-1]), len(problem.labels)))
    if _log_sum(problem.native(), _hard(problem), deadline, into=table) == -math.inf:
        raise blame(deadline.left)
    return table


def probability(problem: Problem, blame: Callable[[float | None], Infeasible], time_limit: float | None) -> Probability:
    """P(all hard rules hold), and of each rule alone; the time is that of all sums together."""
    deadline = Deadline.after(time_limit)
    apart = problem.native("nothing")
    everything = _log_sum(apart, [], deadline)
    if everything == -math.inf:
        raise blame(deadline.left)
    each = [(rule, _exp(_log_sum(apart, [k], deadline) - everything)) for k, rule in enumerate(problem.rules)]
    return Probability(_exp(_log_sum(problem.native(), _hard(problem), deadline) - everything), each)


def _exp(x: float) -> float:
    return min(1.0, math.exp(min(x, 0.0)))
