"""What all commands share: the app, exit codes, messages, labels, output."""

from __future__ import annotations

import errno
import json
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

import typer
from typer.core import TyperGroup

import bridle
from bridle.cli.bars import on_terminal
from bridle.cli.stream import Tally
from bridle.errors import Argument, BridleError, FileError, Infeasible, LabelError, LimitReached
from bridle.labels import Scheme as KnownScheme
from bridle.models.files import MAGIC
from bridle.report.text import visible
from bridle.rules.files import text_of

LOOK, BAD, NO_ANSWER, INTERRUPTED, NO_READER = 1, 2, 3, 130, 141  # exit codes, as told below
ORDER = ("train", "tag", "eval", "learn", "rules", "decode", "explain", "convert", "reproduce", "demo", "info")
_OWN_OPTIONS = {"on_infeasible", "on_unknown", "format", "scheme", "label"}  # others are options of a format
_Misuse = cast(type[Exception], typer.BadParameter.__base__)  # the root of what is wrong with a command line

_EPILOG = """\b
Examples:
  bridle demo                                                      a first look
  bridle train train.txt -o np.bridle --columns word,pos,chunk     learn a tagger
  bridle tag np.bridle new.txt --rules my.rules -o tagged.txt      label under rules
  bridle COMMAND --help                                            what a command takes, with examples

\b
Exit codes:
  0    fine
  1    done, but look at it: sequences relaxed or left out, warnings, no rule found
  2    bad input, bad usage, or the output cannot be written
  3    no labelling obeys the rules, or none was found in time
  130  stopped by Ctrl-C; what was done is kept
  141  the reader of the output went away, as head does
"""


class Commands(TyperGroup):
    """The commands in the order of work. What goes wrong around them ends as within: one message, an exit code."""

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order of work; what is new comes last."""
        names = list(self.commands)
        return sorted(names, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER) + names.index(name))

    def invoke(self, ctx: Any) -> Any:
        """Run a command. Typer would let Ctrl-C pass without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise typer.Exit(_told(error)) from None

    def main(self, *args: Any, **named: Any) -> Any:
        """Run a command line, and exit."""
        alone = named.get("standalone_mode", True)
        named["standalone_mode"] = False
        words = (args[0] if args else named.get("args")) or sys.argv[1:]
        if alone and isinstance(sys.stdout, TextIOWrapper):  # a terminal may lack characters that the data has
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            code = super().main(*args, **named)
        except _Misuse as error:
            if not alone:
                raise
            code = _misused(error, words)
        except BaseException as error:
            code = _told(error)
        if not alone:
            return code
        sys.exit(code if isinstance(code, int) else 0)


def _misused(error: Any, words: Sequence[str]) -> int:
    """Say what is wrong with a command line, with what was got where that is not said."""
    if error.ctx is None or type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return BAD
    what, got = error.format_message().replace("Value error, ", "").rstrip(".?"), None
    what = what.removesuffix(" (Possible options: --help)")
    names = getattr(getattr(error, "param", None), "opts", [])
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if not what.startswith("Missing") and word.partition("=")[0] in names:
            got = word.partition("=")[2] or after
    command = error.ctx.command_path
    more = "?" if "Did you mean" in what else "." if not got or got in what else f"; got {got!r}."
    tell(f"{command}: {what[:1].lower()}{what[1:]}{more}")
    tell(f"{error.ctx.get_usage()}\n'{command} --help' tells more, with examples.")
    return BAD


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


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


def _told(error: BaseException) -> int:
    """Say in one message on stderr what ended a command; its exit code."""
    code, message = BAD, ""
    match error:
        case Infeasible() | LimitReached():
            code, message = NO_ANSWER, error.message(option)
        case BridleError():
            message = error.message(option)
        case MemoryError():
            message = "out of memory"
        case KeyboardInterrupt() | typer.Abort():
            code, message = INTERRUPTED, "interrupted"
        case BrokenPipeError() | SystemExit(__context__=BrokenPipeError()):  # what prints calls the second an error
            sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115  (what is left in the buffer is not tried again)
            return NO_READER
        case OSError():  # standard output, mostly: files are looked after where they are written
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            wanted = "; wanted a place with room for the output" if full else ""
            message = f"cannot {'write' if full else 'go on'}; got {error.strerror or error}{wanted}."
        case _:
            raise error
    warn(message)
    return code


def tell(text: str) -> None:
    """Print on stderr, with control characters escaped."""
    typer.echo(visible(text, keep="\n\t"), err=True)


def warn(message: str) -> None:
    """Say something on stderr."""
    tell(f"bridle: {message}")


def on_screen(line: str) -> str:
    """A line as a terminal may have it: with control characters escaped."""
    return visible(line, keep="\t")


def show(lines: Iterable[str]) -> None:
    """Print lines that people read, with control characters escaped; machines have --json."""
    typer.echo("\n".join(map(on_screen, lines)))


def show_data(line: str) -> None:
    """Print a line that may be read again: as it is, but for a terminal."""
    typer.echo(on_screen(line) if on_terminal(sys.stdout) else line, color=True)  # False would drop escapes


def fail(message: str, code: int) -> NoReturn:
    """Say what is wrong and end."""
    warn(message)
    raise typer.Exit(code) from None


def option(argument: Argument) -> str:
    """An argument of the library as the command line has it.

    >>> print(option(Argument("on_infeasible", "relax")), option(Argument("comment", "# ")))
    --on-infeasible relax --option comment='# '
    """
    name, value = argument.name, argument.value
    if name == "given":
        keys = dict(value)
        texts = ['"tokens": [...]'] if "tokens" in keys else []
        texts += [f'"given": {{"{key}": ...}}' for key in keys if key != "tokens"]
        return ", ".join(texts) + " in the JSON line of the sequence"
    if name == "labels":
        return "--labels or --model"
    if name == "columns":
        return "--columns A,B,..."
    if name == "names" and value is ...:
        return "--option names=A,B,..."
    word = "NAME" if value is ... else shlex.quote("none" if value is None else str(value))
    if name in _OWN_OPTIONS:
        return f"--{name.replace('_', '-')} {word}"
    return f"--option {name}={word}"


def keep(out: str | Path | None, *others: str | Path | None, flag: str = "-o") -> None:
    """What is read, or written too, must not be written over: a slip of the fingers would cost the data."""
    for path in others:
        if path is not None and out not in (None, "-") and Path(path).resolve() == Path(str(out)).resolve():
            got, wanted = f"{flag} {out}", "another name for the output"
            raise FileError("this file would be overwritten", got=got, wanted=wanted, where=str(path))


def check_place(path: Path) -> None:
    """Can a file be written there? Better to know before the work than after."""
    folder = path.resolve().parent
    written = path if path.exists() and not path.is_file() else folder  # a device is written as it is
    if str(path) == "-" or path.is_dir() or not folder.is_dir() or not os.access(written, os.W_OK):
        wanted = "the name of a file in a folder that exists and can be written to"
        raise FileError("cannot write this file", got="no such place", wanted=wanted, where=str(path))


def check_kind(path: Path) -> None:
    """A model may be written over, but not something else that happens to have its name."""
    if path.is_file() and path.stat().st_size:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                got, wanted = "a file that is no model", "another name for the output"
                raise FileError("this file would be overwritten", got=got, wanted=wanted, where=str(path))


def json_line(value: Any) -> str:
    """One line of JSON; what UTF-8 cannot hold (in the name of a file, say) is escaped."""
    line = json.dumps(value, ensure_ascii=False)
    return line if line.isprintable() else json.dumps(value)


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


def ended(tally: Tally) -> NoReturn:
    """Tell what did not go as it should, and end with its exit code."""
    look = tally.infeasible or tally.relaxed or tally.unfound
    if look or tally.unproved:
        warn(str(tally))
    raise typer.Exit(LOOK if look else 0)
