"""Rules from .rules files, one or several, which may include others:

    include order.rules          # beside this file, or a path that starts there
    include "my own.rules"       # quotation marks for a path with spaces

A line `example "text" has LABEL "phrase"` is a test case (examples.py); who wants rules does not see it.
A file is read once, however often it is included, so that no penalty is charged twice. Text that does not come from a
file can include files only if you pass their folder: rules may come from people whom you do not know.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bridle.deadline import check_stopped
from bridle.errors import BridleError, FileError, RuleSyntaxError
from bridle.rules.base import Rule
from bridle.rules.condition_text import lists_in
from bridle.rules.examples import EXAMPLE, ExampleLine, parse_example_line
from bridle.rules.files import LARGEST, Line, text_of
from bridle.rules.text import included_by, parse_line

_PRICED_FOR = re.compile(r"^#.*\bpriced for model ([0-9a-f]{16})\b")
MOST_RULES = 10_000  # of a file, with its test cases and those that it includes
_MOST_FILES, _DEEPEST = 1000, 20  # files in all, and in each other
_MOST_HINTS = 20  # bad lines that are told what was meant: it takes time


@dataclass(eq=False)
class Loaded:
    """The rules of some files and of those that they include, in the order in which they are read.

    Files are known by the names that messages have for them.
    """

    lines: list[Line] = field(default_factory=list)
    examples: list[ExampleLine] = field(default_factory=list)  # test cases
    wrong: list[RuleSyntaxError] = field(default_factory=list)  # lines that cannot be read
    again: list[tuple[str | None, int, str]] = field(default_factory=list)  # file, line, what: files met again
    texts: dict[str | None, list[str]] = field(default_factory=dict)  # all lines of each file
    includes: dict[tuple[str | None, int], str] = field(default_factory=dict)  # file, line -> the file read there
    priced_for: dict[str | None, str] = field(default_factory=dict)  # the model that a file was priced for

    def check(self, examples: Literal["check", "skip"] = "check") -> list[Line]:
        """The lines, if all of them could be read. examples="skip": test cases need not be right."""
        wrong = [error for error in self.wrong if examples == "check" or not self._is_example(error)]
        if wrong:
            wrong[0].others = tuple(wrong[1:])
            raise wrong[0].with_traceback(None)  # it may be raised again and again
        return self.lines

    def _is_example(self, error: RuleSyntaxError) -> bool:
        """Is the line of an error a test case?"""
        return error.line is not None and EXAMPLE.match(self.texts[error.file][error.line - 1]) is not None


class _Loader:
    """Reads files into one `Loaded`."""

    def __init__(self) -> None:
        self.found = Loaded()
        self._known: dict[str, str] = {}  # path -> where it was first asked for
        self._size = 0

    def file(self, path: str | Path) -> None:
        """Read a file that was asked for."""
        place = _real(path)
        if place in self._known:
            self.found.again.append((str(path), 0, f"this file {self._known[place]}; it is read once"))
            return
        self._known[place] = "was already named"
        folder = Path(path).parent if Path(path).is_file() else Path()  # what comes through a pipe has none of its own
        self._read(self._text(path, "the rules file"), str(path), folder, (place,))

    def text(self, lines: Iterable[str], file: str | None, folder: str | Path | None) -> None:
        """Read lines that came from elsewhere."""
        self._read(lines, file, None if folder is None else Path(folder), ())

    def _text(self, path: str | Path, what: str) -> list[str]:
        text = text_of(path, what)  # read once: it may be a pipe
        self._size += len(text)
        if len(self._known) > _MOST_FILES or self._size > LARGEST:
            raise FileError(
                "there are too many rules files, or they are too large together",
                got=f"{len(self._known):,} files, {self._size:,} characters",
                wanted=f"at most {_MOST_FILES:,} files and {LARGEST:,} characters",
                where=str(path),
            )
        return text.split("\n")  # not splitlines: a label may hold other breaks such as U+2028

    def _read(
        self, lines: Iterable[str], file: str | None, folder: Path | None, inside: tuple[str, ...], by: str = ""
    ) -> None:
        """inside: the paths of this file and of those that include it.   by: the line that includes this file."""
        found, texts, lists = self.found, list[str](), lists_in(folder)
        found.texts[file] = texts
        for number, line in enumerate(lines, start=1):
            check_stopped()
            texts.append(line)
            if (priced := _PRICED_FOR.match(line)) is not None:
                found.priced_for.setdefault(file, priced[1])
            target = None if folder is None else included_by(line)
            try:
                if target is not None and folder is not None:
                    self._include(target, (file, number), folder, inside)
                    continue
                if EXAMPLE.match(line):
                    example, comment = parse_example_line(line)
                    found.examples.append(ExampleLine(example, number, comment, file))
                else:
                    rule, comment = parse_line(line, lists, "suggest" if len(found.wrong) < _MOST_HINTS else "none")
                    if rule is not None:
                        found.lines.append(Line(rule, number, comment, file))
            except BridleError as error:
                if target is not None and isinstance(error, FileError):  # too many rules, in the file that is included
                    raise
                found.wrong.append(_placed(error, file, number, by))
            if len(found.lines) + len(found.examples) + len(found.wrong) > MOST_RULES:
                raise _too_many_rules(file)

    def _include(self, target: str, at: tuple[str | None, int], folder: Path, inside: tuple[str, ...]) -> None:
        path, place = folder / target, _real(folder / target)
        tidy = os.path.normpath(path)
        shown = tidy if _real(tidy) == place else str(path)  # not the same where .. leaves a folder that is a link
        here = ":".join(str(part) for part in at if part is not None)
        if place in inside:
            names = [os.path.relpath(one, folder) for one in (*inside[inside.index(place) :], place)]
            raise RuleSyntaxError(
                f"{target} includes itself",
                got=" includes ".join(names),
                wanted="files that do not include themselves",
            )
        if place in self._known:
            self.found.again.append((*at, f"{target} {self._known[place]}; it is read once"))
            return
        if len(inside) >= _DEEPEST:
            raise RuleSyntaxError("files include each other too deeply", got=target, wanted=f"at most {_DEEPEST} deep")
        self._known[place] = f"is already included by {here}"
        try:
            lines = self._text(path, "the rules file")
        except FileError as error:
            raise RuleSyntaxError(
                f"cannot include {target}: {error.what}",
                got=error.got,
                wanted=error.wanted,
                cause=f"Looked for {shown}; paths start in the folder of the file that has the line.",
            ) from None
        self.found.includes[at] = shown
        self._read(lines, shown, path.parent, (*inside, place), here)


def _too_many_rules(file: str | None) -> FileError:
    return FileError(
        "there are too many rules",
        got=f"more than {MOST_RULES:,}",
        wanted=f"at most {MOST_RULES:,}",
        cause="Can one rule with a list of labels replace many rules?",
        where=file,
    )


def _real(path: str | Path) -> str:
    """The same text for all paths that lead to one file."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # a ValueError: a path with a null in it, which cannot be opened either
        return str(path)


def _placed(error: BridleError, file: str | None, line: int, by: str) -> RuleSyntaxError:
    """The error with its place."""
    parts = {name: getattr(error, name) for name in ("got", "wanted", "cause", "rule", "argument")}
    if by:
        parts["cause"] = f"{parts['cause']}\n{file} is included by {by}." if parts["cause"] else f"Included by {by}."
    return RuleSyntaxError(error.what, file=file, line=line, suggestion=getattr(error, "suggestion", None), **parts)


def read_files(paths: Sequence[str | Path]) -> Loaded:
    """The rules of some files, with what is wrong in them."""
    loader = _Loader()
    for path in paths:
        loader.file(path)
    return loader.found


def read_lines(lines: Iterable[str], file: str | None = None, folder: str | Path | None = None) -> Loaded:
    """The rules of some lines, with what is wrong in them. folder: where files are that they include; None: nowhere."""
    loader = _Loader()
    loader.text(lines, file, folder)
    return loader.found


# ---- what people call -----------------------------------------------------------------------------------------------


def parse_lines(lines: Iterable[str], file: str | None = None, *, folder: str | Path | None = None) -> list[Line]:
    """Read the lines of a .rules file; empty lines and comments are skipped.

    Parameters
    ----------
    lines : iterable of str
        The lines.
    file : str, optional
        Name of the file, for messages.
    folder : str or Path, optional
        Folder in which paths start, in lines such as ``include other.rules`` and ``fix CITY at tokens in
        "cities.txt"``. Without it, no file is read, and such a line is an error.

    Returns
    -------
    list of Line
        Each rule with its line number (`number`), its comment (`comment`) and its file (`file`).

    Raises
    ------
    FileError
        If there are more than 10,000 rules.
    RuleSyntaxError
        For the first bad line; its field `others` holds the errors of the other lines.

    Examples
    --------
    >>> from bridle import rules
    >>> [line] = rules.parse_lines(["# orders", "A before B  # held in 348 of 350"])
    >>> print(line.number, line.rule, line.comment, sep=" | ")
    2 | A before B | held in 348 of 350
    """
    return read_lines(lines, file, folder).check()


def load(path: str | Path, *more: str | Path) -> list[Rule]:
    """Read .rules files.

    A line ``include other.rules`` stands for the rules of another file, whose path starts in the folder of the file
    that has the line; put it between quotation marks if it has spaces. A file that is named or included more than once
    is read once.

    Parameters
    ----------
    path : str or Path
        The file: one rule per line, UTF-8, comments after ``#``.
    *more : str or Path
        Further files, whose rules are added. All files together, with those that they include, may have at most
        16,777,216 characters and 10,000 rules.

    Returns
    -------
    list of Rule
        In the order of the files and of their lines.

    Raises
    ------
    FileError
        If a file cannot be read as text, or is too large.
    RuleSyntaxError
        If lines are not rules, or a file that they include cannot be read or includes itself; all bad lines are
        reported at once.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from bridle import rules
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "my.rules")
    ...     _ = pathlib.Path(folder, "order.rules").write_text("AUTHOR before TITLE  [penalty 2.3]\\n")
    ...     _ = path.write_text("at most 1 segment of TITLE\\ninclude order.rules\\n")
    ...     print(*rules.load(path), sep="\\n")
    at most 1 segment of TITLE
    AUTHOR before TITLE  [penalty 2.3]
    """
    return [line.rule for line in load_lines(path, *more)]


def load_lines(path: str | Path, *more: str | Path) -> list[Line]:
    """The rules of .rules files with their places and comments."""
    return read_files([path, *more]).check()
