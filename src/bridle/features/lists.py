"""Features of lists of phrases: is a token in a phrase of a list, and where in it?

    in:cities[0]             B, I, E: at the beginning, inside, at the end of a phrase; S: a phrase of one token
    in_any_case:cities[0]    the same, whether letters are upper or lower case
    lemma.in:cities[0]       the same of another column

Of phrases that overlap, the one that begins first counts, and of those that begin together the longest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.errors import FeatureError, shown
from bridle.features.derived import FIRST
from bridle.features.strings import Arrays
from bridle.phrases import Ignoring, PhraseList, list_of

Ids = npt.NDArray[np.int32]

VALUES = ("B", "I", "E", "S")  # the names of the ids from FIRST on
_FUNCTION = re.compile(r"(in|in_any_case):(\w+)")
_NEAR = (-1, 0, 1)  # where a list is looked at that no template names


def is_of_list(function: str) -> bool:
    """Is it a function such as ``in:cities``?"""
    return _FUNCTION.fullmatch(function) is not None


def lists_of(lists: Mapping[str, Any] | None) -> dict[str, PhraseList]:
    """Lists by name, as users pass them."""
    if lists is not None and not isinstance(lists, Mapping):
        raise FeatureError("lists have no names", got=shown(lists), wanted="a mapping such as {'cities': [...]}")
    for name in lists or {}:
        if not isinstance(name, str) or not re.fullmatch(r"\w+", name):
            raise FeatureError("a list needs a plain name", got=shown(name), wanted="letters, digits and _")
    return {name: list_of(phrases) for name, phrases in (lists or {}).items()}


def templates_of_lists(functions: Iterable[str], lists: Iterable[str]) -> list[str]:
    """Templates for lists that no function names: ``in:cities`` at the token and at its neighbours."""
    named = {found[2] for function in functions if (found := _FUNCTION.search(function))}
    return [f"in:{name}[{offset}]" for name in lists if name not in named for offset in _NEAR]


class ListColumn:
    """The column of a list, for texts that have numbers."""

    def __init__(self, function: str, lists: Mapping[str, PhraseList]) -> None:
        found = _FUNCTION.fullmatch(function)
        assert found is not None
        if found[2] not in lists:
            raise FeatureError(
                f"there is no list {found[2]!r}",
                got=f"lists {', '.join(lists)}" if lists else "no lists",
                wanted=f"a list for the template {function}[...]",
                cause=f"Pass lists={{{found[2]!r}: [...]}}, on the command line --list {found[2]}=FILE.",
            )
        ignoring: Ignoring = None if found[1] == "in" else "case"
        self._lookup = lists[found[2]].lookup(ignoring)

    def words(self, texts: Sequence[str]) -> Ids:
        """The number of each text as a word of the list, or -1."""
        return np.fromiter(map(self._lookup.word, texts), dtype=np.int32, count=len(texts))

    def ids(self, words: Ids, offsets: npt.NDArray[np.int64]) -> Ids:
        """(N) the value of each token, whose words these are."""
        out = np.zeros(len(words), dtype=np.int32)
        self._lookup.native.places(np.ascontiguousarray(words), offsets, out)
        return np.where(out > 0, out + (FIRST - 1), 0).astype(np.int32)


def arrays_of(lists: Mapping[str, PhraseList]) -> Arrays:
    """What a model file keeps of lists."""
    return {f"lists.{name}": np.frombuffer(phrases.content, dtype=np.uint8) for name, phrases in lists.items()}


def restored_lists(names: Iterable[str], arrays: Arrays) -> dict[str, PhraseList]:
    """The way back; arrays that are not lists raise FeatureError or KeyError."""
    out = {}
    for name in names:
        content: Any = arrays[f"lists.{name}"]
        if content.dtype != np.uint8 or content.ndim != 1 or not content.size:
            raise FeatureError(f"the list {name!r} is not text")
        out[str(name)] = PhraseList(content.tobytes())
    return lists_of(out)
