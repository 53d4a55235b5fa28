"""Rules compiled for the kernels: once per decoder, and bound to each batch.

A rule that is the same for every sequence becomes masks or automata when the decoder is made. A rule about
positions, tokens or values that come with the sequence becomes a *dependent*: the kernels read the values
themselves and ask here (`_Source`) for what they have not met yet, or cannot read.

A kernel knows of each distinct text of a column, as bytes that hold 32-bit numbers (`facts`):

    how many conditions hold | their numbers | the number of the text as a word of each list of the column

From the words it finds the phrases (cpp/text/phrases.h).
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.automata import CountingAutomaton
from bridle.deadline import check_stopped
from bridle.errors import BridleError, RuleError
from bridle.labels import Bools, Labels
from bridle.phrases import Lookup
from bridle.rules.base import Rule, Sets, Soft, named
from bridle.rules.conditions import (
    TOKENS,
    Condition,
    EndToken,
    Given,
    Role,
    TokenPlace,
    Tokens,
    TokensIn,
    parts_of,
    texts_of,
)
from bridle.rules.documents import InDocument
from bridle.rules.equal import SameLabelForEqual
from bridle.rules.patterns import Matching, matcher
from bridle.rules.references import Names, Place
from bridle.texts import Texts

Givens = Sequence[Mapping[str, Any]] | None
AllSets = tuple[Sets, ...]  # of all label fields of a rule
# What becomes a mask on the lattice: all hard rules that can, those about single tokens (word lattices), or none.
# "relaxed": none, and what a rule that was taken apart is violated by counts as one violation.
Absorb = Literal["masks", "words", "nothing", "relaxed"]
_HARD, _PER_VIOLATION, _PER_SEQUENCE, _HARD_ONCE = range(4)  # as in cpp/search/problem.h
_MOST_PLACES, _MOST_MARKS = 62, 256
_MOST_STATES = 1 << 18  # of all automata of a decoder, but for those of given values: a few seconds
_EDGES = ("step", "first", "last")  # masks on transitions, and on the ends of a sequence


@dataclass(frozen=True, slots=True, eq=False)
class _Conjunct:
    """A rule, or one part of a hard conjunction."""

    number: int  # of the rule
    rule: Rule  # without its penalty, if it is soft
    names: tuple[Names, ...]
    keys: list[str]  # keys of given values that are label names
    places: tuple[Place, ...]
    masks: frozenset[str]  # the fields of its mask that are set; none: it has no mask, or it is soft

    def agrees(self, absorb: Absorb) -> bool:
        """Return whether it is handed over as groups of tokens that should agree, without automata."""
        return isinstance(self.rule, SameLabelForEqual) and absorb != "words"

    def absorbed(self, absorb: Absorb) -> bool:
        """Return whether it becomes a mask, whatever is given."""
        if absorb in ("nothing", "relaxed") or not self.masks or ("step" in self.masks and self.keys):
            return False
        return absorb == "masks" or self.masks == {"token"}


class CompiledRules:
    """The rules of a decoder, compiled for the kernels. absorb: the form that is compiled at once."""

    def __init__(
        self, labels: Labels, rules: Sequence[Rule], options: _native.Options, *, absorb: Absorb = "masks"
    ) -> None:
        self.labels, self.rules, self.options = labels, tuple(rules), options
        self._everything = frozenset(range(len(labels.names)))
        self._conjuncts: list[_Conjunct] = []
        for number, rule in enumerate(self.rules):
            with named(rule):  # errors of a rule by itself are raised now, not at a sequence
                parts = (rule.rule,) if isinstance(rule, Soft) else rule.conjuncts()
                self._conjuncts += [self._conjunct(number, part, isinstance(rule, Soft)) for part in parts]
        self._native: dict[Absorb, _native.CompiledRules] = {}
        self.native(absorb)

    @property
    def n_bytes(self) -> int:
        """Memory of all compiled forms, measured by the kernels."""
        return sum(form.n_bytes for form in tuple(self._native.values()))

    def _conjunct(self, number: int, part: Rule, soft: bool) -> _Conjunct:
        if isinstance(part, InDocument):
            part = part.rule
        names, places = part.names(), part.places()
        if len(places) > _MOST_PLACES:
            raise RuleError("a rule names too many positions", got=len(places), wanted="fewer; split the rule")
        keys = [item.key for field in names for item in field.items if isinstance(item, Given)]
        mask = None if soft else part.mask(((self._everything,),) * len(names), self.labels)
        kinds = [name for name in ("token", *_EDGES) if getattr(mask, name, None) is not None]
        if mask is not None and mask.tied:
            kinds.append("tied")
        return _Conjunct(number, part, names, keys, places, frozenset(kinds))

    def _mode(self, rule: Rule, absorb: Absorb) -> int:
        return _HARD_ONCE if absorb == "relaxed" and len(rule.conjuncts()) > 1 else mode_of(rule)

    def absorbed(self, absorb: Absorb = "masks") -> list[bool]:
        """Return for each rule whether it becomes masks as a whole, whatever is given."""
        out = [True] * len(self.rules)
        for conjunct in self._conjuncts:
            out[conjunct.number] &= conjunct.absorbed(absorb)
        return out

    def native(self, absorb: Absorb) -> _native.CompiledRules:
        """Return the rules in one form, compiled at the first call."""
        if absorb in self._native:
            return self._native[absorb]
        masks: dict[str, Bools | None] = dict.fromkeys((*_EDGES, "token"))
        automata: list[tuple[int, _native.CountingAutomaton]] = []
        dependents, states = [], 0
        for part in self._conjuncts:
            with named(self.rules[part.number]):
                if part.places or part.keys:
                    for name in (item for names in part.names for item in names.items if isinstance(item, str)):
                        self.labels.matching(name)  # unknown labels show now
                    dependents.append(part)
                    continue
                sets = tuple(names.resolve(self.labels, {}) for names in part.names)
                mask = part.rule.mask(sets, self.labels) if part.absorbed(absorb) else None
                if mask is None:
                    tables, size = _automata_of(part.rule, sets, (0,), self.labels)
                    automata += [(part.number, automaton) for automaton in tables]
                    if (states := states + size) > _MOST_STATES:
                        raise RuleError(
                            "the automata of all rules together are too large",
                            got=f"{states:,} states or more",
                            wanted=f"at most {_MOST_STATES:,}",
                            cause="Are there many rules with large counts? Remove those that follow from others.",
                        )
                    continue
            for kind, so_far in masks.items():
                if (here := getattr(mask, kind)) is not None:
                    masks[kind] = np.ascontiguousarray(here) if so_far is None else so_far & here
        source = _Source(self.rules, self.labels, dependents, absorb)
        tied = any(part.absorbed(absorb) and "tied" in part.masks for part in dependents)
        step, first, last = (None if (bits := masks[k]) is None else bits.view(np.uint8) for k in _EDGES)
        base = None if masks["token"] is None else as_bits(masks["token"])
        same_type = self.labels.same_type.view(np.uint8) if tied else None
        native = _native.CompiledRules(len(self._everything), step, same_type, first, last, self.options, base, source)
        for rule in self.rules:
            native.add_rule(self._mode(rule, absorb), rule.penalty if isinstance(rule, Soft) else 0.0)
        for number, automaton in automata:
            native.add_automaton(number, automaton)
        if absorb == "masks":
            native.drop_redundant()  # automata that follow from masks and other hard rules
        for number, part in enumerate(dependents):
            if part.agrees(absorb):
                native.add_dependent(part.number, "agreement", [], part.keys)
                continue
            kind = "automata" if not part.absorbed(absorb) else "tied" if "tied" in part.masks else "mask"
            native.add_dependent(part.number, kind, [source.place(place, number) for place in part.places], part.keys)
        if dependents:
            source.conditions.hand_over(native)
        return self._native.setdefault(absorb, native)

    def bind(
        self,
        native: _native.CompiledRules,
        offsets: npt.NDArray[np.int64],
        givens: Givens,
        *,
        first: int = 0,
        many: bool = True,
        texts: Sequence[str] | None = None,
        errors: dict[int, BridleError] | None = None,
        stop: _native.Stop | None = None,
    ) -> _native.BoundRules:
        """Bind the rules (`native`) to these sequences, which are numbered from `first`.

        texts: of all tokens, end to end, instead of given["tokens"]. errors: receives the errors of single sequences
        (0 is the first of these), whose answers mean nothing then; None: the first error is raised.
        """
        which = None
        if not native.reads_tokens:
            texts = None
        elif isinstance(texts, Texts):  # the kernels ask once for each distinct text
            once, which = texts.distinct()
            texts = once.tolist()
        bound = native.bind(offsets, givens, texts, which, stop)
        for b, error in sorted(bound.errors.items()):
            error.sequence = first + b if many else None
            if errors is None:
                raise error
            errors.setdefault(b, error)
        return bound


def mode_of(rule: Rule) -> int:
    """Return the mode of a rule in the kernels: how its violations are charged."""
    if isinstance(rule, Soft):
        return _PER_VIOLATION if rule.per == "violation" else _PER_SEQUENCE
    return _HARD


@dataclass(eq=False)
class _Source:
    """Callbacks of the kernels about dependents: label sets, positions and texts that they have not met.

    The kernels keep it, so it must not refer to them.
    """

    _rules: tuple[Rule, ...]
    _labels: Labels
    _dependents: list[_Conjunct]
    _absorb: Absorb

    @cached_property
    def conditions(self) -> NumberedConditions:
        """The conditions on tokens of all dependents."""
        return NumberedConditions()

    def place(self, place: Place, dependent: int) -> tuple[str, Any, bool]:
        """Return a place of a dependent in the form of the kernels."""
        if type(place) is not Place:
            return "fixed", None, False  # no position, so that they call `positions`
        if isinstance(place.source, Given):
            return "given", place.source.key, place.tied
        if isinstance(place.source, TokenPlace):
            return "tokens", self.conditions.of(place.source, dependent), False
        return "fixed", place.source, place.tied

    def facts(self, column: int, text: str) -> bytes:
        """Return the facts about a text in a column."""
        return self.conditions.facts(column, text)

    def choice(self, number: int, given: Any, sequence: int, marks: Sequence[int] = ()) -> Any:
        """Return the meaning of the label names of a sequence: bits (token, first, last), or automata."""
        part = self._dependents[number]
        with named(self._rules[part.number], sequence):
            sets = tuple(names.resolve(self._labels, given or {}) for names in part.names)
            if part.absorbed(self._absorb):
                mask = part.rule.mask(sets, self._labels)
                assert mask is not None
                return tuple(None if bits is None else as_bits(bits) for bits in (mask.token, mask.first, mask.last))
            if part.agrees(self._absorb):
                return _automata_of(part.rule, sets, (0, 1), self._labels)[0]
            if len(marks) > _MOST_MARKS:
                got, wanted = f"{len(marks)} combinations", "fewer; split the rule"
                raise RuleError("a rule names too many positions", got=got, wanted=wanted)
            all_marks = tuple(marks) or tuple(range(1 << len(part.places)))
            return _automata_of(part.rule, sets, all_marks, self._labels)[0]

    def positions(self, number: int, given: Any, sequence: int, place: int, n: int) -> list[int]:
        """Return the positions of a place in a sequence of n tokens."""
        part = self._dependents[number]
        with named(self._rules[part.number], sequence):
            return part.places[place].positions(n, {} if given is None else given)

    def groups(self, number: int, given: Any, sequence: int, n: int) -> npt.NDArray[np.int32]:
        """Return the group of each token of a sequence, for a rule about agreement."""
        part = self._dependents[number]
        assert isinstance(part.rule, SameLabelForEqual)
        with named(self._rules[part.number], sequence):
            return part.rule.groups({} if given is None else given, n)

    def texts(self, number: int, given: Any, sequence: int, column: int, n: int) -> list[str]:
        """Return the values of a column of a sequence."""
        with named(self._rules[self._dependents[number].number], sequence):
            return texts_of({} if given is None else given, self.conditions.column(column), n)


_Built = tuple[list[_native.CountingAutomaton], int]  # with the number of their states


def _automata_of(rule: Rule, sets: AllSets, marks: tuple[int, ...], labels: Labels) -> _Built:
    """Return the automata of a rule. Decoders with the same labels share them, whatever a violation costs."""
    key = (rule, sets, marks)
    built: _Built | None = labels.automata.get(key)
    if built is None:
        m = len(labels.names)
        tables = rule.tables(sets, labels, marks)
        built = [to_native(table) for table in tables], sum(len(table.final) for table in tables)
        labels.automata.keep(key, built, sum(table.step.nbytes + table.violations.nbytes + 2 * m for table in tables))
    return built


def as_bits(allowed: Bools) -> npt.NDArray[np.uint64]:
    """Pack (..., m) flags into (..., words) bits."""
    words = -(-allowed.shape[-1] // 64)
    padded = np.zeros((*allowed.shape[:-1], words * 64), dtype=bool)
    padded[..., : allowed.shape[-1]] = allowed
    return np.packbits(padded, axis=-1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


def to_native(automaton: CountingAutomaton) -> _native.CountingAutomaton:
    """Hand the tables of an automaton to the kernels."""
    count = automaton.count
    if automaton.step.shape[1] > 65_000:
        got = f"{automaton.n_states} states"
        raise RuleError("the automaton of a rule is too large", got=got, wanted="at most 65,000")
    return _native.CountingAutomaton(
        step=automaton.step,
        violations=automaton.violations,
        final=automaton.final,
        class_of=automaton.class_of,
        sense=0 if count is None else 1 if count.sense == "<=" else -1,
        limit=0 if count is None else count.limit,
        edges=np.zeros(0, np.uint8) if count is None else np.ascontiguousarray(count.edges, dtype=np.uint8),
        room=np.zeros(0, np.int32) if automaton.room is None else automaton.room,
    )


# ---- conditions on tokens, numbered ---------------------------------------------------------------------------------

_Key = TypeVar("_Key", bound=Hashable)
_ROLES: tuple[Role, ...] = ("here", "after", "before")  # in a phrase, its last token, its first


class _Column:
    """The conditions on one column."""

    def __init__(self, name: str, dependent: int) -> None:
        self.name, self.dependent = name, dependent  # a dependent that reads it
        self.patterns: dict[Tokens, int] = {}  # the numbers of the conditions
        self.lists: dict[TokensIn, dict[Role, int]] = {}

    @cached_property
    def matching(self) -> Matching:
        return matcher(*((condition.pattern, condition.engine) for condition in self.patterns))

    @cached_property
    def lookups(self) -> list[Lookup]:
        return [condition.phrases.lookup(condition.ignoring) for condition in self.lists]

    def facts(self, text: str) -> bytes:
        check_stopped()
        numbers = tuple(self.patterns.values())
        holds = [numbers[k] for k in self.matching(text)] if numbers else ()
        return array("i", (len(holds), *holds, *(lookup.word(text) for lookup in self.lookups))).tobytes()


class NumberedConditions:
    """The numbers of conditions on tokens; several rules with the same condition share a number."""

    def __init__(self) -> None:
        self._numbers = count()
        self._columns: dict[str, _Column] = {}
        self._ends: dict[str, int] = {}

    def of(self, place: TokenPlace, dependent: int) -> tuple[int, int, int]:
        """Return the conditions of a place: on the token, on the one before, on the one behind; -1: none."""
        numbers = {role: self._number(condition, role, dependent) for role, condition in parts_of(place).items()}
        return numbers["here"], numbers.get("after", -1), numbers.get("before", -1)

    def _number(self, condition: Condition, role: Role, dependent: int) -> int:
        if isinstance(condition, EndToken):
            return self._numbered(self._ends, condition.end)
        name = condition.column or TOKENS
        column = self._columns.setdefault(name, _Column(name, dependent))
        if isinstance(condition, Tokens):
            return self._numbered(column.patterns, condition)
        return self._numbered(column.lists.setdefault(condition, {}), role)

    def _numbered(self, known: dict[_Key, int], key: _Key) -> int:
        if key not in known:
            known[key] = next(self._numbers)
        return known[key]

    def hand_over(self, native: _native.CompiledRules) -> None:
        """Hand all conditions to the kernels, once all places are numbered."""
        columns, lists = list(self._columns.values()), []
        for number, column in enumerate(columns):
            for roles, lookup in zip(column.lists.values(), column.lookups, strict=True):
                lists.append((number, lookup.native, *(roles.get(role, -1) for role in _ROLES)))
            if column.patterns:
                _ = column.matching  # compiled now, not at the first sequence
        ends = (self._ends.get(end, -1) for end in ("first", "last"))
        native.set_conditions([(column.name, column.dependent) for column in columns], lists, *ends)

    def column(self, number: int) -> str:
        """Return the name of a column."""
        return list(self._columns)[number]

    def facts(self, column: int, text: str) -> bytes:
        """Return the facts about a text in a column."""
        return list(self._columns.values())[column].facts(text)
