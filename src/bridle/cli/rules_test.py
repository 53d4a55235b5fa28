"""`bridle rules test`: measure what rules are worth on labelled sequences, and run their test cases."""

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
    TheEngine,
    TheLenient,
    TheLimit,
    TheMemory,
    TheProgress,
    TheThreads,
    TheTokens,
    bytes_of,
)
from bridle.cli.reading import (
    TheColumns,
    TheFormat,
    TheLabel,
    TheOptions,
    given_of,
    gold_of,
    known_lines,
    labels_in,
    model_reader,
    read_all,
    reader_of,
)
from bridle.cli.rules import rules_app
from bridle.cli.rules_examples import any_failed, examples_json, tell_tested, tested
from bridle.data import Example
from bridle.errors import FileError, LabelError, RuleError
from bridle.learn import Audit, audit, audit_model
from bridle.learn.auditing import hints
from bridle.models import Tagger
from bridle.report.text import visible
from bridle.rules.base import Rule
from bridle.rules.loading import Loaded, read_files


@rules_app.command("test")
def rules_test(
    rules: Annotated[Path, typer.Argument(metavar="RULES", help=".rules file to measure.", show_default=False)],
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DATA]...",
            help="Labelled sequences, optionally gzipped; - reads stdin. Not needed if RULES has test cases.",
            show_default=False,
        ),
    ] = None,
    more_rules: Annotated[
        list[Path] | None, typer.Option("--rules", metavar="FILE", help="Another .rules file; can be repeated.")
    ] = None,
    lenient: TheLenient = False,
    model: Annotated[
        Path | None,
        typer.Option("--model", metavar="MODEL", help="Measure what the rules do to the labels of this model."),
    ] = None,
    format: TheFormat = None,
    columns: TheColumns = None,
    label: TheLabel = None,
    option: TheOptions = None,
    tokens: TheTokens = None,
    labels: Names = None,
    labels_file: NamesFile = None,
    scheme: DataScheme = AnyScheme.AUTO,
    leave_out: Annotated[
        bool, typer.Option("--leave-out/--no-leave-out", help="Also decode without each rule in turn.")
    ] = True,
    engine: TheEngine = "auto",
    time_limit: TheLimit = None,
    max_memory: TheMemory = None,
    threads: TheThreads = 0,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Plot the gains to this file: .png, .svg or .pdf; needs matplotlib."),
    ] = None,
    as_json: AsJson = False,
    progress: TheProgress = None,
) -> None:
    """Measure what rules are worth on labelled sequences, and run their test cases.

    Show how often gold labels obey each rule, and what each rule does to a model, alone and together with the others.
    With --model, run the test cases of the rules file: lines such as example "call 555-0100" has PHONE "555-0100".

    \b
    Examples:
      bridle rules test my.rules dev.txt --columns word,pos,chunk
      bridle rules test my.rules --model m.bridle                       run the test cases only
      bridle rules test my.rules dev.txt --model m.bridle --plot gains.svg
      bridle rules test my.rules dev.txt --model m.bridle --json

    \b
    The columns are: the share of sequences in which the gold labels, and those of the model without rules, obey the
    rule; what the rule gains alone and together with the others, in points of segment F1 and of token accuracy; and
    the number of sequences in which no labelling obeys the rule, which are relaxed. The most useful rules come first.
    MODEL should not have been trained on DATA. Without --model, --scheme is the tagging scheme of DATA, and --labels
    adds labels that do not occur in DATA.

    \b
    Exit codes:
      0    success
      1    some sequences had to be relaxed under all rules, or a test case failed
      2    bad input or bad usage
      3    no labelling was found in time
      130  stopped by Ctrl-C
    """
    files, data = [rules, *(more_rules or ())], data or []
    keep(plot, *files, *data, model, labels_file, flag="--plot")
    memory = bytes_of(max_memory)
    tagger = None if model is None else bridle.load(model)
    loaded = read_files(files)
    decoding = {"engine": engine, "time_limit": time_limit, "max_memory": memory}
    if not data:
        _check_alone(tagger, loaded, plot)
    obeyed, outcomes = [], None
    if tagger is not None:
        obeyed = [line.rule for line in known_lines(loaded, tagger.labels_, lenient=lenient)]
        outcomes = tested(tagger, loaded, obeyed, decoding, tokens)
    if not data:
        tell_tested(loaded, outcomes, as_json=as_json)
        raise typer.Exit(LOOK if any_failed(outcomes) else 0)
    reads = format, columns, label, option
    reader, names = reader_of(*reads) if tagger is None else model_reader(tagger, *reads), set[str | None]()
    examples, _ = read_all(reader, data, progress, names=names)
    gold = gold_of(examples)
    extra = names_of(labels, labels_file) or ()
    if extra and tagger is not None:
        raise LabelError("--labels has no effect with --model", got="--labels", wanted="--model without --labels")
    known = labels_in([names], scheme.asked, extra) if tagger is None else tagger.labels_
    if tagger is None:
        obeyed = [line.rule for line in known_lines(loaded, known, lenient=lenient)]
    if not obeyed:
        got = "an empty file or comments"
        raise RuleError("there are no rules", got=got, wanted="one rule per line", where=", ".join(map(str, files)))
    given = list(map(given_of, examples))
    if tagger is None:
        found = audit(obeyed, gold, known, given=given, threads=threads)
    else:
        found = _of_model(
            obeyed,
            tagger,
            examples,
            gold,
            {"leave_out": "each" if leave_out else "none", "threads": threads, **decoding},
        )
    if plot is not None:
        found.plot(plot)
    meant = hints(found, gold, known, given=given, threads=threads)
    if as_json:
        told = {**found.to_dict(), "hints": [hint.to_dict() for hint in meant]}
        typer.echo(json_line({**told, "examples": examples_json(loaded, outcomes)}))
    else:
        show(found.lines())
        _bars(found)
        for hint in meant:
            show(["", str(hint)])
        tell_tested(loaded, outcomes)
    raise typer.Exit(LOOK if (found.all is not None and found.all.relaxed) or any_failed(outcomes) else 0)


def _check_alone(tagger: Tagger | None, loaded: Loaded, plot: Path | None) -> None:
    """Check that there is something to do without data."""
    if loaded.examples and tagger is not None and plot is None:
        return
    if tagger is None or not loaded.examples:
        got = "no DATA and no --model" if tagger is None else "no DATA, and no test cases in the rules file"
        wanted = "labelled sequences; or --model and a rules file with test cases"
        raise FileError("there is nothing to test the rules on", got=got, wanted=wanted)
    raise FileError("--plot draws what rules are worth on labelled sequences", got="no DATA", wanted="DATA")


def _of_model(
    rules: list[Rule], tagger: Tagger, examples: list[Example], gold: list[list[str]], options: dict[str, Any]
) -> Audit:
    return audit_model(rules, tagger, [e.columns for e in examples], gold, given=[e.given for e in examples], **options)


def _bars(found: Audit) -> None:
    """Print the gains as bars to the left and right of zero; rules without an effect have none."""
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
