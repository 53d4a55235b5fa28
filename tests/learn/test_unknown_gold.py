"""`on_unknown` means the same wherever gold labels come in that the model does not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bridle
from bridle.errors import LabelError, ModelError
from bridle.learn import JointWeights, Scores, audit_model, fit_rules, tune_rules
from bridle.models import search
from bridle.rules import parse

X = [["the", "cat"], ["a", "dog", "runs"], ["cats", "run"], ["the", "dog"]] * 6
Y = [["D", "N"], ["D", "N", "V"], ["N", "V"], ["D", "N"]] * 6
ODD = [*X, ["oh", "cat"]], [*Y, ["UH", "N"]]
RULES = ["present N", "D before V"]
MODEL = bridle.LocalTagger(features=["word[0]"], iterations=3).fit(X, Y)
ROWS = np.random.default_rng(0)
LOGITS = [ROWS.normal(size=(len(x), 3)) for x in ODD[0]]


def scores(count: int) -> Scores:
    return Scores(["D", "N", "V"], LOGITS[:count])


def crf() -> Any:
    return bridle.CRF(features=["word[0]"], iterations=3, c1=0, c2=1)


# what a function finds in data: with unknown labels in the last sequence, or without this sequence
WAYS: dict[str, Callable[..., Any]] = {
    "fit": lambda x, y, **how: crf().fit(X, Y, dev=(x, y), **how).progress_.best_score,
    "search": lambda x, y, **how: search(crf(), X, Y, {"c2": [1, 2]}, dev=(x, y), **how).tried[0].accuracy,
    "score": lambda x, y, **how: MODEL.score(x, y, **how),
    "audit": lambda x, y, **how: audit_model([parse("D before V")], MODEL, x, y, **how).none.accuracy,
    "joint": lambda x, y, **how: JointWeights([parse("D before V").soft(1)], MODEL).fit(x, y, **how).weights_.tolist(),
    "fit_rules": lambda x, y, **how: fit_rules(MODEL, x, y, rules=RULES, scored_by="model", **how).to_dict(),
    "tune_rules": lambda x, y, **how: tune_rules(MODEL, RULES, x, y, scored_by="model", **how).to_dict(),
    "cross-fitted": lambda x, y, **how: fit_rules(MODEL, x, y, rules=RULES, scored_by="cross-fitted", **how).to_dict(),
    "scores": lambda x, y, **how: tune_rules(scores(len(x)), RULES, y, **how).against,
}
LEARN = ("joint", "fit_rules", "tune_rules", "cross-fitted", "scores")


@pytest.mark.parametrize("way", WAYS)
def test_skipped_sequences_make_no_difference(way: str) -> None:
    assert WAYS[way](*ODD, on_unknown="skip") == WAYS[way](X, Y, on_unknown="raise")


@pytest.mark.parametrize("way", WAYS)
def test_an_unknown_label_is_an_error_that_says_what_to_do(way: str) -> None:
    with pytest.raises(
        LabelError, match=r"(?s)unknown label; got 'UH'.*sequence 24|sequence 24.*unknown label"
    ) as error:
        WAYS[way](*ODD, on_unknown="raise")
    assert "pass on_unknown='" in str(error.value)


@pytest.mark.parametrize("way", [way for way in WAYS if way not in LEARN])
def test_a_wrong_label_counts(way: str) -> None:
    assert WAYS[way](*ODD, on_unknown="wrong") < WAYS[way](*ODD, on_unknown="skip")


@pytest.mark.parametrize("way", WAYS)
def test_other_values(way: str) -> None:
    for value in ("drop", *(["wrong"] if way in LEARN else [])):
        with pytest.raises(ModelError, match="on_unknown"):
            WAYS[way](X, Y, on_unknown=value)


def test_too_few_sequences_are_left() -> None:
    with pytest.raises(ModelError, match="too few"):
        fit_rules(MODEL, X, [["UH"] * len(x) for x in X], rules=RULES, scored_by="model", on_unknown="skip")
    assert MODEL.score(X, [["UH"] * len(x) for x in X], on_unknown="skip") == 0
