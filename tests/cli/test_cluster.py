"""`bridle tag --on`: what is refused before a cluster is asked. Runs on Spark: tests/distributed."""

from __future__ import annotations

from pathlib import Path

import pytest

import bridle
from bridle.cli.cluster import _explained, _format
from bridle.errors import FileError
from commands import Cli


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "m.bridle"
    bridle.LocalTagger(features=["word[0]"]).fit([["a", "b"]], [["D", "N"]]).save(path)
    return path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["in", "-o", "out", "--on", "mars://host"], "unknown cluster; got --on mars://host; wanted spark://HOST:PORT"),
        (["in", "-o", "out", "--on", "local[2]", "--to", "conll"], "--to has no meaning with --on"),
        (["in", "-o", "out", "--on", "local[2]", "--columns", "word"], "--columns has no meaning with --on"),
        (["in", "-o", "out", "--on", "local[2]", "--json"], "--json has no meaning with --on"),
        (["in", "--on", "local[2]"], "a cluster reads and writes files; got a stream; wanted DATA and -o FOLDER"),
        (["-", "-o", "out", "--on", "local[2]"], "a cluster reads and writes files"),
        (["in", "-o", "in/out", "--on", "local[2]"], "the output would be read as input"),
        (["in", "in/x.parquet", "-o", "out", "--on", "local[2]"], "an input is named twice"),
        (["in", "-o", "out", "--on", "local[2]", "--format", "conll"], "a cluster cannot read this format"),
        (
            ["in", "-o", "out", "--on", "local[2]", "--on-option", "x"],
            "--on-option is not of the form KEY=VALUE",
        ),
    ],
)
def test_what_a_cluster_cannot_do_is_refused(run: Cli, model: Path, words: list[str], message: str) -> None:
    assert message in run.ok("tag", model, *words, code=2).stderr


def test_rules_are_checked_before_a_cluster_starts(run: Cli, model: Path, tmp_path: Path) -> None:
    (tmp_path / "my.rules").write_text("at most 1 segment of TITEL\n", encoding="utf-8")
    words = ("tag", model, "in", "-o", "out", "--on", "local[2]", "--rules", tmp_path / "my.rules")
    assert "TITEL" in run.ok(*words, code=2).stderr


def test_the_format_is_known_by_names(tmp_path: Path) -> None:
    assert _format(None, ["/a/x.parquet", "/b"]) == "parquet"
    assert _format(None, ["/a/*.jsonl.gz"]) == _format("jsonl", ["/a"]) == "json"
    (tmp_path / "x.json").touch()
    assert _format(None, [str(tmp_path)]) == "json"
    with pytest.raises(FileError, match="wanted parquet or jsonl"):
        _format("arrow", [])


def test_errors_of_spark_are_one_line() -> None:
    python = "Job aborted\n  Traceback (most recent call last):\n  File x\nImportError: no Bridle; wanted it\n\tat x"
    assert "got ImportError: no Bridle; wanted it." in str(_explained(Exception(python), "cannot finish"))
    java = "An error occurred while calling o5.open.\n: java.io.IOException: No space left on device\n\tat x"
    assert "got java.io.IOException: No space left on device." in str(_explained(Exception(java), "cannot finish"))
    assert "got [PATH_NOT_FOUND] x." in str(_explained(Exception("[PATH_NOT_FOUND] x\nlong"), "cannot finish"))
