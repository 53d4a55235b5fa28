"""Word segmentation as an integer linear program (Zhao & Marcus 2012, section 3.3), solved by HiGHS.

    maximise  sum of score(w) x(w)   subject to   sum of x(w) over the words w that hold c = 1, for every character c
              x(w) is 0 or 1

Every column is a run of ones (a word holds consecutive characters), so the matrix is totally unimodular and the linear
relaxation has whole vertices: it is solved first and its solution is the answer; branching is there for a solver that
should stop elsewhere. Impossible words (-inf, or forbidden by a rule) are columns with the upper limit 0.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

import highspy
import numpy as np
import numpy.typing as npt

from bridle.engines.highs import DONE, LIMIT, NONE, WHOLE, new_solver
from bridle.engines.highs import solve as run_highs
from bridle.errors import EngineError


@dataclass(frozen=True, slots=True, eq=False)
class SpanIlpAnswer:
    """What the solver found and proved."""

    arcs: npt.NDArray[np.int32] | None  # the words, left to right; None: infeasible, or none found within the limit
    status: Literal["optimal", "limit", "infeasible"]
    bound: float
    lp_integral: bool  # the relaxation had a whole solution
    n_variables: int = 0
    n_rows: int = 0
    build_seconds: float = 0.0
    solve_seconds: float = 0.0


def solve(
    n: int, spans: npt.NDArray[np.int32], scores: npt.NDArray[np.float64], time_limit: float | None = None
) -> SpanIlpAnswer:
    """The words with the highest sum of scores that hold each of n characters once."""
    if n == 0:
        return SpanIlpAnswer(np.zeros(0, np.int32), "optimal", 0.0, True)
    began = time.perf_counter()
    if not len(spans):
        return SpanIlpAnswer(None, "infeasible", -np.inf, True, 0, n)
    highs = _load(n, spans, scores)
    built = time.perf_counter()
    deadline = np.inf if time_limit is None else began + time_limit
    found, status, bound, whole = _run(highs, deadline)
    arcs = None
    if found is not None:
        arcs = found[np.argsort(spans[found, 0])].astype(np.int32)
        _certify(n, spans[arcs], scores[arcs], bound, status)
        value = float(scores[arcs].sum())
        bound = value if status == "optimal" else max(bound, value)
    return SpanIlpAnswer(arcs, status, bound, whole, len(spans), n, built - began, time.perf_counter() - built)


def _load(n: int, spans: npt.NDArray[np.int32], scores: npt.NDArray[np.float64]) -> highspy.Highs:
    count = len(spans)
    lengths = spans[:, 1] - spans[:, 0]
    begin = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.arange(begin[-1]) - np.repeat(begin[:-1] - spans[:, 0], lengths)  # the characters of each word
    possible = np.isfinite(scores)
    highs = new_solver()
    status = highs.passModel(
        count, n, len(rows), int(highspy.MatrixFormat.kColwise), int(highspy.ObjSense.kMaximize), 0.0,
        np.where(possible, scores, 0.0), np.zeros(count), possible.astype(np.float64), np.ones(n), np.ones(n),
        begin.astype(np.int32), rows.astype(np.int32), np.ones(len(rows)), np.ones(count, dtype=np.int32),
    )  # fmt: skip
    if status == highspy.HighsStatus.kError:
        raise EngineError("the solver refused the program", got=f"{count} columns, {n} rows", wanted="finite scores")
    return highs


def _run(
    highs: highspy.Highs, deadline: float
) -> tuple[npt.NDArray[np.intp] | None, Literal["optimal", "limit", "infeasible"], float, bool]:
    """Relaxation, then branch and bound if its solution is not whole: the words, status, bound, was it whole."""
    status = run_highs(highs, deadline, relaxed=True)
    if status in NONE:
        return None, "infeasible", -np.inf, False
    if status == LIMIT:
        return None, "limit", np.inf, False
    bound = float(highs.getInfo().objective_function_value)
    x = np.asarray(highs.getSolution().col_value)
    if float(np.abs(x - x.round()).max()) <= WHOLE:
        return np.flatnonzero(x > 0.5), "optimal", bound, True
    status = run_highs(highs, deadline, relaxed=False)
    if status in NONE:
        return None, "infeasible", -np.inf, False
    info = highs.getInfo()
    bound = min(bound, float(info.mip_dual_bound))
    if info.primal_solution_status != int(highspy.SolutionStatus.kSolutionStatusFeasible):
        return None, "limit", bound, False
    found = np.flatnonzero(np.asarray(highs.getSolution().col_value) > 0.5)
    return found, "optimal" if status == DONE else "limit", bound, False


def _certify(
    n: int, spans: npt.NDArray[np.int32], scores: npt.NDArray[np.float64], bound: float, status: str
) -> None:
    """Rounding in the solver must not pass as an answer."""
    chained = np.array_equal(np.append(spans[:, 0], n), np.append(0, spans[:, 1]))
    value = float(scores.sum())
    if not chained or not np.isfinite(value):
        raise EngineError(
            "the solver gave words that do not hold each character once", got=spans.tolist(), wanted="a path",
            cause="Rounding in the solver: scores of very different sizes? Try engine='viterbi'.",
        )
    if status == "optimal" and abs(value - bound) > 1e-5 * (1.0 + abs(value)):
        raise EngineError(
            "the solver's objective is not the value of its words", got=bound, wanted=value,
            cause="Scores of very different sizes? Try engine='viterbi'.",
        )
