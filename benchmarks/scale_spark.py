"""Spark at work is killed: a Python worker, an executor, the driver. Is a row lost, doubled or labelled otherwise?

    python benchmarks/scale_spark.py [--rows 100000] [--kill worker executor driver] [--seed 0]

`bridle tag --on local-cluster[2,1,1024]` tags generated references with two executors, which are processes of their
own. At a random moment, while a Python worker computes, one process gets SIGKILL. A killed driver is started again with
the same command; the rest is Spark's own business. The result is read without Spark and compared with the labels of a
single process. First it measures what one Python worker costs. Needs Linux (/proc), PySpark and Java 17.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

import bridle
import scale_data
from bridle.arrow import Tag

Kill = Literal["worker", "executor", "driver"]
CLUSTER = "local-cluster[2,1,1024]"
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # short jobs: compiling well takes longer than running
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.executor.extraJavaOptions": QUICK_JAVA,
}
PATIENCE = 900.0  # seconds for what should take much less
ATTEMPTS = 5  # to kill a process before the job is over


# ---- what is tagged -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """Files to tag, and the labels that a single process gives them."""

    model: Path
    rules: Path
    inputs: Path
    expected: Mapping[str, list[str] | None]


def prepared(folder: Path, rows: int, files: int) -> Data:
    """References in as many files, a model, rules; made once per folder, which is for one number of rows and files."""
    inputs, model, rules = folder / "in", folder / "refs.bridle", folder / "refs.rules"
    inputs.mkdir(parents=True, exist_ok=True)
    if not model.exists():
        scale_data.train(model)
    rules.write_text("\n".join(scale_data.RULES) + "\n", encoding="utf-8")
    answers = folder / "expected.parquet"
    if not answers.exists():
        table = pa.Table.from_batches(list(scale_data.rows(rows)))
        size = -(-rows // files)
        for k in range(files):
            pq.write_table(table.slice(k * size, size), inputs / f"part{k:04}.parquet")
        pq.write_table(Tag(model, bridle.rules.load(rules))(table).select(["id", "labels"]), answers)
    return Data(model, rules, inputs, labels_in(answers))


def labels_in(path: Path) -> dict[str, list[str] | None]:
    """The labels of rows by their ids."""
    table = pq.read_table(path, columns=["id", "labels"])
    return dict(zip(table["id"].to_pylist(), table["labels"].to_pylist(), strict=True))


# ---- processes ------------------------------------------------------------------------------------------------------


def _text(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:  # it is gone
        return ""


def marked(mark: str) -> list[int]:
    """The processes with this word in their environment, which they inherit."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if mark in _text(pid, "environ") and _fields(pid)[:1] != ["Z"]]


def _fields(pid: int) -> list[str]:
    """State, parent and so on, from /proc/PID/stat behind the name."""
    return _text(pid, "stat").rpartition(")")[2].split()


def processor_time(pid: int) -> int:
    """Ticks that a process has computed."""
    fields = _fields(pid)
    return int(fields[11]) + int(fields[12]) if len(fields) > 12 else 0


def parent(pid: int) -> int:
    """The process that started another one; 0 if that is gone."""
    return int((_fields(pid) or ["", "0"])[1])


def workers(mark: str) -> list[int]:
    """Python workers of Spark: children of its daemon, which looks like them."""
    daemons = {pid for pid in marked(mark) if "pyspark.daemon" in _text(pid, "cmdline")}
    return [pid for pid in daemons if parent(pid) in daemons]


def busy(pids: list[int], seconds: float = 0.1) -> list[int]:
    """Those which compute at this moment."""
    before = {pid: processor_time(pid) for pid in pids}
    time.sleep(seconds)
    return [pid for pid in pids if processor_time(pid) > before[pid]]


def at_work(kill: Kill, mark: str) -> list[int]:
    """Processes to kill, while a worker computes: such workers, their executors, or Python and Java of the driver."""
    computing = busy(workers(mark))
    if kill == "worker" or not computing:
        return computing
    if kill == "executor":  # it started the daemon, which started the worker
        return [parent(parent(pid)) for pid in computing]
    drivers = ("SparkSubmit", "-m bridle tag")
    return [pid for pid in marked(mark) if any(word in _text(pid, "cmdline") for word in drivers)]


def until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Wait for something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.05)
    raise TimeoutError(f"{what}: not within {seconds:.0f} s")


def end(mark: str) -> list[int]:
    """Kill what is left of a trial."""
    left = marked(mark)
    for pid in left:
        _kill(pid)
    return left


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


# ---- the trial ------------------------------------------------------------------------------------------------------


def home(folder: Path) -> Path:
    """A home of Spark whose logs and working files lie in `folder`, and not among the packages of Python."""
    import pyspark

    home = folder / "spark"
    home.mkdir(parents=True, exist_ok=True)
    for path in Path(pyspark.__file__).parent.iterdir():
        if not (home / path.name).exists() and path.name != "work":
            (home / path.name).symlink_to(path)
    return home


def environment(folder: Path, mark: str) -> dict[str, str]:
    """Of the command and so of its executors: this Bridle, this Python."""
    paths = [str(Path(bridle.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "BRIDLE_TRIAL": mark,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(home(folder)),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
    }


def start(
    data: Data, out: Path, folder: Path, log: Path, mark: str, *, files_per_trigger: int
) -> subprocess.Popen[bytes]:
    """Start the command."""
    settings = {**SETTINGS, "spark.log.level": "WARN", "maxFilesPerTrigger": str(files_per_trigger)}
    command = [sys.executable, "-m", "bridle", "tag", data.model, data.inputs, "-o", out, "--rules", data.rules]
    command += ["--on", CLUSTER]
    for name, value in settings.items():
        command += ["--on-option", f"{name}={value}"]
    with log.open("ab") as file:
        return subprocess.Popen(
            [str(word) for word in command],
            stdout=file,
            stderr=file,
            env=environment(folder, mark),
            start_new_session=True,
        )


def lost_tasks(log: Path) -> int:
    """Count the tasks that Spark has lost, according to its log: their worker or executor is gone."""
    return log.read_text(encoding="utf-8", errors="replace").count("Lost task ")


def committed(out: Path) -> int:
    """Count the complete batches."""
    return len([path for path in (out / "_checkpoint" / "commits").glob("*") if path.name.isdigit()])


def trial(
    folder: Path,
    rows: int = 100_000,
    kill: Kill = "worker",
    seed: int = 0,
    *,
    files: int = 40,
    files_per_trigger: int = 4,
    patience: float = PATIENCE,
) -> dict[str, Any]:
    """Tag references with two executors, kill a process at a random moment, and judge the result."""
    rng = random.Random(f"{kill}{seed}")
    data = prepared(folder, rows, files)
    out, mark = folder / f"out-{kill}-{seed}", f"bridle-{uuid.uuid4().hex}"
    shutil.rmtree(out, ignore_errors=True)  # of an earlier trial
    batches = -(-files // files_per_trigger)
    after, pause = rng.randrange(1, batches - 1), rng.uniform(0, 1)
    log = folder / f"{out.name}.log"

    def begin() -> subprocess.Popen[bytes]:
        return start(data, out, folder, log, mark, files_per_trigger=files_per_trigger)

    begun, killed, lost, restarts, alone, attempts = time.monotonic(), 0, 0, 0, None, 1
    process = begin()

    def reaches(batches: int) -> bool:
        return committed(out) >= batches or process.poll() is not None

    def victims_or_end() -> Any:
        return at_work(kill, mark) or process.poll() is not None

    try:
        until(lambda: reaches(after), f"{after} batches", patience)
        time.sleep(pause)
        while not lost:  # a process may have finished its task just before it is killed: then it was no trial
            victims = until(victims_or_end, "a busy worker", patience)
            if victims is True:  # the job was over: no trial
                if attempts == ATTEMPTS:
                    raise RuntimeError(f"the job was over before something at work was killed: {log}")
                shutil.rmtree(out)
                process, begun, attempts = begin(), time.monotonic(), attempts + 1
                until(lambda: reaches(1), "a batch", patience)
                continue
            for pid in victims if kill == "driver" else rng.sample(victims, 1):
                _kill(pid)
            at, done, killed = time.monotonic() - begun, committed(out), killed + 1
            if kill == "driver":
                break
            with suppress(TimeoutError):
                lost = until(lambda: lost_tasks(log), "a task is lost", 3)
        if kill == "driver":
            process.wait(patience)
            since = time.monotonic()
            until(lambda: not marked(mark), "the executors of a killed driver end", patience)
            alone = time.monotonic() - since
            process, restarts = begin(), 1
        code = process.wait(patience)
        seconds = time.monotonic() - begun
        until(lambda: not marked(mark), "all processes end", 60)
    finally:
        left = end(mark)
    found_rows = [pair for path in sorted(out.glob("part-*.parquet")) for pair in labels_of(path)]
    verdict = scale_data.judge(found_rows, data.expected)
    return {
        "engine": f"spark {CLUSTER}",
        "kill": kill,
        "seed": seed,
        "verdict": asdict(verdict),
        "ok": verdict.ok and code in (0, 1),
        "exit_code": code,
        "seconds": round(seconds, 1),
        "kills": killed,
        "lost_tasks": lost,
        "killed_after_seconds": round(at, 1),
        "killed_after_batches": done,
        "batches": batches,
        "restarts": restarts,
        "seconds_until_executors_ended": None if alone is None else round(alone, 1),
        "left_over": len(left),
    }


def labels_of(path: Path) -> list[tuple[str, list[str] | None]]:
    """The rows of a file as any reader sees them."""
    table = pq.read_table(path, columns=["id", "labels"])
    return list(zip(table["id"].to_pylist(), table["labels"].to_pylist(), strict=True))


# ---- what a Python worker costs -------------------------------------------------------------------------------------


def worker_cost(folder: Path, rows: int = 100_000) -> list[dict[str, float]]:
    """Processor seconds and megabytes of one Python worker: its first task, and a second one in the same process.

    The rate includes what the worker does to receive batches and to send them.
    """
    from pyspark.sql import SparkSession

    from bridle.integrations.spark import function, shipped

    data = prepared(folder, rows, files=1)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[1]").config(map={**SETTINGS, "spark.log.level": "ERROR"})
    spark = builder.getOrCreate()
    tagged = function(shipped(spark, data.model, "file"), bridle.rules.load(data.rules), {})

    def measured(batches: Any) -> Any:  # Spark pickles it by its code: it imports what it uses
        import json
        import time
        from pathlib import Path

        import pyarrow as pa

        def now(what: str) -> None:
            memory = int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6
            figures[f"{what}_seconds"], figures[f"{what}_mb"] = time.process_time(), memory

        figures: dict[str, float] = {}
        now("begin")
        first = next(batches)
        list(tagged(iter([first.slice(0, 1)])))
        now("loaded")
        tokens = sum(len(out.column("labels").flatten()) for some in (iter([first]), batches) for out in tagged(some))
        now("end")
        rate = tokens / (figures["end_seconds"] - figures["loaded_seconds"])
        yield pa.record_batch({"found": [json.dumps({**figures, "tokens_per_second": rate})]})

    try:
        rows_of = spark.read.parquet(str(data.inputs)).coalesce(1).mapInArrow(measured, "found string")
        return [json.loads(row.found) for _ in range(2) for row in rows_of.collect()]
    finally:
        spark.stop()


def main() -> int:
    """Run trials, one line of JSON each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--kill", nargs="+", default=["worker", "executor", "driver"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/out/scale_spark"))
    asked = parser.parse_args()
    for outcome in worker_cost(asked.folder.resolve() / "cost", asked.rows):
        print(json.dumps({name: round(value, 2) for name, value in outcome.items()}))
    outcomes = [trial(asked.folder.resolve(), asked.rows, kill, asked.seed) for kill in asked.kill]
    for outcome in outcomes:
        print(json.dumps(outcome))
    return 0 if all(outcome["ok"] for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
