"""Decode: scores in tables, read where they are; the answers are those of a decoder."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bridle
from bridle.arrow import Decode
from bridle.errors import BridleError, FeatureError
from bridle.tagging.arrow import scores_of

NAMES = ["O", "B-A", "I-A"]
LABELS = bridle.Labels(NAMES, scheme="BIO")
PAIRWISE = np.array([[0.0, 0.5, -np.inf], [0.0, -1.0, 1.0], [0.0, -1.0, 0.5]])
M = len(NAMES)
SCORE = st.one_of(st.floats(-5, 5, width=16), st.just(float("-inf")))
ROW = st.lists(st.lists(SCORE, min_size=M, max_size=M), max_size=4)
KINDS = {
    "lists": pa.list_(pa.list_(pa.float64())),
    "float": pa.list_(pa.list_(pa.float32())),
    "half": pa.list_(pa.list_(pa.float16())),
    "fixed": pa.list_(pa.list_(pa.float32(), M)),
    "large": pa.large_list(pa.large_list(pa.float64())),
}
RULES = ["at most 1 segment of A", "B-A before I-A  [penalty 0.5]"]


def listed(table: Any, name: str) -> list[Any]:
    rows: list[Any] = table.column(name).to_pylist()
    return rows


def half(rows: list[Any]) -> list[Any]:
    return [[[np.float16(x) for x in token] for token in row] for row in rows]


@settings(max_examples=20)
@pytest.mark.parametrize("kind", KINDS)
@given(rows=st.lists(ROW, max_size=4), before=st.lists(ROW, max_size=2), size=st.integers(1, 3))
def test_answers_are_those_of_a_decoder(kind: str, rows: list[Any], before: list[Any], size: int) -> None:
    whole = half([*before, *rows]) if kind == "half" else [*before, *rows]
    array = pa.array(whole, KINDS[kind]).slice(len(before))
    table = pa.table(
        {"scores": pa.chunked_array([array.slice(k, size) for k in range(0, len(rows), size)], KINDS[kind])}
    )
    lattices = [bridle.Lattice(np.array(row, dtype=np.float64).reshape(-1, M), PAIRWISE) for row in rows]
    wanted = bridle.Decoder(LABELS, RULES, on_infeasible="skip").decode_batch(lattices)
    result = Decode(RULES, LABELS, pairwise=PAIRWISE, on_infeasible="skip", scores=True)(table)
    assert listed(result, "status") == wanted.status.tolist()
    assert listed(result, "labels") == [None if k in wanted.unanswered else x for k, x in enumerate(wanted.labels)]
    for k, item in enumerate(wanted):
        if k not in wanted.unanswered:
            assert listed(result, "score")[k] == pytest.approx(item.score)


def test_scores_are_read_where_they_are() -> None:
    numbers = np.arange(12, dtype=np.float32)
    flat = pa.FixedSizeListArray.from_arrays(pa.array(numbers), M)
    for tokens in (flat, pa.ListArray.from_arrays(pa.array([0, 3, 6, 9, 12], pa.int32()), pa.array(numbers))):
        rows = pa.ListArray.from_arrays(pa.array([0, 1, 4], pa.int32()), tokens)
        unary, offsets = scores_of(rows.slice(1), "scores", M, {})
        assert unary.tolist() == numbers.reshape(-1, M)[1:].tolist() and offsets.tolist() == [0, 3]
        buffers = [buffer for buffer in rows.buffers() if buffer is not None]
        inside = [b.address <= unary.__array_interface__["data"][0] < b.address + b.size for b in buffers]
        assert any(inside), "nothing is copied"


def test_bad_rows_are_reported_by_row() -> None:
    nan, inf = float("nan"), float("inf")
    good = [[0.0, 1.0, -inf]]
    rows = [
        good,
        None,
        [[0.0, nan, 0.0]],
        [[0.0, inf, 0.0]],
        [[0.0, 1.0]],
        [*good, None],
        [[1.0, None, 0.0]],
        [],
        good * 2,
    ]
    result = Decode([], LABELS)(pa.table({"scores": pa.array(rows, pa.list_(pa.list_(pa.float64())))}))
    assert listed(result, "labels") == [["B-A"], *[None] * 6, [], ["B-A", "B-A"]]
    assert listed(result, "status") == ["optimal", *["error"] * 6, "optimal", "optimal"]
    errors = listed(result, "error")
    assert [error.split(";")[1] for error in errors[1:7]] == [
        " got null", " got nan", " got inf", " got 2 numbers", " got null", " got null"
    ]  # fmt: skip
    with pytest.raises(BridleError, match="row 2: a score in 'scores' is not a number to count with; got nan"):
        Decode([], LABELS, on_error="raise")(pa.table({"scores": pa.array([good, good, *rows[2:]], KINDS["lists"])}))
    fixed = pa.array([good, None, [[nan, 0, 0]], [None]], KINDS["fixed"])
    assert listed(Decode([], LABELS)(pa.table({"scores": fixed})), "status") == ["optimal", *["error"] * 3]
    assert listed(Decode([], LABELS)(pa.table({"scores": pa.nulls(2)})), "status") == ["error"] * 2


def test_tokens_and_values_for_rules() -> None:
    obeyed = ['fix B-A at tokens "Ada"', "forbid B-A at given no"]
    table = pa.table(
        {
            "logits": [[[1.0, 0, 0]] * 2] * 4,
            "words": [["Ada", "x"], ["x", "Ada"], ["x"], ["x", "y"]],
            "given": [{"no": 1}, {"no": 0}, {"no": 0}, None],
        }
    )
    decode = Decode(obeyed, LABELS, columns={"scores": "logits", "tokens": "words"})
    result = decode(table)
    assert listed(result, "labels") == [["B-A", "O"], ["O", "B-A"], None, None]
    assert "the columns differ in length; got 1 in 'tokens'" in listed(result, "error")[2]
    assert "given['no'] is missing" in listed(result, "error")[3]
    again = pickle.loads(pickle.dumps(decode))
    assert again(table).equals(result) and "2 rules, 3 labels" in repr(again)
    spans = Decode(
        obeyed[:1], LABELS, columns={"scores": "logits", "tokens": "words"}, output="spans", scores=True, k=2
    )
    assert listed(spans(table), "spans")[1] == [{"start": 1, "end": 2, "label": "A"}]
    with pytest.raises(FeatureError, match="no column 'scores'"):
        Decode(obeyed, LABELS)(table)
    other = Decode(["forbid O at pos /N/"], NAMES, columns={"scores": "logits", "pos": "words"})
    assert listed(other(table.set_column(1, "words", pa.array([["N", "x"]] * 4))), "labels")[0][0] != "O"


@pytest.mark.parametrize(
    "kind",
    [pa.float64(), pa.list_(pa.float64()), pa.list_(pa.list_(pa.string())), pa.list_(pa.list_(pa.float32(), M + 1))],
)
def test_types_that_can_never_work_are_refused(kind: Any) -> None:
    with pytest.raises(FeatureError, match=r"'scores' has a wrong type(.|\n)*wanted list<list<float>>"):
        Decode([], LABELS).check(pa.schema([("scores", kind)]))


def test_mistakes_show_when_it_is_made() -> None:
    with pytest.raises(BridleError, match="unknown label"):
        Decode(["forbid X"], LABELS)
    with pytest.raises(BridleError, match="pairwise"):
        Decode([], LABELS, pairwise=np.zeros((2, 2)))
    with pytest.raises(BridleError, match="`columns` names the columns"):
        Decode([], LABELS, scores="logits")  # type: ignore[arg-type]
    assert Decode([], NAMES).check().labels.names == tuple(NAMES)
