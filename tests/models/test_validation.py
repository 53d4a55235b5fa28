"""Cross-validation: nothing of a fold is known to the model that labels it, and figures are those of the report."""

from __future__ import annotations

import json
from statistics import fmean, stdev
from typing import Any

import pytest

import bridle
from bridle import CRF, LabelError, LocalTagger, ModelError
from bridle.models import Fold, cross_validate
from bridle.report import score
from tests.models.test_measures import TRAIN, WORD, names

X, Y = names(40, 3)


def test_a_fold_is_labelled_by_a_model_of_the_others() -> None:
    seen: list[tuple[Fold, int, int]] = []
    groups = [k % 4 for k in range(len(X))]
    model = LocalTagger(features=["word[0]"], iterations=2)
    result = cross_validate(model, X, Y, folds=4, groups=groups, watch=lambda *output: seen.append(output))
    assert [output[1:] for output in seen] == [(k, 4) for k in (1, 2, 3, 4)]
    figures = set()
    for group in range(4):
        inside, outside = ([k for k in range(len(X)) if (k % 4 == group) == held] for held in (False, True))
        alone = LocalTagger(features=["word[0]"], iterations=2, scheme="BIO")
        alone.fit([X[k] for k in inside], [Y[k] for k in inside])
        figures.add(score([Y[k] for k in outside], alone.predict([X[k] for k in outside]), "BIO").accuracy)
    assert {fold.plain.accuracy for fold in result.folds} == figures
    assert not hasattr(model, "linear_"), "the model stays as it is"


def test_mean_and_deviation_are_of_the_folds() -> None:
    result = cross_validate(LocalTagger(features=["word[0]"], iterations=2), X, Y, folds=3)
    shares = [fold.plain.segments.f1 for fold in result.folds]
    assert (result.spread("f1").mean, result.spread("f1").deviation) == (fmean(shares), stdev(shares))
    assert sum(fold.plain.sequences for fold in result.folds) == len(X)
    document = json.loads(json.dumps(result.to_dict()))
    assert document["plain"]["f1"] == {"mean": fmean(shares), "deviation": stdev(shares)} and "ruled" not in document
    assert len(document["folds"]) == 3
    lines = result.lines()
    assert f"{100 * fmean(shares):.2f} ± {100 * stdev(shares):.2f}" in lines[4]
    assert len({len(line) for line in lines[:5]}) == 1, "columns stand under each other"


def test_a_type_counts_in_the_folds_where_it_occurs() -> None:
    """Only one fold has the label Z, which the others do not teach; the other folds do not count it as zero."""
    data = [*X, ["strange"]], [*Y, ["B-Z"]]
    result = cross_validate(LocalTagger(features=["word[0]"], iterations=2), *data, folds=3, rules=["forbid Z"])
    assert [fold.plain.by_type["Z"].gold for fold in result.folds if "Z" in fold.plain.by_type] == [1]
    assert (result.by_type()["Z"].mean, result.by_type()["Z"].deviation) == (0.0, 0.0)


def test_rules_stand_beside() -> None:
    result = cross_validate(LocalTagger(features=["word[0]"], iterations=2), X, Y, folds=2, rules=["forbid X, Y"])
    assert result.spread("f1", "ruled").mean == 0.0 < result.spread("f1").mean
    assert all(fold.ruled is not None for fold in result.folds)
    assert "F1, rules" in result.lines()[0]


def test_settings_are_chosen_inside_each_fold() -> None:
    result = cross_validate(CRF(features=WORD, threads=1, iterations=5), *TRAIN, folds=2)
    assert all(set(fold.settings) == {"c1", "c2"} for fold in result.folds)
    fixed = cross_validate(CRF(features=WORD, threads=1, iterations=5, c2=1), *TRAIN, folds=2)
    assert all(fold.settings == {} and fold.iterations == 5 for fold in fixed.folds)


def test_equal_sequences_are_in_one_fold() -> None:
    """Otherwise a model would know what it labels by heart: here words tell nothing, and nothing else is known."""
    data = [[f"w{k % 20}"] for k in range(40)], [[f"L{k % 2}"] for k in range(40)]
    result = cross_validate(LocalTagger(features=["word[0]"], iterations=3), *data, folds=4)
    assert result.spread("accuracy").mean < 0.9


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"folds": 1}, ModelError, "invalid value of `folds`"),
        ({"measure": "best"}, ModelError, "unknown measure"),
        ({"groups": ["a"] * 40}, ModelError, "of the same group"),
        ({"watch": 3}, ModelError, "watch cannot be called"),
        ({"y": Y[:9]}, LabelError, "y and X differ in length"),
    ],
)
def test_invalid_arguments_are_refused(change: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        cross_validate(LocalTagger(features=["word[0]"]), **{"X": X, "y": Y, **change})


def test_one_sequence_cannot_be_held_out() -> None:
    with pytest.raises(ModelError, match="too few sequences to hold some out"):
        bridle.models.cross_validate(LocalTagger(features=["word[0]"]), [["a", "b"]] * 3, [["D", "N"]] * 3)
