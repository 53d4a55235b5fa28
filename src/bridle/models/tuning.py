"""Tuning: the strength of regularisation, chosen on held-out halves of the training data.

    halves    each half of the sequences is labelled by models that learned from the other
    middle    c1 = c2 = 0.1, trained to the end, which takes I iterations
    rung 1    its NEIGHBOURS, each from the weights of the middle, I / 5 iterations
    rung 2    the best three of them, 3 I / 10 iterations more
    beyond    if the best is the end of a row, one step further, I / 2 iterations
    measure   the share of right tokens, the mean over held-out sequences; or another measure that `fit` was asked for

Sequences that are all right, or the F1 of segments, are what people want, but they vary more from sample to sample: on
ten data sets, strengths chosen by them did worse by them than those chosen by the share of right tokens.

The budget is counted in iterations: less than five trainings on all of the data. No clock is read, and every model has
a thread of its own, so that the choice is the same on a busy machine and with any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf, log
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from bridle.deadline import OutOfTime
from bridle.decoding.threads import over_parts
from bridle.features import Encoded
from bridle.models import files
from bridle.models.folds import FoldedExamples, FoldRun
from bridle.models.linear import Ints, Weights
from bridle.models.task import Learner, Task
from bridle.models.training import TITLES, Plan

Strength = tuple[float, float]  # c1, c2
MIDDLE: Strength = (0.1, 0.1)  # where the search begins, and what is used if nothing can be compared
NEIGHBOURS: tuple[Strength, ...] = ((0, 1), (0, 0.1), (0, 0.01), (0.1, 0.01), (0.03, 0.1), (0.03, 0.03), (0.3, 0.03))
BEYOND: dict[Strength, Strength] = {(0, 1): (0, 3), (0, 0.01): (0, 0.003), (0.3, 0.03): (1, 0.03)}
C2_ROW = (1.0, 0.3, 0.03, 0.01)  # beside 0.1, where c1 is given
HALVES = 2
DECIDES = "mean_accuracy"  # the figure of a trial, unless `fit` got another measure
FINALISTS = 3
MOST_TOKENS = 100_000  # of larger data, a sample is looked at
FEWEST = 16  # sequences with different features below which nothing is compared
OUT_OF_TIME = "the time was up"
C = TypeVar("C", bound=Hashable)


class TuningTimeWarning(UserWarning):
    """The time limit ended a search for settings: what was chosen depends on how busy the machine was."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Scores of one strength of regularisation on held-out sequences.

    Attributes
    ----------
    c1, c2 : float
        Strength of L1 and L2 regularisation.
    quality : float
        Mean of `exact` and of the F1 of each sequence.
    exact : float
        Share of the sequences with no wrong label.
    f1 : float
        F1 of all segments.
    accuracy : float
        Share of the tokens with the right label.
    iterations : int
        Iterations of all folds together.
    seconds : float
        Time that it took.
    rung : int
        0 for the middle, 1 or 2 for a rung, 3 for a step beyond.
    mean_accuracy : float
        Mean over the sequences of the share of their tokens that are right: decides, unless `fit` got another measure.
    """

    c1: float
    c2: float
    quality: float
    exact: float
    f1: float
    accuracy: float
    iterations: int
    seconds: float
    rung: int = 0
    mean_accuracy: float = 0.0


@dataclass(frozen=True, slots=True)
class Tuning:
    """Comparison of strengths of regularisation, and the choice.

    Attributes
    ----------
    c1, c2 : float
        The strengths that were chosen.
    trials : tuple of Trial
        All that were compared, in order.
    folds : int
        Number of folds; 0 if nothing was compared.
    sequences : int
        Number of sequences that were looked at.
    why : str
        Why it ended.
    measure : str
        What decided: ``"mean_accuracy"``, or the `measure` of `fit`.
    """

    c1: float
    c2: float
    trials: tuple[Trial, ...]
    folds: int
    sequences: int
    why: str
    measure: str = "quality"  # as older versions, which did not say so

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes by name, for JSON."""
        return asdict(self) | {"trials": [asdict(trial) for trial in self.trials]}

    @classmethod
    def restored(cls, head: Any) -> Self:
        """Restore from a file; raise TypeError or ValueError if the values are impossible."""
        tuning = cls(**{**head, "trials": tuple(Trial(**trial) for trial in head["trials"])})
        numbers = [tuning.c1, tuning.c2, *(x for trial in tuning.trials for x in asdict(trial).values())]
        if any(type(x) not in (int, float) or not 0 <= x < inf for x in numbers):
            raise ValueError("a strength or a share is not a number")
        if type(tuning.folds) is not int or type(tuning.sequences) is not int or type(tuning.why) is not str:
            raise ValueError("the counts of the tuning are impossible")
        if tuning.measure not in (DECIDES, *TITLES):
            raise ValueError("the measure of the tuning is unknown")
        return tuning

    @classmethod
    def from_checkpoint(cls, path: Path) -> Self | None:
        """Read what was chosen before training was interrupted; `train` says what is wrong with a bad file."""
        try:
            return cls.restored(files.open_file(path).head["identity"]["tuning"])
        except files.UNFIT:
            return None

    def time_was_up(self, seconds: float | None) -> str:
        """Return what to say if the time limit ended the search."""
        tried = f"after {len(self.trials)} comparisons" if self.trials else "before anything was compared"
        used = f"c1 = {self.c1:g} and c2 = {self.c2:g} are used"
        return (
            f"tuning_seconds={seconds:g} ended the search for c1 and c2 {tried}; {used}. "
            "The choice depends on how busy the machine is; without the limit it does not."
        )

    @classmethod
    def untried(cls, c1: float | None, c2: float | None, sequences: int, why: str) -> Self:
        """Take the usual strengths where nothing can be compared."""
        usual = MIDDLE if c1 is None and c2 is None else (0.0, MIDDLE[1])
        return cls(usual[0] if c1 is None else c1, usual[1] if c2 is None else c2, (), 0, sequences, why)


def sample_of(encoded: Encoded, seed: int) -> Ints:
    """Return the numbers of all sequences; of large data, of as many as there is time for."""
    if encoded.n_tokens <= MOST_TOKENS:
        return np.arange(len(encoded))
    order = np.random.default_rng(seed).permutation(len(encoded))
    enough = int(np.searchsorted(np.cumsum(np.diff(encoded.offsets)[order]), MOST_TOKENS))
    return np.sort(order[: max(enough, FEWEST)])


def halve(
    candidates: Sequence[C],
    rungs: Iterable[tuple[int, int]],
    score: Callable[[list[C], int, int], Iterable[tuple[C, Any]]],
) -> tuple[dict[C, Any], str]:
    """Score candidates on rungs, of which the best go on; return the scores of the last whole rung, and why it ended.

    rungs: how many candidates go on, and the size of the rung. score: of candidates, on a rung with this number, from
    1, and size. If it runs out of time on the first rung, the scores so far are returned.
    """
    left, place = list(candidates), {candidate: k for k, candidate in enumerate(candidates)}
    done: dict[C, Any] = {}
    for rung, (going_on, size) in enumerate(rungs, 1):
        scores: dict[C, Any] = {}
        try:
            scores.update(score(left, rung, size))  # what is there before it raises is kept
        except OutOfTime:
            return done or scores, OUT_OF_TIME
        left = sorted(scores, key=lambda candidate: (scores[candidate], -place[candidate]), reverse=True)[:going_on]
        done = {candidate: scores[candidate] for candidate in left}
    return done, "all rungs done"


class _Halves:
    """Models that learn from one half and label the other."""

    def __init__(
        self,
        folded: FoldedExamples,
        learner: Callable[[Task, Strength, Weights | None], Learner],
        plan: Plan,
        measure: str,
        threads: int,
        watch: Callable[[Trial], None] | None,
    ) -> None:
        self._folded, self._learner, self._plan, self._measure = folded, learner, plan, measure
        self._threads, self._watch = threads, watch
        self.trials: list[Trial] = []
        self.runs: dict[Strength, FoldRun] = {}  # the last of each

    def score(
        self, strengths: Sequence[Strength], rung: int, iterations: int, start: Strength | None = None
    ) -> Iterator[tuple[Strength, tuple[float, float]]]:
        """Train strengths, new ones from the weights of `start`, and yield a key to sort them by."""
        plan, folds = replace(self._plan, iterations=iterations), range(len(self._folded.tasks))
        side_by_side = max(self._threads // len(folds), 1)
        for first in range(0, len(strengths), side_by_side):
            group = strengths[first : first + side_by_side]

            def work(k: int, fold: int, stop: Any, group: Sequence[Strength] = group) -> FoldRun:
                before = self.runs.get(group[k], self.runs.get(start or group[k]))
                weights = None if before is None else before.weights[fold]
                return self._folded.run_fold(fold, lambda _, task, given: self._learner(task, group[k], weights), plan)

            done = over_parts(work, [(k, fold) for k in range(len(group)) for fold in folds], self._threads)
            for k, strength in enumerate(group):
                run = FoldRun.joined(done[len(folds) * k : len(folds) * (k + 1)])
                self.runs[strength] = run._replace(batches=[])
                scores, effort = self._folded.scored(run, self._threads)
                accuracy = float((scores.right / np.maximum(scores.lengths, 1)).mean())
                shares: dict[str, Any] = {**scores.to_dict(), **effort, "mean_accuracy": accuracy}
                trial = Trial(*strength, **shares, rung=rung)
                self.trials.append(trial)
                if self._watch is not None:
                    self._watch(trial)
                distance = sum(abs(log((c + 0.01) / (usual + 0.01))) for c, usual in zip(strength, MIDDLE, strict=True))
                yield strength, (getattr(trial, self._measure), -distance)


def tune(
    folded: FoldedExamples,
    learner: Callable[[Task, Strength, Weights | None], Learner],
    plan: Plan,
    *,
    c1: float | None,
    measure: str,
    threads: int,
    watch: Callable[[Trial], None] | None,
) -> Tuning:
    """Choose c2, and c1 if it is None.

    folded: halves. learner: makes a learner with one thread from a task, strengths and the weights to begin with. plan:
    of one training; it may raise `OutOfTime`.
    """
    middle, others = (MIDDLE, NEIGHBOURS) if c1 is None else ((c1, MIDDLE[1]), [(c1, c2) for c2 in C2_ROW])
    halves, n = _Halves(folded, learner, plan, measure, threads, watch), len(folded.sequences)
    try:
        keys = dict(halves.score([middle], 0, plan.iterations))
    except OutOfTime:
        return Tuning.untried(c1, None, n, OUT_OF_TIME)
    whole = halves.runs[middle].iterations // HALVES
    rungs = [(FINALISTS, max(whole // 5, 5)), (FINALISTS, max(3 * whole // 10, 5))]
    finalists, why = halve(others, rungs, lambda left, rung, size: halves.score(left, rung, size, middle))
    keys |= finalists
    best = max(keys, key=keys.__getitem__)
    if why != OUT_OF_TIME and c1 is None and best in BEYOND:
        further, ended = halve(
            [BEYOND[best]], [(1, max(whole // 2, 5))], lambda left, _, size: halves.score(left, 3, size, best)
        )
        keys |= further
        why = ended if ended == OUT_OF_TIME else why
        best = max(keys, key=keys.__getitem__)
    return Tuning(*best, tuple(halves.trials), len(folded.tasks), n, why, measure)
