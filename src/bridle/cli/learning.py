"""`bridle learn`: learn rules from labelled sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

import bridle
from bridle.atomic import claimed
from bridle.cli import options as opt
from bridle.cli.base import (
    WARNINGS,
    Command,
    app,
    check_model_path,
    check_writable,
    escape_controls,
    exit_with,
    json_line,
    print_stderr,
    refuse_overwrite,
    warn,
)
from bridle.cli.progress import ProgressBar
from bridle.cli.reading import (
    file_groups,
    gold_labels,
    label_names,
    make_labels,
    make_model_reader,
    make_reader,
    model_inputs,
    read_all,
    used_examples,
)
from bridle.cli.training_run import dev_inputs, print_feature_choice, save_cross_fit, trial_printer
from bridle.data import Example, Lines
from bridle.errors import FileError, ModelError
from bridle.interrupts import INTERRUPTED
from bridle.learn import DeterministicRules, Scores, fit_rules
from bridle.learn.evidence import from_counts, log_odds, priced
from bridle.learn.joint import JointWeights
from bridle.learn.judged import SEEN
from bridle.learn.relational import ALL, RelationalRules
from bridle.learn.rules_file import LearnedFile, back_up, printable
from bridle.models import CRF, CrossFit, Step, Tagger

_OF_SCORES = (".npz", ".parquet", ".pq", ".arrow", ".feather")  # suffixes of files that can be taken for scores
_ALL_SEEN = 0.99  # the share of sequences that a model has seen from which on they are its training data


class Kind(StrEnum):
    """Values of --kind."""

    RELATIONAL, DETERMINISTIC = "relational", "deterministic"


class Penalty(StrEnum):
    """Values of --penalty."""

    MODEL, COUNTS, LOG_ODDS, JOINT = "model", "counts", "log-odds", "joint"


@app.command(cls=Command)
@opt.grouped
def learn(
    *,
    context: typer.Context,
    out: Annotated[str, opt.option("-o, --out FILE", "File for the rules; - writes to stdout.")],
    data: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DATA]...", help="Labelled sequences, optionally gzipped; - reads stdin."),
    ] = None,
    gold: Annotated[list[str] | None, opt.option("--gold FILE", "The same as DATA; can be repeated.")] = None,
    scores: opt.ScoresOption = None,
    labels: opt.LabelsOption = None,
    kind: Annotated[
        Kind,
        opt.option(
            "--kind",
            "relational: rules about the labels of a sequence (a .rules file). "
            "deterministic: contexts that fix the label of a token.",
        ),
    ] = Kind.RELATIONAL,
    kinds: Annotated[
        str | None, opt.option("--kinds A,B,...", f"Kinds of rules to learn: {', '.join(ALL)}. Default: all.")
    ] = None,
    soft: Annotated[bool, opt.option("--soft/--hard", "Learn soft rules with penalties, or hard rules.")] = True,
    penalty: Annotated[
        Penalty,
        opt.option(
            "--penalty",
            "How to set penalties. model: by what a rule adds to the model. joint: together, by decoding. "
            "counts, log-odds: by how often a rule held, as if the model knew nothing.",
        ),
    ] = Penalty.MODEL,
    model: Annotated[
        Path | None, opt.option("--model MODEL", "Learn penalties for this model. Default: one trained on DATA.")
    ] = None,
    cross_fit: opt.CrossFitOption = None,
    hold_out: opt.HoldOutOption = opt.HoldOut.SEQUENCES,
    scored_by: opt.ScoredByOption = opt.ScoredBy.AUTO,
    on_unknown: opt.LearnableOption = opt.Learnable.RAISE,
    tune: Annotated[
        str | None, opt.option("--tune FILE", "--penalty joint: learn penalties on this file, not on DATA.")
    ] = None,
    dev: Annotated[
        str | None, opt.option("--dev FILE", "--penalty joint: keep the penalties that are best on this file.")
    ] = None,
    iterations: Annotated[
        int | None, opt.option("--iterations N", "--penalty joint: maximum number of passes. Default: 20.", min=1)
    ] = None,
    patience: Annotated[
        int | None, opt.option("--patience N", "--penalty joint: stop after N passes without a gain.", min=1)
    ] = None,
    min_support: Annotated[
        int | None, opt.option("--min-support N", "Minimum number of sequences to which a rule must apply.", min=1)
    ] = None,
    significance: Annotated[
        float | None, opt.option("--significance X", "Accepted share of rules that are due to chance.")
    ] = None,
    max_rules: Annotated[
        int | None,
        opt.option("--max-rules N", "Keep at most the N most useful rules; --penalty model: consider only N.", min=1),
    ] = None,
    scheme: opt.SchemeOption = opt.Scheme.AUTO,
    cutoff: Annotated[
        int, opt.option("--cutoff N", "Deterministic rules: a context must occur more than N times.", min=0)
    ] = 5,
    reads: opt.DataOptions,
    seed: opt.SeedOption = 0,
    threads: opt.ThreadsOption = 0,
    as_json: opt.JsonOption = False,
    progress: opt.ProgressOption = None,
) -> None:
    """Learn rules from labelled sequences, with their evidence and penalties.

    Penalties are learned for a model, on sequences that it has not seen: each part of DATA is scored by a model trained
    on the others. A rule is kept if it adds to what the model knows. If all rules together do not beat the model
    without rules, the file contains none and says so.

    \b
    Examples:
      bridle learn refs.tagged -o refs.rules --model refs.bridle
      bridle learn acm.txt ieee.txt -o refs.rules --model refs.bridle --hold-out files
      bridle learn train.txt -o my.rules --model m.bridle --cross-fit m.scores
      bridle learn --scores logits.npz --gold dev.jsonl -o my.rules
      bridle learn --scores fold*.npz --gold train.jsonl -o my.rules
      bridle learn train.txt -o my.rules --columns word,pos,chunk --kinds presence,count --hard
      bridle learn train.txt -o my.rules --penalty joint --model m.bridle --tune held.txt --dev dev.txt
      bridle learn train.txt -o pos.det --kind deterministic

    \b
    A .rules file is text: you can read and edit it, measure it with bridle rules test, and use it with
    bridle tag --rules. Without --model, a CRF is trained on DATA first, with the default settings of bridle train; it
    is not saved.
    If MODEL was trained on less than a tenth of DATA, DATA is scored by MODEL itself (--scored-by).
    With --scores, rules are learned for the scores of any model, such as the logits of a network: a file of scores of
    data that it has not seen, or a file per fold, scored by a model that was trained on the other folds. The sequences
    are in the order of the gold data.
    Penalties by counts (--penalty counts) charge again for what the model already knows, and often do harm.
    Deterministic rules are saved in a binary file, because there are many.

    \b
    Exit codes:
      0    rules were found
      1    no rules were found, or none makes the model better (the file says so)
      2    bad input, bad usage, or the rules cannot be written
      130  stopped by Ctrl-C; if joint penalties were being learned, the best so far are written
    """
    relative = soft and penalty is Penalty.MODEL and kind is Kind.RELATIONAL
    gold, scores = split_scores([*(data or ()), *(gold or ())], scores)
    check_sources(model, scores, {"--cross-fit": cross_fit, "--labels": labels}, scored_by, hold_out)
    _fits(
        kind,
        "model" if relative else penalty.value if soft and kind is Kind.RELATIONAL else "none",
        {
            "--model": model,
            "--scores": scores or None,
            "--tune": tune,
            "--dev": dev,
            "--iterations": iterations,
            "--patience": patience,
            "--cross-fit": cross_fit,
            "--hold-out": None if hold_out is opt.HoldOut.SEQUENCES else hold_out.value,
            "--scored-by": None if scored_by is opt.ScoredBy.AUTO else scored_by.value,
            "--on-unknown": None if on_unknown is opt.Learnable.RAISE else on_unknown.value,
        },
        out,
        as_json,
    )
    refuse_overwrite(out, *gold, *scores, model, tune, dev, cross_fit)
    refuse_overwrite(cross_fit, *gold, model, flag="--cross-fit")
    if kind is Kind.DETERMINISTIC:
        check_model_path(Path(out))
    if cross_fit is not None:
        check_writable(cross_fit)
        check_model_path(cross_fit)
    context.with_resource(claimed(out, cross_fit))
    tagger = None if model is None else bridle.load(model)
    examples, reader = read_all(
        make_reader(*reads.arguments) if tagger is None else make_model_reader(tagger, *reads.arguments),
        gold,
        progress,
        gaps="keep" if scores else "leave out",
    )
    if kind is Kind.DETERMINISTIC:
        _deterministic(examples, out, cutoff, as_json)
        return
    if tagger is not None:
        examples = list(used_examples(examples, tagger.labels_, on_unknown))
    limits = {"min_support": min_support, "significance": significance, "max_rules": max_rules}
    miner = RelationalRules(
        ALL if kinds is None else [name.strip() for name in kinds.split(",")],
        select="all" if relative else "cover",
        penalty="counts" if soft else None,
        seed=seed,
        scheme=scheme.library_name if tagger is None or scheme is not opt.Scheme.AUTO else tagger.labels_.scheme,
        **{name: value for name, value in limits.items() if value is not None},  # type: ignore[arg-type]
    )
    if relative:
        groups, say = file_groups(examples, hold_out), ProgressBar(progress, "learning").say
        settings: dict[str, Any] = {"seed": seed, "threads": threads, "groups": groups, "watch": say}
        settings |= {} if significance is None else {"significance": significance}
        if scores:
            source: Tagger | Scores = load_scores(scores, examples, labels, scheme, on_unknown)
            settings["on_unknown"] = on_unknown.value
        else:
            source = tagger or _trained(examples, scheme, groups, {"seed": seed, "threads": threads}, progress)
        fitted = fit_rules(
            source, *judged_by(source, examples, scored_by, cross_fit, settings), rules=miner, **settings
        )
        dropped = {why: int(n) for why, n in miner.report_.dropped.items()}
        for why, n in fitted.dropped.items():
            dropped[why] = dropped.get(why, 0) + n
        learned = LearnedFile(fitted.learned, dropped, tuple(fitted.lines()[1:]), fitted=fitted)
    else:
        miner.fit([list(e.tokens) for e in examples], gold_labels(examples))
        learned = LearnedFile(miner.learned_, {why: int(n) for why, n in miner.report_.dropped.items()})
        if soft and learned.learned:
            by = log_odds if penalty is Penalty.LOG_ODDS else from_counts
            learned = learned.softened(by(learned.learned), "penalty 0: broken in half of the sequences")
            if penalty is Penalty.JOINT and tagger is not None:
                where, dev_examples = (
                    None
                    if path is None
                    else list(used_examples(read_all(reader, [path], progress)[0], tagger.labels_, on_unknown))
                    for path in (tune, dev)
                )
                how_long = {"iterations": iterations or 20, "patience": patience, "seed": seed, "threads": threads}
                learned = _joint(learned, tagger, where or examples, dev_examples, how_long, progress)
            elif penalty is not Penalty.JOINT:
                warn(
                    "penalties by counts charge again for what the model already knows; "
                    "use --penalty model to learn penalties for a model"
                )
    how = f"penalties by {penalty.value}" if soft else "hard"
    if model is not None:
        asked: dict[str, Any] = {"model": model, "tune": tune, "dev": dev}
        asked |= {"iterations": iterations or 20, "patience": patience} if penalty is Penalty.JOINT else {}
        how += "".join(f", {name} {printable(str(value))}" for name, value in asked.items() if value is not None)
    write_rules(out, list(learned.lines([*gold, *scores], len(examples), miner, how)))
    print_stderr("\n".join(learned.summary(len(examples), out)))
    if as_json:
        typer.echo(json_line(learned.to_dict(len(examples), out)))
    if learned.interrupted:
        exit_with("interrupted; these are the best penalties so far", INTERRUPTED)
    raise typer.Exit(0 if learned.learned else WARNINGS)


def write_rules(out: str, lines: list[str]) -> None:
    """Write a rules file; a file that people may have edited is kept as FILE.bak."""
    if back_up(out, lines):
        warn(f"the previous contents of {out} are kept in {out}.bak")
    with Lines(out, None, escape_controls) as output:
        output.write(lines)


def _fits(kind: Kind, penalty: str, given: dict[str, Any], out: str, as_json: bool) -> None:
    """Check that the options can be combined. penalty: how penalties are learned, or "none"."""
    joint = {"--tune", "--dev", "--iterations", "--patience"}
    relative = {"--cross-fit", "--hold-out", "--scored-by", "--scores"}
    both = {"--model", "--on-unknown"}
    takes = {"model": relative | both, "joint": joint | both}.get(penalty, set())
    if penalty == "joint" and given["--model"] is None:
        raise ModelError("joint penalties need a model", got="--penalty joint", wanted="--model MODEL")
    for name, value in given.items():
        if value is not None and name not in takes:
            fitting = "joint" if name in joint else "model"
            wanted = f"--penalty {fitting}, --soft"
            raise ModelError(f"{name} has no effect with this --penalty", got=f"{name} {value}", wanted=wanted)
    if out == "-" and (as_json or kind is Kind.DETERMINISTIC):
        why = "--json" if as_json else "--kind deterministic"
        raise FileError("only rules or JSON can go to standard output", got=f"-o - with {why}", wanted="-o FILE")


def _trained(
    examples: list[Example],
    scheme: opt.Scheme,
    groups: list[str] | None,
    settings: dict[str, Any],
    progress: bool | None,
) -> Tagger:
    """Train a model with the default settings of bridle train."""
    warn("no --model was given: training one on DATA first, with the default settings of bridle train")
    X, y, given = model_inputs(examples)
    print_feature_choice("auto", examples)
    model = CRF(features="auto", scheme=scheme.library_name, **settings)
    return model.fit(X, y, given=given, groups=groups, watch_tuning=trial_printer(progress))


# ---- what rules are judged by: shared with `bridle rules tune` ------------------------------------------------------


def split_scores(data: list[str], scores: list[str] | None) -> tuple[list[str], list[str]]:
    """Separate labelled files from score files; a shell leaves all but the first of `--scores fold*.npz` to DATA."""
    if scores is None:
        return data, []
    more = [name for name in data if Path(name).suffix in _OF_SCORES]
    return [name for name in data if name not in more], scores + more


def check_sources(
    model: Path | None, scores: list[str], others: dict[str, Any], scored_by: opt.ScoredBy, hold_out: opt.HoldOut
) -> None:
    """Check that options about models are not combined with --scores, and the other way round."""
    others = {**others, "--model": model, "--scored-by": None if scored_by is opt.ScoredBy.AUTO else scored_by.value}
    if scores:
        others.pop("--labels")
        if len(scores) > 1 and hold_out is opt.HoldOut.FILES:
            others["--hold-out files"] = "with several files of scores, which are the folds"
    else:
        others = {"--labels": others["--labels"]}
    for name, value in others.items():
        if value is not None:
            problem = f"{name} cannot be combined with --scores" if scores else f"{name} has no effect without --scores"
            raise ModelError(problem, got=f"{name} {value}", wanted=f"no {name}" if scores else "--scores FILE")


def load_scores(
    files: list[str], examples: list[Example], labels: str | None, scheme: opt.Scheme, on_unknown: opt.Learnable
) -> Scores:
    """Read scores of labelled sequences; report, or refuse, unknown labels."""
    X, _, given = model_inputs(examples)
    known = Scores.load(files, X, labels=label_names(labels, None), given=given if any(given) else None)
    if scheme is not opt.Scheme.AUTO:
        known.labels = make_labels(known.labels.names, scheme)
    for _ in used_examples(examples, known.labels, on_unknown):
        pass
    return known


def judged_by(
    source: Tagger | Scores,
    examples: list[Example],
    scored_by: opt.ScoredBy,
    cross_fit: Path | None,
    settings: dict[str, Any],
) -> tuple[Any, ...]:
    """Return the data arguments of `fit_rules` and `tune_rules`; put the options for a model into `settings`."""
    X, y, given = model_inputs(examples)
    if isinstance(source, Scores):
        return (y,)
    groups, say = settings["groups"], settings["watch"]
    if cross_fit is None:
        _warn_seen(source, X, scored_by)
    else:
        cached = cross_fit.exists()
        settings["cross_fit"] = (
            CrossFit.load(cross_fit) if cached else save_cross_fit(source, examples, groups, cross_fit, say)
        )
    settings |= {"given": given, "scored_by": scored_by.value}
    return X, y


def _warn_seen(model: Tagger, X: Sequence[Any], scored_by: opt.ScoredBy) -> None:
    """Warn if a model was trained on a part of the data by which rules are judged."""
    share = model.share_seen(X) or 0.0
    if scored_by is not opt.ScoredBy.AUTO or not 0 < share < _ALL_SEEN:
        return
    seen = f"the model was trained on about {round(share * len(X)):,} of these {len(X):,} sequences"
    if share < SEEN:
        warn(f"{seen}; it is judged by all of them, as if they were new")
    else:
        warn(
            f"{seen}, so other models are judged in its place: each fold is scored by a model trained on the other "
            "folds; leave these sequences out, or pass --scored-by model to judge the model itself"
        )


# ---- other kinds of rules and penalties -----------------------------------------------------------------------------


def _deterministic(examples: list[Example], out: str, cutoff: int, as_json: bool) -> None:
    """Learn rules about single tokens: contexts that nearly always have the same label."""
    characters = "char" in examples[0].columns
    rules = DeterministicRules("characters" if characters else "words", cutoff=cutoff)
    rules.fit([list(e.tokens) for e in examples], gold_labels(examples))
    rules.save(out)
    warn(f"{len(examples):,} sequences; {rules.n_rules_:,} rules; saved as {out}")
    if as_json:
        facts = {"file": out, "sequences": len(examples), "n_rules": rules.n_rules_, "rules": list(rules.lines(20))}
        typer.echo(json_line(facts))
    if not rules.n_rules_:
        exit_with(f"no context fixes a label; lower --cutoff ({cutoff})", WARNINGS)


def _joint(
    learned: LearnedFile,
    tagger: Tagger,
    examples: list[Example],
    dev: list[Example] | None,
    settings: dict[str, Any],
    progress: bool | None,
) -> LearnedFile:
    """Return the rules with penalties learned by decoding."""
    learner = JointWeights([rule.rule for rule in learned.learned], tagger, start="penalties", **settings)
    X, y, given = model_inputs(examples)
    interrupted = False
    with ProgressBar(progress, "learning penalties") as show_progress:

        def watch(step: Step) -> None:
            score = "" if step.score is None else f"  dev {step.score:.2%}{' *' if step.best else ''}"
            show_progress(step.iteration, step.iterations, f"{step.loss:.2%} wrong{score}  {step.seconds:.2f} s")

        try:
            learner.fit(X, y, given=given, **dev_inputs(dev), watch=watch)
        except KeyboardInterrupt:
            if not hasattr(learner, "weights_"):
                raise
            interrupted = True
    pairs = zip(learned.learned, learner.weights_.tolist(), strict=True)
    soft = [replace(rule, rule=priced(rule.rule, weight)) for rule, weight in pairs]
    done = learner.progress_
    note = f"penalties: {done.iteration} iterations ({done.why})"
    if done.best_score is not None:
        when = f"after {done.best_iteration}" if done.best_iteration else "with those by counts"
        note += f"; {done.best_score:.2%} right on the development set {when}"
    learned = learned.softened(soft, "of no use to the model: penalty 0")
    return replace(learned, notes=(note,), interrupted=interrupted)
