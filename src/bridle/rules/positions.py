"""Rules about tokens and their neighbours: forbid, allow, fix, label_at; forbid_transition, well_formed,
immediately_followed_by, around, same_label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bridle.automata import LazyAutomaton
from bridle.labels import Labels
from bridle.rules.base import Mask, Membership, MembershipRule, Rule, Sets
from bridle.rules.references import LabelSpec, Names, Place, Position, RuleContext, Spans, flags, union


@dataclass(frozen=True)
class _TokenRule(MembershipRule):
    """Only some labels are allowed at some places (everywhere, if it has none); each other token is one violation."""

    forbids: ClassVar[bool] = False  # whether the labels of the rule are those that are not allowed

    def count_violations(self, context: RuleContext) -> int:
        ids = union(context.sets(self.names()[0]))
        place = next(iter(self.places()), None)
        return sum((context.ids[t] in ids) == self.forbids for t in context.positions(place))

    def read(self, state: Any, inside: Membership, mark: int) -> tuple[Any, int]:
        return state, int(inside[0] == self.forbids and (mark & 1 or not self.places()))

    def mask(self, sets: tuple[Sets, ...], labels: Labels) -> Mask | None:
        return Mask(token=flags(union(sets[0]), len(labels)) != self.forbids)


@dataclass(frozen=True)
class Forbid(_TokenRule):
    """None of these labels, at some places or anywhere."""

    text = ("forbid {labels:names} at {at:place}", "forbid {labels:names}")
    labels: Names
    at: Place | None = None
    forbids = True


@dataclass(frozen=True)
class Allow(_TokenRule):
    """Only these labels, at some places or anywhere."""

    text = ("allow {labels:names} at {at:place}", "allow {labels:names}")
    labels: Names
    at: Place | None = None


@dataclass(frozen=True)
class Fix(_TokenRule):
    """These positions carry this label."""

    text = ("fix {labels:names} at {at:place}",)
    labels: Names
    at: Place


@dataclass(frozen=True)
class LabelAt(_TokenRule):
    """These positions carry this label: the form of `fix` in formulas."""

    text = ("label at {at:place} is {label:names}",)
    at: Place
    label: Names


@dataclass(frozen=True)
class ForbidTransition(MembershipRule):
    """No `b` just after an `a`; each such pair is one violation."""

    text = ("forbid {a:names} then {b:names}",)
    a: Names
    b: Names

    def count_violations(self, context: RuleContext) -> int:
        after_a = {t + 1 for t in context.where(self.a)}
        return sum(t in after_a for t in context.where(self.b))

    def read(self, after_a: Any, inside: Membership, mark: int) -> tuple[Any, int]:
        in_a, in_b = inside
        return in_a, int(after_a and in_b)

    def mask(self, sets: tuple[Sets, ...], labels: Labels) -> Mask | None:
        labels.check_square()
        a, b = (flags(union(names), len(labels)) for names in sets)
        return Mask(step=~np.outer(a, b))


@dataclass(frozen=True)
class WellFormed(Rule):
    """The scheme's own grammar; each bad transition, bad first label and bad last label is one violation."""

    text = ("well formed",)

    def count_violations(self, context: RuleContext) -> int:
        if not context.ids:
            return 0
        step, first, last = context.labels.allowed
        bad = sum(not step[i, j] for i, j in zip(context.ids, context.ids[1:], strict=False))
        return bad + int(not first[context.ids[0]]) + int(not last[context.ids[-1]])

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        step, first, last = labels.allowed
        known: dict[tuple[bytes, bool], int] = {}  # one label stands for all that the same may follow
        kind = [known.setdefault((step[y].tobytes(), bool(last[y])), y) for y in range(len(labels))]

        def read(before: Any, y: int, _mark: int) -> tuple[Any, int]:
            return kind[y], int(not (first[y] if before is None else step[before, y]))

        def final(before: Any) -> int:
            return int(before is not None and not last[before])

        return [LazyAutomaton(None, read, final)]

    def mask(self, sets: tuple[Sets, ...], labels: Labels) -> Mask | None:
        step, first, last = labels.allowed
        return Mask(step=step, first=first, last=last)


@dataclass(frozen=True)
class ImmediatelyFollowedBy(MembershipRule):
    """Every `a` has a `b` just after it (so an `a` on the last token is a violation); each `a` without is one."""

    text = ("{a:names} next to {b:names}",)
    a: Names
    b: Names

    def count_violations(self, context: RuleContext) -> int:
        before_b = {t - 1 for t in context.where(self.b)}
        return sum(t not in before_b for t in context.where(self.a))

    def read(self, after_a: Any, inside: Membership, mark: int) -> tuple[Any, int]:
        in_a, in_b = inside
        return in_a, int(after_a and not in_b)

    def final(self, after_a: Any) -> int:
        return int(after_a)

    def mask(self, sets: tuple[Sets, ...], labels: Labels) -> Mask | None:
        labels.check_square()
        a, b = (flags(union(names), len(labels)) for names in sets)
        return Mask(step=~np.outer(a, ~b), last=~a)


@dataclass(frozen=True)
class Around(MembershipRule):
    """A delimiter at `at` has a `left` just before it and a `right` just after it.

    At the ends of the sequence, a missing neighbour is not required. Each delimiter with a wrong neighbour is one
    violation.
    """

    text = ("around {at:place} from {left:names} to {right:names}",)
    at: Place
    left: Names
    right: Names
    start = (True, False)  # is the token before a `left` (or none); does it need a `right` after it?

    def count_violations(self, context: RuleContext) -> int:
        lefts, rights = set(context.where(self.left)), set(context.where(self.right))
        last = len(context.ids) - 1
        return sum(
            (t > 0 and t - 1 not in lefts) or (t < last and t + 1 not in rights) for t in context.positions(self.at)
        )

    def read(self, state: Any, inside: Membership, mark: int) -> tuple[Any, int]:
        (left_is_fine, needs_right), (in_left, in_right), delimiter = state, inside, bool(mark & 1)
        violations = int(needs_right and not in_right) + int(delimiter and not left_is_fine)
        return (in_left, delimiter and left_is_fine), violations


@dataclass(frozen=True)
class SameLabel(Rule):
    """All tokens of a span agree: they carry one label (under BIO and similar schemes: one type).

    Each change of label inside a span is one violation.
    """

    text = ("same label over {span:spans}",)
    span: Place

    def count_violations(self, context: RuleContext) -> int:
        kinds = context.labels.kinds
        return sum(kinds[context.ids[t - 1]] != kinds[context.ids[t]] for t in context.positions(self.span))

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        kinds = labels.kinds

        def read(before: Any, y: int, mark: int) -> tuple[Any, int]:
            return kinds[y], int(before is not None and bool(mark & 1) and kinds[y] != before)

        return [LazyAutomaton(None, read, classes=np.array(kinds, dtype=np.uint16))]

    def mask(self, sets: tuple[Sets, ...], labels: Labels) -> Mask | None:
        labels.check_square()
        return Mask(tied=True)


# ---- public functions ------------------------------------------------------------------------------------------------


def forbid(labels: LabelSpec, at: Position | None = None) -> Rule:
    """Forbid labels, everywhere or at some positions.

    Parameters
    ----------
    labels : LabelSpec
        A label or segment type, a list of them, or ``given(...)``.
    at : Position, optional
        A position (negative ones count from the end), a list of positions, ``given(...)`` or ``tokens(...)``.
        None means everywhere.

    Returns
    -------
    Rule
        Each token with a forbidden label is one violation.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "DATE"])
    >>> rule = r.forbid("DATE", at=0)
    >>> rule.holds(["O", "DATE"], labels), rule.holds(["DATE", "O"], labels)
    (True, False)
    """
    return Forbid(Names.of(labels), None if at is None else Place.at(at))


def allow(labels: LabelSpec, at: Position | None = None) -> Rule:
    """Allow only these labels, everywhere or at some positions.

    Parameters
    ----------
    labels : LabelSpec
        A label or segment type, a list of them, or ``given(...)``. All other labels are forbidden.
    at : Position, optional
        A position (negative ones count from the end), a list of positions, ``given(...)`` or ``tokens(...)``.
        None means everywhere.

    Returns
    -------
    Rule
        Each token with another label is one violation.

    Examples
    --------
    The roles that a verb can have come with each sentence:

    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "A0", "A1", "A2"])
    >>> rule = r.allow(["O", r.given("frame")])
    >>> rule.holds(["A0", "O", "A1"], labels, given={"frame": ["A0", "A1"]})
    True
    >>> rule.holds(["A0", "O", "A2"], labels, given={"frame": ["A0", "A1"]})
    False
    """
    return Allow(Names.of(labels), None if at is None else Place.at(at))


def fix(labels: LabelSpec, at: Position) -> Rule:
    r"""Require a label at some positions.

    Parameters
    ----------
    labels : LabelSpec
        The label or segment type that these tokens carry. If you pass several, each token carries one of them.
    at : Position
        A position (negative ones count from the end), a list of positions, ``given(...)`` or ``tokens(...)``.

    Returns
    -------
    Rule
        Each of these tokens with another label is one violation.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> rule = r.fix("ZIP", r.tokens(r"\d{5}"))
    >>> given = {"tokens": ["Evanston", "60201"]}
    >>> rule.holds(["O", "ZIP"], Labels(["O", "ZIP"]), given)
    True
    >>> rule.holds(["O", "O"], Labels(["O", "ZIP"]), given)
    False
    """
    return Fix(Names.of(labels), Place.at(at))


def label_at(at: Position, label: LabelSpec) -> Rule:
    """State that a position carries a label: an atom for formulas.

    Alone it means the same as `fix`. In a formula it is true or false of a labelling, like `present`.

    Parameters
    ----------
    at : Position
        A position (negative ones count from the end), a list of positions, ``given(...)`` or ``tokens(...)``.
        If there are several, the statement is about all of them.
    label : LabelSpec
        A label or segment type; of several, each token carries one.

    Returns
    -------
    Rule
        Each of these tokens with another label is one violation. Combine rules with ``&``, ``|``, ``~``, ``>>`` and
        ``iff``.

    Examples
    --------
    If the last token is a DATE, there must be a TITLE:

    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "DATE", "TITLE"])
    >>> rule = r.label_at(-1, "DATE") >> r.present("TITLE")
    >>> print(rule)
    (label at -1 is DATE) implies (present TITLE)
    >>> rule.holds(["TITLE", "DATE"], labels), rule.holds(["O", "DATE"], labels)
    (True, False)
    """
    return LabelAt(Place.at(at), Names.of(label))


def forbid_transition(a: LabelSpec, b: LabelSpec) -> Rule:
    """Forbid `b` directly after `a`.

    Parameters
    ----------
    a, b : LabelSpec
        Labels or segment types of a token and of the next one: a name, a list of names, or ``given(...)``.

    Returns
    -------
    Rule
        Each such pair of tokens is one violation.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "NAME", "TITLE"])
    >>> rule = r.forbid_transition("NAME", "TITLE")
    >>> rule.holds(["NAME", "O", "TITLE"], labels), rule.holds(["NAME", "TITLE"], labels)
    (True, False)
    """
    return ForbidTransition(Names.of(a), Names.of(b))


def well_formed() -> Rule:
    """Require labels that follow the grammar of the tagging scheme.

    Under BIO, I-x follows only B-x or I-x; under BIOES and BMES every segment that begins also ends. Under IO and
    without a scheme every labelling is well formed.

    Returns
    -------
    Rule
        Each wrong transition, first label and last label is one violation.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "B-PER", "I-PER"], scheme="BIO")
    >>> r.well_formed().holds(["B-PER", "I-PER"], labels), r.well_formed().holds(["O", "I-PER"], labels)
    (True, False)
    """
    return WellFormed()


def immediately_followed_by(a: LabelSpec, b: LabelSpec) -> Rule:
    """Require a `b` directly after every token that carries `a`.

    The rule is about tokens, not segments: if two neighbouring tokens carry `a`, the first one has no `b` directly
    after it. For segments of any length pass `a` among the followers: ``immediately_followed_by("A", ["A", "B"])``.

    Parameters
    ----------
    a, b : LabelSpec
        Labels or segment types: a name, a list of names, or ``given(...)``.

    Returns
    -------
    Rule
        Each `a` without a `b` directly after it is one violation, also on the last token.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "NUMBER", "UNIT"])
    >>> rule = r.immediately_followed_by("NUMBER", "UNIT")
    >>> rule.holds(["NUMBER", "UNIT"], labels), rule.holds(["NUMBER", "NUMBER", "UNIT"], labels)
    (True, False)
    >>> r.immediately_followed_by("NUMBER", ["NUMBER", "UNIT"]).holds(["NUMBER", "NUMBER", "UNIT"], labels)
    True
    >>> print(rule)
    NUMBER next to UNIT
    """
    return ImmediatelyFollowedBy(Names.of(a), Names.of(b))


def around(at: Position, left: LabelSpec, right: LabelSpec) -> Rule:
    """Require `left` directly before and `right` directly after a delimiter.

    At the ends of the sequence, where a delimiter has only one neighbour, only that neighbour is checked.

    Parameters
    ----------
    at : Position
        The delimiters: a position, a list of positions, ``given(...)``, or most often ``tokens(...)``.
    left, right : LabelSpec
        Labels or segment types of the neighbours: a name, a list of names, or ``given(...)``.

    Returns
    -------
    Rule
        Each delimiter with a wrong neighbour is one violation.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "PLACE", "PUBLISHER"])
    >>> rule = r.around(r.tokens(":"), left="PLACE", right="PUBLISHER")
    >>> given = {"tokens": ["Berlin", ":", "Springer"]}
    >>> rule.holds(["PLACE", "O", "PUBLISHER"], labels, given)
    True
    >>> rule.holds(["PLACE", "O", "PLACE"], labels, given)
    False
    """
    return Around(Place.at(at), Names.of(left), Names.of(right))


def same_label(span: Spans) -> Rule:
    """Require the same label on all tokens of a span.

    Under BIO and similar schemes, the tokens share a segment type, or all of them are outside.

    Parameters
    ----------
    span : Spans
        A pair (start, end), end not included, as in Python slices; a list of pairs, each of which is checked
        separately; or ``given(...)``.

    Returns
    -------
    Rule
        Each change of label inside a span is one violation. A change that lies in several spans counts once.

    Examples
    --------
    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "A0", "A1"])
    >>> rule = r.same_label(r.given("phrases"))
    >>> given = {"phrases": [(0, 2), (2, 4)]}
    >>> rule.holds(["A0", "A0", "O", "O"], labels, given)
    True
    >>> rule.holds(["A0", "A1", "O", "O"], labels, given)
    False
    """
    return SameLabel(Place.spans(span))
