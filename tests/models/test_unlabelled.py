"""`fit` with unlabelled text and rules."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bridle
from bridle.errors import BridleError, LabelError, ModelError
from bridle.features import Encoded, features_of
from bridle.models.likelihood import Objective
from bridle.models.task import Task
from bridle.models.unlabelled import _Counts

NAMES, CITIES = ["Ann", "Bob", "Kim", "Eve", "Tom"], ["Rome", "Oslo", "Lima", "Bonn", "Kyiv"]
X = [["Ann", "went", "to", "Rome"], ["Bob", "is", "here"], ["Oslo", "is", "big"]]
Y = [["N", "O", "O", "C"], ["N", "O", "O"], ["C", "O", "O"]]
TEXT = [[name, "went", "to", city] for name, city in product(NAMES, CITIES)]
RULES = ["fix C at tokens /[A-Z].*/ after tokens /to/", "fix N at tokens /[A-Z].*/ before tokens /went/  [penalty 5]"]
FEATURES = ["word[0]", "word[-1]", "word[1]", "label[-1]"]


def crf(**options: Any) -> bridle.CRF:
    """A small model."""
    return bridle.CRF(**{"features": FEATURES, "threads": 1, **options})


def fitted(**options: Any) -> bridle.CRF:
    """A small model that has read the text."""
    return crf(**options).fit(X, Y, unlabelled=TEXT, rules=RULES)


def test_words_that_no_label_was_seen_with_are_learned_from_rules() -> None:
    test = [["Lima", "is", "big"], ["Kyiv", "is", "here"], ["Kim", "is", "big"], ["Tom", "is", "here"]]
    gold = [["C", "O", "O"], ["C", "O", "O"], ["N", "O", "O"], ["N", "O", "O"]]
    assert fitted().predict(test) == gold
    assert crf(c2=0.1).fit(X, Y).predict(test) != gold  # a plain model goes by the word beside
    assert crf().fit(X, Y, unlabelled=TEXT).labels_.names == ("C", "N", "O")


def test_the_result_is_always_the_same_and_survives_a_file(tmp_path: Path) -> None:
    model, again = fitted(), fitted()
    assert model.to_bytes() == again.to_bytes()
    model.save(tmp_path / "m.bridle")
    loaded = bridle.load(tmp_path / "m.bridle")
    assert np.array_equal(loaded.lattices(TEXT).unary, model.lattices(TEXT).unary)
    assert isinstance(loaded, bridle.CRF) and (loaded.c1_, loaded.c2_) == (0.1, 0.1)
    assert loaded.progress_.why is not None and loaded.progress_.why.startswith("3 rounds over the unlabelled text")


def test_data_of_the_caller_stays_as_it_is() -> None:
    before = repr((X, Y, TEXT, RULES))
    fitted()
    assert repr((X, Y, TEXT, RULES)) == before


@pytest.mark.parametrize("stop", [3, 30, 45])
def test_a_training_goes_on_where_it_was_stopped(stop: int, tmp_path: Path) -> None:
    whole, check = fitted(), tmp_path / "check"
    assert whole.progress_.iteration > 45  # so that all rounds are stopped in

    def interrupt(step: Any) -> None:
        if step.iteration == stop:
            raise KeyboardInterrupt

    options: dict[str, Any] = {"unlabelled": TEXT, "rules": RULES, "checkpoint": check, "every": 1}
    stopped = crf()
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(X, Y, **options, watch=interrupt)
    assert stopped.progress_.iteration == stop and stopped.predict(X)
    resumed = crf().fit(X, Y, **options, resume=check)
    assert np.array_equal(resumed.lattices(TEXT).unary, whole.lattices(TEXT).unary)
    for other in ({"rules": RULES[:1]}, {"unlabelled": TEXT[1:]}):
        with pytest.raises(ModelError, match="checkpoint of another training"):
            crf().fit(X, Y, **{**options, **other}, resume=check)


def test_a_development_set_decides() -> None:
    model = crf(patience=5).fit(X, Y, dev=(X, Y), unlabelled=TEXT, rules=RULES)
    assert model.progress_.best_score == 1.0


def test_features_of_ones_own_and_of_label_pairs_with_text() -> None:
    def own(x: list[str]) -> list[dict[str, Any]]:
        return [{"word": word, "capital": float(word[0].isupper())} for word in x]

    model = crf(features=None).fit(
        [own(x) for x in X], Y, unlabelled=[own(x) for x in TEXT], rules=["exactly 1 token of C"]
    )
    assert model.predict([own(["Lima", "went", "to", "Kim"])], ["exactly 1 token of C"])
    edges = crf(features=[*FEATURES, "label[-1] word[0]"]).fit(X, Y, unlabelled=TEXT, rules=RULES)
    assert edges.predict([["Kim", "went", "to", "Lima"]]) == [["N", "O", "O", "C"]]


def test_sequences_that_no_labelling_can_have_count_for_nothing() -> None:
    impossible = [["Rome", "Rome"]] * 9
    rules = [*RULES, "length of C at most 1", "fix C at tokens /Rome/"]
    model = crf().fit(X, Y, unlabelled=[*TEXT, *impossible], rules=rules)
    assert model.predict([["Rome", "is", "big"]]) == [["C", "O", "O"]]


def test_values_that_rules_refer_to() -> None:
    rules = ["fix C at given places"]
    places = [{"places": [3]}] * len(TEXT)
    model = crf().fit(X, Y, unlabelled=TEXT, rules=rules, unlabelled_given=places)
    assert model.predict([["Lima", "is", "big"]]) == [["C", "O", "O"]]
    with pytest.raises(BridleError, match="places"):
        crf().fit(X, Y, unlabelled=TEXT, rules=rules)


@pytest.mark.parametrize(
    ("fit", "error", "said"),
    [
        (lambda: crf().fit(X, Y, rules=RULES), ModelError, "no text for the rules"),
        (lambda: crf().fit(X, Y, unlabelled=[]), ModelError, "no unlabelled text"),
        (lambda: crf(algorithm="perceptron").fit(X, Y, unlabelled=TEXT), ModelError, "does not learn from unlabelled"),
        (lambda: bridle.LocalTagger(features=FEATURES[:1]).fit(X, Y, unlabelled=TEXT), ModelError, "LocalTagger"),
        (lambda: crf().fit(X, Y, unlabelled=TEXT, rules=["forbid Z"]), LabelError, "unknown label"),
        (lambda: crf().fit(X, Y, unlabelled=[{"text": ["a"]}]), BridleError, "word"),
    ],
)
def test_what_cannot_be(fit: Callable[[], Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        fit()


# ---- laws -----------------------------------------------------------------------------------------------------------


def test_the_mean_of_the_prior_is_that_of_the_equation() -> None:
    features = features_of(FEATURES, 1, None)
    encoded = features.fit(X)
    y = np.array([["C", "N", "O"].index(label) for labels in Y for label in labels], dtype=np.int32)
    task = Task.of(encoded, y, (len(features), 3), "all", bigram=True)
    plain, rng = Objective(task, 0.3, 1), np.random.default_rng(1)
    free = np.ones(task.layout.size) if task.layout.free is None else task.layout.free
    mean = rng.normal(size=task.layout.size) * free
    drawn = Objective(task, 0.3, 1, mean=mean)
    w = rng.normal(size=plain.size)
    w[plain.pinned] = 0
    whole = np.concatenate([mean, np.zeros(plain.size - len(mean))])
    there, slope = drawn(w)
    here, gradient = plain(w + whole)
    assert there == pytest.approx(here + 0.3 * (np.sum(w**2) - np.sum((w + whole) ** 2)))
    assert slope == pytest.approx(gradient - 0.6 * whole)


def test_without_a_mean_for_its_words_the_text_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridle.models.unlabelled.STRENGTH", 0.0)
    options: dict[str, Any] = {"c1": 0.0, "c2": 0.3, "pairs": "all", "tolerance": 0.0}
    plain, read = crf(**options).fit(X, Y), crf(**options).fit(X, Y, unlabelled=TEXT, rules=RULES)
    assert read.lattices(X).unary == pytest.approx(plain.lattices(X).unary, abs=0.02)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans())
def test_counts_are_sums_over_tokens(seed: int, m: int, valued: bool) -> None:
    rng = np.random.default_rng(seed)
    n, size = int(rng.integers(1, 9)), int(rng.integers(1, 6))
    rows = [rng.integers(0, size, size=rng.integers(0, 4)) for _ in range(n)]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    attrs = np.concatenate(rows).astype(np.int32)
    values = rng.normal(size=len(attrs)) if valued else None
    words, q = rng.random(size) < 0.6, rng.random((n, m))
    expected = np.zeros((size, m))
    for t, row in enumerate(rows):
        for k, a in enumerate(row):
            expected[a] += q[t] * (1.0 if values is None else abs(values[indptr[t] + k]))
    counts = _Counts(Encoded(np.array([0, n]), indptr.astype(np.int64), attrs, values), words)
    assert counts(q) == pytest.approx(expected[words])
