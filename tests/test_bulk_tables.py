"""Blocks of Parquet and Arrow files: the sequences and errors of `bridle.data`; wherever a run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.bulk.inputs import reader_of
from bridle.data import Example, read, write
from bridle.errors import FileError

words = st.lists(st.sampled_from(["a", "é", "", "?"]), max_size=3)
optional = st.none() | st.lists(st.none() | st.sampled_from(["a", "b", "?"]), max_size=3)
rows = st.lists(st.tuples(st.none() | words, optional, optional, st.sampled_from([None, '{"v": 1}', "{}", "[", "3"])))
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


def expected(path: Path, format: str, **options: Any) -> tuple[list[Any], str | None]:
    found = list[Any]()
    try:
        for example in read(path, format, **options):
            columns = {"tokens" if name == "word" else name: list(column) for name, column in example.columns.items()}
            gold = None if example.labels is None else list(example.labels)
            found.append((example.id, columns, gold, dict(example.given)))
    except FileError as error:
        return found, str(error)
    return found, None


def rows_of(batch: Any) -> list[Any]:
    found = []
    for row in batch.to_pylist():
        name, gold, given_ = row.pop("id", None), row.pop("gold", None), row.pop("given", None)
        columns = {key: value for key, value in row.items() if value is not None}
        found.append((name, columns, gold, json.loads(given_ or "{}")))
    return found


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
    whole, error = expected(path, format, **options)
    found, wrong = list[Any](), None
    try:
        for block in reader_of(format, **options).blocks(str(path), rows=most):
            assert len(block.batch) <= most
            found += rows_of(block.batch)
    except FileError as problem:
        wrong = str(problem)
    assert wrong == error
    assert found == whole if error is None else found == whole[: len(found)]


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_a_run_goes_on_at_the_end_of_any_block(tmp_path: Path, format: str) -> None:
    path = tmp_path / f"a.{format}"
    save(path, pa.table({"id": list(range(20)), "tokens": [[str(k)] for k in range(20)]}), group=7)
    for block in reader_of(format).blocks(str(path), rows=3):
        rest = [row for one in reader_of(format).blocks(str(path), block.end, rows=5) for row in one.batch.to_pylist()]
        assert [row["id"] for row in rest] == list(range(block.end, 20))
    with pytest.raises(FileError, match="shorter than before"):
        list(reader_of(format).blocks(str(path), 100))


def test_bad_rows_have_a_message(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    save(path, pa.table({"tokens": [["a"], None, ["b", None], ["c"]], "pos": [["N"], ["N"], ["N", "N"], ["N", "V"]]}))
    (block,) = reader_of("parquet", on_error="row").blocks(str(path))
    assert block.batch.column("tokens").to_pylist() == [["a"], None, None, None]
    assert list(block.errors) == [1, 2, 3] and f"{path}: sequence 1: there are no tokens" in block.errors[1]


@pytest.mark.parametrize("tags", [[[0, 1], [1]], [[0, -1], [-1]], [[0, None], None]])
def test_integers_become_their_names(tmp_path: Path, tags: list[Any]) -> None:
    path = tmp_path / "a.parquet"
    save(path, pa.table({"tokens": [["a", "b"], ["c"]], "ner_tags": tags}, schema=INTEGERS))
    found = [rows_of(block.batch) for block in reader_of("parquet").blocks(str(path))]
    assert found == [expected(path, "parquet")[0]]


def test_a_column_that_is_no_list_of_strings_is_an_error_in_any_case(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    save(path, pa.table({"tokens": ["a", "b"]}))
    with pytest.raises(FileError, match="tokens is not a column of lists of strings"):
        list(reader_of("parquet", on_error="row").blocks(str(path)))


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_files_that_are_cut_off_are_an_error(tmp_path: Path, format: str) -> None:
    path = tmp_path / f"a.{format}"
    save(path, pa.table({"tokens": [["some", "tokens"]] * 100}))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FileError, match="cut off"):
        list(reader_of(format).blocks(str(path)))


def test_sequences_of_many_small_row_groups_are_read_one_by_one_too(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    save(path, pa.table({"tokens": [[str(k)] for k in range(10)]}), group=3)
    assert [example.tokens for example in read(path, label=None)] == [[str(k)] for k in range(10)]


def test_what_bridle_writes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, [Example({"word": ["a"], "pos": ["N"]}, ["X"], given={"v": 1}, id="s1")])
    (block,) = reader_of("parquet").blocks(str(path))
    assert rows_of(block.batch) == [("s1", {"tokens": ["a"], "pos": ["N"]}, ["X"], {"v": 1})]
