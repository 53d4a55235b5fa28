"""Inputs of the measurements at scale: models, and files of any number of rows in three formats.

Files are made once and stay in the folder of the run. References are generated (scale_data.py); sentences are those of
the CoNLL-2000 test set, over and over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import bridle
import scale_data
from bridle import data

GROUP = 10_240  # rows of a row group: a multiple of the 1,024 rows that the reader of version 0.1 takes at a time
CHUNK_RULES = ["well formed", "at most 1 segment of PRT", "if PRT then VP", "at most 3 segments of SBAR"]


@dataclass(frozen=True)
class Inputs:
    """A model, rules and files of rows, all in one folder."""

    folder: Path
    name: str  # of what is tagged
    columns: tuple[str, ...]  # of a file, the tokens first
    sentences: list[str]  # the rules

    @property
    def model(self) -> Path:
        """The model file."""
        return self.folder / f"{self.name}.bridle"

    @property
    def rules(self) -> Path:
        """The rules, as a file."""
        path = self.folder / f"{self.name}.rules"
        if not path.exists():
            path.write_text("\n".join(self.sentences) + "\n", encoding="utf-8")
        return path

    def rows(self, count: int) -> Iterator[pa.RecordBatch]:
        """Batches of rows with an id and columns of texts."""
        raise NotImplementedError

    def file(self, format: str, rows: int) -> Path:
        """A file of so many rows; made if it is not there."""
        path = self.folder / f"{self.name}-{rows}.{format}"
        if not path.exists():
            part = path.with_suffix(".part")
            _WRITERS[format](part, self.rows(rows), self.columns)
            part.rename(path)
        return path

    def tokens(self, rows: int) -> int:
        """Count the tokens of so many rows."""
        file = pq.ParquetFile(self.file("parquet", rows))
        return sum(len(batch.column(0).flatten()) for batch in file.iter_batches(columns=[self.columns[0]]))


class References(Inputs):
    """Generated references."""

    @classmethod
    def at(cls, folder: Path) -> References:
        """With a model that is trained now, unless it is there."""
        inputs = cls(folder, "references", ("tokens",), scale_data.RULES)
        if not inputs.model.exists():
            scale_data.train(inputs.model)
        return inputs

    def rows(self, count: int) -> Iterator[pa.RecordBatch]:
        return scale_data.rows(count)


@dataclass(frozen=True)
class Chunks(Inputs):
    """Sentences of CoNLL-2000, with parts of speech."""

    test: Path

    @classmethod
    def at(cls, folder: Path, corpus: Path) -> Chunks:
        """With a model that is trained now, unless it is there."""
        inputs = cls(folder, "chunks", ("tokens", "pos"), CHUNK_RULES, corpus / "chunk-conll2000" / "test.txt.gz")
        if not inputs.model.exists():
            X, y = data.load(inputs.test.with_name("train.txt.gz"), "conll", columns=["word", "pos", "chunk"])
            bridle.CRF(features="chunking", c1=0.0, c2=1.0, iterations=30).fit(X, y).save(inputs.model)
        return inputs

    @cached_property
    def _known(self) -> list[dict[str, list[str]]]:
        X, _ = data.load(self.test, "conll", columns=["word", "pos", "chunk"])
        return [dict(x) for x in X]

    def rows(self, count: int) -> Iterator[pa.RecordBatch]:
        left = islice(enumerate(cycle(self._known)), count)
        while some := list(islice(left, scale_data.PART)):
            lists = {name: pa.array([x[own] for _, x in some]) for name, own in (("tokens", "word"), ("pos", "pos"))}
            yield pa.record_batch({"id": [f"s{k:08}" for k, _ in some], **lists})


def large_model(path: Path, words: int) -> Path:
    """A model of so many words that occur once, in a file; trained now, unless it is there."""
    if not path.exists():
        X = [[f"word{k}" for k in range(first, first + 10)] for first in range(0, words, 10)]
        y = [["AUTHOR"] * 5 + ["TITLE"] * 5 for _ in X]
        features = ["word[-1]", "word[0]", "word[1]"]
        bridle.CRF(features=features, scheme="IO", c1=0.0, c2=1.0, iterations=2).fit(X, y).save(path)
    return path


def _write_parquet(path: Path, batches: Iterator[pa.RecordBatch], columns: tuple[str, ...]) -> None:
    table = pa.Table.from_batches(batches)
    pq.write_table(table.select(["id", *columns]), path, row_group_size=GROUP)


def _write_json(path: Path, batches: Iterator[pa.RecordBatch], columns: tuple[str, ...]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for batch in batches:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in batch.to_pylist())


def _write_columns(path: Path, batches: Iterator[pa.RecordBatch], columns: tuple[str, ...]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for batch in batches:
            for row in batch.select(columns).to_pylist():
                file.writelines("\t".join(texts) + "\n" for texts in zip(*row.values(), strict=True))
                file.write("\n")


_WRITERS: dict[str, Any] = {"parquet": _write_parquet, "jsonl": _write_json, "conll": _write_columns}
