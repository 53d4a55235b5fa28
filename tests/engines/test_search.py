"""The engine `search` where many rules interact: decomposed into groups, it finds what enumeration finds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import bridle
from bridle import Decoder, Labels, Lattice
from bridle import rules as r
from bridle.engines import Search
from bridle.rules import Rule, Soft
from strategies import seeds

GROUPS = [Search(1, 1, 0), Search(1, 6, 0), Search(2, 30, 0)]  # each rule by itself, few together, many


def some_rules(rng: np.random.Generator, m: int, count: int) -> list[Rule]:
    """Hard and soft ones, per sequence and per violation, some of them about positions."""
    result: list[Rule] = []
    for _ in range(count):
        a, b = (f"L{k}" for k in rng.choice(m, 2, replace=False))
        kinds: list[Rule] = [
            r.before(a, b),
            r.at_most(1, of=a),
            r.exactly(1, of=a),
            ~(r.present(a) & r.present(b)),
            r.if_present(a, then=b),
            r.forbid_transition(a, b),
            r.followed_by(a, b),
            r.no_duplicates([a, b]),
            r.label_at(r.given("at"), a) >> r.present(b),
            r.length(a, at_most=2),
        ]
        rule, how = kinds[int(rng.integers(len(kinds)))], rng.random()
        price = round(float(rng.uniform(0.3, 3.0)), 2)
        result.append(rule if how < 0.15 else rule.soft(price, per="violation" if how < 0.5 else "sequence"))
    return result


def best_by_enumeration(labels: Labels, rules: list[Rule], lattice: Lattice, given: dict[str, int]) -> float:
    best = -np.inf
    for y in itertools.product(range(len(labels)), repeat=len(lattice)):
        counts = [(rule, rule.violations(y, labels, given)) for rule in rules]
        if all(isinstance(rule, Soft) or not count for rule, count in counts):
            cost = sum(rule.cost(count) for rule, count in counts if isinstance(rule, Soft))
            best = max(best, lattice.score(y) - cost)
    return best


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_groups_of_rules_agree_with_enumeration(part: int) -> None:
    for rng in seeds(15, key=300 + part):
        m, n = int(rng.integers(3, 5)), int(rng.integers(2, 6))
        labels, rules = Labels([f"L{k}" for k in range(m)]), some_rules(rng, m, int(rng.integers(6, 12)))
        unary = np.where(rng.random((n, m)) < 0.05, -np.inf, rng.normal(size=(n, m)) * 1.5)
        pairwise = rng.normal(size=(m, m) if rng.random() < 0.7 else (n - 1, m, m))
        lattice = Lattice(unary.astype(rng.choice([np.float32, np.float64])), pairwise, end=rng.normal(size=m))
        given = {"at": int(rng.integers(n))}
        wanted = best_by_enumeration(labels, rules, lattice, given)
        for engine in GROUPS:
            d = Decoder(labels, rules, engine, on_infeasible="skip").decode(lattice, given)
            assert d.status == ("optimal" if wanted > -np.inf else "infeasible")
            assert d.score == pytest.approx(wanted, abs=1e-6)
            assert wanted == -np.inf or bridle.check(lattice, rules, d, given).ok


def test_very_many_rules_come_in_as_they_are_broken() -> None:
    for rng in seeds(4, key=310):
        labels, result = Labels(["L0", "L1", "L2", "L3"]), some_rules(rng, 4, 110)
        rules: list[Rule] = [rule for rule in result if isinstance(rule, Soft)][:80]
        rules += [rule for rule in result if not isinstance(rule, Soft)][:1]
        lattice, given = Lattice(rng.normal(size=(4, 4)) * 4, rng.normal(size=(4, 4))), {"at": 2}
        wanted = best_by_enumeration(labels, rules, lattice, given)
        d = Decoder(labels, rules, Search(1, 6, 0), on_infeasible="skip").decode(lattice, given)
        assert d.status == ("optimal" if wanted > -np.inf else "infeasible")
        assert d.score == pytest.approx(wanted, abs=1e-6)


def hard_problem(seed: int) -> tuple[Labels, list[Rule], Lattice]:
    rng = np.random.default_rng(seed)
    labels = Labels([f"L{k}" for k in range(8)])
    rules = [rule for rule in some_rules(rng, 8, 30) if isinstance(rule, Soft) and not rule.places()][:16]
    return labels, rules, Lattice(rng.normal(0, 1.5, (20, 8)), rng.normal(0, 0.3, (8, 8)) + 1.5 * np.eye(8))


def test_the_answer_does_not_depend_on_the_way() -> None:
    for seed in range(4):
        labels, rules, lattice = hard_problem(seed)
        decoding = [Decoder(labels, rules, engine).decode(lattice) for engine in (Search(), *GROUPS[1:])]
        assert all(d.optimal and bridle.check(lattice, rules, d).ok for d in decoding)
        assert [d.score for d in decoding] == pytest.approx([decoding[0].score] * len(decoding), abs=1e-9)


def test_bounds_are_true_when_the_time_is_up() -> None:
    for seed in range(3):
        labels, rules, lattice = hard_problem(seed)
        best = Decoder(labels, rules).decode(lattice).score
        for seconds in (0.0, 0.001, 0.003):
            d = Decoder(labels, rules, Search(1, 4, 0), time_limit=seconds, on_infeasible="skip").decode(lattice)
            assert d.bound >= best - 1e-9 and (d.status == "nothing_found" or d.score <= best + 1e-9)


def test_scores_that_single_precision_cannot_hold() -> None:
    labels, rules, lattice = hard_problem(0)
    scaled = [Soft(rule.rule, rule.penalty * 1e7, rule.per) for rule in rules if isinstance(rule, Soft)]
    large = Lattice(lattice.unary * 1e7, np.asarray(lattice.pairwise) * 1e7)
    a, b = Decoder(labels, rules).decode(lattice), Decoder(labels, scaled, Search(1, 4, 0)).decode(large)
    assert b.optimal and b.labels == a.labels


BAD = [("max_group_states", 0), ("decompose_after", -1), ("decompose_after", 1.5)]


@pytest.mark.parametrize(("option", "value"), BAD)
def test_bad_options(option: str, value: object) -> None:
    with pytest.raises(bridle.EngineError, match=f"invalid value of `{option}`"):
        Search(**{option: value})  # type: ignore[arg-type]
