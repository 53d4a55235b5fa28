"""Blocks of files, and their rows as plain values, for tests of readers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bridle.data import Pace, read
from bridle.data.blocks import ROWS, SIZE
from bridle.data.files import opened
from bridle.errors import BridleError
from bridle.tagging import Block

Row = tuple[Any, ...]  # id, columns, labels of the file, given values, comments, place


def blocks(
    path: Path, format: str | None = None, start: int = 0, *, rows: int = ROWS, size: int = SIZE, **options: Any
) -> Iterator[Block]:
    """The blocks of a file from a place on, of so many rows at most; size: bytes that are read at once."""
    source, kind = opened(path, format, options)
    try:
        yield from kind.blocks(source, start, Pace(rows, most=rows, bytes=size))
    finally:
        source.close()


def rows_of(block: Block) -> list[Row]:
    """The sequences of a block; None in place of one that could not be read."""
    result: list[Any] = []
    for row in range(len(block)):
        lists = {name: column.row(row) for name, column in block.columns.items()}
        columns = {name: texts for name, texts in lists.items() if texts is not None}
        gold, comments = (None if x is None else x.row(row) for x in (block.gold, block.comments))
        name = None if block.ids is None else block.ids[row]
        given = {} if block.given is None else dict(block.given[row])
        result.append(None if row in block.errors else (name, columns, gold, given, comments or [], block.where(row)))
    return result


def read_blocks(
    path: Path, format: str, start: int = 0, **more: Any
) -> tuple[list[Row], BridleError | None, list[int]]:
    """The rows of all blocks before the first that could not be read, its error, and where blocks end."""
    result, ends = list[Any](), list[int]()
    try:
        for block in blocks(path, format, start, **more):
            assert (0 <= block.share <= 1 and 0 < len(block) <= more.get("rows", ROWS)) or block.left_out
            result += rows_of(block)
            if block.errors:
                first = min(block.errors)
                error = block.errors[first]
                return result[: len(result) - len(block) + first], error, ends
            ends.append(block.end)
    except BridleError as error:
        return result, error, ends
    return result, None, ends


def read_one_by_one(path: Path, format: str, **options: Any) -> tuple[list[Row], BridleError | None]:
    """The sequences of a file before its first error, and the error."""
    result = list[Any]()
    try:
        for item in read(path, format, **options):
            columns = {name: list(column) for name, column in item.columns.items()}
            labels = None if item.labels is None else list(item.labels)
            result.append((item.id, columns, labels, dict(item.given), list(item.comments), item.where))
    except BridleError as error:
        return result, error
    return result, None
