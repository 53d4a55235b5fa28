"""Spark with real executors: labels are those of a single process, also if something is killed on the way."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bridle
from bridle.arrow import Tag
from bridle.errors import FileError, LabelError, ModelError, ModelFileError
from page_blocks import ROOT, run_page

if shutil.which("java") is None:
    pytest.skip("there is no Java: Spark needs 17 or newer", allow_module_level=True)
pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'bridle-nlp[spark]'")

from bridle.integrations import spark as on_spark
from bridle.integrations.spark import Place, Run, checksum, function, remove_orphans, tag, tag_of, tag_stream
from bridle.recent import RecentCache
from bridle.runs import NAME
from bridle.runs import checksum as checksum_of

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # sockets of Py4J
]
ROWS, FILES = 600, 4
TITLES = "at most 1 segment of TITLE"


@pytest.fixture(scope="module")
def trials() -> Iterator[ModuleType]:
    """benchmarks/scale_spark.py."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield importlib.import_module("scale_spark")
    sys.path.remove(str(ROOT / "benchmarks"))


@pytest.fixture(scope="module")
def data(trials: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """References in a few files, a model, rules and the labels of a single process."""
    return trials.prepared(tmp_path_factory.mktemp("data"), ROWS, FILES)


@pytest.fixture(scope="module")
def spark(trials: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two executors, each a process of its own, which the tests share."""
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("cluster")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in trials.environment(folder, "test").items():
            patch.setenv(name, value)
        builder = SparkSession.builder.master(trials.CLUSTER).appName("test")
        for name, value in trials.SETTINGS.items():
            builder = builder.config(name, value)
        session = builder.config("spark.log.level", "OFF").config("spark.sql.shuffle.partitions", 2)
        session = session.config("spark.ui.showConsoleProgress", "false").getOrCreate()
        yield session
        session.stop()


def labels(df: Any) -> dict[str, Any]:
    result = df.select("id", "labels").collect()
    assert len({row.id for row in result}) == len(result)
    return {row.id: row.labels for row in result}


# ---- data frames ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ship", ["file", "broadcast", "path"])
def test_labels_are_those_of_a_single_process(spark: Any, data: Any, ship: str) -> None:
    df = spark.read.parquet(str(data.inputs))
    assert df.rdd.getNumPartitions() > 1
    result = tag(df, data.model, data.rules, id_column="id", ship=ship)
    assert result.columns == ["id", "tokens", "labels", "status", "error"]
    assert labels(result) == data.expected
    assert {row.status for row in result.select("status").distinct().collect()} == {"optimal"}


def test_a_model_in_memory(spark: Any, data: Any) -> None:
    df = spark.read.parquet(str(data.inputs / "part0000.parquet"))
    wanted = labels(tag(df, data.model))
    assert labels(tag(df, data.model.read_bytes())) == labels(tag(df, bridle.load(data.model))) == wanted


@pytest.mark.parametrize(
    "options",
    [{"output": "labels"}, {"output": "ids"}, {"output": "spans"}, {"scores": True, "prefix": "b_"}, {"k": 2}],
    ids=str,
)
def test_all_outputs_have_their_schema(spark: Any, data: Any, options: dict[str, Any]) -> None:
    """The types of Spark, and the values of a single process."""
    table = pq.read_table(data.inputs / "part0000.parquet").slice(0, 20)
    wanted = Tag(data.model, [TITLES], **options)(table)
    result = tag(spark.createDataFrame(table), data.model, [TITLES], **options).toArrow().sort_by("id")
    assert result.column_names == wanted.column_names
    assert result.to_pylist() == wanted.to_pylist()


def test_rows_that_are_bad_do_not_stop_the_others(spark: Any, data: Any) -> None:
    rows = [("a", ["J.", "Smith"]), ("b", None), ("c", ["x", None]), ("d", [])]
    result = tag(spark.createDataFrame(rows, "id string not null, tokens array<string>"), data.model, keep=["id"])
    assert result.columns == ["id", "labels", "status", "error"]
    status = {row.id: (row.status, row.labels is None, row.error is None) for row in result.collect()}
    assert status["b"] == status["c"] == ("error", True, False)
    assert status["a"][0] == "optimal"
    with pytest.raises(Exception, match="null"):
        tag(spark.createDataFrame(rows[1:2], "id string, tokens array<string>"), data.model, on_error="raise").collect()


def test_large_types_and_other_columns_pass_through(spark: Any, data: Any) -> None:
    df = spark.sql("SELECT 'a' id, array('J.', 'Smith') tokens, timestamp'2026-01-02' t, map('k', 1.5) m, struct(1) s")
    plain = tag(df, data.model)
    assert plain.schema[:5] == df.schema[:]
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        assert tag(df, data.model).drop("status").collect() == plain.drop("status").collect()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")


def test_files_of_rules_are_read_on_the_driver(spark: Any, data: Any, tmp_path: Path) -> None:
    (tmp_path / "cities.txt").write_text("Oslo\n", encoding="utf-8")
    (tmp_path / "my.rules").write_text('fix VENUE at tokens in "cities.txt"\n', encoding="utf-8")
    df = spark.createDataFrame([("a", ["In", "Oslo"])], "id string, tokens array<string>")
    result = tag(df, data.model, tmp_path / "my.rules")
    shutil.rmtree(tmp_path)
    assert result.first().labels[1] == "VENUE"


def test_the_id_is_kept(spark: Any, data: Any) -> None:
    df = spark.read.parquet(str(data.inputs))
    assert tag(df, data.model, id_column="id", keep=[]).columns == ["id", "labels", "status", "error"]
    assert tag(df, data.model, id_column="id", keep=["id"]).columns == ["id", "labels", "status", "error"]
    with pytest.raises(FileError, match="column of id_column='key' does not exist; got 'id', 'tokens'; wanted 'key'"):
        tag(df, data.model, id_column="key")
    with pytest.raises(FileError, match="column of id_column='key' does not exist"):
        checksum(df, "key")
    assert checksum(df.withColumnRenamed("id", "a.b"), "a.b") == checksum(df) == checksum_of(list(data.expected))


def test_what_cannot_work_is_said_before_a_job_starts(spark: Any, data: Any) -> None:
    df = spark.createDataFrame([("a", ["x"])], "id string, tokens array<string>")
    with pytest.raises(FileError, match=r"not a data frame of Spark; got Table; wanted pyspark\.sql\.DataFrame"):
        tag(pa.table({"tokens": [["x"]]}), data.model)
    with pytest.raises(LabelError, match="TITEL"):
        tag(df, data.model, ["at most 1 segment of TITEL"])
    with pytest.raises(ModelError, match="bad ship='mail'; wanted 'file', 'broadcast', 'path'"):
        tag(df, data.model, ship="mail")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="ship='path' needs the path of a model file; got a model in memory"):
        tag(df, data.model.read_bytes(), ship="path")
    with pytest.raises(FileError):
        tag(df, "nowhere.bridle")
    with pytest.raises(bridle.BridleError):
        tag(df.drop("tokens"), data.model)


CONNECT = """
import sys
from pyspark.sql import SparkSession
from bridle.integrations.spark import tag

spark = SparkSession.builder.remote("local[1]").getOrCreate()
df = spark.createDataFrame([("a", ["J.", "Smith"])], "id string, tokens array<string>")
for ship in ("file", "file", "path", "broadcast"):
    print(tag(df, sys.argv[1], id_column="id", ship=ship, keep=[]).first().status)
"""


def test_spark_connect(trials: ModuleType, data: Any, tmp_path: Path) -> None:
    """In a process of its own: it does not go together with a classic session."""
    pytest.importorskip("grpc", reason="Spark Connect is not installed: pip install 'pyspark[connect]'")
    environment = trials.environment(tmp_path, "connect")
    command = [sys.executable, "-c", CONNECT, str(data.model)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["optimal"] * 3, done.stderr
    assert "ship='broadcast' needs a classic Spark session; got Spark Connect" in done.stderr


LOCAL = """
import sys
from pyspark.sql import SparkSession
from bridle.integrations.spark import checksum, tag

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
df = spark.sql("select 'a' as id, array('J.', 'Smith') as tokens")
tagged = tag(df, sys.argv[1], id_column="id", keep=[])
print(tagged.first().status, checksum(tagged) == checksum(df), spark.sparkContext.pythonExec)
"""


def path_without_bridle(folder: Path) -> str:
    """Return a search path whose python3 cannot run Bridle."""
    other = folder / "python3"
    other.write_text("#!/bin/sh\nexit 9\n")
    other.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_an_environment_that_is_not_activated(data: Any, tmp_path: Path) -> None:
    """Spark's default is the first python3 on the path, which need not have Bridle."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
    environment = {**kept, "PATH": path_without_bridle(tmp_path)}
    command = [sys.executable, "-c", LOCAL, str(data.model)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["optimal", "True", "python3"], done.stderr


# ---- what happens on an executor, without one ------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def new_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process has met no job yet."""
    monkeypatch.setattr(on_spark, "_tags", RecentCache(4, 1 << 30))


def made(data: Any, at: Path | None = None) -> Any:
    digest = hashlib.sha256(data.model.read_bytes()).hexdigest()
    return function(Place("path", str(at or data.model), digest), [TITLES], {})


def test_a_worker_loads_a_model_once(data: Any) -> None:
    call = made(data)
    cells = dict(zip(call.__code__.co_freevars, (cell.cell_contents for cell in call.__closure__), strict=True))
    first = tag_of(cells["key"], cells["setup"], cells["at"])
    assert tag_of(cells["key"], cells["setup"], "no longer there") is first


def test_an_executor_without_bridle_says_so(data: Any, tmp_path: Path) -> None:
    """The function arrives there by its code, not as a name in a module."""
    from pyspark import cloudpickle

    (tmp_path / "call").write_bytes(cloudpickle.dumps(made(data)))
    code = "import sys, pickle; sys.modules['bridle'] = None; list(pickle.load(open('call', 'rb'))([]))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert "ImportError: an executor cannot import Bridle; got" in done.stderr, done.stderr
    assert f"wanted bridle {bridle.__version__} with PyArrow in the Python of every executor." in done.stderr


def test_an_executor_with_another_version_says_so(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    call = made(data)
    monkeypatch.setattr(bridle, "__version__", "0.0.1")
    with pytest.raises(RuntimeError, match=r"another version of Bridle than the driver; got 0\.0\.1 with"):
        list(call([]))


def test_an_executor_with_another_model_says_so(data: Any, tmp_path: Path) -> None:
    (tmp_path / "m.bridle").write_bytes(b"something else")
    with pytest.raises(ModelFileError, match="an executor has another model than the driver"):
        list(made(data, at=tmp_path / "m.bridle")([]))
    with pytest.raises(ModelFileError, match=r"an executor cannot read the model.*\n`ship='file'` sends the model"):
        list(made(data, at=tmp_path / "nowhere")([]))


# ---- streams --------------------------------------------------------------------------------------------------------


def rows_in(folder: Path) -> dict[str, Any]:
    """As a reader without Spark sees them."""
    table = pq.read_table(folder, columns=["id", "labels"])
    assert len(set(table["id"].to_pylist())) == table.num_rows
    return dict(zip(table["id"].to_pylist(), table["labels"].to_pylist(), strict=True))


def test_a_stream_goes_on_where_it_was(spark: Any, data: Any, tmp_path: Path) -> None:
    """Also with files that are much older than the others: Spark would pass over them."""
    source, target = tmp_path / "in", tmp_path / "out"
    shutil.copytree(data.inputs, source)
    for k, path in enumerate(sorted(source.iterdir())):
        os.utime(path, (1.6e9 + 1e7 * k,) * 2)
    late = shutil.move(source / "part0000.parquet", tmp_path)
    words = (spark, str(source), str(target), str(target / "_checkpoint"), data.model, data.rules)
    tag_stream(*words, id_column="id", read={"maxFilesPerTrigger": 1}).awaitTermination()
    assert 0 < len(rows_in(target)) < ROWS
    shutil.move(late, source)  # older than all that were read
    tag_stream(*words, id_column="id").awaitTermination()
    assert rows_in(target) == data.expected
    tag_stream(*words, id_column="id").awaitTermination()  # nothing is new
    assert rows_in(target) == data.expected


def test_orphans_are_removed(spark: Any, data: Any, tmp_path: Path) -> None:
    words = (spark, str(data.inputs), str(tmp_path / "out"), str(tmp_path / "checkpoint"), data.model, data.rules)
    tag_stream(*words).awaitTermination()
    whole = sorted((tmp_path / "out").glob("part-*.parquet"))
    shutil.copy(whole[0], tmp_path / "out" / "part-00009-killed.parquet")  # complete, but not in Spark's notes
    (tmp_path / "out" / "part-00008-killed.parquet").write_bytes(b"PAR1")  # cut off
    assert labels(spark.read.parquet(str(tmp_path / "out"))) == data.expected
    orphans = ["part-00008-killed.parquet", "part-00009-killed.parquet"]
    assert remove_orphans(spark, str(tmp_path / "out")) == orphans
    assert sorted((tmp_path / "out").glob("part-*.parquet")) == whole
    assert rows_in(tmp_path / "out") == data.expected
    with pytest.raises(FileError, match="not a folder that a stream of Spark wrote"):
        remove_orphans(spark, str(data.inputs))


def test_a_stream_of_your_own(spark: Any, data: Any, tmp_path: Path) -> None:
    """JSON lines, a schema, a sink of one's own."""
    (tmp_path / "in").mkdir()
    lines = [{"id": "a", "tokens": ["J.", "Smith"]}, {"id": "b", "tokens": ["Title", "."]}]
    (tmp_path / "in" / "x.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    stream = spark.readStream.schema("id string, tokens array<string>").json(str(tmp_path / "in"))
    writer = tag(stream, data.model).writeStream.format("memory").queryName("tagged")
    writer.trigger(availableNow=True).start().awaitTermination()
    assert sorted(labels(spark.table("tagged"))) == ["a", "b"]
    with pytest.raises(ModelError, match="bad trigger=''; wanted 'availableNow' or a time"):
        tag_stream(spark, "x", "y", "z", data.model, trigger="")


def test_a_folder_belongs_to_one_run(spark: Any, data: Any, tmp_path: Path) -> None:
    inputs = shutil.copytree(data.inputs, tmp_path / "in")
    model, rules, out = data.model.read_bytes(), bridle.rules.load(data.rules), str(tmp_path / "out")
    both = [str(inputs / "part000[0-1].parquet"), str(inputs / "part000[2-3].parquet")]
    run = Run(spark, both, out, model, rules, "parquet", {}, {})
    run.start().awaitTermination()
    result = run.finish()
    assert (result.rows, result.status, result.ids) == (ROWS, {"optimal": ROWS}, checksum_of(list(data.expected)))
    assert result.files == len(list((tmp_path / "out").glob("part-*"))) and (tmp_path / "out" / NAME).exists()
    assert rows_in(tmp_path / "out") == data.expected
    with pytest.raises(FileError, match="this run was started with other rules"):
        Run(spark, both, out, model, rules[:1], "parquet", {}, {"k": 2}).start()
    with pytest.raises(FileError, match="this run was started with other options; got k: 2; wanted nothing"):
        Run(spark, both, out, model, rules, "parquet", {}, {"k": 2}).start()
    with pytest.raises(FileError, match=r"the input is not what it was .*part000\[2-3\].parquet: nothing"):
        Run(spark, both[:1], out, model, rules, "parquet", {}, {}).start()
    (inputs / "part0000.parquet").unlink()
    with pytest.raises(FileError, match=r"not have the rows of the input; got 600 rows, .*; wanted 450 rows, checksum"):
        run.finish()
    with pytest.raises(FileError, match=r"the folder holds other files; got part0001\.parquet"):
        Run(spark, both, str(inputs), model, rules, "parquet", {}, {}).start()
    with pytest.raises(FileError, match="cannot read these inputs as one stream; got /a,b"):
        Run(spark, ["/c", "/a,b"], out, model, rules, "parquet", {}, {}).start()


# ---- the command, killed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kill", ["worker", "executor", "driver"])
def test_nothing_is_lost_if_something_is_killed(trials: ModuleType, tmp_path: Path, kill: str) -> None:
    """`bridle tag --on local-cluster[2,1,1024]`, read without Spark at the end."""
    trial = trials.trial(tmp_path, 6000, kill, seed=1, files=12, files_per_trigger=2)
    log = (tmp_path / f"out-{kill}-1.log").read_text(encoding="utf-8")
    assert trial["ok"], (trial, log)
    assert (trial["verdict"]["rows"], trial["left_over"], trial["restarts"]) == (6000, 0, int(kill == "driver"))
    assert 0 < trial["killed_after_batches"] < trial["batches"]
    assert trial["lost_tasks"] > 0 or kill == "driver"
    assert "bridle: finished: 6,000 rows in" in log


def test_the_page_is_true(trials: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in trials.environment(tmp_path, "page").items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setenv("PATH", path_without_bridle(tmp_path))
    run_page("docs/integrations/spark.md", tmp_path, seconds=600)


def test_documents_are_never_split(spark: Any) -> None:
    X, y = [["Boston", "is", "big"], ["Boston", "won"]], [["LOC", "O", "O"], ["ORG", "O"]]
    model = bridle.CRF(features=["word[0]", "word[1]"], c2=0.1).fit(X * 5 + X[:1] * 9, y * 5 + y[:1] * 9)
    rows = [(k, X[k % 2], f"d{k // 2}") for k in range(40)]
    rules = ["in the document: same label for equal tokens"]
    wanted = model.predict([words for _, words, _ in rows], rules, groups=[doc for *_, doc in rows])
    assert wanted != model.predict([words for _, words, _ in rows], rules)
    df = spark.createDataFrame(rows, ["id", "tokens", "doc"]).repartition(5, "id")
    labels = {row.id: row.labels for row in tag(df, model, rules, id_column="id", groups="doc").collect()}
    assert [labels[k] for k in range(40)] == wanted
