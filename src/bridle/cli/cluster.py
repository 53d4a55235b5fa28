"""`bridle tag --on`: the same on a cluster. The engine is known by the first word of its address.

--on spark://host:7077 | yarn | k8s://... | local[4] | local-cluster[2,1,1024] | ray | ray:local | ray://host:10001
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePath
from typing import Any, NoReturn

import typer

import bridle
from bridle.cli.bars import shown
from bridle.cli.base import LOOK, warn
from bridle.cli.options import bytes_of
from bridle.cli.reading import rules_for
from bridle.errors import BridleError, FileError
from bridle.extras import needed

# Options of `bridle tag` that mean something on a cluster: to Tag, and to this module.
_OF_TAG = ("k", "scores", "engine", "on_infeasible", "on_error", "time_limit", "max_memory", "threads")
_OF_RUN = ("model", "data", "rules", "lenient", "format", "out", "progress", "on", "on_option", "resume")
_FORMATS = {"parquet": "parquet", "jsonl": "json", "json": "json"}  # as Spark calls them
_STATUSES_TO_LOOK_AT = {"relaxed", "infeasible", "nothing_found", "error"}


@dataclass(frozen=True)
class Job:
    """What a cluster is to do."""

    model: Path
    inputs: list[str]  # absolute paths, addresses or globs
    out: str  # a folder
    rules: list[Any]
    format: str
    options: dict[str, Any]  # of Tag
    settings: dict[str, str]  # of the cluster
    progress: bool

    @classmethod
    def of(cls, context: typer.Context) -> Job:
        """Read the options of `bridle tag`; those without a meaning on a cluster are refused."""
        given = context.params
        for name in given.keys() - {*_OF_TAG, *_OF_RUN}:
            source = context.get_parameter_source(name)
            if source is not None and source.name == "COMMANDLINE":
                flag = next(one for one in context.command.params if one.name == name).opts[0]
                raise FileError(f"{flag} has no meaning with --on", got=flag, wanted=f"the command without {flag}")
        if given["out"] in (None, "-") or not given["data"] or "-" in given["data"]:
            raise FileError(
                "a cluster reads and writes files", got="a stream", wanted="DATA and -o FOLDER, seen by all machines"
            )
        inputs, out = [_absolute(one) for one in given["data"]], _absolute(given["out"])
        _check_places(inputs, out)
        tagger = bridle.load(given["model"])
        options = {name: given[name] for name in _OF_TAG if given.get(name) is not None}
        options["threads"] = options.get("threads") or 1  # of a task: the cluster has a task for every core
        if "max_memory" in options:
            options["max_memory"] = bytes_of(options["max_memory"])
        return cls(
            given["model"],
            inputs,
            out,
            rules_for(given["rules"], tagger, lenient=given["lenient"]),
            _format(given["format"], inputs),
            {name: getattr(value, "value", value) for name, value in options.items()},
            dict(map(_setting, given["on_option"] or ())),
            shown(given["progress"]),
        )


def tag_on(context: typer.Context) -> NoReturn:
    """Run `bridle tag` on the cluster that --on names."""
    on = context.params["on"]
    found = re.match(r"[a-z0-9]*", on)
    engine = _ENGINES.get(found[0] if found else "")
    if engine is None:
        wanted = "spark://HOST:PORT, yarn, k8s://..., local[N], local-cluster[N,CORES,MEGABYTES], or ray, ray:local, ray://..."
        raise FileError("unknown cluster", got=f"--on {on}", wanted=wanted)
    engine(on, Job.of(context))


def _on_spark(on: str, job: Job) -> NoReturn:
    """Run a job on Spark; it goes on if it was stopped."""
    needed("pyspark", "spark", "--on needs PySpark")
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from bridle.integrations.spark.runs import Run
    from bridle.integrations.spark.shipping import Model

    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    if on.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark's default is python3, which may be another one
    quiet = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
    settings = quiet | {name: value for name, value in job.settings.items() if name.startswith("spark.")}
    read = {name: value for name, value in job.settings.items() if name not in settings}
    try:
        spark = SparkSession.builder.master(on).appName("bridle tag").config(map=settings).getOrCreate()
    except Exception as problem:  # of py4j or PySpark, or RuntimeError: there is no Java
        raise _explained(problem, f"cannot start Spark on {on}") from None
    try:
        run = Run(spark, job.inputs, job.out, Model.of(job.model), job.rules, job.format, read, job.options)
        query = run.start()
        try:
            progress = _Progress()
            while not query.awaitTermination(1):
                if progress.more(query) and job.progress:
                    warn(f"tagged {progress.rows:,} rows")
        finally:
            query.stop()
        summary = run.finish()
    except (PySparkException, Py4JError) as problem:
        raise _explained(problem, "Spark could not finish; the same command goes on") from None
    finally:
        spark.stop()
    told = ", ".join(f"{count:,} {status}" for status, count in summary.statuses.items())
    ids = "" if summary.checksum is None else f"; checksum of ids {summary.checksum}"
    warn(f"finished: {summary.rows:,} rows in {job.out} ({told or 'none'}){ids}")
    raise typer.Exit(LOOK if summary.statuses.keys() & _STATUSES_TO_LOOK_AT else 0)


@dataclass
class _Progress:
    """How many rows have been tagged since the start; Spark remembers the last hundred batches."""

    rows: int = 0
    batch: int = -1

    def more(self, query: Any) -> bool:
        """Count the rows of batches that have ended since the last look; are there any?"""
        new = [one for one in query.recentProgress if one["batchId"] > self.batch]
        self.rows += sum(one["numInputRows"] for one in new)
        self.batch = max([self.batch, *(one["batchId"] for one in new)])
        return bool(new)


def _on_ray(on: str, job: Job) -> NoReturn:
    """Run a job on Ray; it goes on if it was stopped."""
    from bridle.cli.ray_run import run

    if job.format != "parquet":
        raise FileError("Ray reads Parquet files here", got=f"--format {job.format}", wanted="Parquet files")
    run(job.model, job.inputs, job.out, job.rules, {"on": on, **job.settings, **job.options})


_ENGINES: Mapping[str, Callable[[str, Job], NoReturn]] = {
    **dict.fromkeys(("spark", "local", "yarn", "k8s"), _on_spark),
    "ray": _on_ray,
}


def _explained(problem: Exception, what: str) -> BridleError:
    """An error of Spark in one message: the last line that Python workers wrote, or Spark's own first line."""
    text = str(problem)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    java = [line.removeprefix(": ") for line in lines if line.startswith(": ")]  # as Py4J puts it
    raised = [line for line in lines if re.match(r"(?:\w+\.)*\w*(?:Error|Exception|Infeasible|LimitReached): ", line)]
    if "Traceback" not in text:
        raised = []
    return FileError(what, got=[*lines[:1], *java[:1], *raised][-1] if lines else type(problem).__name__)


def _setting(text: str) -> tuple[str, str]:
    """The name and the value of a setting."""
    name, sign, value = text.partition("=")
    if not sign:
        wanted = "KEY=VALUE, such as spark.executor.memory=4g"
        raise FileError("--on-option is not of the form KEY=VALUE", got=repr(text), wanted=wanted)
    return name.strip(), value.strip()


def _absolute(path: str) -> str:
    """A path from the root, because executors have other working directories; addresses stay as they are."""
    return path if re.match(r"[\w.+-]+:/", path) else os.path.abspath(path)  # noqa: PTH100  (of a glob too)


def _check_places(inputs: Sequence[str], out: str) -> None:
    """Refuse an output that would be read, and inputs that would be read twice."""
    above = [str(one) for one in (PurePath(out), *PurePath(out).parents)]
    bare = [one.rstrip("/") for one in inputs]
    for k, one in enumerate(bare):
        if f"{out}/".startswith(f"{one}/") or any(fnmatch(folder, one) for folder in above):
            raise FileError(
                "the output would be read as input", got=f"-o {out}", wanted="a folder outside of the input"
            )
        if any(f"{one}/".startswith(f"{other}/") for other in (*bare[:k], *bare[k + 1 :])):
            raise FileError("an input is named twice", got=one, wanted="every input once")


def _format(asked: str | None, inputs: Sequence[str]) -> str:
    """The format of the inputs, as Spark calls it."""
    if asked is None:
        asked = "jsonl" if any(re.search(r"\.jsonl?\b", one) or _has_lines(one) for one in inputs) else "parquet"
    if asked not in _FORMATS:
        raise FileError("a cluster cannot read this format", got=f"--format {asked}", wanted="parquet or jsonl")
    return _FORMATS[asked]


def _has_lines(folder: str) -> bool:
    """Does a folder on this machine hold JSON lines?"""
    return os.path.isdir(folder) and any(re.search(r"\.jsonl?\b", name) for name in os.listdir(folder))  # noqa: PTH112, PTH208
