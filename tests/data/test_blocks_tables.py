"""Blocks of Parquet and Arrow files: the sequences and errors of `bridle.data`; wherever a run goes on."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.data import Example, read, write
from bridle.data.files import opened
from bridle.data.parquet import Parquet
from bridle.errors import BridleError, FeatureError, FileError, GivenError
from reading import blocks, read_one_by_one, rows_of

words = st.lists(st.sampled_from(["a", "é", "", "?"]), max_size=3)
optional = st.none() | st.lists(st.none() | st.sampled_from(["a", "b", "?"]), max_size=3)
rows = st.lists(
    st.tuples(st.none() | words, st.none() | words, optional, st.sampled_from([None, '{"v": 1}', "{}", "[", "3"]))
)
INTEGERS = pa.schema(
    [("tokens", pa.list_(pa.string())), ("ner_tags", pa.list_(pa.int64()))],
    metadata={"huggingface": json.dumps({"info": {"features": {"ner_tags": {"feature": {"names": ["O", "X"]}}}}})},
)


def save(path: Path, table: pa.Table, group: int = 2) -> None:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=group)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
            out.write_table(table, max_chunksize=group)


def one_by_one(path: Path, table: pa.Table, format: str, **options: Any) -> tuple[list[Any], dict[int, BridleError]]:
    """The sequences of all rows, None where one cannot be read, and the errors of those rows."""
    result, errors = list[Any](), dict[int, BridleError]()
    source, kind = opened(path, format, options)
    with closing(source):
        assert isinstance(kind, Parquet)
        for number, row in enumerate(table.to_pylist()):
            try:
                item = kind.sequence(source, number, row, {}, "labels")
            except BridleError as error:
                errors[number] = error
                result.append(None)
                continue
            labels = None if item.labels is None else [None if label == "?" else label for label in item.labels]
            columns = {name: list(column) for name, column in item.columns.items()}
            result.append((item.id, columns, labels, dict(item.given), [], item.where))
    return result, errors


@settings(max_examples=50, deadline=None)
@given(rows, st.sampled_from(["parquet", "arrow"]), st.integers(1, 4), st.sampled_from([{}, {"columns": ["pos"]}]))
def test_blocks_are_what_the_reader_of_sequences_reads(
    tmp_path_factory: pytest.TempPathFactory, data: list[Any], format: str, most: int, options: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / f"law.{format}"
    lists = pa.list_(pa.string())
    tokens, pos, labels, givens = zip(*data, strict=True) if data else ((), (), (), ())
    table = pa.table(
        {
            "id": pa.array([f"s{k}" for k in range(len(data))], pa.string()),
            "tokens": pa.array(tokens, lists),
            "pos": pa.array(pos, lists),
            "labels": pa.array(labels, lists),
            "given": pa.array(givens, pa.string()),
        }
    )
    save(path, table)
    whole, errors = one_by_one(path, table, format, **options)
    result, wrong = list[Any](), dict[int, BridleError]()
    for block in blocks(path, format, rows=most, **options):
        assert len(block) <= most
        wrong |= {len(result) + row: error for row, error in block.errors.items()}
        result += rows_of(block)
    assert result == whole and wrong.keys() == errors.keys()
    for row, error in errors.items():  # what is null, and given values, have other words, those of `bridle.arrow`
        assert str(wrong[row]) == str(error) or isinstance(wrong[row], (FeatureError, GivenError))


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_a_run_goes_on_at_the_end_of_any_block(tmp_path: Path, format: str) -> None:
    path = tmp_path / f"a.{format}"
    save(path, pa.table({"id": list(range(20)), "tokens": [[str(k)] for k in range(20)]}), group=7)
    for block in blocks(path, format, rows=3):
        rest = [row for record in blocks(path, format, block.end, rows=5) for row in rows_of(record)]
        assert [row[0] for row in rest] == list(range(block.end, 20))
        assert [row[-1] for row in rest] == [f"{path}: sequence {k}" for k in range(block.end, 20)]
    with pytest.raises(FileError, match="shorter than before"):
        list(blocks(path, format, 100))


def test_bad_rows_have_a_message(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pos = [["N"], ["N"], ["N", "N"], ["N", "V"], [None], [None, None]]
    save(path, pa.table({"tokens": [["a"], None, ["b", None], ["c"], ["d"], ["e"]], "pos": pos}), group=9)
    (block,) = blocks(path, "parquet")
    assert sorted(block.errors) == [1, 2, 3, 5]  # of a null beside a token, the model may know nothing
    assert all(isinstance(error, FeatureError) for error in block.errors.values())
    assert f"{path}: sequence 3: the columns differ in length; got 2 in 'pos'" in str(block.errors[3])
    assert "'tokens' is null" in str(block.errors[1]) and block.where(1) == f"{path}: sequence 1"


@pytest.mark.parametrize("tags", [[[0, 1], [1]], [[0, -1], [-1]], [[0, None], None]])
def test_integers_become_their_names(tmp_path: Path, tags: list[Any]) -> None:
    path = tmp_path / "a.parquet"
    save(path, pa.table({"tokens": [["a", "b"], ["c"]], "ner_tags": tags}, schema=INTEGERS))
    assert [rows_of(block) for block in blocks(path, "parquet")] == [read_one_by_one(path, "parquet")[0]]


def test_a_column_that_is_no_list_of_strings_is_an_error_in_any_case(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    save(path, pa.table({"tokens": ["a", "b"]}))
    with pytest.raises(FileError, match="tokens is not a column of lists of strings"):
        list(blocks(path, "parquet"))


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_files_that_are_cut_off_are_an_error(tmp_path: Path, format: str) -> None:
    path = tmp_path / f"a.{format}"
    save(path, pa.table({"tokens": [["some", "tokens"]] * 100}))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FileError, match="cut off"):
        list(blocks(path, format))


def test_sequences_of_many_small_row_groups_are_read_one_by_one_too(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    save(path, pa.table({"tokens": [[str(k)] for k in range(10)]}), group=3)
    assert [example.tokens for example in read(path, label=None)] == [[str(k)] for k in range(10)]


def test_what_bridle_writes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, [Example({"word": ["a"], "pos": ["N"]}, ["X"], given={"v": 1}, id="s1")])
    (block,) = blocks(path, "parquet")
    place = f"{path}: sequence 0"
    assert rows_of(block) == [("s1", {"word": ["a"], "pos": ["N"]}, ["X"], {"v": 1}, [], place)]


def test_null_tokens_are_said_to_be_null(tmp_path: Path) -> None:
    kind = pa.list_(pa.string())
    for values, says in (
        (pa.array([["a"], None], kind), "sequence 1: 'tokens' is null"),
        (pa.array([None, None]), "sequence 0: 'tokens' is null"),
        (pa.array([["a"], ["b", None]], kind), "sequence 1: a token in 'tokens' is null"),
    ):
        for name in ("parquet", "arrow"):
            path = tmp_path / f"x.{name}"
            table = pa.table({"tokens": values, "labels": pa.array([["A"], None], kind)})
            if name == "parquet":
                pq.write_table(table, path)
            else:
                with pa.ipc.new_file(path, table.schema) as file:
                    file.write_table(table)
            with pytest.raises(FeatureError, match=says):
                list(read(path))
