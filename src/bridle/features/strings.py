"""Interned strings: a column's texts and their numbers, natively."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.errors import FeatureError, shown
from bridle.frames import NAMELESS
from bridle.texts import Texts

Ids = npt.NDArray[np.int32]
Arrays = dict[str, npt.NDArray[np.generic]]


def joined(texts: Sequence[str]) -> bytes:
    """All texts in one, with line feeds between them; those within texts are escaped."""
    try:
        whole = "\n".join(texts)
    except TypeError:
        k = next(k for k, text in enumerate(texts) if not isinstance(text, str))
        lists = isinstance(texts[k], (list, tuple))
        cause = NAMELESS if lists else "Numbers and None must be turned into text first."
        raise FeatureError("a token is not a string", got=shown(texts[k]), wanted="str", cause=cause) from None
    if "\0" in whole or whole.count("\n") != max(len(texts) - 1, 0):
        whole = "\n".join(text.replace("\0", "\0\0").replace("\n", "\0n") for text in texts)
    return whole.encode("utf-8", "surrogatepass")


def _plain(data: bytes) -> str:
    try:
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # from a file that something else has written
        text = data.decode("utf-8", "replace")
    return re.sub("\0(.)", lambda found: "\n" if found[1] == "n" else "\0", text, flags=re.DOTALL)


@dataclass(frozen=True, eq=False)
class Interned:
    """Strings with numbers 0, 1, ... in the order of first appearance; -1 is a string that is not there."""

    native: _native.Strings = field(default_factory=_native.Strings)

    def __len__(self) -> int:
        return len(self.native)

    def add(self, texts: Sequence[str]) -> Ids:
        """Numbers of texts, new ones where need be."""
        out = np.empty(len(texts), dtype=np.int32)
        self.native.add(joined(texts), out)
        return out

    def find(self, texts: Sequence[str]) -> Ids:
        """Numbers of texts."""
        out = np.empty(len(texts), dtype=np.int32)
        if isinstance(texts, Texts):
            self.native.find_texts(texts.data, texts.offsets, out)
        else:
            self.native.find(joined(texts), out)
        return out

    def same(self, other: Interned) -> bool:
        """Are these the same strings with the same numbers?"""
        if self is other:
            return True
        ours, theirs = self.arrays(""), other.arrays("")
        return all(np.array_equal(ours[name], theirs[name]) for name in ours)

    def texts(self) -> list[str]:
        """All strings, by number."""
        arrays = self.arrays("")
        whole, ends = arrays["bytes"].tobytes(), arrays["ends"].tolist()
        return [_plain(whole[a:b]) for a, b in zip([0, *ends], ends, strict=False)]

    def arrays(self, name: str) -> Arrays:
        """What a file keeps of it."""
        data, ends = np.empty(self.native.n_bytes, dtype=np.uint8), np.empty(len(self), dtype=np.int64)
        self.native.dump(data, ends)
        return {f"{name}bytes": data, f"{name}ends": ends}

    @classmethod
    def restored(cls, name: str, arrays: Arrays) -> Interned:
        """The way back from `arrays`."""
        made = cls()
        data, ends = arrays[f"{name}bytes"], arrays[f"{name}ends"]
        fits = data.dtype == np.uint8 and ends.dtype == np.int64 and data.ndim == ends.ndim == 1
        if not fits or not made.native.fill(np.ascontiguousarray(data), np.ascontiguousarray(ends)):
            raise FeatureError(f"the strings of {name.rstrip('.')!r} do not fit together", wanted="each string once")
        return made
