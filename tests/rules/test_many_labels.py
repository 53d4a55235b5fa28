"""Thousands of labels: classes, what rules over many names cost, decoding at the limits, typed errors beyond them."""

from __future__ import annotations

import itertools
import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bridle
from bridle import Batch, Decoder, Labels, Lattice, _native
from bridle import rules as r
from bridle.automata import CountingAutomaton, compile_regex, from_regex
from bridle.errors import EngineError, LabelError, LatticeError, ModelError, ModelFileError, RuleError
from bridle.labels import MOST_LABELS, MOST_SQUARE
from bridle.models import CRF
from bridle.rules.counts import by_segments, by_tokens
from bridle.rules.linear_program import Program
from stopwatch import Stopwatch
from strategies import random_labels, random_rule, seeds
from tests.models.test_files import described, entry, forged

NAMES = [f"L{k}" for k in range(1_000)]
PLAIN = Labels(NAMES)
IO = Labels(["O", *NAMES], "IO")
BIO = Labels(["O", *(f"{tag}-{name}" for name in NAMES[:500] for tag in "BI")], "BIO")


def walks_of(rule: r.Rule, labels: Labels) -> Any:
    return rule.automata(tuple(names.resolve(labels, {}) for names in rule.names()), labels)


# ---- classes ----------------------------------------------------------------------------------------------------


def test_classes_keep_all_that_matters_of_segments() -> None:
    """For every two labels: do their classes say the same as the labels themselves?"""
    for rng in seeds(200, key=900):
        labels = random_labels(rng)
        m = len(labels)
        ids = frozenset(np.flatnonzero(rng.random(m) < 0.4).tolist())
        classes, segments = by_segments(ids, labels)
        assert set(classes.tolist()) == set(range(len(segments.inside)))
        counted = (segments.begins & segments.inside)[np.append(classes, -1)][:, classes]
        assert (counted == (labels.begins & np.isin(np.arange(m), list(ids)))).all()
        tokens, every = by_tokens(ids, labels)
        assert (every.inside[tokens] == np.isin(np.arange(m), list(ids))).all() and every.begins[:, every.inside].all()


def test_labels_that_a_rule_tells_apart_have_other_classes() -> None:
    """An automaton may say that labels are alike only if it reads them alike."""
    for rng in seeds(150, key=901):
        labels = random_labels(rng)
        rule, _ = random_rule(rng, labels, 3, depth=1)
        if any(not names.fixed for names in rule.names()):
            continue
        marks = range(1 << len(rule.places()))
        for automaton in walks_of(rule, labels):
            classes = range(len(labels)) if automaton.classes is None else automaton.classes
            for i, j in itertools.combinations(range(len(labels)), 2):
                if classes[i] == classes[j]:
                    step, start = automaton.step, automaton.start
                    assert all(step(start, i, k) == step(start, j, k) for k in marks), rule


def test_a_rule_about_a_label_of_a_thousand_has_few_classes() -> None:
    some = ["L1", "L2"]
    cases: list[tuple[r.Rule, int]] = [
        (r.at_most(2, of=some), 3),
        (r.at_most(2, of=some, count="tokens"), 2),
        (r.at_least(1, of="L1"), 2),
        (r.present("L1"), 2),
        (r.if_present("L1", then="L2"), 3),
        (r.before("L1", "L2"), 3),
        (r.followed_by("L1", "L2"), 3),
        (r.immediately_followed_by("L1", "L2"), 3),
        (r.length("L1", at_most=3), 2),
        (r.forbid_transition("L1", "L2"), 3),
        (r.matches("L1* (L2|L3)+ .*"), 3),
        (r.starts_with("L1"), 2),
        (r.present("L1") >> r.present("L2"), 3),
        (r.forbid(NAMES[:500]), 2),
    ]
    for rule, classes in cases:
        for automaton in walks_of(rule, PLAIN):
            assert CountingAutomaton.build(automaton, len(PLAIN)).step.shape[2] <= classes, rule


def test_expressions_over_classes() -> None:
    names = "abcde"
    for text in ("a* (b|c)+", "[^a b]{2,3} .?", ". . .", "(a b)* [d e]*", "[]* a"):
        dfa, class_of = compile_regex(text, lambda name: frozenset([names.index(name)]), 5)
        whole = from_regex(text, lambda name: frozenset([names.index(name)]), 5)
        assert dfa.n_labels <= 4 and class_of.shape == (5,)
        for y in itertools.chain.from_iterable(itertools.product(range(5), repeat=n) for n in range(4)):
            assert dfa.accepts(class_of[list(y)]) == whole.accepts(y)


# ---- rules over many names --------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels, of", [(PLAIN, NAMES), (IO, NAMES), (BIO, NAMES[:500])], ids=["plain", "IO", "BIO"])
def test_no_duplicates_of_a_thousand_names(labels: Labels, of: list[str]) -> None:
    rule = r.no_duplicates(of=of)
    tracemalloc.start()
    watch = Stopwatch()
    decoder = Decoder(labels, [rule])
    assert watch.seconds < 2.0  # a tenth of this on any automaton, without tracing a hundredth
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()
    rng = np.random.default_rng(3)
    unary = rng.normal(size=(12, len(labels)))
    easy, crowded = Lattice(unary), Lattice(unary + 4.0 * (np.arange(len(labels)) < 8))
    paired = Lattice(crowded.unary, rng.normal(size=(len(labels), len(labels))))
    for lattice in (easy, crowded, paired):
        d = decoder.decode(lattice)
        assert d.optimal and rule.holds(d.ids, labels) and d.score == pytest.approx(lattice.score(d.ids))
    # The same answer as over the labels that can matter alone: those that are best anywhere, and those that all want.
    few = sorted({*crowded.unary.argsort(axis=1)[:, -14:].ravel().tolist(), *range(8)})
    some = Labels([labels.names[y] for y in few], labels.scheme)
    kept = [name for name in of if name in some.types]
    small = Decoder(some, [r.no_duplicates(of=kept)], engine="search").decode(Lattice(crowded.unary[:, few]))
    assert decoder.decode(crowded).score == pytest.approx(small.score)
    soft = Decoder(labels, [rule.soft(0.5, per="violation")]).decode(crowded)
    assert soft.optimal and soft.penalty == 0.5 * rule.violations(soft.ids, labels)
    assert soft.score >= small.score - 1e-9


def test_counts_over_all_names_together() -> None:
    """The automaton remembers the label before: 1,000 kinds of states, made without a call per state."""
    rule = r.at_most(3, of=NAMES)
    watch = Stopwatch()
    (automaton,) = walks_of(rule, IO)
    automaton = CountingAutomaton.build(automaton, len(IO))
    assert watch.seconds < 2.0 and automaton.n_states <= 4 * 1_001
    rng = np.random.default_rng(5)
    for _ in range(20):
        y = rng.integers(0, 3, size=12).tolist()
        assert automaton.count_violations(y) == rule.violations(y, IO)


# ---- tables of many labels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [799, 800, 803, 900])
def test_large_tables_against_numpy(m: int) -> None:
    """Around the size from which tables are read column by column; a third of the transitions impossible, or none."""
    rng = np.random.default_rng(m)
    unary, pairwise = rng.normal(size=(6, m)), rng.normal(size=(m, m))
    labels = Labels([f"L{k}" for k in range(m)])
    holes = np.where(rng.random((m, m)) < 0.3, -np.inf, pairwise)
    decoder = Decoder(labels)
    for scores in (pairwise, holes, pairwise * 0.01, pairwise):
        best = unary[0]
        for row in unary[1:]:
            best = (best[:, None] + scores).max(axis=0) + row
        d = decoder.decode(Lattice(unary, scores))
        assert d.score == pytest.approx(best.max(), rel=1e-12) == pytest.approx(Lattice(unary, scores).score(d.ids))


def test_a_decoder_sees_that_the_scores_have_changed() -> None:
    """Tables are kept between calls; the caller may write into the array they were made of. A lattice keeps its own."""
    pairwise = np.zeros((2, 2))
    unary = [[1.0, 0.0], [0.0, 2.0]]
    first = Lattice(unary, pairwise)
    for rules in ([], [r.forbid_transition("b", "a")]):
        decoder = Decoder(Labels(["a", "b"]), rules)
        for score, wanted in ((0.0, ["a", "b"]), (-5.0, ["b", "b"]), (0.0, ["a", "b"]), (-0.0, ["a", "b"])):
            pairwise[0, 1] = score
            assert decoder.decode(Lattice(unary, pairwise)).labels == wanted
            assert decoder.decode(first).labels == decoder.decode(Lattice(unary)).labels == ["a", "b"]
        pairwise[:] = 0.0


# ---- the limits -------------------------------------------------------------------------------------------------


def test_as_many_labels_as_there_may_be() -> None:
    """Without transition scores and rules about neighbours, time and memory grow with the labels, not their square."""
    labels = Labels([f"L{k}" for k in range(MOST_LABELS)])
    unary = np.random.default_rng(0).random((20, MOST_LABELS), dtype=np.float32)
    unary[:, 7] = 2.0
    watch = Stopwatch()
    d = Decoder(labels).decode(Lattice(unary))
    assert d.optimal and (d.ids == 7).all() and watch.seconds < 1.0
    rule = r.at_most(5, of="L7", count="tokens")
    d = Decoder(labels, [rule, r.forbid("L8"), r.matches("L7* .*")]).decode(Lattice(unary))
    assert d.optimal and (d.ids == 7).sum() == 5 and rule.holds(d.ids, labels)
    with pytest.raises(LabelError, match="too many labels"):
        Labels([f"L{k}" for k in range(MOST_LABELS + 1)])


MANY = Labels([f"L{k}" for k in range(20_000)])
SCORES = np.zeros((3, 20_000), dtype=np.float32)
SQUARE = np.broadcast_to(np.float32(0), (20_000, 20_000))  # takes no room
BEYOND: list[tuple[Any, type[bridle.BridleError], str]] = [
    (lambda: Lattice(SCORES, SQUARE), LatticeError, "got 20,000 labels; wanted at most 8,192"),
    (lambda: Lattice(SCORES, np.broadcast_to(SQUARE, (2, 20_000, 20_000))), LatticeError, "at most 8,192"),
    (lambda: Batch(SCORES, [0, 3], SQUARE), LatticeError, "at most 8,192"),
    (lambda: Batch.from_padded(SCORES[None], pairwise=SQUARE), LatticeError, "at most 8,192"),
    (lambda: Decoder(MANY, [r.forbid_transition("L1", "L2")]), EngineError, "got 20,000 labels; wanted at most 8,192"),
    (lambda: Decoder(MANY, [r.immediately_followed_by("L1", "L2")]), EngineError, "in the rule: L1 next to L2"),
    (lambda: Decoder(MANY, [r.well_formed()]), EngineError, "at most 8,192"),
    (lambda: Decoder(MANY, [r.well_formed().soft(1.0)]), EngineError, "at most 8,192"),
    (lambda: Decoder(MANY, [r.same_label((0, 2))]).decode(Lattice(SCORES)), EngineError, "at most 8,192"),
    (lambda: Decoder(MANY, [r.same_label((0, 2)).soft(1.0)]).decode(Lattice(SCORES)), RuleError, "too large"),
    (lambda: Decoder(MANY, [r.no_duplicates(of=list(MANY))]), RuleError, "too many names"),
    (lambda: Decoder(MANY, [r.at_most(2, of=list(MANY))]), RuleError, "segments of too many labels"),
    (lambda: Decoder(MANY, engine="ilp").decode(Lattice(SCORES)), EngineError, "linear program"),
    (lambda: Program(10, 5_000), EngineError, "max_memory"),
    (lambda: MANY.begins, EngineError, "at most 8,192"),
]


@pytest.mark.parametrize("case", range(len(BEYOND)))
def test_what_is_too_large_is_refused_before_it_is_made(case: int) -> None:
    make, kind, text = BEYOND[case]
    tracemalloc.start()
    try:
        with pytest.raises(kind, match=text) as caught:
            make()
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
    error = caught.value
    assert error.what and error.got is not None and error.wanted is not None and error.cause


def test_rules_that_need_no_table_take_many_labels() -> None:
    unary = np.random.default_rng(1).normal(size=(6, len(MANY))).astype(np.float32)
    unary[:, :2] += 20.0  # all tokens want L0 or L1
    rules = [r.no_duplicates(of=["L0", "L1"]), r.forbid_transition("L0", "L1").soft(0.5), r.length("L1", at_most=3)]
    d = Decoder(MANY, rules).decode(Lattice(unary))
    assert d.optimal and not [rule for rule, _ in d.violated if rule is not rules[1]]
    few = Decoder(Labels(MANY.names[:40]), rules).decode(Lattice(unary[:, :40]))
    assert d.score >= few.score - 1e-6


# ---- models -----------------------------------------------------------------------------------------------------


def test_the_limits_are_one() -> None:
    assert MOST_SQUARE == _native.MOST_SQUARE == 8_192 and MOST_LABELS == 65_528


def test_a_model_of_label_bigrams_has_fewer_labels() -> None:
    n = MOST_SQUARE + 1
    with pytest.raises(ModelError, match="label bigrams") as caught:
        CRF(features=["bias[0]", "label[-1]"]).fit([["x"] * n], [[f"L{k}" for k in range(n)]])
    assert caught.value.cause is not None and "LocalTagger" in caught.value.cause


def test_a_model_file_that_claims_too_many_labels(tmp_path: Path) -> None:
    """20,000 x 20,000 scores, zeros that take no room on the disk: refused before they are read."""
    size = 20_000**2 * 8
    head = {"model": "CRF", "settings": {}, "labels": list(MANY.names), "scheme": None}
    array = entry(name="pairwise", dtype="float64", shape=[20_000, 20_000], length=size)
    built = forged(described(array, kind="model", head=head))
    (tmp_path / "m").write_bytes(built)
    os.truncate(tmp_path / "m", len(built) + size)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="too many label bigrams"):
            bridle.load(tmp_path / "m")
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
