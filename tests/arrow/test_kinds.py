"""Tables of any kind as Arrow tables, and back. Those of pandas and others: integrations/test_arrow_frames.py."""

from __future__ import annotations

import sys
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.arrow.kinds import as_table
from bridle.errors import FeatureError, MissingExtra

TOKENS = [["a", "b"], [], None, ["c"]]
TABLE = pa.table({"id": [1, 2, 3, 4], "tokens": TOKENS})
LENGTHS = [2, 0, None, 1]


def lengths(table: Any) -> Any:
    """Add columns, and drop the id and an old status, like a function of tables."""
    built = [pa.array(LENGTHS[: len(table)], pa.int64()), pa.array(["fine"] * len(table), pa.string())]
    kept = [field for field in table.schema if field.name not in ("id", "status")]
    schema = pa.schema([*kept, pa.field("n", pa.int64()), pa.field("status", pa.string())])
    return type(table).from_arrays([*(table.column(field.name) for field in kept), *built], schema=schema)


ADDED = [{"n": n, "status": "fine"} for n in LENGTHS]


class Stream:
    """Something that only speaks Arrow."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._data.__arrow_c_stream__(requested_schema)


class Whole:
    """Something that only speaks Arrow, as a single array."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._data.__arrow_c_array__(requested_schema)


# ---- tables ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [TABLE, TABLE.to_batches()[0]], ids=["table", "batch"])
def test_arrow_tables_are_left_alone(data: Any) -> None:
    table, back = as_table(data)
    assert table is data and back(lengths(table)).schema.names == ["tokens", "n", "status"]


def test_a_dict_of_lists() -> None:
    data = {"id": [1, 2, 3, 4], "tokens": TOKENS}
    table, back = as_table(data)
    assert table.to_pydict() == data
    assert back(lengths(table)) == {"tokens": TOKENS, "n": LENGTHS, "status": ["fine"] * 4}
    assert list(data) == ["id", "tokens"], "the caller's dict is as it was"
    _, back = as_table(MappingProxyType(data))
    assert list(back(lengths(table))) == ["tokens", "n", "status"]


def test_what_was_added_is_not_what_was_there_under_its_name() -> None:
    data = {"status": ["old"] * 4, "tokens": TOKENS}
    table, back = as_table(data)
    assert back(lengths(table)) == {"tokens": TOKENS, "n": LENGTHS, "status": ["fine"] * 4}
    array = pa.StructArray.from_arrays([pa.array(["old"] * 4), pa.array(TOKENS)], names=["status", "tokens"])
    table, back = as_table(array)
    assert back(lengths(table)).to_pylist() == ADDED


def test_a_dict_without_rows() -> None:
    table, back = as_table({"tokens": []})
    assert table.num_rows == 0
    assert back(lengths(table)) == {"tokens": [], "n": [], "status": []}
    assert as_table({})[0].num_rows == 0


def test_what_nobody_wants_is_not_converted() -> None:
    class Lazy(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            assert name == "tokens", "this column would have to be decoded"
            return super().__getitem__(name)

    data = Lazy(id=[1, 2, 3, 4], tokens=TOKENS)
    table, back = as_table(data, wanted=["tokens", "text"])
    assert table.schema.field("id").type == pa.null() and table.column("tokens").to_pylist() == TOKENS
    result = back(table.append_column("n", [LENGTHS]))
    assert dict.__getitem__(result, "id") == [1, 2, 3, 4] and result["tokens"] == TOKENS


def test_what_only_speaks_arrow() -> None:
    table, back = as_table(Stream(TABLE))
    assert table == TABLE and back(table) is table
    batch, back = as_table(Whole(TABLE.to_batches()[0]))
    assert batch == TABLE.to_batches()[0] and back(batch) is batch


# ---- columns --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [Stream(TABLE["tokens"]), TABLE["tokens"]], ids=["stream", "chunked"])
def test_a_chunked_column_becomes_one_of_structs(data: Any) -> None:
    table, back = as_table(data, column="word")
    assert table.column_names == ["word"]
    result = back(lengths(table))
    assert isinstance(result, pa.ChunkedArray) and result.to_pylist() == ADDED


@pytest.mark.parametrize("wrap", [Whole, lambda array: array], ids=["capsule", "array"])
def test_an_array_becomes_an_array_of_structs(wrap: Any) -> None:
    table, back = as_table(wrap(pa.array(TOKENS)))
    result = back(lengths(table))
    assert isinstance(result, pa.StructArray) and result.to_pylist() == ADDED


@pytest.mark.parametrize("chunked", [True, False])
def test_a_column_of_structs_stands_for_a_table(chunked: bool) -> None:
    array = pa.StructArray.from_arrays([pa.array([1, 2, 3, 4]), pa.array(TOKENS)], names=["id", "tokens"])
    table, back = as_table(pa.chunked_array([array.slice(0, 1), array.slice(1)]) if chunked else array)
    assert table.to_pydict() == TABLE.to_pydict()
    assert back(lengths(table)).to_pylist() == ADDED


def test_a_column_without_chunks() -> None:
    table, back = as_table(pa.chunked_array([], pa.list_(pa.string())))
    assert back(lengths(table)).type == pa.struct([("n", pa.int64()), ("status", pa.string())])


# ---- cells that do not fit ------------------------------------------------------------------------------------------


def test_cells_that_do_not_fit_are_null() -> None:
    cells = [["a"], 5, ["b", 3], "text", ["\ud800"], [], None, [None], ["c", "d"], object()]
    table, _ = as_table({"tokens": cells})
    assert table.column("tokens").to_pylist() == [["a"], None, None, None, None, [], None, [None], ["c", "d"], None]
    assert table.schema.field("tokens").type == pa.list_(pa.string())


def test_a_column_that_arrow_cannot_hold_is_null() -> None:
    data = {"tokens": [["a"]], "what": [object()]}
    table, back = as_table(data)
    assert table.schema.field("what").type == pa.null()
    assert back(table)["what"] is data["what"]


CELLS = st.none() | st.lists(st.none() | st.text(max_size=3), max_size=3) | st.integers(-9, 9) | st.text(max_size=2)


@given(st.lists(CELLS))
def test_no_cell_changes_its_meaning(cells: list[Any]) -> None:
    """A cell is as it was or null; nothing is split, joined or spelled otherwise."""
    table, back = as_table({"tokens": cells})
    rows = table.column("tokens").to_pylist()
    assert all(new is None or (type(new) is type(old) and new == old) for new, old in zip(rows, cells, strict=True))
    assert back(table)["tokens"] is cells


# ---- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (5, "not a table; got int: 5; wanted a table or column of"),
        ([["a"]], "not a table; got list"),
        ({"tokens": "a b"}, r"'tokens' is not a list of cells; got 'a b'.*\n.*batched=True"),
        ({"id": 7, "tokens": ["a", "b"]}, "'id' is not a list of cells; got 7"),
        ({"id": [7], "tokens": [["a"], ["b"]]}, "different lengths; got 1 cells in 'id', 2 in 'tokens'"),
        ({3: [["a"]]}, "a column has no name; got 3"),
    ],
)
def test_what_is_not_a_table(data: Any, message: str) -> None:
    with pytest.raises(FeatureError, match=message):
        as_table(data)


def test_pyarrow_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"bridle-nlp\[arrow\]"):
        as_table({"tokens": []})
