"""Trials of `bridle tag --resume`: killed at random moments, on a full disk, with an input that goes missing.

    PYTHONPATH=src python benchmarks/scale_files.py FOLDER --rows 100000 --kills 50

Each trial resumes until the run is finished. Then every id must occur exactly once, with the labels that a single
process gives it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import bridle
import scale_data
from bridle.bulk import check

SHARDS = 4  # for each kill, about: so most lives of the process finish one or more
EARLY = 0.2  # share of the kills that come before the first row is written
PATIENCE = 600.0  # seconds


def trial(folder: Path, rows: int, kills: int, seed: int = 0) -> dict[str, Any]:
    """Kill a run again and again at random moments, resume it until it is finished, and judge its rows.

    If a run finishes before all kills are used, it is judged, and the next run begins in a new folder.
    """
    command, out, expected = _prepared(folder, rows, size := max(rows // (SHARDS * max(kills, 1)), 1))
    rng, begun = random.Random(seed), time.monotonic()
    started, seconds = _timed([*command, "-o", str(folder / "whole"), "--resume"], folder / "whole")
    verdicts, used, restarts, run = [_verdict(folder / "whole", expected)], 0, 0, 0
    while used < kills:
        out = folder / f"killed-{run}"
        while True:
            process = _start([*command, "-o", str(out), "--resume"])
            restarts += 1
            if used < kills and _killed(process, out, rng, started, 2 * (seconds - started) / kills):
                used += 1
                continue
            if _finished(process) == 0:
                break
        verdicts.append(_verdict(out, expected))
        run += 1
    return {
        **asdict(_sum(verdicts)),
        "runs": len(verdicts),
        "kills": used,
        "restarts": restarts,
        "rows_per_shard": size,
        "seconds": round(time.monotonic() - begun, 1),
        "ok": all(verdict.ok for verdict in verdicts),
    }


def full_disk(folder: Path, rows: int) -> dict[str, Any]:
    """Files cannot grow beyond half a shard, as on a disk that is full; then they can."""
    command, out, expected = _prepared(folder, rows, max(rows // 4, 1))
    shards = _start([*command, "-o", str(folder / "whole"), "--resume"])
    assert _finished(shards) == 0
    largest = (folder / "whole" / "part-00000.parquet").stat().st_size // 2
    limited = _start(
        [*command, "-o", str(out), "--resume"], lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    )
    return _resumed(limited, "The disk is full", [*command, "-o", str(out), "--resume"], out, expected)


def missing_input(folder: Path, rows: int) -> dict[str, Any]:
    """The second input is gone while the first one is read; then it is back."""
    command, out, expected = _prepared(folder, rows, max(rows // 8, 1))
    second = folder / "b.parquet"
    process = _start([*command, "-o", str(out), "--resume"])
    _wait(lambda: any(_parts(out)) or process.poll() is not None)
    second.rename(folder / "away")
    message, code = process.communicate(timeout=PATIENCE)[1].decode(), process.returncode
    (folder / "away").rename(second)
    again = _start([*command, "-o", str(out), "--resume"])
    assert _finished(again) == 0
    verdict = _verdict(out, expected)
    return {**asdict(verdict), "exit_code": code, "told": _without_paths(message), "ok": verdict.ok and code in (0, 2)}


def _resumed(
    process: subprocess.Popen[bytes], expected_text: str, command: Sequence[str], out: Path, expected: Any
) -> dict[str, Any]:
    """Judge a run that should fail with a message, then resume."""
    _, message = process.communicate(timeout=PATIENCE)
    text, is_begun = message.decode(), any(out.glob("part-*"))
    assert _finished(_start(command)) == 0
    verdict = _verdict(out, expected)
    clear = process.returncode == 2 and expected_text in text and ("--resume" in text) == is_begun
    return {
        **asdict(verdict),
        "exit_code": process.returncode,
        "told": _without_paths(text),
        "ok": verdict.ok and clear,
    }


def _without_paths(text: str) -> str:
    """A message with the names of files, but not of the folders that they are in: these are of one machine."""
    return re.sub(r"/\S*/(?=[\w.-])", "", text.strip())


# ---- the parts of a trial -------------------------------------------------------------------------------------------


def _prepared(folder: Path, rows: int, shard: int) -> tuple[list[str], Path, dict[str, list[str] | None]]:
    """Two input files, a model, rules: the command without its output, and the labels of a single process."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model, rules = scale_data.train(folder / "refs.bridle"), folder / "refs.rules"
    rules.write_text("\n".join(scale_data.RULES) + "\n")
    scale_data.write_rows(folder / "all.parquet", rows, group=200)
    table = pq.read_table(folder / "all.parquet")
    for name, part in (("a", table.slice(0, rows // 2)), ("b", table.slice(rows // 2))):
        pq.write_table(part, folder / f"{name}.parquet", row_group_size=200)
    tagger = bridle.load(model)
    decoder = tagger.decoder(scale_data.RULES, on_infeasible="relax")
    labels = [decoding.labels for decoding in tagger.decode(table["tokens"].to_pylist(), decoder)]
    expected = dict(zip(table["id"].to_pylist(), labels, strict=True))
    inputs = [str(folder / f"{name}.parquet") for name in "ab"]
    command = [sys.executable, "-m", "bridle", "tag", str(model), *inputs, "--rules", str(rules)]
    return [*command, "--shard-size", str(shard)], folder / "out", expected


def _start(command: Sequence[str], before: Callable[[], Any] | None = None) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(Path(bridle.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE, preexec_fn=before)


def _finished(process: subprocess.Popen[bytes]) -> int:
    """The exit code of an undisturbed run; 1 says that some rows are relaxed, which is fine."""
    _, message = process.communicate(timeout=PATIENCE)
    if process.returncode not in (0, 1):
        raise RuntimeError(message.decode())
    return 0


def _timed(command: Sequence[str], out: Path) -> tuple[float, float]:
    """Seconds until the first row is written, and until the end."""
    begun, process = time.monotonic(), _start(command)
    _wait(lambda: any(_parts(out)) or process.poll() is not None)
    started = time.monotonic() - begun
    _finished(process)
    return started, time.monotonic() - begun


def _killed(process: subprocess.Popen[bytes], out: Path, rng: random.Random, started: float, longest: float) -> bool:
    """Kill a process at a random moment; False if it has finished before."""
    if rng.random() < EARLY:
        end = time.monotonic() + rng.uniform(0, started)
    else:
        before = set(_parts(out))
        _wait(lambda: bool(set(_parts(out)) - before) or process.poll() is not None)
        end = time.monotonic() + rng.uniform(0, longest)
    _wait(lambda: process.poll() is not None or time.monotonic() >= end, 0.0005)
    if process.poll() is not None:
        return False
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return True


def _parts(out: Path) -> Iterator[str]:
    """Files that are being written, or were when a process was killed."""
    if out.is_dir():
        yield from (name for name in os.listdir(out) if name.endswith(".part"))  # noqa: PTH208


def _wait(until: Callable[[], bool], pause: float = 0.002) -> None:
    end = time.monotonic() + PATIENCE
    while not until():
        if time.monotonic() > end:
            raise TimeoutError("nothing happens")
        time.sleep(pause)


def _verdict(out: Path, expected: dict[str, list[str] | None]) -> scale_data.Verdict:
    check(out)
    shards = sorted(out.glob("part-*.parquet"))
    tables = (pq.read_table(path, columns=["id", "labels"]).to_pylist() for path in shards)
    return scale_data.judge(((row["id"], row["labels"]) for table in tables for row in table), expected)


def _sum(verdicts: Sequence[scale_data.Verdict]) -> scale_data.Verdict:
    return scale_data.Verdict(
        *(sum(values) for values in zip(*(asdict(verdict).values() for verdict in verdicts), strict=True))
    )


def main() -> None:
    """Run all trials, and print a JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    results = {
        "kills": trial(args.folder / "kills", args.rows, args.kills, args.seed),
        "full_disk": full_disk(args.folder / "full", min(args.rows, 20_000)),
        "missing_input": missing_input(args.folder / "missing", min(args.rows, 20_000)),
    }
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
