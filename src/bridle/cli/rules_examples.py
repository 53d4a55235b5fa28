"""The test cases of .rules files on the command line: run them, print what failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from bridle.cli.base import json_line, show
from bridle.cli.options import SplitAs
from bridle.learn.examples import Outcome, run_examples
from bridle.models import Tagger
from bridle.report.text import visible
from bridle.rules.base import Rule
from bridle.rules.loading import Loaded

Outcomes = Sequence[Outcome] | None  # None: there is no model to run test cases with


def tested(
    tagger: Tagger, loaded: Loaded, rules: Sequence[Rule], options: Mapping[str, Any], tokens: SplitAs | None = None
) -> list[Outcome]:
    """Run the test cases of rules files with a model under these rules. options: of the decoder."""
    if not loaded.examples:
        return []
    decoder = tagger.decoder(rules, on_infeasible="relax", **options)
    how = None if tokens is None else tokens.asked
    return run_examples(tagger, [line.example for line in loaded.examples], decoder, how)


def any_failed(outcomes: Outcomes) -> bool:
    """Did a test case fail?"""
    return any(not one.passed for one in outcomes or ())


def examples_json(loaded: Loaded, outcomes: Outcomes) -> list[dict[str, Any]] | None:
    """The test cases for JSON; None if they were not run."""
    if outcomes is None:
        return None
    return [
        {
            "file": line.file,
            "line": line.number,
            "example": str(line.example),
            "passed": one.passed,
            "message": one.message,
            "tokens": one.tokens,
            "labels": one.labels,
            "wrong": one.wrong,
        }
        for line, one in zip(loaded.examples, outcomes, strict=True)
    ]


def tell_tested(loaded: Loaded, outcomes: Outcomes, *, as_json: bool = False) -> None:
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
    failed = [(line, one) for line, one in zip(loaded.examples, outcomes, strict=True) if not one.passed]
    for line, one in failed:
        head = Text.assemble(("failed", "bold red"), visible(f" {line.where}: {line.example}"))
        console.print(head, Text(visible(f"       {one.message}")), sep="\n", soft_wrap=True)
    if count:
        passed, lost = f"{count - len(failed)} passed", f"{len(failed)} failed"
        colour = "bold red" if failed else "default"
        console.print(Text.assemble(f"{_cases(count)}: ", (passed, "green"), ", ", (lost, colour)), soft_wrap=True)


def _cases(count: int) -> str:
    return "1 test case" if count == 1 else f"{count} test cases"
