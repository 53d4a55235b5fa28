"""Rules from where people keep them: lines of a .rules file, lists of rules and sentences."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bridle.errors import BridleError, FileError, RuleError, RuleSyntaxError, shown
from bridle.rules.base import Rule
from bridle.rules.text import parse, parse_line

_PRICED_FOR = re.compile(r"^#.*\bpriced for model ([0-9a-f]{16})\b", re.MULTILINE)
LARGEST = 1 << 24  # bytes of a file that people write
MOST_RULES = 10_000  # of a file


def as_rules(rules: Iterable[Rule | str]) -> tuple[Rule, ...]:
    """Rules as they are; sentences become rules."""
    if isinstance(rules, (str, os.PathLike, Rule)) or not isinstance(rules, Iterable):
        file = isinstance(rules, os.PathLike) or str(rules).endswith(".rules")
        cause = f"A file? Pass bridle.rules.load({str(rules)!r})." if file else "One rule? Pass [rule]."
        raise RuleError("rules are not a list", got=shown(rules), wanted="a list of rules", cause=cause)
    found = tuple(parse(rule) if isinstance(rule, str) else rule for rule in rules)
    for rule in found:
        if not isinstance(rule, Rule):
            raise RuleError("not a rule", got=repr(rule), wanted="a rule, such as rules.at_most(1, of='A0')")
    return found


@dataclass(frozen=True, slots=True)
class Line:
    """A rule of a file and where it stands.

    Attributes
    ----------
    rule : Rule
        The rule.
    number : int
        Number of the line, from 1.
    comment : str
        What stands after ``#``, or "".
    """

    rule: Rule
    number: int
    comment: str


def parse_lines(lines: Iterable[str], file: str | None = None) -> list[Line]:
    """Read the lines of a .rules file; empty lines and comments are passed over.

    Parameters
    ----------
    lines : iterable of str
        The lines.
    file : str, optional
        Name of the file, for messages.

    Returns
    -------
    list of Line
        Each rule with its line number (`number`) and its comment (`comment`).

    Raises
    ------
    FileError
        If there are more than 10,000.
    RuleSyntaxError
        About the first bad line; its field `others` holds the errors of all further ones.

    Examples
    --------
    >>> from bridle import rules
    >>> [line] = rules.parse_lines(["# orders", "A before B  # held in 348 of 350"])
    >>> print(line.number, line.rule, line.comment, sep=" | ")
    2 | A before B | held in 348 of 350
    """
    found: list[Line] = []
    wrong: list[RuleSyntaxError] = []
    for number, line in enumerate(lines, start=1):
        try:
            rule, comment = parse_line(line)
            if rule is not None:
                found.append(Line(rule, number, comment))
        except BridleError as error:
            parts = {name: getattr(error, name) for name in ("got", "wanted", "cause", "rule", "argument")}
            wrong.append(RuleSyntaxError(error.what, file=file, line=number, **parts))
        if len(found) + len(wrong) > MOST_RULES:
            raise too_many_rules(file)
    if wrong:
        wrong[0].others = tuple(wrong[1:])
        raise wrong[0]
    return found


def too_many_rules(file: str | None = None) -> FileError:
    """The error for a file with more rules than it may have."""
    return FileError(
        "there are too many rules",
        got=f"more than {MOST_RULES:,}",
        wanted=f"at most {MOST_RULES:,}",
        cause="Can one rule with a list of labels say what many do?",
        where=file,
    )


def load(path: str | Path) -> list[Rule]:
    """Read a .rules file.

    Parameters
    ----------
    path : str or Path
        The file: one rule per line, UTF-8, comments after ``#``; at most 16,777,216 bytes and 10,000 rules.

    Returns
    -------
    list of Rule
        In the order of the file.

    Raises
    ------
    FileError
        If it cannot be read as text, or is too large.
    RuleSyntaxError
        If lines are not rules; all bad lines are reported at once.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from bridle import rules
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "my.rules")
    ...     _ = path.write_text("at most 1 segment of TITLE\\nAUTHOR before TITLE  [penalty 2.3]\\n")
    ...     print(*rules.load(path), sep="\\n")
    at most 1 segment of TITLE
    AUTHOR before TITLE  [penalty 2.3]
    """
    return [line.rule for line in load_lines(path)]


def load_lines(path: str | Path) -> list[Line]:
    """The rules of a .rules file with their line numbers and comments."""
    return load_priced(path)[0]


def load_priced(path: str | Path) -> tuple[list[Line], str | None]:
    """The same, and the fingerprint of the model that the rules were priced for; None if the file does not say."""
    text = text_of(path, "the rules file")  # read once: it may be a pipe
    found = _PRICED_FOR.search(text)
    lines = parse_lines(text.split("\n"), str(path))  # not splitlines: a label may hold other breaks such as U+2028
    return lines, None if found is None else found[1]


def text_of(path: str | Path, what: str = "this file") -> str:
    """The text of a file that people write."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise FileError(
                f"{what} is too large",
                got=f"more than {LARGEST:,} bytes",
                wanted=f"at most {LARGEST:,}",
                cause="Is it another file?",
                where=str(path),
            )
        text = data.decode("utf-8-sig")  # some editors put a byte order mark in front
        return text.replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
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
