"""`parquet` and `arrow`: tables with one row per sequence and columns of lists of strings; they need pyarrow."""

from __future__ import annotations

import io
import json
import os
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import IO, Any, ClassVar, Literal, cast

import numpy as np

from bridle.atomic import replacing
from bridle.data.blocks import ABSENT, ROWS, Pace, known_labels, output_name
from bridle.data.documents import DocumentNames
from bridle.data.examples import Example
from bridle.data.huggingface import TAGS, Folder, class_names, described, named
from bridle.data.jsonl import BROKEN_RULES, Keyed
from bridle.data.limits import PIPED
from bridle.data.source import Source, located
from bridle.data.tables import (
    Part,
    check_messages,
    check_pages,
    chunks_of,
    is_integers,
    is_null,
    is_plain,
    is_strings,
    slices,
)
from bridle.errors import Argument, BridleError, FeatureError, FileError, clipped, shown
from bridle.extras import needed
from bridle.tagging.arrow import Errors, Layout, given_of, ids_of, list_array, string_array, texts_of
from bridle.tagging.block import Block, Column, Ids
from bridle.tagging.labelling import Outcomes

BATCH = 1024  # rows
_GROUP, _GROUP_BYTES = 1 << 14, 1 << 23  # rows and bytes of a row group that blocks are written as
ARROW = "ARROW1"
_BARE_SCHEMA = 4  # the first number of a FlatBuffers table that has no length before it
Wanted = Callable[[Any], list[str]]  # chooses columns by a schema
LABELS = "labels"  # what they are called unless `label` says otherwise


def _library(name: str) -> Any:
    return needed(name, "arrow", "Parquet and Arrow files need pyarrow", FileError)


@dataclass(frozen=True, kw_only=True)
class Parquet(Keyed):
    """Tables with one row per sequence and columns of lists of strings; they need pyarrow.

    The columns have the names of the keys of `jsonl`: tokens, labels, given (a struct, or JSON as a string), id, and
    any other list of strings. Rows are read and written in batches.

    You can read tables of Hugging Face `datasets` directly: integers become the names in the schema, and if there is no
    column `labels`, the labels, strings or integers, are `ner_tags` or `pos_tags`. With `names`, labels are written as
    integers with names. `arrow` also reads a folder that `save_to_disk` wrote.

    Parameters
    ----------
    label : str or None, default "labels"
        Name of the column of the labels; None if there is none. If a table has no ``labels``, the first of
        ``ner_tags``, ``tags``, ``pos_tags`` and ``chunk_tags`` that it has.
    names : list of str, optional
        Names of integer labels. When reading, for labels that a schema of ``datasets`` does not name; when writing,
        to write integers instead of strings.
    unlabelled : {"refuse", "allow"}, default "refuse"
        Whether the column `label` may be missing, as in data to be tagged.
    encoding : str, default "utf-8"
        Has no effect.
    """

    name = "parquet"
    with_gold = True
    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")

    names: Sequence[str] | None = None
    unlabelled: Literal["refuse", "allow"] = "refuse"

    @classmethod
    def looks_like(cls, head: str) -> bool:
        return head.startswith("PAR1")

    @contextmanager
    def guarded(self, source: Source) -> Iterator[None]:
        """Turn what pyarrow raises about a file into errors of Bridle, which name the file."""
        try:
            yield
        except BridleError as error:
            error.at(where=source.name)
            raise
        except MemoryError:
            raise self.unreadable(source, "more data than fits into memory") from None
        # pyarrow raises a dozen kinds on broken files: its own, OSError, KeyError, SystemError, UnicodeDecodeError, ...
        except Exception as error:
            raise self.unreadable(source, str(error) or type(error).__name__) from None

    def unreadable(self, source: Source, got: str) -> FileError:
        """The error for a file that pyarrow rejects."""
        return FileError(
            f"cannot read this {self.name} file",
            got=clipped(got, 200),
            wanted=f"a file of the format {self.name}",
            cause="Is it cut off, or in another format?",
            where=source.name,
        )

    def sequence(
        self, source: Source, number: int, row: dict[str, Any], names: Mapping[str, Sequence[str]], label: str | None
    ) -> Example:
        """The sequence of a row."""
        with located(f"{source.name}: sequence {number}") as where:
            return self.example(self.with_names(_plain(row, where), names, label), where)

    def batches(self, source: Source, start: int = 0, wanted: Wanted | None = None) -> Iterator[tuple[int, Any, float]]:
        """Yield record batches with the number of their first row and the share of the file that has been read.

        Row groups that end before row `start` are left out. wanted: chooses the columns; by default `self.wanted`.
        """
        file, size = whole_file(source)
        table, names = self.opened(file, size, wanted or self.wanted)
        first, rows = 0, max(table.metadata.num_rows, 1)
        for group in range(table.num_row_groups):  # pyarrow cannot join dictionaries of several in one batch
            if first + (count := table.metadata.row_group(group).num_rows) < start:
                first += count
                continue
            for batch in table.iter_batches(ROWS, row_groups=[group], columns=names, use_threads=False):
                yield first, batch, (first + batch.num_rows) / rows
                first += batch.num_rows

    def opened(self, file: IO[bytes], size: int, wanted: Wanted) -> tuple[Any, list[str]]:
        """A file whose pages are checked, and the columns to read."""
        parquet = _library("pyarrow.parquet")
        names = wanted(parquet.ParquetFile(Part(file, 0, size), pre_buffer=False).schema_arrow)
        chunks = [chunk for chunk in chunks_of(file, size) if chunk.path.split(".")[0] in names]
        for chunk in chunks:
            check_pages(file, chunk)
        # strings stay in their dictionary, so that one long one that comes often takes no more memory
        texts = list({chunk.path for chunk in chunks if chunk.is_text})
        return parquet.ParquetFile(Part(file, 0, size), read_dictionary=texts, pre_buffer=False), names

    def class_names(self, schema: Any) -> dict[str, Sequence[str]]:
        """The names of integers in a table, by column."""
        classes: dict[str, Sequence[str]] = dict(class_names(schema))
        if self.names is not None and (label := self.labels(schema.names)) is not None:
            classes[label] = self.names
        return {
            name: classes[name] for name in classes if name in schema.names and is_integers(schema.field(name).type)
        }

    def labels(self, columns: Sequence[str]) -> str | None:
        """The column of the labels: `label`, or a usual name of Hugging Face data sets."""
        if self.label is None or self.label in columns:
            return self.label
        if self.label == LABELS:
            return next((name for name in TAGS if name in columns), None)
        if self.unlabelled == "refuse":
            raise FileError(
                "the column does not exist",
                got=", ".join(map(repr, columns))[:200],
                wanted=repr(self.label),
                cause="Pass {argument} if the labels have another name, or None if there are none.",
                argument=Argument("label"),
            )
        return None

    def with_names(self, row: dict[str, Any], names: Mapping[str, Sequence[str]], label: str | None) -> dict[str, Any]:
        """A row with names instead of integers, and with the labels, from the column `label`, under the usual key."""
        record = {key: named(key, value, names[key]) if key in names else value for key, value in row.items()}
        if label is not None and self.label is not None and label in record:
            record[self.label] = record.pop(label)
        return {key: value for key, value in record.items() if value is not None or key not in names}

    def wanted(self, schema: Any) -> list[str]:
        """The columns to read from a table; raises if a required one has an unsupported type."""
        if len(set(schema.names)) < len(schema.names):
            raise FileError("columns have the same name", got=shown(schema.names), wanted="each name once")
        if self.tokens not in schema.names:
            self.example(dict.fromkeys(schema.names), None)  # which says so
        names = self.class_names(schema)
        needed, kept = {self.tokens, self.labels(schema.names), *(self.columns or ())}, list[str]()
        for field in schema:
            name, kind = field.name, field.type
            if name == self.groups and is_plain(kind) and not is_strings(kind):
                kept.append(name)
            elif name in ("id", "given") and name not in needed:
                if is_plain(kind):
                    kept.append(name)
                elif name == "given":
                    raise FileError("given is not an object", got=clipped(kind, 200), wanted="a struct, or JSON")
            elif ((is_strings(kind) or name in names) and (name in needed or self.columns is None)) or (
                is_null(kind) and name in needed  # of a table without rows, or of rows without it
            ):
                kept.append(name)
            elif name in needed:
                got, wanted = clipped(kind, 200), "list<string>"
                cause = "Pass {argument}, the names of its integers." if is_integers(kind) else None
                what, argument = f"{name} is not a column of lists of strings", Argument("names")
                raise FileError(what, got=got, wanted=wanted, cause=cause, argument=argument)
        return kept

    def save(self, path: str | None, examples: Iterable[Example]) -> None:
        pa = _library("pyarrow")
        rows = (self.row(example) for example in examples)
        first = list(islice(rows, BATCH))
        names = list(dict.fromkeys(name for row in first for name in row)) or [self.tokens]
        kinds = {name: pa.string() if name in ("id", "given") else pa.list_(pa.string()) for name in names}
        schema = pa.schema(list(kinds.items()))
        if self.names is not None and self.label in kinds:
            columns = {name: "string" if name in ("id", "given") else "list" for name in names}
            at = schema.get_field_index(self.label)
            schema = schema.set(at, pa.field(self.label, pa.list_(pa.int64())))
            schema = schema.with_metadata(described(columns, self.label, self.names))
        try:
            if path is None:
                self.put(sys.stdout.buffer, schema, chain(first, rows))
                sys.stdout.buffer.flush()
            else:
                with replacing(path, patience=0.0) as file:
                    self.put(file, schema, chain(first, rows))
        except (pa.ArrowException, UnicodeEncodeError) as error:
            what = "cannot write to standard output" if path is None else "cannot write this file"
            raise FileError(what, got=str(error)[:200], where=path) from None

    def row(self, example: Example) -> dict[str, Any]:
        """The record of a sequence, with its id as text and its given values as JSON, because types may differ."""
        row = self.record(example)
        if self.names is not None and self.label in row:
            number: dict[str | None, int | None] = {None: None} | {name: k for k, name in enumerate(self.names)}
            if unknown := sorted(set(row[self.label]) - number.keys()):
                wanted = "one of " + ", ".join(self.names)[:200]
                raise example.error("a label is not among the names", got=repr(unknown[0]), wanted=wanted)
            row[self.label] = [number[label] for label in row[self.label]]
        try:
            if "given" in row:
                row["given"] = json.dumps(row["given"])
            if "id" in row:
                row["id"] = row["id"] if isinstance(row["id"], str) else json.dumps(row["id"])
        except (TypeError, ValueError, RecursionError) as error:
            raise example.error("a value is not JSON", got=str(error), wanted="plain values") from None
        return row

    def put(self, file: IO[bytes], schema: Any, rows: Iterator[dict[str, Any]]) -> None:
        """Write all examples as rows."""
        pa = _library("pyarrow")
        with self.writer(file, schema) as out:
            count = 0
            while batch := list(islice(rows, BATCH)):
                for row in batch:
                    if unknown := [name for name in row if name not in schema.names]:
                        raise FileError(
                            f"this sequence has a column that the first {BATCH} do not have",
                            got=", ".join(unknown),
                            wanted=", ".join(schema.names),
                            sequence=count,
                        )
                    count += 1
                out.write(pa.RecordBatch.from_pylist(batch, schema=schema))

    # ---- blocks ------------------------------------------------------------------------------------------------------

    def blocks(self, source: Source, start: int, pace: Pace) -> Iterator[Block]:
        """Yield record batches of the file, without an object per value; the end of a block counts rows."""
        _library("pyarrow")
        if source.total == 0:
            return
        with self.guarded(source):
            at, documents = 0, None if self.groups is None else DocumentNames(self.groups)
            for first, batch, share in self.batches(source, start):
                batch.validate(full=True)
                names, label = self.class_names(batch.schema), self.labels(batch.schema.names)
                low, at = min(max(start - first, 0), len(batch)), first + len(batch)
                while low < len(batch):
                    part = next(slices(batch.slice(low), pace.sequences))
                    low += len(part)
                    block = self._block(source, part, names, label, first + low - len(part))
                    if documents is not None:
                        block = replace(block, groups=documents.of_block(block))
                    yield replace(block, end=first + low, share=share)
                source.done = int((source.total or 0) * share)
            if at < start:
                raise source.shorter(f"{at:,} rows", f"at least {start:,}")
            source.done = source.total or 0

    def _block(
        self, source: Source, batch: Any, names: Mapping[str, Sequence[str]], label: str | None, first: int
    ) -> Block:
        """A block of rows; first: the number of the first one in the file."""
        columns: dict[str, Column] = {}
        errors: Errors = {}
        ids = given = gold = groups = None
        wanted = self.columns
        tokens = "word" if "word" in batch.schema.names and label != "word" else self.tokens  # it replaces the tokens
        for name, array in sorted(zip(batch.schema.names, batch.columns, strict=True), key=lambda x: x[0] != tokens):
            if name in names:
                array = _named(array, name, names[name], errors)
            if name == tokens:
                columns["word"] = texts_of(array, name, errors, is_valid=True)
            elif name == self.tokens or (name in BROKEN_RULES and wanted is None):
                continue
            elif name == label:
                gold = known_labels(texts_of(array, name, {}, is_valid=True), self)
            elif name == self.groups and not is_strings(array.type):
                groups = ids_of(array, name, is_valid=True)
            elif name == "id":
                ids = ids_of(array, name, is_valid=True)
            elif name == "given":
                given = given_of(array, name, errors)
            elif array.null_count < len(array) or (wanted is not None and name in wanted):
                columns[name] = texts_of(array, name, {}, is_valid=True)
        for row in self._odd_rows(columns, gold, errors):
            try:
                self.sequence(source, first + row, batch.slice(row, 1).to_pylist()[0], names, label)
                errors[row] = FeatureError("the columns differ in length", wanted="one text per token in every column")
            except BridleError as error:
                errors[row] = error
        place = f"{source.name}: sequence "
        return Block(
            len(batch),
            columns,
            errors=errors,
            ids=ids,
            given=given,
            groups=groups,
            gold=gold,
            place=lambda row: f"{place}{first + row}",
        )

    def _odd_rows(self, columns: Mapping[str, Column], gold: Column | None, errors: Errors) -> list[int]:
        """Rows whose columns differ in length, or which lack a column that is asked for."""
        lengths = np.diff(next(iter(columns.values())).offsets)
        odd = np.zeros(len(lengths), dtype=bool)
        for name, column in [*columns.items(), ("", gold)]:
            if column is not None:
                there = np.ones(len(odd), dtype=bool) if column.known is None else column.known
                odd |= there & (np.diff(column.offsets) != lengths)
                odd |= ~there & (name in (self.columns or ()))
        return [row for row in np.flatnonzero(odd).tolist() if row not in errors]

    def table_writer(self, file: IO[bytes], layout: Layout | None, schema: Any = None) -> TableWriter:
        """A writer of blocks. layout: the columns that labels, scores and statuses become; None: labels alone."""
        return TableWriter(self, file, layout, schema)

    def schema_of(self, path: str | os.PathLike[str]) -> Any:
        """The columns of a file."""
        return _library("pyarrow.parquet").read_schema(path)

    def writer(self, file: IO[bytes], schema: Any) -> Any:
        """The writer of record batches."""
        return _library("pyarrow.parquet").ParquetWriter(file, schema, compression="zstd")


@dataclass(frozen=True, kw_only=True)
class Arrow(Parquet):
    """Arrow IPC, as a file (also Feather 2), as a stream, or a folder of `datasets`; written as a file.

    Parameters
    ----------
    split : str, optional
        Which data set of a folder to read, such as ``"train"``.
    """

    name = "arrow"
    suffixes: ClassVar[tuple[str, ...]] = (".arrow", ".feather", ".ipc")

    split: str | None = None

    @classmethod
    def looks_like(cls, head: str) -> bool:
        return head.startswith(ARROW)

    def batches(self, source: Source, start: int = 0, wanted: Wanted | None = None) -> Iterator[tuple[int, Any, float]]:
        wanted = wanted or self.wanted
        if not isinstance(source, Folder):
            yield from self._batches(*whole_file(source), wanted)
            return
        rows, done = 0, 0
        for path in source.files(self.split):
            file, first = Source(path), 0
            try:
                with self.guarded(file):
                    for first, batch, share in self._batches(*whole_file(file), wanted) if file.total else ():
                        read = done + share * (file.total or 0)
                        yield rows + first, batch, read / max(source.total or 0, 1)
                        first += len(batch)
            finally:
                file.close()
            rows, done = rows + first, done + (file.total or 0)

    def _batches(self, file: IO[bytes], size: int, wanted: Wanted) -> Iterator[tuple[int, Any, float]]:
        """Read a file as a stream: the part between header and footer is one, so nothing depends on the footer."""
        ipc = _library("pyarrow").ipc
        begin, end = 0, size
        file.seek(0)
        if file.read(len(ARROW)) == ARROW.encode():
            file.seek(max(size - len(ARROW) - 4, 0))
            foot, mark = struct.unpack(f"<i{len(ARROW)}s", file.read(len(ARROW) + 4))
            begin, end = 8, size - len(ARROW) - 4 - foot
            if mark != ARROW.encode() or not begin <= end <= size - len(ARROW) - 4:
                raise ValueError("the end of the file is missing")
            file.seek(begin)
            if begin < end and int.from_bytes(file.read(4), "little") == _BARE_SCHEMA:
                raise FileError(
                    "cannot read this arrow file",
                    got="a schema without its length, as write_ipc of Polars writes it",
                    wanted="an Arrow file that can be read as a stream",
                    cause="Write Parquet (df.write_parquet), or an Arrow file with PyArrow "
                    "(pyarrow.feather.write_feather(df.to_arrow(), path)).",
                )
        check_messages(file, begin, end)
        schema = ipc.open_stream(Part(file, begin, end)).schema
        names = wanted(schema)
        options = ipc.IpcReadOptions(use_threads=False, included_fields=[schema.names.index(name) for name in names])
        part, first = Part(file, begin, end), 0
        for batch in ipc.open_stream(part, options=options):
            yield first, batch.select(names), part.tell() / max(end - begin, 1)
            first += batch.num_rows

    def writer(self, file: IO[bytes], schema: Any) -> Any:
        return _library("pyarrow").ipc.new_file(file, schema)

    def schema_of(self, path: str | os.PathLike[str]) -> Any:
        with _library("pyarrow").OSFile(os.fspath(path)) as file:
            return _library("pyarrow").ipc.open_file(file).schema


class TableWriter:
    """Writes blocks as rows of a table, with ids as text. The first rows say which columns there are."""

    def __init__(self, format: Parquet, file: IO[bytes], layout: Layout | None, schema: Any = None) -> None:
        self.format, self.file, self.layout, self.schema = format, file, layout, schema
        self._table: Any = None
        self._held: list[Any] = []  # rows that are not written: small row groups make large files, and take long
        self._rows = self._bytes = 0  # of them

    def write(self, block: Block, outcomes: Outcomes, n: int) -> int:
        """Add the first n rows of a block; their size in bytes."""
        batch = self.rows(block, outcomes).slice(0, n)
        self._held.append(batch)
        self._rows, self._bytes = self._rows + n, self._bytes + int(batch.nbytes)
        if self._rows >= _GROUP or self._bytes >= _GROUP_BYTES:
            self._release()
        return int(batch.nbytes)

    def _release(self) -> None:
        """Write the rows that are held; the first ones say which columns there are."""
        pa, held = _library("pyarrow"), self._held
        if self.schema is None:
            fields = {field.name: field for batch in held for field in batch.schema}
            before, after = ["id", "tokens", "labels"], ["gold", "given", *(x.name for x in self._more())]
            others = [name for name in fields if name not in (*before, *after)]
            self.schema = pa.schema([fields[name] for name in (*before, *others, *after) if name in fields])
        if self._table is None:
            self._table = self.format.writer(pa.PythonFile(self.file, mode="w"), self.schema)
        self._table.write_table(pa.Table.from_batches(map(self._fitted, held), self.schema))
        self._held, self._rows, self._bytes = [], 0, 0

    def _fitted(self, batch: Any) -> Any:
        """Rows with all columns of the table."""
        if unknown := [name for name in batch.schema.names if name not in self.schema.names]:
            raise FileError(
                "a sequence has a column that the first ones do not have",
                got=", ".join(unknown),
                wanted=", ".join(self.schema.names),
                cause="Write jsonl, or give all sequences the same columns.",
            )
        pa, there = _library("pyarrow"), set(batch.schema.names)
        arrays = [batch.column(x.name) if x.name in there else pa.nulls(len(batch), x.type) for x in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _more(self) -> list[Any]:
        """Fields of what there is besides labels."""
        return [] if self.layout is None else self.layout.fields(False)[1:]

    def rows(self, block: Block, outcomes: Outcomes) -> Any:
        """The rows of a block: id, tokens, labels, other columns, gold, given, and what the layout has besides."""
        pa, columns = _library("pyarrow"), dict[str, Any]()
        if block.ids is not None:
            ids = Ids.packed(block.ids)
            columns["id"] = string_array(ids.texts, ids.kinds > 0)
        (_, tokens), *others = block.columns.items()
        columns["tokens"] = list_array(tokens)
        layout = self.layout or Layout()
        names = [field.name for field in layout.fields(block.chars is not None)]
        added = dict(zip(names, layout.arrays(outcomes, block.chars is not None), strict=True))
        columns["labels"] = added.pop("labels") if self.layout else _filled(added["labels"], columns["tokens"])
        columns |= {output_name(name): list_array(column) for name, column in others}
        if block.gold is not None:
            columns["gold"] = list_array(block.gold)
        if block.given is not None:
            given = [json.dumps(values) if values else None for values in block.given]
            columns["given"] = pa.array(given, pa.string())
        return pa.record_batch(columns | (added if self.layout else {}))

    def close(self) -> None:
        """Write the end of the file; without rows, a table without rows."""
        pa = _library("pyarrow")
        if self.schema is None and not self._held:
            texts = pa.list_(pa.string())
            schema = pa.schema([("tokens", texts), ("labels", texts), *self._more()])
            self._held = [pa.RecordBatch.from_pylist([], schema)]
        if self._held or self._table is None:
            self._release()
        self._table.close()


def _filled(labels: Any, tokens: Any) -> Any:
    """Labels with "_" for tokens of rows without labels."""
    pa = _library("pyarrow")
    if not labels.null_count:
        return labels
    pairs = zip(labels.to_pylist(), _library("pyarrow.compute").list_value_length(tokens).to_pylist(), strict=True)
    return pa.array([[ABSENT] * n if x is None and n is not None else x for x, n in pairs], pa.list_(pa.string()))


def _named(array: Any, name: str, names: Sequence[str], errors: Errors) -> Any:
    """Lists of names instead of integers; rows with an integer that has no name get an error."""
    rows: list[Any] = []
    for row, numbers in enumerate(array.to_pylist()):
        try:
            rows.append(named(name, numbers, names))
        except FileError as error:
            errors.setdefault(row, error)
            rows.append(None)
    return _library("pyarrow").array(rows, _library("pyarrow").list_(_library("pyarrow").string()))


def whole_file(source: Source) -> tuple[IO[bytes], int]:
    """A file that can be read from its end, and its size; what comes from a pipe is kept."""
    file = cast(IO[bytes], source.raw) if source.total is not None else _held(source)
    return file, file.seek(0, io.SEEK_END)


def _held(source: Source) -> IO[bytes]:
    """All data from a pipe."""
    blocks, size = list[bytes](), 0
    for block in source.blocks():
        blocks.append(block)
        size += len(block)
        if size > PIPED:
            raise FileError(
                "too much for standard input",
                got=f"more than {PIPED:,} bytes",
                wanted=f"at most {PIPED:,}",
                cause="This format is read from its end, so all of it is kept. Save the file, and pass its name.",
            )
    return io.BytesIO(b"".join(blocks))


def _plain(row: dict[str, Any], where: str) -> dict[str, Any]:
    given = row.get("given")
    if isinstance(given, str):
        try:
            row["given"] = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise FileError("given is not JSON", got=str(error)[:200], wanted='{"verb": 3}', where=where) from None
    # a column that a sequence does not have is null
    return {name: value for name, value in row.items() if value is not None}
