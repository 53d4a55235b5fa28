"""Tuning: the strength of regularisation, chosen by cross-validation on the training data.

    path      c2 = 3, 1, 0.3, 0.1, 0.03, 0.01 with c1 = 0, each fold going on from the weights of the value before;
              it ends when two values in a row are worse than the best one
    then      c1 = 0.3, 0.1, 0.03 with the best c2
    measure   the mean quality of held-out sequences (report/sequences.py): half for sequences that are all right, half
              for the F1 of their segments; or another measure that `fit` was asked for

Accuracy alone, or F1 alone, chose a little worse; `bridle reproduce learned-rules` compares what is chosen with fixed
values. A small L1 term helps on small sets with many features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import inf, log
from pathlib import Path
from typing import Any, Self

import numpy as np

from bridle.deadline import OutOfTime
from bridle.errors import ModelError
from bridle.features import Encoded
from bridle.lattice import Batch
from bridle.models import files
from bridle.models.folds import FoldedExamples
from bridle.models.linear import Ints, Weights
from bridle.models.task import Learner, Task
from bridle.models.training import TITLES, Plan

C2_PATH = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
C1_PATH = (0.3, 0.1, 0.03)
USUAL = 0.1  # c2 if nothing can be compared; among equals, the value nearest to it
MOST_TOKENS = 100_000  # of larger data, a sample is looked at
FEWEST = 16  # sequences with different features below which nothing is compared


@dataclass(frozen=True, slots=True)
class Trial:
    """Scores of one strength of regularisation on held-out sequences.

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
        """Restore from a file; raise TypeError or ValueError if the values are impossible."""
        tuning = cls(**{**head, "trials": tuple(Trial(**trial) for trial in head["trials"])})
        numbers = [tuning.c1, tuning.c2, *(x for trial in tuning.trials for x in asdict(trial).values())]
        if any(type(x) not in (int, float) or not 0 <= x < inf for x in numbers):
            raise ValueError("a strength or a share is not a number")
        if type(tuning.folds) is not int or type(tuning.sequences) is not int or type(tuning.why) is not str:
            raise ValueError("the counts of the tuning are impossible")
        if tuning.measure not in TITLES:
            raise ValueError("the measure of the tuning is unknown")
        return tuning

    @classmethod
    def from_checkpoint(cls, path: Path) -> Self | None:
        """Read what was chosen before training was interrupted; `train` says what is wrong with a bad file."""
        try:
            return cls.restored(files.open_file(path).head["identity"]["tuning"])
        except files.UNFIT:
            return None

    @classmethod
    def untried(cls, c1: float | None, c2: float | None, sequences: int, why: str) -> Self:
        """Take the usual strengths where nothing can be compared."""
        return cls(c1 or 0.0, USUAL if c2 is None else c2, (), 0, sequences, why)


def sample_of(encoded: Encoded, seed: int) -> Ints:
    """Return the numbers of all sequences; of large data, of as many as there is time for."""
    if encoded.n_tokens <= MOST_TOKENS:
        return np.arange(len(encoded))
    order = np.random.default_rng(seed).permutation(len(encoded))
    enough = int(np.searchsorted(np.cumsum(np.diff(encoded.offsets)[order]), MOST_TOKENS))
    return np.sort(order[: max(enough, FEWEST)])


def tune(
    folded: FoldedExamples,
    learner: Callable[[Task, float, float, Weights | None], Learner],
    plan: Plan,
    *,
    c1: float | None,
    measure: str,
    threads: int,
    watch: Callable[[Trial], None] | None,
) -> tuple[Tuning, list[Batch]]:
    """Choose c2, and c1 if it is None; return the held-out scores of the best too, none if the time was up before.

    learner: makes a learner from a task, c1, c2 and the weights to begin with. The plan may raise `OutOfTime`.
    """
    trials: list[Trial] = []
    cold: list[Weights | None] = [None] * len(folded.tasks)
    best: Trial | None = None
    batches: list[Batch] = []

    def rank(trial: Trial) -> tuple[float, float]:
        return getattr(trial, measure), -abs(log(max(trial.c2, 1e-9) / USUAL))

    def add(c1: float, c2: float, start: Sequence[Weights | None]) -> Sequence[Weights]:
        nonlocal best, batches
        run = folded.run(lambda fold, task, _: learner(task, c1, c2, start[fold]), plan)
        trial = Trial(c1, c2, **folded.figures(run, threads))
        trials.append(trial)
        if best is None or rank(trial) > rank(best):
            best, batches = trial, run.batches
        if watch is not None:
            watch(trial)
        return run.weights

    why, start = "all values were tried", cold
    try:
        for c2 in C2_PATH:
            weights = add(c1 or 0.0, c2, start)
            start = cold if c1 else [*weights]  # OWL-QN gets further from zero than from weights that are not
            if len(trials) > 2 and best not in trials[-2:]:
                why = "two values in a row were worse than the best"
                break
        if c1 is None and best is not None:
            smooth = best.c2
            for strength in C1_PATH:
                add(strength, smooth, cold)
    except OutOfTime:
        why = "the time was up"
    except ModelError as error:  # weights that grow beyond all bounds
        if best is None:
            raise
        why = error.what
    n = len(folded.sequences)
    if best is None:
        return Tuning.untried(c1, None, n, why), []
    return Tuning(best.c1, best.c2, tuple(trials), len(folded.tasks), n, why, measure), batches
