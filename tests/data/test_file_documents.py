"""The documents of files: where their names stand, blocks of whole documents, and what can be wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bridle.data import read
from bridle.data.blocks import Pace
from bridle.data.documents import batches, documents_of, whole_documents
from bridle.data.files import opened
from bridle.errors import FileError

FILES: dict[str, tuple[str, dict[str, Any]]] = {
    "docstart.conll": (
        "-DOCSTART- O\n\nA O\nb O\n\nC O\n\n-DOCSTART- O\n\nD O\n",
        {"groups": "docstart"},
    ),
    "newdoc.conll": ("# newdoc id = 1\nA O\nb O\n\nC O\n\n# newdoc\nD O\n", {"groups": "newdoc"}),
    "column.conll": (
        "A x O\nb x O\n\nC x O\n\nD y O\n",
        {"groups": "doc", "columns": ["word", "doc", "label"]},
    ),
    "table.csv": ("doc,word,label\nx,A,O\nx,b,O\n,,\nx,C,O\n,,\ny,D,O\n", {"groups": "doc"}),
    "field.jsonl": (
        '{"tokens": ["A", "b"], "doc": 3}\n{"tokens": ["C"], "doc": 3}\n{"tokens": ["D"], "doc": "y"}\n',
        {"groups": "doc"},
    ),
    "list.jsonl": (
        '{"tokens": ["A", "b"], "doc": ["x", "x"]}\n{"tokens": ["C"], "doc": ["x"]}\n{"tokens": ["D"], "doc": ["y"]}\n',
        {"groups": "doc"},
    ),
}


def blocks(path: Path, pace: int, **options: Any) -> list[list[tuple[Any, list[str]]]]:
    source, format = opened(path, None, options)
    return [
        [(name, column or []) for name, column in zip(block.groups or (), block.tokens.lists(), strict=True)]
        for block in whole_documents(format.blocks(source, 0, Pace(pace)))
    ]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("pace", [1, 2, 100])
def test_a_block_holds_whole_documents(name: str, pace: int, tmp_path: Path) -> None:
    text, options = FILES[name]
    (tmp_path / name).write_text(text)
    examples = [example for example in read(tmp_path / name, **options) if example.tokens != ["-DOCSTART-"]]
    first, second, third = (example.group for example in examples)
    assert first == second != third and [list(example.tokens) for example in examples] == [["A", "b"], ["C"], ["D"]]
    parts = blocks(tmp_path / name, pace, **options)
    rows = [row for part in parts for row in part if row[1] != ["-DOCSTART-"]]
    assert rows == [(first, ["A", "b"]), (first, ["C"]), (third, ["D"])]
    owners = [{name for name, _ in part} for part in parts]
    assert sum(map(len, owners)) == len(set().union(*owners))  # no document in two blocks


def test_tables_name_their_documents(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for doc in (["x", "x", "y"], [1, 1, 2]):
        pq.write_table(pa.table({"tokens": [["A"], ["B"], ["C"]], "doc": doc}), tmp_path / "a.parquet")
        assert [example.group for example in read(tmp_path / "a.parquet", groups="doc")] == doc
        parts = blocks(tmp_path / "a.parquet", 1, groups="doc")
        assert [[name for name, _ in part] for part in parts] == [doc[:2], doc[2:]]


def test_a_document_that_comes_back_is_an_error_with_its_line(tmp_path: Path) -> None:
    rows = [{"tokens": ["A"], "doc": name} for name in ("x", "x", "y", "x")]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for pace in (1, 3, 100):
        with pytest.raises(FileError, match="jsonl:4: a document comes back after another one; got 'x'"):
            blocks(tmp_path / "a.jsonl", pace, groups="doc")
    examples = list(read(tmp_path / "a.jsonl", groups="doc"))
    with pytest.raises(FileError, match="jsonl:4: a document comes back"):
        documents_of(examples)
    assert [len(batch) for batch in batches(examples[:3], 1)] == [2, 1]


def test_what_names_no_document_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("A O\n\nB O\n")
    with pytest.raises(FileError, match="conll:1: there is no column or field 'doc'"):
        list(read(tmp_path / "a.conll", groups="doc"))
    (tmp_path / "a.conll").write_text("A x O\nB y O\n")
    with pytest.raises(FileError, match="a sequence is in several documents; got 'x', 'y'"):
        list(read(tmp_path / "a.conll", groups="doc", columns=["word", "doc", "label"]))
    (tmp_path / "a.jsonl").write_text('{"tokens": ["A"], "doc": {"id": 1}}\n')
    with pytest.raises(FileError, match="not the name of a document"):
        list(read(tmp_path / "a.jsonl", groups="doc"))
