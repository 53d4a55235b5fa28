"""HiGHS as Bridle runs it: one thread, no gap, the relaxation first; what its outcomes mean."""

from __future__ import annotations

import time
from typing import Any

import highspy
import numpy as np

from bridle.errors import EngineError

WHOLE = 1e-6  # how far from 0 or 1 a column may be
DONE = highspy.HighsModelStatus.kOptimal
NONE = (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible)
LIMIT = highspy.HighsModelStatus.kTimeLimit
_OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}


def stats_of(answer: Any) -> dict[str, Any]:
    """What is told of the program behind an answer, for token and word lattices alike."""
    return {
        "lp_integral": answer.lp_integral,
        "variables": answer.n_variables,
        "rows": answer.n_rows,
        "build_seconds": answer.build_seconds,
        "solve_seconds": answer.solve_seconds,
    }


def new_solver() -> highspy.Highs:
    """An empty solver that works alone, in silence, to the exact optimum."""
    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    for name, option in _OPTIONS.items():
        highs.setOptionValue(name, option)
    return highs


def solve(highs: highspy.Highs, deadline: float, *, relaxed: bool) -> highspy.HighsModelStatus:
    """DONE, LIMIT or one of NONE; anything else is an error. relaxed: columns need not be whole."""
    left = deadline - time.perf_counter()
    if left <= 0:
        return LIMIT
    highs.setOptionValue("solve_relaxation", relaxed)
    if left < np.inf:
        highs.setOptionValue("time_limit", highs.getRunTime() + left)  # its clock runs on from run to run
    if highs.run() == highspy.HighsStatus.kError:
        # The thread pool belongs to the whole process: another user of HiGHS may have made it with more threads.
        highs.resetGlobalScheduler(True)
        highs.run()
    status = highs.getModelStatus()
    if status not in (DONE, LIMIT, *NONE):
        raise EngineError("the solver failed", got=highs.modelStatusToString(status), wanted="an optimum")
    return status
