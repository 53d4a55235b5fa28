"""Expressions for which Python's `re` may take exponential time.

It does if some part can be repeated in two ways that read the same text, as in (a+)+ or (a|ab|b)*: n repeats can be
read in 2 ** n ways, and all of them are tried before a text is given up. In terms of places (Glushkov), one for each
character of the expression: two edges between the same places lie on a loop, or one word leads along two different
loops from a place back to itself. What only takes polynomial time, such as .*.*.*, is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from bridle.rules.patterns import Ranges, characters

_MOST = 48  # places; larger expressions are not looked at
_MANY = 8  # repeats that count as without end


class _Part(NamedTuple):
    first: frozenset[int]
    last: frozenset[int]
    empty: bool


_NOTHING = _Part(frozenset(), frozenset(), True)


class _TooLarge(Exception):  # noqa: N818
    """There are more places than we look at."""


class _Places:
    """The places of an expression, and how often each leads to each."""

    def __init__(self, pattern: str) -> None:
        self.sets: list[Ranges] = []
        self.edges: dict[tuple[int, int], int] = {}
        tree = _parser.parse(pattern)
        self.series(tree.data, tree.state.flags)

    def link(self, a: _Part, b: _Part) -> None:
        for edge in product(a.last, b.first):
            self.edges[edge] = self.edges.get(edge, 0) + 1

    def then(self, a: _Part, b: _Part) -> _Part:
        self.link(a, b)
        first = a.first | b.first if a.empty else a.first
        return _Part(first, a.last | b.last if b.empty else b.last, a.empty and b.empty)

    def series(self, nodes: Any, flags: int) -> _Part:
        part = _NOTHING
        for kind, value in nodes:
            part = self.then(part, self.node(kind, value, flags))
        return part

    def node(self, kind: Any, value: Any, flags: int) -> _Part:
        if kind in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN):
            if len(self.sets) >= _MOST:
                raise _TooLarge
            self.sets.append(characters(kind, value, flags))
            here = frozenset({len(self.sets) - 1})
            return _Part(here, here, False)
        if kind is op.SUBPATTERN:
            return self.series(value[3].data, (flags | value[1]) & ~value[2])
        if kind is op.BRANCH:
            parts = [self.series(part.data, flags) for part in value[1]]
            first = frozenset[int]().union(*(part.first for part in parts))
            last = frozenset[int]().union(*(part.last for part in parts))
            return _Part(first, last, any(part.empty for part in parts))
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT):
            low, high, inside = value
            return self.repeat(low, high, inside, flags)
        return _NOTHING  # places between characters; what is never given back, or not known

    def repeat(self, low: int, high: Any, inside: Any, flags: int) -> _Part:
        if high is op.MAXREPEAT or high >= _MANY:
            part = self.series(inside.data, flags)
            self.link(part, part)
            return part._replace(empty=part.empty or low == 0)
        whole = _NOTHING
        for k in range(high):
            part = self.series(inside.data, flags)
            whole = self.then(whole, part._replace(empty=part.empty or k >= low))
        return whole


def may_explode(pattern: str) -> bool:
    """May Python's `re` take exponential time to find that a text does not match? False if the expression is large."""
    try:
        places = _Places(pattern)
    except (_TooLarge, RecursionError, re.error):
        return False
    count = range(len(places.sets))
    after: list[list[int]] = [[] for _ in count]
    for a, b in places.edges:
        after[a].append(b)
    reach = [_reached([p], after) for p in count]
    if any(times > 1 and a in reach[b] for (a, b), times in places.edges.items()):
        return True
    meet = [[_overlap(places.sets[p], places.sets[q]) for q in count] for p in count]

    def pairs(pair: tuple[int, int], within: set[int]) -> Iterable[tuple[int, int]]:
        for p, q in product(after[pair[0]], after[pair[1]]):
            if meet[p][q] and p in within and q in within:
                yield p, q

    for s in count:
        loop = {p for p in reach[s] if s in reach[p]}  # what lies on a loop through s
        ahead: dict[tuple[int, int], list[tuple[int, int]]] = {}
        todo = [(s, s)] if loop else []
        for pair in todo:  # grows while we walk
            if pair not in ahead:
                ahead[pair] = list(pairs(pair, loop))
                todo += ahead[pair]
        back: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for pair, following in ahead.items():
            for nxt in following:
                back.setdefault(nxt, []).append(pair)
        if any(p != q for p, q in _reached([(s, s)], back)):
            return True
    return False


def _reached(start: list[Any], after: Any) -> set[Any]:
    """What one or more edges lead to."""
    found: set[Any] = set()
    todo = list(start)
    for at in todo:  # grows while we walk
        following = after.get(at, ()) if isinstance(after, dict) else after[at]
        todo += (fresh := [one for one in dict.fromkeys(following) if one not in found])
        found.update(fresh)
    return found


def _overlap(a: Ranges, b: Ranges) -> bool:
    k = 0
    b = tuple(sorted(b))
    for low, high in sorted(a):
        while k < len(b) and b[k][1] < low:
            k += 1
        if k < len(b) and b[k][0] <= high:
            return True
    return False
