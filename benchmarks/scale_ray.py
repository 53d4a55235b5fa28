"""Kill Ray at work, let it go on, and compare with a single process; and measure what actors cost.

    python benchmarks/scale_ray.py --rows 100000            one trial of each kind
    python benchmarks/scale_ray.py --rows 20000 --measure   start-up, rate, memory

Each trial has a cluster of its own on this machine, in a process that can be killed: a driver with two actors. It kills
(SIGKILL) an actor while it tags, the worker of a task while it reads or writes, or the driver and its whole cluster at
once, at a random moment between the first written file and the last. It needs Linux (/proc) and Ray.
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
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

import scale_data
from bridle.arrow import Tag
from bridle.integrations import ray as on_ray

Kill = Literal["actor", "worker", "driver"]
ACTOR = "ray::MapWorker(MapBatches(BridleTag))"
TASKS = ("ray::Write", "ray::ReadFiles", "ray::Read")  # as `ps` shows them while they run
CPUS = 4  # logical ones: actors, filter, reads and writes; a machine may have fewer


# ---- one cluster, in processes of its own ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Session:
    """A driver that tags `source` to `out`, and its cluster."""

    source: Path
    out: Path
    model: Path
    temp: Path  # of this cluster alone; short, because names of sockets are
    driver: subprocess.Popen[bytes]

    @classmethod
    def start(cls, source: Path, out: Path, model: Path, block_bytes: int) -> Session:
        """Start the driver, which starts the cluster."""
        temp = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
        command = [sys.executable, __file__, "--drive", str(source), str(out), str(model), str(temp), str(block_bytes)]
        environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
        with (out.parent / f"{out.name}.log").open("a") as log:
            driver = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        return cls(source, out, model, temp, driver)

    def processes(self) -> dict[int, str]:
        """Return the processes of this session: ids and titles."""
        titles, parents = {}, {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                titles[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):  # it has just ended
                continue
        own = {pid for pid, title in titles.items() if str(self.temp) in title}
        while more := {pid for pid, parent in parents.items() if parent in own} - own:
            own |= more
        return {pid: titles[pid] for pid in own if titles.get(pid)}

    def written(self) -> int:
        """Files that are noted as done."""
        folder = Path(f"{self.out}.checkpoint") / "ids"
        return sum(".pending" not in path.name for path in folder.glob("*.parquet")) if folder.exists() else 0

    def wait(self, seconds: float) -> dict[str, Any]:
        """The summary that the driver leaves at its end."""
        code = self.driver.wait(seconds)
        assert code == 0, f"the driver ended with {code}: {self.out}.log"
        return dict(json.loads(Path(f"{self.out}.json").read_text()))

    def kill(self) -> None:
        """End everything at once, as if the machine had lost its power."""
        while running := self.processes():
            for pid in running:
                _kill(pid)
            time.sleep(0.05)
        self.driver.wait()

    def close(self) -> None:
        """Leave nothing behind."""
        self.kill()
        shutil.rmtree(self.temp, ignore_errors=True)


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def drive(source: str, out: str, model: str, temp: str, block_bytes: str) -> None:
    """Run the driver of a job, in a process of its own."""
    with cluster(temp):
        rows = int(block_bytes) // 4000 + 1  # several batches in a block
        finished = on_ray.run(source, out, model, scale_data.RULES, block_bytes=int(block_bytes), batch_size=rows)
        summary = {name: getattr(finished, name) for name in ("rows", "resumed", "status", "files", "checksum")}
        Path(f"{out}.json").write_text(json.dumps(summary))


class cluster:  # noqa: N801  (used like a function)
    """A cluster on this machine alone, for a while."""

    def __init__(self, temp: str) -> None:
        import ray

        self.ray = ray
        sizes = {"num_cpus": CPUS, "object_store_memory": 300 << 20}
        ray.init(address="local", include_dashboard=False, _temp_dir=temp, log_to_driver=False, **sizes)
        ray.data.DataContext.get_current().enable_progress_bars = False

    def __enter__(self) -> Any:
        return self.ray

    def __exit__(self, *_: object) -> None:
        self.ray.shutdown()


# ---- trials ---------------------------------------------------------------------------------------------------------


class TooLateError(Exception):
    """The job had finished before anything was killed."""


def trial(
    folder: Path, rows: int = 100_000, kill: Kill = "actor", seed: int = 0, *, block_bytes: int = 1 << 20
) -> dict[str, Any]:
    """Kill something while Ray tags, go on if needed, and compare every row with a single process.

    `folder` keeps the model, the rows and the labels of the single process for other trials. A job that had finished
    before anything was killed, as happens on a busy machine, is run again.
    """
    for _ in range(4):
        with suppress(TooLateError):
            return _trial(folder, rows, kill, seed, block_bytes)
    return _trial(folder, rows, kill, seed, block_bytes)


def _trial(folder: Path, rows: int, kill: Kill, seed: int, block_bytes: int) -> dict[str, Any]:
    model, source, expected = prepared(folder, rows)
    rng = random.Random(f"{kill} {seed}")
    out = Path(tempfile.mkdtemp(prefix=f"{kill}-{seed}-", dir=folder)) / "out"
    begin, restarts = time.perf_counter(), 0
    session = Session.start(source, out, model, block_bytes)
    try:
        first = 1 + rng.randrange(max(1, rows * 620 // block_bytes // 2))  # of the files; about 620 bytes a row
        _until(lambda: session.written() >= first, session)
        time.sleep(rng.random())
        hit = _strike(session, kill, rng)
        hit |= {"seconds_in": round(time.perf_counter() - begin, 1), "files_done": session.written()}
        if kill == "driver":
            hit["pending"] = len(list(Path(f"{out}.checkpoint/ids").glob("*.pending.parquet")))
            session.close()
            session = Session.start(source, out, model, block_bytes)
            restarts = 1
        summary = session.wait(3600)
    finally:
        session.close()
    verdict = scale_data.judge(_labels(sorted(out.glob("*.parquet"))), expected)
    hit["files"] = summary["files"]
    if hit["files_done"] == summary["files"]:
        raise TooLateError
    shutil.rmtree(out.parent)
    facts = {"kill": kill, "seed": seed, "restarts": restarts, "killed": hit, "summary": summary}
    return {**facts, "verdict": {**asdict(verdict), "ok": verdict.ok}, "seconds": time.perf_counter() - begin}


def _strike(session: Session, kill: Kill, rng: random.Random) -> dict[str, Any]:
    """Kill a process of this kind while it works."""
    if kill == "driver":
        if rng.random() < 0.5:  # while a file is being written
            _at_work(session, TASKS[:1])
        pid = session.driver.pid
        title = f"driver and {len(session.processes())} processes of its cluster"
        session.kill()
        return {"pid": pid, "title": title}
    while True:
        pid, title = _at_work(session, (f"{ACTOR}.",) if kill == "actor" else TASKS)
        if _kill(pid):
            return {"pid": pid, "title": title}


def _at_work(session: Session, titles: tuple[str, ...]) -> tuple[int, str]:
    """A process whose title begins like this: workers carry the name of a task while they run it."""
    victims: list[tuple[int, str]] = []

    def look() -> bool:
        victims.extend((pid, title) for pid, title in session.processes().items() if title.startswith(titles))
        return bool(victims)

    _until(look, session, pause=0.001)
    return victims[0]


def _until(true: Callable[[], bool], session: Session, *, pause: float = 0.05) -> None:
    while not true():
        if (code := session.driver.poll()) is not None:
            assert code == 0, f"the driver failed before it was struck: {session.out}.log"
            raise TooLateError
        time.sleep(pause)


def prepared(folder: Path, rows: int) -> tuple[Path, Path, dict[str, list[str] | None]]:
    """A model, a file of rows, and the labels that a single process gives them."""
    folder.mkdir(parents=True, exist_ok=True)
    model, source, labels = folder / "refs.bridle", folder / f"rows-{rows}.parquet", folder / f"labels-{rows}.parquet"
    if not model.exists():
        scale_data.train(model)
    if not source.exists():
        scale_data.write_rows(source, rows)
    if not labels.exists():
        tag = Tag(model, scale_data.RULES, keep=["id"])
        pq.write_table(pa.Table.from_batches([tag(batch) for batch in pq.ParquetFile(source).iter_batches()]), labels)
    return model, source, dict(_labels([labels]))


def _labels(files: list[Path]) -> Iterator[tuple[str, list[str] | None]]:
    for file in files:
        table = pq.read_table(file, columns=["id", "labels"])
        yield from zip(table["id"].to_pylist(), table["labels"].to_pylist(), strict=True)


# ---- what it costs --------------------------------------------------------------------------------------------------


def measure(folder: Path, rows: int) -> dict[str, float]:
    """Seconds until an actor has tagged its first row, tokens/s of a plain process and of 1 and 2 actors, memory."""
    model, source, _ = prepared(folder, rows)
    table = pq.read_table(source)
    tokens = pa.compute.sum(pa.compute.list_value_length(table["tokens"])).as_py()
    tag = Tag(model, scale_data.RULES)
    tag(table.slice(0, 1))
    figures = {"plain_tokens_per_s": tokens / _seconds(lambda: [tag(table.slice(k, 500)) for k in range(0, rows, 500)])}
    temp = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    try:
        with cluster(temp) as ray:
            actor = ray.remote(num_cpus=1)(_Probe)
            figures["bare_actor_s"] = _seconds(lambda: ray.get(actor.remote(None).memory.remote()))
            begin = time.perf_counter()
            probe = actor.remote(ray.put(tag))
            ray.get(probe.tag.remote(table.slice(0, 1)))
            figures["actor_s"] = time.perf_counter() - begin
            ray.get(probe.tag.remote(table.slice(0, 2000)))
            figures["actor_mb"] = ray.get(probe.memory.remote()) / 2**20
            del probe
            for actors in (1, 2):
                data = ray.data.read_parquet(str(source))
                tagged = on_ray.tag(data, model, scale_data.RULES, actors=actors, batch_size=500, block_bytes=1 << 20)
                figures[f"job_{actors}_actors_s"] = _seconds(tagged.materialize)
                figures[f"{actors}_actors_tokens_per_s"] = tokens / figures[f"job_{actors}_actors_s"]
    finally:
        shutil.rmtree(temp, ignore_errors=True)
    return figures


class _Probe:
    """An actor that tags, or does nothing, and knows its memory."""

    def __init__(self, tag: Any) -> None:
        self.function = tag

    def tag(self, table: pa.Table) -> int:
        return len(self.function(table))

    def memory(self) -> int:
        """Bytes that no other process shares."""
        text = Path("/proc/self/smaps_rollup").read_text()
        return sum(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Private"))


def _seconds(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main() -> None:
    """Print one line of JSON for each trial, or for the measures."""
    if sys.argv[1:2] == ["--drive"]:
        drive(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "bridle-scale-ray")
    parser.add_argument("--kill", choices=["actor", "worker", "driver"], action="append")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--block-bytes", type=int, default=1 << 20)
    parser.add_argument("--measure", action="store_true", help="measure, and kill nothing")
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(measure(chosen.folder, chosen.rows)))
        return
    for kill in chosen.kill or ["actor", "worker", "driver"]:
        print(json.dumps(trial(chosen.folder, chosen.rows, kill, chosen.seed, block_bytes=chosen.block_bytes)))


if __name__ == "__main__":
    main()
