"""`bridle rules test`: what rules are worth on labelled sequences."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.bar import Bar
from rich.console import Console
from rich.table import Table
from rich.text import Text

import bridle
from bridle.cli.base import LOOK, Names, NamesFile, json_line, keep, names_of, show
from bridle.cli.options import (
    AnyScheme,
    AsJson,
    DataScheme,
    Labelled,
    TheEngine,
    TheLimit,
    TheMemory,
    TheProgress,
    TheThreads,
    bytes_of,
)
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
)
from bridle.cli.rules import Rules, rules_app
from bridle.data import Example
from bridle.errors import LabelError, RuleError
from bridle.learn import Audit, audit, audit_model
from bridle.models import Tagger
from bridle.report.text import visible
from bridle.rules.base import Rule


@rules_app.command("test")
def rules_test(
    rules: Rules,
    data: Labelled,
    model: Annotated[
        Path | None, typer.Option("--model", metavar="MODEL", help="See what the rules do to its labels.")
    ] = None,
    format: TheFormat = None,
    columns: TheColumns = None,
    label: TheLabel = None,
    option: TheOptions = None,
    labels: Names = None,
    labels_file: NamesFile = None,
    scheme: DataScheme = AnyScheme.AUTO,
    leave_out: Annotated[
        bool, typer.Option("--leave-out/--no-leave-out", help="Decode with all rules but one, too, for each.")
    ] = True,
    engine: TheEngine = "auto",
    time_limit: TheLimit = None,
    max_memory: TheMemory = None,
    threads: TheThreads = 0,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the bars: .png, .svg or .pdf; needs matplotlib.")
    ] = None,
    as_json: AsJson = False,
    progress: TheProgress = None,
) -> None:
    """See what rules are worth on labelled sequences.

    How often gold labels obey each, and what each does to a model, alone and among all.

    \b
    Examples:
      bridle rules test my.rules dev.txt --columns word,pos,chunk
      bridle rules test my.rules dev.txt --model m.bridle --plot gains.svg
      bridle rules test my.rules dev.txt --model m.bridle --json

    \b
    Columns: the share of the sequences in which gold, and in which the model by itself, obeys the rule; what is gained
    (points of F1 of segments, and of tokens right) by the rule alone and by the rule among all; sequences in which no
    labelling obeys the rule, which are relaxed. The rules that gain most come first. DATA should be new to MODEL.
    Without --model, --scheme says how labels make segments, and --labels names labels that DATA does not hold.

    \b
    Exit codes:
      0    fine
      1    under all rules some sequences had to be relaxed
      2    bad input or bad usage
      3    no labelling was found in time
      130  stopped by Ctrl-C
    """
    keep(plot, rules, *data, model, labels_file, flag="--plot")
    memory = bytes_of(max_memory)
    tagger = None if model is None else bridle.load(model)
    before = None if tagger is None else Reader.noted(tagger.notes_)
    examples, _ = read_all(reader_of(format, columns, label, option, before), data, progress)
    gold = [list(e.labels or ()) for e in examples]
    extra = names_of(labels, labels_file) or ()
    if extra and tagger is not None:
        raise LabelError("the model brings its labels", got="--labels", wanted="--model without --labels")
    known = labels_in(gold, scheme.asked, extra) if tagger is None else tagger.labels_
    obeyed = rules_of(rules, known)
    if not obeyed:
        got = "an empty file or comments"
        raise RuleError("there are no rules", got=got, wanted="one rule per line", where=str(rules))
    if tagger is None:
        given = [{"tokens": list(e.tokens), **e.given} for e in examples]
        found = audit(obeyed, gold, known, given=given, threads=threads)
    else:
        found = _of_model(
            obeyed,
            tagger,
            examples,
            gold,
            {
                "leave_out": "each" if leave_out else "none",
                "engine": engine,
                "time_limit": time_limit,
                "max_memory": memory,
                "threads": threads,
            },
        )
    if plot is not None:
        found.plot(plot)
    if as_json:
        typer.echo(json_line(found.to_dict()))
    else:
        show(found.lines())
        _bars(found)
    raise typer.Exit(LOOK if found.all is not None and found.all.relaxed else 0)


def _of_model(
    rules: list[Rule], tagger: Tagger, examples: list[Example], gold: list[list[str]], options: dict[str, Any]
) -> Audit:
    return audit_model(rules, tagger, [e.columns for e in examples], gold, given=[e.given for e in examples], **options)


def _bars(found: Audit) -> None:
    """The gains as bars, to the left and right of zero; rules that change nothing have none."""
    gains = [(rule, gain) for rule, gain in found.gains() if gain]
    if not gains:
        return
    low, high = min(0.0, *(gain for _, gain in gains)), max(0.0, *(gain for _, gain in gains))
    title = "gold obeys, %" if found.none is None else "gain of F1 when added alone, points"
    table = Table(box=None, title=title, title_justify="left", show_header=False, pad_edge=False)
    table.add_column(max_width=38, no_wrap=True, overflow="ellipsis")
    table.add_column(min_width=7, justify="right", no_wrap=True)
    table.add_column(width=30)
    for rule, gain in gains:
        begin, end = sorted((0.0, gain))
        bar = Bar(high - low, begin - low, end - low, color="red" if gain < 0 else "green")
        table.add_row(Text(visible(rule)), f"{gain:+.2f}" if found.none is not None else f"{gain:.1f}", bar)
    console = Console()
    console.print()
    console.print(table)
