"""Interned strings: a column's texts and their numbers, natively."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.errors import FeatureError
from bridle.features.columns import not_a_string
from bridle.texts import Bytes, Offsets, Texts

Ids = npt.NDArray[np.int32]
Arrays = dict[str, npt.NDArray[np.generic]]


def texts_of(texts: Sequence[str]) -> Texts:
    """Texts as the kernels take them."""
    if isinstance(texts, Texts):
        return texts
    try:
        return Texts.of(texts)
    except TypeError:
        raise not_a_string(next(text for text in texts if not isinstance(text, str))) from None


@dataclass(frozen=True, eq=False)
class Interned:
    """Strings with numbers 0, 1, ... in the order of first appearance; -1 is a string that is not there."""

    native: _native.Strings = field(default_factory=_native.Strings)

    def __len__(self) -> int:
        return len(self.native)

    def add(self, texts: Sequence[str]) -> Ids:
        """Numbers of texts, new ones where need be."""
        out, its = np.empty(len(texts), dtype=np.int32), texts_of(texts)
        self.native.add(its.data, its.offsets, None, out)
        return out

    def find(self, texts: Sequence[str]) -> Ids:
        """Numbers of texts."""
        out, its = np.empty(len(texts), dtype=np.int32), texts_of(texts)
        self.native.find(its.data, its.offsets, out)
        return out

    def same(self, other: Interned) -> bool:
        """Are these the same strings with the same numbers?"""
        if self is other:
            return True
        (data, offsets), (other_data, other_offsets) = self._all(), other._all()
        return np.array_equal(offsets, other_offsets) and np.array_equal(data, other_data)

    def _all(self) -> tuple[Bytes, Offsets]:
        data, offsets = np.empty(self.native.n_bytes, dtype=np.uint8), np.zeros(len(self) + 1, dtype=np.int64)
        self.native.dump(data, offsets[1:])
        return data, offsets

    def texts(self) -> list[str]:
        """All strings, by number."""
        try:
            return Texts(*self._all()).tolist()
        except UnicodeDecodeError:  # from a file that something else has written
            return [text.decode("utf-8", "replace") for text in _bytes(*self._all())]

    def arrays(self, name: str) -> Arrays:
        """What a file keeps of it; nulls and line feeds within strings are escaped there."""
        data, offsets = self._all()
        if np.isin(data, (0, 10)).any():
            escaped = [text.replace(b"\0", b"\0\0").replace(b"\n", b"\0n") for text in _bytes(data, offsets)]
            data, offsets = _packed(escaped)
        return {f"{name}bytes": data, f"{name}ends": offsets[1:]}

    @classmethod
    def restored(cls, name: str, arrays: Arrays) -> Interned:
        """The way back from `arrays`."""
        made = cls()
        data, ends = arrays[f"{name}bytes"], arrays[f"{name}ends"]
        fits = data.dtype == np.uint8 and ends.dtype == np.int64 and data.ndim == ends.ndim == 1
        offsets = np.append(0, ends) if fits else np.zeros(1, dtype=np.int64)
        fits = fits and offsets[-1] == len(data) and bool((np.diff(offsets) >= 0).all())
        if fits:
            if not data.all():
                packed: Any = data
                plain = [re.sub(b"\0(.)", _unescaped, text, flags=re.DOTALL) for text in _bytes(packed, offsets)]
                data, offsets = _packed(plain)
            made.native.add(np.ascontiguousarray(data), offsets, None, np.empty(len(ends), dtype=np.int32))
        if not fits or len(made.native) != len(ends):
            raise FeatureError(f"the strings of {name.rstrip('.')!r} do not fit together", wanted="each string once")
        return made


def _bytes(data: npt.NDArray[np.generic], offsets: Offsets) -> list[bytes]:
    whole = data.tobytes()
    return [whole[low:high] for low, high in pairwise(offsets.tolist())]


def _packed(texts: list[bytes]) -> tuple[Bytes, Offsets]:
    return np.frombuffer(b"".join(texts), dtype=np.uint8), np.cumsum([0, *map(len, texts)], dtype=np.int64)


def _unescaped(found: re.Match[bytes]) -> bytes:
    return b"\n" if found[1] == b"n" else b"\0"
