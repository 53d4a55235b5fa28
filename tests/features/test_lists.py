"""Features of lists: where in a phrase a token is; models keep their lists."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

import bridle
from bridle import CRF, LocalTagger
from bridle.errors import BridleError, FeatureError
from bridle.features import Templates, features_of
from commands import Cli

LISTS = {"cities": ["New York", "York", "New York City", "Rome"], "first": ["ann"]}
X = [["Ann", "in", "New", "York", "City"], ["York", "New", "York", "Rome"], []]


def named(features: Any, sequences: list[Any]) -> list[list[str]]:
    """The names of the attributes of all tokens."""
    encoded, names = features.encode(sequences), features.names()
    return [[names[a] for a in encoded.attrs[i:j]] for i, j in zip(encoded.indptr, encoded.indptr[1:], strict=False)]


def test_values_tell_where_in_a_phrase_a_token_is() -> None:
    features = features_of(["in:cities[0]", "in_any_case:first[0]"], lists=LISTS)
    features.fit(X)
    values = [[name.rpartition("=")[2] for name in some] for some in named(features, X)]
    assert values == [["S"], [], ["B"], ["I"], ["E"], ["S"], ["B"], ["E"], ["S"]]
    assert named(features, [["ANN", "Rome", "Paris"]]) == [["in_any_case:first[0]=S"], ["in:cities[0]=S"], []]


def test_offsets_other_columns_and_combinations() -> None:
    features = features_of(["in:cities[-1] word[0]", "lemma.in:cities[1]"], lists=LISTS)
    x = {"word": ["Rome", "x"], "lemma": ["x", "Rome"]}
    features.fit([x])
    assert features.sources == ("word", "lemma")
    assert "lemma.in:cities[1]=S" in named(features, [x])[0] and "in:cities[-1]|word[0]=S|x" in named(features, [x])[1]


def test_a_list_that_no_template_names_is_looked_at_nearby() -> None:
    features = features_of(["word[0]", "in:cities[2]"], lists={**LISTS, "x": ["y"]})
    assert str(features.templates).splitlines() == [
        *("word[0]", "in:cities[2]"),
        *(f"in:{name}[{offset}]" for name in ("first", "x") for offset in (-1, 0, 1)),
    ]


def test_models_keep_their_lists(tmp_path: Path) -> None:
    (tmp_path / "cities.txt").write_text("\n".join(LISTS["cities"]))
    train, y = (
        [["to", "New", "York"], ["to", "buy", "Rome"], ["big", "York"]],
        [["O", "C", "C"], ["O", "O", "C"], ["O", "C"]],
    )
    for kind in (CRF, LocalTagger):
        model = kind(features=["bias[0]", "in:cities[0]"], lists={"cities": tmp_path / "cities.txt"}).fit(train, y)
        assert model.predict([["see", "Rome", "New", "York"]]) == [["O", "C", "C", "C"]]
        model.save(tmp_path / "m.bridle")
        for again in (bridle.load(tmp_path / "m.bridle"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            assert again.predict(X) == model.predict(X) and again.fingerprint_ == model.fingerprint_
            assert again.fit(train, y).predict(X) == model.predict(X)
    (tmp_path / "cities.txt").unlink()
    assert bridle.load(tmp_path / "m.bridle").predict([["Rome"]]) == [["C"]]


def test_a_model_knows_no_list_of_another() -> None:
    y = [["O", "O", "C", "C", "C"], ["C", "C", "C", "O"], []]
    model = LocalTagger(features=["in:cities[0]"], lists=LISTS).fit(X, y)
    other = LocalTagger(features=["in:cities[0]"], lists={**LISTS, "cities": ["Rome"]}).fit(X, y)
    assert model.fingerprint_ != other.fingerprint_


@pytest.mark.parametrize(
    ("spec", "lists", "message"),
    [
        (["in:towns[0]"], LISTS, "there is no list 'towns'; got lists cities, first"),
        (["in:towns[0]"], None, "there is no list 'towns'; got no lists"),
        (["word[0]"], [("a", ["b"])], "lists have no names"),
        (["word[0]"], {"a b": ["c"]}, "a plain name"),
        (["word[0]"], {"a": []}, "is empty"),
        (None, LISTS, "lists are for templates"),
    ],
)
def test_bad_lists(spec: Any, lists: Any, message: str) -> None:
    with pytest.raises(BridleError) as caught:
        features_of(spec, lists=lists)
    assert message.split("; ")[0] in str(caught.value)
    assert message.rpartition("got ")[2] in str(caught.value)


def test_a_column_of_such_a_name_is_no_list() -> None:
    templates = Templates.parse(["word[0]", "in:cities:x[0]", "within:cities[0]"])
    assert templates.sources == ("word", "in:cities:x", "within:cities")
    with pytest.raises(FeatureError):
        Templates.parse(["in:ci ties[0]"])


def test_command_line(run: Cli, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("to O\nNew C\nYork C\n\nin O\nRome C\n\nsee O\nYork C\n\n")
    (tmp_path / "cities.txt").write_text("New York\nYork\nRome\nParis\n")
    (tmp_path / "new.txt").write_text("love\nParis\n\n")
    model, data, cities = (str(tmp_path / name) for name in ("m.bridle", "train.txt", "cities.txt"))
    templates = ("--features", "bias[0]\nin:places[0]", "--c2", "0.01")
    run.ok("train", data, "-o", model, *templates, "--list", f"places={cities}")
    (tmp_path / "cities.txt").unlink()
    tagged = run.ok("tag", model, str(tmp_path / "new.txt")).stdout
    assert [line.split()[-1] for line in tagged.split("\n") if line] == ["O", "C"]
    for asked in ("places", "=x", "a b=x", "places="):
        assert "--list NAME=FILE" in run.ok("train", data, "-o", model, "--list", asked, code=2).stderr
    assert "cannot read the list" in run.ok("train", data, "-o", model, "--list", f"places={cities}", code=2).stderr
