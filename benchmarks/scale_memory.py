"""Resources of a worker: memory for files of any length, memory of a model, and the time until it is of use."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from scale_apart import Command, apart
from scale_costs import FORMATS
from scale_inputs import Inputs, References, large_model
from scale_rate import Case, best, child_command, environment, run, tag_command

TOKENS_PER_ROW = 34.2  # of references
GROWTH = 10  # how much longer the long file is
WORKER = "a worker with `bridle.arrow.Tag`"


def memory(inputs: Inputs, tokens: int, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """Peak memory with two threads and rules for a short and a long file of each format, and of a worker."""
    sizes = [round(times * tokens / TOKENS_PER_ROW) for times in (1, GROWTH)]
    growth = []
    for way in (*FORMATS, "worker"):
        case = Case(way, "one core" if way == "worker" else "two threads", rules=True, name=inputs.name)
        make = child_command if way == "worker" else tag_command
        peaks, counts = [], []
        for rows in sizes:
            tell(f"{way}: {rows:,} rows")
            peaks.append(apart([make(inputs, case, rows, 0)], case.cores, fine=(0, 1), env=environment()).peak)
            counts.append(inputs.tokens(rows))
        what = WORKER if way == "worker" else f"`bridle tag --threads 2`, {way}"
        growth.append({"what": what, "way": way, "tokens": counts, "peak": peaks, "ratio": peaks[1] / peaks[0]})
    return growth


def models(inputs: list[Inputs], quick: bool) -> list[dict[str, Any]]:
    """Memory of a process before and after it has a model, for models of several sizes."""
    large = replace(References.at(inputs[0].folder), name="large")
    large_model(large.model, 2_000 if quick else 200_000)
    models = []
    for source in (*inputs, large):
        steps = _steps(source)
        before, after = (steps[name]["resident"] for name in ("input", "load"))
        models.append(
            {"model": source.name, "file": source.model.stat().st_size / (1 << 20), "before": before, "with": after}
        )
    return models


def startup(inputs: Inputs, rounds: int) -> dict[str, Any]:
    """Seconds until the first answer, of a worker by its steps and of the command as a whole; the best of some."""
    nothing = Command((sys.executable, "-c", "pass"))
    once = Case("parquet", "one core", rules=True, name=inputs.name)
    python = best(apart([nothing], 1, env=environment()) for _ in range(rounds))
    command = best(run(inputs, once, 1) for _ in range(rounds))
    workers = [_steps(inputs) for _ in range(rounds)]
    steps = {name: min(worker[name]["seconds"] for worker in workers) for name in ("import", "load", "batch")}
    return {"worker": {"python": python.seconds, **steps}, "command": asdict(command)}


def _steps(inputs: Inputs) -> dict[str, dict[str, float]]:
    """Measure the steps of a worker until its first batch of 4,096 rows is tagged."""
    command = child_command(inputs, Case("start", "one core", rules=inputs.name != "large", name=inputs.name), 5000, 0)
    apart([command], 1, env=environment())
    answer: dict[str, dict[str, float]] = json.loads((inputs.folder / "answer-0.json").read_text("utf-8"))
    return answer
