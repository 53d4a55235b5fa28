"""`bridle rules tune`: decide which written rules to keep hard, make soft with which penalty, or leave out."""

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
    TheLenient,
    TheProgress,
    TheScores,
    TheSeed,
    TheThreads,
)
from bridle.cli.reading import (
    TheColumns,
    TheFormat,
    TheLabel,
    TheOptions,
    groups_of,
    known_lines,
    model_reader,
    read_all,
    split,
)
from bridle.cli.rules import Rules, rules_app
from bridle.cli.training_run import sayer
from bridle.data import Lines
from bridle.errors import FileError, RuleError
from bridle.learn import TunedRule, TunedRules, tune_rules
from bridle.rules.conditions import list_files
from bridle.rules.loading import Line, Loaded, read_files
from bridle.rules.text import included_by


@rules_app.command("tune")
def rules_tune(
    context: typer.Context,
    rules: Rules,
    model: Annotated[
        Path, typer.Option("--model", metavar="MODEL", help="Model that bridle train wrote.", show_default=False)
    ],
    data: Annotated[
        list[str],
        typer.Option("--data", metavar="FILE", help="Labelled sequences; can be repeated.", show_default=False),
    ],
    out: Annotated[
        str | None,
        typer.Option("-o", "--out", metavar="FILE", help="File to write the tuned rules to; - writes to stdout."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Plot the gains to this file: .png, .svg or .pdf; needs matplotlib."),
    ] = None,
    cross_fit: TheCrossFit = None,
    hold_out: TheHoldOut = HoldOut.SEQUENCES,
    lenient: TheLenient = False,
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
    """Tune written rules for a model: which to keep hard, make soft with which penalty, or leave out.

    Rules are judged on sequences that the model has not seen: if FILE contains its training data, each part is scored
    by a model trained on the others. The rules file is not changed, unless -o names it. Rules of several files, and of
    files that they include, are written to a single file, which replaces them.

    \b
    Examples:
      bridle rules tune my.rules --model m.bridle --data train.txt
      bridle rules tune my.rules --model m.bridle --data train.txt -o tuned.rules --plot gains.svg
      bridle rules tune my.rules --model m.bridle --data train.txt --cross-fit m.scores --json

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
    keep(out, *data, model, cross_fit)
    keep(plot, *rules, *data, model, cross_fit, out, flag="--plot")
    keep(cross_fit, *rules, *data, model, flag="--cross-fit")
    for path in filter(None, (plot, cross_fit)):
        check_place(path)
    if cross_fit is not None:
        check_kind(cross_fit)
    context.with_resource(claimed(out, cross_fit))
    tagger = bridle.load(model)
    loaded = read_files(rules)
    if len(loaded.texts) > 1:  # one file is written, and those that were read stay as they are
        keep(out, *(file for file in loaded.texts if file is not None))
    lines_read = known_lines(loaded, tagger.labels_, lenient=lenient)
    written = [line.rule for line in lines_read]
    if not written:
        got = "an empty file or comments"
        raise RuleError("there are no rules", got=got, wanted="one rule per line", where=", ".join(map(str, rules)))
    _check_lists(lines_read, out)
    examples, _ = read_all(model_reader(tagger, format, columns, label, option), data, progress)
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
        made = list(_lines(loaded, lines_read, found, data))
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
        if len(loaded.texts) > 1:
            tell(f"bridle: {out} contains the rules of {', '.join(map(str, loaded.texts))}; use it instead of them")
    raise typer.Exit(LOOK if found.best == "none" else 0)


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


_ADVICE = {
    "tuned": "use the tuned rules",
    "written": "use the rules as written: tuning does not improve on them",
    "none": "use no rules: these do not make the model better",
}


_HEADS = ("# Tuned by bridle ", "# priced for model ")


def _lines(loaded: Loaded, read: list[Line], found: TunedRules, data: list[str]) -> Iterator[str]:
    """The rules files, one after the other, with each rule replaced by the tuned one."""
    where = f"{found.sequences:,} sequences in {found.folds} folds"
    yield f"# Tuned by bridle {bridle.__version__} on {plain(', '.join(data))}: {_ADVICE[found.best]}"
    if found.best == "tuned":
        yield f"# priced for model {found.fingerprint} on {where}; all right, against no rules: {found.gains['tuned']}"
    rows: _Rows = {(line.file, line.number): (line, None) for line in loaded.lines}
    rows |= {(line.file, line.number): (line, one) for line, one in zip(read, found.tuned, strict=True)}
    inside = set(loaded.includes.values())
    asked = [file for file in loaded.texts if file not in inside]
    for file in asked:
        if len(asked) > 1:
            yield f"# ---- {plain(str(file))}"
        yield from _file_lines(file, loaded, rows, found)


_Rows = dict[tuple[str | None, int], tuple[Line, TunedRule | None]]  # None: the rule was left out (--lenient)


def _file_lines(file: str | None, loaded: Loaded, rows: _Rows, found: TunedRules) -> Iterator[str]:
    """The lines of a file, with included files inserted."""
    for number, text in enumerate("\n".join(loaded.texts[file]).rstrip("\n").split("\n"), start=1):
        line, one = rows.get((file, number), (None, None))
        if (other := loaded.includes.get((file, number))) is not None:
            yield f"# ---- {plain(text.strip())}"
            yield from _file_lines(other, loaded, rows, found)
            yield f"# ---- end of {plain(other)}"
        elif included_by(text) is not None:
            yield f"# {plain(text.strip())}: it is above"
        elif line is not None and one is None:
            yield f"# left out: {text.strip()}"
        elif line is None or one is None or found.best == "written":
            if not text.startswith(_HEADS):  # of a tuning before this one
                yield text
        else:
            rule = one.rule if found.best == "tuned" else None
            note = f"  # {line.comment}" if line.comment else ""
            yield f"# off: {one.written}{note}" if rule is None else f"{rule}{note}"
