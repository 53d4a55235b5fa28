"""Rules about presence and order: present, if_present, followed_by, before, first_before, starts_with, ends_with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bridle.labels import Labels
from bridle.rules.base import Mask, Membership, MembershipRule, Rule, Sets
from bridle.rules.references import LabelSpec, Names, RuleContext, flags, union


@dataclass(frozen=True)
class Present(MembershipRule):
    """The label occurs."""

    text = ("present {label:names}",)
    label: Names

    def count_violations(self, context: RuleContext) -> int:
        return int(not context.where(self.label))

    def read(self, seen: Any, inside: Membership, mark: int) -> tuple[Any, int]:
        return seen or inside[0], 0

    def final(self, seen: Any) -> int:
        return int(not seen)


@dataclass(frozen=True)
class IfPresent(MembershipRule):
    """If `a` occurs, so does `then`."""

    text = ("if {a:names} then {then:names}",)
    a: Names
    then: Names
    start = ""

    def count_violations(self, context: RuleContext) -> int:
        return int(bool(context.where(self.a)) and not context.where(self.then))

    def read(self, state: Any, inside: Membership, mark: int) -> tuple[Any, int]:
        in_a, in_then = inside
        if state == "done" or in_then:
            return "done", 0
        return ("required" if in_a else state), 0

    def final(self, state: Any) -> int:
        return int(state == "required")


@dataclass(frozen=True)
class FollowedBy(MembershipRule):
    """Every `a` has some `b` later on. It is broken as a whole: one violation."""

    text = ("{a:names} followed by {b:names}",)
    a: Names
    b: Names

    def count_violations(self, context: RuleContext) -> int:
        at_a, at_b = context.where(self.a), context.where(self.b)
        return int(bool(at_a) and (not at_b or at_b[-1] <= at_a[-1]))

    def read(self, required: Any, inside: Membership, mark: int) -> tuple[Any, int]:
        in_a, in_b = inside
        return in_a or (required and not in_b), 0

    def final(self, required: Any) -> int:
        return int(required)


@dataclass(frozen=True)
class Before(MembershipRule):
    """No `b` before an `a`; each `a` with a `b` somewhere before it is one violation."""

    text = ("{a:names} before {b:names}",)
    a: Names
    b: Names

    def count_violations(self, context: RuleContext) -> int:
        at_b = context.where(self.b)
        return sum(bool(at_b) and at_b[0] < t for t in context.where(self.a))

    def read(self, seen_b: Any, inside: Membership, mark: int) -> tuple[Any, int]:
        in_a, in_b = inside
        return seen_b or in_b, int(seen_b and in_a)


@dataclass(frozen=True)
class FirstBefore(MembershipRule):
    """If both occur, the first `a` comes before the first `b`. It is broken as a whole: one violation."""

    text = ("first {a:names} before first {b:names}",)
    a: Names
    b: Names
    start = ""

    def count_violations(self, context: RuleContext) -> int:
        at_a, at_b = context.where(self.a), context.where(self.b)
        return int(bool(at_a) and bool(at_b) and at_b[0] < at_a[0])

    def read(self, state: Any, inside: Membership, mark: int) -> tuple[Any, int]:
        in_a, in_b = inside
        if state == "decided":
            return state, 0
        if in_a:
            return "decided", int(state == "b")
        return ("b" if in_b else state), 0


@dataclass(frozen=True)
class StartsWith(MembershipRule):
    """The first label, if there is one, is `a`."""

    text = ("starts with {a:names}",)
    a: Names
    start = True

    def count_violations(self, context: RuleContext) -> int:
        return int(bool(context.ids) and 0 not in context.where(self.a))

    def read(self, is_first: Any, inside: Membership, mark: int) -> tuple[Any, int]:
        return False, int(is_first and not inside[0])

    def mask(self, sets: tuple[Sets, ...], labels: Labels) -> Mask | None:
        return Mask(first=flags(union(sets[0]), len(labels)))


@dataclass(frozen=True)
class EndsWith(MembershipRule):
    """The last label, if there is one, is `b`."""

    text = ("ends with {b:names}",)
    b: Names
    start = True

    def count_violations(self, context: RuleContext) -> int:
        return int(bool(context.ids) and len(context.ids) - 1 not in context.where(self.b))

    def read(self, holds: Any, inside: Membership, mark: int) -> tuple[Any, int]:
        return inside[0], 0

    def final(self, holds: Any) -> int:
        return int(not holds)

    def mask(self, sets: tuple[Sets, ...], labels: Labels) -> Mask | None:
        return Mask(last=flags(union(sets[0]), len(labels)))


# ---- public functions -----------------------------------------------------------------------------------------------


def present(label: LabelSpec) -> Rule:
    """Require that a label occurs.

    Parameters
    ----------
    label : LabelSpec
        A label or segment type, a list of them (one of which must occur), or ``given(...)``.

    Returns
    -------
    Rule
        A sequence without the label is one violation.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "PLACE"])
    >>> r.present("PLACE").holds(["O", "PLACE"], labels), r.present("PLACE").holds(["O", "O"], labels)
    (True, False)
    """
    return Present(Names.of(label))


def if_present(a: LabelSpec, then: LabelSpec) -> Rule:
    """If `a` occurs anywhere, require that `then` occurs, too.

    Parameters
    ----------
    a : LabelSpec
        The label or segment type that requires another one; a list of them, or ``given(...)``.
    then : LabelSpec
        The label that must occur, before or after `a`. If you pass several, one of them is enough.

    Returns
    -------
    Rule
        A sequence with `a` and without `then` is one violation.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "JOURNAL", "PAGES"])
    >>> rule = r.if_present("PAGES", then="JOURNAL")
    >>> rule.holds(["PAGES", "JOURNAL"], labels), rule.holds(["PAGES", "O"], labels)
    (True, False)
    >>> print(rule)
    if PAGES then JOURNAL
    """
    return IfPresent(Names.of(a), Names.of(then))


def followed_by(a: LabelSpec, b: LabelSpec) -> Rule:
    """Require a `b` somewhere after every `a`.

    Parameters
    ----------
    a, b : LabelSpec
        Labels or segment types: a name, a list of names, or ``given(...)``.

    Returns
    -------
    Rule
        The whole sequence has one violation if some `a` has no `b` after it.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "OPEN", "CLOSE"])
    >>> rule = r.followed_by("OPEN", "CLOSE")
    >>> rule.holds(["OPEN", "O", "CLOSE"], labels), rule.holds(["CLOSE", "OPEN"], labels)
    (True, False)
    """
    return FollowedBy(Names.of(a), Names.of(b))


def before(a: LabelSpec, b: LabelSpec) -> Rule:
    """Forbid any `b` before any `a`.

    All tokens with `a` come before all tokens with `b`. Neither has to occur; the rule is only about their order.

    Parameters
    ----------
    a, b : LabelSpec
        Labels or segment types: a name, a list of names, or ``given(...)``.

    Returns
    -------
    Rule
        Each token with `a` that has a `b` somewhere before it is one violation.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "AUTHOR", "TITLE"])
    >>> rule = r.before("AUTHOR", "TITLE")
    >>> rule.holds(["AUTHOR", "TITLE"], labels), rule.holds(["O", "TITLE"], labels)
    (True, True)
    >>> rule.holds(["AUTHOR", "TITLE", "AUTHOR"], labels)  # one AUTHOR in front is not enough: see `first_before`
    False
    """
    return Before(Names.of(a), Names.of(b))


def first_before(a: LabelSpec, b: LabelSpec) -> Rule:
    """If both occur, require that the first `a` comes before the first `b`.

    Later tokens do not matter: START END START END obeys ``first_before("START", "END")``, but not
    ``before("START", "END")``, which forbids every START after an END. Neither has to occur: a sequence with only one
    of the two obeys the rule. A token that is both `a` and `b` (lists that overlap) is not before itself, so it breaks
    nothing.

    Parameters
    ----------
    a, b : LabelSpec
        Labels or segment types: a name, a list of names, or ``given(...)``.

    Returns
    -------
    Rule
        A sequence whose first `b` comes before its first `a` is one violation.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "START", "END"])
    >>> rule = r.first_before("START", "END")
    >>> print(rule)
    first START before first END
    >>> rule.holds(["START", "END", "START", "END"], labels), rule.holds(["END", "START"], labels)
    (True, False)
    >>> rule.holds(["O", "END"], labels)
    True
    """
    return FirstBefore(Names.of(a), Names.of(b))


def starts_with(a: LabelSpec) -> Rule:
    """Require `a` on the first token.

    Parameters
    ----------
    a : LabelSpec
        A label or segment type, a list of them (one of which it must be), or ``given(...)``.

    Returns
    -------
    Rule
        A different first label is one violation. An empty sequence obeys the rule.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "AUTHOR", "EDITOR"])
    >>> rule = r.starts_with(["AUTHOR", "EDITOR"])
    >>> rule.holds(["EDITOR", "O"], labels), rule.holds(["O", "EDITOR"], labels)
    (True, False)
    """
    return StartsWith(Names.of(a))


def ends_with(b: LabelSpec) -> Rule:
    """Require `b` on the last token.

    Parameters
    ----------
    b : LabelSpec
        A label or segment type, a list of them (one of which it must be), or ``given(...)``.

    Returns
    -------
    Rule
        A different last label is one violation. An empty sequence obeys the rule.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "DATE"])
    >>> r.ends_with("DATE").holds(["O", "DATE"], labels), r.ends_with("DATE").holds(["DATE", "O"], labels)
    (True, False)
    """
    return EndsWith(Names.of(b))
