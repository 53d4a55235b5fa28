"""Hard problems: many rules that interact. Scores are noise, transitions are sticky."""

from __future__ import annotations

import numpy as np

from bridle import Labels, Lattice
from bridle import rules as r
from bridle.rules import Rule


def random_rules(rng: np.random.Generator, m: int, count: int) -> list[Rule]:
    """Distinct rules about presence, order and neighbours."""
    found: dict[Rule, None] = {}
    while len(found) < count:
        a, b = (f"L{k}" for k in rng.choice(m, 2, replace=False))
        kind = int(rng.integers(7))
        found.setdefault(
            [
                r.before(a, b), r.at_most(1, of=a), r.exactly(1, of=a), ~(r.present(a) & r.present(b)),
                r.if_present(a, then=b), r.forbid_transition(a, b), r.followed_by(a, b),
            ][kind]
        )  # fmt: skip
    return list(found)


def soft_set(
    n: int, m: int, count: int, penalty: float, size: int, seed: int
) -> tuple[Labels, list[Rule], list[Lattice]]:
    """`size` lattices under `count` soft rules with penalties around `penalty`."""
    rng = np.random.default_rng(seed)
    labels = Labels([f"L{k}" for k in range(m)])
    rules: list[Rule] = [rule.soft(round(float(rng.uniform(0.5, 1.5) * penalty), 2)) for rule in random_rules(rng, m, count)]
    pairwise = rng.normal(0, 0.3, (m, m)) + 1.5 * np.eye(m)
    return labels, rules, [Lattice(rng.normal(0, 1.5, (n, m)), pairwise) for _ in range(size)]
