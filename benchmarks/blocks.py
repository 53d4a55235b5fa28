"""How fast files are read and written in batches, compared with sequence by sequence.

    python benchmarks/blocks.py [--quick]

Generated references (`scale_data.py`) with labels, in each format. Reading: `bridle.data.read` against the readers of
`bridle.bulk`. Writing: `bridle.data.write` against its writers. Each pair is measured in turns, and the better of two
runs counts; tokens per second of processor time, on one thread.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from bridle import simd
from bridle.bulk.inputs import inputs
from bridle.bulk.writers import compression_of, writer_of
from bridle.data import Example, read, write
from scale_data import rows

FILES = ("a.conll", "a.conll.gz", "a.conll.zst", "a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.parquet", "a.arrow")


@dataclass(frozen=True)
class Row:
    """Tokens per second of processor time."""

    what: str
    file: str
    one_by_one: float | None  # None: `bridle.data` has no such files
    batches: float

    @property
    def ratio(self) -> float | None:
        return None if self.one_by_one is None else self.batches / self.one_by_one


def seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def best(*works: Callable[[], object]) -> list[float]:
    """The shorter of two times of each, measured in turns."""
    return [min(times) for times in zip(*([seconds(work) for work in works] for _ in range(2)), strict=True)]


def labelled(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows with labels, of which there are a few."""
    names = ["AUTHOR", "TITLE", "VENUE", "DATE"]
    labels = [[names[t * 4 // len(row)] for t in range(len(row))] for row in batch.column("tokens").to_pylist()]
    columns = [*batch.columns, pa.array(labels, pa.list_(pa.string()))]
    return pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, "labels"])


def write_batches(file: io.BytesIO, name: str, batches: list[pa.RecordBatch]) -> None:
    format = name.split(".")[1]
    text = format in ("conll", "jsonl")
    writer = writer_of(format, file, compression=compression_of(name) if text else None)
    for batch in batches:
        writer.write(batch)
    writer.close()


def measure(folder: Path, count: int) -> list[Row]:
    batches = [labelled(batch.slice(low, 4096)) for batch in rows(count) for low in range(0, len(batch), 4096)]
    tokens = sum(len(batch.column("tokens").flatten()) for batch in batches)
    examples = [
        Example({"word": row["tokens"]}, row["labels"], id=row["id"]) for batch in batches for row in batch.to_pylist()
    ]
    found = list[Row]()
    for name in FILES:
        path = folder / name
        file = io.BytesIO()
        write_batches(file, name, batches)
        path.write_bytes(file.getvalue())
        (one,) = inputs([path])

        def in_batches(one=one) -> int:  # type: ignore[no-untyped-def]
            return sum(len(block.batch) for block in one.reader.blocks(one.path))

        assert in_batches() == count
        if name.endswith(".zst"):
            times = [None, *best(in_batches), None, *best(lambda name=name: write_batches(io.BytesIO(), name, batches))]
        else:
            again = folder / f"b{name[1:]}"
            times = [
                *best(lambda path=path: sum(1 for _ in read(path)), in_batches),
                *best(
                    lambda again=again: write(again, examples),
                    lambda name=name: write_batches(io.BytesIO(), name, batches),
                ),
            ]
        rates = [None if one is None else tokens / one for one in times]
        found += [Row("read", name, rates[0], rates[1] or 0.0), Row("write", name, rates[2], rates[3] or 0.0)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Files in batches, compared with sequence by sequence.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "out" / "blocks.json", metavar="FILE")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), 5_000 if chosen.quick else 50_000)
    print(f"{'':6} {'file':12} {'one by one':>12} {'batches':>12} {'ratio':>7}   tokens/s of processor time")
    for row in sorted(found, key=lambda row: row.what):
        before = "" if row.one_by_one is None else f"{row.one_by_one:,.0f}"
        ratio = "" if row.ratio is None else f"{row.ratio:.1f}x"
        print(f"{row.what:6} {row.file:12} {before:>12} {row.batches:>12,.0f} {ratio:>7}")
    print(f"one thread, {simd().processor}, {simd().tier}")
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_text(json.dumps([asdict(row) | {"ratio": row.ratio} for row in found], indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
