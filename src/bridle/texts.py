r"""Texts: many strings as Arrow keeps them, in one array of bytes; and words in text of any script.

A column of a million tokens is two arrays here, where a list would be a million objects. The kernels read the arrays;
Python makes a string only on request.

A word consists of letters, digits, _ and the marks that go with them. The `\w` of Python's `re` leaves combining marks
out, so it would cut vowel signs off the letters of Indic scripts, and accents off decomposed letters (`e` and U+0301).
Joiners within a word (U+200C, U+200D) do not cut it either.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import overload

import numpy as np
import numpy.typing as npt

from bridle import _native

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]


class Texts(Sequence[str]):
    """A sequence of strings in UTF-8, end to end.

    Parameters
    ----------
    data : array of uint8
        The bytes of all strings.
    offsets : array of int64, shape (N + 1,)
        Where each string begins, and where the last one ends. They need not begin at 0.

    Examples
    --------
    >>> texts = Texts.of(["Zürich", "", "Wien"])
    >>> texts[0], len(texts), list(texts[1:])
    ('Zürich', 3, ['', 'Wien'])
    """

    __slots__ = ("data", "offsets")

    def __init__(self, data: Bytes, offsets: Offsets) -> None:
        self.data, self.offsets = data, offsets

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        """Pack strings, if they are not packed yet; lone surrogates, which UTF-8 does not have, are kept."""
        return texts if isinstance(texts, Texts) else cls(*_native.packed(texts))

    @classmethod
    def joined(cls, parts: Sequence[Sequence[str]]) -> Sequence[str]:
        """Join lists of strings end to end; a plain list if all of them are."""
        if len(parts) == 1:
            return parts[0]
        if not any(isinstance(part, Texts) for part in parts):
            return [text for part in parts for text in part]
        packed = [cls.of(part) for part in parts]
        lengths = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.offsets) for part in packed)])
        data = [part.data[part.offsets[0] : part.offsets[-1]] for part in packed]
        return cls(np.concatenate(data), np.cumsum(lengths))

    def take(self, at: npt.NDArray[np.int32] | npt.NDArray[np.int64]) -> Texts:
        """Take the strings at these places, in this order; a place may occur more than once."""
        return Texts(*_native.taken(self.data, self.offsets, at))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, k: int) -> str: ...
    @overload
    def __getitem__(self, k: slice) -> Texts: ...
    def __getitem__(self, k: int | slice) -> str | Texts:
        if isinstance(k, slice):
            low, high, step = k.indices(len(self))
            if step != 1:
                raise ValueError(f"texts can only be sliced with a step of 1; got a step of {step}")
            return Texts(self.data, self.offsets[low : max(low, high) + 1])
        if not -len(self) <= k < len(self):
            raise IndexError(f"text {k} of {len(self)}")
        low, high = self.offsets[k % len(self)], self.offsets[k % len(self) + 1]
        return self.data[low:high].tobytes().decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    def tolist(self) -> list[str]:
        """Return a list of all strings."""
        return _native.listed(self.data, self.offsets)

    def equal(self, text: str) -> npt.NDArray[np.bool_]:
        """Return for each string whether it equals `text`."""
        data = text.encode("utf-8", "surrogatepass")
        at = np.flatnonzero(np.diff(self.offsets) == len(data))
        for k, byte in enumerate(data):
            at = at[self.data[self.offsets[at] + k] == byte]
        same = np.zeros(len(self), dtype=bool)
        same[at] = True
        return same

    def distinct(self, at: npt.NDArray[np.int64] | None = None) -> tuple[Texts, npt.NDArray[np.int32]]:
        """Return each text once, in the order of first appearance, and the number of the text at each place.

        at: the places that count; None: all of them.
        """
        strings = _native.Strings()
        which = np.empty(len(self) if at is None else len(at), dtype=np.int32)
        strings.add(self.data, self.offsets, at, which)
        data, offsets = np.empty(strings.n_bytes, dtype=np.uint8), np.zeros(len(strings) + 1, dtype=np.int64)
        strings.dump(data, offsets[1:])
        return Texts(data, offsets), which

    def __repr__(self) -> str:
        return f"Texts({len(self):,} strings, {int(self.offsets[-1] - self.offsets[0]):,} bytes)"


# ---- words ----------------------------------------------------------------------------------------------------------

_LATIN = r"0-9A-Za-z_\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f"


@cache
def word_pattern(alone: str = "") -> str:
    """Return the regular expression of a word. alone: ranges of characters that are never part of one.

    >>> import re
    >>> re.findall(word_pattern(), "हिन्दी, भाषा!")
    ['हिन्दी', 'भाषा']
    """
    marks = _marks()
    letter = rf"[^\W{alone}]"
    # first: most words of Latin script, found faster
    return rf"[{_LATIN}]++(?![\w{marks}])|{letter}+(?:[{marks}]+{letter}*)*"


def _marks() -> str:
    """Return combining marks and joiners as ranges, which `re` searches faster than a list of characters."""
    codes = [0x200C, 0x200D, *(k for k in range(0x300, 0x20000) if unicodedata.category(chr(k)) in ("Mn", "Mc"))]
    runs = groupby(enumerate(sorted(codes)), lambda pair: pair[1] - pair[0])
    each = ([code for _, code in run] for _, run in runs)
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in each)
