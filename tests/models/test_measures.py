"""Measures that decide on the development set and between settings: F1, accuracy, sequences all right."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from bridle import CRF, Labels, ModelError
from bridle.models import Progress, Step, files
from bridle.models.training import MEASURES, Measure, measure_of
from bridle.report import score
from learning import Data

WORD = ["word[0]", "label[-1]"]
OF = {
    "f1": lambda s: s.segments.f1,
    "accuracy": lambda s: s.accuracy,
    "exact": lambda s: s.exact,
}


def names(count: int, seed: int) -> Data:
    """Mostly O, some names of one or two tokens that the words give away more often than not."""
    rng = np.random.default_rng(seed)
    X: list[Any] = []
    y: list[list[str]] = []
    for _ in range(count):
        labels = ["O"] * int(rng.integers(2, 9))
        if rng.random() < 0.6:
            at, kind = int(rng.integers(len(labels))), "XY"[int(rng.integers(2))]
            labels[at : at + 2] = [f"B-{kind}", f"I-{kind}"][: len(labels) - at]
        y.append(labels)
        X.append([f"{name if rng.random() < 0.7 else 'O'}{rng.integers(5)}" for name in labels])
    return X, y


TRAIN, DEV = names(60, 0), names(30, 1)


@pytest.mark.parametrize(
    ("labels", "measure"),
    [
        (Labels(["B-X", "I-X", "O"], "BIO"), "f1"),
        (Labels(["B", "M", "E", "S"], "BMES"), "f1"),
        (Labels(["A0", "O"], "IO"), "f1"),
        (Labels(["AUTHOR", "O"]), "f1"),  # fields, without a scheme but with an outside label
        (Labels(["NN", "VB"]), "accuracy"),
    ],
)
def test_auto_is_f1_where_labels_make_segments(labels: Labels, measure: str) -> None:
    assert measure_of("auto", labels) == measure
    assert measure_of("exact", labels) == "exact"


def test_the_words_are_those_of_the_type() -> None:
    assert get_args(Measure) == MEASURES


@pytest.mark.parametrize("measure", OF)
def test_a_score_is_what_the_report_counts(measure: Any) -> None:
    steps: list[Step] = []
    model = CRF("perceptron", features=WORD, iterations=4).fit(*TRAIN, dev=DEV, measure=measure, watch=steps.append)
    for step in steps:
        alone = CRF("perceptron", features=WORD, iterations=step.iteration).fit(*TRAIN)
        assert step.score == pytest.approx(OF[measure](score(DEV[1], alone.predict(DEV[0]))))
    best = max(steps, key=lambda step: step.score or 0)
    assert (model.progress_.best_score, model.progress_.best_iteration) == (best.score, best.iteration)
    assert model.progress_.measure == measure
    assert OF[measure](score(DEV[1], model.predict(DEV[0]))) == pytest.approx(best.score)


def test_f1_is_the_default_under_a_scheme() -> None:
    model = CRF("perceptron", features=WORD, iterations=2).fit(*TRAIN, dev=DEV)
    assert model.progress_.measure == "f1"
    assert model.progress_.best_score == pytest.approx(score(DEV[1], model.predict(DEV[0])).segments.f1)


@pytest.mark.parametrize("strange", [["B-Z", "I-Z"], ["Z", "Z"]])
def test_labels_that_training_does_not_know_count_as_segments_that_are_missed(strange: list[str]) -> None:
    dev = [*DEV[0], ["new", "one"]], [*DEV[1], strange]
    model = CRF("perceptron", features=WORD, iterations=2).fit(*TRAIN, dev=dev, on_unknown="wrong")
    assert model.progress_.best_score == pytest.approx(score(dev[1], model.predict(dev[0])).segments.f1)


def test_the_measure_also_chooses_c1_and_c2() -> None:
    model = CRF(features=WORD, threads=1, iterations=10).fit(*TRAIN, measure="accuracy")
    tuning = model.tuning_
    assert tuning is not None and tuning.measure == "accuracy"
    last = [trial for trial in tuning.trials if trial.rung != 1]
    best = max(trial.accuracy for trial in last)
    assert best == next(trial.accuracy for trial in last if (trial.c1, trial.c2) == (tuning.c1, tuning.c2))
    usual = CRF(features=WORD, threads=1, iterations=10).fit(*TRAIN)
    assert usual.tuning_ is not None and usual.tuning_.measure == "mean_accuracy"


def test_a_measure_that_there_is_not() -> None:
    with pytest.raises(ModelError, match="unknown measure; got 'recall'; wanted 'auto' or 'f1'"):
        CRF(features=WORD).fit(*TRAIN, measure="recall")  # type: ignore[arg-type]


# ---- files of older versions ----------------------------------------------------------------------------------------


def old(path: Path) -> None:
    """Make a checkpoint what version 0.1 wrote."""
    stored = files.open_file(path)
    identity = {name: value for name, value in stored.head["identity"].items() if name != "measure"}
    progress = dict(stored.head["progress"])
    progress["best_accuracy"] = progress.pop("best_score")
    del progress["measure"]
    files.save(path, "checkpoint", {"identity": identity, "progress": progress}, stored.arrays)


def test_an_old_checkpoint_goes_on_by_accuracy_and_says_so_if_it_cannot(tmp_path: Path) -> None:
    def model(iterations: int) -> CRF:
        return CRF("perceptron", features=WORD, iterations=iterations)

    path = tmp_path / "check"
    model(2).fit(*TRAIN, dev=DEV, measure="accuracy", checkpoint=path, every=1)
    old(path)
    with pytest.raises(ModelError, match="got measure='accuracy'; wanted measure='f1'"):
        model(4).fit(*TRAIN, dev=DEV, resume=path)
    resumed = model(4).fit(*TRAIN, dev=DEV, measure="accuracy", resume=path)
    whole = model(4).fit(*TRAIN, dev=DEV, measure="accuracy")
    assert resumed.fingerprint_ == whole.fingerprint_ and resumed.progress_ == whole.progress_


def test_the_progress_of_an_old_model_is_read() -> None:
    was = {"iteration": 1, "losses": [2.0], "best_accuracy": 0.5, "best_iteration": 1, "why": None}
    assert Progress.restored(was) == Progress(1, [2.0], 0.5, 1, None, "accuracy")
    assert Progress.restored({**was, "best_accuracy": None}).measure is None
