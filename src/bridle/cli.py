"""The command line: parse, call, print. What it does is written elsewhere."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn, cast

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

import bridle
from bridle import demo as demonstration
from bridle.data import Lines, Pace, ScoreFile, open_scores
from bridle.errors import BridleError, FileError, Infeasible, LabelError, LimitReached
from bridle.labels import Scheme as KnownScheme
from bridle.lint import Finding, lint
from bridle.rules.text import load, load_lines
from bridle.stream import Stream, to_json

INFEASIBLE, BAD, NO_ANSWER, INTERRUPTED, NO_READER = 1, 2, 3, 130, 141  # exit codes

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)  # fmt: skip
rules_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look at .rules files.")
app.add_typer(rules_app, name="rules")


class Scheme(StrEnum):
    """What --scheme takes."""

    NONE, IO, BIO, BIOES, BMES = "none", "IO", "BIO", "BIOES", "BMES"


class OnInfeasible(StrEnum):
    """What --on-infeasible takes."""

    RAISE, RELAX, SKIP = "raise", "relax", "skip"


Names = Annotated[str | None, typer.Option("--labels", metavar="A,B,...", help="The labels, in column order.")]
NamesFile = Annotated[Path | None, typer.Option("--labels-file", metavar="FILE", help="The labels, one per line.")]
TheScheme = Annotated[Scheme, typer.Option("--scheme", help="How labels make segments.")]
Rules = Annotated[Path, typer.Argument(metavar="RULES", help="A .rules file.", show_default=False)]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"bridle {bridle.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """The best labelling of a sequence that obeys your rules: exact, fast, and with a proof."""


@app.command()
def decode(
    scores: Annotated[str, typer.Argument(metavar="SCORES", help="npz, JSON lines (also .gz), or - for stdin.")],
    rules: Annotated[Path | None, typer.Option("--rules", metavar="FILE", help="A .rules file.")] = None,
    labels: Names = None,
    labels_file: NamesFile = None,
    scheme: TheScheme = Scheme.NONE,
    engine: Annotated[str, typer.Option(help="auto, search, viterbi, product, relax, ilp, beam, two_stage.")] = "auto",
    threads: Annotated[int, typer.Option(min=0, help="0: all cores.")] = 0,
    time_limit: Annotated[float | None, typer.Option(metavar="SECONDS", help="For each sequence.")] = None,
    max_states: Annotated[int | None, typer.Option(help="States that may be looked at for each sequence.")] = None,
    on_infeasible: Annotated[
        OnInfeasible, typer.Option(help="No labelling obeys the hard rules: stop, break the fewest rules, or go on.")
    ] = OnInfeasible.RAISE,
    k: Annotated[int | None, typer.Option(min=1, help="Give the k best labellings of each sequence too.")] = None,
    out: Annotated[str | None, typer.Option("-o", "--out", metavar="FILE", help="Default: stdout.")] = None,
    progress: Annotated[bool | None, typer.Option("--progress/--no-progress", help="Default: on long input.")] = None,
) -> None:
    """Decode scores under rules: JSON lines out, one per sequence, in the order of the input.

    \b
    SCORES is an npz file with the arrays
      unary (N, labels), offsets (sequences + 1; left out: one sequence),
      pairwise (labels, labels), start, end (labels), labels, tokens (N)
    of which only unary must be there, or JSON lines such as
      {"id": "s1", "unary": [[0.1, 2.0], [null, 1.0]], "tokens": ["I", "left"],
       "given": {"verb": 1}, "labels": ["O", "A0"]}
    with pairwise, start, end if need be; null and "-inf" stand for minus infinity.

    \b
    Examples:
      bridle decode scores.npz --rules my.rules --labels O,A0,A1 --scheme IO -o out.jsonl
      cat scores.jsonl | bridle decode - --rules my.rules --on-infeasible skip > out.jsonl
      bridle decode scores.jsonl.gz --rules my.rules --k 5 --time-limit 0.1

    \b
    Exit codes:
      0    fine
      1    done, but some sequences are infeasible (skip), relaxed, or had no labelling in time
      2    bad input, bad usage, or the output cannot be written
      3    a sequence has no labelling under the rules, or none was found in time (raise)
      130  interrupted by Ctrl-C; lines written are whole, -o FILE is left as FILE.part
      141  the reader of the output went away
    """
    lines: Lines | None = None
    with _exits():
        names = _names(labels, labels_file)
        obeyed = load(rules) if rules is not None else []
        pace = Pace()
        try:
            with open_scores(scores, pace, None if names is None else len(names)) as source:
                decoder = bridle.Decoder(
                    _labels(_agreed(names, source.labels), scheme), obeyed, engine, time_limit=time_limit,
                    max_states=max_states, on_infeasible="relax" if on_infeasible is OnInfeasible.RELAX else "raise",
                )  # fmt: skip
                stream = Stream(decoder, on_infeasible.value, threads, k)
                with Lines(out) as lines, _progress(progress, source, out) as step:
                    for records in stream.records(source.chunks, pace):
                        lines.write(map(to_json, records))
                        step()
        except BaseException:
            if lines is not None and lines.kept is not None:
                typer.echo(f"bridle: {lines.count:,} lines were written; they are kept in {lines.kept}", err=True)
            raise
        if not stream.tally.clean or stream.tally.unproved:
            typer.echo(f"bridle: {stream.tally}", err=True)
        raise typer.Exit(0 if stream.tally.clean else INFEASIBLE)


@rules_app.command("check")
def rules_check(
    rules: Rules,
    labels: Names = None,
    labels_file: NamesFile = None,
    scheme: TheScheme = Scheme.NONE,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per finding.")] = False,
) -> None:
    """Look for rules that cannot be read, cannot hold, clash with others, or say nothing.

    \b
    Examples:
      bridle rules check my.rules --labels O,A0,A1 --scheme IO
      bridle rules check my.rules --labels-file labels.txt --json

    \b
    Exit codes: 0 clean (infos may be there), 1 warnings only, 2 errors.
    """
    with _exits():
        names = _names(labels, labels_file)
        known = None if names is None else _labels(names, scheme)
        found = lint(_text(rules).split("\n"), known)
        if as_json:
            for finding in found:
                typer.echo(json.dumps({"file": str(rules), **{n: getattr(finding, n) for n in finding.__slots__}}))
        elif sys.stdout.isatty():
            Console().print(_table(found) if found else "[green]nothing to complain about[/green]")
        else:
            for f in found:
                typer.echo(f"{rules}:{f.line}: {f.level} {f.code} {f.message}")
        levels = {finding.level for finding in found}
        raise typer.Exit(BAD if "error" in levels else INFEASIBLE if "warning" in levels else 0)


@rules_app.command("show")
def rules_show(rules: Rules) -> None:
    """Print the rules of a file as Bridle reads them, one per line.

    Example: bridle rules show my.rules
    """
    with _exits():
        for line in load_lines(rules):
            typer.echo(f"{line.rule}  # {line.comment}" if line.comment else str(line.rule))


@app.command()
def demo() -> None:
    """Show one sentence labelled without and with rules, which rules bit, and what they cost."""
    with _exits():
        console = Console()
        if not console.is_terminal:
            console = Console(width=100)
        demonstration.show(demonstration.tell(), console)


# ---- small parts --------------------------------------------------------------------------------------------------


@contextmanager
def _exits() -> Iterator[None]:
    """Errors become one message on stderr and an exit code."""
    try:
        yield
    except (Infeasible, LimitReached) as error:
        _fail(str(error), NO_ANSWER)
    except BridleError as error:
        _fail(str(error), BAD)
    except MemoryError:
        _fail("out of memory", BAD)
    except KeyboardInterrupt:
        _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115  (what is left in the buffer is not tried again)
        raise typer.Exit(NO_READER) from None


def _fail(message: str, code: int) -> NoReturn:
    typer.echo(f"bridle: {message}", err=True)
    raise typer.Exit(code) from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        got = getattr(error, "strerror", None) or "bytes that are not UTF-8"
        raise FileError(f"cannot read {path}", got=got, wanted="a text file") from None


def _names(listed: str | None, file: Path | None) -> tuple[str, ...] | None:
    if listed is not None and file is not None:
        raise LabelError("labels are given twice", got="--labels and --labels-file", wanted="one of them")
    if file is not None:
        return tuple(line.strip() for line in _text(file).splitlines() if line.strip())
    return None if listed is None else tuple(name.strip() for name in listed.split(","))


def _agreed(asked: tuple[str, ...] | None, found: tuple[str, ...] | None) -> tuple[str, ...]:
    """The names of the columns: from the options, from the score file, or the same from both."""
    if asked is None and found is None:
        raise LabelError("the labels are not known", got="none in the score file", wanted="--labels or --labels-file")
    if asked is not None and found is not None and asked != found:
        raise LabelError(
            "the labels of the score file are others", got=", ".join(found), wanted=", ".join(asked),
            cause="They name the columns, so the order counts. Leave --labels out to take those of the file.",
        )  # fmt: skip
    return asked or found or ()


def _labels(names: tuple[str, ...], scheme: Scheme) -> bridle.Labels:
    return bridle.Labels(names, None if scheme is Scheme.NONE else cast(KnownScheme, scheme.value))


@contextmanager
def _progress(asked: bool | None, source: ScoreFile, out: str | None) -> Iterator[_Step]:
    """A bar on stderr: when asked for, or after a second if stderr is a terminal that shows nothing else."""
    step = _Step(source)
    free = sys.stderr.isatty() and (out not in (None, "-") or not sys.stdout.isatty())
    if asked is True or (asked is None and free):
        step.wait = 0.0 if asked else 1.0
    try:
        yield step
    finally:
        if step.bar is not None:
            step.bar.stop()


class _Step:
    """Moves the bar; makes it when it is time."""

    def __init__(self, source: ScoreFile) -> None:
        self.source, self.begun = source, time.monotonic()
        self.wait = float("inf")
        self.bar: Progress | None = None

    def __call__(self) -> None:
        if time.monotonic() - self.begun < self.wait:
            return
        if self.bar is None:
            parts = (TextColumn("decoding"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
            self.bar = Progress(*parts, console=Console(stderr=True))
            self.bar.add_task("", total=self.source.total)
            self.bar.start()
        self.bar.update(self.bar.task_ids[0], completed=self.source.done())


def _table(found: list[Finding]) -> Table:
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for head in ("line", "level", "code", "message"):
        table.add_column(head, justify="right" if head == "line" else "left", no_wrap=head != "message")
    colour = {"error": "bold red", "warning": "yellow", "info": "cyan"}
    for f in found:
        table.add_row(str(f.line or ""), Text(f.level, style=colour[f.level]), f.code, Text(f.message))
    return table
