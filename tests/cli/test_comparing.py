"""`bridle compare`: predictions, models and rules against the same gold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bridle.data import read, write
from commands import Cli

ROWS = [("Ann Lee went to Rome", "A A O O B"), ("Bob saw Ann in Paris", "A O A O B"), ("Rome is old", "B O O")]


@pytest.fixture(scope="module")
def folder(run: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gold, a model that was trained on too little, two rule files, and predictions with one error and without."""
    place = tmp_path_factory.mktemp("comparing")
    lines = ["\n".join(map("\t".join, zip(text.split(), y.split(), strict=True))) for text, y in ROWS * 4]
    (place / "gold.conll").write_text("\n\n".join(lines) + "\n")
    (place / "train.conll").write_text("\n\n".join(lines[:2]) + "\n")
    run.ok("train", place / "train.conll", "-o", place / "m.bridle", "--features", "word[0]", "--c2", 1)
    (place / "b.rules").write_text("ends with O\nat most 9 tokens of A\n")
    (place / "a.rules").write_text("at most 1 token of A [penalty 0.5]\n")
    write(place / "right.jsonl", read(place / "gold.conll"), "jsonl")
    (place / "wrong.conll").write_text((place / "gold.conll").read_text().replace("Lee\tA", "Lee\tO"))
    return place


def compared(run: Cli, folder: Path, *words: object) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run.stdout("compare", folder / "gold.conll", *words, "--json"))
    return document


def test_files_of_predictions(run: Cli, folder: Path) -> None:
    document = compared(run, folder, folder / "wrong.conll", folder / "right.jsonl")
    assert [(s["name"], s["exact"]) for s in document["systems"]] == [("wrong.conll", 8 / 12), ("right.jsonl", 1.0)]
    exact = document["differences"][0]
    assert (exact["better"], exact["worse"], exact["sign_p"]) == (4, 0, 0.125)
    assert document["differing"][0].endswith("gold.conll:1") and len(document["differing"]) == 4


def test_models_and_rules_are_what_eval_says(run: Cli, folder: Path) -> None:
    """Each system has the figures of `bridle eval`; the model of --model comes first, without rules."""
    both = f"{folder / 'a.rules'}+{folder / 'b.rules'}"
    words = ["--model", folder / "m.bridle", folder / "b.rules", both, folder / "right.jsonl"]
    document = compared(run, folder, *words)
    assert [s["name"] for s in document["systems"]] == ["m.bridle", "b.rules", "a.rules+b.rules", "right.jsonl"]
    for system, files in zip(document["systems"], ([], ["b"], ["a", "b"]), strict=False):
        rules = [word for file in files for word in ("--rules", folder / f"{file}.rules")]
        command = ["eval", folder / "gold.conll", "--model", folder / "m.bridle", *rules, "--json"]
        wanted = json.loads(run.stdout(*command))
        assert (system["exact"], system["accuracy"]) == (wanted["exact"], wanted["accuracy"])
        assert system["segments"] == wanted["segments"]
    assert len(document["differences"]) == 3 * 6
    [last] = [r for r in document["rules"] if (r["system"], r["rule"]) == ("b.rules", "ends with O")]
    assert (last["broken"], last["changed"], last["helped"], last["hurt"]) == (12, 12, 4, 8)
    alone = compared(run, folder, folder / "m.bridle", folder / "right.jsonl")
    assert alone["systems"][0] == document["systems"][0] and alone["rules"] == []


def test_models_with_rules_of_their_own(run: Cli, folder: Path) -> None:
    """`m.bridle+b.rules` has the figures of `b.rules` with --model."""
    with_option = compared(run, folder, "--model", folder / "m.bridle", folder / "b.rules")
    document = compared(run, folder, folder / "m.bridle", f"{folder / 'm.bridle'}+{folder / 'b.rules'}")
    assert [system.pop("name") for system in document["systems"]] == ["m.bridle", "m.bridle+b.rules"]
    assert [system.pop("name") for system in with_option["systems"]] == ["m.bridle", "b.rules"]
    assert document["systems"] == with_option["systems"]
    assert {effect.pop("system") for effect in document["rules"]} == {"m.bridle+b.rules"}
    assert document["rules"] == [{k: v for k, v in effect.items() if k != "system"} for effect in with_option["rules"]]


def test_what_is_printed_and_written(run: Cli, folder: Path, tmp_path: Path) -> None:
    words = [
        "compare",
        folder / "gold.conll",
        "--model",
        folder / "m.bridle",
        folder / "b.rules",
        folder / "wrong.conll",
    ]
    out = run.stdout(*words, "--html", tmp_path / "page.html", "--differing", 2)
    assert out.startswith("12 sequences, 52 tokens; the systems differ in")
    assert "p corrected for 3 pairs (Holm)" in out and "ends with O" in out
    page = (tmp_path / "page.html").read_text()
    assert page.count("<h3>") == 3 + 2 and "m.bridle" in page and "src=" not in page


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-", "right.jsonl", "wrong.conll"], "GOLD is read for each system; got standard input"),
        (["gold.conll", "right.jsonl"], "nothing to compare; got one system, right.jsonl"),
        (["gold.conll", "right.jsonl", "right.jsonl"], "a system is named twice"),
        (["gold.conll", "right.jsonl", "a.rules"], "need a model; got a.rules; wanted --model MODEL, or MODEL+a.rules"),
        (["gold.conll", "right.jsonl", "nowhere.bridle+a.rules"], "nowhere.bridle: cannot read this file"),
        (["gold.conll", "right.jsonl", "nowhere.txt"], "cannot read this file"),
        (["gold.conll", "right.jsonl", "short.conll"], "another number of tokens than gold"),
        (["gold.conll", "right.jsonl", "wrong.conll", "--html", "wrong.conll"], "would be overwritten"),
    ],
)
def test_mistakes(run: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], says: str) -> None:
    monkeypatch.chdir(folder)
    (folder / "short.conll").write_text("Ann\tA\n")
    result = run("compare", *words)
    assert result.exit_code == 2 and says in result.output and "Traceback" not in result.output


def test_other_tokens_cannot_be_compared(run: Cli, tmp_path: Path) -> None:
    """Gold with spans of characters has the tokens of each file of predictions."""
    (tmp_path / "gold.jsonl").write_text('{"text": "Ann left.", "label": [[0, 3, "PER"]]}\n')
    (tmp_path / "a.conll").write_text("Ann\tPER\nleft\tO\n.\tO\n")
    (tmp_path / "b.conll").write_text("Ann\tPER\nleft.\tO\n")
    words = ["compare", tmp_path / "gold.jsonl", tmp_path / "a.conll"]
    assert "the systems cannot be compared" in run(*words, tmp_path / "b.conll").output
    (tmp_path / "b.conll").write_text("Ann\tO\nleft\tO\n.\tO\n")
    document = json.loads(run.stdout(*words, tmp_path / "b.conll", "--json"))
    assert [s["exact"] for s in document["systems"]] == [1.0, 0.0]
