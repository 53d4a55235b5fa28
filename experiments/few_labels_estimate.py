"""Estimates of accuracy on sequences without labels, for `few-labels`: are the intervals right?

A model is trained on few labelled sequences, and `estimate_accuracy` is calibrated on the same. The share of right
tokens in the test set is compared with the estimate and with the mean probability of the labels.
"""

from __future__ import annotations

from typing import Any

from bridle.learn import estimate_accuracy
from bridle.models import CRF
from bridle.report import score
from experiments.base import Run
from experiments.few_labels_data import Few

INSIDE, ERROR, NAIVE, WIDTH = "in the interval, %", "error", "error of the mean probability", "width of the interval"
ESTIMATES = (INSIDE, ERROR, NAIVE, WIDTH)
STRENGTH = 0.1  # c1 and c2


def judge_estimate(few: Few, run: Run, size: int, sample: int, ruled: bool) -> dict[str, float]:
    """Compare one estimate with the truth, in percent and points."""
    data, rules = few.read(run, size, sample), few.rules if ruled else []
    X, y, test, threads = data.few.X, data.few.y, data.test, run.threads
    model = CRF(features=few.features, labels=data.labels, c1=STRENGTH, c2=STRENGTH, threads=threads).fit(X, y)
    in_few, in_test = few.given(X), few.given(test.X)
    estimate = estimate_accuracy(model, test.X, (X, y), rules, given=in_test, labelled_given=in_few, threads=threads)
    relaxed: dict[str, Any] = {"given": in_test, "on_infeasible": "relax"} if ruled else {}
    truth = float(score(test.y, model.predict(test.X, rules, threads=threads, **relaxed)).accuracy)
    figures = (
        float(estimate.low <= truth <= estimate.high),
        abs(estimate.accuracy - truth),
        abs(estimate.confidence - truth),
        estimate.high - estimate.low,
    )
    return {name: 100 * figure for name, figure in zip(ESTIMATES, figures, strict=True)}
