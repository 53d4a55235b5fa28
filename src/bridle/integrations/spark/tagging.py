"""Tag the rows of a Spark data frame, in batch or as a stream."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import bridle.rules
from bridle.arrow import Tag
from bridle.errors import Argument, FileError
from bridle.extras import needed
from bridle.integrations.spark.shipping import Model, Ship, function, shipped
from bridle.models import Tagger


def tag(
    df: Any,
    model: str | os.PathLike[str] | bytes | Tagger,
    rules: str | os.PathLike[str] | Iterable[Any] = (),
    *,
    id_column: str | None = None,
    ship: Ship = "file",
    **options: Any,
) -> Any:
    """Label the rows of a Spark data frame with a model, optionally under rules.

    Each Python worker of Spark loads the model once and tags Arrow batches with a `bridle.arrow.Tag`. Nothing is
    computed before an action asks for rows. A streaming data frame works too.

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
        The column that identifies rows. It must exist, and is part of the result whatever `keep` says. Whether its
        values are unique is not checked.
    ship : {"file", "broadcast", "path"}, default "file"
        How the model gets to the executors. ``"file"``: as a file that each executor fetches once. ``"broadcast"``: as
        a broadcast variable, which every Python worker holds in memory beside the model. ``"path"``: not at all;
        `model` is a path that all machines see.
    **options : object
        Options of `bridle.arrow.Tag`, for example ``columns``, ``output``, ``scores``, ``on_error``, ``keep`` and
        ``time_limit``.

    Returns
    -------
    pyspark.sql.DataFrame
        The columns of `df`, or those of `keep`, followed by those of `Tag`: ``labels``, ``status`` and ``error``, for
        example.

    Raises
    ------
    FileError
        If `df` is not a data frame of Spark, or lacks the column `id_column`.
    FeatureError
        If `df` lacks a column of the model, or has one of a type that cannot be tagged.
    ModelFileError
        If the model cannot be read.
    ModelError
        If the model cannot be shipped like this.
    RuleError, LabelError
        If a rule is not one, or does not fit the labels of the model.
    MissingExtra
        If PyArrow is not installed.

    Examples
    --------
    >>> from pyspark.sql import SparkSession  # doctest: +SKIP
    >>> spark = SparkSession.builder.getOrCreate()  # doctest: +SKIP
    >>> df = spark.read.parquet("references")  # doctest: +SKIP
    >>> tagged = tag(df, "refs.bridle", ["at most 1 segment of TITLE"], id_column="id", keep=[])  # doctest: +SKIP
    >>> tagged.columns  # doctest: +SKIP
    ['id', 'labels', 'status', 'error']
    """
    needed("pyspark", "spark", "Spark data frames need PySpark")
    if not hasattr(df, "mapInArrow") or not hasattr(df, "sparkSession"):
        raise FileError("not a data frame of Spark", got=type(df).__name__, wanted="pyspark.sql.DataFrame")
    if id_column is not None:
        if id_column not in df.columns:
            raise FileError(
                "the column of {argument} does not exist",
                got=", ".join(map(repr, df.columns)),
                wanted=repr(id_column),
                argument=Argument("id_column", id_column),
            )
        kept = options.get("keep")
        if kept is not None and id_column not in kept:
            options["keep"] = [id_column, *kept]
    loaded = Model.of(model)
    obeyed = rules_of(rules)
    schema = schema_of(df, Tag(loaded.tagger, obeyed, **options))
    place = shipped(df.sparkSession, loaded, ship)
    return df.mapInArrow(function(place, obeyed, options), schema)


def rules_of(rules: str | os.PathLike[str] | Iterable[Any]) -> list[Any]:
    """Rules as objects, so that no executor has to read a file."""
    return list(bridle.rules.load(os.fspath(rules)) if isinstance(rules, (str, os.PathLike)) else rules)


def schema_of(df: Any, tag: Tag) -> Any:
    """The schema of the result, in Spark's types.

    A table without rows is tagged on the driver, so columns, rules and options that do not fit fail before a job
    starts. Spark makes that table, for which a limit of 0 needs no job. The columns of `df` keep their types.
    """
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    made = tag(df.sparkSession.createDataFrame([], df.schema).limit(0).toArrow()).schema
    known = {field.name: field for field in df.schema}
    new = from_arrow_schema([field for field in made if field.name not in known])
    return StructType([known.get(name) or new[name] for name in made.names])
