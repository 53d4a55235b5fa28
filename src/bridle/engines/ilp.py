"""`ilp`: the shortest path as an integer linear program with rules as rows (Roth & Yih 2005), solved by HiGHS."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bridle.decoding.problem import INFEASIBLE, LIMIT, NOTHING_FOUND, OPTIMAL, Answers, Limits, Problem, bad_option
from bridle.engines.base import Engine
from bridle.errors import BridleError
from bridle.lattice import Lattice
from bridle.rules.base import Soft

if TYPE_CHECKING:
    from bridle.engines.ilp_model import IlpAnswer


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
        from bridle.engines.ilp_model import solve

        rules, labels = problem.rules, problem.labels
        solve_each(
            problem,
            answers,
            lambda lattice, given: solve(
                lattice,
                rules,
                labels,
                given,
                formulation=self.formulation,
                time_limit=limits.time_limit,
                max_memory=limits.max_memory,
            ),
        )


def solve_each(
    problem: Problem, answers: Answers, solve_one: Callable[[Lattice, Mapping[str, Any]], IlpAnswer]
) -> None:
    """One integer program per sequence."""
    from bridle.engines.highs import stats_of

    for b in range(len(problem)):
        lattice, given, began = problem.lattices[b], problem.given(b), time.perf_counter()
        try:
            made = solve_one(lattice, given)
        except BridleError as error:  # a value that came with this sequence, or a program that is too large
            problem.fail(b, error)
            answers.stats.append({})
            continue
        answers.bound[b], answers.seconds[b] = made.bound, time.perf_counter() - began
        answers.stats.append(stats_of(made))
        if made.ids is None:
            answers.status[b] = INFEASIBLE if made.status == "infeasible" else NOTHING_FOUND
            continue
        answers.status[b] = OPTIMAL if made.status == "optimal" else LIMIT
        answers.ids[problem.offsets[b] : problem.offsets[b + 1]] = made.ids
        answers.violations[b] = [rule.violations(made.ids, problem.labels, given) for rule in problem.rules]
        counts = zip(problem.rules, answers.violations[b].tolist(), strict=True)
        costs = [rule.cost(count) for rule, count in counts if isinstance(rule, Soft)]
        answers.score[b] = lattice.score(made.ids) - float(np.sum(costs))
        if made.status == "optimal":
            answers.bound[b] = answers.score[b]
