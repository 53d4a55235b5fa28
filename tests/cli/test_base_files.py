"""Files that commands write: no input and no file of the user is lost to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import Cli

TRAIN = "the D B-NP\nman N I-NP\nsleeps V B-VP\n\na D B-NP\ndog N I-NP\nruns V B-VP\n\nhe N B-NP\nruns V B-VP\n"
SCORES = '{"unary": [[0, 1]], "labels": ["O", "A"]}\n'
TAUGHT = "train train.txt --columns word,pos,chunk --iterations 2"


@pytest.fixture
def folder(run: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A training file, a model, rules, scores, labels and templates; commands run here."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.txt").write_text(TRAIN * 3)
    (tmp_path / "my.rules").write_text("at most 9 segments of NP\n")
    (tmp_path / "s.jsonl").write_text(SCORES)
    (tmp_path / "labels").write_text("O\nA\n")
    (tmp_path / "templates").write_text("word[0]\n")
    (tmp_path / "old.txt").write_text("mine\n")
    assert run(*f"{TAUGHT} -o m.bridle --checkpoint m.check --every 1".split()).exit_code == 0
    return tmp_path


@pytest.mark.parametrize(
    ("line", "flag"),
    [
        (f"{TAUGHT} -o train.txt", "-o train.txt"),
        (f"{TAUGHT} -o new --checkpoint train.txt", "--checkpoint"),
        (f"{TAUGHT} -o new --log train.txt", "--log train.txt"),
        (f"{TAUGHT} -o new --log new", "--log new"),
        (f"{TAUGHT} -o new --checkpoint new", "--checkpoint"),
        (f"{TAUGHT} -o new --log new.json", "--log new.json"),
        (f"{TAUGHT} -o new --checkpoint new.json", "--checkpoint"),
        (f"{TAUGHT} -o new --log c --checkpoint c", "--log c"),
        (f"{TAUGHT} -o new --dev labels --log labels", "--log"),
        (f"{TAUGHT} -o templates --features templates", "-o templates"),
        (f"{TAUGHT} -o m.check --resume m.check", "-o m.check"),
        (f"{TAUGHT} -o new --learner ibt --rules my.rules --log my.rules", "--log my.rules"),
        (f"{TAUGHT} -o old.txt", "a file that is not a model"),
        (f"{TAUGHT} -o new --checkpoint old.txt", "not a model"),
        ("decode s.jsonl -o s.jsonl", "-o s.jsonl"),
        ("decode s.jsonl --rules my.rules -o my.rules", "-o my.rules"),
        ("decode s.jsonl --labels-file labels -o labels", "-o labels"),
        ("tag m.bridle train.txt -o train.txt", "-o train.txt"),
        ("tag m.bridle train.txt -o m.bridle", "-o m.bridle"),
        ("tag m.bridle train.txt --rules my.rules -o my.rules", "-o my.rules"),
        ("learn train.txt -o ./train.txt", "-o ./train.txt"),
        ("learn train.txt --kind deterministic -o old.txt", "a file that is not a model"),
        ("rules test my.rules train.txt --plot my.rules", "--plot my.rules"),
        ("rules test my.rules train.txt --plot train.txt", "--plot train.txt"),
    ],
)
def test_what_is_there_is_not_written_over(run: Cli, folder: Path, line: str, flag: str) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    result = run(*line.split())
    assert result.exit_code == 2 and "would be overwritten" in result.stderr and flag in result.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    "line",
    [
        f"{TAUGHT} -o m.bridle --checkpoint m.check --resume m.check --iterations 4",
        f"{TAUGHT} -o empty",
        f"{TAUGHT} -o pos --features pos",
        "train --config m.bridle.json -o m.bridle",
    ],
)
def test_what_may_be_written_over(run: Cli, folder: Path, line: str) -> None:
    """A model by its successor, a checkpoint by the next one, an empty file; a set of features is not a file."""
    (folder / "empty").touch()
    assert run(*line.split()).exit_code == 0


def test_json_and_a_log_do_not_share_stdout(run: Cli, folder: Path) -> None:
    result = run(*f"{TAUGHT} -o new --log - --json".split())
    assert result.exit_code == 2 and "wanted --log FILE" in result.stderr and result.stdout == ""


def test_learned_rules_do_not_replace_edited_ones(run: Cli, folder: Path) -> None:
    learn, kept = "learn train.txt -o my.rules --columns word,pos,chunk --min-support 1", folder / "my.rules.bak"
    assert "are kept in my.rules.bak" in run(*learn.split()).stderr
    assert kept.read_text() == "at most 9 segments of NP\n" and (folder / "my.rules").read_text() != kept.read_text()
    assert "kept" not in run(*learn.split()).stderr  # the same rules again
    assert kept.read_text() == "at most 9 segments of NP\n"
    assert "kept" not in run(*learn.replace("my.rules", "new.rules").split()).stderr


def test_a_copy_that_cannot_be_kept(run: Cli, folder: Path) -> None:
    (folder / "my.rules.bak").mkdir()
    result = run("learn", "train.txt", "-o", "my.rules", "--columns", "word,pos,chunk")
    assert result.exit_code == 2 and "my.rules: cannot keep this file as my.rules.bak" in result.stderr
    assert (folder / "my.rules").read_text() == "at most 9 segments of NP\n"
