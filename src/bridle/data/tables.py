"""Arrow tables of sequences: supported types, slices of rows that fit into memory, and sizes before decompression.

Types whose arrays can be larger than their buffers (views, runs, unions, lists of a fixed length, extensions) are not
read. Dictionaries of strings are an exception: each use of a string is counted. Both formats store sizes before the
data, in FlatBuffers (Arrow) and in Thrift's compact protocol (Parquet). Only the fields for sizes are read here;
pyarrow checks the rest. Invalid data raises ValueError or struct.error.

    Arrow, a message     [ffffffff] length metadata body; each compressed buffer begins with its size, 8 bytes
    Parquet, a page      header (type, decompressed size, compressed size, ..., number of values) data
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import IO, Any, NamedTuple

import numpy as np

from bridle.data.limits import LONGEST, check_unpacked
from bridle.errors import FileError

ROWS = 1024  # that become Python objects at once
_DEEPEST = 8  # lists and structs within each other


class Part(io.RawIOBase):
    """Some bytes of a file, as a file; asking for more than there are does not allocate memory."""

    def __init__(self, file: IO[bytes], begin: int, end: int) -> None:
        self.file, self.begin, self.end, self.at = file, begin, end, 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
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
    """Check whether a column of this type is empty."""
    return bool(_types().is_null(kind))


def _is_text(kind: Any) -> bool:
    types = _types()
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_list(kind: Any) -> bool:
    return bool(_types().is_list(kind) or _types().is_large_list(kind))


def is_strings(kind: Any) -> bool:
    """Check whether this is a type of lists of strings. Lists that are all empty may have the type null."""
    return _is_list(kind) and (_is_text(kind.value_type) or is_null(kind.value_type))


def is_integers(kind: Any) -> bool:
    """Check whether this is a type of lists of integers."""
    return _is_list(kind) and bool(_types().is_integer(kind.value_type))


def is_plain(kind: Any, depth: int = 0) -> bool:
    """Check whether this is text, a number, or a list or struct of these."""
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


MOST_VALUES = 1 << 25  # of a column chunk,
VALUES_PER_BYTE = 64  # if they are more than so many per byte
_CONTINUES = 0xFFFFFFFF
_DICTIONARY, _BATCH = 2, 3  # kinds of Arrow messages
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)
_DEEPEST_HEADER = 16  # structs within each other in a header
_HEADER = 1 << 16  # bytes of a page header; those of long strings have their smallest and largest value in them
_FOOT = 1 << 24  # bytes of the foot of a file
_BYTES = 6  # the type of text
# What is read: type, path, number of values, size and places of columns; sizes and numbers of values of pages.
_FILE = {4: [{1: [{3: {1: ..., 3: [...], 5: ..., 7: ..., 9: ..., 11: ...}}]}]}
_COUNTS = (5, 7, 8)  # a page of values; a dictionary; a page of the second version
_PAGE = {2: ..., 3: ..., **{part: {1: ...} for part in _COUNTS}}


# ---- Arrow ----------------------------------------------------------------------------------------------------------


def check_messages(file: IO[bytes], begin: int, end: int) -> None:
    """Raise unless all messages of an Arrow stream, in bytes `begin` to `end`, decompress to an allowed size."""
    at, dictionaries, packed = begin, 0, 0
    while at + 8 <= end:
        file.seek(at)
        first, second = struct.unpack("<II", file.read(8))
        length, at = (second, at + 8) if first == _CONTINUES else (first, at + 4)
        if not length:
            return
        _inside(length, end - at)
        file.seek(at)
        table = _Table.root(file.read(length))
        kind, body, at = table.number(1, "B"), table.number(3, "q"), at + length
        _inside(body, end - at)
        batch = table.table(2)
        if kind == _DICTIONARY:
            batch = batch and batch.table(1)
        if batch and kind in (_DICTIONARY, _BATCH):
            size = sum(_unpacked(file, at, body, batch))
            check_unpacked("a record batch", size, body)
            if kind == _DICTIONARY:  # they are kept
                dictionaries, packed = dictionaries + size, packed + body
                check_unpacked("dictionaries", dictionaries, packed)
        at += body


def _inside(length: int, room: int) -> None:
    if not 0 <= length <= room:
        raise ValueError(f"a message of {length:,} bytes, of which {max(room, 0):,} are there")


def _unpacked(file: IO[bytes], at: int, body: int, batch: _Table) -> Iterator[int]:
    """The sizes of the buffers of a record batch."""
    packed = batch.table(3) is not None
    for offset, length in batch.pairs(2):
        if offset < 0 or length < 0 or offset + length > body:
            raise ValueError("a buffer lies outside of its message")
        yield length
        if packed and length >= 8:
            file.seek(at + offset)
            yield max(int.from_bytes(file.read(8), "little", signed=True), 0)  # -1: this one is not packed


class _Table:
    """A FlatBuffers table: fields by number, which may be missing."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        self.fields = at - struct.unpack_from("<i", data, at)[0]
        if self.fields < 0:
            raise ValueError("a table lies outside of its message")

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, struct.unpack_from("<I", data)[0])

    def place(self, field: int) -> int:
        """The place of a field; 0: it is missing."""
        if 4 + 2 * field >= struct.unpack_from("<H", self.data, self.fields)[0]:
            return 0
        offset: int = struct.unpack_from("<H", self.data, self.fields + 4 + 2 * field)[0]
        return self.at + offset if offset else 0

    def number(self, field: int, code: str) -> int:
        at = self.place(field)
        return int(struct.unpack_from(f"<{code}", self.data, at)[0]) if at else 0

    def table(self, field: int) -> _Table | None:
        at = self.place(field)
        return _Table(self.data, at + struct.unpack_from("<I", self.data, at)[0]) if at else None

    def pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """A vector of pairs of 64-bit numbers."""
        if at := self.place(field):
            at += struct.unpack_from("<I", self.data, at)[0]
            count = struct.unpack_from("<I", self.data, at)[0]
            if at + 4 + 16 * count > len(self.data):
                raise ValueError("a vector lies outside of its message")
            yield from struct.iter_unpack("<qq", self.data[at + 4 : at + 4 + 16 * count])


# ---- Parquet --------------------------------------------------------------------------------------------------------


class Chunk(NamedTuple):
    """A column of a row group, as the footer of a Parquet file describes it."""

    path: str  # in the schema, such as tokens.list.element
    is_text: bool
    n_values: int
    begin: int
    size: int  # bytes in the file


def chunks_of(file: IO[bytes], size: int) -> list[Chunk]:
    """The columns of all row groups. (pyarrow reads them too, but aborts the process if some numbers are wrong.)"""
    file.seek(max(size - 8, 0))
    foot, mark = struct.unpack("<I4s", file.read(8))
    if mark != b"PAR1" or foot > min(size - 12, _FOOT):
        raise ValueError("the end of the file is missing, or too long")
    file.seek(size - 8 - foot)
    chunks = []
    for group in _Compact(file.read(foot)).struct(_FILE).get(4, ()):
        for column in group.get(1, ()):
            known = column.get(3, {})
            path, places = known.get(3, []), [known[key] for key in (9, 11) if key in known]
            if len(places) == 0 or not {5, 7} <= set(known) or min(*places, known[5], known[7]) < 0:
                raise ValueError("a column without its place or size")
            text = b".".join(path).decode("utf-8", "replace")
            chunks.append(Chunk(text, known.get(1) == _BYTES, known[5], min(places), known[7]))
    return chunks


def check_pages(file: IO[bytes], chunk: Chunk) -> None:
    """Raise unless the pages of a column decompress to an allowed size."""
    at, values = chunk.begin, 0
    _check_values(chunk.path, chunk.n_values, chunk.size)
    while at < chunk.begin + chunk.size and values < chunk.n_values:
        file.seek(at)
        header = _Compact(file.read(_HEADER))
        page = header.struct(_PAGE)
        unpacked, packed = page.get(2, -1), page.get(3, -1)
        counts = [page[part].get(1, -1) if part in page else 0 for part in _COUNTS]
        if min(unpacked, packed, *counts) < 0:
            raise ValueError("a page without its size or the number of its values")
        check_unpacked(f"a page of column {chunk.path!r}", unpacked, packed)
        _check_values(chunk.path, counts[1], packed)  # a dictionary's do not count
        values += counts[0] + counts[2]
        _check_values(chunk.path, values, chunk.size)
        at += header.at + packed


def _check_values(name: str, values: int, size: int) -> None:
    most = max(MOST_VALUES, VALUES_PER_BYTE * size)
    if values > most:
        raise FileError(
            f"column {name!r} decompresses to too many values",
            got=f"{values:,} values from {size:,} bytes",
            wanted=f"at most {most:,}",
            cause="Is the file damaged or malicious? Write it again in smaller row groups.",
        )


class _Compact:
    """Thrift's compact protocol: structs as dicts from field numbers to values, for wanted fields only.

    `...` asks for a number or bytes, a dict of fields for a struct, and a list of one of these for a list.
    """

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def skip(self, size: int) -> bytes:
        """The next bytes; raises if there are fewer."""
        begin, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise ValueError("a header that ends too early")
        return self.data[begin : self.at]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.skip(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 63:
                raise ValueError("a number that is too long")

    def integer(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def struct(self, wanted: Any, depth: int = 0) -> dict[int, Any]:
        """The fields of the struct that begins here."""
        if depth > _DEEPEST_HEADER:
            raise ValueError("a header with too deeply nested structs")
        values: dict[int, Any] = {}
        fields = wanted if isinstance(wanted, dict) else {}
        field = 0
        while (byte := self.skip(1)[0]) != _STOP:
            field = field + (byte >> 4) if byte >> 4 else self.integer()
            kind = byte & 0x0F
            value = None if kind in (_TRUE, _FALSE) else self.value(kind, fields.get(field), depth)
            if value is not None and field in fields:
                values[field] = value
        return values

    def value(self, kind: int, wanted: Any, depth: int) -> Any:
        """A value; None unless it has the wanted type."""
        if kind in (_I16, _I32, _I64):
            number = self.integer()
            return number if wanted is ... else None
        if kind == _BINARY:
            data = self.skip(self.varint())
            return data if wanted is ... else None
        if kind == _STRUCT:
            record = self.struct(wanted, depth + 1)
            return record if isinstance(wanted, dict) else None
        if kind in (_LIST, _SET):
            head = self.skip(1)[0]
            inner = wanted[0] if isinstance(wanted, list) else None
            count = head >> 4 if head >> 4 < 15 else self.varint()
            items = []
            for _ in range(count):
                item = self.value(head & 0x0F, inner, depth + 1)
                if item is not None:
                    items.append(item)
            return items if isinstance(wanted, list) else None
        if kind not in (_TRUE, _FALSE, _BYTE, _DOUBLE):
            raise ValueError("a header with a value of an unknown kind")
        self.skip(8 if kind == _DOUBLE else 1)
        return None
