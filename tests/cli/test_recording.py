"""The configuration of a training: written beside the model, read to repeat the run."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bridle
from bridle.models import CRF, record
from commands import Cli

TRAIN = "\n".join(["the D B-NP\nold J I-NP\nman N I-NP\nsleeps V B-VP\n", "a D B-NP\ndog N I-NP\nruns V B-VP\n"] * 3)
Training = Callable[..., dict[str, Any]]
DEV = "the D B-NP\ndog N I-NP\nsleeps V O\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with data."""
    monkeypatch.chdir(tmp_path)
    Path("train.txt").write_text(TRAIN)
    Path("dev.txt").write_text(DEV)
    return tmp_path


@pytest.fixture
def trained(run: Cli) -> Training:
    """Trains m.bridle; what its configuration says."""

    def train(*more: object) -> dict[str, Any]:
        run.ok("train", "train.txt", "-o", "m.bridle", "--columns", "word,pos,chunk", "--iterations", 4, *more)
        document: dict[str, Any] = json.loads(Path("m.bridle.json").read_text())
        return document

    return train


def test_all_that_matters_is_written(trained: Training, here: Path) -> None:
    output = trained("--dev", "dev.txt", "--on-unknown", "wrong", "--seed", 7)
    settings = output["settings"]
    assert settings["data"] == ["train.txt"] and settings["columns"] == "word,pos,chunk" and settings["seed"] == 7
    assert settings["learner"] == "crf" and settings["c2"] is None and settings["on_unknown"] == "wrong"
    assert output["model"]["c2"] == 0.1 and "word[0]" in output["model"]["features"]  # defaults, as they turned out
    assert output["data"] == {
        "files": [{"file": "train.txt", "bytes": len(TRAIN)}],
        "sequences": 6,
        "tokens": 21,
        "labels": {"B-NP": 6, "B-VP": 6, "I-NP": 9},
    }
    assert output["dev"]["tokens"] == 3 and output["scores"]["accuracy"] == pytest.approx(2 / 3)
    assert output["scores"]["segments"]["recall"] == 1.0
    model = bridle.load("m.bridle")
    training = output["training"]
    assert training["iterations"] == 4 == len(training["losses"]) and training["loss"] == model.progress_.losses[-1]
    assert output["versions"]["bridle"] == bridle.__version__ and output["time"].endswith("+00:00")
    assert sorted(path.name for path in here.iterdir()) == ["dev.txt", "m.bridle", "m.bridle.json", "train.txt"]


def test_every_option_is_in_it(run: Cli, trained: Training, here: Path) -> None:
    wanted = set(re.findall(r"--[a-z0-9-]+", run("train", "--help").stdout))
    output = {"--" + name.replace("_", "-") for name in trained()["settings"]}
    without = {
        "--settings",
        "--config",
        "--write-settings",
        "--resume",
        "--progress",
        "--no-progress",
        "--json",
        "--help",
    }
    assert wanted - output == without | {"--help"}


def test_a_run_is_repeated(run: Cli, trained: Training, here: Path) -> None:
    trained("--dev", "dev.txt", "--on-unknown", "wrong", "--c2", 0.5, "--option", "encoding=utf-8")
    before = Path("m.bridle").read_bytes()
    result = run("train", "--config", "m.bridle.json", "-o", "again.bridle")
    assert result.exit_code == 0 and Path("again.bridle").read_bytes() == before
    first, second = (json.loads(Path(name).read_text()) for name in ("m.bridle.json", "again.bridle.json"))
    assert first["settings"].pop("out") != second["settings"].pop("out")
    for item in (first, second):
        del item["time"], item["training"]["seconds"]
    assert first == second
    assert run("train", "--config", "m.bridle.json").exit_code == 0  # in its place
    assert Path("m.bridle").read_bytes() == before


def test_the_command_line_wins(run: Cli, trained: Training, here: Path) -> None:
    trained("--c2", 0.5, "--learner", "crf", "--scheme", "bio")
    Path("less.txt").write_text(DEV.replace(" O\n", " B-VP\n"))
    result = run("train", "less.txt", "--config", "m.bridle.json", "--c2", 3, "--iterations", 2, "-o", "n.bridle")
    assert result.exit_code == 0, result.output
    document = json.loads(Path("n.bridle.json").read_text())
    assert document["settings"]["data"] == ["less.txt"] and document["data"]["sequences"] == 1
    assert document["settings"]["scheme"] == "BIO" and document["settings"]["columns"] == "word,pos,chunk"
    model = bridle.load("n.bridle")
    assert isinstance(model, CRF) and model.c2 == 3.0 and model.progress_.iteration == 2


def test_json_is_the_configuration(run: Cli, here: Path) -> None:
    result = run("train", "train.txt", "-o", "m", "--iterations", 2, "--json")
    assert json.loads(result.stdout) == json.loads(Path("m.json").read_text())


def test_data_that_has_changed_is_told(run: Cli, trained: Training, here: Path) -> None:
    trained()
    assert "has changed" not in run("train", "--config", "m.bridle.json").stderr
    Path("train.txt").write_text(TRAIN + "\nhe N B-NP\n")
    result = run("train", "--config", "m.bridle.json")
    assert result.exit_code == 0
    assert f"train.txt has changed: {len(TRAIN)} bytes then, {len(TRAIN) + 11} now" in result.stderr


def test_what_people_edit_does_no_harm(run: Cli, trained: Training, here: Path) -> None:
    output = trained()
    for odd in (None, 3, [None], [{"file": "train.txt"}]):
        output["data"]["files"], output["dev"] = odd, odd
        Path("c.json").write_text(json.dumps(output))
        assert run("train", "--config", "c.json", "-o", "n").exit_code == 0


def test_ctrl_c_is_written_too(run: Cli, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = CRF.fit

    def stopped(self: CRF, *args: Any, **named: Any) -> CRF:
        fit(self, *args, **named)
        self.progress_.why = None
        raise KeyboardInterrupt

    monkeypatch.setattr(CRF, "fit", stopped)
    assert run("train", "train.txt", "-o", "m", "--iterations", 2).exit_code == 130
    assert json.loads(Path("m.json").read_text())["training"]["ended"] == "interrupted"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "c.json: cannot read this file"),
        ("{", "c.json: not JSON"),
        ("[]", "not a training configuration"),
        ('{"command": "bridle bake", "settings": {}}', "got 'bridle bake'"),
        ('{"command": "bridle train", "settings": {"colour": 1}}', "unknown setting; got 'colour'"),
        ('{"command": "bridle train", "settings": {"pairs": "some"}}', "bad setting pairs; got 'some'; wanted 'seen'"),
        ('{"command": "bridle train", "settings": {"cutoff": 0}}', "bad setting cutoff; got 0; wanted a number >= 1"),
        ('{"command": "bridle train", "settings": {"threads": "many"}}', "'--threads'"),
        ('{"command": "bridle train", "settings": {"seed": 3}}', "DATA is missing"),
        ('{"command": "bridle train", "settings": {"data": "train.txt"}}', '"data" must be a list of files'),
    ],
)
def test_a_bad_configuration(run: Cli, here: Path, text: str | None, message: str) -> None:
    if text is not None:
        Path("c.json").write_text(text)
    result = run("train", "--config", "c.json", "-o", "m")
    assert result.exit_code == 2 and message in result.stderr and "Traceback" not in result.stderr
    assert not Path("m").exists()


# ---- settings in TOML -----------------------------------------------------------------------------------------------


def test_settings_in_force_are_written_and_read_again(run: Cli, trained: Training, here: Path) -> None:
    trained("--c2", 0.5, "--option", "encoding=utf-8", "--write-settings", "s.toml")
    text = Path("s.toml").read_text()
    assert 'columns = "word,pos,chunk"\n' in text and 'data = ["train.txt"]\n' in text and "cutoff = 1\n" in text
    assert "dev" not in tomllib.loads(text)  # there was none
    Path("s.toml").write_text(text.replace("cutoff = 1", "cutoff = 2"))
    run.ok("train", "--settings", "s.toml", "-o", "again.bridle", "--iterations", 2)
    model, record = bridle.load("again.bridle"), json.loads(Path("again.bridle.json").read_text())
    assert isinstance(model, CRF) and model.c2 == 0.5 and model.progress_.iteration == 2
    assert record["settings"]["cutoff"] == 2 and record["model"]["cutoff"] == 2
    assert record["settings"]["option"] == ["encoding=utf-8"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("c2 = ", "s.toml: not TOML"),
        (
            "iteratons = 3",
            "unknown setting; got 'iteratons'; wanted names of options",
        ),
        ("iteratons = 3", "Did you mean 'iterations'?"),
        ("tuning-second = 3", "Did you mean 'tuning_seconds'?"),
        ("progress = true", "unknown setting; got 'progress'"),
        ("margin = true", "bad setting margin; got True; wanted a number"),
        ("folds = 1", "bad setting folds; got 1; wanted a number >= 2"),
        ("c2_transitions = -1", "bad setting c2_transitions; got -1; wanted a number >= 0"),
        ("data = 'train.txt'", '"data" must be a list of files'),
        ("learner = 'crff'", "'crff' is not one of"),
    ],
)
def test_bad_settings_in_toml(run: Cli, here: Path, text: str, message: str) -> None:
    Path("s.toml").write_text(text)
    result = run("train", "train.txt", "--settings", "s.toml", "-o", "m")
    assert result.exit_code == 2 and message in result.stderr and not Path("m").exists()


def test_nothing_of_the_user_is_overwritten(run: Cli, here: Path) -> None:
    Path("m.json").write_text('{"mine": 1}')
    result = run("train", "train.txt", "-o", "m")
    assert result.exit_code == 2 and "m.json: this file exists and would be overwritten" in result.stderr
    assert Path("m.json").read_text() == '{"mine": 1}' and not Path("m").exists()


@pytest.mark.parametrize(
    "line",
    [
        "train train.txt -o train.txt",
        "train train.txt -o dev.txt --dev dev.txt",
        "learn train.txt -o ./train.txt",
        "tag m.bridle train.txt -o m.bridle",
    ],
)
def test_what_is_read_is_not_written_over(run: Cli, trained: Training, here: Path, line: str) -> None:
    trained()
    before = {path.name: path.read_bytes() for path in here.iterdir()}
    result = run(*line.split())
    assert result.exit_code == 2 and "would be overwritten" in result.stderr
    assert {path.name: path.read_bytes() for path in here.iterdir()} == before


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.integers(0, 3))
def test_what_is_written_is_json_and_utf8(value: Any, depth: int) -> None:
    text = record._indented(value, depth)
    assert json.loads(text.encode()) == value
