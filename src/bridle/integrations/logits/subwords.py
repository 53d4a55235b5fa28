"""From the logits of a network over sub-words to scores over words, and back. Needs NumPy only.

n sub-words, u words, m labels, B sequences, T positions. The scores of a word are those of its first sub-word
("first"), of the sub-word that is surest of its label ("max"), or the mean of the probabilities of all ("mean").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle.arrays import as_array, check_shape
from bridle.decoding.result import Decodings
from bridle.errors import EngineError, LatticeError, shown
from bridle.lattice import Batch

Array = npt.NDArray[Any]
Pool = Literal["first", "mean", "max"]
Words = Sequence[int | None]  # the word that each sub-word belongs to; None for special tokens


def as_logits(values: Any) -> Array:
    """The logits of a network as an array in main memory, whatever device they are on."""
    return as_array("logits", values.detach().cpu() if hasattr(values, "detach") else values)


def softmax(logits: Array) -> Array:
    """Probabilities, in the precision of the logits."""
    with np.errstate(over="ignore"):  # differences beyond the largest number are -inf, and their probability is 0
        made: Array = np.exp(logits - logits.max(axis=-1, keepdims=True))
    made /= made.sum(axis=-1, keepdims=True)
    return made


def log_softmax(logits: Array) -> Array:
    """Logarithms of probabilities, in double precision: none becomes -inf because it is small."""
    with np.errstate(over="ignore"):
        made: Array = logits - logits.max(axis=-1, keepdims=True).astype(np.float64)
    made -= np.log(np.exp(made).sum(axis=-1, keepdims=True))
    return made


def without_scores(logits: Array) -> Array:
    """The numbers of the rows (n, m) with NaN or +inf, or with nothing but -inf: they have no probabilities."""
    return np.flatnonzero(~np.isfinite(logits.max(axis=-1)))


def pooled(logits: Array, first: Array, how: Pool = "first") -> Array:
    """Make the logits of words of those of their sub-words.

    Parameters
    ----------
    logits : array of float, shape (n, m)
        Every row has a largest number, which is finite (`without_scores`).
    first : array of int, shape (u,)
        The first sub-word of each word, from 0; a word ends where the next one begins.
    how : {"first", "mean", "max"}

    Returns
    -------
    array of float, shape (u, m)

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.log([[0.6, 0.4], [0.1, 0.9], [0.5, 0.5]])
    >>> for how in ("first", "mean", "max"):
    ...     print(softmax(pooled(logits, np.array([0, 2]), how)).round(2).tolist())
    [[0.6, 0.4], [0.5, 0.5]]
    [[0.35, 0.65], [0.5, 0.5]]
    [[0.1, 0.9], [0.5, 0.5]]
    """
    if how == "first" or len(first) == len(logits):
        return logits[first]
    sizes = np.diff(first, append=len(logits))
    if how == "max":
        surest = softmax(logits).max(axis=-1)
        best = np.flatnonzero(surest == np.repeat(np.maximum.reduceat(surest, first), sizes))
        return logits[best[np.searchsorted(best, first)]]  # of several that are as sure, the first
    scores = log_softmax(logits)
    total = scores[first]
    for k in range(1, int(sizes.max(initial=1))):  # as many steps as the longest word has sub-words
        longer = np.flatnonzero(sizes > k)
        total[longer] = np.logaddexp(total[longer], scores[first[longer] + k])
    made: Array = total - np.log(sizes)[:, None]
    return made


@dataclass(frozen=True, slots=True, eq=False)
class Back:
    """The way from labels of words back to sub-words; `batch` makes it.

    Attributes
    ----------
    words : list of list of int
        The words of each sequence that have sub-words, by the numbers that `word_ids` gave them. Where nothing was
        given, the positions of the tokens.
    """

    words: list[list[int]]
    _unit: npt.NDArray[np.int64]  # (B, T)  the word, counted over all sequences; -1 for special tokens and padding

    def __call__(self, decodings: Decodings, fill: int = -100) -> npt.NDArray[np.int32]:
        """Give each sub-word the label of its word.

        Parameters
        ----------
        decodings : Decodings
            What ``decoder.decode_batch(batch)`` returned.
        fill : int, default -100
            What stands for special tokens, padding, and sequences without an answer.

        Returns
        -------
        array of int32, shape (B, T)
            Label ids.

        Raises
        ------
        LatticeError
            If they are of another batch: one with other numbers of words.
        """
        sizes = np.fromiter(map(len, self.words), np.int64, len(self.words))
        if not np.array_equal(np.diff(decodings.offsets), sizes):
            raise LatticeError(
                "the decodings belong to another batch",
                got=f"{len(decodings)} sequences of {len(decodings.ids)} words",
                wanted=f"{len(sizes)} sequences of {sizes.sum()} words, in the order of the batch",
            )
        found = np.where(decodings.ids < 0, fill, decodings.ids)
        return np.append(found, fill)[self._unit].astype(np.int32)


def batch(
    logits: Any,
    mask: Any = None,
    word_ids: Sequence[Words] | None = None,
    *,
    pool: Pool = "first",
    pairwise: npt.ArrayLike | None = None,
    start: npt.ArrayLike | None = None,
    end: npt.ArrayLike | None = None,
) -> tuple[Batch, Back]:
    """Pack the logits of a network for a decoder: words instead of sub-words, no special tokens, no padding.

    Parameters
    ----------
    logits : array or tensor of float, shape (B, T, m)
        NumPy arrays, what ONNX Runtime returns, torch tensors on any device.
    mask : array or tensor of int, shape (B, T), optional
        1 for tokens, 0 for padding: the attention mask. Special tokens have 1 there, so that without `word_ids` they
        are labelled like others; take them out of the mask if they should not be.
    word_ids : sequence of sequences, optional
        For each sequence the word that each of its T positions belongs to, None or a negative number for special
        tokens and padding: ``[encoding.word_ids(k) for k in range(B)]``. Without it every token is a word.
    pool : {"first", "mean", "max"}, default "first"
        The scores of a word: those of its first sub-word, the mean of the probabilities of all, or those of the
        sub-word with the most probable label.
    pairwise, start, end : array of float, optional
        Scores of transitions (m, m), of first and of last labels (m,), for networks with a CRF layer.

    Returns
    -------
    batch : Batch
        Log-probabilities of all words, for ``decoder.decode_batch(batch)``.
    back : Back
        ``back(decodings)`` gives label ids of all sub-words, (B, T); ``back.words`` the numbers of the words.

    Raises
    ------
    LatticeError
        If shapes do not fit, or a score is NaN.

    Examples
    --------
    "play ##ing" is one word of two sub-words between two special tokens:

    >>> import numpy as np, bridle
    >>> logits = np.array([[[9, 0], [0, 2], [3, 0], [9, 0]]], dtype=np.float32)
    >>> packed, back = batch(logits, word_ids=[[None, 0, 0, None]])
    >>> found = bridle.Decoder(["O", "VERB"]).decode_batch(packed)
    >>> found.labels, back(found).tolist()
    ([['VERB']], [[-100, 1, 1, -100]])
    """
    if pool not in ("first", "mean", "max"):
        raise EngineError("unknown pool", got=shown(pool), wanted="'first', 'mean' or 'max'")
    grid = as_logits(logits)
    check_shape(
        "logits",
        grid,
        (None, None, None),
        "sequences x tokens x labels",
        "One sequence? Pass logits[None], [word_ids].",
    )
    if not grid.shape[2]:
        raise LatticeError("the logits have no labels", got=grid.shape, wanted="a label or more in the last dimension")
    words = _word_numbers(word_ids, *grid.shape[:2])
    inside = words >= 0
    if mask is not None:
        inside &= _as_mask(mask, words.shape)
    begins = inside.copy()  # a word begins where another stands before it, or none
    if word_ids is not None:
        begins[:, 1:] &= ~inside[:, :-1] | (words[:, 1:] != words[:, :-1])
    unit = np.where(inside, np.cumsum(begins).reshape(words.shape) - 1, -1)
    first = np.flatnonzero(begins[inside])
    kept = np.ascontiguousarray(grid[inside])
    if len(bad := without_scores(kept)):
        b, t = np.argwhere(inside)[bad[0]].tolist()
        raise LatticeError(
            f"logits[{b}, {t}] are not scores",
            got=shown(kept[bad[0]].tolist()),
            wanted="numbers, or -inf for what is impossible, but not for all labels",
            cause="An overflow in half precision? Padding can hold anything if mask or word_ids leave it out.",
        )
    unary = log_softmax(pooled(kept, first, pool))
    offsets = np.concatenate([[0], np.cumsum(begins.sum(axis=1))])
    numbers = [row[chosen].tolist() for row, chosen in zip(words, begins, strict=True)]
    return Batch(unary, offsets, pairwise, start, end), Back(numbers, unit)


def _word_numbers(word_ids: Sequence[Words] | None, count: int, length: int) -> npt.NDArray[np.int64]:
    """(B, T): the word of each position, -1 for none."""
    if word_ids is None:
        return np.broadcast_to(np.arange(length), (count, length))
    cause = "Pass [encoding.word_ids(k) for k in range(B)], of the encoding that the logits were computed from."
    try:
        rows = [np.array([-1 if word is None else index(word) for word in row], dtype=np.int64) for row in word_ids]
    except (TypeError, OverflowError):
        raise LatticeError(
            "word_ids are not the numbers of words",
            got=shown(word_ids),
            wanted="for each sequence, a list of integers and None",
            cause=cause,
        ) from None
    if len(rows) != count or any(len(row) != length for row in rows):
        got = f"{len(rows)} sequences of {sorted({len(row) for row in rows})[:6]} positions"
        raise LatticeError(
            "word_ids do not fit the logits",
            got=got,
            wanted=f"{count} sequences of {length} positions",
            cause=cause,
        )
    return np.array(rows, dtype=np.int64).reshape(count, length)


def _as_mask(mask: Any, shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    try:
        found = np.asarray(mask.detach().cpu() if hasattr(mask, "detach") else mask)
    except ValueError:  # ragged lists
        found = np.empty(0, dtype=object)
    if found.dtype.kind not in "biuf" or np.isnan(found).any():
        raise LatticeError("mask is not an array of numbers", got=shown(mask), wanted="1 for tokens, 0 for padding")
    if found.shape != shape:
        raise LatticeError("mask has a wrong shape", got=found.shape, wanted=f"{shape} (sequences x tokens)")
    return np.asarray(found != 0)
