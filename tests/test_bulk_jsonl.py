"""Blocks of `jsonl`: the sequences and errors of `bridle.data`, whatever the lines; wherever a run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.bulk.inputs import reader_of
from bridle.data import read
from bridle.errors import FileError

texts = st.text(alphabet=st.sampled_from('ab"\\/\n\t\x01é€😀\ud83d\ude00'), max_size=4) | st.just("?")
words = st.lists(texts, max_size=3)
values = (
    st.none() | st.booleans() | st.integers() | st.floats() | texts | words | st.lists(st.none() | texts, max_size=3)
    | st.dictionaries(texts, st.integers(), max_size=2) | st.lists(st.lists(texts, max_size=1), max_size=2)
)  # fmt: skip
keys = st.sampled_from(["tokens", "tokens", "labels", "id", "given", "pos", "x", "label", "idx", "violated"])
records = st.dictionaries(keys, values | words, max_size=6)
spoilt = st.sampled_from(
    ["", " ", "{", "[]", '{"tokens": ["a"]} {"tokens": ["b"]}', '{"tokens": ["a"], "tokens": ["b"]}', "\x0b",
     '{"tokens": ["\\ud800"]}', '{"tokens": ["a"], "x": 01}', '{"tokens": ["a"], "id": -0}', '{"tokens": ["a",]}',
     '{"tokens": ["a"], "x": NaN, "y": 1e5, "z": {"a": [1, {"b": null}]}}', '\ufeff{"tokens": []}',
     '{"tokens":["\\u00e9\\ud83d\\ude00"]}\r']
)  # fmt: skip
lines = st.builds(json.dumps, records, ensure_ascii=st.booleans()) | spoilt
OPTIONS: list[dict[str, Any]] = [{}, {"columns": ["pos"]}, {"columns": []}, {"label": None}, {"tokens": "pos"}]


def expected(path: Path, **options: Any) -> tuple[list[Any], str | None]:
    found = list[Any]()
    try:
        for example in read(path, "jsonl", **options):
            columns = {name: list(column) for name, column in example.columns.items()}
            columns["tokens_" if "tokens" in columns else "tokens"] = columns.pop("word")
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


def blocks_of(
    path: Path, rows: int, size: int, start: int = 0, **options: Any
) -> tuple[list[Any], str | None, list[int]]:
    found, ends = list[Any](), list[int]()
    try:
        for block in reader_of("jsonl", **options).blocks(str(path), start, rows=rows, size=size):
            assert len(block.batch) <= rows and not block.errors
            block.batch.validate(full=True)
            found += rows_of(block.batch)
            ends.append(block.end)
    except FileError as error:
        return found, str(error), ends
    return found, None, ends


def same_id(ours: Any, theirs: Any) -> bool:
    """Ids are strings, or all of a block are integers; other values become JSON, and so do integers beside others."""
    return ours == theirs or ours == (theirs if isinstance(theirs, str) else json.dumps(theirs))


@settings(max_examples=200, deadline=None)
@given(st.lists(lines, max_size=8), st.sampled_from(OPTIONS), st.integers(1, 3), st.integers(1, 60))
def test_blocks_are_what_the_reader_of_sequences_reads(
    tmp_path_factory: pytest.TempPathFactory, text: list[str], options: dict[str, Any], rows: int, size: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "law.jsonl"
    path.write_bytes("\n".join(text).encode("utf-8", "surrogatepass"))
    whole, error = expected(path, **options)
    found, wrong, _ = blocks_of(path, rows, size, **options)
    # what is no text is seen earlier by whoever decodes more of the file at once
    assert error == wrong or (error is not None and wrong is not None and "not utf-8" in error)
    if error is None:
        assert len(found) == len(whole)
    for ours, theirs in zip(found, whole, strict=False):
        assert same_id(ours[0], theirs[0]) and repr(ours[1:]) == repr(theirs[1:])


def test_columns_stay_when_a_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    records = [{"id": k, "tokens": ["a"], **({"pos": ["N"], "labels": ["X"]} if k < 3 else {})} for k in range(20)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    blocks = list(reader_of("jsonl").blocks(str(path), rows=4))
    assert {tuple(block.batch.schema.names) for block in blocks} == {("id", "tokens", "pos", "gold")}
    for block in blocks[:-1]:
        rest = list(reader_of("jsonl").blocks(str(path), block.end, rows=5))
        rows = [row for one in rest for row in one.batch.to_pylist()]
        assert [row["id"] for row in rows] == list(range(blocks[0].batch.num_rows * (blocks.index(block) + 1), 20))
        assert rest[-1].batch.schema.names == ["id", "tokens", "pos", "gold"]


def test_bad_lines_are_rows_with_a_message(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [
        b'{"tokens": ["a"]}',
        b'{"tokens": null}',
        b"{",
        b'{"tokens": [1]}',
        b'{"tokens": ["\xff"]}',
        b'{"tokens": ["b"]}',
    ]
    path.write_bytes(b"\n".join(lines))
    (block,) = reader_of("jsonl", on_error="row").blocks(str(path))
    assert block.batch.column("tokens").to_pylist() == [["a"], None, None, None, None, ["b"]]
    assert list(block.errors) == [1, 2, 3, 4]
    told = ["tokens are not a list of strings", "not a JSON line", "tokens are not a list of strings", "not utf-8"]
    assert all(f"{path}:{k + 2}: {what}" in block.errors[k + 1] for k, what in enumerate(told))


def test_ids_of_mixed_types_become_text(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 5, "tokens": []}\n{"id": "x", "tokens": []}\n{"id": [1], "tokens": []}\n{"tokens": []}\n')
    (block,) = reader_of("jsonl").blocks(str(path))
    assert block.batch.column("id").to_pylist() == ["5", "x", "[1]", None]


def test_keys_without_end_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"tokens": ["a"], f"k{k}": ["b"]}) + "\n" for k in range(1500)), "utf-8")
    with pytest.raises(FileError, match="too many columns"):
        list(reader_of("jsonl").blocks(str(path)))


def test_a_line_without_end_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"tokens": ["a"]}\n{"tokens": ["' + b"x" * (1 << 25))
    with pytest.raises(FileError, match="a line is too long"):
        list(reader_of("jsonl", on_error="row").blocks(str(path)))
