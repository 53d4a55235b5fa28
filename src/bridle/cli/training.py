"""`bridle train`: labelled sequences in, a model out."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import bridle
from bridle.atomic import claimed
from bridle.cli import training_run
from bridle.cli.base import INTERRUPTED, app, check_kind, check_place, fail, json_line, keep, warn
from bridle.cli.learners import ITERATIONS, Average, Learner, Pairs, model_of, strength_of, templates_of
from bridle.cli.options import (
    FEATURES,
    AnyScheme,
    AsJson,
    DataScheme,
    HoldOut,
    TheHoldOut,
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
from bridle.errors import FileError, ModelError
from bridle.features import SETS


class OnUnknown(StrEnum):
    """What --on-unknown takes."""

    RAISE, WRONG = "raise", "wrong"


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
    c1: Annotated[str | None, typer.Option(metavar="X", help="L1 regularisation (crf), or auto, the default.")] = None,
    c2: Annotated[str | None, typer.Option(metavar="X", help="L2 regularisation (crf), or auto, the default.")] = None,
    folds: Annotated[
        int | None, typer.Option(metavar="N", min=2, help="Folds to choose c1 and c2 by. Default: 4.")
    ] = None,
    tuning_seconds: Annotated[
        float | None, typer.Option(metavar="X", min=0, help="The most time to choose c1 and c2 in. Default: 180.")
    ] = None,
    hold_out: TheHoldOut = HoldOut.SEQUENCES,
    cross_fit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the scores of held-out sequences here, for bridle learn.")
    ] = None,
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
      bridle train --config chunks.bridle.json -o again.bridle --c1 0 --c2 0.5
      bridle train acm.txt ieee.txt -o refs.bridle --hold-out files --cross-fit refs.scores
      bridle train train.txt -o m.bridle --checkpoint m.check     (then, after a stop:)
      bridle train train.txt -o m.bridle --checkpoint m.check --resume m.check

    \b
    Templates are lines such as  word[-1] word[0]  or  suffix2[0];  label[-1] asks for label bigrams.
    Regularisation makes more of a difference than most rules: by default c1 and c2 are chosen by cross-validation on
    DATA. --cross-fit keeps the scores of held-out sequences that this leaves, for bridle learn and bridle rules tune.
    All settings, the data, how training went and the scores on --dev are kept in MODEL.json; --json prints them too.

    \b
    Exit codes:
      0    trained
      2    bad input, bad usage, or the model cannot be written
      130  stopped by Ctrl-C; the best model so far is saved, unless c1 and c2 were still being chosen
    """
    data = data or (context.default_map or {}).get("data")
    if not data or out is None:
        what, wanted = ("no data", "DATA") if not data else ("no place for the model", "-o MODEL")
        raise FileError(f"there is {what}", got="nothing", wanted=f"{wanted}, or --config FILE")
    if rules is not None and learner is not Learner.IBT:
        raise ModelError(
            "rules are for inference-based training",
            got=f"--learner {learner}",
            wanted="--learner ibt",
            cause="To obey rules when tagging, pass them to bridle tag.",
        )
    if log == "-" and as_json:
        raise FileError("--json stands alone on standard output", got="--log -", wanted="--log FILE")
    if hold_out is HoldOut.FILES and cross_fit is None and (learner is not Learner.CRF or c2 not in (None, "auto")):
        raise ModelError(
            "nothing is held out",
            got="--hold-out files",
            wanted="--c2 auto, or --cross-fit FILE",
            cause="Sequences are held out to choose c1 and c2, and for cross-fitted scores.",
        )
    place = place_beside(out)
    read = [*data, dev, rules, features if features not in ("auto", *SETS) and "[" not in features else None]
    keep(out, *read, resume)
    keep(checkpoint, *read, out, place, flag="--checkpoint")  # it may be what is resumed
    keep(log, *read, resume, out, checkpoint, place, flag="--log")
    keep(cross_fit, *read, resume, out, checkpoint, place, log, flag="--cross-fit")
    for path in filter(None, (out, checkpoint, place, cross_fit)):
        check_place(path)
    for path in filter(None, (out, checkpoint, cross_fit)):
        check_kind(path)
    context.with_resource(claimed(out, checkpoint, cross_fit))
    rules_of(rules, None)
    examples, reader = read_all(reader_of(format, columns, label, option), data, progress)
    common = {
        "features": templates_of(features, examples[0], reader),
        "cutoff": cutoff,
        "scheme": scheme.asked,
        "patience": patience,
        "seed": seed,
        "threads": threads,
        **({"pairs": pairs.value} if pairs else {}),
        "iterations": ITERATIONS[learner is Learner.CRF] if iterations is None else iterations,
    }
    own = {
        "c1": strength_of("c1", c1),
        "c2": strength_of("c2", c2),
        "folds": folds,
        "tuning_seconds": tuning_seconds,
        "margin": margin,
        "average": None if average is None else average.value,
    }
    known = None if rules is None else labels_in((one.labels or () for one in examples), scheme.asked)
    obeyed = rules_of(rules, known)
    model = model_of(learner, common, {name: value for name, value in own.items() if value is not None}, obeyed)
    beside = None if dev is None else read_all(reader, [dev], progress)[0]
    used = {"data": described(data, examples), "dev": None if beside is None else described([str(dev)], beside)}
    for change in changes(config, used) if config is not None else ():
        warn(change)
    notes = {"reader": reader.notes(), "columns": list(examples[0].columns), "version": bridle.__version__}
    took, trouble = training_run.fit(
        model,
        examples,
        beside,
        on_unknown=on_unknown.value,
        checkpoint=checkpoint,
        every=every,
        resume=resume,
        progress=progress,
        log=log,
        groups=groups_of(examples, hold_out),
    )
    model.save(out, notes=notes)
    scores = None if beside is None else training_run.dev_scores(model, beside, obeyed, threads)
    record = recorded(model, {**settings_of(context), "data": data}, used, took, scores)
    write_config(place, record)
    warn(f"{training_run.summary(model)}; saved as {out}")
    if cross_fit is not None and trouble is None:
        training_run.kept_cross_fit(
            model, examples, groups_of(examples, hold_out), cross_fit, training_run.sayer(progress)
        )
    if as_json:
        typer.echo(json_line(record))
    if isinstance(trouble, KeyboardInterrupt):
        fail("interrupted; this is the best model so far", INTERRUPTED)
    if trouble is not None:
        raise trouble
