"""Places of a run: what it may read and write, what it removes, and what is left of one file."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

import bridle
from bridle.bulk import ShardSize, shards, tag_files
from bridle.bulk.inputs import check_places
from bridle.bulk.manifest import NAME
from bridle.data import read
from bridle.errors import FileError
from bridle.models import Tagger

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


def test_a_folder_of_input_cannot_hold_the_output(model: Tagger, data: Path) -> None:
    with pytest.raises(FileError, match="the output would be read as input"):
        tag_files(model, data.parent, data.parent / "out")


def test_a_full_disk_leaves_whole_batches(
    model: Tagger, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, calls = shards._Bytes.write, []

    def full(self: Any, text: Any) -> int:
        calls.append(text)
        if len(calls) < 3:
            return write(self, text)
        write(self, bytes(text)[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shards._Bytes, "write", full)
    monkeypatch.setattr("bridle.bulk.job._ROWS", 2)
    seen: list[Any] = []
    from bridle.bulk.job import Job
    from bridle.bulk.run import run

    job = Job(model, [], [str(data)], lambda _: ("jsonl", {}), str(tmp_path / "y.conll"), "conll", {}, "raise")
    with pytest.raises(FileError, match="The disk is full"):
        run(job, resume=False, on_stop=lambda sink: seen.append((sink.counts.rows, sink.kept)))
    assert seen == [(4, tmp_path / "y.conll.part")]
    assert (tmp_path / "y.conll.part").read_text() == "Ann\tPER\nmet\tO\n\n" * 4


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
    real = bridle.arrow.Tag.__call__
    monkeypatch.setattr(bridle.arrow.Tag, "__call__", lambda self, part: sizes.append(len(part)) or real(self, part))
    tag_files(model, data, tmp_path / "out", threads=1)
    assert sizes[:2] == [1, 2]
