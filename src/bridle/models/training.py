"""Training that can be watched, stopped and resumed: the loop around every learner."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from bridle.errors import BridleError, ModelError, ModelFileError
from bridle.models import files
from bridle.models.task import Array, Learner, Vector, check_state

Found = tuple[Vector, Vector | None]  # weights (W) and label bigrams (m, m)
PERIOD = 10  # iterations over which the loss must fall


@dataclass(frozen=True, slots=True)
class Step:
    """How far training is, after an iteration.

    Attributes
    ----------
    iteration, iterations : int
        Number of this iteration, from 1, and of the last one at most.
    loss : float
        What training lowers: the regularised negative log-likelihood, or the share of wrong tokens on the way.
    accuracy : float or None
        Share of right tokens of the development set, if there is one.
    seconds : float
        Time that this iteration took.
    best : bool
        True if this is the best model so far.
    """

    iteration: int
    iterations: int
    loss: float
    accuracy: float | None
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
    """How training went.

    Attributes
    ----------
    iteration : int
        Number of iterations done.
    losses : list of float
        The loss after each of them.
    best_accuracy : float or None
        The best share of right tokens of the development set, if there is one.
    best_iteration : int
        The iteration whose weights were kept.
    why : str or None
        Why training ended.
    """

    iteration: int = 0
    losses: list[float] = field(default_factory=list)
    best_accuracy: float | None = None
    best_iteration: int = 0
    why: str | None = None

    @classmethod
    def restored(cls, head: Any) -> Self:
        """From a file; what makes no sense raises TypeError or ValueError."""
        made = cls(**head)
        counts = (made.iteration, made.best_iteration)
        if any(type(n) is not int for n in counts) or not 0 <= made.best_iteration <= made.iteration:
            raise ValueError("the numbers of iterations make no sense")
        if type(made.losses) is not list or len(made.losses) != made.iteration:
            raise ValueError("losses and iterations do not fit together")
        shares = [] if made.best_accuracy is None else [made.best_accuracy]
        if any(type(x) not in (int, float) or abs(x) > sys.float_info.max for x in (*made.losses, *shares)):
            raise ValueError("a loss or an accuracy is no number")
        if made.why is not None and type(made.why) is not str:
            raise ValueError("the reason why training ended is no text")
        return made


def train(
    learner: Learner,
    plan: Plan,
    measure: Callable[[Found], float] | None,
    identity: Mapping[str, Any],
    check: Callable[[Found], None] = lambda found: None,
) -> tuple[Found, Progress, BaseException | None]:
    """Train: the best weights, how it went, and what ended it before its time: Ctrl-C, or a checkpoint that failed.

    The best weights are those with the highest accuracy on the development set; without one, the last. `identity` tells
    data and settings apart: a checkpoint is resumed only if it is the same, and if `check` takes its weights.
    """
    progress, best = Progress(), None
    if plan.resume is not None:
        progress, best = _resume(plan.resume, learner, identity, check)
    trouble: BaseException | None = None
    try:
        while progress.iteration < plan.iterations and progress.why is None:
            begun = time.perf_counter()
            loss = learner.step()
            progress.iteration += 1
            progress.losses.append(loss)
            accuracy = None if measure is None else measure(learner.weights())
            better = accuracy is None or progress.best_accuracy is None or accuracy > progress.best_accuracy
            if better:
                progress.best_accuracy, progress.best_iteration = accuracy, progress.iteration
                best = None if measure is None else learner.weights()
            progress.why = _why(learner, plan, progress)
            if plan.checkpoint is not None and (progress.iteration % plan.every == 0 or progress.why is not None):
                _keep(plan.checkpoint, learner, progress, best, identity)
            if plan.watch is not None:
                seconds = time.perf_counter() - begun
                plan.watch(Step(progress.iteration, plan.iterations, loss, accuracy, seconds, better))
    except KeyboardInterrupt as error:
        if progress.iteration == 0:
            raise
        trouble, progress.why = error, "interrupted"
    except _Unkept as error:  # what has been learned is not lost
        trouble, progress.why = error.cause, "the checkpoint could not be written"
    progress.why = progress.why or "all iterations done"
    return best if best is not None else learner.weights(), progress, trouble


class _Unkept(Exception):  # noqa: N818
    """A checkpoint that could not be written."""

    def __init__(self, cause: BridleError) -> None:
        self.cause = cause


def _why(learner: Learner, plan: Plan, progress: Progress) -> str | None:
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


def _keep(path: Path, learner: Learner, progress: Progress, best: Found | None, identity: Mapping[str, Any]) -> None:
    arrays: dict[str, Array] = {f"state.{name}": array for name, array in learner.state().items()}
    if best is not None:
        arrays["best.w"] = best[0]
        if best[1] is not None:
            arrays["best.pair"] = best[1]
    try:
        files.save(path, "checkpoint", {"identity": dict(identity), "progress": asdict(progress)}, arrays)
    except BridleError as error:
        raise _Unkept(error) from None


def _resume(
    path: Path, learner: Learner, identity: Mapping[str, Any], check: Callable[[Found], None]
) -> tuple[Progress, Found | None]:
    stored = files.open_file(path)
    if stored.kind != "checkpoint":
        got = f"a file of the kind {stored.kind!r}"
        raise ModelError("this is not a checkpoint", got=got, wanted="a checkpoint", where=str(path))
    was = stored.head.get("identity")
    if not isinstance(was, dict):
        what = "this file does not say what it is a checkpoint of"
        raise ModelFileError(what, wanted="what training writes", where=str(path))
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
        w, pair = learner.weights()
        best = None
        arrays = {name[5:]: array for name, array in stored.arrays.items() if name.startswith("best.")}
        if bool(arrays) != (progress.best_accuracy is not None):
            raise ValueError("the best weights and their accuracy do not fit together")
        if arrays:
            check_state(arrays, {"w": w} if pair is None else {"w": w, "pair": pair})
            best = np.array(arrays["w"]), None if pair is None else np.array(arrays["pair"])
            check(best)
    except files.UNFIT as error:
        cause = "A checkpoint of another version of Bridle, or altered?"
        raise files.unusable(error, path, "state to go on from", "training", cause) from None
    return progress, best
