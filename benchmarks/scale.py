"""The trials at scale: kill runs at work and count the rows, and measure rates, memory and start-up.

    python benchmarks/scale.py [--only files,spark,ray,rate,memory,startup] [--again] [--quick] [--rows N] [--data DIR]

It writes docs/results/scale.md, .json and .svg, and the figures of docs/scale.md. Finished sections are kept in the
JSON file: if you stop the run and start it again, it goes on with the rest; `--again` repeats what `--only` names.
`--quick` takes some minutes, writes rough figures to benchmarks/out/scale-quick, and leaves the documentation alone.
Everything runs on generated references; with `--data` (or $BRIDLE_DATA), rates are also measured on CoNLL-2000.

Spark needs pyspark and Java 17, Ray needs ray; `--python` names an interpreter that has them. By default this is the
one that runs the script, or that of `make test-distributed`. A section whose packages are missing is left out, and the
script says so. The exit code is 1 if a row was lost, doubled or wrong, and 2 if a section could not run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__" and platform.machine() in ("x86_64", "AMD64"):
    os.environ.setdefault("BRIDLE_SIMD", "avx2")  # what most machines have; before Bridle is loaded

import scale_memory
import scale_page
import scale_plot
import scale_trials
from bridle.atomic import write_text
from measure import where
from scale_costs import costs_of
from scale_inputs import Chunks, Inputs, References
from scale_rate import baseline_cases, cases, limits, rates

ROOT = Path(__file__).parents[1]
OUT = Path(__file__).parent / "out"
BASELINE = Path(__file__).parent / "baselines" / "tag.json"
COMMAND = "python benchmarks/scale.py"
TRIALS = ("files", *scale_trials.VICTIMS)


@dataclass(frozen=True)
class Settings:
    """Options of the command."""

    rows: int
    kills: int
    seed: int
    quick: bool
    python: str  # for Spark and Ray
    corpora: Path | None
    work: Path  # folder for what is made on the way
    tell: Callable[[str], None] = field(default=print, compare=False)

    def key(self, name: str) -> dict[str, Any]:
        """Return the values that a stored section must have to count as finished."""
        sizes = {"rows": self.rows, "seed": self.seed} if name in TRIALS else {"corpora": self.corpora is not None}
        return {"quick": self.quick, **sizes, **({"kills": self.kills} if name == "files" else {})}

    def python_of(self, name: str) -> str:
        """The interpreter of a section."""
        return self.python if name in scale_trials.VICTIMS else sys.executable

    def inputs(self) -> list[Inputs]:
        """Return the inputs to tag, each with its model."""
        self.work.mkdir(parents=True, exist_ok=True)
        inputs: list[Inputs] = [References.at(self.work)]
        return [*inputs, Chunks.at(self.work, self.corpora)] if self.corpora else inputs


# ---- sections -------------------------------------------------------------------------------------------------------


def files(chosen: Settings) -> dict[str, Any]:
    """`bridle tag --resume` with kill -9 at random moments, and with other trouble."""
    return scale_trials.files(chosen.work / "files", chosen.rows, chosen.kills, chosen.seed, chosen.tell)


def cluster(chosen: Settings, name: str) -> dict[str, Any]:
    """Spark or Ray, parts of which are killed."""
    return scale_trials.cluster(name, chosen.python, chosen.work / name, chosen.rows, chosen.seed, chosen.tell)


def rate(chosen: Settings) -> dict[str, Any]:
    """Tokens per second of all ways."""
    rows, rounds = (500, 1) if chosen.quick else (40_000, 2)
    measured = []
    for inputs in chosen.inputs():
        measured += rates(inputs, cases(inputs), rows, rounds, chosen.tell)
    threads = limits(chosen.inputs()[0], rows, rounds) if sys.platform == "linux" else {}
    before = {"baseline": json.loads(BASELINE.read_text("utf-8"))} if BASELINE.exists() else {}
    return {"rates": measured, "limits": threads, **before}


def memory(chosen: Settings) -> dict[str, Any]:
    """Peak memory by the length of the input, and of processes with models."""
    inputs = chosen.inputs()
    peaks = scale_memory.memory(inputs[0], 10_000 if chosen.quick else 1_000_000, chosen.tell)
    return {"peaks": peaks, "models": scale_memory.models(inputs, chosen.quick)}


def startup(chosen: Settings) -> dict[str, Any]:
    """Seconds until a process is of use."""
    chosen.tell("startup: a worker by its steps, and the command")
    return scale_memory.startup(chosen.inputs()[0], 1 if chosen.quick else 5)


SECTIONS: dict[str, Callable[[Settings], dict[str, Any]]] = {
    "files": files,
    "spark": partial(cluster, name="spark"),
    "ray": partial(cluster, name="ray"),
    "rate": rate,
    "memory": memory,
    "startup": startup,
}


# ---- what is kept ---------------------------------------------------------------------------------------------------


@dataclass
class Results:
    """The figures of finished sections, in a JSON file."""

    path: Path
    sections: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def at(cls, path: Path) -> Results:
        """Those of a file, if it is there."""
        return cls(path, json.loads(path.read_text("utf-8"))["sections"] if path.exists() else {})

    def has(self, name: str, key: dict[str, Any]) -> bool:
        """Was a section measured with these settings?"""
        return name in self.sections and self.sections[name]["key"] == key

    def keep(self, name: str, section: dict[str, Any]) -> None:
        """Add a section, or replace it, and write everything."""
        self.sections[name] = section
        self.sections = {known: self.sections[known] for known in SECTIONS if known in self.sections}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_text(self.path, json.dumps({"command": COMMAND, "sections": self.sections}, indent=1) + "\n")
        write_text(self.path.with_suffix(".md"), scale_page.page(self.sections, COMMAND))
        if costs := costs_of(self.sections):
            write_text(self.path.with_suffix(".svg"), scale_plot.svg(costs))

    def wrong(self) -> list[str]:
        """Trials in which a row was lost, doubled, wrong or unknown."""
        trials = [trial for section in self.sections.values() for trial in section.get("trials", ())]
        bad = ("lost", "doubled", "wrong", "unknown")
        return [trial["trial"] for trial in trials if any(trial[name] for name in bad) or trial.get("ok") is False]


def measure(chosen: Settings, results: Results, only: list[str], again: bool) -> list[str]:
    """Run the sections that are not finished; those that could not run."""
    failed = []
    for name in only:
        if not again and results.has(name, chosen.key(name)):
            chosen.tell(f"{name}: finished before; --again repeats it")
            continue
        begun, place = time.perf_counter(), where()
        try:
            section = SECTIONS[name](chosen)
        except (scale_trials.MissingError, RuntimeError) as error:
            chosen.tell(f"{name}: left out. {error}")
            failed.append(name)
            continue
        seconds = round(time.perf_counter() - begun)
        place["versions"] = scale_trials.versions(chosen.python_of(name), name)
        results.keep(name, {"key": chosen.key(name), "where": place, "took": seconds, **section})
        chosen.tell(f"{name}: {seconds} s")
    return failed


def write_baseline(chosen: Settings, path: Path) -> None:
    """Rates of `bridle tag` by stdin as it is now, for later comparisons."""
    rows, rounds = (500, 1) if chosen.quick else (30_000, 5)
    inputs = chosen.inputs()[0]
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    measured = list(rates(inputs, baseline_cases(inputs), rows, rounds, chosen.tell))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps({"commit": commit, "rows": rows, "where": where(), "rates": measured}, indent=1) + "\n")


def distributed_python() -> str:
    """The interpreter of `make test-distributed` if it was made, else this one."""
    python = ROOT / ".venv" / "distributed" / "bin" / "python"
    return str(python) if python.exists() else sys.executable


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, separated by commas (default: all)")
    parser.add_argument("--again", action="store_true", help="repeat sections that are finished")
    parser.add_argument("--quick", action="store_true", help="small sizes and rough figures, outside of docs")
    parser.add_argument("--rows", type=int, help="references of each kill trial (default: 100,000; --quick: 2,000)")
    parser.add_argument("--kills", type=int, help="kills of `bridle tag` (default: 50; --quick: 3)")
    parser.add_argument("--seed", type=int, default=18, help="seed of the moments of the kills (default: 18)")
    parser.add_argument("--data", type=Path, default=os.environ.get("BRIDLE_DATA"), metavar="DIR")
    parser.add_argument("--python", default=distributed_python(), help="interpreter that has pyspark and ray")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the results (default: docs/results)")
    parser.add_argument(
        "--baseline", type=Path, metavar="FILE", help="only measure `bridle tag` by stdin, and write FILE"
    )
    given = parser.parse_args()
    only = given.only.split(",")
    if unknown := sorted(set(only) - set(SECTIONS)):
        parser.error(f"unknown sections: {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    work = OUT / ("scale-quick" if given.quick else "scale")
    chosen = Settings(
        rows=given.rows or (2_000 if given.quick else 100_000),
        kills=given.kills or (3 if given.quick else 50),
        seed=given.seed,
        quick=given.quick,
        python=given.python,
        corpora=given.data,
        work=work,
        tell=lambda text: print(text, file=sys.stderr, flush=True),
    )
    if given.baseline:
        write_baseline(chosen, given.baseline)
        return 0
    results = Results.at((given.out or (work if given.quick else ROOT / "docs" / "results")) / "scale.json")
    failed = measure(chosen, results, only, given.again)
    print(scale_page.page(results.sections, COMMAND))
    if results.path.parent == ROOT / "docs" / "results":
        subprocess.run([sys.executable, str(ROOT / "docs" / "generate.py")], check=True)  # figures of docs/scale.md
    for name in (wrong := results.wrong()):
        print(f"WRONG  {name}", file=sys.stderr)
    return 1 if wrong else 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
