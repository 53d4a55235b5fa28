"""Writers of batches: text is byte for byte what `bridle.data` writes; tables are read back."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.bulk.batches import Pieces
from bridle.bulk.writers import compression_of, writer_of
from bridle.data import Example
from bridle.data.base import format_named
from bridle.errors import FileError

text = st.text(alphabet=st.sampled_from('ab"\\/ #\t\n\r\x00\x01\x7f é€😀\u2028'), max_size=3)
plain = st.sampled_from(["a", "é", "# b", "c d", "x"])


@st.composite
def examples(draw: st.DrawFn, cells: st.SearchStrategy[str]) -> Example:
    n = draw(st.integers(1, 4))
    some = st.lists(cells, min_size=n, max_size=n)
    names = draw(st.sampled_from([("word",), ("word", "pos"), ("word", "pos", "x")]))
    comments = draw(st.sampled_from([(), ("# one",), ("# one", "# two")]))
    labels = draw(some)
    return Example({name: draw(some) for name in names}, labels, comments=comments, id=draw(st.none() | text))


def batch_of(some: list[Example], *, labelled: str = "labels") -> pa.RecordBatch:
    """Sequences as a batch, with their labels in the column of predictions."""
    pieces = Pieces("nowhere", None)
    for example in some:
        pieces.add(example)
    batch = pieces.block(0, 0).batch
    names = [labelled if name == "gold" else name for name in batch.schema.names]
    return pa.RecordBatch.from_arrays(batch.columns, names=names)


def written(format: str, batches: list[pa.RecordBatch], **options: Any) -> bytes:
    file = io.BytesIO()
    writer = writer_of(format, file, **options)
    for batch in batches:
        writer.write(batch)
    writer.close()
    assert not file.closed
    return file.getvalue()


def lines_of(format: str, some: list[Example], **options: Any) -> bytes:
    return "".join(f"{line}\n" for line in format_named(format, options).text(some)).encode()


@settings(max_examples=100, deadline=None)
@given(st.lists(examples(text) | examples(plain), max_size=4), st.sampled_from(["auto", "tab", "blanks"]))
def test_conll_is_what_the_writer_of_sequences_writes(some: list[Example], separator: str) -> None:
    try:
        expected: bytes | str = lines_of("conll", some, separator=separator)
    except FileError as error:
        expected = error.message().partition(": ")[2] if error.where else error.message()
    try:
        found: bytes | str = written("conll", [batch_of(some)], separator=separator)
    except FileError as error:
        found = error.message().partition(": ")[2] if error.where else error.message()
    assert isinstance(found, bytes) == isinstance(expected, bytes)
    assert found == expected or (isinstance(found, str) and isinstance(expected, str) and expected in found)


@settings(max_examples=100, deadline=None)
@given(st.lists(examples(text), max_size=4), st.booleans())
def test_jsonl_is_what_the_writer_of_sequences_writes(some: list[Example], given_: bool) -> None:
    if given_:
        some = [Example(one.columns, one.labels, {"v": ["é", 1]}, id=one.id) for one in some]
    assert written("jsonl", [batch_of(some)]) == lines_of("jsonl", some)


def test_slices_are_written_like_batches() -> None:
    some = [Example({"word": [str(k)] * k, "pos": ["é"] * k}, ["X"] * k, id=str(k)) for k in range(1, 9)]
    batch = batch_of(some)
    for format in ("conll", "jsonl"):
        parts = [batch.slice(0, 3), batch.slice(3, 0), batch.slice(3, 4), batch.slice(7)]
        assert written(format, parts) == written(format, [batch]) == lines_of(format, some)


def test_sequences_without_labels_have_a_mark_in_conll_and_null_in_jsonl() -> None:
    tokens, labels = [["a", "b"], ["c"], None], [None, ["X"], None]
    kind = pa.list_(pa.string())
    batch = pa.record_batch(
        {"tokens": pa.array(tokens, kind), "labels": pa.array(labels, kind), "error": [None, None, "bad"]}
    )
    assert written("conll", [batch]) == b"a\t_\nb\t_\n\nc\tX\n\n"
    lines = [json.loads(line) for line in written("jsonl", [batch]).splitlines()]
    assert lines[0] == {"tokens": ["a", "b"], "labels": None} and lines[2] == {"labels": None, "error": "bad"}


def test_gold_labels_and_their_gaps_are_kept() -> None:
    batch = pa.record_batch({"tokens": [["a", "b"]], "gold": [["X", None]], "labels": [["X", "Y"]]})
    assert written("conll", [batch]) == b"a\tX\tX\nb\t?\tY\n\n"
    assert json.loads(written("jsonl", [batch])) == {"tokens": ["a", "b"], "labels": ["X", "Y"], "gold": ["X", None]}


def test_jsonl_has_whatever_else_is_in_a_batch() -> None:
    spans = pa.list_(pa.struct([("start", pa.int32()), ("label", pa.string())]))
    more = {"score": [0.1], "bound": [float("inf")], "spans": pa.array([[{"start": 0, "label": "é"}]], spans), "n": [3]}
    batch = pa.record_batch({"id": [7], "tokens": [["a"]], **more, "status": ["optimal"]})
    assert written("jsonl", [batch]).decode() == (
        '{"id": 7, "tokens": ["a"], "score": 0.1, "spans": [{"start": 0, "label": "é"}], "n": 3, "status": "optimal"}\n'
    )


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_tables_are_read_back(format: str) -> None:
    batch = pa.record_batch({"id": [1, 2], "tokens": [["a"], ["b"]], "pos": [["N"], ["V"]], "status": ["optimal"] * 2})
    other = pa.record_batch({"id": ["x"], "tokens": [["c"]], "status": ["error"]})
    data = written(format, [batch, other])
    table = pa.ipc.open_file(data).read_all() if format == "arrow" else pa.parquet.read_table(io.BytesIO(data))
    assert table.schema.names == ["id", "tokens", "pos", "status"]
    assert table.column("id").to_pylist() == ["1", "2", "x"] and table.column("pos").to_pylist() == [["N"], ["V"], None]
    with pytest.raises(FileError, match="a column that the first ones do not have"):
        written(format, [other, batch])
    assert written(format, [])  # a table without rows


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst", "a.jsonl"])
def test_text_is_packed_as_its_name_asks(name: str) -> None:
    batch = pa.record_batch({"tokens": [["a"] * 100]})
    data = written("jsonl", [batch, batch], compression=compression_of(name))
    if name.endswith(".gz"):
        data = gzip.decompress(data)
    elif name.endswith(".zst"):
        data = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()
    assert data == written("jsonl", [batch, batch])


def test_what_cannot_be_written_is_an_error() -> None:
    with pytest.raises(FileError, match="wanted conll or jsonl or parquet or arrow"):
        writer_of("brat", io.BytesIO())
    with pytest.raises(FileError, match="`compression` has an unknown value"):
        writer_of("jsonl", io.BytesIO(), compression="rar")
    with pytest.raises(FileError, match="an empty sequence cannot be written as conll"):
        written("conll", [pa.record_batch({"tokens": pa.array([[]], pa.list_(pa.string()))})])
