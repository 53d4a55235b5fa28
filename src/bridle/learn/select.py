"""Few rules that tell right labellings from wrong ones, after Felici & Truemper (2002) and Fersini et al. (2012).

Wrong labellings W, each made from a right one. Rule j separates i if i breaks it and the right one does not. "Breaks
r1, or r2, ..." is a formula in disjunctive normal form that is true of wrong labellings; it is found clause by clause,
each one the cheapest that separates half of what is left (share = 1/2), so that clauses have falling power:

    minimise    sum_j cost[j] x[j]                          cost = exceptions in training + what there is to read
    subject to  sum_{j separates i} x[j] >= z[i]            for all i that no clause separates yet
                sum_i weight[i] z[i] >= share * sum_i weight[i]
                x[j] in {0, 1},  0 <= z[i] <= 1

power of a clause = the share of W that it separates and no clause before it. The first clause below `min_power` and all
after it are left out: they explain outliers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bridle.deadline import Deadline
from bridle.engines.highs import INTEGRALITY, IntegerProgram, Solver
from bridle.labels import Bools

Floats = npt.NDArray[np.float64]
_SECONDS = 5.0  # for one clause; then the rule that separates most for its cost is taken, again and again
_PATTERNS = 2_000  # kinds of wrong labellings, told apart by who separates them; the frequent ones count


@dataclass(frozen=True, slots=True)
class Clause:
    """Rules that were picked together."""

    rules: tuple[int, ...]
    power: float  # the share of all wrong labellings that it separates and no clause before it


@dataclass(frozen=True, slots=True)
class Cover:
    """What was picked."""

    clauses: tuple[Clause, ...]
    separable: float  # the share of the wrong labellings that all rules together separate

    @property
    def rules(self) -> tuple[int, ...]:
        """All rules of all clauses, in order."""
        return tuple(j for clause in self.clauses for j in clause.rules)


def cover(separates: Bools, costs: Floats, *, min_power: float, share: float = 0.5) -> Cover:
    """Pick rules. separates (R, W): which rule separates which wrong labelling; costs (R,), above 0.

    >>> sees = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1]], dtype=bool)
    >>> cover(sees, np.ones(3), min_power=0.1).clauses
    (Clause(rules=(0,), power=0.75), Clause(rules=(2,), power=0.25))
    """
    total = separates.shape[1]
    patterns, counts = np.unique(separates[:, separates.any(axis=0)], axis=1, return_counts=True)  # (R, P), (P,)
    often = np.sort(np.argsort(-counts, kind="stable")[:_PATTERNS])
    patterns, weights = patterns[:, often], counts[often].astype(np.float64)
    separable = float(counts.sum() / total) if total else 0.0
    clauses: list[Clause] = []
    while weights.sum() > 0:
        chosen = _clause(patterns, weights, costs, share)
        done = patterns[chosen].any(axis=0)
        power = float(weights[done].sum() / total)
        if power < min_power:
            break
        reach = patterns[chosen] @ weights
        clauses.append(Clause(tuple(chosen[i] for i in np.argsort(-reach, kind="stable")), power))
        patterns, weights = patterns[:, ~done], weights[~done]
    return Cover(tuple(clauses), separable)


def _clause(patterns: Bools, weights: Floats, costs: Floats, share: float) -> list[int]:
    """The cheapest rules that separate a share of the weight."""
    (n_rules, n), wanted = patterns.shape, share * float(weights.sum())
    rows, kinds = np.nonzero(np.append(patterns, np.eye(n, dtype=bool), axis=0).T)  # who separates i, and z[i]
    program = IntegerProgram(
        cost=np.concatenate([costs, np.zeros(n)]),
        upper=np.ones(n_rules + n),
        integer=np.arange(n_rules + n) < n_rules,
        low=np.append(np.zeros(n), wanted),
        high=np.full(n + 1, np.inf),
        start=np.append(np.searchsorted(rows, np.arange(n + 1)), len(rows) + n),
        index=np.append(kinds, np.arange(n_rules, n_rules + n)),
        value=np.append(np.where(kinds < n_rules, 1.0, -1.0), weights),
    )
    solution = Solver().solve(program, Deadline.after(_SECONDS), stages="branching")
    if solution.status != "optimal" or solution.x is None:
        return _greedy(patterns, weights, costs, wanted)
    values = solution.x[:n_rules]
    return [int(j) for j in np.flatnonzero(values > 1 - INTEGRALITY)]


def _greedy(patterns: Bools, weights: Floats, costs: Floats, wanted: float) -> list[int]:
    """What is good enough when the exact answer takes too long: the most weight for the cost, one by one."""
    chosen: list[int] = []
    left = weights.copy()
    while weights.sum() - left.sum() < wanted:
        best = int(np.argmax((patterns @ left) / costs))
        chosen.append(best)
        left[patterns[best]] = 0
    return chosen
