"""Passes of the learners that are driven by mistakes, step by step against slow twins."""

from __future__ import annotations

import _thread
import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from numpy.random import Generator

from bridle import rules as r
from bridle.decoding.decoder import Decoder
from bridle.errors import BridleError, GivenError, LatticeError
from bridle.features import Encoded
from bridle.labels import Labels
from bridle.lattice import Lattice
from bridle.models.perceptron import Local, Perceptron
from bridle.models.task import Task
from learning import Case, Floats, random_case, random_task
from strategies import RULE_KINDS, TEXT_COLUMNS, Values, random_labels, random_rule, random_soft, seeds


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
        """Among the best labellings, the smallest when read from its end wins."""
        unary, m = self.case.unary(self.w)[low:high], self.case.layout.m
        pair = self.pair if self.pair_free is not None else np.zeros((m, m))
        scored = [
            (unary[range(len(p)), p].sum() + sum(pair[i, j] for i, j in itertools.pairwise(p)), p)
            for p in (list(reversed(q)) for q in itertools.product(range(m), repeat=high - low))
        ]
        return np.array(max(scored, key=lambda item: item[0])[1], dtype=np.int64)

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
    result, found_pair, _ = learner.weights()
    np.testing.assert_allclose(result, mean, rtol=1e-10, atol=1e-10)
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
                result = again._native.perceptron_update(learner._task.joined, b, guess)
                assert result == slow.sequence(b)
                wrong += result
            assert learner.step() == pytest.approx(wrong / max(case.encoded.n_tokens, 1))
            assert (learner.finished is not None) == (wrong == 0)
            _same(learner, slow)
            _same(again, slow)


# ---- under rules ----------------------------------------------------------------------------------------------------


class SlowUnderRules(Perceptron):
    """The twin: each sequence is scored and decoded separately, in Python."""

    def __init__(self, task: Task, decoder: Decoder, given: Sequence[Values] | None, seed: int) -> None:
        super().__init__(task, average="averaged", seed=seed)
        self.by, self.its = decoder, given
        self.statuses: set[str] = set()

    def step(self) -> float:
        return self._ended(sum(map(self.sequence, self._order(len(self._task.encoded)).tolist())), "no mistakes left")

    def sequence(self, b: int) -> int:
        low, high = self._task.encoded.offsets[b : b + 2].tolist()
        unary = np.empty((high - low, self._task.m))
        self._task.joined.score(low, self._w, unary)
        result = self.by.decode(Lattice(unary, self._pair), None if self.its is None else self.its[b])
        self.statuses.add(result.status)
        return self._native.perceptron_update(self._task.joined, b, np.array(result.ids, dtype=np.int32))


def identical(a: Perceptron, b: Perceptron) -> None:
    mine, other = a.state(), b.state()
    assert mine.keys() == other.keys()
    for name, array in mine.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


def another(rng: Generator, given: Mapping[str, Any], n: int, labels: Labels) -> Values:
    """Values of the same kinds for a sequence of n tokens."""

    def like(value: Any) -> Any:
        match value:
            case str():
                return str(rng.choice(labels.names))
            case int():
                return int(rng.integers(-n, n))
            case tuple():  # a span
                return tuple(sorted(rng.integers(0, n + 1, 2).tolist()))
            case list():
                return [like(item) for item in value]
        return rng.integers(-n, n, len(value)) if value.ndim == 1 and n else value

    def texts() -> list[str]:
        return [str(text) for text in rng.choice(["a", "b7", "12345", "x/y"], n)]

    return {name: texts() if name in TEXT_COLUMNS else like(value) for name, value in given.items()}


def ruled(rng: Generator, kinds: Sequence[str], count: int = 8) -> tuple[Task, Decoder, list[Values]]:
    """Sequences with gold labels, rules of these kinds, hard or soft, and what comes with the sequences."""
    labels, shortest, given = random_labels(rng), int(rng.integers(0, 3)), dict[str, Any]()
    rules = [random_rule(rng, labels, shortest, given, 1, kind)[0] for kind in kinds]
    rules = [random_soft(rng, rule) if rng.random() < 0.4 else rule for rule in rules]
    values = str(rng.choice(["any", "whole"]))  # whole numbers: many labellings score the same
    sizes = {"shortest": shortest, "longest": shortest + int(rng.integers(0, 5)), "sequences": count}
    case = random_case(rng, len(labels), kind="seen", values=values, **sizes)
    lengths = np.diff(case.encoded.offsets).tolist()
    its = [another(rng, given, n, labels) for n in lengths]
    return random_task(case, rng), Decoder(labels, rules, on_infeasible="relax"), its


def both(task: Task, decoder: Decoder, given: Sequence[Values] | None) -> Iterator[tuple[Perceptron, SlowUnderRules]]:
    """A learner and its twin, after each of three passes in which they did exactly the same."""
    learner = Perceptron(task, average="averaged", seed=4, decoder=decoder, given=given)
    slow = SlowUnderRules(task, decoder, given, 4)
    for _ in range(3):
        assert learner.step() == slow.step()
        identical(learner, slow)
        yield learner, slow


@pytest.mark.parametrize("kind", RULE_KINDS)
def test_training_under_rules_sequence_by_sequence(kind: str) -> None:
    other = list(RULE_KINDS)
    for rng in seeds(12, 9):
        task, decoder, given = ruled(rng, [kind, *rng.choice(other, int(rng.integers(0, 3)))])
        for _ in both(task, decoder, given):
            pass


def test_training_under_rules_meets_every_status() -> None:
    """Some sequences are too short for the rules, some are empty, in some soft rules are violated."""
    labels = Labels(["O", "A", "B"])
    rules = [
        r.at_least(2, of="A", count="tokens"),
        r.forbid("B", at=r.tokens("x")),
        r.at_most(1, of="B", count="tokens").soft(0.5, "violation"),
        r.starts_with("O").soft(1.5, "sequence"),
    ]
    for rng in seeds(10, 10):
        case = random_case(rng, 3, kind="seen", longest=4, sequences=30)
        given = [{"tokens": rng.choice(["x", "y"], n).tolist()} for n in np.diff(case.encoded.offsets).tolist()]
        decoder = Decoder(labels, rules, on_infeasible="relax")
        for _, slow in both(random_task(case, rng), decoder, given):
            assert slow.statuses == {"optimal", "relaxed"}


def test_training_under_masks_alone() -> None:
    for rng in seeds(10, 11):
        case = random_case(rng, 3, kind="seen", sequences=20)
        decoder = Decoder(["B-X", "I-X", "O"], [r.well_formed()], on_infeasible="relax")
        assert decoder.plan.engine == "viterbi"
        for _ in both(random_task(case, rng), decoder, None):
            pass


def test_training_under_rules_goes_on_from_a_state() -> None:
    for rng in seeds(10, 12):
        task, decoder, given = ruled(rng, ["AtMost", "AtLeast", "SameLabel"])
        built = [Perceptron(task, average="averaged", seed=1, decoder=decoder, given=given) for _ in range(2)]
        built[0].step()
        built[1].restore({name: array.copy() for name, array in built[0].state().items()})
        for learner in built:
            learner.step()
        identical(*built)


def test_errors_of_training_under_rules_name_the_sequence() -> None:
    case = random_case(np.random.default_rng(2), 2, kind="all", shortest=1, sequences=3, values="whole")
    task = Task.of(case.encoded, case.y, (7, 2), "all", bigram=True)

    def failure(given: list[Values] | None, kind: type[BridleError], spoil: bool = False) -> int | None:
        decoder = Decoder(["X", "Y"], [r.forbid("Y", at=r.given("v"))] if given else [r.at_most(1, of="X")])
        with pytest.raises(kind) as caught:
            learner = Perceptron(task, average="last", seed=0, decoder=decoder, given=given)
            if spoil and learner._pair is not None:
                learner._pair[0, 0] = 1e291
            learner.step()
        return caught.value.sequence

    assert failure([{"v": 0}, {"v": 0}, {}], GivenError) == 2
    order = Perceptron(task, average="last", seed=0)._order(3)
    assert failure(None, LatticeError, spoil=True) == order[0]


def test_training_under_rules_can_be_interrupted() -> None:
    rng = np.random.default_rng(0)
    case = random_case(rng, 2, kind="seen", shortest=5, values="whole")
    decoder = Decoder(["X", "Y"], [r.at_most(1, of="X")], on_infeasible="relax")
    learner = Perceptron(random_task(case, rng), average="last", seed=0, decoder=decoder)
    assert learner._rules is not None
    threading.Timer(0.05, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):  # before the end of a pass of a minute
        learner._native.perceptron_pass_under_rules(
            learner._task.joined, learner._rules.native, np.zeros(50_000_000, dtype=np.int64)
        )
    learner.step()


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
