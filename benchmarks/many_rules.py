"""Many soft rules that interact: noise for scores, sticky transitions, rules about presence, order and neighbours."""

from __future__ import annotations

import time

import numpy as np

import bridle
from bridle import Labels, Lattice
from bridle import rules as r
from bridle.rules import Rule
from measure import Report

# tokens, labels, soft rules, penalty, wanted: mean and worst seconds
SETS = [
    (30, 8, 15, 2.0, None, None),
    (40, 10, 20, 2.0, 0.008, None),
    (40, 10, 33, 2.0, 0.025, 0.150),
    (60, 13, 26, 3.0, 0.040, 1.0),
    (60, 13, 40, 3.0, 0.400, 5.0),
]
LIMIT = 10.0  # seconds


def random_rules(rng: np.random.Generator, m: int, count: int) -> list[Rule]:
    """Distinct rules about presence, order and neighbours."""
    found: dict[Rule, None] = {}
    while len(found) < count:
        a, b = (f"L{k}" for k in rng.choice(m, 2, replace=False))
        kinds = [
            r.before(a, b), r.at_most(1, of=a), r.exactly(1, of=a), ~(r.present(a) & r.present(b)),
            r.if_present(a, then=b), r.forbid_transition(a, b), r.followed_by(a, b),
        ]  # fmt: skip
        found.setdefault(kinds[int(rng.integers(len(kinds)))])
    return list(found)


def soft_set(
    n: int, m: int, count: int, penalty: float, size: int, seed: int
) -> tuple[Labels, list[Rule], list[Lattice]]:
    """`size` lattices under `count` soft rules with penalties around `penalty`."""
    rng = np.random.default_rng(seed)
    prices = (round(float(rng.uniform(0.5, 1.5) * penalty), 2) for _ in range(count))
    rules: list[Rule] = [rule.soft(price) for rule, price in zip(random_rules(rng, m, count), prices, strict=True)]
    pairwise = rng.normal(0, 0.3, (m, m)) + 1.5 * np.eye(m)
    lattices = [Lattice(rng.normal(0, 1.5, (n, m)), pairwise) for _ in range(size)]
    return Labels([f"L{k}" for k in range(m)]), rules, lattices


def mixed_set(
    n: int, m: int, count: int, penalty: float, edge: float, size: int, seed: int
) -> tuple[Labels, list[Rule], list[Lattice]]:
    """`size` lattices under `count` rules, half of those that hold on a hidden labelling being hard.

    edge: how much higher the hidden labels score than the others, beside noise of 1.5
    """
    rng = np.random.default_rng(seed)
    labels = Labels([f"L{k}" for k in range(m)])
    hidden = np.repeat(rng.permutation(m)[: n // 4], 4)[:n]  # segments of four tokens
    found: dict[Rule, None] = {}
    while len(found) < count:  # one in twenty does not hold on the hidden labelling
        for rule in random_rules(rng, m, count):
            if len(found) < count and (rule.holds(hidden, labels) or rng.random() < 0.05):
                found.setdefault(rule)
    rules: list[Rule] = []
    for rule in found:
        hard = rng.random() < 0.5 and rule.holds(hidden, labels)
        rules.append(rule if hard else rule.soft(round(float(rng.uniform(0.5, 1.5) * penalty), 2)))
    pairwise = rng.normal(0, 0.3, (m, m)) + 1.5 * np.eye(m)
    lattices = []
    for _ in range(size):
        unary = rng.normal(0, 1.5, (n, m))
        unary[np.arange(n), hidden] += edge
        lattices.append(Lattice(unary, pairwise))
    return labels, rules, lattices


def run_many(report: Report) -> None:
    """Mean and worst time of a call against what is wanted, and the share that is proved."""
    for n, m, count, penalty, mean, worst in SETS:
        took, proved = [], []
        for seed in range(1 if report.quick else 3):
            labels, rules, lattices = soft_set(n, m, count, penalty, 4 if report.quick else 8, seed)
            decoder = bridle.Decoder(labels, rules, time_limit=LIMIT)
            decoder.decode(lattices[0])  # groups of rules are found once per decoder
            for lattice in lattices:
                begin = time.perf_counter()
                d = decoder.decode(lattice)
                took.append(time.perf_counter() - begin)
                proved.append(d.optimal)
                if not bridle.check(lattice, rules, d).ok:
                    report.wrong.append(f"many: {n} x {m} x {count}, seed {seed}: the judge complains")
        name = f"{n} tokens x {m} labels x {count} soft rules"
        report.proved[f"many, {name}"] = float(np.mean(proved))
        for what, seconds, wanted in (("mean", float(np.mean(took)), mean), ("worst", max(took), worst)):
            if wanted is not None:
                report.within("many", f"{name}: {what} against {1e3 * wanted:g} ms", seconds, wanted, 1.0)
            else:
                report.notes.append(f"many, {name}: {what} {1e3 * seconds:.1f} ms")
