"""A linter for .rules files: lines that cannot be read, rules that cannot hold, contradict each other, have no effect,
are charged twice, or name unknown labels.

This module checks the text of rules; lint_automata.py checks their meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from bridle.automata import from_regex
from bridle.errors import Argument, BridleError, nearest_name
from bridle.labels import Labels
from bridle.rules.base import Rule, Soft
from bridle.rules.boolean import Matches, leaves
from bridle.rules.conditions import TOKENS, Given, TokenPlace, Tokens, parts_of
from bridle.rules.counts import AtMost, Length, NoDuplicates
from bridle.rules.equal import EqualPlace
from bridle.rules.lint_automata import Entry, Finding, Spot, compared, core, lines_of, places, short
from bridle.rules.loading import ExampleLine, Line, Loaded, read_lines
from bridle.rules.order import Before, FirstBefore
from bridle.rules.patterns import may_explode
from bridle.rules.positions import Forbid, ForbidTransition
from bridle.rules.references import Names
from bridle.rules.text import parse, quote, quoted_name, scan, unquote

__all__ = ["Finding", "Unknown", "lint", "unknown_labels", "unknown_name", "without_unknown"]

# Rules that only forbid: a label that cannot occur in them can be left out of a list without asking for anything else.
_FORBIDDING = (NoDuplicates, AtMost, Length, Forbid, ForbidTransition, Before, FirstBefore)


def lint(
    lines: Iterable[str] | Loaded,
    labels: Labels | None = None,
    *,
    spell: Callable[[Argument], str] = str,
    folder: str | Path | None = None,
    unknown: Literal["error", "leave out"] = "error",
) -> list[Finding]:
    """Check the lines of a .rules file, or several files. Without labels: only what is true of any labels.

    spell: the spelling of arguments in findings, as in `BridleError.message`; folder: of the files that lines name;
    unknown: whether a rule with an unknown label is an error, or is left out, as `--lenient` does. A rule that only
    forbids is read without it.

    >>> [f.message for f in lint(["forbid A", "at least 1 token of A"], Labels(["A", "B"]))]
    ['these rules cannot hold together: line 1 (forbid A); line 2 (at least 1 token of A)']
    """
    loaded = lines if isinstance(lines, Loaded) else read_lines(lines, folder=folder)
    alone = len(loaded.texts) < 2
    rules = [Entry(x.rule, Spot(k, x.number, x.file or "", alone)) for k, x in enumerate(loaded.lines)]
    findings = []
    for error in loaded.wrong:
        number, file, error.where = error.line or 0, error.file or "", None  # the finding has the place
        message = " ".join(error.message(spell).split())
        findings.append(Finding(number, "error", "syntax", message, file, error.suggestion))
    for name, number, message in loaded.again:
        findings.append(Finding(number, "warning", "read-once", message, name or "", "" if number else None))
    if not rules and not findings:
        findings.append(Finding(0, "info", "no-rules", "the file has no rules"))
    repeated, skip = _duplicates(rules)
    findings += [*repeated, *_zero_penalties(rules), *_given_values(rules), *_backtracking(rules)]
    findings += _examples(loaded.examples, labels)
    if labels is None:
        message = f"only the text of the rules was checked: pass {spell(Argument('labels'))} for more"
        findings.append(Finding(0, "info", "no-labels", message))
        return _sorted(findings, loaded)
    known = []  # rules without unknown labels
    for line, entry in zip(loaded.lines, rules, strict=True):
        kept, messages = (without_unknown if unknown == "leave out" else without_unseen)([line], labels)
        findings += [entry.spot.finding("warning", "unknown-label", message) for _, message in messages]
        misnamed = unknown_labels(kept, labels)
        text = loaded.texts[line.file][line.number - 1]
        for label in misnamed:
            better = None if label.near is None else renamed(text, label.name, label.near)
            findings.append(entry.spot.finding("error", "unknown-label", label.message, better))
        known += [] if misnamed else [entry._replace(rule=other.rule) for other in kept]
    findings += [*places(known, labels), *short(known, labels), *compared(known, labels, skip)]
    return _sorted(findings, loaded)


def _sorted(findings: list[Finding], loaded: Loaded) -> list[Finding]:
    """Sort findings by file and line, general ones last; suggestions keep the comments of their lines."""
    order = {file or "": k for k, file in enumerate(loaded.texts)}
    result = []
    for finding in findings:
        lines = loaded.texts.get(finding.file or None, [])
        if finding.suggestion and 0 < finding.line <= len(lines):
            finding = replace(finding, suggestion=with_comment(finding.suggestion, lines[finding.line - 1]))
        result.append(finding)
    return sorted(result, key=lambda finding: (not finding.line, order.get(finding.file, 0), finding))


# ---- checks of the text ---------------------------------------------------------------------------------------------


def _duplicates(rules: list[Entry]) -> tuple[list[Finding], set[Spot]]:
    """Return findings about rules that occur twice, and the spots of those that need no further check."""
    findings, spots = [], set()
    seen: dict[tuple[Rule, bool], Entry] = {}
    for entry in rules:
        soft = isinstance(entry.rule, Soft)
        first = seen.setdefault((core(entry.rule), soft), entry)
        if first is not entry:
            spots.add(entry.spot)
            message = f"the same rule as {lines_of([first.spot])}{'; both penalties are paid' if soft else ''}"
            findings.append(entry.spot.finding("warning", "duplicate", message, ""))
    for (rule, soft), entry in seen.items():
        if soft and (hard := seen.get((rule, False))) is not None:
            spots.add(entry.spot)
            message = f"{lines_of([hard.spot])} is the same rule without a penalty, so this penalty is never paid"
            findings.append(entry.spot.finding("warning", "never-bites", message, ""))
    return findings, spots


def _zero_penalties(rules: list[Entry]) -> list[Finding]:
    return [
        entry.spot.finding("warning", "zero-penalty", "a penalty of 0: the rule has no effect", "")
        for entry in rules
        if isinstance(entry.rule, Soft) and entry.rule.penalty == 0
    ]


def _given_values(rules: list[Entry]) -> list[Finding]:
    """Report values that must come with the sequences, once for all lines that need them."""
    users: dict[str, list[Spot]] = {}
    columns = {column for entry in rules for place in entry.rule.places() for column in place.columns}
    for rule, spot in rules:
        names = [x.key for field in rule.names() for x in field.items if isinstance(x, Given)]
        for key in dict.fromkeys([*names, *(key for place in rule.places() for key in place.keys)]):
            users.setdefault(key, []).append(spot)
    findings = []
    for key, spots in users.items():
        where, s = lines_of(spots), "s" if len(spots) == 1 else ""
        if key == TOKENS:
            message = f'{where} use{s} the texts of tokens: data files have them, score files need "tokens"'
        elif key in columns:
            message = f'{where} use{s} the column {key!r}: data files need it, score files need it in "given"'
        else:
            message = f"{where} need{s} given[{key!r}] with each sequence"
        findings.append(Finding(0, "info", "given", message))
    return findings


def _examples(examples: list[ExampleLine], labels: Labels | None) -> list[Finding]:
    """Report test cases with labels that segments cannot have, or with phrases that their texts do not contain."""
    findings = []
    types = None if labels is None else sorted(labels.types)
    for line in examples:
        spot = Spot(0, line.number, line.file or "", alone=True)
        if (message := line.example.missing()) is not None:
            findings.append(spot.finding("error", "example-phrase", message))
        for name in dict.fromkeys(label for label, _ in line.example.spans):
            if types is not None and name not in types:
                message, near = unknown_name(name, types)
                better = None if near is None else str(line.example.renamed(name, near))
                findings.append(spot.finding("error", "unknown-label", message, better))
    return findings


def _backtracking(rules: list[Entry]) -> list[Finding]:
    """Report expressions for which Python's re, if it was chosen, may take exponential time."""
    findings = []
    for rule, spot in rules:
        sources = [p.equal.pattern if isinstance(p, EqualPlace) else p.source for p in rule.places()]
        conditions = [part for x in sources if isinstance(x, TokenPlace) for part in parts_of(x).values()]
        for condition in dict.fromkeys(conditions):
            if isinstance(condition, Tokens) and condition.engine == "re" and may_explode(condition.pattern):
                message = f"re may take exponential time for /{condition.pattern}/, and no time limit stops it"
                findings.append(spot.finding("warning", "backtracking", message, _with_re2(rule)))
    return findings


# ---- unknown labels -------------------------------------------------------------------------------------------------


class Unknown(NamedTuple):
    """A name that is not a label."""

    line: Line
    name: str
    message: str
    near: str | None  # the label that was perhaps meant


def unknown_labels(lines: Iterable[Line], labels: Labels) -> list[Unknown]:
    """Return the names in rules that are not labels, with the nearest label."""
    known = [*labels.names, *sorted(labels.types - set(labels.names))]
    names = frozenset(known)
    pairs = ((line, name) for line in lines for name in _names_in(line.rule) if name not in names)
    return [Unknown(line, name, *unknown_name(name, known)) for line, name in pairs]


def unknown_name(name: str, known: Sequence[str]) -> tuple[str, str | None]:
    """Return the message for a name that is not a label, and the label that was perhaps meant."""
    near = nearest_name(name, known)
    hint = f"; known: {', '.join(known[:12])}" if near is None else f"; did you mean {near!r}?"
    return f"unknown label {name!r}{hint}", near


def _names_in(rule: Rule) -> dict[str, None]:
    names: list[str] = []

    def note(name: str) -> frozenset[int]:
        names.append(name)
        return frozenset()

    for leaf in leaves(rule):
        if isinstance(leaf, Matches):
            from_regex(leaf.pattern, note, 1)
        names += [name for field in leaf.names() for name in field.items if isinstance(name, str)]
    return dict.fromkeys(names)


def without_unseen(lines: Iterable[Line], labels: Labels) -> tuple[list[Line], list[tuple[Line, str]]]:
    """Return lines in which rules that only forbid apply to the known ones of their labels, and a message for each.

    All other lines stay as they are, also those with a name that is like that of a known label: it may be misspelled.
    """
    kept, messages = [], []
    for line in lines:
        unknown = unknown_labels([line], labels)
        misspelled = any(name.near is not None for name in unknown)
        fewer = _without({name.name for name in unknown}, line.rule) if unknown and not misspelled else None
        kept.append(line if fewer is None else replace(line, rule=fewer))
        if fewer is not None:
            messages.append((line, "; ".join([*(name.message for name in unknown), f"the rule is read as: {fewer}"])))
    return kept, messages


def without_unknown(lines: Iterable[Line], labels: Labels) -> tuple[list[Line], list[tuple[Line, str]]]:
    """Return lines that name known labels only, and a message for each line that was changed or left out.

    A rule that only forbids something loses the unknown names of its lists, and keeps its meaning, because an unknown
    label cannot occur. Every other rule is left out as a whole: `present X` could not hold at all, and
    `A next to A, X` would require more than it says.
    """
    kept, messages = [], []
    for line in lines:
        unknown = unknown_labels([line], labels)
        fewer = _without({name.name for name in unknown}, line.rule) if unknown else line.rule
        if fewer is not None:
            kept.append(replace(line, rule=fewer) if unknown else line)
        if unknown:
            remedy = f"the rule is left out: {line.rule}" if fewer is None else f"the rule is read as: {fewer}"
            messages.append((line, "; ".join([*(name.message for name in unknown), remedy])))
    return kept, messages


def _without(names: set[str], rule: Rule) -> Rule | None:
    """Return the rule without some names; None if that would be another rule."""
    if isinstance(rule, Soft):
        inner = _without(names, rule.rule)
        return None if inner is None else replace(rule, rule=inner)
    if not isinstance(rule, _FORBIDDING):
        return None
    fields = {field: value.items for field, value in vars(rule).items() if isinstance(value, Names)}
    fewer: dict[str, Any] = {f: Names(tuple(x for x in items if x not in names)) for f, items in fields.items()}
    return replace(rule, **fewer) if all(value.items for value in fewer.values()) else None


# ---- suggestions ----------------------------------------------------------------------------------------------------


def with_comment(sentence: str, line: str) -> str:
    """Return a sentence with the comment of the line that it replaces, unless it has a comment.

    >>> with_comment("A before B", "A befor B # an order")
    'A before B  # an order'
    """
    comment = _comment(line)
    return f"{sentence}  {comment}" if comment and not _comment(sentence) else sentence


def _comment(line: str) -> str:
    with suppress(BridleError):  # the line may be the one with the error
        return scan(line).comment
    return ""


def renamed(line: str, name: str, other: str) -> str | None:
    """Return the line with another name for a label; None if the text does not contain the name.

    >>> renamed("AUTHOR before TITEL  # not TITEL", "TITEL", "TITLE")
    'AUTHOR before TITLE  # not TITEL'
    """
    expression = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    result = line
    tokens, _, extents = scan(line)
    for (kind, text), (begin, end) in zip(reversed(tokens), reversed(extents), strict=True):
        content = unquote(text) if kind == "quoted" else text
        if kind in ("quoted", "word") and content == name:
            result = result[:begin] + quoted_name(other) + result[end:]
        elif kind == "quoted":  # as in: matches "O* TITEL+"
            result = result[:begin] + quote(expression.sub(lambda _: other, content)) + result[end:]
    with suppress(BridleError):
        parse(result)
        return result if result != line else None
    return None


def _with_re2(rule: Rule) -> str | None:
    """Return the sentence of the rule with RE2 instead of Python's re, if RE2 accepts its expressions."""
    with suppress(BridleError):
        return str(parse(re.sub(r'([/"]) by re\b', r"\1", str(rule))))
    return None
