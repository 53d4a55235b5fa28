"""What the linter finds, and how it names lines of one file or of several."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal, NamedTuple

from bridle.labels import Labels
from bridle.rules.base import Names, Rule, Soft
from bridle.rules.boolean import _Formula

Level = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A finding about a line of a .rules file (line 0: about the whole file)."""

    line: int
    level: Level
    code: str
    message: str
    file: str = ""  # if it is known
    suggestion: str | None = field(default=None, compare=False)  # what the line should be; "": it can be deleted


class Spot(NamedTuple):
    """The place of a rule. Spots are ordered as the rules are read."""

    order: int
    line: int
    file: str
    alone: bool  # is there no other file?

    def found(self, level: Level, code: str, message: str, suggestion: str | None = None) -> Finding:
        """A finding about this line."""
        return Finding(self.line, level, code, message, self.file, suggestion)


class Entry(NamedTuple):
    """A rule and its place."""

    rule: Rule
    spot: Spot


def core(rule: Rule) -> Rule:
    """The rule without its penalty."""
    return rule.rule if isinstance(rule, Soft) else rule


def leaves(rule: Rule) -> list[Rule]:
    """The rules that a formula is made of."""
    if isinstance(rule, Soft):
        return leaves(rule.rule)
    return [leaf for part in rule.parts for leaf in leaves(part)] if isinstance(rule, _Formula) else [rule]


def resolved(rule: Rule, labels: Labels) -> tuple[Any, ...]:
    """The label ids of each name of a rule, if `fixed`."""
    return tuple(field.resolve(labels, {}) for field in rule.names())


def fixed(rule: Rule) -> bool:
    """Does a rule name all of its labels itself?"""
    return all(isinstance(field, Names) and field.fixed for field in rule.names())


def lines_of(spots: Iterable[Spot]) -> str:
    """Lines by their numbers, in order: lines 7-9, 27; with their files if there are several."""
    told = []
    for file, some in groupby(sorted(spots), key=lambda spot: spot.file):
        group = list(some)
        numbers = _numbered([spot.line for spot in group])
        told.append(numbers if group[0].alone else f"{numbers} of {file or 'the text'}")
    return ", ".join(told)


def _numbered(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = (", ".join(map(str, run)) if len(run) < 3 else f"{run[0]}-{run[-1]}" for run in runs)
    return ("line " if len(numbers) == 1 else "lines ") + ", ".join(shown)
