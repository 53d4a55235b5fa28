"""Probabilities with scores of any size: right to `LARGEST_ERROR`, or a typed error, never silently wrong.

Those of segments are sums over all labellings that have them.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle import Decoder, Infeasible, Labels, Lattice, LatticeError
from bridle import rules as r
from bridle.decoding.marginals import LARGEST_ERROR, log_probability
from bridle.decoding.problem import Problem
from bridle.labels import Scheme, Segment
from segment_sums import segment_probabilities

LABELS = Labels(["O", "A", "B"])
LOWEST = float(np.finfo(np.float32).min)
HUGE = [LOWEST, -1e300 * 1e-12, -1e12, -1e9, -1e4, 1e4, 1e12, 1e38]


def exact(lattice: Lattice, rules: list[r.Rule]) -> tuple[list[list[float]], float] | None:
    """Marginals under the rules and P(rules), by enumeration in 400 digits; None: no labelling obeys them."""
    n, m = lattice.unary.shape
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 400, -(10**15), 10**15
        scores = {}
        for y in product(range(m), repeat=n):
            terms = [lattice.unary[t, y[t]] for t in range(n)]
            terms += [] if lattice.pairwise is None else [lattice.pairwise[i, j] for i, j in pairwise(y)]
            terms += [] if lattice.start is None else [lattice.start[y[0]]]
            if -np.inf not in terms:
                scores[y] = sum((Decimal(float(x)) for x in terms), Decimal(0))
        obeying = {y: s for y, s in scores.items() if all(rule.holds(y, LABELS) for rule in rules)}
        if not obeying:
            return None
        top = max(scores.values())
        best = max(obeying.values())
        weights = {y: (s - best).exp() if s - best > -(10**6) else Decimal(0) for y, s in obeying.items()}
        z = sum(weights.values())
        table = [[float(sum(w for y, w in weights.items() if y[t] == k) / z) for k in range(m)] for t in range(n)]
        whole = sum((s - top).exp() if s - top > -(10**6) else Decimal(0) for s in scores.values())
        share = float(z * (best - top).exp() / whole) if best - top > -(10**6) else 0.0
    return table, share


scores = st.one_of(st.floats(-5, 5), st.sampled_from(HUGE), st.just(-np.inf))
RULES = [[], [r.at_most(1, of="A")], [r.fix("A", 0)], [r.present("B"), r.forbid_transition("A", "B")]]


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(1, 3), st.sampled_from(RULES), st.booleans())
def test_probabilities_are_right_or_refused(data: st.DataObject, n: int, rules: list[r.Rule], tables: bool) -> None:
    draw = lambda *shape: np.array([data.draw(scores) for _ in range(int(np.prod(shape)))]).reshape(shape)  # noqa: E731
    lattice = Lattice(draw(n, 3), *((draw(3, 3), draw(3)) if tables else ()))
    wanted, decoder = exact(lattice, rules), Decoder(LABELS, rules)
    try:
        if wanted is not None:
            assert decoder.marginals(lattice) == pytest.approx(np.array(wanted[0]), abs=LARGEST_ERROR)
    except LatticeError:
        assert np.abs(np.nan_to_num(lattice.unary, neginf=0)).max() >= 1e9 or tables
    try:
        if wanted is not None:
            assert decoder.probability(lattice).all == pytest.approx(wanted[1], abs=LARGEST_ERROR)
    except LatticeError:
        assert np.abs(np.nan_to_num(lattice.unary, neginf=0)).max() >= 1e9 or tables


@pytest.mark.parametrize("mask", HUGE[:5])
def test_a_masked_token_does_not_matter(mask: float) -> None:
    """Padding that is masked by a large negative score for all labels but one, or for all."""
    rng = np.random.default_rng(0)
    unary = rng.normal(size=(6, 3))
    clean = Decoder(LABELS, [r.at_most(1, of="A")])
    for columns in (slice(1, 3), slice(0, 3)):
        masked = unary.copy()
        masked[2, columns] = mask
        wanted = unary.copy()
        wanted[2, columns] = -np.inf if columns.start else 0.0
        assert clean.marginals(Lattice(masked)) == pytest.approx(clean.marginals(Lattice(wanted)), abs=1e-9)
        assert clean.marginals(Lattice(masked)).sum(axis=1) == pytest.approx(np.ones(6), abs=1e-12)
        probability, right = clean.probability(Lattice(masked)), clean.probability(Lattice(wanted))
        assert probability.all == pytest.approx(right.all, abs=1e-9)


def test_what_rounding_has_destroyed_is_refused() -> None:
    """Every path crosses a transition of -1e38, beside which other scores vanish: no sum can distinguish the labels."""
    lattice = Lattice([[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]], pairwise=np.full((3, 3), -1e38) + np.diag([1e38, 0, 0]))
    decoder = Decoder(LABELS, [r.forbid("O", 0)])
    for ask in (decoder.marginals, Decoder(LABELS, [r.fix("B", 1), r.forbid("O", 0)]).marginals):
        with pytest.raises(LatticeError, match="too large for probabilities"):
            ask(lattice)
    assert decoder.probability(lattice).all == 0.0  # this much is certain


def test_scores_that_only_differ_by_a_constant_give_the_same() -> None:
    unary = np.random.default_rng(1).normal(size=(5, 3)).round(3)
    decoder = Decoder(LABELS, [r.at_most(1, of="A")])
    for shift in (1e6, -1e6):
        result = decoder.marginals(Lattice(unary + shift))
        assert result == pytest.approx(decoder.marginals(Lattice(unary)), abs=1e-9)


@pytest.mark.parametrize("rules", RULES, ids=len)
def test_the_probability_of_a_labelling(rules: list[r.Rule]) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 5))
        unary = np.where(rng.random((n, 3)) < 0.1, -np.inf, rng.normal(size=(n, 3)) * rng.choice([1.0, 100.0]))
        pairwise = rng.normal(size=(3, 3) if seed % 2 else (n - 1, 3, 3))
        lattice = Lattice(unary, pairwise, rng.normal(size=3), rng.normal(size=3))
        decoder, every = Decoder(LABELS, rules), list(product(range(3), repeat=n))
        obeying = [all(rule.holds(y, LABELS) for rule in rules) for y in every]
        scores = np.array([lattice.score(y) if fine else -np.inf for y, fine in zip(every, obeying, strict=True)])
        total = np.logaddexp.reduce(scores)
        for y, score in zip(every, scores.tolist(), strict=True):
            result = log_probability(Problem.of_one(decoder.compiled, lattice, None), np.array(y), None)
            assert result == (pytest.approx(score - total, abs=1e-9) if score > -np.inf else -np.inf)


# ---- segments -------------------------------------------------------------------------------------------------------

SETS: list[tuple[list[str], Scheme | None]] = [
    (["O", "B-X", "I-X", "B-Y", "I-Y"], "BIO"),
    (["O", "B-X", "I-X", "E-X", "S-X"], "BIOES"),
    (["O", "X", "Y"], "IO"),
    (["X", "Y"], None),
]


@pytest.mark.parametrize(("names", "scheme"), SETS)
@pytest.mark.parametrize("rules", [[], ["at most 1 segment of X"], ["present X", "at most 1 token of X [penalty 1]"]])
@pytest.mark.parametrize("seed", range(8))
def test_segments_against_enumeration(names: list[str], scheme: Scheme | None, rules: list[str], seed: int) -> None:
    rng, labels = np.random.default_rng(seed), Labels(names, scheme)
    decoder, m, n = Decoder(labels, rules), len(labels), 5
    unary, pairwise, start, end = (2 * rng.normal(size=size) for size in ((n, m), (m, m), m, m))
    unary[rng.random((n, m)) < 0.1] = -np.inf
    pairwise[rng.random((m, m)) < 0.1] = -np.inf
    lattice = Lattice(unary + 1e6, pairwise, start, end)
    labelling = [names[y] for y in (*rng.integers(m, size=n - 1), m - 1)]  # the last one is no O
    segments = labels.segments(labelling)[:: -1 - seed % 2][::-1]  # every second one, or all
    total, sums = 0.0, [0.0] * len(segments)
    for y in product(range(m), repeat=n):
        if any(rule.violations(y, labels, {}) for rule in decoder.rules if not isinstance(rule, r.Soft)):
            continue
        weight = np.exp(lattice.score(y) - n * 1e6)
        total, there = total + weight, labels.segments(y)
        for k, segment in enumerate(segments):
            same = [names[i] for i in y[segment.start : segment.end]] == labelling[segment.start : segment.end]
            sums[k] += weight if same and segment in there else 0.0
    assert segments, "there is something to compare"
    if total == 0:
        with pytest.raises(Infeasible):
            segment_probabilities(decoder, lattice, labelling, segments)
        return
    assert segment_probabilities(decoder, lattice, labelling, segments) == pytest.approx(
        [part / total for part in sums], abs=1e-8
    )


def test_impossible_segments_have_probability_0() -> None:
    decoder = Decoder(Labels(["O", "X"], "IO"), ["at most 0 tokens of X"])
    lattice = Lattice([[0.0, -np.inf], [0.0, 1.0]])
    assert segment_probabilities(decoder, lattice, ["X", "O"], [Segment(0, 1, "X")]) == [0.0]
    assert segment_probabilities(decoder, lattice, ["O", "X"], [Segment(1, 2, "X")]) == [0.0]
    with pytest.raises(Infeasible):
        segment_probabilities(decoder.with_rules(["present X", "at most 0 tokens of X"]), lattice, ["O", "O"], [])
