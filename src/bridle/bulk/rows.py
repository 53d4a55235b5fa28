"""Rows on their way: the columns that a model gets, those that are written, and what is counted.

read      id, tokens, pos, ..., gold                          as `bridle.bulk.base` describes
tagged    id, tokens, pos, ..., gold, labels, status, error
written   id, tokens, labels, pos, ..., gold, status, error   into shards
          id, tokens, labels, pos, ..., gold                  into one file, as `bridle tag` writes all formats
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from bridle.bulk.base import COMMENTS, GIVEN, GOLD, ID, TOKENS
from bridle.bulk.batches import arrow
from bridle.bulk.manifest import TOLD, Counts
from bridle.data.tables import is_strings
from bridle.errors import FileError

REMEMBERED = 100_000  # ids
LINES = ("jsonl", "conll")  # formats whose rows may differ in columns, and that are of use without their end
MISSING = "_"  # the label of a token whose sequence has none, in other formats and in one file
_UNKNOWN = "?"  # a gold label that is not known
_ADDED = ("labels", "status", "error")
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no bit of a byte gets lost


def no_rows(schema: Any) -> Any:
    """A batch without rows."""
    return arrow().RecordBatch.from_pylist([], schema)


def for_model(batch: Any) -> Any:
    """The columns that a model gets: results of an earlier run are left out."""
    return batch.select([name for name in batch.schema.names if name not in _ADDED])


def with_errors(batch: Any, errors: Mapping[int, str]) -> Any:
    """Tagged rows with what the reader says about some of them, which have no tokens."""
    if not errors:
        return batch
    told = batch.column("error").to_pylist()
    for row, message in errors.items():
        told[row] = message
    return _replaced(batch, "error", arrow().array(told, arrow().string()))


def with_ids(batch: Any, first: int) -> Any:
    """Rows with ids that are strings. A row without one gets its number, even if another row has that as its id.

    first: the number of the first row.
    """
    pa = arrow()
    numbers = pa.array(np.arange(first, first + len(batch))).cast(pa.string())
    if "id" not in batch.schema.names:
        return batch.add_column(0, "id", numbers)
    ids = _texts(batch.column("id"))
    return _replaced(batch, "id", pa.compute.coalesce(ids, numbers) if ids.null_count else ids)


def for_shards(batch: Any, format: str) -> Any:
    """Rows as shards hold them."""
    pa = arrow()
    if format == "conll":
        return _spelt_out(batch)
    names = [name for name in _in_order(batch.schema.names) if name != COMMENTS]
    return pa.record_batch({name: _plain(name, batch.column(name)) for name in (*names, "status", "error")})


def for_file(batch: Any, format: str) -> Any:
    """Rows as one file holds them: nothing but tokens, labels, columns of strings, ids and given values."""
    pa = arrow()
    names = [
        name
        for name in _in_order(batch.schema.names)
        if name in (ID, GIVEN) or (name != COMMENTS and is_strings(batch.schema.field(name).type))
    ]
    if format == "conll":
        names += [name for name in (COMMENTS,) if name in batch.schema.names]
    made = pa.record_batch({name: batch.column(name) for name in names})
    made = _replaced(made, "id", _texts(made.column("id"))) if "id" in names else made
    if format == "conll":
        return _spelt_out(made, "raise")
    made = _replaced(made, "labels", _filled(made.column("labels"), made.column("tokens")))
    return pa.record_batch({name: _plain(name, made.column(name)) for name in names})


def counted(batch: Any) -> Counts:
    """Count tagged rows, which have ids."""
    pa = arrow()
    status = Counter(batch.column("status").to_pylist())
    errors = batch.column("error").drop_null()[:TOLD].to_pylist() if status["error"] else ()
    tokens = pa.compute.sum(pa.compute.list_value_length(batch.column("tokens"))).as_py() or 0
    ids = checksum(batch.column("id")) if "id" in batch.schema.names else 0
    return Counts(len(batch), tokens, 0, ids, dict(status), tuple(errors))


def checksum(ids: Any) -> int:
    """Compute a checksum of ids that does not depend on their order.

    Two runs over the same rows have the same checksum, whatever their shards are; a row that is lost or doubled
    changes it.

    Parameters
    ----------
    ids : list of str or Arrow array of strings
        The ids.

    Returns
    -------
    int
        The sum of a 64-bit hash of each id, modulo 2**64.

    Examples
    --------
    >>> from bridle.bulk import checksum
    >>> checksum(["r1", "r2"]) == checksum(["r2", "r1"])
    True
    >>> checksum(["r1", "r2"]) == checksum(["r1", "r1"])
    False
    """
    pa = arrow()
    array = pa.array(ids, pa.large_string()) if isinstance(ids, Sequence) else ids.cast(pa.large_string())
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if not len(array):
        return 0
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    text = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]].astype(np.uint64) + np.uint64(1)
    ends = ends - ends[0]
    sizes = np.diff(ends)
    # a polynomial of the bytes of each id, then the mixing steps of splitmix64
    powers = np.cumprod(np.full(int(sizes.max()) + 1, _FACTOR, np.uint64))
    terms = text * powers[np.arange(len(text)) - np.repeat(ends[:-1], sizes)]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
    mixed = sums[ends[1:]] - sums[ends[:-1]] + _FACTOR
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return int((mixed ^ (mixed >> np.uint64(31))).sum(dtype=np.uint64))


def written(schema: Any, format: str) -> Any:
    """The schema of tagged rows as they are written: ids are strings, and only `conll` has comments."""
    if ID in schema.names:
        schema = schema.set(schema.get_field_index(ID), schema.field(ID).with_type(arrow().string()))
    if COMMENTS in schema.names and format != "conll":
        schema = schema.remove(schema.get_field_index(COMMENTS))
    return schema


def with_columns(batch: Any, schema: Any) -> Any:
    """Rows with nulls in columns that the first rows have and these do not: the model may need them."""
    for one in schema:
        if one.name not in (*batch.schema.names, *_ADDED):
            batch = batch.append_column(one.name, arrow().nulls(len(batch), one.type))
    return batch


def conformed(batch: Any, schema: Any, format: str, where: str) -> Any:
    """A batch with the columns of the first one: files of one run may differ in columns.

    Those that are missing are null. Tables cannot get more columns later; lines can.
    """
    pa = arrow()
    if ID in batch.schema.names:  # integers in some blocks, strings in others
        batch = _replaced(batch, ID, _texts(batch.column(ID)))
    if COMMENTS in batch.schema.names and format != "conll":
        batch = batch.drop_columns([COMMENTS])
    if batch.schema.equals(schema):
        return batch
    more = [one for one in batch.schema if one.name not in schema.names]
    if more and format not in LINES:
        got, wanted = more[0].name, ", ".join(schema.names)
        cause = "Write jsonl, or give the first rows this column."
        raise FileError("a column that the first rows do not have", got=got, wanted=wanted, cause=cause, where=where)
    schema, columns = pa.schema([*schema, *more]), []
    for name, kind in zip(schema.names, schema.types, strict=True):
        if name not in batch.schema.names:
            columns.append(pa.nulls(len(batch), kind))
            continue
        try:
            columns.append(batch.column(name).cast(kind))
        except pa.ArrowException:
            got, wanted = batch.schema.field(name).type, kind
            what = f"the column {name!r} has another type than in the first rows"
            raise FileError(what, got=got, wanted=wanted, where=where) from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@dataclass
class Repeated:
    """Counts ids that occur in more than one input. A bounded number of ids is remembered."""

    inputs: Sequence[str]
    count: int = 0
    example: str = ""  # one of them, in words
    _seen: dict[str, int] = field(default_factory=dict)

    def note(self, batch: Any, file: int) -> None:
        """Look at the ids of some rows of an input."""
        if len(self.inputs) < 2 or "id" not in batch.schema.names:  # in one file, ids may repeat
            return
        for name in _texts(batch.column("id")).drop_null().to_pylist():
            first = self._seen.get(name, file)
            if first != file:
                self.count += 1
                self.example = self.example or f"{name} in {self.inputs[first]} and {self.inputs[file]}"
            elif len(self._seen) < REMEMBERED:
                self._seen[name] = file


# ---- columns --------------------------------------------------------------------------------------------------------


def _in_order(names: Sequence[str]) -> list[str]:
    """Ids, tokens and labels first, what else the rows have, then gold labels and given values."""
    others = [name for name in names if name not in (ID, TOKENS, GOLD, GIVEN, *_ADDED)]
    return [name for name in (ID, TOKENS, "labels", *others, GOLD, GIVEN) if name in names]


def _replaced(batch: Any, name: str, column: Any) -> Any:
    return batch.set_column(batch.schema.get_field_index(name), name, column)


def _plain(name: str, column: Any) -> Any:
    """Lists of strings of the usual type, and given values as `json` writes them; other columns stay."""
    pa = arrow()
    if name == GIVEN and column.type == pa.string():
        values = (None if value is None else json.dumps(json.loads(value)) for value in column.to_pylist())
        return pa.array(values, pa.string())
    if is_strings(column.type) and column.type != pa.list_(pa.string()):
        return column.cast(pa.list_(pa.string()))
    return column


def _texts(ids: Any) -> Any:
    """Ids as strings; those of other types as JSON."""
    pa = arrow()
    kind = ids.type.value_type if pa.types.is_dictionary(ids.type) else ids.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind):
        return ids.cast(pa.string())
    return pa.array([None if value is None else json.dumps(value, default=str) for value in ids.to_pylist()])


def _filled(labels: Any, tokens: Any) -> Any:
    """Labels with "_" for tokens of rows without labels."""
    pa = arrow()
    if not labels.null_count:
        return labels
    pairs = zip(labels.to_pylist(), pa.compute.list_value_length(tokens).to_pylist(), strict=True)
    return pa.array([[MISSING] * (n or 0) if one is None else one for one, n in pairs], pa.list_(pa.string()))


def _spelt_out(batch: Any, empty: Literal["fill", "raise"] = "fill") -> Any:
    """Rows for a format of lines: a string for each token in each column.

    empty: a row without tokens cannot be written; it becomes one token "_" with the label "_".
    """
    pa = arrow()
    columns = [name for name in batch.schema.names if is_strings(batch.schema.field(name).type)]
    names = [TOKENS, *(name for name in columns if name not in (TOKENS, GOLD, "labels"))]
    names += [name for name in (GOLD, "labels") if name in columns]
    whole = all(
        not batch.column(n).null_count and not batch.column(n).values.null_count for n in names if n != COMMENTS
    )
    lengths = pa.compute.list_value_length(batch.column("tokens"))
    if whole and (empty == "raise" or pa.compute.min(lengths).as_py() != 0):
        return batch.select(names)
    rows = batch.select(names).to_pylist()
    for row in rows:
        n = len(row["tokens"] or ()) or (1 if empty == "fill" else 0)
        for name in names:
            if name == COMMENTS or (row[name] is None and n and empty == "raise" and name != "labels"):
                continue  # the writer leaves the column out, as it does for single sequences
            blank = _UNKNOWN if name == "gold" else MISSING
            row[name] = [blank if one is None else one for one in row[name] or [blank] * n]
            if len(row[name]) != n:  # a row that failed because its columns differ in length
                row[name] = [*row[name], *[blank] * n][:n]
    return pa.RecordBatch.from_pylist(rows, batch.select(names).schema)
