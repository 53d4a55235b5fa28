"""`two_stage`: Fersini et al. (2012), (22)-(29): the cheapest violations among labellings close to the best one.

Stage 1: Z = the best score under the hard rules. Stage 2: among labellings with score >= Z - (1 - tau) |Z|, the least
penalty; of those, the highest score. Natively, or as two integer programs (stage="ilp"). The `bound` of an optimal
answer holds among labellings of that least penalty: others may score higher and break more.
"""

from __future__ import annotations

from typing import Any

from bridle.decoding.problem import Answers, Problem
from bridle.engines.base import NativeEngine
from bridle.engines.ilp import solve_each
from bridle.engines.ilp_model import solve_two_stage


class TwoStage(NativeEngine):
    name = "two_stage"
    counters = ("expansions",)

    def solve(self, problem: Problem, answers: Answers) -> None:
        if problem.options.stage == "native":
            return super().solve(problem, answers)
        options = problem.options
        return solve_each(
            problem,
            answers,
            lambda lattice, given: solve_two_stage(
                lattice, problem.rules, problem.labels, given, tau=options.tau, time_limit=options.time_limit
            ),
        )

    def stats(self, answers: Answers, b: int) -> dict[str, Any]:
        return answers.stats[b] if answers.stats else super().stats(answers, b)
