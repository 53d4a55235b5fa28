"""One run of `bridle train`: fit a model, show progress, summarise the result."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bridle.cli.bars import on_terminal, shown
from bridle.cli.base import tell, warn
from bridle.cli.reading import split
from bridle.cli.recording import scores_of
from bridle.data import Example, Lines
from bridle.errors import BridleError, LabelError
from bridle.learn.pricing import cross_fitted
from bridle.models import CrossFit, Step, Tagger, Trial
from bridle.models.training import TITLES
from bridle.report import score
from bridle.rules.base import Rule


def fit(
    model: Tagger,
    examples: list[Example],
    dev: list[Example] | None,
    *,
    on_unknown: Any,
    measure: Any,
    checkpoint: Path | None,
    every: int,
    resume: Path | None,
    progress: bool | None,
    log: str | None,
    groups: list[str] | None = None,
) -> tuple[float, BaseException | None]:
    """Train. Returns the seconds it took, and what interrupted it, if there is a model anyway."""
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
                measure=measure,
                groups=groups,
                watch=watch,
                watch_tuning=trial_teller(progress),
                checkpoint=checkpoint,
                every=every,
                resume=resume,
            )
        except (KeyboardInterrupt, BridleError) as error:
            if not hasattr(model, "linear_"):
                raise with_place(error, examples, dev) from None
            return time.perf_counter() - begun, error
    return time.perf_counter() - begun, None


def tell_missing(examples: list[Example]) -> None:
    """Print how many labels are missing, and how many sequences have none."""
    missing = [sum(label is None for label in example.labels or ()) for example in examples]
    if not any(missing):
        return
    empty = sum(count == len(example) for count, example in zip(missing, examples, strict=True) if count)
    said = f"{sum(missing):,} of {sum(map(len, examples)):,} tokens have no label (? or null); training uses the others"
    warn(said + (f"; {empty:,} sequences have no label at all and have no effect" if empty else ""))


def trial_teller(asked: bool | None) -> Callable[[Trial], None]:
    """A function that prints the scores of c1 and c2, if progress is shown."""
    say = sayer(asked)

    def watch(trial: Trial) -> None:
        shares = f"{trial.exact:.1%} of held-out sequences all right, F1 {trial.f1:.2%}"
        say(f"c1 {trial.c1:g}, c2 {trial.c2:g}: {shares}  {trial.seconds:.1f} s")

    return watch


def sayer(asked: bool | None) -> Callable[[str], None]:
    """A function that prints on stderr what is being done, if progress is shown."""

    def say(text: str) -> None:
        if shown(asked):
            tell(f"  {text}")

    return say


def kept_cross_fit(
    model: Tagger, examples: list[Example], groups: list[str] | None, path: Path, say: Callable[[str], None]
) -> CrossFit:
    """Compute the scores of held-out sequences, and save them in a file."""
    X, y, given = split(examples)
    found = cross_fitted(model, X, y, given, groups, say)
    found.save(path)
    return found


def with_place(error: BaseException, examples: list[Example], dev: list[Example] | None) -> BaseException:
    """Add the place of the sequence to an error."""
    if isinstance(error, BridleError) and error.sequence is not None:
        # Errors of training do not name a place, except those about the development set.
        its = examples if error.where is None or dev is None else dev
        error.where = its[error.sequence].where
    return error


def dev_scores(
    model: Tagger, dev: list[Example], rules: list[Rule], threads: int, counts: Mapping[str, int]
) -> dict[str, Any]:
    """Scores of the best model on the development set. counts: of the labels of the training data."""
    X, y, given = split(dev)
    guessed = model.predict(X, rules, given=given, threads=threads, on_infeasible="relax")
    try:
        found = score(y, guessed, model.labels_.scheme)
    except LabelError:  # a label that training does not know, and that does not fit the scheme
        found = score(y, guessed)
    return scores_of(found, model.progress_, max(counts, key=counts.__getitem__))


def summary(model: Tagger) -> str:
    """A summary of training, in one line."""
    progress = model.progress_
    parts = [
        f"{len(model.labels_)} labels, {model.n_weights_:,} weights",
        f"{progress.iteration} iterations ({progress.why})",
        f"loss {progress.losses[-1]:.6g}",
    ]
    if (tuning := model.tuning_) is not None:
        why = f"the best of {len(tuning.trials)} on held-out sequences" if tuning.trials else f"unproved: {tuning.why}"
        parts.append(f"c1 {tuning.c1:g} and c2 {tuning.c2:g}, {why}")
    return "; ".join(parts)


def dev_summary(scores: Mapping[str, Any]) -> str:
    """Scores of the best model on the development set, next to the baseline."""
    decided = scores["measure"]
    always = f"always {scores['always']['label']}: {scores['always']['accuracy']:.2%}"
    told = {
        "f1": f"F1 {scores['segments']['f1']:.2%}",
        "accuracy": f"{scores['accuracy']:.2%} of the tokens right ({always})",
        "exact": f"{scores['exact']:.2%} of the sequences all right",
    }
    first = f"best {TITLES[decided]} {scores['best']:.2%} on the development set after {scores['iteration']} iterations"
    return "; ".join([first, *(text for name, text in told.items() if name not in (decided, "exact"))])


@contextmanager
def _watched(asked: bool | None, log: str | None) -> Iterator[Any]:
    """The function to call after each iteration: it updates a bar on a terminal, or prints lines, and writes a log."""
    told = shown(asked)
    parts = ("training", BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[now]}"), TimeRemainingColumn())
    bar = Progress(*parts, console=Console(stderr=True)) if told and on_terminal(sys.stderr) else None
    lines = Lines(log) if log is not None else None

    def watch(step: Step) -> None:
        title = TITLES.get(step.measure or "", "")
        score = "" if step.score is None else f"  dev {title} {step.score:.2%}{' *' if step.best else ''}"
        now = f"loss {step.loss:.6g}{score}  {step.seconds:.2f} s"
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
