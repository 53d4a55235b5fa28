"""The files of a run, and how they are read: folders, patterns, packed files, formats without a kernel."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bridle.bulk.conll import ConllReader
from bridle.bulk.examples import ExampleReader
from bridle.bulk.inputs import files, inputs, reader_of
from bridle.errors import FileError

LINE = '{"id": "s1", "tokens": ["He", "left"]}\n'


def zstd(data: bytes) -> bytes:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as packed:
        packed.write(data)
    return bytes(out.getvalue())


PACK = {"": bytes, ".gz": gzip.compress, ".zst": zstd}


def names(paths: list[str], folder: Path) -> list[str]:
    return [os.path.relpath(path, folder) for path in paths]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    for name in ("b.jsonl", "a.jsonl.gz", "deep/c.conll", ".hidden.jsonl", "_manifest.json", "notes.md", "d.jsonl.zst"):
        pack = PACK.get(Path(name).suffix, bytes)
        (tmp_path / "in" / name).write_bytes(pack((LINE if "jsonl" in name else "He PRP\nleft VBD\n").encode()))
    pq.write_table(pa.table({"tokens": [["He", "left"]]}), tmp_path / "in" / "e.parquet")
    return tmp_path / "in"


def test_a_folder_stands_for_the_files_that_can_be_read(folder: Path) -> None:
    found = inputs([folder])
    assert names([one.path for one in found], folder) == [
        "a.jsonl.gz", "b.jsonl", "d.jsonl.zst", "deep/c.conll", "e.parquet",
    ]  # fmt: skip
    assert [one.format for one in found] == ["jsonl", "jsonl", "jsonl", "conll", "parquet"]
    for one in found:
        (block,) = one.reader.blocks(one.path)
        assert block.batch.column("tokens").to_pylist() == [["He", "left"]] and block.share == 1


def test_patterns_and_duplicates(folder: Path) -> None:
    assert names(files([folder / "*.jsonl*", folder / "b.jsonl", str(folder)]), folder) == [
        "a.jsonl.gz", "b.jsonl", "d.jsonl.zst", "deep/c.conll", "e.parquet",
    ]  # fmt: skip
    assert names(files([f"{folder}/**/*.conll"]), folder) == ["deep/c.conll"]
    assert files(["-", "-"]) == ["-"]
    (folder / "odd[1].jsonl").write_text(LINE)
    assert names(files([folder / "odd[1].jsonl"]), folder) == ["odd[1].jsonl"]  # a name, though it looks like a pattern


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("*.npz", "no file matches"),
        ("none.jsonl", "cannot read this file"),
        ("empty", "no files that"),
        ("a\0", "path"),
    ],
)
def test_what_is_not_there_is_an_error(folder: Path, name: str, what: str) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(FileError, match=what):
        files([f"{folder}/{name}"])


def test_formats_without_a_kernel_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("sentence,word,label\n" + "".join(f"{k},w{k},X\n" for k in range(10)), "utf-8")
    reader = reader_of("csv", sequence="sentence")
    assert isinstance(reader, ExampleReader)
    blocks = list(reader.blocks(str(path), rows=3))
    rows = [row["tokens"] for block in blocks for row in block.batch.to_pylist()]
    assert rows == [[f"w{k}"] for k in range(10)] and blocks[0].batch.column("gold").to_pylist() == [["X"]] * 3
    rest = [row["tokens"] for one in reader.blocks(str(path), blocks[1].end) for row in one.batch.to_pylist()]
    assert rest == rows[6:]
    with pytest.raises(FileError, match="shorter than before"):
        list(reader.blocks(str(path), 100))


def test_other_encodings_are_read_sequence_by_sequence(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_bytes("é X\n".encode("latin-1"))
    assert isinstance(reader_of("conll"), ConllReader)
    (block,) = reader_of("conll", encoding="latin-1").blocks(str(path))
    assert block.batch.column("tokens").to_pylist() == [["é"]]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_packed_files_go_on_and_are_checked(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    lines = [json.dumps({"id": k, "tokens": [os.urandom(50).hex()]}) + "\n" for k in range(500)]
    data = PACK[suffix]("".join(lines[:300]).encode()) + PACK[suffix]("".join(lines[300:]).encode())  # two in one file
    path.write_bytes(data)
    blocks = list(reader_of("jsonl").blocks(str(path), rows=100, size=5000))
    assert [row["id"] for block in blocks for row in block.batch.to_pylist()] == list(range(500))
    rest = [row["id"] for one in reader_of("jsonl").blocks(str(path), blocks[3].end) for row in one.batch.to_pylist()]
    assert rest == list(range(sum(len(block.batch) for block in blocks[:4]), 500))
    for cut in (data[: len(data) // 2], data[:-10], data[: len(data) // 2] + b"\0" * 50 + data[len(data) // 2 + 50 :]):
        path.write_bytes(cut)
        with pytest.raises(FileError, match=r"cut off or damaged|cut off\?|not utf-8|NUL"):
            list(reader_of("jsonl").blocks(str(path)))


def test_a_small_file_that_unpacks_to_much_needs_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.conll.zst"
    path.write_bytes(zstd(b"a\tB\n\n" * 1_000_000 + b"x" * (1 << 26)))
    before = pa.total_allocated_bytes()
    with pytest.raises(FileError, match="a line is too long"):
        for block in reader_of("conll").blocks(str(path)):
            assert len(block.batch) <= 4096
    assert pa.total_allocated_bytes() - before < 1 << 24


def test_an_unknown_way_to_treat_errors_is_an_error() -> None:
    with pytest.raises(FileError, match="`on_error` has an unknown value"):
        reader_of("conll", on_error="skip")  # type: ignore[arg-type]


def test_zeros_behind_gzipped_data_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"tokens": ["a"]}\n' * 3) + bytes(512))
    (found,) = inputs([path])
    assert sum(len(block.batch) for block in found.reader.blocks(str(path))) == 3
