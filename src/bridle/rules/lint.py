"""A linter for .rules files: lines that cannot be read, rules that cannot hold, contradict each other, have no effect,
are charged twice, or name unknown labels.

This module checks the text of rules; lint_automata.py checks their meaning.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from bridle.automata import from_regex
from bridle.errors import Argument, BridleError
from bridle.labels import Labels
from bridle.rules.base import Rule, Soft
from bridle.rules.boolean import Matches, leaves
from bridle.rules.conditions import Given, TokenPlace, Tokens, parts_of
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

    spell: how findings write an argument, as in `BridleError.message`; folder: where the files are that lines name;
    unknown: whether a rule with an unknown label is an error, or is left out or read without it, as `--lenient` does.

    >>> [f.message for f in lint(["forbid A", "at least 1 token of A"], Labels(["A", "B"]))]
    ['these rules cannot hold together: line 1 (forbid A); line 2 (at least 1 token of A)']
    """
    loaded = lines if isinstance(lines, Loaded) else read_lines(lines, folder=folder)
    alone = len(loaded.texts) < 2
    rules = [Entry(x.rule, Spot(k, x.number, x.file or "", alone)) for k, x in enumerate(loaded.lines)]
    found = []
    for error in loaded.wrong:
        number, file, error.where = error.line or 0, error.file or "", None  # the finding has the place
        found.append(Finding(number, "error", "syntax", _one_line(error.message(spell)), file, error.suggestion))
    for name, number, text in loaded.again:
        found.append(Finding(number, "warning", "read-once", text, name or "", "" if number else None))
    if not rules and not found:
        found.append(Finding(0, "info", "no-rules", "the file has no rules"))
    repeated, spots = _duplicates(rules)
    found += repeated
    found += _penalties(rules)
    found += _givens(rules)
    found += _backtracking(rules)
    found += _examples(loaded.examples, labels)
    if labels is None:
        text = f"only the text of the rules was checked: pass {spell(Argument('labels'))} for more"
        found.append(Finding(0, "info", "no-labels", text))
        return _in_order(found, loaded)
    good = []
    for line, entry in zip(loaded.lines, rules, strict=True):
        if unknown == "leave out":
            kept, told = without_unknown([line], labels)
            found += [entry.spot.found("warning", "unknown-label", text) for _, text in told]
            good += [entry._replace(rule=one.rule) for one in kept]
            continue
        wrong = unknown_labels([line], labels)
        text = loaded.texts[line.file][line.number - 1]
        for one in wrong:
            better = None if one.near is None else renamed(text, one.name, one.near)
            found.append(entry.spot.found("error", "unknown-label", one.message, better))
        good += [] if wrong else [entry]
    found += places(good, labels)
    found += short(good, labels)
    found += compared(good, labels, skip=spots)
    return _in_order(found, loaded)


def _in_order(found: list[Finding], loaded: Loaded) -> list[Finding]:
    """By files and lines; what is about all of them comes last."""
    order = {file or "": k for k, file in enumerate(loaded.texts)}
    found = [_whole(finding, loaded) for finding in found]
    return sorted(found, key=lambda finding: (not finding.line, order.get(finding.file, 0), finding))


def _whole(finding: Finding, loaded: Loaded) -> Finding:
    """The finding, with the comment of the line in what it suggests."""
    lines = loaded.texts.get(finding.file or None, [])
    if not finding.suggestion or not 0 < finding.line <= len(lines):
        return finding
    return replace(finding, suggestion=with_comment(finding.suggestion, lines[finding.line - 1]))


def _one_line(text: str) -> str:
    return " ".join(text.split())


# ---- what the text says -----------------------------------------------------------------------------------------


def _duplicates(rules: list[Entry]) -> tuple[list[Finding], set[Spot]]:
    """Rules that occur twice, and the spots of those that need no further check."""
    out, spots = [], set()
    seen: dict[tuple[Rule, bool], Entry] = {}
    for line in rules:
        soft = isinstance(line.rule, Soft)
        first = seen.setdefault((core(line.rule), soft), line)
        if first is not line:
            more = "; both penalties are paid" if soft else ""
            spots.add(line.spot)
            text = f"the same rule as {lines_of([first.spot])}{more}"
            out.append(line.spot.found("warning", "duplicate", text, ""))
    for (rule, soft), line in seen.items():
        if soft and (hard := seen.get((rule, False))) is not None:
            text = f"{lines_of([hard.spot])} is the same rule without a penalty, so this penalty is never paid"
            spots.add(line.spot)
            out.append(line.spot.found("warning", "never-bites", text, ""))
    return out, spots


def _penalties(rules: list[Entry]) -> list[Finding]:
    return [
        line.spot.found("warning", "zero-penalty", "a penalty of 0: the rule has no effect", "")
        for line in rules
        if isinstance(line.rule, Soft) and line.rule.penalty == 0
    ]


def _givens(rules: list[Entry]) -> list[Finding]:
    """Values that must come with the sequences: reported once for all lines that need them."""
    asking: dict[str, list[Spot]] = {}
    columns = {column for line in rules for place in line.rule.places() for column in place.columns}
    for line in rules:
        names = [x.key for field in line.rule.names() for x in field.items if isinstance(x, Given)]
        for key in dict.fromkeys([*names, *(key for place in line.rule.places() for key in place.keys)]):
            asking.setdefault(key, []).append(line.spot)
    out = []
    for key, spots in asking.items():
        where, s = lines_of(spots), "s" if len(spots) == 1 else ""
        text = f"{where} need{s} given[{key!r}] with each sequence"
        if key == "tokens":
            text = f'{where} use{s} the texts of tokens: data files have them, score files need "tokens"'
        elif key in columns:
            text = f'{where} use{s} the column {key!r}: data files need it, score files need it in "given"'
        out.append(Finding(0, "info", "given", text))
    return out


def _examples(examples: list[ExampleLine], labels: Labels | None) -> list[Finding]:
    """Test cases with labels that segments cannot have, or with phrases that their texts do not contain."""
    out = []
    kinds = None if labels is None else sorted(labels.types)
    for line in examples:
        here = Spot(0, line.number, line.file or "", alone=True)
        if (wrong := line.example.missing()) is not None:
            out.append(here.found("error", "example-phrase", wrong))
        for name in dict.fromkeys(label for label, _ in line.example.spans):
            if kinds is not None and name not in kinds:
                text, near = unknown_name(name, kinds)
                better = None if near is None else str(line.example.renamed(name, near))
                out.append(here.found("error", "unknown-label", text, better))
    return out


def _backtracking(rules: list[Entry]) -> list[Finding]:
    """Expressions for which Python's re, if it was chosen, may take exponential time."""
    out = []
    for line in rules:
        asked = [p.equal.pattern if isinstance(p, EqualPlace) else p.source for p in line.rule.places()]
        parts = [part for one in asked if isinstance(one, TokenPlace) for part in parts_of(one).values()]
        for source in dict.fromkeys(parts):
            if isinstance(source, Tokens) and source.engine == "re" and may_explode(source.pattern):
                text = f"re may take exponential time for /{source.pattern}/, and no time limit stops it"
                out.append(line.spot.found("warning", "backtracking", text, linear(line.rule)))
    return out


# ---- unknown labels --------------------------------------------------------------------------------------------------


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


# ---- suggestions -----------------------------------------------------------------------------------------------------


def with_comment(sentence: str, line: str) -> str:
    """A sentence with the comment of the line that it replaces, if it has none of its own.

    >>> with_comment("A before B", "A befor B # an order")
    'A before B  # an order'
    """
    comment, own = _comment(line), _comment(sentence)
    return f"{sentence}  {comment}" if comment and not own else sentence


def _comment(line: str) -> str:
    with suppress(BridleError):  # the line may be what is wrong
        return scan(line).comment
    return ""


def renamed(line: str, name: str, other: str) -> str | None:
    """The line with another name for a label; None if the name cannot be found in the text.

    >>> renamed("AUTHOR before TITEL  # not TITEL", "TITEL", "TITLE")
    'AUTHOR before TITLE  # not TITEL'
    """
    expression = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    made = line
    tokens, _, places = scan(line)
    for (kind, text), (begin, end) in zip(reversed(tokens), reversed(places), strict=True):
        said = unquote(text) if kind == "quoted" else text
        if kind not in ("quoted", "word"):
            continue
        if said == name:
            made = made[:begin] + quoted_name(other) + made[end:]
        elif kind == "quoted":  # as in: matches "O* TITEL+"
            made = made[:begin] + quote(expression.sub(lambda _: other, said)) + made[end:]
    with suppress(BridleError):
        parse(made)
        return made if made != line else None
    return None


def linear(rule: Rule) -> str | None:
    """The rule with RE2 instead of Python's re, if RE2 reads its expressions."""
    with suppress(BridleError):
        return str(parse(re.sub(r'([/"]) by re\b', r"\1", str(rule))))
    return None
