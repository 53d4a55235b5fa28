"""Tables and columns in place of lists. Those of pandas and Polars: integrations/test_sklearn.py."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bridle.errors import FeatureError, LabelError, MissingExtra
from bridle.frames import cells, is_missing, rows, sequences
from bridle.models import CRF, LocalTagger

WORDS = [["the", "cat"], ["dogs"]]
TABLE = pa.table({"word": WORDS, "pos": [["D", "N"], ["N"]], "id": [7, 8]})


def test_rows_of_tables_and_cells_of_columns() -> None:
    assert rows(TABLE) == [
        {"word": ["the", "cat"], "pos": ["D", "N"], "id": 7},
        {"word": ["dogs"], "pos": ["N"], "id": 8},
    ]
    assert rows(TABLE["word"]) == rows(TABLE["word"].combine_chunks()) == WORDS
    assert cells(TABLE["word"]) == cells(TABLE.select(["word"])) == WORDS
    assert rows(TABLE.slice(0, 0)) == []


@pytest.mark.parametrize("data", [WORDS, tuple(WORDS), "the cat", None, 5, {"word": WORDS}, np.zeros((2, 2))])
def test_what_is_neither_is_left_alone(data: Any) -> None:
    assert rows(data) is data and cells(data) is data


class Stream:
    """Something that only speaks Arrow."""

    def __init__(self, table: pa.Table = TABLE) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def test_what_only_speaks_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows(Stream()) == rows(TABLE)
    assert cells(Stream(TABLE.select(["word"]))) == WORDS
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"bridle-nlp\[arrow\]"):
        rows(Stream())


class Twice:
    """A table that has two columns of one name."""

    columns = ("word", "word")

    def __len__(self) -> int:
        return 2

    def __getitem__(self, name: str) -> object:
        return WORDS


def test_tables_that_are_no_use() -> None:
    with pytest.raises(FeatureError, match="'word' occurs twice"):
        rows(Twice())
    with pytest.raises(LabelError, match=r"one column, not a table; got .* 'word', 'pos', 'id'"):
        cells(TABLE)


@pytest.mark.parametrize("cell", [None, float("nan"), np.nan, np.datetime64("NaT")])
def test_empty_cells(cell: Any) -> None:
    assert is_missing(cell)


@pytest.mark.parametrize("cell", [[], "", 0, np.zeros(2), (), {}])
def test_cells_that_are_not_empty(cell: Any) -> None:
    assert not is_missing(cell)


# ---- long tables ----------------------------------------------------------------------------------------------------

LONG = {
    "document": [1, 1, 1, 2],
    "sentence": [1, 1, 2, 1],
    "word": ["the", "cat", "dogs", "cats"],
    "pos": ["D", "N", "N", "N"],
    "tag": ["X", "Y", "Y", "Y"],
}


def long(**columns: Any) -> pa.Table:
    return pa.table({**LONG, **columns})


def test_long_tables() -> None:
    X, y = sequences(long(), by=["document", "sentence"], columns=["word", "pos"], label="tag")
    assert X == [
        {"word": ["the", "cat"], "pos": ["D", "N"]},
        {"word": ["dogs"], "pos": ["N"]},
        {"word": ["cats"], "pos": ["N"]},
    ]
    assert y == [["X", "Y"], ["Y"], ["Y"]]
    X, y = sequences(long().select(["document", "word"]), by="document")
    assert X == [{"word": ["the", "cat", "dogs"]}, {"word": ["cats"]}] and y is None
    assert sequences(long().slice(0, 0), by="document", columns=["word"], label="tag") == ([], [])


@pytest.mark.parametrize(
    ("change", "by", "more", "says"),
    [
        ({}, "page", {}, "no column 'page'; got 'document', 'sentence'"),
        ({}, "document", {"columns": ["lemma"]}, "no column 'lemma'"),
        ({}, "document", {"label": "label"}, "no column 'label'"),
        ({}, [], {}, "no column identifies sequences"),
        ({}, "document", {"columns": []}, "no column of text is left"),
        ({}, "sentence", {"columns": ["word"]}, r"scattered; got 'sentence' = 1 again in row 3(.|\n)*by=\[document"),
        ({"document": [1, None, 2, None]}, "document", {}, r"row 1 belongs to no sequence(.|\n)*ffill"),
        (
            {"word": ["a", None, "b", "c"]},
            "document",
            {"columns": ["word"]},
            r"row 1 .* is empty(.|\n)*keep_default_na",
        ),
        ({}, "document", {}, r"row 0 of column 'sentence' is not a string; got 1(.|\n)*columns="),
    ],
)
def test_long_tables_that_cannot_be(change: Any, by: Any, more: Any, says: str) -> None:
    with pytest.raises(FeatureError, match=says):
        sequences(long(**change), by=by, **more)


def test_labels_of_long_tables() -> None:
    with pytest.raises(LabelError, match="row 1 of column 'tag' is not a string"):
        sequences(long(tag=[None, 1, 2, 3]), by="document", columns=["word"], label="tag")
    with pytest.raises(FeatureError, match="this is not a table"):
        sequences(LONG, by="document")


# ---- models ---------------------------------------------------------------------------------------------------------


def test_models_take_tables() -> None:
    y = pa.array([["D", "N"], ["N"]])
    model = CRF(features=["word[0]", "pos[0]", "label[-1]"]).fit(TABLE, y, dev=(TABLE, y), given=TABLE.select(["id"]))
    plain = CRF(features=["word[0]", "pos[0]", "label[-1]"]).fit(rows(TABLE), y.to_pylist(), dev=(rows(TABLE), y))
    assert model.fingerprint_ == plain.fingerprint_
    assert model.predict(TABLE) == plain.predict(rows(TABLE)) == y.to_pylist()
    assert model.score(TABLE, y) == 1.0 and model.share_seen(TABLE) == 1.0
    assert len(model.lattices(TABLE)) == len(model.cross_fit(TABLE, y, folds=2, groups=TABLE["id"]).lattices()) == 2
    verb = model.predict(TABLE, rules=["fix D at given verb"], given=pa.table({"verb": [1, 0]}))
    assert verb == [["D", "D"], ["D"]]


@pytest.mark.parametrize(
    ("X", "says"),
    [
        (pa.table({"word": [["a"], None], "pos": [["a"], ["b"]]}), r"sequence 1: .* got None(.|\n)*cell is empty"),
        (pa.table({"word": [["a"], ["b"]], "pos": [["a"], ["b", "c"]]}), "sequence 1: the columns differ in length"),
        (pa.table({"word": [["a"], ["b"]]}), "no column or function 'pos'; got(.|\\n)*one of the columns word,"),
        (
            pa.table({"word": [["a"], ["b"]], "text__pos": [["a"], ["b"]]}),
            r"function 'pos'(.|\n)*'text__pos' has the name of a step(.|\n)*verbose_feature_names_out=False",
        ),
        (pa.table({"word": [["a"], [None]], "pos": [["a"], ["b"]]}), "sequence 1: a token in .* is null"),
        (pa.table({"word": ["a", "b"], "pos": ["a", "b"]}), r"bridle\.frames\.sequences"),
    ],
)
def test_tables_that_models_cannot_take(X: Any, says: str) -> None:
    with pytest.raises(FeatureError, match=says):
        LocalTagger(features=["word[0]", "pos[0]"]).fit(X, [["A"], ["B"]])


def test_columns_that_models_cannot_take() -> None:
    with pytest.raises(LabelError, match=r"sequence 1: .* got None(.|\n)*cell is empty"):
        LocalTagger(features=["word[0]"]).fit([["a"], ["b"]], pa.array([["A"], None]))
    with pytest.raises(FeatureError, match=r"sequence 1: .* got None(.|\n)*leave it out"):
        LocalTagger().fit(pa.array([[["a"]], None]), [["A"], ["B"]])
    nameless = np.array([[("a",), ("b", "c")], [("d", "e"), ("f",)]], dtype=object)
    with pytest.raises(FeatureError, match="lost the names of its columns"):
        LocalTagger(features=["word[0]"]).fit(nameless, [["A", "B"], ["B", "A"]])
