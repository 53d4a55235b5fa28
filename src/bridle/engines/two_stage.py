"""`two_stage`: Fersini et al. (2012), (22)-(29): the cheapest violations among labellings close to the best one.

Stage 1: Z = the best score under the hard rules. Stage 2: among labellings with score >= Z - (1 - tau) |Z|, the least
penalty; of those, the highest score. Natively, or as two integer programs (stage="ilp"). The objective is not the
score, and a decoding says so (`objective`): its `bound` holds among labellings of that least penalty, and others may
score higher and break more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bridle.decoding.problem import Answers, Limits, Problem, bad_option
from bridle.engines.base import NativeEngine
from bridle.engines.ilp import solve_each


@dataclass(frozen=True)
class TwoStage(NativeEngine):
    """The least penalty among labellings that score close to the best.

    Parameters
    ----------
    tau : float, default 0.9
        How close: 1 allows only the best score under the hard rules, 0.9 a tenth less of its size.
    stage : {"native", "ilp"}, default "native"
        How both stages are solved: by search, or as in the paper, by integer linear programs.

    Raises
    ------
    EngineError
        If an option is bad.

    Examples
    --------
    The best score is 6; "A B" has 5.5, which is close enough for ``tau=0.9``, and violates nothing:

    >>> import bridle
    >>> lattice = bridle.Lattice([[2.5, 3], [0, 3]])
    >>> rules = ["starts with A  [penalty 0.1]"]
    >>> bridle.Decoder(["A", "B"], rules).decode(lattice).labels
    ['B', 'B']
    >>> bridle.Decoder(["A", "B"], rules, bridle.engines.TwoStage(tau=0.9)).decode(lattice).labels
    ['A', 'B']

    Its `bound` and `optimal` are about this objective, not about the score alone, and the decoding says so:

    >>> d = bridle.Decoder(["A", "B"], rules, "two_stage").decode(lattice)
    >>> d.objective, d.bound, d.optimal
    ('two_stage', 5.5, True)
    """

    name = "two_stage"
    objective = "two_stage"
    told = ("tau",)
    counters = ("expansions",)
    tau: float = 0.9
    stage: Literal["native", "ilp"] = "native"

    def __post_init__(self) -> None:
        if isinstance(self.tau, bool) or not isinstance(self.tau, (int, float)) or not 0 <= self.tau <= 1:
            raise bad_option("tau", self.tau, "a number from 0 to 1")
        if self.stage not in ("native", "ilp"):
            raise bad_option("stage", self.stage, "'native' or 'ilp'")

    def solve(self, problem: Problem, limits: Limits, answers: Answers) -> None:
        if self.stage == "native":
            return super().solve(problem, limits, answers)
        from bridle.engines.ilp_model import solve_two_stage

        return solve_each(
            problem,
            answers,
            lambda lattice, given: solve_two_stage(
                lattice,
                problem.rules,
                problem.labels,
                given,
                tau=self.tau,
                time_limit=limits.time_limit,
                max_memory=limits.max_memory,
            ),
        )
