"""Penalties by likelihood: against brute force, and the conditions that the best ones meet."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bridle import Labels, Lattice
from bridle import rules as r
from bridle.learn.pricing import LEAST, Competitors, Prices, fit_prices, losses
from bridle.rules import Rule

LABELS = Labels(["A", "B", "C"])
RULES = [r.at_most(1, of="A").soft(1), r.before("A", "B"), r.present("C"), r.forbid("B").soft(1, per="violation")]


def problems(count: int, seed: int) -> tuple[list[Lattice], list[np.ndarray]]:  # type: ignore[type-arg]
    """Random scores; gold is drawn from them, but obeys "at most 1 of A" more often than they say."""
    rng = np.random.default_rng(seed)
    lattices, gold = [], []
    for _ in range(count):
        lattice = Lattice(rng.normal(size=(4, 3)), rng.normal(size=(3, 3)) / 2)
        paths = [np.array(path, dtype=np.int32) for path in itertools.product(range(3), repeat=4)]
        worth = np.array([lattice.score(path) - 2 * (RULES[0].violations(path, LABELS) > 0) for path in paths])
        chance = np.exp(worth - worth.max())
        lattices.append(lattice)
        gold.append(paths[rng.choice(len(paths), p=chance / chance.sum())])
    return lattices, gold


def candidates(count: int = 60, k: int = 100, rules: list[Rule] = RULES) -> Competitors:
    lattices, gold = problems(count, 0)
    return Competitors(LABELS, lattices, gold, rules, None, k=k, threads=1)


def test_all_labellings_are_candidates_and_gold_comes_first() -> None:
    lattices, gold = problems(5, 1)
    built = Competitors(LABELS, lattices, gold, RULES, None, k=100, threads=1)
    assert np.bincount(built.owner).tolist() == [81] * 5
    for b, path in enumerate(gold):
        assert built.score[built.first[b]] == pytest.approx(lattices[b].score(path))
        broken = [rule.violations(path, LABELS) for rule in RULES]
        assert built.paid[built.first[b]].tolist() == [
            min(broken[0], 1),
            min(broken[1], 1),
            min(broken[2], 1),
            broken[3],
        ]
    assert built.add([(0, gold[0])]) == 0


def test_a_labelling_that_is_new_joins() -> None:
    lattices, gold = problems(3, 2)
    built = Competitors(LABELS, lattices, gold, RULES, None, k=1, threads=1)
    before = len(built.owner)
    assert built.add([(2, np.array([1, 1, 1, 1])), (0, np.array([1, 1, 1, 1]))]) == len(built.owner) - before > 0
    assert built.owner.tolist() == sorted(built.owner.tolist())


def test_losses_are_those_of_enumeration() -> None:
    lattices, gold = problems(6, 3)
    built = Competitors(LABELS, lattices, gold, RULES, None, k=100, threads=1)
    w, scale = np.array([0.7, 0.0, 1.3, 0.4]), 0.8
    result = losses(built, Prices(w, scale))
    for lattice, own, loss in zip(lattices, gold, result, strict=True):
        worth = []
        for path in map(np.array, itertools.product(range(3), repeat=4)):
            n = [rule.violations(path, LABELS) for rule in RULES]
            worth.append(scale * lattice.score(path) - w @ [min(n[0], 1), min(n[1], 1), min(n[2], 1), n[3]])
        n = [rule.violations(own, LABELS) for rule in RULES]
        mine = scale * lattice.score(own) - w @ [min(n[0], 1), min(n[1], 1), min(n[2], 1), n[3]]
        assert loss == pytest.approx(np.log(np.exp(worth).sum()) - mine, abs=1e-5)


@pytest.mark.parametrize("l1", [0.5, 4.0])
def test_the_best_prices_meet_the_conditions_of_the_optimum(l1: float) -> None:
    built = candidates()
    result = fit_prices(built, l1=l1)

    def slope(w: np.ndarray, scale: float, r: int | None) -> float:  # type: ignore[type-arg]
        h = 1e-3
        step = np.zeros(4) if r is None else h * np.eye(4)[r]
        more = h if r is None else 0.0
        up, down = (losses(built, Prices(w + s * step, scale + s * more)).sum() for s in (1, -1))
        return float(up - down) / (2 * h)

    assert result.scale > LEAST and abs(slope(result.w, result.scale, None)) < 0.15
    for rule in range(4):
        push = slope(result.w, result.scale, rule) + l1
        assert push > -0.1 if result.w[rule] == 0 else abs(push) < 0.1


def test_what_gold_obeys_more_than_the_model_is_priced_and_what_it_does_not_is_free() -> None:
    result = fit_prices(candidates(200), l1=2.0)
    assert 1.0 < result.penalties[0] < 3.0  # it was 2 when gold was drawn
    assert max(result.w[1:]) < 0.7
    assert fit_prices(candidates(200), l1=1e6).kept == []


def test_rules_that_say_the_same_share_one_price() -> None:
    alone = fit_prices(candidates(200, rules=RULES[:1]), l1=1.0)
    twice = fit_prices(candidates(200, rules=[RULES[0], r.at_most(1, of="A").soft(1)]), l1=1.0)
    assert sum(twice.w) == pytest.approx(alone.w[0], abs=0.05)


def test_some_sequences_and_some_rules() -> None:
    built = candidates(100)
    use = np.arange(100) < 50
    half, own = fit_prices(built, l1=1.0, use=use), candidates(50)
    assert half.w == pytest.approx(fit_prices(own, l1=1.0).w, abs=0.05)
    assert fit_prices(built, l1=0.1, rules=np.array([False, True, True, True])).w[0] == 0


def test_no_rules_and_no_sequences() -> None:
    lattices, gold = problems(3, 4)
    assert fit_prices(Competitors(LABELS, lattices, gold, [], None, threads=1), l1=1.0).kept == []
    assert fit_prices(Competitors(LABELS, [], [], RULES, None, threads=1), l1=1.0).kept == []
