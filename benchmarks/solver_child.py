"""CP-SAT and toulbar2 on any rules, in a process of their own (solver_peers.py starts it). NumPy only.

Reads pickled models from its input: (solver, seconds, [models of each sequence]). A sequence has one model, or a second
one for when the first has no solution. Answers are lines of JSON: seconds, models tried, whether the optimum is
proved, labels.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

DIGITS = 8  # both solvers add up whole numbers: scores are rounded to this many decimals
Answer = tuple[list[int] | None, bool]  # labels; is it proved that there are none better, or none at all?


def cp_sat(model: dict[str, Any], seconds: float) -> Answer:
    """Rows over trellis edges and what the rules add, as Booleans; rows that are clauses are posted as such.

    All rows go to the linear relaxation: proofs here are a matter of the bound.
    """
    from ortools.sat.python import cp_model

    made = cp_model.CpModel()
    x = [made.new_int_var(0, high, "") for high in model["upper"].tolist()]
    ends = np.append(model["start"][1:], len(model["index"]))
    for begin, end, low, high in zip(model["start"], ends, model["low"], model["high"], strict=True):
        columns, values = [x[k] for k in model["index"][begin:end]], model["value"][begin:end]
        if (values == 1).all() and low == high == 1:
            made.add_exactly_one(columns)
        elif (values == 1).all() and high == 1 and low <= 0:
            made.add_at_most_one(columns)
        else:
            total = cp_model.LinearExpr.weighted_sum(columns, values.astype(int).tolist())
            domain = [int(max(low, -(10**6))), int(min(high, 10**6))]
            made.add_linear_constraint(total, *domain)
    gain = np.rint(model["gain"] * 10**DIGITS).astype(np.int64)
    made.maximize(cp_model.LinearExpr.weighted_sum(x, gain.tolist()))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2
    solver.parameters.max_time_in_seconds = seconds
    status = solver.solve(made)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, bool(status == cp_model.INFEASIBLE)
    m, nodes = model["m"], model["node"]
    chosen = np.array([solver.value(x[e]) for e in range(len(nodes))])
    taken = np.bincount(nodes, weights=chosen, minlength=model["n"] * m).reshape(-1, m)
    return taken.argmax(axis=1).tolist(), bool(status == cp_model.OPTIMAL)


def toulbar2(model: dict[str, Any], seconds: float) -> Answer:
    """A weighted CSP: labels of positions, states of each rule's automaton after each position, tables over three."""
    import pytoulbar2

    unary, pairwise = model["unary"], model["pairwise"]
    n, m = unary.shape
    problem = pytoulbar2.CFN(resolution=DIGITS)
    y = [problem.AddVariable(f"y{t}", range(m)) for t in range(n)]
    for t in range(n):
        problem.AddFunction([y[t]], (-unary[t]).tolist())
        if t:
            problem.AddFunction([y[t - 1], y[t]], (-pairwise).ravel().tolist())
    for number, (after, price) in enumerate(model["tables"]):
        _post(problem, y, number, after, price)
    begin = time.process_time()
    found = problem.Solve(timeLimit=max(1, round(seconds)))
    if found is None:
        return None, time.process_time() - begin < 0.9 * seconds
    proved = problem.GetDDualBound() >= found[1] - 0.5 * 10.0**-DIGITS
    return [int(label) for label in found[0][:n]], bool(proved)


def _post(problem: Any, y: list[Any], number: int, after: Any, price: Any) -> None:
    """One automaton: a variable for the state after each position, unless there is only one."""
    n, m = len(y), after.shape[2]
    before, reached = [], np.zeros(1, dtype=np.int64)  # variable of the state, and what it can be
    for t in range(n):
        here, costs = after[t][reached], price[t][reached]
        s, label = np.nonzero(np.isfinite(costs))
        states = np.unique(here[s, label]) if t < n - 1 else np.zeros(0, dtype=np.int64)
        if len(states) > 1:
            q = problem.AddVariable(f"q{number}_{t}", range(len(states)))
            table = np.full((len(reached), m, len(states)), np.inf)
            table[s, label, np.searchsorted(states, here[s, label])] = costs[s, label]
            problem.AddFunction([*before, y[t], q], table.ravel().tolist())
            before = [q]
        else:
            if costs.any():
                problem.AddFunction([*before, y[t]], costs.ravel().tolist())
            before = []
        reached = states


SOLVERS: dict[str, Callable[[dict[str, Any], float], Answer]] = {"CP-SAT": cp_sat, "toulbar2": toulbar2}


def main() -> None:
    """The process."""
    name, limit, sequences = pickle.load(sys.stdin.buffer)
    solver = SOLVERS[name]
    out, sys.stdout = sys.stdout, sys.stderr  # whatever a solver prints is not an answer
    __import__({"CP-SAT": "ortools.sat.python.cp_model", "toulbar2": "pytoulbar2"}[name])
    for models in sequences:
        begin = time.perf_counter()
        for tried, model in enumerate(models, start=1):  # noqa: B007
            ids, proved = solver(model, limit - (time.perf_counter() - begin))
            if ids is not None or not proved:
                break
        print(json.dumps([time.perf_counter() - begin, tried, proved and ids is not None, ids]), file=out, flush=True)


if __name__ == "__main__":
    main()
