"""`bridle demo`: label references in styles that the tagger has never seen, without and with rules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bridle.atomic import write_text
from bridle.cli import options as opt
from bridle.cli.base import Command, app, check_writable, json_line, print_stderr, show, warn

PAGE = "bridle-demo.html"


@app.command(cls=Command)
def demo(
    out: Annotated[Path, opt.option("-o, --out FILE", "HTML report to write.")] = Path(PAGE),
    as_json: opt.JsonOption = False,
) -> None:
    """Show what rules do, on references that ship with Bridle.

    \b
    The demo takes a few seconds. It prints a table and three references before and after, and writes a report.
    A CRF learns from a few references in two citation styles. Then it labels other works in four styles that it has
    never seen: by plain Viterbi, with rules learned from the training references, and with eleven written rules.

    \b
    Examples:
      bridle demo
      bridle demo -o report.html
      bridle demo --json | python -m json.tool

    \b
    Exit codes:
      0    success
      2    bad usage, or the report cannot be written
      130  interrupted by Ctrl-C
    """
    from bridle import demo as demonstration  # it brings models and learners along

    check_writable(out)
    results = demonstration.run(say=warn)
    if as_json:
        typer.echo(json_line(results.to_dict()))
    else:
        console = Console()
        demonstration.show(results, console if console.is_terminal else Console(width=100))
    write_text(out, demonstration.page(results) + "\n")
    if as_json:
        print_stderr(f"Report: {out}")
    else:
        show([f"Report: {out}"])
