"""Rules about single tokens: forbid, allow, fix, label_at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bridle.automata import LazyAutomaton
from bridle.labels import Labels
from bridle.rules.base import Mask, Names, Place, Rule, RuleContext, Sets, flags, union
from bridle.rules.classes import by_sets
from bridle.rules.refer import LabelSpec, Position


@dataclass(frozen=True)
class _TokenRule(Rule):
    """Only some labels are right at some places (everywhere, if it has none); each wrong token is one violation."""

    def _wrong(self, sets: Sets, labels: Labels) -> frozenset[int]:
        return frozenset(range(len(labels))) - union(sets)

    def count_violations(self, context: RuleContext) -> int:
        wrong = self._wrong(context.sets(self.names()[0]), context.labels)
        place = next(iter(self.places()), None)
        return sum(context.ids[t] in wrong for t in context.positions(place))

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        wrong, everywhere = self._wrong(sets[0], labels), not self.places()

        def read(state: Any, y: int, mark: int) -> tuple[Any, int]:
            return state, int(y in wrong and (everywhere or mark & 1))

        return [LazyAutomaton(0, read, classes=by_sets(len(labels), wrong))]

    def mask(self, sets: tuple[Sets, ...], labels: Labels) -> Mask | None:
        return Mask(token=~flags(self._wrong(sets[0], labels), len(labels)))


@dataclass(frozen=True)
class Forbid(_TokenRule):
    """None of these labels, there or anywhere."""

    text = ("forbid {labels:names} at {at:place}", "forbid {labels:names}")
    labels: Names
    at: Place | None = None

    def _wrong(self, sets: Sets, labels: Labels) -> frozenset[int]:
        return union(sets)


@dataclass(frozen=True)
class Allow(_TokenRule):
    """Only these labels, there or anywhere."""

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
    """These positions carry this label: what formulas write for `fix`."""

    text = ("label at {at:place} is {label:names}",)
    at: Place
    label: Names


# ---- what people call -----------------------------------------------------------------------------------------------


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

    Raises
    ------
    RuleError
        If `labels` or `at` is none of these.

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

    Raises
    ------
    RuleError
        If `labels` or `at` is none of these.

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

    Raises
    ------
    RuleError
        If `labels` or `at` is none of these.

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

    Raises
    ------
    RuleError
        If `at` or `label` is none of these.

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
