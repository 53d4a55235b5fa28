"""`ilp`: the shortest path as an integer linear program with rules as rows (Roth & Yih 2005), solved by HiGHS.

    minimise  price - score   over unit flows through the trellis that satisfy the rows of the rules (rules/linear.py)

The linear relaxation is solved first: if its solution is integral it is the answer, and no branching is done.
Impossible edges (-inf) are columns with the upper limit 0; no finite number stands for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from bridle.deadline import Deadline, OutOfTime
from bridle.decoding.problem import (
    INFEASIBLE,
    LIMIT,
    MOST_MEMORY,
    NOTHING_FOUND,
    OPTIMAL,
    Answers,
    Limits,
    Problem,
    bad_option,
)
from bridle.engines import Engine, solve_one
from bridle.engines.highs import IntegerProgram, ProgramAnswer, Solver, Status
from bridle.engines.search import Search
from bridle.errors import BridleError, EngineError
from bridle.labels import Labels
from bridle.lattice import Lattice
from bridle.rules.base import Rule, Soft
from bridle.rules.compiled import CompiledRules

if TYPE_CHECKING:
    from bridle.rules.linear import Formulation

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int32]
# Per entry of the matrix: to sort it and to hand it to the solver, and the latter alone. Neither can be interrupted.
_SECONDS_TO_LOAD, _SECONDS_TO_PASS = 2e-7, 6e-8


@dataclass(frozen=True)
class Ilp(Engine):
    """The shortest path as an integer linear program with rules as linear rows, solved by HiGHS.

    Parameters
    ----------
    formulation : {"tight", "paper"}, default "tight"
        Rows that leave the solver little to branch on, or those of the papers.

    Raises
    ------
    EngineError
        If the option is bad.

    Examples
    --------
    >>> import bridle
    >>> lattice = bridle.Lattice([[0, 2], [0, 1], [0, 3]])
    >>> engine = bridle.engines.Ilp(formulation="paper")
    >>> d = bridle.Decoder(["A", "B"], ["at most 2 tokens of B"], engine).decode(lattice)
    >>> d.labels, d.stats["lp_integral"]
    (['B', 'A', 'B'], True)
    """

    name = "ilp"
    formulation: Literal["tight", "paper"] = "tight"

    def __post_init__(self) -> None:
        if self.formulation not in ("tight", "paper"):
            raise bad_option("formulation", self.formulation, "'tight' or 'paper'")

    def solve(self, problem: Problem, limits: Limits, answers: Answers) -> None:
        solve_each(problem, limits, answers, partial(solve, formulation=self.formulation))


def solve_each(problem: Problem, limits: Limits, answers: Answers, solve: Callable[..., ProgramAnswer]) -> None:
    """Solve integer programs for each sequence of a problem."""
    rules, labels = problem.rules, problem.labels
    for b in range(len(problem)):
        lattice, given, began = problem.lattices[b], problem.given(b), time.perf_counter()
        try:
            answer = solve(lattice, rules, labels, given, time_limit=limits.time_limit, max_memory=limits.max_memory)
        except BridleError as error:  # a value that came with this sequence, or a program that is too large
            problem.fail(b, error)
            answers.stats.append({})
            continue
        answers.bound[b], answers.seconds[b] = answer.bound, time.perf_counter() - began
        answers.stats.append(answer.stats)
        if answer.ids is None:
            answers.status[b] = INFEASIBLE if answer.status == "infeasible" else NOTHING_FOUND
            continue
        answers.status[b] = OPTIMAL if answer.status == "optimal" else LIMIT
        answers.ids[problem.offsets[b] : problem.offsets[b + 1]] = answer.ids
        answers.violations[b] = [rule.violations(answer.ids, labels, given) for rule in rules]
        answers.score[b] = lattice.score(answer.ids) - penalty(rules, answer.ids, labels, given)
        if answer.status == "optimal":
            answers.bound[b] = answers.score[b]


class TrellisProgram:
    """A lattice under rules as an integer program; measures the time of building and solving."""

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
        from bridle.rules.linear import Program, lower  # which no other engine needs

        began = time.perf_counter()
        self.lattice, self.rules, self.labels, self.given, self.deadline = lattice, rules, labels, given, deadline
        self.program = Program(len(lattice), lattice.n_labels, deadline, max_memory)
        scores = _edge_scores(lattice)
        self.program.edge_upper[~np.isfinite(scores)] = 0.0
        for rule in rules:
            lower(self.program, rule, labels, given, formulation)
        self._edges: Floats = np.where(np.isfinite(scores), scores, 0.0)
        self.build_seconds, self.solve_seconds = time.perf_counter() - began, 0.0

    @property
    def scores(self) -> Floats:
        """The score of each column."""
        return np.concatenate([self._edges, np.zeros(self.program.n_columns - len(self._edges))])

    def add_row(self, coef: Floats, low: float, high: float) -> None:
        """Add a row over all columns."""
        col = np.flatnonzero(coef)
        scale = 1.0 / max(1.0, float(np.abs(coef).max(initial=0.0)))  # the tolerance of a row is absolute
        self.program.rows(np.zeros_like(col), col, coef[col] * scale, low * scale, np.array([high * scale]))

    def penalty(self, ids: Ids) -> float:
        """Compute the penalty of a labelling."""
        return penalty(self.rules, ids, self.labels, self.given)

    def minimise(self, cost: Floats) -> ProgramAnswer:
        """Find the labelling of least cost; the bound is that of minus the cost."""
        began, p = time.perf_counter(), self.program
        self.deadline.check(_SECONDS_TO_LOAD * p.n_entries)
        start, index, value = p.matrix()
        self.deadline.check(_SECONDS_TO_PASS * len(index))
        program = IntegerProgram(cost, p.upper, p.integer, *p.limits, start, index, value)
        built = time.perf_counter()
        self.build_seconds += built - began
        solution = Solver().solve(program, self.deadline)
        self.solve_seconds += time.perf_counter() - built
        ids = None if solution.x is None else self._read(solution.x)
        if ids is not None and (wanted := self._unmet(ids)):
            raise EngineError(
                "the solver gave a labelling that breaks a hard rule",
                got=ids.tolist(),
                wanted=wanted,
                cause="Rounding in the solver, or an error in the rule's linear rows; try another engine.",
            )
        return self.answer(ids, solution.status, -solution.bound, solution.lp_integral)

    def _read(self, x: Floats) -> Ids:
        """Read the labelling off the edges."""
        p = self.program
        nodes = np.bincount(p.pos * p.m + p.dst, weights=x[: len(p.pos)], minlength=p.n * p.m)
        return np.asarray(nodes.reshape(p.n, p.m).argmax(axis=1), dtype=np.int32)

    def _unmet(self, ids: Ids) -> str:
        """Name a hard rule that a labelling breaks, if there is one."""
        if not np.isfinite(self.lattice.score(ids)):
            return "a labelling that is possible"
        broken = (r for r in self.rules if not isinstance(r, Soft) and r.violations(ids, self.labels, self.given))
        return str(next(broken, ""))

    def answer(self, ids: Ids | None, status: Status, bound: float, lp_integral: bool) -> ProgramAnswer:
        """Return an answer with the statistics so far."""
        p, seconds = self.program, (self.build_seconds, self.solve_seconds)
        return ProgramAnswer(ids, status, bound, lp_integral, p.n_columns, p.n_rows, *seconds)


def solve(
    lattice: Lattice,
    rules: Sequence[Rule],
    labels: Labels,
    given: Mapping[str, Any],
    *,
    formulation: Formulation = "tight",
    time_limit: float | None = None,
    max_memory: int = MOST_MEMORY,
) -> ProgramAnswer:
    """Find the labelling with the highest score - penalty that obeys the hard rules."""
    if len(lattice) == 0:
        return solve_empty(rules, labels, given)
    deadline = Deadline.after(time_limit)
    try:
        deadline.check()
        program = TrellisProgram(lattice, rules, labels, given, formulation, deadline, max_memory)
        answer = program.minimise(program.program.price - program.scores)
    except OutOfTime:
        return _bound_without_rules(ProgramAnswer(None, "limit", np.inf, False), lattice, rules, labels, given)
    if answer.status == "infeasible":
        return answer
    value = -np.inf if answer.ids is None else lattice.score(answer.ids) - program.penalty(answer.ids)
    if answer.status == "optimal":
        if abs(value - answer.bound) > 1e-5 * (1.0 + abs(value)):
            raise EngineError(
                "the solver's objective is not the value of its labelling",
                got=answer.bound,
                wanted=value,
                cause="Scores of very different sizes, or an error in a rule's linear rows; try another engine.",
            )
        return replace(answer, bound=value)
    return _bound_without_rules(replace(answer, bound=max(answer.bound, value)), lattice, rules, labels, given)


def _bound_without_rules(
    answer: ProgramAnswer, lattice: Lattice, rules: Sequence[Rule], labels: Labels, given: Mapping[str, Any]
) -> ProgramAnswer:
    """Improve what a limit left by the best path without rules: it bounds all, and may obey them itself."""
    limits = Limits(time_limit=0.0)
    problem = Problem(CompiledRules(labels, rules, limits.native()), [lattice], [given])
    free = solve_one(Search(), problem, limits)
    status = int(free.status[0])
    if status == INFEASIBLE:
        return replace(answer, ids=None, status="infeasible", bound=-np.inf)
    bound = min(answer.bound, float(free.bound[0]))
    if answer.ids is not None:
        value = lattice.score(answer.ids) - penalty(rules, answer.ids, labels, given)
        return replace(answer, bound=max(bound, value))
    if status == NOTHING_FOUND:
        return replace(answer, bound=bound)
    bound = max(bound, float(free.score[0]))
    return replace(answer, ids=free.ids, status="optimal" if status == OPTIMAL else "limit", bound=bound)


def solve_empty(rules: Sequence[Rule], labels: Labels, given: Mapping[str, Any]) -> ProgramAnswer:
    """Answer for a sequence without tokens: its only labelling, if it obeys the hard rules."""
    ids = np.zeros(0, np.int32)
    if all(isinstance(rule, Soft) or rule.holds(ids, labels, given) for rule in rules):
        return ProgramAnswer(ids, "optimal", -penalty(rules, ids, labels, given), True)
    return ProgramAnswer(None, "infeasible", -np.inf, True)


def penalty(rules: Sequence[Rule], ids: Ids, labels: Labels, given: Mapping[str, Any]) -> float:
    """Compute the penalty of the soft rules that a labelling breaks."""
    return float(sum(rule.cost(rule.violations(ids, labels, given)) for rule in rules if isinstance(rule, Soft)))


def _edge_scores(lattice: Lattice) -> Floats:
    """Compute the score of each edge in the order of the program: start edges, inner edges, end edges."""
    unary = np.asarray(lattice.unary, dtype=np.float64)
    n, m = unary.shape
    start = unary[0] if lattice.start is None else unary[0] + lattice.start
    inner = np.broadcast_to(unary[1:, None, :], (n - 1, m, m))
    if lattice.pairwise is not None and n > 1:
        inner = inner + lattice.pairwise
    return np.concatenate([start, inner.ravel(), np.zeros(m) if lattice.end is None else lattice.end])
