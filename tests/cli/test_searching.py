"""`bridle train --cv` and `--search`: what is printed, what is trained, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import bridle
from commands import Cli
from tests.models.test_measures import TRAIN

FAST = ["--columns", "word,label", "--features", "word[0]", "--iterations", 5, "--threads", 1]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("searching") / "train.txt"
    rows = ("".join(f"{word} {label}\n" for word, label in zip(x, y, strict=True)) for x, y in zip(*TRAIN, strict=True))
    path.write_text("\n".join(rows))
    return path


def test_cross_validation_needs_no_model(run: Cli, data: Path, tmp_path: Path) -> None:
    rules = tmp_path / "my.rules"
    rules.write_text("at most 1 segment of X\n")
    args = ["train", data, *FAST, "--c2", 1, "--cv", 3, "--rules", rules]
    result = run.ok(*args, "--progress")
    lines = result.stdout.splitlines()
    assert lines[0].split()[:2] == ["fold", "sequences"] and lines[4].startswith("mean ") and "±" in lines[4]
    assert "fold 3/3: F1" in result.stderr and "with rules F1" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my.rules"]
    document = json.loads(run.stdout(*args, "--json"))
    assert document["cross_validation"]["ruled"]["f1"].keys() == {"mean", "deviation"}
    assert len(document["cross_validation"]["folds"]) == 3 and document["settings"]["cv"] == 3
    direct = bridle.models.cross_validate(
        bridle.CRF(features=["word[0]"], iterations=5, c2=1.0, threads=1),
        [{"word": x} for x in TRAIN[0]],
        TRAIN[1],
        folds=3,
    )
    assert document["cross_validation"]["plain"]["f1"]["mean"] == direct.spread("f1").mean


def test_with_a_place_the_model_is_trained_on_everything(run: Cli, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.bridle"
    run.ok("train", data, *FAST, "--c2", 1, "--cv", 2, "-o", out)
    alone = tmp_path / "alone.bridle"
    run.ok("train", data, *FAST, "--c2", 1, "-o", alone)
    assert bridle.load(out).fingerprint_ == bridle.load(alone).fingerprint_
    record = json.loads((tmp_path / "m.bridle.json").read_text())
    assert len(record["cross_validation"]["folds"]) == 2 and "search" not in record


def test_the_best_of_a_search_is_what_is_trained(run: Cli, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.bridle"
    args = ["train", data, *FAST, "--search", "c1=0,0.5", "--search", "c2=0.1,10,100", "--measure", "accuracy"]
    result = run.ok(*args, "-o", out, "--progress")
    assert "best by accuracy on 4 folds: c1=" in result.stdout and "rung 1, 60 sequences, c1=0, c2=" in result.stderr
    document = json.loads((tmp_path / "m.bridle.json").read_text())["search"]
    model = bridle.load(out)
    assert isinstance(model, bridle.CRF)
    assert (model.c1_, model.c2_) == (document["settings"]["c1"], document["settings"]["c2"])
    record = json.loads(run.stdout(*args, "--json", "--dev", data))
    assert record["search"]["folds"] == 0 and not out.with_name("None").exists()


def test_usual_values_and_a_picture(run: Cli, data: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot = tmp_path / "s.svg"
    args = [
        "train",
        data,
        *FAST[:2],
        *FAST[4:],
        "--iterations",
        1,
        "--search",
        "features,cutoff",
        "--c2",
        1,
        "--plot",
        plot,
    ]
    text = run.stdout(*args)
    assert "features=pos" in text.splitlines()[-1] or "features=fields" in text.splitlines()[-1]
    assert plot.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--cv", 1], "should be greater than or equal to 2; got '1'"),
        (["--cv", 2, "--dev", "x"], "--cv and --dev cannot be combined; got both"),
        (["--cv", 2, "--log", "x"], "--log needs -o; got --log without -o"),
        (["--cv", 2, "--plot", "x.svg"], "--plot needs --search; got --plot alone"),
        (["--search", "c3"], "--search must name settings; got 'c3'; wanted c1, c2, cutoff, features"),
        (["--search", "c1,c1"], "--search must name settings; got 'c1,c1'"),
        (["--search", "c1=a"], "bad setting c1; got 'a'"),
        (["--search", "c1", "--c1", 1], "--c1 and --search c1 cannot be combined"),
        (["--search", "c1", "--learner", "perceptron"], "`--search c1` has no effect with `--learner perceptron`"),
        (["--search", "cutoff=x"], "bad setting cutoff; got 'x'"),
        (["--search", "features=nothing"], "nothing"),
        (["--cv", 2, "--hold-out", "files"], "--hold-out files needs two or more files"),
        ([], "-o MODEL is missing"),
    ],
)
def test_what_makes_no_sense_is_said(
    run: Cli, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[object], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run.ok("train", data, *FAST, *words, code=2)
    assert says in result.stderr and not list(tmp_path.iterdir())
