"""`features="auto"`: each kind of data gets the set that is made for it, whatever form it comes in."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle import CRF, BridleError, LocalTagger, load
from bridle.data import references
from bridle.features import SETS, Templates, choose_features, token_features
from bridle.models import Tagger

NER = (
    ["Ada", "Lovelace", "saw", "the", "sea", "in", "Dover", "."],
    ["B-PER", "I-PER", "O", "O", "O", "O", "B-LOC", "O"],
)
POS = (["the", "old", "man", "saw", "a", "dog", "."], ["DET", "ADJ", "NOUN", "VERB", "DET", "NOUN", "PUNCT"])
CHUNKS = (["the", "old", "man", "saw", "a", "dog", "."], ["B-NP", "I-NP", "I-NP", "B-VP", "B-NP", "I-NP", "O"])
RECORD = (["Ann", "Lee", "Logic", "of", "Trees", "1999"], ["author", "author", "title", "title", "title", "date"])
WORDS = (list("abcdef"), list("BMESBE"))


def chosen(*data: tuple[list[str], list[str]], column: str = "word", **columns: list[str]) -> str:
    return choose_features([{column: x, **columns} for x, _ in data], [y for _, y in data]).name


def test_each_kind_of_data_has_its_set() -> None:
    assert chosen(NER) == "ner"
    assert chosen(POS) == "pos"
    assert chosen(CHUNKS, pos=["D", "J", "N", "V", "D", "N", "."]) == "chunking"
    assert chosen(RECORD) == "fields"
    assert chosen(WORDS) == "characters"
    assert chosen(WORDS, column="char") == "characters"


def test_labels_count_more_than_columns() -> None:
    assert chosen(NER, pos=["N"] * 8) == "ner", "most tokens are outside"
    assert chosen(POS, pos=["N"] * 7) == "pos", "no segments"
    assert chosen(RECORD, pos=["N"] * 6) == "fields", "each field once"
    assert chosen(CHUNKS) == "ner", "there are no parts of speech"


@pytest.mark.parametrize("prefix", ["IO", "BIO", "BIOES"])
def test_the_scheme_does_not_matter(prefix: str) -> None:
    tags = {"IO": "IIIIII", "BIO": "BIBIIB", "BIOES": "BEBIES"}[prefix]
    assert chosen((RECORD[0], [f"{tag}-{name}" for tag, name in zip(tags, RECORD[1], strict=True)])) == "fields"


def test_spans_without_prefixes() -> None:
    assert chosen((NER[0], ["PER", "PER", "O", "O", "O", "O", "LOC", "O"])) == "ner"
    assert chosen((NER[0], ["PER", "PER", "none", "none", "none", "none", "LOC", "none"])) == "ner"


def test_references_that_come_with_bridle() -> None:
    result = references.references(count=30)
    assert choose_features([e.columns for e in result], [e.labels for e in result]).name == "fields"


@pytest.mark.parametrize("make", [lambda x: x, lambda x: {"word": x}, lambda x: [{"word": word} for word in x]])
def test_the_form_of_x_does_not_matter(make: Any) -> None:
    assert choose_features([make(NER[0])], [NER[1]]) == choose_features([NER[0]], [NER[1]])


def test_templates_name_the_column_of_the_data() -> None:
    result = choose_features([{"token": NER[0], "case": NER[0]}], [NER[1]])
    assert Templates.parse(result.templates).sources == ("token",)
    assert "token[0]" in result.templates
    words = choose_features([{"word": WORDS[0]}], [WORDS[1]])
    assert words.name == "characters" and Templates.parse(words.templates).sources == ("word",)


LABELLINGS = st.lists(st.lists(st.sampled_from(["O", "B-A", "I-A", "A", "?", "S", "-", "I-"]), max_size=5), max_size=4)


@given(LABELLINGS, st.booleans())
def test_any_labels_have_a_set_and_a_reason(y: list[list[str]], columns: bool) -> None:
    X: list[Any] = [["x"] * len(labels) for labels in y]
    X = [{"word": x, "pos": x} for x in X] if columns else X
    result = choose_features(X, y)
    assert result.name in SETS and result.why and result == choose_features(X, y)
    assert str(result) == f"{result.name}, because {result.why}"
    assert Templates.parse(result.templates).bigram


def test_large_data_is_looked_at_in_part() -> None:
    assert choose_features([NER[0]] * 100_000, [NER[1]] * 100_000) == choose_features([NER[0]], [NER[1]])


# ---- models ---------------------------------------------------------------------------------------------------------


def fitted(kind: type[Tagger] = CRF, **settings: Any) -> Tagger:
    X, y = [NER[0], ["Bob", "slept", "."]], [NER[1], ["B-PER", "O", "O"]]
    return kind(features="auto", **settings).fit(X, y)  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", [CRF, LocalTagger])
def test_a_model_says_what_it_chose(kind: type[Tagger]) -> None:
    model = fitted(kind)
    assert model.feature_set_ is not None and model.feature_set_.name == "ner"
    assert str(model.features_.templates) == SETS["ner"]  # type: ignore[union-attr]


def test_the_choice_travels(tmp_path: Any) -> None:
    model = fitted(c2=1.0)
    model.save(tmp_path / "m")
    for again in (load(tmp_path / "m"), pickle.loads(pickle.dumps(model))):
        assert again.feature_set_ == model.feature_set_ and again.features == "auto"
        assert again.predict([NER[0]]) == model.predict([NER[0]])


def test_a_model_that_chose_nothing_has_no_choice() -> None:
    model = fitted(c2=1.0)
    model.set_params(features="pos").fit([NER[0]], [NER[1]])
    assert model.feature_set_ is None


def test_folds_are_trained_with_what_the_model_chose() -> None:
    """Not with what their own data would suggest."""
    model = fitted(c2=1.0)
    X, y = [["Bob", "slept"], ["Ada", "slept"], ["Eve", "met", "Bob"]], [["B-PER", "O"]] * 2 + [["B-PER", "O", "B-PER"]]
    result = model.cross_fit(X, y)
    assert result.identity == model.cross_fit_identity(X, y)
    with_name = CRF(features="ner", c2=1.0).fit([NER[0]], [NER[1]])
    assert result.identity["data"] == with_name.cross_fit_identity(X, y)["data"]
    assert len(list(CRF(features="auto", c2=1.0).cross_fit(X, y).lattices())) == 3, "a model that is not trained"


def test_auto_takes_the_same_as_by_name() -> None:
    item, two = (
        fitted(c2=1.0),
        CRF(features="ner", c2=1.0).fit([NER[0], ["Bob", "slept", "."]], [NER[1], ["B-PER", "O", "O"]]),
    )
    assert item.fingerprint_ == two.fingerprint_


def test_features_of_tokens() -> None:
    result = token_features(["word[0]", "tail[0]", "label[-1]"], {"word": ["Dr.", "No"]})
    assert result == [["word[0]=Dr.", "tail[0]=."], ["word[0]=No"]]
    assert token_features("pos", []) == []


# ---- features="auto" is the default: what newcomers pass ------------------------------------------------------------

PLAIN_X = [["the", "cat", "sleeps"], ["a", "dog", "runs"]]
PLAIN_Y = [["D", "N", "V"]] * 2


@pytest.mark.parametrize(
    "make",
    [list, tuple, np.array, lambda x: {"word": x}, lambda x: {"token": x}, lambda x: [{"text": word} for word in x]],
    ids=["list", "tuple", "array", "columns", "token", "rows"],
)
def test_texts_in_any_form_need_no_settings(make: Any) -> None:
    X = [make(x) for x in PLAIN_X]
    model = CRF(c2=0.1).fit(X, PLAIN_Y)
    assert model.feature_set_ is not None and model.feature_set_.name == "pos" and model.predict(X) == PLAIN_Y


@pytest.mark.parametrize(
    "token", [lambda w: [f"w={w}"], lambda w: {"w": w}, lambda w: {"word": w, "title": True}, lambda w: {f"w={w}"}]
)
def test_features_that_users_made_are_taken_as_they_are(token: Any) -> None:
    X = [[token(word) for word in x] for x in PLAIN_X]
    model, same = (CRF(c2=0.1, features=features, threads=1).fit(X, PLAIN_Y) for features in ("auto", None))
    assert model.feature_set_ is None and model.fingerprint_ == same.fingerprint_
    again = pickle.loads(pickle.dumps(model))
    assert again.predict(X) == PLAIN_Y and again.cross_fit_identity(X, PLAIN_Y) == model.cross_fit_identity(X, PLAIN_Y)


@pytest.mark.parametrize(
    ("X", "y", "says"),
    [
        ([[("the", "D")], [("a", "D")]], [["A"], ["B"]], "pass {'word': \\[...\\], 'pos': \\[...\\]} per sequence"),
        (["the cat", "a dog"], PLAIN_Y, "by text.split()"),
        (PLAIN_X[0], PLAIN_Y[0], "Pass \\[X\\] and \\[y\\]"),
        (iter(PLAIN_X), PLAIN_Y, "Collect it first: list"),
        ({("a", "b")}, PLAIN_Y, "Collect it first: list"),
        ([np.zeros((3, 2))] * 2, PLAIN_Y, "with bridle.Decoder"),
        (PLAIN_X, [[0, 1, 2]] * 2, "str\\(label\\) for label in labels"),
    ],
)
def test_errors_tell_newcomers_what_to_write(X: Any, y: Any, says: str) -> None:
    with pytest.raises(BridleError, match=says):
        CRF().fit(X, y)
