"""The contract over very many random problems: `make soak`, or

    python tests/soak.py [--problems 200000] [--start 0] [--jobs 2] [--tiers all] [--log FILE] [--documents]

Problem k is `examine(start + k)` of contract.py against enumeration; every twentieth also goes through the integer
programs and brings a larger problem, too large to enumerate. Exit code 1, and the complaints, at any mismatch.
To look at one again: `python tests/soak.py --start SEED --problems 1`. With `--documents`, problem k is
`examine_document(start + k)` of document_contract.py instead.

The work is done in parts, which take turns with the tiers of vector instructions (`--tiers`). With `--log` each part
that is done becomes a line of that file, and a part that the file has, for the same kernels, is not done
again: a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import signal
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # processes that are spawned import this file from elsewhere

import bridle
from contract import examine, examine_medium
from document_contract import examine_document

KERNELS = Path(__file__).parents[1] / "cpp"
PART = 5000  # problems
EVERY = 20  # one in so many problems is also solved by integer programs, which take most of the time
MOST = 20  # complaints that are printed


def examine_one(seed: int) -> list[str]:
    """All complaints about one seed; a crash is one too."""
    rare = seed % EVERY == 0
    try:
        if os.environ.get("BRIDLE_SOAK_DOCUMENTS"):
            return examine_document(seed)
        return examine(seed, ilp=rare) + (examine_medium(seed) if rare else [])
    except Exception:
        return [f"seed {seed}: {traceback.format_exc()}"]


def _quiet() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, who ends the others


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


class _Line:
    """One line on stderr: overwritten on a terminal, printed again now and then elsewhere."""

    def __init__(self, total: int, known: int = 0) -> None:
        self.total, self.known, self.begun, self.shown = total, known, time.monotonic(), time.monotonic()
        self.terminal = sys.stderr.isatty()

    def show(self, done: int, wrong: int, *, last: bool = False) -> None:
        now = time.monotonic()
        if not last and now - self.shown < (0.2 if self.terminal else 20.0):
            return
        self.shown, took = now, now - self.begun
        rate = (done - self.known) / took if took > 0 else 0.0
        left = _clock((self.total - done) / rate) if rate else "?"
        text = f"{done:,} of {self.total:,} problems, {rate:,.0f} a second, {left} to go, {wrong} mismatches"
        print(
            f"\r\033[K{text}" if self.terminal else text,
            end="" if self.terminal and not last else "\n",
            file=sys.stderr,
            flush=True,
        )


@dataclass(frozen=True)
class Part:
    """Some seeds on one tier of vector instructions, with the kernels that are checked by them."""

    start: int
    problems: int
    tier: str
    kernels: str

    @property
    def seeds(self) -> range:
        """The seeds, in order."""
        return range(self.start, self.start + self.problems)


def kernels_id() -> str:
    """A checksum of the sources of the kernels, their bindings left out."""
    files = sorted(path for path in KERNELS.rglob("*") if path.is_file() and path.parent.name != "border")
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def parts_of(seeds: range, tiers: list[str]) -> list[Part]:
    """The seeds in parts; the tiers take turns."""
    kernels = kernels_id()
    cuts = range(seeds.start, seeds.stop, PART)
    return [Part(low, min(PART, seeds.stop - low), tiers[low // PART % len(tiers)], kernels) for low in cuts]


def logged(path: Path | None) -> dict[Part, int]:
    """The parts that a log has, with their mismatches."""
    lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
    entries = [json.loads(line) for line in lines]
    return {Part(**{name: e[name] for name in Part.__dataclass_fields__}): e["mismatches"] for e in entries}


def run(seeds: range, jobs: int, line: _Line, before: tuple[int, int]) -> tuple[int, list[str]]:
    """Return the number of seeds examined, and all complaints. Ctrl-C ends it early. before: count of earlier runs."""
    done, wrong = 0, list[str]()
    context = multiprocessing.get_context("spawn")  # engines have threads; a fork would copy their locks
    with context.Pool(min(jobs, len(seeds)), _quiet) as pool:
        try:
            for complaints in pool.imap_unordered(examine_one, seeds, chunksize=min(50, -(-len(seeds) // jobs))):
                done += 1
                for text in complaints[: max(0, MOST - len(wrong))]:
                    print(text, flush=True)
                wrong += complaints
                line.show(before[0] + done, before[1] + len(wrong))
        except KeyboardInterrupt:
            pool.terminate()
    return done, wrong


def soak(parts: list[Part], jobs: int, log: Path | None) -> tuple[int, int]:
    """Return the numbers of problems that were examined, now or before, and of mismatches."""
    known = logged(log)
    done, wrong = sum(p.problems for p in parts if p in known), sum(known[p] for p in parts if p in known)
    if done:
        print(f"{done:,} problems are in {log} with {wrong} mismatches and are not done again", file=sys.stderr)
    line = _Line(sum(part.problems for part in parts), done)
    for part in (part for part in parts if part not in known):
        os.environ["BRIDLE_SIMD"] = part.tier  # read when a process loads the kernels
        began = time.monotonic()
        count, complaints = run(part.seeds, jobs, line, (done, wrong))
        done, wrong = done + count, wrong + len(complaints)
        if count < part.problems:  # Ctrl-C
            break
        if log is not None:
            entry = {**asdict(part), "mismatches": len(complaints), "seconds": round(time.monotonic() - began, 1)}
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
    line.show(done, wrong, last=True)
    return done, wrong


def natural(text: str) -> int:
    """Parse a non-negative integer for argparse."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a non-negative integer")
    return int(text)


def main() -> int:
    parser = argparse.ArgumentParser(description="Every engine against enumeration, on very many random problems.")
    parser.add_argument("--problems", type=natural, default=200_000, metavar="N", help="how many (default: 200,000)")
    parser.add_argument("--start", type=natural, default=0, metavar="SEED", help="the first seed (default: 0)")
    parser.add_argument("--jobs", type=natural, default=0, metavar="J", help="processes (default: one per core)")
    parser.add_argument("--tiers", default="best", metavar="T", help="best, all, or names with commas (default: best)")
    parser.add_argument("--log", type=Path, metavar="FILE", help="write down the parts that are done, and skip them")
    parser.add_argument("--documents", action="store_true", help="documents instead of sequences; needs its own log")
    chosen = parser.parse_args()
    if chosen.documents:
        os.environ["BRIDLE_SOAK_DOCUMENTS"] = "1"  # read by the processes that are spawned
    seeds, available = range(chosen.start, chosen.start + chosen.problems), list(bridle.simd().available)
    if not seeds:
        parser.error("--problems must be at least 1")
    tiers = {"best": [bridle.simd().tier], "all": available}.get(chosen.tiers, chosen.tiers.split(","))
    if unknown := set(tiers) - set(available):
        parser.error(f"--tiers: this processor has {', '.join(available)}, not {', '.join(sorted(unknown))}")
    done, wrong = soak(parts_of(seeds, tiers), chosen.jobs or os.cpu_count() or 1, chosen.log)
    if wrong > MOST:
        print(f"... and {wrong - MOST} more")
    if done < len(seeds):
        print(f"stopped after {done:,} of {len(seeds):,} problems, {wrong} mismatches")
        return 1 if wrong else 130
    print(f"{done:,} problems, {wrong} mismatches")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
