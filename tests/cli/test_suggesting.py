"""`bridle suggest`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import bridle
from commands import Cli

TRAIN = "Ann N\nwent O\nto O\nRome C\n\nBob N\nis O\nhere O\n\nOslo C\nis O\nbig O\n"
HEAP = "Ann\nis\nhere\n\nKim\nwent\nto\nLima\n\nLima\nis\nhere\n"


@pytest.fixture
def model(tmp_path: Path, run: Cli) -> Path:
    (tmp_path / "train.txt").write_text(TRAIN)
    (tmp_path / "heap.txt").write_text(HEAP)
    (tmp_path / "my.rules").write_text("fix C at tokens /Lima/\nforbid N\n")
    run.ok("train", tmp_path / "train.txt", "--columns", "word,label", "--features", "ner", "-o", tmp_path / "m.bridle")
    return tmp_path / "m.bridle"


def test_the_table(model: Path, run: Cli) -> None:
    lines = run.stdout("suggest", model, model.with_name("heap.txt"), "-n", "2").splitlines()
    assert lines[0].split() == ["where", "uncertain", "words", "rules", "in", "conflict"]
    assert [line.split()[0].rpartition(":")[2] for line in lines[1:]] == ["5", "10"]
    assert "Lima" in lines[1]
    ruled = run.stdout("suggest", model, model.with_name("heap.txt"), "--rules", model.with_name("my.rules"))
    assert "forbid N" in ruled


def test_json(model: Path, run: Cli) -> None:
    heap, rules = model.with_name("heap.txt"), model.with_name("my.rules")
    first, *others = json.loads(run.stdout("suggest", model, heap, "--json", "--rules", rules))["suggested"]
    assert {first["index"], *(each["index"] for each in others)} == {0, 1, 2}
    assert set(first) == {"index", "id", "where", "uncertainty", "words", "conflicts"}
    assert all(set(word) == {"at", "token"} for word in first["words"])


def test_the_sequences_are_written_with_labels_to_correct(model: Path, run: Cli) -> None:
    heap, rules, out = (model.with_name(name) for name in ("heap.txt", "my.rules", "next.txt"))
    run.ok("suggest", model, heap, "-n", "1", "--rules", rules, "-o", out)
    X, y = bridle.data.load(out, "conll", columns=["word", "label"], label="label")
    assert len(X) == 1 and "N" not in y[0]
    run.ok("suggest", model, heap, "-n", "1", "-o", model.with_name("next.json"), "--to", "labelstudio")
    (task,) = json.loads(model.with_name("next.json").read_text())
    assert task["data"]["text"] == "Kim went to Lima" and task["predictions"]
    assert run.stdout("suggest", model, "-", "-n", "1", "-o", "-", stdin=HEAP).startswith("Kim\tN\n")


def test_labels_in_the_data_are_ignored(model: Path, run: Cli) -> None:
    output = run.stdout("suggest", model, model.with_name("train.txt"), "-n", "1", "-o", "-")
    assert all(len(line.split("\t")) == 2 for line in output.strip().splitlines())


@pytest.mark.parametrize(
    ("words", "said"),
    [(["-n", "0"], "-n"), (["-o", "heap.txt"], "heap.txt"), (["--to", "nothing", "-o", "x"], "nothing")],
)
def test_what_cannot_be(model: Path, run: Cli, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(model.parent)
    result = run.ok("suggest", model, "heap.txt", *words, code=2)
    assert said in result.stderr
