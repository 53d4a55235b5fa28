"""Findings about rules, and the checks of the linter on automata: rules that never hold, contradict each other, have
no effect or are charged twice.

Rules that do not look at positions are automata D over labels; all questions about them are one question, asked of
non-empty sequences: is there a word that all of some automata accept?

    rule r never holds           no word in  D(r)
    r always holds               no word in  ~D(r)
    rules R clash                no word in  & D(R)
    rules R imply r              no word in  ~D(r) & D(R)
    what breaks r breaks s       no word in  ~D(r) & D(s)        s implies r; if both are soft, both are paid

R is grown lazily: a word that breaks a rule brings this rule in, so the products stay small and the rules that matter
are named. A rule of several automata (no duplicates of A, B) is broken when one of them is. Rules about given values
and positions are compared where they name the same place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.automata import DFA, CountingAutomaton
from bridle.deadline import check_stopped
from bridle.errors import RuleError
from bridle.labels import Bools, Labels
from bridle.rules.base import Rule, Sets, Soft
from bridle.rules.boolean import Not
from bridle.rules.positions import ImmediatelyFollowedBy
from bridle.rules.references import Names, Place

Level = Literal["error", "warning", "info"]
_MOST_NAMED = 3  # rules that one finding about penalties names
_MOST_STATES = 100_000  # of all automata together: a second or two
_MOST_STEPS = 1_000_000  # steps of automata that one question may take
_ALL_STEPS = 10_000_000  # and all of them together: a few seconds


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A finding about a line of a .rules file (line 0: about the whole file)."""

    line: int
    level: Level
    code: str
    message: str
    file: str = ""  # if it is known
    suggestion: str | None = field(default=None, compare=False)  # a better line; "": delete it


class Spot(NamedTuple):
    """The place of a rule. Spots are ordered as the rules are read."""

    order: int
    line: int
    file: str
    alone: bool  # is there no other file?

    def finding(self, level: Level, code: str, message: str, suggestion: str | None = None) -> Finding:
        """Return a finding about this line."""
        return Finding(self.line, level, code, message, self.file, suggestion)


class Entry(NamedTuple):
    """A rule and its place."""

    rule: Rule
    spot: Spot


def core(rule: Rule) -> Rule:
    """Return the rule without its penalty."""
    return rule.rule if isinstance(rule, Soft) else rule


def resolved(rule: Rule, labels: Labels) -> tuple[Sets, ...]:
    """Return the label ids of each name of a rule that is `fixed`."""
    return tuple(field.resolve(labels, {}) for field in rule.names())


def fixed(rule: Rule) -> bool:
    """Return whether a rule names all of its labels itself."""
    return all(isinstance(field, Names) and field.fixed for field in rule.names())


def lines_of(spots: Iterable[Spot]) -> str:
    """Return lines by their numbers, in order: lines 7-9, 27; with their files if there are several."""
    texts = []
    for file, group in groupby(sorted(spots), key=lambda spot: spot.file):
        in_file = list(group)
        runs: list[list[int]] = []
        for spot in in_file:
            if runs and spot.line == runs[-1][-1] + 1:
                runs[-1].append(spot.line)
            else:
                runs.append([spot.line])
        numbers = ", ".join(", ".join(map(str, run)) if len(run) < 3 else f"{run[0]}-{run[-1]}" for run in runs)
        text = f"line{'s' if len(in_file) > 1 else ''} {numbers}"
        texts.append(text if in_file[0].alone else f"{text} of {file or 'the text'}")
    return ", ".join(texts)


# ---- questions about automata ----------------------------------------------------------------------------------------


class TooLarge(Exception):  # noqa: N818
    """A question that would take too long."""


@dataclass(frozen=True, slots=True, eq=False)
class Static:
    """A rule that looks at no positions: a labelling obeys it if all its automata accept."""

    spot: Spot
    rule: Rule
    parts: tuple[DFA, ...]

    @property
    def hard(self) -> bool:
        return not isinstance(self.rule, Soft)

    @property
    def charged(self) -> bool:
        return isinstance(self.rule, Soft) and self.rule.penalty > 0


@dataclass(slots=True)
class Questions:
    """Questions about automata, answered within a budget of steps."""

    left: int = _ALL_STEPS

    def word(self, automata: Sequence[DFA]) -> list[int] | None:
        """Return a shortest non-empty word that all accept, or None."""
        steps = [d.step.tolist() for d in automata]
        accepting = [d.accepting.tolist() for d in automata]
        alive = [_alive(d) for d in automata]
        start = (0,) * len(automata)
        came: dict[tuple[int, ...], tuple[tuple[int, ...] | None, int]] = {}
        todo: list[tuple[int, ...]] = [start]
        m = automata[0].n_labels
        spent = 0
        for states in todo:  # breadth first; the start counts as reached only when a word leads back to it
            check_stopped()
            spent += m * len(automata)
            if spent > min(_MOST_STEPS, self.left):
                self.left -= spent
                raise TooLarge
            for y in range(m):
                after = tuple([step[s][y] for step, s in zip(steps, states, strict=True)])
                if after in came or not all(a[s] for a, s in zip(alive, after, strict=True)):
                    continue
                came[after] = (None if states is start else states, y)
                if all(a[s] for a, s in zip(accepting, after, strict=True)):
                    self.left -= spent
                    return _traced(came, after)
                if after != start:
                    todo.append(after)
        self.left -= spent
        return None

    def without(self, first: Sequence[DFA], rules: Sequence[Static]) -> list[Static] | None:
        """Return a minimal set of rules that leaves no word to `first`; None: there is a word under all of them."""
        minimal = self._closing(first, rules)
        for rule in list(minimal or ()):
            fewer = [other for other in minimal or () if other is not rule]
            if (closing := self._closing(first, fewer)) is not None:
                minimal = closing
        return minimal

    def _closing(self, first: Sequence[DFA], rules: Sequence[Static]) -> list[Static] | None:
        used: dict[int, Static] = {}
        automata = list(first)
        while True:
            word = self.word(automata) if automata else [0]
            if word is None:
                return list(used.values())
            broken = next(((rule, part) for rule in rules for part in rule.parts if not part.accepts(word)), None)
            if broken is None:
                return None
            used[id(broken[0])] = broken[0]
            automata.append(broken[1])

    def follows(self, rule: Static, rules: Sequence[Static]) -> list[Static] | None:
        """Return rules from which another one follows, or None."""
        premises: dict[Spot, Static] = {}
        for part in rule.parts:
            closing = self.without([~part], rules)
            if closing is None:
                return None
            premises.update((other.spot, other) for other in closing)
        return list(premises.values())


def _alive(dfa: DFA) -> list[bool]:
    """Return for each state whether acceptance can be reached."""
    alive = dfa.accepting.copy()
    while True:
        check_stopped()
        more = alive | alive[dfa.step].any(axis=1)
        if (more == alive).all():
            return [bool(x) for x in alive]
        alive = more


def _traced(came: dict[tuple[int, ...], tuple[tuple[int, ...] | None, int]], states: tuple[int, ...]) -> list[int]:
    path: list[int] = []
    at: tuple[int, ...] | None = states
    while at is not None:
        at, y = came[at]
        path.append(y)
    return path[::-1]


# ---- checks ----------------------------------------------------------------------------------------------------------


def _static(line: Entry, labels: Labels, known: dict[Rule, tuple[DFA, ...]]) -> Static | None:
    """Return the automata of a rule without positions and given values; None for other rules. known: a cache."""
    rule = core(line.rule)
    if rule.places() or not fixed(rule):
        return None
    if rule not in known:
        automata = rule.automata(resolved(rule, labels), labels)
        known[rule] = tuple(CountingAutomaton.build(automaton, len(labels)).dfa() for automaton in automata)
    return Static(line.spot, line.rule, known[rule])


def compared(lines: list[Entry], labels: Labels, skip: set[Spot]) -> list[Finding]:
    """Check rules alone and with each other. skip: rules that repeat another one."""
    out: list[Finding] = []
    ask = Questions()
    rules: list[Static] = []
    known: dict[Rule, tuple[DFA, ...]] = {}
    states = 0
    for line in lines:
        before = len(known)
        try:
            if (static := _static(line, labels, known)) is not None:
                rules.append(static)
                states += sum(part.n_states for part in static.parts) if len(known) > before else 0
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
        text = f"these rules cannot hold together: {_listed((rule.spot, rule.rule) for rule in clash)}"
        return [*out, max(rule.spot for rule in clash).finding("error", "clash", text)]
    out += _among(sound, hard, ask)
    reported = {(finding.file, finding.line) for finding in out if finding.code in ("never-bites", "always-broken")}
    soft = [rule for rule in sound if rule.charged and (rule.spot.file, rule.spot.line) not in reported]
    return out + _charged_twice(soft, ask)


def _listed(rules: Iterable[tuple[Spot, Rule]]) -> str:
    return "; ".join(f"{lines_of([spot])} ({rule})" for spot, rule in sorted(rules, key=lambda pair: pair[0]))


def _large(spot: Spot | None = None) -> Finding:
    text = "too large to be checked in full as automata"
    if spot is None:
        return Finding(0, "info", "too-large", f"the rules together are {text}")
    return spot.finding("info", "too-large", f"this rule is {text}")


def _alone(rule: Static, ask: Questions) -> list[Finding]:
    """Check whether a rule alone is never or always true."""
    try:
        if ask.without([], [rule]) is not None:
            if rule.hard:
                return [rule.spot.finding("error", "never-holds", "no labelling of any length obeys this rule")]
            message = "no labelling obeys this rule, so its penalty is always paid"
            return [rule.spot.finding("warning", "always-broken", message)]
        if all(ask.word([~part]) is None for part in rule.parts):
            return [
                rule.spot.finding("warning", "always-holds", "every labelling obeys this rule: it has no effect", "")
            ]
    except TooLarge:
        return [_large(rule.spot)]
    return []


def _among(rules: list[Static], hard: list[Static], ask: Questions) -> list[Finding]:
    """Find rules that the hard ones imply or (soft ones) contradict. The later of two equal rules is named."""
    out = []
    needed = list(hard)
    for rule in reversed(rules):
        others = [other for other in needed if other is not rule]
        try:
            by = ask.follows(rule, others)
            if by is not None and rule.hard:
                needed = others
                out.append(rule.spot.finding("warning", "redundant", f"already follows from {_lines(by)}", ""))
            elif by is not None:
                message = f"always holds under {_lines(by)}, so its penalty is never paid"
                out.append(rule.spot.finding("warning", "never-bites", message, ""))
            elif not rule.hard and (clash := ask.without([], [rule, *others])) is not None:
                lines = _lines(other for other in clash if other is not rule)
                message = f"cannot hold under {lines}, so its penalty is always paid"
                out.append(rule.spot.finding("warning", "always-broken", message))
        except TooLarge:
            if ask.left <= 0:
                return [*out, _large()]
            out.append(_large(rule.spot))
    return out


def _lines(rules: Iterable[Static]) -> str:
    return lines_of(rule.spot for rule in rules)


def _charged_twice(rules: list[Static], ask: Questions) -> list[Finding]:
    """Find soft rules such that a labelling that breaks one of them breaks another, too."""
    out: list[Finding] = []
    reported: set[tuple[int, int]] = set()
    product = _SideBySide(rules)
    for k, rule in enumerate(rules):
        by: list[Static] = []
        try:
            words = [word for part in rule.parts if (word := ask.word([~part])) is not None]  # each breaks the rule
            broken = [product.broken_by(word) for word in words]
            for other in sorted(set.intersection(*broken) - {k}):
                if len(by) == _MOST_NAMED:
                    break
                if (other, k) not in reported and ask.follows(rule, [rules[other]]) is not None:
                    by.append(rules[other])
                    reported.add((k, other))
        except TooLarge:
            return [*out, _large()]
        if by:
            others = _listed((other.spot, other.rule) for other in by)
            message = f"a labelling that breaks this rule also breaks {others}, so both penalties are charged; "
            message += "keep one of them, or lower this penalty to what it should add"
            out.append(rule.spot.finding("warning", "charged-twice", message))
    return out


class _SideBySide:
    """The automata of many rules that read a word together: one step of all of them is one look-up."""

    def __init__(self, rules: list[Static]) -> None:
        self._parts = [part for rule in rules for part in rule.parts]
        self._owner = np.repeat(np.arange(len(rules)), [len(rule.parts) for rule in rules])
        self._start = np.cumsum([0, *(part.n_states for part in self._parts)])[:-1].astype(np.int64)
        self._accepting = np.concatenate([part.accepting for part in self._parts]) if self._parts else np.zeros(0, bool)
        self._step: dict[int, npt.NDArray[np.int64]] = {}  # label -> (all states) the next one

    def broken_by(self, word: list[int]) -> set[int]:
        """Return the numbers of the rules that a word breaks."""
        states = self._start
        for y in word:
            if y not in self._step:
                columns = [part.step[:, y] + start for part, start in zip(self._parts, self._start, strict=True)]
                self._step[y] = np.concatenate(columns)
            states = self._step[y][states]
        return set(self._owner[~self._accepting[states]].tolist())


def short(lines: list[Entry], labels: Labels) -> list[Finding]:
    """Find rules `A next to B`, which are about tokens and end segments of A after their first one."""
    out = []
    for line in lines:
        for rule in line.rule.conjuncts() if labels.scheme is not None else ():
            if not isinstance(rule, ImmediatelyFollowedBy) or not fixed(rule):
                continue
            mask = rule.mask(resolved(rule, labels), labels)
            inside = labels.same_type & ~labels.begins[:-1] & labels.allowed[0]  # (m, m): j goes on with i's segment
            left = inside if mask is None or mask.step is None else inside & mask.step
            for name in sorted(labels.types):
                ids = [i for i, kind in enumerate(labels.type_of) if kind == name and labels.tag_of[i]]
                if inside[ids].any() and not left[ids].any():
                    longer = ImmediatelyFollowedBy(rule.a, Names.of([*rule.a.items, *rule.b.items]))
                    text = f"allows {name} only segments of one token; for longer segments, write: {longer}"
                    better = str(longer) if line.rule == rule else None
                    out.append(line.spot.finding("warning", "one-token", text, better))
    return out


# ---- rules about places -----------------------------------------------------------------------------------------


def places(lines: list[Entry], labels: Labels) -> list[Finding]:
    """Find hard token rules that leave no possible label at a position that they all name."""
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
        for entry in list(clash):
            fewer = [other for other in clash if other is not entry]
            if fewer and not np.logical_and.reduce([token for _, _, token in fewer]).any():
                clash = fewer
        if not any(entry in group for entry in clash):  # the rules without a position contradict each other
            continue
        names = _listed((spot, rule) for spot, rule, _ in clash)
        text = f"these rules leave no possible label at a position that they name: {names}"
        out.append(max(spot for spot, _, _ in clash).finding("error", "clash", text))
    return out
