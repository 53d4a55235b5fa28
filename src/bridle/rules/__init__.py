"""Rules: what must hold of a labelling. Declare, combine, check, print and parse them; engines find labellings.

    from bridle import rules as r
    r.at_most(1, of="TITLE")                      # at most 1 segment of TITLE
    r.before("AUTHOR", "TITLE").soft(2.3)         # AUTHOR before TITLE  [penalty 2.3]
    r.present("A0") >> r.label_at(r.given("verb"), "O")

A name is a label or, under BIO and the like, a segment type. `at` is a position (negative ones from the end), a list of
positions, `given("key")` or `tokens(regex)`.
"""

from __future__ import annotations

from typing import Any

from bridle.rules.base import Rule, Soft
from bridle.rules.boolean import Matches
from bridle.rules.counts import AtLeast, AtMost, Exactly, Length, NoDuplicates, Unit
from bridle.rules.files import load, parse_lines
from bridle.rules.neighbours import Around, ForbidTransition, ImmediatelyFollowedBy, SameLabel, WellFormed
from bridle.rules.order import Before, EndsWith, FollowedBy, IfPresent, Present, StartsWith
from bridle.rules.positions import Allow, Fix, Forbid, LabelAt
from bridle.rules.refer import Given, Names, Place, Tokens
from bridle.rules.text import parse

__all__ = [
    "Rule",
    "Soft",
    "allow",
    "around",
    "at_least",
    "at_most",
    "before",
    "ends_with",
    "exactly",
    "fix",
    "followed_by",
    "forbid",
    "forbid_transition",
    "given",
    "if_present",
    "immediately_followed_by",
    "label_at",
    "length",
    "load",
    "matches",
    "no_duplicates",
    "parse",
    "parse_lines",
    "present",
    "same_label",
    "starts_with",
    "tokens",
    "well_formed",
]  # fmt: skip


def given(key: str) -> Given:
    """Stands for a value that comes with the sequence: a position, spans, labels."""
    return Given(key)


def tokens(pattern: str) -> Tokens:
    """All positions whose token text (`given["tokens"]`) matches the whole of a regular expression."""
    return Tokens(pattern)


def forbid(labels: Any, at: Any = None) -> Rule:
    """These labels do not occur (at these positions)."""
    return Forbid(Names.of(labels), None if at is None else Place.at(at))


def allow(labels: Any, at: Any = None) -> Rule:
    """Only these labels occur at these positions (at=None: everywhere)."""
    return Allow(Names.of(labels), None if at is None else Place.at(at))


def fix(labels: Any, at: Any) -> Rule:
    """These positions carry this label."""
    return Fix(Names.of(labels), Place.at(at))


def label_at(i: Any, y: Any) -> Rule:
    """Position i carries label y: an atom for Boolean formulas."""
    return LabelAt(Place.at(i), Names.of(y))


def forbid_transition(a: Any, b: Any) -> Rule:
    """No b just after an a."""
    return ForbidTransition(Names.of(a), Names.of(b))


def well_formed() -> Rule:
    """The tagging scheme's own grammar."""
    return WellFormed()


def at_most(k: int, of: Any, count: Unit = "segments") -> Rule:
    """No more than k segments (or tokens) of these labels, all together."""
    return AtMost(k, Names.of(of), count)


def at_least(k: int, of: Any, count: Unit = "segments") -> Rule:
    """No fewer than k segments (or tokens) of these labels, all together."""
    return AtLeast(k, Names.of(of), count)


def exactly(k: int, of: Any, count: Unit = "segments") -> Rule:
    """Just k segments (or tokens) of these labels, all together."""
    return Exactly(k, Names.of(of), count)


def no_duplicates(of: Any) -> Rule:
    """At most one segment of each of these labels by itself."""
    return NoDuplicates(Names.of(of))


def length(of: Any, *, at_least: int | None = None, at_most: int | None = None) -> Rule:
    """Each segment of these labels has so many tokens."""
    return Length(Names.of(of), at_least, at_most)


def present(y: Any) -> Rule:
    """The label occurs."""
    return Present(Names.of(y))


def if_present(a: Any, then: Any) -> Rule:
    """If a occurs, so does `then`."""
    return IfPresent(Names.of(a), Names.of(then))


def same_label(span: Any) -> Rule:
    """All tokens of a span (start, end), end not included, carry one label; a list of spans, or given(...)."""
    return SameLabel(Place.spans(span))


def immediately_followed_by(a: Any, b: Any) -> Rule:
    """Every a has a b just after it."""
    return ImmediatelyFollowedBy(Names.of(a), Names.of(b))


def followed_by(a: Any, b: Any) -> Rule:
    """Every a has some b later on."""
    return FollowedBy(Names.of(a), Names.of(b))


def around(at: Any, left: Any, right: Any) -> Rule:
    """A delimiter at these positions has a `left` just before it and a `right` just after it."""
    return Around(Place.at(at), Names.of(left), Names.of(right))


def starts_with(a: Any) -> Rule:
    """The first label is a."""
    return StartsWith(Names.of(a))


def ends_with(b: Any) -> Rule:
    """The last label is b."""
    return EndsWith(Names.of(b))


def before(a: Any, b: Any) -> Rule:
    """No b before an a."""
    return Before(Names.of(a), Names.of(b))


def matches(pattern: str) -> Rule:
    """The label sequence matches an expression over label names: "O* A0+ (O|A1)*"."""
    return Matches(pattern)
