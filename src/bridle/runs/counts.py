"""Counts of rows, and a checksum of their ids that depends neither on their order nor on who has tagged them.

hash(id)    = splitmix64(sum over k of (byte k + 1) * F**(k + 1)),  F odd, modulo 2**64, bytes of UTF-8
checksum    = sum of hash(id) over all rows, modulo 2**64, as 16 hexadecimal digits
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from bridle.errors import FileError
from bridle.extras import needed
from bridle.texts import Texts

MESSAGES = 3  # messages of failed rows that are kept
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def arrow(name: str = "pyarrow") -> Any:
    """Import PyArrow, or a module of it."""
    return needed(name, "arrow", "runs over tables need PyArrow", FileError)


def id_texts(ids: Any) -> Any:
    """Convert an Arrow array of ids to strings: integers to decimal digits, values of other types to JSON."""
    pa = arrow()
    kind = ids.type.value_type if pa.types.is_dictionary(ids.type) else ids.type
    if pa.types.is_integer(kind) or str(kind) in ("string", "large_string", "string_view"):
        return ids.cast(pa.string())
    texts = [None if value is None else json.dumps(value, default=str) for value in ids.to_pylist()]
    return pa.array(texts, pa.string())


def id_sum(ids: Any) -> int:
    """Sum 64-bit hashes of ids, modulo 2**64; null ids are left out. Sums of parts can be added.

    ids : list of str or int, or Arrow array
    """
    pa = arrow()
    array = ids if isinstance(ids, (pa.Array, pa.ChunkedArray)) else pa.array(list(ids))
    if isinstance(array, pa.ChunkedArray):
        return sum(map(id_sum, array.chunks)) % 2**64
    array = id_texts(array).drop_null().cast(pa.large_string())
    if not len(array):
        return 0
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return text_sum(Texts(np.frombuffer(data or b"", np.uint8), ends))


def text_sum(ids: Texts) -> int:
    """Sum 64-bit hashes of ids in UTF-8, as `id_sum` does."""
    if not len(ids):
        return 0
    ends = ids.offsets
    text = ids.data[ends[0] : ends[-1]].astype(np.uint64) + np.uint64(1)
    ends = ends - ends[0]
    sizes = np.diff(ends)
    powers = np.cumprod(np.full(int(sizes.max()) + 1, _FACTOR, np.uint64))
    terms = text * powers[np.arange(len(text)) - np.repeat(ends[:-1], sizes)]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
    mixed = sums[ends[1:]] - sums[ends[:-1]] + _FACTOR
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return int((mixed ^ (mixed >> np.uint64(31))).sum(dtype=np.uint64))


def checksum(ids: Any) -> str:
    """Compute a checksum of ids that does not depend on their order.

    Runs over the same rows have the same checksum, whether files, Spark or Ray ran them, and whatever their shards
    are. A row that is lost or doubled changes it.

    Parameters
    ----------
    ids : list of str or int, or Arrow array
        The ids. An integer counts as its decimal digits, a value of another type as its JSON; null is left out.

    Returns
    -------
    str
        The sum of a 64-bit hash of each id, modulo 2**64, as 16 hexadecimal digits.

    Examples
    --------
    >>> from bridle.bulk import checksum
    >>> checksum(["r1", "r2"])
    '4989d6c4f796a09e'
    >>> checksum(["r2", "r1"]) == checksum(["r1", "r2"]) != checksum(["r1", "r1"])
    True
    >>> checksum([7, 8]) == checksum(["7", "8"])
    True
    """
    return f"{id_sum(ids):016x}"


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of rows, tokens and statuses, with a checksum of ids. Counts of different rows can be added."""

    rows: int = 0
    tokens: int = 0
    bytes: int = 0  # of the file
    ids: int = 0  # see `id_sum`
    status: Mapping[str, int] = field(default_factory=dict)  # rows by status
    errors: tuple[str, ...] = ()  # the first messages of rows that failed

    @classmethod
    def of(cls, batch: Any, id_column: str | None = "id", prefix: str = "") -> Counts:
        """Count the rows of a record batch, with their ids and what was tagged, as far as it has these columns.

        prefix : what the names of the columns status and error begin with
        """
        names, status, errors = batch.schema.names, {}, ()
        if f"{prefix}status" in names:
            pairs = batch.column(f"{prefix}status").value_counts().to_pylist()
            status = {pair["values"]: pair["counts"] for pair in pairs}
        if status.get("error") and f"{prefix}error" in names:
            errors = tuple(batch.column(f"{prefix}error").drop_null()[:MESSAGES].to_pylist())
        ids = id_sum(batch.column(id_column)) if id_column in names else 0
        return cls(batch.num_rows, ids=ids, status=status, errors=errors)

    @property
    def checksum(self) -> str:
        """The checksum of the ids, as `bridle.runs.checksum` shows it."""
        return f"{self.ids:016x}"

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.rows + other.rows,
            self.tokens + other.tokens,
            self.bytes + other.bytes,
            (self.ids + other.ids) % 2**64,
            dict(Counter(self.status) + Counter(other.status)),
            (*self.errors, *other.errors)[:MESSAGES],
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a manifest holds them."""
        return {**asdict(self), "ids": self.checksum, "status": dict(self.status), "errors": list(self.errors)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Counts:
        """Read the fields of a line of a manifest."""
        numbers = (int(record["rows"]), int(record["tokens"]), int(record["bytes"]), int(str(record["ids"]), 16))
        status = {str(name): int(count) for name, count in record["status"].items()}
        return cls(*numbers, status, tuple(map(str, record["errors"])))


# ---- results --------------------------------------------------------------------------------------------------------

_TO_LOOK_AT = frozenset({"relaxed", "infeasible", "nothing_found", "error"})


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run on files, Spark or Ray.

    Attributes
    ----------
    out : str
        The file or the folder.
    rows, tokens : int
        What it holds; Spark and Ray do not count tokens, so there these are 0.
    status : dict
        Rows by status: optimal, limit, relaxed, infeasible, nothing_found, error.
    errors : tuple of str
        The first messages of rows that failed.
    ids : str or None
        Checksum of the ids, 16 hexadecimal digits; see `bridle.bulk.checksum`. None if the rows have no ids.
    shards : int
        The number of shards, or of files that a cluster has written; 0 if the output is one file.
    rows_before, tokens_before : int
        What earlier calls had written.
    seconds : float
        Time of this call.
    state : {"finished", "nothing to do"}
        Whether this call has finished the run, or an earlier one had.
    left_out : dict
        Counts of what this call has left out, such as lines with -DOCSTART-, by file and name.
    repeated, repeated_example : int, str
        Ids that this call has met in more than one input, as far as it remembers them, and one of them, in words.
    checksum, files, resumed
        The same as `ids`, `shards` and `rows_before`.
    """

    out: str
    rows: int
    tokens: int
    status: Mapping[str, int]
    errors: tuple[str, ...]
    ids: str | None
    shards: int
    rows_before: int = 0
    tokens_before: int = 0
    seconds: float = 0.0
    state: Literal["finished", "nothing to do"] = "finished"
    left_out: Mapping[tuple[str, str], int] = field(default_factory=dict)
    repeated: int = 0
    repeated_example: str = ""

    @classmethod
    def of(cls, out: str, counts: Counts, **more: Any) -> RunResult:
        """Make the result of these counts."""
        facts = {"ids": counts.checksum, "shards": 0, **more}
        return cls(out, counts.rows, counts.tokens, counts.status, counts.errors, **facts)

    @property
    def checksum(self) -> str | None:
        """Checksum of the ids."""
        return self.ids

    @property
    def files(self) -> int:
        """Files in the output."""
        return self.shards

    @property
    def resumed(self) -> int:
        """Rows that earlier calls had written."""
        return self.rows_before

    @property
    def has_bad_rows(self) -> bool:
        """Check whether a row is relaxed, infeasible or failed."""
        return bool(_TO_LOOK_AT & self.status.keys())


def compare(
    actual: Counts,
    wanted: Counts,
    where: str,
    what: str = "the result does not have the rows of the input",
    cause: str | None = None,
) -> None:
    """Raise `FileError` unless two counts have the same number of rows and the same checksum of ids."""
    if (actual.rows, actual.ids) != (wanted.rows, wanted.ids):
        got, expected = (f"{counts.rows:,} rows, checksum of ids {counts.checksum}" for counts in (actual, wanted))
        raise FileError(what, got=got, wanted=expected, cause=cause, where=where)
