"""Derived columns: what can be said of a token's text alone, or of its place in the sequence.

A function of the text is called once per distinct string, never per token. "" means that there is nothing to say: no
feature comes of it. A new column is one more function here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]

NOTHING, BEFORE, AFTER, FIRST = 0, 1, 2, 3  # ids of every column; strings are numbered from FIRST on

_DIGITS = re.compile(r"\d")


def _shape(text: str) -> str:
    """Xx-d: upper and lower case letters, digits, the rest as it is; runs count once."""
    kinds = ("X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in text)
    return "".join(kind for kind, _ in groupby(kinds))


def _flag(test: Callable[[str], bool]) -> Callable[[str], str]:
    return lambda text: "yes" if any(map(test, text)) else ""


def _prefix(k: int) -> Callable[[str], str]:
    return lambda text: text[:k] if len(text) >= k else ""


def _suffix(k: int) -> Callable[[str], str]:
    return lambda text: text[-k:] if len(text) >= k else ""


OF_TEXT: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "shape": _shape,
    "zeros": lambda text: _DIGITS.sub("0", text.lower()),  # 1992. and 1993. look alike
    "bare": lambda text: re.sub(r"\W", "", text.lower()),  # without punctuation
    "tail": lambda text: text[-1:] if not text[-1:].isalnum() else "",  # punctuation at the end
    "digit": _flag(str.isdigit),
    "upper": _flag(str.isupper),
    "hyphen": _flag(lambda c: c == "-"),
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
