"""Rules that name unknown labels: report them with the nearest label, or leave them out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from bridle.automata import from_regex
from bridle.labels import Labels
from bridle.rules.base import Names, Rule, Soft
from bridle.rules.boolean import Matches
from bridle.rules.counts import AtMost, Length, NoDuplicates
from bridle.rules.files import Line
from bridle.rules.findings import leaves
from bridle.rules.neighbours import ForbidTransition
from bridle.rules.order import Before, FirstBefore
from bridle.rules.positions import Forbid

# Rules that only forbid: a label that cannot occur in them can be left out of a list without asking for anything else.
_FORBIDDING = (NoDuplicates, AtMost, Length, Forbid, ForbidTransition, Before, FirstBefore)


class Unknown(NamedTuple):
    """A name that is not a label."""

    line: Line
    name: str
    message: str
    near: str | None  # the label that was perhaps meant


def unknown_labels(lines: Iterable[Line], labels: Labels) -> list[Unknown]:
    """Names that are not labels, with the nearest label."""
    known = [*labels.names, *sorted(labels.types - set(labels.names))]
    there = frozenset(known)
    asked = ((line, name) for line in lines for name in _names_of(line.rule) if name not in there)
    return [Unknown(line, name, *unknown_name(name, known)) for line, name in asked]


def unknown_name(name: str, known: Sequence[str]) -> tuple[str, str | None]:
    """What to say of a name that is not a label, and the label that was perhaps meant."""
    near = difflib.get_close_matches(name, known, n=1) or [x for x in known if x.lower() == name.lower()]
    hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known[:12])}"
    return f"unknown label {name!r}{hint}", near[0] if near else None


def _names_of(rule: Rule) -> dict[str, None]:
    asked: dict[str, None] = {}
    for leaf in leaves(rule):
        if isinstance(leaf, Matches):
            asked.update(dict.fromkeys(_names_in(leaf.pattern)))
        asked.update((x, None) for field in leaf.names() for x in field.items if isinstance(x, str))
    return asked


def _names_in(pattern: str) -> list[str]:
    """The label names in a label expression."""
    asked: list[str] = []

    def find(name: str) -> frozenset[int]:
        asked.append(name)
        return frozenset()

    from_regex(pattern, find, 1)
    return asked


def without_unknown(lines: Iterable[Line], labels: Labels) -> tuple[list[Line], list[tuple[Line, str]]]:
    """Lines that name known labels only, and what was left out of each of the others.

    A rule that only forbids something loses the unknown names of its lists, and keeps its meaning, because an unknown
    label cannot occur. Every other rule is left out as a whole: `present X` could not hold at all, and
    `A next to A, X` would require more than it says.
    """
    kept, told = [], []
    for line in lines:
        unknown = unknown_labels([line], labels)
        if not unknown:
            kept.append(line)
            continue
        fewer = _without({one.name for one in unknown}, line.rule)
        why = "; ".join(one.message for one in unknown)
        if fewer is None:
            told.append((line, f"{why}; the rule is left out: {line.rule}"))
        else:
            kept.append(replace(line, rule=fewer))
            told.append((line, f"{why}; the rule is read as: {fewer}"))
    return kept, told


def _without(names: set[str], rule: Rule) -> Rule | None:
    """The rule without some names; None if that would be another rule."""
    if isinstance(rule, Soft):
        inner = _without(names, rule.rule)
        return None if inner is None else replace(rule, rule=inner)
    if not isinstance(rule, _FORBIDDING):
        return None
    fewer: dict[str, Any] = {}
    for field, value in vars(rule).items():
        if isinstance(value, Names):
            items = tuple(x for x in value.items if x not in names)
            if not items:
                return None
            fewer[field] = Names(items)
    return replace(rule, **fewer)
