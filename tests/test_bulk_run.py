"""Runs over files: shards and manifest, resume after a stop at any point, and what is refused."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bridle
from bridle.bulk import Progress, ShardSize, check, checksum, shards, tag_files
from bridle.bulk.base import Reader
from bridle.bulk.formats import SUFFIXES, reader_for
from bridle.bulk.manifest import NAME, Counts, Manifest, Record, Shard
from bridle.bulk.progress import Meter
from bridle.errors import FileError
from bulk_faults import FAULTS, KILLED

TOKENS = [["Ann", "met", "Bob"][: 1 + k % 3] for k in range(40)]
IDS = [f"s{k}" for k in range(40)]
HEAD = {"model": "m", "rules": "none", "options": {"to": "jsonl"}, "inputs": [{"path": "a", "size": 1, "mtime_ns": 5}]}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = bridle.CRF(features="word[0]", c2=1.0).fit([["Ann", "met", "Bob"]] * 3, [["PER", "O", "PER"]] * 3)
    path = tmp_path_factory.mktemp("bulk") / "m.bridle"
    made.save(path)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Forty rows in row groups of five."""
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": IDS, "tokens": TOKENS}), path, row_group_size=5)
    return path


def rows_of(folder: Path, format: str = "parquet") -> list[dict[str, Any]]:
    """The rows of all shards. Readers call the labels of a file gold."""
    reader: Reader = reader_for(format)
    found = sorted(path for path in folder.iterdir() if path.name.startswith("part-"))
    return [row for path in found for block in reader.blocks(str(path)) for row in block.batch.to_pylist()]


def wanted(model: Path) -> list[Any]:
    return list(bridle.load(model).predict(TOKENS))


def run(model: Path, data: Path, out: Path, **more: Any) -> Any:
    return tag_files(model, data, out, **{"shard_size": ShardSize(rows=7), "threads": 2, **more})


# ---- what is written ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", SUFFIXES)
def test_all_formats_hold_all_rows_in_order(model: Path, data: Path, tmp_path: Path, format: str) -> None:
    result = run(model, data, tmp_path / "out", to=format)
    assert (result.rows, result.tokens) == (40, sum(map(len, TOKENS))) and 4 <= result.shards <= 6
    assert dict(result.status) == {"optimal": 40} and result.ids == f"{checksum(IDS):016x}"
    found = rows_of(tmp_path / "out", format)
    assert [row["tokens"] for row in found] == TOKENS and [row["gold"] for row in found] == wanted(model)
    if format != "conll":
        assert [row["id"] for row in found] == IDS
    assert check(tmp_path / "out").rows == 40
    assert all(path.name.startswith(("part-", NAME)) for path in (tmp_path / "out").iterdir())


def test_tables_have_status_and_error(model: Path, data: Path, tmp_path: Path) -> None:
    run(model, data, tmp_path / "out", rules=["at least 9 tokens of PER"], on_infeasible="skip")
    table = pq.read_table(tmp_path / "out" / "part-00000.parquet")
    assert table.schema.names == ["id", "tokens", "labels", "status", "error"]
    assert set(table.column("status").to_pylist()) == {"infeasible"} and table["labels"].null_count == len(table)


def test_rows_without_an_id_get_their_number(model: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"tokens": TOKENS}), tmp_path / "x.parquet")
    pq.write_table(pa.table({"id": ["a", None], "tokens": TOKENS[:2]}), tmp_path / "y.parquet")
    run(model, [tmp_path / "x.parquet", tmp_path / "x.parquet"], tmp_path / "a")  # type: ignore[arg-type]
    assert [row["id"] for row in rows_of(tmp_path / "a")] == [str(k) for k in range(40)]  # a file is read once
    run(model, tmp_path / "y.parquet", tmp_path / "b")
    assert [row["id"] for row in rows_of(tmp_path / "b")] == ["a", "1"]


def test_no_rows_are_a_run_without_shards(model: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"tokens": pa.array([], pa.list_(pa.string()))}), tmp_path / "x.parquet")
    assert run(model, tmp_path / "x.parquet", tmp_path / "out").shards == 0
    assert check(tmp_path / "out").rows == 0
    run(model, tmp_path / "x.parquet", tmp_path / "y.parquet", resume=False)
    assert pq.read_table(tmp_path / "y.parquet").num_rows == 0


def test_ids_that_occur_in_two_files_are_counted(model: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "y.jsonl").write_text('{"id": "s3", "tokens": ["Ann"]}\n{"id": "t", "tokens": ["Ann"]}\n')
    result = tag_files(model, [data, tmp_path / "y.jsonl"], tmp_path / "out")
    assert (result.rows, result.repeated) == (42, 1) and result.repeated_example.startswith("s3 in ")


def test_progress_ends_at_one(model: Path, data: Path, tmp_path: Path) -> None:
    seen: list[Progress] = []
    run(model, data, tmp_path / "out", progress=seen.append)
    assert [one.rows for one in seen] == sorted(one.rows for one in seen)
    assert (seen[-1].rows, seen[-1].share, seen[-1].seconds_left) == (40, 1.0, 0.0) and seen[-1].shard >= 4


def test_time_left_counts_from_where_a_run_was_resumed() -> None:
    now = [0.0]
    meter = Meter([100, 100], lambda: now[0], Counts(rows=5, tokens=50))
    meter.reached(1, 0.5)  # the first block after the resume
    assert meter.progress(Counts(tokens=60), 1).seconds_left is None
    now[0] = 10.0
    meter.reached(1, 0.75)
    found = meter.progress(Counts(tokens=250), 1)
    assert (found.share, found.seconds_left, found.rate) == (0.875, 10.0, 20.0)


# ---- stops ----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_every_step_no_row_is_lost_or_doubled(model: Path, data: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).with_name("bulk_faults.py")), model, data, tmp_path / "out"]
    path = os.pathsep.join([str(Path(bridle.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=True, timeout=60)
    ends = json.loads(done.stdout)
    assert ends == {**dict.fromkeys(FAULTS, KILLED), "after the end is noted": KILLED, "never": 0}
    found = rows_of(tmp_path / "out")
    assert [row["id"] for row in found] == IDS and [row["gold"] for row in found] == wanted(model)
    assert check(tmp_path / "out").ids == f"{checksum(IDS):016x}"
    assert all(path.name.startswith(("part-", NAME)) for path in (tmp_path / "out").iterdir())
    assert not [path for path in (tmp_path / "out").iterdir() if path.suffix == ".part"]


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException, calls: int = 3) -> None:
    """Let the writing of some batch fail."""
    write, left = shards._Open.write, [calls]

    def fails(self: Any, batch: Any) -> None:
        left[0] -= 1
        if not left[0]:
            self._try(lambda: (_ for _ in ()).throw(error))
        write(self, batch)

    monkeypatch.setattr(shards._Open, "write", fails)


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), MemoryError()]
)
def test_stopped_and_resumed(
    model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    failing(monkeypatch, error)
    with pytest.raises(FileError if isinstance(error, OSError) else type(error)) as found:
        run(model, data, tmp_path / "out")
    assert "finished shards are kept" in found.value.__notes__[0]
    if isinstance(error, OSError):
        assert "The disk is full." in str(found.value)
    with pytest.raises(FileError, match="has not finished"):
        check(tmp_path / "out")
    result = run(model, data, tmp_path / "out")
    assert (result.rows, result.state) == (40, "finished") and 0 < result.rows_before < 40
    assert [row["id"] for row in rows_of(tmp_path / "out")] == IDS
    assert run(model, data, tmp_path / "out").state == "nothing to do"


def test_an_error_in_a_row_names_it(model: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"tokens": [["Ann"]] * 20 + [["Ann", None]] + [["Ann"]] * 20}), tmp_path / "x.parquet")
    with pytest.raises(bridle.BridleError, match=r"20|x\.parquet"):
        run(model, tmp_path / "x.parquet", tmp_path / "out", on_error="raise")


def test_a_file_that_goes_missing_can_come_back(model: Path, data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "z.parquet"
    copy.write_bytes(data.read_bytes())
    kept = tmp_path / "kept"

    def hide(progress: Progress) -> None:
        if copy.exists():
            copy.rename(kept)

    with pytest.raises(FileError, match=r"z\.parquet"):
        tag_files(model, [data, copy], tmp_path / "out", shard_size=ShardSize(rows=7), threads=1, progress=hide)
    with pytest.raises(FileError, match="cannot read this file"):
        tag_files(model, [data, copy], tmp_path / "out", shard_size=ShardSize(rows=7))
    kept.rename(copy)
    result = tag_files(model, [data, copy], tmp_path / "out", shard_size=ShardSize(rows=7))
    assert result.rows == 80 and [row["id"] for row in rows_of(tmp_path / "out")] == IDS * 2


# ---- what is refused ------------------------------------------------------------------------------------------------


def touched(data: Path) -> None:
    os.utime(data, ns=(1, 1))


@pytest.mark.parametrize(
    ("more", "change", "message"),
    [
        ({"resume": False, "out": "slash"}, None, "already holds a run"),
        ({"rules": ["at most 1 token of PER"]}, None, "other rules"),
        ({"to": "jsonl"}, None, "other options; got to: jsonl; wanted parquet"),
        ({"time_limit": 3.0}, None, "other options; got time_limit: 3.0; wanted nothing"),
        ({"on_error": "raise"}, None, "other options; got on_error: raise; wanted row"),
        ({}, touched, r"the input is not what it was .*x\.parquet: .*1970"),
        ({}, lambda data: data.unlink(), "cannot read this file|cannot open"),
    ],
)
def test_another_run_is_refused(
    model: Path, data: Path, tmp_path: Path, more: dict[str, Any], change: Callable[[Path], None] | None, message: str
) -> None:
    run(model, data, tmp_path / "out")
    before = (tmp_path / "out" / NAME).read_bytes()
    if change is not None:
        change(data)
    more.pop("out", None)
    with pytest.raises(FileError, match=message):
        run(model, data, tmp_path / "out", **more)
    assert (tmp_path / "out" / NAME).read_bytes() == before


def test_another_model_is_refused(model: Path, data: Path, tmp_path: Path) -> None:
    run(model, data, tmp_path / "out")
    other = bridle.CRF(features="word[0]", c2=2.0).fit([["Ann", "met"]], [["PER", "O"]])
    with pytest.raises(FileError, match="another model"):
        tag_files(other, data, tmp_path / "out")


def test_folders_with_other_files_are_left_alone(model: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"holds other files; got x\.parquet"):
        run(model, data, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["x.parquet"]


def test_only_one_run_at_a_time(tmp_path: Path) -> None:
    first = Manifest(tmp_path / "out", dict(HEAD), resume=True)
    with pytest.raises(FileError, match="another process is writing into this folder"):
        Manifest(tmp_path / "out", dict(HEAD), resume=True)
    first.close()
    Manifest(tmp_path / "out", dict(HEAD), resume=True).close()


def test_shards_are_checked(model: Path, data: Path, tmp_path: Path) -> None:
    run(model, data, tmp_path / "out", to="jsonl")
    shard = tmp_path / "out" / "part-00001.jsonl"
    good = shard.read_bytes()
    name = json.loads(good.splitlines()[0])["id"]
    shard.write_bytes(good.replace(name.encode(), b"t" + name[1:].encode(), 1))
    with pytest.raises(FileError, match="other rows than the manifest says"):
        check(tmp_path / "out")
    shard.write_bytes(good[:-9])
    for call in (lambda: check(tmp_path / "out"), lambda: run(model, data, tmp_path / "out", to="jsonl")):
        with pytest.raises(FileError, match="not what the run has written"):
            call()
    with pytest.raises(FileError, match="no manifest"):
        check(tmp_path)


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
        found, size = Record.of(whole[:cut], "x")
        complete = whole[:cut].count(b"\n")
        assert size == whole.rfind(b"\n", 0, cut) + 1
        assert (bool(found.head), len(found.shards)) == (complete > 0, max(0, min(complete - 1, 3)))
        assert (found.finished is not None) == (complete == 5)
    assert found.counts == Counts(9, 27, 300, 3 * 2**63 % 2**64, {"optimal": 6, "error": 3}, ("bad",) * 3)
    with pytest.raises(FileError, match="damaged"):
        Record.of(whole.replace(b'"rows"', b'"rovs"'), "x")


@settings(max_examples=30)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=12), max_size=8), st.randoms())
def test_checksums_do_not_depend_on_order_or_parts(ids: list[str], random: Any) -> None:
    mixed = list(ids)
    random.shuffle(mixed)
    assert checksum(mixed) == checksum(ids) == sum(checksum([one]) for one in ids) % 2**64
    array = pa.array(["zz", *ids])
    assert checksum(array[1:]) == checksum(pa.chunked_array([array[1:]])) == checksum(ids)


@settings(max_examples=30)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=6), min_size=2, max_size=6, unique=True))
def test_checksums_tell_lost_and_doubled_rows(ids: list[str]) -> None:
    assert len({checksum(ids), checksum(ids[1:]), checksum([ids[0], *ids]), checksum([ids[0], ids[0], *ids[2:]])}) == 4
