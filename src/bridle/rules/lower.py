"""Rules bound to a batch of sequences: masks and automata, as packed arrays.

What is static is lowered once and kept (`Lowering`). What comes with the sequences (`given`, token texts, positions) is
filled in for the whole batch at once, column by column: no Python object per sequence and rule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.automata import CountingAutomaton
from bridle.errors import BridleError, GivenError, RuleError
from bridle.labels import Bools, Labels
from bridle.rules.base import Mask, Names, Place, Rule, Sets, Soft, named
from bridle.rules.refer import Given, Tokens, label_names, missing

Ints = npt.NDArray[np.int64]
Givens = Sequence[Mapping[str, Any]] | None
AllSets = tuple[Sets, ...]  # of all label fields of a rule


@dataclass(frozen=True, slots=True)
class Part:
    """Automata of one rule. Sequence b automata automata[which[b]] (none if -1); all automaton automata[0] if which is None."""

    rule: int
    automata: list[_native.CountingAutomaton]
    which: npt.NDArray[np.int32] | None = None  # (B,)
    marks: npt.NDArray[np.uint8] | None = None  # (N,)  the table of each token


@dataclass(slots=True)
class Bound:
    """The rules of a batch in the form that engines read."""

    step: Bools | None = None  # (m, m)  allowed transitions; None: all are
    first: Bools | None = None  # (m,)    allowed first labels
    last: Bools | None = None  # (m,)    allowed last labels
    allowed: npt.NDArray[np.uint64] | None = None  # (N, words)  allowed labels of each token, as bits
    tied: npt.NDArray[np.uint8] | None = None  # (N,)  must a token have the type of the one before?
    parts: list[Part] = field(default_factory=list)


class _Columns:
    """The values that came with the sequences of a batch."""

    def __init__(self, offsets: Ints, givens: Givens, first: int = 0) -> None:
        self.offsets, self.givens = offsets, givens
        self.first = first  # the number of the first sequence, for messages
        self.lengths = np.diff(offsets)

    def values(self, key: str) -> list[Any]:
        """given[key] of all sequences."""
        if self.givens is None:
            if len(self.lengths):
                raise missing(key, None)
            return []
        try:
            return [given[key] for given in self.givens]
        except (KeyError, TypeError):
            for b, given in enumerate(self.givens):
                if not isinstance(given, Mapping) or key not in given:
                    raise missing(key, given, self._number(b)) from None
            raise

    def positions(self, place: Place) -> tuple[Ints, Ints]:
        """Tokens (counted over the batch) that a place names, and the sequence of each."""
        source = place.source
        if isinstance(source, Tokens):
            return self._matching(source)
        values = self.values(source.key) if isinstance(source, Given) else [source] * len(self.lengths)
        try:
            owner, low, high = self._spans(values) if place.tied else self._points(values)
        except (TypeError, ValueError, OverflowError):
            self._blame(place)
            raise
        size = self.lengths[owner]
        if place.tied:
            if ((low < 0) | (high < low) | (high > size)).any():
                self._blame(place)
            counts = np.maximum(high - low - 1, 0)
            owner = np.repeat(owner, counts)
            within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
            return np.repeat(low + 1, counts) + within + self.offsets[owner], owner
        if ((low < -size) | (low >= size)).any():
            self._blame(place)
        return np.where(low < 0, low + size, low) + self.offsets[owner], owner

    def _points(self, values: list[Any]) -> tuple[Ints, Ints, Ints]:
        if set(map(type, values)) <= {int}:
            flat = np.array(values, dtype=np.int64)
            return np.arange(len(values)), flat, flat
        lists = [(v,) if isinstance(v, (int, np.integer)) else v for v in values]
        if any(isinstance(v, (str, bytes, Mapping)) for v in lists):
            raise TypeError("positions")
        items = list(chain.from_iterable(lists))
        if not all(isinstance(i, (int, np.integer)) and not isinstance(i, bool) for i in items):
            raise TypeError("positions")
        flat = np.array(items, dtype=np.int64)
        return np.repeat(np.arange(len(lists)), [len(v) for v in lists]), flat, flat

    def _spans(self, values: list[Any]) -> tuple[Ints, Ints, Ints]:
        lists = [[v] if len(v) == 2 and isinstance(v[0], (int, np.integer)) else v for v in values]
        pairs = list(chain.from_iterable(lists))
        if not set(map(len, pairs)) <= {2}:
            raise TypeError("spans")
        flat = np.fromiter(map(index, chain.from_iterable(pairs)), dtype=np.int64, count=2 * len(pairs))
        return np.repeat(np.arange(len(lists)), list(map(len, lists))), flat[::2], flat[1::2]

    def _matching(self, source: Tokens) -> tuple[Ints, Ints]:
        try:
            texts, which = self._texts
        except TypeError:
            self._blame(Place(source))
            raise
        matches = re.compile(source.pattern).fullmatch
        hit = np.fromiter((matches(str(text)) is not None for text in texts), dtype=bool, count=len(texts))
        tokens = np.flatnonzero(hit[which])
        return tokens, np.searchsorted(self.offsets, tokens, side="right") - 1

    @cached_property
    def _texts(self) -> tuple[list[str], Ints]:
        """The distinct texts of the tokens, and which of them each token has: many rules ask for them."""
        lists = self.values("tokens")
        if any(isinstance(t, (str, bytes)) for t in lists):
            raise TypeError("tokens")
        sizes = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
        if (sizes != self.lengths).any():
            b = int(np.flatnonzero(sizes != self.lengths)[0])
            raise GivenError(
                "given['tokens'] has another length than the sequence",
                got=int(sizes[b]),
                wanted=int(self.lengths[b]),
                sequence=self._number(b),
            )
        flat = list(chain.from_iterable(lists))
        number = {text: k for k, text in enumerate(dict.fromkeys(flat))}
        return list(number), np.fromiter(map(number.__getitem__, flat), dtype=np.int64, count=len(flat))

    def _blame(self, place: Place) -> None:
        """Find the sequence whose positions are wrong and raise its error."""
        for b, n in enumerate(self.lengths.tolist()):
            try:
                place.positions(n, self.givens[b] if self.givens is not None else {})
            except BridleError as error:
                raise error.at(sequence=self._number(b)) from None

    def _number(self, b: int) -> int | None:
        """The number of a sequence, if there are many, for messages."""
        return self.first + b if self.first or len(self.lengths) > 1 else None

    def sets(self, names: tuple[Names, ...], labels: Labels) -> tuple[list[AllSets], npt.NDArray[np.int32] | None]:
        """The distinct label sets of a rule's fields, and which of them each sequence has (None: all the one)."""
        keys = [item.key for field_ in names for item in field_.items if isinstance(item, Given)]
        if not keys:
            return [tuple(field_.resolve(labels, {}) for field_ in names)], None
        rows: list[Any] = list(zip(*(self._hashable(key) for key in keys), strict=True))
        found: dict[Any, int] = {row: k for k, row in enumerate(dict.fromkeys(rows))}
        made: list[AllSets] = []
        for row in found:
            try:
                given = {key: label_names(value, key) for key, value in zip(keys, row, strict=True)}
                made.append(tuple(field_.resolve(labels, given) for field_ in names))
            except BridleError as error:
                raise error.at(sequence=self._number(rows.index(row))) from None
        return made, np.fromiter(map(found.__getitem__, rows), dtype=np.int32, count=len(rows))

    def _hashable(self, key: str) -> list[Any]:
        """Label names of all sequences, lists as tuples."""
        values = self.values(key)
        try:
            made = [value if type(value) is str else tuple(value) for value in values]
            hash(tuple(made))
        except TypeError:
            for b, value in enumerate(values):
                try:
                    label_names(value, key)
                except BridleError as error:
                    raise error.at(sequence=self._number(b)) from None
            raise
        return made


def as_bits(allowed: Bools) -> npt.NDArray[np.uint64]:
    """(..., m) flags as (..., words) bits."""
    words = -(-allowed.shape[-1] // 64)
    padded = np.zeros((*allowed.shape[:-1], words * 64), dtype=bool)
    padded[..., : allowed.shape[-1]] = allowed
    return np.packbits(padded, axis=-1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class _Conjunct:
    """Something that must hold: a rule, or a part of a hard one."""

    number: int  # of the rule
    rule: Rule
    hard: bool
    names: tuple[Names, ...]
    places: tuple[Place, ...]
    fixed: bool  # all its labels are known


class Lowering:
    """The rules of a decoder, lowered once, bound to every batch. Hard masks are absorbed into the lattice or not."""

    def __init__(self, labels: Labels, rules: Sequence[Rule]) -> None:
        self.labels, self.rules = labels, tuple(rules)
        self._conjuncts: list[_Conjunct] = []
        for k, rule in enumerate(self.rules):
            hard = not isinstance(rule, Soft)
            for part in rule.conjuncts() if hard else (rule,):
                fixed = all(names.fixed for names in part.names())
                self._conjuncts.append(_Conjunct(k, part, hard, part.names(), part.places(), fixed))
        self._automata_of: dict[Any, list[_native.CountingAutomaton]] = {}
        self._masks: dict[Any, Mask | None] = {}
        self._bits: dict[Any, npt.NDArray[np.uint64]] = {}
        for conjunct in self._conjuncts:  # what is wrong with a rule by itself shows now, not at a sequence
            with named(self.rules[conjunct.number]):
                for names in conjunct.names:
                    Names(tuple(item for item in names.items if isinstance(item, str))).resolve(labels, {})
        self._tables: dict[tuple[bool, bool], _native.TableCache] = {}
        self._statics: dict[bool, tuple[Bound, list[_Conjunct]]] = {}
        self._static(absorb=True)

    @property
    def absorbed(self) -> list[bool]:
        """Which rules become masks as a whole, whatever is given."""
        out = [True] * len(self.rules)
        m = len(self.labels)
        for one in self._conjuncts:
            probe = tuple((frozenset(range(m)),) for _ in one.names)
            mask = one.rule.mask(probe, self.labels) if one.hard else None
            out[one.number] = out[one.number] and mask is not None and (one.fixed or mask.step is None)
        return out

    def _fixed_sets(self, one: _Conjunct) -> AllSets:
        return tuple(names.resolve(self.labels, {}) for names in one.names)

    def _mask(self, one: _Conjunct, sets: AllSets) -> Mask | None:
        key = (one, sets)
        if key not in self._masks:
            self._masks[key] = one.rule.mask(sets, self.labels)
        return self._masks[key]

    def _walks(self, one: _Conjunct, sets: AllSets, marks: tuple[int, ...]) -> list[_native.CountingAutomaton]:
        key = (one, sets, marks)
        if key not in self._automata_of:
            automata, m = one.rule.automata(sets, self.labels), len(self.labels)
            self._automata_of[key] = [to_native(CountingAutomaton.build(automaton, m, marks)) for automaton in automata]
        return self._automata_of[key]

    def _static(self, *, absorb: bool) -> tuple[Bound, list[_Conjunct]]:
        """What does not depend on the sequences; and the rules that do."""
        if absorb in self._statics:
            return self._statics[absorb]
        bound = Bound()
        later = []
        for one in self._conjuncts:
            if not one.fixed or one.places:
                later.append(one)
                continue
            with named(self.rules[one.number]):
                sets = self._fixed_sets(one)
                mask = self._mask(one, sets) if absorb and one.hard else None
                if mask is None:
                    bound.parts += [Part(one.number, [automaton]) for automaton in self._walks(one, sets, (0,))]
                    continue
            for kind in ("step", "first", "last"):
                if (here := getattr(mask, kind)) is not None:
                    so_far = getattr(bound, kind)
                    setattr(bound, kind, here if so_far is None else so_far & here)
            if mask.token is not None:
                later.append(one)
        return self._statics.setdefault(absorb, (bound, later))

    def tables(self, *, absorb: bool, tied: bool) -> _native.TableCache:
        """Where the kernels keep transition scores with the masks of these rules. tied: some tokens have the type of
        the one before.
        """
        if (absorb, tied) not in self._tables:
            static = self._static(absorb=absorb)[0]
            masks = (static.step, self.labels.same_type if tied else None, static.first, static.last)
            bytes_ = (None if mask is None else np.ascontiguousarray(mask).view(np.uint8) for mask in masks)
            self._tables[absorb, tied] = _native.TableCache(len(self.labels), *bytes_)
        return self._tables[absorb, tied]

    def bind(self, offsets: Ints, givens: Givens, *, absorb: bool, first: int = 0) -> Bound:
        """The rules for these sequences, numbered from `first`.

        absorb: hard rules that are masks become masks, else all become automata.
        """
        static, later = self._static(absorb=absorb)
        if not later:
            return static
        columns = _Columns(offsets, givens, first)
        bound = Bound(static.step, static.first, static.last, parts=list(static.parts))
        for one in later:
            with named(self.rules[one.number]):
                made, which = columns.sets(one.names, self.labels)
                masks = [self._mask(one, sets) for sets in made] if absorb and one.hard else []
                if masks and all(mask is not None and (which is None or mask.step is None) for mask in masks):
                    self._absorb(bound, columns, one, [mask for mask in masks if mask is not None], which)
                else:
                    self._automata(bound, columns, one, made, which)
        bound.parts.sort(key=lambda part: part.rule)
        return bound

    def _absorb(
        self, bound: Bound, columns: _Columns, one: _Conjunct, masks: list[Mask], which: npt.NDArray[np.int32] | None
    ) -> None:
        n_tokens, m = int(columns.offsets[-1]), len(self.labels)
        places = one.places
        if masks[0].tied:
            tokens, _ = columns.positions(places[0])
            if bound.tied is None:
                bound.tied = np.zeros(n_tokens, dtype=np.uint8)
            bound.tied[tokens] = 1
            return
        if bound.allowed is None:
            bound.allowed = np.tile(as_bits(np.ones(m, dtype=bool)), (n_tokens, 1))
        some = columns.lengths > 0
        for kind in ("token", "first", "last"):
            if getattr(masks[0], kind) is None:
                continue
            bits = np.concatenate([self._bits_of(mask, kind) for mask in masks])  # (masks, words)
            if kind == "first":
                tokens, owner = columns.offsets[:-1][some], np.flatnonzero(some)
            elif kind == "last":
                tokens, owner = columns.offsets[1:][some] - 1, np.flatnonzero(some)
            elif places:
                tokens, owner = columns.positions(places[0])
            elif which is None:
                bound.allowed &= bits[0]
                continue
            else:
                bound.allowed &= np.repeat(bits[which], columns.lengths, axis=0)
                continue
            # A token that is named twice gets the same bits twice.
            bound.allowed[tokens] &= bits[0] if which is None else bits[which[owner]]

    def _bits_of(self, mask: Mask, kind: str) -> npt.NDArray[np.uint64]:
        if (mask, kind) not in self._bits:
            self._bits[mask, kind] = as_bits(getattr(mask, kind)[None])
        return self._bits[mask, kind]

    def _automata(
        self, bound: Bound, columns: _Columns, one: _Conjunct, made: list[AllSets], which: npt.NDArray[np.int32] | None
    ) -> None:
        places, k = one.places, one.number
        table: npt.NDArray[np.uint8] | None = None
        marks: tuple[int, ...] = (0,)
        if places:
            mark = np.zeros(int(columns.offsets[-1]), dtype=np.int64)
            for bit, place in enumerate(places):
                tokens, _ = columns.positions(place)
                mark[tokens] |= 1 << bit
            few = len(places) <= 3
            marks = tuple(range(1 << len(places))) if few else tuple(np.unique(np.append(mark, 0)).tolist())
            if len(marks) > 256 or len(places) > 62:
                raise RuleError("a rule speaks of too many positions", got=len(places), wanted="a few; split the rule")
            table = (mark if few else np.searchsorted(np.array(marks), mark)).astype(np.uint8)
        found = [self._walks(one, sets, marks) for sets in made]
        for part in range(max((len(w) for w in found), default=0)):
            if which is None:
                bound.parts.append(Part(k, [found[0][part]], None, table))
                continue
            automata = [w[part] for w in found if part < len(w)]
            number = np.cumsum([part < len(w) for w in found]) - 1
            numbered = np.array([number[i] if part < len(w) else -1 for i, w in enumerate(found)], dtype=np.int32)
            bound.parts.append(Part(k, automata, np.ascontiguousarray(numbered[which]), table))


def to_native(automaton: CountingAutomaton) -> _native.CountingAutomaton:
    """The tables of an automaton in the kernels' hands."""
    count = automaton.count
    if automaton.n_states > 65_000:
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
