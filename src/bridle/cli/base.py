"""Base of all commands: the app, exit codes, messages, labels, output."""

from __future__ import annotations

import errno
import gc
import json
import os
import shlex
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, fields
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Annotated, Any, NoReturn, cast

import typer
from typer.core import TyperCommand, TyperGroup

import bridle
from bridle.errors import Argument, BridleError, FileError, Infeasible, LimitReached
from bridle.interrupts import INTERRUPTED, stop_as_usual

WARNINGS, BAD_INPUT, NO_ANSWER, NO_READER = 1, 2, 3, 141  # exit codes, described below
# Every command, in the order of work: the modules that hold it, and what it does. They are imported when it is called.
COMMANDS = {
    "split": (["splitting"], "Split labelled sequences into training, development and test data."),
    "train": (["training"], "Train a tagger on labelled sequences."),
    "tag": (["tagging"], "Label sequences with a model, optionally under rules."),
    "eval": (["evaluating"], "Compare labels with gold labels."),
    "compare": (["comparing"], "Compare systems that label the same sequences, with tests of significance."),
    "suggest": (["suggesting"], "Choose the sequences to label next."),
    "learn": (["learning"], "Learn rules from labelled sequences, with their evidence and penalties."),
    "rules": (["rules", "rules_tune"], "Check, show, test and tune rules."),
    "decode": (["decoding"], "Decode your own scores under rules."),
    "explain": (["explaining"], "Explain labels: which rules changed them, where, and at what cost."),
    "features": (
        ["features"],
        "List feature functions, print a ready-made feature set, or show the features of a text.",
    ),
    "convert": (["converting"], "Convert a CRFsuite model into a Bridle model."),
    "serve": (["serving"], "Serve models and their rules over HTTP."),
    "explore": (["serving"], "Open a page where you write rules and see what they do."),
    "reproduce": (["reproducing"], "Reproduce an experiment from a paper on real data."),
    "demo": (["demo"], "Show what rules do, on references that ship with Bridle."),
    "info": (["info"], "Describe a model, or print versions, the processor and its vector instructions."),
}
_has_warnings = ContextVar("_deserves_a_look", default=False)  # was there a warning?
# arguments of the library that are options of their own; others are options of a format
_OWN_OPTIONS = {
    "on_infeasible",
    "on_unknown",
    "format",
    "scheme",
    "label",
    "max_memory",
    "memory",
    "resume",
    "shard_size",
    "time_limit",
    "predicted_format",
    "predicted_option",
}
_Misuse = cast(type[Exception], typer.BadParameter.__base__)  # the root of what is wrong with a command line

_EPILOG = """\b
Examples:
  bridle demo                                                      a first look
  bridle train train.txt -o np.bridle --columns word,pos,chunk     learn a tagger
  bridle tag np.bridle new.txt --rules my.rules -o tagged.txt      label under rules
  bridle COMMAND --help                                            options of a command, with examples

\b
Exit codes:
  0    success
  1    finished with warnings: sequences were relaxed or left out, or no rule was found
  2    bad input, bad usage, or the output cannot be written
  3    no labelling obeys the rules, or none was found in time
  130  stopped by Ctrl-C; finished work is kept
  141  the reader of the output closed it, as head does
"""


class Command(TyperCommand):
    """A command whose help lists its options by panel, common ones first."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options without a panel, and the panels in the order of the options."""
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            panel = "Arguments" if param.param_type_name == "argument" else getattr(param, "rich_help_panel", None)
            if (row := param.get_help_record(ctx)) is not None:
                panels.setdefault(panel or "Options", []).append(row)
        for panel, rows in panels.items():
            if rows:
                with formatter.section(panel):
                    formatter.write_dl(rows)


class Commands(TyperGroup):
    """The commands, each imported when it is called. An error ends in one message and an exit code."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self.commands: dict[str, Any] = {**dict.fromkeys(COMMANDS), **self.commands}  # None: not imported yet

    def list_commands(self, ctx: Any) -> list[str]:
        """Command names, in the order of work."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, name: str) -> Any:
        """Import a command."""
        if name in COMMANDS and self.commands[name] is None:
            for module in COMMANDS[name][0]:
                import_module(f"bridle.cli.{module}")
            self.commands[name] = cast(TyperGroup, typer.main.get_command(app)).commands[name]
        gc.enable()
        stop_as_usual()
        return self.commands.get(name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List all commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, what) for name, (_, what) in COMMANDS.items()])

    def invoke(self, ctx: Any) -> Any:
        """Run a command. Typer alone would not report Ctrl-C."""
        _has_warnings.set(False)
        try:
            done = super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise typer.Exit(_report_error(error)) from None
        except typer.Exit as end:
            if end.exit_code or not _has_warnings.get():
                raise
            raise typer.Exit(WARNINGS) from None
        if _has_warnings.get():
            raise typer.Exit(WARNINGS)
        return done

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
            code = _report_misuse(error, words)
        except BaseException as error:
            code = _report_error(error, self.options_of(words))
        if not alone:
            return code
        sys.exit(code if isinstance(code, int) else 0)

    def options_of(self, words: Sequence[str]) -> set[str]:
        """Return the options of the command that a command line names."""
        command: Any = self
        for word in words:
            subcommand = command.get_command(None, word) if hasattr(command, "get_command") else None
            command = subcommand or command
        return {name for param in command.params for name in param.opts}


def _report_misuse(error: Any, words: Sequence[str]) -> int:
    """Print what is wrong with a command line, and the value that it got."""
    if error.ctx is None or type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return BAD_INPUT
    what, got = error.format_message().replace("Value error, ", "").rstrip(".?"), None
    what = what.removesuffix(" (Possible options: --help)")
    names = getattr(getattr(error, "param", None), "opts", [])
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if not what.startswith("Missing") and word.partition("=")[0] in names:
            got = word.partition("=")[2] or after
    command = error.ctx.command_path
    more = "?" if "Did you mean" in what else "." if not got or got in what else f"; got {got!r}."
    print_stderr(f"{command}: {what[:1].lower()}{what[1:]}{more}")
    print_stderr(f"{error.ctx.get_usage()}\n'{command} --help' lists all options, with examples.")
    return BAD_INPUT


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


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
    """Find the best labelling of a sequence that obeys your rules: exactly, fast, and with a proof."""


def _report_error(error: BaseException, known: Collection[str] | None = None) -> int:
    """Print what ended a command in one message on stderr; return its exit code. known: options of the command."""
    code, message = BAD_INPUT, ""
    match error:
        case Infeasible() | LimitReached():
            code, message = NO_ANSWER, error.message(lambda argument: option_text(argument, known))
        case BridleError():
            message = error.message(lambda argument: option_text(argument, known))
        case MemoryError():
            message = "out of memory"
        case KeyboardInterrupt() | typer.Abort():
            code, message = INTERRUPTED, "interrupted"
        case BrokenPipeError() | SystemExit(__context__=BrokenPipeError()):  # what prints calls the second an error
            sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115  (what is left in the buffer is not tried again)
            return NO_READER
        case OSError():  # standard output, mostly: files are looked after where they are written
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            wanted = "; wanted a disk with space for the output" if full else ""
            message = f"cannot {'write' if full else 'continue'}; got {error.strerror or error}{wanted}."
        case _:
            raise error
    warn(message)
    return code


def mark_warning() -> None:
    """Let the command end with exit code 1 unless something worse happens: there was a warning."""
    _has_warnings.set(True)


def print_stderr(text: str) -> None:
    """Print on stderr, with control characters escaped."""
    from bridle.report.text import visible

    typer.echo(visible(text, keep="\n\t"), err=True)


def warn(message: str) -> None:
    """Print a message on stderr."""
    print_stderr(f"bridle: {message}")


def escape_controls(line: str) -> str:
    """Escape control characters of a line that a terminal shows."""
    from bridle.report.text import visible

    return visible(line, keep="\t")


def show(lines: Iterable[str]) -> None:
    """Print lines for people, with control characters escaped; scripts use --json."""
    typer.echo("\n".join(map(escape_controls, lines)))


def show_data(line: str) -> None:
    """Print a line of data: unchanged in a pipe, with control characters escaped on a terminal."""
    typer.echo(escape_controls(line) if on_terminal(sys.stdout) else line, color=True)  # False would drop escapes


def exit_with(message: str, code: int) -> NoReturn:
    """Print what is wrong and exit."""
    warn(message)
    raise typer.Exit(code) from None


def option_text(argument: Argument, known: Collection[str] | None = None) -> str | None:
    """Return the option for an argument of the library; None if the command has none. known: options of the command.

    >>> print(option_text(Argument("on_infeasible", "relax")), option_text(Argument("comment", "# ")))
    --on-infeasible relax --option comment='# '
    >>> option_text(Argument("on_unknown", "wrong"), known={"--model", "--tune"})
    """
    text = _spelt(argument, known)
    if known is None or not text.startswith("--") or text.split()[0] in known:
        return text or None
    from bridle.data.base import format_kind, formats

    of_format = any(field.name == argument.name for name in formats() for field in fields(format_kind(name)))
    if argument.name in _OWN_OPTIONS and of_format and "--option" in known:
        return f"--option {argument.name}={_word(argument.value)}"
    return None


def _spelt(argument: Argument, known: Collection[str] | None) -> str:
    """Return an argument as commands spell it; labels have two options."""
    name, value = argument.name, argument.value
    if name == "given":
        keys = dict(value)
        texts = ['"tokens": [...]'] if "tokens" in keys else []
        texts += [f'"given": {{"{key}": ...}}' for key in keys if key != "tokens"]
        column = "" if keys.keys() <= {"tokens"} else ", or a column of that name"
        return ", ".join(texts) + f" in the JSON line of the sequence{column}"
    if name == "labels":
        return " or ".join(flag for flag in ("--labels", "--model") if known is None or flag in known)
    if name == "columns":
        return "--columns A,B,..."
    if name == "names" and value is ...:
        return "--option names=A,B,..."
    if value is True:
        return f"--{name}"
    if name in _OWN_OPTIONS:
        return f"--{name.replace('_', '-')} {_word(value)}"
    return f"--option {name}={_word(value)}"


def _word(value: Any) -> str:
    return "NAME" if value is ... else shlex.quote("none" if value is None else str(value))


def refuse_overwrite(out: str | Path | None, *others: str | Path | None, flag: str = "-o") -> None:
    """Refuse to overwrite a file that is also read, or also another output: a typing error would cost the data."""
    for path in others:
        if path is not None and out not in (None, "-") and Path(path).resolve() == Path(str(out)).resolve():
            got, wanted = f"{flag} {out}", "another name for the output"
            raise FileError("this file would be overwritten", got=got, wanted=wanted, where=str(path))


def check_writable(path: Path) -> None:
    """Check that a file can be written, before the work starts."""
    folder = path.resolve().parent
    written = path if path.exists() and not path.is_file() else folder  # a device is written as it is
    if str(path) == "-" or path.is_dir() or not folder.is_dir() or not os.access(written, os.W_OK):
        wanted = "the name of a file in a folder that exists and can be written to"
        raise FileError(
            "cannot write this file", got="the folder does not exist or is not writable", wanted=wanted, where=str(path)
        )


def check_model_path(path: Path) -> None:
    """Check that an existing output file is a model: other files are not overwritten."""
    from bridle.models.files import is_model

    if path.is_file() and path.stat().st_size and not is_model(path):
        got, wanted = "a file that is not a model", "another name for the output"
        raise FileError("this file would be overwritten", got=got, wanted=wanted, where=str(path))


def json_line(value: Any) -> str:
    """One line of JSON; what UTF-8 cannot encode (in a file name, for example) is escaped."""
    line = json.dumps(value, ensure_ascii=False)
    return line if line.isprintable() else json.dumps(value)


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of sequences by their status."""

    sequences: int
    status: Mapping[str, int]

    @property
    def has_warnings(self) -> bool:
        """True if there are sequences without a proper labelling."""
        return any(self.status.get(name) for name in ("infeasible", "relaxed", "nothing_found"))

    def __str__(self) -> str:
        words = {"nothing_found": "stopped before any labelling", "limit": "not proved optimal"}
        names = ("infeasible", "relaxed", "nothing_found", "limit")
        parts = [f"{count:,} {words.get(name, name)}" for name in names if (count := self.status.get(name, 0))]
        return ", ".join([f"{self.sequences:,} sequences", *parts])


def exit_by_status(tally: Tally) -> NoReturn:
    """Report sequences without a proper labelling, and exit with the matching code."""
    if tally.has_warnings or tally.status.get("limit"):
        warn(str(tally))
    raise typer.Exit(WARNINGS if tally.has_warnings else 0)


def on_terminal(stream: IO[Any] | None) -> bool:
    """Return True if a stream is a terminal; it may be closed."""
    return stream is not None and stream.isatty()
