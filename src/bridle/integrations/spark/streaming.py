"""Tag the files of a folder as a stream with a checkpoint: a job that was killed goes on without losing a row.

Spark notes in the checkpoint which files belong to a batch before it works on them, and in TARGET/_spark_metadata which
files of the result are complete. Files that a killed task left in TARGET are in no such note. Spark passes over them;
other readers do not know the notes, so `remove_orphans` deletes these files when the job is finished.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from bridle.errors import Argument, FileError, ModelError
from bridle.extras import needed
from bridle.integrations.spark.folders import Folder
from bridle.integrations.spark.shipping import Ship
from bridle.integrations.spark.tagging import tag
from bridle.models import Tagger

# Spark's default is a week before the newest file, counted from the second start on: older files that are still to be
# read would be passed over without a word when a job goes on.
OLDEST = "36500d"


def tag_stream(
    spark: Any,
    source: str,
    target: str,
    checkpoint: str,
    model: str | os.PathLike[str] | bytes | Tagger,
    rules: str | os.PathLike[str] | Iterable[Any] = (),
    *,
    format: str = "parquet",
    schema: Any = None,
    trigger: str = "availableNow",
    read: Mapping[str, Any] | None = None,
    id_column: str | None = None,
    ship: Ship = "file",
    **options: Any,
) -> Any:
    """Label the rows of files with a model, as a stream with a checkpoint, and write Parquet files.

    If the job is stopped or killed, call it again with the same arguments: it goes on with the batch at which it was.
    Every row of `source` is in `target` exactly once. If it is called again after it has finished, it tags files that
    are new in `source`.

    Parameters
    ----------
    spark : SparkSession
        The session.
    source : str
        Folder or glob of files, each complete when it appears there. A file that changes later is not read again.
    target : str
        Folder of the result: one Parquet file or more per batch.
    checkpoint : str
        Folder where Spark notes how far it is. Keep it as long as the job may have to go on, and use it for this job
        alone.
    model : path, bytes or Tagger
        The model; see `tag`.
    rules : path or iterable of Rule or str, optional
        The rules to obey, or a .rules file.
    format : str, default "parquet"
        Format of the files: ``"parquet"``, ``"json"`` (JSON lines) or another one that Spark can read as a stream.
    schema : pyspark.sql.types.StructType or str, optional
        Columns of the files. By default Spark finds out, for which it has to read JSON files once more.
    trigger : str, default "availableNow"
        ``"availableNow"`` tags what there is, in batches, and ends. A time such as ``"1 minute"`` looks for new files
        that often, until the query is stopped.
    read : mapping, optional
        Options of Spark's reader, for example ``{"maxFilesPerTrigger": 100}``: how many files make a batch, which is
        what a killed driver loses at most.
    id_column : str, optional
        The column that identifies rows; see `tag`.
    ship : {"file", "broadcast", "path"}, default "file"
        How the model gets to the executors; see `tag`.
    **options : object
        Options of `bridle.arrow.Tag`.

    Returns
    -------
    pyspark.sql.streaming.StreamingQuery
        The running query; ``query.awaitTermination()`` waits for its end and raises if it failed.

    Raises
    ------
    ModelError
        If `trigger` is empty, or the model cannot be shipped like this.
    FileError
        As `tag`.

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
    given = {"maxFileAge": OLDEST, **(read or {})}
    if schema is None:
        schema = spark.read.format(format).options(**given).load(source).schema
    rows = spark.readStream.format(format).schema(schema).options(**given).load(source)
    tagged = tag(rows, model, rules, id_column=id_column, ship=ship, **options)
    writer = tagged.writeStream.format("parquet").option("checkpointLocation", checkpoint)
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

    Raises
    ------
    FileError
        If the folder is not one that a stream of Spark wrote: there is no list of files that belong to it.

    Examples
    --------
    >>> remove_orphans(spark, "out")  # doctest: +SKIP
    ['part-00001-2e7c0a4b-....snappy.parquet']
    """
    folder = Folder(spark, target)
    names = folder.names()
    if "_spark_metadata" not in names:
        raise FileError("not a folder that a stream of Spark wrote", got=target, wanted="one with _spark_metadata")
    committed = spark.read.schema("status string").parquet(target).inputFiles()  # with a schema no file is opened
    listed = {name.rsplit("/", 1)[-1] for name in committed}
    orphans = [name for name in names if name.startswith("part-") and name not in listed]
    folder.remove(orphans)
    return orphans
