"""`bridle tag --on`: the same on a cluster. The engine is known by the first word of its address.

--on spark://host:7077 | yarn | k8s://... | local[4] | local-cluster[2,1,1024]
--on ray              the cluster of Ray that this machine belongs to, or that RAY_ADDRESS names
--on ray:local        a cluster of this machine alone, for this command
--on ray:HOST:PORT    a cluster that this machine belongs to
--on ray://HOST:PORT  a Ray Client server
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePath
from typing import Any, NoReturn

import typer

import bridle
from bridle.cli.base import WARNINGS, on_terminal, warn
from bridle.cli.options import parse_size, typed
from bridle.cli.reading import load_model_rules
from bridle.errors import BridleError, FileError
from bridle.extras import needed
from bridle.runs import RunResult, absolute

# Options of `bridle tag` that mean something on a cluster: to Tag, and to this module.
_OF_TAG = ("k", "scores", "engine", "on_infeasible", "on_error", "time_limit", "max_memory", "threads")
_OF_RUN = ("model", "data", "rules", "lenient", "format", "out", "progress", "on", "on_option", "resume")
_FORMATS = {"parquet": "parquet", "jsonl": "json", "json": "json"}  # as Spark calls them
_NUMBERS: Mapping[str, Any] = {"actors": int, "num_cpus": float, "batch_size": int, "block_bytes": int}  # of Ray


@dataclass(frozen=True)
class Job:
    """A run of `bridle tag` on a cluster."""

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
        params = context.params
        known = {param.opts[0] for param in context.command.params if param.name in (*_OF_TAG, *_OF_RUN)}
        for flag in typed(context).keys() - known:
            raise FileError(f"{flag} has no meaning with --on", got=flag, wanted=f"the command without {flag}")
        if params["out"] in (None, "-") or not params["data"] or "-" in params["data"]:
            wanted = "DATA and -o FOLDER, seen by all machines"
            raise FileError("a cluster reads and writes files", got="a stream", wanted=wanted)
        inputs, out = [absolute(path) for path in params["data"]], absolute(params["out"])
        _check_places(inputs, out)
        tagger = bridle.load(params["model"])
        options = {name: params[name] for name in _OF_TAG if params.get(name) is not None}
        options["threads"] = options.get("threads") or 1  # of a task: the cluster has a task for every core
        if "max_memory" in options:
            options["max_memory"] = parse_size(options["max_memory"])
        rules = load_model_rules(params["rules"], tagger, lenient=params["lenient"])
        if tagger.decides is not None:
            wanted = "a model from bridle train --learner constrained, or no --on"
            raise FileError("deterministic rules do not travel to a cluster", got="--on with --rules", wanted=wanted)
        return cls(
            params["model"],
            inputs,
            out,
            rules,
            _format(params["format"], inputs),
            {name: getattr(value, "value", value) for name, value in options.items()},
            dict(map(_setting, params["on_option"] or ())),
            on_terminal(sys.stderr) if params["progress"] is None else params["progress"],
        )


def tag_on(context: typer.Context) -> NoReturn:
    """Run `bridle tag` on the cluster that --on names."""
    on = context.params["on"]
    match = re.match(r"[a-z0-9]*", on)
    engine = _ENGINES.get(match[0] if match else "")
    if engine is None:
        wanted = "spark://HOST:PORT, yarn, k8s://..., local[N], local-cluster[N,CORES,MEGABYTES], or ray, ray:local, ray://..."
        raise FileError("unknown cluster", got=f"--on {on}", wanted=wanted)
    result = engine(on, Job.of(context))
    statuses = sorted(result.status.items(), key=lambda pair: -pair[1])
    text = ", ".join(f"{count:,} {status}" for status, count in statuses) or "none"
    before = f", {result.rows_before:,} of them by an earlier run" if result.rows_before else ""
    ids = "no column id, so no checksum" if result.ids is None else f"checksum of ids {result.ids}"
    warn(f"finished: {result.rows:,} rows in {result.out} ({text}){before}; {ids}")
    raise typer.Exit(WARNINGS if result.has_bad_rows else 0)


def _on_spark(on: str, job: Job) -> RunResult:
    """Run a job on Spark; it goes on if it was stopped."""
    needed("pyspark", "spark", "--on needs PySpark")
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from bridle.integrations.spark import Run

    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    quiet = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
    settings = quiet | {name: value for name, value in job.settings.items() if name.startswith("spark.")}
    read = {name: value for name, value in job.settings.items() if name not in settings}
    try:
        spark = SparkSession.builder.master(on).appName("bridle tag").config(map=settings).getOrCreate()
    except Exception as problem:  # of py4j or PySpark, or RuntimeError: there is no Java
        raise _explained(problem, f"cannot start Spark on {on}") from None
    try:
        run = Run(spark, job.inputs, job.out, job.model.read_bytes(), job.rules, job.format, read, job.options)
        query = run.start()
        try:
            rows, batch = 0, -1
            while not query.awaitTermination(1):
                for done in query.recentProgress:  # of the last hundred batches
                    if done["batchId"] > batch:
                        rows, batch = rows + done["numInputRows"], done["batchId"]
                        if job.progress:
                            warn(f"tagged {rows:,} rows")
        finally:
            query.stop()
        return run.finish()
    except (PySparkException, Py4JError) as problem:
        raise _explained(problem, "Spark could not finish; the same command goes on") from None
    finally:
        spark.stop()


def _on_ray(on: str, job: Job) -> RunResult:
    """Run a job on Ray; it goes on if it was stopped."""
    from bridle.integrations.ray import run

    if job.format != "parquet":
        raise FileError("Ray reads Parquet files here", got=f"--format {job.format}", wanted="Parquet files")
    settings = {name: _number(name, value) for name, value in job.settings.items()}
    with _ray_cluster(on, settings.get("actors", 2)):
        return run(job.inputs, job.out, job.model, job.rules, **settings, **job.options)


@contextmanager
def _ray_cluster(on: str, actors: int) -> Iterator[None]:
    """Be connected to a cluster of Ray."""
    ray = needed("ray", "ray", "--on ray needs Ray")
    address = on if on.startswith("ray://") else on.removeprefix("ray").removeprefix(":") or "auto"
    # Ray's processors are what tasks may reserve: a machine with few must still have some beside those of the actors.
    sizes = {"num_cpus": max(os.cpu_count() or 1, actors + 2)} if address == "local" else {}
    try:
        ray.init(address=address, log_to_driver=False, **sizes)
    except (ConnectionError, ValueError) as problem:
        got = str(problem).strip().partition("\n")[0]
        wanted = "ray:local, or the address of a running cluster"
        raise FileError(f"cannot reach the cluster of --on {on}", got=got, wanted=wanted) from None
    try:
        yield
    finally:
        ray.shutdown()


def _number(name: str, value: str) -> Any:
    """Parse a setting of Ray; numbers come as text."""
    try:
        return _NUMBERS.get(name, str)(value)
    except ValueError:
        raise FileError(f"--on-option {name} is not a number", got=repr(value), wanted=f"{name}=NUMBER") from None


_ENGINES: Mapping[str, Callable[[str, Job], RunResult]] = {
    **dict.fromkeys(("spark", "local", "yarn", "k8s"), _on_spark),
    "ray": _on_ray,
}


def _explained(problem: Exception, what: str) -> BridleError:
    """Return an error of Spark in one message: the last line of a Python worker, or Spark's own first line."""
    text = str(problem)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    java = [line.removeprefix(": ") for line in lines if line.startswith(": ")]  # as Py4J puts it
    raised = [line for line in lines if re.match(r"(?:\w+\.)*\w*(?:Error|Exception|Infeasible|LimitReached): ", line)]
    if "Traceback" not in text:
        raised = []
    return FileError(what, got=[*lines[:1], *java[:1], *raised][-1] if lines else type(problem).__name__)


def _setting(text: str) -> tuple[str, str]:
    """Return the name and the value of a setting."""
    name, sign, value = text.partition("=")
    if not sign:
        wanted = "KEY=VALUE, such as spark.executor.memory=4g"
        raise FileError("--on-option is not of the form KEY=VALUE", got=repr(text), wanted=wanted)
    return name.strip(), value.strip()


def _check_places(inputs: Sequence[str], out: str) -> None:
    """Refuse an output that would be read, and inputs that would be read twice."""
    above = [str(path) for path in (PurePath(out), *PurePath(out).parents)]
    bare = [path.rstrip("/") for path in inputs]
    for k, path in enumerate(bare):
        if f"{out}/".startswith(f"{path}/") or any(fnmatch(folder, path) for folder in above):
            wanted = "a folder outside of the input"
            raise FileError("the output would be read as input", got=f"-o {out}", wanted=wanted)
        if any(f"{path}/".startswith(f"{other}/") for other in (*bare[:k], *bare[k + 1 :])):
            raise FileError("an input is named twice", got=path, wanted="every input once")


def _format(name: str | None, inputs: Sequence[str]) -> str:
    """Return the format of the inputs, as Spark calls it."""
    if name is None:
        name = "jsonl" if any(re.search(r"\.jsonl?\b", path) or _has_lines(path) for path in inputs) else "parquet"
    if name not in _FORMATS:
        raise FileError("a cluster cannot read this format", got=f"--format {name}", wanted="parquet or jsonl")
    return _FORMATS[name]


def _has_lines(folder: str) -> bool:
    """Return True if a folder on this machine holds JSON lines."""
    return os.path.isdir(folder) and any(re.search(r"\.jsonl?\b", name) for name in os.listdir(folder))  # noqa: PTH112, PTH208
