"""The command line as one whole: help, words, JSON, completion, messages."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from bridle import cli
from bridle.cli import base, reading
from bridle.errors import Argument
from commands import Cli
from experiments.tables import Report

COLUMNS = ["--columns", "word,pos,chunk"]
TRAIN = (
    "the D B-NP\nold J I-NP\nman N I-NP\nsleeps V B-VP\n\na D B-NP\ndog N I-NP\nruns V B-VP\n\nhe N B-NP\nruns V B-VP\n"
)


@pytest.fixture(scope="module")
def folder(run: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training file, a model, rules and scores."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "train.txt").write_text("\n".join([TRAIN] * 4))
    (folder / "my.rules").write_text("at most 1 segment of NP  # so\nif VP then NP\n")
    (folder / "scores.jsonl").write_text('{"unary": [[0, 1]], "labels": ["O", "A"]}\n' * 3)
    assert run("train", folder / "train.txt", "-o", folder / "m.bridle", *COLUMNS, "--iterations", 5).exit_code == 0
    (folder / "two.txt").write_text("the D\ndog N\n")
    two = ["--columns", "word,label", "--features", "word[0]", "--iterations", 1]
    assert run("train", folder / "two.txt", "-o", folder / "two.bridle", *two).exit_code == 0
    return folder


def commands() -> Iterator[tuple[str, Any]]:
    """All commands with their names, groups too."""

    def automaton(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        yield name, command
        for part in getattr(command, "commands", ()):
            yield from automaton(f"{name} {part}".strip(), command.get_command(None, part))

    yield from automaton("", typer.main.get_command(cli.app))


COMMANDS = dict(commands())


# ---- help -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS, ids=lambda name: name or "bridle")
def test_help_has_examples_and_exit_codes(run: Cli, name: str) -> None:
    result = run(*name.split(), "-h" if name == "tag" else "--help")
    assert result.exit_code == 0 and "Examples:" in result.stdout and "Exit codes:" in result.stdout
    assert f"  bridle {name}" in result.stdout  # an example of this very command
    inside = result.stdout[result.stdout.index("Exit codes:") :]
    assert name == "rules" or ("  0    " in inside and "  2    " in inside)


def test_commands_stand_in_the_order_of_work(run: Cli) -> None:
    text = run("--help").stdout
    places = [text.index(f"\n  {name} ") for name in base.COMMANDS]
    assert places == sorted(places) and set(base.COMMANDS) == {name for name in COMMANDS if name and " " not in name}


def test_the_list_of_commands_says_what_their_help_says() -> None:
    output = {name: (COMMANDS[name].help or "").split("\n\n")[0].replace("\n", " ") for name in base.COMMANDS}
    assert output == {name: what for name, (_, what) in base.COMMANDS.items()}


OTHERWISE = {("info", "label"), ("train", "labels")}  # a label of a model, and labels that data may lack


def test_one_option_has_one_name_and_the_same_words() -> None:
    said: dict[str, set[tuple[Any, ...]]] = {}
    for command in COMMANDS.values():
        for option in command.params:
            known = option.param_type_name == "option" and option.name != "help"
            if known and (command.name, option.name) not in OTHERWISE:
                said.setdefault(option.opts[-1], set()).add((tuple(option.opts), option.metavar, option.help))
    shared = ("--format", "--columns", "--label", "--option", "--threads", "--seed", "--engine", "--time-limit")
    for name in (*shared, "--max-memory", "--labels", "--labels-file", "--on-infeasible"):
        assert len(said[name]) == 1, said[name]
    assert {opts for opts, *_ in said["--out"]} == {("-o", "--out")}
    # people type --json everywhere, but where the output is for machines already, or a group of commands, or a server
    without = {name for name, command in COMMANDS.items() if "--json" not in str([p.opts for p in command.params])}
    assert without == {"", "rules", "decode", "serve", "explore"}


# ---- JSON -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        ("train train.txt -o x.bridle --iterations 3 --json", {"command", "settings", "data", "training"}),
        ("tag m.bridle train.txt --json", {"id", "tokens", "labels", "optimal"}),
        ("eval train.txt --model m.bridle --json", {"accuracy", "segments", "by_label"}),
        ("learn train.txt -o x.rules --min-support 2 --json", {"file", "rules", "dropped"}),
        ("rules check my.rules --labels O,B-NP --json", {"file", "line", "level", "code", "message"}),
        ("rules show my.rules --json", {"file", "line", "rule", "comment"}),
        ("rules test my.rules train.txt --json", {"sequences", "rules"}),
        ("rules test my.rules train.txt --model m.bridle --json", {"sequences", "rules", "all", "none"}),
        ("decode scores.jsonl", {"id", "labels", "optimal"}),
    ],
)
def test_json_is_all_that_stands_on_stdout(
    run: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str, keys: set[str]
) -> None:
    monkeypatch.chdir(folder)
    result = run(*line.split(), *([] if line.startswith(("rules show", "rules check", "decode")) else ["--progress"]))
    assert result.exit_code in (0, 1, 2) and result.stdout
    for item in result.stdout.splitlines():
        assert keys <= json.loads(item).keys()


def test_reproduce_prints_json(run: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Toy:
        def run(self, how: Any) -> Any:
            how.say("working")
            return Report("toy", "A toy")

    monkeypatch.setattr("experiments.recipe_named", lambda name: Toy())
    result = run("reproduce", "toy", "--data", tmp_path, "--json")
    assert json.loads(result.stdout)["settings"] == {"seed": 0, "size": "full"} and "working" in result.stderr
    result = run("reproduce", "toy", "--data", tmp_path, "--no-progress")
    assert result.stdout.startswith("# A toy") and result.stderr == ""


def test_reproduce_says_what_is_missing(run: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    monkeypatch.delenv("BRIDLE_DATA", raising=False)
    for name, part in (("srl", "BRIDLE_DATA"), ("slr", "Did you mean 'srl'?")):
        result = run("reproduce", name)
        assert result.exit_code == 2 and part in result.stderr, result.stderr


def test_reproduce_without_a_clone_says_what_to_do(run: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bridle.__file__", str(tmp_path / "site-packages" / "bridle" / "__init__.py"))
    result = run("reproduce", "srl", "--data", tmp_path)
    assert result.exit_code == 2 and "the experiments were not found; got bridle in" in result.stderr
    assert "wanted a clone of the repository" in result.stderr and "clone the repository and run" in result.stderr


# ---- completion -----------------------------------------------------------------------------------------------------


@pytest.fixture
def completed(run: Cli) -> Callable[..., set[str]]:
    """Return a function that lists what a shell offers after some words."""

    def complete(*words: str) -> set[str]:
        env = {"_BRIDLE_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        return set(run(env=env).stdout.split())

    return complete


def test_a_shell_completes_commands_options_and_values(completed: Callable[..., set[str]]) -> None:
    assert completed("bridle", "t") == {"train", "tag"}
    assert completed("bridle", "rules", "") >= {"check", "show", "test"}
    assert completed("bridle", "tag", "--on-") == {"--on-infeasible", "--on-error", "--on-option"}
    assert completed("bridle", "train", "--format", "se") == {"segmented", "segments"}
    assert completed("bridle", "decode", "--engine", "v") == {"viterbi"}
    assert completed("bridle", "train", "--scheme", "BI") == {"BIO", "BIOES"}
    assert completed("bridle", "reproduce", "s") == {"srl", "segmentation"}


def test_the_script_for_a_shell_is_printed(run: Cli) -> None:
    result = run(env={"_BRIDLE_COMPLETE": "source_bash"})
    assert result.exit_code == 0 and "_BRIDLE_COMPLETE=complete_bash" in result.stdout
    completed = run("--help").stdout
    assert "--install-completion" in completed and "--show-completion" in completed


# ---- messages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("trian", "no such command 'trian'. Did you mean 'train'?\n"),
        ("tag m.bridle --threads many", "'many'"),
        ("tag m.bridle --threads=-3", "-3"),
        ("train x --colums a", "--columns"),
        ("tag", "missing argument 'MODEL'."),
        ("train train.txt -o m --scheme XY", "'XY' is not one of 'auto'"),
        ("train", "wanted DATA, or --settings FILE"),
        ("train train.txt", "wanted -o MODEL"),
        ("eval -", "<stdin>: there are no sequences"),
        ("train - -o x", "<stdin>: there are no sequences"),
        ("tag m.bridle train.txt --format conl", "wanted 'conll'.\n"),
        ("eval bin", "wanted --format NAME, one of"),
        ("tag m.bridle bin", "Pass --option encoding=latin-1,"),
        ("tag m.bridle wide", "Pass --option encoding=utf-16."),
        ("eval none", "No such file"),
        ("tag m.bridle --json --to conll", "wanted --to jsonl"),
        ("demo --model x", "no such option: --model.\n"),
        ("eval ragged", "As conll: line 4 has 1 column, line 1 has 2."),
        ("tag two.bridle prose", "wanted 2: word, label"),
        ("tag two.bridle prose", "Is it plain text? Pass --format text."),
        ("rules check my.rules --model m.bridle --scheme BIO", "wanted --model alone"),
        ("rules check my.rules --model m.bridle --labels O", "wanted --model alone"),
        ("decode scores.jsonl --scheme BIO", "Pass --scheme none for labels without a scheme"),
        ("eval train.txt --scheme BMES", "--scheme none"),
        ("decode scores.jsonl --rules given.rules", 'wanted "tokens": [...] in the JSON line'),
        ("decode scores.jsonl --rules verb.rules", 'wanted "given": {"verb": ...} in the JSON line'),
        ("decode scores.jsonl --rules wide", "wide:1: not UTF-8"),
        ("decode - --rules wide", "wide:1: not"),
        ("train none -o new --learner ibt --rules wide", "wide:1: not"),
        ("rules check wide", "wide:1: not UTF-8"),
    ],
)
def test_a_mistake_is_told_once_with_what_to_do(
    run: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str, message: str
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.delenv("BRIDLE_DATA", raising=False)
    Path("bin").write_bytes(b"\xff\xd0\xfe")
    Path("ragged").write_text("a B\n\nc D\ne\n")
    Path("prose").write_text("the dog sleeps .\n")
    Path("given.rules").write_text("forbid A at tokens /x/\n")
    Path("verb.rules").write_text("forbid A at given verb\n")
    Path("wide").write_bytes("the D B-NP\n".encode("utf-16"))
    result = run(*line.split())
    assert result.exit_code == 2 and message in result.stderr and result.stdout == ""
    assert result.stderr.startswith("bridle") and "Traceback" not in result.stderr
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize(
    "line",
    [
        "tag m.bridle train.txt --rules bad",
        "eval train.txt --model m.bridle --rules bad",
        "rules test bad train.txt",
        "decode scores.jsonl --labels O,NP --rules bad",
        "train train.txt -o new --learner ibt --rules bad",
    ],
)
def test_a_label_that_is_misspelt_in_rules_is_told_with_its_line(
    run: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(folder)
    (folder / "two.jsonl").write_text('{"unary": [[0, 1]]}\n')
    Path("bad").write_text("# mine\nat most 1 segment of NPP\nforbid XYZ\n")
    result = run(*line.replace("scores.jsonl", "two.jsonl").split())
    assert result.exit_code == 2 and result.stdout == ""
    assert "bridle: bad:2: unknown label 'NPP'; did you mean 'NP'?\nbad:3: unknown label " in result.stderr


def test_rules_are_checked_with_the_labels_of_a_model(run: Cli, folder: Path) -> None:
    (folder / "long.rules").write_text("NP next to VP\n")
    result = run("rules", "check", folder / "long.rules", "--model", folder / "m.bridle")
    assert result.exit_code == 1 and "allows NP only segments of one token" in result.stdout  # B- and I- are known


def test_eval_tells_labels_that_the_model_cannot_find(run: Cli, folder: Path) -> None:
    (folder / "more.txt").write_text(TRAIN + "\nto P B-PP\n")
    result = run("eval", folder / "more.txt", "--model", folder / "m.bridle")
    assert result.exit_code == 0 and "the data has labels that the model does not know: B-PP\n" in result.stderr
    result = run("eval", folder / "train.txt", "--model", folder / "m.bridle")
    assert result.stderr.endswith("train.txt: 12 sequences, 36 tokens, 3 labels\n") and "not know" not in result.stderr


def test_gold_alone_is_not_compared_in_silence(run: Cli, folder: Path) -> None:
    result = run("eval", folder / "train.txt")
    assert result.exit_code == 2 and "the gold labels have other names than the predicted ones" in result.stderr
    assert "Do the columns hold labels" in result.stderr
    assert run.ok("eval", folder / "train.txt", folder / "train.txt").stderr.count("\n") == 1


def test_a_terminal_is_told_that_it_is_waited_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "on_terminal", lambda stream: False)
    reading.announce_keyboard()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(reading, "on_terminal", lambda stream: stream is sys.stdin)
    reading.announce_keyboard()
    assert "Ctrl-D" in capsys.readouterr().err


# ---- advice ---------------------------------------------------------------------------------------------------------


def advised() -> set[str]:
    """The arguments that errors of the library may advise: all that the source names."""
    calls = re.compile(r"""\bArgument\(\s*["'](\w+)["']""")
    source = Path(base.__file__).parents[1]
    folders = [path for path in source.rglob("*.py") if "integrations" not in path.parts]
    return {name for path in folders for name in calls.findall(path.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("name", COMMANDS, ids=lambda name: name or "bridle")
def test_advice_names_only_options_that_the_command_has(name: str) -> None:
    group = COMMANDS[""]
    known = group.options_of(name.split())
    assert known == {item for option in COMMANDS[name].params for item in option.opts}
    names = advised()
    assert {"format", "on_unknown", "on_infeasible", "scheme", "tokens", "labels", "columns"} <= names
    for argument in sorted(names):
        output = base.option_text(Argument(argument, {"x": 1} if argument == "given" else "x"), known)
        assert output is None or {word for word in output.split() if word.startswith("--")} <= known, argument


def test_a_label_that_the_model_has_not_seen(run: Cli, folder: Path, tmp_path: Path) -> None:
    """An error that says what to do; a sequence that is left out; in an evaluation, an error of the model."""
    (tmp_path / "more.txt").write_text(TRAIN + "\nto P B-PP\n")
    train = ["train", folder / "train.txt", "-o", tmp_path / "m", *COLUMNS, "--dev", tmp_path / "more.txt"]
    result = run(*train, "--iterations", 1)
    assert result.exit_code == 2 and "pass --on-unknown wrong to count it" in result.output
    learn = ["learn", folder / "train.txt", "-o", tmp_path / "x.rules", "--penalty", "joint", "--min-support", 2]
    result = run(*learn, "--model", folder / "m.bridle", "--tune", tmp_path / "more.txt", "--iterations", 1)
    assert result.exit_code == 2 and "unknown label; got 'B-PP'" in result.output
    assert "more.txt:" in result.output and "pass --on-unknown skip to leave out" in result.output
    skip, message = ["--on-unknown", "skip"], "left out 1 sequence with labels that the model does not know: B-PP\n"
    for command in (
        [*train, "--c1", 0, "--c2", 1],
        [*learn, "--model", folder / "m.bridle", "--tune", tmp_path / "more.txt"],
    ):
        assert message in run(*command, "--iterations", 1, *skip).stderr
    tune = ["rules", "tune", folder / "my.rules", "--model", folder / "m.bridle", "--data", tmp_path / "more.txt"]
    assert "pass --on-unknown skip to leave out" in run.ok(*tune, code=2).stderr
    assert message in run(*tune, *skip).stderr
    ways = ["eval", tmp_path / "more.txt", "--model", folder / "m.bridle"]
    assert message in (skipped := run.ok(*ways, "--json", *skip)).stderr
    assert "more.txt:" in run.ok(*ways, "--on-unknown", "raise", code=2).stderr
    assert json.loads(skipped.stdout)["sequences"] == 3 < json.loads(run.stdout(*ways, "--json"))["sequences"]
    ways = ["rules", "test", folder / "my.rules", tmp_path / "more.txt", "--model", folder / "m.bridle", "--json"]
    assert json.loads(run.stdout(*ways, *skip))["sequences"] == 3 < json.loads(run.stdout(*ways))["sequences"]
    ways = ["compare", tmp_path / "more.txt", "--model", folder / "m.bridle", folder / "my.rules"]
    assert json.loads(run.stdout(*ways, "--json", *skip))["sequences"] == 3
    for command in (["eval", folder / "train.txt"], ["compare", folder / "train.txt", "a", "b"]):
        assert "is about the labels of" in run.ok(*command, *skip, code=2).stderr
