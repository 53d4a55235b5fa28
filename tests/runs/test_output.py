"""Places of a run: what it may read and write, what it removes, and what is left of one file."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

import bridle
from bridle.bulk import ShardSize, tag_files
from bridle.data import Lines, read
from bridle.errors import FileError
from bridle.models import Tagger
from bridle.runs.files import _Bytes
from bridle.runs.manifest import NAME
from bridle.tagging import Block, Outcomes, tag

LINE = '{"tokens": ["Ann", "met"]}\n'


@pytest.fixture(scope="module")
def model() -> Tagger:
    return bridle.CRF(features="word[0]", c2=1.0).fit([["Ann", "met"]] * 3, [["PER", "O"]] * 3)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "x.jsonl"
    path.write_text(LINE * 9)
    return path


@pytest.mark.parametrize("size", [{"bytes": 0}, {"rows": 0}, {"rows": -1}, {"rows": 1.5}])
def test_a_shard_has_at_least_one_row(size: Any) -> None:
    with pytest.raises(FileError, match="a shard cannot have so many"):
        ShardSize(**size)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_pipes_are_refused(model: Tagger, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    held = os.open(tmp_path / "pipe", os.O_RDWR)  # so that nothing waits
    try:
        os.write(held, LINE.encode())
        with pytest.raises(FileError, match="a run needs files to read; got a pipe or a device"):
            tag_files(model, tmp_path / "pipe", tmp_path / "out", format="jsonl")
    finally:
        os.close(held)
    assert not (tmp_path / "out").exists()


def test_files_of_others_stay(model: Tagger, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    tag_files(model, data, out)
    for name in ("part-00000.csv", "part-00007.jsonl"):
        (out / name).write_text("mine")
    assert tag_files(model, data, out).state == "nothing to do"
    assert (out / "part-00000.csv").read_text() == (out / "part-00007.jsonl").read_text() == "mine"
    (out / NAME).write_bytes(b"")
    for resume in (True, False):
        with pytest.raises(FileError, match="shards of which its manifest knows nothing"):
            tag_files(model, data, out, resume=resume)
    assert len(list(out.glob("part-*"))) == 3


def test_parts_of_killed_processes_are_removed(model: Tagger, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    tag_files(model, data, out)
    manifest = (out / NAME).read_bytes().splitlines(keepends=True)
    (out / NAME).write_bytes(manifest[0])  # as if it had been killed before the first shard was noted
    other = out / f"part-00003.jsonl.{os.getppid()}-0123ab-01234567.part"  # of another host
    other.write_text("half")
    assert tag_files(model, data, out).rows == 9
    assert sorted(path.name for path in out.iterdir()) == [NAME, "part-00000.jsonl"]


def test_options_that_are_tuples_can_be_resumed(model: Tagger, tmp_path: Path) -> None:
    (tmp_path / "x.conll").write_text("Ann N\n")
    for state in ("finished", "nothing to do"):
        options = {"columns": ("word", "pos"), "label": None}
        assert tag_files(model, tmp_path / "x.conll", tmp_path / "out", options=options).state == state


def test_a_folder_of_input_cannot_hold_the_output(model: Tagger, data: Path) -> None:
    with pytest.raises(FileError, match="the output would be read as input"):
        tag_files(model, data.parent, data.parent / "out")


class Full:
    """A file on a disk with space for some bytes."""

    def __init__(self, raw: Any, space: int) -> None:
        self.raw, self.space = raw, space
        self.tell, self.truncate, self.flush = raw.tell, raw.truncate, raw.flush

    def write(self, data: Any) -> int:
        if not self.space:
            raise OSError(errno.ENOSPC, "No space left on device")
        done: int = self.raw.write(bytes(data)[: self.space])
        self.space -= done
        return done


@pytest.mark.parametrize("space", [40, 45, 46])
def test_a_full_disk_leaves_whole_lines(
    model: Tagger, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, space: int
) -> None:
    begin = Lines.__init__

    def begin_full(self: Lines, *args: Any, **named: Any) -> None:
        begin(self, *args, **named)
        self.raw = Full(self.raw, space)

    monkeypatch.setattr(Lines, "__init__", begin_full)
    with pytest.raises(FileError, match="The disk is full"):
        tag_files(model, data, tmp_path / "y.conll", resume=False)
    assert not (tmp_path / "y.conll").exists()
    wanted = "Ann\tPER\nmet\tO\n\n" * 9
    assert (tmp_path / "y.conll.part").read_text() == wanted[: wanted.rindex("\n", 0, space) + 1]


@pytest.mark.parametrize("name", ["y.parquet", "y.arrow"])
def test_half_a_table_is_not_kept(
    model: Tagger, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write, left = _Bytes.write, [2]

    def full(self: Any, text: Any) -> int:
        if not self.given_up and not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        left[0] -= 1
        return write(self, text)

    monkeypatch.setattr(_Bytes, "write", full)
    with pytest.raises(FileError, match="The disk is full"):
        tag_files(model, data, tmp_path / name, resume=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.jsonl"]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_one_file_is_packed_if_its_name_says_so(model: Tagger, data: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"y.conll{suffix}"
    tag_files(model, data, out, resume=False)
    assert out.read_bytes()[:2] in (b"\x1f\x8b", b"\x28\xb5")
    assert [example.labels for example in read(out, "conll")] == [["PER", "O"]] * 9


def test_a_stop_does_not_wait_for_many_slow_rows(
    model: Tagger, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def noted(block: Block, *args: Any, **named: Any) -> Outcomes:
        sizes.append(len(block))
        return tag(block, *args, **named)

    monkeypatch.setattr("bridle.runs.run.tag", noted)
    tag_files(model, data, tmp_path / "out", threads=1)
    assert sizes[0] == 1 and 1 <= sizes[1] <= 2 and sum(sizes) == 9
