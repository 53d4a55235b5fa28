"""Hugging Face `datasets`: what it writes is read, what is written it reads; in files and in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from bridle.data import Example, read, write
from bridle.errors import FileError
from bridle.integrations.datasets import examples, to_dataset
from commands import Cli

NAMES = ["O", "B-PER", "I-PER"]
ROWS = {
    "id": ["a", "b", "c"],
    "tokens": [["Ann", "Lee", "left"], ["He"], []],
    "ner_tags": [[1, 2, 0], [-1], []],
    "pos_tags": [[0, 0, 1], [0], []],
}
KINDS: dict[str, Any] = {
    "id": Value("string"),
    "tokens": [Value("string")],
    "ner_tags": [ClassLabel(names=NAMES)],
    "pos_tags": [ClassLabel(names=["N", "V"])],
}
FOUND = [
    ("a", {"word": ["Ann", "Lee", "left"], "pos_tags": ["N", "N", "V"]}, ["B-PER", "I-PER", "O"]),
    ("b", {"word": ["He"], "pos_tags": ["N"]}, None),
    ("c", {"word": [], "pos_tags": []}, []),
]


@pytest.fixture(autouse=True)
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No bars, and no files outside of the folder of the test."""
    datasets.disable_progress_bars()
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def made() -> Dataset:
    return Dataset.from_dict(ROWS, features=Features(KINDS))


def shown(result: Any) -> list[Any]:
    return [(example.id, dict(example.columns), example.labels) for example in result]


def test_files_of_datasets_are_read(tmp_path: Path) -> None:
    made().to_parquet(tmp_path / "x.parquet")
    DatasetDict({"train": made(), "test": made()}).save_to_disk(tmp_path / "both", num_shards={"train": 2, "test": 1})
    made().save_to_disk(tmp_path / "one")
    assert shown(read(tmp_path / "x.parquet")) == FOUND
    assert shown(read(tmp_path / "both", split="train")) == FOUND
    assert shown(read(tmp_path / "both" / "test")) == FOUND
    assert shown(read(tmp_path / "one")) == FOUND
    assert [x.labels for x in read(tmp_path / "one", label="pos_tags")] == [["N", "N", "V"], ["N"], []]


@pytest.mark.parametrize("name", ["sequence", "large"])
def test_other_kinds_of_lists(tmp_path: Path, name: str) -> None:
    kind = datasets.Sequence if name == "sequence" else datasets.LargeList
    kinds = Features({"tokens": kind(Value("string")), "ner_tags": kind(ClassLabel(names=NAMES))})
    item = Dataset.from_dict({"tokens": [["Ann"]], "ner_tags": [[1]]}, features=kinds)
    item.to_parquet(tmp_path / "x.parquet")
    item.save_to_disk(tmp_path / "x")
    for sentence in (read(tmp_path / "x.parquet"), read(tmp_path / "x"), examples(item)):
        assert [x.labels for x in sentence] == [["B-PER"]]


def test_selected_rows_are_read_in_their_order(tmp_path: Path) -> None:
    made().select([2, 0]).save_to_disk(tmp_path / "x")
    assert [x.id for x in read(tmp_path / "x")] == ["c", "a"]


def test_what_is_written_is_read_by_datasets(tmp_path: Path) -> None:
    example = Example({"word": ["Ann", "left"], "pos": ["N", "V"]}, ["B-PER", "O"], {"verb": 1}, id="a")
    write(tmp_path / "x.parquet", [example], label="ner_tags", names=NAMES)
    back = Dataset.from_parquet(str(tmp_path / "x.parquet"), cache_dir=str(tmp_path / "cache"))
    assert back.features["ner_tags"].feature.names == NAMES
    assert back[0] == {
        "id": "a",
        "tokens": ["Ann", "left"],
        "ner_tags": [1, 0],
        "pos": ["N", "V"],
        "given": '{"verb": 1}',
    }
    write(tmp_path / "y.parquet", [example])
    assert Dataset.from_parquet(str(tmp_path / "y.parquet"), cache_dir=str(tmp_path / "cache"))[0]["labels"] == [
        "B-PER",
        "O",
    ]


def test_data_sets_in_memory() -> None:
    assert shown(examples(made())) == FOUND
    assert shown(examples(made().to_iterable_dataset())) == FOUND
    assert shown(examples(made().with_format("numpy"))) == FOUND
    assert next(examples(made(), label="pos_tags")).labels == ["N", "N", "V"]
    assert [list(x.columns) for x in examples(made(), columns=[])] == [["word"]] * 3
    back = to_dataset(example for example in examples(made()) if example.labels)
    assert back.features["ner_tags"].feature.names == NAMES and back.features["tokens"].feature == Value("string")
    assert shown(examples(back)) == FOUND[:1]
    assert to_dataset([]).num_rows == 0


def test_what_is_no_data_set() -> None:
    with pytest.raises(FileError, match=r"not a data set; got DatasetDict.*\nChoose a split"):
        list(examples(DatasetDict({"train": made()})))
    with pytest.raises(FileError, match="not a data set; got list"):
        list(examples([]))
    with pytest.raises(FileError, match=r"sequence 0: there are no tokens; .*wanted the key 'words'"):
        list(examples(made(), tokens="words"))
    with pytest.raises(FileError, match=r"sequence 0: integers of 'tags' have no names.*\n.*cast_column"):
        list(examples(Dataset.from_dict({"tokens": [["a"]], "tags": [[3]]}), label="tags"))
    bad = Dataset.from_dict(
        {"tokens": [["a", "b"]], "ner_tags": [[-2, 0]]},
        features=Features({k: KINDS[k] for k in ("tokens", "ner_tags")}),
    )
    with pytest.raises(FileError, match="sequence 0: 'ner_tags' has a label without a name; got -2; wanted 0 to 2"):
        list(examples(bad))


def test_what_makes_no_data_set() -> None:
    both = [Example({"word": ["a"]}, ["X"]), Example({"word": ["a"], "pos": ["N"]}, ["X"])]
    with pytest.raises(
        FileError, match="other columns than the first; got tokens, ner_tags, pos; wanted tokens, ner_tags"
    ):
        to_dataset(both)
    with pytest.raises(FileError, match="a label is not among the names; got 'X'"):
        to_dataset(both[:1], names=["O"])


def test_the_command_line_takes_folders(tmp_path: Path) -> None:
    rows = {"tokens": [["Ann", "Lee", "left"]] * 4, "ner_tags": [[1, 2, 0]] * 4}
    kinds = Features({name: KINDS[name] for name in rows})
    DatasetDict({"train": Dataset.from_dict(rows, features=kinds)}).save_to_disk(tmp_path / "data")
    run = Cli()
    run.ok("train", tmp_path / "data", "-o", tmp_path / "m", "--c2", 0.1)
    assert "correct: 4." in run.stdout("eval", tmp_path / "data", "--model", tmp_path / "m")
    assert '"text": "Ann Lee left", "spans": [{"start": 0, "end": 7' in run.stdout(
        "tag", tmp_path / "m", tmp_path / "data" / "train", "--to", "spans"
    )


def test_labels_are_chosen_by_the_name_of_their_column() -> None:
    rows = {"tokens": [["Ann", "left"]], "ner_tags": [["B-PER", "O"]]}
    assert shown(examples(Dataset.from_dict(rows))) == [(None, {"word": ["Ann", "left"]}, ["B-PER", "O"])]
    with pytest.raises(FileError, match="sequence 0: integers of 'ner_tags' have no names"):
        list(examples(Dataset.from_dict(rows | {"ner_tags": [[1, 0]]})))
    with pytest.raises(
        FileError, match="sequence 0: the column does not exist; got 'tokens', 'ner_tags'; wanted 'ner'"
    ):
        list(examples(Dataset.from_dict(rows), label="ner"))
