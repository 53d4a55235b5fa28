"""Agreement of equal tokens in `search`, together with all other rules: against enumeration, and on long sequences."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import Generator

import bridle
import bridle.rules as r
from bridle.rules.base import Rule, Soft
from contract import Oracle, close
from strategies import random_problem, rounds, seeds


def agreements(rng: Generator) -> list[Rule]:
    """One or two rules about equal tokens, hard or soft."""
    rules: list[Rule] = []
    for _ in range(int(rng.choice([1, 1, 2]))):
        tokens = r.tokens("[a-b]") if rng.random() < 0.3 else None
        rule = r.same_label_for_equal(tokens, case=str(rng.choice(["exact", "ignored"])))
        mode = str(rng.choice(["hard", "violation", "sequence"]))
        price = float(rng.choice([0.3, 0.7, 1.0, 2.5]))
        rules.append(rule if mode == "hard" else rule.soft(price, per=mode))  # type: ignore[arg-type]
    return rules


@pytest.mark.parametrize("key", range(4))
def test_together_with_all_other_rules(key: int) -> None:
    for rng in seeds(60, key=3100 + key):
        labels, rules, lattice, given = random_problem(rng, 6, n_rules=int(rng.choice([0, 0, 1, 2])), depth=2)
        given = {**given, "tokens": [str(rng.choice(["a", "b", "c", "A"])) for _ in range(len(lattice))]}
        rules = [*rules, *agreements(rng)]
        oracle = Oracle.of(labels, rules, lattice, given)
        best = oracle.ranked[0][0] if oracle.ranked else None
        for size in (64, 1):
            engine = bridle.engines.Search(max_product_states=size)
            d = bridle.Decoder(labels, rules, engine, on_infeasible="skip").decode(lattice, given)
            assert (d.status == "infeasible") == (best is None), rules
            if best is not None:
                assert d.optimal and close(d.score, best) and bridle.check(lattice, rules, d, given).ok, rules
        d = bridle.Decoder(labels, rules, max_states=1, on_infeasible="skip").decode_batch([lattice], [given])[0]
        assert best is None or d.bound >= best - 1e-9
        if best is None and oracle.rows:
            d = bridle.Decoder(labels, rules, on_infeasible="relax").decode(lattice, given)
            hard = [not isinstance(rule, Soft) for rule in rules]
            ranked = [(sum(np.array(oracle.broken[path])[hard]), cost - score) for path, score, cost, _ in oracle.rows]
            assert d.stats["hard_violations"] == min(ranked)[0] and close(d.score, -min(ranked)[1]), rules


def test_a_limit_on_a_sequence_without_tokens() -> None:
    """A path without labels does not count as a labelling that was found: the score says whether there is one."""
    labels, lattice, given = bridle.Labels(["O", "A"]), bridle.Lattice(np.zeros((0, 2))), {"tokens": list[str]()}
    for rules, wanted in (([r.matches(".")], "nothing_found"), ([r.at_most(1, of="A")], "optimal")):
        decoder = bridle.Decoder(labels, [*rules, r.same_label_for_equal()], time_limit=0.0, on_infeasible="skip")
        for d in (decoder.decode(lattice, given), *decoder.decode_batch([lattice], [given])):
            assert d.status == wanted and d.bound == 0 and (d.score == 0) == (wanted == "optimal")


@pytest.mark.parametrize("per", ["violation", "sequence"])
def test_long_sequences(per: str) -> None:
    rng, labels = np.random.default_rng(1), bridle.Labels(["O", "B-X", "I-X", "B-Y", "I-Y"], "BIO")
    texts = [f"w{k}" for k in rng.integers(0, 600, 1500)]
    lattice = bridle.Lattice(rng.normal(size=(1500, 5)) * 2, pairwise=rng.normal(size=(5, 5)) / 2)
    rule = r.same_label_for_equal(r.tokens("w1.*")).soft(1.0, per=per)  # type: ignore[arg-type]
    d = bridle.Decoder(labels, [rule]).decode(lattice, {"tokens": texts})
    assert d.optimal and bridle.check(lattice, [rule], d, {"tokens": texts}).ok
    plain = bridle.Decoder(labels).decode(lattice)
    assert d.score >= plain.score - rule.cost(rule.violations(plain.labels, labels, {"tokens": texts}))


def test_limits_are_kept() -> None:
    rng, labels = np.random.default_rng(2), bridle.Labels(["O", "A", "B"])
    lattice = bridle.Lattice(rng.normal(size=(400, 3)))
    given, rule = {"tokens": [f"w{k}" for k in rng.integers(0, 60, 400)]}, r.same_label_for_equal().soft(0.5)
    best = bridle.Decoder(labels, [rule]).decode(lattice, given)
    assert best.optimal
    for limits in ({"time_limit": 0.0}, {"max_states": 1}, {"max_memory": 1_000_000}):
        d = bridle.Decoder(labels, [rule], **limits).decode(lattice, given)  # type: ignore[arg-type]
        assert d.bound >= best.score - 1e-9 and d.score <= best.score + 1e-9


def test_oracle_sees_enough() -> None:
    """The random problems are not all alike: agreement changes the best labelling in many of them."""
    bites = 0
    for rng in seeds(60, key=3100):
        labels, _, lattice, _ = random_problem(rng, 6, n_rules=0)
        given = {"tokens": [str(rng.choice(["a", "b"])) for _ in range(len(lattice))]}
        rule = r.same_label_for_equal()
        d, plain = (
            bridle.Decoder(labels, x, on_infeasible="skip").decode_batch([lattice], [given])[0] for x in ([rule], [])
        )
        bites += d.score < plain.score
    assert bites > rounds(10)
