"""One run of `bridle train`: fit a model, show how far it is, sum up how it went."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bridle.cli.bars import on_terminal, shown
from bridle.cli.base import tell
from bridle.cli.reading import split
from bridle.cli.recording import scores_of
from bridle.data import Example, Lines
from bridle.errors import BridleError
from bridle.learn.scored import cross_fitted
from bridle.models import CrossFit, Step, Tagger, Trial
from bridle.report import score
from bridle.rules.base import Rule


def fit(
    model: Tagger,
    examples: list[Example],
    dev: list[Example] | None,
    *,
    on_unknown: Any,
    checkpoint: Path | None,
    every: int,
    resume: Path | None,
    progress: bool | None,
    log: str | None,
    groups: list[str] | None = None,
) -> tuple[float, BaseException | None]:
    """Train: how many seconds it took, and what ended it before its time, if there is a model all the same."""
    X, y, given = split(examples)
    held = None if dev is None else split(dev)
    begun = time.perf_counter()
    with _watched(progress, log) as watch:
        try:
            model.fit(
                X,
                y,
                given=given,
                dev=None if held is None else (held[0], held[1]),
                dev_given=None if held is None else held[2],
                on_unknown=on_unknown,
                groups=groups,
                watch=watch,
                watch_tuning=trial_teller(progress),
                checkpoint=checkpoint,
                every=every,
                resume=resume,
            )
        except (KeyboardInterrupt, BridleError) as error:
            if not hasattr(model, "linear_"):
                raise _with_place(error, examples, dev) from None
            return time.perf_counter() - begun, error
    return time.perf_counter() - begun, None


def trial_teller(asked: bool | None) -> Callable[[Trial], None]:
    """Tells how good a choice of c1 and c2 is, if somebody looks."""
    say = sayer(asked)

    def watch(trial: Trial) -> None:
        shares = f"{trial.exact:.1%} of held-out sequences all right, F1 {trial.f1:.2%}"
        say(f"c1 {trial.c1:g}, c2 {trial.c2:g}: {shares}  {trial.seconds:.1f} s")

    return watch


def sayer(asked: bool | None) -> Callable[[str], None]:
    """Tells on stderr what is being done, if somebody looks."""

    def say(text: str) -> None:
        if shown(asked):
            tell(f"  {text}")

    return say


def kept_cross_fit(
    model: Tagger, examples: list[Example], groups: list[str] | None, path: Path, say: Callable[[str], None]
) -> CrossFit:
    """Scores of held-out sequences, kept in a file."""
    X, y, given = split(examples)
    found = cross_fitted(model, X, y, given, groups, say)
    found.save(path)
    return found


def _with_place(error: BaseException, examples: list[Example], dev: list[Example] | None) -> BaseException:
    """Say where the sequence stands that an error is about."""
    if isinstance(error, BridleError) and error.sequence is not None:
        # Errors of training name no place themselves, but for those about the development set.
        its = examples if error.where is None or dev is None else dev
        error.where = its[error.sequence].where
    return error


def dev_scores(model: Tagger, dev: list[Example], rules: list[Rule], threads: int) -> dict[str, Any]:
    """What the model that was kept does on the development set."""
    X, y, given = split(dev)
    guessed = model.predict(X, rules, given=given, threads=threads, on_infeasible="relax")
    return scores_of(score(y, guessed), model.progress_.best_iteration)


def summary(model: Tagger) -> str:
    """How training went, in a line."""
    progress = model.progress_
    parts = [
        f"{len(model.labels_)} labels, {model.n_weights_:,} weights",
        f"{progress.iteration} iterations ({progress.why})",
        f"loss {progress.losses[-1]:.6g}",
    ]
    if (tuning := model.tuning_) is not None:
        why = f"the best of {len(tuning.trials)} on held-out sequences" if tuning.trials else f"unproved: {tuning.why}"
        parts.append(f"c1 {tuning.c1:g} and c2 {tuning.c2:g}, {why}")
    if progress.best_accuracy is not None:
        parts.append(f"{progress.best_accuracy:.2%} right on the development set after {progress.best_iteration}")
    return "; ".join(parts)


@contextmanager
def _watched(asked: bool | None, log: str | None) -> Iterator[Any]:
    """What is called after each iteration: a bar on a terminal, plain lines if asked for elsewhere, a log."""
    told = shown(asked)
    parts = ("training", BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[now]}"), TimeRemainingColumn())
    bar = Progress(*parts, console=Console(stderr=True)) if told and on_terminal(sys.stderr) else None
    lines = Lines(log) if log is not None else None

    def watch(step: Step) -> None:
        accuracy = "" if step.accuracy is None else f"  dev {step.accuracy:.2%}{' *' if step.best else ''}"
        now = f"loss {step.loss:.6g}{accuracy}  {step.seconds:.2f} s"
        if bar is not None:
            if not bar.task_ids:
                bar.add_task("", total=step.iterations, now=now)
                bar.start()
            bar.update(bar.task_ids[0], completed=step.iteration, now=now)
        elif told:
            tell(f"{step.iteration:4d}/{step.iterations}  {now}")
        if lines is not None:
            lines.write([json.dumps({name: getattr(step, name) for name in step.__slots__})])

    try:
        if lines is None:
            yield watch
        else:
            with lines:
                yield watch
    finally:
        if bar is not None:
            bar.stop()
