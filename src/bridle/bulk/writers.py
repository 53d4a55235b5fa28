"""Writers of batches: `conll`, `jsonl`, `parquet` and `arrow`.

A writer gets a binary file, which it does not close, and batches that all have the same columns. Kernels make the text;
its bytes are those that `bridle.data` would write, sequence by sequence. The columns are written in this order:

    id, tokens, labels, other columns, gold, given, and what else there is: score, status, error, ...

`conll` has the columns of strings only: tokens, other columns, gold, labels; comments precede their sequence.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from bridle._native import write_conll, write_json
from bridle.bulk.base import COMMENTS, GIVEN, GOLD, ID, TOKENS, Writer
from bridle.bulk.batches import arrow, strings_type
from bridle.data.base import Kept, format_named
from bridle.data.conll import Conll
from bridle.data.examples import Example
from bridle.errors import Argument, FileError

LABELS = "labels"
ABSENT = "_"  # the label of a token whose sequence has no labelling, in `conll`
FORMATS = ("conll", "jsonl", "parquet", "arrow")
_FIRST, _LAST = (ID, TOKENS, LABELS), (GOLD, GIVEN)
_RAW, _STRING, _STRINGS = range(3)  # how the kernel writes a field
_PACKED = {".gz": "gzip", ".zst": "zstd"}


def writer_of(format: str, file: IO[bytes], *, compression: str | None = None, **options: Any) -> Writer:
    """Make a writer of batches.

    Parameters
    ----------
    format : {"conll", "jsonl", "parquet", "arrow"}
        The format.
    file : binary file
        Where to write; it stays open.
    compression : str, optional
        Text: "gzip" or "zstd"; `compression_of` tells it from a name. Parquet: any codec that PyArrow has, "zstd" by
        default. Arrow: "zstd" or "lz4".
    **options
        Options of the format that concern writing: `separator`, `comment` and `missing` of ``"conll"``.

    Returns
    -------
    Writer
        Pass batches to `write`, then call `close`.

    Raises
    ------
    FileError
        If there is no such format, option or compression.

    Examples
    --------
    >>> import io, pyarrow
    >>> file = io.BytesIO()
    >>> writer = writer_of("jsonl", file)
    >>> writer.write(pyarrow.record_batch({"id": ["a"], "tokens": [["He", "left"]], "labels": [["B-NP", "B-VP"]]}))
    >>> writer.close()
    >>> file.getvalue().decode()
    '{"id": "a", "tokens": ["He", "left"], "labels": ["B-NP", "B-VP"]}\\n'
    """
    if format not in FORMATS:
        what, argument = "batches cannot be written in this format", Argument("format", format)
        raise FileError(what, got=repr(format), wanted=" or ".join(FORMATS), argument=argument)
    made = format_named(format, options)
    if isinstance(made, Conll):
        return ConllWriter(file, made, compression)
    return JsonLinesWriter(file, compression) if format == "jsonl" else TableWriter(file, format, compression)


def compression_of(path: str) -> str | None:
    """How a file of text is packed, by the end of its name."""
    return next((codec for suffix, codec in _PACKED.items() if path.endswith(suffix)), None)


class _TextWriter:
    """What writers of text share: the file, which may be packed."""

    def __init__(self, file: IO[bytes], compression: str | None = None) -> None:
        self._close: Callable[[], None] = lambda: None
        self._put: Callable[[bytes], Any] = file.write
        if compression == "gzip":
            packed = gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0, compresslevel=6)
            self._put, self._close = packed.write, packed.close
        elif compression is not None:
            _check(compression, ("gzip", "zstd"))
            pa = arrow()
            # it would close the file, but for this
            stream = pa.CompressedOutputStream(pa.PythonFile(Kept(file), mode="w"), compression)
            self._put, self._close = stream.write, stream.close

    def close(self) -> None:
        """Write the end of a packed file."""
        self._close()


class ConllWriter(_TextWriter):
    """Writes one token per line. `left_out` counts rows without tokens, for which there is no line."""

    def __init__(self, file: IO[bytes], format: Conll, compression: str | None = None) -> None:
        super().__init__(file, compression)
        self.format, self.left_out = format, 0
        self._prefix = "# " if format.comment in ("auto", None) else str(format.comment)

    def write(self, batch: Any) -> None:
        """Add the rows of a batch."""
        names = [TOKENS, *_others(batch), *(name for name in (GOLD, LABELS) if name in batch.schema.names)]
        columns = [_with_gaps_filled(batch.column(name), self.format.missing) for name in names]
        comments = batch.column(COMMENTS) if COMMENTS in batch.schema.names else None
        parts = [_parts(column) for column in columns]
        above = None if comments is None else _parts(comments)
        between, alone = " " if self.format.separator == "blanks" else "\t", self.format.separator == "auto"
        at = 0
        while at < len(batch):
            text, at = write_conll(
                parts, above, len(batch), at, between, names[-1] == LABELS, ABSENT, self._prefix, alone
            )
            self._put(text)
            if at < len(batch):
                example = _example(batch, names, at)
                lines = self.format.text([self.format.without_gaps(example)])
                self._put("".join(f"{line}\n" for line in lines).encode())
                at += 1
        self.left_out += columns[0].null_count


def _example(batch: Any, names: list[str], row: int) -> Example:
    """A row as a sequence."""
    values = batch.slice(row, 1).to_pylist()[0]
    columns = {name: values[name] for name in names if name != LABELS and values[name] is not None}
    labels = values.get(LABELS)
    if LABELS in names and labels is None:
        labels = [ABSENT] * len(columns[TOKENS])
    comments = tuple(values.get(COMMENTS) or ())
    return Example(columns, labels, comments=comments, where=f"row {row}" if values.get(ID) is None else values[ID])


class JsonLinesWriter(_TextWriter):
    """Writes one JSON object per line. What is null is left out, but for labels."""

    def write(self, batch: Any) -> None:
        """Add the rows of a batch."""
        fields = []
        for name in ordered(batch):
            kind, array = _field(name, batch.column(name))
            fields.append((kind, f"{json.dumps(name, ensure_ascii=False)}: ", _parts(array), name == LABELS))
        self._put(write_json(fields, len(batch)))


class TableWriter:
    """Writes a table, with ids as text. Batches get the columns of the first one."""

    def __init__(self, file: IO[bytes], format: str, compression: str | None = None) -> None:
        self.file, self.format, self.compression = file, format, compression
        self.schema: Any = None
        self._table: Any = None

    def write(self, batch: Any) -> None:
        """Add the rows of a batch."""
        if self._table is None:
            self.open(batch.schema)
        self._table.write_batch(self._fitted(batch))

    def open(self, schema: Any) -> None:
        """Begin the file, with the columns of batches with this schema; a file without rows needs it."""
        pa = arrow()
        empty = schema.empty_table()
        fields = [schema.field(name) for name in ordered(empty)]
        text = pa.string()
        self.schema = pa.schema([field.with_type(text) if field.name == ID else field for field in fields])
        file = pa.PythonFile(self.file, mode="w")
        if self.format == "arrow":
            options = pa.ipc.IpcWriteOptions(compression=self.compression)
            self._table = pa.ipc.new_file(file, self.schema, options=options)
        else:
            packed = self.compression or "zstd"
            self._table = arrow("pyarrow.parquet").ParquetWriter(file, self.schema, compression=packed)

    def _fitted(self, batch: Any) -> Any:
        pa = arrow()
        if unknown := [name for name in ordered(batch) if name not in self.schema.names]:
            raise FileError(
                "a sequence has a column that the first ones do not have",
                got=", ".join(unknown),
                wanted=", ".join(self.schema.names),
                cause="Write jsonl, or give all sequences the same columns.",
            )
        found = set(batch.schema.names)
        arrays = [
            batch.column(field.name).cast(field.type) if field.name in found else pa.nulls(len(batch), field.type)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def close(self) -> None:
        """Write the end of the file; without batches, a table without rows."""
        if self._table is None:
            self.open(arrow().schema([(TOKENS, strings_type())]))
        self._table.close()


def ordered(batch: Any) -> list[str]:
    """The columns of a batch in the order in which they are written."""
    names = batch.schema.names
    columns, rest = _others(batch), [*_FIRST, *_LAST, COMMENTS]
    return [
        *(name for name in _FIRST if name in names),
        *columns,
        *(name for name in _LAST if name in names),
        *(name for name in names if name not in rest and name not in columns),
    ]


def _others(batch: Any) -> list[str]:
    """The columns beside the tokens that a file had: lists of strings."""
    known = (*_FIRST, *_LAST, COMMENTS)
    return [field.name for field in batch.schema if field.name not in known and field.type == strings_type()]


# ---- arrays for kernels ---------------------------------------------------------------------------------------------


def _parts(array: Any) -> tuple[Any, ...]:
    """What a kernel reads of a column of strings, or of lists of them: numbers and bytes that it shares with Arrow."""
    known, rows = _flags(array), None
    if arrow().types.is_list(array.type):
        rows, array = array.offsets.to_numpy(), array.values
    if not len(array):
        return rows, known, np.zeros(1, np.int32), None, np.zeros(0, np.uint8)
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    return rows, known, ends, _flags(array), np.frombuffer(data or b"", np.uint8)


def _flags(array: Any) -> Any:
    """1 for values that are there; None if all are."""
    return array.is_valid().cast(arrow().uint8()).to_numpy() if array.null_count else None


def _with_gaps_filled(array: Any, missing: str | None) -> Any:
    """Lists of strings with text in place of missing labels, if there is such text."""
    if missing is None or not array.values.null_count:
        return array
    pa = arrow()
    values = array.values.fill_null(missing)
    return pa.Array.from_buffers(array.type, len(array), array.buffers()[:2], offset=array.offset, children=[values])


def _field(name: str, array: Any) -> tuple[int, Any]:
    """How the kernel writes a column as JSON, and the column as strings or lists of strings."""
    pa = arrow()
    if array.type == strings_type():
        return _STRINGS, array
    if name == GIVEN and array.type == pa.string():
        return _RAW, _texts(array, json.loads)
    if array.type == pa.string():
        return _STRING, array
    if pa.types.is_integer(array.type):
        return _RAW, array.cast(pa.string())
    return _RAW, _texts(array, _plain)


def _texts(array: Any, plain: Callable[[Any], Any]) -> Any:
    """The JSON of each value."""
    values = (None if value is None else plain(value) for value in array.to_pylist())
    made = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
    return arrow().array(made, arrow().string())


def _plain(value: Any) -> Any:
    """A value that JSON has; an infinite number becomes None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def _check(compression: str, known: tuple[str, ...]) -> None:
    if compression not in known:
        what, argument = "`compression` has an unknown value", Argument("compression", compression)
        raise FileError(what, got=repr(compression), wanted=" or ".join(map(repr, known)), argument=argument)
