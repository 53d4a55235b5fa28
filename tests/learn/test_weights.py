"""Penalties: from counts, by log odds, learned by decoding; and the native count of violations they stand on."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator

import bridle
from bridle import rules as r
from bridle.errors import BridleError, GivenError, LabelError, ModelError, RuleError
from bridle.lattice import subset
from bridle.learn import Learned
from bridle.learn.evidence import from_counts, log_odds, penalty_of, priced, violations
from bridle.learn.joint import JointWeights
from bridle.models import CRF, Step
from bridle.rules.base import Rule, Soft

LABELS = bridle.Labels(["A", "B", "C"])
KNOWN = [
    r.before("A", "B").soft(4),
    r.at_most(1, of="B").soft(2),
    r.ends_with("C").soft(1),
    r.if_present("C", then="A").soft(0),
]
Sample = tuple[list[bridle.Lattice], list[list[str]]]


def evidence(exceptions: int, support: int) -> Learned:
    return Learned(r.before("A", "B"), "presence", held=200 - exceptions, of=200, support=support)


# ---- counts ---------------------------------------------------------------------------------------------------------


def test_penalties_by_hand() -> None:
    [item] = from_counts([evidence(3, 99)])
    assert penalty_of(item.rule) == pytest.approx(-math.log(3.5 / 100))
    [item] = log_odds([evidence(3, 99)])
    assert penalty_of(item.rule) == pytest.approx(math.log(96.5 / 3.5))
    assert (item.held, item.of, item.support, item.kind) == (197, 200, 99, "presence")


@given(st.integers(0, 100), st.integers(0, 100), st.floats(0.01, 5))
def test_penalties_are_prices_and_fall_with_exceptions(exceptions: int, support: int, smoothing: float) -> None:
    for way in (from_counts, log_odds):
        now, worse = (
            penalty_of(way([evidence(e, support)], smoothing=smoothing)[0].rule) for e in (exceptions, exceptions + 1)
        )
        assert 0 <= worse <= now < math.inf


def test_a_rule_broken_half_the_time_costs_nothing_by_log_odds() -> None:
    useless, fine = evidence(50, 100), evidence(1, 100)
    assert penalty_of(log_odds([useless])[0].rule) == 0
    assert log_odds([useless, fine], useless="drop") == log_odds([fine])
    assert penalty_of(from_counts([useless])[0].rule) == pytest.approx(math.log(2))
    assert penalty_of(log_odds([evidence(90, 90)])[0].rule) == 0


def test_a_rule_stays_paid_as_it_was() -> None:
    each = Learned(r.immediately_followed_by("A", "B").soft(1, per="violation"), "adjacency", held=9, of=10, support=10)
    built = from_counts([each])[0].rule
    assert isinstance(built, Soft) and built.per == "violation" and built.rule == r.immediately_followed_by("A", "B")
    assert priced(r.present("A"), 2) == r.present("A").soft(2)
    assert penalty_of(r.present("A")) == math.inf


@pytest.mark.parametrize("smoothing", [0, -1, math.nan, "x"])
def test_smoothing_is_a_number_above_zero(smoothing: Any) -> None:
    for way in (from_counts, log_odds):
        with pytest.raises(ModelError, match="smoothing"):
            way([evidence(1, 10)], smoothing=smoothing)


# ---- counting natively ----------------------------------------------------------------------------------------------

COUNTED: list[Rule] = [
    r.at_most(1, of="A"),
    r.before("A", "B").soft(3),
    r.immediately_followed_by("A", "B").soft(1, per="violation"),
    r.forbid("C", at=0),
    r.forbid_transition("B", "C"),
    r.fix("A", r.tokens("x")),
    r.present("A") >> r.present("B"),
    r.matches("A* B* C*"),
    r.allow(["B", "C"], r.given("spot")),
]


@settings(max_examples=40)
@given(st.lists(st.lists(st.tuples(st.sampled_from("ABC"), st.sampled_from("xy")), min_size=1, max_size=6), max_size=5))
def test_violations_are_those_of_the_rules(pairs: list[list[tuple[str, str]]]) -> None:
    labellings = [[y for y, _ in item] for item in pairs]
    known = [{"tokens": [x for _, x in item], "spot": len(item) - 1} for item in pairs]
    slow = [[rule.violations(y, LABELS, g) for rule in COUNTED] for y, g in zip(labellings, known, strict=True)]
    assert violations(COUNTED, labellings, LABELS, known).tolist() == slow


def test_counting_says_what_is_wrong() -> None:
    with pytest.raises(LabelError, match="'D'"):
        violations(COUNTED[:1], [["A", "D"]], LABELS)
    with pytest.raises(LabelError, match="labelling 1"):
        violations(COUNTED[:1], [["A"], "AB"], LABELS)
    with pytest.raises(BridleError, match="tokens"):
        violations([COUNTED[5]], [["A"]], LABELS)
    assert violations([], [["A"]], LABELS).shape == (1, 0)
    assert violations(COUNTED[:2], [], LABELS).shape == (0, 2)


# ---- by decoding ----------------------------------------------------------------------------------------------------


def sample(rng: Generator, count: int, n: int = 4) -> Sample:
    """Gold labels drawn from p(y) ~ exp(score - penalties of KNOWN)."""
    paths = np.array(list(itertools.product(range(3), repeat=n)))
    names = [[LABELS.names[y] for y in path] for path in paths]
    cost = np.minimum(violations(KNOWN, names, LABELS), 1) @ np.array([penalty_of(rule) for rule in KNOWN])
    lattices, gold = [], []
    for _ in range(count):
        unary = 2 * rng.normal(size=(n, 3))
        p = np.exp(unary[np.arange(n), paths].sum(axis=1) - cost)
        lattices.append(bridle.Lattice(unary))
        gold.append(names[rng.choice(len(p), p=p / p.sum())])
    return lattices, gold


def right(rules: list[Rule], data: Sample) -> float:
    decodings = bridle.Decoder(LABELS, rules).decode_batch(data[0])
    return float(np.mean(decodings.ids == LABELS.ids([y for item in data[1] for y in item])))


@pytest.mark.parametrize("scale", ["fixed", "learned"])
def test_learned_weights_order_the_rules_and_decode_no_worse_than_counts(scale: Any) -> None:
    rng = np.random.default_rng(1)
    train, dev = sample(rng, 500), sample(rng, 300)
    broken = (violations(KNOWN, train[1], LABELS) > 0).sum(axis=0)
    counts = from_counts(
        Learned(rule, "known", held=500 - int(b), of=500, support=500) for rule, b in zip(KNOWN, broken, strict=True)
    )
    by_counts = [item.rule for item in counts]
    model = JointWeights(by_counts, LABELS, scale=scale, iterations=10, threads=1).fit(*train, dev=dev)
    assert right(model.rules_, dev) >= right(by_counts, dev)
    assert model.progress_.best_score == pytest.approx(right(model.rules_, dev))
    blind = JointWeights(KNOWN, LABELS, scale=scale, iterations=10, threads=1).fit(*train)
    assert np.argsort(-blind.weights_).tolist() == [0, 1, 2, 3]
    assert right(blind.rules_, dev) > right([], dev)


def test_what_came_with_the_rules_is_kept_if_it_does_best() -> None:
    """Training data that contradict the development set make every learned weight worse than what was there."""
    lattice = bridle.Lattice([[1, 0, 0], [0, 1, 0]])
    rule = r.at_most(0, of="B").soft(3)
    train: Sample = [lattice] * 4, [["A", "B"]] * 4
    built = JointWeights([rule], LABELS, iterations=3).fit(*train, dev=([lattice], [["A", "A"]]))
    assert built.progress_.best_iteration == 0 and built.rules_ == [rule]


def test_a_batch_teaches_what_its_lattices_teach() -> None:
    lattices, gold = sample(np.random.default_rng(2), 100)
    cuts = np.arange(101) * 4
    batch = bridle.Batch(np.concatenate([x.unary for x in lattices]), cuts)
    ways = [
        JointWeights(KNOWN, LABELS, iterations=3, threads=threads).fit(X, gold).weights_
        for X, threads in ((lattices, 1), (batch, 1), (batch, 2))
    ]
    assert ways[0].tolist() == ways[1].tolist() == ways[2].tolist()
    some = subset(batch, np.array([7, 3]))
    assert isinstance(some, bridle.Batch)
    assert (some[0].unary == lattices[7].unary).all() and (some[1].unary == lattices[3].unary).all()


def test_violations_count_one_by_one_where_they_are_paid_so() -> None:
    """The guess breaks the rule three times, gold not at all: the first step is three times as long."""
    lattice = bridle.Lattice([[9, 0, 0]] * 3)
    for per, step in (("violation", 3.0), ("sequence", 1.0)):
        rule = r.forbid("A").soft(1, per=per)  # type: ignore[arg-type]
        model = JointWeights([rule], LABELS, iterations=1, rate=1, average="last").fit([lattice], [["B", "B", "B"]])
        assert model.weights_.tolist() == [step]


def test_a_rule_that_gold_always_breaks_is_useless() -> None:
    lattices, gold = sample(np.random.default_rng(3), 60)
    always = r.at_most(0, of=["A", "B", "C"], count="tokens").soft(5)
    model = JointWeights([always, KNOWN[0]], LABELS, iterations=5).fit(lattices, gold)
    assert model.weights_[0] == 0 and model.useless_ == [always]
    assert [rule.rule for rule in model.rules_ if isinstance(rule, Soft)] == [r.before("A", "B")]


def test_without_soft_rules_nothing_happens() -> None:
    lattices, gold = sample(np.random.default_rng(4), 5)
    model = JointWeights([], LABELS).fit(lattices, gold)
    assert model.rules_ == [] and model.weights_.shape == (0,) and model.progress_.iteration == 0
    hard = r.at_most(1, of="A")
    assert JointWeights([hard], LABELS).fit(lattices, gold).rules_ == [hard]


def test_hard_rules_are_obeyed_and_not_learned() -> None:
    lattices, gold = sample(np.random.default_rng(5), 60)
    never = [r.forbid("A"), r.forbid("B"), r.forbid("C")]  # nothing is left: no sequence teaches anything
    built = JointWeights([*never, KNOWN[0]], LABELS, iterations=2).fit(lattices, gold, dev=(lattices, gold))
    assert built.weights_[:3].tolist() == [math.inf] * 3 and built.rules_[:3] == never
    some = JointWeights([r.forbid("B"), KNOWN[2]], LABELS, iterations=5).fit(lattices, gold)
    assert some.weights_[0] == math.inf and some.weights_[1] > 0


def test_a_model_and_its_own_sequences() -> None:
    X = [["the", "man", "the"], ["a", "man"]] * 4
    y = [["A", "B", "C"], ["A", "B"]] * 4
    model = CRF("perceptron", features=["word[0]"], iterations=2).fit(X, y)
    rules = [r.ends_with("C").soft(1), r.fix("B", r.tokens("man")).soft(1)]
    built = JointWeights(rules, model, iterations=2).fit(X, y, dev=(X, y))
    pairs = zip(model.predict(X, built.rules_), y, strict=True)
    right_ones = [a == b for ours, gold in pairs for a, b in zip(ours, gold, strict=True)]
    assert built.progress_.best_score == pytest.approx(np.mean(right_ones))


def test_watching_stopping_and_interrupting() -> None:
    lattices, gold = sample(np.random.default_rng(6), 40)
    steps: list[Step] = []
    built = JointWeights(KNOWN, LABELS, iterations=30, patience=2).fit(
        lattices, gold, dev=(lattices, gold), watch=steps.append
    )
    assert len(steps) == built.progress_.iteration < 30 and steps[0].score is not None

    def interrupt(step: Step) -> None:
        if step.iteration == 2:
            raise KeyboardInterrupt

    stopped = JointWeights(KNOWN, LABELS, iterations=30)
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(lattices, gold, watch=interrupt)
    twice = JointWeights(KNOWN, LABELS, iterations=2).fit(lattices, gold)
    assert stopped.weights_.tolist() == twice.weights_.tolist()


@pytest.mark.parametrize(
    ("settings_", "error"),
    [
        ({"rate": 0}, ModelError),
        ({"size": 0}, ModelError),
        ({"iterations": 0}, ModelError),
        ({"scale": "free"}, ModelError),
        ({"start": "one"}, ModelError),
        ({"seed": -1}, ModelError),
        ({"patience": 2}, ModelError),
        ({"max_states": 0}, ModelError),
        ({"average": "mean"}, ModelError),
        ({"rules": KNOWN[0]}, RuleError),
        ({"of": "ABC"}, LabelError),
    ],
)
def test_bad_settings(settings_: dict[str, Any], error: type[BridleError]) -> None:
    lattices, gold = sample(np.random.default_rng(7), 3)
    with pytest.raises(error):
        JointWeights(**{"rules": KNOWN, "of": LABELS, **settings_}).fit(lattices, gold)


def test_bad_data() -> None:
    lattices, gold = sample(np.random.default_rng(8), 3)
    with pytest.raises(LabelError, match="differ in length"):
        JointWeights(KNOWN, LABELS).fit(lattices, gold[:2])
    with pytest.raises(LabelError, match="'D'"):
        JointWeights(KNOWN, LABELS).fit(lattices, [["D"] * 4] * 3)
    with pytest.raises(GivenError, match="given"):
        JointWeights(KNOWN, LABELS).fit(lattices, gold, given=[{}])
    with pytest.raises(ModelError, match="empty"):
        JointWeights(KNOWN, LABELS).fit(lattices, gold, dev=([], []))
    assert JointWeights(KNOWN, LABELS).get_params()["rate"] == 0.1


def test_sequences_with_unknown_gold_labels_are_left_out_if_asked() -> None:
    lattices = [bridle.Lattice(np.random.default_rng(k).normal(size=(3, 3))) for k in range(20)]
    gold = [["A", "B", "C"], ["C", "C", "A"]] * 10
    odd = [*gold[:-1], ["A", "?", "C"]]
    with pytest.raises(bridle.LabelError, match="unknown label"):
        JointWeights(KNOWN, LABELS, iterations=2).fit(lattices, odd)
    skipped = JointWeights(KNOWN, LABELS, iterations=2).fit(lattices, odd, on_unknown="skip", dev=(lattices, odd))
    alone = JointWeights(KNOWN, LABELS, iterations=2).fit(lattices[:-1], gold[:-1], dev=(lattices[:-1], gold[:-1]))
    assert skipped.weights_.tolist() == alone.weights_.tolist()
    with pytest.raises(bridle.ModelError, match="on_unknown"):
        JointWeights(KNOWN, LABELS).fit(lattices, gold, on_unknown="drop")  # type: ignore[arg-type]
