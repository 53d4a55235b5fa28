"""When hard rules clash: the fewest violations of them, and of the labellings with so few the one that scores best.

Both parts are proved, in this order (engines.cpp): a lexicographic objective, not a sum of scores and large prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.deadline import current_stop
from bridle.decoding.problem import INFEASIBLE, NOTHING_FOUND, RELAXED, Answers, Limits, Problem
from bridle.decoding.result import Decoding, penalty_of, violations_of
from bridle.lattice import Lattice, subset

if TYPE_CHECKING:
    from bridle.decoding.decoder import Decoder

KERNEL = _native.engine("relaxed")
_COUNTERS = ("solves", "expansions", "hard_violations", "hard_violations_bound")  # and whether all is proved


def relax_infeasible(problem: Problem, limits: Limits, answers: Answers) -> dict[int, dict[str, Any]]:
    """Answer the sequences of a problem that are infeasible, unless their scores have no path at all.

    Returns what was counted for each of them, and whether it is "optimal": both parts proved.
    """
    chosen = np.flatnonzero(answers.status == INFEASIBLE)
    some = _some(problem, chosen)
    found = Answers.blank(some.offsets, len(problem.rules), len(_COUNTERS) + 1)
    left = None if limits.time_limit is None else np.maximum(0.0, limits.time_limit - answers.seconds[chosen])
    some.native("relaxed").decode(
        KERNEL,
        some.stop,
        found.ids,
        found.score,
        found.bound,
        found.status,
        found.violations,
        found.counters,
        found.seconds,
        left,
    )
    told = {}
    late = found.status == NOTHING_FOUND  # a limit was reached first
    answers.status[chosen[late]], answers.bound[chosen[late]] = NOTHING_FOUND, found.bound[late]
    for k in np.flatnonzero(found.status == RELAXED).tolist():
        b = int(chosen[k])
        answers.ids[problem.offsets[b] : problem.offsets[b + 1]] = found.ids[some.offsets[k] : some.offsets[k + 1]]
        answers.score[b], answers.bound[b], answers.status[b] = found.score[k], found.bound[k], RELAXED
        answers.violations[b] = found.violations[k]
        *counts, proved = found.counters[k].tolist()
        told[b] = {"optimal": bool(proved), **dict(zip(_COUNTERS, counts, strict=True))}
    return told


def relaxed_one(
    decoder: Decoder, lattice: Lattice, given: Mapping[str, Any] | None, seconds: float
) -> tuple[Decoding | None, int, float]:
    """The same for a single sequence, on which so many seconds were spent; and its status and bound.

    There is no decoding if its scores have no path at all, or a limit was reached first.
    """
    limit = decoder.limits.time_limit
    ids = np.empty(len(lattice), dtype=np.int32)
    score, bound, status, violations, counters, _ = _native.decode_one(
        decoder.compiled.native("relaxed"),
        KERNEL,
        lattice.unary,
        lattice.pairwise,
        lattice.start,
        lattice.end,
        given,
        len(_COUNTERS) + 1,
        ids,
        None if limit is None else max(0.0, limit - seconds),
        current_stop(),
    )
    if status != RELAXED:
        return None, status, bound
    violated = violations_of(decoder.rules, violations)
    *counts, proved = counters
    found = Decoding(
        ids,
        score,
        penalty_of(violated),
        violated,
        bound,
        bool(proved),
        decoder.plan.engine,
        dict(zip(_COUNTERS, counts, strict=True)),
        decoder.labels,
        "relaxed",
    )
    return found, status, bound


def _some(problem: Problem, chosen: npt.NDArray[np.int64]) -> Problem:
    """Some sequences of a problem."""
    texts = None
    if problem.texts is not None:
        cuts = problem.offsets
        texts = [text for b in chosen.tolist() for text in problem.texts[cuts[b] : cuts[b + 1]]]
    givens = None if problem.givens is None else [problem.givens[b] for b in chosen.tolist()]
    return Problem(problem.compiled, subset(problem.lattices, chosen), givens, texts=texts, stop=problem.stop)
