"""Columns of Arrow tables: all types that hold texts are read alike, and faults are found by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.data.tokenizer import tokenize
from bridle.errors import FeatureError
from bridle.tagging import Column, arrow
from bridle.tagging.arrow import Errors, given_of, is_text, is_texts, parts_of, split_text, texts_of

TEXT = st.one_of(st.text(max_size=4), st.sampled_from(["", "\0", "\n", "a\nb", "naïve", "日本", "x" * 40]))
CELLS = st.lists(st.one_of(st.none(), TEXT), max_size=4)
ROWS = st.lists(st.one_of(st.none(), CELLS), max_size=6)
VIEWS = hasattr(pa, "string_view")
LIST_VIEWS = hasattr(pa, "list_view")
KINDS = [
    "list",
    "large_list",
    "dictionary",
    "large",
    *(["view"] if VIEWS else []),
    *(["list_view"] if LIST_VIEWS else []),
]


def read(array: Any, name: str = "tokens") -> tuple[Column, Errors]:
    """A column of lists of texts, and what is wrong with its rows."""
    errors: Errors = {}
    return texts_of(array, name, errors), errors


def column(rows: list[list[str | None] | None], kind: str) -> Any:
    """The rows as an array of this kind."""
    plain = pa.array(rows, pa.list_(pa.string()))
    if kind == "dictionary":
        return pa.array(rows, pa.list_(pa.dictionary(pa.int8(), pa.string())))
    if kind == "list_view":
        return pa.array(rows, pa.list_view(pa.string()))
    kinds = {"list": plain.type, "large_list": pa.large_list(pa.string()), "large": pa.list_(pa.large_string())}
    if VIEWS:
        kinds["view"] = pa.list_(pa.string_view())
    return plain.cast(kinds[kind])


@settings(max_examples=25)
@pytest.mark.parametrize("kind", KINDS)
@given(rows=ROWS, before=ROWS, after=ROWS)
def test_all_kinds_of_columns_are_read_alike(kind: str, rows: list[Any], before: list[Any], after: list[Any]) -> None:
    array = column([*before, *rows, *after], kind).slice(len(before), len(rows))
    assert is_texts(array.type)
    result, errors = read(array)
    assert errors.keys() == {k for k, row in enumerate(rows) if row is None or None in row}
    for k, row in enumerate(rows):
        if k not in errors:
            assert result.row(k) == row
    assert sum(high - low for low, high in parts_of(array)) == len(rows)


@settings(max_examples=25)
@given(st.lists(st.tuples(TEXT, TEXT), max_size=5), st.integers(0, 3))
def test_lists_of_one_length(rows: list[tuple[str, str]], first: int) -> None:
    array = pa.array([*[["a", "b"]] * first, *map(list, rows), None], pa.list_(pa.string(), 2))
    result, errors = read(array.slice(first))
    assert errors.keys() == {len(rows)}
    assert list(result.texts[: 2 * len(rows)]) == [text for row in rows for text in row]
    assert result.offsets.tolist() == [*range(0, 2 * len(rows) + 3, 2)]


def test_columns_of_no_type() -> None:
    assert read(pa.nulls(2))[1].keys() == {0, 1}
    result, errors = read(pa.array([[], []], pa.list_(pa.null())))
    assert not errors and result.offsets.tolist() == [0, 0, 0]
    assert len(read(pa.array([], pa.list_(pa.string())))[0].texts) == 0


@pytest.mark.parametrize("kind", [pa.int32(), pa.list_(pa.int32()), pa.list_(pa.list_(pa.string())), pa.binary()])
def test_other_types_are_not_texts(kind: Any) -> None:
    assert not is_texts(kind) and not is_text(kind)


def test_bytes_that_are_not_text() -> None:
    values = pa.array([b"ok", b"\xff", b"\xc3", b"\xa9"], pa.binary()).view(pa.string())
    array = pa.ListArray.from_arrays(pa.array([0, 1, 2, 4], pa.int32()), values)
    _, errors = read(array)
    assert errors.keys() == {1, 2}, "half a character is no token"
    assert "not UTF-8" in str(errors[2])


def test_damaged_arrays_are_refused() -> None:
    cuts = pa.py_buffer(np.array([0, 3, 2], dtype=np.int32))  # what else could be wrong, Arrow sees when it is made
    rows = pa.ListArray.from_buffers(pa.list_(pa.string()), 2, [None, cuts], children=[pa.array(["a", "b", "c"])])
    strings = pa.StringArray.from_buffers(2, cuts, pa.py_buffer(b"abc"))
    for array in (rows, pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), strings)):
        with pytest.raises(FeatureError, match="the column 'tokens' is damaged"):
            read(array)


def test_parts_have_a_bounded_number_of_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "MOST_TOKENS", 10)
    monkeypatch.setattr(arrow, "MOST_ROWS", 3)
    sizes = [4, 5, 6, 50, 0, 0, 0, 0, 1]
    array = pa.array([["x"] * n for n in sizes])
    assert list(parts_of(array)) == [(0, 2), (2, 3), (3, 4), (4, 7), (7, 9)]
    assert list(parts_of(pa.array(["x" * 20, "x" * 19, "y"]))) == [(0, 3)]
    assert list(parts_of(pa.array([], pa.list_(pa.string())))) == []


# ---- text, and values -----------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.lists(st.one_of(st.none(), st.text(max_size=12)), max_size=5))
def test_text_is_split_with_its_places(rows: list[str | None]) -> None:
    array = pa.array(rows, pa.string())
    for typed in (array, array.cast(pa.large_string()), array.dictionary_encode()):
        errors: Errors = {}
        result, (first, last) = split_text(typed, "text", tokenize, errors)
        assert errors.keys() == {k for k, row in enumerate(rows) if row is None}
        for k, row in enumerate(rows):
            tokens = [text or "" for text in result.row(k) or ()]
            begins, ends = (part[slice(*result.offsets[k : k + 2])].tolist() for part in (first, last))
            assert [(row or "")[a:b] for a, b in zip(begins, ends, strict=True)] == tokens
            assert row is None or "".join(tokens) == "".join(row.split())


def test_values_come_as_structs_maps_or_json() -> None:
    struct = pa.array([{"verb": 1, "x": None}, None, {"verb": None, "x": "y"}])
    errors: Errors = {}
    assert given_of(struct, "given", errors) == [{"verb": 1}, {}, {"x": "y"}] and not errors
    text = pa.array(['{"verb": [1, 2], "x": null}', None, "[1]", "{", '"x"'])
    result = given_of(text, "given", errors)
    assert result == [{"verb": [1, 2]}, {}, {}, {}, {}] and errors.keys() == {2, 3, 4}
    assert "'given' is not JSON" in str(errors[3]) and "has no names" in str(errors[4])
    assert given_of(pa.array([[("verb", 2)], None], pa.map_(pa.string(), pa.int64())), "g", {}) == [{"verb": 2}, {}]
