"""Rules that count segments or tokens: at_most, at_least, exactly, no_duplicates, length.

m labels (y)    C classes (c) of labels that a count does not distinguish
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from bridle.arrays import is_integer
from bridle.automata import Classes, Count, LazyAutomaton
from bridle.errors import RuleError
from bridle.labels import Bools, Labels
from bridle.rules.base import Mask, Rule, Sets
from bridle.rules.references import LabelSpec, Names, RuleContext, flags, union

Unit = Literal["segments", "tokens"]
Sense = Literal["<=", ">="]
_MOST_CLASSES = 4096  # the tables of a count have C x C cells


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Segments of some labels, over classes of labels."""

    inside: Bools  # (C,)  is the class among these labels?
    begins: Bools  # (C + 1, C)  does a segment begin at class j just after class i? The last row: at the start


def by_segments(ids: frozenset[int], labels: Labels) -> tuple[Classes, Segments]:
    """Return classes (m,) of labels for segments of some labels, and these segments.

    A class has the labels with the same membership and type that always begin or end a segment. Labels of other types
    are one class: next to any of these labels, a segment begins.
    """
    classes = np.zeros(len(labels), dtype=np.uint16)
    kinds = {kind: k for k, kind in enumerate(dict.fromkeys(labels.kinds[y] for y in sorted(ids)))}
    members = [y for kind in kinds for y in labels.by_kind[kind]]
    others = len(members) < len(labels)
    number: dict[tuple[int, bool, bool, bool], int] = {}
    for y in members:
        features = (kinds[labels.kinds[y]], y in ids, labels.first[y], labels.last[y])
        classes[y] = number.setdefault(features, len(number) + others)
    if len(number) > _MOST_CLASSES:
        raise RuleError(
            "a rule counts segments of too many labels together",
            got=f"{len(number):,} kinds of labels",
            wanted=f"at most {_MOST_CLASSES:,}",
            cause="Count tokens, or split the rule.",
        )
    return classes, _segments(tuple(number), others)


def by_tokens(ids: frozenset[int], labels: Labels) -> tuple[Classes, Segments]:
    """Return the same as `by_segments`, where every token of these labels counts as a segment."""
    classes = np.zeros(len(labels), dtype=np.uint16)
    others = len(ids) < len(labels)
    classes[list(ids)] = others
    return classes, _segments(((0, True, True, True),) if ids else (), others)


@lru_cache(maxsize=32)
def _segments(kinds: tuple[tuple[int, bool, bool, bool], ...], others: bool) -> Segments:
    rows = [(-1, False, False, False)] * others + list(kinds) + [(-2, False, False, True)]  # and the start
    kind, inside, first, last = np.array(rows, dtype=np.int64).T
    begins = (kind[:, None] != kind) | (first > 0) | (last > 0)[:, None]
    return Segments(inside[:-1] > 0, begins[:, :-1])


@lru_cache(maxsize=64)
def _edges(segments: Segments, limit: int, sense: Sense) -> tuple[Count, list[int], list[list[bool]]]:
    """Return the count; the kind of each class (after one kind the same edges count); the edges after each kind."""
    edges = segments.begins & segments.inside
    kinds: dict[bytes, int] = {}
    kind = [kinds.setdefault(counted.tobytes(), len(kinds)) for counted in edges]
    after = [edges[kind.index(k)].tolist() for k in range(len(kinds))]
    return Count(edges, limit, sense), kind, after


def _counting(ids: frozenset[int], unit: Unit, labels: Labels, limit: int, sense: Sense) -> LazyAutomaton:
    """Count segments or tokens of some labels up to the limit. States: (count so far, kind of the class before)."""
    classes, segments = (by_segments if unit == "segments" else by_tokens)(ids, labels)
    count, kind, after = _edges(segments, limit, sense)
    most = sense == "<="

    def read(state: Any, y: int, _mark: int) -> tuple[Any, int]:
        seen, before = state
        hit = after[before][classes[y]]
        over = hit and seen == limit
        return (seen + (hit and not over), kind[classes[y]]), int(most and over)

    return LazyAutomaton((0, kind[-1]), read, lambda s: 0 if most else limit - s[0], classes, count)  # type: ignore[index]


@dataclass(frozen=True)
class _Count(Rule):
    """Compares the number of segments (or tokens) of some labels with `k`."""

    k: int
    of: Names
    count: Unit = "segments"

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", _natural("k", self.k))
        if self.count not in ("segments", "tokens"):
            raise RuleError("unknown unit of a count", got=repr(self.count), wanted="'segments' or 'tokens'")

    def _number(self, context: RuleContext) -> int:
        ids = union(context.sets(self.of))
        return len(context.segment_starts(ids)) if self.count == "segments" else sum(y in ids for y in context.ids)


@dataclass(frozen=True)
class AtMost(_Count):
    """No more than k; each one too many is a violation."""

    text = ("at most {k:int} {count:unit} of {of:names}",)

    def count_violations(self, context: RuleContext) -> int:
        return max(0, self._number(context) - self.k)

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        return [_counting(union(sets[0]), self.count, labels, self.k, "<=")]

    def mask(self, sets: tuple[Sets, ...], labels: Labels) -> Mask | None:
        return Mask(token=~flags(union(sets[0]), len(labels))) if self.k == 0 and self.count == "tokens" else None


@dataclass(frozen=True)
class AtLeast(_Count):
    """No fewer than k; each one that is missing is a violation."""

    text = ("at least {k:int} {count:unit} of {of:names}",)

    def count_violations(self, context: RuleContext) -> int:
        return max(0, self.k - self._number(context))

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        return [_counting(union(sets[0]), self.count, labels, self.k, ">=")]


@dataclass(frozen=True)
class Exactly(_Count):
    """Exactly k; each one too many or too few is a violation."""

    text = ("exactly {k:int} {count:unit} of {of:names}",)

    def count_violations(self, context: RuleContext) -> int:
        return abs(self._number(context) - self.k)

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        ids = union(sets[0])
        return [_counting(ids, self.count, labels, self.k, "<="), _counting(ids, self.count, labels, self.k, ">=")]


@dataclass(frozen=True)
class NoDuplicates(Rule):
    """At most one segment of each name; each further segment is a violation."""

    text = ("no duplicates of {of:names}",)
    of: Names

    def count_violations(self, context: RuleContext) -> int:
        return sum(max(0, len(context.segment_starts(ids)) - 1) for ids in context.sets(self.of))

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        if len(sets[0]) * len(labels) > labels.most_square**2:
            raise RuleError(
                "no_duplicates() has too many names",
                got=f"{len(sets[0]):,} names over {len(labels):,} labels",
                wanted=f"names x labels at most {labels.most_square:,} x {labels.most_square:,}",
                cause="Each name needs an automaton.",
            )
        return [_counting(ids, "segments", labels, 1, "<=") for ids in sets[0]]


@dataclass(frozen=True)
class Length(Rule):
    """Each segment of some labels has at least / at most so many tokens; each segment that has not is a violation."""

    text = (
        "length of {of:names} at least {at_least:int} at most {at_most:int}",
        "length of {of:names} at least {at_least:int}",
        "length of {of:names} at most {at_most:int}",
    )
    of: Names
    at_least: int | None = None
    at_most: int | None = None

    def __post_init__(self) -> None:
        if self.at_least is None and self.at_most is None:
            raise RuleError("length() needs a limit", got="neither limit", wanted="at_least=, at_most= or both")
        for name in ("at_least", "at_most"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, _natural(name, value, least=1))

    def _fits(self, size: int) -> bool:
        return (self.at_least or 0) <= size and (self.at_most is None or size <= self.at_most)

    def count_violations(self, context: RuleContext) -> int:
        starts = context.segment_starts(union(context.sets(self.of)))
        return sum(not self._fits(context.segment_length(t)) for t in starts)

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        classes, segments = by_segments(union(sets[0]), labels)
        inside, begins = segments.inside.tolist(), segments.begins.tolist()
        low, high = self.at_least or 0, self.at_most
        cap = max(low, (high or 0) + 1)

        def closed(size: int) -> int:
            return int(0 < size < low and (high is None or size <= high))  # above high: counted when it got there

        def read(state: Any, y: int, _mark: int) -> tuple[Any, int]:
            size, before = state  # size of the open segment (0: none that matters), the class before
            violations, here = 0, int(classes[y])
            if begins[before][here]:
                violations, size = closed(size), int(inside[here])
            elif size:
                size = min(size + 1, cap)
                violations = int(high is not None and size == high + 1 and state[0] == high)
            return (size, here), violations

        return [LazyAutomaton((0, len(inside)), read, lambda s: closed(s[0]), classes)]  # type: ignore[index]


# ---- public functions -----------------------------------------------------------------------------------------------


def at_most(k: int, of: LabelSpec, count: Unit = "segments") -> Rule:
    """Allow at most `k` segments (or tokens) of some labels.

    Parameters
    ----------
    k : int
        The largest number, 0 or more.
    of : LabelSpec
        A label or segment type, a list of them, or ``given(...)``. Several are counted together: `k` limits their
        total. To limit each of them separately, see `no_duplicates`.
    count : {"segments", "tokens"}, default "segments"
        What is counted. The tagging scheme defines segments: under IO, and without a scheme, neighbouring tokens
        with the same label are one segment, so a run of three A0 tokens counts once.

    Returns
    -------
    Rule
        Each segment (or token) beyond `k` is one violation.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "A0"], scheme="IO")
    >>> r.at_most(1, of="A0").holds(["A0", "A0", "O"], labels)  # two tokens, one segment
    True
    >>> r.at_most(1, of="A0").holds(["A0", "O", "A0"], labels)
    False
    >>> r.at_most(1, of="A0", count="tokens").holds(["A0", "A0", "O"], labels)
    False
    """
    return AtMost(k, Names.of(of), count)


def at_least(k: int, of: LabelSpec, count: Unit = "segments") -> Rule:
    """Require at least `k` segments (or tokens) of some labels.

    Parameters
    ----------
    k : int
        The smallest number, 0 or more.
    of : LabelSpec
        A label or segment type, a list of them, or ``given(...)``. Several are counted together.
    count : {"segments", "tokens"}, default "segments"
        What is counted, as in `at_most`.

    Returns
    -------
    Rule
        Each segment (or token) that is missing is one violation.

    Examples
    --------
    One of either is enough:

    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "AUTHOR", "EDITOR"])
    >>> rule = r.at_least(1, of=["AUTHOR", "EDITOR"])
    >>> rule.holds(["EDITOR", "O"], labels), rule.holds(["O", "O"], labels)
    (True, False)
    """
    return AtLeast(k, Names.of(of), count)


def exactly(k: int, of: LabelSpec, count: Unit = "segments") -> Rule:
    """Require exactly `k` segments (or tokens) of some labels.

    Parameters
    ----------
    k : int
        The number, 0 or more.
    of : LabelSpec
        A label or segment type, a list of them, or ``given(...)``. Several are counted together.
    count : {"segments", "tokens"}, default "segments"
        What is counted, as in `at_most`.

    Returns
    -------
    Rule
        Each segment (or token) too many or too few is one violation.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "B-TOTAL", "I-TOTAL"], scheme="BIO")
    >>> rule = r.exactly(1, of="TOTAL")
    >>> rule.holds(["B-TOTAL", "I-TOTAL"], labels), rule.holds(["B-TOTAL", "B-TOTAL"], labels)
    (True, False)
    """
    return Exactly(k, Names.of(of), count)


def no_duplicates(of: LabelSpec) -> Rule:
    """Allow at most one segment of each label.

    Parameters
    ----------
    of : LabelSpec
        A label or segment type, a list of them, or ``given(...)``. Each is counted separately.

    Returns
    -------
    Rule
        Each further segment of a label is one violation.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "A0", "A1"], scheme="IO")
    >>> rule = r.no_duplicates(of=["A0", "A1"])
    >>> rule.holds(["A0", "O", "A1"], labels), rule.holds(["A0", "O", "A0"], labels)
    (True, False)
    """
    return NoDuplicates(Names.of(of))


def length(of: LabelSpec, *, at_least: int | None = None, at_most: int | None = None) -> Rule:
    """Limit the number of tokens in each segment of some labels.

    Parameters
    ----------
    of : LabelSpec
        A label or segment type, a list of them, or ``given(...)``.
    at_least, at_most : int, optional
        The smallest and the largest number of tokens, 1 or more. Pass one of them or both.

    Returns
    -------
    Rule
        Each segment that is too short or too long is one violation.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "PHONE"], scheme="IO")
    >>> rule = r.length("PHONE", at_least=2, at_most=4)
    >>> rule.holds(["O", "PHONE", "PHONE"], labels), rule.holds(["O", "PHONE", "O"], labels)
    (True, False)
    >>> print(rule)
    length of PHONE at least 2 at most 4
    """
    return Length(Names.of(of), at_least, at_most)


def _natural(name: str, value: object, least: int = 0) -> int:
    if not is_integer(value, least):
        raise RuleError(f"invalid value of `{name}`", got=repr(value), wanted=f"an integer >= {least}")
    return int(value)
