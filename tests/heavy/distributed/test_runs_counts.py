"""Equal rows have the same checksum of ids, whether files, Spark or Ray tag them, in Python and in commands."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bridle
from bridle.bulk import check, checksum, tag_files
from page_blocks import ROOT

if shutil.which("java") is None:
    pytest.skip("there is no Java: Spark needs 17 or newer", allow_module_level=True)
pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'bridle-nlp[spark]'")

ROWS = 2000
ON_SPARK = """
import json, sys
from pyspark.sql import SparkSession
from bridle.integrations.spark import checksum, tag

model, inputs, shards, half, rest = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.log.level", "ERROR").getOrCreate()
df = spark.read.parquet(inputs)
tagged, files = tag(df, model, id_column="id"), spark.read.parquet(shards)
both = spark.read.parquet(half).select("id").union(tag(spark.read.parquet(rest), model).select("id"))
print(json.dumps([checksum(rows) for rows in (df, tagged, files, both)]))
"""
ON_RAY = """
import sys
import ray
from bridle.integrations.ray import run

ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
print(run(sys.argv[2], sys.argv[3], sys.argv[1]).checksum)
"""


def called(*words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(Path(bridle.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]))
    settings = {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, cwd=folder, env={**os.environ, **settings}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("kind", ["strings", "integers"])
def test_all_routes_have_one_checksum(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    scale_data = importlib.import_module("scale_data")
    model = tmp_path / "refs.bridle"
    scale_data.train(model)
    table = pa.Table.from_batches(list(scale_data.rows(ROWS)))
    numbers = [k if k % 100 else 7 for k in range(ROWS)]  # 7 occurs 21 times
    ids = numbers if kind == "integers" else [f"é{number}" for number in numbers]
    table = table.set_column(table.schema.get_field_index("id"), "id", pa.array(ids))
    for folder in ("in", "rest"):
        (tmp_path / folder).mkdir()
    pq.write_table(table.slice(0, 1200), tmp_path / "in" / "a.parquet")
    pq.write_table(table.slice(1200), tmp_path / "in" / "b.parquet")
    pq.write_table(table.slice(1200), tmp_path / "rest" / "b.parquet")
    wanted = checksum(ids)
    assert re.fullmatch("[0-9a-f]{16}", wanted)

    in_python: dict[str, Any] = {}
    in_python["files"] = tag_files(model, tmp_path / "in", tmp_path / "files", to="parquet").ids
    in_python["files, checked"] = check(tmp_path / "files").ids
    tag_files(model, tmp_path / "in" / "a.parquet", tmp_path / "half", to="parquet")
    words = ("refs.bridle", "in", "files", "half", "rest")
    in_python["Spark"] = json.loads(called("-c", ON_SPARK, *words, folder=tmp_path).stdout.splitlines()[-1])
    in_python["Ray"] = called("-c", ON_RAY, "refs.bridle", "in", "ray", folder=tmp_path).stdout.splitlines()[-1]
    assert in_python == {"files": wanted, "files, checked": wanted, "Spark": [wanted] * 4, "Ray": wanted}

    for options in (["--resume"], ["--on", "local[2]"], ["--on", "ray:local"]):
        out = f"out{len(list(tmp_path.iterdir()))}"
        done = called("-m", "bridle", "tag", "refs.bridle", "in", "-o", f"{out}/", *options, folder=tmp_path)
        assert done.stderr.splitlines()[-1].endswith(f"checksum of ids {wanted}"), done.stderr


def test_rows_without_ids_have_no_checksum(tmp_path: Path) -> None:
    bridle.LocalTagger(features=["word[0]"]).fit([["a", "b"]], [["D", "N"]]).save(tmp_path / "m.bridle")
    (tmp_path / "x.jsonl").write_text('{"tokens": ["a"]}\n{"tokens": ["b", "a"]}\n', encoding="utf-8")
    words = ("-m", "bridle", "tag", "m.bridle", "x.jsonl", "-o", "out", "--on", "local[1]")
    for _ in range(2):  # the second one finds nothing to do
        last = called(*words, folder=tmp_path).stderr.splitlines()[-1]
        assert last == f"bridle: finished: 2 rows in {tmp_path / 'out'} (2 optimal); no column id, so no checksum"
    assert pq.read_table(tmp_path / "out").num_rows == 2
