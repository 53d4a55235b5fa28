"""Blocks of `parquet` and `arrow` files: the record batches of the file, without a Python object per value.

Types, limits and names of integer labels are those of `bridle.data`, which reads the rows of a batch one by one if
something about them is unusual. The end of a block counts rows; row groups before it are not read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from bridle.bulk.base import GIVEN, GOLD, ID, ROWS, SIZE, TOKENS, Block, OnError
from bridle.bulk.batches import Pieces, arrow, own_name, strings_type, typed_ids, without
from bridle.bulk.source import changed
from bridle.data.jsonl import BROKEN_RULES
from bridle.data.parquet import Arrow, Parquet, whole_file
from bridle.data.source import Source
from bridle.data.tables import is_strings, slices
from bridle.errors import FileError


@dataclass(frozen=True)
class TableReader:
    """Reads `parquet` and `arrow` files."""

    format: Parquet
    on_error: OnError = "raise"  # what happens at a row that is no sequence

    def blocks(self, path: str, start: int = 0, *, rows: int = ROWS, size: int = SIZE) -> Iterator[Block]:
        """Blocks of rows."""
        arrow()
        source = Source(path)
        try:
            if source.total != 0:
                with self.format.guarded(source):
                    yield from self._blocks(source, start, rows, size)
        finally:
            source.close()

    def _blocks(self, source: Source, start: int, rows: int, size: int) -> Iterator[Block]:
        pieces = Pieces(source.name, self.format.missing)
        end, held, share = start, 0, 0.0
        for batch, share_then in self._batches(*whole_file(source), start, rows, source.name):
            batch.validate(full=True)
            names, label = self.format.class_names(batch.schema), self.format.labels(batch.schema.names)
            for part in slices(batch, rows):
                if len(pieces) and (len(pieces) + len(part) > rows or held + part.nbytes > size):
                    yield pieces.block(end, share)
                    held = 0
                self._add(source, part, names, label, pieces, end)
                end, held = end + len(part), held + part.nbytes
            share = share_then
        if len(pieces):
            yield pieces.block(end, 1.0)

    def _batches(self, file: IO[bytes], size: int, start: int, rows: int, name: str) -> Iterator[tuple[Any, float]]:
        """Record batches from a row on, each with the share of the file that has been read."""
        at = 0
        if isinstance(self.format, Arrow):
            for batch, share in self.format.batches(file, size):
                if at + len(batch) > start:
                    yield batch.slice(max(start - at, 0)), share
                at += len(batch)
        else:
            table, names = self.format.opened(file, size)
            total = max(table.metadata.num_rows, 1)
            for group in range(table.num_row_groups):
                count = table.metadata.row_group(group).num_rows
                if at + count <= start:
                    at += count
                    continue
                for batch in table.iter_batches(rows, row_groups=[group], columns=names, use_threads=False):
                    if at + len(batch) > start:
                        yield batch.slice(max(start - at, 0)), (at + len(batch)) / total
                    at += len(batch)
        if at < start:
            raise changed(name, f"{at:,} rows", f"at least {start:,}")

    def _add(
        self,
        source: Source,
        batch: Any,
        names: Mapping[str, Sequence[str]],
        label: str | None,
        pieces: Pieces,
        first: int,
    ) -> None:
        """Add rows to a block. names: of integers; first: the number of the first row in the file."""
        arrays = self._arrays(batch, names, label)
        if arrays is not None:
            pieces.extend(len(batch), arrays)
            return
        for k, row in enumerate(batch.to_pylist()):
            try:
                pieces.add(self.format.sequence(source, first + k, row, names, label))
            except FileError as error:
                if self.on_error == "raise":
                    raise
                pieces.fail(error, row.get(ID) if label != ID else None)

    def _arrays(self, batch: Any, names: Mapping[str, Sequence[str]], label: str | None) -> dict[str, Any] | None:
        """The columns of rows as arrays; None if something about a row is unusual."""
        tokens = batch.column(self.format.tokens)
        if not is_strings(tokens.type) or tokens.null_count or tokens.flatten().null_count:
            return None
        lengths, wanted, made = tokens.value_lengths(), self.format.columns, dict[str, Any]()
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            if array.null_count and wanted is not None and name in wanted:
                return None
            if array.null_count == len(array) or (name in BROKEN_RULES and wanted is None):
                continue
            if name == "word" not in (self.format.tokens, label):  # it replaces the tokens
                return None
            if name == ID != label:
                made[ID] = typed_ids(array)
                continue
            if name == GIVEN != label:
                own, column = GIVEN, _given(array)
            else:
                own = TOKENS if name == self.format.tokens else GOLD if name == label else own_name(name)
                column = _named(array, names[name]) if name in names else _strings(array)
                if column is not None and own == GOLD:
                    column = _relisted(column, without(column.flatten(), self.format.missing))
                elif column is not None and column.flatten().null_count:
                    return None
                if column is None or not _alike(column.value_lengths(), lengths):
                    return None
            if column is None:
                return None
            made[own] = column
        return made


def _alike(some: Any, lengths: Any) -> bool:
    """Have lists the same lengths, where they are there?"""
    pc = arrow("pyarrow.compute")
    return bool(some.equals(lengths) or pc.all(pc.equal(some, lengths)).as_py())


def _strings(array: Any) -> Any:
    """Lists of strings with the usual type."""
    return array if array.type == strings_type() else array.cast(strings_type())


def _relisted(array: Any, values: Any) -> Any:
    """Lists of the same lengths with other values."""
    pa, lengths = arrow(), array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, values, mask=array.is_null() if array.null_count else None)


def _named(array: Any, names: Sequence[str]) -> Any:
    """Lists of names instead of integers; None if one has no name."""
    values = array.flatten()
    if values.null_count or not len(values):
        return None
    numbers = values.to_numpy(zero_copy_only=False)
    if numbers.min() < 0 or numbers.max() >= len(names):
        return None
    return _relisted(array, arrow().array(names, arrow().string()).take(values))


def _given(array: Any) -> Any:
    """Given values as JSON objects; None if one is something else."""
    values = array.to_pylist()
    for k, value in enumerate(values):
        try:
            made = json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            return None
        if made is not None and not isinstance(made, dict):
            return None
        values[k] = json.dumps(made) if made else None
    return arrow().array(values, arrow().string())
