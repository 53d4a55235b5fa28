"""Work of the trials at scale in a process of its own: a job in JSON comes in, an answer in JSON goes to a file.

    library   `Tagger.decode` of lists of texts, in parts
    arrow     `bridle.arrow.Tag` of record batches
    worker    the same, batch after batch of a file, as a worker of Spark or Ray does
    threads   `bridle tag`, with the seconds of the processor that each of its Python threads takes
    start     import, load, first batch: seconds and memory of each
    call      a function of another script, such as its kill trial: `trial(folder, rows, ...)`

Reading the input is not part of the time of the first two.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

PART = 4096  # rows that are tagged at a time


def _batches(job: dict[str, Any]) -> Iterator[Any]:
    import pyarrow.parquet as pq

    names = ["id", *job["columns"]]
    return pq.ParquetFile(job["source"]).iter_batches(PART, columns=names)  # type: ignore[no-any-return]


def _timed(work: Callable[[Any], Any], parts: list[Any]) -> dict[str, float]:
    """Seconds of all parts; the first of them is done once more before, to warm up."""
    work(parts[0])
    begun, used = time.perf_counter(), time.process_time()
    for part in parts:
        work(part)
    return {"seconds": time.perf_counter() - begun, "cpu": time.process_time() - used}


def library(job: dict[str, Any]) -> dict[str, float]:
    """Lists in, decodings out."""
    import bridle

    tagger = bridle.load(job["model"])
    decoder = tagger.decoder(job["rules"], on_infeasible="relax")
    own = ["word", *job["columns"][1:]]
    parts = []
    for batch in _batches(job):
        columns = [batch.column(name).to_pylist() for name in job["columns"]]
        parts.append([dict(zip(own, texts, strict=True)) for texts in zip(*columns, strict=True)])
    return _timed(lambda part: tagger.decode(part, decoder, threads=job["threads"]), parts)


def arrow(job: dict[str, Any]) -> dict[str, float]:
    """Record batches in and out."""
    from bridle.arrow import Tag

    return _timed(Tag(job["model"], job["rules"], threads=job["threads"]), list(_batches(job)))


def worker(job: dict[str, Any]) -> dict[str, int]:
    """Batches of a file, one after the other."""
    from bridle.arrow import Tag

    tag = Tag(job["model"], job["rules"], threads=job["threads"])
    return {"rows": sum(tag(batch).num_rows for batch in _batches(job))}


def threads(job: dict[str, Any]) -> dict[str, float]:
    """Seconds of the processor by the name of the thread, for as long as it was seen; Linux only."""
    import runpy
    import threading

    seconds_of, over = dict[str, float](), threading.Event()

    def look() -> None:
        for thread in threading.enumerate():
            with suppress(OSError):  # it has ended
                took = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text("ascii").split()[0]
                seconds_of[thread.name] = int(took) / 1e9

    def watch() -> None:
        while not over.wait(0.02):
            look()

    watcher = threading.Thread(target=watch, name="watcher")
    watcher.start()
    sys.argv = ["bridle", *job["words"]]
    with suppress(SystemExit):  # so ends a command
        runpy.run_module("bridle", run_name="__main__")
    look()
    over.set()
    watcher.join()
    return {name: seconds for name, seconds in seconds_of.items() if name != "watcher"}


def start(job: dict[str, Any]) -> dict[str, Any]:
    """Measure the time and the memory of a worker, step by step, before its second batch."""
    steps = dict[str, dict[str, float]]()

    def step(name: str, work: Callable[[], Any]) -> Any:
        begun = time.perf_counter()
        value = work()
        steps[name] = {"seconds": time.perf_counter() - begun, "resident": resident()}
        return value

    step("python", lambda: None)
    step("import", lambda: [import_module(name) for name in ("pyarrow.parquet", "bridle.arrow")])
    first = next(_batches(job))
    step("input", lambda: None)
    tag = step("tag", lambda: import_module("bridle.arrow").Tag(job["model"], job["rules"], threads=1))
    step("load", lambda: tag(first.slice(0, 1)))
    step("batch", lambda: tag(first))
    return steps


def call(job: dict[str, Any]) -> dict[str, Any]:
    """A function of a module beside this file; nothing if the module does not have it."""
    work = getattr(import_module(job["module"]), job["function"], None)
    return dict(work(Path(job["folder"]), **job["options"])) if work else {}


def resident() -> float:
    """MB that the process has in memory now."""
    import resource

    if sys.platform != "linux":  # elsewhere: the most that there was
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize() / (1 << 20)


WORKS = {work.__name__: work for work in (library, arrow, worker, threads, start, call)}

if __name__ == "__main__":
    settings = json.loads(sys.argv[1])
    Path(settings["answer"]).write_text(json.dumps(WORKS[settings["work"]](settings)), encoding="utf-8")
