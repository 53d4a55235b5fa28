"""Penalties by likelihood: against brute force, and the conditions that the best ones meet."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bridle import Decoder, Labels, Lattice
from bridle import rules as r
from bridle.learn.competitors import Competitors, log_z
from bridle.learn.pricing import Prices, best_multiple, fit_prices, losses
from bridle.report.significance import Floats
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


def candidates(count: int = 60, rules: list[Rule] = RULES, **options: Any) -> Competitors:
    lattices, gold = problems(count, 0)
    return Competitors(LABELS, lattices, gold, rules, None, **{"k": 100, "scale": 1.0, "threads": 1, **options})


def paid(built: Competitors) -> Floats:
    table = np.zeros((len(built.owner), built.n_rules))
    table[built.row, built.rule] = built.times
    return table


def times_paid(path: Any) -> Floats:
    broken = np.array([rule.violations(path, LABELS) for rule in RULES])
    return np.array([*np.minimum(broken[:3], 1), broken[3]], dtype=np.float64)


def all_paths(lattice: Lattice) -> list[Any]:
    return [np.array(path, dtype=np.int32) for path in itertools.product(range(3), repeat=len(lattice))]


# ---- sums over all labellings ---------------------------------------------------------------------------------------


def mixed(seed: int) -> list[Lattice]:
    """Lattices of several lengths: without transitions, with the same ones, with one table per step; -inf; edges."""
    rng = np.random.default_rng(seed)
    shared, lattices = rng.normal(size=(3, 3)), []
    shared[2, 0] = -np.inf
    for n in (1, 2, 5, 3, 4, 3, 2, 1, 4):
        unary = rng.normal(size=(n, 3)) * 3
        unary[0, 1] = -np.inf
        start, end = (rng.normal(size=3) if rng.random() < 0.5 else None for _ in range(2))
        pairwise = [None, shared, rng.normal(size=(n - 1, 3, 3))][rng.integers(3 if n > 1 else 2)]
        lattices.append(Lattice(unary, pairwise, start, end))
    return lattices


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_sums_are_those_of_enumeration(scale: float) -> None:
    for seed in range(20):
        lattices = mixed(seed)
        scores = [np.array([lattice.score(path) for path in all_paths(lattice)]) for lattice in lattices]
        wanted = [np.log(np.exp(scale * each).sum()) for each in scores]
        assert log_z(LABELS, lattices, scale) == pytest.approx(wanted, rel=1e-9)


def test_large_scores_do_not_overflow() -> None:
    lattice = Lattice(1e4 * np.eye(3), -1e4 * np.eye(3))
    best = max(lattice.score(path) for path in all_paths(lattice))
    assert log_z(LABELS, [lattice], 1.0) == pytest.approx([best])


@pytest.mark.parametrize("true", [0.2, 1.0, 5.0])
def test_the_scale_of_scores_is_recovered(true: float) -> None:
    """Also where gold is never among the k best: flat scores of long sequences are not steep ones."""
    rng = np.random.default_rng(0)
    lattices, gold = [], []
    for _ in range(60):
        lattice = Lattice(rng.normal(size=(30, 3)))
        [[path]] = Decoder(LABELS).sample([lattice], 1, seed=int(rng.integers(1 << 30)))
        gold.append(path)
        lattices.append(Lattice(lattice.unary / true))
    built = Competitors(LABELS, lattices, gold, [], None, threads=1)
    assert built.scale == pytest.approx(true, rel=0.1) and not built.at_bound


def test_a_scale_at_its_bound_is_noticed() -> None:
    lattices = [Lattice([[0.0, 1.0, 2.0]])] * 9
    assert Competitors(LABELS, lattices, [np.array([0])] * 9, [], None, threads=1).at_bound
    assert not candidates(scale=None).at_bound


# ---- labellings that compete with gold ------------------------------------------------------------------------------


def test_all_labellings_are_candidates_and_gold_comes_first() -> None:
    lattices, gold = problems(5, 1)
    built = Competitors(LABELS, lattices, gold, RULES, None, k=100, scale=1.0, threads=1)
    assert np.bincount(built.owner).tolist() == [81] * 5
    for b, path in enumerate(gold):
        scores = [lattices[b].score(other) for other in all_paths(lattices[b])]
        assert built.log_p[built.first[b]] == pytest.approx(lattices[b].score(path) - np.log(np.exp(scores).sum()))
        assert paid(built)[built.first[b]].tolist() == times_paid(path).tolist()
    assert built.add([(0, gold[0])]) == 0


def test_a_labelling_that_is_new_joins_and_leaves_the_draws() -> None:
    lattices, gold = problems(3, 2)
    built = Competitors(LABELS, lattices, gold, RULES, None, k=1, scale=1.0, threads=1)
    new = [(b, path) for b in range(3) for path in all_paths(lattices[b])[40:43]]
    assert 0 < built.add(new) <= 9 and built.add(new) == 0
    assert built.owner.tolist() == sorted(built.owner.tolist())
    for b in range(3):  # the draws stand for all that is not listed
        assert np.exp(built.log_p[built.owner == b]).sum() == pytest.approx(1.0, abs=2e-3)


def exact_losses(prices: Prices, count: int, seed: int) -> list[float]:
    wanted = []
    for lattice, own in zip(*problems(count, seed), strict=True):
        worth = [prices.scale * lattice.score(path) - prices.w @ times_paid(path) for path in all_paths(lattice)]
        mine = prices.scale * lattice.score(own) - prices.w @ times_paid(own)
        wanted.append(float(np.log(np.exp(worth).sum()) - mine))
    return wanted


@pytest.mark.parametrize("scale", [0.8, 2.0])
def test_losses_are_those_of_enumeration(scale: float) -> None:
    lattices, gold = problems(6, 3)
    built = Competitors(LABELS, lattices, gold, RULES, None, k=100, scale=scale, threads=1)
    prices = Prices(np.array([0.7, 0.0, 1.3, 0.4]), scale)
    assert losses(built, prices) == pytest.approx(exact_losses(prices, 6, 3), abs=1e-6)


def test_draws_stand_for_labellings_that_are_not_listed() -> None:
    lattices, gold = problems(100, 3)
    prices = Prices(np.array([0.7, 0.0, 1.3, 0.4]), 1.0)
    built = Competitors(LABELS, lattices, gold, RULES, None, k=2, scale=1.0, threads=1)
    assert losses(built, prices).mean() == pytest.approx(np.mean(exact_losses(prices, 100, 3)), rel=0.03)


# ---- prices ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("l1", [0.5, 4.0])
def test_the_best_prices_meet_the_conditions_of_the_optimum(l1: float) -> None:
    built = candidates()
    result = fit_prices(built, l1=l1)
    for rule in range(4):
        step = 1e-4 * np.eye(4)[rule]
        up, down = (losses(built, Prices(result.w + side * step, 1.0)).sum() for side in (1, -1))
        push = float(up - down) / 2e-4 + l1
        assert push > -0.03 * l1 if result.w[rule] == 0 else abs(push) < 0.05


def test_what_gold_obeys_more_than_the_model_is_priced_and_what_it_does_not_is_free() -> None:
    result = fit_prices(candidates(120), l1=2.0)
    assert 1.0 < result.penalties[0] < 3.0  # it was 2 when gold was drawn
    assert max(result.w[1:]) < 0.7
    assert fit_prices(candidates(120), l1=1e6).kept == []


def test_prices_are_in_units_of_the_scores() -> None:
    """Scores that are ten times as large cost ten times as much, and the rules are the same."""
    lattices, gold = problems(100, 0)
    steep = [Lattice(10 * x.unary, 10 * np.asarray(x.pairwise)) for x in lattices]
    plain, large = (
        fit_prices(Competitors(LABELS, x, gold, RULES, None, k=100, threads=1), l1=2.0) for x in (lattices, steep)
    )
    assert large.scale == pytest.approx(plain.scale / 10, rel=0.02)
    assert large.penalties == pytest.approx(10 * plain.penalties, rel=0.05, abs=0.05)


def test_rules_that_say_the_same_share_one_price() -> None:
    alone = fit_prices(candidates(120, rules=RULES[:1]), l1=1.0)
    twice = fit_prices(candidates(120, rules=[RULES[0], r.at_most(1, of="A").soft(1)]), l1=1.0)
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


def test_impossible_gold_teaches_nothing() -> None:
    lattices, gold = problems(50, 0)
    odd = np.array(lattices[0].unary)
    odd[0, gold[0][0]] = -np.inf
    broken = Competitors(LABELS, [Lattice(odd), *lattices[1:]], gold, RULES, None, k=100, scale=1.0, threads=1)
    whole = Competitors(LABELS, lattices[1:], gold[1:], RULES, None, k=100, scale=1.0, threads=1)
    assert fit_prices(broken, l1=1.0).w == pytest.approx(fit_prices(whole, l1=1.0).w, abs=1e-3)


def test_multiples_go_on_where_the_end_is_best() -> None:
    def same(value: float) -> Floats:  # for each of 20 sequences
        return np.full(20, value)

    assert best_multiple(lambda x: same(-abs(x - 1)))[0] == 1
    assert best_multiple(lambda x: same(1.0))[0] == 1  # of equals, the prices as they are
    best, tried = best_multiple(lambda x: same(-x))
    assert best == min(tried) == 0.0625
    best, tried = best_multiple(lambda x: same(min(x, 4.0)))
    assert best == 4 and max(tried) == 8


def test_the_prices_stay_unless_another_multiple_is_significantly_better() -> None:
    def quality(better: int) -> Callable[[float], Floats]:  # than 1, on so many of 20 sequences
        return lambda x: np.where(np.arange(20) < better, abs(x - 1), -0.1 * abs(x - 1))

    assert best_multiple(quality(13))[0] == 1
    assert best_multiple(quality(17))[0] == 8
