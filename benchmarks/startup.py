"""Start-up time of the command line: importing it, `bridle --help`, a command; and what the time goes into.

    python benchmarks/startup.py [--runs 15]

Each command runs in a process of its own, in turn with `python -c pass`, whose time is subtracted. Processor time is
measured, and the least of all runs counts: other work on the machine should not. The modules are those that
`python -X importtime` finds slowest, their own imports not counted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import bridle
from bridle.processor import simd

NOTHING = ["-c", "pass"]
COMMANDS = {
    "import bridle.cli": ["-c", "import bridle.cli"],
    "import bridle": ["-c", "import bridle"],
    "import bridle; bridle.Decoder": ["-c", "import bridle; bridle.Decoder"],
    "bridle --help": ["-m", "bridle", "--help"],
    "bridle tag --help": ["-m", "bridle", "tag", "--help"],
    "bridle tag, two lines of stdin": ["-m", "bridle", "tag", "m.bridle"],
}
LIMITS = {"import bridle.cli": 150, "bridle tag, two lines of stdin": 500}  # milliseconds
SENTENCES = "the D\ncat N\nsat V\n\na D\ndog N\nran V\noff P\n\n" * 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a command takes longer than it should."""
    parser = argparse.ArgumentParser(description="Measure how long the command line takes to start.")
    parser.add_argument("--runs", type=int, default=15, help="runs of each command (default: 15)")
    runs = parser.parse_args(arguments).runs
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "train.txt").write_text(SENTENCES)
        _python("-m", "bridle", "train", "train.txt", "-o", "m.bridle", "--columns", "word,label", cwd=folder)
        least = {name: min(times) for name, times in _measured(runs, folder).items()}
    print(f"{simd().processor}, Python {sys.version.split()[0]}: the least of {runs} runs, without Python's own start")
    for name in COMMANDS:
        print(f"{name:32} {1000 * (least[name] - least['']):6.0f} ms")
    print("slowest modules of `import bridle.cli`:")
    for micros, name in _slowest()[:8]:
        print(f"  {name:30} {micros / 1000:6.1f} ms")
    return int(any(1000 * (least[name] - least[""]) > limit for name, limit in LIMITS.items()))


def _measured(runs: int, folder: str) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in ("", *COMMANDS)}
    for _ in range(runs):
        for name in times:
            begun = _used()
            _python(*(COMMANDS[name] if name else NOTHING), cwd=folder)
            times[name].append(_used() - begun)
    return times


def _used() -> float:
    """Seconds that processes started here have spent on processors."""
    used = os.times()
    return used.children_user + used.children_system


def _slowest() -> list[tuple[int, str]]:
    """Microseconds of each module, its own imports not counted."""
    modules = []
    for line in _python("-X", "importtime", *COMMANDS["import bridle.cli"]).stderr.splitlines():
        own, _, rest = line.removeprefix("import time:").partition("|")
        if own.strip().isdigit():
            modules.append((int(own), rest.partition("|")[2].strip()))
    return sorted(modules, reverse=True)


def _python(*words: str, cwd: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python as an installed package would be run: compiled files are kept."""
    env = {**os.environ, "PYTHONPATH": str(Path(bridle.__file__).parents[1])}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, *words]
    return subprocess.run(command, env=env, cwd=cwd, input="the\ndog\n", capture_output=True, text=True, check=True)


if __name__ == "__main__":
    sys.exit(main())
