"""Probabilities of segments are sums over all labellings that have them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import bridle
from bridle.decoding.marginals import segment_probabilities
from bridle.labels import Labels, Scheme, Segment
from bridle.rules import Soft

SETS: list[tuple[list[str], Scheme | None]] = [
    (["O", "B-X", "I-X", "B-Y", "I-Y"], "BIO"),
    (["O", "B-X", "I-X", "E-X", "S-X"], "BIOES"),
    (["O", "X", "Y"], "IO"),
    (["X", "Y"], None),
]


@pytest.mark.parametrize(("names", "scheme"), SETS)
@pytest.mark.parametrize("rules", [[], ["at most 1 segment of X"], ["present X", "at most 1 token of X [penalty 1]"]])
@pytest.mark.parametrize("seed", range(8))
def test_against_enumeration(names: list[str], scheme: Scheme | None, rules: list[str], seed: int) -> None:
    rng, labels = np.random.default_rng(seed), Labels(names, scheme)
    decoder, m, n = bridle.Decoder(labels, rules), len(labels), 5
    unary, pairwise, start, end = (2 * rng.normal(size=size) for size in ((n, m), (m, m), m, m))
    unary[rng.random((n, m)) < 0.1] = -np.inf
    pairwise[rng.random((m, m)) < 0.1] = -np.inf
    lattice = bridle.Lattice(unary + 1e6, pairwise, start, end)
    some = [names[y] for y in (*rng.integers(m, size=n - 1), m - 1)]  # the last one is no O
    segments = labels.segments(some)[:: -1 - seed % 2][::-1]  # every second one, or all
    total, sums = 0.0, [0.0] * len(segments)
    for y in product(range(m), repeat=n):
        if any(rule.violations(y, labels, {}) for rule in decoder.rules if not isinstance(rule, Soft)):
            continue
        weight = np.exp(lattice.score(y) - n * 1e6)
        total, there = total + weight, labels.segments(y)
        for k, one in enumerate(segments):
            same = [names[i] for i in y[one.start : one.end]] == some[one.start : one.end]
            sums[k] += weight if same and one in there else 0.0
    assert segments, "there is something to compare"
    if total == 0:
        with pytest.raises(bridle.Infeasible):
            segment_probabilities(decoder, lattice, some, segments)
        return
    assert segment_probabilities(decoder, lattice, some, segments) == pytest.approx(
        [one / total for one in sums], abs=1e-8
    )


def test_what_cannot_be() -> None:
    decoder = bridle.Decoder(Labels(["O", "X"], "IO"), ["at most 0 tokens of X"])
    lattice = bridle.Lattice([[0.0, -np.inf], [0.0, 1.0]])
    assert segment_probabilities(decoder, lattice, ["X", "O"], [Segment(0, 1, "X")]) == [0.0]
    assert segment_probabilities(decoder, lattice, ["O", "X"], [Segment(1, 2, "X")]) == [0.0]
    with pytest.raises(bridle.Infeasible):
        segment_probabilities(decoder.with_rules(["present X", "at most 0 tokens of X"]), lattice, ["O", "O"], [])
