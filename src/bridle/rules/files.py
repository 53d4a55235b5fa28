"""Rules from where people keep them: lists of rules and sentences, lines of text, files (which loading.py reads)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bridle.errors import FileError, RuleError, shown
from bridle.rules.base import Rule
from bridle.rules.text import parse

LARGEST = 1 << 24  # bytes of a file that people write


def as_rules(rules: Iterable[Rule | str]) -> tuple[Rule, ...]:
    """Rules as they are; sentences become rules."""
    if isinstance(rules, (str, os.PathLike, Rule)) or not isinstance(rules, Iterable):
        file = isinstance(rules, os.PathLike) or str(rules).endswith(".rules")
        cause = f"A file? Pass bridle.rules.load({str(rules)!r})." if file else "One rule? Pass [rule]."
        raise RuleError("`rules` must be a list", got=shown(rules), wanted="a list of rules", cause=cause)
    found = tuple(parse(rule) if isinstance(rule, str) else rule for rule in rules)
    for rule in found:
        if not isinstance(rule, Rule):
            raise RuleError("not a rule", got=repr(rule), wanted="a rule, such as rules.at_most(1, of='A0')")
    return found


@dataclass(frozen=True, slots=True)
class Line:
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

    @property
    def where(self) -> str:
        """The place, as in ``my.rules:3``."""
        return f"line {self.number}" if self.file is None else f"{self.file}:{self.number}"


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
                cause="Is it the right file?",
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
