"""Hostile and damaged files of every format that Bridle reads: `make fuzz`, or

    python tests/fuzz.py [--files 50000] [--jobs 2] [--seed 0] [--only FORMAT,FORMAT]

Each file is a small one that Bridle itself wrote, changed by chance. It is read to its end in a process that may grow
by 1 GB and has 10 seconds of processor time per file (or a minute, if others use the machine). It must be accepted, or
refused with a `BridleError`. A process that dies, hangs or grows too much, and any other error, is a finding: it is
printed, its file is kept in build/fuzz, and the exit code is 1. To see one again:
`python tests/fuzz.py --only FORMAT --seed N --files 1`, or read the file that was kept:
`python tests/fuzz.py --replay FILE ...` (their names begin with FORMAT--).
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

KEPT = Path(__file__).parents[1] / "build" / "fuzz"
GROWTH = 1 << 30  # bytes
SECONDS = 10.0  # of processor time for one file
WAIT = 60.0  # seconds until it is over, whatever the processor did
EVERY = 2000  # files after which a worker starts anew
ACCEPTED, REFUSED = "accepted", "refused"


# ---- a worker: reads files, and may die of it -----------------------------------------------------------------------


def content(name: str, seed: int) -> bytes:
    """The file of a format and a seed."""
    from fuzz_changes import changed
    from fuzz_doors import doors, seeds

    return changed(Random(f"{name}:{seed}"), doors()[name].kind, seeds(name))


def status(key: str) -> int:
    """A line of what Linux knows of this process, in bytes."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(text.split(key + ":")[1].split()[0]) * 1024


def verdict(name: str, path: str) -> str:
    """Read a file: accepted, refused, or what is wrong."""
    from bridle import BridleError
    from fuzz_doors import doors

    try:
        doors()[name].read(path)
        return ACCEPTED
    except BridleError as error:
        link: BaseException | None = error
        while link is not None:
            if isinstance(link, MemoryError):
                return f"asked for more than 1 GB: {error}"
            link = link.__context__
        text = str(error)
        return REFUSED if len(text) < 20_000 else f"a message of {len(text):,} characters"
    except MemoryError:
        return "more than 1 GB\n" + traceback.format_exc()
    except Exception:
        return "untyped error\n" + traceback.format_exc()


def work() -> None:
    """Read lines `FORMAT SEED` or `FORMAT PATH`; write what came of each, as JSON."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # by which the parent asks where it hangs
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    warnings.simplefilter("ignore")
    from fuzz_doors import doors, seeds

    with tempfile.TemporaryDirectory() as folder:
        for name, door in doors().items():  # libraries, thread pools and caches are there before memory is measured
            path = Path(folder, f"warm{door.suffix}")
            path.write_bytes(seeds(name)[0])
            verdict(name, str(path))
        limit = status("VmSize") + GROWTH
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        print("ready", flush=True)
        for line in sys.stdin:
            name, what = line.rstrip("\n").split(" ", 1)
            path = Path(what)
            if what.isdecimal():
                path = Path(folder, f"file{doors()[name].suffix}")
                path.write_bytes(content(name, int(what)))
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
            before, begun = status("VmRSS"), time.monotonic()
            result = verdict(name, str(path))
            grown = status("VmHWM") - before
            if grown > GROWTH:
                result = f"grew by {grown:,} bytes ({result})"
            print(json.dumps([result, grown, time.monotonic() - begun]), flush=True)


# ---- the parent -----------------------------------------------------------------------------------------------------


@dataclass
class Worker:
    """A process that reads files, and the file that it is at."""

    log: Path
    process: Any = None
    task: tuple[str, str] | None = None
    since: float = 0.0
    busy: float = 0.0  # seconds of processor time until then
    done: int = 0
    rest: bytes = b""

    def start(self) -> None:
        """A new process."""
        self.stop()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, __file__, "--worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        self.done, self.rest, self.task = 0, b"", None
        if self.process.stdout.readline() != b"ready\n":
            raise SystemExit(f"a worker does not start:\n{self.log.read_text(errors='replace')}")

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None

    def give(self, task: tuple[str, str]) -> None:
        """The next file."""
        if self.process is None or self.done >= EVERY:
            self.start()
        self.task, self.since, self.busy, self.done = task, time.monotonic(), self.processor(), self.done + 1
        self.process.stdin.write(" ".join(task).encode() + b"\n")
        self.process.stdin.flush()

    def result(self) -> list[Any] | None:
        """Return the outcome of the file, if it is known."""
        ready, _, _ = select.select([self.process.stdout], [], [], 0)
        if ready:
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                code = self.process.wait()
                output = self.log.read_text(errors="replace")[-3000:]
                self.stop()
                return [f"died with exit code {code}\n{output}", 0, time.monotonic() - self.since]
            self.rest += data
            if self.rest.endswith(b"\n"):
                line, self.rest = self.rest, b""
                document: list[Any] = json.loads(line)
                return document
        waited = time.monotonic() - self.since
        if waited > WAIT or (waited > SECONDS and self.processor() - self.busy > SECONDS):
            self.process.send_signal(signal.SIGUSR1)
            time.sleep(0.2)
            output = self.log.read_text(errors="replace")[-3000:]
            self.stop()
            return [f"took longer than {SECONDS:g} s\n{output}", 0, waited]
        return None

    def processor(self) -> float:
        """Seconds of processor time that the process has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass
class Tally:
    """Outcomes of all files."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    largest: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, float] = field(default_factory=dict)
    findings: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, task: tuple[str, str], result: str, grown: int, seconds: float) -> None:
        """One more file."""
        name, what = task
        self.counts[name, result if result in (ACCEPTED, REFUSED) else "findings"] += 1
        self.largest[name] = max(self.largest[name], grown)
        self.slowest[name] = max(self.slowest.get(name, 0.0), seconds)
        if result not in (ACCEPTED, REFUSED):
            self.findings.append((name, what, result))

    def table(self) -> str:
        """By format."""
        head = f"{'format':12} {'files':>8} {'accepted':>9} {'refused':>8} {'findings':>8} {'most MB':>8} {'most s':>7}"
        lines, names = [head], sorted(self.slowest)
        for name in names:
            a, r, f = (self.counts[name, key] for key in (ACCEPTED, REFUSED, "findings"))
            most = f"{self.largest[name] / 1e6:8.0f} {self.slowest[name]:7.2f}"
            lines.append(f"{name:12} {a + r + f:8,} {a:9,} {r:8,} {f:8,} {most}")
        a, r, f = (sum(self.counts[name, key] for name in names) for key in (ACCEPTED, REFUSED, "findings"))
        most = f"{max(self.largest.values(), default=0) / 1e6:8.0f} {max(self.slowest.values(), default=0.0):7.2f}"
        return "\n".join([*lines, f"{'all':12} {a + r + f:8,} {a:9,} {r:8,} {f:8,} {most}"])


def run(tasks: list[tuple[str, str]], jobs: int, *, show: bool = True) -> Tally:
    """Read all files."""
    tally, todo, begun = Tally(), iter(tasks), time.monotonic()
    shown = begun
    with tempfile.TemporaryDirectory() as folder:
        workers = [Worker(Path(folder, f"{k}.log")) for k in range(max(min(jobs, len(tasks)), 1))]
        busy = [worker for worker in workers if _next(worker, todo)]
        try:
            while busy:
                select.select([w.process.stdout for w in busy if w.process], [], [], 0.5)
                for worker in list(busy):
                    if (result := worker.result()) is None:
                        continue
                    task = worker.task
                    assert task is not None
                    tally.add(task, *result)
                    if result[0] not in (ACCEPTED, REFUSED) and show:
                        _report(task, result[0])
                    if not _next(worker, todo):
                        busy.remove(worker)
                if show and time.monotonic() - shown > 5:
                    shown, done = time.monotonic(), sum(tally.counts.values())
                    rate = done / (shown - begun)
                    text = f"{done:,} of {len(tasks):,} files, {rate:,.0f} a second, {len(tally.findings)} findings"
                    print(text, file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
        finally:
            for worker in workers:
                worker.stop()
    if show:
        seconds = time.monotonic() - begun
        print(tally.table())
        done = sum(tally.counts.values())
        print(f"{done:,} files in {seconds:.0f} s, {done / seconds:,.0f} a second, {len(tally.findings)} findings")
    return tally


def _next(worker: Worker, todo: Any) -> bool:
    task = next(todo, None)
    if task is not None:
        worker.give(task)
    return task is not None


def _report(task: tuple[str, str], result: str) -> None:
    name, what = task
    print(f"{name} {what}: {result}", flush=True)
    if what.isdecimal():
        from fuzz_doors import doors

        KEPT.mkdir(parents=True, exist_ok=True)
        path = KEPT / f"{name}--{what}{doors()[name].suffix}"
        path.write_bytes(content(name, int(what)))
        print(f"  kept as {path}; again: python tests/fuzz.py --only {name} --seed {what} --files 1", flush=True)


def tasks_of(names: list[str], files: int, seed: int) -> list[tuple[str, str]]:
    """So many files, of all formats in turn."""
    return [(names[k % len(names)], str(seed + k // len(names))) for k in range(files)]


def main() -> int:
    parser = argparse.ArgumentParser(description="Hostile and damaged files of every format that Bridle reads.")
    parser.add_argument("--files", type=int, default=50_000, metavar="N", help="how many (default: 50,000)")
    parser.add_argument("--jobs", type=int, default=0, metavar="J", help="processes (default: one per core)")
    parser.add_argument("--seed", type=int, default=0, metavar="SEED", help="the first seed (default: 0)")
    parser.add_argument("--only", metavar="FORMAT,...", help="only these formats")
    parser.add_argument("--replay", nargs="+", metavar="FILE", help="read these files, whose names begin with FORMAT--")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        work()
        return 0
    from fuzz_doors import doors

    names = chosen.only.split(",") if chosen.only else list(doors())
    if unknown := sorted(set(names) - set(doors())):
        parser.error(f"no such format: {', '.join(unknown)}; there are {', '.join(doors())}")
    tasks = tasks_of(names, chosen.files, chosen.seed)
    if chosen.replay:
        tasks = [(Path(path).name.split("--")[0], str(Path(path).resolve())) for path in chosen.replay]
    tally = run(tasks, chosen.jobs or os.cpu_count() or 1)
    return 1 if tally.findings or sum(tally.counts.values()) < len(tasks) else 0


if __name__ == "__main__":
    sys.exit(main())
