"""Documents in Arrow tables: rows of a document are labelled together, wherever a table is cut."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import bridle
from bridle.errors import EngineError, FeatureError

pa = pytest.importorskip("pyarrow")

from bridle.arrow import Decode, Tag  # noqa: E402  (it needs pyarrow)

SENTENCES = [["Boston", "is", "big"], ["Boston", "won"]]
RULE = "in the document: same label for equal tokens"


@pytest.fixture(scope="module")
def model() -> Any:
    gold = [["LOC", "O", "O"], ["ORG", "O"]]
    return bridle.CRF(features=["word[0]", "word[1]"], c2=0.1).fit(SENTENCES * 5, gold * 5)


def table(documents: list[Any]) -> Any:
    return pa.table({"tokens": [*SENTENCES, *SENTENCES, SENTENCES[1]], "doc": documents})


@pytest.mark.parametrize("rows", [1, 4096])
def test_a_document_is_never_cut(model: Any, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridle.tagging.arrow.MOST_ROWS", rows)
    tag, whole = Tag(model, [RULE], groups="doc", threads=2), table(["a", "a", "b", "b", "c"])
    wanted = model.predict(whole.column("tokens").to_pylist(), [RULE], groups=["a", "a", "b", "b", "c"])
    assert wanted != model.predict(whole.column("tokens").to_pylist(), [RULE])
    pieces = pa.concat_tables([whole.slice(0, 1), whole.slice(1, 2), whole.slice(3)])
    for data in (whole, pieces, whole.combine_chunks().to_batches()[0]):
        assert pickle.loads(pickle.dumps(tag))(data).column("labels").to_pylist() == wanted


def test_scores_of_documents() -> None:
    decode = Decode([RULE], ["O", "X"], groups="doc")
    data = pa.table({"scores": [[[0, 1.0]], [[2.0, 0]], [[0, 1.0]]], "tokens": [["a"]] * 3, "doc": [7, 7, 8]})
    result = decode(data)
    assert result.column("labels").to_pylist() == [["O"], ["O"], ["X"]]
    assert result.column("status").to_pylist() == ["optimal"] * 3


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        (["a", "b", "a", "b", "c"], "sequence 2: a document comes back after another one; got 'a'"),
        (["a", None, "b", "b", "c"], "sequence 1: 'doc' is null"),
        ([["a"]] * 5, "the column 'doc' has a wrong type"),
    ],
)
def test_what_names_no_document(model: Any, documents: list[Any], message: str) -> None:
    with pytest.raises(FeatureError, match=message):
        Tag(model, [RULE], groups="doc")(table(documents))


def test_documents_have_no_k_best(model: Any) -> None:
    with pytest.raises(EngineError, match="invalid value of `groups`"):
        Tag(model, groups="doc", k=2)
