"""A batch is its sequences one by one: at any number of threads, packed or not, with what was given to each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bridle
from bridle import Batch, Decoder, Decoding, Labels, Lattice
from bridle import rules as r
from bridle.engines import Beam
from stopwatch import patience
from strategies import random_problem, seeds

LABELS = Labels(["O", "A", "B", "C"], "IO")
M = len(LABELS)
RULES = [
    r.at_most(1, of="A"),
    r.before("A", "B").soft(1.5),
    r.fix("O", r.given("verb")),
    r.same_label(r.given("spans")),
    r.if_present("C", then=r.given("needs")).soft(0.5, per="violation"),
]


def mixed(rng: np.random.Generator, count: int) -> tuple[list[Lattice], list[dict[str, Any]]]:
    """Lattices of all kinds, some empty, some of which share their pairwise scores; and what the rules ask for."""
    shared = [rng.normal(size=(M, M)), rng.normal(size=(M, M)).astype(np.float32)]
    start, lattices, given = rng.normal(size=M), [], []
    for k in range(count):
        n = int(rng.integers(0, 12)) if k % 7 else 0
        pairwise = [None, *shared, rng.normal(size=(M, M)), rng.normal(size=(max(n - 1, 0), M, M))][k % 5]
        unary = (rng.normal(size=(n, M)) * 2).astype(np.float32 if k % 3 == 0 else np.float64)
        lattices.append(Lattice(unary, pairwise, start if k % 4 == 0 else None, start if k % 6 == 0 else None))
        spans = [tuple(sorted(rng.integers(0, n + 1, 2).tolist())) for _ in range(2)]
        given.append({"verb": int(rng.integers(-n, n)) if n else [], "spans": spans, "needs": ["A", "B"][: 1 + k % 2]})
    return lattices, given


def same(a: Decoding, b: Decoding) -> bool:
    timed = {"build_seconds", "solve_seconds"}
    return (
        np.array_equal(a.ids, b.ids)
        and (a.score, a.penalty, a.bound, a.optimal, a.violated, a.engine, a.relaxed)
        == (b.score, b.penalty, b.bound, b.optimal, b.violated, b.engine, b.relaxed)
        and {k: v for k, v in a.stats.items() if k not in timed} == {k: v for k, v in b.stats.items() if k not in timed}
    )


def one_by_one(decoder: Decoder, lattices: list[Lattice], given: list[dict[str, Any]]) -> list[Decoding]:
    return [decoder.decode(lattice, its) for lattice, its in zip(lattices, given, strict=True)]


@pytest.mark.parametrize("engine", ["auto", "product", "two_stage"])
def test_a_batch_is_its_sequences_at_any_number_of_threads(engine: str) -> None:
    lattices, given = mixed(np.random.default_rng(1), 333)
    decoder = Decoder(LABELS, RULES, engine)
    alone = one_by_one(decoder, lattices, given)
    for threads in (1, 2, 3, 5, 0):
        decodings = decoder.decode_batch(lattices, given, threads=threads)
        assert len(decodings) == len(alone) and all(same(a, b) for a, b in zip(decodings, alone, strict=True))
        assert np.array_equal(decodings.ids, np.concatenate([d.ids for d in alone]))
        assert decodings.scores.tolist() == [d.score for d in alone] and decodings.optimal.all()
    for lattice, its, d in zip(lattices, given, alone, strict=True):
        assert bridle.check(lattice, RULES, d, its).ok


@pytest.mark.parametrize("engine", ["ilp", "lazy_intersection", "beam", "viterbi"])
def test_the_other_engines_take_batches_too(engine: str) -> None:
    lattices, given = mixed(np.random.default_rng(2), 30 if engine == "ilp" else 200)
    rules = {"viterbi": RULES[2:4], "lazy_intersection": RULES[:4]}.get(engine, RULES)
    decoder = Decoder(LABELS, rules, Beam(width=5000) if engine == "beam" else engine)
    alone = one_by_one(decoder, lattices, given)
    for threads in (1, 2):
        assert all(map(same, decoder.decode_batch(lattices, given, threads=threads), alone))


@pytest.mark.slow
def test_random_problems_as_batches() -> None:
    """All rules of the contract: the values that are given differ from sequence to sequence in kind."""
    for rng in seeds(60, key=31):
        labels, rules, lattice, given = random_problem(rng, n_max=5)
        decoder = Decoder(labels, rules, on_infeasible="relax")
        try:
            alone = decoder.decode(lattice, given)
        except bridle.Infeasible:  # the lattice has no path
            batch = decoder.decode_batch([lattice] * 3, [given] * 3)
            assert batch.status.tolist() == ["infeasible"] * 3 and not batch.answered.any()
            continue
        assert all(same(d, alone) for d in decoder.decode_batch([lattice] * 130, [given] * 130, threads=2))


def test_packed_sequences_are_the_same_as_a_list() -> None:
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 9, 300)
    unary, pairwise = rng.normal(size=(int(lengths.sum()), M)), rng.normal(size=(M, M))
    start, end = rng.normal(size=M), rng.normal(size=M)
    for kind in (np.float32, np.float64):
        batch = Batch(unary.astype(kind), np.append(0, np.cumsum(lengths)), pairwise, start, end)
        decoder = Decoder(LABELS, [r.at_most(1, of="A"), r.followed_by("B", "C").soft(0.7)])
        listed = decoder.decode_batch([batch[k] for k in range(len(batch))], threads=1)
        for threads in (1, 2, 3):
            assert all(map(same, decoder.decode_batch(batch, threads=threads), listed))


def test_batches_without_anything_in_them() -> None:
    for rules in ([], RULES[:2], RULES):
        decoder = Decoder(LABELS, rules)
        for nothing in ([], Batch(np.zeros((0, M)), [0])):
            for threads in (1, 3):
                decodings = decoder.decode_batch(nothing, threads=threads)
                assert (
                    len(decodings) == 0 and list(decodings) == [] and decodings[:] == [] and decodings.ids.shape == (0,)
                )
        assert len(decoder.decode_batch([], [])) == 0
    empty = [Lattice(np.zeros((0, M)))] * 200
    decodings = Decoder(LABELS, [r.present("A").soft(2.0)]).decode_batch(empty, threads=2)
    assert [d.score for d in decodings] == [-2.0] * 200 and all(d.labels == [] and d.optimal for d in decodings)


def test_decodings_are_a_sequence() -> None:
    unary = np.eye(M)[np.arange(40) % M][:, None, :]  # sequence k has one token, labelled k % M
    decodings = Decoder(LABELS).decode_batch([Lattice(u) for u in unary])
    names = [LABELS.names[k % M] for k in range(40)]
    assert [d.labels[0] for d in decodings] == names
    assert [d.labels[0] for d in decodings[3:11:2]] == names[3:11:2]
    assert [d.labels[0] for d in decodings[::-1]] == names[::-1]
    assert decodings[-1].labels == names[-1:] and decodings[-40].labels == names[:1] and decodings[50:] == []
    assert len(list(reversed(decodings))) == 40
    for k in (40, -41):
        with pytest.raises(IndexError):
            decodings[k]
    assert decodings.offsets.tolist() == list(range(41)) and decodings.bounds.tolist() == decodings.scores.tolist()


def test_what_cannot_hold_is_relaxed_inside_a_batch() -> None:
    lattices, given = mixed(np.random.default_rng(4), 300)
    hopeless = [k for k, lattice in enumerate(lattices) if len(lattice) > 2][5::17]
    clash = [*RULES, r.fix("A", r.given("x")), r.fix("B", r.given("y"))]
    for k, its in enumerate(given):
        its |= {"x": [0] if k in hopeless else [], "y": [0] if k in hopeless else []}
    decoder = Decoder(LABELS, clash, on_infeasible="relax")
    alone = one_by_one(decoder, lattices, given)
    for threads in (1, 3):
        decodings = decoder.decode_batch(lattices, given, threads=threads)
        assert all(map(same, decodings, alone))
        relaxed = [k for k, d in enumerate(decodings) if d.relaxed]
        assert set(hopeless) <= set(relaxed) and len(relaxed) < 200
        assert np.array_equal(decodings.ids, np.concatenate([d.ids for d in alone]))
        assert decodings.scores.tolist() == [d.score for d in decodings]
    for k in hopeless:
        broken = [rule for rule, _ in decodings[k].violated if not isinstance(rule, r.Soft)]
        assert broken and bridle.check(lattices[k], clash, decodings[k], given[k]).ok
    with pytest.raises(bridle.Infeasible) as caught:
        decoder.with_rules(clash, on_infeasible="raise").decode_batch(lattices, given, threads=3)
    assert caught.value.sequence == relaxed[0] and f"sequence {relaxed[0]}: " in str(caught.value)


# ---- errors name their sequence ---------------------------------------------------------------------------------

WRONG = 271  # beyond the first chunks
Values = Callable[[bool], Any]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize(
    ("rule", "given", "kind"),
    [
        (r.fix("O", r.given("v")), lambda bad: {} if bad else {"v": 1}, bridle.GivenError),
        (r.fix("O", r.given("v")), lambda bad: {"v": 7 if bad else 1}, bridle.RuleError),
        (r.fix("O", r.given("v")), lambda bad: {"v": "one" if bad else [1]}, bridle.RuleError),
        (r.at_most(1, r.given("v")), lambda bad: {"v": "Z" if bad else "A"}, bridle.LabelError),
        (r.at_most(1, r.given("v")), lambda bad: {"v": 3 if bad else ["A"]}, bridle.GivenError),
        (r.same_label(r.given("v")), lambda bad: {"v": (0, 9) if bad else (0, 2)}, bridle.RuleError),
        (r.fix("A", r.tokens("x")), lambda bad: {"tokens": ["x"] * (2 if bad else 3)}, bridle.GivenError),
        (r.fix("A", r.tokens("x")), lambda bad: {"tokens": 5 if bad else ["x"] * 3}, bridle.GivenError),
        (r.fix("O", r.given("v")), lambda bad: 5 if bad else {"v": 1}, bridle.GivenError),
        (r.forbid("A") & r.fix("A", r.given("v")), lambda bad: {"v": 1 if bad else []}, bridle.Infeasible),
    ],
)
def test_errors_name_the_sequence(rule: r.Rule, given: Values, kind: type[Exception], threads: int) -> None:
    lattices = [Lattice(np.zeros((3, M)))] * 300
    with pytest.raises(kind) as caught:
        Decoder(LABELS, [rule]).decode_batch(lattices, [given(k == WRONG) for k in range(300)], threads=threads)
    assert f"sequence {WRONG}" in str(caught.value)
    assert threads > 1 or str(caught.value).count("sequence 2") == 1


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_errors_name_the_lattice(threads: int) -> None:
    lattices: list[Any] = [Lattice(np.zeros((3, M)))] * 300
    rules = [r.fix("O", 2)]
    narrow, prefix = Lattice(np.zeros((3, 2))), f"sequence {WRONG}: "
    for wrong, text in ((narrow, prefix + "the scores"), (np.zeros((3, M)), prefix + "not a Lattice")):
        lattices[WRONG] = wrong
        with pytest.raises(bridle.LatticeError, match=text):
            Decoder(LABELS, rules).decode_batch(lattices, threads=threads)
    lattices[WRONG] = Lattice(np.zeros((2, M)))
    with pytest.raises(bridle.RuleError, match=f"sequence {WRONG}: a rule names position 2"):
        Decoder(LABELS, rules).decode_batch(lattices, threads=threads)
    lattices[WRONG] = Lattice(np.full((3, M), -np.inf))
    with pytest.raises(bridle.Infeasible, match=f"sequence {WRONG}: the lattice has no path"):
        Decoder(LABELS, rules).decode_batch(lattices, threads=threads)


@pytest.mark.parametrize("threads", [1, 2])
def test_limits_and_sizes_name_the_sequence(threads: int) -> None:
    easy, hard = Lattice([[0.0, 0, 1, 0]]), Lattice(np.tile([0.0, 2, 1, 0], (9, 1)))
    lattices = [hard if k == WRONG else easy for k in range(300)]
    with pytest.raises(bridle.LimitReached, match=f"sequence {WRONG}: ") as caught:  # the one hypothesis has no B
        Decoder(LABELS, [r.at_least(1, of="B")], Beam(width=1)).decode_batch(lattices, threads=threads)
    assert caught.value.bound == 18.0
    soft = [r.exactly(2, of=x, count="tokens").soft(1.0, per="violation") for x in "ABC"]
    lattices = [hard if k == WRONG else Lattice(np.zeros((0, M))) for k in range(300)]
    with pytest.raises(bridle.EngineError, match=f"sequence {WRONG}: engine"):
        Decoder(LABELS, soft, "product", max_states=2).decode_batch(lattices, threads=threads)


# ---- threads and interrupts -------------------------------------------------------------------------------------


def test_one_decoder_in_two_python_threads() -> None:
    lattices, given = mixed(np.random.default_rng(6), 200)
    decoder = Decoder(LABELS, RULES)
    alone = decoder.decode_batch(lattices, given, threads=1)
    results: dict[int, list[Decoding]] = {}

    def work(number: int) -> None:
        for _ in range(5):
            results[number] = list(decoder.decode_batch(lattices[::-1], given[::-1], threads=1 + number % 2))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for outcome in results.values():
        assert all(map(same, outcome, alone[::-1]))


def test_threads_share_what_a_decoder_has_met() -> None:
    """Texts and label names that all threads meet for the first time, at once: with or without the GIL."""
    rng = np.random.default_rng(7)
    rules = [
        r.fix("A", r.tokens(r"[0-4]\d*")).soft(2),
        r.if_present("C", then=r.given("needs")),
        r.fix("O", r.given("at")),
    ]
    texts = [[str(x) for x in rng.integers(0, 900, 8)] for _ in range(60)]
    given = [{"tokens": t, "needs": [["A"], ["B"], ["A", "B"]][k % 3], "at": [k % 8]} for k, t in enumerate(texts)]
    lattices = [Lattice(rng.normal(size=(8, M))) for _ in texts]
    alone = one_by_one(Decoder(LABELS, rules), lattices, given)
    for _ in range(5):
        decoder, barrier, result = Decoder(LABELS, rules), threading.Barrier(4), {}

        def work(number: int, decoder: Decoder = decoder, barrier: Any = barrier, result: Any = result) -> None:
            barrier.wait()
            item = number % 2 == 0
            result[number] = one_by_one(decoder, lattices, given) if item else decoder.decode_batch(lattices, given)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(result) == 4 and all(all(map(same, some, alone)) for some in result.values())


ENDLESS = """
import sys
import numpy as np
import bridle
from bridle import rules as r

rng = np.random.default_rng(0)
labels = bridle.Labels([f"L{k}" for k in range(13)])
decoder = bridle.Decoder(labels, [r.at_most(1, of=f"L{k}") for k in range(13)], sys.argv[2])
lattices = [bridle.Lattice(rng.normal(size=(60, 13)), rng.normal(size=(13, 13))) for _ in range(200)] * 50
print("ready", flush=True)
try:
    decoder.decode_batch(lattices, threads=int(sys.argv[1])) if sys.argv[1] != "0" else decoder.decode(lattices[0])
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("threads", "engine"), [(1, "auto"), (2, "auto"), (0, "ilp"), (1, "ilp"), (2, "ilp")])
def test_ctrl_c_stops_a_long_batch_within_a_second(threads: int, engine: str) -> None:
    """A batch in so many threads; 0: one sequence."""
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(x for x in sys.path if x)}
    call = [sys.executable, "-c", ENDLESS, str(threads), engine]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True, env=path, cwd=Path(__file__).parents[1]) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.5)
            assert process.poll() is None, "the batch was not long enough"
            begun = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "stopped\n"
            assert time.monotonic() - begun < patience(1.0)
            assert process.wait(5) == 0
        finally:
            process.kill()
