"""`bridle train`: labelled sequences in, a model out."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

import bridle
from bridle.atomic import claimed, write_text
from bridle.cli import options as opt
from bridle.cli import training_run
from bridle.cli.base import Command, app, check_model_path, check_writable, exit_with, json_line, refuse_overwrite, warn
from bridle.cli.progress import ProgressBar
from bridle.cli.reading import file_groups, load_rules, make_reader, read_all, read_unlabelled, used_examples
from bridle.cli.training_run import Comparison, Learner
from bridle.data.reader import Reader
from bridle.errors import FileError, ModelError, shown
from bridle.features import SETS
from bridle.interrupts import INTERRUPTED
from bridle.models.folds import FOLDS
from bridle.models.record import (
    build_record,
    changed_files,
    check_record_path,
    describe_data,
    read_record,
    write_record,
)
from bridle.models.task import labels_of
from bridle.rules import phrases
from bridle.rules.loading import read_text

# ---- the settings file ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RareSettings:
    """Settings of training that only a settings file has; None is the default of the learner."""

    cutoff: int = 1  # leave out features that occur fewer times
    c2_transitions: float | None = None  # of two labels in a row, of crf; c2 by default
    pairs: str | None = None  # label pairs with a weight: seen in training, or all
    margin: float | None = None  # of the local learners
    average: str | None = None  # averaged or last weights, of all learners but crf
    folds: int | None = None  # for --search and --cross-fit
    tuning_seconds: float | None = None  # limit for choosing c1 and c2, or for --search


_RARE = {field.name: field.default for field in fields(RareSettings)}
_CHOICES = {"pairs": ("seen", "all"), "average": ("averaged", "last")}
_LEAST = {"cutoff": 1, "c2_transitions": 0, "folds": 2, "tuning_seconds": 0}
# Options about output are not part of a run; and repeating a resumed run means repeating all of it.
_NOT_SETTINGS = {"settings", "write_settings", "progress", "as_json", "resume"}


def _read_settings(context: typer.Context, path: Path | None) -> Path | None:
    """Use the settings of a file as defaults of the options."""
    if path is None or context.resilient_parsing:
        return path
    try:
        read = tomllib.loads(read_text(path)) if path.suffix == ".toml" else read_record(path)["settings"]
    except tomllib.TOMLDecodeError as error:
        wanted = "lines such as c2 = 0.5 or data = ['train.txt']"
        raise FileError("not TOML", got=str(error), wanted=wanted, where=str(path)) from None
    settings = {name.replace("-", "_"): value for name, value in read.items()}
    known = [str(param.name) for param in context.command.params if param.name not in ("help", *_NOT_SETTINGS)]
    if unknown := sorted(set(settings) - {*known, *_RARE}):
        near = get_close_matches(unknown[0], [*known, *_RARE], n=1)
        raise FileError(
            "unknown setting",
            got=repr(unknown[0]),
            wanted="names of options of bridle train" + (f", such as {near[0]!r}" if near else ""),
            cause=f"Did you mean {near[0]!r}?" if near else "Is it from another version of Bridle?",
            where=str(path),
        )
    data = settings.get("data") or []
    if not isinstance(data, list) or not all(isinstance(file, str) for file in data):
        wanted = '"data": ["train.txt", ...]'
        raise FileError('"data" must be a list of files', got=shown(data), wanted=wanted, where=str(path))
    if isinstance(settings.get("rules"), str):  # of a version that took one file
        settings["rules"] = [settings["rules"]]
    rare = {name: settings.pop(name) for name in _RARE if name in settings}
    for name, value in rare.items():
        _check_rare(name, value, path)
    context.obj = RareSettings(**rare)
    context.default_map = {name: value for name, value in settings.items() if value is not None}
    return path


def _check_rare(name: str, value: Any, path: Path) -> None:
    """Raise `FileError` if a setting that has no option has a bad value."""
    if value is None and _RARE[name] is None:
        return
    if name in _CHOICES:
        fits, wanted = value in _CHOICES[name], " or ".join(map(repr, _CHOICES[name]))
    else:
        is_number = isinstance(value, int if name in ("cutoff", "folds") else (int, float))
        fits = is_number and not isinstance(value, bool) and value >= _LEAST.get(name, value)
        wanted = f"a number >= {_LEAST[name]}" if name in _LEAST else "a number"
    if not fits:
        raise FileError(f"bad setting {name}", got=shown(value), wanted=wanted, where=str(path))


def _settings_in_force(context: typer.Context, rare: RareSettings, data: list[str]) -> dict[str, Any]:
    """Return all settings in the order of the help, including those with default values."""
    names = [str(param.name) for param in context.command.params]
    values = {name: context.params[name] for name in names if name in context.params and name not in _NOT_SETTINGS}
    return {**{name: _plain(value) for name, value in values.items()}, **asdict(rare), "data": data}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, Path) else value


def _write_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Write settings as TOML; TOML has no null, so that settings without a value are left out."""
    lines = [
        f"{name} = {json.dumps(value, ensure_ascii=False)}"
        for name, value in settings.items()
        if value not in (None, [])
    ]
    write_text(path, "\n".join([f"# Settings of bridle train {bridle.__version__}", *lines]) + "\n")


class Task(StrEnum):
    """Values of --task."""

    LABELS, SEGMENTATION = "labels", "segmentation"


# ---- the command ----------------------------------------------------------------------------------------------------

_CHOOSING, _DATA, _TRAINING, _OUTPUT = "Choosing settings", "Data", "Training", "Output"


@app.command(cls=Command)
@opt.grouped
def train(
    *,
    context: typer.Context,
    data: Annotated[
        list[str] | None, typer.Argument(metavar="DATA", help="Labelled sequences, optionally gzipped; - reads stdin.")
    ] = None,
    out: Annotated[Path | None, opt.option("-o, --out MODEL", "Model file to write; optional with --cv.")] = None,
    dev: Annotated[
        str | None, opt.option("--dev FILE", "Development set; the model that is best on it is kept.")
    ] = None,
    features: Annotated[
        str,
        opt.option(
            "--features NAME",
            f"Feature set ({', '.join(SETS)}) or template file; auto: chosen by the labels.",
            autocompletion=opt.COMPLETE_FEATURES,
        ),
    ] = "auto",
    learner: Annotated[
        Learner,
        opt.option(
            "--learner",
            "Training algorithm; ibt: a perceptron under --rules; constrained: contexts decide first.",
        ),
    ] = Learner.CRF,
    task: Annotated[
        Task, opt.option("--task", "What to learn: labels of tokens, or how to cut text into words.")
    ] = Task.LABELS,
    settings: Annotated[
        Path | None,
        opt.option(
            "--settings, --config FILE",
            "Read settings from FILE.toml, or repeat the run recorded in MODEL.json; options and DATA on the "
            "command line override it.",
            is_eager=True,
            callback=_read_settings,
        ),
    ] = None,
    write_settings: Annotated[
        Path | None, opt.option("--write-settings FILE.toml", "Write the settings in force to this file.")
    ] = None,
    reads: opt.DataOptions,
    scheme: opt.SchemeOption = opt.Scheme.AUTO,
    labels: Annotated[
        str | None,
        opt.option(
            "--labels A,B,...",
            "Labels or segment types that the model knows though DATA may lack them, for rules.",
            _DATA,
        ),
    ] = None,
    on_unknown: opt.OnUnknownOption = opt.OnUnknown.RAISE,
    c1: Annotated[str | None, opt.option("--c1 X", "L1 regularisation (crf), or auto, the default.", _TRAINING)] = None,
    c2: Annotated[str | None, opt.option("--c2 X", "L2 regularisation (crf), or auto, the default.", _TRAINING)] = None,
    iterations: Annotated[
        int | None, opt.option("--iterations N", "Maximum number of iterations. Default: 100 (crf) or 20.", _TRAINING)
    ] = None,
    patience: Annotated[
        int | None, opt.option("--patience N", "Stop after N iterations without a gain on --dev.", _TRAINING, min=1)
    ] = None,
    class_weight: Annotated[
        str | None,
        opt.option(
            "--class-weight A=X,...", "Weights of labels or segment types, such as PER=3,ORG=2, or balanced.", _TRAINING
        ),
    ] = None,
    list: Annotated[
        list[str] | None,
        opt.option(
            "--list NAME=FILE", "File with phrases, for templates such as in:NAME[0]; can be repeated.", _TRAINING
        ),
    ] = None,
    rules: Annotated[
        list[Path] | None,
        opt.option(
            "--rules FILE", ".rules file, for --unlabelled, --learner ibt and --cv; can be repeated.", _TRAINING
        ),
    ] = None,
    unlabelled: Annotated[
        list[str] | None,
        opt.option(
            "--unlabelled FILE",
            "Text without labels to learn from too, under --rules; read as DATA is. Can be repeated.",
            _TRAINING,
        ),
    ] = None,
    lenient: opt.LenientOption = False,
    cv: Annotated[
        int | None,
        opt.option(
            "--cv N", "Cross-validate the settings, and --rules, in N folds; -o is then optional.", _CHOOSING, min=2
        ),
    ] = None,
    search: Annotated[
        list[str] | None,
        opt.option(
            "--search NAMES",
            "Search for the best c1, c2, cutoff or features by successive halving: c1,c2 or c2=0.1,1. Repeatable.",
            _CHOOSING,
        ),
    ] = None,
    measure: opt.MeasureOption = opt.Measure.AUTO,
    hold_out: opt.HoldOutOption = opt.HoldOut.SEQUENCES,
    plot: Annotated[
        Path | None,
        opt.option("--plot FILE", "Plot the search to this file: .png, .svg or .pdf; needs Matplotlib.", _CHOOSING),
    ] = None,
    cross_fit: Annotated[
        Path | None,
        opt.option("--cross-fit FILE", "Save the scores of held-out sequences here, for bridle learn.", _OUTPUT),
    ] = None,
    checkpoint: Annotated[
        Path | None, opt.option("--checkpoint FILE", "Save the state of training here.", _OUTPUT)
    ] = None,
    every: Annotated[int, opt.option("--every N", "Iterations between checkpoints.", _OUTPUT, min=1)] = 10,
    resume: Annotated[Path | None, opt.option("--resume FILE", "Resume from this checkpoint.", _OUTPUT)] = None,
    log: Annotated[
        str | None, opt.option("--log FILE", "Write one JSON line per iteration to this file.", _OUTPUT)
    ] = None,
    as_json: opt.JsonOption = False,
    progress: opt.ProgressOption = None,
    seed: opt.SeedOption = 0,
    threads: opt.ThreadsOption = 0,
) -> None:
    """Train a tagger on labelled sequences.

    \b
    Examples:
      bridle train train.txt -o chunks.bridle --columns word,pos,chunk --dev dev.txt
      bridle train refs.tagged -o refs.bridle --features fields --option tokens=punctuation
      bridle train corpus.txt -o words.bridle --format segmented --learner perceptron
      bridle train corpus.txt -o words.seg --task segmentation
      bridle train --settings chunks.toml -o again.bridle --c1 0 --c2 0.5
      bridle train train.txt -o names.bridle --class-weight MISC=3
      bridle train acm.txt ieee.txt -o refs.bridle --hold-out files --cross-fit refs.scores
      bridle train train.txt --cv 5 --rules my.rules              measure settings and rules on held-out data
      bridle train few.txt -o m.bridle --unlabelled heap.txt --rules my.rules
      bridle train train.txt -o m.bridle --search c1,c2 --plot search.svg
      bridle train train.txt -o m.bridle --checkpoint m.check     (then, after a stop:)
      bridle train train.txt -o m.bridle --checkpoint m.check --resume m.check

    \b
    Unknown labels are ? or null in DATA; training does not use the labels of such tokens. --option missing=TEXT
    replaces the ?, and missing=none makes ? a label like the others.
    Templates are lines such as  word[-1] word[0]  or  suffix2[0];  label[-1] adds label bigrams.
    A list has one phrase per line; with --list cities=cities.txt, in:cities[0] is the position of a token in a phrase.
    With --task segmentation, lines of words teach a segmenter: bridle tag then cuts lines of text into words.
    With --learner constrained, contexts that nearly always have one label decide tokens; a perceptron labels the
    others.
    By default, c1 and c2 are chosen on held-out halves of DATA. --search compares more values, or cutoffs and feature
    sets, and trains the model with the best.
    --cross-fit saves the scores of held-out sequences, for bridle learn and bridle rules tune.
    With --unlabelled, rules and text without labels replace labels that are lacking: see docs/few_labels.md.
    A settings file has a line such as  c2 = 0.5  for each option, and for settings that have no option: cutoff, pairs,
    c2_transitions, margin, average, folds, tuning_seconds. --write-settings writes one.
    MODEL.json records all settings, the data, the course of training and the scores on --dev; --json prints it.

    \b
    Exit codes:
      0    success
      2    bad input, bad usage, or the model cannot be written
      130  stopped by Ctrl-C; the best model so far is saved, unless settings were still being compared
    """
    if task is Task.SEGMENTATION:
        from bridle.cli.segmenting import train_segmenter  # importing it takes long

        train_segmenter(context)
        return
    rare: RareSettings = context.obj or RareSettings()
    data = data or (context.default_map or {}).get("data")
    if not data or (out is None and cv is None and not search):
        missing = "-o MODEL" if data else "DATA"
        raise FileError(f"{missing} is missing", got="nothing", wanted=f"{missing}, or --settings FILE")
    training_run.check_text(unlabelled, rules, learner, cv, {"--search": search, "--cross-fit": cross_fit})
    if log == "-" and as_json:
        raise FileError("--json and --log cannot share standard output", got="--log -", wanted="--log FILE")
    tuned = learner is Learner.CRF and c2 in (None, "auto")
    held_out = cv is not None or (bool(search) and dev is None)
    if hold_out is opt.HoldOut.FILES and cross_fit is None and not (tuned or held_out):
        raise ModelError(
            "--hold-out has no effect: no sequences are held out",
            got="--hold-out files",
            wanted="--c2 auto, --cv N, or --cross-fit FILE",
            cause="Sequences are held out to choose or measure settings, and for cross-fitted scores.",
        )
    if learner is Learner.CONSTRAINED and (held_out or search or cross_fit is not None):
        flag = "--cv" if cv is not None else "--search" if search else "--cross-fit"
        wanted = "--dev FILE, or --learner crf"
        raise ModelError(f"{flag} cannot be used with --learner constrained", got=flag, wanted=wanted)
    training_run.check_comparison(cv=cv, search=search, dev=dev, plot=plot)
    for flag, path in {"--checkpoint": checkpoint, "--resume": resume, "--log": log, "--cross-fit": cross_fit}.items():
        if out is None and path is not None:
            raise FileError(f"{flag} needs -o", got=f"{flag} without -o", wanted="-o MODEL as well")
    record_file = None if out is None else check_record_path(out)
    phrase_files = _phrase_files(list)
    template_file = features if features not in ("auto", *SETS) and "[" not in features else None
    inputs = [*data, dev, *(rules or ()), *(unlabelled or ()), template_file, *phrase_files.values()]
    refuse_overwrite(out, *inputs, resume)
    written: Sequence[Any] = (out, record_file)
    # the checkpoint may be the file to resume from
    for flag, path in (("--checkpoint", checkpoint), ("--log", log), ("--cross-fit", cross_fit), ("--plot", plot)):
        refuse_overwrite(path, *inputs, *written, *(() if flag == "--checkpoint" else (resume,)), flag=flag)
        written = (*written, path)
    refuse_overwrite(write_settings, *inputs, *written, resume, flag="--write-settings")
    for file in filter(None, (out, checkpoint, record_file, cross_fit, plot, write_settings)):
        check_writable(file)
    for file in filter(None, (out, checkpoint, cross_fit)):
        check_model_path(file)
    context.with_resource(claimed(out, checkpoint, cross_fit))
    load_rules(rules, None)
    in_force = _settings_in_force(context, rare, data)
    if write_settings is not None:
        _write_settings(write_settings, in_force)
    examples, reader = read_all(make_reader(*reads.arguments), data, progress, "keep")
    training_run.warn_missing_labels(examples)
    if search and learner is not Learner.CRF:  # they are about the search
        of_model = replace(rare, folds=None, tuning_seconds=None)
    else:
        of_model = rare
    more_labels = [name.strip() for name in labels.split(",")] if labels else None
    common = {
        "features": training_run.features_for(features, examples),
        "lists": {name: phrases(path) for name, path in phrase_files.items()} or None,
        "cutoff": rare.cutoff,
        "scheme": scheme.library_name,
        "labels": more_labels,
        "patience": patience,
        "class_weight": _class_weight(class_weight),
        "seed": seed,
        "threads": threads,
        **({"pairs": rare.pairs} if rare.pairs else {}),
        "iterations": training_run.ITERATIONS[learner is Learner.CRF] if iterations is None else iterations,
    }
    specific = {
        "c1": training_run.parse_strength("c1", c1),
        "c2": training_run.parse_strength("c2", c2),
        "c2_transitions": rare.c2_transitions,
        "folds": of_model.folds,
        "tuning_seconds": of_model.tuning_seconds,
        "margin": rare.margin,
        "average": rare.average,
    }
    names = {name for example in examples for name in example.labels or () if name is not None}
    needs_labels = rules or on_unknown is opt.OnUnknown.SKIP
    known = labels_of(sorted(names), scheme.library_name, more_labels) if needs_labels else None
    loaded_rules = load_rules(rules, known, lenient=lenient)
    trained_under = loaded_rules if learner is Learner.IBT else []
    text = None
    if unlabelled is not None:  # tagged text becomes plain text
        text, _ = read_unlabelled(Reader.noted({"reader": reader.notes()}, "missing"), unlabelled, progress)
    model = training_run.make_model(
        learner, common, {name: value for name, value in specific.items() if value is not None}, trained_under
    )
    dev_examples = None if dev is None else read_all(reader, [dev], progress, "keep")[0]
    content = describe_data(data, examples)
    used = {"data": content, "dev": None if dev_examples is None else describe_data([str(dev)], dev_examples)}
    if text is not None:
        used["unlabelled"] = describe_data(unlabelled or [], [replace(example, labels=None) for example in text])
    if dev_examples is not None and known is not None and on_unknown is opt.OnUnknown.SKIP:
        dev_examples = [*used_examples(dev_examples, known, on_unknown)]
    if settings is not None and settings.suffix != ".toml":
        for change in changed_files(read_record(settings), used):
            warn(change)
    groups = file_groups(examples, hold_out)
    grid = training_run.parse_grid(search or [], [*examples[0].columns])
    training_run.check_grid(grid, learner, {"c1": c1, "c2": c2})
    comparison = Comparison(
        cv,
        grid,
        measure,
        folds=rare.folds or FOLDS,
        seconds=rare.tuning_seconds,
        on_unknown=on_unknown.value,
        plot=plot,
        progress=progress,
        quiet=as_json,
    )
    if "features" not in grid:
        training_run.print_feature_choice(features, examples)
    report = comparison.run(model, examples, dev_examples, loaded_rules, groups)
    if out is None or record_file is None:
        if as_json:
            typer.echo(json_line({"settings": in_force, **used, **report}))
        return
    notes = {"reader": reader.notes(), "columns": [*examples[0].columns], "version": bridle.__version__}
    seconds, interruption = training_run.fit(
        model,
        examples,
        dev_examples,
        on_unknown=on_unknown.value,
        measure=measure.value,
        checkpoint=checkpoint,
        every=every,
        resume=resume,
        progress=progress,
        log=log,
        groups=groups,
        unlabelled=text,
        rules=loaded_rules,
    )
    model.save(out, notes=notes)
    scores = None
    if dev_examples is not None:
        scores = training_run.score_dev(model, dev_examples, loaded_rules, threads, content["labels"])
    record = {**build_record(model, in_force, used, seconds, scores), **report}
    write_record(record_file, record)
    warn(f"{training_run.summary(model)}; saved as {out}")
    if scores is not None:
        warn(training_run.dev_summary(scores))
    if cross_fit is not None and interruption is None:
        training_run.save_cross_fit(model, examples, groups, cross_fit, ProgressBar(progress, "scoring").say)
    if as_json:
        typer.echo(json_line(record))
    if isinstance(interruption, KeyboardInterrupt):
        exit_with("interrupted; this is the best model so far", INTERRUPTED)
    if interruption is not None:
        raise interruption


def _class_weight(text: str | None) -> dict[str, float] | str | None:
    """Parse --class-weight: LABEL=WEIGHT, separated by commas, or balanced."""
    if text is None or text == "balanced":
        return text
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, _, weight = (piece.strip() for piece in part.rpartition("="))
        try:
            if not name or name in weights:
                raise ValueError
            weights[name] = float(weight)
        except ValueError:
            raise ModelError(
                "`--class-weight` must be a list of weights, or balanced",
                got=repr(part),
                wanted="LABEL=NUMBER, each label once, such as PER=3,ORG=2, or balanced",
            ) from None
    return weights


def _phrase_files(options: Sequence[str] | None) -> dict[str, str]:
    """Parse --list: phrase files by name."""
    files: dict[str, str] = {}
    for text in options or ():
        name, mark, path = text.partition("=")
        if not mark or not path or not re.fullmatch(r"\w+", name) or name in files:
            wanted = "--list NAME=FILE, each name once, of letters, digits and _"
            raise FileError("--list must name a file of phrases", got=f"--list {text}", wanted=wanted)
        files[name] = path
    return files
