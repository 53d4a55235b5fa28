"""`ilp`: the shortest path as an integer linear program with rules as rows (Roth & Yih 2005), solved by HiGHS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

import numpy as np

from bridle.decoding.problem import INFEASIBLE, LIMIT, NOTHING_FOUND, OPTIMAL, Answers, Problem
from bridle.engines.base import Engine
from bridle.engines.ilp_model import IlpAnswer, solve
from bridle.lattice import Lattice
from bridle.rules.base import Soft


class Ilp(Engine):
    name = "ilp"

    def solve(self, problem: Problem, answers: Answers) -> None:
        options = problem.options
        formulation = cast(Literal["tight", "paper"], options.formulation)
        solve_each(
            problem,
            answers,
            lambda lattice, given: solve(
                lattice, problem.rules, problem.labels, given, formulation=formulation, time_limit=options.time_limit
            ),
        )


def solve_each(
    problem: Problem, answers: Answers, solve_one: Callable[[Lattice, Mapping[str, Any]], IlpAnswer]
) -> None:
    """One integer program per sequence."""
    for b in range(len(problem)):
        lattice, given = problem.lattices[b], problem.given(b)
        made = solve_one(lattice, given)
        answers.bound[b] = made.bound
        answers.stats.append(
            {
                "lp_integral": made.lp_integral,
                "variables": made.n_variables,
                "rows": made.n_rows,
                "build_seconds": made.build_seconds,
                "solve_seconds": made.solve_seconds,
            }
        )
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
