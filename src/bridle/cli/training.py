"""`bridle train`: labelled sequences in, a model out."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import bridle
from bridle.cli.bars import on_terminal, shown
from bridle.cli.base import INTERRUPTED, app, check_kind, check_place, fail, json_line, keep
from bridle.cli.options import FEATURES, AnyScheme, AsJson, DataScheme, TheProgress, TheSeed, TheThreads
from bridle.cli.reading import (
    Reader,
    TheColumns,
    TheFormat,
    TheLabel,
    TheOptions,
    labels_in,
    read_all,
    reader_of,
    rules_of,
    split,
)
from bridle.cli.recording import (
    TheConfig,
    changes,
    described,
    place_beside,
    recorded,
    scores_of,
    settings_of,
    write_config,
)
from bridle.data import Example, Lines
from bridle.errors import BridleError, FeatureError, FileError, ModelError
from bridle.features import SETS, Templates
from bridle.models import CRF, LocalTagger, Step, Tagger
from bridle.report import score
from bridle.rules.base import Rule
from bridle.rules.files import text_of

Split = tuple[list[Any], list[list[str]], list[dict[str, Any]]]  # X, y, given
_ITERATIONS = {True: 100, False: 20}  # of a CRF, of others


class Learner(StrEnum):
    """What --learner takes."""

    CRF, PERCEPTRON, IBT, LOCAL, WINNOW = "crf", "perceptron", "ibt", "local-perceptron", "local-winnow"


class Average(StrEnum):
    """What --average takes."""

    AVERAGED, LAST = "averaged", "last"


class OnUnknown(StrEnum):
    """What --on-unknown takes."""

    RAISE, WRONG = "raise", "wrong"


class Pairs(StrEnum):
    """What --pairs takes."""

    SEEN, ALL = "seen", "all"


@app.command()
def train(
    context: typer.Context,
    data: Annotated[
        list[str] | None, typer.Argument(metavar="DATA", help="Labelled sequences; .gz is fine, - is stdin.")
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="MODEL", help="Where the model goes.")] = None,
    config: TheConfig = None,
    dev: Annotated[str | None, typer.Option(metavar="FILE", help="A development set; the best on it is kept.")] = None,
    on_unknown: Annotated[OnUnknown, typer.Option(help="Labels of --dev that DATA has not.")] = OnUnknown.RAISE,
    format: TheFormat = None,
    columns: TheColumns = None,
    label: TheLabel = None,
    option: TheOptions = None,
    features: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=FEATURES,
            help=f"A set ({', '.join(SETS)}) or a file of templates; auto: by the columns.",
        ),
    ] = "auto",
    learner: Annotated[Learner, typer.Option(help="ibt: a perceptron under --rules.")] = Learner.CRF,
    rules: Annotated[Path | None, typer.Option(metavar="FILE", help="A .rules file, for --learner ibt.")] = None,
    scheme: DataScheme = AnyScheme.AUTO,
    cutoff: Annotated[int, typer.Option(metavar="N", min=1, help="Leave out features seen fewer times.")] = 1,
    pairs: Annotated[Pairs | None, typer.Option(help="Weights for pairs seen in training or for all.")] = None,
    c1: Annotated[float | None, typer.Option(metavar="X", help="L1 regularisation (crf). Default: 0.")] = None,
    c2: Annotated[float | None, typer.Option(metavar="X", help="L2 regularisation (crf). Default: 1.")] = None,
    margin: Annotated[float | None, typer.Option(metavar="X", help="Of the local learners. Default: 1.")] = None,
    average: Annotated[Average | None, typer.Option(help="Of all but crf. Default: averaged.")] = None,
    iterations: Annotated[int | None, typer.Option(metavar="N", help="At most. Default: 100 (crf) or 20.")] = None,
    patience: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Stop after so many without a gain on --dev.")
    ] = None,
    seed: TheSeed = 0,
    threads: TheThreads = 0,
    checkpoint: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the state of training here.")] = None,
    every: Annotated[int, typer.Option(metavar="N", min=1, help="Iterations between checkpoints.")] = 10,
    resume: Annotated[Path | None, typer.Option(metavar="FILE", help="Go on from a checkpoint.")] = None,
    log: Annotated[str | None, typer.Option(metavar="FILE", help="One JSON line per iteration.")] = None,
    as_json: AsJson = False,
    progress: TheProgress = None,
) -> None:
    """Train a tagger on labelled sequences.

    \b
    Examples:
      bridle train train.txt -o chunks.bridle --columns word,pos,chunk --dev dev.txt
      bridle train refs.tagged -o refs.bridle --features fields --option tokens=punctuation
      bridle train corpus.txt -o words.bridle --format segmented --learner perceptron
      bridle train --config chunks.bridle.json -o again.bridle --c2 0.5
      bridle train train.txt -o m.bridle --checkpoint m.check     (then, after a stop:)
      bridle train train.txt -o m.bridle --checkpoint m.check --resume m.check

    \b
    Templates are lines such as  word[-1] word[0]  or  suffix2[0];  label[-1] asks for label bigrams.
    All settings, the data, how training went and the scores on --dev are kept in MODEL.json; --json prints them too.

    \b
    Exit codes:
      0    trained
      2    bad input, bad usage, or the model cannot be written
      130  stopped by Ctrl-C; the best model so far is saved
    """
    data = data or (context.default_map or {}).get("data")
    if not data or out is None:
        what, wanted = ("no data", "DATA") if not data else ("no place for the model", "-o MODEL")
        raise FileError(f"there is {what}", got="nothing", wanted=f"{wanted}, or --config FILE")
    if rules is not None and learner is not Learner.IBT:
        raise ModelError(
            "rules are for inference-based training", got=f"--learner {learner}", wanted="--learner ibt",
            cause="To obey rules when tagging, pass them to bridle tag.",
        )  # fmt: skip
    if log == "-" and as_json:
        raise FileError("--json stands alone on standard output", got="--log -", wanted="--log FILE")
    place = place_beside(out)
    read = [*data, dev, rules, features if features not in ("auto", *SETS) and "[" not in features else None]
    keep(out, *read, resume)
    keep(checkpoint, *read, out, place, flag="--checkpoint")  # it may be what is resumed
    keep(log, *read, resume, out, checkpoint, place, flag="--log")
    for path in filter(None, (out, checkpoint, place)):
        check_place(path)
    for path in filter(None, (out, checkpoint)):
        check_kind(path)
    rules_of(rules, None)
    examples, reader = read_all(reader_of(format, columns, label, option), data, progress)
    common = {
        "features": _features(features, examples[0], reader), "cutoff": cutoff, "scheme": scheme.asked,
        "patience": patience, "seed": seed, "threads": threads, **({"pairs": pairs.value} if pairs else {}),
        "iterations": _ITERATIONS[learner is Learner.CRF] if iterations is None else iterations,
    }  # fmt: skip
    own = {"c1": c1, "c2": c2, "margin": margin, "average": None if average is None else average.value}
    X, y, given = split(examples)
    obeyed = rules_of(rules, labels_in(y, scheme.asked) if rules is not None else None)
    model = _model(learner, common, {name: value for name, value in own.items() if value is not None}, obeyed)
    beside = None if dev is None else read_all(reader, [dev], progress)[0]
    held = None if beside is None else split(beside)
    used = {"data": described(data, examples), "dev": None if beside is None else described([str(dev)], beside)}
    for change in changes(config, used) if config is not None else ():
        typer.echo(f"bridle: {change}", err=True)
    notes = {"reader": reader.notes(), "columns": list(examples[0].columns), "version": bridle.__version__}
    trouble: BaseException | None = None
    begun = time.perf_counter()
    with _watched(progress, log) as watch:
        try:
            model.fit(
                X, y, given=given, dev=None if held is None else (held[0], held[1]),
                dev_given=None if held is None else held[2], on_unknown=on_unknown.value, watch=watch,
                checkpoint=checkpoint, every=every, resume=resume,
            )  # fmt: skip
        except (KeyboardInterrupt, BridleError) as error:
            if not hasattr(model, "linear_"):
                raise _with_place(error, examples, beside) from None
            trouble = error  # what has been learned is saved first
    took = time.perf_counter() - begun
    model.save(out, notes=notes)
    scores = None if held is None else _scores(model, held, obeyed, threads)
    record = recorded(model, {**settings_of(context), "data": data}, used, took, scores)
    write_config(place, record)
    typer.echo(f"bridle: {_told(model)}; saved as {out}", err=True)
    if as_json:
        typer.echo(json_line(record))
    if isinstance(trouble, KeyboardInterrupt):
        fail("interrupted; this is the best model so far", INTERRUPTED)
    if trouble is not None:
        raise trouble


def _with_place(error: BaseException, examples: list[Example], dev: list[Example] | None) -> BaseException:
    """Say where the sequence stands that an error is about."""
    if isinstance(error, BridleError) and error.sequence is not None:
        # Errors of training name no place themselves, but for those about the development set.
        its = examples if error.where is None or dev is None else dev
        error.where = its[error.sequence].where
    return error


def _model(learner: Learner, common: dict[str, Any], own: dict[str, Any], rules: list[Rule]) -> Tagger:
    """The model that the options ask for; options that say nothing to it are refused."""
    local = learner in (Learner.LOCAL, Learner.WINNOW)
    takes = {"c1", "c2"} if learner is Learner.CRF else {"margin", "average"} if local else {"average"}
    if other := sorted(set(own) - takes):
        fitting = {"c1": "crf", "c2": "crf", "margin": "local-perceptron", "average": "perceptron"}[other[0]]
        raise ModelError(
            f"`--{other[0]}` has no effect with `--learner {learner}`; remove it or use `--learner {fitting}`"
        )
    algorithm: Any = "lbfgs" if learner is Learner.CRF else learner.value.removeprefix("local-")
    if local:
        return LocalTagger(algorithm, **own, **common)
    return CRF(algorithm, rules=tuple(rules), **own, **common)


def _features(asked: str, example: Example, reader: Reader) -> list[str]:
    """Templates: of a set, out of a file, or as the columns suggest. The first column stands for `word`."""
    names = list(example.columns)
    if asked == "auto":
        asked = "characters" if "char" in names else "chunking" if "pos" in names else "pos"
        if reader.format in ("tagged", "parserator", "segments"):
            asked = "fields"
    templates = Templates.parse(asked) if asked in SETS else _templates_of(asked)
    if missing := [name for name in templates.sources if name not in names]:
        raise FeatureError(
            f"there is no column {missing[0]!r}", got=", ".join(names), wanted=", ".join(templates.sources),
            cause="Name the columns of the file: --columns word,pos,label.",
        )  # fmt: skip
    return str(templates).splitlines()


def _templates_of(asked: str) -> Templates:
    """Out of a file; or, if there is none, written out."""
    if "[" in asked:
        return Templates.parse(asked)
    if not os.path.exists(asked) and asked.isidentifier():  # noqa: PTH110  (it may be too long for a path)
        return Templates.parse(asked)  # which says what sets there are
    try:
        return Templates.parse(text_of(Path(asked)))
    except FeatureError as error:
        error.at(where=asked)
        raise


def _scores(model: Tagger, dev: Split, rules: list[Rule], threads: int) -> dict[str, Any]:
    """What the model that was kept does on the development set."""
    X, y, given = dev
    guessed = model.predict(X, rules, given=given, threads=threads, on_infeasible="relax")
    return scores_of(score(y, guessed), model.progress_.best_iteration)


def _told(model: Tagger) -> str:
    progress = model.progress_
    parts = [
        f"{len(model.labels_)} labels, {model.n_weights_:,} weights",
        f"{progress.iteration} iterations ({progress.why})", f"loss {progress.losses[-1]:.6g}",
    ]  # fmt: skip
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
            typer.echo(f"{step.iteration:4d}/{step.iterations}  {now}", err=True)
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
