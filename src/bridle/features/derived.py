"""Derived columns: what can be said of a token's text alone, or of its place in the sequence.

A function of texts sees each distinct string once, never every token. "" means that there is nothing to say: no feature
comes of it. A new column is one more function here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]
OfTexts = Callable[[Sequence[str]], list[str]]

NOTHING, BEFORE, AFTER, FIRST = 0, 1, 2, 3  # ids of every column; strings are numbered from FIRST on

_DIGITS, _MARKS = re.compile(r"\d"), re.compile(r"\W")


def _shape(text: str) -> str:
    """Xx-d: upper and lower case letters, digits, the rest as it is; runs count once."""
    kinds = ("X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in text)
    return "".join(kind for kind, _ in groupby(kinds))


def _each(function: Callable[[str], str]) -> OfTexts:
    return lambda texts: [function(text) for text in texts]


def _flag(pattern: str) -> OfTexts:
    search = re.compile(pattern).search
    return lambda texts: ["yes" if search(text) else "" for text in texts]


def _prefix(k: int) -> OfTexts:
    return lambda texts: [text[:k] if len(text) >= k else "" for text in texts]


def _suffix(k: int) -> OfTexts:
    return lambda texts: [text[-k:] if len(text) >= k else "" for text in texts]


OF_TEXT: dict[str, OfTexts] = {
    "lower": _each(str.lower),
    "shape": _each(_shape),
    "zeros": _each(lambda text: _DIGITS.sub("0", text.lower())),  # 1992. and 1993. look alike
    "bare": _each(lambda text: _MARKS.sub("", text.lower())),  # without punctuation
    "tail": lambda texts: [text[-1:] if not text[-1:].isalnum() else "" for text in texts],  # punctuation at the end
    "digit": _flag(r"\d"),
    "upper": lambda texts: ["yes" if any(map(str.isupper, text)) else "" for text in texts],
    "hyphen": lambda texts: ["yes" if "-" in text else "" for text in texts],
    **{f"prefix{k}": _prefix(k) for k in range(1, 5)},
    **{f"suffix{k}": _suffix(k) for k in range(1, 5)},
}


def _bias(offsets: Offsets) -> Ids:
    return np.full(int(offsets[-1]), FIRST, dtype=np.int32)


def _first(offsets: Offsets) -> Ids:
    ids = np.zeros(int(offsets[-1]), dtype=np.int32)
    ids[offsets[:-1][offsets[:-1] < offsets[1:]]] = FIRST
    return ids


def _last(offsets: Offsets) -> Ids:
    ids = np.zeros(int(offsets[-1]), dtype=np.int32)
    ids[offsets[1:][offsets[:-1] < offsets[1:]] - 1] = FIRST
    return ids


def _tenth(offsets: Offsets) -> Ids:
    lengths = np.diff(offsets)
    place = np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], lengths)
    ids: Ids = (FIRST + 10 * place // np.repeat(lengths, lengths)).astype(np.int32)
    return ids


OF_PLACE: dict[str, tuple[Callable[[Offsets], Ids], tuple[str, ...]]] = {  # with the names of the ids from FIRST on
    "bias": (_bias, ("yes",)),  # every token
    "first": (_first, ("yes",)),
    "last": (_last, ("yes",)),
    "tenth": (_tenth, tuple("0123456789")),  # how far into the sequence
}
