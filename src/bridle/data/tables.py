"""Arrow tables of sequences: the supported types, and slices of rows that fit into memory.

Types whose arrays can be larger than their buffers (views, runs, unions, lists of a fixed length, extensions) are not
read. Dictionaries of strings are an exception: each use of a string is counted.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import IO, Any

import numpy as np

from bridle.data.limits import LONGEST
from bridle.errors import FileError

ROWS = 1024  # that become Python objects at once
_DEEPEST = 8  # lists and structs within each other


class Part(io.RawIOBase):
    """Some bytes of a file, as a file; asking for more than there are does not allocate memory."""

    def __init__(self, file: IO[bytes], begin: int, end: int) -> None:
        self.file, self.begin, self.end, self.at = file, begin, end, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """The current position, from its own beginning."""
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position."""
        from_ = {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.end - self.begin}[whence]
        self.at = max(from_ + offset, 0)
        return self.at

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes, at most as many as there are."""
        room = max(self.end - self.begin - self.at, 0)
        self.file.seek(self.begin + min(self.at, self.end - self.begin))
        data = self.file.read(room if size is None or size < 0 else min(size, room))
        self.at += len(data)
        return data


@cache
def _types() -> Any:
    return import_module("pyarrow").types


def is_null(kind: Any) -> bool:
    """Is a column of this type empty?"""
    return bool(_types().is_null(kind))


def _is_text(kind: Any) -> bool:
    types = _types()
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_list(kind: Any) -> bool:
    return bool(_types().is_list(kind) or _types().is_large_list(kind))


def is_strings(kind: Any) -> bool:
    """Is it a type of lists of strings? Lists that are all empty may have the type null."""
    return _is_list(kind) and (_is_text(kind.value_type) or is_null(kind.value_type))


def is_integers(kind: Any) -> bool:
    """Is it a type of lists of integers?"""
    return _is_list(kind) and bool(_types().is_integer(kind.value_type))


def is_plain(kind: Any, depth: int = 0) -> bool:
    """Is it text, a number, or a list or struct of these?"""
    types = _types()
    if depth > _DEEPEST:
        return False
    if _is_list(kind):
        return is_plain(kind.value_type, depth + 1)
    if types.is_struct(kind):
        return all(is_plain(kind.field(k).type, depth + 1) for k in range(kind.num_fields))
    return bool(_is_text(kind) or types.is_null(kind) or types.is_primitive(kind) or types.is_boolean(kind))


def slices(batch: Any, most: int = ROWS) -> Iterator[Any]:
    """The rows of a record batch, in slices of at most `most` rows that do not become too many Python objects."""
    at, rows = 0, most
    while at < batch.num_rows:
        part = batch.slice(at, rows)
        if (weight := sum(map(_weight, part.columns))) <= LONGEST:
            yield part
            at, rows = at + rows, most
        elif rows > 1:
            rows //= 2
        else:
            raise FileError(
                "a sequence is too long",
                got=f"{weight:,} values and bytes of text",
                wanted=f"at most {LONGEST:,}",
                cause="Is the file damaged, or are many sequences in one row?",
            )


def _weight(array: Any) -> int:
    """The number of values of an array, and the number of bytes of its strings."""
    types, compute, kind = _types(), import_module("pyarrow.compute"), array.type
    if _is_list(kind):
        inner = array.flatten()
        return len(inner) + _weight(inner)
    if types.is_struct(kind):
        return len(array) + sum(map(_weight, array.flatten()))
    if types.is_dictionary(kind):
        return len(array) + (compute.sum(compute.binary_length(array.dictionary).take(array.indices)).as_py() or 0)
    if not _is_text(kind) or not len(array):
        return len(array)
    ends = np.frombuffer(array.buffers()[1], np.int64 if types.is_large_string(kind) else np.int32)
    return len(array) + int(ends[array.offset + len(array)] - ends[array.offset])
