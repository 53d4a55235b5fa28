"""Quick fixes for what the linter finds, and rule sentences to choose from while typing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridle.rules.lint import Finding


@dataclass(frozen=True, slots=True)
class Fix:
    """A change to one line that removes a finding."""

    title: str  # what it does, for a button
    line: int  # from 1
    replacement: str | None  # the new line; None: delete it


@dataclass(frozen=True, slots=True)
class Completion:
    """A sentence that a rule can be written with."""

    sentence: str  # with slots: at most {k} segments of {labels}
    example: str  # a rule that can be parsed: at most 1 segment of TITLE
    summary: str  # one line


def fix_of(finding: Finding, lines: Sequence[str]) -> Fix | None:
    """The quick fix for a finding about these lines of text, if it has an obvious one."""
    raise NotImplementedError


def completions(labels: Sequence[str] = ("AUTHOR", "TITLE")) -> list[Completion]:
    """All sentences of rules, with examples about two of these labels."""
    raise NotImplementedError
