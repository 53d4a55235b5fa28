"""`bridle.arrow.Tag` in pandas, Polars, DuckDB, Dask and `datasets`: as it is, with the labels of the model."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets.fingerprint import Hasher

import bridle
from bridle.arrow import Tag
from bridle.arrow.kinds import as_table
from bridle.data import references
from bridle.errors import FeatureError

RULES = ["at most 1 segment of TITLE", "at most 1 segment of DATE"]
UNSEEN = [list(sentence.tokens) for sentence in references.references("apa")[:40]]
CELLS = [*UNSEEN[:20], None, *UNSEEN[20:], [], ["a", None]]
IDS = [f"r{k}" for k in range(len(CELLS))]
TABLE = pa.table({"id": IDS, "tokens": pa.array(CELLS, pa.list_(pa.string()))})
STRUCT = "STRUCT(labels VARCHAR[], status VARCHAR, error VARCHAR)"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of references in two styles, in a file."""
    known = references.references("acm", "ieee")[::4]
    X, y = [list(item.tokens) for item in known], [list(item.labels) for item in known]
    model = bridle.CRF(features=["word[0]", "suffix2[0]", "label[-1]"], scheme="IO", iterations=10).fit(X, y)
    file = tmp_path_factory.mktemp("model") / "references.bridle"
    model.save(file)
    return file


@pytest.fixture(scope="module")
def tag(path: Path) -> Tag:
    return Tag(path, RULES)


@pytest.fixture(scope="module")
def expected(path: Path) -> dict[str, list[str] | None]:
    """Predict row by row; None where a row is bad."""
    model = bridle.load(path)
    decoder = model.decoder(RULES, on_infeasible="relax")
    good = {k: cell for k, cell in enumerate(CELLS) if cell is not None and None not in cell}
    result = dict(zip(good, model.decode(list(good.values()), decoder, threads=1), strict=True))
    return {name: list(result[k].labels) if k in result else None for k, name in enumerate(IDS)}


def agrees(rows: Iterable[dict[str, Any]], expected: dict[str, list[str] | None]) -> bool:
    """Every id once, with its labels; a bad row has a status and a message instead."""
    result = {row["id"]: row for row in rows}
    labels = {name: None if row["labels"] is None else list(row["labels"]) for name, row in result.items()}
    bad = [name for name, row in result.items() if row["status"] == "error"]
    output = [name for name, row in result.items() if isinstance(row["error"], str) and row["error"]]
    assert labels == expected
    assert sorted(bad) == sorted(output) == sorted(name for name, item in expected.items() if item is None)
    return True


def installed(name: str) -> Any:
    """A package of the extra `integrations`."""
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install '.[integrations]'")


# ---- threads and processes ------------------------------------------------------------------------------------------


def test_rules_make_a_difference(path: Path, expected: dict[str, Any]) -> None:
    """Otherwise, a frame that loses them would pass."""
    assert any(x["labels"] != expected[x["id"]] for x in Tag(path)(TABLE).to_pylist())


def test_many_threads_share_one_tag(path: Path, expected: dict[str, Any]) -> None:
    """Eight threads call it at once, the first time too, with slices of one table."""
    tag = Tag(path, RULES)
    slices = [TABLE.slice(k, 10) for k in range(32)]
    with ThreadPoolExecutor(8) as pool:
        for result in pool.map(tag, slices):
            assert agrees(result.to_pylist(), {name: expected[name] for name in result.column("id").to_pylist()})


def test_its_hash_is_that_of_its_arguments(path: Path) -> None:
    """`datasets` finds results of an earlier run by the hash of the pickled function."""
    tag = Tag(path, RULES, columns={"word": "tokens"})
    before = Hasher.hash(tag)
    tag(TABLE)
    assert before == Hasher.hash(tag) == Hasher.hash(pickle.loads(pickle.dumps(tag)))
    assert before != Hasher.hash(Tag(path, RULES[:1], columns={"word": "tokens"}))


def test_it_is_pickled_alike_everywhere(path: Path) -> None:
    """In another process, with another seed for the hashes of strings."""
    code = (
        "import pickle; from pathlib import Path; from bridle.arrow import Tag;"
        f"print(pickle.dumps(Tag(Path({str(path)!r}), {RULES!r}, columns={{'word': 'tokens'}})).hex())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == pickle.dumps(Tag(path, RULES, columns={"word": "tokens"})).hex()


# ---- pandas ---------------------------------------------------------------------------------------------------------


def test_pandas(tag: Tag, expected: dict[str, Any]) -> None:
    frame = pd.DataFrame({"id": IDS, "tokens": CELLS, "what": [object()] * len(IDS)}, index=range(100, 100 + len(IDS)))
    was = frame.copy()
    result = tag(frame)
    assert list(result.columns) == ["id", "tokens", "what", "labels", "status", "error"]
    assert result.index.equals(frame.index) and (result["what"] == frame["what"]).all()
    assert isinstance(result["labels"].iloc[0], list), "as a person would have put it there"
    assert agrees(result.to_dict("records"), expected)
    pd.testing.assert_frame_equal(frame, was)


def test_pandas_with_arrow_types(tag: Tag, expected: dict[str, Any]) -> None:
    frame = TABLE.to_pandas(types_mapper=pd.ArrowDtype)
    result = tag(frame)
    assert result["labels"].dtype == pd.ArrowDtype(pa.list_(pa.string()))
    assert agrees(pa.Table.from_pandas(result, preserve_index=False).to_pylist(), expected)


def test_pandas_in_chunks_by_odd_indexes(tag: Tag, expected: dict[str, Any]) -> None:
    """Chunks make the whole; an index may have the same value twice, or several levels."""
    frame = pd.DataFrame({"id": IDS, "tokens": CELLS}, index=[7] * len(IDS))
    parts = [tag(frame.iloc[low : low + 7]) for low in range(0, len(frame), 7)]
    assert agrees(pd.concat(parts).to_dict("records"), expected)
    levels = frame.reset_index().set_index(["index", "id"])
    assert tag(levels).index.equals(levels.index)


def test_pandas_cells_that_are_missing_or_wrong(tag: Tag) -> None:
    frame = pd.DataFrame({"tokens": [["a"], float("nan"), 5, ["b", 3], pd.NA, ("c",), UNSEEN[0]]})
    result = tag(frame)
    assert list(result["status"]) == ["optimal", "error", "error", "error", "error", "optimal", "optimal"]
    assert list(result["labels"].map(lambda cell: cell and len(cell))[[0, 5, 6]]) == [1, 1, len(UNSEEN[0])]


def test_pandas_without_rows(tag: Tag) -> None:
    frame = pd.DataFrame({"id": IDS, "tokens": CELLS})
    assert tag(frame.head(0)).dtypes.equals(tag(frame).dtypes)


def test_a_series_of_pandas(tag: Tag, expected: dict[str, Any]) -> None:
    frame = pd.DataFrame({"id": IDS, "tokens": CELLS}, index=IDS)
    result = frame.join(tag(frame["tokens"]))
    assert agrees(result.to_dict("records"), expected)


@pytest.mark.parametrize("frame", [pd.DataFrame([[1, 2]]), pd.DataFrame([[1, 2]], columns=["a", "a"])])
def test_pandas_names_that_are_no_use(frame: pd.DataFrame) -> None:
    with pytest.raises(FeatureError, match=r"no name; got 0|'a' occurs twice"):
        as_table(frame)


# ---- Polars ---------------------------------------------------------------------------------------------------------


def test_polars(tag: Tag, expected: dict[str, Any]) -> None:
    kinds = {"id": pl.Enum(IDS), "tokens": pl.List(pl.String)}
    frame = pl.DataFrame({"id": IDS, "tokens": CELLS}, schema=kinds)
    frame = frame.with_columns(pl.Series("what", [object()] * len(IDS), dtype=pl.Object))
    result = tag(frame)
    assert result.schema == {**frame.schema, "labels": pl.List(pl.String), "status": pl.String, "error": pl.String}
    assert agrees(result.drop("what").to_dicts(), expected)
    assert tag(frame.head(0)).schema == result.schema


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_polars_lazily(tag: Tag, expected: dict[str, Any], tmp_path: Path, engine: Any) -> None:
    pq.write_table(TABLE, tmp_path / "in.parquet", row_group_size=10)
    lazy = pl.scan_parquet(tmp_path / "in.parquet")
    schema = tag(lazy.head(0).collect()).schema
    result = lazy.map_batches(tag, schema=schema, streamable=True)
    assert agrees(result.collect(engine=engine).to_dicts(), expected)
    result.filter(pl.col("status") != "error").sink_parquet(tmp_path / "out.parquet", engine=engine)
    assert pq.read_table(tmp_path / "out.parquet").num_rows == len(IDS) - 2


def test_polars_columns(tag: Tag, expected: dict[str, Any]) -> None:
    """A series of lists becomes one of structs; one of structs stands for a table."""
    lazy = pl.from_arrow(TABLE).lazy()  # type: ignore[union-attr]
    kind = tag(pl.Series([], dtype=pl.List(pl.String))).dtype
    for column in (pl.col("tokens"), pl.struct("id", "tokens")):
        result = lazy.select("id", column.map_batches(tag, return_dtype=kind).alias("found")).unnest("found")
        assert agrees(result.collect().to_dicts(), expected)


# ---- DuckDB ---------------------------------------------------------------------------------------------------------


def test_duckdb(tag: Tag, expected: dict[str, Any], tmp_path: Path) -> None:
    """An Arrow function over a Parquet file, in four threads; several columns come as a struct."""
    duckdb = installed("duckdb")
    many = pa.concat_tables([TABLE.set_column(0, "id", [[f"{name}.{k}" for name in IDS]]) for k in range(30)])
    pq.write_table(many, tmp_path / "in.parquet", row_group_size=300)
    with duckdb.connect(config={"threads": 4}) as con:
        con.create_function("tag", tag, ["VARCHAR[]"], STRUCT, type="arrow", null_handling="special")
        con.sql(f"COPY (SELECT id, unnest(tag(tokens)) FROM '{tmp_path}/in.parquet') TO '{tmp_path}/out.parquet'")
        kind = ["STRUCT(id VARCHAR, tokens VARCHAR[])"]
        con.create_function("tag_row", tag, kind, STRUCT, type="arrow", null_handling="special")
        rows = con.sql(f"SELECT id, unnest(tag_row(x)) FROM '{tmp_path}/in.parquet' x WHERE id LIKE '%.7'")
        assert agrees(shortened(rows.to_arrow_table()), expected)
        relation = con.sql(f"FROM '{tmp_path}/in.parquet' WHERE id LIKE '%.8'")
        assert agrees(shortened(tag(relation)), expected)
    records = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert agrees(records, {f"{name}.{k}": labels for k in range(30) for name, labels in expected.items()})


def shortened(table: pa.Table) -> list[dict[str, Any]]:
    """Rows whose ids are those of TABLE again."""
    return [{**row, "id": row["id"].split(".")[0]} for row in table.to_pylist()]


# ---- Dask -----------------------------------------------------------------------------------------------------------


OF_DASK = pytest.mark.filterwarnings("ignore:The inplace keyword")  # it calls pandas as older versions wanted it


@OF_DASK
@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_dask(tag: Tag, expected: dict[str, Any], tmp_path: Path, scheduler: str) -> None:
    installed("dask")
    from dask import dataframe as dd

    pq.write_table(TABLE, tmp_path / "in.parquet", row_group_size=15)
    frame = dd.read_parquet(tmp_path / "in.parquet", dtype_backend="pyarrow", split_row_groups=True)
    assert frame.npartitions == 3
    result = frame.map_partitions(tag, meta=tag(frame._meta))
    table = pa.Table.from_pandas(
        result.compute(scheduler=scheduler, num_workers=1 if scheduler == "processes" else 2), preserve_index=False
    )
    assert agrees(table.to_pylist(), expected)
    assert list(result.dtypes) == list(result.head(1, compute=True).dtypes), "as the meta says"


@OF_DASK
def test_dask_over_lists_of_pandas(tag: Tag, expected: dict[str, Any]) -> None:
    """Dask makes text of lists unless told otherwise, which is not a list of tokens."""
    dask = installed("dask")
    from dask import dataframe as dd

    frame = pd.DataFrame({"id": IDS, "tokens": CELLS})
    with dask.config.set({"dataframe.convert-string": False}):
        whole = dd.from_pandas(frame, npartitions=3)
        result = whole.map_partitions(tag, meta=tag(frame.head(0))).compute(scheduler="threads")
    assert agrees(result.to_dict("records"), expected)
    with pytest.raises(FeatureError, match=r"labelled in parts; got dask\.DataFrame; wanted frame\.map_partitions"):
        tag(whole)


# ---- datasets -------------------------------------------------------------------------------------------------------


@pytest.fixture
def dataset(tmp_path: Path) -> datasets.Dataset:
    """In a file, with room for a cache; without bars."""
    datasets.disable_progress_bars()
    pq.write_table(TABLE, tmp_path / "in.parquet")
    return datasets.Dataset.from_parquet(str(tmp_path / "in.parquet"), cache_dir=str(tmp_path / "cache"))


@pytest.mark.parametrize("kind", [None, "arrow", "pandas", "polars"])
def test_datasets(tag: Tag, expected: dict[str, Any], dataset: datasets.Dataset, kind: str | None) -> None:
    result = dataset.with_format(kind).map(tag, batched=True, batch_size=15)
    assert agrees(result.with_format(None), expected)
    again = dataset.with_format(kind).map(tag, batched=True, batch_size=15)
    assert again.cache_files == result.cache_files and result.cache_files, "found again"


def test_datasets_in_two_processes(tag: Tag, expected: dict[str, Any], dataset: datasets.Dataset) -> None:
    assert agrees(dataset.map(tag, batched=True, batch_size=15, num_proc=2), expected)


def test_datasets_keep_their_features(tag: Tag) -> None:
    """The meaning of a column is kept with it, and columns are not decoded: this picture would be an error."""
    kinds = {
        "tokens": [datasets.Value("string")],
        "kind": datasets.ClassLabel(names=["A", "B"]),
        "scan": datasets.Image(),
    }
    rows = {"tokens": UNSEEN[:2], "kind": [1, 0], "scan": [{"bytes": b"no picture", "path": None}] * 2}
    result = datasets.Dataset.from_dict(rows, features=datasets.Features(kinds)).map(tag, batched=True)
    assert result.features["kind"].names == ["A", "B"] and isinstance(result.features["scan"], datasets.Image)
    assert result.features["error"] == datasets.Value("string"), "also if there is none"


def test_datasets_after_a_change(tag: Tag, dataset: datasets.Dataset) -> None:
    """Your own function may change a batch before it is tagged."""

    def first(batch: Any) -> Any:
        batch["tokens"] = [["a"] for _ in batch["tokens"]]
        return tag(batch)

    assert {len(labels) for labels in dataset.map(first, batched=True)["labels"]} == {1}


def test_datasets_that_pass_single_rows(tag: Tag, dataset: datasets.Dataset) -> None:
    with pytest.raises(FeatureError, match="got string; wanted list<string>"):
        dataset.map(tag)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, dict])
def test_old_labels_that_are_not_kept(path: Path, expected: dict[str, Any], make: Any) -> None:
    """They give way to new ones."""
    rows = {"id": IDS, "tokens": CELLS, "labels": [["gold"]] * len(IDS)}
    result = Tag(path, RULES, keep=["id", "tokens"])(make(rows))
    assert agrees(
        pd.DataFrame({name: list(result[name]) for name in ("id", "labels", "status", "error")}).to_dict("records"),
        expected,
    )


@pytest.mark.parametrize("data", [pl.LazyFrame({"tokens": CELLS}), datasets.Dataset.from_dict({"tokens": CELLS})])
def test_what_is_labelled_in_parts(tag: Tag, data: Any) -> None:
    with pytest.raises(FeatureError, match=r"labelled in parts; got \w+\.\w+; wanted \w+\.map"):
        tag(data)
