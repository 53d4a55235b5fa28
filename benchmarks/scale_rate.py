"""Tokens per second: the library, `bridle.arrow.Tag`, `bridle tag` on files.

    one core         a process with one thread, on one core
    two processes    two of these, each on a core and a file of its own
    two threads      one process with two threads, on two cores

What files cost is the difference of a long run and a short one, so that the start of the process is not in it. A child
with rows in memory measures its own time. All ways take turns, and the best of the rounds counts: other work on the
machine should not.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import bridle
from scale_apart import Command, Run, apart
from scale_costs import FORMATS, OLD, USES, Use
from scale_inputs import Inputs

INSIDE = ("library", "arrow")  # ways that a child measures by itself
CHILD = Path(__file__).with_name("scale_child.py")
LONGER = 1.2  # times the seconds of a short run that a long one must take
SHARE = 10  # a long run has so many times the rows of a short one


@dataclass(frozen=True)
class Case:
    """One way to tag the rows of one input."""

    way: str  # library, arrow, or a format of files, by a pipe if OLD follows
    use: Use
    rules: bool
    name: str = "references"  # of the inputs

    @property
    def processes(self) -> int:
        return 2 if self.use == "two processes" else 1

    @property
    def threads(self) -> int:
        return 2 if self.use == "two threads" else 1

    @property
    def cores(self) -> int:
        return 1 if self.use == "one core" else 2


def cases(inputs: Inputs) -> list[Case]:
    """All that is measured of one input."""
    ways = [*INSIDE, *FORMATS]
    return [Case(way, use, rules, inputs.name) for way in ways for use in USES for rules in (False, True)]


def baseline_cases(inputs: Inputs) -> list[Case]:
    """Return the cases that are measured for later comparisons."""
    return [Case(f"{format} {OLD}", "two threads", False, inputs.name) for format in FORMATS]


def environment() -> dict[str, str]:
    """The environment of a child: this Bridle, one thread of NumPy."""
    alone = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    return {**os.environ, "PYTHONPATH": str(Path(bridle.__file__).parents[1]), **alone}


def tag_command(inputs: Inputs, case: Case, rows: int, copy: int) -> Command:
    """`bridle tag` from a file of rows to a folder of shards; from a pipe, to a file."""
    format, _, piped = case.way.partition(" ")
    source, out = inputs.file(format, rows), inputs.folder / f"out-{copy}"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    words = ["-", "--format", format, "-o", out / f"tagged.{format}"] if piped else [source, "-o", f"{out / 'tagged'}/"]
    words += ["--columns", "word,pos,chunk"] if format == "conll" and "pos" in inputs.columns else []
    words += ["--threads", case.threads, "--no-progress", *(["--rules", inputs.rules] if case.rules else [])]
    tag = [sys.executable, "-m", "bridle", "tag", inputs.model, *words]
    return Command(tuple(map(str, tag)), str(source) if piped else os.devnull)


def child_command(inputs: Inputs, case: Case, rows: int, copy: int) -> Command:
    """A child that tags rows in memory; its answer is in a file."""
    job = {
        "work": case.way,
        "model": str(inputs.model),
        "rules": inputs.sentences if case.rules else [],
        "source": str(inputs.file("parquet", rows)),
        "columns": inputs.columns,
        "threads": case.threads,
        "answer": str(inputs.folder / f"answer-{copy}.json"),
    }
    return Command((sys.executable, str(CHILD), json.dumps(job)))


def run(inputs: Inputs, case: Case, rows: int) -> Run:
    """Tag so many rows in each process. A child reports its own measurements."""
    make = child_command if case.way in INSIDE else tag_command
    commands = [make(inputs, case, rows, copy) for copy in range(case.processes)]
    whole = apart(commands, case.cores, fine=(0, 1), env=environment())
    if case.way not in INSIDE:
        return whole
    answers = [json.loads((inputs.folder / f"answer-{k}.json").read_text("utf-8")) for k in range(case.processes)]
    return Run(max(figures["seconds"] for figures in answers), sum(figures["cpu"] for figures in answers), whole.peak)


def best(runs: Iterable[Run]) -> Run:
    """The least of each figure."""
    some = list(runs)
    return Run(*(min(getattr(run, name) for run in some) for name in ("seconds", "cpu", "peak")))


def slope(tokens: tuple[int, int], values: tuple[float, float]) -> float | None:
    """Tokens per unit, from a short and a long run; None if these are too alike to say."""
    return (tokens[1] - tokens[0]) / (values[1] - values[0]) if values[1] > LONGER * values[0] else None


def rates(
    inputs: Inputs, chosen: list[Case], rows: int, rounds: int, tell: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """Tokens per second of each case, by the clock and by the processor."""
    few = max(rows // SHARE, 1)
    tokens = (inputs.tokens(few), inputs.tokens(rows))
    long, short = (dict[Case, list[Run]]((case, []) for case in chosen) for _ in range(2))
    for turn in range(rounds):
        for case in chosen:
            tell(f"round {turn + 1} of {rounds}: {inputs.name}, {case.way}, {case.use}{', rules' * case.rules}")
            if case.way not in INSIDE:
                short[case].append(run(inputs, case, few))
            long[case].append(run(inputs, case, rows))
    for case in chosen:
        whole = best(long[case])
        brief = best(short[case]) if short[case] else Run(0.0, 0.0, 0.0)
        counts = (tokens[0] * case.processes if short[case] else 0, tokens[1] * case.processes)
        yield {
            **asdict(case),
            "tokens": counts[1],
            **asdict(whole),
            "tokens_per_second": slope(counts, (brief.seconds, whole.seconds)),
            "tokens_per_cpu_second": slope(counts, (brief.cpu, whole.cpu)),
        }


def limits(inputs: Inputs, rows: int, rounds: int) -> dict[str, dict[str, float]]:
    """Seconds of the processor per token of each thread of `bridle tag` on a format; best of the rounds.

    Threads that tag share their work, so more of them help. A thread that reads or writes does not: what the busiest of
    these takes per token is a limit for the whole process.
    """
    few = max(rows // SHARE, 1)
    tokens = inputs.tokens(rows) - inputs.tokens(few)
    per_token = {}
    for format in FORMATS:
        case = Case(format, "two threads", rules=True, name=inputs.name)
        seen = [[_threads(inputs, case, size) for size in (few, rows)] for _ in range(rounds)]
        names = {name for short, long in seen for name in long}
        per_token[format] = {
            name: max(min(long.get(name, 0.0) - short.get(name, 0.0) for short, long in seen) / tokens, 0.0)
            for name in sorted(names)
        }
    return per_token


def _threads(inputs: Inputs, case: Case, rows: int) -> dict[str, float]:
    words = tag_command(inputs, case, rows, 0).words[3:]  # without `python -m bridle`
    answer = inputs.folder / "answer-0.json"
    job = json.dumps({"work": "threads", "words": words, "answer": str(answer)})
    apart([Command((sys.executable, str(CHILD), job))], case.cores, env=environment())
    seconds: dict[str, float] = json.loads(answer.read_text("utf-8"))
    return seconds
