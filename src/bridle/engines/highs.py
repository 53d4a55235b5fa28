"""Integer programs, solved by HiGHS in one thread and without a gap: the only module that calls HiGHS.

HiGHS looks at its clock between steps, but a step of its presolve can take seconds and cannot be interrupted. So it
runs in a thread of its own, and Ctrl-C ends the waiting. If it has not come to its clock shortly after the deadline, it
is abandoned: the thread ends at its next look at the clock, and owns the solver until then. No more than MOST_ABANDONED
threads are ever left: while they are at work, a new run waits for one of them to end, until its own deadline.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from bridle.deadline import NEVER, Deadline, check_stopped
from bridle.errors import EngineError

if TYPE_CHECKING:
    import highspy  # imported when a program is solved: it takes longer than the rest of Bridle

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.integer]
Status = Literal["optimal", "limit", "infeasible"]
INTEGRALITY = 1e-6  # distance from an integer up to which a value counts as one
GRACE = 0.02  # seconds that HiGHS has after the deadline to come to its clock
POLL = 0.02  # seconds between two looks at whether the work was stopped
MOST_ABANDONED = 4  # threads
_abandoned: deque[Thread] = deque()
_lock = Lock()
_OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}


@dataclass(frozen=True, slots=True, eq=False)
class IntegerProgram:
    """Optimise cost @ x subject to low <= A x <= high, 0 <= x <= upper, x[integer] integers.

    A is sparse, by rows or by columns: entries start[k] .. start[k+1]-1 are those of row (or column) k.
    C columns    R rows
    """

    cost: Floats  # (C,)
    upper: Floats  # (C,)
    integer: npt.NDArray[np.bool_]  # (C,)
    low: Floats  # (R,)
    high: Floats  # (R,)
    start: Indices  # (R + 1,) or (C + 1,)
    index: Indices
    value: Floats
    sense: Literal["minimise", "maximise"] = "minimise"
    layout: Literal["rows", "columns"] = "rows"


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Result of an integer program."""

    status: Status
    bound: float  # proved: no x has a better objective
    x: Floats | None = None  # (C,)  None: infeasible, or none found within the limit
    lp_integral: bool = False  # the linear relaxation has an integral solution, so nothing was branched on
    row_duals: Floats | None = None  # (R,)  of the relaxation


@dataclass(frozen=True, slots=True, eq=False)
class ProgramAnswer:
    """Answer of integer programs to one sequence."""

    ids: npt.NDArray[np.int32] | None  # labels of tokens, or arcs of words; None: infeasible, or none found in time
    status: Status
    bound: float  # proved: no answer has a higher score - penalty
    lp_integral: bool
    n_variables: int = 0
    n_rows: int = 0
    build_seconds: float = 0.0
    solve_seconds: float = 0.0

    @property
    def stats(self) -> dict[str, Any]:
        """The entries of `Decoding.stats`."""
        return {
            "lp_integral": self.lp_integral,
            "variables": self.n_variables,
            "rows": self.n_rows,
            "build_seconds": self.build_seconds,
            "solve_seconds": self.solve_seconds,
        }


class Solver:
    """HiGHS, set up for the exact optimum. It can solve programs one after another."""

    def __init__(self, presolve: Literal["choose", "off", "on"] = "choose") -> None:
        import highspy

        self._highs = highspy.Highs()  # type: ignore[no-untyped-call]
        for name, option in {**_OPTIONS, "presolve": presolve}.items():
            self._highs.setOptionValue(name, option)

    def solve(
        self,
        program: IntegerProgram,
        deadline: Deadline = NEVER,
        *,
        stages: Literal["both", "relaxation", "branching"] = "both",
    ) -> Solution:
        """Solve the linear relaxation, then, if its solution is not integral, branch and bound.

        With stages="relaxation", a relaxation that is not integral leaves the status "limit".
        """
        maximise = program.sense == "maximise"
        unproved = np.inf if maximise else -np.inf
        self._load(program)
        highs, bound, duals = self._highs, unproved, None
        if stages != "branching":
            status = run(highs, deadline, relaxed=True)
            if status != "optimal":
                return Solution("infeasible", -unproved) if status == "infeasible" else Solution("limit", unproved)
            bound = float(highs.getInfo().objective_function_value)
            solution = highs.getSolution()
            x, duals = np.asarray(solution.col_value), np.asarray(solution.row_dual)
            if _is_integral(x[program.integer]):
                return Solution("optimal", bound, x, True, duals)
            if stages == "relaxation":
                return Solution("limit", bound, row_duals=duals)
        status = run(highs, deadline, relaxed=False)
        if status == "infeasible":
            return Solution("infeasible", -unproved)
        if status == "abandoned":
            return Solution("limit", bound, row_duals=duals)
        info = highs.getInfo()
        bound = (min if maximise else max)(bound, float(info.mip_dual_bound))
        if info.primal_solution_status != 2:  # highspy.SolutionStatus.kSolutionStatusFeasible
            return Solution("limit", bound, row_duals=duals)
        return Solution(status, bound, np.asarray(highs.getSolution().col_value), row_duals=duals)

    def _load(self, program: IntegerProgram) -> None:
        import highspy

        p, n_columns, n_rows = program, len(program.cost), len(program.low)
        self._highs.clearModel()
        status = self._highs.passModel(
            n_columns,
            n_rows,
            len(p.index),
            int(highspy.MatrixFormat.kRowwise if p.layout == "rows" else highspy.MatrixFormat.kColwise),
            int(highspy.ObjSense.kMaximize if p.sense == "maximise" else highspy.ObjSense.kMinimize),
            0.0,
            p.cost,
            np.zeros(n_columns),
            p.upper,
            p.low,
            p.high,
            p.start.astype(np.int32),
            p.index.astype(np.int32),
            p.value,
            p.integer.astype(np.int32),
        )
        if status == highspy.HighsStatus.kError:
            got = f"{n_columns} columns, {n_rows} rows"
            raise EngineError("the solver refused the program", got=got, wanted="finite scores")


def _is_integral(x: Floats) -> bool:
    return float(np.abs(x - x.round()).max(initial=0.0)) <= INTEGRALITY


def run(highs: highspy.Highs, deadline: Deadline, *, relaxed: bool) -> Status | Literal["abandoned"]:
    """Run a loaded solver until the deadline; "abandoned": out of time, and the solver holds no result of this run."""
    from highspy import HighsModelStatus as Code

    highs.setOptionValue("solve_relaxation", relaxed)
    if deadline.passed() or not _wait_for_others(deadline):
        return "abandoned"
    if (left := deadline.left) is not None:
        highs.setOptionValue("time_limit", highs.getRunTime() + left)  # its clock runs on from run to run
    if not _run_until(highs, deadline):
        return "abandoned"
    names: dict[Code, Status] = {
        Code.kOptimal: "optimal",
        Code.kTimeLimit: "limit",
        Code.kInfeasible: "infeasible",
        Code.kUnboundedOrInfeasible: "infeasible",
    }
    code = highs.getModelStatus()
    if code not in names:
        raise EngineError("the solver failed", got=highs.modelStatusToString(code), wanted="an optimum")
    return names[code]


def _run_until(highs: highspy.Highs, deadline: Deadline) -> bool:
    """Run it in a thread. False: it is still at work when the time is up, and stops when it can."""
    stop, done, errors = Event(), Event(), list[BaseException]()

    def interrupt(event: Any) -> None:
        if stop.is_set():
            event.interrupt()

    def work() -> None:
        from highspy import HighsStatus

        try:
            if highs.run() == HighsStatus.kError:
                # The thread pool belongs to the whole process: another user of HiGHS may have made it larger.
                highs.resetGlobalScheduler(True)
                highs.run()
        except BaseException as error:  # raised in the thread that waits
            errors.append(error)
        finally:
            done.set()

    for callback in (highs.cbSimplexInterrupt, highs.cbIpmInterrupt, highs.cbMipInterrupt):
        callback.clear()  # type: ignore[no-untyped-call]
        callback.subscribe(interrupt)
    thread, abandoned = Thread(target=work, name="bridle-highs"), False
    thread.start()
    try:
        # Not thread.join: when Ctrl-C interrupts it, Python before 3.13 takes the thread for dead (cpython#90882).
        while not done.is_set() and not deadline.passed(-GRACE):
            left = deadline.left
            done.wait(POLL if left is None else min(POLL, left + GRACE))
            check_stopped()
    finally:  # also when Ctrl-C ended the waiting
        if abandoned := not done.is_set():
            stop.set()
            with _lock:
                _abandoned.append(thread)
    if errors and not abandoned:
        raise errors[0]
    return not abandoned  # the results of an abandoned thread are never read


def _wait_for_others(deadline: Deadline) -> bool:
    """Wait until a thread may be added. False: too many abandoned ones are still at work at the deadline."""
    while True:
        with _lock:
            alive = [thread for thread in _abandoned if thread.is_alive()]
            _abandoned.clear()
            _abandoned.extend(alive)
        if len(alive) < MOST_ABANDONED:
            return True
        if deadline.passed():
            return False
        check_stopped()
        left = deadline.left
        alive[0].join(0.01 if left is None else min(0.01, left))
