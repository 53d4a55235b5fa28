"""Data frames, datasets and spaCy give what the reference gives: see tests/routes.py."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import polars as pl
import pytest
import spacy
from spacy.tokens import Doc

import routes
from routes import CASES, NONE, Result, Row, Setting, failed, failure_of, lists_of, of_columns, other, table_of, tag_of


def pandas_frame(setting: Setting, rows: Sequence[Row]) -> list[Result]:
    records = tag_of(setting)(pd.DataFrame(lists_of(setting.case, rows))).to_dict("records")
    return of_columns([{str(name): _plain(value) for name, value in row.items()} for row in records])


def _plain(value: Any) -> Any:
    """A cell; what is missing is None."""
    return None if isinstance(value, float) and math.isnan(value) else value


def polars_frame(setting: Setting, rows: Sequence[Row]) -> list[Result]:
    frame = pl.from_arrow(table_of(setting.case, rows, ids=False))
    return of_columns(tag_of(setting)(frame).to_dicts())


def mapped(setting: Setting, rows: Sequence[Row]) -> list[Result]:
    dataset = datasets.Dataset(table_of(setting.case, rows, ids=False))
    dataset = dataset.map(tag_of(setting), batched=True, batch_size=300, load_from_cache_file=False)
    return of_columns(dataset)


def spacy_docs(setting: Setting, rows: Sequence[Row]) -> list[Result]:
    case = setting.case
    nlp = spacy.blank("en")
    config = {"rules": list(case.rules), "on_infeasible": case.on_infeasible, "scores": "marginals"}
    tagger: Any = nlp.add_pipe("bridle_tagger", config=config)
    tagger.model = setting.model
    docs = [Doc(nlp.vocab, words=row.tokens, user_data={"row": k}) for k, row in enumerate(rows)]
    result: dict[int, Result] = {}

    def note(name: str, component: Any, some: list[Doc], error: Exception) -> None:
        result.update({doc.user_data["row"]: failure_of(error) for doc in some})

    nlp.set_error_handler(note)
    for doc in nlp.pipe(docs, batch_size=300):
        result[doc.user_data["row"]] = _of_doc(doc)
    return [result[k] for k in range(len(rows))]


def _of_doc(doc: Doc) -> Result:
    if not len(doc):  # it has no sequence
        return Result([], "optimal", 0.0, probabilities=[], error=None)
    [record] = doc._.bridle["bridle_tagger"]
    if record["status"] == "infeasible":
        return failed(NONE, status="infeasible")
    labels = [token.tag_ for token in doc]
    return Result(labels, record["status"], record["score"], probabilities=record.get("probabilities"), error=None)


RUNS = {"pandas": pandas_frame, "Polars": polars_frame, "datasets": mapped, "spaCy": spacy_docs}


@pytest.mark.parametrize(
    ("name", "case"), [(name, case) for name, run in RUNS.items() for case in other(name, run).cases]
)
def test_a_route_gives_what_the_reference_gives(name: str, case: str, tmp_path: Path) -> None:
    routes.check(other(name, RUNS[name]), CASES[case], tmp_path)
