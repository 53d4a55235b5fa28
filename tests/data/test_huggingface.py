"""Tables with integers for labels, as Hugging Face `datasets` keeps them; tests/heavy has the package itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from bridle.data import Example, read, write
from bridle.errors import FileError

NAMES = ["O", "B-PER", "I-PER"]
ROWS = {"id": ["a", "b"], "tokens": [["Ann", "left"], ["He"]], "ner_tags": [[1, 0], [-1]], "pos_tags": [[1, 0], [0]]}


def features(**columns: Any) -> dict[bytes, bytes]:
    return {b"huggingface": json.dumps({"info": {"features": columns}}).encode()}


def classes(names: list[str], form: str = "List") -> Any:
    inner = {"names": names, "_type": "ClassLabel"}
    return [inner] if form == "list" else {"feature": inner, "_type": form}


def table(**more: Any) -> pa.Table:
    kept = {"ner_tags": classes(NAMES), "pos_tags": classes(["V", "N"])} | more
    return pa.table(ROWS).replace_schema_metadata(features(**kept))


def arrow(path: Path, rows: pa.Table) -> Path:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, rows.schema) as out:
        out.write_table(rows)
    return path


def folder(place: Path, splits: dict[str, int]) -> Path:
    """Write a folder like `save_to_disk`: for each split, so many files."""
    place.mkdir()
    (place / "dataset_dict.json").write_text(json.dumps({"splits": list(splits)}))
    for name, count in splits.items():
        (place / name).mkdir()
        files = [f"data-{k:05}-of-{count:05}.arrow" for k in range(count)]
        (place / name / "state.json").write_text(json.dumps({"_data_files": [{"filename": file} for file in files]}))
        for file in files:
            arrow(place / name / file, table())
    return place


@pytest.mark.parametrize("form", ["List", "Sequence", "LargeList", "list"])
def test_integers_become_names(tmp_path: Path, form: str) -> None:
    pyarrow.parquet.write_table(table(ner_tags=classes(NAMES, form)), tmp_path / "x.parquet")
    arrow(tmp_path / "x.arrow", table(ner_tags=classes(NAMES, form)))
    for path in (tmp_path / "x.parquet", tmp_path / "x.arrow"):
        assert [(x.id, x.columns, x.labels) for x in read(path)] == [
            ("a", {"word": ["Ann", "left"], "pos_tags": ["N", "V"]}, ["B-PER", "O"]),
            ("b", {"word": ["He"], "pos_tags": ["V"]}, None),  # -1: not labelled
        ]
        assert [x.labels for x in read(path, label="pos_tags")] == [["N", "V"], ["V"]]
        assert [list(x.columns) for x in read(path, columns=[])] == [["word"], ["word"]]
        assert [x.labels for x in read(path, label=None)] == [None, None]


def test_integers_without_names(tmp_path: Path) -> None:
    path = arrow(tmp_path / "x.arrow", pa.table(ROWS))
    for asked in ({}, {"label": "ner_tags"}):
        with pytest.raises(FileError, match=r"ner_tags is not a column of lists of strings.*\n?.*Pass names=\.\.\.,"):
            list(read(path, **asked))
    assert [x.labels for x in read(path, label=None)] == [None, None]
    assert [x.labels for x in read(path, label="ner_tags", names=NAMES)] == [["B-PER", "O"], None]
    assert [x.labels for x in read(path, names=NAMES)] == [["B-PER", "O"], None]
    with pytest.raises(FileError, match="sequence 0: 'ner_tags' has a label without a name; got 1; wanted 0 to 0"):
        list(read(path, names=["O"]))
    with pytest.raises(FileError, match="`names` must be a list of names"):
        read(path, names="O")


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {b"huggingface": b"{"},
        {b"huggingface": b"[" * 100_000},
        {b"huggingface": b"[]"},
        features(ner_tags=3),
        features(ner_tags=[]),
        features(ner_tags={"feature": 3}),
        features(ner_tags=classes([])),
        {b"huggingface": json.dumps({"info": {"features": {"ner_tags": {"feature": {"names": [1]}}}}}).encode()},
    ],
)
def test_metadata_that_makes_no_sense_is_passed_over(tmp_path: Path, metadata: Any) -> None:
    path = arrow(tmp_path / "x.arrow", pa.table(ROWS).replace_schema_metadata(metadata))
    assert [x.labels for x in read(path, label=None)] == [None, None]
    assert [x.labels for x in read(path, names=NAMES)] == [["B-PER", "O"], None]


def test_names_are_written(tmp_path: Path) -> None:
    example = Example({"word": ["Ann", "left"], "pos": ["N", "V"]}, ["B-PER", "O"], {"verb": 1}, id="a")
    for name in ("x.parquet", "x.arrow"):
        write(tmp_path / name, [example], label="ner_tags", names=NAMES)
        assert list(read(tmp_path / name)) == [example]
    schema = pyarrow.parquet.read_schema(tmp_path / "x.parquet")
    assert schema.field("ner_tags").type == pa.list_(pa.int64())
    assert json.loads(schema.metadata[b"huggingface"])["info"]["features"]["ner_tags"]["feature"]["names"] == NAMES
    with pytest.raises(FileError, match="a label is not among the names; got 'X'; wanted one of O, B-PER, I-PER"):
        write(tmp_path / "y.parquet", [Example({"word": ["a"]}, ["X"])], names=NAMES)


def test_a_saved_folder(tmp_path: Path) -> None:
    place = folder(tmp_path / "data", {"train": 2, "test": 1})
    with read(place, split="train") as examples:
        assert [x.id for x in examples] == ["a", "b", "a", "b"]
        assert examples.format == "arrow" and examples.done() == examples.total
    assert [x.id for x in read(place / "test")] == ["a", "b"]
    assert [x.id for x in read(folder(tmp_path / "one", {"train": 1}))] == ["a", "b"]
    with pytest.raises(FileError, match="the folder contains several data sets; got train, test; wanted split='train'"):
        list(read(place))
    with pytest.raises(FileError, match="the data set does not exist; got 'dev'; wanted one of train, test"):
        list(read(place, split="dev"))
    with pytest.raises(FileError, match="the folder contains only one data set"):
        list(read(place / "test", split="test"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("dataset_dict.json", "{", r"dataset_dict\.json: not JSON"),
        ("dataset_dict.json", "[]", r"dataset_dict\.json: not JSON; got list"),
        ("dataset_dict.json", '{"splits": ["../x"]}', "not a valid name of a split; got '../x'"),
        ("dataset_dict.json", '{"splits": 3}', "not a valid name of a split; got 3"),
        ("dataset_dict.json", '{"splits": ["dev"]}', "the folder does not contain a data set; got no state.json"),
        ("train/state.json", "[" * 100_000, r"state\.json: not JSON"),
        ("train/state.json", '{"_data_files": [{"filename": "/etc/passwd"}]}', "not a valid name of a split"),
        ("train/state.json", '{"_data_files": [{"filename": "none.arrow"}]}', r"none\.arrow: cannot read this file"),
        ("train/state.json", '{"_indices_data_files": [{}], "_data_files": []}', "rows of this data set are selected"),
        ("train/data-00000-of-00001.arrow", "nonsense", r"data-00000-of-00001\.arrow: cannot read this arrow file"),
    ],
)
def test_bad_folders(tmp_path: Path, name: str, text: str, message: str) -> None:
    place = folder(tmp_path / "data", {"train": 1})
    (place / name).write_text(text)
    with pytest.raises(FileError, match=message):
        list(read(place))


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"the folder does not contain a data set; got no state\.json"):
        list(read(tmp_path))
    with pytest.raises(FileError, match="cannot read this file; got Is a directory"):
        read(tmp_path, "conll")


def test_strings_are_labels_by_the_name_of_their_column(tmp_path: Path) -> None:
    words = {"tokens": [["Ann", "left"]], "ner_tags": [["B-PER", "O"]], "pos_tags": [["N", "V"]]}
    pyarrow.parquet.write_table(pa.table(words), tmp_path / "x.parquet")
    for path in (tmp_path / "x.parquet", arrow(tmp_path / "x.arrow", pa.table(words))):
        (example,) = read(path)
        assert example.columns == {"word": ["Ann", "left"], "pos_tags": ["N", "V"]}
        assert example.labels == ["B-PER", "O"]
        assert next(read(path, label="pos_tags")).labels == ["N", "V"]
        assert next(read(path, label=None)).columns.keys() == {"word", "ner_tags", "pos_tags"}


def test_a_label_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(table(), tmp_path / "x.parquet")
    with pytest.raises(FileError, match=r"the column does not exist; got .id., .tokens., .*; wanted .ner."):
        list(read(tmp_path / "x.parquet", label="ner"))
    assert [x.labels for x in read(tmp_path / "x.parquet", label="ner", unlabelled="allow")] == [None, None]


def test_labels_that_are_all_null_are_not_those_of_another_column(tmp_path: Path) -> None:
    rows = {"tokens": [["He"]], "ner_tags": pa.nulls(1), "pos_tags": [["N"]]}
    pyarrow.parquet.write_table(pa.table(rows), tmp_path / "x.parquet")
    for label in ("labels", "ner_tags"):
        assert [(x.columns, x.labels) for x in read(tmp_path / "x.parquet", label=label)] == [
            ({"word": ["He"], "pos_tags": ["N"]}, None)
        ]


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_splits_lead_nowhere_else(tmp_path: Path, name: str) -> None:
    place = folder(tmp_path / "x", {"train": 1})
    (place / "dataset_dict.json").write_text(json.dumps({"splits": ["train", name]}))
    with pytest.raises(FileError, match="not a valid name of a split"):
        list(read(place, split="train"))
