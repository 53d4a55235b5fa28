"""`bridle split`: parts in the format they came in, exact counts, nothing written over."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bridle.data import Example, formats, load, read, write
from commands import Cli

ROWS = "".join(f"# id {k}\nw{k}\tx\tB-A\nv{k}\ty\tO\n\n" for k in range(20))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "all.conll"
    path.write_text(ROWS)
    return path


def test_the_parts_together_are_the_file(run: Cli, data: Path, tmp_path: Path) -> None:
    text = run.stdout("split", data, "-o", tmp_path / "parts", "--seed", 3)
    assert [line.split() for line in text.splitlines()] == [
        ["train", "dev", "test"],
        ["sequences", "16", "2", "2"],
        ["tokens", "32", "4", "4"],
        ["B-A", "16", "2", "2"],
        ["O", "16", "2", "2"],
    ]
    blocks = [(tmp_path / "parts" / f"{name}.conll").read_text().split("\n\n") for name in ("train", "dev", "test")]
    assert sorted(block for part in blocks for block in part) == sorted([*ROWS.split("\n\n"), "", ""])


def test_json_tells_counts_and_files(run: Cli, data: Path, tmp_path: Path) -> None:
    packed = tmp_path / "all.txt.gz"
    packed.write_bytes(gzip.compress(ROWS.encode()))
    document = json.loads(run.stdout("split", packed, "-o", tmp_path / "p", "--into", "a=0.5,b=0.5", "--json"))
    assert document["seed"] == 0 and list(document["parts"]) == ["a", "b"]
    item = document["parts"]["a"]
    assert item["file"] == str(tmp_path / "p" / "a.txt.gz")
    assert (item["sequences"], item["tokens"], item["labels"], item["duplicates"]) == (10, 20, {"B-A": 10, "O": 10}, 0)
    assert len(load(item["file"])[0]) == 10


def test_nothing_is_written_over(run: Cli, data: Path, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    run.ok("split", data, "-o", parts)
    again = run.ok("split", data, "-o", parts, code=2)
    assert "this file would be overwritten" in again.stderr and "--force" in again.stderr
    run.ok("split", data, "-o", parts, "--force", "--seed", 9)
    same = run.ok("split", data, "-o", tmp_path, "--into", "all=0.5,b=0.5", "--force", code=2)
    assert "this file would be overwritten" in same.stderr and data.read_text() == ROWS


def test_duplicates_are_told(run: Cli, data: Path, tmp_path: Path) -> None:
    data.write_text("".join(f"w{k % 4} B-A\n\n" for k in range(20)))
    halves = ["--into", "a=0.5,b=0.5"]
    result = run.ok("split", data, "-o", tmp_path / "p", *halves)
    assert "are also in another part" in result.stderr and "--duplicates together" in result.stderr
    assert not run.ok("split", data, "-o", tmp_path / "q", *halves, "--duplicates", "together").stderr


def test_documents_files_and_columns_stay_whole(run: Cli, data: Path, tmp_path: Path) -> None:
    data.write_text("".join(("-DOCSTART- O\n\n" if k % 5 == 0 else "") + f"w{k} d{k // 5}\n\n" for k in range(20)))
    other = tmp_path / "other.conll"
    other.write_text("".join(f"v{k} d9\n\n" for k in range(10)))
    halves = ["--into", "a=0.5,b=0.5"]

    def labels(folder: str, name: str) -> set[str]:
        return {label for item in load(tmp_path / folder / f"{name}.conll")[1] for label in item}

    result = run.ok("split", data, "-o", tmp_path / "p", *halves, "--by", "documents")
    assert not labels("p", "a") & labels("p", "b") and not result.stderr
    run.ok("split", data, other, "-o", tmp_path / "q", *halves, "--by", "files")
    assert sorted(map(len, (labels("q", "a"), labels("q", "b")))) == [1, 4]
    data.write_text("".join(f"w{k} doc{k % 4} L{k % 4}\n\n" for k in range(20)))
    columns = ["--columns", "word,doc,label"]
    run.ok("split", data, "-o", tmp_path / "r", *halves, "--by", "doc", *columns)
    assert not labels("r", "a") & labels("r", "b")
    for by, says in (("documents", "the data does not mark documents"), ("page", "there is no column 'page'")):
        assert says in run.ok("split", data, "-o", tmp_path / "s", *halves, "--by", by, *columns, code=2).stderr


@pytest.mark.parametrize("format", sorted(set(formats()) - {"text", "parquet", "arrow"}))
def test_every_format_comes_out_as_it_went_in(run: Cli, tmp_path: Path, format: str) -> None:
    """Labels and tokens of all parts together are those of the file."""
    bmes = format == "segmented"
    words, labels = (["a", "b"], ["S", "S"]) if bmes else (["Ann", "ran"], ["B-A", "O"])
    if format in ("tagged", "parserator", "segments"):
        labels = ["A", "V"]
    column = "char" if bmes else "word"
    rows = [
        Example(
            {column: [w + str(k) if not bmes else w for w in words]}, labels, id=f"t{k}" if format == "brat" else None
        )
        for k in range(8)
    ]
    suffix = {"brat": ".ann", "csv": ".csv", "tsv": ".tsv", "labelstudio": ".json"}.get(format, ".txt")
    path = tmp_path / f"all{suffix}"
    write(path, rows, format)
    run.ok("split", path, "-o", tmp_path / "p", "--into", "a=0.5,b=0.5", "--format", format)
    result = [example for name in "ab" for example in read(tmp_path / "p" / f"{name}{suffix}", format)]
    key = [(list(e.tokens), list(e.labels or ())) for e in result]
    assert sorted(key) == sorted((list(e.tokens), list(e.labels or ())) for e in read(path, format))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--into", "train=0.8,dev"], "--into must name parts and their shares; got 'dev'"),
        (["--into", "a=0.5,a=0.5"], "--into must name parts and their shares; got 'a=0.5'"),
        (["--into", "a/b=0.5,c=0.5"], "--into must name parts and their shares; got 'a/b=0.5'"),
        (["--into", "a=0.5,b=0.4"], "the shares must add up to 1; got 0.9"),
    ],
)
def test_what_makes_no_sense_is_said(run: Cli, data: Path, tmp_path: Path, words: list[str], says: str) -> None:
    assert says in run.ok("split", data, "-o", tmp_path / "p", *words, code=2).stderr
    assert not (tmp_path / "p").exists()
    assert "standard input cannot be split" in run.ok("split", "-", "-o", tmp_path / "p", code=2).stderr
