"""Logits of any network: sub-words become words, windows documents, columns labels. Needs NumPy only.

n sub-words, u words, m labels, B sequences, T positions. The scores of a word are those of its first sub-word
("first"), of the sub-word with the most probable label ("max"), or the mean of the probabilities of all ("mean").
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from itertools import pairwise as neighbours
from operator import index
from os import PathLike
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle.arrays import LARGEST, Scores, as_array, check_shape, is_integer
from bridle.decoding.result import Decodings
from bridle.errors import EngineError, LabelError, LatticeError, ModelError, shown
from bridle.labels import Labels, Scheme
from bridle.lattice import Batch
from bridle.rules.loading import read_text

__all__ = ["Back", "batch", "labels_of"]

Array = npt.NDArray[Any]
AnyScheme = Scheme | Literal["auto"] | None
Merge = Literal["nearest", "mean"]
Pool = Literal["first", "mean", "max"]
MOST_WORDS = 1 << 20  # without sub-words, one after the other
WordIds = Sequence[int | None]  # the word that each sub-word belongs to; None for special tokens


# ---- labels ---------------------------------------------------------------------------------------------------------


def labels_of(model: Any, scheme: AnyScheme = "auto") -> Labels:
    """Take the labels from a model, its configuration, or an `id2label`.

    Labels without a prefix among those of a scheme, such as ``<pad>``, are for tokens outside all segments, like O.

    Parameters
    ----------
    model : model, config, mapping of int to str, list of str, or Labels
        Something with `config`, something with `id2label`, or the names themselves.
    scheme : {"auto", "IO", "BIO", "BIOES", "BMES"} or None, default "auto"
        The tagging scheme. "auto" tells it from the names; None: labels that stand for themselves.

    Returns
    -------
    Labels
        In the order of the columns of the logits.

    Raises
    ------
    LabelError
        If a number has no name, or the names do not fit the scheme.

    Examples
    --------
    >>> labels_of({0: "O", 1: "B-PER", 2: "I-PER"})
    Labels(['O', 'B-PER', 'I-PER'], scheme='BIO')
    """
    if isinstance(model, Labels):
        return model
    id2label = getattr(getattr(model, "config", model), "id2label", model)
    if isinstance(id2label, Mapping):
        names = _in_order(id2label)
    elif isinstance(id2label, Sequence) and not isinstance(id2label, str):
        names = list(id2label)
    else:
        raise LabelError(
            "the labels of the model are not known",
            got=shown(id2label) if id2label is not None else "no id2label",
            wanted='id2label, as in {0: "O", 1: "B-PER", ...}',
            cause="Pass id2label=model.config.id2label, or the list of names in the order of the logits.",
        )
    labels = Labels(names, scheme)
    others = [name for name in labels if name != "O" and name[1:2] != "-"]
    if scheme == "auto" and labels.scheme is None and 2 * len(others) < len(names):
        return Labels(names, outside=["O", *others])  # one without a prefix does not disable all types
    return labels


def _in_order(id2label: Mapping[Any, Any]) -> list[Any]:
    """Return the names by number; JSON has the numbers as strings."""
    try:
        by_id = {int(key): name for key, name in id2label.items()}
    except (TypeError, ValueError):
        raise LabelError(
            "the keys of id2label must be integers",
            got=shown(dict(id2label)),
            wanted='numbers from 0 on, as in {0: "O", 1: "B-PER"}',
            cause="Is it label2id?",
        ) from None
    missing = list(islice((k for k in range(max(by_id, default=-1) + 1) if k not in by_id), 6))
    if missing or len(by_id) != len(id2label) or min(by_id, default=0) < 0:
        raise LabelError(
            "id2label has gaps",
            got=f"no name for {', '.join(map(str, missing))}" if missing else shown(dict(id2label)),
            wanted=f"a name for each of 0 .. {max(by_id, default=0)}",
            cause="Every column of the logits needs a name: fill in id2label in the model's configuration.",
        )
    return [by_id[k] for k in range(len(by_id))]


# ---- sub-words and words ---------------------------------------------------------------------------------------------


def as_logits(values: Any) -> Array:
    """Return the logits of a network as an array in main memory, whatever device they are on."""
    return as_array("logits", values.detach().cpu() if hasattr(values, "detach") else values)


def softmax(logits: Array) -> Array:
    """Return probabilities, in the precision of the logits."""
    with np.errstate(over="ignore"):  # differences beyond the largest number are -inf, and their probability is 0
        probabilities: Array = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probabilities /= probabilities.sum(axis=-1, keepdims=True)
    return probabilities


def log_softmax(logits: Array) -> Array:
    """Return logarithms of probabilities, in double precision, so that small ones do not become -inf."""
    with np.errstate(over="ignore"):
        scores: Array = logits - logits.max(axis=-1, keepdims=True).astype(np.float64)
    scores -= np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    return scores


def find_invalid_rows(logits: Array) -> Array:
    """Return the numbers of the rows of (n, m) logits that have NaN or +inf, or only -inf."""
    return np.flatnonzero(~np.isfinite(logits.max(axis=-1)))


def pool_words(logits: Array, first: Array, how: Pool = "first") -> Array:
    """Compute the logits of words, (u, m), from those of their sub-words, (n, m), which are all valid.

    `first` (u,) is the first sub-word of each word; a word ends where the next one begins.

    >>> logits = np.log([[0.6, 0.4], [0.1, 0.9], [0.5, 0.5]])
    >>> for how in ("first", "mean", "max"):
    ...     print(softmax(pool_words(logits, np.array([0, 2]), how)).round(2).tolist())
    [[0.6, 0.4], [0.5, 0.5]]
    [[0.35, 0.65], [0.5, 0.5]]
    [[0.1, 0.9], [0.5, 0.5]]
    """
    if how == "first" or len(first) == len(logits):
        return logits[first]
    sizes = np.diff(first, append=len(logits))
    if how == "max":
        highest = softmax(logits).max(axis=-1)
        best = np.flatnonzero(highest == np.repeat(np.maximum.reduceat(highest, first), sizes))
        return logits[best[np.searchsorted(best, first)]]  # of equal ones, the first
    scores = log_softmax(logits)
    total = scores[first]
    for k in range(1, int(sizes.max(initial=1))):  # as many steps as the longest word has sub-words
        longer = np.flatnonzero(sizes > k)
        total[longer] = np.logaddexp(total[longer], scores[first[longer] + k])
    mean: Array = total - np.log(sizes)[:, None]
    return mean


@dataclass(frozen=True, slots=True, eq=False)
class Back:
    """The way from labels of words back to sub-words, as `batch` returns it.

    Attributes
    ----------
    words : list of list of int
        The words of each sequence that have a row of scores, by the numbers that `word_ids` gave them. Where nothing
        was given, the positions of the tokens.
    """

    words: list[list[int]]
    _word: npt.NDArray[np.int64]  # (B, T)  number over all sequences; -1 for special tokens and padding

    def __call__(self, decodings: Decodings, fill: int = -100) -> npt.NDArray[np.int32]:
        """Give each sub-word the label of its word.

        Parameters
        ----------
        decodings : Decodings
            Result of ``decoder.decode_batch(batch)``.
        fill : int, default -100
            Value for special tokens, padding, and sequences without an answer.

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
        ids = np.where(decodings.ids < 0, fill, decodings.ids)
        return np.append(ids, fill)[self._word].astype(np.int32)


def batch(
    logits: Any,
    mask: Any = None,
    word_ids: Sequence[WordIds] | None = None,
    *,
    n_words: Sequence[int] | None = None,
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
        tokens and padding: ``[encoding.word_ids(k) for k in range(B)]``. Without it every token is a word. A word
        without sub-words, whose number is left out between two others, has a row in which all labels are equal.
    n_words : sequence of int, optional
        How many words each sequence has, if words at its beginning and end can be without sub-words, too.
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
    >>> decodings = bridle.Decoder(["O", "VERB"]).decode_batch(packed)
    >>> decodings.labels, back(decodings).tolist()
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
    number = np.where(inside, np.cumsum(begins).reshape(words.shape) - 1, -1)
    first = np.flatnonzero(begins[inside])
    kept = np.ascontiguousarray(grid[inside])
    if len(bad := find_invalid_rows(kept)):
        b, t = np.argwhere(inside)[bad[0]].tolist()
        raise LatticeError(
            f"logits[{b}, {t}] are not scores",
            got=shown(kept[bad[0]].tolist()),
            wanted="numbers, or -inf for what is impossible, but not for all labels",
            cause="An overflow in half precision? Padding can hold anything if mask or word_ids leave it out.",
        )
    unary = log_softmax(pool_words(kept, first, pool))
    rows = [row[chosen].tolist() for row, chosen in zip(words, begins, strict=True)]
    if word_ids is not None and (n_words is not None or (np.diff(words[begins]) > 1).any()):
        complete = [_fill_gaps(row, *known) for row, known in zip(rows, _known_words(words, n_words), strict=True)]
        at = np.flatnonzero([has for row in complete for _, has in row])
        padded = np.full((sum(map(len, complete)), grid.shape[2]), -np.log(grid.shape[2]))
        padded[at] = unary
        unary, number = padded, np.append(at, -1)[number]
        rows = [[word for word, _ in row] for row in complete]
    offsets = np.cumsum([0, *map(len, rows)])
    return Batch(unary, offsets, pairwise, start, end), Back(rows, number)


def _known_words(words: npt.NDArray[np.int64], n_words: Sequence[int] | None) -> Iterator[tuple[set[int], int | None]]:
    """Yield for each sequence the words that have sub-words, masked or not, and how many words there are."""
    if n_words is not None and (len(n_words) != len(words) or not all(is_integer(n, 0) for n in n_words)):
        wanted = f"the numbers of words of {len(words)} sequences"
        raise LatticeError("n_words does not fit the logits", got=shown(n_words), wanted=wanted)
    for b, row in enumerate(words):
        yield set(row.tolist()), None if n_words is None else n_words[b]


def _fill_gaps(row: Sequence[int], known: Collection[int], n_words: int | None) -> list[tuple[int, bool]]:
    """Add the words without sub-words to those of a sequence; also say of each whether it has sub-words.

    >>> _fill_gaps([1, 4], {1, 3, 4}, None), _fill_gaps([1], {1}, 3)
    ([(1, True), (2, False), (4, True)], [(0, False), (1, True), (2, False)])
    """
    complete, next_word = list[tuple[int, bool]](), 0 if n_words is not None or not row else row[0]
    for word, has in [*((word, True) for word in row), *([] if n_words is None else [(n_words, False)])]:
        if word - next_word > MOST_WORDS or (n_words is not None and word > n_words - has):
            got, wanted = f"a word {word:,}", f"numbers below {(n_words or next_word + MOST_WORDS):,}"
            raise LatticeError("word_ids are not the numbers of words", got=got, wanted=wanted)
        complete += [(k, False) for k in range(next_word, word) if k not in known]
        complete += [(word, True)] * has
        next_word = word + 1
    return complete


def _word_numbers(word_ids: Sequence[WordIds] | None, count: int, length: int) -> npt.NDArray[np.int64]:
    """Return the word of each position, (B, T); -1 for none."""
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
        array = np.asarray(mask.detach().cpu() if hasattr(mask, "detach") else mask)
    except ValueError:  # ragged lists
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "biuf" or np.isnan(array).any():
        raise LatticeError("mask is not an array of numbers", got=shown(mask), wanted="1 for tokens, 0 for padding")
    if array.shape != shape:
        raise LatticeError("mask has a wrong shape", got=array.shape, wanted=f"{shape} (sequences x tokens)")
    return np.asarray(array != 0)


# ---- windows of long documents --------------------------------------------------------------------------------------
#
#   begin[0] = 0,  begin[k + 1] = begin[k] + n[k] - overlap      window k has the tokens begin[k] .. begin[k] + n[k] - 1
#   cut[k] = (begin[k + 1] + begin[k] + n[k]) // 2               the middle of what windows k and k + 1 share
#
# "nearest": a token takes its scores from the window in which it has the most context, which is window k between
# cut[k - 1] and cut[k]. "mean": the mean of its probabilities in all windows, logaddexp(a, b) for two.


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """The tokens of a window or of a document, special ones left out."""

    logits: Array  # (n, m)
    ids: Array  # (n,)    numbers in the vocabulary
    index: Array  # (n,)  position in the input of the model, special tokens included
    offsets: Array | None  # (n, 2)  where each begins and ends in the text
    words: Array | None  # (n,)      the number of its word, if words were given


def join_windows(windows: Sequence[Tokens], overlap: int, merge: Merge = "nearest") -> Tokens:
    """Join the windows of a document, in order, of which neighbours share `overlap` tokens.

    The result has each token once; `index` counts on from the first window.

    >>> windows = [
    ...     Tokens(np.full((3, 2), float(k)), np.array(ids), np.arange(1, 4), None, None)
    ...     for k, ids in enumerate([[5, 6, 7], [6, 7, 8]])
    ... ]
    >>> document = join_windows(windows, overlap=2)
    >>> document.ids, document.logits[:, 0]
    (array([5, 6, 7, 8]), array([0., 0., 1., 1.]))
    """
    if len(windows) == 1:
        return windows[0]
    sizes = [len(window.ids) for window in windows]
    _check_overlap(windows, overlap)
    begin = np.cumsum([0, *(size - overlap for size in sizes[:-1])]).tolist()
    end = [low + size for low, size in zip(begin, sizes, strict=True)]
    cuts = [0, *((low + high) // 2 for low, high in zip(begin[1:], end[:-1], strict=True)), end[-1]]
    nearest_tokens = [slice(a - low, b - low) for (a, b), low in zip(neighbours(cuts), begin, strict=True)]

    def nearest(parts: Sequence[Array]) -> Array:
        return np.concatenate([part[tokens] for part, tokens in zip(parts, nearest_tokens, strict=True)])

    logits = [window.logits for window in windows]
    offsets = [window.offsets for window in windows if window.offsets is not None]
    words = [window.words for window in windows if window.words is not None]
    return Tokens(
        nearest(logits) if merge == "nearest" else _mean(logits, begin),
        nearest([window.ids for window in windows]),
        windows[0].index[0] + np.arange(end[-1]),
        nearest(offsets) if offsets else None,
        nearest(words) if words else None,
    )


def _mean(logits: Sequence[Array], begin: Sequence[int]) -> Array:
    """Return the logarithms of the summed probabilities of all windows, (n, m); softmax turns sums into means."""
    total, end = np.empty((begin[-1] + len(logits[-1]), logits[0].shape[1])), 0
    for scores, low in zip(logits, begin, strict=True):
        logs, shared, high = log_softmax(scores), max(end - low, 0), low + len(scores)
        total[low:end] = np.logaddexp(total[low:end], logs[:shared])
        total[low + shared : high] = logs[shared:]
        end = high
    return total


def _check_overlap(windows: Sequence[Tokens], overlap: int) -> None:
    for k, (left, right) in enumerate(neighbours(window.ids for window in windows)):
        if not 0 <= overlap < len(left) or not np.array_equal(left[len(left) - overlap :], right[:overlap]):
            raise LatticeError(
                f"windows {k} and {k + 1} of a document do not share {overlap} tokens",
                got="other tokens",
                wanted="windows in order, as a tokenizer makes them with return_overflowing_tokens=True",
                cause='Set tokenizer.truncation_side = "right", and pass the stride that the windows were made with.',
            )


# ---- the transitions of openai/privacy-filter -----------------------------------------------------------------------
#
# BIOES over the types of private data, and six biases on transitions. From the left label to the top one, x and y being
# any types:
#
#             O                    B-y, S-y             I-x                  E-x
#   O         background_stay      background_to_start  -inf                 -inf
#   B-x, I-x  -inf                 -inf                 inside_to_continue   inside_to_end
#   E-x, S-x  end_to_background    end_to_start         -inf                 -inf
#
# A text begins with O, B or S and ends with O, E or S.

PREFIX = "transition_bias_"  # of the names of biases in calibration files
# Tags of the label before and of the label after, by bias.
STEPS = {
    "background_stay": ("O", "O"),
    "background_to_start": ("O", "BS"),
    "inside_to_continue": ("BI", "I"),
    "inside_to_end": ("BI", "E"),
    "end_to_background": ("ES", "O"),
    "end_to_start": ("ES", "BS"),
}
_CALIBRATION = '{"operating_points": {"default": {"biases": {...}}}}'


def check_complete(labels: Labels) -> None:
    """Raise `LabelError` unless there are O and all four labels of BIOES for each type.

    >>> check_complete(Labels(["O", "B-x", "I-x"], "BIOES"))
    Traceback (most recent call last):
    bridle.errors.LabelError: BIOES labels are missing; got no E-x, no S-x; wanted O, and B-, I-, E-, S- of all types.
    Are these labels of BIO? Use pipeline() with the rule "well formed".
    """
    known = set(zip(labels.tag_of, labels.type_of, strict=True))
    missing = [] if "" in labels.tag_of else ["no O"]
    missing += [f"no {tag}-{kind}" for kind in sorted(labels.types) for tag in "BIES" if (tag, kind) not in known]
    if missing or not labels.types:
        raise LabelError(
            "BIOES labels are missing",
            got=", ".join(missing[:6]) + ", ..." * (len(missing) > 6) or "no types",
            wanted="O, and B-, I-, E-, S- of all types",
            cause='Are these labels of BIO? Use pipeline() with the rule "well formed".',
        )


def transition_scores(labels: Labels, biases: Mapping[str, float]) -> tuple[Scores, Scores, Scores]:
    """Compute the scores of transitions (m, m), of first and of last labels (m,) from the biases.

    >>> labels = Labels(["S-x", "O"], "BIOES")
    >>> transition_scores(labels, {**read_biases(None), "end_to_start": -2.0})[0]
    array([[-2.,  0.],
           [ 0.,  0.]])
    """
    tags = np.array([tag or "O" for tag in labels.tag_of])
    allowed, first, last = labels.allowed
    pairwise = np.full(allowed.shape, -np.inf)
    for name, (before, after) in STEPS.items():
        step = np.isin(tags, list(before))[:, None] & np.isin(tags, list(after))[None, :]
        pairwise[step & allowed] = biases[name]
    return pairwise, np.where(first, 0.0, -np.inf), np.where(last, 0.0, -np.inf)


def read_biases(
    calibration: Mapping[str, Any] | str | PathLike[str] | None, operating_point: str = "default"
) -> dict[str, float]:
    """Read the six biases of a calibration file or its content, by their names without "transition_bias_".

    Raises `FileError` if the file cannot be read, `ModelError` if it does not have exactly the six biases.

    >>> biases = {f"transition_bias_{name}": 0.0 for name in STEPS} | {"transition_bias_background_stay": 0.5}
    >>> read_biases({"operating_points": {"default": {"biases": biases}}})["background_stay"]
    0.5
    """
    if calibration is None:
        return dict.fromkeys(STEPS, 0.0)
    where, entry = None, calibration
    if isinstance(calibration, (str, PathLike)):
        where = str(calibration)
        try:
            entry = json.loads(read_text(where, "the calibration file"))
        except (ValueError, RecursionError) as error:
            raise ModelError("the calibration is not JSON", got=str(error), wanted=_CALIBRATION, where=where) from None
    for key in ("operating_points", operating_point, "biases"):
        if not isinstance(entry, Mapping) or key not in entry:
            got = ", ".join(map(str, entry)) if isinstance(entry, Mapping) else shown(entry)
            raise ModelError(f"the calibration has no {key!r}", got=got or "nothing", wanted=_CALIBRATION, where=where)
        entry = entry[key]
    names = {PREFIX + name: name for name in STEPS}
    if not isinstance(entry, Mapping) or entry.keys() != names.keys():
        keys = entry.keys() if isinstance(entry, Mapping) else set()
        wrong = [f"no {name}" for name in names if name not in keys] + [f"{key!r}" for key in keys if key not in names]
        what, wanted = "the calibration does not have the six biases", f"exactly {', '.join(names)}"
        raise ModelError(what, got=", ".join(wrong), wanted=wanted, where=where)
    for key, value in entry.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LARGEST:
            raise ModelError(f"{key} is not a bias", got=shown(value), wanted="a finite number", where=where)
    return {names[key]: float(value) for key, value in entry.items()}
