"""Rules from lists, lines and .rules files, which may include others and have test cases:

    include order.rules          # beside this file, or a path that starts there
    include "my own.rules"       # quotation marks for a path with spaces
    example "Knuth, D. The TeXbook. 1984" has AUTHOR "Knuth, D.", DATE "1984"
    example "See above." is nothing

A file is read once, however often it is included, so that no penalty is charged twice. Text that does not come from a
file can include files only if you pass their folder, because rules may come from untrusted sources. In a test case,
`has` lists segments that a model under the rules must find, `is` lists all of them; learn/examples.py runs them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from bridle.deadline import check_stopped
from bridle.errors import BridleError, FileError, RuleError, RuleSyntaxError, shown
from bridle.rules.base import Rule
from bridle.rules.text import (
    EXAMPLE,
    Files,
    Token,
    included_by,
    parse,
    parse_line,
    quote,
    quoted_name,
    scan,
    unquote,
)

LARGEST = 1 << 24  # bytes of a file that people write
MOST_RULES = 10_000  # of a file, with its test cases and those that it includes
_MOST_FILES, _DEEPEST = 1000, 20  # files in all, and in each other
_MOST_HINTS = 20  # bad lines whose errors suggest a sentence: it takes time
_PRICED_FOR = re.compile(r"^#.*\bpriced for model ([0-9a-f]{16})\b")


class _FileLine:
    """A line of a file, from its number and the name of the file."""

    __slots__ = ()
    number: int
    file: str | None

    @property
    def where(self) -> str:
        """The place, as in ``my.rules:3``."""
        return f"line {self.number}" if self.file is None else f"{self.file}:{self.number}"


@dataclass(frozen=True, slots=True)
class Line(_FileLine):
    """A rule of a file, and its line.

    Attributes
    ----------
    rule : Rule
        The rule.
    number : int
        Number of the line, from 1.
    comment : str
        The text after ``#``, or "".
    file : str or None
        The file, if it is known. A rule of an included file has the name of that file.
    """

    rule: Rule
    number: int
    comment: str
    file: str | None = None


# ---- test cases -----------------------------------------------------------------------------------------------------

Kind = Literal["has", "is"]
_SUCH_AS = 'example "Knuth, The TeXbook" has AUTHOR "Knuth", TITLE "The TeXbook"'


@dataclass(frozen=True, slots=True)
class RuleExample:
    """A test case; `parse_example(str(example))` reads it again.

    Raises
    ------
    RuleSyntaxError
        If the text, a label or a phrase is empty, or `has` comes without segments.
    """

    text: str
    kind: Kind
    spans: tuple[tuple[str, str], ...]  # label, phrase

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise RuleSyntaxError("unknown kind of test case", got=shown(self.kind), wanted="'has' or 'is'")
        if not self.text.strip():
            raise RuleSyntaxError("the text of a test case is empty", got=shown(self.text), wanted="a text")
        if self.kind == "has" and not self.spans:
            raise RuleSyntaxError("a test case names no segments", got="'has' alone", wanted=_SUCH_AS)
        for label, phrase in self.spans:
            if not label or not phrase.strip():
                got = f"{quoted_name(label)} {quote(phrase)}"
                raise RuleSyntaxError("a label or a phrase of a test case is empty", got=got, wanted=_SUCH_AS)

    def __str__(self) -> str:
        spans = ", ".join(f"{quoted_name(label)} {quote(phrase)}" for label, phrase in self.spans)
        return f"example {quote(self.text)} {self.kind} {spans or 'nothing'}"

    def renamed(self, label: str, other: str) -> RuleExample:
        """Return the test case with another name for a label."""
        return replace(self, spans=tuple((other if name == label else name, phrase) for name, phrase in self.spans))

    def missing(self) -> str | None:
        """Return a message if a phrase does not occur in the text, or not after the phrase before it."""
        end = 0
        for k, (_, phrase) in enumerate(self.spans):
            if phrase not in self.text:
                return f"the text of the test case does not contain {quote(phrase)}"
            begin = self.text.find(phrase, end)
            if begin < 0:
                before = quote(self.spans[k - 1][1])
                return f"{quote(phrase)} does not occur after {before} in the text; name segments in order"
            end = begin + len(phrase)
        return None


def parse_example(line: str) -> RuleExample:
    """Read a test case.

    >>> parse_example('example "to Bonn" has CITY "Bonn"').spans
    (('CITY', 'Bonn'),)
    """
    return parse_example_line(line)[0]


def parse_example_line(line: str) -> tuple[RuleExample, str]:
    """Return the test case on a line, and its comment."""
    try:
        return _parse_example(line)
    except RuleSyntaxError as error:
        from bridle.rules.suggestions import STRAIGHT_QUOTES, has_curly_quotes, straightened

        suggestion = straightened(line, _parse_example)
        if suggestion is not None:
            error.cause, error.suggestion = f"{STRAIGHT_QUOTES} Did you mean: {suggestion}", suggestion
        elif has_curly_quotes(line):
            error.cause = f"{STRAIGHT_QUOTES} {error.cause}" if error.cause else STRAIGHT_QUOTES
        raise


def _parse_example(line: str) -> tuple[RuleExample, str]:
    tokens, comment, _ = scan(line)
    at = 0

    def take(kinds: tuple[str, ...], wanted: str, *texts: str) -> str:
        nonlocal at
        if at >= len(tokens) or tokens[at].kind not in kinds or (texts and tokens[at].text not in texts):
            rest = " ".join(token.text for token in tokens[at : at + 6])
            raise RuleSyntaxError(
                "not a test case",
                got=repr(rest) if rest else "the end of the line",
                wanted=wanted,
                cause=f"A test case is written like this: {_SUCH_AS}",
            )
        at += 1
        kind, text = tokens[at - 1]
        return unquote(text) if kind == "quoted" else text

    take(("word",), "the word example", "example")
    text = take(("quoted",), "the text in quotation marks")
    kind: Kind = "has" if take(("word",), "'has' or 'is'", "has", "is") == "has" else "is"
    spans: list[tuple[str, str]] = []
    if kind == "has" or tokens[at:] != [Token("word", "nothing")]:
        while not spans or at < len(tokens):
            if spans:
                take(("mark",), "a comma, or the end of the line", ",")
            label = take(("quoted", "word"), 'a label and a phrase, such as TITLE "The TeXbook"')
            phrase = take(("quoted",), f"a phrase of the text in quotation marks, after the label {label}")
            spans.append((label, phrase))
    return RuleExample(text, kind, tuple(spans)), comment[1:].strip()


@dataclass(frozen=True, slots=True)
class ExampleLine(_FileLine):
    """A test case of a file, and its line."""

    example: RuleExample
    number: int  # from 1
    comment: str
    file: str | None = None


# ---- files ----------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Loaded:
    """The rules of files and of those that they include, in reading order; files are known by their names."""

    lines: list[Line] = field(default_factory=list)
    examples: list[ExampleLine] = field(default_factory=list)  # test cases
    wrong: list[RuleSyntaxError] = field(default_factory=list)  # lines that cannot be read
    again: list[tuple[str | None, int, str]] = field(default_factory=list)  # file, line, message: repeated files
    texts: dict[str | None, list[str]] = field(default_factory=dict)  # all lines of each file
    includes: dict[tuple[str | None, int], str] = field(default_factory=dict)  # file, line -> the file read there
    priced_for: dict[str | None, str] = field(default_factory=dict)  # the model that a file was priced for

    def check(self, examples: Literal["check", "skip"] = "check") -> list[Line]:
        """Return the lines, or raise the first error. examples="skip": errors of test cases are ignored."""
        wrong = [error for error in self.wrong if examples == "check" or not self._is_example(error)]
        if wrong:
            wrong[0].others = tuple(wrong[1:])
            raise wrong[0].with_traceback(None)  # it may be raised again and again
        return self.lines

    def _is_example(self, error: RuleSyntaxError) -> bool:
        return error.line is not None and EXAMPLE.match(self.texts[error.file][error.line - 1]) is not None


class _Loader:
    """A reader of files into one `Loaded`."""

    def __init__(self) -> None:
        self.loaded = Loaded()
        self._known: dict[str, str] = {}  # path -> the first mention of it
        self._size = 0

    def file(self, path: str | Path) -> None:
        """Read a file that the caller named."""
        place = _real(path)
        if place in self._known:
            self.loaded.again.append((str(path), 0, f"this file {self._known[place]}; it is read once"))
            return
        self._known[place] = "was already named"
        folder = Path(path).parent if Path(path).is_file() else Path()  # what comes through a pipe has none of its own
        self.read(self._text(path), str(path), folder, (place,))

    def _text(self, path: str | Path) -> list[str]:
        text = read_text(path, "the rules file")  # read once: it may be a pipe
        self._size += len(text)
        if len(self._known) > _MOST_FILES or self._size > LARGEST:
            raise FileError(
                "there are too many rules files, or they are too large together",
                got=f"{len(self._known):,} files, {self._size:,} characters",
                wanted=f"at most {_MOST_FILES:,} files and {LARGEST:,} characters",
                where=str(path),
            )
        return text.split("\n")  # not splitlines: a label may hold other breaks such as U+2028

    def read(
        self, lines: Iterable[str], file: str | None, folder: Path | None, inside: tuple[str, ...], by: str = ""
    ) -> None:
        """Read lines. inside: the paths of their file and of those that include it; by: the line that includes it."""
        loaded, texts, named = self.loaded, list[str](), Files(folder)
        loaded.texts[file] = texts
        for number, line in enumerate(lines, start=1):
            check_stopped()
            texts.append(line)
            if (priced := _PRICED_FOR.match(line)) is not None:
                loaded.priced_for.setdefault(file, priced[1])
            target = None if folder is None else included_by(line)
            try:
                if target is not None and folder is not None:
                    self._include(target, (file, number), folder, inside)
                    continue
                if EXAMPLE.match(line):
                    example, comment = parse_example_line(line)
                    loaded.examples.append(ExampleLine(example, number, comment, file))
                else:
                    rule, comment = parse_line(line, named, "suggest" if len(loaded.wrong) < _MOST_HINTS else "none")
                    if rule is not None:
                        loaded.lines.append(Line(rule, number, comment, file))
            except BridleError as error:
                if target is not None and isinstance(error, FileError):  # too many rules, in the file that is included
                    raise
                loaded.wrong.append(_placed(error, file, number, by))
            if len(loaded.lines) + len(loaded.examples) + len(loaded.wrong) > MOST_RULES:
                raise FileError(
                    "there are too many rules",
                    got=f"more than {MOST_RULES:,}",
                    wanted=f"at most {MOST_RULES:,}",
                    cause="Can one rule with a list of labels replace many rules?",
                    where=file,
                )

    def _include(self, target: str, at: tuple[str | None, int], folder: Path, inside: tuple[str, ...]) -> None:
        path, place = folder / target, _real(folder / target)
        tidy = os.path.normpath(path)
        shown = tidy if _real(tidy) == place else str(path)  # not the same where .. leaves a folder that is a link
        here = ":".join(str(part) for part in at if part is not None)
        if place in inside:
            names = [os.path.relpath(other, folder) for other in (*inside[inside.index(place) :], place)]
            raise RuleSyntaxError(
                f"{target} includes itself",
                got=" includes ".join(names),
                wanted="files that do not include themselves",
            )
        if place in self._known:
            self.loaded.again.append((*at, f"{target} {self._known[place]}; it is read once"))
            return
        if len(inside) >= _DEEPEST:
            raise RuleSyntaxError("files include each other too deeply", got=target, wanted=f"at most {_DEEPEST} deep")
        self._known[place] = f"is already included by {here}"
        try:
            lines = self._text(path)
        except FileError as error:
            raise RuleSyntaxError(
                f"cannot include {target}: {error.what}",
                got=error.got,
                wanted=error.wanted,
                cause=f"Looked for {shown}; paths start in the folder of the file that has the line.",
            ) from None
        self.loaded.includes[at] = shown
        self.read(lines, shown, path.parent, (*inside, place), here)


def _real(path: str | Path) -> str:
    """Return the same text for all paths that lead to one file."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # a ValueError: a path with a null in it, which cannot be opened either
        return str(path)


def _placed(error: BridleError, file: str | None, line: int, by: str) -> RuleSyntaxError:
    """Return the error with its place."""
    parts = {name: getattr(error, name) for name in ("got", "wanted", "cause", "rule", "argument")}
    if by:
        parts["cause"] = f"{parts['cause']}\n{file} is included by {by}." if parts["cause"] else f"Included by {by}."
    return RuleSyntaxError(error.what, file=file, line=line, suggestion=getattr(error, "suggestion", None), **parts)


def read_files(paths: Sequence[str | Path]) -> Loaded:
    """Read files; the result has their rules and their errors."""
    loader = _Loader()
    for path in paths:
        loader.file(path)
    return loader.loaded


def read_lines(lines: Iterable[str], file: str | None = None, folder: str | Path | None = None) -> Loaded:
    """Read lines; the result has their rules and errors. folder: of files that they name; None: these are errors."""
    loader = _Loader()
    loader.read(lines, file, None if folder is None else Path(folder), ())
    return loader.loaded


_MODEL = b"\x89BRIDLE"  # how files of models and of deterministic rules begin


def read_text(path: str | Path, what: str = "this file") -> str:
    """Read a text file of at most 16 MB, with line feeds as line ends."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise FileError(
                f"{what} is too large",
                got=f"more than {LARGEST:,} bytes",
                wanted=f"at most {LARGEST:,}",
                cause="Is it the right file?",
                where=str(path),
            )
        text = data.decode("utf-8-sig")  # some editors put a byte order mark in front
        return text.replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        if error.object.startswith(_MODEL):
            raise FileError(
                f"{what} is not text",
                got="a binary file of Bridle",
                wanted="text in UTF-8",
                where=str(path),
                cause="A model? Deterministic rules are for a model: bridle tag MODEL --rules FILE, or bridle eval.",
            ) from None
        line, byte = error.object[: error.start].count(b"\n") + 1, error.object[error.start]
        raise FileError(
            "not UTF-8",
            got=f"byte 0x{byte:02x}",
            wanted="text in UTF-8",
            where=f"{path}:{line}",
            cause="Save it as UTF-8" + (" (it may be UTF-16)." if error.start == 0 and byte >= 0xFE else "."),
        ) from None
    except (OSError, ValueError) as error:  # a ValueError: a path with a null in it
        got = getattr(error, "strerror", None) or str(error)
        raise FileError(f"cannot read {what}", got=got, wanted="a text file", where=str(path)) from None


def as_rules(rules: Iterable[Rule | str]) -> tuple[Rule, ...]:
    """Return a tuple of rules; sentences are parsed."""
    if isinstance(rules, (str, os.PathLike, Rule)) or not isinstance(rules, Iterable):
        file = isinstance(rules, os.PathLike) or str(rules).endswith(".rules")
        cause = f"A file? Pass bridle.rules.load({str(rules)!r})." if file else "One rule? Pass [rule]."
        raise RuleError("`rules` must be a list", got=shown(rules), wanted="a list of rules", cause=cause)
    parsed = tuple(parse(rule) if isinstance(rule, str) else rule for rule in rules)
    for rule in parsed:
        if not isinstance(rule, Rule):
            raise RuleError("not a rule", got=repr(rule), wanted="a rule, such as rules.at_most(1, of='A0')")
    return parsed


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
    """Read .rules files; return their rules with line numbers and comments."""
    return read_files([path, *more]).check()
