"""`bridle tag` reads each input once, and compiles rules once, whatever it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridle.data.source import Source
from bridle.rules.compiled import CompiledRules
from commands import Cli

TRAIN = "the D B-NP\nold J I-NP\nman N I-NP\nsleeps V B-VP\n\na D B-NP\ndog N I-NP\n"
WAYS = {
    "stdout": [],
    "conll": ["-o", "x.conll"],
    "jsonl": ["-o", "x.jsonl", "--k", "2"],
    "scores": ["--scores"],
    "parquet": ["-o", "x.parquet"],
    "csv": ["-o", "x.csv"],
    "shards": ["-o", "out", "--resume"],
    "shards of parquet": ["-o", "out/", "--to", "parquet", "--scores"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, rules, and inputs of two formats."""
    place = tmp_path_factory.mktemp("once")
    (place / "train.txt").write_text(TRAIN)
    (place / "my.rules").write_text("at most 1 segment of NP\nfix B-VP at tokens /sleeps/\n")
    (place / "x.txt").write_text("the D\ndog N\nsleeps V\n\n" * 30)
    (place / "x.jsonl").write_text('{"tokens": ["the", "dog"], "pos": ["D", "N"]}\n' * 30)
    Cli().ok("train", place / "train.txt", "-o", place / "m.bridle", "--columns", "word,pos,chunk", "--c2", 1)
    return place


@pytest.mark.parametrize("way", WAYS)
def test_inputs_are_opened_once_and_rules_compiled_once(
    run: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    opened: list[str] = []
    compiled: list[int] = []
    open_source, compile_rules = Source.__init__, CompiledRules.__init__

    def note_open(self: Source, path: Any) -> None:
        opened.append(Path(path).name)
        open_source(self, path)

    def note_compile(self: CompiledRules, *args: Any, **named: Any) -> None:
        compiled.append(1)
        compile_rules(self, *args, **named)

    monkeypatch.setattr(Source, "__init__", note_open)
    monkeypatch.setattr(CompiledRules, "__init__", note_compile)
    monkeypatch.chdir(tmp_path)
    inputs = [folder / "x.txt", folder / "x.jsonl"]
    run.ok("tag", folder / "m.bridle", *inputs, "--rules", folder / "my.rules", *WAYS[way])
    assert opened == ["x.txt", "x.jsonl"]
    assert len(compiled) == 1
