"""Spark and Ray give what the reference gives: see tests/routes.py."""

from __future__ import annotations

import importlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import routes
from page_blocks import ROOT
from routes import CASES, K, Result, Row, Setting, of_columns, other, table_of

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{name}")
    for name in ("FutureWarning", "DeprecationWarning", "ResourceWarning", "pytest.PytestUnraisableExceptionWarning")
]
FRAMES = ("plain", "relax", "skip", "raise", "given", "columns")


@pytest.fixture(scope="module")
def trials() -> Iterator[str]:
    """The folder of benchmarks/scale_spark.py and benchmarks/scale_ray.py, which start clusters."""
    path = str(ROOT / "benchmarks")
    sys.path.insert(0, path)
    yield path
    sys.path.remove(path)


@pytest.fixture(scope="module")
def spark(trials: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if shutil.which("java") is None:
        pytest.skip("there is no Java: Spark needs 17 or newer")
    sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed: pip install 'bridle-nlp[spark]'")
    scale = importlib.import_module("scale_spark")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in scale.environment(tmp_path_factory.mktemp("cluster"), "test").items():
            patch.setenv(name, value)
        builder = sql.SparkSession.builder.master("local[2]").appName("test").config("spark.log.level", "OFF")
        session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
        yield session
        session.stop()


@pytest.fixture(scope="module")
def ray(trials: str) -> Iterator[Any]:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'bridle-nlp[ray]'")
    temp = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    with importlib.import_module("scale_ray").cluster(temp) as package:
        yield package
    shutil.rmtree(temp, ignore_errors=True)


def numbered(setting: Setting, rows: Sequence[Row]) -> pa.Table:
    """Rows in two parts, with their numbers: they come back in any order."""
    return table_of(setting.case, rows, ids=False).append_column("row", pa.array(range(len(rows))))


def in_order(result: Sequence[dict[str, Any]]) -> list[Result]:
    return of_columns(sorted(result, key=lambda row: row["row"]))


def options(setting: Setting) -> dict[str, Any]:
    return {"scores": True, "k": K, "on_infeasible": setting.case.on_infeasible}


@pytest.mark.parametrize("case", FRAMES)
def test_spark_gives_what_the_reference_gives(case: str, spark: Any, tmp_path: Path) -> None:
    from bridle.integrations.spark import tag

    def run(setting: Setting, rows: Sequence[Row]) -> list[Result]:
        path = Path(tempfile.mkdtemp(dir=tmp_path)) / "rows.parquet"
        pq.write_table(numbered(setting, rows), path, row_group_size=500)
        frame = spark.read.parquet(str(path)).repartition(2)
        built = tag(frame, setting.model, list(setting.case.rules), **options(setting))
        return in_order([row.asDict(recursive=True) for row in built.collect()])

    routes.check(other("Spark", run), CASES[case], tmp_path)


@pytest.mark.parametrize("case", FRAMES)
def test_ray_gives_what_the_reference_gives(case: str, ray: Any, tmp_path: Path) -> None:
    from bridle.integrations.ray import tag

    def run(setting: Setting, rows: Sequence[Row]) -> list[Result]:
        dataset = ray.data.from_arrow([numbered(setting, rows[:50]), numbered(setting, rows).slice(50)])
        built = tag(dataset, setting.model, list(setting.case.rules), actors=1, batch_size=300, **options(setting))
        return in_order(built.take_all())

    routes.check(other("Ray", run), CASES[case], tmp_path)
