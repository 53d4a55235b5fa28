"""The weights of a model, for people: those that speak for a label or against it, and the label bigrams."""

from __future__ import annotations

import numpy as np
import pytest

from bridle import CRF, LocalTagger
from bridle.errors import LabelError, ModelError
from bridle.models import Tagger

X = [["the", "cat", "sleeps"], ["a", "dog", "runs"], ["the", "dog", "sleeps"]]
Y = [["D", "N", "V"]] * 3


@pytest.fixture(scope="module", params=["crf", "perceptron", "local", "ready-made"])
def model(request: pytest.FixtureRequest) -> Tagger:
    templates = ["word[0]", "suffix1[0]", "word[-1] word[0]", "label[-1]"]
    if request.param == "ready-made":
        return CRF(c2=0.1).fit([[[f"w={word}", "all"] for word in x] for x in X], Y)
    if request.param == "local":
        return LocalTagger(features=templates).fit(X, Y)
    return CRF("lbfgs" if request.param == "crf" else "perceptron", features=templates).fit(X, Y)


def test_top_features_are_the_largest_weights(model: Tagger) -> None:
    """Beside all weights, one by one."""
    names, layout = model.features_.names(), model.linear_.layout
    for y, label in enumerate(model.labels_.names):
        slots = np.flatnonzero((layout.label == y) & (model.linear_.weights != 0))
        weights = {names[layout.attribute[s]]: float(model.linear_.weights[s]) for s in slots.tolist()}
        for sign, direction in ((1, "for"), (-1, "against")):
            wanted = sorted((sign * w for w in weights.values() if sign * w > 0), reverse=True)
            result = model.top_features(label, 1000, direction=direction)  # type: ignore[arg-type]
            assert [sign * w for _, w in result] == wanted
            assert all(weights[name] == w for name, w in result)
            assert model.top_features(label, 2, direction=direction) == result[:2]  # type: ignore[arg-type]


def test_top_transitions_are_the_largest_weights(model: Tagger) -> None:
    pairwise = model.linear_.pairwise
    if pairwise is None:
        assert model.top_transitions() == []
        return
    for sign, direction in ((1, "for"), (-1, "against")):
        result = model.top_transitions(100, direction=direction)  # type: ignore[arg-type]
        assert [sign * w for *_, w in result] == sorted((sign * pairwise[sign * pairwise > 0]).tolist(), reverse=True)
        assert all(pairwise[model.labels_.id(a), model.labels_.id(b)] == w for a, b, w in result)


def test_some_attributes_have_the_names_that_they_have_among_all(model: Tagger) -> None:
    names, some = model.features_.names(), np.array([3, 0, 1])
    assert model.features_.named(some) == [names[3], names[0], names[1]]
    assert model.features_.named(some[:0]) == []


def test_what_cannot_be_asked(model: Tagger) -> None:
    with pytest.raises(LabelError, match="X"):
        model.top_features("X")
    with pytest.raises(ModelError, match="direction"):
        model.top_features("D", direction="up")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="k"):
        model.top_transitions(0)
    with pytest.raises(ModelError, match="not been trained"):
        CRF(features="pos").top_features("D")
