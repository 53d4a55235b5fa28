"""`labels=`: labels that the training data lack."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import bridle
from bridle import CRF, LabelError, LocalTagger, ModelError
from commands import Cli

X = [["Ada", "slept"], ["Bob", "saw", "Ada"]]
Y = [["B-PER", "O"], ["B-PER", "O", "B-PER"]]
WORD = ["word[0]", "label[-1]"]


@pytest.mark.parametrize(
    "make", [lambda **more: CRF(features=WORD, c2=0.1, **more), lambda **more: LocalTagger(features=WORD, **more)]
)
def test_a_label_that_the_data_lack_is_known_and_has_no_weights(make: Any, tmp_path: Path) -> None:
    model = make(labels=["LOC"]).fit(X, Y)
    assert model.labels_.names == ("B-LOC", "B-PER", "I-LOC", "O") and model.labels_.scheme == "BIO"
    assert model.predict(X) == Y
    assert model.predict([["Bob", "saw", "Ada"]], ["fix B-LOC at 2"]) == [["B-PER", "O", "B-LOC"]]
    model.save(tmp_path / "m")
    for again in (bridle.load(tmp_path / "m"), pickle.loads(pickle.dumps(model))):
        assert again.labels_.names == model.labels_.names and again.get_params()["labels"] == ["LOC"]


def test_the_weights_of_other_labels_stay_as_they_are() -> None:
    """Of a CRF without the label, but for the partition function, in which it counts."""
    model = CRF(features=WORD, c2=0.1, labels=["B-LOC", "I-LOC"]).fit(X, Y)
    loc = model.labels_.ids(["B-LOC", "I-LOC"])
    lattice = model.lattice(X[1])
    assert not lattice.unary[:, loc].any() and lattice.pairwise is not None
    assert not lattice.pairwise[loc].any() and not lattice.pairwise[:, loc].any()


@pytest.mark.parametrize(
    ("y", "labels", "names"),
    [
        ([["A", "B"], ["A", "B", "A"]], ["C", "A"], ("A", "B", "C")),
        ([["I-PER", "O"], ["I-PER", "O", "I-PER"]], ["B-PER"], ("B-PER", "I-PER", "O")),
        ([["S", "B"], ["B", "E", "S"]], ["M"], ("B", "E", "M", "S")),
    ],
)
def test_the_scheme_is_that_of_all_names(y: list[list[str]], labels: list[str], names: tuple[str, ...]) -> None:
    assert CRF(features=WORD, c2=0.1, labels=labels).fit(X, y).labels_.names == names


def test_folds_and_searches_know_them() -> None:
    data = X * 4, Y * 4
    model = CRF(features=WORD, c2=0.1, iterations=3, labels=["LOC"])
    assert model.cross_fit(*data, folds=2).labels.names == ("B-LOC", "B-PER", "I-LOC", "O")
    assert bridle.models.cross_validate(model, *data, folds=2, rules=["at most 1 segment of LOC"]).folds


@pytest.mark.parametrize("labels", ["LOC", [3], 5, [""]])
def test_what_is_no_list_of_names_is_refused(labels: Any) -> None:
    with pytest.raises(ModelError, match="`labels` must be a list of names"):
        CRF(labels=labels).fit(X, Y)


def test_a_label_that_does_not_fit_the_scheme_is_refused() -> None:
    with pytest.raises(LabelError, match="does not fit the scheme BIO"):
        CRF(labels=["X-LOC"]).fit(X, Y)


def test_the_command_line(run: Cli, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("Ada B-PER\nslept O\n\nBob B-PER\nsaw O\nAda B-PER\n")
    model = tmp_path / "m.bridle"
    run.ok("train", tmp_path / "x.txt", "-o", model, "--features", "word[0]", "--labels", "LOC, ORG", "--c2", 1)
    assert {"B-LOC", "I-ORG"} <= set(bridle.load(model).labels_.names)
    run.ok("train", "--settings", f"{model}.json", "-o", tmp_path / "again.bridle")
    assert bridle.load(tmp_path / "again.bridle").labels_.names == bridle.load(model).labels_.names
