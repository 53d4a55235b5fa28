"""The contract over very many random problems: `make soak`, or

    python tests/soak.py [--problems 200000] [--start 0] [--jobs 2]

Problem k is `examine(start + k)` of contract.py against enumeration; every twentieth also goes through the integer
programs and brings a larger problem, too large to enumerate. Exit code 1, and the complaints, at any mismatch.
To look at one again: `python tests/soak.py --start SEED --problems 1`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # processes that are spawned import this file from elsewhere

from contract import examine, examine_medium

EVERY = 20  # one in so many problems is also solved by integer programs, which take most of the time
MOST = 20  # complaints that are printed


def examine_one(seed: int) -> list[str]:
    """All complaints about one seed; a crash is one too."""
    rare = seed % EVERY == 0
    try:
        return examine(seed, ilp=rare) + (examine_medium(seed) if rare else [])
    except Exception:
        return [f"seed {seed}: {traceback.format_exc()}"]


def _quiet() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, who ends the others


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


class _Line:
    """One line on stderr: overwritten on a terminal, now and then anew elsewhere."""

    def __init__(self, total: int) -> None:
        self.total, self.begun, self.shown = total, time.monotonic(), time.monotonic()
        self.terminal = sys.stderr.isatty()

    def show(self, done: int, wrong: int, *, last: bool = False) -> None:
        now = time.monotonic()
        if not last and now - self.shown < (0.2 if self.terminal else 20.0):
            return
        self.shown, took = now, now - self.begun
        rate = done / took if took > 0 else 0.0
        left = _clock((self.total - done) / rate) if rate else "?"
        text = f"{done:,} of {self.total:,} problems, {rate:,.0f} a second, {left} to go, {wrong} mismatches"
        print(
            f"\r\033[K{text}" if self.terminal else text,
            end="" if self.terminal and not last else "\n",
            file=sys.stderr,
            flush=True,
        )


def run(seeds: range, jobs: int) -> tuple[int, list[str]]:
    """How many seeds were examined, and all complaints. Ctrl-C ends the work early."""
    line, done, wrong = _Line(len(seeds)), 0, list[str]()
    context = multiprocessing.get_context("spawn")  # engines have threads; a fork would copy their locks
    with context.Pool(min(jobs, len(seeds)), _quiet) as pool:
        try:
            for complaints in pool.imap_unordered(examine_one, seeds, chunksize=min(50, -(-len(seeds) // jobs))):
                done += 1
                for text in complaints[: max(0, MOST - len(wrong))]:
                    print(text, flush=True)
                wrong += complaints
                line.show(done, len(wrong))
        except KeyboardInterrupt:
            pool.terminate()
    line.show(done, len(wrong), last=True)
    return done, wrong


def natural(text: str) -> int:
    """A whole number >= 0, for argparse."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def main() -> int:
    parser = argparse.ArgumentParser(description="Every engine against enumeration, on very many random problems.")
    parser.add_argument("--problems", type=natural, default=200_000, metavar="N", help="how many (default: 200,000)")
    parser.add_argument("--start", type=natural, default=0, metavar="SEED", help="the first seed (default: 0)")
    parser.add_argument("--jobs", type=natural, default=0, metavar="J", help="processes (default: one per core)")
    chosen = parser.parse_args()
    seeds = range(chosen.start, chosen.start + chosen.problems)
    if not seeds:
        parser.error("--problems must be at least 1")
    done, wrong = run(seeds, chosen.jobs or os.cpu_count() or 1)
    if len(wrong) > MOST:
        print(f"... and {len(wrong) - MOST} more")
    if done < len(seeds):
        print(f"stopped after {done:,} of {len(seeds):,} problems, {len(wrong)} mismatches")
        return 1 if wrong else 130
    print(f"{done:,} problems, {len(wrong)} mismatches")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
