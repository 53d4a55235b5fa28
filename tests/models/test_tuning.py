"""c1 and c2 by cross-validation: what is chosen, when it stops, what is kept of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import bridle
from bridle import CRF, ModelError
from bridle.deadline import OutOfTime
from bridle.models import Trial, Tuning, TuningTimeWarning, tuning
from learning import Data

WORD = ["word[0]", "label[-1]"]


def noisy(count: int, seed: int, noise: float = 0.25) -> Data:
    """Labels A and B by the word, but for some noise; sequences of one to five tokens."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for k in range(count):
        labels = rng.integers(0, 2, rng.integers(1, 6))
        seen = np.where(rng.random(len(labels)) < noise, 1 - labels, labels)
        X.append([f"w{v}{k % 7}{rng.integers(4)}" for v in seen])
        y.append(["AB"[v] for v in labels])
    return X, y


def test_the_best_of_the_last_rung_and_the_middle_is_taken() -> None:
    seen: list[Trial] = []
    model = CRF(features=WORD, threads=1).fit(*noisy(60, 0), watch_tuning=seen.append)
    result = model.tuning_
    assert result is not None and result.trials == tuple(seen) and result.folds == 2
    rungs = [[(t.c1, t.c2) for t in seen if t.rung == rung] for rung in range(4)]
    assert rungs[:2] == [[tuning.MIDDLE], list(tuning.NEIGHBOURS)] and len(rungs[2]) == tuning.FINALISTS
    first = sorted((t for t in seen if t.rung == 1), key=lambda t: -t.mean_accuracy)
    assert {t.mean_accuracy for t in first[:3]} == {t.mean_accuracy for t in first if (t.c1, t.c2) in rungs[2]}
    last = [t for t in seen if t.rung != 1]
    assert max(t.mean_accuracy for t in last) == next(
        t.mean_accuracy for t in last if (t.c1, t.c2) == (model.c1_, model.c2_)
    )


def test_a_row_is_continued_beyond_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "NEIGHBOURS", ((0.0, 1.0),))
    monkeypatch.setattr(tuning, "BEYOND", {(0.0, 1.0): (0.0, 3.0), tuning.MIDDLE: (0.0, 3.0)})
    result = CRF(features=WORD, threads=1).fit(*noisy(60, 0)).tuning_
    assert result is not None and [t.rung for t in result.trials] == [0, 1, 2, 3]
    assert (result.trials[-1].c1, result.trials[-1].c2) == (0.0, 3.0)


def test_the_choice_does_not_depend_on_threads_or_time() -> None:
    """All figures are equal bit by bit: no clock is read, and each model has one thread."""
    data = noisy(60, 11)
    all_trials = []
    for threads in (1, 2, 5):
        result = CRF(features=WORD, threads=threads).fit(*data).tuning_
        assert result is not None
        all_trials.append([replace(trial, seconds=0.0) for trial in result.trials])
    assert all_trials[0] == all_trials[1] == all_trials[2]


def test_the_search_costs_less_than_five_trainings() -> None:
    """In passes over the data, which take the same time on every machine."""
    for seed in range(3):
        result = CRF(features=WORD, threads=1).fit(*noisy(60, seed, 0.1)).tuning_
        assert result is not None
        middle = result.trials[0].iterations
        assert sum(trial.iterations for trial in result.trials) <= 5 * middle


def test_the_chosen_strengths_are_those_of_the_model() -> None:
    data = noisy(40, 1)
    chosen = CRF(features=WORD, threads=1).fit(*data)
    fixed = CRF(features=WORD, c1=chosen.c1_, c2=chosen.c2_, threads=1).fit(*data)
    assert fixed.tuning_ is None
    assert np.array_equal(chosen.linear_.weights, fixed.linear_.weights)


def test_a_number_for_c2_alone_means_no_l1_and_no_tuning() -> None:
    model = CRF(features=WORD, c2=0.5, iterations=3).fit(*noisy(40, 2))
    assert (model.c1_, model.c2_, model.tuning_, model.cross_fit_) == (0.0, 0.5, None, None)


def test_settings_that_are_changed_later_are_those_of_the_next_training() -> None:
    model = CRF(features=WORD, threads=1).fit(*noisy(40, 2))
    model.set_params(c2=7.0)
    assert model.cross_fit_identity(*noisy(40, 2))["c2"] == 7.0
    with pytest.raises(ModelError, match="not been trained"):
        _ = CRF().c2_
    with pytest.raises(ModelError, match="no regularisation"):
        _ = CRF("perceptron", features=WORD, iterations=1).fit(*noisy(20, 2)).c2_


def test_scores_of_fewer_iterations_are_others() -> None:
    X, y = noisy(40, 2)
    few, many = (CRF(features=WORD, c2=1, iterations=n).fit(X, y) for n in (1, 9))
    assert few.cross_fit(X, y).identity != many.cross_fit_identity(X, y)


def test_c1_may_be_given_and_c2_chosen() -> None:
    model = CRF(features=WORD, c1=0.2, threads=1, iterations=20).fit(*noisy(40, 2))
    assert model.tuning_ is not None and {trial.c1 for trial in model.tuning_.trials} == {0.2}


def test_few_sequences_are_not_compared() -> None:
    model = CRF(features=WORD).fit(*noisy(10, 3))
    assert model.tuning_ is not None and not model.tuning_.trials and "fewer than 16" in model.tuning_.why
    assert (model.c1_, model.c2_) == tuning.MIDDLE


def test_the_time_limit_is_kept_and_says_so() -> None:
    model = CRF(features=WORD, tuning_seconds=0)
    with pytest.warns(TuningTimeWarning, match="before anything was compared; c1 = 0.1 and c2 = 0.1 are used"):
        model.fit(*noisy(40, 4))
    assert model.tuning_ is not None and model.tuning_.why == "the time was up" and not model.tuning_.trials
    assert (model.c1_, model.c2_) == tuning.MIDDLE and model.predict([["w00"]])


@pytest.mark.parametrize("last", [0, 1, 3, 7, 8, 10])
def test_when_the_time_is_up_the_better_of_the_middle_and_what_was_reached_is_taken(last: int) -> None:
    seen: list[Trial] = []

    def stop(trial: Trial) -> None:
        seen.append(trial)
        if len(seen) == last + 1:
            raise OutOfTime

    with pytest.warns(TuningTimeWarning, match="ended the search for c1 and c2"):
        model = CRF(features=WORD, threads=1, tuning_seconds=1e9).fit(*noisy(60, 0), watch_tuning=stop)
    assert model.tuning_ is not None and model.tuning_.why == "the time was up"
    complete = 2 if last > 8 else 1  # whole rungs, or what there is of the first
    done = [t for t in seen[:-1] if t.rung == 0 or t.rung <= complete]
    best = max((t.mean_accuracy for t in done), default=0.0)
    assert best == max((t.mean_accuracy for t in done if (t.c1, t.c2) == (model.c1_, model.c2_)), default=0.0)


def test_large_data_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridle.models.tuning.MOST_TOKENS", 60)
    model = CRF(features=WORD, threads=1).fit(*noisy(60, 5))
    assert model.tuning_ is not None and 0 < model.tuning_.sequences < 30


def test_groups_are_held_out_together() -> None:
    X, y = noisy(60, 6)
    with patch.object(tuning.FoldedExamples, "of", wraps=tuning.FoldedExamples.of) as of_folds:
        CRF(features=WORD, threads=1).fit(X, y, groups=[k // 20 for k in range(60)])
    of = of_folds.call_args.args[2].of
    assert set(of.tolist()) == {0, 1} and all(len(set(of[k : k + 20].tolist())) == 1 for k in (0, 20, 40))


@pytest.mark.parametrize("groups", ["abc", [1] * 39, [[]] * 40, [1] * 40], ids=["text", "length", "lists", "same"])
def test_bad_groups(groups: Any) -> None:
    with pytest.raises(ModelError, match="group"):
        CRF(features=WORD).fit(*noisy(40, 6), groups=groups)


@pytest.mark.parametrize(
    "bad", [{"c2": "some"}, {"c1": -1}, {"folds": 1}, {"folds": 2.5}, {"tuning_seconds": -1}, {"c2": "Auto"}]
)
def test_bad_settings(bad: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        CRF(features=WORD, **bad).fit(*noisy(40, 6))


def test_a_model_file_keeps_the_comparison(tmp_path: Path) -> None:
    model = CRF(features=WORD, threads=1).fit(*noisy(40, 7))
    model.save(tmp_path / "m")
    again = bridle.load(tmp_path / "m")
    assert isinstance(again, CRF) and again.tuning_ == model.tuning_ and again.c2_ == model.c2_
    assert again.fingerprint_ == model.fingerprint_


def test_impossible_tuning_is_refused() -> None:
    head = Tuning(0.0, 0.1, (Trial(0.0, 0.1, 0.5, 0.5, 0.5, 0.5, 9, 0.1),), 4, 40, "done").to_dict()
    assert Tuning.restored(json.loads(json.dumps(head))).c2 == 0.1
    for wrong in ({"c2": -1.0}, {"c2": "x"}, {"folds": 1.5}, {"why": None}, {"trials": [{"c1": 0}]}, {"more": 1}):
        with pytest.raises((TypeError, ValueError)):
            Tuning.restored({**head, **wrong})


def test_resumed_training_keeps_what_was_chosen(tmp_path: Path) -> None:
    data, file = noisy(40, 8), tmp_path / "check"
    make = lambda n: CRF(features=WORD, threads=1, tolerance=0.0, iterations=n)  # noqa: E731
    first = make(4).fit(*data, checkpoint=file, every=2)
    seen: list[Trial] = []
    again = make(9).fit(*data, resume=file, watch_tuning=seen.append)
    assert not seen and again.tuning_ == first.tuning_ and again.progress_.iteration == 9


def test_ctrl_c_while_settings_are_chosen() -> None:
    def stop(trial: Trial) -> None:
        raise KeyboardInterrupt

    model = CRF(features=WORD)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*noisy(40, 9), watch_tuning=stop)
    assert not hasattr(model, "linear_")


def test_cross_fitted_scores_are_kept() -> None:
    X, y = noisy(40, 10)
    model = CRF(features=WORD, threads=1).fit(X, y)
    assert model.cross_fit_ is None
    built = model.cross_fit(X, y)
    assert model.cross_fit_ is built and built.identity == model.cross_fit_identity(X, y)
    assert built.identity != model.cross_fit_identity(X[:-1], y[:-1])
    assert model.fit(X, y).cross_fit_ is None
