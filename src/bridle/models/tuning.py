"""How strong regularisation should be: chosen by cross-validation on the training data.

    path      c2 = 3, 1, 0.3, 0.1, 0.03, 0.01 with c1 = 0, each fold going on from the weights of the value before;
              it ends when two values in a row are worse than the best one
    then      c1 = 0.3, 0.1, 0.03 with the best c2
    measure   the mean quality of held-out sequences (report/sequences.py): half for sequences that are all right, half
              for the F1 of their segments; or another measure that `fit` was asked for

Accuracy alone, or F1 alone, chose a little worse; `bridle reproduce learned-rules` compares what is chosen with fixed
values. A small L1 term helps on small sets with many features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import inf, log
from time import perf_counter
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bridle.deadline import OutOfTime
from bridle.errors import ModelError
from bridle.lattice import Batch
from bridle.models.crossfit import FoldedTask
from bridle.models.measures import TITLES
from bridle.models.task import Found, Task

C2_PATH = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
C1_PATH = (0.3, 0.1, 0.03)
USUAL = 0.1  # c2 if nothing can be compared; among equals, the value nearest to it
MOST_TOKENS = 100_000  # of larger data, a sample is looked at
FEWEST = 16  # sequences with different features below which nothing is compared

# Learns with these strengths: task, c1, c2, the weights to begin with -> weights, iterations. May raise OutOfTime.
Fit = Callable[[Task, float, float, Found | None], tuple[Found, int]]
Decode = Callable[[Batch], npt.NDArray[np.integer]]


@dataclass(frozen=True, slots=True)
class Trial:
    """How good one strength of regularisation is on held-out sequences.

    Attributes
    ----------
    c1, c2 : float
        Strength of L1 and L2 regularisation.
    quality : float
        Mean of `exact` and of the F1 of each sequence: what decides, unless `fit` got another `measure`.
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
    """

    c1: float
    c2: float
    quality: float
    exact: float
    f1: float
    accuracy: float
    iterations: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Tuning:
    """What was compared to choose the strength of regularisation.

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
        What decided: ``"quality"``, or the `measure` of `fit`.
    """

    c1: float
    c2: float
    trials: tuple[Trial, ...]
    folds: int
    sequences: int
    why: str
    measure: str = "quality"

    def to_dict(self) -> dict[str, Any]:
        """Convert to what JSON can hold.

        Returns
        -------
        dict
            All attributes by name.
        """
        return asdict(self) | {"trials": [asdict(trial) for trial in self.trials]}

    @classmethod
    def restored(cls, head: Any) -> Self:
        """From a file; what makes no sense raises TypeError or ValueError."""
        made = cls(**{**head, "trials": tuple(Trial(**trial) for trial in head["trials"])})
        numbers = [made.c1, made.c2, *(x for trial in made.trials for x in asdict(trial).values())]
        if any(type(x) not in (int, float) or not 0 <= x < inf for x in numbers):
            raise ValueError("a strength or a share is not a number")
        if type(made.folds) is not int or type(made.sequences) is not int or type(made.why) is not str:
            raise ValueError("the counts of the tuning make no sense")
        if made.measure not in TITLES:
            raise ValueError("the measure of the tuning is unknown")
        return made

    @classmethod
    def untried(cls, c1: float | None, c2: float | None, sequences: int, why: str) -> Self:
        """The usual strengths, as nothing can be compared."""
        return cls(c1 or 0.0, USUAL if c2 is None else c2, (), 0, sequences, why)


class _Trials:
    """What was tried, and the held-out scores of the best."""

    def __init__(
        self, folded: FoldedTask, fit: Fit, decode: Decode, measure: str, watch: Callable[[Trial], None] | None
    ) -> None:
        self._folded, self._fit, self._decode, self._measure, self._watch = folded, fit, decode, measure, watch
        self._weights: list[Found | None] = [None] * len(folded.tasks)  # of each fold, to go on from
        self.done: list[Trial] = []
        self.best: Trial | None = None
        self.scores: list[Batch] = []  # of the best

    def add(self, c1: float, c2: float) -> None:
        """Try these strengths."""
        begun, iterations = perf_counter(), 0

        def learn(fold: int, task: Task, sequences: npt.NDArray[np.int64]) -> Found:
            nonlocal iterations
            found, n = self._fit(task, c1, c2, self._weights[fold])
            self._weights[fold] = found
            iterations += n
            return found

        scores = self._folded.scores(learn, "raw")
        shares = self._folded.compare(scores, self._decode).to_dict()
        trial = Trial(c1, c2, **shares, iterations=iterations, seconds=round(perf_counter() - begun, 3))
        self.done.append(trial)
        if self.best is None or self._rank(trial) > self._rank(self.best):
            self.best, self.scores = trial, scores
        if self._watch is not None:
            self._watch(trial)

    def _rank(self, trial: Trial) -> tuple[float, float]:
        """The best by the measure; among equals, what is nearest to the usual c2."""
        return getattr(trial, self._measure), -abs(log(max(trial.c2, 1e-9) / USUAL))

    def start_anew(self) -> None:
        """The next trial begins without weights."""
        self._weights = [None] * len(self._weights)

    def fell_twice(self) -> bool:
        """Were the last two worse than the best?"""
        return len(self.done) > 2 and self.best not in self.done[-2:]


def tune(
    folded: FoldedTask,
    fit: Fit,
    decode: Decode,
    *,
    c1: float | None,
    measure: str = "quality",
    watch: Callable[[Trial], None] | None = None,
) -> tuple[Tuning, list[Batch]]:
    """Choose c2, and c1 if it is None; with the held-out scores of the best, none if the time was up before."""
    trials, why = _Trials(folded, fit, decode, measure, watch), "all values were tried"
    try:
        for strength in C2_PATH:
            if c1:
                trials.start_anew()  # OWL-QN gets further from zero than from weights that are not
            trials.add(c1 or 0.0, strength)
            if trials.fell_twice():
                why = "two values in a row were worse than the best"
                break
        if c1 is None and trials.best is not None:
            smooth = trials.best.c2
            for strength in C1_PATH:
                trials.start_anew()
                trials.add(strength, smooth)
    except OutOfTime:
        why = "the time was up"
    except ModelError as error:  # weights that grow beyond all bounds
        if trials.best is None:
            raise
        why = error.what
    n, best = len(folded.encoded), trials.best
    if best is None:
        return Tuning.untried(c1, None, n, why), []
    return Tuning(best.c1, best.c2, tuple(trials.done), len(folded.tasks), n, why, measure), trials.scores
