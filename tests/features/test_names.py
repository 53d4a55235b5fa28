"""Wrong names in templates: the error says what there is, and what was probably meant."""

from __future__ import annotations

from typing import Any

import pytest

from bridle import CRF
from bridle.errors import FeatureError
from bridle.features import FEATURE_SETS, FUNCTIONS, Templates, features_of
from bridle.features.templates import nearest

COLUMNS = {"word": ["a", "b"], "pos": ["X", "Y"], "lemma": ["a", "b"]}


def message(templates: Any, x: Any = COLUMNS) -> str:
    with pytest.raises(FeatureError) as caught:
        features_of(templates).fit([x])
    return str(caught.value)


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("foo[0]", "there is no column or function 'foo'; got the template 'foo[0]'; wanted one of the columns word, "),
        ("zeroes[0]", "Did you mean 'zeros'?"),
        ("lemm[0]", "Did you mean 'lemma'?"),
        ("WORD[0]", "Did you mean 'word'?"),
        ("Word.lower[-1]", "there is no column 'Word'; got the template 'Word.lower[-1]'"),
        ("Word.lower[-1]", "Did you mean 'word.lower'?"),
        ("Word.Lower[0]", "Did you mean 'word.lower'?"),
        ("lemma.foo[0]", "there is no function 'foo'; got the template 'lemma.foo[0]'; wanted one of the functions"),
        ("lemma.lowr[0]", "Did you mean 'lemma.lower'?"),
        ("lemma.first[2]", "Write first[2], without the column."),
        ("prefix9[0]", "A prefix has 1 to 4 characters: prefix1 to prefix4."),
        ("suffix[0]", "A suffix has 1 to 4 characters: suffix1 to suffix4."),
        ("word.suffix10[0]", "A suffix has 1 to 4 characters"),
        ("xyzzy.lower[0]", "wanted one of the columns word, pos, lemma."),
    ],
)
def test_a_wrong_name_says_what_was_meant(place: str, says: str) -> None:
    assert says in message(["word[0]", place])


def test_all_functions_are_listed_in_short() -> None:
    output = message(["foo[0]", "word[0]"])
    listed = output.partition("of the functions ")[2].partition(".")[0].split(", ")
    assert {"prefix1 to prefix4", "suffix1 to suffix4", "lower", "tenth", "bias"} <= set(listed)
    assert len(listed) == len(FUNCTIONS) - 6


@pytest.mark.parametrize("x", [["a", "b"], [{"word": "a"}, {"word": "b"}], {"word": ["a", "b"]}])
def test_the_form_of_the_sequence_does_not_matter(x: Any) -> None:
    assert "there is no column or function 'zeroes'" in message(["word[0]", "zeroes[0]"], x)


def test_a_function_whose_column_is_missing_says_so() -> None:
    output = message(["lower[0]"], {"token": ["a"]})
    assert "there is no column 'word'" in output and "token.lower[0]" in output


def test_a_set_says_which_column_it_needs() -> None:
    assert "there is no column 'pos', which the feature set 'chunking' needs" in message("chunking", {"word": ["a"]})


def test_a_column_that_a_later_sequence_lacks_is_no_fault_of_the_templates() -> None:
    with pytest.raises(FeatureError, match="there is no column 'pos'; got 'word'") as caught:
        features_of(["word[0]", "pos[0]"]).fit([COLUMNS, {"word": ["a"]}])
    assert caught.value.sequence == 1


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("word[0", "The bracket is not closed: word[0]."),
        ("word", "word[0] is the token itself"),
        ("word [0]", "word[0] is the token itself"),
        ("word[0]pos[0]", "Put a blank between two columns"),
        ("word[5000]", "The offset is too large."),
        ("ner", "'ner' is the name of a feature set"),
    ],
)
def test_errors_of_lines_give_the_reason(line: str, says: str) -> None:
    with pytest.raises(FeatureError) as caught:
        Templates.parse(["word[0]", line])
    assert "line 2 is not a template" in str(caught.value) and says in str(caught.value)


@pytest.mark.parametrize(
    ("name", "says"), [("NER", "Did you mean 'ner'?"), ("fild", "'fields'?"), ("auto", "Only a model can choose")]
)
def test_unknown_sets(name: str, says: str) -> None:
    with pytest.raises(FeatureError) as caught:
        Templates.parse(name)
    assert says in str(caught.value) and ", ".join(FEATURE_SETS) in str(caught.value)


def test_models_raise_the_same() -> None:
    with pytest.raises(FeatureError, match="Did you mean 'shape'"):
        CRF(features=["word[0]", "shapee[0]"], c2=1).fit([COLUMNS], [["D", "N"]])


def test_the_nearest_name() -> None:
    assert nearest("POS", ["pos", "word"]) == "pos"
    assert nearest("", ["pos"]) is None
    assert nearest("pos", []) is None
