"""Many rules that interact: noise for scores, sticky transitions, rules about presence, order and neighbours."""

from __future__ import annotations

import numpy as np

import bridle
from bridle import Labels, Lattice
from bridle import rules as r
from bridle.rules import Rule


def random_rules(rng: np.random.Generator, m: int, count: int) -> list[Rule]:
    """Distinct rules about presence, order and neighbours."""
    distinct: dict[Rule, None] = {}
    while len(distinct) < count:
        a, b = (f"L{k}" for k in rng.choice(m, 2, replace=False))
        kinds = [
            r.before(a, b),
            r.at_most(1, of=a),
            r.exactly(1, of=a),
            ~(r.present(a) & r.present(b)),
            r.if_present(a, then=b),
            r.forbid_transition(a, b),
            r.followed_by(a, b),
        ]
        distinct.setdefault(kinds[int(rng.integers(len(kinds)))])
    return list(distinct)


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
    distinct: dict[Rule, None] = {}
    while len(distinct) < count:  # one in twenty does not hold on the hidden labelling
        for rule in random_rules(rng, m, count):
            if len(distinct) < count and (rule.holds(hidden, labels) or rng.random() < 0.05):
                distinct.setdefault(rule)
    rules: list[Rule] = []
    for rule in distinct:
        hard = rng.random() < 0.5 and rule.holds(hidden, labels)
        rules.append(rule if hard else rule.soft(round(float(rng.uniform(0.5, 1.5) * penalty), 2)))
    pairwise = rng.normal(0, 0.3, (m, m)) + 1.5 * np.eye(m)
    lattices = []
    for _ in range(size):
        unary = rng.normal(0, 1.5, (n, m))
        unary[np.arange(n), hidden] += edge
        lattices.append(Lattice(unary, pairwise))
    return labels, rules, lattices


def clashing_set(n: int, m: int, count: int, size: int, seed: int) -> tuple[Labels, list[Rule], list[Lattice]]:
    """`size` lattices under `count` hard rules that no labelling obeys."""
    rng = np.random.default_rng([9, seed])
    labels = Labels([f"L{k}" for k in range(m)])
    while True:
        rules = random_rules(rng, m, count)
        pairwise = rng.normal(0, 0.3, (m, m)) + 1.5 * np.eye(m)
        lattices = [Lattice(rng.normal(0, 1.5, (n, m)), pairwise) for _ in range(size)]
        if bridle.Decoder(labels, rules, on_infeasible="skip").decode(lattices[0]).status == "infeasible":
            return labels, rules, lattices
