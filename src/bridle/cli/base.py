"""What all commands share: the app, exit codes, messages, labels, the bar."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn, Protocol, cast

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

import bridle
from bridle.data import Lines
from bridle.errors import BridleError, FileError, Infeasible, LabelError, LimitReached
from bridle.labels import Scheme as KnownScheme
from bridle.stream import Tally

INFEASIBLE, BAD, NO_ANSWER, INTERRUPTED, NO_READER = 1, 2, 3, 130, 141  # exit codes

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)  # fmt: skip


class Scheme(StrEnum):
    """What --scheme takes."""

    NONE, IO, BIO, BIOES, BMES = "none", "IO", "BIO", "BIOES", "BMES"


class OnInfeasible(StrEnum):
    """What --on-infeasible takes."""

    RAISE, RELAX, SKIP = "raise", "relax", "skip"


Names = Annotated[str | None, typer.Option("--labels", metavar="A,B,...", help="The labels, in column order.")]
NamesFile = Annotated[Path | None, typer.Option("--labels-file", metavar="FILE", help="The labels, one per line.")]
TheScheme = Annotated[Scheme, typer.Option("--scheme", help="How labels make segments.")]


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


@contextmanager
def exits() -> Iterator[None]:
    """Errors become one message on stderr and an exit code."""
    try:
        yield
    except (Infeasible, LimitReached) as error:
        fail(str(error), NO_ANSWER)
    except BridleError as error:
        fail(str(error), BAD)
    except MemoryError:
        fail("out of memory", BAD)
    except KeyboardInterrupt:
        fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115  (what is left in the buffer is not tried again)
        raise typer.Exit(NO_READER) from None
    except OSError as error:  # the disk of standard output is full, say
        fail(f"cannot go on; got {error.strerror or error}", BAD)


def fail(message: str, code: int) -> NoReturn:
    """Say what is wrong and end."""
    typer.echo(f"bridle: {message}", err=True)
    raise typer.Exit(code) from None


def text_of(path: Path) -> str:
    """The text of a file."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        got = getattr(error, "strerror", None) or "bytes that are not UTF-8"
        raise FileError(f"cannot read {path}", got=got, wanted="a text file") from None


def names_of(listed: str | None, file: Path | None) -> tuple[str, ...] | None:
    """Label names from the command line or from a file."""
    if listed is not None and file is not None:
        raise LabelError("labels are given twice", got="--labels and --labels-file", wanted="one of them")
    if file is not None:
        return tuple(line.strip() for line in text_of(file).splitlines() if line.strip())
    return None if listed is None else tuple(name.strip() for name in listed.split(","))


def labels_of(names: tuple[str, ...], scheme: Scheme) -> bridle.Labels:
    """Labels under a scheme."""
    return bridle.Labels(names, None if scheme is Scheme.NONE else cast(KnownScheme, scheme.value))


@contextmanager
def writing(out: str | None) -> Iterator[Lines]:
    """Lines to a file or to standard output; if the work does not end, it is told where they are."""
    lines = Lines(out)
    try:
        with lines:
            yield lines
    except BaseException:
        if lines.kept is not None:
            typer.echo(f"bridle: {lines.count:,} lines were written; they are kept in {lines.kept}", err=True)
        raise


def ended(tally: Tally) -> NoReturn:
    """Tell what did not go as it should, and end with its exit code."""
    if not tally.clean or tally.unproved:
        typer.echo(f"bridle: {tally}", err=True)
    raise typer.Exit(0 if tally.clean else INFEASIBLE)


class Source(Protocol):
    """What is read, and how far."""

    @property
    def total(self) -> int | None:
        """All there is."""

    @property
    def done(self) -> Callable[[], int]:
        """How much has been read."""


@contextmanager
def progress_bar(asked: bool | None, source: Source, out: str | None, doing: str = "decoding") -> Iterator[Bar]:
    """A bar on stderr: when asked for, or after a second if stderr is a terminal that shows nothing else."""
    step = Bar(source, doing)
    free = sys.stderr.isatty() and (out not in (None, "-") or not sys.stdout.isatty())
    if asked is True or (asked is None and free):
        step.wait = 0.0 if asked else 1.0
    try:
        yield step
    finally:
        if step.bar is not None:
            step.bar.stop()


class Bar:
    """Moves the bar; makes it when it is time."""

    def __init__(self, source: Source, doing: str) -> None:
        self.source, self.doing, self.begun = source, doing, time.monotonic()
        self.wait = float("inf")
        self.bar: Progress | None = None

    def __call__(self) -> None:
        if time.monotonic() - self.begun < self.wait:
            return
        if self.bar is None:
            parts = (TextColumn(self.doing), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
            self.bar = Progress(*parts, console=Console(stderr=True))
            self.bar.add_task("", total=self.source.total)
            self.bar.start()
        self.bar.update(self.bar.task_ids[0], completed=self.source.done())
