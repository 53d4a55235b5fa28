"""Apache Spark: data frames and streams of files, labelled on all machines of a cluster.

    from bridle.integrations.spark import tag

    tagged = tag(spark.read.parquet("references"), "refs.bridle", "my.rules", id_column="id")
    tagged.write.parquet("tagged")

`tag` is one `mapInArrow` with a `bridle.arrow.Tag`. `tag_stream` reads a folder of files with a checkpoint, so that a
killed job resumes. `Run` is `bridle tag --on spark://...`: a stream whose result is checked at its end.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args

import bridle
from bridle.arrow import Tag
from bridle.arrow.base import Model, Rules, loaded
from bridle.atomic import replacing
from bridle.errors import Argument, FileError, ModelError, ModelFileError
from bridle.extras import needed
from bridle.models import Tagger
from bridle.recent import RecentCache
from bridle.runs import NAME, Counts, HadoopFolder, Record, RunResult, claim, compare, head_of

__all__ = ["checksum", "remove_orphans", "tag", "tag_stream"]

Ship = Literal["file", "broadcast", "path"]

# Spark's default is a week before the newest file, from the second start on: a resumed job would silently skip older
# files that are still to be read.
OLDEST = "36500d"
PER_CORE = (
    1 << 28
)  # bytes of files in a batch, per core: a minute or two of work, so that the overhead of Spark is small


def tag(
    df: Any,
    model: Model,
    rules: Rules = (),
    *,
    id_column: str | None = None,
    ship: Ship = "file",
    **options: Any,
) -> Any:
    """Label the rows of a Spark data frame with a model, optionally under rules.

    It is lazy, like other transformations of Spark. A streaming data frame works too.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        One row per sequence, with the columns that the model was trained on: arrays of strings, or the string column
        ``text``.
    model : path, bytes or Tagger
        The model: a file that the driver can read, the bytes of one, or a fitted model.
    rules : path or iterable of Rule or str, optional
        The rules to obey, or a .rules file. The driver reads it, with the files that it names.
    id_column : str, optional
        The column that identifies rows. It must exist, and is part of the result whatever `keep` says.
    ship : {"file", "broadcast", "path"}, default "file"
        How the model gets to the executors: as a file that each executor fetches once, as a broadcast variable, or
        not at all, because `model` is a path that all machines see.
    **options : object
        Options of `bridle.arrow.Tag`, for example ``output``, ``scores``, ``keep`` and ``time_limit``. With ``groups``,
        the rows of each document are brought together, in their order, so the result has another order of rows.

    Returns
    -------
    pyspark.sql.DataFrame
        The columns of `df`, or those of `keep`, followed by those of `Tag`: ``labels``, ``status`` and ``error``, for
        example.

    Raises
    ------
    BridleError
        If `df` lacks a column, the model cannot be read or shipped, or a rule does not fit its labels.

    Examples
    --------
    >>> df = spark.read.parquet("references")  # doctest: +SKIP
    >>> tagged = tag(df, "refs.bridle", ["at most 1 segment of TITLE"], id_column="id", keep=[])  # doctest: +SKIP
    >>> tagged.columns  # doctest: +SKIP
    ['id', 'labels', 'status', 'error']
    """
    needed("pyspark", "spark", "Spark data frames need PySpark")
    if not hasattr(df, "mapInArrow") or not hasattr(df, "sparkSession"):
        raise FileError("not a data frame of Spark", got=type(df).__name__, wanted="pyspark.sql.DataFrame")
    if id_column is not None:
        _check_id(df, id_column)
        kept = options.get("keep")
        if kept is not None and id_column not in kept:
            options["keep"] = [id_column, *kept]
    on_driver = Tag(model, rules, **options)
    schema = _schema(df, on_driver)
    mapped = function(shipped(df.sparkSession, model, ship), on_driver.rules, options)
    if on_driver.groups is not None:
        return _by_document(df, mapped, schema, on_driver.groups)
    return _on_workers(df, lambda: df.mapInArrow(mapped, schema))


def _on_workers(df: Any, transform: Callable[[], Any]) -> Any:
    """Return a transformed data frame. Python workers on this machine are this Python, unless PYSPARK_PYTHON is set."""
    context = getattr(df.sparkSession, "sparkContext", None)  # None in Spark Connect
    if context is None or not context.master.startswith("local") or context.pythonExec != "python3":
        return transform()
    context.pythonExec = sys.executable  # the default may be a Python without Bridle
    try:
        return transform()
    finally:
        context.pythonExec = "python3"


def _by_document(df: Any, mapped: Callable[..., Iterator[Any]], schema: Any, groups: str) -> Any:
    """Call the function once per document, with all its rows in their order."""
    from pyspark.sql.functions import monotonically_increasing_id

    if df.isStreaming:
        wanted = "a data frame that is not streaming, or sequences without documents"
        raise FileError("a stream has no whole documents", got=f"groups={groups!r}", wanted=wanted)
    row = "_bridle_row"

    def tagged(table):  # type: ignore[no-untyped-def]  # pickled by its code, as in `function`
        import pyarrow

        ordered = table.sort_by(row).drop_columns([row]).combine_chunks()
        return pyarrow.Table.from_batches(list(mapped(iter(ordered.to_batches()))))

    numbered = df.withColumn(row, monotonically_increasing_id())
    return _on_workers(df, lambda: numbered.groupBy(groups).applyInArrow(tagged, schema))


def checksum(df: Any, id_column: str = "id") -> str:
    """Compute the checksum of the ids of a data frame, on the executors.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        Rows, tagged or not.
    id_column : str, default "id"
        The column that identifies rows. Nulls are left out.

    Returns
    -------
    str
        16 hexadecimal digits, as `bridle.bulk.checksum` gives for the same ids.
    """
    _check_id(df, id_column)
    return count_rows(df, id_column).checksum


def _check_id(df: Any, id_column: str) -> None:
    if id_column not in df.columns:
        what, argument = "the column of {argument} does not exist", Argument("id_column", id_column)
        raise FileError(what, got=", ".join(map(repr, df.columns)), wanted=repr(id_column), argument=argument)


def _schema(df: Any, tag: Tag) -> Any:
    """Return the schema of the result, in Spark's types.

    An empty table is tagged on the driver, so wrong columns, rules and options fail before a job starts. The columns
    of `df` keep their types.
    """
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    schema = tag(df.sparkSession.createDataFrame([], df.schema).limit(0).toArrow()).schema
    known = {field.name: field for field in df.schema}
    new = from_arrow_schema([field for field in schema if field.name not in known])
    return StructType([known.get(name) or new[name] for name in schema.names])


def tag_stream(
    spark: Any,
    source: str,
    target: str,
    checkpoint: str,
    model: Model,
    rules: Rules = (),
    *,
    format: str = "parquet",
    schema: Any = None,
    trigger: str = "availableNow",
    read: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Label the rows of files with a model, as a stream with a checkpoint, and write Parquet files.

    If the job is stopped or killed, call it again with the same arguments: it resumes with the unfinished batch, and
    every row of `source` is in `target` exactly once. A call after the end tags files that are new in `source`.

    Parameters
    ----------
    spark : SparkSession
        The session.
    source : str
        Folder or glob of files, each complete when it appears there. A file that changes later is not read again.
    target : str
        Folder of the result: one Parquet file or more per batch.
    checkpoint : str
        Folder where Spark keeps its progress, for this job alone.
    model, rules, **options
        As for `tag`: ``id_column``, ``ship`` and the options of `bridle.arrow.Tag`.
    format : str, default "parquet"
        Format of the files: ``"parquet"``, ``"json"`` (JSON lines) or another one that Spark can read as a stream.
    schema : pyspark.sql.types.StructType or str, optional
        Columns of the files. By default Spark detects them, which takes another pass over JSON files.
    trigger : str, default "availableNow"
        ``"availableNow"`` tags the present files in batches and ends. An interval such as ``"1 minute"`` looks for new
        files that often, until the query is stopped.
    read : mapping, optional
        Options of Spark's reader, for example ``{"maxFilesPerTrigger": 100}`` for the files of a batch, which is the
        most that a killed driver loses.

    Returns
    -------
    pyspark.sql.streaming.StreamingQuery
        The running query; ``query.awaitTermination()`` waits for its end and raises if it failed.

    Examples
    --------
    >>> query = tag_stream(spark, "in", "out", "out/_checkpoint", "refs.bridle", "my.rules")  # doctest: +SKIP
    >>> query.awaitTermination()  # doctest: +SKIP
    >>> remove_orphans(spark, "out")  # doctest: +SKIP
    []
    """
    needed("pyspark", "spark", "streams of Spark need PySpark")
    if not isinstance(trigger, str) or not trigger:
        raise ModelError("bad {argument}", wanted="'availableNow' or a time", argument=Argument("trigger", trigger))
    settings = {"maxFileAge": OLDEST, **(read or {})}
    if schema is None:
        schema = spark.read.format(format).options(**settings).load(source).schema
    rows = spark.readStream.format(format).schema(schema).options(**settings).load(source)
    writer = tag(rows, model, rules, **options).writeStream.format("parquet").option("checkpointLocation", checkpoint)
    when = {"availableNow": True} if trigger == "availableNow" else {"processingTime": trigger}
    return writer.trigger(**when).start(target)


def remove_orphans(spark: Any, target: str) -> list[str]:
    """Delete files that killed tasks left in the folder of a stream.

    Call it when no query writes to the folder. Readers other than Spark then see the same rows as Spark.

    Parameters
    ----------
    spark : SparkSession
        A classic session; Spark Connect has no access to file systems.
    target : str
        The folder that `tag_stream` wrote.

    Returns
    -------
    list of str
        The names of the deleted files, in order.
    """
    folder = HadoopFolder(spark, target)
    names = folder.names()
    if "_spark_metadata" not in names:
        raise FileError("not a folder that a stream of Spark wrote", got=target, wanted="one with _spark_metadata")
    committed = spark.read.schema("status string").parquet(target).inputFiles()  # with a schema no file is opened
    listed = {name.rsplit("/", 1)[-1] for name in committed}
    orphans = [name for name in names if name.startswith("part-") and name not in listed]
    folder.remove(orphans)
    return orphans


# ---- how a model gets from the driver to the Python workers ---------------------------------------------------------
# driver:    shipped(session, model, ship) -> function(place, ...), which Spark pickles
# executor:  the function -> tag_of(...), once per Python worker -> Tag
# Spark keeps a Python worker for many tasks and unpickles the function for each of them, so models are cached.

_tags = RecentCache(most_entries=4, most_bytes=1 << 31)  # of this Python worker


@dataclass(frozen=True)
class Place:
    """Location of the model for Python workers."""

    ship: Ship
    at: Any  # the name of a file of Spark, a broadcast variable, or a path
    digest: str  # SHA-256 of the model file

    def read(self) -> bytes:
        """Read the model file on an executor, and check it."""
        if self.ship == "broadcast":
            return bytes(self.at.value)
        path = Path(self.at)
        if self.ship == "file":
            from pyspark import SparkFiles

            path = Path(SparkFiles.get(self.at))
        try:
            data = path.read_bytes()
        except OSError as error:
            what, got, wanted = "an executor cannot read the model", error.strerror, "a path that all machines see"
            cause = "`ship='file'` sends the model to the executors." if self.ship == "path" else None
            raise ModelFileError(what, got=got, wanted=wanted, cause=cause, where=str(path)) from None
        if hashlib.sha256(data).hexdigest() != self.digest:
            what, got = "an executor has another model than the driver", "a file with other content"
            cause = "It was replaced while the job ran, or the machines do not see the same folder."
            wanted = f"the file with the SHA-256 {self.digest}"
            raise ModelFileError(what, got=got, wanted=wanted, cause=cause, where=str(path))
        return data


def shipped(session: Any, model: Model, ship: Ship) -> Place:
    """Send a model to the Python workers of a session; raises `ModelError` if `ship` does not fit."""

    def refused(what: str, got: str | None, wanted: str) -> ModelError:
        return ModelError(what, got=got, wanted=wanted, argument=Argument("ship", ship))

    if ship not in get_args(Ship):
        raise refused("bad {argument}", None, ", ".join(map(repr, get_args(Ship))))
    from pyspark import SparkFiles

    data = model_bytes(model)
    digest, connect = hashlib.sha256(data).hexdigest(), type(session).__module__.startswith("pyspark.sql.connect")
    if ship == "path":
        if isinstance(model, (bytes, Tagger)):
            raise refused("{argument} needs the path of a model file", "a model in memory", "its path")
        return Place(ship, os.path.abspath(model), digest)  # noqa: PTH100
    if ship == "broadcast":
        if connect:
            got = "Spark Connect, which has no broadcast variables"
            raise refused("{argument} needs a classic Spark session", got, "ship='file' or ship='path'")
        return Place(ship, session.sparkContext.broadcast(data), digest)
    name = f"{digest[:32]}.bridle"  # Spark identifies files by name, so each model needs its own
    with TemporaryDirectory() as folder:
        root = folder if connect else SparkFiles.getRootDirectory()  # which Spark removes at its end
        path = Path(root) / "bridle" / name  # a copy, because the user may train the model again while the job runs
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            with replacing(path) as file:
                file.write(data)
        if connect:
            session.addArtifact(str(path), file=True)  # the server has a copy when this returns
        else:
            session.sparkContext.addFile(str(path))
    return Place(ship, name, digest)


def model_bytes(model: Model) -> bytes:
    """Return the content of a model file; raises the same errors as `bridle.load`."""
    if isinstance(model, bytes):
        return model
    tagger = loaded(model).tagger
    return tagger.to_bytes() if isinstance(model, Tagger) else Path(model).read_bytes()


def function(place: Place, rules: Iterable[Any], options: Mapping[str, Any]) -> Callable[..., Iterator[Any]]:
    """Return the function that Spark calls on an executor with the Arrow batches of a task.

    Spark pickles local functions by their code, so it can report an executor without Bridle.
    """
    setup = pickle.dumps((place.ship, place.digest, tuple(rules), dict(options)))
    key = hashlib.sha256(setup).hexdigest()
    at, version = place.at, bridle.__version__

    def tagged(batches):  # type: ignore[no-untyped-def]  # annotations would be looked up where Bridle is missing
        import platform
        import sys

        here = f"{sys.executable} on {platform.node()}"
        try:
            from bridle import __version__ as installed
            from bridle.integrations.spark import tag_of
        except ImportError as error:
            raise ImportError(
                f"an executor cannot import Bridle; got {error} with {here}; "
                f"wanted bridle {version} with PyArrow in the Python of every executor.\n"
                "Install it there, or send an environment: see 'What executors need' on the page about Spark."
            ) from None
        if installed != version:
            what = "an executor has another version of Bridle than the driver"
            raise RuntimeError(f"{what}; got {installed} with {here}; wanted {version}.")
        yield from map(tag_of(key, setup, at), batches)

    return tagged


def tag_of(key: str, setup: bytes, at: Any) -> Tag:
    """Return the `Tag` of a job, loaded once per Python worker."""
    tag: Tag | None = _tags.get(key)
    if tag is None:
        ship, digest, rules, options = pickle.loads(setup)
        data = Place(ship, at, digest).read()
        tag = Tag(data, rules, **options)
        _tags.keep(key, tag, len(data))
    return tag


# ---- the command ----------------------------------------------------------------------------------------------------
# TARGET/part-*.parquet     the result
# TARGET/_manifest.jsonl    head of the run: the same command resumes, another one is rejected
# TARGET/_checkpoint        progress of Spark
# TARGET/_spark_metadata    the complete files of the result


@dataclass(frozen=True)
class Run:
    """A run that tags files into a folder, in a classic session of Spark."""

    spark: Any
    inputs: Sequence[str]  # absolute paths, addresses or globs
    target: str
    model: bytes  # of the file, which may change while the run is stopped
    rules: Sequence[Any]
    format: str
    read: Mapping[str, Any]  # options of Spark's reader
    options: Mapping[str, Any]  # options of Tag

    def _source(self) -> str:
        """Return all inputs as one glob, because a stream has one path."""
        if len(self.inputs) == 1:
            return self.inputs[0]
        start = re.match(r"([\w.+-]+://[^/]*)?/", self.inputs[0])
        prefix = start[0] if start else ""
        for path in self.inputs:
            if not prefix or not path.startswith(prefix) or set("{},") & set(path):
                wanted = "paths of the same file system without commas and braces"
                raise FileError("cannot read these inputs as one stream", got=path, wanted=wanted)
        return f"{prefix}{{{','.join(path.removeprefix(prefix) for path in self.inputs)}}}"

    def start(self) -> Any:
        """Start or resume the query; raises `FileError` if the folder has another run or other files."""
        settings = {"recursiveFileLookup": "true", **self.read}
        if not settings.keys() & {"maxFilesPerTrigger", "maxBytesPerTrigger"}:
            settings["maxBytesPerTrigger"] = str(self.spark.sparkContext.defaultParallelism * PER_CORE)
        source, folder = self._source(), HadoopFolder(self.spark, self.target)
        options, inputs = {**self.options, "format": self.format}, [{"path": path} for path in self.inputs]
        head = head_of(loaded(self.model).tagger.fingerprint_, self.rules, options, inputs, "spark")
        head, is_new = claim(folder, head, more=lambda: {"schema": self._batch().schema.jsonValue()})
        try:
            return tag_stream(
                self.spark,
                source,
                self.target,
                f"{self.target}/_checkpoint",
                self.model,
                self.rules,
                format=self.format,
                schema=_input_schema(head),
                read=settings,
                **self.options,
            )
        except BaseException:
            if is_new:  # nothing has begun, so another command may use the folder
                folder.remove([NAME])
            raise

    def finish(self) -> RunResult:
        """Remove files of killed tasks, count the rows, and raise `FileError` if they are not those of the inputs."""
        remove_orphans(self.spark, self.target)
        folder = HadoopFolder(self.spark, self.target)
        schema = _input_schema(Record.of(folder.read(NAME), self.target)[0].head)
        expected, written = count_rows(self._batch(schema)), count_rows(self.spark.read.parquet(self.target))
        cause = "Run the same command again for new inputs; changed or removed ones need another output folder."
        compare(written, expected, self.target, cause=cause)
        result = RunResult.of(self.target, written, shards=sum(name.startswith("part-") for name in folder.names()))
        return result if "id" in schema.names else replace(result, ids=None)

    def _batch(self, schema: Any = None) -> Any:
        """Return the current rows of the inputs."""
        reader = self.spark.read.format(self.format).option("recursiveFileLookup", "true").options(**self.read)
        return (reader if schema is None else reader.schema(schema)).load(list(self.inputs))


def count_rows(df: Any, id_column: str = "id") -> Counts:
    """Count the rows, ids and statuses of a data frame on the executors, as far as it has these columns."""
    from pyspark.sql.functions import col, lit

    names = {"id": id_column, "status": "status", "error": "error"}
    columns = [col(f"`{name}`").alias(key) for key, name in names.items() if name in df.columns]
    chosen = df.select(*columns or [lit(0).alias("row")])
    rows = _on_workers(chosen, lambda: chosen.mapInArrow(_count_batches, "counts string")).collect()
    return sum((Counts.from_json(json.loads(row.counts)) for row in rows), Counts())


def _count_batches(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield one row per task: its counts as JSON."""
    counts = sum(map(Counts.of, batches), Counts())
    yield needed("pyarrow", "spark", "counts").record_batch({"counts": [json.dumps(counts.to_json())]})


def _input_schema(head: Mapping[str, Any]) -> Any:
    """Return the columns of the inputs at the beginning of the run; it cannot resume with others."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(head["schema"])
