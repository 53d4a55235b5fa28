"""Texts that training has not seen: what derived columns say of them.

The kernels do the functions of derived.py for text of ASCII. Python does the rest, and remembers it: words that are new
to a model come again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from threading import Lock

import numpy as np
import numpy.typing as npt

from bridle.errors import FeatureError
from bridle.features.derived import FIRST
from bridle.features.strings import Interned
from bridle.texts import Texts

Ids = npt.NDArray[np.int32]
Derive = Callable[[Sequence[str]], Ids]  # the ids of a column for some texts

MOST_BYTES = 1 << 25  # that the rows of one source may take
LONGEST = 256  # characters of a text that is remembered
_OVERHEAD = 200  # bytes of an entry besides its text and its row, roughly


class UnseenTexts:
    """What the derived columns of one source say of texts without a number.

    native: column -> the function that the kernels know, and the strings of the column; derive: column -> the same in
    Python, for all columns.
    """

    def __init__(self, native: Mapping[str, tuple[str, Interned]], derive: Mapping[str, Derive]) -> None:
        self._native = dict(native)
        self._rest = _Rows({name: derive[name] for name in native})  # of texts that the kernels leave to Python
        self._python = _Rows({name: one for name, one in derive.items() if name not in native})

    def of(self, texts: Texts) -> dict[str, Ids]:
        """The ids of each column, or the words of a list."""
        out = {name: np.empty(len(texts), dtype=np.int32) for name in self._native}
        for name, (function, strings) in self._native.items():
            if not strings.native.derive(function, texts.data, texts.offsets, FIRST, out[name]):
                raise FeatureError("the kernels do not know this function", got=function, wanted="one of texts.cpp")
        left = np.flatnonzero(next(iter(out.values())) < 0) if out else np.zeros(0, dtype=np.int64)  # the same for all
        if len(left):
            found = self._rest.of([texts[k] for k in left.tolist()])
            for name, ids in out.items():
                ids[left] = found[name]
        return out | self._python.of(texts.tolist()) if self._python.derive else out


class _Rows:
    """The ids of some columns for texts, which are remembered, within MOST_BYTES."""

    def __init__(self, derive: Mapping[str, Derive]) -> None:
        self.derive = dict(derive)
        self._known: dict[str, bytes] = {}  # text -> an id per column
        self._bytes = 0
        self._lock = Lock()

    def of(self, texts: list[str]) -> dict[str, Ids]:
        known = self._known  # reading needs no lock: rows never change
        rows = [known.get(text) for text in texts]
        new = [k for k, row in enumerate(rows) if row is None]
        if new:
            made = self._made([texts[k] for k in new])
            for k, row in zip(new, made, strict=True):
                rows[k] = row
            self._remember([texts[k] for k in new], made)
        table = np.frombuffer(b"".join(row for row in rows if row is not None), dtype=np.int32)
        table = table.reshape(len(texts), len(self.derive))
        return {name: table[:, k] for k, name in enumerate(self.derive)}

    def _made(self, texts: list[str]) -> list[bytes]:
        table = np.stack([one(texts) for one in self.derive.values()], axis=1).tobytes()
        width = 4 * len(self.derive)
        return [table[k : k + width] for k in range(0, len(table), width)]

    def _remember(self, texts: list[str], rows: list[bytes]) -> None:
        with self._lock:
            for text, row in zip(texts, rows, strict=True):
                if len(text) <= LONGEST and text not in self._known:
                    self._known[text] = row
                    self._bytes += _size(text, row)
            if self._bytes > MOST_BYTES:
                kept = dict(islice(self._known.items(), len(self._known) // 2, None))  # the newer half
                self._bytes = sum(_size(text, row) for text, row in kept.items())
                if self._bytes > MOST_BYTES:
                    kept, self._bytes = {}, 0
                self._known = kept  # those who read the old one may go on


def _size(text: str, row: bytes) -> int:
    return 4 * len(text) + len(row) + _OVERHEAD
