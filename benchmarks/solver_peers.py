"""General solvers on any rules: HiGHS, CP-SAT and toulbar2, each with the best model that we know how to write.

    HiGHS      Bridle's own rows (engine `ilp`, tight), the relaxation first
    CP-SAT     the same rows over Booleans, clauses where they are
    toulbar2   a weighted CSP with the rules' automata as chains of variables

Where hard rules clash, each is asked for the fewest violations, then the best score, as a price on every violation that
outweighs all scores; it first tries the rules as they are, if any sequence of the family may obey them.
"""

from __future__ import annotations

import importlib.util
import json
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import bridle
from bridle.engines import Ilp
from bridle.rules.base import Soft
from bridle.rules.linear import Program, lower
from hard_sets import Family, RuleSet
from rule_tables import tables_of

CHILD = Path(__file__).parent / "solver_child.py"
MEMORY = 8_000_000_000  # bytes that a program of HiGHS may take
GRACE = 30.0  # seconds beyond its limit until a child is stopped


@dataclass(frozen=True)
class Run:
    """Answer of a solver for one sequence."""

    seconds: float
    proved: bool
    ids: list[int] | None  # None: nothing found


def softened(rule_set: RuleSet, k: int) -> RuleSet:
    """Sequence k with a price on every violation of a hard rule that outweighs all scores and penalties."""
    lattice = rule_set.lattices[k]
    dear = (
        1.0 + float(np.ptp(lattice.unary, axis=1).sum()) + sum(r.penalty for r in rule_set.rules if isinstance(r, Soft))
    )
    for scores, times in ((lattice.pairwise, len(lattice)), (lattice.start, 1), (lattice.end, 1)):
        dear += 0.0 if scores is None else times * float(np.ptp(scores))
    rules = tuple(rule if isinstance(rule, Soft) else rule.soft(dear, per="violation") for rule in rule_set.rules)
    return replace(rule_set, rules=rules)


def _attempts(family: Family, rule_set: RuleSet, k: int) -> list[RuleSet]:
    """The rules to try, one set after the other, until one has a solution."""
    return [rule_set, softened(rule_set, k)] if family.on_infeasible == "relax" else [rule_set]


def _highs(family: Family, chosen: Sequence[tuple[int, int]], limit: float) -> list[Run]:
    runs = []
    for i, k in chosen:
        begin = time.perf_counter()
        for rule_set in _attempts(family, family.sets[i], k):
            left = max(0.0, limit - (time.perf_counter() - begin))
            engine = Ilp(formulation="tight")
            decoder = bridle.Decoder(
                rule_set.labels, rule_set.rules, engine, time_limit=left, max_memory=MEMORY, on_infeasible="skip"
            )
            decoding = decoder.decode_batch([rule_set.lattices[k]], given=[rule_set.given(k)], threads=1)[0]
            if decoding.status != "infeasible":
                break
        ids = decoding.ids.tolist() if len(decoding.ids) else None
        runs.append(Run(time.perf_counter() - begin, bool(decoding.optimal) and ids is not None, ids))
    return runs


def _rows(rule_set: RuleSet, k: int) -> dict[str, Any]:
    """The program of Bridle's ilp engine as arrays."""
    unary, pairwise = _scores(rule_set, k)
    n, m = unary.shape
    program = Program(n, m)
    for rule in rule_set.rules:
        lower(program, rule, rule_set.labels, rule_set.given(k), "tight")
    gain = -program.price
    gain[:m] += unary[0]
    gain[m : m + (n - 1) * m * m] += (unary[1:, None, :] + pairwise).ravel()
    start, index, value = program.matrix()
    low, high = program.limits
    upper = np.minimum(program.upper, (n + 1) * m).astype(np.int64)  # of a count of violations
    return {
        "n": n,
        "m": m,
        "gain": gain,
        "upper": upper,
        "start": start,
        "index": index,
        "value": value,
        "low": low,
        "high": high,
        "node": program.pos * m + program.dst,
    }


def _tables(rule_set: RuleSet, k: int) -> dict[str, Any]:
    """Scores, and the rules as automata."""
    unary, pairwise = _scores(rule_set, k)
    tables = tables_of(rule_set.rules, rule_set.labels, rule_set.given(k), len(unary))
    return {"unary": unary, "pairwise": pairwise, "tables": [(table.after, table.price) for table in tables]}


def _scores(rule_set: RuleSet, k: int) -> tuple[Any, Any]:
    """Scores of labels (n, m), those of the ends among them, and of transitions (m, m)."""
    lattice = rule_set.lattices[k]
    unary = np.array(lattice.unary, dtype=np.float64)
    m = unary.shape[1]
    for t, scores in ((0, lattice.start), (-1, lattice.end)):
        unary[t] += 0.0 if scores is None else scores
    return unary, np.zeros((m, m)) if lattice.pairwise is None else np.asarray(lattice.pairwise, dtype=np.float64)


def _apart(
    name: str,
    model: Callable[[RuleSet, int], dict[str, Any]],
    family: Family,
    chosen: Sequence[tuple[int, int]],
    limit: float,
) -> list[Run]:
    """Answers of a solver in a process of its own; making the arrays counts, sending them does not."""
    built: list[list[float]] = []
    models: list[list[dict[str, Any]]] = []
    for i, k in chosen:
        built.append([])
        models.append([])
        for rule_set in _attempts(family, family.sets[i], k):
            begin = time.perf_counter()
            models[-1].append(model(rule_set, k))
            built[-1].append(time.perf_counter() - begin)
    patience = len(chosen) * limit * 1.5 + GRACE
    try:
        done = subprocess.run(
            [sys.executable, str(CHILD)],
            input=pickle.dumps((name, limit, models)),
            capture_output=True,
            timeout=patience,
            check=False,
        )
        said, problem = done.stdout, done.stderr.decode().strip().splitlines()[-1:] if done.returncode else []
    except subprocess.TimeoutExpired as error:
        said, problem = error.stdout or b"", ["it did not stop"]
    answers = [json.loads(line) for line in said.splitlines()]
    if problem and not answers:
        raise RuntimeError(f"{name}: {problem[0]}")
    answers += [[limit, 0, False, None]] * (len(chosen) - len(answers))  # it broke down, or had to be stopped
    return [
        Run(took + sum(extra[:tried]), proved, ids)
        for (took, tried, proved, ids), extra in zip(answers, built, strict=True)
    ]


PEERS: dict[str, tuple[str, Callable[[Family, Sequence[tuple[int, int]], float], list[Run]]]] = {
    "HiGHS": ("highspy", _highs),
    "CP-SAT": ("ortools", lambda *given: _apart("CP-SAT", _rows, *given)),
    "toulbar2": ("pytoulbar2", lambda *given: _apart("toulbar2", _tables, *given)),
}


def missing() -> list[str]:
    """Peers that are not installed."""
    return [name for name, (module, _) in PEERS.items() if importlib.util.find_spec(module) is None]
