"""Agreement of equal tokens over long sequences: Bridle beside other exact solvers and beside a majority vote.

    BRIDLE_SIMD=avx2 python benchmarks/documents.py
    python benchmarks/documents.py --quick

Random scores of 9 labels (BIO, four types); some texts occur two to six times; every change of type between
neighbouring occurrences costs 1. Times are processor time of one thread: for Bridle the least of three means over at
least 0.1 s, for the others one run, with a limit of 20 s. Then the time per token from 1,000 to 100,000 tokens, one
repeated text in every 20 tokens, means of several documents. HiGHS gets flows through the trellis and, per pair of
neighbouring occurrences and type, the positive part of the difference, whose linear relaxation is that of the chains;
CP-SAT gets the same model in integers; toulbar2 a network of binary costs.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import bridle
from measure import told, where

LABELS = bridle.Labels(["O", *(f"{tag}-{kind}" for kind in ("PER", "LOC", "ORG", "MISC") for tag in "BI")], "BIO")
RULE = bridle.rules.same_label_for_equal(bridle.rules.tokens("R.*")).soft(1.0, per="violation")
TYPES = np.array([0, 1, 1, 2, 2, 3, 3, 4, 4])  # of each label
SECONDS = 20.0
SIZES = ((100, 4), (500, 20), (1000, 40), (2000, 100), (20_000, 1000), (100_000, 5000))
LARGEST_OF_PEERS = 1000  # tokens
GROWTH = ((1000, 20), (10_000, 8), (100_000, 6))  # tokens, documents


class Problem:
    """One document."""

    def __init__(self, n: int, texts: int, seed: int) -> None:
        rng, m = np.random.default_rng(seed), len(LABELS)
        self.texts = [f"u{t}" for t in range(n)]
        for g in range(texts):
            for t in rng.choice(n, size=int(rng.integers(2, 7)), replace=False):
                self.texts[t] = f"R{g}"
        self.lattice = bridle.Lattice(1.5 * rng.normal(size=(n, m)), pairwise=0.5 * rng.normal(size=(m, m)))

    def pairs(self) -> list[tuple[int, int]]:
        """Neighbouring occurrences of a text."""
        at: dict[str, list[int]] = {}
        for t, text in enumerate(self.texts):
            at.setdefault(text, []).append(t)
        return [pair for text, places in at.items() if text[0] == "R" for pair in pairwise(places)]

    def value(self, ids: Any) -> float:
        """The score of a labelling less what its changes cost."""
        return float(self.lattice.score(ids) - sum(TYPES[ids[t]] != TYPES[ids[u]] for t, u in self.pairs()))


def run_bridle(problem: Problem) -> tuple[float, bool]:
    decoder = bridle.Decoder(LABELS, [RULE], time_limit=SECONDS)
    d = decoder.decode(problem.lattice, {"tokens": problem.texts})
    return d.score, d.optimal


def _flow(problem: Problem) -> tuple[Any, ...]:
    """Costs, rows and bounds of the flow model, as sparse numbers."""
    from scipy import sparse

    n, m = problem.lattice.unary.shape
    x, pair = problem.lattice, np.asarray(problem.lattice.pairwise, dtype=float)
    edges = n - 1
    first = np.asarray(x.unary[0], dtype=float)
    cost = [
        -(pair + np.asarray(x.unary[t + 1], dtype=float) + (first[:, None] if t == 0 else 0.0)) for t in range(edges)
    ]
    rows, cols, values, low, high = [], [], [], [], []

    def edge(t: int, i: Any, j: Any) -> Any:
        return (t * m + i) * m + j

    def add(columns: Any, numbers: Any, least: float, most: float) -> None:
        rows.extend([len(low)] * len(columns))
        cols.extend(columns)
        values.extend(numbers)
        low.append(least)
        high.append(most)

    every = np.arange(m)
    add(edge(0, *np.divmod(np.arange(m * m), m)), np.ones(m * m), 1, 1)
    for t in range(1, edges):
        for y in range(m):
            columns = np.concatenate([edge(t - 1, every, y), edge(t, y, every)])
            add(columns, np.repeat([1.0, -1.0], m), 0, 0)

    def into(t: int, kind: int) -> Any:  # edges whose sum says that token t has this type
        labels = np.flatnonzero(kind == TYPES)
        ids = [edge(t - 1, every, y) if t else edge(0, y, every) for y in labels]
        return np.concatenate(ids)

    n_edges, pairs = edges * m * m, problem.pairs()
    for k, (t, u) in enumerate(pairs):
        for c in range(5):
            a, b = into(t, c), into(u, c)
            columns = np.concatenate([a, b, [n_edges + 5 * k + c]])
            add(columns, np.concatenate([np.ones(len(a)), -np.ones(len(b)), [-1.0]]), -np.inf, 0)
    costs = np.concatenate([np.concatenate(cost, axis=None), np.ones(5 * len(pairs))])
    return costs, sparse.csr_array((values, (rows, cols)), shape=(len(low), len(costs))), low, high, n_edges


def run_highs(problem: Problem) -> tuple[float, bool]:
    from scipy.optimize import Bounds, LinearConstraint, milp

    costs, matrix, low, high, n_edges = _flow(problem)
    integral = np.zeros(len(costs))
    integral[:n_edges] = 1
    options = {"time_limit": SECONDS, "mip_rel_gap": 0.0}
    result = milp(
        costs,
        integrality=integral,
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, low, high),
        options=options,
    )
    return (-float(result.fun), result.status == 0) if result.x is not None else (-np.inf, False)


def run_cp_sat(problem: Problem) -> tuple[float, bool]:
    from ortools.sat.python import cp_model

    costs, matrix, low, high, _ = _flow(problem)
    model = cp_model.CpModel()
    x = [model.new_bool_var("") for _ in costs]
    for row in range(matrix.shape[0]):
        part = slice(matrix.indptr[row], matrix.indptr[row + 1])
        total = cp_model.LinearExpr.weighted_sum(
            [x[c] for c in matrix.indices[part]], [int(v) for v in matrix.data[part]]
        )
        model.add(total <= int(high[row]))
        if np.isfinite(low[row]):
            model.add(total >= int(low[row]))
    model.minimize(cp_model.LinearExpr.weighted_sum(x, [round(1e6 * c) for c in costs]))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds, solver.parameters.num_workers = SECONDS, 1
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return -np.inf, False
    return -solver.objective_value / 1e6, status == cp_model.OPTIMAL


def run_toulbar2(problem: Problem) -> tuple[float, bool]:
    import pytoulbar2

    n, m = problem.lattice.unary.shape
    network = pytoulbar2.CFN(1e9, resolution=6, verbose=-1)
    for t in range(n):
        network.AddVariable(f"x{t}", range(m))
    pair = np.asarray(problem.lattice.pairwise, dtype=float)
    change = (TYPES[:, None] != TYPES).astype(float)
    for t in range(n):
        network.AddFunction([t], (-np.asarray(problem.lattice.unary[t], dtype=float)).tolist())
        if t:
            network.AddFunction([t - 1, t], (-pair).ravel().tolist())
    for t, u in problem.pairs():
        network.AddFunction([t, u], change.ravel().tolist())
    network.Option.btdMode = 0
    solution = network.Solve(showSolutions=0, timeLimit=int(SECONDS))
    if not solution:
        return -np.inf, False
    return problem.value(np.array(solution[0])), network.GetDDualBound() >= solution[1] - 1e-4


def vote(problem: Problem) -> float:
    """Score of what people do by hand: every text gets the type that most of its tokens have after decoding."""
    ids = np.array(bridle.Decoder(LABELS).decode(problem.lattice).ids)
    at: dict[str, list[int]] = {}
    for t, text in enumerate(problem.texts):
        if text[0] == "R":
            at.setdefault(text, []).append(t)
    for places in at.values():
        most = Counter(TYPES[ids[places]].tolist()).most_common(1)[0][0]
        for t in places:
            if TYPES[ids[t]] != most:
                ids[t] = max(0, 2 * most - 1)
    return problem.value(ids)


def timed(
    run: Callable[[Problem], tuple[float, bool]], problem: Problem, least: float = 0.0
) -> tuple[float, float, bool]:
    """Score, seconds of a run, proved. least: seconds over which a mean is taken; clocks can be coarse."""
    best = np.inf
    for _ in range(3 if least else 1):
        began, count = time.process_time(), 0
        while count == 0 or time.process_time() - began < least:
            score, proved = run(problem)
            count += 1
        best = min(best, (time.process_time() - began) / count)
    return score, best, proved


PEERS = {"HiGHS": run_highs, "CP-SAT": run_cp_sat, "toulbar2": run_toulbar2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="up to 500 tokens")
    parser.add_argument("--seeds", type=int, default=3, metavar="K", help="documents of each size (default: 3)")
    parser.add_argument("--no-peers", action="store_true", help="Bridle and the vote only")
    chosen = parser.parse_args()
    print(told(where()))
    print(f"\n{'tokens':>8} {'texts':>6} {'solver':<10} {'ms':>10} {'us/token':>9} {'proved':>7}   same optimum")
    for n, texts in SIZES[: 2 if chosen.quick else None]:
        problems = [Problem(n, texts, seed) for seed in range(chosen.seeds)]
        ours = [timed(run_bridle, problem, 0.1) for problem in problems]
        report(n, texts, "Bridle", ours, ours)
        for name, run in PEERS.items():
            if n > LARGEST_OF_PEERS or chosen.no_peers:
                continue
            try:
                report(n, texts, name, [timed(run, problem) for problem in problems], ours)
            except ImportError as error:
                print(f"{n:8,} {texts:6,} {name:<10} not installed: {error.name}")
    if not chosen.quick:
        report_growth()
    problems = [Problem(200, 8, seed) for seed in range(200)]
    worse = [run_bridle(problem)[0] - vote(problem) > 1e-9 for problem in problems]
    print(f"\nmajority vote after decoding: not the best labelling of {np.mean(worse):.0%} of {len(worse)} documents")
    print("(200 tokens, 8 texts)")


def report_growth() -> None:
    """Print time per token for growing lengths."""
    print(f"\n{'tokens':>8} {'texts':>6} {'us/token':>9} {'from':>6} {'to':>6} {'proved':>7}")
    for n, documents in GROWTH:
        runs = [timed(run_bridle, Problem(n, n // 20, seed), 0.1) for seed in range(documents)]
        us = [1e6 * seconds / n for _, seconds, _ in runs]
        proved = sum(proved for _, _, proved in runs)
        line = f"{n:8,} {n // 20:6,} {np.mean(us):9.2f} {min(us):6.2f} {max(us):6.2f} {proved:4}/{documents}"
        print(line, flush=True)


def report(
    n: int, texts: int, name: str, runs: list[tuple[float, float, bool]], ours: list[tuple[float, float, bool]]
) -> None:
    """One line of the table: medians."""
    ms = 1e3 * float(np.median([seconds for _, seconds, _ in runs]))
    proved = sum(proved for _, _, proved in runs)
    same = sum(abs(a - b) < 1e-3 for (a, _, _), (b, _, _) in zip(runs, ours, strict=True))
    print(
        f"{n:8,} {texts:6,} {name:<10} {ms:10.2f} {1e3 * ms / n:9.2f} {proved:4}/{len(runs)}   {same} of {len(runs)}",
        flush=True,
    )


if __name__ == "__main__":
    main()
