"""The k best labellings of a sequence, each with its proof."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bridle.checks import is_integer
from bridle.deadline import Deadline
from bridle.decoding.clash import infeasible_on, nothing_found
from bridle.decoding.problem import NOTHING_FOUND, OPTIMAL, Problem
from bridle.decoding.result import Decoding, penalty_of, status_of, violations_of
from bridle.errors import EngineError

if TYPE_CHECKING:
    from bridle.decoding.decoder import Decoder


def k_best(decoder: Decoder, problem: Problem, k: int) -> list[Decoding]:
    """The k best labellings of the one sequence of a problem, best first."""
    if not is_integer(k, 1):
        raise EngineError("`k` must be a positive integer", got=repr(k), wanted="1 or more")
    deadline = Deadline.after(decoder.limits.time_limit)
    found = problem.native().k_best(0, min(int(k), 2**31 - 1))
    if not found:
        raise infeasible_on(decoder, problem.lattices[0], problem.all_given(0), deadline.left)
    out = []
    for path, score, status, bound, violations in found:
        if status == NOTHING_FOUND:
            raise nothing_found("search", bound)
        violated = violations_of(decoder.rules, violations)
        out.append(
            Decoding(
                np.array(path, dtype=np.int32),
                score,
                penalty_of(violated),
                violated,
                bound,
                status == OPTIMAL,
                "search",
                {},
                decoder.labels,
                status_of(status),
            )
        )
    return out
