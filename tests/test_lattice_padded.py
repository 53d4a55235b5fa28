"""Padded batches, and scores of other libraries and precisions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridle import Batch, Decoder, Labels, Lattice, LatticeError
from bridle import rules as r
from strategies import seeds

LABELS = Labels(["O", "B-X", "I-X"], "BIO")


def grid(rng: np.random.Generator, dtype: Any = np.float32) -> tuple[Any, Any]:
    count, length = int(rng.integers(1, 6)), int(rng.integers(1, 9))
    scores = rng.normal(size=(count, length, 3)).astype(dtype)
    return scores, rng.integers(0, length + 1, count)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_padded_is_packed(dtype: Any) -> None:
    for rng in seeds(40):
        scores, lengths = grid(rng, dtype)
        pairwise, start, end = rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=3)
        shared: Any = {"pairwise": pairwise, "start": start, "end": end}
        decoder = Decoder(LABELS, [r.well_formed(), r.at_most(1, of="X"), r.ends_with("O").soft(0.5)])
        decodings = decoder.decode_batch(Batch.from_padded(scores, lengths, **shared))
        packed = np.concatenate([row[:n] for row, n in zip(scores, lengths, strict=True)])
        wanted = decoder.decode_batch(Batch(packed, np.concatenate([[0], np.cumsum(lengths)]), **shared))
        np.testing.assert_array_equal(decodings.ids, wanted.ids)
        np.testing.assert_array_equal(decodings.scores, wanted.scores)
        for row, n, decoding in zip(decodings.padded(fill=-7), lengths, wanted, strict=True):
            assert row[:n].tolist() == decoding.ids.tolist() and (row[n:] == -7).all()


def test_padding_on_the_left_and_right() -> None:
    for rng in seeds(30, 1):
        scores, lengths = grid(rng)
        length = scores.shape[1]
        begin = np.array([rng.integers(0, length - n + 1) for n in lengths])
        at = np.arange(length)
        mask = (at >= begin[:, None]) & (at < (begin + lengths)[:, None])
        decodings = Decoder(LABELS).decode_batch(Batch.from_padded(scores, mask=mask.astype(np.uint8))).padded()
        np.testing.assert_array_equal(decodings, np.where(mask, scores.argmax(axis=2), -1))


def test_every_sequence_is_whole_without_lengths() -> None:
    scores = np.zeros((2, 3, 3), dtype=np.float32)
    assert Batch.from_padded(scores).offsets.tolist() == [0, 3, 6]
    assert Decoder(LABELS).decode_batch(Batch.from_padded(scores[:0])).padded().shape == (0, 3)


def test_nothing_is_copied_that_need_not_be() -> None:
    scores = np.zeros((2, 3, 3), dtype=np.float32)
    assert np.shares_memory(Batch.from_padded(scores, [1, 2]).unary, scores)
    assert np.shares_memory(Batch.from_padded(scores, [1, 2]).part(1, 2).unary, scores)


def test_parts_and_single_sequences() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4, 5, 3))
    batch = Batch.from_padded(scores, [5, 0, 2, 3])
    for k, n in enumerate([5, 0, 2, 3]):
        np.testing.assert_array_equal(batch[k].unary, scores[k, :n])
    part = batch.part(1, 3)
    assert len(part) == 2 and part.offsets.tolist() == [0, 0, 2]
    np.testing.assert_array_equal(part[-1].unary, scores[2, :2])
    one_by_one = [Decoder(LABELS).decode(batch[k]).ids.tolist() for k in range(4)]
    assert [d.ids.tolist() for d in Decoder(LABELS).decode_batch(batch, threads=2)] == one_by_one


def test_packed_decodings_are_padded_to_the_longest() -> None:
    batch = Batch(np.eye(3), [0, 1, 1, 3])
    assert Decoder(LABELS).decode_batch(batch).padded(fill=9).tolist() == [[0, 9], [9, 9], [1, 2]]


def test_padding_may_hold_anything() -> None:
    scores = np.zeros((2, 3, 3), dtype=np.float32)
    scores[0, 2], scores[1, 1:] = np.nan, np.inf
    Batch.from_padded(scores, [2, 1])
    with pytest.raises(LatticeError, match=r"scores\[0, 2, 0\] is not a score.*got nan"):
        Batch.from_padded(scores, [3, 1])
    with pytest.raises(LatticeError, match=r"scores\[1, 1, 0\] is not a score.*got inf"):
        Batch.from_padded(scores, mask=[[1, 1, 0], [1, 1, 0]])


BAD: dict[str, tuple[Any, str]] = {
    "two dimensions": (lambda: Batch.from_padded(np.zeros((2, 3))), "scores has a wrong shape"),
    "no labels": (lambda: Batch.from_padded(np.zeros((2, 3, 0))), "unary has no labels"),
    "too long": (lambda: Batch.from_padded(np.zeros((1, 3, 2)), [4]), "a length exceeds the number of tokens; got 4"),
    "negative": (lambda: Batch.from_padded(np.zeros((1, 3, 2)), [-1]), "a length exceeds the number of tokens; got -1"),
    "too many lengths": (lambda: Batch.from_padded(np.zeros((1, 3, 2)), [1, 2]), "lengths has a wrong shape"),
    "lengths of a float": (lambda: Batch.from_padded(np.zeros((1, 3, 2)), [1.5]), "lengths must be integers"),
    "mask of another shape": (lambda: Batch.from_padded(np.zeros((1, 3, 2)), mask=[[1, 1]]), "mask has a wrong shape"),
    "mask with holes": (
        lambda: Batch.from_padded(np.zeros((1, 3, 2)), mask=[[1, 0, 1]]),
        "the mask has padding between tokens",
    ),
    "both": (
        lambda: Batch.from_padded(np.zeros((1, 3, 2)), [1], [[1, 0, 0]]),
        "`lengths` and `mask` cannot be combined",
    ),
    "pairwise": (lambda: Batch.from_padded(np.zeros((1, 3, 2)), pairwise=np.zeros((3, 3))), "pairwise has a wrong"),
    "words": (lambda: Batch.from_padded([[["a"]]]), "scores is not an array of numbers"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_padded_batches(name: str) -> None:
    make, message = BAD[name]
    with pytest.raises(LatticeError, match=message):
        make()


class Tensor:
    """A stand-in for a tensor of torch: a view without a copy, but not if it is under training."""

    def __init__(self, array: Any, device: str = "cpu", dtype: str = "torch.float32") -> None:
        self.array, self.device, self.dtype = array, device, dtype

    def detach(self) -> Tensor:
        return self

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self.device != "cpu":
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        return self.array


class OnlyDlpack:
    """An array that speaks DLPack and nothing else."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_tensors_are_borrowed() -> None:
    scores = np.zeros((2, 3, 3), dtype=np.float32)
    for tensor in (Tensor(scores), OnlyDlpack(scores)):
        assert np.shares_memory(Batch.from_padded(tensor).unary, scores)
    with pytest.raises(LatticeError, match=r"(?s)not an array of numbers.*device cuda:0; move it with \.cpu\(\)"):
        Batch.from_padded(Tensor(scores, device="cuda:0"))


def test_half_precision() -> None:
    values = np.array([[0.5, -2.0, 3.25], [1.0, -np.inf, 0.0]], dtype=np.float32)
    half = Lattice(values.astype(np.float16)).unary
    assert half.dtype == np.float32
    np.testing.assert_array_equal(half, values)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)  # bfloat16: the upper half of a float32
    np.testing.assert_array_equal(Lattice(bits).unary, values)
