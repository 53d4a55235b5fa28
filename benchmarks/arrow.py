"""Tagging Arrow tables: the rate against that of lists, and peak memory on 1 and on 10 million tokens.

    python benchmarks/arrow.py [--quick] [--json benchmarks/out/arrow.json]

Rates: `bridle.arrow.Tag` on a table against `Tagger.decode` on the same rows as Python lists, which is the library's
own rate: the lists are there before the clock starts. Calls take turns; of each, the best counts. Stages: what Tag
spends on reading buffers, on features, scores and decoding, and on the columns of the result.

Memory: processes of their own stream a Parquet file batch by batch through Tag into another file, and tag one table as
a whole. Exit code 1 if a target is missed or labels differ. --quick: a tenth of the tokens.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SLOWEST = 0.8  # times the rate of lists
MOST = 1.2  # times the memory of the short file
WHOLE = 3.0  # times the size of a table and of its result, beyond what a short one takes
TOKENS_PER_ROW = 34  # of the generated references
CASES = {"without rules": 0, "three rules": 3, "and one about tokens": 4}
ABOUT_TOKENS = "fix DATE at tokens /(19|20)\\d\\d/  [penalty 2]"


@dataclass(frozen=True)
class Rate:
    """Tokens per second of both ways."""

    what: str
    threads: int
    lists: float
    arrow: float

    @property
    def ratio(self) -> float:
        """Ratio of the rates: tables to lists."""
        return self.arrow / self.lists


@dataclass(frozen=True)
class Memory:
    """The peak of one process."""

    what: str
    tokens: int
    peak: float  # MB
    seconds: float


def best_of(calls: list[Callable[[], Any]], clock: Callable[[], float], times: int) -> list[float]:
    """The shortest time of each call; they take turns."""
    best = [float("inf")] * len(calls)
    for _ in range(times):
        for k, call in enumerate(calls):
            begun = clock()
            call()
            best[k] = min(best[k], clock() - begun)
    return best


def rates(model: Path, rows: int, times: int) -> tuple[list[Rate], list[str], dict[str, float]]:
    """Both ways on the same rows, what differs, and the stages of Tag in seconds per million tokens."""
    import pyarrow as pa

    import bridle
    import scale_data
    from bridle.arrow import Tag

    table = pa.Table.from_batches(scale_data.rows(rows))
    lists = table.column("tokens").to_pylist()
    tokens = sum(map(len, lists))
    tagger, rates, wrong = bridle.load(model), [], []
    for what, count in CASES.items():
        rules = [*scale_data.RULES, ABOUT_TOKENS][:count]
        decoder = tagger.decoder(rules, on_infeasible="relax")
        for threads in (1, 2):
            tag = Tag(model, rules, threads=threads)
            labels = tag(table).column("labels").to_pylist()
            if labels != tagger.decode(lists, decoder, threads=threads).labels:
                wrong.append(f"{what}, {threads} threads: other labels")
            calls: list[Callable[[], Any]] = [
                lambda: tagger.decode(lists, decoder, threads=threads),  # noqa: B023
                lambda: tag(table),  # noqa: B023
            ]
            clock = time.process_time if threads == 1 else time.perf_counter  # one thread: others do not disturb it
            ours, theirs = best_of(calls, clock, times)
            rates.append(Rate(what, threads, tokens / ours, tokens / theirs))
    return rates, wrong, stages(tagger, table, tokens)


def stages(tagger: Any, table: Any, tokens: int) -> dict[str, float]:
    """Seconds per million tokens of each step of Tag without rules, on one thread."""
    from bridle.features.columns import Packed
    from bridle.tagging import Outcomes
    from bridle.tagging.arrow import Layout, parts_of, texts_of

    seconds = dict.fromkeys(("read buffers", "features", "scores", "decode", "columns of the result"), 0.0)
    decoder = tagger.decoder()
    for chunk in table.column("tokens").chunks:
        for low, high in parts_of(chunk):
            marks = [time.process_time()]

            def mark(at: list[float] = marks) -> None:
                at.append(time.process_time())

            column = texts_of(chunk.slice(low, high - low), "tokens", {})
            packed = Packed({tagger.features_.templates.main: column.texts}, column.offsets)
            mark()
            encoded = tagger.features_.encode(packed)
            mark()
            batch = tagger.linear_.scores(encoded, tagger.scores)
            mark()
            decodings = decoder.decode_batch(batch, threads=1)
            mark()
            Layout().arrays(Outcomes(decodings, decoder.labels))
            mark()
            for k, name in enumerate(seconds):
                seconds[name] += marks[k + 1] - marks[k]
    return {name: value * 1e6 / tokens for name, value in seconds.items()}


def child(how: str, model: str, path: str, threads: int) -> None:
    """Tag a file in this process, and print what it took."""
    import pyarrow.parquet as pq

    from bridle.arrow import Tag

    sys.path.insert(0, str(Path(__file__).parent))
    import scale_data

    tag, tokens, size = Tag(model, scale_data.RULES, threads=threads), 0, 0
    begun = time.perf_counter()
    if how == "table":
        table = pq.read_table(path)
        before, tagged = _peak(), tag(table)
        tokens, size = len(table.column("tokens").combine_chunks().values), table.nbytes + tagged.nbytes
        print(json.dumps({"tokens": tokens, "peak": _peak(), "size": size / 1e6, "before": before, "seconds": 0.0}))
        return
    with pq.ParquetFile(path) as file, pq.ParquetWriter(f"{path}.out", tag.schema(file.schema_arrow)) as out:
        for batch in file.iter_batches(4096, use_threads=False):
            tagged = tag(batch)
            tokens += len(batch.column("tokens").flatten())
            out.write_batch(tagged)
    print(json.dumps({"tokens": tokens, "peak": _peak(), "seconds": time.perf_counter() - begun}))


def _peak() -> float:
    """MB that this process has held at most, without what its parent had."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if "VmHWM" in line) / 1e3
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def memory(model: Path, folder: Path, short: int) -> tuple[list[Memory], dict[str, Any]]:
    """Files of `short` and of ten times as many tokens, streamed; and the long one as a whole."""
    import scale_data

    peaks = []
    whole: dict[str, Any] = {}
    for tokens in (short, 10 * short):
        path = folder / f"{tokens}.parquet"
        scale_data.write_rows(path, tokens // TOKENS_PER_ROW, group=10_000)
        for threads in (1, 2):
            run = _run("stream", model, path, threads)
            peaks.append(Memory(f"streamed, {threads} threads", run["tokens"], run["peak"], run["seconds"]))
    whole = _run("table", model, path, 1)
    return peaks, whole


def _run(how: str, model: Path, path: Path, threads: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", how, str(model), str(path), str(threads)]
    completed = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, Any] = json.loads(completed.stdout)
    return figures


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", nargs=4, metavar=("HOW", "MODEL", "FILE", "THREADS"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        child(*asked.child[:3], int(asked.child[3]))
        return 0
    import scale_data
    from measure import told, where

    place = where()
    print(told(place))
    with tempfile.TemporaryDirectory() as folder:
        model = scale_data.train(Path(folder, "references.bridle"))
        fast, wrong, steps = rates(model, 3_000 if asked.quick else 30_000, 3 if asked.quick else 5)
        held, whole = memory(model, Path(folder), 100_000 if asked.quick else 1_000_000)
    for rate in fast:
        unit = "CPU s" if rate.threads == 1 else "s"
        print(
            f"{rate.what:24} {rate.threads} threads   lists {rate.lists:11,.0f} tokens/{unit:5}   "
            f"arrow {rate.arrow:11,.0f}   ratio {rate.ratio:.2f} (target >= {SLOWEST})"
        )
        if rate.ratio < SLOWEST:
            wrong.append(f"{rate.what}, {rate.threads} threads: {rate.ratio:.2f} of the rate of lists")
    print("stages, s per million tokens:", ", ".join(f"{name} {value:.2f}" for name, value in steps.items()))
    for peak in held:
        print(f"{peak.what:24} {peak.tokens:11,} tokens   peak {peak.peak:6.0f} MB   {peak.seconds:6.1f} s")
    for short, long in zip(held[:2], held[2:], strict=True):
        ratio = long.peak / short.peak
        print(f"{long.what:24} peak of ten times the tokens: {ratio:.2f} (target <= {MOST})")
        if ratio > MOST:
            wrong.append(f"{long.what}: {ratio:.2f} times the memory")
    more = (whole["peak"] - held[0].peak) / whole["size"]
    print(
        f"one table of {whole['tokens']:,} tokens: peak {whole['peak']:.0f} MB; table and result are "
        f"{whole['size']:.0f} MB: {more:.2f} times that, beyond the streamed peak (target <= {WHOLE})"
    )
    if more > WHOLE:
        wrong.append(f"a table as a whole: {more:.2f} times its size and that of its result")
    for line in wrong:
        print("MISSED:", line)
    if asked.json:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        figures = {"where": place, "rates": [asdict(x) for x in fast], "stages": steps, "whole": whole}
        asked.json.write_text(json.dumps({**figures, "memory": [asdict(x) for x in held], "missed": wrong}, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
