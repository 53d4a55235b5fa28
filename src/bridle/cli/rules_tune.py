"""`bridle rules tune`: decide which written rules to keep hard, make soft with which penalty, or leave out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import bridle
from bridle.atomic import claimed
from bridle.cli import options as opt
from bridle.cli.base import (
    WARNINGS,
    Command,
    check_model_path,
    check_writable,
    json_line,
    print_stderr,
    refuse_overwrite,
    show,
)
from bridle.cli.learning import check_sources, judged_by, load_scores, split_scores, write_rules
from bridle.cli.progress import ProgressBar
from bridle.cli.reading import checked_lines, file_groups, make_model_reader, make_reader, read_all, used_examples
from bridle.cli.rules import Rules, rules_app
from bridle.errors import FileError, ModelError, RuleError
from bridle.learn import Scores, tune_rules
from bridle.learn.rules_file import tuned_lines
from bridle.models import Tagger
from bridle.rules.conditions import list_files
from bridle.rules.loading import Line, read_files


@rules_app.command("tune", cls=Command)
@opt.grouped
def rules_tune(
    *,
    context: typer.Context,
    rules: Rules,
    data: Annotated[
        list[str], opt.option("--data, --gold FILE", "Labelled sequences; can be repeated.", show_default=False)
    ],
    model: Annotated[Path | None, opt.option("--model MODEL", "Model that bridle train wrote.")] = None,
    scores: opt.ScoresOption = None,
    labels: opt.LabelsOption = None,
    scheme: opt.SchemeOption = opt.Scheme.AUTO,
    out: Annotated[
        str | None, opt.option("-o, --out FILE", "File to write the tuned rules to; - writes to stdout.")
    ] = None,
    plot: opt.PlotOption = None,
    cross_fit: opt.CrossFitOption = None,
    hold_out: opt.HoldOutOption = opt.HoldOut.SEQUENCES,
    lenient: opt.LenientOption = False,
    scored_by: opt.ScoredByOption = opt.ScoredBy.AUTO,
    on_unknown: opt.LearnableOption = opt.Learnable.RAISE,
    reads: opt.DataOptions,
    seed: opt.SeedOption = 0,
    threads: opt.ThreadsOption = 0,
    as_json: opt.JsonOption = False,
    progress: opt.ProgressOption = None,
) -> None:
    """Tune written rules for a model or for scores: which to keep hard, make soft with which penalty, or leave out.

    Rules are judged on sequences that the model has not seen: if FILE contains its training data, each part is scored
    by a model trained on the others. The rules file is not changed, unless -o names it. Rules of several files, and of
    files that they include, are written to a single file, which replaces them.

    \b
    Examples:
      bridle rules tune my.rules --model m.bridle --data train.txt
      bridle rules tune my.rules --model m.bridle --data train.txt -o tuned.rules --plot gains.svg
      bridle rules tune my.rules --model m.bridle --data train.txt --cross-fit m.scores --json
      bridle rules tune my.rules --scores logits.npz --gold dev.jsonl -o tuned.rules

    \b
    The columns are: hard, off or the penalty, as written and as tuned; the number of sequences in which the gold
    labels, and those of the model without rules, break the rule; the number of sequences that it makes better and
    worse, together with the others; and its gain in points of quality, the mean of the share of sequences without an
    error and of the F1 of each sequence.

    \b
    Exit codes:
      0    the tuned rules, or the rules as written, are better than no rules
      1    using no rules is best
      2    bad input or bad usage
      130  stopped by Ctrl-C
    """
    if out == "-" and as_json:
        raise FileError("rules and --json cannot share standard output", got="-o - with --json", wanted="-o FILE")
    files, score_files = split_scores(list(map(str, rules)), scores)
    rules = list(map(Path, files))
    check_sources(model, score_files, {"--cross-fit": cross_fit, "--labels": labels}, scored_by, hold_out)
    if model is None and not score_files:
        raise ModelError("rules are tuned for a model or for scores", got="neither", wanted="--model or --scores")
    refuse_overwrite(out, *data, *score_files, model, cross_fit)
    refuse_overwrite(plot, *rules, *data, *score_files, model, cross_fit, out, flag="--plot")
    refuse_overwrite(cross_fit, *rules, *data, model, flag="--cross-fit")
    for path in filter(None, (plot, cross_fit)):
        check_writable(path)
    if cross_fit is not None:
        check_model_path(cross_fit)
    context.with_resource(claimed(out, cross_fit))
    source: Tagger | Scores
    examples = None
    if model is None:
        examples, _ = read_all(make_reader(*reads.arguments), data, progress, gaps="keep")
        source = load_scores(score_files, examples, labels, scheme, on_unknown)
        known = source.labels
    else:
        source = bridle.load(model)
        known = source.labels_
    loaded = read_files(rules)
    if len(loaded.texts) > 1:  # one file is written, and those that were read stay as they are
        refuse_overwrite(out, *(file for file in loaded.texts if file is not None))
    lines_read = checked_lines(loaded, known, lenient=lenient)
    written = [line.rule for line in lines_read]
    if not written:
        got = "an empty file or comments"
        raise RuleError("there are no rules", got=got, wanted="one rule per line", where=", ".join(map(str, rules)))
    _check_lists(lines_read, out)
    if isinstance(source, Tagger):
        examples, _ = read_all(make_model_reader(source, *reads.arguments), data, progress)
        examples = list(used_examples(examples, source.labels_, on_unknown))
    assert examples is not None
    groups, say = file_groups(examples, hold_out), ProgressBar(progress, "tuning").say
    settings: dict[str, Any] = {"seed": seed, "threads": threads, "groups": groups, "watch": say}
    settings["on_unknown"] = on_unknown.value
    tuned = tune_rules(source, written, *judged_by(source, examples, scored_by, cross_fit, settings), **settings)
    if out is not None:
        write_rules(out, list(tuned_lines(loaded, lines_read, tuned, data)))
    if plot is not None:
        tuned.plot(plot)
    if as_json:
        typer.echo(json_line(tuned.to_dict()))
    elif out != "-":
        show(tuned.lines())
    if out not in (None, "-"):
        print_stderr(f"bridle: {len(tuned.rules)} of {len(written)} rules; written to {out}")
        if len(loaded.texts) > 1:
            print_stderr(
                f"bridle: {out} contains the rules of {', '.join(map(str, loaded.texts))}; use it instead of them"
            )
    raise typer.Exit(WARNINGS if tuned.best == "none" else 0)


def _check_lists(lines: list[Line], out: str | None) -> None:
    """Check that the output is in the same folder: rules name phrase lists relative to their file."""
    if out in (None, "-"):
        return
    folder = Path(str(out)).resolve().parent
    for line in lines:
        home = Path(line.file or "").resolve().parent
        if home != folder and any(not Path(name).is_absolute() for name in list_files(line.rule)):
            raise FileError(
                "the rules name phrase lists relative to their own file",
                got=f"-o {out}",
                wanted=f"a file in {home}",
                cause=str(line.rule),
                where=line.where,
            )
