"""`bridle convert`: models of CRFsuite on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import bridle
from commands import Cli
from crfsuite_writer import SMALL, crfsuite_file


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.crfsuite").write_bytes(SMALL)
    (tmp_path / "bio.crfsuite").write_bytes(crfsuite_file([b"O", b"B-X", b"I-X"], [b"a"], {(0, 1): 1.0}, {}))
    return tmp_path


def test_a_converted_model_is_a_model(run: Cli, folder: Path) -> None:
    output = run.stdout("convert", "small.crfsuite", "-o", "small.bridle")
    assert output == "small.bridle: 3 labels, 7 attributes, 12 weights, scheme none\n"
    assert bridle.load("small.bridle").predict([[["w=a"], ["w=b"]]]) == [["A", "B"]]
    run.ok("convert", "bio.crfsuite", "-o", "small.bridle")  # a model may be written over
    assert bridle.load("small.bridle").labels_.scheme == "BIO"


def test_machines_are_told_the_same(run: Cli, folder: Path) -> None:
    document = json.loads(run.stdout("convert", "bio.crfsuite", "-o", "m.bridle", "--scheme", "none", "--json"))
    assert document == {"labels": 3, "scheme": None, "attributes": 1, "weights": 1, "out": "m.bridle"}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("convert none.crfsuite -o m.bridle", "cannot read this file"),
        ("convert m.txt -o m.bridle", "not a model of CRFsuite"),
        ("convert small.crfsuite -o m.txt", "would be overwritten"),
        ("convert small.crfsuite -o no/m.bridle", "cannot write this file"),
        ("convert small.crfsuite -o m.bridle --scheme BIO", "does not fit the scheme"),
        ("convert small.crfsuite", "'--out'"),
        ("tag small.crfsuite m.txt", "a CRFsuite model"),
    ],
)
def test_what_cannot_be_converted(run: Cli, folder: Path, line: str, what: str) -> None:
    (folder / "m.txt").write_text("no model\n")
    result = run(*line.split())
    assert result.exit_code == 2 and what in result.stderr, result.stderr
    assert not (folder / "m.bridle").exists()


def test_text_cannot_be_tagged_with_it(run: Cli, folder: Path) -> None:
    run.ok("convert", "small.crfsuite", "-o", "m.bridle")
    (folder / "new.txt").write_text("She reads\n")
    result = run("tag", "m.bridle", "new.txt", "--format", "text")
    assert result.exit_code == 2 and "takes ready-made features, not text" in result.stderr
