"""The integer programs behind the engines `ilp` and `two_stage`, solved by HiGHS.

    minimise  price - score   over unit flows through the trellis that satisfy the rows of the rules (rules/linear.py)

The linear relaxation is solved first: if its solution is whole it is the answer, and no branching is done. Impossible
edges (-inf) are columns with the upper limit 0; no finite number stands for them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import highspy
import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.deadline import Deadline, OutOfTime
from bridle.decoding.problem import INFEASIBLE, MOST_MEMORY, NOTHING_FOUND, OPTIMAL, Limits
from bridle.engines.highs import DONE, GONE, LIMIT, NONE, WHOLE, new_solver
from bridle.engines.highs import solve as run_highs
from bridle.engines.search import Search
from bridle.errors import EngineError
from bridle.labels import Labels
from bridle.lattice import Lattice
from bridle.rules.base import Rule, Soft
from bridle.rules.compiled import CompiledRules
from bridle.rules.linear import Floats, Formulation, Program, lower

Status = Literal["optimal", "limit", "infeasible"]
# Per entry of the matrix: to sort it and to hand it to the solver, and the latter alone. Neither can be interrupted.
_SECONDS_TO_LOAD, _SECONDS_TO_PASS = 2e-7, 6e-8


@dataclass(frozen=True, slots=True, eq=False)
class IlpAnswer:
    """What the solver found and proved."""

    ids: npt.NDArray[np.int32] | None  # (n,) None: infeasible, or none found within the limit
    status: Status
    bound: float  # proved: no labelling has a higher score - penalty
    lp_integral: bool  # the relaxation had a whole solution
    n_variables: int = 0
    n_rows: int = 0
    build_seconds: float = 0.0
    solve_seconds: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """The outcome of one program: the labelling, if any, and a lower bound on the objective."""

    ids: npt.NDArray[np.int32] | None
    status: Status
    bound: float = -np.inf
    lp_integral: bool = False


class _Problem:
    """One lattice under rules as a program; keeps the time."""

    def __init__(
        self,
        lattice: Lattice,
        rules: Sequence[Rule],
        labels: Labels,
        given: Mapping[str, Any],
        formulation: Formulation,
        deadline: Deadline,
        max_memory: int,
    ) -> None:
        began = time.perf_counter()
        if formulation not in ("tight", "paper"):
            raise EngineError("unknown formulation", got=repr(formulation), wanted="'tight' or 'paper'")
        self.lattice, self.rules, self.labels, self.given, self.deadline = lattice, rules, labels, given, deadline
        self.program = Program(len(lattice), lattice.n_labels, deadline, max_memory)
        score = _edge_scores(lattice)
        self.score: Floats = np.where(np.isfinite(score), score, 0.0)
        self.program.edge_upper[~np.isfinite(score)] = 0.0
        for rule in rules:
            lower(self.program, rule, labels, given, formulation)
        self.build_seconds, self.solve_seconds = time.perf_counter() - began, 0.0

    def all_scores(self) -> Floats:
        """The score of each column."""
        return np.concatenate([self.score, np.zeros(self.program.n_columns - len(self.score))])

    def limit(self, coef: Floats, low: float, high: float) -> None:
        """Add a row over all columns."""
        col = np.flatnonzero(coef)
        scale = 1.0 / max(1.0, float(np.abs(coef).max(initial=0.0)))  # the tolerance of a row is absolute
        self.program.rows(np.zeros_like(col), col, coef[col] * scale, low * scale, np.array([high * scale]))

    def penalty(self, ids: npt.NDArray[np.int32]) -> float:
        return _penalty(self.rules, ids, self.labels, self.given)

    def minimise(self, cost: Floats) -> _Found:
        """Relaxation, then branch and bound if its solution is not whole."""
        began = time.perf_counter()
        highs = self._load(cost)
        built = time.perf_counter()
        self.build_seconds += built - began
        found = self._run(highs, cost)
        self.solve_seconds += time.perf_counter() - built
        if found.ids is not None and (worst := self._broken(found.ids)):
            raise EngineError(
                "the solver gave a labelling that breaks a hard rule",
                got=found.ids.tolist(),
                wanted=worst,
                cause="Rounding in the solver, or an error in the rule's linear rows; try another engine.",
            )
        return found

    def _load(self, cost: Floats) -> highspy.Highs:
        p = self.program
        self.deadline.check(_SECONDS_TO_LOAD * p.n_entries)
        start, index, value = p.matrix()
        low, high = p.limits
        self.deadline.check(_SECONDS_TO_PASS * len(index))
        highs = new_solver()
        status = highs.passModel(
            p.n_columns,
            p.n_rows,
            len(index),
            int(highspy.MatrixFormat.kRowwise),
            int(highspy.ObjSense.kMinimize),
            0.0,
            cost,
            np.zeros(p.n_columns),
            p.upper,
            low,
            high,
            start.astype(np.int32),
            index.astype(np.int32),
            value,
            p.integer.astype(np.int32),
        )
        if status == highspy.HighsStatus.kError:
            raise EngineError("the solver refused the program", got=f"{p.n_columns} columns, {p.n_rows} rows")
        return highs

    def _run(self, highs: highspy.Highs, cost: Floats) -> _Found:
        status = run_highs(highs, self.deadline, relaxed=True)
        if status in NONE:
            return _Found(None, "infeasible", np.inf)
        if status in (LIMIT, GONE):
            return _Found(None, "limit")
        bound = float(highs.getInfo().objective_function_value)
        x = np.asarray(highs.getSolution().col_value)
        kept = x[self.program.integer]
        if float(np.abs(kept - kept.round()).max(initial=0.0)) <= WHOLE:
            return _Found(self._read(x), "optimal", bound, True)
        status = run_highs(highs, self.deadline, relaxed=False)
        if status in NONE:
            return _Found(None, "infeasible", np.inf)
        if status == GONE:
            return _Found(None, "limit", bound)
        info = highs.getInfo()
        bound = max(bound, float(info.mip_dual_bound))
        if info.primal_solution_status != int(highspy.SolutionStatus.kSolutionStatusFeasible):
            return _Found(None, "limit", bound)
        ids = self._read(np.asarray(highs.getSolution().col_value))
        return _Found(ids, "optimal" if status == DONE else "limit", bound)

    def _read(self, x: Floats) -> npt.NDArray[np.int32]:
        """The labelling on the edges."""
        p = self.program
        nodes = np.bincount(p.pos * p.m + p.dst, weights=x[: len(p.pos)], minlength=p.n * p.m)
        return np.asarray(nodes.reshape(p.n, p.m).argmax(axis=1), dtype=np.int32)

    def _broken(self, ids: npt.NDArray[np.int32]) -> str:
        """A hard rule that a labelling breaks, or an impossible score."""
        if not np.isfinite(self.lattice.score(ids)):
            return "a labelling that is possible"
        bad = [r for r in self.rules if not isinstance(r, Soft) and r.violations(ids, self.labels, self.given)]
        return str(bad[0]) if bad else ""

    def answer(self, found: _Found, bound: float) -> IlpAnswer:
        p = self.program
        return IlpAnswer(
            found.ids,
            found.status,
            bound,
            found.lp_integral,
            p.n_columns,
            p.n_rows,
            self.build_seconds,
            self.solve_seconds,
        )


def solve(
    lattice: Lattice,
    rules: Sequence[Rule],
    labels: Labels,
    given: Mapping[str, Any],
    *,
    formulation: Formulation = "tight",
    time_limit: float | None = None,
    max_memory: int = MOST_MEMORY,
) -> IlpAnswer:
    """The labelling with the highest score - penalty that obeys the hard rules."""
    if len(lattice) == 0:
        return _empty(rules, labels, given)
    deadline = Deadline.after(time_limit)
    try:
        deadline.check()
        problem = _Problem(lattice, rules, labels, given, formulation, deadline, max_memory)
        found = problem.minimise(problem.program.price - problem.all_scores())
    except OutOfTime:
        return _without_rules(IlpAnswer(None, "limit", np.inf, False), lattice, rules, labels, given)
    if found.status == "infeasible":
        return problem.answer(found, -np.inf)
    value = -np.inf if found.ids is None else lattice.score(found.ids) - problem.penalty(found.ids)
    if found.status == "optimal":
        if abs(value + found.bound) > 1e-5 * (1.0 + abs(value)):
            raise EngineError(
                "the solver's objective is not the value of its labelling",
                got=-found.bound,
                wanted=value,
                cause="Scores of very different sizes, or an error in a rule's linear rows; try another engine.",
            )
        return problem.answer(found, value)
    return _without_rules(problem.answer(found, max(-found.bound, value)), lattice, rules, labels, given)


def solve_two_stage(
    lattice: Lattice,
    rules: Sequence[Rule],
    labels: Labels,
    given: Mapping[str, Any],
    *,
    tau: float,
    formulation: Formulation = "tight",
    time_limit: float | None = None,
    max_memory: int = MOST_MEMORY,
) -> IlpAnswer:
    """Fersini (22)-(29): the cheapest violations whose score is within (1 - tau) |Z*| of the best, Z*.

    1. Z* = the best score under the hard rules; 2. the lowest penalty with score >= Z* - (1 - tau) |Z*|;
    3. among those, the highest score. When a limit stops it, the labelling is the best of the stage before.
    """
    if not 0 <= tau <= 1:
        raise EngineError(
            "invalid value of `tau`", got=tau, wanted="0 <= tau <= 1", cause="1 keeps only the best score."
        )
    hard = [rule for rule in rules if not isinstance(rule, Soft)]
    deadline = Deadline.after(time_limit)
    if len(lattice) == 0:
        return _empty(rules, labels, given)
    first = solve(
        lattice,
        hard,
        labels,
        given,
        formulation=formulation,
        time_limit=time_limit,
        max_memory=max_memory,
    )
    if first.ids is None or first.status != "optimal" or _penalty(rules, first.ids, labels, given) == 0:
        return first
    try:
        problem = _Problem(lattice, rules, labels, given, formulation, deadline, max_memory)
    except OutOfTime:
        return replace(first, status="limit")
    problem.build_seconds += first.build_seconds
    problem.solve_seconds += first.solve_seconds
    return _second_stage(problem, first.ids, first.lp_integral, tau)


def _second_stage(problem: _Problem, first: npt.NDArray[np.int32], integral: bool, tau: float) -> IlpAnswer:
    """The cheapest labelling near the best one, `first`; and of those the one that scores best."""
    lattice = problem.lattice
    best = lattice.score(first)
    problem.limit(problem.all_scores(), best - (1.0 - tau) * abs(best), np.inf)
    kept = _Found(first, "limit", lp_integral=integral)
    try:
        cheap = problem.minimise(problem.program.price)
        if cheap.status == "infeasible":
            raise EngineError(
                "the solver finds no labelling near the best one",
                got="none",
                wanted=first.tolist(),
                cause="Rounding in the solver: scores of very different sizes?",
            )
        if cheap.ids is not None and problem.penalty(cheap.ids) <= problem.penalty(first):
            kept = replace(cheap, status="limit", lp_integral=integral and cheap.lp_integral)
        if cheap.status == "optimal" and cheap.ids is not None:
            least = problem.penalty(cheap.ids)
            problem.limit(problem.program.price, -np.inf, least + 1e-9 * (1.0 + least))
            last = problem.minimise(-problem.all_scores())
            if last.ids is not None and lattice.score(last.ids) >= lattice.score(cheap.ids):
                kept = replace(last, lp_integral=kept.lp_integral and last.lp_integral)
    except OutOfTime:
        pass  # what is kept is the best of the stage before
    if kept.status == "limit" or kept.ids is None:
        return problem.answer(kept, best)  # no penalty is below 0
    return problem.answer(kept, lattice.score(kept.ids) - problem.penalty(kept.ids))


def _without_rules(
    stopped: IlpAnswer, lattice: Lattice, rules: Sequence[Rule], labels: Labels, given: Mapping[str, Any]
) -> IlpAnswer:
    """What a limit left, or the best labelling without rules: it bounds all, and is an answer if it obeys the rules."""
    limits = Limits(time_limit=0.0)
    compiled = CompiledRules(labels, rules, limits.native()).native("masks")
    ids = np.empty(len(lattice), dtype=np.int32)
    search = Search()
    score, free, status, _violations, _counters, _seconds = _native.decode_one(
        compiled,
        search.kernel,
        lattice.unary,
        lattice.pairwise,
        lattice.start,
        lattice.end,
        given,
        len(search.counters),
        ids,
    )
    if status == INFEASIBLE:
        return replace(stopped, ids=None, status="infeasible", bound=-np.inf)
    bound = min(stopped.bound, free)
    if stopped.ids is not None:
        value = lattice.score(stopped.ids) - _penalty(rules, stopped.ids, labels, given)
        return replace(stopped, bound=max(bound, value))
    if status == NOTHING_FOUND:
        return replace(stopped, bound=bound)
    return replace(stopped, ids=ids, status="optimal" if status == OPTIMAL else "limit", bound=max(bound, score))


def _penalty(rules: Sequence[Rule], ids: npt.NDArray[np.int32], labels: Labels, given: Mapping[str, Any]) -> float:
    return sum(rule.cost(rule.violations(ids, labels, given)) for rule in rules if isinstance(rule, Soft))


def _empty(rules: Sequence[Rule], labels: Labels, given: Mapping[str, Any]) -> IlpAnswer:
    """The answer for a sequence without tokens: its one labelling, if the hard rules let it be."""
    ids = np.zeros(0, np.int32)
    if all(isinstance(rule, Soft) or rule.holds(ids, labels, given) for rule in rules):
        return IlpAnswer(ids, "optimal", -_penalty(rules, ids, labels, given), True)
    return IlpAnswer(None, "infeasible", -np.inf, True)


def _edge_scores(lattice: Lattice) -> Floats:
    """The score of each edge in the order of the program: start edges, inner edges, end edges."""
    unary = np.asarray(lattice.unary, dtype=np.float64)
    n, m = unary.shape
    start = unary[0] if lattice.start is None else unary[0] + lattice.start
    inner = np.broadcast_to(unary[1:, None, :], (n - 1, m, m))
    if lattice.pairwise is not None and n > 1:
        inner = inner + lattice.pairwise
    return np.concatenate([start, inner.ravel(), np.zeros(m) if lattice.end is None else lattice.end])
