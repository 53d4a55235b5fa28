"""Blocks with outcomes as files: text is byte for byte what `bridle.data` writes; tables are read back."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle import Batch, Decoder, Labels
from bridle.data import Example, Lines
from bridle.data.base import format_named
from bridle.data.blocks import Builder
from bridle.data.parquet import Parquet
from bridle.data.source import Source
from bridle.errors import BridleError, FeatureError, FileError
from bridle.tagging import Block, Outcomes, tag
from bridle.tagging.arrow import Layout
from bridle.tagging.figures import figures_of

text = st.text(alphabet=st.sampled_from('ab"\\/ #\t\n\r\x00\x01\x7f é€😀\u2028'), max_size=3)
plain = st.sampled_from(["a", "é", "# b", "c d", "x"])


@st.composite
def examples(draw: st.DrawFn, cells: st.SearchStrategy[str]) -> Example:
    n = draw(st.integers(1, 4))
    some = st.lists(cells, min_size=n, max_size=n)
    names = draw(st.sampled_from([("word",), ("word", "pos"), ("word", "pos", "x")]))
    comments = draw(st.sampled_from([(), ("# one",), ("# one", "# two")]))
    labels = draw(st.lists(cells.filter(bool), min_size=n, max_size=n))
    return Example({name: draw(some) for name in names}, labels, comments=comments, id=draw(st.none() | text))


def block_of(some: Sequence[Example], missing: str | None = None) -> Block:
    """A block of sequences; their labels are those of the file."""
    with closing(Source(__file__)) as source:
        builder = Builder(source, format_named("conll", {"missing": missing}))
        for example in some:
            builder.add(example)
        return builder.block(0, 1.0)


def outcomes_of(
    lists: Sequence[Sequence[str]], errors: dict[int, BridleError] | None = None, rules: Sequence[str] = (), **more: Any
) -> Outcomes:
    """Outcomes with these labels: scores are such that no others are better."""
    flat = [label for labels in lists for label in labels]
    labels = Labels(sorted(set(flat)) or ["O"])
    unary = np.zeros((len(flat), len(labels)))
    unary[np.arange(len(flat)), [labels.names.index(label) for label in flat]] = 1.0
    cuts = np.concatenate([[0], np.cumsum([len(item) for item in lists])]).astype(np.int64)
    block = Block(len(lists), scores=Batch(unary, cuts), errors=errors or {})
    return tag(block, None, Decoder(labels, list(rules), on_infeasible="skip"), **more)


def tagged(some: Sequence[Example]) -> tuple[Block, Outcomes]:
    """Sequences without their labels, and these as outcomes."""
    return block_of([replace(item, labels=None) for item in some]), outcomes_of([item.labels or () for item in some])


def lines_of(format: str, some: Sequence[Example], **options: Any) -> bytes:
    return "".join(f"{line}\n" for line in format_named(format, options).text(some)).encode()


@settings(max_examples=100, deadline=None)
@given(st.lists(examples(text) | examples(plain), min_size=1, max_size=4), st.sampled_from(["auto", "tab", "blanks"]))
def test_conll_is_what_the_writer_of_sequences_writes(some: list[Example], separator: str) -> None:
    some = [item for item in some if item.columns.keys() == some[0].columns.keys()]
    try:
        expected: bytes | str = lines_of("conll", some, separator=separator)
    except FileError as error:
        expected = error.message()
    block, outcomes = tagged(some)
    try:
        result: bytes | str = format_named("conll", {"separator": separator}).encode(block, outcomes, len(some))
    except FileError as error:
        result = error.message()
    assert result == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(examples(text), min_size=1, max_size=4), st.booleans())
def test_jsonl_is_what_the_writer_of_sequences_writes(some: list[Example], given_: bool) -> None:
    if given_:
        some = [Example(item.columns, item.labels, {"v": ["é", 1]}, id=item.id) for item in some]
    block, outcomes = tagged(some)
    jsonl = format_named("jsonl", {})
    shard = jsonl.encode_rows(block, outcomes, len(some), Layout())
    assert shard.replace(b', "status": "optimal"}\n', b"}\n") == lines_of("jsonl", some)
    for outcome, line in zip(some, jsonl.encode(block, outcomes, len(some)).split(b"\n"), strict=False):
        record = json.loads(line)
        assert record["score"] == record["bound"] == len(outcome) and record["optimal"] is True
        assert record == {**record, **json.loads(lines_of("jsonl", [replace(outcome, given={})]))}


def test_the_first_rows_of_a_block_are_written() -> None:
    some = [Example({"word": [str(k)] * k, "pos": ["é"] * k}, ["X"] * k, id=str(k)) for k in range(1, 9)]
    block, outcomes = tagged(some)
    for n in range(9):
        assert format_named("conll", {}).encode(block, outcomes, n) == lines_of("conll", some[:n])
        lines = format_named("jsonl", {}).encode_rows(block, outcomes, n, Layout()).splitlines()
        assert [json.loads(line)["id"] for line in lines] == [item.id for item in some[:n]]


def test_sequences_without_labels_have_a_mark_in_conll_and_null_in_jsonl() -> None:
    with closing(Source(__file__)) as source:
        builder = Builder(source, format_named("conll", {"missing": None}))
        for tokens in (["a", "b"], ["c"], ["d"]):
            builder.add(Example({"word": tokens}))
        builder.fail(FileError("bad"), "s3")
        block = builder.block(0, 1.0)
    errors: dict[int, BridleError] = {0: FeatureError("worse"), **block.errors}
    outcomes = outcomes_of([["X", "X"], ["X"], ["Y"], []], errors, ["at most 0 tokens of Y", "at most 0 tokens of X"])
    assert outcomes.status.tolist() == ["error", "infeasible", "infeasible", "error"]
    assert format_named("conll", {}).encode(block, outcomes, 4) == b"a\t_\nb\t_\n\nc\t_\n\nd\t_\n\n_\t_\n\n"
    for lines in (
        format_named("jsonl", {}).encode(block, outcomes, 4),
        format_named("jsonl", {}).encode_rows(block, outcomes, 4, Layout()),
    ):
        records = [json.loads(line) for line in lines.splitlines()]
        assert [record["labels"] for record in records] == [None] * 4
        assert [record.get("error") for record in records] == ["worse.", None, None, "bad."]
        assert [record.get("tokens") for record in records] == [["a", "b"], ["c"], ["d"], None]
        assert records[3]["id"] == "s3"


def test_gold_labels_and_their_gaps_are_kept() -> None:
    block, outcomes = block_of([Example({"word": ["a", "b"]}, ["X", "?"])], "?"), outcomes_of([["X", "Y"]])
    assert format_named("conll", {}).encode(block, outcomes, 1) == b"a\tX\tX\nb\t?\tY\n\n"
    line = format_named("jsonl", {}).encode_rows(block, outcomes, 1, Layout())
    assert json.loads(line) == {"tokens": ["a", "b"], "labels": ["X", "Y"], "gold": ["X", None], "status": "optimal"}


def test_all_lines_of_a_block_have_the_same_columns() -> None:
    some = [Example({"word": ["a"]}, ["X"]), Example({"word": ["b"], "pos": ["N"]}), Example({"word": ["c"]})]
    lines = format_named("conll", {}).encode(block_of(some), outcomes_of([["Y"]] * 3), 3)
    assert lines == b"a\t_\tX\tY\n\nb\tN\t_\tY\n\nc\t_\t_\tY\n\n"


def test_jsonl_has_scores_and_the_k_best_if_they_are_wanted() -> None:
    block = block_of([Example({"word": ["a"], "labels": ["L"]}, id=7)])
    outcomes = outcomes_of([["X"]], want=["k_best", "probabilities"], k=2)
    shard = json.loads(
        format_named("jsonl", {}).encode_rows(block, outcomes, 1, Layout(figures=figures_of(scores=True, k=True)))
    )
    assert list(shard) == [
        "id", "tokens", "labels", "labels_", "score", "bound", "probabilities", "k_best", "status",
    ]  # fmt: skip
    assert (shard["id"], shard["labels_"], shard["score"], shard["probabilities"]) == (7, ["L"], 1.0, [1.0])
    record = json.loads(format_named("jsonl", {}).encode(block, outcomes, 1))
    assert record["probabilities"] == [1.0] and [labelling["labels"] for labelling in record["k_best"]] == [["X"]]


def table_of(format: str, pairs: Sequence[tuple[Block, Outcomes]], layout: Layout | None = None) -> bytes:
    file, kind = io.BytesIO(), format_named(format, {})
    assert isinstance(kind, Parquet)
    writer = kind.table_writer(file, layout)
    for block, outcomes in pairs:
        writer.write(block, outcomes, len(block))
    writer.close()
    return file.getvalue()


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_tables_are_read_back(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    some = [Example({"word": [w], "pos": [p]}, ["X"], id=k) for k, w, p in ((1, "a", "N"), (2, "b", "V"))]
    first, other = tagged(some), tagged([Example({"word": ["c"]}, ["Y"], id="x")])
    data = table_of(format, [first, other], Layout())
    table = pa.ipc.open_file(data).read_all() if format == "arrow" else pq.read_table(io.BytesIO(data))
    assert table.schema.names == ["id", "tokens", "labels", "pos", "status", "error"]
    assert table.column("id").to_pylist() == ["1", "2", "x"] and table.column("pos").to_pylist() == [["N"], ["V"], None]
    assert table.column("labels").to_pylist() == [["X"], ["X"], ["Y"]]
    late = tagged([Example({"word": ["c"], "x": ["y"]}, ["Y"])])
    assert table_of(format, [other] * 500 + [late])  # the first rows say which columns there are
    with pytest.raises(FileError, match="a column that the first ones do not have; got x; wanted id, tokens, labels"):
        monkeypatch.setattr("bridle.data.parquet._GROUP", 20)
        table_of(format, [other] * 20 + [late], Layout())
    assert table_of(format, [])  # a table without rows


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_tables_have_scores_and_the_k_best_if_they_are_wanted(format: str) -> None:
    block = block_of([Example({"word": ["a", "b"]})])
    outcomes = outcomes_of([["X", "Y"]], want=["k_best", "probabilities"], k=2)
    data = table_of(format, [(block, outcomes)], Layout(figures=figures_of(scores=True, k=True)))
    table = pa.ipc.open_file(data).read_all() if format == "arrow" else pq.read_table(io.BytesIO(data))
    (row,) = table.to_pylist()
    assert row["score"] == 2.0 and len(row["probabilities"]) == len(row["k_best"]) == 2
    assert row["k_best"][0] == {"labels": ["X", "Y"], "score": 2.0}


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst", "a.jsonl"])
def test_text_is_packed_as_its_name_asks(tmp_path: Path, name: str) -> None:
    line = format_named("jsonl", {}).encode(*tagged([Example({"word": ["a"] * 100}, ["X"] * 100)]), 1)
    with Lines(str(tmp_path / name)) as lines:
        lines.put(line)
        lines.put(line)
    data = (tmp_path / name).read_bytes()
    if name.endswith(".gz"):
        data = gzip.decompress(data)
    elif name.endswith(".zst"):
        data = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()
    assert data == line * 2


def test_what_cannot_be_written_is_an_error() -> None:
    with pytest.raises(FileError, match="an empty sequence cannot be written as conll"):
        format_named("conll", {}).encode(*tagged([Example({"word": []}, [])]), 1)
