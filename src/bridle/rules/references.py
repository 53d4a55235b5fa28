"""References of rules to labels and positions: by name, by number, by a value given with the sequence, by tokens.

The functions of `bridle.rules` take the aliases `LabelSpec`, `Position` and `Spans`; rules hold the same values as
`Names` and `Place`, checked and immutable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from bridle.arrays import is_integer
from bridle.errors import GivenError, RuleError, shown
from bridle.labels import Bools, Labels
from bridle.rules.conditions import Given, TokenPlace, columns_of, is_list

LabelSpec: TypeAlias = str | Given | Iterable[str | Given]
"""Labels in a rule: a label or segment type, a list of them, or ``given(...)``."""

Position: TypeAlias = int | np.integer[Any] | Iterable[int] | Given | TokenPlace
"""Positions in a rule: a number (negative ones count from the end), a list, ``given(...)``, ``tokens(...)``,
``first_token()`` or ``last_token()``."""

Spans: TypeAlias = tuple[int, int] | Iterable[tuple[int, int]] | Given
"""Spans in a rule: a pair (start, end), end not included, a list of pairs, or ``given(...)``."""


@dataclass(frozen=True, slots=True)
class Names:
    """Label names; a `Given` among them stands for a name or a list of names that comes with the sequence."""

    items: tuple[str | Given, ...]

    @classmethod
    def of(cls, value: LabelSpec | Names) -> Names:
        if isinstance(value, Names):
            return value
        items = (value,) if isinstance(value, (str, Given)) else tuple(value) if is_list(value) else ()
        if not items or not all(isinstance(x, Given) or (isinstance(x, str) and x) for x in items):
            raise RuleError(
                "invalid labels of a rule",
                got=shown(value),
                wanted="a name, a list of names or given(...)",
                cause="An empty list has no effect; remove the rule instead.",
            )
        return cls(tuple(dict.fromkeys(items)))

    @property
    def fixed(self) -> bool:
        return not any(isinstance(x, Given) for x in self.items)

    def resolve(self, labels: Labels, given: Mapping[str, Any]) -> tuple[frozenset[int], ...]:
        """Return the label ids of each name."""
        ids: dict[str, frozenset[int]] = {}
        for item in self.items:
            for name in label_names(item.of(given), item.key) if isinstance(item, Given) else (item,):
                ids[name] = labels.matching(name)
        return tuple(ids.values())


def label_names(value: Any, key: str) -> tuple[str, ...]:
    """Return the label names in a given value."""
    names = (value,) if isinstance(value, str) else tuple(value) if is_list(value) else (None,)
    if not all(isinstance(name, str) for name in names):
        raise GivenError(f"given[{key!r}] should hold labels", got=shown(value), wanted="a name or a list of names")
    return names


@dataclass(frozen=True, slots=True)
class Place:
    """Positions: numbers (negative ones from the end), `given(...)`, or conditions on tokens.

    A tied place holds spans instead: pairs (start, end), end not included, as in Python slices. Its positions are those
    of each span but the first: the ones that must agree with the position before.
    """

    source: tuple[int, ...] | tuple[tuple[int, int], ...] | Given | TokenPlace
    tied: bool = False

    @classmethod
    def at(cls, value: Position | Place) -> Place:
        if isinstance(value, Place):
            return value
        if isinstance(value, Given | TokenPlace):
            return cls(value)
        return cls(positions_in(value, "at"))

    @classmethod
    def spans(cls, value: Spans | Place) -> Place:
        if isinstance(value, Place):
            return value
        if isinstance(value, Given):
            return cls(value, tied=True)
        return cls(spans_in(value, "span"), tied=True)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of `given` that it needs."""
        return (self.source.key,) if isinstance(self.source, Given) else self.columns

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the data that it reads; "tokens" stands for the texts of the tokens."""
        return columns_of(self.source) if isinstance(self.source, TokenPlace) else ()

    def positions(self, n: int, given: Mapping[str, Any]) -> list[int]:
        """Return the positions in a sequence of n tokens."""
        source = self.source
        if isinstance(source, TokenPlace):
            return source.positions(n, given)
        value = source.of(given) if isinstance(source, Given) else source
        name = f"given[{source.key!r}]" if isinstance(source, Given) else "a rule"
        if self.tied:
            return sorted({t for a, b in spans_in(value, name) for t in range(a + 1, _span_end(b, n, name))})
        return sorted({inside(i, n, name) for i in positions_in(value, name)})


def inside(i: int, n: int, name: str) -> int:
    """Return a position counted from the start; raise `RuleError` if it is outside the sequence."""
    if not -n <= i < n:
        raise RuleError(
            f"{name} names position {i}",
            got=f"a sequence of {n} tokens",
            wanted=f"-{n} .. {n - 1}" if n else "tokens",
            cause="Positions count from 0, negative ones from the end.",
        )
    return i + n if i < 0 else i


def _span_end(end: int, n: int, name: str) -> int:
    if end > n:
        raise RuleError(
            f"{name} has a span that ends at {end}",
            got=f"a sequence of {n} tokens",
            wanted=f"an end not above {n}",
            cause="The end is not part of the span, as in Python slices.",
        )
    return end


def positions_in(value: Any, name: str) -> tuple[int, ...]:
    """Return the positions in a number or a list of numbers."""
    if is_integer(value):
        return (int(value),)
    items = tuple(value) if is_list(value) else (None,)
    if not all(is_integer(i) for i in items):
        raise RuleError(f"{name} should be positions", got=shown(value), wanted="an integer or a list of integers")
    return tuple(int(i) for i in items)


def spans_in(value: Any, name: str) -> tuple[tuple[int, int], ...]:
    """Return the spans in a pair or a list of pairs."""
    items = tuple(value) if is_list(value) else (None,)
    if len(items) == 2 and all(is_integer(i) for i in items):
        items = (items,)
    items = tuple(tuple(item) if is_list(item) else () for item in items)
    for item in items:
        if not (len(item) == 2 and all(is_integer(i) for i in item) and 0 <= item[0] <= item[1]):
            raise RuleError(
                f"{name} should be spans",
                got=shown(value),
                wanted="pairs (start, end) with 0 <= start <= end",
                cause="The end is not part of the span, as in Python slices.",
            )
    return tuple((int(a), int(b)) for a, b in items)


@dataclass(frozen=True, slots=True)
class RuleContext:
    """One labelled sequence as a rule sees it."""

    ids: tuple[int, ...]
    labels: Labels
    given: Mapping[str, Any]

    def positions(self, place: Place | None) -> list[int]:
        """Return the positions of a place; None: all."""
        return list(range(len(self.ids))) if place is None else place.positions(len(self.ids), self.given)

    def sets(self, names: Names) -> tuple[frozenset[int], ...]:
        """Return the label ids of each name."""
        return names.resolve(self.labels, self.given)

    def where(self, names: Names) -> list[int]:
        """Return the positions that carry one of the labels."""
        ids = union(self.sets(names))
        return [t for t, y in enumerate(self.ids) if y in ids]

    def begins(self, t: int) -> bool:
        """Return whether a segment begins at position t."""
        return t == 0 or self.labels.begins_at(self.ids[t - 1], self.ids[t])

    def segment_starts(self, ids: frozenset[int]) -> list[int]:
        """Return the positions where segments of some labels begin."""
        return [t for t, y in enumerate(self.ids) if y in ids and self.begins(t)]

    def segment_length(self, t: int) -> int:
        """Return the number of tokens in the segment that begins at position t."""
        end = t + 1
        while end < len(self.ids) and not self.begins(end):
            end += 1
        return end - t


def union(sets: Iterable[frozenset[int]]) -> frozenset[int]:
    """Return the ids of all sets."""
    return frozenset().union(*sets)


def flags(ids: Iterable[int], m: int) -> Bools:
    """Return (m,) flags of the labels in the set."""
    table = np.zeros(m, dtype=bool)
    table[list(ids)] = True
    return table


# ---- public functions -----------------------------------------------------------------------------------------------


def given(key: str) -> Given:
    """Refer to a value that comes with each sequence.

    You pass the value when you decode: ``decoder.decode(lattice, given={"verb": 3})``. It may be a position, a list of
    positions, a list of spans, a label or a list of labels, depending on the argument that it replaces.

    Parameters
    ----------
    key : str
        Name of the value: letters, digits and underscores.

    Returns
    -------
    Given
        A placeholder that you pass to rules in place of labels, positions or spans.

    Raises
    ------
    RuleError
        If `key` is not such a name.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> rule = r.fix("O", r.given("verb"))
    >>> print(rule)
    fix O at given verb
    >>> rule.holds(["A0", "O"], Labels(["O", "A0"]), given={"verb": 1})
    True
    """
    return Given(key)
