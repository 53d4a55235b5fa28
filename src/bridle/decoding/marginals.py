"""Probabilities under rules: sums over all labellings that obey them (cpp/sums.cpp)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bridle import _native
from bridle.decoding.problem import Problem
from bridle.errors import EngineError, Infeasible
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


def _log_sum(problem: _native.Problem, rules: list[int], into: Scores | None = None) -> float:
    value = problem.log_sum(0, rules, into)
    if value == math.inf:
        raise EngineError(
            "the sum over all labellings needs too many states", got=f"{len(rules)} rules together",
            wanted="fewer rules, or a higher max_states",
            cause="Sums need the product of all automata; decoding does not.",
        )
    return float(value)


def _hard(problem: Problem) -> list[int]:
    return [k for k, rule in enumerate(problem.rules) if not isinstance(rule, Soft)]


def marginals(problem: Problem, blame: Callable[[], Infeasible]) -> Scores:
    """(n, m) posteriors given that the hard rules hold."""
    table = np.zeros((int(problem.offsets[-1]), len(problem.labels)))
    if _log_sum(problem.native(), _hard(problem), into=table) == -math.inf:
        raise blame()
    return table


def probability(problem: Problem, blame: Callable[[], Infeasible]) -> Probability:
    """P(all hard rules hold), and of each rule alone."""
    apart = problem.native("nothing")
    everything = _log_sum(apart, [])
    if everything == -math.inf:
        raise blame()
    each = [(rule, _exp(_log_sum(apart, [k]) - everything)) for k, rule in enumerate(problem.rules)]
    return Probability(_exp(_log_sum(problem.native(), _hard(problem)) - everything), each)


def _exp(x: float) -> float:
    return min(1.0, math.exp(min(x, 0.0)))
