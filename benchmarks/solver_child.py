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
from itertools import islice
from typing import Any

import numpy as np

FAR = 10**6  # no row gets there
DIGITS = 8  # both solvers add up whole numbers: scores are rounded to this many decimals
Answer = tuple[list[int] | None, bool]  # labels; is it proved that there are none better, or none at all?


def cp_sat(model: dict[str, Any], deadline: float) -> Answer:
    """Booleans for edges, labels of positions and what the rules add; rows that are clauses are posted as such.

    All rows go to the linear relaxation: proofs here are a matter of the bound.
    """
    from ortools.sat.python import cp_model

    program = cp_model.CpModel()
    x = [program.new_int_var(0, high, "") for high in model["upper"].tolist()]
    nodes = _trellis(program, x, model)
    ends = np.append(model["start"][1:], len(model["index"]))
    rows = zip(model["start"], ends, model["low"], model["high"], strict=True)
    for begin, end, low, high in islice(rows, len(nodes), None):  # the first ones are the flow through each node
        columns, values = _by_node(model, x, nodes, model["index"][begin:end], model["value"][begin:end])
        if set(values) == {1} and low == high == 1:
            program.add_exactly_one(columns)
        elif set(values) == {1} and low <= 0 and high == 1:
            program.add_at_most_one(columns)
        elif set(values) <= {1, -1} and low == -np.inf and high == values.count(1) - 1 and _boolean(columns):
            program.add_bool_or(~c if value == 1 else c for c, value in zip(columns, values, strict=True))
        else:
            total = cp_model.LinearExpr.weighted_sum(columns, values)
            program.add_linear_constraint(total, int(max(low, -FAR)), int(min(high, FAR)))
    gain = np.rint(model["gain"] * 10**DIGITS).astype(np.int64)
    program.maximize(cp_model.LinearExpr.weighted_sum(x, gain.tolist()))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2
    solver.parameters.max_time_in_seconds = max(0.1, deadline - time.perf_counter())
    status = solver.solve(program)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, bool(status == cp_model.INFEASIBLE)
    taken = np.array([solver.boolean_value(v) for v in nodes]).reshape(-1, model["m"])
    return taken.argmax(axis=1).tolist(), bool(status == cp_model.OPTIMAL)


def _trellis(program: Any, x: list[Any], model: dict[str, Any]) -> list[Any]:
    """One label at each position, one edge into it and one out of it; the Booleans of the labels, (n * m,)."""
    n, m, node = model["n"], model["m"], model["node"]
    nodes = [program.new_bool_var("") for _ in range(n * m)]
    into: list[list[Any]] = [[] for _ in nodes]
    for edge, k in zip(x, node.tolist(), strict=False):
        into[k].append(edge)
    for t in range(n):
        program.add_exactly_one(nodes[t * m : (t + 1) * m])
    for k, v in enumerate(nodes):
        program.add_exactly_one([*into[k], ~v])
        leaves = m + k * m  # the first of its edges
        if k < (n - 1) * m:
            program.add_exactly_one([*x[leaves : leaves + m], ~v])
        else:
            program.add(x[len(node) + k - (n - 1) * m] == v)
    return nodes


def _by_node(
    model: dict[str, Any], x: list[Any], nodes: list[Any], index: Any, value: Any
) -> tuple[list[Any], list[int]]:
    """A row with one Boolean in place of all edges into a node."""
    node = model["node"]
    size = np.full(len(nodes), model["m"])
    size[: model["m"]] = 1  # edges into the first position
    edge = index < len(node)
    inside, counts = np.unique(node[index[edge]], return_counts=True)
    low, high = np.full(len(nodes), np.inf), np.full(len(nodes), -np.inf)
    np.minimum.at(low, node[index[edge]], value[edge])
    np.maximum.at(high, node[index[edge]], value[edge])
    whole = inside[(counts == size[inside]) & (low[inside] == high[inside])]
    rest = ~edge
    rest[edge] = ~np.isin(node[index[edge]], whole)
    columns = [nodes[k] for k in whole] + [x[k] for k in index[rest]]
    return columns, [int(v) for v in (*low[whole], *value[rest])]


def _boolean(columns: list[Any]) -> bool:
    return all(column.is_boolean for column in columns)


def toulbar2(model: dict[str, Any], deadline: float) -> Answer:
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
    limit, begin = max(1, round(deadline - time.perf_counter())), time.perf_counter()
    solution = problem.Solve(timeLimit=limit)  # whole seconds; its clock may be a few percent ahead
    done = time.perf_counter() - begin < 0.9 * limit  # the search ended by itself; its bound is not always updated
    if solution is None:
        return None, done
    proved = done or problem.GetDDualBound() >= solution[1] - 0.5 * 10.0**-DIGITS
    return [int(label) for label in solution[0][:n]], bool(proved)


def _post(problem: Any, y: list[Any], number: int, after: Any, price: Any) -> None:
    """One automaton: a variable for the state after each position, unless there is only one."""
    n, m = len(y), after.shape[2]
    before: list[Any] = []  # the variable of the state
    reached = np.zeros(1, dtype=np.int64)  # and what it can be
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
            ids, proved = solver(model, begin + limit)
            if ids is not None or not proved:
                break
        print(json.dumps([time.perf_counter() - begin, tried, proved and ids is not None, ids]), file=out, flush=True)


if __name__ == "__main__":
    main()
