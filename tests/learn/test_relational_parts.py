"""The parts of rule mining: tails of chance, wrong labellings, what follows from what, the cheapest clauses."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle import Labels
from bridle import rules as r
from bridle.learn import relational
from bridle.learn.candidates import change_odds, segment_counts
from bridle.learn.counted import Counted, corrupt
from bridle.learn.relational import Clause, cover, needed
from bridle.report.significance import benjamini_hochberg, log_binomial, log_hypergeometric
from bridle.rules.base import Rule
from strategies import labellings, random_labels, seeds

# ---- chance ---------------------------------------------------------------------------------------------------------


@given(st.integers(0, 30), st.integers(0, 30), st.fractions(0, 1, max_denominator=50))
def test_binomial_tails_are_exact_above_the_mean(k: int, n: int, p: Fraction) -> None:
    exact = sum(math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k, n + 1))
    result = log_binomial(k, n, float(p))
    if k <= n * float(p):
        assert result == 0
    else:
        assert math.exp(result) == pytest.approx(float(exact), rel=1e-9)


@given(st.data())
def test_hypergeometric_tails_are_exact_beyond_the_mean(data: st.DataObject) -> None:
    N = data.draw(st.integers(1, 25))
    K, n = data.draw(st.integers(0, N)), data.draw(st.integers(0, N))
    k = data.draw(st.integers(max(0, n + K - N), min(K, n)))
    ways = {j: math.comb(K, j) * math.comb(N - K, n - j) for j in range(min(K, n) + 1) if n - j <= N - K}
    for tail, inside, beyond in (
        ("upper", [j for j in ways if j >= k], k * N > n * K),
        ("lower", [j for j in ways if j <= k], k * N < n * K),
    ):
        exact = sum(ways[j] for j in inside) / math.comb(N, n)
        result = log_hypergeometric(k, N, K, n, tail=tail)
        assert math.exp(result) == pytest.approx(exact if beyond else 1.0, rel=1e-9)


@pytest.mark.parametrize("apart", [True, False])
def test_segment_counts_are_those_of_all_sequences(apart: bool) -> None:
    """Three labels with equal shares: enumerate."""
    table = segment_counts(1 / 3, 1 / 3, 6, 2, apart=apart)
    for s in range(7):
        words = [w for w in labellings(s, 3) if not apart or all(a != b for a, b in itertools.pairwise(w))]
        counts = np.bincount([min(w.count(0), 3) for w in words], minlength=4) / len(words)
        assert table[s] == pytest.approx(counts)


def test_change_odds_have_the_sums_that_were_counted() -> None:
    weight = np.array([5.0, 2.0, 1.0, 0.5])
    odds = (1 - np.eye(4)) * weight / (weight.sum() - weight)[:, None]  # no label prefers another
    leaving = np.array([4000, 2500, 1500, 800])
    assert change_odds(leaving, np.asarray(leaving @ odds)) == pytest.approx(odds, rel=1e-6)


@given(st.lists(st.floats(-20, 0), max_size=8), st.floats(0.001, 0.5))
def test_believed_is_benjamini_and_hochberg(tails: list[float], level: float) -> None:
    ordered = sorted(tails)
    ranks = [i for i in range(1, len(tails) + 1) if ordered[i - 1] <= math.log(level * i / len(tails))]
    wanted = [bool(ranks) and tail <= ordered[max(ranks) - 1] for tail in tails]
    assert benjamini_hochberg(tails, level) == wanted


# ---- wrong labellings -----------------------------------------------------------------------------------------------


def test_wrong_labellings_are_wrong_and_fit_their_sequences() -> None:
    for rng in seeds(20, key=72):
        labels = random_labels(rng, 5)
        if len(labels) < 2:
            continue
        lengths = rng.integers(0, 7, size=12)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        ids = rng.integers(len(labels), size=int(offsets[-1]))
        tokens = [f"t{t}" for t in range(len(ids))]
        gold = Counted(labels, ids, offsets, tokens)
        built, owner = corrupt(gold, 100, seed=3)
        again, _ = corrupt(gold, 100, seed=3)
        assert built.ids.tolist() == again.ids.tolist()
        seen = set()
        for i, k in enumerate(owner.tolist()):
            here, there = slice(*built.offsets[i : i + 2]), slice(*offsets[k : k + 2])
            assert len(built.ids[here]) == lengths[k]
            assert built.tokens is not None and list(built.tokens[here]) == tokens[there]
            assert built.ids[here].tolist() != ids[there].tolist()
            seen.add((k, built.ids[here].tobytes()))
        assert len(seen) == len(owner) > 0


# ---- what follows ---------------------------------------------------------------------------------------------------

NAMES = ["A", "B", "C"]


def some_rules() -> st.SearchStrategy[Rule]:
    """Rules of the kinds that are mined."""
    name = st.sampled_from(NAMES)
    two = st.permutations(NAMES).map(lambda names: names[:2])
    return st.one_of(
        two.map(lambda ab: r.before(*ab)),
        two.map(lambda ab: r.followed_by(*ab)),
        two.map(lambda ab: r.if_present(ab[0], then=ab[1])),
        two.map(lambda ab: r.forbid_transition(*ab)),
        two.map(lambda ab: r.immediately_followed_by(ab[0], ab)),
        two.map(lambda ab: ~(r.present(ab[0]) & r.present(ab[1]))),
        name.map(r.starts_with),
        name.map(r.ends_with),
        name.map(lambda a: r.at_most(1, of=a)),
        name.map(lambda a: r.at_least(1, of=a)),
        name.map(lambda a: r.exactly(1, of=a)),
    )


LABELS = Labels(NAMES)
WORDS = [w for n in range(1, 7) for w in labellings(n, 3)]


@cache
def held(rule: Rule) -> list[bool]:
    """By all sequences up to six tokens, which is more than such rules need to differ."""
    return [rule.holds(w, LABELS) for w in WORDS]


@settings(max_examples=40, deadline=None)
@given(st.lists(some_rules(), min_size=1, max_size=6))
def test_what_stays_implies_what_is_dropped_and_nothing_else_could_go(rules: list[Rule]) -> None:
    holds = np.array([held(rule) for rule in rules])
    if not holds.all(axis=0).any():
        return  # rules that clash are not asked about
    kept = np.array(needed(rules, Counted(LABELS, np.zeros(0, np.int64), np.zeros(1, np.int64))))
    allowed = holds[kept].all(axis=0)
    assert holds[:, allowed].all()
    for i in np.flatnonzero(kept):
        others = kept & (np.arange(len(rules)) != i)
        assert not holds[i][holds[others].all(axis=0)].all(), f"{rules[i]} follows from the others"


def test_rules_about_tokens_are_compared_by_tokens_and_labels() -> None:
    data = Counted(Labels(NAMES), np.array([0, 1, 2, 0]), np.array([0, 4]), ["1984", "7", "x", "1990"])
    years, numbers = r.tokens(r"\d{4}"), r.tokens(r"\d+")
    rules = [r.allow(["A", "B"], numbers), r.allow(["A"], years), r.allow(["A", "B"], years), r.allow(NAMES, numbers)]
    assert needed(rules, data) == [True, True, False, False]


def test_a_budget_that_is_spent_keeps_what_is_left() -> None:
    rules = [r.before("A", "B"), r.forbid_transition("B", "A")]
    data = Counted(Labels(NAMES), np.zeros(0, np.int64), np.zeros(1, np.int64))
    assert needed(rules, data) == [True, False]
    assert needed(rules, data, budget=1) == [True, True]


# ---- the cheapest clauses -------------------------------------------------------------------------------------------


def cheapest(separates: np.ndarray, costs: np.ndarray, share: float) -> float:
    """The least cost to separate a share, by trying all sets."""
    n = len(costs)
    wanted = share * separates.any(axis=0).sum()
    sets = [list(s) for k in range(n + 1) for s in itertools.combinations(range(n), k)]
    return min(float(costs[s].sum()) for s in sets if separates[s].any(axis=0).sum() >= wanted)


def chosen_rules(clauses: list[Clause]) -> list[int]:
    return [j for clause in clauses for j in clause.rules]


def test_clauses_are_the_cheapest_and_their_power_falls() -> None:
    for rng in seeds(8, key=73):
        separates = rng.random((7, 40)) < rng.choice([0.05, 0.2, 0.4])
        costs = rng.integers(1, 9, size=7) / 2
        clauses = cover(separates, costs, min_power=1e-9)
        left = separates.copy()
        powers = []
        for clause in clauses:
            chosen = list(clause.rules)
            assert costs[chosen].sum() == pytest.approx(cheapest(left, costs, 0.5))
            new = left[chosen].any(axis=0)
            assert clause.power == pytest.approx(new.mean())
            powers.append(clause.power)
            left[:, new] = False
        assert not left.any()
        assert sum(powers) == pytest.approx(separates.any(axis=0).mean())
        assert len(set(chosen_rules(clauses))) == len(chosen_rules(clauses))


def test_clauses_below_the_least_power_are_left_out() -> None:
    separates = np.zeros((3, 100), dtype=bool)
    separates[0, :90], separates[1, 90:98], separates[2, 98:99] = True, True, True
    assert chosen_rules(cover(separates, np.ones(3), min_power=0.05)) == [0, 1]
    assert cover(separates, np.ones(3), min_power=0.95) == []
    assert cover(np.zeros((2, 0), dtype=bool), np.ones(2), min_power=0.1) == []


def test_without_time_the_choice_is_greedy_but_covers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relational, "_SECONDS", 0.0)
    separates = np.random.default_rng(0).random((8, 60)) < 0.2
    chosen = chosen_rules(cover(separates, np.ones(8), min_power=1e-9))
    assert (separates[chosen].any(axis=0) == separates.any(axis=0)).all()
