"""The conditions on tokens of all rules of a decoder, numbered for the kernels.

A kernel knows of each distinct text of a column, as bytes that hold 32-bit numbers (`facts`):

    how many conditions hold | their numbers | the number of the text as a word of each list of the column

From the words it finds the phrases (cpp/text/phrases.h).
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from functools import cached_property
from itertools import count
from typing import TypeVar

from bridle import _native
from bridle.deadline import check_stopped
from bridle.phrases import Lookup
from bridle.rules.conditions import Condition, EndToken, Role, TokenPlace, Tokens, TokensIn, parts_of
from bridle.rules.inputs import TOKENS
from bridle.rules.patterns import Matching, matcher

_Key = TypeVar("_Key", bound=Hashable)
_ROLES: tuple[Role, ...] = ("here", "after", "before")  # in a phrase, its last token, its first


class _Column:
    """What is asked of the texts of one column."""

    def __init__(self, name: str, dependent: int) -> None:
        self.name, self.dependent = name, dependent  # a dependent that looks at it
        self.patterns: dict[Tokens, int] = {}  # the numbers of the conditions
        self.lists: dict[TokensIn, dict[Role, int]] = {}

    @cached_property
    def matching(self) -> Matching:
        return matcher(*((condition.pattern, condition.engine) for condition in self.patterns))

    @cached_property
    def lookups(self) -> list[Lookup]:
        return [condition.phrases.lookup(condition.ignoring) for condition in self.lists]

    def facts(self, text: str) -> bytes:
        check_stopped()
        numbers = tuple(self.patterns.values())
        holds = [numbers[k] for k in self.matching(text)] if numbers else ()
        return array("i", (len(holds), *holds, *(lookup.word(text) for lookup in self.lookups))).tobytes()


class NumberedConditions:
    """Conditions on tokens; one that several rules have gets one number."""

    def __init__(self) -> None:
        self._numbers = count()
        self._columns: dict[str, _Column] = {}
        self._ends: dict[str, int] = {}

    def of(self, place: TokenPlace, dependent: int) -> tuple[int, int, int]:
        """The conditions of a place: on the token itself, on the one before, on the one behind; -1: none."""
        numbers = {role: self._number(condition, role, dependent) for role, condition in parts_of(place).items()}
        return numbers["here"], numbers.get("after", -1), numbers.get("before", -1)

    def _number(self, condition: Condition, role: Role, dependent: int) -> int:
        if isinstance(condition, EndToken):
            return self._numbered(self._ends, condition.end)
        name = condition.column or TOKENS
        column = self._columns.setdefault(name, _Column(name, dependent))
        if isinstance(condition, Tokens):
            return self._numbered(column.patterns, condition)
        return self._numbered(column.lists.setdefault(condition, {}), role)

    def _numbered(self, known: dict[_Key, int], key: _Key) -> int:
        if key not in known:
            known[key] = next(self._numbers)
        return known[key]

    def hand_over(self, native: _native.CompiledRules) -> None:
        """Tell the kernels, once all places are numbered."""
        columns, lists = list(self._columns.values()), []
        for number, column in enumerate(columns):
            for roles, lookup in zip(column.lists.values(), column.lookups, strict=True):
                lists.append((number, lookup.native, *(roles.get(role, -1) for role in _ROLES)))
            if column.patterns:
                _ = column.matching  # compiled now, not at the first sequence
        ends = (self._ends.get(end, -1) for end in ("first", "last"))
        native.set_conditions([(column.name, column.dependent) for column in columns], lists, *ends)

    def column(self, number: int) -> str:
        """The name of a column."""
        return list(self._columns)[number]

    def facts(self, column: int, text: str) -> bytes:
        """What the kernels want to know of a text in a column."""
        return list(self._columns.values())[column].facts(text)
