"""A folder of results that a command fills: it goes on after a stop, and is checked at its end.

    TARGET/part-*.parquet    the result
    TARGET/_bridle.json      what is run there: the same command goes on, another one is refused
    TARGET/_checkpoint       how far Spark is
    TARGET/_spark_metadata   which files of the result are complete

Most readers pass over names that begin with an underscore.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bridle.errors import FileError
from bridle.integrations.spark.folders import Folder
from bridle.integrations.spark.shipping import Model
from bridle.integrations.spark.streaming import remove_orphans, tag_stream

PER_CORE = 1 << 28  # bytes of files in a batch, per core: a minute or two of work, so that what Spark adds is small
_NOTE = "_bridle.json"
_SIZES = ("maxFilesPerTrigger", "maxBytesPerTrigger")


@dataclass(frozen=True)
class Summary:
    """What is in the folder of a finished run."""

    rows: int
    statuses: dict[str, int]  # rows by status, the most frequent first
    checksum: str | None  # of the ids, if there is a column "id"; in any order of rows
    removed: list[str]  # files of killed tasks


@dataclass(frozen=True)
class Run:
    """Files to be tagged into a folder, in a classic session of Spark."""

    spark: Any
    inputs: Sequence[str]  # absolute paths, addresses or globs
    target: str
    model: Model
    rules: Sequence[Any]
    format: str
    read: Mapping[str, Any]  # options of Spark's reader
    options: Mapping[str, Any]  # options of Tag

    @property
    def source(self) -> str:
        """All inputs as one glob, because a stream has one path."""
        if len(self.inputs) == 1:
            return self.inputs[0]
        start = re.match(r"([\w.+-]+://[^/]*)?/", self.inputs[0])
        prefix = start[0] if start else ""
        for one in self.inputs:
            if not prefix or not one.startswith(prefix) or set("{},") & set(one):
                raise FileError(
                    "cannot read these inputs as one stream",
                    got=one,
                    wanted="paths of the same file system without commas and braces",
                )
        return f"{prefix}{{{','.join(one.removeprefix(prefix) for one in self.inputs)}}}"

    def start(self) -> Any:
        """Start the query, or let it go on.

        Raises
        ------
        FileError
            If the folder holds the result of another run, or files of something else.
        """
        given = {"recursiveFileLookup": "true", **self.read}
        if not given.keys() & set(_SIZES):
            given["maxBytesPerTrigger"] = str(self.spark.sparkContext.defaultParallelism * PER_CORE)
        source, folder = self.source, Folder(self.spark, self.target)
        known = self._known(folder)
        if known is None:
            schema = self._batch().schema
            folder.write(_NOTE, json.dumps({**self._note(), "schema": schema.jsonValue()}, indent=1).encode())
        else:
            schema = _schema(known)
        try:
            return tag_stream(
                self.spark,
                source,
                self.target,
                f"{self.target}/_checkpoint",
                self.model.data,  # not its path: the file may have changed since the note was written
                self.rules,
                format=self.format,
                schema=schema,
                read=given,
                **self.options,
            )
        except BaseException:
            if known is None:  # nothing has begun: the next command may be another one
                folder.remove([_NOTE])
            raise

    def finish(self) -> Summary:
        """Remove what killed tasks left, compare the result with the inputs, and count.

        Raises
        ------
        FileError
            If the result has other rows than the inputs.
        """
        from pyspark.sql import functions

        removed = remove_orphans(self.spark, self.target)
        schema = _schema(json.loads(Folder(self.spark, self.target).read(_NOTE)))
        with_id = "id" in schema.names
        ids = functions.sum(functions.xxhash64("id").cast("decimal(38,0)")) if with_id else functions.lit(0)
        sums = functions.count("*").alias("rows"), ids.alias("ids")
        [wanted] = self._batch(schema).agg(*sums).collect()
        found = self.spark.read.parquet(self.target).groupBy("status").agg(*sums).collect()
        rows, checksum = sum(one.rows for one in found), sum(int(one.ids) for one in found)
        if (rows, checksum) != (wanted.rows, int(wanted.ids or 0)):
            raise FileError(
                "the result does not have the rows of the inputs",
                got=f"{rows:,} rows" if rows != wanted.rows else f"{rows:,} rows with other ids",
                wanted=f"{wanted.rows:,} rows",
                cause="Inputs that came while it ran are tagged if you run the same command again; inputs that were "
                "changed or removed need another output folder.",
                where=self.target,
            )
        statuses = {one.status: one.rows for one in sorted(found, key=lambda one: -one.rows)}
        return Summary(rows, statuses, f"{checksum % 2**64:016x}" if with_id else None, removed)

    def _batch(self, schema: Any = None) -> Any:
        """The rows of the inputs, as they are now."""
        reader = self.spark.read.format(self.format).option("recursiveFileLookup", "true").options(**self.read)
        return (reader if schema is None else reader.schema(schema)).load(list(self.inputs))

    def _note(self) -> dict[str, Any]:
        return {
            "version": 1,
            "model": self.model.digest,
            "rules": [repr(rule) for rule in self.rules],  # with checksums of lists of phrases
            "options": {name: str(value) for name, value in self.options.items()},
            "inputs": list(self.inputs),
            "format": self.format,
        }

    def _known(self, folder: Folder) -> dict[str, Any] | None:
        """The note of the run that this one goes on with; None if the folder is empty or does not exist."""
        names = [name for name in folder.names() if name != f"{_NOTE}.part"]  # left by a kill
        if _NOTE not in names:
            if names:
                raise FileError(
                    "the output folder holds other files", got=names[0], wanted="an empty folder", where=self.target
                )
            return None
        known: dict[str, Any] = json.loads(folder.read(_NOTE))
        other = [name for name, value in self._note().items() if known.get(name) != value]
        if other:
            raise FileError(
                "the output folder belongs to another run",
                got=f"other {' and other '.join(other)}",
                wanted="the same command, which goes on, or another folder",
                where=self.target,
            )
        return known


def _schema(note: Mapping[str, Any]) -> Any:
    """The columns of the inputs, as they were when the run began: with other ones it could not go on."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(note["schema"])
