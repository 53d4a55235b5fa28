"""Whole blocks in one call: each row gets what it gets alone, and errors and stops are values."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from bridle import Decoder, Labels, Lattice, _native
from bridle import rules as r
from bridle.decoding.marginals import hard_rules
from bridle.decoding.problem import INFEASIBLE, NOTHING_FOUND, Answers, Limits, Problem
from bridle.engines import Search
from bridle.errors import BridleError, GivenError
from bridle.rules.compiled import CompiledRules
from bridle.texts import Texts
from strategies import random_problem

LABELS = Labels(["O", "B-X", "I-X", "B-Y", "I-Y"], "BIO")
M = len(LABELS)


def problem_of(rules: list[Any], lattices: list[Lattice], given: Any = None, **options: Any) -> Problem:
    return Problem(Decoder(LABELS, rules).compiled, lattices, given, many=True, **options)


def random_lattices(seed: int, count: int) -> list[Lattice]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 7, count).tolist()
    return [Lattice(rng.normal(size=(n, M)), rng.normal(size=(M, M)) if seed % 2 else None) for n in sizes]


def sums_of(
    problem: Problem, hard: list[int], rows: Any, out: Any, stop: _native.Stop, *, seconds: float = -1.0
) -> tuple[Any, Any]:
    """Call the kernel for the probabilities of labels; the logarithms of the sums, and their errors."""
    log_z, _, error = problem.native().sums(hard, [], rows, seconds, stop, marginals=out)
    return log_z, error


# ---- k best and probabilities ---------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@drawn(st.integers(0, 10**6), st.integers(1, 6))
def test_blocks_are_their_rows(seed: int, k: int) -> None:
    rules = [r.well_formed(), r.at_most(1, of="X"), r.present("Y").soft(0.7)]
    lattices = random_lattices(seed, 6)
    whole, stop = problem_of(rules, lattices), _native.Stop()
    rows = np.array([5, 0, 3, 3], dtype=np.int64)
    hard, out = hard_rules(whole), np.full((int(whole.offsets[-1]), M), 7.0)
    log_z, error = sums_of(whole, hard, rows, out, stop)
    best = whole.native().k_best_all(k, rows, stop)
    for at, b in enumerate(rows.tolist()):
        alone = problem_of(rules, [lattices[b]])
        (result,) = alone.native().k_best_all(k, np.zeros(1, dtype=np.int64), stop)
        assert result == best[at] and 1 <= len(result) <= k
        table = np.zeros((len(lattices[b]), M))
        assert sums_of(alone, hard, np.zeros(1, dtype=np.int64), table, stop) == (log_z[at], error[at])
        low, high = whole.offsets[b : b + 2]
        assert out[low:high].tolist() == table.tolist()
    others = [b for b in range(6) if b not in rows.tolist()]
    assert all((out[whole.offsets[b] : whole.offsets[b + 1]] == 7.0).all() for b in others)


def test_rows_without_a_sum_are_told() -> None:
    fine, none = Lattice(np.zeros((3, M))), Lattice(np.full((2, M), -np.inf))
    stop, rows = _native.Stop(), np.arange(3)

    def asked(problem: Problem, seconds: float = -1.0) -> tuple[Any, Any]:
        out = np.full((8, M), np.nan)
        return sums_of(problem, [0], rows, out, stop, seconds=seconds)[0], out

    log_z, out = asked(problem_of([r.at_most(1, of="X")], [fine, none, fine]))
    assert log_z[1] == -math.inf and math.isfinite(log_z[0]) and log_z[0] == log_z[2]
    assert np.isnan(out[3:5]).all() and np.isfinite(out[:3]).all() and out[:3].tolist() == out[5:].tolist()
    log_z, out = asked(problem_of([r.at_most(1, of="X")], [fine, none, fine]), 0.0)
    assert np.isnan(log_z).all() and np.isnan(out).all()
    few = CompiledRules(LABELS, [r.at_most(2, of="X")], Limits(max_states=1).native())
    log_z, out = asked(Problem(few, [fine, none, fine]))
    assert (log_z == math.inf).all() and np.isnan(out).all()
    assert problem_of([], [fine, none]).native().k_best_all(2, np.array([1]), stop) == [[]]
    late = Problem(CompiledRules(LABELS, [r.present("X")], Limits(time_limit=0.0).native()), [Lattice(np.eye(M))])
    (result,) = late.native().k_best_all(2, np.zeros(1, dtype=np.int64), stop)
    assert [item[2] for item in result] in ([NOTHING_FOUND], [1])


def test_blocks_are_checked() -> None:
    problem, stop = problem_of([], [Lattice(np.zeros((3, M)))]), _native.Stop()
    native, out, rows = problem.native(), np.zeros((3, M)), np.zeros(1, dtype=np.int64)
    for row in (-1, 1):
        with pytest.raises(ValueError, match="no such sequence"):
            native.k_best_all(1, np.array([row]), stop)
        with pytest.raises(ValueError, match="no such sequence"):
            sums_of(problem, [], np.array([row]), out, stop)

    def asked(ids: Any) -> None:
        first, end, flags = np.zeros(1, np.int32), np.ones(1, np.int32), np.zeros(M, np.uint8)
        segments = (ids, first, end, np.zeros(M, np.int32), flags, flags, np.zeros(1), np.zeros(1))
        native.sums([], [], rows, -1.0, stop, segments=segments)

    for label in (-1, M):
        with pytest.raises(ValueError, match="no such label"):
            asked(np.full(3, label, dtype=np.int32))
    with pytest.raises(ValueError, match="another length"):
        asked(np.zeros(2, dtype=np.int32))
    with pytest.raises(ValueError, match="shorter than it should be"):
        sums_of(problem, [], rows, out[:2], stop)


# ---- stopping -------------------------------------------------------------------------------------------------------


def long_problem(stop: _native.Stop, tokens: int = 1500, count: int = 40) -> Problem:
    """A problem on which many labellings, and sums that are asked for again and again, take long."""
    rng = np.random.default_rng(1)
    rules = [r.at_most(6, of="X"), r.at_least(5, of="Y"), r.before("X", "Y"), r.at_most(9, of=["X", "Y"])]
    return problem_of(rules, [Lattice(rng.normal(size=(tokens, M)))] * count, stop=stop)


def long_table(stop: _native.Stop) -> Any:
    scores = np.zeros((3000, 3000))
    rules = CompiledRules(Labels([f"L{y}" for y in range(3000)]), [], Limits().native()).native("masks")
    unary, offsets = np.zeros((2, 3000)), np.array([0, 2])
    while True:
        scores[0, 0] += 1  # another table each time
        _native.Problem(rules, None, unary, offsets, None, [(scores, None, None)], None, stop)


def long_intervals(stop: _native.Stop) -> Any:
    start = np.repeat(np.arange(3000, dtype=np.int32), 30)
    end = start + np.tile(np.arange(1, 31, dtype=np.int32), 3000)
    gains = np.random.default_rng(1).random(len(start))
    while True:
        _native.best_intervals(start, end, gains, True, -1.0, stop)


LONG: dict[str, Callable[[_native.Stop], Any]] = {
    "k best": lambda stop: long_problem(stop).native().k_best_all(10**6, np.arange(40), stop),
    "sums": lambda stop: sums_of(
        long_problem(stop), [0, 1, 2, 3], np.tile(np.arange(40), 2000), np.ones((60_000, M)), stop
    ),
    "one sum": lambda stop: sums_of(long_problem(stop, 500_000, 1), [0, 1, 2, 3], np.zeros(1, np.int64), None, stop),
    "tables": long_table,
    "intervals": long_intervals,
}  # fmt: skip


@pytest.mark.parametrize("name", LONG)
def test_a_stop_ends_work_that_has_begun(name: str) -> None:
    stop, ended = _native.Stop(), list[Any]()

    def work() -> None:
        try:
            ended.append(LONG[name](stop))
        except KeyboardInterrupt as error:
            ended.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    time.sleep(0.3)
    assert not ended  # else there is nothing to stop
    stop.set()
    thread.join(60)
    assert isinstance(ended[0], KeyboardInterrupt)


@pytest.mark.parametrize("name", LONG)
def test_a_stop_that_is_set_ends_work_before_it_begins(name: str) -> None:
    stop = _native.Stop()
    stop.set()
    with pytest.raises(KeyboardInterrupt):
        LONG[name](stop)


def test_a_stop_ends_binding() -> None:
    stop = _native.Stop()
    problem = problem_of([r.fix("O", r.given("at"))], [Lattice(np.zeros((1, M)))] * 9, [{"at": 0}] * 9, stop=stop)
    stop.set()
    with pytest.raises(KeyboardInterrupt):
        problem.native()


# ---- rows that cannot be bound --------------------------------------------------------------------------------------

GOOD = {
    "at": [0, -1], "spans": [(0, 2)], "names": ["X"], "tokens": ["a", "b", "a"], "pos": ["N", "V", "N"], "n": 3,
}  # fmt: skip
BAD: dict[str, list[Any]] = {
    "at": [7, [0, 9], "x", None, [1.5]],
    "spans": [(0, 9), [(2, 1)], "x"],
    "names": ["Z", ["X", "Z"], 5, None],
    "tokens": [["a"], "abc", None, 4],
    "pos": [["N"], "N V", 0],
}
RULES: dict[str, tuple[r.Rule, str]] = {
    "mask": (r.fix("O", r.given("at")), "at"),
    "tied": (r.same_label(r.given("spans")), "spans"),
    "automaton": (r.label_at(r.given("at"), "X") | r.present("Y"), "at"),
    "soft": (r.fix("O", r.given("at")).soft(0.5), "at"),
    "names": (r.at_most(1, of=r.given("names")), "names"),
    "names of a mask": (r.forbid(r.given("names")), "names"),
    "names and places": (r.fix(r.given("names"), r.given("at")), "at"),
    "tokens": (r.forbid("X", r.tokens("a")), "tokens"),
    "column": (r.forbid("X", r.tokens("N", column="pos")), "pos"),
    "several places": (
        r.label_at(r.given("at"), "X") | r.label_at(0, "O") | r.label_at(1, "Y") | r.label_at(2, r.given("names")),
        "names",
    ),
    "equal": (r.same_label_for_equal(), "tokens"),
    "equal, soft": (r.same_label_for_equal().soft(0.3), "tokens"),
}


def decoded(problem: Problem) -> Answers:
    answers = Answers.blank(problem.offsets, len(problem.rules), len(Search().counters))
    Search().solve(problem, Limits(), answers)
    return answers


@pytest.mark.parametrize("kind", RULES)
@settings(deadline=None, max_examples=25)
@drawn(data=st.data(), seed=st.integers(0, 10**6))
def test_bad_rows_do_not_touch_the_others(kind: str, data: Any, seed: int) -> None:
    rule, key = RULES[kind]
    rng = np.random.default_rng(seed)
    given = []
    for bad in (spoilt := data.draw(st.lists(st.booleans(), min_size=1, max_size=6))):
        row: dict[str, Any] = dict(GOOD)
        if bad:
            row[key] = data.draw(st.sampled_from(BAD[key]))
            if data.draw(st.booleans()):
                del row[key]
        given.append(row)
    rules = [r.well_formed(), rule, r.at_most(1, of="Y")]
    lattices = [Lattice(rng.normal(size=(3, M))) for _ in given]
    errors: dict[int, BridleError] = {}
    decoding = decoded(problem_of(rules, lattices, given, errors=errors))
    assert sorted(errors) == [b for b, bad in enumerate(spoilt) if bad]
    for b, bad in enumerate(spoilt):
        alone = problem_of(rules, [lattices[b]], [given[b]])
        if bad:
            with pytest.raises(type(errors[b])) as raised:
                alone.native()
            assert errors[b].sequence == b and errors[b].what == raised.value.what and errors[b].rule == rule
            continue
        item = decoded(alone)
        assert decoding.ids[3 * b : 3 * b + 3].tolist() == item.ids.tolist()
        assert (decoding.score[b], decoding.bound[b], decoding.status[b]) == (
            item.score[0],
            item.bound[0],
            item.status[0],
        )
        assert decoding.violations[b].tolist() == item.violations[0].tolist()
    if errors:
        with pytest.raises(type(errors[min(errors)])) as raised:
            Decoder(LABELS, rules).decode_batch(lattices, given)
        assert raised.value.sequence == (min(errors) if len(given) > 1 else None)


def test_too_many_marks_in_one_row() -> None:
    places = [r.label_at(r.given(f"p{k}"), "X") for k in range(10)]
    rule = places[0] | places[1] | places[2] | places[3] | places[4] | places[5] | places[6] | places[7] | places[8]
    n = 600
    full = {f"p{k}": [t for t in range(n) if t >> k & 1] for k in range(10)}
    small: dict[str, Any] = {f"p{k}": [0] for k in range(10)}
    errors: dict[int, BridleError] = {}
    lattices = [Lattice(np.eye(M)[np.arange(n) % M]) for _ in range(3)]
    decoding = decoded(problem_of([rule], lattices, [small, full, small], errors=errors))
    assert list(errors) == [1] and "too many positions" in errors[1].what
    assert (
        decoding.status[0] != INFEASIBLE
        and decoding.score[0] == decoding.score[2] == decoded(problem_of([rule], lattices[:1], [small])).score[0]
    )


def test_other_errors_are_raised() -> None:
    class Broken(dict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        problem_of([r.fix("O", r.given("at"))], [Lattice(np.zeros((3, M)))], [Broken(at=0)], errors={}).native()
    with pytest.raises(GivenError):
        Decoder(LABELS, [r.fix("O", r.given("at"))]).decode(Lattice(np.zeros((3, M))), {})


# ---- where rows begin -----------------------------------------------------------------------------------------------


@settings(deadline=None)
@drawn(st.lists(st.sampled_from(["a B", "c D\ne F", "# x\na B", "# x", "", "-DOCSTART- O", "\n", " "]), max_size=8))
def test_rows_of_lines_begin_at_their_first_token(parts: list[str]) -> None:
    data = "\n\n".join(parts).encode()
    reader = _native.ConllReader(False, 1, [0, 1], "#", True, True)
    assert reader.read(data, 0, True, 100)[0] == 0
    rows, columns, *_, places = reader.take()
    words = Texts(*columns[0])
    for at, token in zip(places.tolist(), rows[:-1].tolist(), strict=True):
        assert data[at:].startswith(f"{words[token]} ".encode()) and (at == 0 or data[at - 1] == 10)
    assert len(reader) == 0 and not len(reader.take()[-1])


@settings(deadline=None)
@drawn(st.lists(st.sampled_from(['{"tokens": ["a"]}', ' {"tokens": []}\r', "", " "]), max_size=8), st.integers(1, 3))
def test_rows_of_json_begin_at_their_line(lines: list[str], most: int) -> None:
    data = "\n".join(lines).encode()
    reader = _native.JsonReader()
    reader.add_key("tokens", 0, "")
    result, at, stop = list[int](), 0, 1
    while stop == 1:
        stop, at, _ = reader.read(data, at, True, most)
        result += reader.take()[1].tolist()
    wanted = [sum(len(line) + 1 for line in lines[:k]) for k, line in enumerate(lines) if line.strip()]
    assert result == wanted


_CELLS = st.text(st.sampled_from('aé"\\\n\t \x01/'), max_size=4)


@settings(deadline=None)
@drawn(st.lists(st.lists(_CELLS | st.none(), max_size=5), max_size=4))
def test_lists_are_written_as_python_writes_them(lists: list[list[str | None]]) -> None:
    flat = [cell for cells in lists for cell in cells]
    texts, rows = Texts.of([cell or "" for cell in flat]), np.cumsum([0, *map(len, lists)])
    whole = np.array([cell is not None for cell in flat], dtype=np.uint8)
    written = _native.write_json(
        [(2, '"x": ', (rows, None, texts.offsets, whole, texts.data, None), False)], len(lists)
    )
    assert written.decode() == "".join(json.dumps({"x": cells}, ensure_ascii=False) + "\n" for cells in lists)


def test_texts_are_taken() -> None:
    texts = Texts.of(["Zürich", "", "Wien"])
    assert list(texts.take(np.array([2, 2, 1, 0]))) == ["Wien", "Wien", "", "Zürich"]
    assert list(texts[1:].take(np.array([1, 0], dtype=np.int32))) == ["Wien", ""]
    for k in (-1, 3):
        with pytest.raises(ValueError, match="no such text"):
            texts.take(np.array([k]))


def test_the_contract_of_random_problems_holds_in_blocks() -> None:
    for seed in range(20):
        labels, rules, lattice, values = random_problem(np.random.default_rng(seed))[:4]
        problem = Problem(Decoder(labels, rules).compiled, [lattice] * 3, [values] * 3, many=True)
        result = problem.native().k_best_all(4, np.arange(3), problem.stop)
        assert result[0] == result[1] == result[2]
