"""Training that can be watched, stopped and resumed: the loop around every learner, and the measures that decide.

f1        F1 of all segments together, as conlleval counts them
accuracy  share of the tokens with the right label
exact     share of the sequences with no wrong label
quality   mean over the sequences of (1 if all right, else 0) / 2 + F1 / 2  (report/sequences.py)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from bridle.errors import BridleError, LabelError, ModelError, ModelFileError
from bridle.labels import MISSING, Labels
from bridle.models import files
from bridle.models.checks import ids_of, of_dev
from bridle.models.linear import Array, Weights
from bridle.models.task import Examples, Ids, Learner, check_state
from bridle.report.sequences import SequenceScores

PERIOD = 10  # iterations over which the loss must fall
Measure = Literal["auto", "f1", "accuracy", "exact", "quality"]
# What each is called in messages; the keys of SequenceScores.to_dict().
TITLES = {"f1": "F1", "accuracy": "accuracy", "exact": "sequence accuracy", "quality": "quality"}
MEASURES = ("auto", *TITLES)
_NAMES = ("w", "pair", "edges")  # of weights in files


# ---- measures -------------------------------------------------------------------------------------------------------


class Judge(NamedTuple):
    """A measure of weights on the development set."""

    measure: str  # its name
    score: Callable[[Weights], float]  # from 0 to 1

    @classmethod
    def of(
        cls, dev: Examples, y: Sequence[Sequence[str | None]], measure: str, guess: Callable[[Weights], Ids]
    ) -> Judge:
        """Measure weights on a development set with the labels y. guess: the label ids that weights find."""
        labels, name = with_unknown(dev.labels, y), measure_of(measure, dev.labels)
        gold = ids_of(labels, y, dev.encoded.offsets, missing="allow")
        if not (gold != MISSING).any():
            got = "only missing labels" if len(gold) else "no tokens"
            raise ModelError("the development set is empty", got=got, wanted="at least one labelled token")

        def score(weights: Weights) -> float:
            with of_dev():
                guessed = guess(weights)
            return SequenceScores.of(labels, gold, guessed, dev.encoded.offsets).to_dict()[name]

        return cls(name, score)


def measure_of(measure: str, labels: Labels) -> str:
    """Resolve "auto": F1 if the labels make segments, otherwise accuracy.

    They make segments if they have a scheme, or an outside label: where most tokens are O, a model that finds nothing
    has a high accuracy.

    >>> measure_of("auto", Labels(["B-PER", "I-PER", "O"], "BIO")), measure_of("auto", Labels(["NN", "VB"]))
    ('f1', 'accuracy')
    """
    if measure != "auto":
        return measure
    return "f1" if labels.scheme is not None or "O" in labels else "accuracy"


def with_unknown(labels: Labels, y: Sequence[Sequence[str | None]]) -> Labels:
    """Append labels of a development set that training does not know: no guess has them."""
    unknown = sorted({name for name in chain.from_iterable(y) if name is not None}.difference(labels))
    if not unknown:
        return labels
    names = [*labels.names, *unknown]
    try:
        return Labels(names, labels.scheme)
    except LabelError:  # one does not fit the scheme: runs of labels are counted, as `bridle.report.score` does
        return Labels(names, None)


# ---- the loop -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """Progress of training after an iteration.

    Attributes
    ----------
    iteration, iterations : int
        Number of this iteration, from 1, and of the last one at most.
    loss : float
        What training lowers: the regularised negative log-likelihood, or the share of wrong tokens on the way.
    measure : str or None
        What is compared on the development set, such as ``"f1"``; None without one.
    score : float or None
        How good the model is on the development set, by this measure.
    seconds : float
        Time that this iteration took.
    best : bool
        True if this is the best model so far.
    """

    iteration: int
    iterations: int
    loss: float
    measure: str | None
    score: float | None
    seconds: float
    best: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """When to stop, what to show and what to keep."""

    iterations: int
    tolerance: float = 0.0  # stop when the loss falls by less than this share within PERIOD iterations
    patience: int | None = None  # stop after so many iterations that do not improve on the development set
    watch: Callable[[Step], None] | None = None
    checkpoint: Path | None = None
    every: int = 10
    resume: Path | None = None


@dataclass(slots=True)
class Progress:
    """Course of a training.

    Attributes
    ----------
    iteration : int
        Number of iterations done.
    losses : list of float
        The loss after each of them.
    best_score : float or None
        The best score on the development set, if there is one.
    best_iteration : int
        The iteration whose weights were kept.
    why : str or None
        Why training ended.
    measure : str or None
        What that score is, such as ``"f1"`` or ``"accuracy"``.
    """

    iteration: int = 0
    losses: list[float] = field(default_factory=list)
    best_score: float | None = None
    best_iteration: int = 0
    why: str | None = None
    measure: str | None = None

    @classmethod
    def restored(cls, head: Any) -> Self:
        """Restore from a file; raise TypeError or ValueError if the values are impossible."""
        if "best_accuracy" in head and "best_score" not in head:  # older versions knew no other measure
            before = head["best_accuracy"]
            others = {name: value for name, value in head.items() if name != "best_accuracy"}
            head = {"best_score": before, "measure": None if before is None else "accuracy", **others}
        progress = cls(**head)
        counts = (progress.iteration, progress.best_iteration)
        if any(type(n) is not int for n in counts) or not 0 <= progress.best_iteration <= progress.iteration:
            raise ValueError("the numbers of iterations are impossible")
        if type(progress.losses) is not list or len(progress.losses) != progress.iteration:
            raise ValueError("losses and iterations do not fit together")
        shares = [] if progress.best_score is None else [progress.best_score]
        if any(type(x) not in (int, float) or abs(x) > sys.float_info.max for x in (*progress.losses, *shares)):
            raise ValueError("a loss or a score is not a number")
        if any(text is not None and type(text) is not str for text in (progress.why, progress.measure)):
            raise ValueError("the measure, or the reason why training ended, is not text")
        return progress


def train(
    learner: Learner,
    plan: Plan,
    judge: Judge | None,
    identity: Mapping[str, Any],
    check: Callable[[Weights], None] = lambda weights: None,
) -> tuple[Weights, Progress, BaseException | None]:
    """Train; return the best weights, the progress, and what interrupted it: Ctrl-C, or a checkpoint that failed.

    The best weights are those with the highest score on the development set; without one, the last. `identity`
    identifies data and settings: a checkpoint is resumed only if it is the same, and if `check` takes its weights.
    """
    measure = None if judge is None else judge.measure
    progress, best = Progress(measure=measure), None
    if plan.resume is not None:
        progress, best = _resume(plan.resume, learner, identity, check)
    interruption: BaseException | None = None
    try:
        while progress.iteration < plan.iterations and progress.why is None:
            begun = time.perf_counter()
            loss = learner.step()
            progress.iteration += 1
            progress.losses.append(loss)
            score = None if judge is None else judge.score(learner.weights())
            better = score is None or progress.best_score is None or score > progress.best_score
            if better:
                progress.best_score, progress.best_iteration = score, progress.iteration
                best = None if judge is None else learner.weights()
            progress.why = _why_ended(learner, plan, progress)
            if plan.checkpoint is not None and (progress.iteration % plan.every == 0 or progress.why is not None):
                _save_checkpoint(plan.checkpoint, learner, progress, best, identity)
            if plan.watch is not None:
                seconds = time.perf_counter() - begun
                plan.watch(Step(progress.iteration, plan.iterations, loss, measure, score, seconds, better))
    except KeyboardInterrupt as error:
        if progress.iteration == 0:
            raise
        interruption, progress.why = error, "interrupted"
    except _CheckpointFailed as error:  # what has been learned is not lost
        interruption, progress.why = error.cause, "the checkpoint could not be written"
    progress.why = progress.why or "all iterations done"
    return best if best is not None else learner.weights(), progress, interruption


class _CheckpointFailed(Exception):  # noqa: N818
    """A checkpoint that could not be written."""

    def __init__(self, cause: BridleError) -> None:
        self.cause = cause


def _why_ended(learner: Learner, plan: Plan, progress: Progress) -> str | None:
    if learner.finished:
        return learner.finished
    losses = progress.losses
    if plan.tolerance > 0 and len(losses) > PERIOD:
        fallen = (losses[-1 - PERIOD] - losses[-1]) / max(abs(losses[-1]), 1e-300)
        if fallen < plan.tolerance:
            return f"the loss fell by less than {plan.tolerance:g} of itself in {PERIOD} iterations"
    if plan.patience is not None and progress.iteration - progress.best_iteration >= plan.patience:
        return f"no better on the development set for {plan.patience} iterations"
    return None


def _save_checkpoint(
    path: Path, learner: Learner, progress: Progress, best: Weights | None, identity: Mapping[str, Any]
) -> None:
    arrays: dict[str, Array] = {f"state.{name}": array for name, array in learner.state().items()}
    if best is not None:
        arrays |= {f"best.{name}": array for name, array in _named(best).items()}
    try:
        files.save(path, "checkpoint", {"identity": dict(identity), "progress": asdict(progress)}, arrays)
    except BridleError as error:
        raise _CheckpointFailed(error) from None


def _with_measures(identity: dict[str, Any]) -> dict[str, Any]:
    """Add the measures to an identity that an older version wrote, which had no others."""
    identity = {**({"measure": "accuracy"} if "dev" in identity else {}), **identity}
    if isinstance(tuning := identity.get("tuning"), dict):
        trials = [{"rung": 0, "mean_accuracy": 0.0, **trial} for trial in tuning.get("trials", ())]
        identity["tuning"] = {"measure": "quality", **tuning, "trials": trials}
    return identity


def _named(weights: Weights) -> dict[str, Array]:
    """Return the weights that there are by their names in files."""
    return {name: array for name, array in zip(_NAMES, weights, strict=True) if array is not None}


def _resume(
    path: Path, learner: Learner, identity: Mapping[str, Any], check: Callable[[Weights], None]
) -> tuple[Progress, Weights | None]:
    stored = files.open_file(path)
    if stored.kind != "checkpoint":
        got = f"a file of the kind {stored.kind!r}"
        raise ModelError("this is not a checkpoint", got=got, wanted="a checkpoint", where=str(path))
    was = stored.head.get("identity")
    if not isinstance(was, dict):
        what = "this file does not say what it is a checkpoint of"
        raise ModelFileError(what, wanted="what training writes", where=str(path))
    was = _with_measures(was)
    if other := [name for name in identity if was.get(name) != identity[name]]:
        raise ModelError(
            "this is a checkpoint of another training",
            where=str(path),
            got=", ".join(f"{name}={was.get(name)!r}" for name in other),
            wanted=", ".join(f"{name}={identity[name]!r}" for name in other),
            cause="Resume with the same data and the same settings.",
        )
    try:
        learner.restore({name[6:]: array for name, array in stored.arrays.items() if name.startswith("state.")})
        progress = Progress.restored(stored.head["progress"])
        if progress.iteration < 1:
            raise ValueError("no iteration was done")
        check(learner.weights())
        best = None
        arrays = {name[5:]: array for name, array in stored.arrays.items() if name.startswith("best.")}
        if bool(arrays) != (progress.best_score is not None):
            raise ValueError("the best weights and their score do not fit together")
        if arrays:
            check_state(arrays, _named(learner.weights()))
            w, pair, edges = (np.array(arrays[name]) if name in arrays else None for name in _NAMES)
            assert w is not None
            best = w, pair, edges
            check(best)
    except files.UNFIT as error:
        cause = "A checkpoint of another version of Bridle, or altered?"
        raise files.unusable(error, path, "state to go on from", "training", cause) from None
    return progress, best
