"""A linter for .rules files: lines that cannot be read, rules that cannot hold, contradict each other,
have no effect, or are charged twice.

This module checks the text of rules; lint_automata.py checks their meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from bridle.errors import Argument
from bridle.labels import Labels
from bridle.rules.backtracking import may_explode
from bridle.rules.base import Rule, Soft
from bridle.rules.conditions import TokenPlace, Tokens, parts_of
from bridle.rules.equal import EqualPlace
from bridle.rules.examples import ExampleLine
from bridle.rules.findings import Entry, Finding, Spot, core, lines_of
from bridle.rules.inputs import Given
from bridle.rules.lint_automata import compared, places, short
from bridle.rules.loading import Loaded, read_lines
from bridle.rules.suggestions import linear, renamed, with_comment
from bridle.rules.unknown import unknown_labels, unknown_name, without_unknown

__all__ = ["Finding", "lint"]


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
