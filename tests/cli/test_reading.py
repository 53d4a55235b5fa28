"""Rules on the command line: several files, files that include others, labels that are not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import Cli

SCORES = '{"id": "s", "unary": [[0, 2, 1], [0, 2, 1]], "labels": ["O", "A", "B"], "tokens": ["x", "y"]}\n'
DATA = "x B\ny A\n\nx A\ny B\nz A\n\nx A\ny B\nz A\n\nx A\ny B\nz A\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("s.jsonl").write_text(SCORES)
    Path("d.txt").write_text(DATA)
    Path("one.rules").write_text("at most 1 token of A\n")
    Path("two.rules").write_text("present O\n")
    Path("odd.rules").write_text("no duplicates of A, X\npresent TITEL\n")
    return tmp_path


def labels(run: Cli, *args: object) -> list[str]:
    document: list[str] = json.loads(run("decode", "s.jsonl", *args).stdout)["labels"]
    return document


def test_all_rules_files_count(run: Cli, here: Path) -> None:
    assert labels(run) == ["A", "A"]
    assert labels(run, "--rules", "one.rules") != ["A", "A"]
    assert "O" in labels(run, "--rules", "one.rules", "--rules", "two.rules")
    assert "O" in labels(run, "--rules", "two.rules", "--rules", "one.rules")
    Path("both.rules").write_text("include one.rules\ninclude two.rules\n")
    assert "O" in labels(run, "--rules", "both.rules")
    again = run("decode", "s.jsonl", "--rules", "both.rules", "--rules", "one.rules")
    assert again.exit_code == 0 and again.stderr == (
        "bridle: one.rules: this file is already included by both.rules:1; it is read once\n"
    )


def test_mistakes_name_the_file_that_they_are_in(run: Cli, here: Path) -> None:
    Path("bad.rules").write_text("no duplicate of A\n")
    completed = run("decode", "s.jsonl", "--rules", "one.rules", "--rules", "bad.rules")
    assert completed.exit_code == 2 and completed.stderr.startswith(
        "bridle: bad.rules:1: not a rule: 'no duplicate of A'"
    )
    assert "Did you mean: no duplicates of A" in completed.stderr


def test_files_are_checked_and_shown_together(run: Cli, here: Path) -> None:
    Path("two.rules").write_text("# nothing\nat most 1 token of A\n")
    completed = run("rules", "check", "one.rules", "two.rules", "--labels", "O,A,B")
    assert completed.exit_code == 1
    assert completed.stdout == "two.rules:2: warning duplicate the same rule as line 1 of one.rules\n"
    shown = run("rules", "show", "one.rules", "two.rules", "--json").stdout.splitlines()
    assert [(item["file"], item["line"]) for item in map(json.loads, shown)] == [("one.rules", 1), ("two.rules", 2)]
    document = json.loads(run("rules", "check", "one.rules", "two.rules", "--json").stdout.splitlines()[0])
    assert (document["file"], document["line"], document["code"]) == ("two.rules", 2, "duplicate")


def test_unknown_labels_are_an_error_or_left_out(run: Cli, here: Path) -> None:
    args = ("decode", "s.jsonl", "--rules", "one.rules", "--rules", "odd.rules")
    completed = run(*args)
    fewer = "bridle: odd.rules:1: unknown label 'X'; known: O, A, B; the rule is read as: no duplicates of A\n"
    assert completed.exit_code == 2 and completed.stderr == fewer + (
        "bridle: odd.rules:2: unknown label 'TITEL'; known: O, A, B.\n"
        "Are these rules for other data, or other labels? --lenient leaves them out.\n"
    )
    lenient = run(*args, "--lenient")
    assert lenient.exit_code == 1 and lenient.stderr == fewer + (
        "bridle: odd.rules:2: unknown label 'TITEL'; known: O, A, B; the rule is left out: present TITEL\n"
    )
    assert json.loads(lenient.stdout)["labels"] == labels(run, "--rules", "one.rules")
    assert run("decode", "s.jsonl", "--rules", "one.rules", "--lenient").exit_code == 0
    assert run("rules", "check", "odd.rules", "--labels", "O,A,B").exit_code == 2
    assert run("rules", "check", "odd.rules", "--labels", "O,A,B", "--lenient").exit_code == 1


def test_a_rule_that_forbids_applies_to_the_labels_that_there_are(run: Cli, here: Path) -> None:
    Path("some.rules").write_text("no duplicates of A, X\n")
    completed = run("decode", "s.jsonl", "--rules", "some.rules")
    assert completed.exit_code == 0 and "the rule is read as: no duplicates of A" in completed.stderr
    Path("same.rules").write_text("no duplicates of A\n")
    assert completed.stdout == run("decode", "s.jsonl", "--rules", "same.rules").stdout
    checked = run("rules", "check", "some.rules", "--labels", "O,A,B")
    assert checked.exit_code == 1 and ":1: warning unknown-label unknown label 'X'" in checked.stdout
    Path("none.rules").write_text("forbid X\n")
    assert "unknown label 'X'" in run.ok("decode", "s.jsonl", "--rules", "none.rules", code=2).stderr


def test_every_command_with_rules_takes_several_and_is_lenient(run: Cli, here: Path) -> None:
    train = ("train", "d.txt", "-o", "m.bridle", "--columns", "word,label", "--learner", "ibt", "--iterations", "2")
    rules = ("--rules", "one.rules", "--rules", "odd.rules")
    assert run(*train, *rules).exit_code == 2 and run(*train, *rules, "--lenient").exit_code == 1
    settings = json.loads(Path("m.bridle.json").read_text())["settings"]
    assert settings["rules"] == ["one.rules", "odd.rules"] and settings["lenient"] is True
    assert run("train", "--config", "m.bridle.json", "-o", "n.bridle").exit_code == 1
    assert Path("n.bridle").read_bytes() == Path("m.bridle").read_bytes()
    for command in (
        ("tag", "m.bridle", "d.txt", *rules),
        ("eval", "d.txt", "--model", "m.bridle", *rules),
        ("explain", "m.bridle", "d.txt", *rules),
        ("rules", "test", "one.rules", "d.txt", "--model", "m.bridle", "--rules", "odd.rules"),
    ):
        strict, lenient = run(*command), run(*command, "--lenient")
        assert strict.exit_code == 2 and "odd.rules:1: unknown label 'X'" in strict.stderr, command
        assert lenient.exit_code == 1 and "odd.rules:2: unknown label 'TITEL'" in lenient.stderr, command


def test_old_configurations_name_one_file(run: Cli, here: Path) -> None:
    train = ("train", "d.txt", "-o", "m.bridle", "--columns", "word,label", "--learner", "ibt", "--iterations", "2")
    assert run(*train, "--rules", "one.rules").exit_code == 0
    record = json.loads(Path("m.bridle.json").read_text())
    record["settings"]["rules"] = "one.rules"
    Path("old.json").write_text(json.dumps(record))
    assert run("train", "--config", "old.json", "-o", "n.bridle").exit_code == 0
    assert Path("n.bridle").read_bytes() == Path("m.bridle").read_bytes()


def test_the_order_that_was_perhaps_meant(run: Cli, here: Path) -> None:
    Path("order.rules").write_text("A before B\nA before B  [penalty 2]\n")
    completed = run("rules", "test", "order.rules", "d.txt", "--columns", "word,label")
    assert (
        "`A before B` holds in 0.0% of gold; did you mean `first A before first B`, which holds in 75.0%?"
        in completed.stdout
    )
    assert completed.stdout.count("did you mean") == 2
    document = json.loads(run("rules", "test", "order.rules", "d.txt", "--columns", "word,label", "--json").stdout)
    assert [hint["instead"] for hint in document["hints"]] == [
        "first A before first B",
        "first A before first B  [penalty 2.0]",
    ]
    assert document["hints"][0]["gold_instead"] == 0.75


def test_tuned_rules_of_several_files_are_one_file(run: Cli, here: Path) -> None:
    Path("top.rules").write_text("# top\ninclude one.rules\ninclude one.rules\nA before B\n")
    train = (
        "train",
        "d.txt",
        "-o",
        "m.bridle",
        "--columns",
        "word,label",
        "--c1",
        "0",
        "--c2",
        "1",
        "--iterations",
        "5",
    )
    assert run(*train).exit_code == 0
    tune = ("rules", "tune", "top.rules", "odd.rules", "--model", "m.bridle", "--data", "d.txt", "--lenient")
    refused = run(*tune, "-o", "one.rules")
    assert refused.exit_code == 2 and "this file would be overwritten" in refused.stderr
    assert run(*tune, "-o", "out.rules").exit_code in (0, 1)
    built = Path("out.rules").read_text().splitlines()
    kept = [line.removeprefix("# off: ") for line in built if not line.startswith(("# Tuned", "# priced"))]
    assert kept[:2] == ["# ---- top.rules", "# top"] and kept[2] == "# ---- include one.rules"
    assert "at most 1 token of A" in kept[3] and kept[4:6] == [
        "# ---- end of one.rules",
        "# include one.rules: it is above",
    ]
    assert "A before B" in kept[6] and kept[7] == "# ---- odd.rules"
    assert "no duplicates of A" in kept[8] and kept[9:] == ["# left out: present TITEL"]
    assert run("rules", "check", "out.rules").exit_code == 0
