"""Checks of the linter on automata: rules that never hold, contradict each other, have no effect or are charged twice.

Rules that do not look at positions are automata D over labels; all questions about them are one question, asked of
non-empty sequences: is there a word that all of some automata accept?

    rule r never holds           no word in  D(r)
    r always holds               no word in  ~D(r)
    rules R clash                no word in  & D(R)
    rules R imply r              no word in  ~D(r) & D(R)
    what breaks r breaks s       no word in  ~D(r) & D(s)        s implies r; if both are soft, both are paid

rules/questions.py answers it. Rules about given values and positions are compared where they name the same place.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from bridle.automata import DFA, CountingAutomaton
from bridle.errors import RuleError
from bridle.labels import Bools, Labels
from bridle.rules.base import Names, Place, Rule, Soft
from bridle.rules.boolean import Not
from bridle.rules.findings import Entry, Finding, Spot, core, fixed, lines_of, resolved
from bridle.rules.neighbours import ImmediatelyFollowedBy
from bridle.rules.questions import Questions, Static, TooLarge

_MOST_TOLD = 3  # rules that one finding about penalties names
_MOST_STATES = 100_000  # of all automata together: a second or two


def _static(line: Entry, labels: Labels, known: dict[Rule, tuple[DFA, ...]]) -> Static | None:
    """The automaton of a rule that looks at no positions and at nothing given. known: those made so far."""
    rule = core(line.rule)
    if rule.places() or not fixed(rule):
        return None
    if rule not in known:
        automata = rule.automata(resolved(rule, labels), labels)
        known[rule] = tuple(CountingAutomaton.build(one, len(labels)).dfa() for one in automata)
    return Static(line.spot, line.rule, known[rule])


def compared(lines: list[Entry], labels: Labels, skip: set[Spot]) -> list[Finding]:
    """Rules alone and with each other. skip: rules that repeat another one."""
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
            out.append(_large(line.spot))
        if states > _MOST_STATES:
            return [*out, _large()]
    sound = []
    for rule in rules:
        finding = _alone(rule, ask)
        out += finding
        if not finding and rule.spot not in skip:
            sound.append(rule)
    hard = [rule for rule in sound if rule.hard]
    try:
        clash = ask.without([], hard) if hard else None
    except TooLarge:
        return [*out, _large()]
    if clash is not None:
        text = f"these rules cannot hold together: {_told((rule.spot, rule.rule) for rule in clash)}"
        return [*out, max(rule.spot for rule in clash).found("error", "clash", text)]
    out += _among(sound, hard, ask)
    paid = {(one.file, one.line) for one in out if one.code in ("never-bites", "always-broken")}
    soft = [rule for rule in sound if _charges(rule) and (rule.spot.file, rule.spot.line) not in paid]
    return out + _charged_twice(soft, ask)


def _told(rules: Iterable[tuple[Spot, Rule]]) -> str:
    return "; ".join(f"{lines_of([spot])} ({rule})" for spot, rule in sorted(rules, key=lambda pair: pair[0]))


def _large(spot: Spot | None = None) -> Finding:
    text = "too large to be checked in full as automata"
    if spot is None:
        return Finding(0, "info", "too-large", f"the rules together are {text}")
    return spot.found("info", "too-large", f"this rule is {text}")


def _alone(rule: Static, ask: Questions) -> list[Finding]:
    """A rule alone: never or always true?"""
    try:
        if ask.without([], [rule]) is not None:
            if rule.hard:
                return [rule.spot.found("error", "never-holds", "no labelling of any length obeys this rule")]
            return [
                rule.spot.found(
                    "warning", "always-broken", "no labelling obeys this rule, so its penalty is always paid"
                )
            ]
        if all(ask.word([~part]) is None for part in rule.parts):
            return [rule.spot.found("warning", "always-holds", "every labelling obeys this rule: it has no effect", "")]
    except TooLarge:
        return [_large(rule.spot)]
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
                out.append(rule.spot.found("warning", "redundant", f"already follows from {_lines(by)}", ""))
            elif by is not None:
                out.append(
                    rule.spot.found(
                        "warning", "never-bites", f"always holds under {_lines(by)}, so its penalty is never paid", ""
                    )
                )
            elif not rule.hard and (clash := ask.without([], [rule, *others])) is not None:
                message = (
                    f"cannot hold under {_lines(x for x in clash if x is not rule)}, so its penalty is always paid"
                )
                out.append(rule.spot.found("warning", "always-broken", message))
        except TooLarge:
            if ask.left <= 0:
                return [*out, _large()]
            out.append(_large(rule.spot))
    return out


def _lines(rules: Iterable[Static]) -> str:
    return lines_of(rule.spot for rule in rules)


def _charges(rule: Static) -> bool:
    return isinstance(rule.rule, Soft) and rule.rule.penalty > 0


def _charged_twice(rules: list[Static], ask: Questions) -> list[Finding]:
    """Soft rules such that whatever breaks one of them breaks another, too: one follows from the other."""
    out: list[Finding] = []
    told: set[tuple[int, int]] = set()
    all_of_them = _SideBySide(rules)
    for k, rule in enumerate(rules):
        by: list[Static] = []
        try:
            words = [word for part in rule.parts if (word := ask.word([~part])) is not None]  # each breaks the rule
            broken = [all_of_them.broken_by(word) for word in words]
            for other in sorted(set.intersection(*broken) - {k}):
                if len(by) == _MOST_TOLD:
                    break
                if (other, k) not in told and ask.follows(rule, [rules[other]]) is not None:
                    by.append(rules[other])
                    told.add((k, other))
        except TooLarge:
            return [*out, _large()]
        if by:
            which = _told((other.spot, other.rule) for other in by)
            text = f"a labelling that breaks this rule also breaks {which}, so both penalties are charged; "
            text += "keep one of them, or lower this penalty to what it should add"
            out.append(rule.spot.found("warning", "charged-twice", text))
    return out


class _SideBySide:
    """The automata of many rules, which read a word together: one step of all of them is one look-up."""

    def __init__(self, rules: list[Static]) -> None:
        self._parts = [part for rule in rules for part in rule.parts]
        self._owner = np.repeat(np.arange(len(rules)), [len(rule.parts) for rule in rules])
        self._start = np.cumsum([0, *(part.n_states for part in self._parts)])[:-1].astype(np.int64)
        self._accepting = np.concatenate([part.accepting for part in self._parts]) if self._parts else np.zeros(0, bool)
        self._step: dict[int, npt.NDArray[np.int64]] = {}  # label -> (all states) the next one

    def broken_by(self, word: list[int]) -> set[int]:
        """Which rules a word breaks."""
        states = self._start
        for y in word:
            if y not in self._step:
                columns = [part.step[:, y] + start for part, start in zip(self._parts, self._start, strict=True)]
                self._step[y] = np.concatenate(columns)
            states = self._step[y][states]
        return set(self._owner[~self._accepting[states]].tolist())


def short(lines: list[Entry], labels: Labels) -> list[Finding]:
    """`A next to B` is about tokens, so that segments of A end after their first one, which few people mean."""
    out = []
    for line in lines:
        for rule in line.rule.conjuncts() if labels.scheme is not None else ():
            if not isinstance(rule, ImmediatelyFollowedBy) or not fixed(rule):
                continue
            mask = rule.mask(resolved(rule, labels), labels)
            inside = labels.same_type & ~labels.begins[:-1] & labels.allowed[0]  # (m, m): j goes on with i's segment
            left = inside if mask is None or mask.step is None else inside & mask.step
            for name in sorted(labels.types):
                its = [i for i, kind in enumerate(labels.type_of) if kind == name and labels.tag_of[i]]
                if inside[its].any() and not left[its].any():
                    longer = ImmediatelyFollowedBy(rule.a, Names.of([*rule.a.items, *rule.b.items]))
                    text = f"allows {name} only segments of one token; for longer segments, write: {longer}"
                    better = str(longer) if line.rule == rule else None
                    out.append(line.spot.found("warning", "one-token", text, better))
    return out


# ---- rules about places -----------------------------------------------------------------------------------------


def places(lines: list[Entry], labels: Labels) -> list[Finding]:
    """Hard token rules that leave no possible label at a position that they all name."""
    everywhere: list[tuple[Spot, Rule, Bools]] = []
    at: dict[Place, list[tuple[Spot, Rule, Bools]]] = {}
    for line in lines:
        for rule in line.rule.conjuncts():
            if isinstance(rule, (Soft, Not)) or not fixed(rule):
                continue
            mask = rule.mask(resolved(rule, labels), labels)
            if mask is None or mask.token is None:
                continue
            place = next(iter(rule.places()), None)
            (everywhere if place is None else at.setdefault(place, [])).append((line.spot, line.rule, mask.token))
    out = []
    for group in at.values():
        clash = [*everywhere, *group]
        if np.logical_and.reduce([token for _, _, token in clash]).any():
            continue
        for one in list(clash):
            fewer = [x for x in clash if x is not one]
            if fewer and not np.logical_and.reduce([token for _, _, token in fewer]).any():
                clash = fewer
        if not any(one in group for one in clash):  # the rules without a position contradict each other
            continue
        names = _told((spot, rule) for spot, rule, _ in clash)
        text = f"these rules leave no possible label at a position that they name: {names}"
        out.append(max(spot for spot, _, _ in clash).found("error", "clash", text))
    return out
