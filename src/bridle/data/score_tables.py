"""Scores in Parquet and Arrow tables: a row per sequence.

The column `scores` (or `unary`, `logits`) has lists of lists of numbers; `tokens`, `given` and `id` are read if they
are there. The schema may name the labels, in the metadata "labels": a JSON list.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from bridle.data.parquet import Arrow, Parquet
from bridle.data.source import Source
from bridle.errors import FileError
from bridle.lattice import Batch
from bridle.tagging.arrow import Errors, given_of, ids_of, scores_of, texts_of

Rows = tuple[Batch, list[dict[str, Any]], list[Any], list[str]]  # scores, given values, ids, places
_SCORES = ("scores", "unary", "logits")  # names of the column


def _wanted(schema: Any) -> list[str]:
    """Return the columns to read of a score table, that of the scores first."""
    scores = next((name for name in _SCORES if name in schema.names), None)
    if scores is None:
        got, wanted = ", ".join(schema.names[:8]) or "no columns", "a column 'scores': list<list<float>>"
        raise FileError("the table has no scores", got=got, wanted=wanted)
    return [scores, *(name for name in ("tokens", "given", "id") if name in schema.names)]


class ScoreTable:
    """Reads sequences from the rows of a table."""

    def __init__(self, path: str, magic: bytes, n_labels: int | None) -> None:
        self.source, self.at = Source(path), 0
        self.format = Parquet() if magic.startswith(b"PAR1") else Arrow()
        self.batches = self.format.batches(self.source, wanted=_wanted)
        with self.format.guarded(self.source):
            self.head = next(self.batches, None)
            schema = None if self.head is None else self.head[1].schema
            named = (schema.metadata or {}).get(b"labels") if schema is not None else None
            self.labels = None if named is None else tuple(map(str, json.loads(named)))
            if schema is not None and self.labels is None and n_labels is None:
                inner = schema.field(_wanted(schema)[0]).type.value_type
                n_labels = getattr(inner, "list_size", None) or self._width()
        self.m = len(self.labels) if self.labels is not None else n_labels or 0

    def _width(self) -> int:
        """Return the number of scores of the first token."""
        rows = [] if self.head is None else self.head[1].column(_wanted(self.head[1].schema)[0]).to_pylist()
        return next((len(row[0]) for row in rows if row), 0)

    def __iter__(self) -> Iterator[Rows]:
        while self.head is not None:
            with self.format.guarded(self.source):
                first, batch, _ = self.head
                rows = self.rows(first, batch)
                self.at = first + batch.num_rows
            yield rows
            with self.format.guarded(self.source):
                self.head = next(self.batches, None)

    def rows(self, first: int, batch: Any) -> Rows:
        """Read a record batch."""
        errors: Errors = {}
        n, columns = batch.num_rows, dict(zip(batch.schema.names, batch.columns, strict=True))
        name = _wanted(batch.schema)[0]
        unary, offsets = scores_of(columns[name], name, self.m, errors)
        givens = [dict(x) for x in given_of(columns["given"], "given", errors)] if "given" in columns else [{}] * n
        where = [f"{self.source.name}: row {first + k}" for k in range(n)]
        if "tokens" in columns:
            texts = texts_of(columns["tokens"], "tokens", errors)
            givens = [{"tokens": list(texts.row(k) or ()), **given} for k, given in enumerate(givens)]
            for k in np.flatnonzero(np.diff(texts.offsets) != np.diff(offsets)).tolist():
                got, wanted = len(givens[k]["tokens"]), int(np.diff(offsets)[k])
                errors.setdefault(k, FileError("tokens and scores differ in length", got=got, wanted=wanted))
        for k, error in sorted(errors.items()):
            raise error.at(where=where[k])
        ids = list(ids_of(columns["id"], "id")) if "id" in columns else list(range(first, first + n))
        return Batch(unary, offsets), givens, ids, where
