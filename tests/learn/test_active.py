"""The sequences to label next."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bridle
from bridle.errors import BridleError
from bridle.learn import suggest
from bridle.learn.active import _Gains

X = [["Ann", "went", "to", "Rome"], ["Bob", "is", "here"], ["Oslo", "is", "big"]]
Y = [["N", "O", "O", "C"], ["N", "O", "O"], ["C", "O", "O"]]
HEAP = [["Ann", "is", "here"], ["Lima", "is", "here"], ["Kim", "went", "to", "Lima"], ["Eve", "is", "here"]]


@pytest.fixture(scope="module")
def model() -> bridle.CRF:
    return bridle.CRF(features=["word[0]", "word[-1]", "label[-1]"], threads=1).fit(X, Y)


def test_unknown_words_that_come_often_are_suggested_first(model: bridle.CRF) -> None:
    first, *others = suggest(model, HEAP, 4, threads=1)
    assert first.index == 2 and HEAP[2][first.words[0]] == "Lima"
    assert {s.index for s in others} == {0, 1, 3} and others[-1].index == 0
    assert [s.index for s in suggest(model, HEAP, 1)] == [2]


def test_tokens_that_rules_decide_teach_nothing(model: bridle.CRF) -> None:
    rules = ["fix N at tokens /Kim|Eve/", "fix C at tokens /Lima/", "fix O at tokens /[a-z]+/"]
    suggested = suggest(model, HEAP, 4, rules, threads=1)
    assert suggested[0].index == 0 and [s.uncertainty for s in suggested[1:]] == pytest.approx([0, 0, 0])
    assert suggested[1].words == ()


def test_rules_in_conflict_with_the_model_are_named(model: bridle.CRF) -> None:
    (suggested,) = suggest(model, [["Rome", "is", "big"]], rules=["forbid O", "at most 3 tokens of O"], threads=1)
    assert [str(rule) for rule in suggested.conflicts] == ["forbid O"]


def test_a_sequence_without_a_labelling_under_the_rules_counts_as_without_rules(model: bridle.CRF) -> None:
    rules = ["at most 1 token of O", "fix O at tokens /[a-z]+/"]
    ruled, plain = suggest(model, HEAP[:1], rules=rules, threads=1), suggest(model, HEAP[:1], threads=1)
    assert ruled[0].uncertainty == pytest.approx(plain[0].uncertainty) and ruled[0].conflicts


def test_values_that_rules_refer_to(model: bridle.CRF) -> None:
    places = [{"places": [0, len(x) - 1]} for x in HEAP]
    assert len(suggest(model, HEAP, 2, ["fix N at given places"], given=places, threads=1)) == 2
    with pytest.raises(BridleError, match="places"):
        suggest(model, HEAP, 2, ["fix N at given places"])


def test_features_of_ones_own_and_no_sequences(model: bridle.CRF) -> None:
    def own(x: list[str]) -> list[dict[str, Any]]:
        return [{"word": word} for word in x]

    plain = bridle.CRF(features=None, threads=1).fit([own(x) for x in X], Y)
    assert suggest(plain, [own(x) for x in HEAP], 1)[0].index == 2
    assert suggest(model, []) == [] and len(suggest(model, [[], ["Kim"]])) == 2
    with pytest.raises(BridleError, match="n"):
        suggest(model, HEAP, 0)


@given(st.integers(0, 10**6), st.integers(1, 8))
def test_each_choice_is_the_best_one(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    words = [[f"w{k}" for k in rng.integers(0, 6, size=rng.integers(0, 5))] for _ in range(6)]
    entropies = [rng.random(len(x)) for x in words]
    chosen = _Gains(entropies, words).best(n)
    every = [word for x in words for word in x]
    for k, b in enumerate(chosen):
        gains = {
            c: sum(
                h * every.count(w) ** 0.5 / 2 ** sum(w in words[a] for a in chosen[:k])
                for h, w in zip(entropies[c], words[c], strict=True)
            )
            for c in range(len(words))
            if c not in chosen[:k]
        }
        assert gains[b] == pytest.approx(max(gains.values()))
    assert len(set(chosen)) == len(chosen) == min(n, len(words))
