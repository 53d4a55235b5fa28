"""HiGHS as Bridle runs it: one thread, no gap, the relaxation first; what its outcomes mean.

HiGHS looks at its clock between steps, but a step of its presolve can take seconds and cannot be interrupted. So it
runs in a thread of its own, and Ctrl-C ends the waiting. If it has not come to its clock shortly after the deadline, it
is left alone (GONE): the thread ends at that look at the clock, and owns the solver until then. No more than MOST_GONE
of them are ever left: while they are at work, a new run waits for one of them to end, until its own deadline.
"""

from __future__ import annotations

from collections import deque
from threading import Event, Lock, Thread
from typing import Any

import highspy

from bridle.deadline import Deadline, check_stopped
from bridle.errors import EngineError

WHOLE = 1e-6  # how far from 0 or 1 a column may be
DONE = highspy.HighsModelStatus.kOptimal
NONE = (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible)
LIMIT = highspy.HighsModelStatus.kTimeLimit
GONE = highspy.HighsModelStatus.kInterrupt  # out of time, and the solver has nothing to tell about this run
GRACE = 0.02  # seconds that HiGHS has after the deadline to come to its clock
POLL = 0.02  # seconds between two looks at whether the work was stopped
MOST_GONE = 4  # threads
_gone: deque[Thread] = deque()
_lock = Lock()
_OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}


def stats_of(answer: Any) -> dict[str, Any]:
    """The statistics of a solved program, for token and word lattices alike."""
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


def solve(highs: highspy.Highs, deadline: Deadline, *, relaxed: bool) -> highspy.HighsModelStatus:
    """DONE, LIMIT, GONE or one of NONE; anything else is an error. relaxed: columns need not be whole."""
    highs.setOptionValue("solve_relaxation", relaxed)
    if deadline.passed() or not _wait_for_others(deadline):
        return GONE  # not LIMIT: what the solver holds is the outcome of an earlier run
    if (left := deadline.left) is not None:
        highs.setOptionValue("time_limit", highs.getRunTime() + left)  # its clock runs on from run to run
    if not _run_until(highs, deadline):
        return GONE
    status = highs.getModelStatus()
    if status not in (DONE, LIMIT, *NONE):
        raise EngineError("the solver failed", got=highs.modelStatusToString(status), wanted="an optimum")
    return status


def _run(highs: highspy.Highs) -> None:
    if highs.run() == highspy.HighsStatus.kError:
        # The thread pool belongs to the whole process: another user of HiGHS may have made it with more threads.
        highs.resetGlobalScheduler(True)
        highs.run()


def _run_until(highs: highspy.Highs, deadline: Deadline) -> bool:
    """Run it in a thread. False: it is still at work when the time is up, and stops when it can."""
    stop, done, failed = Event(), Event(), list[BaseException]()

    def look(event: Any) -> None:
        if stop.is_set():
            event.interrupt()

    def work() -> None:
        try:
            _run(highs)
        except BaseException as error:  # it is raised where the answer is waited for
            failed.append(error)
        finally:
            done.set()

    for callback in (highs.cbSimplexInterrupt, highs.cbIpmInterrupt, highs.cbMipInterrupt):
        callback.clear()  # type: ignore[no-untyped-call]
        callback.subscribe(look)
    thread, gone = Thread(target=work, name="bridle-highs"), False
    thread.start()
    try:
        # Not thread.join: when Ctrl-C interrupts it, Python before 3.13 takes the thread for dead (cpython#90882).
        while not done.is_set() and not deadline.passed(-GRACE):
            left = deadline.left
            done.wait(POLL if left is None else min(POLL, left + GRACE))
            check_stopped()
    finally:  # also when Ctrl-C ended the waiting
        if gone := not done.is_set():
            stop.set()
            with _lock:
                _gone.append(thread)
    if failed and not gone:
        raise failed[0]
    return not gone  # whatever a thread that was left alone says later, nobody reads it


def _wait_for_others(deadline: Deadline) -> bool:
    """Few threads may be left alone at a time. False: too many of them are still at work at the deadline."""
    while True:
        with _lock:
            alive = [thread for thread in _gone if thread.is_alive()]
            _gone.clear()
            _gone.extend(alive)
        if len(alive) < MOST_GONE:
            return True
        if deadline.passed():
            return False
        check_stopped()
        left = deadline.left
        alive[0].join(0.01 if left is None else min(0.01, left))
