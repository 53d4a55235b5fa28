"""Regular expressions over label names, compiled to a DFA.

    expression  A0+ (O | A1)* .? {2,4}       names, '.' any label, ( | ), postfix * + ? {k} {a,b} {a,}
                [A0 A1]  one of              [^A0 A1]  any but

Names with other characters than letters, digits, _ and - are written in quotes: 'B-PER' or "two words".
Positions method (Glushkov): no empty moves, so the subset construction is short.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.automata.dfa import DFA
from bridle.deadline import check_stopped
from bridle.errors import RuleSyntaxError

_TOKEN = re.compile(
    r"""\s*(?:(?P<name>[\w-]+)|'(?P<q1>[^']*)'|"(?P<q2>[^"]*)"|(?P<rep>\{\d{1,6}(?:,\d{0,6})?\})|(?P<op>.))"""
)
MAX_STATES = 1 << 14
MAX_LINKS = 1 << 20  # pairs of places that may follow each other, (A?){k} has k * k / 2; an atom counts as 16
MAX_WORK = 1 << 23  # places that are looked at, in all states: a second or two
MAX_CELLS = 1 << 24  # of the table: states x classes of labels
MAX_DEPTH = 100  # of parentheses


class Part(NamedTuple):
    """A piece of an expression: its possible first and last places, and whether it may be empty."""

    first: frozenset[int]
    last: frozenset[int]
    empty: bool

    def then(self, other: Part) -> Part:
        """Return this part followed by another one."""
        first = self.first | other.first if self.empty else self.first
        last = self.last | other.last if other.empty else other.last
        return Part(first, last, self.empty and other.empty)

    def either(self, other: Part) -> Part:
        """Return the choice between this part and another one."""
        return Part(self.first | other.first, self.last | other.last, self.empty or other.empty)

    def optional(self) -> Part:
        """Return this part or nothing."""
        return self._replace(empty=True)


NOTHING = Part(frozenset(), frozenset(), True)


class _Parser:
    """Recursive descent; every atom becomes a numbered place with the set of labels it takes."""

    def __init__(self, text: str, find: Callable[[str], frozenset[int]], n_labels: int) -> None:
        self.text, self.find, self.everything = text, find, frozenset(range(n_labels))
        self.places: list[frozenset[int]] = []
        self.follow: dict[int, set[int]] = {}  # which places may come just after a place
        self.links = self.depth = self.work = 0
        self.tokens: list[tuple[str, str]] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            assert match is not None  # the last alternative takes any character
            kind = match.lastgroup or "op"
            self.tokens.append(("name" if kind in ("q1", "q2") else kind, match[kind]))
            at = match.end()
        self.at = 0

    def fail(self, wanted: str) -> RuleSyntaxError:
        got = repr(self.tokens[self.at][1]) if self.at < len(self.tokens) else "the end"
        return RuleSyntaxError(f"bad label expression {self.text!r}", got=got, wanted=wanted)

    def peek(self, *ops: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at] in [("op", op) for op in ops]

    def take(self, op: str) -> None:
        if not self.peek(op):
            raise self.fail(repr(op))
        self.at += 1

    def too_large(self) -> RuleSyntaxError:
        return RuleSyntaxError(
            "a label expression is too large",
            got=repr(self.text[:60]),
            wanted=f"at most {MAX_STATES} states",
            cause="Large counts such as (A?){1000}, or counts inside counts?",
        )

    def spend(self, links: int) -> None:
        check_stopped()
        self.links += links
        if self.links > MAX_LINKS:
            raise self.too_large()

    def link(self, last: frozenset[int], first: frozenset[int]) -> None:
        """Let every place of `first` follow every place of `last`."""
        self.spend(len(last) * len(first))
        for p in last:
            self.follow.setdefault(p, set()).update(first)

    def cat(self, a: Part, b: Part) -> Part:
        self.link(a.last, b.first)
        return a.then(b)

    def plus(self, a: Part) -> Part:
        self.link(a.last, a.first)
        return a

    def expression(self) -> Part:
        part = self.choice()
        if self.at < len(self.tokens):
            raise self.fail("a label name, '.', '(' or '['")
        return part

    def choice(self) -> Part:
        part = self.series()
        while self.peek("|"):
            self.at += 1
            part = part.either(self.series())
        return part

    def series(self) -> Part:
        part = NOTHING
        while self.at < len(self.tokens) and not self.peek("|", ")"):
            part = self.cat(part, self.repeated())
        return part

    def repeated(self) -> Part:
        begin = self.at
        part = self.atom()
        after_atom = self.at
        while self.at < len(self.tokens):
            kind, text = self.tokens[self.at]
            if (kind, text) == ("op", "*"):
                part = self.plus(part).optional()
            elif (kind, text) == ("op", "+"):
                part = self.plus(part)
            elif (kind, text) == ("op", "?"):
                part = part.optional()
            elif kind == "rep" and self.at == after_atom:
                return self.counted(part, begin, text)
            elif kind == "rep":
                raise self.fail("parentheses around the counted part")
            else:
                break
            self.at += 1
        return part

    def counted(self, part: Part, begin: int, text: str) -> Part:
        """Parse x{a,b}: the piece is parsed again for every copy, since each copy needs separate places."""
        low_text, comma, high_text = text[1:-1].partition(",")
        low = int(low_text)
        high = int(high_text) if high_text else (None if comma else low)
        stop = self.at
        if max(low, high or 0) * max(1, stop - begin) > MAX_STATES or (high is not None and high < low):
            raise self.fail("a smaller count, with the first number not above the second")
        copies = [part]
        for _ in range(max(low, high if high is not None else low + 1, 1) - 1):
            self.at = begin
            copies.append(self.atom())
        self.at = stop + 1
        result = NOTHING
        for k, copy in enumerate(copies):
            if high is None and k == len(copies) - 1:
                copy = self.plus(copy).optional()
            elif k >= low:
                copy = copy.optional()
            result = self.cat(result, copy)
        return result if high != 0 else NOTHING

    def atom(self) -> Part:
        self.spend(16)
        if self.peek("("):
            self.at += 1
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise self.fail(f"at most {MAX_DEPTH} parentheses inside each other")
            part = self.choice()
            self.take(")")
            self.depth -= 1
            return part
        if self.peek("["):
            self.at += 1
            negated = self.peek("^")
            self.at += negated
            members: frozenset[int] = frozenset()
            while not self.peek("]"):
                members |= self.name()
            self.at += 1
            return self.place(self.everything - members if negated else members)
        if self.peek("."):
            self.at += 1
            return self.place(self.everything)
        return self.place(self.name())

    def name(self) -> frozenset[int]:
        if self.at >= len(self.tokens) or self.tokens[self.at][0] != "name":
            raise self.fail("a label name, '.', '(' or '['")
        self.at += 1
        return self.find(self.tokens[self.at - 1][1])

    def place(self, labels: frozenset[int]) -> Part:
        if len(self.places) >= MAX_STATES:
            raise self.too_large()
        self.places.append(labels)
        here = frozenset({len(self.places) - 1})
        return Part(here, here, False)


def check_regex(text: str) -> None:
    """Raise `RuleSyntaxError` if the text is not an expression, whatever the labels are."""
    _Parser(text, lambda _name: frozenset(), 0).expression()


def from_regex(text: str, find: Callable[[str], frozenset[int]], n_labels: int) -> DFA:
    """Compile an expression; `find` returns the label ids of a name."""
    dfa, class_of = compile_regex(text, find, n_labels)
    return DFA(dfa.step[:, class_of], dfa.accepting)


def compile_regex(
    text: str, find: Callable[[str], frozenset[int]], n_labels: int
) -> tuple[DFA, npt.NDArray[np.uint16]]:
    """Compile an expression over classes of labels; return the classes (m,) too: one for labels used alike."""
    parser = _Parser(text, find, n_labels)
    part = parser.expression()
    class_of = np.zeros(n_labels, dtype=np.int64)
    distinct = list(dict.fromkeys(parser.places))
    for first in range(0, len(distinct), 32):  # a class so far, and 32 bits that split it
        class_of <<= 32
        for k, place in enumerate(distinct[first : first + 32]):
            class_of[list(place)] |= 1 << k
        class_of = np.unique(class_of, return_inverse=True)[1].reshape(-1)
    one_of_each = np.unique(class_of, return_index=True)[1].tolist()
    rows, accepting = _determinised(parser, part, one_of_each)
    return DFA(np.array(rows, dtype=np.int64), np.array(accepting)).minimal(), class_of.astype(np.uint16)


def _determinised(parser: _Parser, part: Part, labels: list[int]) -> tuple[list[list[int]], list[bool]]:
    """Apply the subset construction; return the successors of each state, and whether it accepts.

    Sets of places are bits of an integer; bit 0 stands for the start.
    """

    def bits(places: Iterable[int]) -> int:
        check_stopped()
        return sum(2 << p for p in set(places))

    after = [bits(part.first), *(bits(parser.follow.get(p, ())) for p in range(len(parser.places)))]
    takes = [bits(p for p, place in enumerate(parser.places) if y in place) for y in labels]
    last = bits(part.last) | part.empty
    cost = 1 + len(parser.places) // 512  # of one operation on a set
    ids, todo, rows = {1: 0}, [1], []
    for state in todo:  # grows while we walk
        check_stopped()
        reach, left = 0, state
        while left:
            reach |= after[(left & -left).bit_length() - 1]
            left &= left - 1
        row = []
        for nxt in (reach & taken for taken in takes):
            if nxt not in ids:
                ids[nxt] = len(todo)
                todo.append(nxt)
            row.append(ids[nxt])
        rows.append(row)
        parser.work += state.bit_count() * cost
        if len(todo) > MAX_STATES or parser.work > MAX_WORK or len(todo) * len(labels) > MAX_CELLS:
            raise parser.too_large()
    return rows, [state & last != 0 for state in todo]
