"""The loss of sequences with missing labels and weighted classes, against enumeration; what class weights do.

n tokens of one sequence (t)    m labels (y)    loss = log Z with costs - log Z of what agrees with y
"""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from numpy.random import Generator

import bridle
from bridle import CRF, Labels, LocalTagger
from bridle.errors import LabelError, ModelError
from bridle.models.likelihood import Objective
from bridle.models.task import Task, class_weights
from learning import Floats, noisy, random_case, random_edges, steps_of

Weights = npt.NDArray[np.float64] | None


def with_gaps(task: Task, rng: Generator, share: float) -> Task:
    """Return the task with some labels missing."""
    return replace(task, y=np.where(rng.random(len(task.y)) < share, -2, task.y).astype(np.int32))


def log_sum(unary: Floats, steps: Floats, held: dict[int, int]) -> float:
    """log of the sum over the labellings that have these labels at these tokens."""
    n, m = unary.shape
    paths = np.array(list(itertools.product(range(m), repeat=n)), dtype=np.int64).reshape(-1, n)
    paths = paths[[all(path[t] == y for t, y in held.items()) for path in paths]]
    score = unary[np.arange(n), paths].sum(axis=1) + steps[np.arange(1, n), paths[:, :-1], paths[:, 1:]].sum(axis=1)
    return float(np.logaddexp.reduce(score))


def plain_loss(unary: Floats, steps: Floats, y: npt.NDArray[np.int32], weights: Weights) -> float:
    """As the formula says it, of one sequence; steps[t] (m, m) leads to token t."""
    known = {t: int(label) for t, label in enumerate(y) if label >= 0}
    if not known:
        return 0.0
    raised = unary.copy()
    for t, label in known.items():
        others = np.arange(unary.shape[1]) != label
        raised[t, others] += 0.0 if weights is None else math.log(weights[label])
    return log_sum(raised, steps, {}) - log_sum(unary, steps, known)


@pytest.mark.parametrize("edges", ["without edges", "with edges"])
@pytest.mark.parametrize("seed", range(30))
def test_the_loss_is_that_of_enumeration_and_the_gradient_is_its_own(seed: int, edges: str) -> None:
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 5))
    if edges == "with edges":
        case, task = random_edges(rng, m)
    else:
        case = random_case(rng, m, kind="all", values="any")
        task = Task.of(case.encoded, case.y, (7, m), "all", bigram=True)
    task = with_gaps(task, rng, rng.choice([0.0, 0.3, 0.7, 1.0]))
    weights = [None, np.ones(m), np.exp(rng.normal(size=m)), np.full(m, 2.5)][seed % 4]
    objective = Objective(task, 0.1, 1, weights)
    w = rng.normal(size=objective.size) * rng.choice([1, 30])
    w[objective.pinned] = 0
    if rng.random() < 0.2:
        w[task.layout.size :] *= 20  # transitions so far apart that sums are made with logarithms
    states, pair, of_edges = objective.parts(w)
    steps = np.broadcast_to(0.0 if pair is None else pair, (len(task.y), m, m))
    if of_edges is not None:
        steps = steps_of(task, pair, of_edges)
    unary = case.unary(states)
    expected = sum(plain_loss(unary[a:b], steps[a:b], task.y[a:b], weights) for a, b in case.parts if b > a)
    loss, gradient = objective(w)
    gradient = gradient.copy()
    assert loss == pytest.approx(expected + 0.1 * float(w @ w), rel=1e-9, abs=1e-9)
    free = np.setdiff1d(np.arange(objective.size), objective.pinned)
    for slot in [*rng.permutation(free)[:6], *free[len(free) - 3 :]]:  # the last ones are of edges, if there are any
        step = np.zeros(objective.size)
        step[slot] = 1e-5
        numeric = (objective(w + step)[0] - objective(w - step)[0]) / 2e-5
        assert gradient[slot] == pytest.approx(numeric, rel=1e-4, abs=1e-4 + 1e-9 * abs(loss))


@pytest.mark.parametrize("seed", range(10))
def test_everything_known_and_class_weights_one_change_no_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    case = random_case(rng, 3, kind="seen")
    task = Task.of(case.encoded, case.y, (7, 3), "seen", bigram=True)
    item, other = Objective(task, 0.1, 1), Objective(task, 0.1, 1, np.ones(3))
    w = rng.normal(size=item.size)
    (loss, gradient), (loss_too, gradient_too) = item(w), other(w)
    assert loss == loss_too and gradient.tobytes() == gradient_too.tobytes()


@pytest.mark.parametrize("edges", ["without edges", "with edges"])
def test_in_single_precision_too(edges: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    case, task = random_edges(rng, 3, sequences=8)
    if edges == "without edges":
        task = Task.of(replace(case.encoded, edges=None), case.y, (7, 3), "all", bigram=True)
    task = with_gaps(task, rng, 0.4)
    exact = Objective(task, 0.1, 1, np.array([1.0, 2.0, 5.0]))
    monkeypatch.setattr("bridle.models.likelihood.SINGLE", 1)
    single = Objective(task, 0.1, 1, np.array([1.0, 2.0, 5.0]))
    w = rng.normal(size=exact.size)
    (loss, gradient), (loss_too, gradient_too) = exact(w), single(w)
    assert loss_too == pytest.approx(loss, rel=1e-5)
    assert gradient_too == pytest.approx(gradient, abs=1e-4)


# ---- models ---------------------------------------------------------------------------------------------------------

MODELS: list[Any] = [
    CRF(c2=0.1),
    CRF("perceptron"),
    CRF("ibt", rules=["at least 0 tokens of L0"]),
    LocalTagger(),
    LocalTagger("winnow"),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_class_weights_one_change_nothing(model: Any) -> None:
    X, y = noisy(np.random.default_rng(0), 200, 0.2)
    plain = copy.deepcopy(model).fit(X, y)
    for class_weight in ({"L0": 1.0, "L2": 1}, {}):
        again = copy.deepcopy(model).set_params(class_weight=class_weight).fit(X, y)
        assert again.fingerprint_ == plain.fingerprint_


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_more_weight_finds_more_of_a_class(model: Any) -> None:
    rng = np.random.default_rng(0)
    X, y = noisy(rng, 1000, 0.4)
    unseen, _ = noisy(rng, 1000, 0.4)

    def found(class_weight: Any) -> int:
        labels = copy.deepcopy(model).set_params(class_weight=class_weight).fit(X, y).predict(unseen)
        return sum(label == "L1" for item in labels for label in item)

    assert found({"L1": 8.0}) > found(None) > found({"L1": 0.1})


def test_types_full_labels_and_balance() -> None:
    labels = Labels(["B-LOC", "B-PER", "I-PER", "O"], "BIO")
    y = np.array([3, 3, 3, 3, 1, 2, 0, -2], dtype=np.int32)
    weights = class_weights({"I-PER": 2.0, "PER": 3.0, "O": 0.5}, labels, y)
    assert weights is not None and weights.tolist() == [1.0, 3.0, 2.0, 0.5]
    balanced = class_weights("balanced", labels, y)
    assert balanced is not None
    assert balanced == pytest.approx([7 / (3 * 1), 7 / (3 * 2), 7 / (3 * 2), 7 / (3 * 4)])  # three classes, 7 tokens
    assert class_weights("balanced", Labels(["A", "B"]), np.array([0, 1], dtype=np.int32)) is None
    assert class_weights(None, labels, y) is None


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ({"L0": 0}, "the weight of class 'L0' is not positive; got 0; wanted a number above 0"),
        ({"L0": -1.0}, "not positive; got -1.0"),
        ({"L0": math.nan}, "not positive; got nan"),
        ({"L0": math.inf}, "not positive; got inf"),
        ({"L0": True}, "not positive; got True"),
        ({"L0": "3"}, "not positive; got '3'"),
        ({0: 3.0}, "is not a name; got 0"),
        ([("L0", 3.0)], "`class_weight` is not a mapping of labels to weights; got"),
        ("balance", "not a mapping of labels to weights; got 'balance'"),
    ],
)
@pytest.mark.parametrize("kind", [CRF, LocalTagger])
def test_weights_that_cannot_be(kind: Any, class_weight: Any, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        kind(class_weight=class_weight).fit([[["a"], ["b"]]], [["L0", "L1"]])
    assert message in str(caught.value)


@pytest.mark.parametrize("c2", [0.1, "auto"])
def test_a_class_that_data_does_not_have(c2: Any) -> None:
    X, y = noisy(np.random.default_rng(0), 200, 0.1)
    with pytest.raises(LabelError, match="names a label that the training data does not have; got 'L9'"):
        CRF(c2=c2, class_weight={"L9": 2.0}).fit(X, y)


def test_settings_are_kept_shown_and_cloned(tmp_path: Path) -> None:
    X, y = noisy(np.random.default_rng(0), 100, 0.1)
    model = CRF(c2=0.1, class_weight={"L1": 3})
    assert repr(model) == "CRF(c2=0.1, class_weight={'L1': 3})"
    assert CRF(**model.get_params()).class_weight is model.class_weight
    model.fit(X, y).save(tmp_path / "m.bridle")
    again = bridle.load(tmp_path / "m.bridle")
    assert again.get_params()["class_weight"] == {"L1": 3.0}
    assert again.fit(X, y).fingerprint_ == model.fingerprint_
    assert pickle.loads(pickle.dumps(model)).class_weight == {"L1": 3}


def test_tuning_and_folds_weigh_too() -> None:
    X, y = noisy(np.random.default_rng(0), 150, 0.3)
    plain, weighted = (CRF(class_weight=w, iterations=5, folds=2).fit(X, y) for w in (None, {"L1": 5.0}))
    assert plain.tuning_ is not None and weighted.tuning_ is not None
    assert plain.tuning_.trials[0].quality != weighted.tuning_.trials[0].quality
