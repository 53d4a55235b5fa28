"""Rules as a server has them: its own, from files, and those that requests bring along as text.

Text from a request reads no file, and its regular expressions are RE2's, which take linear time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bridle.errors import RuleError
from bridle.labels import Labels
from bridle.recent import RecentCache
from bridle.rules.base import Rule
from bridle.rules.conditions import TokenPlace, Tokens, parts_of
from bridle.rules.equal import EqualPlace
from bridle.rules.files import Line
from bridle.rules.findings import leaves
from bridle.rules.loading import Loaded, read_files, read_lines
from bridle.rules.unknown import unknown_labels
from bridle.serve.limits import Limits
from bridle.serve.problems import HttpError, too_large

NONE = "none"  # the rule set without rules
_MOST_TEXTS, _MOST_BYTES = 256, 1 << 24  # texts of requests that are remembered


@dataclass(frozen=True, eq=False)
class RuleText:
    """Rules and the text that they come from. Two are the same only if they are one object: caches rely on it."""

    text: str
    loaded: Loaded
    own: bool = False  # does the server itself bring it along, so that it is to be trusted?

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, in the order of their lines."""
        return tuple(line.rule for line in self.loaded.lines)

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """The rules as text."""
        return tuple(map(str, self.rules))

    @cached_property
    def lines(self) -> tuple[int, ...]:
        """The line of each rule."""
        return tuple(line.number for line in self.loaded.lines)

    @cached_property
    def places(self) -> dict[int, int]:
        """Which of the rules an object is: results of the library hold the same objects."""
        return {id(rule): k for k, rule in enumerate(self.rules)}

    def line_of(self, rule: object) -> int | None:
        """The line of a rule that the library returned."""
        k = self.places.get(id(rule))
        return None if k is None else self.lines[k]


class RuleBook:
    """The rule sets of a server by name, and texts of requests that were read last."""

    def __init__(self, labels: Labels, limits: Limits, sets: dict[str, RuleText], default: RuleText) -> None:
        self.labels, self.limits, self.default = labels, limits, default
        self.sets = {**sets, NONE: RuleText("", Loaded(), own=True)}
        self._recent = RecentCache(_MOST_TEXTS, _MOST_BYTES)

    def own(self, rules: object, rule_set: str | None) -> RuleText | None:
        """The rules that a request asks for, if the server has them; None if the request brings its own."""
        if rules is not None and rule_set is not None:
            got, wanted = "both", "`rules` or `rule_set`"
            raise HttpError(422, "rules", "`rules` and `rule_set` cannot be combined", got=got, wanted=wanted)
        if rule_set is not None:
            if rule_set not in self.sets:
                wanted = "one of " + ", ".join(map(repr, sorted(self.sets)))
                raise HttpError(404, "unknown-rule-set", "unknown rule set", got=repr(rule_set), wanted=wanted)
            return self.sets[rule_set]
        return self.default if rules is None or rules == self.default.text else None

    def read(self, rules: str | Sequence[str] | None, rule_set: str | None = None) -> RuleText:
        """The rules that a request asks for, checked against the labels of the model."""
        return self.own(rules, rule_set) or self.for_labels(rules or "", self.labels)

    def for_labels(self, rules: str | Sequence[str], labels: Labels) -> RuleText:
        """Rules from the text of a request, for any labels."""
        text = rules if isinstance(rules, str) else "\n".join(rules)
        key = (rules if isinstance(rules, str) else tuple(rules), labels)
        found: RuleText | None = self._recent.get(key)
        if found is None:
            self.limits.check_rule_characters(len(text))
            lines = lines_of(text) if isinstance(rules, str) else _sentences(rules)
            found = RuleText(text, self.checked(lines, labels))
            self._recent.keep(key, found, 1000 + 10 * len(text) + (0 if labels is self.labels else label_bytes(labels)))
        return found

    def loaded(self, text: str) -> Loaded:
        """The lines of a text, with what is wrong in them."""
        lines = lines_of(text)
        self.limits.check_rule_characters(len(text))
        self.limits.check_rules(lines)
        return read_lines(lines)

    def checked(self, lines: Sequence[str], labels: Labels) -> Loaded:
        """Lines of a request as rules about these labels, all of them right; test cases need not be."""
        self.limits.check_rules(lines)
        loaded = read_lines(lines)
        checked = loaded.check(examples="skip")
        check_labels(checked, labels)
        for line in checked:
            if (problem := self.refusal(line)) is not None:
                raise problem
        return loaded

    def refusal(self, line: Line) -> HttpError | None:
        """Why a rule that could be read is not allowed in a request."""
        place: dict[str, Any] = {"rule": str(line.rule), "where": line.where, "line": line.number}
        if is_backtracking(line.rule):
            what = "regular expressions by re are not allowed here"
            wanted = "an expression without 'by re', which RE2 matches in linear time"
            return HttpError(422, "backtracking", what, got=str(line.rule), wanted=wanted, **place)
        if (parts := len(leaves(line.rule))) > self.limits.rule_parts:
            return too_large("rule_parts", "the rule has too many parts", parts, self.limits.rule_parts, **place)
        return None


def label_bytes(labels: Labels) -> int:
    """About how much memory labels take that a request brings along."""
    return sum(100 + 2 * len(name) for name in labels.names)


def _sentences(rules: Sequence[str]) -> list[str]:
    """The rules of a list, each a line of its own."""
    for k, one in enumerate(rules):
        if "\n" in one or "\r" in one:
            wanted = "one rule in each element, or the text of a .rules file instead of a list"
            raise HttpError(
                422, "rules", "a rule of the list has several lines", got=repr(one[:60]), wanted=wanted, line=k + 1
            )
    return list(rules)


def lines_of(text: str) -> list[str]:
    """The lines of a text, as files of rules are cut."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def check_labels(lines: Iterable[Line], labels: Labels) -> None:
    """Raise if rules name labels that there are not."""
    for one in unknown_labels(lines, labels):
        raise HttpError(
            422,
            "unknown-label",
            one.message,
            got=repr(one.name),
            wanted="a label or a segment type of the model",
            rule=str(one.line.rule),
            where=one.line.where,
            line=one.line.number,
        )


def is_backtracking(rule: Rule) -> bool:
    """Does a rule match by Python's re, whose time no limit bounds?"""
    asked = [place.equal.pattern if isinstance(place, EqualPlace) else place.source for place in rule.places()]
    parts = (part for one in asked if isinstance(one, TokenPlace) for part in parts_of(one).values())
    return any(isinstance(part, Tokens) and part.engine == "re" for part in parts)


def from_files(paths: Sequence[Path], labels: Labels) -> RuleText:
    """Rules of the server, from files. Their text is theirs, or, if they include others, the rules of all of them."""
    loaded = read_files(paths)
    lines = loaded.check()
    check_labels(lines, labels)
    if loaded.again:
        file, number, told = loaded.again[0]
        raise RuleError(told, where=f"{file}:{number}" if number else file, wanted="each file once")
    text = "\n".join("\n".join(part) for part in loaded.texts.values())
    if len(loaded.texts) > 1 or loaded.includes:  # a page that edits the text cannot include files
        text = "".join(f"{line.rule}{f'  # {line.comment}' if line.comment else ''}\n" for line in lines)
    return RuleText(text, loaded, own=True)


def from_text(text: str, labels: Labels) -> RuleText:
    """Rules of the server, from a text that it has."""
    loaded = read_lines(lines_of(text))
    check_labels(loaded.check(), labels)
    return RuleText(text, loaded, own=True)
