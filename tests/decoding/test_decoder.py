"""Decoder by example: fields of a decoding, explanations, probabilities, k best, limits, long sequences, the judge."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import bridle
from bridle import Decoder, Labels, Lattice
from bridle import rules as r
from contract import hard_lattice

LABELS = Labels(["O", "A"], "IO")
TWICE = Lattice([[0, 2], [1, 0], [0, 2]])  # best: A O A = 5; with one segment of A: A A A = 4
ONCE = r.at_most(1, of="A")


# ---- what a decoding holds --------------------------------------------------------------------------------------


def test_fields() -> None:
    soft = ONCE.soft(0.25, per="violation")
    d = Decoder(LABELS, [r.forbid("A", at=5).soft(1.0), soft]).decode(Lattice([[0, 2], [3, 0]] * 3))
    assert d.labels == ["A", "O"] * 3 and d.ids.tolist() == [1, 0] * 3 and d.ids.dtype == np.int32
    assert (d.score, d.penalty, d.violated) == (14.5, 0.5, [(soft, 2)])
    assert (d.bound, d.optimal, d.engine, d.relaxed, len(d)) == (14.5, True, "search", False, 6)
    assert isinstance(d.stats, dict) and isinstance(d.score, float) and isinstance(d.optimal, bool)
    assert d.label_set is LABELS


def test_labels_may_come_as_names() -> None:
    d = Decoder(["x", "y"]).decode(Lattice([[0, 1]]))
    assert d.labels == ["y"] and d.label_set == Labels(["x", "y"])


def test_the_plan_says_why() -> None:
    def plan(*rules: r.Rule, engine: str = "auto") -> tuple[str, str]:
        built = Decoder(LABELS, rules, engine).plan
        return built.engine, built.why

    assert plan() == ("viterbi", "there are no rules")
    assert plan(r.forbid("A", at=0), r.well_formed()) == ("viterbi", "every rule is a mask on labels and transitions")
    assert plan(r.forbid("A", at=0), ONCE) == ("search", f"masks cannot express: {ONCE}")
    assert plan(ONCE, r.present("A"), r.present("O")) == ("search", f"masks cannot express: {ONCE} and 2 more")
    assert plan(r.forbid("A", at=0).soft(1.0))[0] == "search"
    assert plan(ONCE, engine="product") == ("product", "you selected it")
    assert repr(Decoder(LABELS, [ONCE])) == "Decoder(2 labels, 1 rules, engine='search')"


def test_nobody_edits_the_callers_scores() -> None:
    unary, pairwise = np.array([[0.0, 2], [1, 0], [0, 2]]), np.zeros((2, 2))
    before = unary.copy()
    decoder = Decoder(LABELS, [ONCE, r.forbid("A", at=0), r.before("O", "A").soft(1.0)])
    lattice = Lattice(unary, pairwise)
    for ask in (decoder.decode, decoder.marginals, decoder.probability, decoder.explain):
        ask(lattice)
    decoder.k_best(lattice, 3)
    assert np.array_equal(unary, before) and not pairwise.any()


# ---- explanations -----------------------------------------------------------------------------------------------


def test_explain_names_the_rule_that_bit() -> None:
    idle, soft = r.forbid_transition("O", "O"), r.ends_with("O").soft(0.5)
    explanation = Decoder(LABELS, [idle, soft, ONCE]).explain(TWICE)
    assert explanation.plain.labels == ["A", "O", "A"] and explanation.best.labels == ["A", "A", "A"]
    assert explanation.cost == pytest.approx(5.0 - 3.5) and explanation.changed == [1]
    assert [effect.rule for effect in explanation.effects] == [
        ONCE,
        soft,
    ]  # the dearest first; the idle one does not bite
    once, ends = explanation.effects
    assert once.broken_by_plain == 1 and once.without is not None and once.without.labels == ["A", "O", "A"]
    assert once.price == pytest.approx(once.without.score - explanation.best.score) == pytest.approx(1.0)
    assert ends.broken_by_plain == 1 and ends.without is None and ends.price == pytest.approx(0.5)
    text = str(explanation)
    assert str(ONCE) in text and "price 1.0000, broken 1x" in text and str(idle) not in text


def test_explain_prices_are_differences_of_scores() -> None:
    rng = np.random.default_rng(0)
    labels = Labels(["O", "A", "B"], "IO")
    rules = [r.at_most(1, of="A"), r.before("A", "B"), r.present("B").soft(1.0), r.starts_with("O")]
    for _ in range(20):
        lattice = Lattice(rng.normal(size=(6, 3)) * 2)
        explanation = Decoder(labels, rules).explain(lattice)
        assert [b.price for b in explanation.effects] == sorted((b.price for b in explanation.effects), reverse=True)
        for rule in rules:
            others = [x for x in rules if x is not rule]
            price = Decoder(labels, others, "product").decode(lattice).score - explanation.best.score
            result = [effect for effect in explanation.effects if effect.rule == rule]
            assert result or (price < 1e-9 and rule.holds(explanation.plain.ids, labels))
            assert all(effect.price == pytest.approx(price, abs=1e-9) for effect in result)


def test_explain_when_nothing_bites() -> None:
    explanation = Decoder(LABELS, [r.present("A")]).explain(TWICE)
    assert (
        explanation.effects == []
        and explanation.cost == 0
        and explanation.changed == []
        and "no rule changes the labels" in str(explanation)
    )
    empty = Decoder(LABELS, [r.present("A").soft(1.0)]).explain(Lattice(np.zeros((0, 2))))
    assert empty.cost == 1.0 and len(empty.effects) == 1


# ---- probabilities ----------------------------------------------------------------------------------------------


def test_marginals_by_hand() -> None:
    flat = Lattice(np.zeros((3, 2)))
    assert Decoder(LABELS).marginals(flat) == pytest.approx(np.full((3, 2), 0.5))
    assert Decoder(LABELS, [ONCE.soft(9.0)]).marginals(flat) == pytest.approx(np.full((3, 2), 0.5))  # soft: no part
    # Of the 8 labellings only A O A is out.
    wanted = np.array([[4, 3], [3, 4], [4, 3]]) / 7
    assert Decoder(LABELS, [ONCE]).marginals(flat) == pytest.approx(wanted)
    sure = Decoder(LABELS, [r.fix("A", 1)]).marginals(flat)
    assert sure[1].tolist() == [0.0, 1.0] and sure[0] == pytest.approx([0.5, 0.5])
    assert Decoder(LABELS, [ONCE]).marginals(Lattice(np.zeros((0, 2)))).shape == (0, 2)
    assert Decoder(LABELS).marginals(Lattice([[0, -np.inf]])).tolist() == [[1.0, 0.0]]


def test_probability_by_hand() -> None:
    flat = Lattice(np.zeros((3, 2)))
    soft = r.starts_with("A").soft(1.0)
    probability = Decoder(LABELS, [ONCE, r.present("A"), soft]).probability(flat)
    assert probability.all == pytest.approx(6 / 8)  # not A O A, not O O O
    assert [rule for rule, _ in probability.each] == [ONCE, r.present("A"), soft]
    assert [p for _, p in probability.each] == pytest.approx([7 / 8, 7 / 8, 1 / 2])
    never = Decoder(LABELS, [r.fix("A", 0), r.fix("O", 0)]).probability(flat)
    assert never.all == 0.0 and [p for _, p in never.each] == pytest.approx([0.5, 0.5])
    nothing = Decoder(LABELS).probability(flat)
    assert (nothing.all, nothing.each) == (1.0, [])
    assert Decoder(LABELS, [r.present("A")]).probability(Lattice(np.zeros((0, 2)))).all == 0.0


def test_sums_of_large_scores_do_not_overflow() -> None:
    for shift in (-1e5, 1e5):
        lattice = Lattice(np.array([[0.0, 1], [1, 0], [0, 1]]) + shift)
        near = Lattice([[0, 1], [1, 0], [0, 1]])
        decoder = Decoder(LABELS, [ONCE])
        assert decoder.marginals(lattice) == pytest.approx(decoder.marginals(near), abs=1e-9)
        assert decoder.probability(lattice).all == pytest.approx(decoder.probability(near).all, abs=1e-9)


def test_sums_that_are_too_large() -> None:
    labels, lattice, rules = hard_lattice(0)
    for ask in ("marginals", "probability"):
        with pytest.raises(bridle.EngineError, match="too many states"):
            getattr(Decoder(labels, rules, max_states=10), ask)(lattice)


@pytest.mark.parametrize("ask", ["decode", "marginals", "explain"])
def test_rules_that_cannot_hold(ask: str) -> None:
    rules = [r.present("A"), r.forbid("A"), r.forbid("A"), r.present("O").soft(1.0), ONCE]
    with pytest.raises(bridle.Infeasible) as caught:
        getattr(Decoder(LABELS, rules), ask)(TWICE)
    assert caught.value.clash == (rules[0], rules[1])  # minimal, though one rule is there twice
    with pytest.raises(bridle.Infeasible):
        Decoder(LABELS, rules).k_best(TWICE, 3)


# ---- k best -----------------------------------------------------------------------------------------------------


def test_k_best_of_fewer_labellings_than_k() -> None:
    assert len(Decoder(LABELS).k_best(TWICE, 1000)) == 8
    best = Decoder(LABELS, [ONCE]).k_best(TWICE, 10**12)
    assert len(best) == 7 and len({tuple(d.ids.tolist()) for d in best}) == 7
    assert [d.score for d in best] == sorted((d.score for d in best), reverse=True)
    assert best[0].labels == ["A", "A", "A"] and not any(d.labels == ["A", "O", "A"] for d in best)
    assert len(Decoder(LABELS).k_best(Lattice(np.zeros((0, 2))), 5)) == 1
    assert [d.labels for d in Decoder(LABELS, [r.fix("O", [0, 1, 2])]).k_best(TWICE, np.int64(4))] == [["O"] * 3]


def test_k_best_counts_penalties() -> None:
    soft = ONCE.soft(1.5)
    best = Decoder(LABELS, [soft]).k_best(TWICE, 3)
    assert [(d.score, d.penalty) for d in best][:2] == [(4.0, 0.0), (3.5, 1.5)]
    assert best[1].violated == [(soft, 1)] and best[1].labels == ["A", "O", "A"]


# ---- limits -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [{"time_limit": 0.0}, {"max_states": 1}])
def test_limits_leave_a_true_bound(limit: dict[str, Any]) -> None:
    stopped = 0
    for seed in range(6):
        labels, lattice, rules = hard_lattice(seed)
        full = Decoder(labels, rules).decode(lattice)
        assert full.optimal and bridle.check(lattice, rules, full).ok
        try:
            d = Decoder(labels, rules, **limit).decode(lattice)
        except bridle.LimitReached as error:  # no time at all: there may be a bound, but no labelling yet
            assert "time_limit" in limit and full.score <= error.bound + 1e-9 and np.isfinite(error.bound)
            stopped += 1
            continue
        assert bridle.check(lattice, rules, d).ok
        assert d.score <= full.score + 1e-9 and full.score <= d.bound + 1e-9
        assert d.optimal == (d.bound - d.score < 1e-6)
        stopped += not d.optimal
    assert stopped >= 4


def test_limits_that_are_far_away_change_nothing() -> None:
    labels, lattice, rules = hard_lattice(3)
    full = Decoder(labels, rules).decode(lattice)
    for far in ({"time_limit": 1e300}, {"time_limit": float("inf")}, {"max_states": 2**62}):
        d = Decoder(labels, rules, **far).decode(lattice)  # type: ignore[arg-type]
        assert d.optimal and d.score == full.score


# ---- long sequences ---------------------------------------------------------------------------------------------


def viterbi_score(lattice: Lattice, steps: np.ndarray[Any, Any], first: Any = 0.0, last: Any = 0.0) -> float:
    """The best score by the textbook recursion; -inf in steps: no such transition."""
    best = lattice.unary[0] + first
    for row in lattice.unary[1:]:
        best = (best[:, None] + steps).max(axis=0) + row
    return float((best + last).max())


def masks(labels: Labels) -> list[np.ndarray[Any, Any]]:
    return [np.where(table, 0.0, -np.inf) for table in labels.allowed]


def test_33_labels_of_bioes_against_numpy() -> None:
    labels = Labels(["O", *(f"{tag}-{kind}" for kind in range(8) for tag in "BIES")], "BIOES")
    rng = np.random.default_rng(0)
    lattice = Lattice(rng.normal(size=(20_000, 33)), rng.normal(size=(33, 33)))
    assert lattice.pairwise is not None
    step, first, last = masks(labels)
    d = Decoder(labels, [r.well_formed()]).decode(lattice)
    assert d.optimal and r.well_formed().holds(d.ids, labels)
    assert d.score == pytest.approx(viterbi_score(lattice, lattice.pairwise + step, first, last), rel=1e-12)
    assert d.score == pytest.approx(lattice.score(d.ids), rel=1e-12)
    plain = Decoder(labels).decode(lattice)
    assert plain.score == pytest.approx(viterbi_score(lattice, lattice.pairwise), rel=1e-12)


MILLION = """
import resource
import numpy as np
import bridle
from bridle import rules as r

labels = bridle.Labels(["O", "B-X", "I-X", "E-X", "S-X"], "BIOES")
rng = np.random.default_rng(0)
lattice = bridle.Lattice(rng.random((1_000_000, 5), dtype=np.float32), rng.normal(size=(5, 5)))

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # megabytes

before, steps = peak(), lattice.pairwise
for rules in ([], [r.well_formed()]):
    d = bridle.Decoder(labels, rules).decode(lattice)
    assert d.optimal and abs(d.score - lattice.score(d.ids)) < 1e-6 * d.score
    allowed = np.where(labels.allowed[0], 0.0, -np.inf) if rules else np.zeros((5, 5))
    for low in range(1, 999_000, 20_011):  # no other way through a block, between the labels at its ends, is better
        ids = d.ids[low - 1 : low + 101]
        best = np.where(np.arange(5) == ids[0], 0.0, -np.inf)
        for t in range(low, low + 101):
            best = (best[:, None] + steps + allowed).max(axis=0) + lattice.unary[t]
        taken = steps[ids[:-1], ids[1:]].sum() + lattice.unary[low : low + 101][np.arange(101), ids[1:]].sum()
        assert abs(best[ids[-1]] - taken) < 1e-3, (low, best[ids[-1]], taken)
print(round(peak() - before))
"""


def test_a_million_tokens_in_bounded_memory() -> None:
    """In a process of its own, whose largest size is that of this work alone."""
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(x for x in sys.path if x)}
    done = subprocess.run([sys.executable, "-c", MILLION], capture_output=True, text=True, env=path, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) < 300  # megabytes; the scores themselves are 20


# ---- the judge --------------------------------------------------------------------------------------------------


def test_the_judge_catches_what_is_not_so() -> None:
    soft = ONCE.soft(0.5)
    rules = [r.forbid("O", at=0), soft]
    d = Decoder(LABELS, rules).decode(TWICE)
    output = bridle.check(TWICE, rules, d)
    assert output.ok and output.complaints == [] and output.violations == [0, 1]
    assert (output.score, output.penalty) == (4.5, 0.5)
    for change, text in (
        ({"score": 4.6}, "the score is 4.5"),
        ({"score": float("nan")}, "the score is 4.5"),
        ({"penalty": 0.0}, "the penalty is 0.5"),
        ({"violated": []}, "violated should be"),
        ({"violated": [(soft, 2)]}, "violated should be"),
        ({"bound": 4.0, "optimal": False}, "the bound 4.0 is below"),
        ({"bound": 9.0}, "do not meet"),
        ({"ids": np.array([0, 0, 1], dtype=np.int32)}, "a hard rule is broken 1 times: forbid O at 0"),
        ({"ids": np.array([1, 1, 0], dtype=np.int32)}, "the score is 2.0"),
    ):
        verdict = bridle.check(TWICE, rules, replace(d, **change))  # type: ignore[arg-type]
        assert not verdict.ok and any(text in complaint for complaint in verdict.complaints), change
    assert bridle.check(TWICE, rules, replace(d, bound=9.0, optimal=False)).ok  # a loose bound is a true one


def test_the_judge_takes_every_labelling_at_its_word() -> None:
    """All 8 labellings: the judge's score, penalty and violations are the plain definitions."""
    d = Decoder(LABELS).decode(TWICE)
    rules = [ONCE.soft(2.0, per="violation")]
    for path in itertools.product(range(2), repeat=3):
        output = bridle.check(TWICE, rules, replace(d, ids=np.array(path, dtype=np.int32)))
        segments = sum(y == 1 and (t == 0 or path[t - 1] == 0) for t, y in enumerate(path))
        assert output.violations == [max(0, segments - 1)]
        assert output.score == TWICE.score(path) - 2.0 * output.violations[0]
