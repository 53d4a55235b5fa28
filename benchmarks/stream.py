"""Tagging a long file in constant memory: peak memory of `bridle tag --rules` on 100,000 and on 1,000,000 tokens.

    python benchmarks/stream.py [--quick] [--json benchmarks/out/stream.json]

A synthetic corpus is made and a small model trained on it; the files are tagged by the real command in processes of
their own, and the kernel tells the peak of each. Then the command is stopped by Ctrl-C on its way. Exit code 1 when
memory grows beyond the target, the bar is not shown on a terminal or shown elsewhere, or Ctrl-C does not end it as it
should. --quick: a tenth of the tokens.

This file imports nothing of Bridle: a child begins with the peak memory of its parent.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

MOST = 2.0  # times the memory of the short file
RULES = """\
well formed
at most 3 segments of NP
at most 1 segment of PP
if VP then NP
length of NP at most 3
NP before PP  [penalty 0.5]
"""
WORDS = {
    "D": ["the", "a", "this", "that"],
    "J": [f"j{k}" for k in range(300)],
    "N": [f"n{k}" for k in range(3000)],
    "V": [f"v{k}" for k in range(1000)],
    "P": ["in", "on", "to"],
}


@dataclass(frozen=True)
class Run:
    """One tagging."""

    tokens: int
    peak: float  # MB
    seconds: float  # of the processor
    said: str  # on stderr


@dataclass(frozen=True)
class Row:
    """A short file and a long one, tagged in the same way."""

    what: str
    short: Run
    long: Run

    @property
    def ratio(self) -> float:
        """Ratio of the memory of the long file to that of the short one."""
        return self.long.peak / self.short.peak

    @property
    def pace(self) -> float:
        """Tokens per second of the processor; what the start of Python takes is taken off by the short run."""
        return (self.long.tokens - self.short.tokens) / max(self.long.seconds - self.short.seconds, 1e-9)


@dataclass
class Results:
    """Results of a run of this benchmark."""

    rows: list[Row] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


# ---- the corpus -----------------------------------------------------------------------------------------------------


def write_corpus(path: Path, tokens: int, seed: int, labelled: bool) -> int:
    """Sentences of a toy language in columns: word, part of speech, chunk. The number of tokens."""
    rng = random.Random(seed)
    count = 0
    with path.open("w", encoding="utf-8") as file:
        while count < tokens:
            sentence: list[tuple[str, str]] = []
            for _ in range(rng.randint(1, 4)):
                sentence += [("D", "B-NP"), *[("J", "I-NP")] * rng.randint(0, 2), ("N", "I-NP")]
                sentence.append(("V", "B-VP") if rng.random() < 0.6 else ("P", "B-PP"))
            for pos, chunk in sentence:
                file.write(f"{rng.choice(WORDS[pos])} {pos}" + (f" {chunk}\n" if labelled else "\n"))
            file.write("\n")
            count += len(sentence)
    return count


# ---- the command ----------------------------------------------------------------------------------------------------


def command(*args: object) -> list[str]:
    """`bridle` with arguments."""
    return [sys.executable, "-m", "bridle", *map(str, args)]


def run_apart(words: list[str], tokens: int, terminal: bool, stdin: Path | None = None, out: Path | None = None) -> Run:
    """Run a command in a process of its own; stderr is a terminal or a pipe."""
    end, other = pty.openpty() if terminal else os.pipe()
    said: list[bytes] = []

    def listen() -> None:
        try:
            while some := os.read(end, 1 << 16):
                said.append(some)
        except OSError:  # so ends a terminal
            pass

    with (stdin or Path(os.devnull)).open("rb") as source, (out or Path(os.devnull)).open("wb") as sink:
        process = subprocess.Popen(words, stdin=source, stdout=sink, stderr=other)
    os.close(other)
    listener = threading.Thread(target=listen)
    listener.start()
    _, status, used = os.wait4(process.pid, 0)
    listener.join()
    os.close(end)
    process.returncode = os.waitstatus_to_exitcode(status)
    output = b"".join(said).decode(errors="replace")
    if process.returncode not in (0, 1):  # 1: some sequences were relaxed
        raise SystemExit(f"{' '.join(words)} returned {process.returncode}:\n{output}")
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return Run(tokens, used.ru_maxrss / unit, used.ru_utime + used.ru_stime, output)


def stopped(words: list[str], out: Path, whole: bytes) -> list[str]:
    """Stop a tagging by Ctrl-C, a part of a second after its first lines. What is wrong with how it ends."""
    part = out.with_name(out.name + ".part")
    process = subprocess.Popen(words, stderr=subprocess.PIPE)
    while process.poll() is None and not any(path.stat().st_size for path in out.parent.glob(f"{out.name}.*.part")):
        time.sleep(0.02)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    message = process.communicate(timeout=60)[1].decode(errors="replace")
    took = time.monotonic() - sent
    kept = part.read_bytes() if part.exists() else b""
    wrong = {
        f"it returned {process.returncode}, not 130": process.returncode != 130,
        f"a stack trace:\n{message}": "Traceback" in message,
        f"it took {took:.1f} s to stop": took > 2,
        "no lines were kept": not kept,
        "the last line that was kept is not whole": not kept.endswith(b"\n"),
        "what was kept is not how the output begins": not whole.startswith(kept),
        "the output is there, though it is not whole": out.exists(),
        "the message does not say where the lines are": str(part) not in message,
    }
    return [f"Ctrl-C: {text}" for text, is_so in wrong.items() if is_so]


def measure(results: Results, folder: Path, scale: int) -> None:
    """All rows and checks."""
    train, rules, model = folder / "train.txt", folder / "my.rules", folder / "m.bridle"
    write_corpus(train, 20_000, 0, labelled=True)
    rules.write_text(RULES, encoding="utf-8")
    subprocess.run(
        command("train", train, "-o", model, "--columns", "word,pos,chunk", "--c2", 1, "--iterations", 20),
        check=True,
        stderr=subprocess.PIPE,
    )
    files = [folder / "short.txt", folder / "long.txt"]
    sizes = zip(files, (scale, 10 * scale), strict=True)
    tokens = [write_corpus(file, size, seed, labelled=False) for seed, (file, size) in enumerate(sizes, 1)]
    outs = [folder / f"{file.stem}.out" for file in files]
    tag = command("tag", model, "--rules", rules, "--threads", 1)

    def row(what: str, runs: list[Run]) -> None:
        results.rows.append(Row(what, *runs))
        if results.rows[-1].ratio > MOST:
            results.wrong.append(f"{what}: {results.rows[-1].ratio:.2f} times the memory")

    cases = list(zip(files, outs, tokens, strict=True))
    row(
        "file to file, a bar on a terminal",
        [run_apart([*tag, str(file), "-o", str(out)], n, terminal=True) for file, out, n in cases],
    )
    if "tagging" not in results.rows[-1].long.said:
        results.wrong.append("no bar is shown on a terminal")
    whole = outs[1].read_bytes()
    row(
        "stdin to stdout, no terminal",
        [run_apart(tag, n, terminal=False, stdin=file, out=out) for file, out, n in cases],
    )
    if results.rows[-1].long.said:
        results.wrong.append(f"something was written beside the pipe: {results.rows[-1].long.said[:200]!r}")
    if outs[1].read_bytes() != whole:
        results.wrong.append("stdin and a file give other labels")
    row(
        "file to JSON lines",
        [run_apart([*tag, str(file), "--json", "-o", str(out)], n, terminal=False) for file, out, n in cases],
    )
    outs[1].unlink()
    trouble = stopped([*tag, str(files[1]), "-o", str(outs[1])], outs[1], whole)
    results.wrong += trouble
    if not trouble:
        kept = outs[1].with_name(outs[1].name + ".part").read_bytes().count(b"\n")
        results.notes.append(f"Ctrl-C: exit code 130, no stack trace, {kept:,} whole lines kept in FILE.part")
    words = sum(map(len, WORDS.values()))
    results.notes.append(f"{len(RULES.splitlines())} rules, {words:,} words, one thread; seconds of the processor")


def show(results: Results) -> None:
    """Print everything."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 140)
    first = results.rows[0]
    heads = ("bridle tag --rules", *(f"peak, {run.tokens:,} tokens" for run in (first.short, first.long)))
    table = Table(*heads, "ratio", "wanted", "met", "tokens/s", title="Tagging in constant memory")
    for row in results.rows:
        peaks = (f"{row.short.peak:,.0f} MB", f"{row.long.peak:,.0f} MB")
        met = "yes" if row.ratio <= MOST else "NO"
        table.add_row(row.what, *peaks, f"{row.ratio:.2f}x", f"<= {MOST:g}x", met, f"{row.pace:,.0f}")
    console.print(table)
    for note in results.notes:
        console.print(note, highlight=False, markup=False)
    for line in results.wrong:
        console.print(f"WRONG  {line}", style="red", highlight=False, markup=False)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Tagging a long file in constant memory.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the tokens")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "out" / "stream.json", metavar="FILE")
    chosen = parser.parse_args()
    results, begun = Results(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        measure(results, Path(folder), 10_000 if chosen.quick else 100_000)
    show(results)
    rows = [{**asdict(row), "ratio": row.ratio, "tokens_per_second": row.pace} for row in results.rows]
    for row in rows:
        row["short"].pop("said"), row["long"].pop("said")
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    stored = {"quick": chosen.quick, "rows": rows, "notes": results.notes, "wrong": results.wrong}
    chosen.json.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    print(f"{time.perf_counter() - begun:.0f} s; figures in {chosen.json}")
    return 1 if results.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
