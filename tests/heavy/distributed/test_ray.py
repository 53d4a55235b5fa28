"""Ray: tagged datasets, runs that go on, what is left after kills. The package is real, the clusters are local."""

from __future__ import annotations

import doctest
import importlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bridle
from bridle.arrow import Tag
from bridle.errors import FileError, LabelError, ModelError
from bridle.integrations.ray import RunSummary, count_rows, cpus_per_actor, parquet_files, reconcile, run, tag
from bridle.runs import ArrowFolder, checksum
from page_blocks import ROOT, run_page

sys.path.insert(0, str(ROOT / "benchmarks"))
scale_data = importlib.import_module("scale_data")
scale_ray = importlib.import_module("scale_ray")

RULES = scale_data.RULES
SMALL = {"block_bytes": 60_000, "batch_size": 50}  # about 100 rows in a block
# Ray and what it imports warn of things to come.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{name}")
    for name in ("FutureWarning", "DeprecationWarning", "ResourceWarning", "pytest.PytestUnraisableExceptionWarning")
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and 3,000 rows, with the labels of a single process."""
    folder: Path = tmp_path_factory.mktemp("scale")
    scale_ray.prepared(folder, 3000)
    return folder


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    temp = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    with scale_ray.cluster(temp) as package:
        yield package
    shutil.rmtree(temp, ignore_errors=True)


@pytest.fixture(scope="module")
def rows(folder: Path) -> Path:
    """A file of the first 600 rows."""
    path = folder / "some.parquet"
    pq.write_table(pq.read_table(folder / "rows-3000.parquet").slice(0, 600), path)
    return path


# ---- datasets -------------------------------------------------------------------------------------------------------


def test_a_dataset_gets_the_columns_of_tag(ray: Any, folder: Path, rows: Path) -> None:
    table = pq.read_table(rows).slice(0, 40)
    for options in ({"prefix": "b_"}, {"keep": ["id"]}):
        tagger = Tag(folder / "refs.bridle", RULES, **options)
        tagged = tag(ray.data.from_arrow(table), folder / "refs.bridle", RULES, actors=1, batch_size=16, **options)
        result = pa.concat_tables(ray.get(tagged.to_arrow_refs()))
        assert result.schema.equals(tagger.schema(table.schema))
        assert result.sort_by("id").equals(tagger(table))


def test_tag_works_without_this_module(ray: Any, folder: Path, rows: Path) -> None:
    """In tasks: each loads the model again unless its process has it."""
    table = pq.read_table(rows).slice(0, 40)
    tagger = Tag(folder / "refs.bridle", RULES)
    result = ray.data.from_arrow(table).map_batches(tagger, batch_format="pyarrow", batch_size=16)
    assert pa.concat_tables(ray.get(result.to_arrow_refs())).sort_by("id").equals(tagger(table))


def test_a_checkpoint_changes_no_other_context(ray: Any, folder: Path, rows: Path, tmp_path: Path) -> None:
    data = ray.data.read_parquet(str(rows))
    usual = ray.data.DataContext.get_current().target_max_block_size
    tagged = tag(data, folder / "refs.bridle", RULES, id_column="id", checkpoint=tmp_path / "ids", block_bytes=5000)
    assert tagged.context.checkpoint_config.checkpoint_path == str(tmp_path / "ids")
    assert tagged.context.target_max_block_size == 5000 and tagged.context.target_min_block_size == 5000
    for context in (data.context, ray.data.DataContext.get_current()):
        assert context.checkpoint_config is None
        assert context.target_max_block_size == usual


def test_bad_arguments(ray: Any, folder: Path, rows: Path, tmp_path: Path) -> None:
    data, model = ray.data.read_parquet(str(rows)), bridle.load(folder / "refs.bridle")
    for bad in ({"actors": 0}, {"actors": (2, 1)}, {"batch_size": 0}, {"block_bytes": -1}, {"num_cpus": -1}):
        with pytest.raises(ModelError, match="must be"):
            tag(data, model, **bad)
    with pytest.raises(ModelError, match="a checkpoint needs id_column"):
        tag(data, model, checkpoint=tmp_path)
    with pytest.raises(ModelError, match=r"not a column of the result(.|\n)*keep must name it"):
        tag(data, model, id_column="id", keep=["tokens"])
    with pytest.raises(ModelError, match="read from files"):
        tag(ray.data.from_arrow(pq.read_table(rows)), model, id_column="id", checkpoint=tmp_path)
    with pytest.raises(FileError):
        tag(data, tmp_path / "nothing.bridle")
    with pytest.raises(LabelError, match=r"unknown label .*got 'TITEL'"):
        tag(data, model, ["at most 1 segment of TITEL"])
    with pytest.raises(LabelError, match=r"unknown label .*got 'TITEL'"):
        run(rows, tmp_path / "out", model, ["at most 1 segment of TITEL"])
    assert not (tmp_path / "out").exists()


def test_actors_leave_processors_for_the_rest() -> None:
    """The filter of a resumed job takes one, and reads and writes need one: otherwise it would wait forever."""
    for total in range(2, 40):
        for actors in range(1, 20):
            share = cpus_per_actor(actors, None, total=total, checkpoint=True)
            assert 0 <= share <= 1
            assert actors * share + 2 <= total
    with pytest.raises(ModelError, match="too few processors"):
        cpus_per_actor(1, None, total=1, checkpoint=True)
    assert cpus_per_actor(1, None, total=1, checkpoint=False) == 0
    assert cpus_per_actor(2, 0.5, total=3, checkpoint=True) == 0.5
    with pytest.warns(RuntimeWarning, match="2 actors x 1 processors and 2 for .* more than the 3"):
        assert cpus_per_actor(2, 1, total=3, checkpoint=True) == 1


# ---- runs over files ------------------------------------------------------------------------------------------------


def test_a_run_is_resumed_checked_and_bound_to_its_settings(
    ray: Any, folder: Path, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = folder / "refs.bridle"
    monkeypatch.chdir(tmp_path)  # Ray deletes nothing below a path that is not absolute
    first = run(rows, "out", model, RULES, **SMALL)
    assert (first.rows, first.resumed, first.status) == (600, 0, {"optimal": 600})
    assert first.checksum == checksum(pq.read_table(rows)["id"])
    files = sorted((tmp_path / "out").iterdir())
    assert len(files) == first.files > 3
    times = [file.stat().st_mtime_ns for file in files]
    again = run([str(rows)], tmp_path / "out", bridle.load(model), RULES, **SMALL)
    wanted = (RunSummary, 600, 600, first.status, first.files, first.checksum, "nothing to do")
    assert (type(again), again.rows, again.resumed, again.status, again.files, again.checksum, again.state) == wanted
    assert [file.stat().st_mtime_ns for file in files] == times

    gone = pq.read_metadata(files[0]).num_rows
    files[0].unlink()  # rows are deleted, and a crash leaves some whose ids have not been noted
    shutil.copy(files[1], files[1].with_name(files[1].name.replace("_00000", "_00009")))
    mended = run(rows, "out", model, RULES, **SMALL)
    assert (mended.rows, mended.resumed, mended.checksum) == (600, 600 - gone, first.checksum)
    result = scale_ray._labels(sorted((tmp_path / "out").iterdir()))
    some = set(pq.read_table(rows)["id"].to_pylist())
    expected = {name: labels for name, labels in scale_ray.prepared(folder, 3000)[2].items() if name in some}
    assert scale_data.judge(result, expected).ok

    with pytest.raises(FileError, match="this run was started with other rules; got"):
        run(rows, "out", model, RULES[:1], **SMALL)
    with pytest.raises(FileError, match="other options; got id_column: key; wanted id"):
        keyed = pq.read_table(rows)
        pq.write_table(keyed.append_column("key", keyed["id"]), tmp_path / "keyed.parquet")
        run("keyed.parquet", "out", model, RULES, id_column="key", **SMALL)
    with pytest.raises(FileError, match="the folder holds other files; got"):
        run(rows, "out", model, RULES, checkpoint=tmp_path / "elsewhere", **SMALL)
    with pytest.raises(FileError, match="cannot lie in the output"):
        run(rows, "out", model, RULES, checkpoint=tmp_path / "out" / "ids", **SMALL)
    with pytest.raises(FileError, match="no such file"):
        run("nowhere", "out", model, RULES)
    with pytest.raises(FileError, match="no column 'name'"):
        run(rows, "out", model, RULES, id_column="name")


def test_twenty_files(ray: Any, folder: Path, rows: Path, tmp_path: Path) -> None:
    """Ray lists many files in tasks of their own, for which it wants aiohttp: part of the extra."""
    table, source = pq.read_table(rows), tmp_path / "in"
    source.mkdir()
    for k in range(20):
        pq.write_table(table.slice(30 * k, 30), source / f"{k:02}.parquet")
    done = run(sorted(source.iterdir()), tmp_path / "out", folder / "refs.bridle", RULES, **SMALL)
    assert (done.rows, done.checksum) == (600, checksum(table["id"]))


# ---- folders --------------------------------------------------------------------------------------------------------

NAME = "0abc_" + "0" * 32 + "_00000"


def test_rows_and_ids_without_a_counterpart_are_removed(tmp_path: Path) -> None:
    ids = tmp_path / "check" / "ids"
    folders = ArrowFolder(str(tmp_path / "out")), ArrowFolder(str(ids))
    ids.mkdir(parents=True)
    (tmp_path / "out").mkdir()
    for k in range(7):
        pq.write_table(pa.table({"id": [str(k), "x"]}), tmp_path / "out" / f"{NAME}{k}-0.parquet")
        pq.write_table(pa.table({"id": [str(k), "x"]}), ids / f"{NAME}{k}.parquet")
    assert reconcile(*folders) == 0
    (tmp_path / "out" / f"{NAME}0-0.parquet").unlink()
    (ids / f"{NAME}1.parquet").unlink()
    (tmp_path / "out" / f"{NAME}2-0.parquet").write_bytes(b"PAR1 and no more")
    pq.write_table(pa.table({"id": ["3"]}), ids / f"{NAME}3.parquet")
    (ids / f"{NAME}4.parquet").rename(ids / f"{NAME}4.pending.parquet")
    (ids / f"{NAME}5.pending.parquet").write_bytes(b"")  # of a task that was tried again
    assert reconcile(*folders) == 1 + 1 + 2 + 2 + 2 + 3
    assert [path.name for path in tmp_path.rglob("*.parquet")] == [f"{NAME}6-0.parquet", f"{NAME}6.parquet"]
    (tmp_path / "out" / "mine.parquet").write_bytes(b"")
    with pytest.raises(FileError, match="not of this run"):
        reconcile(*folders)


def test_ids_are_counted(tmp_path: Path) -> None:
    for name, ids in (("a", ["1", "2", "3"]), ("b", ["3", "1", "2"]), ("c", ["1", "1", "2"]), ("d", ["1", None])):
        pq.write_table(pa.table({"id": pa.array(ids, pa.string()), "status": ["optimal"] * len(ids)}), tmp_path / name)
        (tmp_path / name).rename(tmp_path / f"{name}.parquet")
    files, paths = parquet_files([str(tmp_path / "[a-c].parquet")])
    assert [Path(path).name for path in paths] == ["a.parquet", "b.parquet", "c.parquet"]
    assert parquet_files([str(tmp_path)])[1] == [*paths, str(tmp_path / "d.parquet")]
    a, b, c = (count_rows(files, [path], "id") for path in paths)
    assert a == b and a.checksum == checksum("123") != c.checksum and c.status == {"optimal": 3}
    with pytest.raises(FileError, match="rows have no id"):
        count_rows(files, [str(tmp_path / "d.parquet")], "id")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match="no Parquet files"):
        parquet_files([str(tmp_path / "empty")])


# ---- kills ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kill", ["actor", "worker", "driver"])
def test_nothing_is_lost_or_doubled_after_a_kill(folder: Path, kill: str) -> None:
    trial = scale_ray.trial(folder, 9000, kill, seed=1, block_bytes=60_000)
    assert trial["verdict"] == {"rows": 9000, "lost": 0, "doubled": 0, "wrong": 0, "unknown": 0, "ok": True}, trial
    assert 0 < trial["killed"]["files_done"] < trial["killed"]["files"]
    assert (trial["summary"]["resumed"] > 0) == (kill == "driver")


# ---- prose ------------------------------------------------------------------------------------


def test_the_page_runs(tmp_path: Path) -> None:
    run_page("docs/integrations/ray.md", tmp_path, seconds=600)


def test_doctests(ray: Any) -> None:
    ray.shutdown()  # examples start a cluster of their own
    assert doctest.testmod(importlib.import_module("bridle.integrations.ray")).failed == 0


def test_documents_are_never_split(ray: Any) -> None:
    X, y = [["Boston", "is", "big"], ["Boston", "won"]], [["LOC", "O", "O"], ["ORG", "O"]]
    model = bridle.CRF(features=["word[0]", "word[1]"], c2=0.1).fit(X * 5 + X[:1] * 9, y * 5 + y[:1] * 9)
    rows = [{"id": k, "tokens": X[k % 2], "doc": f"d{k // 2}"} for k in range(40)]
    rules = ["in the document: same label for equal tokens"]
    wanted = model.predict([row["tokens"] for row in rows], rules, groups=[row["doc"] for row in rows])
    assert wanted != model.predict([row["tokens"] for row in rows], rules)
    dataset = ray.data.from_items(rows, override_num_blocks=7).random_shuffle(seed=1)
    tagged = tag(dataset, model, rules, id_column="id", groups="doc", actors=1)
    labels = {row["id"]: list(row["labels"]) for row in tagged.take_all()}
    assert [labels[k] for k in range(40)] == wanted
    with pytest.raises(ModelError, match="documents are brought together; got no id_column"):
        tag(dataset, model, rules, groups="doc")
