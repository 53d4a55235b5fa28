"""`bridle info MODEL`: what a model file holds, and what its configuration tells of the training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import bridle
from bridle.features import SETS
from bridle.learn import DeterministicRules
from commands import Cli
from crfsuite_writer import SMALL

TEXT = "Ada B-PER\nmet O\nBob B-PER\nin O\nthe O\nold O\ntown O\n\nBob B-PER\nI. I-PER\nslept O\nin O\nRome B-LOC\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    (folder / "train.txt").write_text(TEXT)
    data, out = folder / "train.txt", folder / "m.bridle"
    Cli().ok("train", data, "-o", out, "--dev", data, "--c2", "0.1", "--threads", "1")
    return out


def about(run: Cli, *asked: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run.stdout("info", *asked, "--json"))
    return document


def test_all_of_a_model(run: Cli, model: Path) -> None:
    result, loaded = about(run, model), bridle.load(model)
    assert (result["kind"], result["version"], result["bytes"]) == ("CRF", bridle.__version__, model.stat().st_size)
    assert result["labels"] == {"B-LOC": 1, "B-PER": 3, "I-PER": 1, "O": 7} and result["scheme"] == "BIO"
    assert result["features"]["set"] == "ner" and "BIO segments" in result["features"]["why"]
    assert result["features"]["templates"] == SETS["ner"].splitlines()
    assert result["features"]["attributes"] == len(loaded.features_)
    assert result["weights"]["count"] == loaded.n_weights_ >= result["weights"]["nonzero"]
    assert (result["settings"]["c1"], result["settings"]["c2"], result["settings"]["seed"]) == (0.0, 0.1, 0)
    assert result["training"] == {"iterations": loaded.progress_.iteration, "ended": loaded.progress_.why}
    assert (result["data"]["sequences"], result["data"]["tokens"], result["dev"]["tokens"]) == (2, 12, 12)
    assert result["scores"]["accuracy"] > 0.5 and result["rules"] == []
    assert list(result["top_features"]) == list(loaded.labels_.names)
    assert result["top_features"]["O"] == [list(item) for item in loaded.top_features("O", 10)]
    assert result["top_transitions"] == [list(item) for item in loaded.top_transitions(10)]


def test_people_read_the_same(run: Cli, model: Path) -> None:
    shown = run.stdout("info", model, "--top", "2")
    for part in (
        f"Bridle {bridle.__version__}",
        "B-PER 3",
        "scheme BIO",
        "ner, ",
        "chosen because",
        "c2 0.1",
        "train.txt: 2 sequences, 12 tokens",
        "features for B-LOC:",
        "transitions:",
    ):
        assert part in shown
    assert shown.count("=") == 2 * 4, "two features for each label"


def test_one_label_or_type(run: Cli, model: Path) -> None:
    result = about(run, model, "--label", "PER", "--top", "3")
    assert list(result["top_features"]) == ["B-PER", "I-PER"]
    assert all("PER" in before + after for before, after, _ in result["top_transitions"])
    assert list(about(run, model, "--label", "O")["top_features"]) == ["O"]
    assert about(run, model, "--top", "0")["top_features"] == {}
    assert "wanted one of B-LOC, B-PER" in run.ok("info", model, "--label", "X", code=2).stderr


def test_a_model_without_its_configuration(run: Cli, model: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone.bridle"
    alone.write_bytes(model.read_bytes())
    result = about(run, alone)
    assert result["data"] is None and result["labels"]["O"] is None and result["features"]["set"] == "ner"
    run.ok("info", alone)


@pytest.mark.parametrize("change", ["other", "broken", "edited"])
def test_a_configuration_that_does_not_fit(run: Cli, model: Path, tmp_path: Path, change: str) -> None:
    copy = tmp_path / "m.bridle"
    copy.write_bytes(model.read_bytes())
    config = json.loads(Path(f"{model}.json").read_text())
    if change == "edited":
        config |= {"data": {"files": [5], "sequences": "two"}, "dev": 3, "scores": {"accuracy": None}, "versions": None}
    config["model"] = {} if change == "other" else config["model"]
    Path(f"{copy}.json").write_text("{" if change == "broken" else json.dumps(config))
    output = run.ok("info", copy)
    says = {"other": "belongs to another model", "broken": "cannot be used", "edited": ""}[change]
    assert says in output.stderr and "scheme BIO" in output.stdout


@pytest.mark.parametrize("learner", ["perceptron", "ibt", "local-perceptron", "local-winnow"])
def test_every_learner(run: Cli, model: Path, tmp_path: Path, learner: str) -> None:
    (tmp_path / "r.rules").write_text("at most 2 segments of PER\n")
    rules = ("--rules", tmp_path / "r.rules") if learner == "ibt" else ()
    out = tmp_path / "m"
    run.ok("train", model.with_name("train.txt"), "-o", out, "--learner", learner, "--features", "pos", *rules)
    result = about(run, out)
    assert result["settings"]["algorithm"] == learner.removeprefix("local-")
    assert result["features"]["set"] == "pos" and result["features"]["why"] is None
    assert result["rules"] == (["at most 2 segments of PER"] if rules else [])
    assert (result["top_transitions"] == []) == learner.startswith("local")
    shown = run.stdout("info", out)
    assert "iterations" in shown and ("at most 2 segments" in shown) == bool(rules)


def test_templates_of_ones_own(run: Cli, tmp_path: Path) -> None:
    bridle.CRF(features=["word[0]", "label[-1]"], c2=1).fit([["a", "b"]], [["D", "N"]]).save(tmp_path / "m")
    result = about(run, tmp_path / "m")
    assert result["features"]["set"] is None and result["version"] is None
    assert "2 templates, 2 attributes" in run.stdout("info", tmp_path / "m")


def test_a_converted_model(run: Cli, tmp_path: Path) -> None:
    (tmp_path / "small.crfsuite").write_bytes(SMALL)
    stderr = run.ok("info", tmp_path / "small.crfsuite", code=2).stderr
    assert "got a CRFsuite model" in stderr and "bridle convert" in stderr
    run.ok("convert", tmp_path / "small.crfsuite", "-o", tmp_path / "m")
    result = about(run, tmp_path / "m")
    assert result["features"] | {"why": None} == result["features"] and result["features"]["kind"] == "plain"
    assert result["training"]["ended"] == "trained elsewhere" and "c2" not in result["settings"]
    assert result["weights"]["count"] == 12
    shown = run.stdout("info", tmp_path / "m")
    assert "ready-made, 7 attributes" in shown and "trained elsewhere" in shown


def test_a_label_needs_a_model(run: Cli) -> None:
    assert "--label needs MODEL" in run.ok("info", "--label", "PER", code=2).stderr


def test_what_is_no_model(run: Cli, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("the D\n")
    assert "this is not a Bridle model" in run.ok("info", tmp_path / "text", code=2).stderr
    assert "cannot read this file" in run.ok("info", tmp_path / "missing", code=2).stderr
    DeterministicRules(cutoff=1).fit([["a", "b"]], [["D", "N"]]).save(tmp_path / "d")
    assert "Deterministic rules are for a model" in run.ok("info", tmp_path / "d", code=2).stderr
