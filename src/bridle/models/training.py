"""Training that can be watched, stopped and resumed: the loop around every learner."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from bridle.errors import BridleError, ModelError, ModelFileError
from bridle.models import files
from bridle.models.task import Array, Found, Learner, check_state

PERIOD = 10  # iterations over which the loss must fall
_NAMES = ("w", "pair", "edges")  # of weights in files


class Judge(NamedTuple):
    """Says how good weights are on the development set."""

    measure: str  # its name
    score: Callable[[Found], float]  # from 0 to 1


@dataclass(frozen=True, slots=True)
class Step:
    """How far training is, after an iteration.

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
    """How training went.

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
        """From a file; what makes no sense raises TypeError or ValueError."""
        if "best_accuracy" in head and "best_score" not in head:  # older versions knew no other measure
            before = head["best_accuracy"]
            others = {name: value for name, value in head.items() if name != "best_accuracy"}
            head = {"best_score": before, "measure": None if before is None else "accuracy", **others}
        made = cls(**head)
        counts = (made.iteration, made.best_iteration)
        if any(type(n) is not int for n in counts) or not 0 <= made.best_iteration <= made.iteration:
            raise ValueError("the numbers of iterations make no sense")
        if type(made.losses) is not list or len(made.losses) != made.iteration:
            raise ValueError("losses and iterations do not fit together")
        shares = [] if made.best_score is None else [made.best_score]
        if any(type(x) not in (int, float) or abs(x) > sys.float_info.max for x in (*made.losses, *shares)):
            raise ValueError("a loss or a score is not a number")
        if any(text is not None and type(text) is not str for text in (made.why, made.measure)):
            raise ValueError("the measure, or the reason why training ended, is not text")
        return made


def train(
    learner: Learner,
    plan: Plan,
    judge: Judge | None,
    identity: Mapping[str, Any],
    check: Callable[[Found], None] = lambda found: None,
) -> tuple[Found, Progress, BaseException | None]:
    """Train: the best weights, how it went, and what ended it before its time: Ctrl-C, or a checkpoint that failed.

    The best weights are those with the highest score on the development set; without one, the last. `identity`
    identifies data and settings: a checkpoint is resumed only if it is the same, and if `check` takes its weights.
    """
    measure = None if judge is None else judge.measure
    progress, best = Progress(measure=measure), None
    if plan.resume is not None:
        progress, best = _resume(plan.resume, learner, identity, check)
    trouble: BaseException | None = None
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
            progress.why = _why(learner, plan, progress)
            if plan.checkpoint is not None and (progress.iteration % plan.every == 0 or progress.why is not None):
                _keep(plan.checkpoint, learner, progress, best, identity)
            if plan.watch is not None:
                seconds = time.perf_counter() - begun
                plan.watch(Step(progress.iteration, plan.iterations, loss, measure, score, seconds, better))
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
        arrays |= {f"best.{name}": array for name, array in _named(best).items()}
    try:
        files.save(path, "checkpoint", {"identity": dict(identity), "progress": asdict(progress)}, arrays)
    except BridleError as error:
        raise _Unkept(error) from None


def _with_measures(identity: dict[str, Any]) -> dict[str, Any]:
    """What older versions, which had no other measures, did not write down."""
    found = {**({"measure": "accuracy"} if "dev" in identity else {}), **identity}
    if isinstance(tuning := found.get("tuning"), dict):
        found["tuning"] = {**tuning, "measure": tuning.get("measure", "quality")}
    return found


def _named(found: Found) -> dict[str, Array]:
    """The weights that there are, as a file names them."""
    return {name: array for name, array in zip(_NAMES, found, strict=True) if array is not None}


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
