"""Sub-words become words and back, and the labels of a model are read from its configuration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bridle
from bridle.integrations.logits import batch, log_softmax, pool_words, softmax


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.integers(0, 99))
def test_words_by_their_plain_definitions(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(sum(sizes), 4)) * 3
    first = np.cumsum([0, *sizes[:-1]])
    p = softmax(logits)
    words = [p[a : a + size] for a, size in zip(first, sizes, strict=True)]
    np.testing.assert_allclose(softmax(pool_words(logits, first, "first")), [word[0] for word in words])
    np.testing.assert_allclose(softmax(pool_words(logits, first, "mean")), [word.mean(axis=0) for word in words])
    surest = [word[word.max(axis=1).argmax()] for word in words]
    np.testing.assert_allclose(softmax(pool_words(logits, first, "max")), surest)


def test_small_probabilities_stay_possible() -> None:
    """In single precision exp(-200) is 0, and a rule that asks for such a label would have no answer."""
    logits = np.array([[200, 0]], dtype=np.float32)
    assert softmax(logits)[0, 1] == 0
    assert log_softmax(logits)[0, 1] == -200
    packed, _ = batch(logits[None])
    assert bridle.Decoder(["O", "X"], ["present X"]).decode_batch(packed).labels == [["X"]]


def test_padding_and_special_tokens_are_left_out() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3, 5, 2))
    logits[0, 3:] = np.nan  # what padding holds is of no interest
    word_ids = [[None, 0, 0, -1, -1], [None, 0, 1, 3, None], [None] * 5]
    mask = [[1, 1, 1, 0, 0], [1] * 5, [1, 1, 0, 0, 0]]
    packed, back = batch(logits, mask, word_ids)
    assert packed.offsets.tolist() == [0, 1, 5, 5]
    assert back.words == [[0], [0, 1, 2, 3], []]  # word 2 of the second sequence has no sub-words
    decodings = bridle.Decoder(["A", "B"]).decode_batch(packed)
    y = logits.argmax(axis=-1)
    assert back(decodings).tolist() == [
        [-100, y[0, 1], y[0, 1], -100, -100],
        [-100, y[1, 1], y[1, 2], y[1, 3], -100],
        [-100] * 5,
    ]


@given(st.lists(st.lists(st.integers(0, 2), max_size=6), min_size=1, max_size=4), st.integers(0, 99))
def test_words_without_sub_words_keep_a_row(sizes: list[list[int]], seed: int) -> None:
    """`sizes` are the numbers of sub-words of each word. Rules about positions count the words of the caller."""
    rng, length = np.random.default_rng(seed), max(sum(row) for row in sizes) + 1
    ids = [[word for word, size in enumerate(row) for _ in range(size)] for row in sizes]
    word_ids = [[*row, *[None] * (length - len(row))] for row in ids]
    logits = rng.normal(size=(len(sizes), length, 3))
    packed, back = batch(logits, word_ids=word_ids, n_words=list(map(len, sizes)))
    assert back.words == [list(range(len(row))) for row in sizes]
    decodings = bridle.Decoder(["A", "B", "C"]).decode_batch(packed)
    for b, row in enumerate(sizes):
        best = logits[b].argmax(axis=1)
        expected = {word: best[ids[b].index(word)] for word in ids[b]}
        assert back(decodings)[b].tolist() == [-100 if word is None else expected[word] for word in word_ids[b]]
        for word, size in enumerate(row):
            scores = packed.unary[packed.offsets[b] + word]
            assert np.exp(scores).sum() == pytest.approx(1.0) and (size or np.ptp(scores) == 0)
    inside = batch(logits, word_ids=word_ids)[1].words  # without the count, only gaps between others are known
    assert inside == [list(range(row[0], row[-1] + 1)) if row else [] for row in ids]


def test_words_that_the_mask_leaves_out_have_no_row() -> None:
    assert batch(np.zeros((1, 4, 2)), [[1, 0, 1, 1]], [[0, 1, 3, 3]])[1].words == [[0, 2, 3]]
    assert batch(np.zeros((1, 4, 2)), None, [[0, 1, 0, 1]])[1].words == [[0, 1, 0, 1]]  # two texts in one sequence
    for word_ids, n_words in (([[0, 1 << 40]], None), ([[0, 1]], [1]), ([[0, 1]], [2, 2]), ([[0, 1]], [-1])):
        with pytest.raises(bridle.LatticeError, match=r"word_ids are not the numbers|n_words does not fit"):
            batch(np.zeros((1, 2, 2)), word_ids=word_ids, n_words=n_words)


def test_a_mask_may_have_holes() -> None:
    packed, back = batch(np.array([[[1, 0], [5, 5], [0, 1]]], dtype=float), [[1, 0, 1]])
    decodings = bridle.Decoder(["A", "B"]).decode_batch(packed)
    assert back(decodings, fill=-1).tolist() == [[0, -1, 1]]
    assert back.words == [[0, 2]]


def test_sequences_without_an_answer() -> None:
    packed, back = batch(np.zeros((2, 2, 2)), [[1, 1], [1, 0]])
    decoder = bridle.Decoder(["A", "B"], ["at least 2 tokens of A"], on_infeasible="skip")
    assert back(decoder.decode_batch(packed)).tolist() == [[0, 0], [-100, -100]]


def test_scores_of_transitions_come_along() -> None:
    pairwise = np.array([[0, -9], [-9, 0]])
    packed, _ = batch(np.array([[[1.0, 0], [0, 2.0]]]), pairwise=pairwise, start=[0, 0], end=[5, 0])
    assert bridle.Decoder(["A", "B"]).decode_batch(packed).labels == [["A", "A"]]


@pytest.mark.parametrize(
    ("logits", "mask", "word_ids", "message"),
    [
        (np.zeros((2, 3)), None, None, "logits has a wrong shape"),
        (np.zeros((1, 2, 3)), [[1, 1, 1]], None, "mask has a wrong shape"),
        (np.zeros((1, 2, 3)), None, [[0]], r"word_ids do not fit the logits; got 1 sequences of \[1\] positions"),
        (np.zeros((1, 2, 3)), None, [[0, 1]] * 2, "word_ids do not fit"),
        (np.full((1, 2, 3), np.nan), None, None, r"logits\[0, 0\] are not scores; got \[nan, nan, nan\]"),
        ("abc", None, None, "logits is not an array of numbers"),
        (np.zeros((1, 2, 0)), None, None, "the logits have no labels"),
        *(
            (np.zeros((1, 2, 3)), None, word_ids, "word_ids are not the numbers of words")
            for word_ids in ([0, 1], [["a", 0]], ["ab"], [[np.nan, 0]], [[0.5, 1]], [[2**70, 0]], [None], 7)
        ),
        *(
            (np.zeros((1, 2, 3)), mask, None, "mask is not an array of numbers")
            for mask in ([["1", "0"]], [[None, 1]], [[1, 1], [1]], [[np.nan, 1]], "11")
        ),
    ],
)
def test_what_does_not_fit(logits: Any, mask: Any, word_ids: Any, message: str) -> None:
    with pytest.raises(bridle.LatticeError, match=message):
        batch(logits, mask, word_ids)


@pytest.mark.parametrize("pool", ["first", "mean", "max"])
@pytest.mark.parametrize("at", [0, 1, 3])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_sub_words_that_have_no_scores(pool: Any, at: int, value: float) -> None:
    """A word never gets the scores of another one: even a sub-word that is not looked at must have some."""
    logits = np.array([[[1, 0, 0], [2, 0, 0], [0, 5, 0], [0, 0, 9.0]]])
    logits[0, at, 0] = value
    with pytest.raises(bridle.LatticeError, match=rf"logits\[0, {at}\] are not scores; got \[{value}"):
        batch(logits, word_ids=[[0, 0, 1, 1]], pool=pool)
    with pytest.raises(bridle.LatticeError, match="not for all labels"):
        batch(np.full((1, 1, 2), -np.inf), pool=pool)


@pytest.mark.parametrize("pool", ["first", "mean", "max"])
def test_impossible_labels_and_large_logits(pool: Any) -> None:
    logits = np.array([[[3e38, -3e38, -np.inf], [3e38, 3e38, -np.inf], [-3e38, 3e38, 0]]], dtype=np.float32)
    packed, _ = batch(logits, word_ids=[[0, 0, 1]], pool=pool)
    assert bridle.Decoder(["A", "B", "C"]).decode_batch(packed).labels == [["A", "B"]]


def test_word_ids_and_masks_of_other_kinds() -> None:
    word_ids, mask = np.array([[-1, 0, 0]]), np.array([[1.0, 1.0, 0.0]])
    assert batch(np.zeros((1, 3, 2)), mask, word_ids)[1].words == [[0]]
    assert batch(np.zeros((1, 3, 2)), [[True, True, False]], [(np.int32(4), 5, None)])[1].words == [[4, 5]]


@pytest.mark.parametrize("other", [np.zeros((1, 2, 2)), np.zeros((1, 9, 2)), np.zeros((2, 3, 2)), np.zeros((3, 1, 2))])
def test_decodings_of_another_batch(other: Any) -> None:
    _, back = batch(np.zeros((1, 3, 2)))
    decodings = bridle.Decoder(["A", "B"]).decode_batch(batch(other)[0])
    with pytest.raises(bridle.LatticeError, match=r"to another batch; got . sequences.*wanted 1 sequences of 3 words"):
        back(decodings)


def test_unknown_pool() -> None:
    with pytest.raises(bridle.EngineError, match="unknown pool; got 'last'"):
        batch(np.zeros((1, 1, 1)), pool="last")  # type: ignore[arg-type]


def test_nothing_to_label() -> None:
    for shape in ((0, 4, 3), (2, 0, 3)):
        packed, back = batch(np.zeros(shape))
        decodings = bridle.Decoder(["A", "B", "C"]).decode_batch(packed)
        assert back(decodings).shape == shape[:2]
