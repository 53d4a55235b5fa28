"""`bridle rules`: check and show .rules files."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.bar import Bar
from rich.console import Console
from rich.table import Table
from rich.text import Text

import bridle
from bridle.cli import options as opt
from bridle.cli.base import (
    BAD_INPUT,
    WARNINGS,
    Command,
    app,
    json_line,
    on_terminal,
    option_text,
    refuse_overwrite,
    show,
    show_data,
)
from bridle.cli.reading import (
    checked_lines,
    gold_labels,
    label_names,
    labels_in,
    make_labels,
    make_model_reader,
    make_reader,
    read_all,
    rule_inputs,
    used_examples,
)
from bridle.data import Example
from bridle.data.documents import documents_of
from bridle.errors import FileError, LabelError, RuleError
from bridle.learn import Audit, audit, audit_model
from bridle.learn.auditing import hints
from bridle.learn.examples import Outcome, run_examples
from bridle.models import Tagger
from bridle.report.text import visible
from bridle.rules.base import Rule
from bridle.rules.lint import Finding, lint
from bridle.rules.loading import ExampleLine, Line, Loaded, read_files

_HELP = """Check, show, test and tune rules.

\b
Examples:
  bridle rules check my.rules --labels O,A0,A1 --scheme IO     look for mistakes
  bridle rules show my.rules                                   print them as Bridle reads them
  bridle rules test my.rules dev.txt --model m.bridle          measure what they are worth

\b
Exit codes: see the help of each command.
"""

rules_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help=_HELP, short_help="Check, show, test and tune rules."
)
app.add_typer(rules_app, name="rules")
Rules = Annotated[
    list[Path],
    typer.Argument(metavar="RULES", help="One or more .rules files, which are combined.", show_default=False),
]


@rules_app.command("check", cls=Command)
def rules_check(
    rules: Rules,
    labels: opt.LabelsOption = None,
    labels_file: opt.LabelsFileOption = None,
    lenient: opt.LenientOption = False,
    scheme: opt.SchemeOption = opt.Scheme.AUTO,
    model: Annotated[Path | None, opt.option("--model MODEL", "Use the labels and the scheme of this model.")] = None,
    as_json: Annotated[bool, opt.option("--json", "Print one JSON object per finding and line, for scripts.")] = False,
) -> None:
    """Look for mistakes in rules.

    Report rules that cannot be parsed, can never hold, contradict others, or have no effect.

    \b
    Examples:
      bridle rules check my.rules --labels O,A0,A1 --scheme IO
      bridle rules check my.rules --model m.bridle
      bridle rules check my.rules --labels-file labels.txt --json
      bridle rules check my.rules more.rules --labels O,A0,A1      check them together, as --rules given twice uses them

    \b
    Exit codes:
      0    no problems, or notes of the level "info" only
      1    warnings, but no errors
      2    errors, or the file cannot be read
    """
    names = label_names(labels, labels_file)
    if model is not None and (names is not None or scheme is not opt.Scheme.AUTO):
        raise LabelError(
            "--labels and --scheme have no effect with --model",
            got="--labels or --scheme as well",
            wanted="--model alone",
        )
    known = bridle.load(model).labels_ if model is not None else None if names is None else make_labels(names, scheme)
    findings = lint(
        read_files(rules),
        known,
        spell=lambda argument: str(option_text(argument)),
        unknown="leave out" if lenient else "error",
    )
    findings = [replace(finding, file=finding.file or ", ".join(map(str, rules))) for finding in findings]
    if as_json:
        for finding in findings:
            parts = {n: getattr(finding, n) for n in ("line", "level", "code", "message", "suggestion")}
            typer.echo(json_line({"file": finding.file, **parts}))
    elif on_terminal(sys.stdout):
        Console().print(_table(findings) if findings else "[green]no problems found[/green]")
    else:
        for f in findings:
            where = f"{f.file}:{f.line}" if f.line else f.file
            show([f"{where}: {f.level} {f.code} {f.message}"])
    levels = {finding.level for finding in findings}
    raise typer.Exit(BAD_INPUT if "error" in levels else WARNINGS if "warning" in levels else 0)


@rules_app.command("show", cls=Command)
def rules_show(
    rules: Rules,
    as_json: Annotated[bool, opt.option("--json", "Print one JSON object per rule and line, for scripts.")] = False,
) -> None:
    """Print rules as Bridle reads them, one per line; test cases come last.

    \b
    Examples:
      bridle rules show my.rules
      bridle rules show my.rules --json

    \b
    Exit codes:
      0    success
      2    a line cannot be parsed as a rule, or the file cannot be read
    """
    loaded = read_files(rules)
    read: list[Line | ExampleLine] = [*loaded.check(), *loaded.examples]
    for line in read:
        kind, text = ("rule", str(line.rule)) if isinstance(line, Line) else ("example", str(line.example))
        if as_json:
            typer.echo(json_line({"file": line.file, "line": line.number, kind: text, "comment": line.comment}))
        else:
            show_data(f"{text}  # {line.comment}" if line.comment else text)


def _table(findings: list[Finding]) -> Table:
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    several = len({f.file for f in findings if f.line}) > 1
    for head in (*(["file"] * several), "line", "level", "code", "message"):
        table.add_column(head, justify="right" if head == "line" else "left", no_wrap=head not in ("file", "message"))
    colour = {"error": "bold red", "warning": "yellow", "info": "cyan"}
    for f in findings:
        file = [Text(visible(f.file if f.line else ""))] * several
        table.add_row(*file, str(f.line or ""), Text(f.level, style=colour[f.level]), f.code, Text(visible(f.message)))
    return table


@rules_app.command("test", cls=Command)
@opt.grouped
def rules_test(
    *,
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
        list[Path] | None, opt.option("--rules FILE", "Another .rules file; can be repeated.")
    ] = None,
    lenient: opt.LenientOption = False,
    model: Annotated[
        Path | None, opt.option("--model MODEL", "Measure what the rules do to the labels of this model.")
    ] = None,
    reads: opt.DataOptions,
    tokens: opt.TokensOption = None,
    labels: opt.LabelsOption = None,
    labels_file: opt.LabelsFileOption = None,
    scheme: opt.SchemeOption = opt.Scheme.AUTO,
    on_unknown: opt.OnUnknownOption = opt.OnUnknown.WRONG,
    leave_out: Annotated[
        bool, opt.option("--leave-out/--no-leave-out", "Also decode without each rule in turn.")
    ] = True,
    engine: opt.EngineOption = "auto",
    time_limit: opt.TimeLimitOption = None,
    max_memory: opt.MemoryOption = None,
    threads: opt.ThreadsOption = 0,
    plot: opt.PlotOption = None,
    as_json: opt.JsonOption = False,
    progress: opt.ProgressOption = None,
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
    refuse_overwrite(plot, *files, *data, model, labels_file, flag="--plot")
    memory = opt.parse_size(max_memory)
    tagger = None if model is None else bridle.load(model)
    loaded = read_files(files)
    decoding = {"engine": engine, "time_limit": time_limit, "max_memory": memory}
    if not data:
        _check_alone(tagger, loaded, plot)
    obeyed, outcomes = [], None
    if tagger is not None:
        obeyed = [line.rule for line in checked_lines(loaded, tagger.labels_, lenient=lenient)]
        outcomes = run_cases(tagger, loaded, obeyed, decoding, tokens)
    if not data:
        print_cases(loaded, outcomes, as_json=as_json)
        raise typer.Exit(WARNINGS if any_failed(outcomes) else 0)
    reader, names = (
        make_reader(*reads.arguments) if tagger is None else make_model_reader(tagger, *reads.arguments),
        set[str | None](),
    )
    examples, _ = read_all(reader, data, progress, names=names)
    if tagger is not None:
        examples = list(used_examples(examples, tagger.labels_, on_unknown))
    elif on_unknown is not opt.OnUnknown.WRONG:
        raise FileError("--on-unknown is about the labels of a model", got="no --model", wanted="--model MODEL")
    gold = gold_labels(examples)
    extra = label_names(labels, labels_file) or ()
    if extra and tagger is not None:
        raise LabelError("--labels has no effect with --model", got="--labels", wanted="--model without --labels")
    known = labels_in([names], scheme.library_name, extra) if tagger is None else tagger.labels_
    if tagger is None:
        obeyed = [line.rule for line in checked_lines(loaded, known, lenient=lenient)]
    if not obeyed:
        got = "an empty file or comments"
        raise RuleError("there are no rules", got=got, wanted="one rule per line", where=", ".join(map(str, files)))
    given, groups = list(map(rule_inputs, examples)), documents_of(examples)
    if tagger is None:
        result = audit(obeyed, gold, known, given=given, groups=groups, threads=threads)
    else:
        result = _of_model(
            obeyed,
            tagger,
            examples,
            gold,
            {"leave_out": "each" if leave_out else "none", "groups": groups, "threads": threads, **decoding},
        )
    if plot is not None:
        result.plot(plot)
    suggestions = hints(result, gold, known, given=given, threads=threads)
    if as_json:
        facts = {**result.to_dict(), "hints": [hint.to_dict() for hint in suggestions]}
        typer.echo(json_line({**facts, "examples": examples_json(loaded, outcomes)}))
    else:
        show(result.lines())
        _bars(result)
        for hint in suggestions:
            show(["", str(hint)])
        print_cases(loaded, outcomes)
    raise typer.Exit(WARNINGS if (result.all is not None and result.all.relaxed) or any_failed(outcomes) else 0)


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


def _bars(result: Audit) -> None:
    """Print the gains as bars to the left and right of zero; rules without an effect have none."""
    gains = [(rule, gain) for rule, gain in result.gains() if gain]
    if not gains:
        return
    low, high = min(0.0, *(gain for _, gain in gains)), max(0.0, *(gain for _, gain in gains))
    title = "gold obeys, %" if result.none is None else "gain of F1 when added alone, points"
    table = Table(box=None, title=title, title_justify="left", show_header=False, pad_edge=False)
    table.add_column(max_width=38, no_wrap=True, overflow="ellipsis")
    table.add_column(min_width=7, justify="right", no_wrap=True)
    table.add_column(width=30)
    for rule, gain in gains:
        begin, end = sorted((0.0, gain))
        bar = Bar(high - low, begin - low, end - low, color="red" if gain < 0 else "green")
        table.add_row(Text(visible(rule)), f"{gain:+.2f}" if result.none is not None else f"{gain:.1f}", bar)
    console = Console()
    console.print()
    console.print(table)


Outcomes = Sequence[Outcome] | None  # None: there is no model to run test cases with


def run_cases(
    tagger: Tagger,
    loaded: Loaded,
    rules: Sequence[Rule],
    options: Mapping[str, Any],
    tokens: opt.TokensKind | None = None,
) -> list[Outcome]:
    """Run the test cases of rules files with a model under these rules. options: of the decoder."""
    if not loaded.examples:
        return []
    decoder = tagger.decoder(rules, on_infeasible="relax", **options)
    how = None if tokens is None else tokens.library_name
    return run_examples(tagger, [line.example for line in loaded.examples], decoder, how)


def any_failed(outcomes: Outcomes) -> bool:
    """Return True if a test case failed."""
    return any(not outcome.passed for outcome in outcomes or ())


def examples_json(loaded: Loaded, outcomes: Outcomes) -> list[dict[str, Any]] | None:
    """Return the test cases for JSON; None if they were not run."""
    if outcomes is None:
        return None
    return [
        {
            "file": line.file,
            "line": line.number,
            "example": str(line.example),
            "passed": outcome.passed,
            "message": outcome.message,
            "tokens": outcome.tokens,
            "labels": outcome.labels,
            "wrong": outcome.wrong,
        }
        for line, outcome in zip(loaded.examples, outcomes, strict=True)
    ]


def print_cases(loaded: Loaded, outcomes: Outcomes, *, as_json: bool = False) -> None:
    """Print the test cases that failed, and how many passed; nothing if there are none."""
    if as_json:
        typer.echo(json_line({"examples": examples_json(loaded, outcomes)}))
        return
    count = len(loaded.examples)
    if outcomes is None:
        if count:
            show(["", f"{_cases(count)} not run: pass --model"])
        return
    console = Console(highlight=False)
    failed = [(line, outcome) for line, outcome in zip(loaded.examples, outcomes, strict=True) if not outcome.passed]
    for line, outcome in failed:
        head = Text.assemble(("failed", "bold red"), visible(f" {line.where}: {line.example}"))
        console.print(head, Text(visible(f"       {outcome.message}")), sep="\n", soft_wrap=True)
    if count:
        passed, lost = f"{count - len(failed)} passed", f"{len(failed)} failed"
        colour = "bold red" if failed else "default"
        console.print(Text.assemble(f"{_cases(count)}: ", (passed, "green"), ", ", (lost, colour)), soft_wrap=True)


def _cases(count: int) -> str:
    return "1 test case" if count == 1 else f"{count} test cases"
