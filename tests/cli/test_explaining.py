"""`bridle explain`: which sequences it finds, what it prints and writes, and what goes wrong."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import bridle
from bridle.data import Example, save_scores, write
from bridle.errors import BridleError
from commands import Cli

NAMES = ["AUTHOR", "TITLE", "DATE"]
SCORES = [
    {
        "id": "r1",
        "tokens": ["Knuth", "1984", "Literate", "programming"],
        "unary": [[2, 1, 0], [0, 2, 1], [1, 2, 0], [0, 2, 1]],
        "labels": NAMES,
    },
    {"id": "r2", "tokens": ["Hoare", "Monitors"], "unary": [[2, 1, 0], [0, None, 1]]},
    {"tokens": ["Naur", "Proof"], "unary": [[2, 1, 0], [3, 1, 1]]},
]
RULES = "fix DATE at tokens /[0-9]{4}/\nat most 1 token of AUTHOR\npresent DATE  [penalty 0.5]\n"
CLASH = "present DATE\nforbid DATE\nat most 9 tokens of TITLE\n"
TEXTS = [
    ("r1", "Knuth/AUTHOR Literate/TITLE programming/TITLE 1984/DATE"),
    ("r2", "Hoare/AUTHOR Monitors/TITLE 1974/DATE"),
    ("r3", "Naur/AUTHOR Proof/TITLE of/TITLE algorithms/TITLE 1966/DATE"),
]

ODD = "bridle: the data has labels that the model does not know: YEAR\n"


def examples() -> list[Example]:
    pairs = [(name, [word.split("/") for word in text.split()]) for name, text in TEXTS]
    return [Example({"word": [w for w, _ in words]}, [y for _, y in words], id=name) for name, words in pairs]


@pytest.fixture(scope="session")
def explain(run: Cli) -> Cli:
    """`bridle explain` on a terminal of 80 columns."""
    return replace(run, first=("explain",), env={"COLUMNS": "80"})


@pytest.fixture(scope="module")
def folder(run: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, data, scores and rules."""
    folder = tmp_path_factory.mktemp("explain")
    write(folder / "refs.jsonl", examples())
    run.ok("train", folder / "refs.jsonl", "-o", folder / "m.bridle", "--iterations", 30)
    (folder / "scores.jsonl").write_text("".join(json.dumps(line) + "\n" for line in SCORES))
    (folder / "my.rules").write_text(RULES)
    (folder / "clash.rules").write_text(CLASH)
    (folder / "empty.jsonl").write_text("")
    return folder


def scored(folder: Path, *more: object, rules: str = "my.rules") -> list[object]:
    return ["--scores", folder / "scores.jsonl", "--rules", folder / rules, *more]


def tagged(folder: Path, *more: object) -> list[object]:
    return [folder / "m.bridle", folder / "refs.jsonl", "--rules", folder / "my.rules", *more]


# ---- one sequence ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", [["--id", "r1"], ["--sequence", "0"]])
def test_one_of_a_score_file(explain: Cli, folder: Path, which: list[str]) -> None:
    text = explain.stdout(*scored(folder, *which))
    assert text.startswith("r1 (") and "scores.jsonl:1)" in text.splitlines()[0]
    assert "fix DATE at tokens" in text and "1984" in text and "next best under the rules" in text
    assert all(line == line.rstrip() and len(line) <= 80 for line in text.splitlines()) and "\x1b" not in text
    assert "r2" not in text


def test_json_says_what_the_library_says(explain: Cli, folder: Path) -> None:
    document = json.loads(explain.stdout(*scored(folder, "--id", "r1", "--json", "--k", 2)))
    decoder = bridle.Decoder(bridle.Labels(NAMES), bridle.rules.load(folder / "my.rules"))
    unary: Any = SCORES[0]["unary"]
    explanation = decoder.explain(bridle.Lattice(unary), {"tokens": SCORES[0]["tokens"]})
    assert (
        document["best"]["labels"] == explanation.best.labels
        and document["plain"]["labels"] == explanation.plain.labels
    )
    assert [b["price"] for b in document["effects"]] == pytest.approx([b.price for b in explanation.effects])
    assert document["id"] == "r1" and document["tokens"] == SCORES[0]["tokens"] and len(document["alternatives"]) == 2


def test_a_sequence_without_a_name_goes_by_its_number(explain: Cli, folder: Path) -> None:
    assert json.loads(explain.stdout(*scored(folder, "--id", 2, "--json")))["tokens"] == ["Naur", "Proof"]
    assert json.loads(explain.stdout(*scored(folder, "--sequence", 2, "--json")))["id"] == 2


def test_a_picture_and_a_page(explain: Cli, folder: Path, tmp_path: Path) -> None:
    svg, html = tmp_path / "a.svg", tmp_path / "a.html"
    printed = explain.stdout(*scored(folder, "--id", "r1", "--svg", svg, "--html", html))
    assert ElementTree.parse(svg).getroot().tag.endswith("svg") and "r1" in svg.read_text()
    assert "Rules that changed labels" in html.read_text() and printed == explain.stdout(*scored(folder, "--id", "r1"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.svg"]


def test_halves_of_characters_are_no_obstacle(explain: Cli, tmp_path: Path) -> None:
    path, html = tmp_path / "s.jsonl", tmp_path / "a.html"
    path.write_text(json.dumps({"id": "\ud800", "tokens": ["\ud800", "\x00"], "unary": [[1, 0], [0, 1]]}))
    explain.stdout("--scores", path, "--labels", "A,B", "--html", html, "--svg", tmp_path / "a.svg")
    assert html.exists() and ElementTree.parse(tmp_path / "a.svg")


def test_the_long_and_the_whole(explain: Cli, tmp_path: Path) -> None:
    (tmp_path / "r").write_text("forbid A at 50\n")
    save_scores(tmp_path / "s.jsonl", [bridle.Lattice([[1.0, 0]] * 100)], labels=["A", "B"])
    asked = ["--scores", tmp_path / "s.jsonl", "--rules", tmp_path / "r", "--svg", tmp_path / "a.svg"]
    assert "..47.." in explain.stdout(*asked) and "47 more" in (tmp_path / "a.svg").read_text()
    assert "..47.." not in explain.stdout(*asked, "--all") and "47 more" not in (tmp_path / "a.svg").read_text()


def test_rules_that_clash(explain: Cli, folder: Path, tmp_path: Path) -> None:
    result = explain(*scored(folder, "--id", "r1", "--html", tmp_path / "a.html", rules="clash.rules"))
    assert result.exit_code == 3
    assert "scores.jsonl:1: no labelling obeys the hard rules; got 2 " in result.stderr
    assert "present DATE" in result.stdout and "break hard rules the fewest times" in result.stdout
    assert "Rules that contradict each other" in (tmp_path / "a.html").read_text()
    document = json.loads(explain.stdout(*scored(folder, "--id", "r1", "--json", rules="clash.rules"), code=3))
    assert sorted(document["clash"]) == ["forbid DATE", "present DATE"] and document["best"]["relaxed"] is True


def test_scores_that_allow_nothing(explain: Cli, tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text('{"unary": [[null, null]]}')
    result = explain("--scores", tmp_path / "s.jsonl", "--labels", "A,B")
    assert result.exit_code == 3 and "has no path" in result.stderr


# ---- a model --------------------------------------------------------------------------------------------------------


def test_one_of_a_file(explain: Cli, folder: Path) -> None:
    document = json.loads(explain.stdout(*tagged(folder, "--id", "r2", "--json")))
    assert document["gold"] == document["best"]["labels"] == ["AUTHOR", "TITLE", "DATE"]
    assert "gold" in explain.stdout(*tagged(folder, "--sequence", 1))


def test_stdin_has_a_name(explain: Cli, folder: Path) -> None:
    for args in (["--scores", "-", "--labels", "A"], [folder / "m.bridle", "-"]):
        result = explain(*args, stdin="")
        assert (result.exit_code, "<stdin>: there are no sequences" in result.stderr) == (2, True), result.stderr


def test_one_without_a_name(explain: Cli, folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "bare.jsonl", [replace(example, id=None) for example in examples()])
    for which in ("--id", "--sequence"):
        document = json.loads(explain.stdout(folder / "m.bridle", tmp_path / "bare.jsonl", which, 1, "--json"))
        assert (document["id"], document["tokens"][0]) == (1, "Hoare")


def test_a_text(explain: Cli, folder: Path) -> None:
    args = [folder / "m.bridle", "--rules", folder / "my.rules", "--text", "Naur Monitors 1974", "--json"]
    document = json.loads(explain.stdout(*args))
    assert (
        document["tokens"] == ["Naur", "Monitors", "1974"]
        and document["best"]["labels"][2] == "DATE"
        and "gold" not in document
    )
    document = json.loads(explain.stdout(*args[:-2], "Naur,1974", "--json", "--option", "tokens=punctuation"))
    assert document["tokens"] == ["Naur", ",", "1974"]


def test_from_stdin_without_rules(explain: Cli, folder: Path) -> None:
    line = json.dumps({"tokens": ["Naur", "1974"]})
    assert "viterbi (there are no rules)" in explain.stdout(folder / "m.bridle", "-", stdin=line)


def test_a_text_for_a_model_that_wants_more_columns(run: Cli, explain: Cli, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("the D B-NP\nman N I-NP\n\na D B-NP\n")
    train = ["train", tmp_path / "t.txt", "-o", tmp_path / "m", "--columns", "word,pos,chunk", "--iterations", 3]
    run.ok(*train)
    result = explain(tmp_path / "m", "--text", "the man")
    assert result.exit_code == 2 and "--text: " in result.stderr and "pos" in result.stderr


# ---- a data set -----------------------------------------------------------------------------------------------------


def test_a_data_set(explain: Cli, folder: Path, tmp_path: Path) -> None:
    text = explain.stdout(*scored(folder, "--html", tmp_path / "all.html", "--scheme", "IO"))
    assert "3 sequences, 8 tokens. The rules changed 2 sequences" in text
    assert "changed" in text and "helped" not in text  # there is no gold
    assert "Explain one sequence" in (tmp_path / "all.html").read_text()
    look = next(line for line in text.splitlines() if line.startswith("explain one sequence: "))
    words = shlex.split(look.removeprefix("explain one sequence: "))
    assert words[:2] == ["bridle", "explain"] and words[-2] == "--sequence"
    assert explain.stdout(*words[2:]).startswith("2 (") and words[-4:-2] == ["--scheme", "IO"]  # the dearest


def test_a_data_set_with_gold(explain: Cli, folder: Path) -> None:
    document = json.loads(explain.stdout(*tagged(folder, "--json")))
    assert document["sequences"] == 3 and document["right"] == document["tokens"] == 12
    assert {row["rule"] for row in document["rules"]} == {str(rule) for rule in bridle.rules.load(folder / "my.rules")}
    assert "Tokens right: 100.0% without rules, 100.0% with them" in explain.stdout(*tagged(folder))


def test_a_data_set_in_which_rules_clash(explain: Cli, folder: Path) -> None:
    text = explain.stdout(*scored(folder, rules="clash.rules"), code=1)
    assert "In 3 sequences no labelling obeys the hard rules" in text and "infeasible" in text


@pytest.mark.parametrize(
    ("which", "doing"), [([], "leaving out one rule at a time"), (["--id", "r1"], "measuring the effect of each rule")]
)
def test_progress_goes_to_stderr(explain: Cli, folder: Path, which: list[str], doing: str) -> None:
    result = explain(*scored(folder, *which, "--progress"))
    assert result.exit_code == 0 and result.stderr.startswith(f"  {doing}:")
    assert result.stdout == explain.stdout(*scored(folder, *which)) and explain(*scored(folder, *which)).stderr == ""


def test_the_command_to_look_at_one_is_whole(run: Cli, explain: Cli, tmp_path: Path) -> None:
    """A file that can be read only with all of these; stdin cannot be read again."""
    (tmp_path / "t.txt").write_text("B-NP the D\nI-NP man N\n\n% no token\nB-NP a D\nB-NP dog N\n")
    (tmp_path / "r").write_text("at most 1 token of B-NP\n")
    reads = ["--format", "conll", "--columns", "chunk,word,pos", "--label", "chunk", "--option", "comment=%"]
    train = ["train", tmp_path / "t.txt", "-o", tmp_path / "m", "--iterations", 3, *reads]
    run.ok(*train)
    asked = ["--rules", tmp_path / "r", *reads, "--engine", "ilp", "--time-limit", "9.0", "--max-memory", "2GB"]
    text = explain.stdout(tmp_path / "m", tmp_path / "t.txt", *asked)
    words = shlex.split(next(line for line in text.splitlines() if line.startswith("explain one sequence: "))[22:])
    for flag, value in zip(asked[::2], asked[1::2], strict=True):
        assert words[words.index(str(flag)) + 1] == str(value)
    assert "engine  ilp" in explain.stdout(*words[2:])
    assert "explain one" not in explain.stdout(tmp_path / "m", "-", *asked, stdin=(tmp_path / "t.txt").read_text())


def test_the_engine_its_limit_and_threads_are_those_asked_for(
    explain: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for which in ([], ["--id", "r1"]):
        assert explain(*scored(folder, *which, "--engine", "viterbi")).exit_code == 2  # no mask counts tokens
        assert "time_limit" in explain(*scored(folder, *which, "--time-limit", "-1")).stderr
    asked: dict[str, Any] = {}

    def note(*_: Any, **options: Any) -> Any:
        asked.update(options)
        raise BridleError("enough")

    monkeypatch.setattr("bridle.cli.explaining.impact", note)
    explain(*scored(folder, "--threads", 3))
    assert asked["threads"] == 3


def test_sequences_that_a_limit_stopped_are_left_out(explain: Cli, folder: Path, tmp_path: Path) -> None:
    """A beam keeps eight paths; nine labels look better than the one that may end the sequence."""
    names = [f"L{k}" for k in range(10)]
    (tmp_path / "r").write_text("fix L9 at -1\n" + "".join(f"forbid {name} then L9\n" for name in names[:9]))
    lost, fine = ([[*[1.0] * 9, 0.0], [0.0] * 10], [[*[0.0] * 9, 1.0], [1.0, *[0.0] * 9]])
    save_scores(tmp_path / "s.jsonl", [bridle.Lattice(lost), bridle.Lattice(fine)], labels=names)
    asked = ["--scores", tmp_path / "s.jsonl", "--rules", tmp_path / "r", "--engine", "beam"]
    text = explain.stdout(*asked, code=1)
    assert "1 sequence, 2 tokens." in text and "Left out: 1 sequence in which a limit was reached before" in text
    assert json.loads(explain.stdout(*asked, "--json", code=1))["unanswered"] == [0]


def test_what_is_odd_about_gold_is_told(explain: Cli, folder: Path, tmp_path: Path) -> None:
    first, *others = examples()
    write(tmp_path / "some.jsonl", [replace(first, labels=None), *others])
    result = explain(folder / "m.bridle", tmp_path / "some.jsonl", "--rules", folder / "my.rules")
    assert result.exit_code == 0 and "Tokens right" not in result.stdout
    assert "some.jsonl: 1 of 3 sequences have no labels; accuracy is not computed" in result.stderr
    write(tmp_path / "odd.jsonl", [replace(first, labels=["AUTHOR", "TITLE", "TITLE", "YEAR"])])
    result = explain(folder / "m.bridle", tmp_path / "odd.jsonl", "--html", tmp_path / "a.html")
    assert "odd.jsonl: 1 sequence, 4 tokens, 3 labels\n" in result.stderr and ODD in result.stderr
    assert "YEAR (not a label of the model)" in (tmp_path / "a.html").read_text()
    assert ODD not in explain(*tagged(folder)).stderr


def test_a_data_set_without_rules(explain: Cli, folder: Path) -> None:
    text = explain.stdout(folder / "m.bridle", folder / "refs.jsonl")
    assert "Pass --rules FILE to see the effect of rules" in " ".join(text.split()) and "rule\n" not in text


def test_many_are_not_read_for_a_picture_of_one(explain: Cli, folder: Path, tmp_path: Path) -> None:
    """The third line is not a sequence, but two are enough to know."""
    lines = (folder / "scores.jsonl").read_text().splitlines()[:2]
    (tmp_path / "s.jsonl").write_text("\n".join([*lines * 3000, "broken"]))
    result = explain("--scores", tmp_path / "s.jsonl", "--svg", tmp_path / "a.svg")
    assert (result.exit_code, "--svg needs --sequence, --id or --text" in result.stderr) == (2, True)


# ---- what goes wrong ------------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[list[str], str]] = {
    "nothing": (["--rules", "my.rules"], "nothing to explain; got no MODEL and no --scores; wanted MODEL and DATA"),
    "no data": (["m.bridle", "--rules", "my.rules"], "DATA or --text is missing; got MODEL alone; wanted DATA"),
    "data and text": (["m.bridle", "refs.jsonl", "--text", "a"], "DATA and --text cannot be combined; got both"),
    "two sources": (
        ["m.bridle", "--scores", "scores.jsonl"],
        "cannot be combined with MODEL or --text; got --scores and MODEL",
    ),
    "scores of a text": (["--text", "a", "--scores", "scores.jsonl"], "got --scores and --text"),
    "two of them": (["m.bridle", "refs.jsonl", "--id", "r1", "--sequence", "0"], "got --sequence and --id"),
    "unknown id": (["m.bridle", "refs.jsonl", "--id", "r9"], "no sequence has this id; got --id r9; wanted such as r"),
    "unknown id of scores": (["--scores", "scores.jsonl", "--id", "r9"], "scores.jsonl: no sequence has this id"),
    "too far": (
        ["m.bridle", "refs.jsonl", "--sequence", "3"],
        "the sequence does not exist; got --sequence 3; wanted 0 to 2",
    ),
    "too far in scores": (["--scores", "scores.jsonl", "--sequence", "7"], "got --sequence 7; wanted 0 to 2"),
    "empty data": (["m.bridle", "empty.jsonl"], "empty.jsonl: there are no sequences; got an empty file"),
    "empty scores": (["--scores", "empty.jsonl", "--labels", "A"], "empty.jsonl: there are no sequences"),
    "empty text": (["m.bridle", "--text", " "], "the text has no tokens"),
    "other tokens": (["m.bridle", "--text", "a", "--option", "tokens=runes"], "unknown tokenizer; got 'runes'"),
    "labels of a model": (
        ["m.bridle", "refs.jsonl", "--labels", "A"],
        "--labels and --scheme have no effect with MODEL; got --labels",
    ),
    "no labels": (["--scores", "bare.jsonl"], "the score file does not name its labels"),
    "picture of many": (
        ["m.bridle", "refs.jsonl", "--svg", "x.svg"],
        "--svg needs --sequence, --id or --text; got --svg and several",
    ),
    "next best of many": (["m.bridle", "refs.jsonl", "--k", "2"], "--k needs --sequence, --id or --text"),
    "all of many": (
        ["--scores", "scores.jsonl", "--all"],
        "--all needs --sequence, --id or --text; got --all and several sequences",
    ),
    "scheme of a model": (
        ["m.bridle", "refs.jsonl", "--scheme", "IO"],
        "--labels and --scheme have no effect with MODEL; got --scheme",
    ),
    "format of scores": (
        ["--scores", "scores.jsonl", "--format", "text"],
        "have no effect with --scores; got --format; wanted --scores",
    ),
    "columns of scores": (
        ["--scores", "scores.jsonl", "--columns", "a"],
        "options for data files have no effect with --scores; got --columns",
    ),
    "page to stdout": (["m.bridle", "--text", "a", "--html", "-", "--json"], "got --html -; wanted the name of a file"),
    "picture to stdout": (["m.bridle", "--text", "a", "--svg", "-"], "--svg does not write to stdout; got --svg -"),
    "over the picture": (["m.bridle", "--text", "a", "--svg", "x.svg", "--html", "x.svg"], "x.svg: this file would be"),
    "over the labels": (["--scores", "scores.jsonl", "--labels-file", "n", "--html", "n"], "n: this file would be"),
    "labels under a picture": (["--scores", "scores.jsonl", "--labels-file", "n", "--svg", "n"], "got --svg n"),
    "misspelt label": (["m.bridle", "--text", "a", "--rules", "odd.rules"], "odd.rules:1: "),
    "over the data": (["m.bridle", "refs.jsonl", "--html", "refs.jsonl"], "refs.jsonl: this file would be overwritten"),
    "over the rules": (["m.bridle", "--text", "a", "--rules", "my.rules", "--svg", "my.rules"], "be overwritten"),
    "no such folder": (["m.bridle", "--text", "a", "--html", "no/where.html"], "cannot write"),
    "no such rules": (["m.bridle", "--text", "a", "--rules", "no.rules"], "no.rules"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_goes_wrong(explain: Cli, folder: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "bare.jsonl").write_text('{"unary": [[0, 1]]}')
    (folder / "odd.rules").write_text("present TITEL\n")
    args, message = WRONG[case]
    result = explain(*args)
    assert (result.exit_code, result.stdout) == (2, "") and message in result.stderr
    assert not isinstance(result.exception, BridleError) and not (folder / "x.svg").exists()
