"""Rows of a run that differ in ids and columns, and rows that fail: none is lost, and none ends the run for others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bridle
from bridle.bulk import ShardSize, check, tag_files
from bridle.bulk.inputs import inputs
from bridle.data import read
from bridle.errors import FileError
from bridle.models import Tagger

TOKENS = ["Ann", "met"]
SMALL = ShardSize(rows=2)  # and blocks of two rows
GOOD = {"tokens": TOKENS}


@pytest.fixture(scope="module")
def model() -> Tagger:
    return bridle.CRF(features="word[0]", c2=1.0).fit([TOKENS] * 3, [["PER", "O"]] * 3)


@pytest.fixture(scope="module")
def two() -> Tagger:
    """A model that needs a second column."""
    rows = [{"word": TOKENS, "pos": ["N", "V"]}] * 3
    return bridle.CRF(features=["word[0]", "pos[0]"], c2=1.0).fit(rows, [["PER", "O"]] * 3)


def written(path: Path, *records: Any) -> Path:
    path.write_text("".join(f"{record if isinstance(record, str) else json.dumps(record)}\n" for record in records))
    return path


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(out.glob("part-*")) for line in path.read_text().splitlines()]


def test_ids_are_strings_whatever_the_first_ones_are(model: Tagger, tmp_path: Path) -> None:
    first = written(tmp_path / "a.jsonl", *({"id": k, **GOOD} for k in range(1, 6)))
    second = written(tmp_path / "b.jsonl", {"id": "007", **GOOD}, {"id": "x7", **GOOD})
    for shard_size in (SMALL, ShardSize()):
        out = tmp_path / f"out{shard_size.rows}"
        tag_files(model, [first, second], out, to="jsonl", shard_size=shard_size)
        assert [row["id"] for row in lines(out)] == ["1", "2", "3", "4", "5", "007", "x7"]
    tag_files(model, [first, second], tmp_path / "one.parquet", resume=False)
    assert pq.read_table(tmp_path / "one.parquet")["id"].to_pylist()[-2:] == ["007", "x7"]


def test_lines_may_get_columns_later_and_tables_may_not(model: Tagger, tmp_path: Path) -> None:
    late = written(tmp_path / "x.jsonl", *[GOOD] * 4, {**GOOD, "note": ["a", "b"]}, {**GOOD, "labels": ["PER", "O"]})
    more = {"shard_size": SMALL, "threads": 1}
    # so that a look at the first rows does not see them
    other = written(tmp_path / "w.jsonl", *[GOOD] * 2)
    tag_files(model, [other, late], tmp_path / "j", to="jsonl", **more)
    assert [row.get("note") for row in lines(tmp_path / "j")][-2:] == [["a", "b"], None]
    tag_files(model, [other, late], tmp_path / "c", to="conll", **more)
    for path in (tmp_path / "c").glob("part-*"):
        assert [example.tokens for example in read(path, "conll")]  # all lines of a shard have the same columns
    assert check(tmp_path / "c").rows == 8
    with pytest.raises(FileError, match="a column that the first rows do not have; got note"):
        tag_files(model, [other, late], tmp_path / "p", to="parquet", **more)


def test_comments_that_come_late_do_not_matter(model: Tagger, tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("Ann\nmet\n\n" * 3)
    (tmp_path / "b.conll").write_text("# sent 2\nAnn\n")
    data = [tmp_path / "a.conll", tmp_path / "b.conll"]
    options = {"columns": ["word"], "label": None}
    for to in ("parquet", "jsonl", "conll"):
        assert tag_files(model, data, tmp_path / to, to=to, options=options).rows == 4
    assert "# sent 2\nAnn" in (tmp_path / "conll" / "part-00000.conll").read_text()


def test_rows_without_a_column_of_the_model_fail_alone(two: Tagger, tmp_path: Path) -> None:
    good, bad = {"id": "a", **GOOD, "pos": ["N", "V"]}, {"id": "b", "tokens": None}
    one = written(tmp_path / "x.jsonl", bad, good)
    assert dict(tag_files(two, one, tmp_path / "a", shard_size=ShardSize(rows=1)).status) == {"error": 1, "optimal": 1}
    both = [written(tmp_path / "y.jsonl", good), written(tmp_path / "z.jsonl", bad, {"id": "c", **GOOD})]
    assert dict(tag_files(two, both, tmp_path / "b").status) == {"optimal": 1, "error": 2}


def test_failed_rows_pass_the_check(model: Tagger, tmp_path: Path) -> None:
    data = written(tmp_path / "x.jsonl", {"id": "a", **GOOD}, {"id": "b", "tokens": None})
    for to in ("jsonl", "parquet", "arrow", "conll"):
        run = tag_files(model, data, tmp_path / to, to=to)
        assert dict(run.status) == {"optimal": 1, "error": 1} and check(tmp_path / to).ids == run.ids


def test_half_a_character_in_an_id_is_a_row_that_failed(model: Tagger, tmp_path: Path) -> None:
    data = written(tmp_path / "x.jsonl", r'{"id": "\ud800", "tokens": ["Ann"]}', {"id": "b", **GOOD})
    assert dict(tag_files(model, data, tmp_path / "out").status) == {"error": 1, "optimal": 1}


def test_a_column_word_replaces_the_tokens_in_all_rows(model: Tagger, tmp_path: Path) -> None:
    rows = [{"tokens": ["a", "b"], "word": TOKENS}] * 3
    data = written(tmp_path / "x.jsonl", *rows)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet")
    for path in (data, tmp_path / "x.parquet"):
        (found,) = inputs([path])
        (block,) = found.reader.blocks(str(path))
        assert block.batch.schema.names == ["tokens"]
        assert block.batch["tokens"].to_pylist() == [TOKENS] * 3 == [list(one.tokens) for one in read(path)]
    assert dict(tag_files(model, data, tmp_path / "out").status) == {"optimal": 3}


def test_the_first_column_is_the_one_that_the_model_calls_so(two: Tagger, tmp_path: Path) -> None:
    (tmp_path / "x.conll").write_text("N Ann\nV met\n")
    options = {"columns": ["pos", "word"], "label": None}
    run = tag_files(two, tmp_path / "x.conll", tmp_path / "out", to="jsonl", options=options)
    assert dict(run.status) == {"optimal": 1} and lines(tmp_path / "out")[0]["labels"] == ["PER", "O"]


def test_given_values_are_written_in_one_way(model: Tagger, tmp_path: Path) -> None:
    data = written(tmp_path / "x.jsonl", *['{"tokens":["Ann"],"given":{"verb":3}}'] * 3)
    tag_files(model, data, tmp_path / "out", to="parquet")
    assert pq.read_table(tmp_path / "out" / "part-00000.parquet")["given"].to_pylist() == ['{"verb": 3}'] * 3


def test_long_tokens_fail_in_shards_and_are_tagged_in_one_file(model: Tagger, tmp_path: Path) -> None:
    data = written(tmp_path / "x.jsonl", {"tokens": ["x" * 100_000]}, GOOD)
    assert dict(tag_files(model, data, tmp_path / "out").status) == {"error": 1, "optimal": 1}
    one = tag_files(model, data, tmp_path / "one.parquet", resume=False, on_error="raise")
    assert dict(one.status) == {"optimal": 2}
