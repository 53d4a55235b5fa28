"""Every engine x every kind of rule x hard, soft, mixed, against enumeration; and that a wrong engine is caught."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from bridle.decoding.problem import INFEASIBLE, OPTIMAL, Answers, Limits, Problem
from bridle.engines import Engine, engine_named
from contract import Oracle, Path, examine, examine_medium
from strategies import RULE_KINDS

CHUNKS, SIZE = 20, 100  # problems that are enumerated
MEDIUM = 6  # chunks of 50 that are not


@cache
def chunk(k: int) -> tuple[list[str], Counter[str]]:
    """The complaints about problems k * SIZE ..., and what they were like; run once, whoever asks first."""
    tally: Counter[str] = Counter()
    seeds = range(k * SIZE, (k + 1) * SIZE)
    return [text for seed in seeds for text in examine(seed, ilp=seed % 4 == 0, tally=tally)], tally


@cache
def medium(k: int) -> tuple[list[str], Counter[str]]:
    tally: Counter[str] = Counter()
    return [text for seed in range(k * 50, (k + 1) * 50) for text in examine_medium(seed, tally=tally)], tally


def total(run: Callable[[int], tuple[list[str], Counter[str]]], count: int) -> Counter[str]:
    return sum((run(k)[1] for k in range(count)), Counter())


@pytest.mark.slow
@pytest.mark.parametrize("k", range(CHUNKS))
def test_all_engines_agree_with_enumeration(k: int) -> None:
    assert chunk(k)[0] == []


@pytest.mark.parametrize("k", range(MEDIUM))
def test_search_agrees_with_product_where_nothing_can_be_enumerated(k: int) -> None:
    assert medium(k)[0] == []


def test_every_kind_of_rule_was_asked_for_in_every_mode() -> None:
    tally = total(chunk, CHUNKS)
    modes = ("hard", "soft per sequence", "soft per violation")
    few = {f"{kind} {mode}": tally[f"{kind} {mode}"] for kind in RULE_KINDS for mode in modes}
    assert {name: count for name, count in few.items() if count < 10} == {}


def test_the_odd_cases_occurred() -> None:
    tally = total(chunk, CHUNKS)
    wanted = {
        "n=0": 100,
        "n=1": 100,
        "n=6": 50,
        "infeasible": 100,
        "no path": 50,
        "tie": 100,
        "-inf": 300,
        "pays": 100,
        "hard and soft": 100,
        "float32": 100,
        "pairwise per step": 100,
        "hard rules bite": 150,
        "soft rules bite": 80,
        "soft rules per sequence bite": 30,
        "travelled": 300,
    }
    assert {name: tally[name] for name, least in wanted.items() if tally[name] < least} == {}


def test_every_engine_answered_often() -> None:
    tally = total(chunk, CHUNKS)
    wanted = {
        "auto": 1000,
        "search": 2000,
        "product": 1000,
        "two_stage": 1000,
        "beam": 1000,
        "lazy_intersection": 700,
        "viterbi": 300,
        "ilp": 500,
    }
    answered = {name: tally[f"{name} answered"] for name in wanted}
    assert {name: count for name, count in answered.items() if count < wanted[name]} == {}
    assert all(tally[f"{name} infeasible"] >= 30 for name in wanted)
    assert all(tally[f"{name} refused"] == 0 for name in set(wanted) - {"lazy_intersection", "viterbi"})
    larger = total(medium, MEDIUM)
    assert larger["product answered"] >= 250 and larger["lazy_intersection answered"] >= 80
    assert larger["infeasible"] >= 10


# ---- would a wrong engine be caught? ----------------------------------------------------------------------------

Row = tuple[Path, float, float, bool]  # labelling, lattice score, penalty, are the hard rules obeyed
Pick = Callable[[list[Row]], Row | None]


def impostor(pick: Pick, *, bound: float | None = None) -> Any:
    """A `solve` that enumerates, answers what `pick` likes, and swears that it is optimal: the judge sees no fault."""

    def solve(self: Engine, problem: Problem, limits: Limits, answers: Answers) -> None:
        for b in range(len(problem)):
            lattice, given = problem.lattices[b], dict(problem.given(b))
            row = pick(Oracle.of(problem.labels, list(problem.rules), lattice, given).rows)
            answers.status[b] = INFEASIBLE if row is None else OPTIMAL
            answers.stats.append({})
            if row is None:
                continue
            ids = np.array(row[0], dtype=np.int32)
            answers.ids[problem.offsets[b] : problem.offsets[b + 1]] = ids
            answers.score[b] = row[1] - row[2]
            answers.bound[b] = row[1] - row[2] if bound is None else bound
            answers.violations[b] = [rule.violations(ids, problem.labels, given) for rule in problem.rules]

    return solve


def by_value(rows: list[Row]) -> list[Row]:
    return sorted((row for row in rows if row[3]), key=lambda row: row[2] - row[1])


def honest(rows: list[Row]) -> Row | None:
    return next(iter(by_value(rows)), None)


def second_best(rows: list[Row]) -> Row | None:
    ranked = by_value(rows)
    return ranked[min(1, len(ranked) - 1)] if ranked else None


def deaf_to_soft_rules(rows: list[Row]) -> Row | None:
    return max((row for row in rows if row[3]), key=lambda row: row[1], default=None)


def deaf_to_hard_rules(rows: list[Row]) -> Row | None:
    return min(rows, key=lambda row: row[2] - row[1], default=None)


def gives_up_when_it_costs(rows: list[Row]) -> Row | None:
    best = honest(rows)
    return None if best is None or best[2] > 2 else best


def complaints_about(engine: str, solve: Any, monkeypatch: pytest.MonkeyPatch, problems: int = 60) -> list[str]:
    kind = type(engine_named(engine))
    monkeypatch.setattr(kind, "solve", solve)
    monkeypatch.setattr(kind, "stats", lambda _self, _counters: {})
    return [text for seed in range(problems) for text in examine(seed, ilp=engine == "ilp")]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["product", "search", "lazy_intersection"])
def test_an_honest_engine_of_another_make_passes(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert complaints_about(engine, impostor(honest), monkeypatch) == []


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["product", "search", "lazy_intersection", "viterbi", "ilp", "two_stage", "beam"])
def test_an_engine_that_gives_the_second_best_is_caught(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = complaints_about(engine, impostor(second_best), monkeypatch)
    assert result and all(engine in text or "auto" in text or "relaxed" in text for text in result)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "pick"),
    [
        *((engine, deaf_to_hard_rules) for engine in ("product", "search", "lazy_intersection", "ilp", "two_stage")),
        *((engine, deaf_to_soft_rules) for engine in ("product", "search", "lazy_intersection", "ilp")),
        *((engine, gives_up_when_it_costs) for engine in ("product", "lazy_intersection", "ilp", "two_stage")),
    ],
)
def test_an_engine_that_neglects_rules_is_caught(engine: str, pick: Pick, monkeypatch: pytest.MonkeyPatch) -> None:
    result = complaints_about(
        engine, impostor(pick), monkeypatch, problems=200 if engine == "lazy_intersection" else 60
    )
    assert any(engine in text for text in result)


@pytest.mark.parametrize("bound", [-100.0, 100.0, math.nan])
def test_a_false_bound_is_caught(bound: float, monkeypatch: pytest.MonkeyPatch) -> None:
    assert complaints_about("search", impostor(honest, bound=bound), monkeypatch, problems=20)
