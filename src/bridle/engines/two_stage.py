"""`two_stage`: Fersini et al. (2012), (22)-(29): the cheapest violations among labellings close to the best one.

Stage 1: Z = the best score under the hard rules. Stage 2: among labellings with score >= Z - (1 - tau) |Z|, the least
penalty; of those, the highest score. Natively, or as two integer programs (stage="ilp"). The objective is not the
score, and a decoding says so (`objective`): its `bound` holds among labellings of that least penalty, and others may
score higher and break more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bridle.deadline import Deadline, OutOfTime
from bridle.decoding.problem import MOST_MEMORY, Answers, Limits, Problem, bad_option
from bridle.engines import NativeEngine
from bridle.engines.highs import ProgramAnswer
from bridle.engines.ilp import TrellisProgram, penalty, solve, solve_each, solve_empty
from bridle.errors import EngineError
from bridle.labels import Labels
from bridle.lattice import Lattice
from bridle.rules.base import Rule, Soft

if TYPE_CHECKING:
    from bridle.rules.linear import Formulation


@dataclass(frozen=True)
class TwoStage(NativeEngine):
    """The least penalty among labellings that score close to the best.

    Parameters
    ----------
    tau : float, default 0.9
        How close: 1 allows only the best score under the hard rules, 0.9 a tenth less of its size.
    stage : {"native", "ilp"}, default "native"
        How both stages are solved: by search, or as in the paper, by integer linear programs.
    formulation : {"tight", "paper"}, default "tight"
        The rows of these programs, as for `Ilp`; with ``stage="ilp"`` only.

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
    native_options = ("tau",)
    counters = ("expansions",)
    tau: float = 0.9
    stage: Literal["native", "ilp"] = "native"
    formulation: Formulation = "tight"

    def __post_init__(self) -> None:
        if isinstance(self.tau, bool) or not isinstance(self.tau, (int, float)) or not 0 <= self.tau <= 1:
            raise bad_option("tau", self.tau, "a number from 0 to 1")
        if self.stage not in ("native", "ilp"):
            raise bad_option("stage", self.stage, "'native' or 'ilp'")
        if self.formulation not in (("tight", "paper") if self.stage == "ilp" else ("tight",)):
            raise bad_option("formulation", self.formulation, "'tight', or 'paper' with stage='ilp'")

    def solve(self, problem: Problem, limits: Limits, answers: Answers) -> None:
        if self.stage == "native":
            return super().solve(problem, limits, answers)
        return solve_each(
            problem, limits, answers, partial(solve_two_stage, tau=self.tau, formulation=self.formulation)
        )


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
) -> ProgramAnswer:
    """Solve both stages as integer programs; when a limit stops them, the labelling is the best of the stage before."""
    hard = [rule for rule in rules if not isinstance(rule, Soft)]
    deadline = Deadline.after(time_limit)
    if len(lattice) == 0:
        return solve_empty(rules, labels, given)
    first = solve(lattice, hard, labels, given, formulation=formulation, time_limit=time_limit, max_memory=max_memory)
    if first.ids is None or first.status != "optimal" or penalty(rules, first.ids, labels, given) == 0:
        return first
    try:
        program = TrellisProgram(lattice, rules, labels, given, formulation, deadline, max_memory)
    except OutOfTime:
        return replace(first, status="limit")
    program.build_seconds += first.build_seconds
    program.solve_seconds += first.solve_seconds
    return _second_stage(program, first, tau)


def _second_stage(program: TrellisProgram, first: ProgramAnswer, tau: float) -> ProgramAnswer:
    """Find the cheapest labelling near the best one, `first`; and of those the one that scores best."""
    lattice = program.lattice
    assert first.ids is not None
    best = lattice.score(first.ids)
    program.add_row(program.scores, best - (1.0 - tau) * abs(best), np.inf)
    kept = replace(first, status="limit")
    try:
        cheap = program.minimise(program.program.price)
        if cheap.status == "infeasible":
            raise EngineError(
                "the solver finds no labelling near the best one",
                got="none",
                wanted=first.ids.tolist(),
                cause="Rounding in the solver: scores of very different sizes?",
            )
        if cheap.ids is not None and program.penalty(cheap.ids) <= program.penalty(first.ids):
            kept = replace(cheap, status="limit", lp_integral=kept.lp_integral and cheap.lp_integral)
        if cheap.status == "optimal" and cheap.ids is not None:
            least = program.penalty(cheap.ids)
            program.add_row(program.program.price, -np.inf, least + 1e-9 * (1.0 + least))
            last = program.minimise(-program.scores)
            if last.ids is not None and lattice.score(last.ids) >= lattice.score(cheap.ids):
                kept = replace(last, lp_integral=kept.lp_integral and last.lp_integral)
    except OutOfTime:
        pass  # what is kept is the best of the stage before
    bound = best  # no penalty is below 0
    if kept.status != "limit" and kept.ids is not None:
        bound = lattice.score(kept.ids) - program.penalty(kept.ids)
    return program.answer(kept.ids, kept.status, bound, kept.lp_integral)
