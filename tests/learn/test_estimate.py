"""Accuracy on sequences without labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bridle
from bridle.errors import BridleError
from bridle.learn import Estimate, estimate_accuracy
from bridle.learn.estimate import _t

LABELS = ["A", "B", "C"]
WORDS = [f"w{k}" for k in range(30)]


def drawn(n: int, seed: int, noise: float) -> tuple[list[list[str]], list[list[str]]]:
    """Sequences of words whose label follows from their number, but for noise."""
    rng = np.random.default_rng(seed)
    X = [[WORDS[k] for k in rng.integers(0, len(WORDS), size=rng.integers(3, 9))] for _ in range(n)]
    y = [[LABELS[(int(w[1:]) + int(rng.integers(1, 3)) * (rng.random() < noise)) % 3] for w in x] for x in X]
    return X, y


@pytest.fixture(scope="module")
def model() -> bridle.CRF:
    return bridle.CRF(features=["word[0]"], c1=0.0, c2=0.1, threads=1).fit(*drawn(40, 0, 0.3))


def accuracy(labels: list[list[str]], gold: list[list[str]]) -> float:
    pairs = [(a, b) for x, y in zip(labels, gold, strict=True) for a, b in zip(x, y, strict=True)]
    return sum(a == b for a, b in pairs) / len(pairs)


@pytest.mark.parametrize("rules", [[], ["forbid C", "at most 9 tokens of A"]])
def test_the_interval_contains_the_truth(model: bridle.CRF, rules: list[str]) -> None:
    X, y = drawn(400, 1, 0.3)
    for labelled in (drawn(40, 0, 0.3), drawn(40, 2, 0.3)):  # what it was trained on; new sequences
        estimate = estimate_accuracy(model, X, labelled, rules, threads=1)
        truth = accuracy(model.predict(X, rules, threads=1), y)
        assert estimate.low < truth < estimate.high and abs(truth - estimate.accuracy) < 0.1
        assert (estimate.sequences, estimate.labelled, estimate.broken > 0.5) == (400, 40, bool(rules))


def test_confidence_that_is_too_high_is_corrected(model: bridle.CRF) -> None:
    X, y = drawn(300, 3, 0.6)  # noisier than what the model was trained on
    estimate = estimate_accuracy(model, X, drawn(60, 4, 0.6), threads=1)
    truth = accuracy(model.predict(X, threads=1), y)
    assert estimate.low < truth < estimate.high and estimate.confidence > truth + 0.1


def test_more_labels_make_it_narrower_and_four_are_enough(model: bridle.CRF) -> None:
    X, _ = drawn(300, 5, 0.3)
    few, many = (estimate_accuracy(model, X, drawn(n, 6, 0.3), threads=1) for n in (4, 200))
    assert many.high - many.low < (few.high - few.low) / 2 and 0 < few.low < few.high < 1


def test_what_is_printed(model: bridle.CRF) -> None:
    X, _ = drawn(9, 7, 0.3)
    plain = estimate_accuracy(model, X, drawn(20, 8, 0.3), threads=1)
    assert len(plain.lines()) == 4 and Estimate(**plain.to_dict()) == plain
    ruled = estimate_accuracy(model, X, drawn(20, 8, 0.3), ["forbid C"], threads=1)
    assert "the model alone breaks a rule in" in ruled.lines()[3]


def test_labels_that_the_model_lacks_are_wrong_and_impossible_rules_do_no_harm(model: bridle.CRF) -> None:
    X, y = drawn(20, 9, 0.3)
    strange = estimate_accuracy(model, X, (X, [["D"] * len(labels) for labels in y]), threads=1)
    assert strange.labelled_accuracy == 0 and strange.accuracy < 0.5
    clash = estimate_accuracy(model, X, (X, y), ["forbid A", "present A"], threads=1)
    assert 0 < clash.low < clash.high < 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"labelled": drawn(3, 0, 0.3)}, "labelled sequences"),
        ({"X": []}, "without labels"),
        ({"X": [[]]}, "without tokens"),
        ({"rules": ["forbid A at given places"]}, "places"),
    ],
)
def test_what_cannot_be(model: bridle.CRF, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(BridleError, match=said):
        estimate_accuracy(model, **{"X": [["w1"]], "labelled": drawn(5, 0, 0.3), **arguments})


def test_students_distribution() -> None:
    assert [_t(n) for n in (4, 9, 30)] == pytest.approx([2.776, 2.262, 2.042], abs=0.01)
