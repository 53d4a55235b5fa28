"""Blocks of `jsonl`: the sequences and errors of `bridle.data`, whatever the lines; wherever a run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.errors import FileError
from bridle.tagging.block import INTEGER, JSON, NO_ID, TEXT, Ids
from reading import blocks, read_blocks, read_one_by_one, rows_of

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


@settings(max_examples=200, deadline=None)
@given(st.lists(lines, max_size=8), st.sampled_from(OPTIONS), st.integers(1, 3), st.integers(1, 60))
def test_blocks_are_what_the_reader_of_sequences_reads(
    tmp_path_factory: pytest.TempPathFactory, text: list[str], options: dict[str, Any], rows: int, size: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "law.jsonl"
    path.write_bytes("\n".join(text).encode("utf-8", "surrogatepass"))
    whole, error = read_one_by_one(path, "jsonl", **options)
    result, wrong, _ = read_blocks(path, "jsonl", rows=rows, size=size, **options)
    # what is no text is seen earlier by whoever decodes more of the file at once
    assert str(error) == str(wrong) or (error is not None and wrong is not None and "not utf-8" in str(error))
    if error is None:
        assert len(result) == len(whole)
    for ours, theirs in zip(result, whole, strict=False):
        assert repr(ours) == repr(theirs)


def test_a_run_goes_on_at_the_end_of_any_block(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    records = [{"id": k, "tokens": ["a"], **({"pos": ["N"], "labels": ["X"]} if k < 3 else {})} for k in range(20)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    whole = [row for block in blocks(path, "jsonl") for row in rows_of(block)]
    result = list(blocks(path, "jsonl", rows=4))
    assert [len(block) for block in result] == [4] * 5
    for k, block in enumerate(result, 1):
        rest = [row for record in blocks(path, "jsonl", block.end, rows=5) for row in rows_of(record)]
        assert rest == whole[4 * k :] and [row[0] for row in rest] == list(range(4 * k, 20))


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
    (block,) = blocks(path, "jsonl")
    assert [block.tokens.row(k) for k in range(6)] == [["a"], None, None, None, None, ["b"]]
    assert list(block.errors) == [1, 2, 3, 4]
    output = [
        "'tokens' is null",
        "not a JSON line",
        "tokens are not a list of strings",
        "not utf-8",
    ]
    assert all(f"{path}:{k + 2}: {what}" in str(block.errors[k + 1]) for k, what in enumerate(output))


def test_ids_keep_their_types(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 5, "tokens": []}\n{"id": "x", "tokens": []}\n{"id": [1], "tokens": []}\n{"tokens": []}\n')
    (block,) = blocks(path, "jsonl")
    assert block.ids is not None and list(block.ids) == [5, "x", [1], None]
    ids = Ids.packed(block.ids)
    kinds = [("5", INTEGER), ("x", TEXT), ("[1]", JSON), ("", NO_ID)]
    assert list(zip(ids.texts, ids.kinds.tolist(), strict=True)) == kinds


def test_keys_without_end_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"tokens": ["a"], f"k{k}": ["b"]}) + "\n" for k in range(1500)), "utf-8")
    with pytest.raises(FileError, match="too many columns"):
        list(blocks(path, "jsonl"))


def test_a_line_without_end_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"tokens": ["a"]}\n{"tokens": ["' + b"x" * (1 << 25))
    with pytest.raises(FileError, match="a line is too long"):
        list(blocks(path, "jsonl"))
