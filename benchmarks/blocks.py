"""Measure how fast files are read and written in blocks, compared with sequence by sequence.

    python benchmarks/blocks.py [--quick]

Generated references (`scale_data.py`) with labels, in each format. Reading: `bridle.data.read` against the blocks of
its formats. Writing: `bridle.data.write` against blocks with outcomes as `bridle tag` writes them into shards, from ids
of labels to bytes in memory. Each pair is measured in turns, and the better of two runs counts; tokens per second of
processor time, on one thread.
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

import numpy as np

from bridle import Batch, Decoder, Labels, simd
from bridle.data import Example, Pace, read, write
from bridle.data.base import format_named
from bridle.data.blocks import ROWS
from bridle.data.files import opened
from bridle.data.output import packing
from bridle.data.parquet import Parquet
from bridle.data.source import PACKED
from bridle.tagging import Block, Column, Outcomes, tag
from bridle.tagging.arrow import Layout
from bridle.tagging.block import TEXT, Ids
from bridle.texts import Texts
from scale_data import rows

NAMES = ["AUTHOR", "TITLE", "VENUE", "DATE"]
FILES = ("a.conll", "a.conll.gz", "a.conll.zst", "a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.parquet", "a.arrow")


@dataclass(frozen=True)
class Row:
    """Tokens per second of processor time."""

    what: str
    file: str
    one_by_one: float
    blocks: float

    @property
    def ratio(self) -> float:
        return self.blocks / self.one_by_one


def seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def best(*works: Callable[[], object]) -> list[float]:
    """The shorter of two times of each, measured in turns."""
    return [min(times) for times in zip(*([seconds(work) for work in works] for _ in range(2)), strict=True)]


def labelled(ids: list[str], lists: list[list[str]]) -> tuple[Block, Outcomes]:
    """Return sequences with labels out of a few."""
    column = Column.of(lists)
    tokens = Column(Texts.of(column.texts), column.offsets)  # as readers pack them
    which = np.concatenate([np.arange(len(words)) * len(NAMES) // len(words) for words in lists if words])
    scores = Block(len(lists), scores=Batch(np.eye(len(NAMES))[which], tokens.offsets))
    names = Ids(Texts.of(ids), np.full(len(ids), TEXT, np.uint8))
    return Block(len(lists), {"word": tokens}, ids=names), tag(scores, None, Decoder(Labels(NAMES)))


def written(name: str, pairs: list[tuple[Block, Outcomes]]) -> io.BytesIO:
    format, layout, file = format_named(name.split(".")[1], {}), Layout(), io.BytesIO()
    # new outcomes, which have not computed anything yet
    fresh = ((block, Outcomes(outcomes.decodings, outcomes.label_set)) for block, outcomes in pairs)
    if isinstance(format, Parquet):
        table = format.table_writer(file, layout)
        for block, outcomes in fresh:
            table.write(block, outcomes, len(block))
        table.close()
        return file
    out = packing(name, file) if name.endswith(PACKED) else file
    for block, outcomes in fresh:
        out.write(format.encode_rows(block, outcomes, len(block), layout))
    if out is not file:
        out.close()
    return file


def read_blocks(path: Path) -> int:
    source, format = opened(path, None, {})
    try:
        return sum(len(block) for block in format.blocks(source, 0, Pace(ROWS, most=ROWS)))
    finally:
        source.close()


def measure(folder: Path, count: int) -> list[Row]:
    lists = [row for batch in rows(count) for row in batch.to_pylist()]
    parts = [lists[low : low + ROWS] for low in range(0, count, ROWS)]
    pairs = [labelled([row["id"] for row in part], [row["tokens"] for row in part]) for part in parts]
    examples = [
        Example({"word": tokens}, labels, id=name)
        for block, outcomes in pairs
        for name, tokens, labels in zip(
            block.ids or (), map(block.tokens.row, range(len(block))), outcomes.labels, strict=True
        )
    ]
    tokens, measured = sum(map(len, examples)), list[Row]()
    for name in FILES:
        path, again = folder / name, folder / f"b{name[1:]}"
        path.write_bytes(written(name, pairs).getvalue())
        assert read_blocks(path) == count
        reading = best(lambda path=path: sum(1 for _ in read(path)), lambda path=path: read_blocks(path))
        writing = best(lambda again=again: write(again, examples), lambda name=name: written(name, pairs))
        measured += [
            Row(what, name, *(tokens / took for took in times))
            for what, times in (("read", reading), ("write", writing))
        ]
    return measured


def main() -> int:
    parser = argparse.ArgumentParser(description="Files in blocks, compared with sequence by sequence.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "out" / "blocks.json", metavar="FILE")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(Path(folder), 5_000 if chosen.quick else 50_000)
    print(f"{'':6} {'file':12} {'one by one':>12} {'blocks':>12} {'ratio':>7}   tokens/s of processor time")
    for row in sorted(measured, key=lambda row: row.what):
        print(f"{row.what:6} {row.file:12} {row.one_by_one:>12,.0f} {row.blocks:>12,.0f} {row.ratio:>6.1f}x")
    print(f"one thread, {simd().processor}, {simd().tier}")
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_text(
        json.dumps([asdict(row) | {"ratio": row.ratio} for row in measured], indent=1) + "\n", "utf-8"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
