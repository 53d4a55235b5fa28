"""A linter for .rules files: what cannot be read, cannot hold, clashes, or says nothing.

Rules that do not look at positions are automata D over labels; all questions about them are one question, asked of
non-empty sequences: is there a word that all of some automata accept?

    rule r never holds           no word in  D(r)
    r always holds               no word in  ~D(r)
    rules R clash                no word in  & D(R)
    rules R imply r              no word in  ~D(r) & D(R)

rules/questions.py answers it. Rules about given values and positions are compared where they name the same place.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bridle.automata import DFA, CountingAutomaton, from_regex
from bridle.errors import Argument, BridleError, RuleError
from bridle.labels import Bools, Labels
from bridle.rules.backtracking import may_explode
from bridle.rules.base import Names, Place, Rule, Soft
from bridle.rules.boolean import Matches, Not, _Formula
from bridle.rules.files import MOST_RULES, Line, parse_lines, too_many_rules
from bridle.rules.neighbours import ImmediatelyFollowedBy
from bridle.rules.questions import Questions, Static, TooLarge
from bridle.rules.refer import Given, Tokens

Level = Literal["error", "warning", "info"]
_MOST_STATES = 100_000  # of all automata together: a second or two


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """Something to say about a line of a .rules file (line 0: about the file)."""

    line: int
    level: Level
    code: str
    message: str


def lint(
    lines: Iterable[str], labels: Labels | None = None, *, spell: Callable[[Argument], str] = str
) -> list[Finding]:
    """Look through the lines of a .rules file. Without labels: only what can be said without them.

    spell: how findings write an argument, as in `BridleError.message`.

    >>> [f.message for f in lint(["forbid A", "at least 1 token of A"], Labels(["A", "B"]))]
    ['these rules cannot hold together: line 1 (forbid A); line 2 (at least 1 token of A)']
    """
    found: list[Finding] = []
    rules: list[Line] = []
    for number, text in enumerate(lines, start=1):
        try:
            rules += [Line(line.rule, number, line.comment) for line in parse_lines([text])]
        except BridleError as error:
            error.where = None  # the finding has the line
            found.append(Finding(number, "error", "syntax", _one_line(error.message(spell))))
        if len(rules) + len(found) > MOST_RULES:
            raise too_many_rules()
    if not rules and not found:
        found.append(Finding(0, "info", "no-rules", "the file has no rules"))
    found += _duplicates(rules)
    found += _penalties(rules)
    found += _givens(rules)
    found += _backtracking(rules)
    if labels is None:
        text = f"only the text of the rules was checked: pass {spell(Argument('labels'))} for more"
        found.append(Finding(0, "info", "no-labels", text))
        return _in_order(found)
    good = []
    for line in rules:
        wrong = unknown_labels([line], labels)
        found += wrong
        good += [] if wrong else [line]
    found += _places(good, labels)
    found += _short(good, labels)
    found += _compared(good, labels, skip={f.line for f in found if f.code == "duplicate"})
    return _in_order(found)


def _in_order(found: list[Finding]) -> list[Finding]:
    """By lines; what is about the whole file comes last."""
    return sorted(found, key=lambda finding: (not finding.line, finding))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _core(rule: Rule) -> Rule:
    return rule.rule if isinstance(rule, Soft) else rule


def _leaves(rule: Rule) -> list[Rule]:
    """The rules that a formula is made of."""
    if isinstance(rule, Soft):
        return _leaves(rule.rule)
    return [leaf for part in rule.parts for leaf in _leaves(part)] if isinstance(rule, _Formula) else [rule]


# ---- what the text says -----------------------------------------------------------------------------------------


def _duplicates(rules: list[Line]) -> list[Finding]:
    out = []
    seen: dict[tuple[Rule, bool], Line] = {}
    for line in rules:
        soft = isinstance(line.rule, Soft)
        first = seen.setdefault((_core(line.rule), soft), line)
        if first is not line:
            more = "; both penalties are paid" if soft else ""
            out.append(Finding(line.number, "warning", "duplicate", f"the same rule as line {first.number}{more}"))
    for (core, soft), line in seen.items():
        if soft and (hard := seen.get((core, False))) is not None:
            text = f"line {hard.number} is the same rule without a penalty: never paid"
            out.append(Finding(line.number, "warning", "never-bites", text))
    return out


def _penalties(rules: list[Line]) -> list[Finding]:
    return [
        Finding(line.number, "warning", "zero-penalty", "a penalty of 0: the rule may be broken for nothing")
        for line in rules
        if isinstance(line.rule, Soft) and line.rule.penalty == 0
    ]


def _givens(rules: list[Line]) -> list[Finding]:
    """What must come with the sequences: told once for all lines that ask for it."""
    asking: dict[str, list[int]] = {}
    for line in rules:
        names = [x.key for field in line.rule.names() for x in field.items if isinstance(x, Given)]
        for key in dict.fromkeys([*names, *(key for place in line.rule.places() for key in place.keys)]):
            asking.setdefault(key, []).append(line.number)
    out = []
    for key, numbers in asking.items():
        where, s = _numbered(numbers), "s" if len(numbers) == 1 else ""
        text = f"{where} want{s} given[{key!r}] with each sequence"
        if key == "tokens":
            text = f'{where} look{s} at the texts of tokens: data files have them, score files need "tokens"'
        out.append(Finding(0, "info", "given", text))
    return out


def _backtracking(rules: list[Line]) -> list[Finding]:
    """Expressions for which Python's re, if it was chosen, may take exponential time."""
    out = []
    for line in rules:
        asked = (place.source for place in line.rule.places())
        for source in dict.fromkeys(source for source in asked if isinstance(source, Tokens)):
            if source.engine == "re" and may_explode(source.pattern):
                text = f"re may take exponential time for /{source.pattern}/, and no time limit stops it"
                out.append(Finding(line.number, "warning", "backtracking", text))
    return out


def unknown_labels(lines: Iterable[Line], labels: Labels) -> list[Finding]:
    """Names that are no labels."""
    out = []
    for line in lines:
        asked: dict[str, None] = {}
        for leaf in _leaves(line.rule):
            if isinstance(leaf, Matches):
                asked.update(dict.fromkeys(_names_in(leaf.pattern)))
            asked.update((x, None) for field in leaf.names() for x in field.items if isinstance(x, str))
        if strange := [name for name in asked if name not in labels.names]:
            out += _unknown(line, strange, labels)
    return out


def _names_in(pattern: str) -> list[str]:
    """The label names in a label expression."""
    asked: list[str] = []

    def find(name: str) -> frozenset[int]:
        asked.append(name)
        return frozenset()

    from_regex(pattern, find, 1)
    return asked


def _unknown(line: Line, names: list[str], labels: Labels) -> list[Finding]:
    known = [*labels.names, *sorted(labels.types - set(labels.names))]
    out = []
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1) or [x for x in known if x.lower() == name.lower()]
            hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known[:12])}"
            out.append(Finding(line.number, "error", "unknown-label", f"unknown label {name!r}{hint}"))
    return out


# ---- what the automata say --------------------------------------------------------------------------------------


def _resolved(rule: Rule, labels: Labels) -> tuple[Any, ...]:
    return tuple(field.resolve(labels, {}) for field in rule.names())


def _fixed(rule: Rule) -> bool:
    return all(isinstance(field, Names) and field.fixed for field in rule.names())


def _static(line: Line, labels: Labels, known: dict[Rule, tuple[DFA, ...]]) -> Static | None:
    """The automaton of a rule that looks at no positions and at nothing given. known: those made so far."""
    rule = _core(line.rule)
    if rule.places() or not _fixed(rule):
        return None
    if rule not in known:
        automata = rule.automata(_resolved(rule, labels), labels)
        known[rule] = tuple(CountingAutomaton.build(one, len(labels)).dfa() for one in automata)
    return Static(line.number, line.rule, known[rule])


def _compared(lines: list[Line], labels: Labels, skip: set[int]) -> list[Finding]:
    out: list[Finding] = []
    ask = Questions()
    rules: list[Static] = []
    known: dict[Rule, tuple[DFA, ...]] = {}
    states = 0
    for line in lines:
        before = len(known)
        try:
            if (made := _static(line, labels, known)) is not None:
                rules.append(made)
                states += sum(part.n_states for part in made.parts) if len(known) > before else 0
        except RuleError:
            out.append(_large(line.number))
        if states > _MOST_STATES:
            return [*out, _large(0)]
    sound = []
    for rule in rules:
        finding = _alone(rule, ask)
        out += finding
        if not finding and rule.line not in skip:
            sound.append(rule)
    hard = [rule for rule in sound if rule.hard]
    try:
        clash = ask.without([], hard) if hard else None
    except TooLarge:
        return [*out, _large(0)]
    if clash is not None:
        names = "; ".join(f"line {rule.line} ({rule.rule})" for rule in sorted(clash, key=lambda rule: rule.line))
        last = max(rule.line for rule in clash)
        return [*out, Finding(last, "error", "clash", f"these rules cannot hold together: {names}")]
    return out + _among(sound, hard, ask)


def _large(line: int) -> Finding:
    text = "too large to be checked in full as automata"
    return Finding(line, "info", "too-large", f"this rule is {text}" if line else f"the rules together are {text}")


def _alone(rule: Static, ask: Questions) -> list[Finding]:
    """A rule by itself: never or always true?"""
    try:
        if ask.without([], [rule]) is not None:
            if rule.hard:
                return [Finding(rule.line, "error", "never-holds", "no labelling of any length obeys this rule")]
            return [Finding(rule.line, "warning", "always-broken", "no labelling obeys this rule: always paid")]
        if all(ask.word([~part]) is None for part in rule.parts):
            return [Finding(rule.line, "warning", "always-holds", "every labelling obeys this rule: it says nothing")]
    except TooLarge:
        return [_large(rule.line)]
    return []


def _among(rules: list[Static], hard: list[Static], ask: Questions) -> list[Finding]:
    """A rule among the hard ones: implied by them, or (soft) contradicted? The later of two equal rules is named."""
    out = []
    needed = list(hard)
    for rule in reversed(rules):
        others = [other for other in needed if other is not rule]
        try:
            by = ask.follows(rule, others)
            if by is not None and rule.hard:
                needed = others
                out.append(Finding(rule.line, "warning", "redundant", f"already follows from {_lines(by)}"))
            elif by is not None:
                out.append(Finding(rule.line, "warning", "never-bites", f"always holds under {_lines(by)}: never paid"))
            elif not rule.hard and (clash := ask.without([], [rule, *others])) is not None:
                message = f"cannot hold under {_lines([x for x in clash if x is not rule])}: always paid"
                out.append(Finding(rule.line, "warning", "always-broken", message))
        except TooLarge:
            if ask.left <= 0:
                return [*out, _large(0)]
            out.append(_large(rule.line))
    return out


def _lines(rules: list[Static]) -> str:
    return _numbered(sorted(rule.line for rule in rules))


def _numbered(numbers: list[int]) -> str:
    """Lines by their numbers, in order: lines 7-9, 27."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = (", ".join(map(str, run)) if len(run) < 3 else f"{run[0]}-{run[-1]}" for run in runs)
    return ("line " if len(numbers) == 1 else "lines ") + ", ".join(shown)


def _short(lines: list[Line], labels: Labels) -> list[Finding]:
    """`A next to B` is about tokens, so that segments of A end after their first one, which few people mean."""
    out = []
    for line in lines:
        for rule in line.rule.conjuncts() if labels.scheme is not None else ():
            if not isinstance(rule, ImmediatelyFollowedBy) or not _fixed(rule):
                continue
            mask = rule.mask(_resolved(rule, labels), labels)
            inside = labels.same_type & ~labels.begins[:-1] & labels.allowed[0]  # (m, m): j goes on with i's segment
            left = inside if mask is None or mask.step is None else inside & mask.step
            for name in sorted(labels.types):
                its = [i for i, kind in enumerate(labels.type_of) if kind == name and labels.tag_of[i]]
                if inside[its].any() and not left[its].any():
                    longer = ImmediatelyFollowedBy(rule.a, Names.of([*rule.a.items, *rule.b.items]))
                    text = f"leaves {name} only segments of one token; for longer ones: {longer}"
                    out.append(Finding(line.number, "warning", "one-token", text))
    return out


# ---- rules about places -----------------------------------------------------------------------------------------


def _places(lines: list[Line], labels: Labels) -> list[Finding]:
    """Hard token rules that leave no label to a place they all name."""
    everywhere: list[tuple[int, Rule, Bools]] = []
    at: dict[Place, list[tuple[int, Rule, Bools]]] = {}
    for line in lines:
        for rule in line.rule.conjuncts():
            if isinstance(rule, (Soft, Not)) or not _fixed(rule):
                continue
            mask = rule.mask(_resolved(rule, labels), labels)
            if mask is None or mask.token is None:
                continue
            place = next(iter(rule.places()), None)
            (everywhere if place is None else at.setdefault(place, [])).append((line.number, line.rule, mask.token))
    out = []
    for group in at.values():
        clash = [*everywhere, *group]
        if np.logical_and.reduce([token for _, _, token in clash]).any():
            continue
        for one in list(clash):
            fewer = [x for x in clash if x is not one]
            if fewer and not np.logical_and.reduce([token for _, _, token in fewer]).any():
                clash = fewer
        if not any(one in group for one in clash):  # the rules without a place clash by themselves
            continue
        names = "; ".join(f"line {number} ({rule})" for number, rule, _ in clash)
        text = f"these rules leave no label to a place they name: {names}"
        out.append(Finding(max(number for number, _, _ in clash), "error", "clash", text))
    return out
