"""CP-SAT as a peer. It runs in a process of its own: OR-Tools and highspy carry different builds of one library (HiGHS)
under the same name, so that whichever is loaded second fails to import.

`solve_apart` is for the caller; run as a script, this file reads one .npz and answers in JSON. The clock runs in the
child, around building and solving only.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from trellis import Answer, Edges, Facts, Floats, NoAnswerError, score

SCALE = 1e8  # CP-SAT maximises whole numbers


def _solve(model: Any) -> Any:
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    if solver.solve(model) != cp_model.OPTIMAL:
        raise NoAnswerError("CP-SAT proved no optimum")
    return solver


def cp_sat_nodes(unary: Floats, pairwise: Floats | None, facts: Facts) -> Answer:
    """One Boolean per token and label, one per start of a counted segment. Only without pairwise scores."""
    from ortools.sat.python import cp_model

    assert pairwise is None
    n, m = unary.shape
    allowed = facts.allowed(n, m)
    model = cp_model.CpModel()
    tied = set(facts.tied)
    node: list[dict[int, Any]] = []
    for t in range(n):
        if t in tied:  # the same Booleans as the position before; a label that either forbids is forbidden to both
            for k in [k for k in node[-1] if not allowed[t, k]]:
                model.add(node[-1].pop(k) == 0)
            node.append(node[-1])
            continue
        here = {int(k): model.new_bool_var("") for k in np.flatnonzero(allowed[t])}
        model.add_exactly_one(here.values())
        node.append(here)
    for k in facts.at_most_one:
        starts = []
        for t in range(n):
            if k not in node[t] or t in tied:
                continue
            if t == 0 or k not in node[t - 1]:
                starts.append(node[t][k])
                continue
            begins = model.new_bool_var("")
            model.add_bool_or(~node[t][k], node[t - 1][k], begins)
            starts.append(begins)
        if len(starts) > 1:
            model.add_at_most_one(starts)
    if facts.at_least_one:
        free = [t for t in range(n) if t not in tied]
        model.add_bool_or(node[t][k] for t, k in product(free, facts.at_least_one) if k in node[t])
    gains = np.rint(unary * SCALE).astype(np.int64).tolist()
    pairs = [(x, gains[t][k]) for t in range(n) for k, x in node[t].items()]
    model.maximize(cp_model.LinearExpr.weighted_sum([x for x, _ in pairs], [g for _, g in pairs]))
    solver = _solve(model)
    y = [next(k for k, x in here.items() if solver.boolean_value(x)) for here in node]
    return score(unary, pairwise, y), y


def cp_sat_edges(unary: Floats, pairwise: Floats | None, facts: Facts) -> Answer:
    """One Boolean per trellis edge, one edge into each token, flow through each node, rows for counts."""
    from ortools.sat.python import cp_model

    edges = Edges(unary, pairwise, facts)
    n, m = edges.n, edges.m
    model = cp_model.CpModel()
    x = [model.new_bool_var("") for _ in range(len(edges))]
    into: list[list[list[Any]]] = [[[] for _ in range(m)] for _ in range(n)]
    out: list[list[list[Any]]] = [[[] for _ in range(m)] for _ in range(n)]
    starts: dict[int, list[Any]] = {k: [] for k in range(m)}
    for e, t, i, j in zip(x, edges.at.tolist(), edges.before.tolist(), edges.label.tolist(), strict=True):
        into[t][j].append(e)
        if t:
            out[t - 1][i].append(e)
        if i != j:
            starts[j].append(e)
    for t in range(n):
        model.add_exactly_one(e for here in into[t] for e in here)
    for t, j in product(range(n - 1), range(m)):
        model.add(sum(into[t][j]) == sum(out[t][j]))
    for k in facts.at_most_one:
        model.add_at_most_one(starts[k])
    if facts.at_least_one:
        model.add_bool_or(e for k in facts.at_least_one for e in starts[k])
    model.maximize(cp_model.LinearExpr.weighted_sum(x, np.rint(edges.gain * SCALE).astype(np.int64).tolist()))
    solver = _solve(model)
    y = edges.ids(np.array([solver.boolean_value(e) for e in x]))
    return score(unary, pairwise, y), y


MODELS = {"nodes": cp_sat_nodes, "edges": cp_sat_edges}


def solve_apart(
    model: str, unaries: list[Floats], pairwise: Floats | None, facts: list[Facts]
) -> tuple[list[float], list[Answer]]:
    """Seconds and answer of each sequence, from a child process."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "in.npz"
        arrays = {f"u{k}": u for k, u in enumerate(unaries)}
        if pairwise is not None:
            arrays["pairwise"] = pairwise
        np.savez(file, facts=np.array(json.dumps([asdict(f) for f in facts])), **arrays)
        done = subprocess.run([sys.executable, __file__, model, str(file)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoAnswerError("CP-SAT: " + (done.stderr.strip().splitlines() or ["no word"])[-1])
    said = json.loads(done.stdout)
    return said["seconds"], [(s, y) for s, y in said["answers"]]


def _child(name: str, file: str) -> None:
    stored = np.load(file, allow_pickle=False)
    pairwise = stored.get("pairwise")
    facts = [
        Facts(**{key: tuple(v) if isinstance(v, list) else v for key, v in fact.items()})
        for fact in json.loads(str(stored["facts"]))
    ]
    unaries = [stored[f"u{k}"] for k in range(len(facts))]
    model = MODELS[name]
    model(unaries[0], pairwise, facts[0])  # load the library before the clock starts
    seconds, answers = [], []
    for unary, fact in zip(unaries, facts, strict=True):
        times = []
        for _ in range(2):
            begin = time.perf_counter()
            answer = model(unary, pairwise, fact)
            times.append(time.perf_counter() - begin)
        seconds.append(min(times))
        answers.append(answer)
    print(json.dumps({"seconds": seconds, "answers": answers}))


if __name__ == "__main__":
    _child(*sys.argv[1:3])
