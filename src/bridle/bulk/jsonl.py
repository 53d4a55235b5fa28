"""Blocks of `jsonl` files: a kernel reads lines about which nothing is unusual, the reader of `bridle.data` others.

So sequences and errors are those of `bridle.data`, at the speed of the kernel. The kernel learns the keys of a file as
they come: `bridle.data` reads a line with a new key. The end of a block is counted in bytes of the decompressed file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bridle._native import JsonReader as Kernel
from bridle.bulk.base import GIVEN, GOLD, ID, ROWS, TOKENS, Block, OnError
from bridle.bulk.batches import Pieces, arrow, list_array, own_name, string_array, without
from bridle.bulk.source import Text, TextFile, TextReader, text_blocks
from bridle.data.jsonl import BROKEN_RULES, KEYS, JsonLines, json_object, near_key
from bridle.errors import FileError

_MORE, _FULL, _ODD = range(3)  # why the kernel stopped
_TOKENS, _LABELS, _ID, _GIVEN, _COLUMN, _WANTED, _SKIP = range(7)  # what a key is for
_MOST = 64  # keys that the kernel knows


@dataclass(frozen=True)
class JsonLinesReader(TextReader):
    """Reads `jsonl` files in UTF-8."""

    format: JsonLines
    on_error: OnError = "raise"  # what happens at a line that is no sequence

    def opened(self, path: str, start: int, size: int) -> TextFile:
        """A file, from a place on."""
        return _File(self, path, start, size)


class _File:
    """A file while it is read."""

    def __init__(self, reader: JsonLinesReader, path: str, start: int, size: int) -> None:
        self.reader, self.format, self.size = reader, reader.format, size
        self.text = Text(path, start)
        self.pieces = Pieces(self.text.source.name, reader.format.missing)
        self.kernel = Kernel()
        self.roles: dict[str, int] = {}  # of the keys that the kernel knows, in their order
        if start:  # the columns of the first sequences are in all batches
            first = _File(reader, path, 0, size)
            try:
                next(first.blocks(ROWS), None)
            finally:
                first.text.close()
            self.pieces, self.kernel, self.roles = first.pieces, first.kernel, first.roles
            self.kernel.take()

    def blocks(self, rows: int) -> Iterator[Block]:
        """All blocks."""
        return text_blocks(self.text, self.pieces, lambda: self._read(rows), self.size)

    def _read(self, rows: int) -> bool:
        """Read the lines that are held, until there are enough rows; False if more text is needed."""
        text = self.text
        while len(self.pieces) < rows:
            stop, text.at, end = self.kernel.read(text.data, text.at, text.final, rows - len(self.pieces))
            self._take()
            if stop == _MORE:
                return False
            if stop == _ODD:
                self._read_one(end)
        return True

    def _read_one(self, end: int) -> None:
        """Read one line as `bridle.data` does."""
        text, source, line = self.text, self.text.source, ""
        try:
            line = text.decoded(end).removesuffix("\n").removesuffix("\r")
            if line.strip():
                self.pieces.add(self.format.line(source, text.line(), line))
                if len(self.roles) < _MOST:
                    self._learn(json_object(source, text.line(), line, "{...}"))
        except FileError as error:
            if self.reader.on_error == "raise":
                raise
            self.pieces.fail(error, _id_of(line))
        text.at = end

    def _learn(self, record: dict[str, Any]) -> None:
        """Tell the kernel about the keys of a line that is a sequence."""
        form = self.format
        known = (form.tokens, form.label or "labels", "id", "given")
        for key in [*(form.columns or ()), *record]:
            near = near_key(key, known) if form.columns is None else None
            role = self._role(key)
            if key == "word" and role in (_COLUMN, _WANTED):  # it replaces the tokens; the kernel would keep both
                continue
            if key not in self.roles and len(self.roles) < _MOST:
                self.roles[key] = role
                self.kernel.add_key(key, self.roles[key], near or "")

    def _role(self, key: str) -> int:
        form = self.format
        roles = {"id": _ID, "given": _GIVEN, form.tokens: _TOKENS}
        if form.label is not None and form.label not in roles:
            roles[form.label] = _LABELS
        if key in roles:
            return roles[key]
        if key in KEYS or (form.columns is None and key in BROKEN_RULES):
            return _SKIP
        return _COLUMN if form.columns is None else _WANTED if key in form.columns else _SKIP

    def _take(self) -> None:
        """Add the rows that the kernel has read."""
        if not (count := len(self.kernel)):
            return
        arrays: dict[str, Any] = {}
        for (key, role), (rows, known, ends, data, whole) in zip(self.roles.items(), self.kernel.take(), strict=True):
            if role == _SKIP or (role != _TOKENS and not any(known)):
                continue
            values = string_array(ends, data, whole)
            if role == _ID:
                arrays[ID] = _one_each(rows, values, known), np.frombuffer(known, np.uint8)
            elif role == _GIVEN:
                arrays[GIVEN] = _one_each(rows, values, known)
            elif role == _LABELS:
                arrays[GOLD] = list_array(rows, without(values, self.format.missing), known)
            else:
                arrays[TOKENS if role == _TOKENS else own_name(key)] = list_array(rows, values, known)
        self.pieces.extend(count, arrays)


def _one_each(rows: bytes, values: Any, known: bytes) -> Any:
    """A string per row, null where there is none, from lists with one string or none."""
    there = np.frombuffer(known, np.uint8) != 0
    if there.all():
        return values
    pa = arrow()
    return values.take(pa.array(np.frombuffer(rows, np.int32)[:-1], mask=~there))


def _id_of(line: str) -> Any:
    """The id in a line that is not a sequence, if it can be told."""
    try:
        record = json.loads(line)
        json.dumps(record, ensure_ascii=False).encode()  # half a character, such as "\\ud800", fails
    except (ValueError, RecursionError):  # which UnicodeError is, too
        return None
    return record.get(ID) if isinstance(record, dict) else None
