"""Run commands in processes of their own, at the same time, and measure them: wall clock, processor, peak memory.

    apart(commands, cores)    what parents call: it starts this file as a script, and that starts the commands

This file imports only the standard library, and the script in between is small: Linux counts the memory of the parent,
at the moment of the fork, as the first peak of a child.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Command:
    """A command to run in a process."""

    words: tuple[str, ...]
    stdin: str = os.devnull


@dataclass(frozen=True)
class Run:
    """Commands that ran at the same time."""

    seconds: float  # from the start of the first to the end of the last
    cpu: float  # seconds of the processor, user and system, of all together
    peak: float  # MB resident, the most of any one


def apart(
    commands: Sequence[Command], cores: int, *, fine: Sequence[int] = (0,), env: Mapping[str, str] | None = None
) -> Run:
    """Run commands at the same time.

    Parameters
    ----------
    commands : list of Command
        What to run.
    cores : int
        Cores to use; 0: all. A single command has all of them; of several, each has one.
    fine : list of int, default (0,)
        Exit codes that do not count as failures; 1 of `bridle tag` means that some sequences were relaxed.
    env : mapping, optional
        Their environment.

    Returns
    -------
    Run
        What the operating system counted.

    Raises
    ------
    RuntimeError
        If one of them fails, with what it said.
    """
    job = json.dumps({"commands": [asdict(command) for command in commands], "cores": cores, "fine": list(fine)})
    done = subprocess.run([sys.executable, "-S", __file__, job], capture_output=True, text=True, env=env)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return Run(**json.loads(done.stdout))


def places(commands: int, cores: int, known: Sequence[int]) -> list[set[int]]:
    """The cores that each of so many commands may use, of those that are known; none: wherever it likes."""
    usable = sorted(known)[:cores]
    if commands == 1 or not usable:
        return [set(usable)] * commands
    return [{usable[k % len(usable)]} for k in range(commands)]


def _together(commands: list[dict[str, Any]], cores: int, fine: list[int]) -> Run:
    known = os.sched_getaffinity(0) if sys.platform == "linux" else set[int]()
    running = dict[int, tuple[list[str], Any]]()
    begun, cpu, peak = time.perf_counter(), 0.0, 0.0
    with ExitStack() as opened:
        for command, place in zip(commands, places(len(commands), cores, sorted(known)), strict=True):
            if place and sys.platform == "linux":
                os.sched_setaffinity(0, place)  # a child inherits it
            said = opened.enter_context(tempfile.TemporaryFile())
            with Path(command["stdin"]).open("rb") as stdin:
                process = subprocess.Popen(command["words"], stdin=stdin, stdout=subprocess.DEVNULL, stderr=said)
            running[process.pid] = command["words"], said
        while running:
            pid, status, used = os.wait4(-1, 0)
            words, said = running.pop(pid)
            if (code := os.waitstatus_to_exitcode(status)) not in fine:
                said.seek(0)
                sys.exit(f"{' '.join(words)} returned {code}:\n{said.read().decode(errors='replace')[-2000:]}")
            cpu += used.ru_utime + used.ru_stime
            peak = max(peak, used.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10))
    return Run(time.perf_counter() - begun, cpu, peak)


if __name__ == "__main__":
    print(json.dumps(asdict(_together(**json.loads(sys.argv[1])))))
