"""Derived columns: the functions of templates, and lists of phrases.

A function looks at a token's text alone, or at its place in the sequence. A function of texts sees each distinct string
once, never every token. "" means no feature. A new function is one more entry here, with a description and an example;
`bridle features`, the documentation and the tests take them from here.

    in:cities[0]             B, I, E: at the beginning, inside, at the end of a phrase; S: a phrase of one token
    in_any_case:cities[0]    the same, whether letters are upper or lower case
    lemma.in:cities[0]       the same of another column

Of phrases that overlap, the one that begins first counts, and of those that begin together the longest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

import numpy as np

from bridle.errors import FeatureError, shown
from bridle.features.columns import Arrays, Ids
from bridle.phrases import Ignoring, PhraseList, list_of
from bridle.texts import Offsets

OfTexts = Callable[[Sequence[str]], list[str]]

NOTHING, BEFORE, AFTER, FIRST = 0, 1, 2, 3  # ids of every column; strings are numbered from FIRST on

_DIGITS, _MARKS = re.compile(r"\d"), re.compile(r"\W")


@dataclass(frozen=True, slots=True)
class Function:
    """A function of templates, such as ``lower`` in ``lower[0]``."""

    name: str
    about: str  # the value that it gives, in a few words
    tokens: tuple[str, ...]  # an example: the tokens of a sequence
    values: tuple[str, ...]  # the values for each of these tokens; "" means no feature
    of: Literal["text", "place"] = "text"  # of a token of any column (``lemma.lower[0]``), or in the sequence


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


def _has_upper(text: str) -> bool:
    return any(map(str.isupper, text))


def _affix(end: str, k: int) -> str:
    return f"the {end} character" if k == 1 else f"the {end} {k} characters, if the text is that long"


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
        _each(lambda text: _shape(text) if _has_upper(text) else ""),
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
    (_text("upper", "yes, if the text has an upper case letter", "eBay", "yes"), _flag(_has_upper)),
    (_text("hyphen", "yes, if the text has a hyphen", "co-op", "yes"), _flag(lambda text: "-" in text)),
    *((_text(f"prefix{k}", _affix("first", k), "Smith", "Smith"[:k]), _prefix(k)) for k in range(1, 5)),
    *((_text(f"suffix{k}", _affix("last", k), "Smith", "Smith"[-k:]), _suffix(k)) for k in range(1, 5)),
]
OF_TEXT: dict[str, OfTexts] = {function.name: call for function, call in _OF_TEXT}


# ---- of the place ---------------------------------------------------------------------------------------------------


def _place(name: str, about: str, *values: str) -> Function:
    return Function(name, about, ("Ada", "met", "Bob", "."), values, "place")


_OF_PLACE: list[tuple[Function, tuple[str, ...]]] = [  # with the names of the ids from FIRST on
    (_place("first", "yes, for the first token of the sequence", "yes", "", "", ""), ("yes",)),
    (_place("last", "yes, for the last token of the sequence", "", "", "", "yes"), ("yes",)),
    (
        _place("tenth", "how far into the sequence the token is, in tenths from 0 to 9", "0", "2", "5", "7"),
        tuple("0123456789"),
    ),
    (_place("bias", "yes, for every token: how frequent a label is", "yes", "yes", "yes", "yes"), ("yes",)),
]
OF_PLACE: dict[str, tuple[str, ...]] = {function.name: names for function, names in _OF_PLACE}  # cpp/text/derived.cpp

FUNCTIONS: dict[str, Function] = {f.name: f for f in (*(f for f, _ in _OF_TEXT), *(f for f, _ in _OF_PLACE))}


# ---- lists of phrases -----------------------------------------------------------------------------------------------

VALUES = ("B", "I", "E", "S")  # the names of the ids from FIRST on
_LIST_FUNCTION = re.compile(r"(in|in_any_case):(\w+)")
_NEAR = (-1, 0, 1)  # where a list is looked at that no template names


def is_of_list(function: str) -> bool:
    """Return True for functions such as ``in:cities``."""
    return _LIST_FUNCTION.fullmatch(function) is not None


def lists_of(lists: Mapping[str, Any] | None) -> dict[str, PhraseList]:
    """Return lists by name from what users pass."""
    if lists is not None and not isinstance(lists, Mapping):
        raise FeatureError("lists have no names", got=shown(lists), wanted="a mapping such as {'cities': [...]}")
    for name in lists or {}:
        if not isinstance(name, str) or not re.fullmatch(r"\w+", name):
            raise FeatureError("a list needs a plain name", got=shown(name), wanted="letters, digits and _")
    return {name: list_of(phrases) for name, phrases in (lists or {}).items()}


def templates_of_lists(functions: Iterable[str], lists: Iterable[str]) -> list[str]:
    """Return templates for lists that no function names: ``in:cities`` at the token and at its neighbours."""
    named = {match[2] for function in functions if (match := _LIST_FUNCTION.search(function))}
    return [f"in:{name}[{offset}]" for name in lists if name not in named for offset in _NEAR]


class ListColumn:
    """The column of a list, for texts that have numbers."""

    def __init__(self, function: str, lists: Mapping[str, PhraseList]) -> None:
        kind, _, name = function.partition(":")
        if name not in lists:
            raise FeatureError(
                f"there is no list {name!r}",
                got=f"lists {', '.join(lists)}" if lists else "no lists",
                wanted=f"a list for the template {function}[...]",
                cause=f"Pass lists={{{name!r}: [...]}}, on the command line --list {name}=FILE.",
            )
        ignoring: Ignoring = None if kind == "in" else "case"
        self._lookup = lists[name].lookup(ignoring)

    def words(self, texts: Sequence[str]) -> Ids:
        """Return the number of each text as a word of the list, or -1."""
        return np.fromiter(map(self._lookup.word, texts), dtype=np.int32, count=len(texts))

    def ids(self, words: Ids, offsets: Offsets) -> Ids:
        """(N) return the value of each token, whose words these are."""
        out = np.zeros(len(words), dtype=np.int32)
        self._lookup.native.places(np.ascontiguousarray(words), offsets, out)
        return np.where(out > 0, out + (FIRST - 1), 0).astype(np.int32)


def arrays_of(lists: Mapping[str, PhraseList]) -> Arrays:
    """Return the arrays of lists for a model file."""
    return {f"lists.{name}": np.frombuffer(phrases.content, dtype=np.uint8) for name, phrases in lists.items()}


def restored_lists(names: Iterable[str], arrays: Arrays) -> dict[str, PhraseList]:
    """Restore lists from a model file; raise FeatureError or KeyError if arrays are not lists."""
    lists = {}
    for name in names:
        content: Any = arrays[f"lists.{name}"]
        if content.dtype != np.uint8 or content.ndim != 1 or not content.size:
            raise FeatureError(f"the list {name!r} is not text")
        lists[str(name)] = PhraseList(content.tobytes())
    return lists_of(lists)
