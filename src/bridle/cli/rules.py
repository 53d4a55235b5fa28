"""`bridle rules`: look at .rules files."""

from __future__ import annotations

import sys
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
from bridle.errors import LabelError
from bridle.report.text import visible
from bridle.rules.files import load_lines, text_of
from bridle.rules.lint import Finding, lint

_HELP = """Look at .rules files: check, show and test them.

\b
Examples:
  bridle rules check my.rules --labels O,A0,A1 --scheme IO     look for mistakes
  bridle rules show my.rules                                   as Bridle reads them
  bridle rules test my.rules dev.txt --model m.bridle          what they are worth

\b
Exit codes: each command's help tells them.
"""

rules_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help=_HELP, short_help="Check, show and test rules."
)
app.add_typer(rules_app, name="rules")
Rules = Annotated[Path, typer.Argument(metavar="RULES", help="A .rules file.", show_default=False)]


@rules_app.command("check")
def rules_check(
    rules: Rules,
    labels: Names = None,
    labels_file: NamesFile = None,
    scheme: TheScheme = Scheme.NONE,
    model: Annotated[Path | None, typer.Option("--model", metavar="MODEL", help="Take its labels and scheme.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="For machines: one JSON object per finding, a line each.")
    ] = False,
) -> None:
    """Look for mistakes in rules.

    Rules that cannot be read, cannot hold, clash with others, or say nothing.

    \b
    Examples:
      bridle rules check my.rules --labels O,A0,A1 --scheme IO
      bridle rules check my.rules --model m.bridle
      bridle rules check my.rules --labels-file labels.txt --json

    \b
    Exit codes:
      0    clean (infos may be there)
      1    warnings only
      2    errors, or the file cannot be read
    """
    names = names_of(labels, labels_file)
    if model is not None and (names is not None or scheme is not Scheme.NONE):
        raise LabelError("the model brings its labels", got="--labels or --scheme too", wanted="--model alone")
    known = bridle.load(model).labels_ if model is not None else None if names is None else labels_of(names, scheme)
    found = lint(text_of(rules).split("\n"), known, spell=option)
    if as_json:
        for finding in found:
            typer.echo(json_line({"file": str(rules), **{n: getattr(finding, n) for n in finding.__slots__}}))
    elif on_terminal(sys.stdout):
        Console().print(_table(found) if found else "[green]nothing to complain about[/green]")
    else:
        for f in found:
            where = f"{rules}:{f.line}" if f.line else f"{rules}"
            show([f"{where}: {f.level} {f.code} {f.message}"])
    levels = {finding.level for finding in found}
    raise typer.Exit(BAD if "error" in levels else LOOK if "warning" in levels else 0)


@rules_app.command("show")
def rules_show(
    rules: Rules,
    as_json: Annotated[
        bool, typer.Option("--json", help="For machines: one JSON object per rule, a line each.")
    ] = False,
) -> None:
    """Print rules as Bridle reads them, one per line.

    \b
    Examples:
      bridle rules show my.rules
      bridle rules show my.rules --json

    \b
    Exit codes:
      0    printed
      2    a line is no rule, or the file cannot be read
    """
    for line in load_lines(rules):
        if as_json:
            told = {"file": str(rules), "line": line.number, "rule": str(line.rule), "comment": line.comment}
            typer.echo(json_line(told))
        else:
            show_data(f"{line.rule}  # {line.comment}" if line.comment else str(line.rule))


def _table(found: list[Finding]) -> Table:
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for head in ("line", "level", "code", "message"):
        table.add_column(head, justify="right" if head == "line" else "left", no_wrap=head != "message")
    colour = {"error": "bold red", "warning": "yellow", "info": "cyan"}
    for f in found:
        table.add_row(str(f.line or ""), Text(f.level, style=colour[f.level]), f.code, Text(visible(f.message)))
    return table
