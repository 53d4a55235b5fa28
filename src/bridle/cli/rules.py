"""`bridle rules`: check and show .rules files."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import bridle
from bridle.cli.bars import on_terminal
from bridle.cli.base import (
    BAD,
    LOOK,
    Names,
    NamesFile,
    Scheme,
    TheScheme,
    app,
    json_line,
    labels_of,
    names_of,
    option,
    show,
    show_data,
)
from bridle.cli.options import TheLenient
from bridle.errors import LabelError
from bridle.report.text import visible
from bridle.rules.lint import Finding, lint
from bridle.rules.loading import ExampleLine, Line, read_files

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


@rules_app.command("check")
def rules_check(
    rules: Rules,
    labels: Names = None,
    labels_file: NamesFile = None,
    lenient: TheLenient = False,
    scheme: TheScheme = Scheme.NONE,
    model: Annotated[
        Path | None, typer.Option("--model", metavar="MODEL", help="Use the labels and the scheme of this model.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per finding and line, for scripts.")
    ] = False,
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
    names = names_of(labels, labels_file)
    if model is not None and (names is not None or scheme is not Scheme.NONE):
        raise LabelError(
            "--labels and --scheme have no effect with --model",
            got="--labels or --scheme as well",
            wanted="--model alone",
        )
    known = bridle.load(model).labels_ if model is not None else None if names is None else labels_of(names, scheme)
    findings = lint(
        read_files(rules),
        known,
        spell=lambda argument: str(option(argument)),
        unknown="leave out" if lenient else "error",
    )
    found = [replace(finding, file=finding.file or ", ".join(map(str, rules))) for finding in findings]
    if as_json:
        for finding in found:
            parts = {n: getattr(finding, n) for n in ("line", "level", "code", "message", "suggestion")}
            typer.echo(json_line({"file": finding.file, **parts}))
    elif on_terminal(sys.stdout):
        Console().print(_table(found) if found else "[green]no problems found[/green]")
    else:
        for f in found:
            where = f"{f.file}:{f.line}" if f.line else f.file
            show([f"{where}: {f.level} {f.code} {f.message}"])
    levels = {finding.level for finding in found}
    raise typer.Exit(BAD if "error" in levels else LOOK if "warning" in levels else 0)


@rules_app.command("show")
def rules_show(
    rules: Rules,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per rule and line, for scripts.")
    ] = False,
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


def _table(found: list[Finding]) -> Table:
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    several = len({f.file for f in found if f.line}) > 1
    for head in (*(["file"] * several), "line", "level", "code", "message"):
        table.add_column(head, justify="right" if head == "line" else "left", no_wrap=head not in ("file", "message"))
    colour = {"error": "bold red", "warning": "yellow", "info": "cyan"}
    for f in found:
        file = [Text(visible(f.file if f.line else ""))] * several
        table.add_row(*file, str(f.line or ""), Text(f.level, style=colour[f.level]), f.code, Text(visible(f.message)))
    return table
