"""What candidate spans lie in: positions, tokens, and texts that keep their spaces.

Positions are the characters of a text, or tokens. T tokens; token k holds the positions starts[k] .. ends[k] - 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from bridle.errors import GivenError, LatticeError, shown
from bridle.spans.lattice import Ints
from bridle.texts import word_pattern

MOST_POSITIONS = 10_000_000  # of one text that rules read

# Scripts without spaces between words: every character is a token.
_ALONE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_ASCII = re.compile(r"\w+|[^\w\s]")  # what _token() finds in ASCII, ten times as fast


@lru_cache(maxsize=1)
def _token() -> re.Pattern[str]:
    """Words, with their marks; every other character but white space alone."""
    return re.compile(rf"{word_pattern(_ALONE)}|[{_ALONE}]|[^\w\s]")


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One text, as far as spans and rules look at it."""

    n: int  # positions
    unit: str  # what a position is
    starts: Ints  # (T,)
    ends: Ints  # (T,)
    slice: Callable[[int, int], str] | None  # the text from one position to another; None: it is not known

    @property
    def by_token(self) -> bool:
        """Is a position a token?"""
        return self.unit == "tokens"

    def sizes(self, start: Ints, end: Ints) -> Ints:
        """How many tokens spans touch."""
        found = np.searchsorted(self.starts, end, "left") - np.searchsorted(self.ends, start, "right")
        return np.asarray(found, dtype=np.int32)

    def texts(self, start: Ints, end: Ints) -> list[str]:
        """The texts of spans."""
        if self.slice is None:
            raise GivenError(
                "the rules need the texts of spans",
                got="neither text nor tokens",
                wanted="text=..., tokens=..., or both",
                cause="Pass them with the candidates.",
            )
        return list(map(self.slice, start.tolist(), end.tolist()))


def document_of(text: str | None, tokens: Any, ends: Ints) -> Document:
    """The document behind candidate spans that end there.

    text alone: positions are characters; tokens: positions are tokens; neither: tokens without texts, to the last end.
    """
    check_inside(text, tokens, ends)
    places = text if tokens is None else tokens
    n = len(places) if places is not None else int(ends.max()) if len(ends) else 0
    if n > MOST_POSITIONS:
        raise LatticeError(
            "rules would read too many positions",
            got=f"{n:,}",
            wanted=f"at most {MOST_POSITIONS:,}",
            cause="Are the positions counted from somewhere else? If not, pass the text in parts.",
        )
    if tokens is not None:
        return _of_tokens(text, tokens)
    if text is not None:
        found = np.array(
            [m.span() for m in (_ASCII if text.isascii() else _token()).finditer(text)], dtype=np.int32
        ).reshape(-1, 2)
        return Document(len(text), "characters", found[:, 0].copy(), found[:, 1].copy(), lambda a, b: text[a:b])
    each = np.arange(n + 1, dtype=np.int32)
    return Document(n, "tokens", each[:-1], each[1:], None)


def check_inside(text: str | None, tokens: Any, ends: Ints) -> None:
    """Raise if text or tokens are none, or if a span ends outside of them."""
    if text is not None and not isinstance(text, str):
        raise LatticeError("text is not a string", got=shown(text), wanted="the text that spans are positions in")
    if isinstance(tokens, (str, bytes)) or not (tokens is None or isinstance(tokens, Sequence | np.ndarray)):
        raise LatticeError("tokens are not a list", got=shown(tokens), wanted="strings, or pairs (start, end)")
    unit, n = ("characters", text) if tokens is None else ("tokens", tokens)
    if n is not None and len(ends) and (last := int(ends.max())) > len(n):
        raise LatticeError(
            f"span {int(ends.argmax())} ends outside",
            got=last,
            wanted=f"at most {len(n)}, the number of {unit}",
            cause="Positions are characters if only `text` is given, and tokens if `tokens` is.",
        )


def _of_tokens(text: str | None, tokens: Sequence[Any]) -> Document:
    items = tokens.tolist() if isinstance(tokens, np.ndarray) else list(tokens)
    each = np.arange(len(items) + 1, dtype=np.int32)
    if all(isinstance(item, str) for item in items):
        if text is None:
            return Document(len(items), "tokens", each[:-1], each[1:], lambda a, b: " ".join(items[a:b]))
        pairs = _found_in(text, items)
    else:
        pairs = _pairs(text, items)

    def between(a: int, b: int) -> str:
        assert text is not None
        return text[pairs[a][0] : pairs[b - 1][1]]

    return Document(len(items), "tokens", each[:-1], each[1:], between)


def _pairs(text: str | None, items: Sequence[Any]) -> list[tuple[int, int]]:
    wanted = "pairs (start, end) in order, as positions in `text`"
    if text is None:
        raise LatticeError("offsets of tokens need their text", got="no text", wanted="text=...")
    out, last = [], 0
    for item in items:
        try:
            a, b = map(int, item)
        except (TypeError, ValueError):
            raise LatticeError("tokens are neither strings nor offsets", got=shown(item), wanted=wanted) from None
        if not last <= a <= b <= len(text):
            raise LatticeError("offsets of tokens do not fit the text", got=(a, b), wanted=wanted)
        out.append((a, b))
        last = b
    return out


def _found_in(text: str, items: Sequence[str]) -> list[tuple[int, int]]:
    out, last = [], 0
    for k, item in enumerate(items):
        at = text.find(item, last)
        if at < 0:
            raise LatticeError(f"token {k} is not in the text", got=shown(item), wanted="tokens of `text`, in order")
        out.append((at, last := at + len(item)))
    return out
