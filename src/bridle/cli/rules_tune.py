"""`bridle rules tune`: which written rules to keep hard, which soft and at what price, which to leave out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

import bridle
from bridle.atomic import claimed
from bridle.cli.base import LOOK, check_kind, check_place, json_line, keep, on_screen, show, tell
from bridle.cli.learned_file import keep_edited, plain
from bridle.cli.learning import scores_of
from bridle.cli.options import (
    AsJson,
    HoldOut,
    Scores,
    TheCrossFit,
    TheHoldOut,
    TheProgress,
    TheScores,
    TheSeed,
    TheThreads,
)
from bridle.cli.reading import (
    Reader,
    TheColumns,
    TheFormat,
    TheLabel,
    TheOptions,
    groups_of,
    read_all,
    reader_of,
    rules_of,
    split,
)
from bridle.cli.rules import Rules, rules_app
from bridle.cli.training_run import sayer
from bridle.data import Lines
from bridle.errors import FileError, RuleError
from bridle.learn import TunedRules, tune_rules
from bridle.rules.files import load_lines, text_of


@rules_app.command("tune")
def rules_tune(
    context: typer.Context,
    rules: Rules,
    model: Annotated[
        Path, typer.Option("--model", metavar="MODEL", help="What bridle train made.", show_default=False)
    ],
    data: Annotated[
        list[str],
        typer.Option("--data", metavar="FILE", help="Labelled sequences; repeatable.", show_default=False),
    ],
    out: Annotated[
        str | None, typer.Option("-o", "--out", metavar="FILE", help="Write the tuned rules there; - is stdout.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the gains: .png, .svg or .pdf; needs matplotlib.")
    ] = None,
    cross_fit: TheCrossFit = None,
    hold_out: TheHoldOut = HoldOut.SEQUENCES,
    scores: TheScores = Scores.AUTO,
    format: TheFormat = None,
    columns: TheColumns = None,
    label: TheLabel = None,
    option: TheOptions = None,
    seed: TheSeed = 0,
    threads: TheThreads = 0,
    as_json: AsJson = False,
    progress: TheProgress = None,
) -> None:
    """Find out how to use written rules with a model: which hard, which soft and at what price, which not at all.

    Rules are judged on sequences that the model has not seen: if FILE holds its training data, each part is scored by a
    model trained on the others. The file of rules stays as it is, unless -o names it.

    \b
    Examples:
      bridle rules tune my.rules --model m.bridle --data train.txt
      bridle rules tune my.rules --model m.bridle --data train.txt -o tuned.rules --plot gains.svg
      bridle rules tune my.rules --model m.bridle --data train.txt --cross-fit m.scores --json

    \b
    Columns: hard, off or the penalty, as written and tuned; sequences in which gold, and in which the model by itself,
    breaks the rule; sequences that it makes better and worse among the others; what it gains in points of quality, the
    mean of sequences all right and of the F1 of each sequence.

    \b
    Exit codes:
      0    tuned rules, or the rules as written, label better than none
      1    no rules do
      2    bad input or bad usage
      130  stopped by Ctrl-C
    """
    if out == "-" and as_json:
        raise FileError("the rules cannot go to standard output", got="-o - with --json", wanted="-o FILE")
    keep(out, *data, model, cross_fit)
    keep(plot, rules, *data, model, cross_fit, out, flag="--plot")
    keep(cross_fit, rules, *data, model, flag="--cross-fit")
    for path in filter(None, (plot, cross_fit)):
        check_place(path)
    if cross_fit is not None:
        check_kind(cross_fit)
    context.with_resource(claimed(out, cross_fit))
    tagger = bridle.load(model)
    written = rules_of(rules, tagger.labels_)
    if not written:
        got = "an empty file or comments"
        raise RuleError("there are no rules", got=got, wanted="one rule per line", where=str(rules))
    examples, _ = read_all(reader_of(format, columns, label, option, Reader.noted(tagger.notes_)), data, progress)
    X, y, given = split(examples)
    groups, say = groups_of(examples, hold_out), sayer(progress)
    found = tune_rules(
        tagger,
        written,
        X,
        y,
        given=given,
        scores=scores.value,
        cross_fit=scores_of(tagger, examples, groups, cross_fit, say),
        groups=groups,
        seed=seed,
        threads=threads,
        watch=say,
    )
    if out is not None:
        made = list(_lines(rules, found, data))
        keep_edited(out, made)
        with Lines(out, None, on_screen) as lines:
            lines.write(made)
    if plot is not None:
        found.plot(plot)
    if as_json:
        typer.echo(json_line(found.to_dict()))
    elif out != "-":
        show(found.lines())
        show([_ADVICE[found.best]])
    if out not in (None, "-"):
        tell(f"bridle: {len(found.rules)} of {len(written)} rules; written to {out}")
    raise typer.Exit(LOOK if found.best == "none" else 0)


_ADVICE = {
    "tuned": "use the tuned rules",
    "written": "use the rules as written: tuning does not improve on them",
    "none": "use no rules: these do not make the model better",
}


_HEADS = ("# Tuned by bridle ", "# priced for model ")


def _lines(path: Path, found: TunedRules, data: list[str]) -> Iterator[str]:
    """The file of rules, each line as before but for the rule in it."""
    where = f"{found.sequences:,} sequences in {found.folds} folds"
    yield f"# Tuned by bridle {bridle.__version__} on {plain(', '.join(data))}: {_ADVICE[found.best]}"
    if found.best == "tuned":
        yield f"# priced for model {found.fingerprint} on {where}; all right, against no rules: {found.gains['tuned']}"
    rows = {line.number: (line, one) for line, one in zip(load_lines(path), found.found, strict=True)}
    for number, text in enumerate(text_of(path).rstrip("\n").split("\n"), start=1):
        if number not in rows or found.best == "written":
            if not text.startswith(_HEADS):  # of a tuning before this one
                yield text
            continue
        line, one = rows[number]
        rule = one.rule if found.best == "tuned" else None
        note = f"  # {line.comment}" if line.comment else ""
        yield f"# off: {one.written}{note}" if rule is None else f"{rule}{note}"
