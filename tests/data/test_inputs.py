"""The files of a run, and how they are read: folders, patterns, packed files, formats without a kernel."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bridle.data.blocks import ROWS
from bridle.data.files import check_places, files, opened
from bridle.errors import FileError
from reading import blocks, rows_of

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
    result = files([folder])
    assert names(result, folder) == ["a.jsonl.gz", "b.jsonl", "d.jsonl.zst", "deep/c.conll", "e.parquet"]
    kinds = []
    for path in result:
        source, kind = opened(path, None, {})
        source.close()
        kinds.append(kind.name)
        (block,) = blocks(Path(path))
        assert block.tokens.row(0) == ["He", "left"] and len(block) == block.share == 1
    assert kinds == ["jsonl", "jsonl", "jsonl", "conll", "parquet"]


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
    result = list(blocks(path, "csv", rows=3, sequence="sentence"))
    rows = [row for block in result for row in rows_of(block)]
    assert [row[1]["word"] for row in rows] == [[f"w{k}"] for k in range(10)]
    assert [len(block) for block in result] == [3, 3, 3, 1] and [row[2] for row in rows] == [["X"]] * 10
    assert [row for item in blocks(path, "csv", result[1].end, sequence="sentence") for row in rows_of(item)] == rows[
        6:
    ]
    with pytest.raises(FileError, match="shorter than before"):
        list(blocks(path, "csv", 100, sequence="sentence"))


def test_other_encodings_are_read_sequence_by_sequence(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_bytes("é X\n".encode("latin-1"))
    (block,) = blocks(path, "conll", encoding="latin-1")
    assert block.tokens.row(0) == ["é"]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_packed_files_go_on_and_are_checked(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    lines = [json.dumps({"id": k, "tokens": [os.urandom(50).hex()]}) + "\n" for k in range(500)]
    data = PACK[suffix]("".join(lines[:300]).encode()) + PACK[suffix]("".join(lines[300:]).encode())  # two in one file
    path.write_bytes(data)
    result = list(blocks(path, "jsonl", rows=100, size=5000))
    assert [row[0] for block in result for row in rows_of(block)] == list(range(500))
    rest = [row[0] for item in blocks(path, "jsonl", result[3].end) for row in rows_of(item)]
    assert rest == list(range(sum(map(len, result[:4])), 500))
    for cut in (data[: len(data) // 2], data[:-10], data[: len(data) // 2] + b"\0" * 50 + data[len(data) // 2 + 50 :]):
        path.write_bytes(cut)
        with pytest.raises(FileError, match=r"cut off or damaged|cut off\?|not utf-8|NUL"):
            for block in blocks(path, "jsonl"):
                for error in block.errors.values():
                    raise error


def test_a_small_file_that_unpacks_to_much_needs_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.conll.zst"
    path.write_bytes(zstd(b"a\tB\n\n" * 1_000_000 + b"x" * (1 << 26)))
    before = pa.total_allocated_bytes()
    with pytest.raises(FileError, match="a line is too long"):
        for block in blocks(path, "conll"):
            assert len(block) <= ROWS
    assert pa.total_allocated_bytes() - before < 1 << 24


def test_zeros_behind_gzipped_data_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"tokens": ["a"]}\n' * 3) + bytes(512))
    assert sum(map(len, blocks(path))) == 3


@pytest.mark.parametrize(
    ("given", "out", "refused"),
    [
        ("in", "in/out", True),
        ("in", "in", True),
        ("in", "out", False),
        ("in", "in2", False),
        ("in/*.jsonl", "in", True),
        ("in/*.jsonl", "in/out", False),
        ("in/**/*.jsonl", "in/out", True),
        ("in/**/*.conll", "in/out", False),
        ("*/*.jsonl", "out", True),
        ("in/x.jsonl", "in/out", False),
    ],
)
def test_the_output_is_no_input_of_a_later_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, out: str, refused: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    if not refused:
        check_places([given, "-"], out, "part-00000.jsonl")
        return
    with pytest.raises(FileError, match="the output would be read as input"):
        check_places([given], out, "part-00000.jsonl")
