"""Rules compiled once: what comes with a sequence is read the same way by the kernels and by the plain definitions."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from bridle import Decoder, GivenError, Labels, Lattice, RuleError, _native
from bridle import rules as r
from bridle.decoding.problem import Limits
from bridle.rules.compiled import CompiledRules
from stopwatch import Stopwatch

LABELS = Labels(["O", "A", "B"])
N = 5
FLAT = Lattice(np.arange(N * 3, dtype=float).reshape(N, 3) % 4)


def agree(rules: list[r.Rule], given: Any) -> None:
    """The kernels obey what `violations` counts, in one sequence and in a batch."""
    decoder = Decoder(LABELS, rules)
    plain = {} if given is None else dict(given)
    decoding = decoder.decode(FLAT, given)
    assert all(rule.violations(decoding.ids, LABELS, plain) == 0 for rule in rules)
    many = decoder.decode_batch([FLAT] * 3, None if given is None else [given] * 3)
    assert all(d.labels == decoding.labels and d.score == decoding.score for d in many)


@pytest.mark.parametrize(
    "value",
    [0, -1, np.int64(2), [0, 2], (1, -1), [], np.array([3, 4]), {1, 2}, range(2), [np.int32(1), 2], iter([1])],
    ids=lambda value: repr(value).partition(" object at")[0],  # without an address, so that ids are always the same
)
def test_positions_of_every_kind(value: Any) -> None:
    if isinstance(value, type(iter([]))):
        value = list(value)
    agree([r.fix("B", r.given("at")), r.forbid("A", at=r.given("at"))], {"at": value})
    agree([(r.label_at(r.given("at"), "B") | r.present("A")), r.at_most(1, of="A")], {"at": value})


@pytest.mark.parametrize(
    "value",
    [(0, 2), [1, 4], [(0, 2), (3, 5)], [[0, 0]], [], np.array([0, 3]), np.array([[0, 2], [2, 4]]), [(4, 5)]],
    ids=repr,
)
def test_spans_of_every_kind(value: Any) -> None:
    agree([r.same_label(r.given("spans"))], {"spans": value})


@pytest.mark.parametrize("value", ["A", ["A", "B"], ("B",), {"A"}, np.array(["A", "O"]), frozenset("B")], ids=repr)
def test_names_of_every_kind(value: Any) -> None:
    given = {"frame": value, "other": "O"}
    agree([r.allow([r.given("frame"), "O"])], given)
    agree([r.at_most(1, of=r.given("frame"), count="tokens"), r.starts_with(r.given("other"))], given)
    agree([r.before(r.given("frame"), r.given("other")), r.ends_with(["O", r.given("frame")])], given)


@pytest.mark.parametrize(
    "value", [["a", "b1", "c", "b22", "a"], ("a",) * N, np.array(list("abcde")), [1, "b1", 2.5, None, "a"]], ids=repr
)
def test_texts_of_every_kind(value: Any) -> None:
    agree([r.fix("B", r.tokens(r"b\d+")), r.forbid("A", at=r.tokens("a|1|None"))], {"tokens": value})
    agree([r.label_at(r.tokens("[ac]"), "O") >> r.present("B")], {"tokens": value})


@pytest.mark.parametrize("make", [dict, OrderedDict, MappingProxyType], ids=lambda make: make.__name__)
def test_mappings_of_every_kind(make: Callable[[Any], Any]) -> None:
    agree([r.fix("B", r.given("at")), r.forbid("O", at=r.tokens("x"))], make({"at": 1, "tokens": list("xyzxy")}))


def test_many_places_in_one_rule() -> None:
    """More than three places: the marks that occur are numbered again in every batch."""
    rule = r.label_at(0, "A")
    for k, key in enumerate("abcde"):
        rule = rule | r.label_at(r.given(key), "AB"[k % 2])
    for at in ([0, 1, 2, 3, 4], [4, 4, 4, 4, 4], [[], [], [], [], 2]):
        agree([rule, r.forbid("A", at=0)], dict(zip("abcde", at, strict=True)))
    each = rule & r.at_most(1, of=r.given("frame"))
    for frame in ("A", "B"):
        agree([each | r.starts_with("O")], {**dict.fromkeys("abcde", 1), "frame": frame})


WRONG: list[tuple[r.Rule, Any, type[Exception], str]] = [
    (r.fix("B", r.given("at")), {}, GivenError, "given['at'] is missing"),
    (r.fix("B", r.given("at")), {"at": N}, RuleError, "names position 5"),
    (r.fix("B", r.given("at")), {"at": True}, RuleError, "should be positions"),
    (r.fix("B", r.given("at")), {"at": 2**70}, RuleError, "names position"),
    (r.fix("B", r.given("at")), {"at": [0, "x"]}, RuleError, "should be positions"),
    (r.same_label(r.given("at")), {"at": (3, 9)}, RuleError, "ends at 9"),
    (r.same_label(r.given("at")), {"at": [(1, 2, 3)]}, RuleError, "should be spans"),
    (r.allow(r.given("at")), {"at": "Z"}, Exception, "Z"),
    (r.allow(r.given("at")), {"at": 3}, GivenError, "should hold labels"),
    (r.fix("B", r.tokens("x")), {"tokens": ["x"]}, GivenError, "differ in length"),
    (r.fix("B", r.tokens("x")), {"tokens": "xxxxx"}, GivenError, "should be the tokens"),
]


@pytest.mark.parametrize(("rule", "given", "kind", "text"), WRONG, ids=lambda part: str(part)[:40])
def test_the_first_bad_sequence_is_named(rule: r.Rule, given: Any, kind: type[Exception], text: str) -> None:
    fine = {"at": "A" if "allow" in str(rule) else (0, 1) if "share" in str(rule) else 1, "tokens": list("vwxyz")}
    fine = {**fine, "at": (0, 1)} if rule == r.same_label(r.given("at")) else fine
    other = r.forbid("B", at=r.given("late"))  # a rule that comes first, and is wrong later
    good = {**fine, "late": 4}
    for threads in (1, 2):
        with pytest.raises(kind) as caught:
            given_ = [good, good, {**given, "late": 4}, {**fine, "late": 99}]
            Decoder(LABELS, [other, rule]).decode_batch([FLAT] * 4, given_, threads)
        assert text in str(caught.value) and getattr(caught.value, "sequence", None) == 2
        assert getattr(caught.value, "rule", None) == rule
    with pytest.raises(kind) as caught:
        Decoder(LABELS, [rule]).decode(FLAT, given)
    assert getattr(caught.value, "sequence", None) is None


def test_caches_are_bounded() -> None:
    """Label sets and texts without end: what is remembered does not grow without end, and nothing goes wrong."""
    labels = Labels([f"L{k}" for k in range(12)])
    lattice = Lattice(np.random.default_rng(0).normal(size=(3, 12)))
    decoder = Decoder(labels, [r.at_most(1, of=r.given("frame"), count="tokens"), r.forbid("L0", at=r.tokens("x.*"))])
    rng = np.random.default_rng(1)
    for _ in range(30):
        given = []
        for _ in range(200):
            frame = ["L1", *(f"L{k}" for k in np.flatnonzero(rng.random(10) < 0.5))]
            given.append({"frame": frame, "tokens": [f"{'xy'[int(rng.integers(2))]}{rng.integers(10**9)}"] * 3})
        decodings = decoder.decode_batch([lattice] * 200, given, threads=1)
        for d, its in zip(decodings, given, strict=True):
            assert all(rule.violations(d.ids, labels, its) == 0 for rule in decoder.rules)


@pytest.mark.slow
def test_texts_that_are_remembered_take_little_memory() -> None:
    """Neither a batch of very many texts nor very long ones stay in memory."""
    decoder = Decoder(LABELS, [r.forbid("A", at=r.tokens("x.*"))])
    tracemalloc.start()
    try:
        for n, size in ((150_000, 200), (40, 1_000_000)):
            before = tracemalloc.get_traced_memory()[0]
            decoder.decode(Lattice(np.zeros((n, 3))), {"tokens": [f"{k:0{size}}" for k in range(n)]})
            assert tracemalloc.get_traced_memory()[0] - before < 25e6, (
                n
            )  # 65,536 texts of 250 bytes, and what they match
    finally:
        tracemalloc.stop()


def test_large_automata_of_given_labels_are_dropped() -> None:
    """Very many sets of labels may be remembered, but no more than so many bytes."""
    labels = Labels([f"L{k}" for k in range(40)])
    labels.automata.most_bytes = 100_000
    decoder = Decoder(labels, [r.length(r.given("frame"), at_most=1000)])
    for k in range(40):
        decoder.decode(Lattice(np.zeros((2, 40))), {"frame": f"L{k}"})
        assert 0 < labels.automata.bytes <= 100_000
    assert 2 < len(labels.automata) < 10


def test_automata_are_shared_between_decoders_with_the_same_labels() -> None:
    labels = Labels(["A", "B"])
    rules = [r.at_most(1, of="A"), r.before("A", "B").soft(1.0), r.at_most(2, of=r.given("x"))]
    CompiledRules(labels, rules, Limits().native())
    known = labels.automata.bytes
    CompiledRules(labels, [rules[0], r.before("A", "B").soft(7.0)], Limits().native())
    assert labels.automata.bytes == known and len(labels.automata) == 2  # other prices, the same automata


def test_nothing_is_kept_when_a_decoder_goes() -> None:
    decoder = Decoder(LABELS, [r.fix("B", r.given("at")), r.at_most(1, of=r.given("x")), r.forbid("A", r.tokens("a"))])
    decoder.decode(FLAT, {"at": 1, "x": ["A"], "tokens": list("abcde")})
    gone = weakref.ref(decoder.compiled)
    del decoder
    gc.collect()
    assert gone() is None


def test_texts_may_come_end_to_end() -> None:
    compiled = CompiledRules(LABELS, [r.forbid("A", r.tokens("a"))], Limits().native())
    offsets = np.array([0, 2, 3])
    native = compiled.native("masks")
    bound = compiled.bind(native, offsets, None, texts=["a", "b", "a"])
    assert (np.asarray(bound.allowed)[:, 0] >> 1 & 1).tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="the text of each token"):
        compiled.bind(native, offsets, None, texts=["a"])


def test_many_places_and_many_marks() -> None:
    """A batch may have more combinations of places than an automaton has tables for; no sequence has."""
    keys = [f"p{k}" for k in range(10)]
    rule = r.fix("A", r.given(keys[0]))
    for key in keys[1:]:
        rule = rule | r.fix("A", r.given(key))
    rng = np.random.default_rng(2)
    given = [{key: np.flatnonzero(rng.random(N) < 0.5).tolist() for key in keys} for _ in range(120)]
    decoder = Decoder(LABELS, [rule])
    many = decoder.decode_batch([FLAT] * len(given), given, threads=1)
    for d, its in zip(many, given, strict=True):
        decoding = decoder.decode(FLAT, its)
        assert rule.violations(d.ids, LABELS, its) == 0 and decoding.score == d.score


def test_what_is_bound_belongs_to_its_rules() -> None:
    first, second = (CompiledRules(LABELS, [r.at_most(1, of=r.given("x"))], Limits().native()) for _ in range(2))
    offsets = np.array([0, N])
    bound = first.native("masks").bind(offsets, [{"x": "A"}], None, None)
    with pytest.raises(ValueError, match="bound by others"):
        _native.Problem(second.native("masks"), bound, FLAT.unary, offsets, None, [(None, None, None)], None)


def test_automata_are_made_in_many_threads() -> None:
    labels = Labels(LABELS.names)
    labels.automata.most_entries = 2
    decoder = Decoder(labels, [r.at_most(1, of=r.given("x")), r.before(r.given("y"), r.given("x")).soft(1.0)])
    names = [["A"], ["B"], ["A", "B"], ["O"], ["O", "A"], ["O", "B"]]

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(60):
            x, y = rng.integers(len(names), size=2)
            decoder.decode(FLAT, {"x": names[x], "y": names[y]})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        (["forbid A", "at most 2 tokens of A  [penalty 1]"], 0),  # masks see to it
        (["exactly 1 token of A", "at most 3 tokens of A  [penalty 1]", "present A  [penalty 1]"], 2),
        (["at most 1 token of A", "at most 2 tokens of A", "at most 1 token of A"], 1),
        (["at most 2 tokens of A", "at most 1 token of A  [penalty 1]"], 2),
        (["starts with A  [penalty 1]", "A before B  [penalty 1]"], 2),
        (["starts with B", "present B  [penalty 1]"], 1),  # a sequence without tokens violates it
        (["fix A at given x", "present A  [penalty 1]"], 1),  # what comes with a sequence is not known yet
    ],
    ids=str,
)
def test_rules_that_are_never_violated_are_left_out(rules: list[str], kept: int) -> None:
    decoder = Decoder(LABELS, rules, engine="search")
    assert decoder.compiled.native("masks").n_automata == kept
    for seed in range(20):
        lattice = Lattice(np.random.default_rng(seed).normal(size=(4, 3)))
        given = {"x": 1}
        assert decoder.decode(lattice, given).score == pytest.approx(
            Decoder(LABELS, rules, engine="product").decode(lattice, given).score
        )


def test_many_rules_are_compiled_in_time() -> None:
    names = [f"L{k}" for k in range(40)]
    rules = [r.before(a, b) for a in names for b in names if a < b]
    watch = Stopwatch()
    decoder = Decoder(names, rules)
    assert watch.seconds < 5 and decoder.compiled.native("masks").n_automata == len(rules)


def test_the_automata_of_all_rules_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [r.at_most(k, of="A", count="tokens") for k in range(1, 9)]
    assert Decoder(LABELS, rules).decode(FLAT).optimal
    monkeypatch.setattr("bridle.rules.compiled._MOST_STATES", 20)
    with pytest.raises(RuleError, match=r"the automata of all rules together are too large .*; got 2"):
        Decoder(LABELS, rules)
