"""Kernels of training against slow twins: sums over all labellings by enumeration, scores, counts.

n tokens of one sequence (t)    m labels (y; i, then j)
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from bridle import _native
from bridle.errors import ModelError
from bridle.features import Encoded
from bridle.models.lbfgs import BLOCK, aim, combine, gradient_of, product, products, take_step
from bridle.models.likelihood import Objective
from bridle.models.linear import MOST_LABELS, Layout, check_labels, width_of
from learning import LAYOUTS, Case, Floats, pinned, random_case, random_task, template_case
from strategies import seeds


def expected(case: Case, w: Floats, pair: Floats | None, single: bool = False) -> tuple[float, Floats, Floats | None]:
    """Return log Z and expectations of all sequences, by the kernel."""
    return case.expected(w, pair, [(0, len(case.encoded))], single)


def enumerated(unary: Floats, pair: Floats) -> tuple[float, Floats, Floats]:
    """log Z, p(y at t) and the expected number of label bigrams, from all labellings."""
    n, m = unary.shape
    paths = np.array(list(itertools.product(range(m), repeat=n)), dtype=np.int64).reshape(-1, n)
    score = unary[np.arange(n), paths].sum(axis=1) + pair[paths[:, :-1], paths[:, 1:]].sum(axis=1)
    log_z = float(np.logaddexp.reduce(score))
    p, node, edge = np.exp(score - log_z), np.zeros((n, m)), np.zeros((m, m))
    for t in range(n):
        np.add.at(node[t], paths[:, t], p)
        if t:
            np.add.at(edge, (paths[:, t - 1], paths[:, t]), p)
    return log_z, node, edge


def in_logs(unary: Floats, pair: Floats) -> tuple[float, Floats, Floats]:
    """Compute expectations by forward-backward on logarithms, which neither overflow nor vanish."""
    n, m = unary.shape
    ahead, back, edge = unary.copy(), np.zeros((n, m)), np.zeros((m, m))
    for t in range(1, n):
        ahead[t] += np.logaddexp.reduce(ahead[t - 1][:, None] + pair, axis=0)
    for t in range(n - 2, -1, -1):
        back[t] = np.logaddexp.reduce(pair + unary[t + 1] + back[t + 1], axis=1)
    log_z = float(np.logaddexp.reduce(ahead[-1]))
    for t in range(1, n):
        edge += np.exp(ahead[t - 1][:, None] + pair + unary[t] + back[t] - log_z)
    return log_z, np.exp(ahead + back - log_z), edge


def compare(
    case: Case, w: Floats, pair: Floats | None, twin: Any, tolerance: float = 1e-10, single: bool = False
) -> None:
    m = case.layout.m
    unary, log_z, state, edges = case.unary(w), 0.0, np.zeros(case.layout.size), np.zeros((m, m))
    for low, high in case.parts:
        if low == high:
            continue
        item, node, edge = twin(unary[low:high], np.zeros((m, m)) if pair is None else pair)
        log_z, edges = log_z + item, edges + edge
        for t in range(low, high):
            case.add(state, t, dict(enumerate(node[t - low])), "any")
    result, found_state, found_edges = expected(case, w, pair, single)
    scale = max(1.0, case.encoded.n_tokens)
    np.testing.assert_allclose(result, log_z, rtol=tolerance, atol=tolerance * scale)
    np.testing.assert_allclose(found_state, state, rtol=tolerance, atol=tolerance * scale)
    if found_edges is not None:
        np.testing.assert_allclose(found_edges, edges, rtol=tolerance, atol=tolerance * scale)


# ---- likelihood -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize(("m", "longest"), [*((m, 5) for m in range(2, 6)), (6, 4), (7, 4), (8, 4), (9, 4), (23, 2)])
def test_expected_counts_are_those_of_all_labellings(kind: str, m: int, longest: int) -> None:
    for rng in seeds(6, m):
        case = random_case(rng, m, kind=kind, longest=longest)
        pair = rng.normal(size=(m, m)) * 2 if rng.random() < 0.7 else None
        compare(case, rng.normal(size=case.layout.size) * 2, pair, enumerated)


def test_expected_counts_of_some_sequences_add_up() -> None:
    for rng in seeds(10):
        case = random_case(rng, 3, kind="seen", sequences=7)
        w, pair = rng.normal(size=case.layout.size), rng.normal(size=(3, 3))
        parts: Any = case.expected(w, pair, [(0, 2), (2, 2), (2, 6), (6, 7)])
        whole: Any = expected(case, w, pair)
        for part, all_at_once in zip(parts, whole, strict=True):
            np.testing.assert_allclose(np.asarray(part), all_at_once, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("m", [2, 7, 8, 9, 24, 30])
def test_attributes_that_come_together_are_counted_as_one(m: int) -> None:
    for rng in seeds(5, m):
        case = template_case(rng, m, 300)
        assert len(case.bundles) == 9  # one for each pair of columns, with both of them
        pair = rng.normal(size=(m, m))
        compare(case, rng.normal(size=case.layout.size), pair, in_logs)
        state = np.zeros(case.layout.size)
        for t in range(case.encoded.n_tokens):
            case.add(state, t, {int(case.y[t]): 1.0}, "only")
        counts = np.zeros(case.bundles.n_slots)
        case.bundles.gold(counts, np.zeros((m, m)))
        np.testing.assert_array_equal(counts[: case.layout.size], state)


@pytest.mark.parametrize("m", [2, 8, 23, 40])
@pytest.mark.parametrize(("scale", "scale_pair"), [(1, 1), (10, 5), (40, 60)])
def test_single_precision_is_off_by_a_millionth(m: int, scale: float, scale_pair: float) -> None:
    """The tolerance that docs/how_it_works.md states; transitions far apart are summed with logarithms."""
    for rng in seeds(4, m):
        case = template_case(rng, m, 200)
        w = (rng.normal(size=case.layout.size) * scale).astype(np.float32).astype(np.float64)
        compare(case, w, rng.normal(size=(m, m)) * scale_pair, in_logs, 2e-6 * max(scale, scale_pair), single=True)


@pytest.mark.parametrize(("most", "most_pair"), [(300, 100), (150, 300), (300, 300)])
def test_large_weights_stay_finite_and_right(most: float, most_pair: float) -> None:
    for rng in seeds(60):
        m = int(rng.integers(2, 10))
        case = random_case(rng, m, kind="all", longest=8)
        indptr, attrs = np.arange(len(case.y) + 1), rng.integers(0, 7, len(case.y), np.int32)
        item = Encoded(case.encoded.offsets, indptr, attrs)
        extreme = rng.random() < 0.5
        w = rng.choice([-most, most], case.layout.size) if extreme else rng.uniform(-most, most, case.layout.size)
        pair = rng.choice([-1.0, 1.0], (m, m)) if extreme else rng.uniform(-1, 1, (m, m))
        compare(Case(item, case.y, case.layout), w.astype(float), most_pair * pair, in_logs, 1e-9)


def test_no_path_gets_lost_between_large_weights() -> None:
    """Labels 1 1 1 and 0 0 1 have the same score; the first one passes through two tokens that it is bad at."""
    encoded = Encoded(np.array([0, 3]), np.arange(4), np.array([0, 0, 1], dtype=np.int32))
    case = Case(encoded, np.zeros(3, dtype=np.int32), Layout.all_pairs(2, 2))
    w = np.zeros((2, width_of(2)))
    w[0, :2], w[1, :2] = (300, -300), (-300, 300)
    compare(case, w.ravel(), np.array([[-300.0, -300.0], [-300.0, 300.0]]), in_logs)


def test_a_sequence_of_5000_tokens() -> None:
    rng = np.random.default_rng(1)
    n, m = 5000, 5
    attrs = rng.integers(0, 50, n, np.int32)
    encoded = Encoded(np.array([0, n]), np.arange(n + 1), attrs, rng.normal(size=n).astype(np.float32))
    case = Case(encoded, rng.integers(0, m, n, np.int32), Layout.all_pairs(50, m))
    compare(case, rng.normal(size=case.layout.size) * 3, rng.normal(size=(m, m)) * 3, in_logs, 1e-9)


def test_gradient_of_the_loss_is_its_slope() -> None:
    for rng in seeds(25, 3):
        task = random_task(random_case(rng, int(rng.integers(2, 12)), kind="seen", sequences=4), rng)
        objective = Objective(task, float(rng.uniform(0, 2)), int(rng.integers(1, 4)))
        fixed = pinned(task)
        w = np.where(fixed, 0.0, rng.normal(size=objective.size))
        gradient = objective(w)[1].copy()
        assert not gradient[fixed].any()
        for k in rng.permutation(np.flatnonzero(~fixed))[:8].tolist():
            step = np.zeros(len(w))
            step[k] = 1e-5
            slope = (objective(w + step)[0] - objective(w - step)[0]) / 2e-5
            assert gradient[k] == pytest.approx(slope, rel=1e-6, abs=1e-6)


def test_gold_counts() -> None:
    for rng in seeds(30, 4):
        m = int(rng.integers(2, 24))
        case = random_case(rng, m, kind=str(rng.choice(LAYOUTS)))
        state, edges = np.zeros(case.layout.size), np.zeros((m, m))
        for low, high in case.parts:
            for t in range(low, high):
                case.add(state, t, {int(case.y[t]): 1.0}, "only")
                edges[case.y[t - 1], case.y[t]] += t > low
        counts, found_edges = np.zeros(case.bundles.n_slots), np.zeros((m, m))
        case.bundles.gold(counts, found_edges)
        result = counts[: case.layout.size]
        np.testing.assert_allclose(result, state, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(found_edges, edges)
        alone = np.zeros(case.bundles.n_slots)
        case.bundles.gold(alone, None)
        np.testing.assert_array_equal(alone, counts)


def test_seen_pairs_are_what_the_layout_lets_free() -> None:
    for rng in seeds(20, 5):
        m = int(rng.choice([2, 7, 63, 64, 65, 130]))
        case = random_case(rng, m, kind="seen", sequences=5)
        together = {(a, int(case.y[t])) for t in range(case.encoded.n_tokens) for a, _ in case.entries(t)}
        bits = np.zeros((7, -(-m // 64)), dtype=np.uint64)
        _native.seen_pairs(case.encoded.native(case.y), bits.shape[1], bits)
        assert {(a, y) for a in range(7) for y in range(m) if int(bits[a, y // 64]) >> y % 64 & 1} == together
        free = np.ones(case.layout.size) if case.layout.free is None else case.layout.free
        assert {(a, y) for (a, y), s in np.ndenumerate(case.slot) if s >= 0 and free[s]} == together
        assert case.layout.n_weights == len(together)


def test_scores_of_tokens() -> None:
    for rng in seeds(30, 6):
        m = int(rng.choice([2, 5, 8, 9, 17, 23, 31, 40]))
        case = random_case(rng, m, kind=str(rng.choice(LAYOUTS)), longest=300 if rng.random() < 0.1 else 5)
        w, n = rng.normal(size=case.layout.size), case.encoded.n_tokens
        unary = case.unary(w)
        first, last = sorted(rng.integers(0, n + 1, 2).tolist())
        some = np.full((last - first, m), np.nan)
        case.joined.score(first, w, some)
        np.testing.assert_allclose(some, unary[first:last], rtol=1e-12, atol=1e-12)
        single = np.full((n, m), np.nan, dtype=np.float32)
        case.layout.native.score(case.encoded.native(), w.astype(np.float32), single, _native.Stop())
        np.testing.assert_allclose(single, case.unary(w.astype(np.float32)), rtol=1e-5, atol=1e-5)
        values = None if case.encoded.values is None else case.encoded.values.astype(np.float64)
        double = np.full((n, m), np.nan)
        case.layout.native.score_in_double(case.encoded.indptr, case.encoded.attrs, values, w, double, _native.Stop())
        np.testing.assert_allclose(double, unary, rtol=1e-12, atol=1e-12)
        other = np.ones(len(case.encoded.attrs) + 1)
        with pytest.raises(ValueError, match="another length"):
            case.layout.native.score_in_double(
                case.encoded.indptr, case.encoded.attrs, other, w, double, _native.Stop()
            )


def test_scores_of_as_many_labels_as_there_may_be() -> None:
    """A full row is then as long as 16 bits can count."""
    m = MOST_LABELS
    check_labels(m)
    with pytest.raises(ModelError):
        check_labels(m + 1)
    layout = Layout.all_pairs(1, m)
    w = np.arange(layout.size, dtype=np.float32)
    encoded, out = (
        Encoded(np.array([0, 1]), np.array([0, 1]), np.zeros(1, dtype=np.int32)),
        np.empty((1, m), np.float32),
    )
    layout.native.score(encoded.native(), w, out, _native.Stop())
    np.testing.assert_array_equal(out[0], w[:m])
    joined = np.empty((1, m))
    _native.Joined(layout.native, encoded.native()).score(0, w.astype(np.float64), joined)
    np.testing.assert_array_equal(joined[0], w[:m])


# ---- long vectors ---------------------------------------------------------------------------------------------------


SIZES = [1, 7, 8, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 13, 2**17 + 5, 300_000]


@pytest.mark.parametrize("size", SIZES)
def test_sums_and_products_of_long_vectors(size: int) -> None:
    """Right, and exactly the same in any number of threads."""
    rng = np.random.default_rng(size)
    rows, shares = [rng.normal(size=size) for _ in range(5)], rng.normal(size=5)
    result = product(rows[3], rows[1])
    assert result == pytest.approx(float(rows[3] @ rows[1]), rel=1e-9, abs=1e-9)
    out, wanted = np.full(size, np.nan), shares @ np.array(rows)
    combine(shares.tolist(), rows, out=out)
    np.testing.assert_allclose(out, wanted, rtol=1e-12, atol=1e-12)
    gradient = np.empty(size)
    sums = gradient_of(rows[:3], rows[3], rows[4], 0.3, out=gradient)
    np.testing.assert_allclose(gradient, sum(rows[:3]) - rows[3] + 0.3 * rows[4], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sums, [rows[4] @ rows[3], rows[4] @ rows[4]], rtol=1e-9, atol=1e-9)
    for threads in (2, 3, 8):
        assert product(rows[3], rows[1], threads) == result
        own = [row.copy() for row in rows]
        combine(shares.tolist(), own, out=own[2], threads=threads)
        np.testing.assert_array_equal(own[2], out)
        assert all((own[k] == rows[k]).all() for k in (0, 1, 3, 4))
        again = np.empty(size)
        assert gradient_of(rows[:3], rows[3], rows[4], 0.3, out=again, threads=threads) == sums
        np.testing.assert_array_equal(again, gradient)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("size", SIZES)
def test_what_lbfgs_asks_of_long_vectors(size: int, kind: Any) -> None:
    """A step taken, products with the history, a direction: right, and the same in any number of threads."""
    rng = np.random.default_rng(size)
    there, w, gradient, g, p = (rng.normal(size=size) for _ in range(5))

    def work(threads: int) -> list[Any]:
        s, y, before = np.empty(size, kind), np.empty(size, kind), g.copy()
        sums = take_step(there, w, gradient, before, s, y, threads)
        result = products([s, y], y, p, threads)
        d, trial = np.empty(size), np.empty(size)
        slope = aim([-0.5, 0.25, 2.0], p, [s, y], w, 0.7, d=d, there=trial, threads=threads)
        return [s, y, before, np.array(sums), result, d, trial, slope]

    s, y, before, sums, results, d, trial, slope = item = work(1)
    np.testing.assert_array_equal(s, (there - w).astype(kind))
    np.testing.assert_array_equal(y, (gradient - g).astype(kind))
    np.testing.assert_array_equal(before, gradient)
    s, y = s.astype(float), y.astype(float)
    close: Any = {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(sums, [s @ y, y @ y, gradient @ gradient, there @ there], **close)
    np.testing.assert_allclose(results, [[s @ y, s @ p], [y @ y, y @ p]], **close)
    np.testing.assert_allclose(d, -0.5 * p + 0.25 * s + 2 * y, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(trial, w + 0.7 * d, rtol=1e-12, atol=1e-12)
    assert slope == pytest.approx(float(d @ p), rel=1e-9, abs=1e-9)
    for threads in (2, 5):
        for a, b in zip(item, work(threads), strict=True):
            np.testing.assert_array_equal(a, b)
