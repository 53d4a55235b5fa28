"""Lattices and batches: the score by its definition, shapes, values, and every error."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from bridle.errors import LatticeError
from bridle.lattice import Batch, Lattice
from strategies import labellings, random_lattice, random_scores, seeds

INF, NAN = math.inf, math.nan


def score_by_definition(lattice: Lattice, y: tuple[int, ...]) -> float:
    total = 0.0
    for t, label in enumerate(y):
        total += float(lattice.unary[t, label])
        if t == 0 and lattice.start is not None:
            total += float(lattice.start[label])
        if t == len(y) - 1 and lattice.end is not None:
            total += float(lattice.end[label])
        if t > 0 and lattice.pairwise is not None:
            table = lattice.pairwise if lattice.pairwise.ndim == 2 else lattice.pairwise[t - 1]
            total += float(table[y[t - 1], label])
    return total


def test_score_is_its_definition() -> None:
    for rng in seeds(120):
        n, m = int(rng.integers(0, 5)), int(rng.integers(1, 4))
        lattice = random_lattice(rng, n, m)
        for y in labellings(n, m):
            assert lattice.score(y) == score_by_definition(lattice, y)
        if n:
            assert lattice.score(np.zeros(n, dtype=np.int8)) == lattice.score([0] * n)


def test_scores_of_float32_are_summed_in_double() -> None:
    unary = np.full((1000, 1), 0.1, dtype=np.float32)
    assert Lattice(unary).score([0] * 1000) == pytest.approx(1000 * float(np.float32(0.1)), abs=1e-9)


def test_impossible_stays_impossible() -> None:
    lattice = Lattice([[0.0, -INF], [1.0, 2.0]])
    assert lattice.score([1, 1]) == -INF and lattice.score([0, 1]) == 2.0


def test_shapes_that_fit() -> None:
    for n in (0, 1, 2, 5):
        for pairwise in (None, np.zeros((3, 3)), np.zeros((max(n - 1, 0), 3, 3))):
            lattice = Lattice(np.zeros((n, 3)), pairwise, np.zeros(3), np.zeros(3))
            assert len(lattice) == n and lattice.n_labels == 3
            assert lattice.score([0] * n) == 0.0
    assert repr(Lattice(np.zeros((2, 3)), end=np.zeros(3))) == "Lattice(2 positions x 3 labels, end)"


def test_dtypes() -> None:
    for kind in (np.float32, np.float64):
        lattice = Lattice(np.zeros((2, 3), dtype=kind), np.zeros((3, 3), dtype=kind))
        assert lattice.unary.dtype == kind and lattice.pairwise is not None and lattice.pairwise.dtype == kind
    for other in (np.longdouble, np.int32, np.uint8, np.bool_, ">f8", ">f4", object):
        unary = Lattice(np.ones((2, 3), dtype=other)).unary
        assert unary.dtype == np.float64 and unary.dtype.isnative and (unary == 1).all()
    assert Lattice([[1, 2]]).unary.dtype == np.float64


def test_arrays_are_never_changed() -> None:
    unary = np.arange(6.0).reshape(2, 3)
    assert Batch(unary, [0, 2]).unary is unary and unary.flags.writeable  # a batch borrows
    across = Lattice(unary.T).unary
    assert across.flags.c_contiguous and across.tolist() == unary.T.tolist()
    frozen = unary.copy()
    frozen.flags.writeable = False
    Lattice(frozen).score([0, 1])
    with pytest.raises(AttributeError):
        Lattice(unary).unary = unary  # type: ignore[misc]


def test_batch_is_its_sequences() -> None:
    for rng in seeds(30, key=1):
        m = int(rng.integers(1, 4))
        sizes = rng.integers(0, 4, int(rng.integers(0, 5)))
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(_one_of(rng, [np.int64, np.int32, np.uint16]))
        unary = random_scores(rng, (int(sizes.sum()), m), 0.1)
        pairwise = random_scores(rng, (m, m)) if rng.random() < 0.5 else None
        start = random_scores(rng, (m,)) if rng.random() < 0.5 else None
        batch = Batch(unary, offsets, pairwise, start)
        assert len(batch) == len(sizes) and batch.n_labels == m and batch.offsets.dtype == np.int64
        rows = list(batch)
        assert [len(lattice) for lattice in rows] == sizes.tolist()
        for k, lattice in enumerate(rows):
            alone = Lattice(unary[offsets[k] : offsets[k + 1]], pairwise, start)
            for y in labellings(len(lattice), m):
                assert lattice.score(y) == batch[k - len(sizes)].score(y) == alone.score(y)


def _one_of(rng: np.random.Generator, items: list[Any]) -> Any:
    return items[int(rng.integers(len(items)))]


def test_batch_has_no_other_sequences() -> None:
    batch = Batch(np.zeros((3, 2)), [0, 1, 3])
    for k in (2, -3):
        with pytest.raises(IndexError):
            batch[k]
    with pytest.raises(IndexError):
        Batch(np.zeros((0, 2)), [0])[0]


U = np.zeros((3, 2))


def _with(value: float, *at: int, shape: tuple[int, ...] = (3, 2)) -> np.ndarray[Any, Any]:
    array = np.zeros(shape)
    array[at] = value
    return array


BAD: list[tuple[Any, str]] = [
    (lambda: Lattice(np.zeros(3)), "unary has a wrong shape; got (3,)"),
    (lambda: Lattice(np.zeros((2, 3, 4))), "batch or a transpose"),
    (lambda: Lattice(3.0), "wrong shape; got ()"),
    (lambda: Lattice([]), "wrong shape"),
    (lambda: Lattice(np.zeros((3, 0))), "no labels"),
    (lambda: Lattice([[1, 2], [3]]), "not an array of numbers"),
    (lambda: Lattice("scores"), "not an array of numbers"),
    (lambda: Lattice([["a", "b"]]), "not an array of numbers"),
    (lambda: Lattice(object()), "not an array of numbers"),
    (lambda: Lattice([[10**400]]), "not an array of numbers"),
    (lambda: Lattice(np.zeros((2, 2), dtype=complex)), "not an array of numbers"),
    (lambda: Lattice(None), "unary"),
    (lambda: Lattice(_with(NAN, 1, 1)), "unary[1, 1] is not a score; got nan"),
    (lambda: Lattice(_with(INF, 2, 0)), "unary[2, 0] is not a score; got inf"),
    (lambda: Lattice(_with(NAN, 0, 0).astype(np.float32)), "unary[0, 0]"),
    (lambda: Lattice([[-INF, NAN]]), "unary[0, 1]"),
    (lambda: Lattice([[None, 1.0]]), "unary[0, 0]"),
    (lambda: Lattice(U, np.zeros((2, 3))), "pairwise has a wrong shape; got (2, 3); wanted (2, 2) (labels x labels)"),
    (lambda: Lattice(U, np.zeros((3, 2, 2))), "wanted (2, 2, 2)"),
    (lambda: Lattice(U, np.zeros(2)), "pairwise has a wrong shape"),
    (lambda: Lattice(U, [[1.0], [1.0, 2.0]]), "pairwise is not an array of numbers"),
    (lambda: Lattice(U, "x"), "pairwise"),
    (lambda: Lattice(U, _with(INF, 1, 0, shape=(2, 2))), "pairwise[1, 0] is not a score"),
    (lambda: Lattice(U, _with(NAN, 1, 0, 1, shape=(2, 2, 2))), "pairwise[1, 0, 1]"),
    (lambda: Lattice(U, start=np.zeros(3)), "start has a wrong shape; got (3,); wanted (2)"),
    (lambda: Lattice(U, end=[NAN, 0]), "end[0] is not a score"),
    (lambda: Lattice(U).score([0, 0]), "another length"),
    (lambda: Lattice(U).score([[0, 0, 0]]), "another length"),  # type: ignore[list-item]
    (lambda: Lattice(np.zeros((0, 2))).score([0]), "another length"),
    (lambda: Lattice(U).score([0, 0, 2]), "an invalid label id; got [0, 0, 2]; wanted integers 0 .. 1"),
    (lambda: Lattice(U).score([0, 0, -1]), "an invalid label id"),
    (lambda: Lattice(U).score([0, 0, 0.5]), "an invalid label id"),  # type: ignore[list-item]
    (lambda: Lattice(U).score(["A", "A", "B"]), "Labels.ids()"),  # type: ignore[list-item]
    (lambda: Batch(np.zeros(3), [0, 3]), "unary has a wrong shape"),
    (lambda: Batch(np.zeros((3, 0)), [0, 3]), "no labels"),
    (lambda: Batch(_with(NAN, 1, 1), [0, 3]), "unary[1, 1]"),
    (lambda: Batch(U, [0, 2]), "got [0, 2]; wanted increasing integers from 0 to 3"),
    (lambda: Batch(U, [1, 3]), "increasing integers"),
    (lambda: Batch(U, [0, 2, 1, 3]), "increasing integers"),
    (lambda: Batch(U, np.array([0, 2, 1, 3], dtype=np.uint8)), "increasing integers"),
    (lambda: Batch(U, [0, 4, 3]), "increasing integers"),
    (lambda: Batch(U, 3), "increasing integers"),
    (lambda: Batch(U, [[0, 3]]), "increasing integers"),
    (lambda: Batch(U, list(range(9))), "..."),
    (lambda: Batch(U, []), "must be integers"),
    (lambda: Batch(U, [0.0, 1.5, 3.0]), "must be integers"),
    (lambda: Batch(U, [0, NAN]), "must be integers"),
    (lambda: Batch(U, None), "must be integers"),
    (lambda: Batch(U, "03"), "must be integers"),
    (lambda: Batch(U, [[0], [1, 2]]), "must be integers"),
    (lambda: Batch(U, [0, 3], np.zeros((2, 2, 2))), "pairwise has a wrong shape"),
    (lambda: Batch(U, [0, 3], start=np.zeros(3)), "start has a wrong shape"),
    (lambda: Batch(U, [0, 3], end=[0, INF]), "end[1]"),
]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_bad_scores_are_typed_errors(case: int) -> None:
    make, text = BAD[case]
    with pytest.raises(LatticeError, match=re.escape(text)) as caught:
        make()
    error = caught.value
    assert error.what and error.got is not None and error.wanted is not None
