"""Manifests, checksums of ids, folders and results: what runs on files, Spark and Ray have in common."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.errors import FileError
from bridle.runs import (
    NAME,
    ArrowFolder,
    Counts,
    Manifest,
    Record,
    RunResult,
    Shard,
    absolute,
    checksum,
    claim,
    compare,
    head_of,
    id_sum,
    id_texts,
    read,
)

HEAD = {
    "by": "files",
    "model": "m",
    "rules": "none",
    "options": {"to": "jsonl"},
    "inputs": [{"path": "a", "size": 1, "mtime_ns": 5}],
}


# ---- the manifest ---------------------------------------------------------------------------------------------------


def test_a_manifest_cut_anywhere_is_a_beginning_of_it() -> None:
    counts = Counts(3, 9, 100, 2**63, {"optimal": 2, "error": 1}, ("bad",))
    lines = [
        HEAD,
        *(Shard(f"part-{k}", (0, k), (0, k + 1), counts).to_json() for k in range(3)),
        {"finished": {"rows": 9}},
    ]
    whole = "".join(json.dumps(line) + "\n" for line in lines).encode()
    for cut in range(len(whole) + 1):
        result, size = Record.of(whole[:cut], "x")
        complete = whole[:cut].count(b"\n")
        assert size == whole.rfind(b"\n", 0, cut) + 1
        assert (bool(result.head), len(result.shards)) == (complete > 0, max(0, min(complete - 1, 3)))
        assert (result.finished is not None) == (complete == 5)
    assert result.counts == Counts(9, 27, 300, 3 * 2**63 % 2**64, {"optimal": 6, "error": 3}, ("bad",) * 3)
    with pytest.raises(FileError, match="damaged"):
        Record.of(whole.replace(b'"rows"', b'"rovs"'), "x")


@settings(max_examples=30)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=12), max_size=8), st.randoms())
def test_checksums_do_not_depend_on_order_or_parts(ids: list[str], random: Any) -> None:
    mixed = list(ids)
    random.shuffle(mixed)
    assert checksum(mixed) == checksum(ids) == Counts(ids=sum(map(id_sum, [[name] for name in ids])) % 2**64).checksum
    array = pa.array(["zz", *ids])
    assert checksum(array[1:]) == checksum(pa.chunked_array([array[1:]])) == checksum(ids)


@settings(max_examples=30)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=6), min_size=2, max_size=6, unique=True))
def test_checksums_tell_lost_and_doubled_rows(ids: list[str]) -> None:
    assert len({checksum(ids), checksum(ids[1:]), checksum([ids[0], *ids]), checksum([ids[0], ids[0], *ids[2:]])}) == 4


def test_checksums_of_0_2_stay_valid() -> None:
    """Manifests of 0.2 hold these checksums."""
    assert checksum(["r1", "r2"]) == "4989d6c4f796a09e"
    assert checksum([f"row {k} é" for k in range(1000)]) == "41489737c068e63f"
    assert checksum([]) == "0" * 16


def test_an_id_has_one_text_whatever_holds_it() -> None:
    numbers = list(range(-5, 300))
    wanted = checksum([str(number) for number in numbers])
    views = [pa.string_view()] if hasattr(pa, "string_view") else []  # since PyArrow 16
    for kind in (
        pa.int16(),
        pa.int64(),
        pa.string(),
        pa.large_string(),
        pa.dictionary(pa.int32(), pa.string()),
        *views,
    ):
        assert checksum(pa.array(numbers, pa.int64()).cast(pa.string()).cast(kind)) == wanted, kind
    values = [1.5, None, True, datetime(2026, 1, 2, tzinfo=UTC)]
    texts = [id_texts(pa.array([value]))[0].as_py() for value in values]
    assert texts == ["1.5", None, "true", '"2026-01-02 00:00:00+00:00"']
    assert checksum([None, "a"]) == checksum(["a"])


def test_batches_are_counted() -> None:
    rows = {"id": [1, 2, 2], "b_status": ["optimal", "error", "error"], "b_error": [None, "x", "y"]}
    counts = Counts.of(pa.record_batch(rows), prefix="b_")
    assert counts == Counts(3, ids=id_sum([1, 2, 2]), status={"optimal": 1, "error": 2}, errors=("x", "y"))
    assert Counts.from_json(json.loads(json.dumps(counts.to_json()))) == counts
    assert Counts.of(pa.record_batch(rows), None) == Counts(3)
    result = RunResult.of("out", counts, shards=2, rows_before=1)
    assert (result.checksum, result.files, result.resumed) == (checksum(["1", "2", "2"]), 2, 1)
    assert result.has_bad_rows and not RunResult.of("out", Counts(1, status={"optimal": 1})).has_bad_rows


def test_rows_are_compared() -> None:
    compare(Counts(2, 9, ids=5), Counts(2, ids=5), "out")
    got, wanted = (
        "got 1,000 rows, checksum of ids 0000000000000005",
        "wanted 1,000 rows, checksum of ids 0000000000000006",
    )
    with pytest.raises(FileError, match=f"does not have the rows of the input; {got}; {wanted}"):
        compare(Counts(1000, ids=5), Counts(1000, ids=6), "out")
    with pytest.raises(FileError, match="got 1 rows"):
        compare(Counts(1), Counts(2), "out")


# ---- who may go on --------------------------------------------------------------------------------------------------


def test_only_one_run_at_a_time(tmp_path: Path) -> None:
    first = Manifest(tmp_path / "out", dict(HEAD), resume=True)
    with pytest.raises(FileError, match="another process is writing into this folder"):
        Manifest(tmp_path / "out", dict(HEAD), resume=True)
    first.close()
    Manifest(tmp_path / "out", dict(HEAD), resume=True).close()


def test_a_run_on_a_cluster_is_claimed(tmp_path: Path) -> None:
    head = head_of("m", ["at most 1 token of A"], {"k": 2, "keep": ("id",)}, [{"path": "/a"}, {"path": "/b"}], "spark")
    folder = ArrowFolder(str(tmp_path / "out"))
    assert folder.names() == []
    assert claim(folder, head, more=lambda: {"schema": "x"}) == ({**head, "schema": "x"}, True)
    assert folder.names() == [NAME]
    assert claim(folder, head) == ({**head, "schema": "x"}, False)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"model": "n"}, "another model; got n; wanted m"),
        ({"rules": "none"}, "other rules; got none"),
        ({"options": {"k": 3, "keep": ["id"]}}, "other options; got k: 3; wanted 2"),
        ({"options": {}}, r"other options; got k: nothing \(and 1 more\); wanted 2"),
        ({"inputs": [{"path": "/a"}]}, "the input is not what it was .*got /b: nothing; wanted an input"),
        ({"inputs": [{"path": "/b"}, {"path": "/a"}]}, "the inputs have another order; got /b; wanted /a"),
        ({"by": "ray"}, "started on something else; got ray; wanted spark"),
    ]
    for change, message in changes:
        with pytest.raises(FileError, match=message):
            claim(folder, {**head, **change})
    with pytest.raises(FileError, match="started on something else; got files; wanted spark"):
        Manifest(tmp_path / "out", dict(HEAD), resume=True)
    with pytest.raises(FileError, match="got a run on spark"):
        read(tmp_path / "out")


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").touch()
    head, out = head_of("m", [], {}, [], "ray"), ArrowFolder(str(tmp_path / "out"))
    for notes, place in ((out, None), (ArrowFolder(str(tmp_path / "notes")), out)):
        with pytest.raises(
            FileError, match=r"the folder holds other files; got mine\.txt; wanted a folder that is new"
        ):
            claim(notes, head, place)
    with pytest.raises(FileError, match=r"the folder holds other files; got mine\.txt; wanted a folder that is new"):
        Manifest(tmp_path / "out", dict(HEAD), resume=True)


def test_a_manifest_of_0_2_goes_on(tmp_path: Path) -> None:
    """A manifest of 0.2 does not say that files wrote it."""
    before = {name: value for name, value in HEAD.items() if name != "by"}
    (tmp_path / NAME).write_text(json.dumps({"bridle": "0.2.0", **before}) + "\n", encoding="utf-8")
    Manifest(tmp_path, {**HEAD, "by": "files"}, resume=True).close()
    assert read(tmp_path).head["bridle"] == "0.2.0"


def test_files_of_a_folder_are_complete_or_not_there(tmp_path: Path) -> None:
    folder = ArrowFolder(absolute(tmp_path / "new" / "folder"))
    folder.write("a", b"1")
    folder.write("b", b"22")
    (tmp_path / "new" / "folder" / "c.part").touch()  # left by a kill
    assert (folder.names(), folder.read("b")) == (["a", "b"], b"22")
    folder.remove(["a"])
    assert folder.names() == ["b"]


def test_paths_are_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute("in/*.parquet") == str(tmp_path / "in" / "*.parquet")
    assert absolute("s3a://bucket/in") == "s3a://bucket/in"
