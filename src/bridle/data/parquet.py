"""`parquet` and `arrow`: tables with one row per sequence and columns of lists of strings; they need pyarrow.

The columns are called as the keys of `jsonl`: tokens, labels, given (a struct, or JSON as a string), id, and any other
list of strings. Batches of rows are read and written as they come.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import chain, islice
from typing import IO, Any, ClassVar

from bridle.atomic import replacing
from bridle.data.examples import Example
from bridle.data.jsonl import Keyed
from bridle.data.source import Source
from bridle.errors import BridleError, FileError

BATCH = 1024  # rows
ARROW = "ARROW1"


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise FileError(
            "Parquet and Arrow files need pyarrow", got="no such package", wanted="pip install 'bridle[arrow]'"
        ) from None


@dataclass(frozen=True, kw_only=True)
class Parquet(Keyed):
    """Parquet.

    Parameters
    ----------
    columns : list of str, optional
        Which columns to read, besides the tokens; None reads all lists of strings.
    tokens : str, default "tokens"
        Name of the tokens; they become the column ``word``.
    label : str or None, default "labels"
        Name of the labels; None if there are none.
    encoding : str, default "utf-8"
        Has no effect.
    """

    name = "parquet"
    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")

    @classmethod
    def looks_like(cls, head: str) -> bool:
        return head.startswith("PAR1")

    def read(self, source: Source) -> Iterator[Example]:
        if source.total == 0:
            return
        pa = _library("pyarrow")
        count = 0
        try:
            file: IO[bytes] = source.raw
            if source.total is None:  # a pipe; but such a file is read from its end
                file = io.BytesIO(b"".join(source.blocks()))
            file.seek(0)
            for batch, share in self.batches(file):
                for row in batch.to_pylist():
                    where = f"{source.name}: sequence {count}"
                    yield self.example(_plain(row, where), where)
                    count += 1
                source.reached(share)
            source.reached(1)
        except BridleError:
            raise
        except (pa.ArrowException, OSError, ValueError, TypeError) as error:
            raise FileError(
                f"cannot read this {self.name} file",
                got=str(error)[:200],
                wanted=f"a {self.name} file",
                cause="Is it cut off, or of another format?",
                where=source.name,
            ) from None

    def batches(self, file: IO[bytes]) -> Iterator[tuple[Any, float]]:
        """Record batches of a file, each with the share of the file that has been read after it."""
        table = _library("pyarrow.parquet").ParquetFile(file)
        done = 0
        for batch in table.iter_batches(BATCH, columns=self.wanted(table.schema_arrow)):
            done += batch.num_rows
            yield batch, done / table.metadata.num_rows

    def wanted(self, schema: Any) -> list[str]:
        """The columns to read out of a table."""
        types = _library("pyarrow").types
        keep = {"id", "given", self.tokens, self.label, *(self.columns or ())}
        lists = {field.name for field in schema if types.is_list(field.type) or types.is_large_list(field.type)}
        return [name for name in schema.names if name in keep or (self.columns is None and name in lists)]

    def save(self, path: str | None, examples: Iterable[Example]) -> None:
        pa = _library("pyarrow")
        rows = (self.row(example) for example in examples)
        first = list(islice(rows, BATCH))
        names = list(dict.fromkeys(name for row in first for name in row)) or [self.tokens]
        kinds = {name: pa.string() if name in ("id", "given") else pa.list_(pa.string()) for name in names}
        schema = pa.schema(list(kinds.items()))
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
        """The record of a sequence with its id as text and its given values as JSON, whose types need not agree."""
        row = self.record(example)
        try:
            if "given" in row:
                row["given"] = json.dumps(row["given"])
            if "id" in row:
                row["id"] = row["id"] if isinstance(row["id"], str) else json.dumps(row["id"])
        except (TypeError, ValueError, RecursionError) as error:
            raise example.error("a value is not JSON", got=str(error), wanted="plain values") from None
        return row

    def put(self, file: IO[bytes], schema: Any, rows: Iterator[dict[str, Any]]) -> None:
        """Write all rows."""
        pa = _library("pyarrow")
        with self.writer(file, schema) as out:
            count = 0
            while some := list(islice(rows, BATCH)):
                for row in some:
                    if unknown := [name for name in row if name not in schema.names]:
                        raise FileError(
                            f"this sequence has a column that the first {BATCH} do not have",
                            got=", ".join(unknown),
                            wanted=", ".join(schema.names),
                            sequence=count,
                        )
                    count += 1
                out.write(pa.RecordBatch.from_pylist(some, schema=schema))

    def writer(self, file: IO[bytes], schema: Any) -> Any:
        """What writes record batches."""
        return _library("pyarrow.parquet").ParquetWriter(file, schema)


@dataclass(frozen=True, kw_only=True)
class Arrow(Parquet):
    """Arrow IPC, as a file (also Feather 2) or as a stream; written as a file.

    Parameters
    ----------
    columns : list of str, optional
        Which columns to read, besides the tokens; None reads all lists of strings.
    tokens : str, default "tokens"
        Name of the tokens; they become the column ``word``.
    label : str or None, default "labels"
        Name of the labels; None if there are none.
    encoding : str, default "utf-8"
        Has no effect.
    """

    name = "arrow"
    suffixes: ClassVar[tuple[str, ...]] = (".arrow", ".feather", ".ipc")

    @classmethod
    def looks_like(cls, head: str) -> bool:
        return head.startswith(ARROW)

    def batches(self, file: IO[bytes]) -> Iterator[tuple[Any, float]]:
        ipc = _library("pyarrow").ipc
        whole = file.read(len(ARROW)) == ARROW.encode()
        file.seek(0)
        if whole:
            table = ipc.open_file(file)
            names, last = self.wanted(table.schema), table.num_record_batches
            for k in range(last):
                yield table.get_batch(k).select(names), (k + 1) / last
        else:
            stream = ipc.open_stream(file)
            names = self.wanted(stream.schema)
            yield from ((batch.select(names), 0) for batch in stream)  # nobody knows how many will come

    def writer(self, file: IO[bytes], schema: Any) -> Any:
        return _library("pyarrow").ipc.new_file(file, schema)


def _plain(row: dict[str, Any], where: str) -> dict[str, Any]:
    given = row.get("given")
    if isinstance(given, str):
        try:
            row["given"] = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise FileError("given is not JSON", got=str(error)[:200], wanted='{"verb": 3}', where=where) from None
    # a column that a sequence does not have is null
    return {name: value for name, value in row.items() if value is not None}
