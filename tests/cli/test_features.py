"""`bridle features`: functions, sets, and the features of sequences; and how `bridle train` reads templates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridle.features import FEATURE_SETS, FUNCTIONS, SETS, Templates, token_features
from commands import Cli

CHUNKS = "the D B-NP\ncat N I-NP\nsleeps V B-VP\nthe D B-NP\n. . O\n\na D B-NP\ndog N I-NP\nruns V B-VP\n"
ENTITIES = "Ada B-PER\nmet O\nBob B-PER\nin O\nthe O\nold O\ntown O\n\nBob B-PER\nslept O\n"


@pytest.fixture
def chunks(tmp_path: Path) -> Path:
    (tmp_path / "chunks.txt").write_text(CHUNKS)
    return tmp_path / "chunks.txt"


def test_the_overview_names_everything(run: Cli) -> None:
    shown = run.stdout("features")
    for item in FUNCTIONS.values():
        example = f"{' '.join(item.tokens)} -> {' '.join(value or '-' for value in item.values)}"
        assert item.name in shown and item.about in shown and example in shown
    for each in FEATURE_SETS.values():
        assert each.name in shown and each.about in shown


def test_the_overview_for_machines(run: Cli) -> None:
    document = json.loads(run.stdout("features", "--json"))
    assert [item["name"] for item in document["functions"]] == list(FUNCTIONS)
    assert {item["name"]: "\n".join(item["templates"]) for item in document["sets"]} == SETS


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_printed_as_a_file_of_templates(run: Cli, name: str) -> None:
    assert Templates.parse(run.stdout("features", name)) == Templates.parse(name)
    assert json.loads(run.stdout("features", name, "--json"))["templates"] == SETS[name].splitlines()


def test_the_features_of_a_text(run: Cli) -> None:
    document = json.loads(run.stdout("features", "--text", "Dr. Smith", "--json"))
    assert document["tokens"] == ["Dr.", "Smith"]
    assert document["features"] == token_features("ner", ["Dr.", "Smith"])
    shown = run.stdout("features", "--text", "Dr. Smith", "--features", "word[0] shape[0]")
    assert shown == "Dr.\n  word[0]|shape[0]=Dr.|Xx.\nSmith\n  word[0]|shape[0]=Smith|Xx\n"


def test_the_features_of_a_sequence(run: Cli, chunks: Path) -> None:
    asked = ("features", chunks, "--columns", "word,pos,chunk", "--label", "chunk")
    output = run.ok(*asked, "--json")
    assert output.stderr.startswith("bridle: features: chunking, because the labels mark BIO segments")
    document = json.loads(output.stdout)
    assert document["templates"] == SETS["chunking"].splitlines() and document["tokens"][0] == "the"
    later = json.loads(run.stdout(*asked, "--features", "pos[0]", "--sequence", "1", "--json"))
    assert later["features"] == [["pos[0]=D"], ["pos[0]=N"], ["pos[0]=V"]]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (("nre",), "Did you mean 'ner'?"),
        (("ner", "--text", "a"), "SET|DATA and --text cannot be combined"),
        (("--text", "a", "--features", "auto"), "--features auto needs labelled sequences"),
        (("--text", "a", "--features", "chunking"), "there is no column 'pos'"),
        (("--text", "a", "--features", "zeroes[0]"), "Did you mean 'zeros'?"),
        (("--text", " "), "the text has no tokens"),
        (("missing.txt",), "cannot read this file"),
    ],
)
def test_what_cannot_be_shown(run: Cli, asked: tuple[str, ...], says: str) -> None:
    stderr = run.ok("features", *asked, code=2).stderr
    assert says in stderr


def test_sequences_that_are_not_there(run: Cli, chunks: Path, tmp_path: Path) -> None:
    assert "--sequence 0 to 1" in run.ok("features", chunks, "--sequence", "2", code=2).stderr
    (tmp_path / "plain.txt").write_text("the cat\n")
    stderr = run.ok("features", tmp_path / "plain.txt", "--format", "text", code=2).stderr
    assert "--features auto needs labelled sequences" in stderr


# ---- bridle train ---------------------------------------------------------------------------------------------------


def test_train_says_which_features_it_chose(run: Cli, chunks: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.bridle"
    assert (
        "bridle: features: chunking, because " in run.ok("train", chunks, "-o", out, "--columns", "word,pos,y").stderr
    )
    (tmp_path / "entities.txt").write_text(ENTITIES)
    stderr = run.ok("train", tmp_path / "entities.txt", "-o", out).stderr
    assert (
        "bridle: features: ner, because the labels mark BIO segments and 67% of the tokens are outside them" in stderr
    )
    assert "features:" not in run.ok("train", chunks, "-o", out, "--features", "ner").stderr


@pytest.mark.parametrize(
    ("templates", "says"),
    [
        ("word[0]\n# more\nzeroes[+1]\n", "mine.templates:3: there is no column or function 'zeroes'"),
        ("word[0]\nword[1\n", "mine.templates: line 2 is not a template; got 'word[1'"),
        ("word[0]\npos[0]\nxyzzy[0]\n", "--columns word,pos,label"),
    ],
)
def test_a_file_of_templates_with_a_mistake(run: Cli, chunks: Path, tmp_path: Path, templates: str, says: str) -> None:
    (tmp_path / "mine.templates").write_text(templates)
    asked = (
        "train",
        chunks,
        "-o",
        tmp_path / "m",
        "--columns",
        "word,pos,y",
        "--features",
        tmp_path / "mine.templates",
    )
    assert says in run.ok(*asked, code=2).stderr


def test_a_set_that_needs_a_column(run: Cli, tmp_path: Path) -> None:
    (tmp_path / "entities.txt").write_text(ENTITIES)
    asked = ("train", tmp_path / "entities.txt", "-o", tmp_path / "m")
    stderr = run.ok(*asked, "--features", "chunking", code=2).stderr
    assert "there is no column 'pos', which the feature set 'chunking' needs" in stderr and "--columns" in stderr
    assert "Did you mean 'ner'?" in run.ok(*asked, "--features", "nerr", code=2).stderr
