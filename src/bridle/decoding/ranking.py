"""The k best labellings of a sequence, each with its proof."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bridle.checks import is_integer
from bridle.deadline import Deadline, check_stopped
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
    (found,) = problem.native().k_best_all(min(int(k), 2**31 - 1), np.zeros(1, dtype=np.int64), problem.stop)
    if not found:
        raise infeasible_on(decoder, problem.lattices[0], problem.all_given(0), deadline.left)
    if found[0][2] == NOTHING_FOUND:
        raise nothing_found("search", found[0][3])
    return ranked(decoder, found)


def ranked(decoder: Decoder, labellings: Sequence[tuple[Any, ...]]) -> list[Decoding]:
    """Decodings of the labellings that a kernel has ranked."""
    out = []
    for path, score, status, bound, violations in labellings:
        check_stopped()
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
