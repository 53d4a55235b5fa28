"""Limits of time and memory: every engine and every question ends in time, and what it says is true."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bridle
from bridle import Decoder, Labels, Lattice, SpanDecoder, SpanLattice
from bridle import rules as r
from bridle._native import Stop
from bridle.deadline import NEVER, Deadline, OutOfTime, stopping
from bridle.engines import Ilp, Search, TwoStage
from bridle.errors import EngineError, Infeasible, LimitReached
from bridle.rules import Rule
from contract import hard_lattice
from stopwatch import Stopwatch

LIMITS = [0.0, 0.002, 0.05]
SLACK = 0.25  # seconds: machines that run tests are busy. Measured by hand it is 0.05
LEAST = 1_000_000  # bytes


def soft_problem(n: int = 40, m: int = 10, count: int = 33) -> tuple[Labels, list[Rule], Lattice]:
    """Soft rules that interact: `search` takes some 20 ms, most engines cannot do it."""
    rng = np.random.default_rng(2)
    result: dict[Rule, None] = {}
    while len(result) < count:
        a, b = (f"L{k}" for k in rng.choice(m, 2, replace=False))
        kinds = [r.before(a, b), r.exactly(1, of=a), r.if_present(a, then=b), ~(r.present(a) & r.present(b))]
        result.setdefault(kinds[int(rng.integers(len(kinds)))])
    rules: list[Rule] = [rule.soft(float(rng.uniform(1, 3))) for rule in result]
    pairwise = rng.normal(0, 0.3, (m, m)) + 1.5 * np.eye(m)
    return Labels([f"L{k}" for k in range(m)]), rules, Lattice(rng.normal(0, 1.5, (n, m)), pairwise)


def hard_problem() -> tuple[Labels, list[Rule], Lattice]:
    labels, lattice, rules = hard_lattice(1)
    return labels, rules, lattice


PROBLEMS = {"soft": soft_problem, "hard": hard_problem}


@lru_cache
def optimum(problem: str) -> float:
    labels, rules, lattice = PROBLEMS[problem]()
    best = Decoder(labels, rules).decode(lattice)
    assert best.optimal
    return best.score


def in_time(call: Callable[[], Any], seconds: float) -> Any:
    """Return the result of a call, or its error, within so many seconds; it may try twice on a busy machine."""
    for last in (False, True):
        watch = Stopwatch()
        try:
            out = call()
        except (LimitReached, Infeasible) as error:
            out = error
        took = watch.seconds
        if took < seconds + SLACK or last:
            assert took < seconds + SLACK
            return out
    return None


def test_a_deadline() -> None:
    assert NEVER.left is None and not NEVER.passed(1e9)
    NEVER.check()
    soon = Deadline.after(60)
    assert 59 < (soon.left or 0) <= 60 and not soon.passed() and soon.passed(ahead=61)
    with pytest.raises(OutOfTime):
        Deadline.after(0).check()
    stop = Stop()
    with stopping(stop), stopping(None):
        soon.check()
        stop.set()
        with pytest.raises(KeyboardInterrupt):
            soon.check()
    soon.check()  # outside of it nothing was stopped
    assert Deadline.after(0).left == 0.0 and Deadline.after(None) == NEVER


# ---- time -------------------------------------------------------------------------------------------------------


ENGINES = [
    "search",
    Search(1, 1, 2**60),
    Search(1, 4, 0),
    "product",
    "lazy_intersection",
    "beam",
    "two_stage",
    "ilp",
    Ilp(formulation="paper"),
    TwoStage(stage="ilp"),
]
CASES = [(engine, problem) for engine in ENGINES for problem in PROBLEMS if (engine, problem) != ("product", "soft")]


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize(("engine", "problem"), CASES, ids=lambda x: str(x))
def test_every_engine_ends_in_time_with_a_true_bound(engine: Any, problem: str, limit: float) -> None:
    labels, rules, lattice = PROBLEMS[problem]()
    decoder = Decoder(labels, rules, engine, time_limit=limit, on_infeasible="skip")
    d = in_time(lambda: decoder.decode(lattice), limit)
    assert d.status in ("optimal", "limit", "nothing_found") and math.isfinite(d.bound)
    if (
        decoder.plan.engine != "two_stage" or not d.optimal
    ):  # an optimal answer of two stages is best among the cheapest
        assert d.bound >= optimum(problem) - 1e-9
    if d.labels:
        assert bridle.check(lattice, rules, d).ok and d.score <= optimum(problem) + 1e-9
    batch = decoder.decode_batch([lattice] * 2, threads=1) if limit == 0 else ()
    assert all(decoding.bound >= optimum(problem) - 1e-9 or decoding.optimal for decoding in batch)


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "beam"], ids=str)
def test_no_time_is_enough_for_the_best_labelling_if_it_obeys(engine: Any) -> None:
    labels, rules = Labels(["A", "B", "O"]), [r.at_most(2, of="A"), r.before("A", "B").soft(1.0)]
    lattice = Lattice([[2.0, 0, 0], [0, 2, 0], [0, 0, 2]])
    d = Decoder(labels, rules, engine, time_limit=0).decode(lattice)
    assert d.labels == ["A", "B", "O"] and d.score == 6.0 and d.optimal
    costly = Decoder(labels, [rules[0], r.before("B", "A").soft(1.0)], engine, time_limit=0).decode(lattice)
    assert costly.score <= 5.0 <= costly.bound and costly.labels


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_limit_of_k_best_is_that_of_the_call(problem: str, limit: float) -> None:
    labels, rules, lattice = PROBLEMS[problem]()
    best = in_time(lambda: Decoder(labels, rules, time_limit=limit).k_best(lattice, 10**6), limit)
    if isinstance(best, LimitReached):
        assert optimum(problem) <= best.bound + 1e-9 < math.inf
        return
    scores = [d.score for d in best]
    assert scores == sorted(scores, reverse=True) and best[0].bound >= optimum(problem) - 1e-9
    for d in best[:20]:
        assert bridle.check(lattice, rules, d).score == pytest.approx(d.score) and not d.optimal
        assert d.score <= optimum(problem) + 1e-9


@pytest.mark.parametrize("limit", LIMITS)
def test_sums_end_in_time(limit: float) -> None:
    labels, rules, lattice = hard_problem()
    decoder = Decoder(labels, rules, time_limit=limit)
    error = in_time(lambda: decoder.marginals(lattice), limit)
    assert isinstance(error, LimitReached) and "wanted fewer rules, or a higher time_limit" in str(error)
    many = Decoder(labels, rules * 40, time_limit=limit)  # each sum is short, all of them are not
    assert isinstance(in_time(lambda: many.probability(lattice), limit), LimitReached)
    free = Decoder(labels, [], time_limit=5.0)
    assert free.marginals(lattice).sum(axis=1) == pytest.approx(np.ones(60)) and free.probability(lattice).all == 1.0


@pytest.mark.parametrize("limit", LIMITS)
def test_explanations_end_in_time(limit: float) -> None:
    labels, rules, lattice = soft_problem()
    explanation = in_time(lambda: Decoder(labels, rules, time_limit=limit).explain(lattice), limit)
    assert explanation.best.score <= optimum("soft") + 1e-9 <= explanation.best.bound + 2e-9
    assert (
        explanation.effects or not explanation.best.optimal
    )  # beside a busy machine, not one rule is priced before the time is up
    assert not explanation.effects or not all(effect.proved for effect in explanation.effects)
    for effect in explanation.effects:
        assert (
            effect.without is None or bridle.check(lattice, [x for x in rules if x != effect.rule], effect.without).ok
        )
    alternatives = in_time(explanation.alternatives, limit)
    assert isinstance(alternatives, list)


def test_a_clash_is_searched_for_in_time() -> None:
    labels, others, lattice = hard_problem()
    clash = [r.fix("L1", 0), r.fix("L2", 0)]
    rules = [*others, *clash]
    for limit in LIMITS:
        error = in_time(lambda limit=limit: Decoder(labels, rules, time_limit=limit).decode(lattice), limit)
        assert isinstance(error, Infeasible) and set(clash) <= set(error.clash)
        assert not error.minimal or set(error.clash) == set(clash)
        assert error.minimal != ("the set may not be minimal" in str(error))
    error = in_time(lambda: Decoder(labels, rules).decode(lattice), 10.0)  # a limit of its own
    assert error.minimal and set(error.clash) == set(clash)
    decodings = Decoder(labels, rules, time_limit=0.0, on_infeasible="skip").decode_batch([lattice] * 2)
    assert set(clash) <= set(decodings[1].clash)


@pytest.mark.parametrize("engine", ["auto", "ilp"])
@pytest.mark.parametrize("limit", LIMITS)
def test_relaxing_counts_too(engine: str, limit: float) -> None:
    labels, others, lattice = hard_problem()
    rules = [*others, r.fix("L1", 0), r.fix("L2", 0)]
    decoder = Decoder(labels, rules, engine, time_limit=limit, on_infeasible="relax")
    d = in_time(lambda: decoder.decode(lattice), limit)
    if isinstance(d, LimitReached):  # not known by then that the rules clash
        assert math.isfinite(d.bound)
        return
    assert d.status == "relaxed" and len(d.labels) == 60 and d.score <= d.bound + 1e-9


@pytest.mark.parametrize("engine", ["search", "product"])
@pytest.mark.parametrize("limit", LIMITS)
def test_word_lattices_end_in_time(engine: str, limit: float) -> None:
    labels = Labels([f"L{k}" for k in range(12)])
    rules: list[Rule] = [r.exactly(2, of=name, count="tokens") for name in labels]
    rng = np.random.default_rng(0)
    lattice = SpanLattice.all_words(40, rng.normal(size=(40, 4, 12)))
    error = in_time(lambda: SpanDecoder(labels, rules, engine, time_limit=limit).decode(lattice), limit)
    assert isinstance(error, LimitReached) and math.isfinite(error.bound)
    error = in_time(lambda: SpanDecoder(labels, rules, engine, time_limit=limit).k_best(lattice, 10**6), limit)
    assert isinstance(error, LimitReached) and math.isfinite(error.bound)
    clash: list[Rule] = [
        r.forbid("L1"),
        r.at_least(1, of="L1", count="tokens"),
        *(r.present(f"L{k}") for k in range(2, 9)),
    ]
    error = in_time(lambda: SpanDecoder(labels, clash, time_limit=limit).decode(lattice), limit)
    assert isinstance(error, (Infeasible, LimitReached))


def test_what_was_half_made_when_the_time_was_up_is_not_used_again() -> None:
    """Tables of transitions are kept from one sequence to the next, if they are whole."""
    labels, rng = Labels([f"L{k}" for k in range(200)]), np.random.default_rng(0)
    lattice = Lattice(rng.normal(size=(20, 200)), rng.normal(size=(200, 200)))
    rules: list[Rule] = [r.forbid_transition("L0", "L1").soft(3.0), r.forbid_transition("L1", "L0").soft(3.0)]
    best = Decoder(labels, rules).decode(lattice).score
    for limit in (0.00003, 0.0001, 0.0003, 0.001):
        decoder = Decoder(labels, rules, time_limit=limit)
        assert all(decoder.decode(lattice).score <= best + 1e-9 for _ in range(20))


@pytest.mark.parametrize("per", ["sequence", "violation"])
def test_a_labelling_is_not_lost_when_the_time_is_up(per: Any) -> None:
    rules: list[Rule] = [r.forbid_transition("A", "A").soft(5.0, per), r.at_most(1, of="B")]
    lattice = Lattice([[1.0, 0.0]] * 6)
    d = Decoder(["A", "B"], rules, Search(max_product_states=1), time_limit=0).decode(lattice)
    assert bridle.check(lattice, rules, d).ok and d.bound >= Decoder(["A", "B"], rules).decode(lattice).score


def test_large_penalties_excuse_nothing() -> None:
    """The loss of a penalty of 1e14 by rounding is more than scores differ by, but only where it is paid."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        lattice = Lattice(rng.normal(size=(14, 4)), rng.normal(size=(4, 4)))
        pairs = [rng.choice(list("ABCD"), 2, replace=False) for _ in range(9)]
        rules: list[Rule] = [r.before(a, b).soft(float(rng.uniform(1, 5)) * 1e14) for a, b in map(tuple, pairs)]
        decoding = Decoder("ABCD", rules, Search(max_product_states=1)).decode(lattice)
        exact = Decoder("ABCD", rules, "product").decode(lattice)
        assert decoding.score == pytest.approx(exact.score, rel=1e-6, abs=1e-5) or not decoding.optimal


def test_explanations_of_nothing_say_why() -> None:
    labels, rules, lattice = hard_problem()
    explanation = in_time(lambda: Decoder(labels, rules, time_limit=0, on_infeasible="skip").explain(lattice), 0)
    assert isinstance(explanation, LimitReached)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m"), [(1_000_000, 3), (60, 1500)])
def test_long_sequences_and_many_labels_end_in_time(n: int, m: int) -> None:
    labels, rng = Labels([f"L{k}" for k in range(m)]), np.random.default_rng(0)
    lattice = Lattice(rng.normal(size=(n, m)), rng.normal(size=(m, m)))
    rules: list[Rule] = [r.at_most(1, of="L0"), r.exactly(2, of="L1"), r.before("L2", "L0")]
    for engine in ("auto", "viterbi", "product", "lazy_intersection", "beam", "two_stage"):
        for limit in (0.0, 0.05):
            decoder = Decoder(
                labels, [] if engine == "viterbi" else rules, engine, time_limit=limit, on_infeasible="skip"
            )
            try:
                d = in_time(lambda decoder=decoder: decoder.decode(lattice), limit)
            except EngineError:
                assert engine == "product"
                continue
            assert d.status in ("optimal", "limit", "nothing_found")


# ---- memory -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("engine", ["search", Search(1, 1, 2**60), Search(4096), "beam", "two_stage"], ids=str)
def test_little_memory_leaves_a_true_bound(engine: Any, problem: str) -> None:
    labels, rules, lattice = PROBLEMS[problem]()
    d = Decoder(labels, rules, engine, max_memory=LEAST, time_limit=0.5, on_infeasible="skip").decode(lattice)
    if engine != "two_stage" or not d.optimal:
        assert d.bound >= optimum(problem) - 1e-9
    assert d.status == "nothing_found" or (bridle.check(lattice, rules, d).ok and d.score <= optimum(problem) + 1e-9)


def test_what_does_not_fit_says_so() -> None:
    labels, rules, lattice = hard_problem()
    decoder = Decoder(labels, rules, max_memory=LEAST)
    with pytest.raises(EngineError, match="or a higher max_states or max_memory"):
        decoder.marginals(lattice)
    for engine in ("product", "lazy_intersection"):
        with pytest.raises(EngineError, match="cannot hold the intersection"):
            decoder.with_rules(rules, engine=engine).decode(lattice)
    with pytest.raises(EngineError, match="the linear program of a sequence is too large"):
        decoder.with_rules(rules, engine="ilp").decode(lattice)
    first, *others = decoder.k_best(lattice, 10**6)
    assert first.score <= optimum("hard") <= first.bound + 1e-9 and first.status == "limit" and len(others) < 10**5
    assert decoder.with_rules(rules, max_memory=10**9).limits.max_memory == 10**9
    assert decoder.with_rules(rules).limits.max_memory == LEAST


PEAK = """
import resource, sys
sys.path[:0] = sys.argv[1:]
from test_deadline import Decoder, Search, soft_problem
labels, rules, lattice = soft_problem(60, 13, 40)
decoder = Decoder(labels, rules, Search(1, 1, 2**60), max_memory=40_000_000, time_limit=2, on_infeasible="skip")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = decoder.decode(lattice)
print(found.status, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="kilobytes there, bytes elsewhere")
def test_memory_is_what_was_asked_for() -> None:
    paths = [str(Path(__file__).parent), str(Path(bridle.__file__).parent.parent)]
    out = subprocess.run(
        [sys.executable, "-c", PEAK, *paths], capture_output=True, text=True, check=True
    ).stdout.split()
    assert out[0] == "limit" and int(out[1]) * 1024 < 1.2 * 40_000_000 + 10_000_000
