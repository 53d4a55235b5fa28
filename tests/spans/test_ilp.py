"""Integer programs of many word lattices at once: joined or not, each sequence has the answer and proof of its own."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator

from bridle.deadline import Deadline
from bridle.engines import highs
from bridle.engines.highs import ProgramAnswer
from bridle.errors import EngineError, Infeasible
from bridle.spans import SpanDecoder, SpanLattice, check_spans, ilp

EMPTY = SpanLattice(0, [], [])
NOTHING = SpanLattice(2, [(0, 1), (1, 2)], [-math.inf, -math.inf])
GAP = SpanLattice(3, [(0, 1), (2, 3)], [1, 1])
CROSSED = SpanLattice(3, [(0, 2), (1, 3)], [1, 1])  # every character has a word, and yet there is no path


def random_lattice(rng: Generator, n: int) -> SpanLattice:
    """A path for sure, a few words twice; halves and -inf, so that ties and impossible words are frequent."""
    every = [(s, e) for s in range(n) for e in range(s + 1, n + 1)]
    more = [every[k] for k in rng.integers(0, len(every), int(rng.integers(0, 3 * n)))] if n else []
    spans = np.array([(k, k + 1) for k in range(n)] + more, dtype=np.int32).reshape(-1, 2)
    scores = rng.integers(-4, 5, len(spans)) / 2
    scores[n:][rng.random(len(more)) < 0.2] = -math.inf
    order = rng.permutation(len(spans))
    return SpanLattice(n, spans[order], scores[order])


def batch(seed: int, count: int = 30, longest: int = 9) -> list[SpanLattice]:
    rng = np.random.default_rng(seed)
    return [random_lattice(rng, int(rng.integers(0, longest + 1))) for _ in range(count)]


def solved(lattices: list[SpanLattice], **options: Any) -> list[ProgramAnswer]:
    offsets = np.cumsum([0, *map(len, lattices)])
    spans, scores = np.concatenate([x.spans for x in lattices]), np.concatenate([x.scores for x in lattices])
    return ilp.solve(np.array([x.n for x in lattices], dtype=np.int32), offsets, spans, scores, **options)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with each program that is given to the solver."""
    columns: list[int] = []
    run = highs.run

    def counted(solver: Any, deadline: Deadline, *, relaxed: bool) -> Any:
        columns.append(solver.getNumCol())
        return run(solver, deadline, relaxed=relaxed)

    monkeypatch.setattr(highs, "run", counted)
    return columns


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 12, 1000]), st.sampled_from(["off", "on"]))
def test_joined_or_not_each_has_its_best_words(seed: int, joined: int, presolve: str) -> None:
    lattices = batch(seed, count=12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ilp, "JOINED", joined)
        answers = solved(lattices, presolve=presolve)
    best = SpanDecoder(engine="viterbi").decode_batch(lattices, threads=1)
    assert len(answers) == len(lattices)
    for lattice, answer, wanted in zip(lattices, answers, best, strict=True):
        assert answer.status == "optimal" and answer.lp_integral and answer.ids is not None
        assert lattice.score(answer.ids) == answer.bound == wanted.score  # halves: sums are exact
        assert (answer.n_variables, answer.n_rows) == (np.isfinite(lattice.scores).sum(), lattice.n)


def test_decodings_of_a_batch_pass_the_judge(calls: list[int]) -> None:
    rng = np.random.default_rng(3)
    large = [SpanLattice.all_words(n, rng.normal(size=(n, n))) for n in (50, 3, 47)]  # 1275 words are one program
    lattices = [*batch(1, 20), large[0], EMPTY, *large[1:], *batch(2, 120)]
    decodings = SpanDecoder(engine="ilp").decode_batch(lattices, threads=1)
    assert len(calls) < len(lattices) / 6 and max(calls) == 1275
    assert sum(calls) == sum(d.stats["variables"] for d in decodings)  # each was solved once
    best = SpanDecoder(engine="viterbi").decode_batch(lattices, threads=1)
    for lattice, d, wanted in zip(lattices, decodings, best, strict=True):
        assert check_spans(lattice, [], d).complaints == [] and d.optimal
        assert d.score == pytest.approx(wanted.score)


@pytest.mark.parametrize("bad", [NOTHING, GAP, CROSSED])
def test_one_that_is_infeasible_spoils_no_other(bad: SpanLattice) -> None:
    lattices = [*batch(4, 5), bad, *batch(5, 5), EMPTY]
    answers, alone = solved(lattices), [solved([x])[0] for x in lattices]
    assert [a.status for a in answers] == ["optimal"] * 5 + ["infeasible"] + ["optimal"] * 6
    assert [a.bound for a in answers] == [a.bound for a in alone]
    assert answers[5].ids is None and answers[5].bound == -math.inf
    with pytest.raises(Infeasible, match="sequence 5: the lattice has no path"):
        SpanDecoder(engine="ilp").decode_batch(lattices)


def test_nothing_to_solve(calls: list[int]) -> None:
    assert len(SpanDecoder(engine="ilp").decode_batch([])) == 0
    assert [d.words for d in SpanDecoder(engine="ilp").decode_batch([EMPTY] * 3)] == [[]] * 3
    assert calls == []


def test_a_time_limit_is_of_each_sequence(calls: list[int]) -> None:
    lattices = [x for x in batch(6) if x.n]
    limited = SpanDecoder(engine="ilp", time_limit=60).decode_batch(lattices, threads=1)
    assert len(calls) == len(lattices)
    assert limited.scores.tolist() == SpanDecoder(engine="ilp").decode_batch(lattices, threads=1).scores.tolist()
    assert len(calls) == len(lattices) + 1


def test_ties_do_not_depend_on_threads() -> None:
    lattices = [SpanLattice.all_words(n % 7, np.zeros((n % 7, 7))) for n in range(300)]
    decodings, *others = (SpanDecoder(engine="ilp").decode_batch(lattices, threads=threads) for threads in (1, 2, 3))
    for other in others:
        assert [d.words for d in other] == [d.words for d in decodings]


def test_seconds_of_a_joined_program_are_shared_by_columns() -> None:
    lattices = [x for x in batch(7) if x.n]
    began = time.perf_counter()
    answers = solved(lattices)
    spent = time.perf_counter() - began
    for name in ("build_seconds", "solve_seconds"):
        each = [getattr(a, name) / a.n_variables for a in answers]
        assert min(each) > 0 and max(each) == pytest.approx(min(each))
    assert sum(a.build_seconds + a.solve_seconds for a in answers) <= spent


def test_what_is_not_proved_is_not_passed_on(monkeypatch: pytest.MonkeyPatch, calls: list[int]) -> None:
    bounds = ilp._Programs._bounds
    monkeypatch.setattr(ilp._Programs, "_bounds", lambda *these: bounds(*these) + (0.1 if len(calls) < 2 else 0.0))
    lattices = [x for x in batch(8, 4) if x.n]
    assert all(a.status == "optimal" for a in solved(lattices))  # the first call is not believed: one by one
    assert len(calls) == 1 + len(lattices)


def test_what_cannot_be_proved_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = ilp._Programs._bounds
    monkeypatch.setattr(ilp._Programs, "_bounds", lambda *these: bounds(*these) + 0.1)
    with pytest.raises(EngineError, match="did not prove"):
        solved(batch(8, 4))


def test_branching_when_the_relaxation_is_not_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    lattices = batch(9, 8)
    wanted = [a.bound for a in solved(lattices)]
    monkeypatch.setattr(highs, "_is_integral", lambda x: False)
    answers = solved(lattices)
    assert [a.bound for a in answers] == wanted
    assert all(a.status == "optimal" and (not a.lp_integral or a.n_rows == 0) for a in answers)
