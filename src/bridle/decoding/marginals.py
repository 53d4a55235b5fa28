"""Probabilities under rules: sums over all labellings that obey them (cpp/search/sums.cpp)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.deadline import Deadline
from bridle.decoding.problem import FOREVER, Problem
from bridle.errors import EngineError, Infeasible, LatticeError, LimitReached
from bridle.lattice import Scores
from bridle.rules.base import Rule, Soft
from bridle.rules.compiled import Absorb

LARGEST_ERROR = 1e-5  # of the log of a probability
LEAST_LOG = -745.0  # of a probability: exp of less is 0


class _Sum(NamedTuple):
    """log of a sum of exp(score), relative to the largest scores, and what rounding can have done to it."""

    log_z: float
    error: float


@dataclass(frozen=True)
class Probability:
    """How probable rules are under the model p(y) ~ exp(score(y)).

    Attributes
    ----------
    all : float
        The probability that all hard rules hold.
    each : list of (Rule, float)
        The same for each rule alone, hard or soft.
    """

    all: float
    each: list[tuple[Rule, float]]


def log_sum(
    problem: Problem, rules: list[int], deadline: Deadline, into: Scores | None = None, absorb: Absorb = "masks"
) -> _Sum:
    """The sum over all labellings that obey these rules; into: where the posteriors go."""
    native, left = problem.native(absorb), deadline.left
    value, error = native.log_sum(0, rules, into, -1.0 if left is None else min(left, FOREVER), problem.stop)
    if math.isnan(value):
        raise late_sum(len(rules))
    if value == math.inf:
        raise too_many_states(len(rules))
    return _Sum(value, error)


def late_sum(n_rules: int) -> LimitReached:
    """The error for a sum that took longer than the time limit."""
    return LimitReached(
        "the sum over all labellings was not finished within the time limit",
        bound=math.inf,
        got=f"{n_rules} rules together",
        wanted="fewer rules, or a higher time_limit" if n_rules else "a higher time_limit",
        cause="Sums need the product of all automata; decoding does not." if n_rules else None,
    )


def too_many_states(n_rules: int) -> EngineError:
    """The error for a sum over a product of automata that does not fit."""
    return EngineError(
        "the sum over all labellings needs too many states",
        got=f"{n_rules} rules together",
        wanted="fewer rules, or a higher max_states or max_memory",
        cause="Sums need the product of all automata; decoding does not.",
    )


def hard_rules(problem: Problem) -> list[int]:
    """Which rules are hard."""
    return [k for k, rule in enumerate(problem.rules) if not isinstance(rule, Soft)]


def too_large(error: float) -> LatticeError:
    """The error for scores whose sums rounding changes too much."""
    return LatticeError(
        "the scores are too large for probabilities",
        got=f"sums that rounding can change by {error:.1g}",
        wanted=f"scores whose sums are exact to {LARGEST_ERROR:g}: below about 1e9 on every path that the rules allow",
        cause="Every path goes through a finite score that stands for impossible, such as -1e38; use -inf for those.",
    )


def marginals(problem: Problem, blame: Callable[[float | None], Infeasible], time_limit: float | None) -> Scores:
    """(n, m) posteriors given that the hard rules hold. blame: why none does, within so many seconds."""
    deadline = Deadline.after(time_limit)
    table = np.zeros((int(problem.offsets[-1]), len(problem.labels)))
    found = log_sum(problem, hard_rules(problem), deadline, into=table)
    if found.log_z == -math.inf:
        raise blame(deadline.left)
    if found.error > LARGEST_ERROR:
        raise too_large(found.error)
    return table


def probability(problem: Problem, blame: Callable[[float | None], Infeasible], time_limit: float | None) -> Probability:
    """P(all hard rules hold), and of each rule alone; the time is that of all sums together."""
    deadline = Deadline.after(time_limit)
    everything = log_sum(problem, [], deadline, absorb="nothing")
    if everything.log_z == -math.inf:
        raise blame(deadline.left)
    alone = (log_sum(problem, [k], deadline, absorb="nothing") for k in range(len(problem.rules)))
    each = [(rule, share(found, everything)) for rule, found in zip(problem.rules, alone, strict=True)]
    return Probability(share(log_sum(problem, hard_rules(problem), deadline), everything), each)


def log_probability(problem: Problem, ids: npt.NDArray[np.integer], time_limit: float | None) -> float:
    """log p(labelling) given that the hard rules hold; -inf if it breaks one, or if none can hold."""
    hard, lattice, at = hard_rules(problem), problem.lattices[0], np.arange(len(ids))
    broken = (problem.rules[k].violations(ids.tolist(), problem.labels, problem.given(0)) for k in hard)
    if lattice.score(ids) == -math.inf or any(broken):
        return -math.inf
    # As differences to the largest scores, as `log_sum` has them: scores may be huge.
    score = float((lattice.unary[at, ids] - lattice.unary.max(axis=1)).sum())
    if lattice.pairwise is not None and len(ids) > 1:
        pairwise = lattice.pairwise if lattice.pairwise.ndim == 3 else lattice.pairwise[None]
        step = at[:-1] if len(pairwise) > 1 else 0
        score += float((pairwise[step, ids[:-1], ids[1:]] - pairwise.max(axis=(1, 2))[step]).sum())
    for edge, y in ((lattice.start, ids[:1]), (lattice.end, ids[-1:])):
        score += 0.0 if edge is None else float(edge[y].sum())
    found = log_sum(problem, hard, Deadline.after(time_limit))
    if found.error > LARGEST_ERROR:
        raise too_large(found.error)
    return min(0.0, score - found.log_z) if found.log_z > -math.inf else -math.inf


def share(part: _Sum, whole: _Sum, shift: float = 0.0) -> float:
    """The probability of what one sum is over, given another: exp(log_z - log_z), if rounding leaves it its digits.

    shift: the largest scores that the first sum is relative to, less those of the second.
    """
    log_p, error = part.log_z + shift - whole.log_z, part.error + whole.error
    if log_p + error < LEAST_LOG:
        return 0.0
    if error > LARGEST_ERROR:
        raise too_large(error)
    return min(1.0, math.exp(min(log_p, 0.0)))
