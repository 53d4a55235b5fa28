"""The functions of templates: columns that are derived from a token's text alone, or from its place in the sequence.

A function of texts sees each distinct string once, never every token. "" means that there is nothing to say: no feature
comes of it. A new function is one more entry here, with a description and an example; `bridle features`, the
documentation and the tests take them from here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]
OfTexts = Callable[[Sequence[str]], list[str]]
OfPlaces = Callable[[Offsets], Ids]

NOTHING, BEFORE, AFTER, FIRST = 0, 1, 2, 3  # ids of every column; strings are numbered from FIRST on

_DIGITS, _MARKS = re.compile(r"\d"), re.compile(r"\W")


@dataclass(frozen=True, slots=True)
class Function:
    """A function of templates, such as ``lower`` in ``lower[0]``.

    Parameters
    ----------
    name : str
        Its name in templates.
    about : str
        What it gives, in a few words.
    tokens : tuple of str
        An example: the tokens of a sequence.
    values : tuple of str
        What it gives for each of these tokens; "" means no feature.
    of : {"text", "place"}
        What it looks at: the text of a token, of any column (``lemma.lower[0]``), or its place in the sequence.
    """

    name: str
    about: str
    tokens: tuple[str, ...]
    values: tuple[str, ...]
    of: Literal["text", "place"] = "text"


# ---- of the text ----------------------------------------------------------------------------------------------------


def _shape(text: str) -> str:
    """Xx-d: upper and lower case letters, digits, the rest as it is; runs count once."""
    kinds = ("X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in text)
    return "".join(kind for kind, _ in groupby(kinds))


def _each(function: Callable[[str], str]) -> OfTexts:
    return lambda texts: [function(text) for text in texts]


def _flag(holds: Callable[[str], object]) -> OfTexts:
    return lambda texts: ["yes" if holds(text) else "" for text in texts]


def _prefix(k: int) -> OfTexts:
    return lambda texts: [text[:k] if len(text) >= k else "" for text in texts]


def _suffix(k: int) -> OfTexts:
    return lambda texts: [text[-k:] if len(text) >= k else "" for text in texts]


def _text(name: str, about: str, token: str, value: str) -> Function:
    return Function(name, about, (token,), (value,))


_OF_TEXT: list[tuple[Function, OfTexts]] = [
    (_text("lower", "the text in lower case", "McDonald", "mcdonald"), _each(str.lower)),
    (
        _text("shape", "X for upper case, x for lower case, d for digits; runs count once", "McDonald-24b", "XxXx-dx"),
        _each(_shape),
    ),
    (
        _text("caps", "the shape, if the text has an upper case letter", "McDonald", "XxXx"),
        _each(lambda text: _shape(text) if any(map(str.isupper, text)) else ""),
    ),
    (
        _text("zeros", "the text in lower case, with 0 for every digit", "1992.", "0000."),
        _each(lambda text: _DIGITS.sub("0", text.lower())),
    ),
    (
        _text("bare", "the text in lower case, without punctuation", "(U.S.)", "us"),
        _each(lambda text: _MARKS.sub("", text.lower())),
    ),
    (
        _text("tail", "the punctuation mark at the end of the text, if there is one", "1992.", "."),
        _each(lambda text: text[-1:] if not text[-1:].isalnum() else ""),
    ),
    (_text("digit", "yes, if the text has a digit", "B2", "yes"), _flag(_DIGITS.search)),
    (
        _text("upper", "yes, if the text has an upper case letter", "eBay", "yes"),
        _flag(lambda t: any(map(str.isupper, t))),
    ),
    (_text("hyphen", "yes, if the text has a hyphen", "co-op", "yes"), _flag(lambda text: "-" in text)),
    (_text("prefix1", "the first character", "Smith", "S"), _prefix(1)),
    (_text("prefix2", "the first 2 characters, if the text is that long", "Smith", "Sm"), _prefix(2)),
    (_text("prefix3", "the first 3 characters, if the text is that long", "Smith", "Smi"), _prefix(3)),
    (_text("prefix4", "the first 4 characters, if the text is that long", "Smith", "Smit"), _prefix(4)),
    (_text("suffix1", "the last character", "Smith", "h"), _suffix(1)),
    (_text("suffix2", "the last 2 characters, if the text is that long", "Smith", "th"), _suffix(2)),
    (_text("suffix3", "the last 3 characters, if the text is that long", "Smith", "ith"), _suffix(3)),
    (_text("suffix4", "the last 4 characters, if the text is that long", "Smith", "mith"), _suffix(4)),
]
OF_TEXT: dict[str, OfTexts] = {function.name: call for function, call in _OF_TEXT}


# ---- of the place ---------------------------------------------------------------------------------------------------


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


def _place(name: str, about: str, *values: str) -> Function:
    return Function(name, about, ("Ada", "met", "Bob", "."), values, "place")


_OF_PLACE: list[tuple[Function, OfPlaces, tuple[str, ...]]] = [  # with the names of the ids from FIRST on
    (_place("first", "yes, for the first token of the sequence", "yes", "", "", ""), _first, ("yes",)),
    (_place("last", "yes, for the last token of the sequence", "", "", "", "yes"), _last, ("yes",)),
    (
        _place("tenth", "how far into the sequence the token is, in tenths from 0 to 9", "0", "2", "5", "7"),
        _tenth,
        tuple("0123456789"),
    ),
    (_place("bias", "yes, for every token: how frequent a label is", "yes", "yes", "yes", "yes"), _bias, ("yes",)),
]
OF_PLACE: dict[str, tuple[OfPlaces, tuple[str, ...]]] = {f.name: (call, names) for f, call, names in _OF_PLACE}

FUNCTIONS: dict[str, Function] = {f.name: f for f in (*(f for f, _ in _OF_TEXT), *(f for f, _, _ in _OF_PLACE))}
