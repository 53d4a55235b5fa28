"""Long documents in windows that overlap: every token of the document once, so that it is decoded as one sequence.

    begin[0] = 0,  begin[k + 1] = begin[k] + n[k] - overlap      window k has the tokens begin[k] .. begin[k] + n[k] - 1
    cut[k] = (begin[k + 1] + begin[k] + n[k]) // 2               the middle of what windows k and k + 1 share

"nearest": the scores of a token come from the window in which it has the most context, which is window k between
cut[k - 1] and cut[k]. They are scores that the model gave, so that nothing changes where windows agree. "mean": the
mean of the probabilities that the token has in all its windows, logaddexp(a, b) for two, but for a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle.errors import LatticeError
from bridle.integrations.logits.subwords import log_softmax

Array = npt.NDArray[Any]
Merge = Literal["nearest", "mean"]


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """The tokens of a window or of a document, special ones left out."""

    logits: Array  # (n, m)
    ids: Array  # (n,)    numbers in the vocabulary
    index: Array  # (n,)  position in the input of the model, special tokens included
    offsets: Array | None  # (n, 2)  where each begins and ends in the text
    words: Array | None  # (n,)      the number of its word, if words were given


def join(windows: Sequence[Tokens], overlap: int, merge: Merge = "nearest") -> Tokens:
    """Put the windows of a document together.

    Parameters
    ----------
    windows : sequence of Tokens
        In order; each begins `overlap` tokens before the one before it ends.
    overlap : int
        Tokens that neighbours share.
    merge : {"nearest", "mean"}
        Where the scores of shared tokens come from: the window in which the token has the most context, or the mean of
        the probabilities in all of them.

    Returns
    -------
    Tokens
        Each token of the document once; `index` goes on counting from the first window.

    Raises
    ------
    LatticeError
        If neighbours do not share these tokens.

    Examples
    --------
    >>> import numpy as np
    >>> made = [
    ...     Tokens(np.full((3, 2), float(k)), np.array(ids), np.arange(1, 4), None, None)
    ...     for k, ids in enumerate([[5, 6, 7], [6, 7, 8]])
    ... ]
    >>> document = join(made, overlap=2)
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
    own = [slice(a - low, b - low) for (a, b), low in zip(pairwise(cuts), begin, strict=True)]

    def nearest(parts: Sequence[Array]) -> Array:
        return np.concatenate([part[some] for part, some in zip(parts, own, strict=True)])

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
    """(n, m) logarithms of the sum of the probabilities in all windows; softmax makes the mean of it."""
    total, end = np.empty((begin[-1] + len(logits[-1]), logits[0].shape[1])), 0
    for scores, low in zip(logits, begin, strict=True):
        own, shared, high = log_softmax(scores), max(end - low, 0), low + len(scores)
        total[low:end] = np.logaddexp(total[low:end], own[:shared])
        total[low + shared : high] = own[shared:]
        end = high
    return total


def _check_overlap(windows: Sequence[Tokens], overlap: int) -> None:
    for k, (one, other) in enumerate(pairwise(windows)):
        if not 0 <= overlap < len(one.ids) or not np.array_equal(
            one.ids[len(one.ids) - overlap :], other.ids[:overlap]
        ):
            raise LatticeError(
                f"windows {k} and {k + 1} of a document do not share {overlap} tokens",
                got="other tokens",
                wanted="windows in order, as a tokenizer makes them with return_overflowing_tokens=True",
                cause='Set tokenizer.truncation_side = "right", and pass the stride that the windows were made with.',
            )
