"""`bridle train`: labelled sequences in, a model out."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import bridle
from bridle.atomic import claimed
from bridle.cli import training_run
from bridle.cli.base import app, check_kind, check_place, fail, json_line, keep, warn
from bridle.cli.learners import (
    ITERATIONS,
    Average,
    Learner,
    Pairs,
    class_weight_of,
    features_for,
    list_files,
    model_of,
    strength_of,
    tell_choice,
)
from bridle.cli.options import (
    FEATURES,
    AnyScheme,
    AsJson,
    DataScheme,
    HoldOut,
    Measure,
    TheHoldOut,
    TheLenient,
    TheMeasure,
    TheProgress,
    TheSeed,
    TheThreads,
)
from bridle.cli.reading import (
    TheColumns,
    TheFormat,
    TheLabel,
    TheOptions,
    groups_of,
    labels_in,
    read_all,
    reader_of,
    rules_of,
)
from bridle.cli.recording import (
    TheConfig,
    changes,
    described,
    place_beside,
    recorded,
    settings_of,
    write_config,
)
from bridle.cli.searching import Comparison, TheCv, ThePlot, TheSearch, check_grid, check_usage, grid_of
from bridle.errors import FileError, ModelError
from bridle.features import SETS
from bridle.interrupts import INTERRUPTED
from bridle.models.folds import FOLDS
from bridle.rules import phrases


class OnUnknown(StrEnum):
    """What --on-unknown takes."""

    RAISE, WRONG = "raise", "wrong"


@app.command()
def train(
    context: typer.Context,
    data: Annotated[
        list[str] | None, typer.Argument(metavar="DATA", help="Labelled sequences, optionally gzipped; - reads stdin.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="MODEL", help="Model file to write; optional with --cv.")
    ] = None,
    config: TheConfig = None,
    dev: Annotated[
        str | None, typer.Option(metavar="FILE", help="Development set; the model that is best on it is kept.")
    ] = None,
    on_unknown: Annotated[
        OnUnknown, typer.Option(help="What to do with labels in --dev that are not in DATA.")
    ] = OnUnknown.RAISE,
    measure: TheMeasure = Measure.AUTO,
    cv: TheCv = None,
    search: TheSearch = None,
    plot: ThePlot = None,
    format: TheFormat = None,
    columns: TheColumns = None,
    label: TheLabel = None,
    option: TheOptions = None,
    features: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=FEATURES,
            help=f"Feature set ({', '.join(SETS)}) or template file; auto: chosen by the labels.",
        ),
    ] = "auto",
    list: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FILE", help="File with phrases, for templates such as in:NAME[0]; can be repeated."),
    ] = None,
    learner: Annotated[
        Learner, typer.Option(help="Training algorithm; ibt is a perceptron trained under --rules.")
    ] = Learner.CRF,
    rules: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help=".rules file, for --learner ibt and for --cv; can be repeated."),
    ] = None,
    lenient: TheLenient = False,
    scheme: DataScheme = AnyScheme.AUTO,
    cutoff: Annotated[
        int, typer.Option(metavar="N", min=1, help="Leave out features that occur fewer than N times.")
    ] = 1,
    pairs: Annotated[
        Pairs | None, typer.Option(help="Create weights for the label pairs seen in training, or for all.")
    ] = None,
    c1: Annotated[str | None, typer.Option(metavar="X", help="L1 regularisation (crf), or auto, the default.")] = None,
    c2: Annotated[str | None, typer.Option(metavar="X", help="L2 regularisation (crf), or auto, the default.")] = None,
    folds: Annotated[
        int | None,
        typer.Option(metavar="N", min=2, help="Number of folds for choosing c1 and c2, or for --search. Default: 4."),
    ] = None,
    tuning_seconds: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            min=0,
            help="Maximum number of seconds for choosing c1 and c2 (default: 180) or for --search (default: no limit).",
        ),
    ] = None,
    hold_out: TheHoldOut = HoldOut.SEQUENCES,
    cross_fit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the scores of held-out sequences here, for bridle learn.")
    ] = None,
    class_weight: Annotated[
        str | None,
        typer.Option(metavar="A=X,...", help="Weights of labels or segment types, such as PER=3,ORG=2, or balanced."),
    ] = None,
    margin: Annotated[float | None, typer.Option(metavar="X", help="Margin of the local learners. Default: 1.")] = None,
    average: Annotated[
        Average | None, typer.Option(help="Weight averaging for all learners but crf. Default: averaged.")
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(metavar="N", help="Maximum number of iterations. Default: 100 (crf) or 20.")
    ] = None,
    patience: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Stop after N iterations without a gain on --dev.")
    ] = None,
    seed: TheSeed = 0,
    threads: TheThreads = 0,
    checkpoint: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the state of training here.")] = None,
    every: Annotated[int, typer.Option(metavar="N", min=1, help="Iterations between checkpoints.")] = 10,
    resume: Annotated[Path | None, typer.Option(metavar="FILE", help="Resume from this checkpoint.")] = None,
    log: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write one JSON line per iteration to this file.")
    ] = None,
    as_json: AsJson = False,
    progress: TheProgress = None,
) -> None:
    """Train a tagger on labelled sequences.

    \b
    Examples:
      bridle train train.txt -o chunks.bridle --columns word,pos,chunk --dev dev.txt
      bridle train refs.tagged -o refs.bridle --features fields --option tokens=punctuation
      bridle train corpus.txt -o words.bridle --format segmented --learner perceptron
      bridle train --config chunks.bridle.json -o again.bridle --c1 0 --c2 0.5
      bridle train train.txt -o names.bridle --class-weight MISC=3
      bridle train acm.txt ieee.txt -o refs.bridle --hold-out files --cross-fit refs.scores
      bridle train train.txt --cv 5 --rules my.rules              measure settings and rules on held-out data
      bridle train train.txt -o m.bridle --search c1,c2 --plot search.svg
      bridle train train.txt -o m.bridle --checkpoint m.check     (then, after a stop:)
      bridle train train.txt -o m.bridle --checkpoint m.check --resume m.check

    \b
    Unknown labels are ? or null in DATA; training does not use the labels of such tokens. --option missing=TEXT
    replaces the ?, and missing=none makes ? a label like the others.
    Templates are lines such as  word[-1] word[0]  or  suffix2[0];  label[-1] adds label bigrams.
    A list has one phrase per line; with --list cities=cities.txt, in:cities[0] is the position of a token in a phrase.
    By default, c1 and c2 are chosen by cross-validation on DATA. --search compares more values, or cutoffs and feature
    sets, and trains the model with the best.
    --cross-fit saves the scores of held-out sequences, for bridle learn and bridle rules tune.
    MODEL.json records all settings, the data, the course of training and the scores on --dev; --json prints it.

    \b
    Exit codes:
      0    success
      2    bad input, bad usage, or the model cannot be written
      130  stopped by Ctrl-C; the best model so far is saved, unless settings were still being compared
    """
    data = data or (context.default_map or {}).get("data")
    if not data or (out is None and cv is None and not search):
        missing = "-o MODEL" if data else "DATA"
        raise FileError(f"{missing} is missing", got="nothing", wanted=f"{missing}, or --config FILE")
    if rules and learner is not Learner.IBT and cv is None:
        raise ModelError(
            "--rules needs --learner ibt or --cv",
            got=f"--learner {learner}",
            wanted="--learner ibt, or --cv N",
            cause="To obey rules when tagging, pass them to bridle tag.",
        )
    if log == "-" and as_json:
        raise FileError("--json and --log cannot share standard output", got="--log -", wanted="--log FILE")
    tuned = learner is Learner.CRF and c2 in (None, "auto")
    judged = cv is not None or (bool(search) and dev is None)
    if hold_out is HoldOut.FILES and cross_fit is None and not (tuned or judged):
        raise ModelError(
            "--hold-out has no effect: no sequences are held out",
            got="--hold-out files",
            wanted="--c2 auto, --cv N, or --cross-fit FILE",
            cause="Sequences are held out to choose or measure settings, and for cross-fitted scores.",
        )
    check_usage(cv=cv, search=search, dev=dev, plot=plot)
    for flag, asked in {"--checkpoint": checkpoint, "--resume": resume, "--log": log, "--cross-fit": cross_fit}.items():
        if out is None and asked is not None:
            raise FileError(f"{flag} needs -o", got=f"{flag} without -o", wanted="-o MODEL as well")
    place = None if out is None else place_beside(out)
    read = [*data, dev, *(rules or ()), features if features not in ("auto", *SETS) and "[" not in features else None]
    phrase_files = list_files(list)
    read += phrase_files.values()
    keep(out, *read, resume)
    keep(checkpoint, *read, out, place, flag="--checkpoint")  # it may be what is resumed
    keep(log, *read, resume, out, checkpoint, place, flag="--log")
    keep(cross_fit, *read, resume, out, checkpoint, place, log, flag="--cross-fit")
    keep(plot, *read, resume, out, checkpoint, place, log, cross_fit, flag="--plot")
    for path in filter(None, (out, checkpoint, place, cross_fit, plot)):
        check_place(path)
    for path in filter(None, (out, checkpoint, cross_fit)):
        check_kind(path)
    context.with_resource(claimed(out, checkpoint, cross_fit))
    rules_of(rules, None)
    examples, reader = read_all(reader_of(format, columns, label, option), data, progress, "keep")
    training_run.tell_missing(examples)
    common = {
        "features": features_for(features, examples),
        "lists": {name: phrases(path) for name, path in phrase_files.items()} or None,
        "cutoff": cutoff,
        "scheme": scheme.asked,
        "patience": patience,
        "class_weight": class_weight_of(class_weight),
        "seed": seed,
        "threads": threads,
        **({"pairs": pairs.value} if pairs else {}),
        "iterations": ITERATIONS[learner is Learner.CRF] if iterations is None else iterations,
    }
    own = {
        "c1": strength_of("c1", c1),
        "c2": strength_of("c2", c2),
        "folds": None if search and learner is not Learner.CRF else folds,
        "tuning_seconds": None if search and learner is not Learner.CRF else tuning_seconds,
        "margin": margin,
        "average": None if average is None else average.value,
    }
    known = None if not rules else labels_in((one.labels or () for one in examples), scheme.asked)
    obeyed = rules_of(rules, known, lenient=lenient)
    trained_under = obeyed if learner is Learner.IBT else []
    model = model_of(learner, common, {name: value for name, value in own.items() if value is not None}, trained_under)
    beside = None if dev is None else read_all(reader, [dev], progress, "keep")[0]
    content = described(data, examples)
    used = {"data": content, "dev": None if beside is None else described([str(dev)], beside)}
    for change in changes(config, used) if config is not None else ():
        warn(change)
    groups = groups_of(examples, hold_out)
    grid = grid_of(search or [], [*examples[0].columns])
    check_grid(grid, learner, {"c1": c1, "c2": c2})
    compared = Comparison(
        cv,
        grid,
        measure,
        folds=folds or FOLDS,
        seconds=tuning_seconds,
        on_unknown=on_unknown.value,
        plot=plot,
        progress=progress,
        quiet=as_json,
    )
    if "features" not in grid:
        tell_choice(features, examples)
    report = compared.run(model, examples, beside, obeyed, groups)
    if out is None or place is None:
        if as_json:
            typer.echo(json_line({"settings": {**settings_of(context), "data": data}, **used, **report}))
        return
    notes = {"reader": reader.notes(), "columns": [*examples[0].columns], "version": bridle.__version__}
    took, trouble = training_run.fit(
        model,
        examples,
        beside,
        on_unknown=on_unknown.value,
        measure=measure.value,
        checkpoint=checkpoint,
        every=every,
        resume=resume,
        progress=progress,
        log=log,
        groups=groups,
    )
    model.save(out, notes=notes)
    scores = None
    if beside is not None:
        scores = training_run.dev_scores(model, beside, trained_under, threads, content["labels"])
    record = {**recorded(model, {**settings_of(context), "data": data}, used, took, scores), **report}
    write_config(place, record)
    warn(f"{training_run.summary(model)}; saved as {out}")
    if scores is not None:
        warn(training_run.dev_summary(scores))
    if cross_fit is not None and trouble is None:
        training_run.kept_cross_fit(model, examples, groups, cross_fit, training_run.sayer(progress))
    if as_json:
        typer.echo(json_line(record))
    if isinstance(trouble, KeyboardInterrupt):
        fail("interrupted; this is the best model so far", INTERRUPTED)
    if trouble is not None:
        raise trouble
