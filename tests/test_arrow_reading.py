"""Columns of Arrow tables: all types that hold texts are read alike, and faults are found by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.arrow import reading
from bridle.arrow.reading import TextColumn, given_of, is_text, is_texts, parts_of, split_text
from bridle.errors import FeatureError

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
    found = TextColumn.of(array, "tokens")
    assert found.errors.keys() == {k for k, row in enumerate(rows) if row is None or None in row}
    for k, row in enumerate(rows):
        if k not in found.errors:
            assert found.texts[int(found.offsets[k]) : int(found.offsets[k + 1])].tolist() == row
    assert sum(high - low for low, high in parts_of(array)) == len(rows)


@settings(max_examples=25)
@given(st.lists(st.tuples(TEXT, TEXT), max_size=5), st.integers(0, 3))
def test_lists_of_one_length(rows: list[tuple[str, str]], first: int) -> None:
    array = pa.array([*[["a", "b"]] * first, *map(list, rows), None], pa.list_(pa.string(), 2))
    found = TextColumn.of(array.slice(first), "tokens")
    assert found.errors.keys() == {len(rows)}
    assert found.texts[: 2 * len(rows)].tolist() == [text for row in rows for text in row]
    assert found.offsets.tolist() == [*range(0, 2 * len(rows) + 3, 2)]


def test_columns_of_no_type() -> None:
    assert TextColumn.of(pa.nulls(2), "x").errors.keys() == {0, 1}
    found = TextColumn.of(pa.array([[], []], pa.list_(pa.null())), "x")
    assert not found.errors and found.offsets.tolist() == [0, 0, 0]
    assert len(TextColumn.of(pa.array([], pa.list_(pa.string())), "x").texts) == 0


@pytest.mark.parametrize("kind", [pa.int32(), pa.list_(pa.int32()), pa.list_(pa.list_(pa.string())), pa.binary()])
def test_other_types_are_not_texts(kind: Any) -> None:
    assert not is_texts(kind) and not is_text(kind)


def test_long_tokens() -> None:
    fits, beyond = "x" * reading.LONGEST, "é" * (reading.LONGEST // 2 + 1)
    found = TextColumn.of(pa.array([[fits], ["a", beyond], ["b"]]), "tokens")
    assert found.errors.keys() == {1}
    assert str(found.errors[1]).startswith("a token in 'tokens' is too long; got 65,538 bytes; wanted at most 65,536.")


def test_bytes_that_are_not_text() -> None:
    values = pa.array([b"ok", b"\xff", b"\xc3", b"\xa9"], pa.binary()).view(pa.string())
    array = pa.ListArray.from_arrays(pa.array([0, 1, 2, 4], pa.int32()), values)
    found = TextColumn.of(array, "tokens")
    assert found.errors.keys() == {1, 2}, "half a character is no token"
    assert "not UTF-8" in str(found.errors[2])


def test_damaged_arrays_are_refused() -> None:
    cuts = pa.py_buffer(np.array([0, 3, 2], dtype=np.int32))  # what else could be wrong, Arrow sees when it is made
    rows = pa.ListArray.from_buffers(pa.list_(pa.string()), 2, [None, cuts], children=[pa.array(["a", "b", "c"])])
    strings = pa.StringArray.from_buffers(2, cuts, pa.py_buffer(b"abc"))
    for array in (rows, pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), strings)):
        with pytest.raises(FeatureError, match="the column 'tokens' is damaged"):
            TextColumn.of(array, "tokens")


def test_parts_have_a_bounded_number_of_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_TOKENS", 10)
    monkeypatch.setattr(reading, "MOST_ROWS", 3)
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
        found, places = split_text(typed, "text", "punctuation")
        assert found.errors.keys() == {k for k, row in enumerate(rows) if row is None}
        for k, row in enumerate(rows):
            tokens = found.texts[int(found.offsets[k]) : int(found.offsets[k + 1])].tolist()
            begins, ends = (part.tolist() for part in places.between(k, k + 1))
            assert [(row or "")[a:b] for a, b in zip(begins, ends, strict=True)] == tokens
            assert row is None or "".join(tokens) == "".join(row.split())


def test_text_with_a_token_that_is_too_long() -> None:
    found, _ = split_text(pa.array(["a b", "x" * 70_000, "a " * 70_000]), "text", "blanks")
    assert found.errors.keys() == {1}, "a long text is no long token"
    assert found.texts.tolist() == ["a", "b", *["a"] * 70_000]


def test_values_come_as_structs_maps_or_json() -> None:
    struct = pa.array([{"verb": 1, "x": None}, None, {"verb": None, "x": "y"}])
    assert given_of(struct, "given") == ([{"verb": 1}, {}, {"x": "y"}], {})
    text = pa.array(['{"verb": [1, 2], "x": null}', None, "[1]", "{", '"x"'])
    found, errors = given_of(text, "given")
    assert found == [{"verb": [1, 2]}, {}, {}, {}, {}] and errors.keys() == {2, 3, 4}
    assert "'given' is not JSON" in str(errors[3]) and "has no names" in str(errors[4])
    assert given_of(pa.array([[("verb", 2)], None], pa.map_(pa.string(), pa.int64())), "g")[0] == [{"verb": 2}, {}]
