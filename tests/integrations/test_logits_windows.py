"""Windows of a document are put together: every token once, from the window in which it has the most context."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bridle
from bridle.integrations.logits import Tokens, join_windows


def cut(n: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """Windows as tokenizers make them: of `size` tokens, the last one of as many as are left."""
    result = [(0, min(n, size))]
    while result[-1][1] < n:
        low = result[-1][0] + size - overlap
        result.append((low, min(n, low + size)))
    return result


def windows_of(n: int, size: int, overlap: int, rng: np.random.Generator) -> list[Tokens]:
    """Of a document with the tokens 0 .. n-1; every window has scores of its own."""
    return [
        Tokens(
            rng.normal(size=(high - low, 3)),
            np.arange(low, high),
            np.arange(1, high - low + 1),
            np.stack([np.arange(low, high), np.arange(low, high) + 1], axis=1),
            np.arange(low, high) // 2,
        )
        for low, high in cut(n, size, overlap)
    ]


@given(st.integers(0, 60), st.integers(2, 20), st.data())
def test_every_token_has_the_scores_of_the_window_with_most_context(n: int, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    parts = windows_of(n, size, overlap, np.random.default_rng(n))
    built, places = join_windows(parts, overlap), cut(n, size, overlap)
    assert built.ids.tolist() == list(range(n))
    assert built.index.tolist() == list(range(1, n + 1))
    assert built.offsets is not None and built.offsets[:, 0].tolist() == list(range(n))
    assert built.words is not None and built.words.tolist() == [t // 2 for t in range(n)]
    for t in range(n):
        mine = [k for k, (low, high) in enumerate(places) if low <= t < high]
        used = [k for k in mine if (parts[k].logits[t - places[k][0]] == built.logits[t]).all()]
        assert len(used) == 1
        # The least distance to an edge that is not an end of the document: no neighbour has more.
        context = {k: min(t - places[k][0] if k else n, places[k][1] - 1 - t if places[k][1] < n else n) for k in mine}
        assert all(context[used[0]] >= context[k] - 1 for k in mine if abs(k - used[0]) == 1)


@given(st.integers(1, 40), st.integers(2, 12), st.data())
def test_the_mean_of_probabilities(n: int, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    parts = windows_of(n, size, overlap, np.random.default_rng(n))
    built, total, count = join_windows(parts, overlap, "mean"), np.zeros((n, 3)), np.zeros(n)
    for part in parts:
        p = np.exp(part.logits)
        total[part.ids] += p / p.sum(axis=1, keepdims=True)
        count[part.ids] += 1
    p = np.exp(built.logits)
    np.testing.assert_allclose(p / p.sum(axis=1, keepdims=True), total / count[:, None])


def test_windows_that_do_not_overlap_as_told() -> None:
    parts = windows_of(20, 8, 3, np.random.default_rng(0))
    for overlap in (2, 4, 8, -1):
        with pytest.raises(bridle.LatticeError, match="windows 0 and 1 of a document do not share"):
            join_windows(parts, overlap)
