"""Passes of the learners that are driven by mistakes, step by step against slow twins."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from bridle.features import Encoded
from bridle.models.perceptron import Local, Perceptron
from bridle.models.task import Task
from learning import Case, Floats, random_case, random_task
from strategies import seeds


class Slow:
    """The twin of a learner: weights after every step, kept."""

    def __init__(self, case: Case, pair_free: npt.NDArray[np.uint8] | None, start: Floats) -> None:
        m = case.layout.m
        self.case, self.pair_free, self.w, self.pair = case, pair_free, start.copy(), np.zeros((m, m))
        self.history: list[tuple[Floats, Floats]] = []

    def keep(self) -> None:
        self.history.append((self.w.copy(), self.pair.copy()))

    @property
    def mean(self) -> tuple[Floats, Floats]:
        return np.mean([w for w, _ in self.history], axis=0), np.mean([p for _, p in self.history], axis=0)

    def move(self, low: int, labels: npt.NDArray[Any], by: float) -> None:
        """w += by * F(x, labels)."""
        for k, y in enumerate(labels.tolist()):
            self.case.add(self.w, low + k, {y: by}, "only")
            if self.pair_free is not None and k and self.pair_free[labels[k - 1], y]:
                self.pair[labels[k - 1], y] += by

    def sequence(self, b: int) -> int:
        low, high = self.case.parts[b]
        gold, guess = self.case.y[low:high], self.best(low, high)
        self.move(low, gold, 1)
        self.move(low, guess, -1)
        self.keep()
        return int((gold != guess).sum())

    def best(self, low: int, high: int) -> npt.NDArray[Any]:
        """Among the best labellings the one that is smallest when read from its end."""
        unary, m = self.case.unary(self.w)[low:high], self.case.layout.m
        pair = self.pair if self.pair_free is not None else np.zeros((m, m))
        scored = [
            (unary[range(len(p)), p].sum() + sum(pair[i, j] for i, j in itertools.pairwise(p)), p)
            for p in (list(reversed(q)) for q in itertools.product(range(m), repeat=high - low))
        ]
        return np.array(max(scored, key=lambda one: one[0])[1], dtype=np.int64)

    def token(self, t: int, winnow: bool, margin: float, rate: float) -> tuple[int, int]:
        """(wrong, updated)"""
        gold, score = int(self.case.y[t]), self.case.unary(self.w)[t]
        other = max((y for y in range(len(score)) if y != gold), key=lambda y: score[y])
        wrong, close = int(np.argmax(score)) != gold, score[gold] - score[other] <= margin
        if close and winnow:
            for a, _ in self.case.entries(t):
                for label, factor in ((gold, 1 + rate), (other, 1 / (1 + rate))):
                    s = self.case.slot[a, label]
                    if s >= 0 and (self.case.layout.free is None or self.case.layout.free[s]):
                        self.w[s] *= factor
        elif close:
            self.case.add(self.w, t, {gold: rate, other: -rate}, "only")
        self.keep()
        return wrong, close


def _slow(case: Case, learner: Any) -> Slow:
    return Slow(case, learner._task.pair_free, learner._w)


def _same(learner: Any, slow: Slow) -> None:
    np.testing.assert_allclose(learner._w, slow.w, rtol=1e-10, atol=1e-10)
    mean, mean_pair = slow.mean
    found, found_pair = learner.weights()
    np.testing.assert_allclose(found, mean, rtol=1e-10, atol=1e-10)
    assert (found_pair is None) == (slow.pair_free is None)
    if found_pair is not None:
        np.testing.assert_allclose(found_pair, mean_pair, rtol=1e-10, atol=1e-10)


def test_structured_perceptron_step_by_step() -> None:
    for rng in seeds(50, 7):
        m = int(rng.integers(2, 8))  # from 5 on there are lists beside full rows
        case = random_case(rng, m, kind="seen", longest=3, values="whole")  # whole numbers: ties are ties
        learner = Perceptron(random_task(case, rng), average="averaged", seed=3)
        case = Case(case.encoded, case.y, learner._task.layout)
        slow = _slow(case, learner)
        again = Perceptron(learner._task, average="averaged", seed=3)
        for _ in range(3):
            wrong = 0
            for b in learner._order(len(case.encoded)).tolist():
                guess = slow.best(*case.parts[b]).astype(np.int32)
                found = again._native.perceptron_update(learner._task.joined, b, guess)
                assert found == slow.sequence(b)
                wrong += found
            assert learner.step() == pytest.approx(wrong / max(case.encoded.n_tokens, 1))
            assert (learner.finished is not None) == (wrong == 0)
            _same(learner, slow)
            _same(again, slow)


@pytest.mark.parametrize("algorithm", ["perceptron", "winnow"])
def test_local_learners_step_by_step(algorithm: str) -> None:
    winnow = algorithm == "winnow"
    for rng in seeds(50, 8):
        case = random_case(rng, int(rng.integers(2, 10)), kind="seen", values="whole")
        margin, rate = float(rng.choice([0.0, 1.0, 2.5])), float(rng.choice([0.5, 1.0]))
        if winnow and case.encoded.values is not None:  # which takes no negative ones
            np.abs(case.encoded.values, out=case.encoded.values)
        task = Task.of(case.encoded, case.y, (7, case.layout.m), str(rng.choice(["seen", "all"])), bigram=False)
        learner = Local(task, winnow=winnow, margin=margin, rate=rate, average="averaged", seed=5)
        slow = _slow(Case(case.encoded, case.y, task.layout), learner)
        for _ in range(3):
            if not case.encoded.n_tokens:
                continue
            steps = [slow.token(t, winnow, margin, rate) for t in learner._order(case.encoded.n_tokens).tolist()]
            wrong, updates = (sum(column) for column in zip(*steps, strict=True))
            assert learner.step() == pytest.approx(wrong / case.encoded.n_tokens)
            assert (learner.finished is not None) == (updates == 0)
            _same(learner, slow)


def test_winnow_cannot_overflow() -> None:
    """One attribute with two labels: every step multiplies by a thousand million, up to a limit."""
    encoded = Encoded(np.array([0, 2]), np.arange(3), np.zeros(2, dtype=np.int32))
    task = Task.of(encoded, np.array([0, 1], dtype=np.int32), (1, 3), "all", bigram=False)
    learner = Local(task, winnow=True, margin=1e13, rate=1e9, average="averaged", seed=0)
    for _ in range(50):
        learner.step()
        assert learner._w.max() <= 1e12
    assert np.isfinite(learner.weights()[0]).all()
