"""How much the parts of Arrow and Parquet files unpack to, read from their headers before memory is taken for them.

Both formats say so in front of the data, in FlatBuffers (Arrow) and in Thrift's compact protocol (Parquet). Only what
is needed for the sizes is read here; pyarrow checks the rest. What is wrong raises ValueError, IndexError or
struct.error.

    Arrow, a message     [ffffffff] length metadata body; each packed buffer of the body begins with its size, 8 bytes
    Parquet, a page      header (type, unpacked size, packed size, ..., number of values) data
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from io import RawIOBase
from typing import IO, Any

from bridle.data.limits import check_unpacked
from bridle.errors import FileError

MOST_VALUES = 1 << 25  # of a column chunk,
VALUES_PER_BYTE = 64  # if they are more than so many per byte
_CONTINUES = 0xFFFFFFFF
_DICTIONARY, _BATCH = 2, 3  # kinds of Arrow messages
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)
_DEEPEST = 16  # structs within each other in a header
_HEADER = 1 << 16  # bytes of a page header; those of long strings have their smallest and largest value in them


# ---- Arrow ----------------------------------------------------------------------------------------------------------


def check_messages(file: IO[bytes], begin: int, end: int) -> None:
    """Raise unless all messages of an Arrow stream, in bytes `begin` to `end` of a file, unpack to what they may."""
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
    """A table of FlatBuffers: fields by number, which may be missing."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        self.fields = at - struct.unpack_from("<i", data, at)[0]
        if self.fields < 0:
            raise ValueError("a table lies outside of its message")

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, struct.unpack_from("<I", data)[0])

    def place(self, field: int) -> int:
        """Where a field stands; 0: nowhere."""
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


def check_pages(file: IO[bytes] | RawIOBase, name: str, chunk: Any) -> None:
    """Raise unless the pages of a column chunk (of pyarrow's metadata) unpack to what they may."""
    begin, size = chunk.data_page_offset, chunk.total_compressed_size
    if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
        begin = min(begin, chunk.dictionary_page_offset)
    if begin < 0 or size < 0:
        raise ValueError("a column lies outside of the file")
    at, values = begin, 0
    _check_values(name, chunk.num_values, size)
    while at < begin + size and values < chunk.num_values:
        file.seek(at)
        header = _Compact(file.read(_HEADER) or b"")
        page = header.struct()
        unpacked, packed = page.get(2), page.get(3)
        if not isinstance(unpacked, int) or not isinstance(packed, int) or packed < 0 or unpacked < 0:
            raise ValueError("a page without its size")
        check_unpacked(f"a page of column {name!r}", unpacked, packed)
        for part in (5, 7, 8):  # a page of values; a dictionary; a page of the second version
            counts = page.get(part)
            count = counts.get(1) if isinstance(counts, dict) else 0
            if not isinstance(count, int) or count < 0:
                raise ValueError("a page without the number of its values")
            if part == 7:
                _check_values(name, count, packed)
            else:
                values += count
        _check_values(name, values, size)
        at += header.at + packed


def _check_values(name: str, values: int, size: int) -> None:
    most = max(MOST_VALUES, VALUES_PER_BYTE * size)
    if values > most:
        raise FileError(
            f"column {name!r} unpacks to too many values",
            got=f"{values:,} values out of {size:,} bytes",
            wanted=f"at most {most:,}",
            cause="Is the file damaged, or meant to fill the memory? Write it again in smaller row groups.",
        )


class _Compact:
    """Thrift's compact protocol: structs as dicts from the numbers of fields to numbers and structs."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 63:
                raise ValueError("a number that is too long")

    def integer(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """The fields of the struct that begins here."""
        if depth > _DEEPEST:
            raise ValueError("a header with too many structs within each other")
        found: dict[int, Any] = {}
        field = 0
        while (byte := self.byte()) != _STOP:
            field = field + (byte >> 4) if byte >> 4 else self.integer()
            kind = byte & 0x0F
            found[field] = kind == _TRUE if kind in (_TRUE, _FALSE) else self.value(kind, depth)
        return found

    def value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE, _BYTE):
            return self.byte()
        if kind in (_I16, _I32, _I64):
            return self.integer()
        if kind == _DOUBLE:
            self.at += 8
        elif kind == _BINARY:
            length = self.varint()  # which moves on itself
            self.at += length
        elif kind in (_LIST, _SET):
            head = self.byte()
            for _ in range(head >> 4 if head >> 4 < 15 else self.varint()):
                self.value(head & 0x0F, depth + 1)
        elif kind == _STRUCT:
            return self.struct(depth + 1)
        else:
            raise ValueError("a header with a value of an unknown kind")
        return None
