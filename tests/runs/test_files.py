"""Runs over files: shards and manifest, resume after a stop at any point, what is refused; rows that differ or fail."""

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
from bridle.bulk import Progress, ShardSize, check, checksum, tag_files
from bridle.data import read
from bridle.data.parquet import TableWriter
from bridle.errors import FileError
from bridle.models import Tagger
from bridle.runs import NAME, Counts
from bridle.runs.files import SUFFIXES
from bridle.runs.run import Meter
from reading import blocks
from reading import rows_of as block_rows
from run_faults import FAULTS, KILLED

TOKENS = [["Ann", "met", "Bob"][: 1 + k % 3] for k in range(40)]
IDS = [f"s{k}" for k in range(40)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = bridle.CRF(features="word[0]", c2=1.0).fit([["Ann", "met", "Bob"]] * 3, [["PER", "O", "PER"]] * 3)
    path = tmp_path_factory.mktemp("runs") / "m.bridle"
    model.save(path)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Forty rows in row groups of five."""
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": IDS, "tokens": TOKENS}), path, row_group_size=5)
    return path


def rows_of(folder: Path, format: str = "parquet") -> list[dict[str, Any]]:
    """The rows of all shards."""
    paths = sorted(path for path in folder.iterdir() if path.name.startswith("part-"))
    rows = [row for path in paths for block in blocks(path, format) for row in block_rows(block)]
    return [{"id": row[0], "tokens": row[1]["word"], "labels": row[2]} for row in rows]


def wanted(model: Path) -> list[Any]:
    return list(bridle.load(model).predict(TOKENS))


def run(model: Path, data: Path, out: Path, **more: Any) -> Any:
    return tag_files(model, data, out, **{"shard_size": ShardSize(rows=7), "threads": 2, **more})


# ---- what is written ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", SUFFIXES)
def test_all_formats_hold_all_rows_in_order(model: Path, data: Path, tmp_path: Path, format: str) -> None:
    result = run(model, data, tmp_path / "out", to=format)
    assert (result.rows, result.tokens) == (40, sum(map(len, TOKENS))) and 4 <= result.shards <= 6
    assert dict(result.status) == {"optimal": 40} and result.ids == checksum(IDS)
    results = rows_of(tmp_path / "out", format)
    assert [row["tokens"] for row in results] == TOKENS and [row["labels"] for row in results] == wanted(model)
    if format != "conll":
        assert [row["id"] for row in results] == IDS
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
    run(model, tmp_path / "x.parquet", tmp_path / "z.parquet", resume=False, scores=True, k=2)
    assert {"score", "bound", "probabilities", "k_best", "status"} <= set(pq.read_schema(tmp_path / "z.parquet").names)
    assert pq.read_table(tmp_path / "y.parquet").num_rows == 0


def test_ids_that_occur_in_two_files_are_counted(model: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "y.jsonl").write_text('{"id": "s3", "tokens": ["Ann"]}\n{"id": "t", "tokens": ["Ann"]}\n')
    result = tag_files(model, [data, tmp_path / "y.jsonl"], tmp_path / "out")
    assert (result.rows, result.repeated) == (42, 1) and result.repeated_example.startswith("s3 in ")


@given(
    st.lists(st.none() | st.integers(0, 9) | st.sampled_from(["3", "x"]), min_size=1, max_size=12), st.integers(0, 12)
)
@settings(max_examples=20, deadline=None)
def test_ids_stay_and_other_rows_get_their_number(
    tmp_path_factory: pytest.TempPathFactory, names: list[int | str | None], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("ids")
    model = bridle.CRF(features="word[0]", c2=1.0).fit([["Ann", "met"]], [["PER", "O"]])
    lines = ['{"tokens": ["Ann"]' + ("" if name is None else f', "id": {json.dumps(name)}') + "}\n" for name in names]
    paths = [folder / "a.jsonl", folder / "b.jsonl"]
    for path, some in zip(paths, (lines[:cut], lines[cut:]), strict=True):
        path.write_text("".join(some))
    result = tag_files(model, paths, folder / "out", to="jsonl")
    results = [row["id"] for row in rows_of(folder / "out", "jsonl")]
    assert results == [str(k if name is None else name) for k, name in enumerate(names)] and result.ids == checksum(
        results
    )
    before = {str(name) for name in names[:cut] if name is not None}
    assert result.repeated == sum(name is not None and str(name) in before for name in names[cut:])


def test_progress_ends_at_one(model: Path, data: Path, tmp_path: Path) -> None:
    seen: list[Progress] = []
    run(model, data, tmp_path / "out", progress=seen.append)
    assert [item.rows for item in seen] == sorted(item.rows for item in seen)
    assert (seen[-1].rows, seen[-1].share, seen[-1].seconds_left) == (40, 1.0, 0.0) and seen[-1].shard >= 4


def test_time_left_counts_from_where_a_run_was_resumed() -> None:
    now = [0.0]
    meter = Meter([100, 100], Counts(rows=5, tokens=50), lambda: now[0])
    meter.reached(1, 0.5)  # the first block after the resume
    assert meter.progress(Counts(tokens=60), 1).seconds_left is None
    now[0] = 10.0
    meter.reached(1, 0.75)
    result = meter.progress(Counts(tokens=250), 1)
    assert (result.share, result.seconds_left, result.rate) == (0.875, 10.0, 20.0)


# ---- stops ----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_every_step_no_row_is_lost_or_doubled(model: Path, data: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).parents[1] / "run_faults.py"), model, data, tmp_path / "out"]
    path = os.pathsep.join([str(Path(bridle.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=True, timeout=60)
    ends = json.loads(done.stdout)
    assert ends == {**dict.fromkeys(FAULTS, KILLED), "after the end is noted": KILLED, "never": 0}
    result = rows_of(tmp_path / "out")
    assert [row["id"] for row in result] == IDS and [row["labels"] for row in result] == wanted(model)
    assert check(tmp_path / "out").ids == checksum(IDS)
    assert all(path.name.startswith(("part-", NAME)) for path in (tmp_path / "out").iterdir())
    assert not [path for path in (tmp_path / "out").iterdir() if path.suffix == ".part"]


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException, folder: Path, shards: int) -> None:
    """Let the writing of a block fail once some shards are finished."""
    write = TableWriter.write

    def fails(self: TableWriter, *rows: Any) -> int:
        if len(list(folder.glob("part-*.parquet"))) == shards:
            raise error
        return write(self, *rows)

    monkeypatch.setattr(TableWriter, "write", fails)


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), MemoryError()]
)
def test_stopped_and_resumed(
    model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    failing(monkeypatch, error, tmp_path / "out", 2)
    with pytest.raises(FileError if isinstance(error, OSError) else type(error)) as results:
        run(model, data, tmp_path / "out")
    assert "finished shards are kept" in results.value.__notes__[0]
    if isinstance(error, OSError):
        assert "The disk is full." in str(results.value)
    with pytest.raises(FileError, match="has not finished"):
        check(tmp_path / "out")
    monkeypatch.undo()
    result = run(model, data, tmp_path / "out")
    assert (result.rows, result.state) == (40, "finished") and 0 < result.rows_before < 40
    assert [row["id"] for row in rows_of(tmp_path / "out")] == IDS
    assert run(model, data, tmp_path / "out").state == "nothing to do"


def test_a_run_without_a_finished_shard_leaves_nothing(
    model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, MemoryError(), tmp_path / "out", 0)
    with pytest.raises(MemoryError):
        run(model, data, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    with pytest.raises(MemoryError):
        run(model, data, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())
    monkeypatch.undo()
    assert run(model, data, tmp_path / "out", rules=["at most 1 token of PER"]).rows == 40


def test_an_error_in_a_row_names_it(model: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"tokens": [["Ann"]] * 20 + [["Ann", None]] + [["Ann"]] * 20}), tmp_path / "x.parquet")
    with pytest.raises(bridle.BridleError, match=r"x\.parquet: sequence 20: a token in 'tokens' is null"):
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


# ---- rows that differ in ids and columns, and rows that fail ---------------------------------------------------------

WORDS = ["Ann", "met"]
SMALL = ShardSize(rows=2)  # and blocks of two rows
GOOD = {"tokens": WORDS}


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    return bridle.CRF(features="word[0]", c2=1.0).fit([WORDS] * 3, [["PER", "O"]] * 3)


@pytest.fixture(scope="module")
def two() -> Tagger:
    """A model that needs a second column."""
    rows = [{"word": WORDS, "pos": ["N", "V"]}] * 3
    return bridle.CRF(features=["word[0]", "pos[0]"], c2=1.0).fit(rows, [["PER", "O"]] * 3)


def written(path: Path, *records: Any) -> Path:
    path.write_text("".join(f"{record if isinstance(record, str) else json.dumps(record)}\n" for record in records))
    return path


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(out.glob("part-*")) for line in path.read_text().splitlines()]


def test_ids_are_strings_whatever_the_first_ones_are(tagger: Tagger, tmp_path: Path) -> None:
    first = written(tmp_path / "a.jsonl", *({"id": k, **GOOD} for k in range(1, 6)))
    second = written(tmp_path / "b.jsonl", {"id": "007", **GOOD}, {"id": "x7", **GOOD})
    for shard_size in (SMALL, ShardSize()):
        out = tmp_path / f"out{shard_size.rows}"
        tag_files(tagger, [first, second], out, to="jsonl", shard_size=shard_size)
        assert [row["id"] for row in lines(out)] == ["1", "2", "3", "4", "5", "007", "x7"]
    tag_files(tagger, [first, second], tmp_path / "one.parquet", resume=False)
    assert pq.read_table(tmp_path / "one.parquet")["id"].to_pylist()[-2:] == ["007", "x7"]


def test_lines_may_get_columns_later_and_tables_may_not(tagger: Tagger, tmp_path: Path) -> None:
    late = written(tmp_path / "x.jsonl", *[GOOD] * 4, {**GOOD, "note": ["a", "b"]}, {**GOOD, "labels": ["PER", "O"]})
    more = {"shard_size": SMALL, "threads": 1}
    # so that a look at the first rows does not see them
    other = written(tmp_path / "w.jsonl", *[GOOD] * 2)
    tag_files(tagger, [other, late], tmp_path / "j", to="jsonl", **more)
    assert [row.get("note") for row in lines(tmp_path / "j")][-2:] == [["a", "b"], None]
    tag_files(tagger, [other, late], tmp_path / "c", to="conll", **more)
    for path in (tmp_path / "c").glob("part-*"):
        assert [example.tokens for example in read(path, "conll")]  # all lines of a shard have the same columns
    assert check(tmp_path / "c").rows == 8
    with pytest.raises(FileError, match="a column that the first ones do not have; got note"):
        tag_files(tagger, [other, late], tmp_path / "p", to="parquet", **more)


def test_comments_that_come_late_do_not_matter(tagger: Tagger, tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("Ann\nmet\n\n" * 3)
    (tmp_path / "b.conll").write_text("# sent 2\nAnn\n")
    data = [tmp_path / "a.conll", tmp_path / "b.conll"]
    options = {"columns": ["word"], "label": None}
    for to in ("parquet", "jsonl", "conll"):
        assert tag_files(tagger, data, tmp_path / to, to=to, options=options).rows == 4
    assert "# sent 2\nAnn" in (tmp_path / "conll" / "part-00000.conll").read_text()


def test_rows_without_a_column_of_the_model_fail_alone(two: Tagger, tmp_path: Path) -> None:
    good, bad = {"id": "a", **GOOD, "pos": ["N", "V"]}, {"id": "b", "tokens": None}
    item = written(tmp_path / "x.jsonl", bad, good)
    assert dict(tag_files(two, item, tmp_path / "a", shard_size=ShardSize(rows=1)).status) == {"error": 1, "optimal": 1}
    both = [written(tmp_path / "y.jsonl", good), written(tmp_path / "z.jsonl", bad, {"id": "c", **GOOD})]
    assert dict(tag_files(two, both, tmp_path / "b").status) == {"optimal": 1, "error": 2}


def test_failed_rows_pass_the_check(tagger: Tagger, tmp_path: Path) -> None:
    data = written(tmp_path / "x.jsonl", {"id": "a", **GOOD}, {"id": "b", "tokens": None})
    for to in ("jsonl", "parquet", "arrow", "conll"):
        run = tag_files(tagger, data, tmp_path / to, to=to)
        assert dict(run.status) == {"optimal": 1, "error": 1} and check(tmp_path / to).ids == run.ids


def test_half_a_character_in_an_id_is_a_row_that_failed(tagger: Tagger, tmp_path: Path) -> None:
    data = written(tmp_path / "x.jsonl", r'{"id": "\ud800", "tokens": ["Ann"]}', {"id": "b", **GOOD})
    assert dict(tag_files(tagger, data, tmp_path / "out").status) == {"error": 1, "optimal": 1}


def test_a_column_word_replaces_the_tokens_in_all_rows(tagger: Tagger, tmp_path: Path) -> None:
    rows = [{"tokens": ["a", "b"], "word": WORDS}] * 3
    data = written(tmp_path / "x.jsonl", *rows)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet")
    for path in (data, tmp_path / "x.parquet"):
        (block,) = blocks(path)
        assert list(block.columns) == ["word"]
        assert [block.tokens.row(k) for k in range(3)] == [WORDS] * 3 == [list(item.tokens) for item in read(path)]
    assert dict(tag_files(tagger, data, tmp_path / "out").status) == {"optimal": 3}


def test_the_first_column_is_the_one_that_the_model_calls_so(two: Tagger, tmp_path: Path) -> None:
    (tmp_path / "x.conll").write_text("N Ann\nV met\n")
    options = {"columns": ["pos", "word"], "label": None}
    run = tag_files(two, tmp_path / "x.conll", tmp_path / "out", to="jsonl", options=options)
    assert dict(run.status) == {"optimal": 1} and lines(tmp_path / "out")[0]["labels"] == ["PER", "O"]


def test_given_values_are_written_in_one_way(tagger: Tagger, tmp_path: Path) -> None:
    data = written(tmp_path / "x.jsonl", *['{"tokens":["Ann"],"given":{"verb":3}}'] * 3)
    tag_files(tagger, data, tmp_path / "out", to="parquet")
    assert pq.read_table(tmp_path / "out" / "part-00000.parquet")["given"].to_pylist() == ['{"verb": 3}'] * 3


def test_tokens_of_any_length_are_labelled(tagger: Tagger, tmp_path: Path) -> None:
    data = written(tmp_path / "x.jsonl", {"tokens": ["x" * 100_000]}, GOOD)
    assert dict(tag_files(tagger, data, tmp_path / "out").status) == {"optimal": 2}
    item = tag_files(tagger, data, tmp_path / "one.parquet", resume=False, on_error="raise")
    assert dict(item.status) == {"optimal": 2}
