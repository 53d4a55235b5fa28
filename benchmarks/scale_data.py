"""Data that all trials at scale share: generated references, a model, rules, the labels of a single process, the check.

Rows are generated in parts of 10,000, so that any number of them needs the same memory, and row k is the same in every
run.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import bridle
from bridle.data import references

PART = 10_000  # rows
RULES = ["at most 1 segment of TITLE", "at most 1 segment of DATE", "AUTHOR before VENUE [penalty 1]"]


def rows(count: int) -> Iterator[pa.RecordBatch]:
    """References with ids r00000000, r00000001, ... in batches of at most PART rows; some tokens are new to a model."""
    known = [example.tokens for style in references.STYLES for example in references.references(style)]
    for first in range(0, count, PART):
        rng = random.Random(first)
        size = min(PART, count - first)
        tokens = [[_changed(token, rng) for token in rng.choice(known)] for _ in range(size)]
        ids = [f"r{k:08}" for k in range(first, first + size)]
        yield pa.record_batch({"id": ids, "tokens": pa.array(tokens, pa.list_(pa.string()))})


def _changed(token: str, rng: random.Random) -> str:
    """Now and then another number or another name."""
    if token.isdigit() and rng.random() < 0.5:
        return str(rng.randrange(10 ** len(token)))
    return token + rng.choice("aeiou") if token.istitle() and rng.random() < 0.1 else token


def write_rows(path: Path, count: int, *, group: int = 1000) -> None:
    """Write the rows to a Parquet file with row groups of `group` rows."""
    schema = pa.schema([("id", pa.string()), ("tokens", pa.list_(pa.string()))])
    with pq.ParquetWriter(path, schema) as file:
        for batch in rows(count):
            for low in range(0, len(batch), group):
                file.write_batch(batch.slice(low, group))


def train(path: Path) -> Path:
    """A model of references in some styles, in a file."""
    examples = references.references("acm", "ieee", "chicago")
    X, y = [list(example.tokens) for example in examples], [list(example.labels) for example in examples]
    bridle.CRF(features="fields", scheme="IO", c1=0.0, c2=1.0).fit(X, y).save(path)
    return path


@dataclass(frozen=True)
class Verdict:
    """Result of a trial, compared with a single process."""

    rows: int
    lost: int
    doubled: int
    wrong: int  # rows with other labels
    unknown: int  # ids that the input lacks

    @property
    def ok(self) -> bool:
        return not (self.lost or self.doubled or self.wrong or self.unknown)


def judge(rows: Iterable[tuple[str, list[str] | None]], expected: Mapping[str, list[str] | None]) -> Verdict:
    """Every id exactly once, with the expected labels."""
    counts, wrong = Counter[str](), 0
    for name, labels in rows:
        counts[name] += 1
        wrong += name in expected and labels != expected[name]
    doubled = sum(count - 1 for count in counts.values())
    return Verdict(
        counts.total(), len(expected.keys() - counts.keys()), doubled, wrong, len(counts.keys() - expected.keys())
    )
