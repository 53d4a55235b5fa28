"""Documents in commands: --groups says which sequences belong together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import bridle
from commands import Cli

SENTENCES = [["Boston", "is", "big"], ["Boston", "won"]]
GOLD = [["LOC", "O", "O"], ["ORG", "O"]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    bridle.CRF(features=["word[0]", "word[1]"], c2=0.1).fit(SENTENCES * 5, GOLD * 5).save(tmp_path / "m.bridle")
    (tmp_path / "r.rules").write_text("in the document: same label for equal tokens\n")
    rows = [
        (SENTENCES[0], "a", ["LOC", "O", "O"]),
        (SENTENCES[1], "a", ["LOC", "O"]),
        (SENTENCES[1], "b", ["ORG", "O"]),
    ]
    lines = [json.dumps({"tokens": words, "doc": doc, "labels": y}) for words, doc, y in rows]
    (tmp_path / "d.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_tag_labels_documents(run: Cli, folder: Path) -> None:
    command = ["tag", folder / "m.bridle", folder / "d.jsonl", "--rules", folder / "r.rules"]
    done = run(*command, "--groups", "doc")
    labels = [json.loads(line)["labels"] for line in done.stdout.splitlines()]
    assert labels == [["LOC", "O", "O"], ["LOC", "O"], ["ORG", "O"]]
    scores = [json.loads(line)["score"] for line in done.stdout.splitlines()]
    assert scores[0] == scores[1] != scores[2]
    alone = run(*command)  # each sequence is a document of one
    assert [json.loads(line)["labels"] for line in alone.stdout.splitlines()][1] == ["ORG", "O"]


def test_eval_and_explain_take_documents(run: Cli, folder: Path) -> None:
    command = [folder / "m.bridle", "--rules", folder / "r.rules", "--groups", "doc"]
    assert "sequences all right: 3 of 3" in run.stdout("eval", folder / "d.jsonl", "--model", *command)
    assert "sequences all right: 2 of 3" in run.stdout("eval", folder / "d.jsonl", "--model", *command[:-2])
    done = run("explain", command[0], folder / "d.jsonl", *command[1:])
    assert "document a" in done.stdout and "document b" not in done.stdout
    assert "sentence 2, token 1: Boston is LOC here because 1 other mention says so" in done.stdout
    done = run("explain", command[0], folder / "d.jsonl", *command[1:], "--id", "b", "--json")
    assert [json.loads(line)["document"] for line in done.stdout.splitlines()] == ["b"]


@pytest.mark.parametrize("more", [["--scores"], ["--k", "2"], ["-o", "shards/"]])
def test_what_documents_do_not_have(run: Cli, folder: Path, more: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    done = run("tag", "m.bridle", "d.jsonl", "--groups", "doc", *more)
    assert done.exit_code == 2 and "--groups labels whole documents into one file" in done.stderr
