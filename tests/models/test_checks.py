"""Wrong input of models: every error is one of Bridle's, with a message."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridle import rules as r
from bridle.errors import BridleError, FeatureError, Infeasible, LabelError, ModelError
from bridle.models import CRF, LocalTagger, Tagger
from bridle.report import token_accuracy

X = [["the", "cat", "sleeps"], ["a", "dog", "runs"]]
Y = [["D", "N", "V"], ["D", "N", "V"]]
WORD = ["word[0]", "label[-1]"]
RULE = "at most 1 segment of D"
TWO = [[["a"], ["b"]]]  # one sequence of two tokens, ready-made features
AB = [["A", "B"]]

# ---- labels ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "says"),
    [
        (None, "y is not a list"),
        ("DNV", "y is not a list"),
        (iter(Y), "y is not a list"),
        (5, "y is not a list"),
        (["DNV", "DNV"], "sequence 0: .* not a list"),
        ([["D", "N", "V"], 5], "sequence 1: .* not a list"),
        ([None, None], "sequence 0: .* not a list"),
        ([[1, 2, 3]] * 2, "not a name"),
        ([["D", ["N"], "V"]] * 2, "not a name"),
        ([["D", "", "V"]] * 2, "not a name"),
        ([["D", b"N", "V"]] * 2, "not a name"),
        ([], "no labels at all"),
        ([[], []], "no labels at all"),
        ([["D"] * 3] * 2, "only the label 'D'"),
        ([["D", "N", "V"]], "differ in length"),
        ([["D", "N", "V"]] * 3, "differ in length"),
        ([["D", "N", "V"], ["D", "N"]], "sequence 1: the labels and"),
        ([["D", "N", "V"], []], "sequence 1: the labels and"),
    ],
)
@pytest.mark.parametrize("kind", [CRF, LocalTagger])
def test_what_labels_cannot_be(kind: type[CRF] | type[LocalTagger], y: Any, says: str) -> None:
    with pytest.raises(LabelError, match=says):
        kind(features=WORD).fit(X, y)


def test_too_many_labels() -> None:
    y = [[f"L{k}" for k in range(2**16)]]
    with pytest.raises(LabelError, match="too many labels"):
        CRF(features=["bias[0]"]).fit([["x"] * 2**16], y)


def test_many_labels() -> None:
    """More than a byte can count, more than one word of bits."""
    names = [f"L{k:03}" for k in range(300)]
    words = [[f"w{k}" for k in range(300)]]
    for model in (
        CRF(features=["word[0]"], c2=0.001),
        LocalTagger(features=["word[0]"]),
        CRF("perceptron", features=WORD),
    ):
        assert model.fit(words, [names]).predict(words) == [names]


def test_labels_are_plain_strings() -> None:
    model = CRF(features=WORD).fit(X, np.array(Y))  # type: ignore[arg-type]
    assert {type(label) for labels in model.predict(X) for label in labels} == {str}


# ---- sequences ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        CRF(features=WORD),
        CRF("perceptron", features=WORD),
        LocalTagger(features=WORD),
        CRF("ibt", features=WORD, rules=[RULE]),
    ],
)
def test_empty_sequences_are_fine(model: Tagger) -> None:
    model.fit([[], *X, []], [[], *Y, []], dev=([[], *X], [[], *Y]))
    assert model.predict([[], X[0], []]) == [[], Y[0], []]
    assert model.predict([]) == []
    assert model.lattice([]).unary.shape == (0, 3)
    assert model.score([], []) == model.score([[]], [[]]) == token_accuracy([], []) == 0.0
    assert model.predict([X[0], []], rules=[r.at_most(1, of="N")]) == [Y[0], []]


@pytest.mark.parametrize(
    "bad", ["a sentence", {"word": ["a"]}, iter(X), None, 5, ["a sentence"], [5], [[1, 2]], [[None]]]
)
@pytest.mark.parametrize("call", ["fit", "predict", "lattices", "score"])
def test_what_sequences_cannot_be(bad: Any, call: str) -> None:
    model = CRF(features=WORD)
    if call != "fit":
        model.fit(X, Y)
    with pytest.raises(FeatureError):
        getattr(model, call)(bad, *([Y] if call in ("fit", "score") else []))


def test_tokens_without_known_features_have_scores_too() -> None:
    model = CRF(features=WORD).fit(X, Y)
    assert len(model.predict([["unknown"] * 5])[0]) == 5
    assert CRF(features=["word[0]"], cutoff=9).fit(X, Y).predict([["the"]]) in ([["D"]], [["N"]], [["V"]])


def test_a_token_with_very_many_features() -> None:
    many = [f"f{k}" for k in range(70_000)]
    model = CRF(iterations=3).fit([[many, ["b"]]], AB)
    assert model.predict([[many, ["b"]]]) == AB


@pytest.mark.parametrize("make", [LocalTagger, CRF, lambda: CRF("perceptron"), lambda: LocalTagger("winnow")])
def test_large_values(make: Any) -> None:
    for value in (1e-3, 1e4):
        sequence = [{"v": value}, {"w": value}]
        assert make().fit([sequence], AB).predict([sequence]) == AB
    with pytest.raises(FeatureError, match="Scale it"):
        make().fit([[{"v": 1e12}, {"w": 1e12}]], AB)


def test_winnow_has_no_use_for_negative_values() -> None:
    """Its weights stay positive, so an attribute with a negative value would be learned the wrong way round."""
    sequence = [{"v": -1.5}, {"w": 2.0}]
    with pytest.raises(ModelError, match="negative"):
        LocalTagger("winnow").fit([sequence], AB)


# ---- settings and what else fit takes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm": "sgd"},
        {"algorithm": None},
        {"algorithm": []},
        {"pairs": "some"},
        {"average": "voted"},
        {"c1": -1},
        {"c1": "1"},
        {"c2": float("nan")},
        {"c2": float("inf")},
        {"c2": True},
        {"c2": None},
        {"tolerance": -1},
        {"iterations": 0},
        {"iterations": -1},
        {"iterations": 1.5},
        {"iterations": "9"},
        {"iterations": True},
        {"threads": -1},
        {"threads": "x"},
        {"scheme": "XYZ"},
        {"rules": [RULE]},
        {"algorithm": "ibt"},
        {"algorithm": "ibt", "rules": 5},
        {"algorithm": "ibt", "rules": [5]},
        {"algorithm": "ibt", "rules": ["no rule"]},
        {"algorithm": "ibt", "rules": ["at most 1 segment of Q"]},
        {"algorithm": "ibt", "rules": RULE},
        {"algorithm": "perceptron", "seed": -1},
        {"algorithm": "perceptron", "seed": None},
        {"algorithm": "perceptron", "seed": "x"},
        {"algorithm": "perceptron", "seed": 1.5},
        {"patience": 0},
        {"patience": -1},
        {"patience": "x"},
        {"patience": 1.5},
        {"features": 5},
        {"cutoff": 0},
    ],
    ids=str,
)
def test_settings_that_cannot_be(settings: dict[str, Any]) -> None:
    model = CRF(**({"features": WORD} | settings))
    with pytest.raises(BridleError):
        model.fit(X, Y, dev=(X, Y))
    assert not hasattr(model, "linear_")


@pytest.mark.parametrize(
    "settings",
    [
        {"margin": -1},
        {"margin": float("inf")},
        {"rate": 0},
        {"rate": -0.5},
        {"scores": "p"},
        {"algorithm": "lbfgs"},
        {"iterations": None},
        {"seed": -1},
    ],
    ids=str,
)
def test_settings_of_a_local_tagger_that_cannot_be(settings: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        LocalTagger(**({"features": WORD} | settings)).fit(X, Y)


@pytest.mark.parametrize(
    "more",
    [
        {"dev": (X, [["Q", "N", "V"]] * 2)},
        {"dev": (X, Y[:1])},
        {"dev": (X, [["D"], ["N"]])},
        {"dev": ([], [])},
        {"dev": (X, None)},
        {"dev": 5},
        {"dev": (X,)},
        {"dev": (X, [[1, 2, 3]] * 2)},
        {"dev": ("abc", Y)},
        {"every": 0},
        {"every": "x"},
        {"checkpoint": 5},
        {"resume": 5},
        {"resume": "/no/such/file"},
        {"on_unknown": "drop"},
        {"given": [{}]},
        {"given": [{}] * 3},
        {"given": [None, None]},
        {"given": 5},
        {"dev": (X, Y), "dev_given": [{}]},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "rule", [r.fix("V", r.given("verb")), r.forbid("V", at=r.tokens("the"))], ids=["given", "tokens"]
)
def test_what_fit_cannot_take(more: dict[str, Any], rule: Any) -> None:
    verbs = {} if "verb" not in str(rule) else {"given": [{"verb": 2}] * 2, "dev_given": [{"verb": 2}] * 2}
    with pytest.raises(BridleError):
        CRF("ibt", rules=[rule], features=WORD).fit(X, Y, **(verbs | more))


def test_rules_are_a_list() -> None:
    """A generator would be empty when it is read a second time."""
    with pytest.raises(ModelError, match="not a list"):
        CRF("ibt", features=WORD, rules=(rule for rule in [RULE])).fit(X, Y)  # type: ignore[arg-type]


def test_what_predict_cannot_take() -> None:
    model = CRF(features=WORD).fit(X, Y)
    wrong: list[dict[str, Any]] = [
        {"given": [{}]},
        {"rules": ["no rule"]},
        {"rules": [5]},
        {"threads": -1},
        {"threads": "x"},
        {"engine": "x"},
    ]
    for more in wrong:
        with pytest.raises(BridleError):
            model.predict(X, **more)
    for method in ("predict", "lattices", "lattice", "score", "save", "top_weights", "decoder"):
        with pytest.raises(ModelError, match="has not been trained"):
            getattr(CRF(), method)(
                *({"score": (X, Y), "save": ("x",), "top_weights": (), "decoder": ()}.get(method, (X,)))
            )
    with pytest.raises(LabelError, match="y does not fit X"):
        model.score(X, [["D"], ["N"]])


def test_a_failed_fit_leaves_the_old_model() -> None:
    model = CRF(features=WORD).fit(X, Y)
    with pytest.raises(LabelError):
        model.fit(X, [["D"] * 3] * 2)
    assert model.predict(X) == Y


@pytest.mark.parametrize("given", [None, [{}, {}]])
def test_what_cannot_hold_is_relaxed_with_the_texts_of_its_tokens(given: Any) -> None:
    model = LocalTagger(features=["word[0]"]).fit([["the", "cat"]], [["D", "N"]])
    decoder = model.decoder(["fix D at tokens /the/", "forbid D"], on_infeasible="relax")
    result = model.decode([["the", "cat"], ["cat"]], decoder, given=given)
    assert result.status.tolist() == ["relaxed", "optimal"]
    with pytest.raises(Infeasible) as caught:
        model.predict([["the", "cat"], ["cat"]], ["fix D at tokens /the/", "forbid D"], given=given)
    assert caught.value.sequence == 0 and len(caught.value.clash) == 2
