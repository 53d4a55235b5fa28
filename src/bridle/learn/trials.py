"""Decoding with all of some rules, and with parts of them, without decoding everything again.

If the best labelling under the rules S breaks no other rule of C, it is the best under C: it scores the same there, and
every other labelling scores no more. So a sequence is decoded with the rules that its plain labelling breaks, then with
those that the result breaks as well, until there are none: the rules that it *needs*. Sequences that need the same
rules are decoded together. B sequences (b), R rules (r), N tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.arrays import ranges
from bridle.decoding.decoder import Decoder
from bridle.decoding.problem import offsets_of
from bridle.decoding.result import Decodings
from bridle.labels import Bools, Labels
from bridle.lattice import Batch, Lattices, subset
from bridle.learn.evidence import Given, Ids, Offsets, counter
from bridle.rules.base import Rule
from bridle.rules.conditions import Given as GivenValue
from bridle.rules.conditions import TokenPlace
from bridle.rules.documents import count_in_document
from bridle.rules.positions import allow
from bridle.rules.references import Place

_MOST_GROUPS = 40  # parts that are decoded one after the other, each with its own rules
_MOST_ROUNDS = 3  # then all rules are used
_FEW_RULES = 16  # are decoded with at once: that takes less time than many small parts
_AT_ONCE = 5  # conditions on tokens, with 32 labels
Numbers = npt.NDArray[np.intp]
Positions = list[list[int]]  # of each sequence


@dataclass(frozen=True, slots=True)
class Trial:
    """The best labellings under some of the rules."""

    ids: Ids  # (N,)  -1: no labelling was found
    touched: Numbers  # sequences that may differ from plain decoding
    relaxed: Bools  # (B,)  no labelling obeys the hard rules


@dataclass(frozen=True, slots=True)
class _Full:
    """Decoding with all rules."""

    trial: Trial
    needed: Bools  # (B, R)  the rules that it takes; all of them if that is not known
    broken: Bools  # (B, R)  by the result


class Trials:
    """A decoder for any part of the rules. plain: labels without rules (`plain_ids`); broken: the rules they break."""

    def __init__(
        self,
        rules: Sequence[Rule],
        labels: Labels,
        lattices: Lattices,
        given: Sequence[Given] | None,
        plain: Ids,
        *,
        broken: Bools | None = None,
        threads: int = 0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.rules, self.labels, self.lattices, self.given, self.plain = rules, labels, lattices, given, plain
        self.offsets, self.threads = offsets_of(lattices), threads
        self._options = {"on_infeasible": "relax", **(options or {})}
        self.broken = self._broken_by(np.arange(len(self.offsets) - 1), plain) if broken is None else broken

    @cached_property
    def _count(self) -> Any:
        return counter(self.rules, self.labels, threads=self.threads)

    def _broken_by(self, chosen: Numbers, ids: Ids) -> Bools:
        """(chosen, R): which rules labellings break. ids: of the chosen sequences, end to end."""
        cuts = np.concatenate([[0], np.cumsum(np.diff(self.offsets)[chosen])]).astype(np.int64)
        lost = ids < 0
        broken: Bools = self._count(np.where(lost, 0, ids).astype(np.int32), cuts, self._given_to(chosen)) > 0
        if lost.any():
            sums = np.concatenate([[0], np.cumsum(lost)])
            broken[sums[cuts[1:]] > sums[cuts[:-1]]] = False  # no labels break no rules
        return broken

    def _given_to(self, chosen: Numbers) -> list[Given] | None:
        return None if self.given is None else [self.given[b] for b in chosen.tolist()]

    def _decode(self, rules: Numbers, chosen: Numbers) -> Decodings:
        decoder = Decoder(self.labels, [self.rules[r] for r in rules.tolist()], **self._options)
        return decoder.decode_batch(subset(self.lattices, chosen), self._given_to(chosen), threads=self.threads)

    @cached_property
    def full(self) -> _Full:
        """Decoding with all rules."""
        ids, broken, needed = self.plain.copy(), self.broken.copy(), self.broken.copy()
        relaxed: Bools = np.zeros(len(broken), dtype=bool)
        touched = np.flatnonzero(broken.any(axis=1))
        self._solve(touched, np.ones(len(self.rules), dtype=bool), needed, ids, relaxed, broken)
        return _Full(Trial(ids, touched, relaxed), needed, broken)

    def _solve(self, todo: Numbers, inside: Bools, needed: Bools, ids: Ids, relaxed: Bools, broken: Bools) -> None:
        """Decode sequences under the rules `inside`, beginning with those in `needed`; fill the other arrays."""
        for done in range(_MOST_ROUNDS):
            if not len(todo):
                break
            if done == _MOST_ROUNDS - 1:
                needed[todo] = inside
            proved = np.ones(len(relaxed), dtype=bool)
            for rules, group in self._groups(needed, todo):
                decodings = self._decode(rules, group)
                ids[ranges(self.offsets, group)[0]] = decodings.ids
                relaxed[group], proved[group] = decodings.relaxed, decodings.optimal & ~decodings.relaxed
            broken[todo] = self._broken_by(todo, ids[ranges(self.offsets, todo)[0]])
            here = broken[todo] & inside
            whole = (needed[todo] == inside).all(axis=1)
            more = (here & ~needed[todo]).any(axis=1) | (~proved[todo] & ~whole)
            needed[todo] |= here | (~proved[todo, None] & inside)
            todo = todo[more]

    def _groups(self, needed: Bools, todo: Numbers) -> list[tuple[Numbers, Numbers]]:
        """Pair rules with sequences to decode with them; if there are many sets of rules, the rare ones share one."""
        keys, which, sizes = np.unique(needed[todo], axis=0, return_inverse=True, return_counts=True)
        which = which.reshape(-1)
        if len(keys) > _MOST_GROUPS:
            rare = np.argsort(-sizes, kind="stable")[_MOST_GROUPS - 1 :]
            keys[rare] = keys[rare].any(axis=0)
            which[np.isin(which, rare)] = rare[0]
        groups = []
        for k in np.unique(which).tolist():
            group = todo[which == k]
            needed[group] = keys[k]
            groups.append((np.flatnonzero(keys[k]), group))
        return groups

    def best(self, chosen: Sequence[int]) -> Trial:
        """Decode with the rules of these numbers."""
        full, inside = self.full, np.zeros(len(self.rules), dtype=bool)
        inside[list(chosen)] = True
        if inside.all():
            return full.trial
        touched: Bools = np.asarray(self.broken[:, inside].any(axis=1))
        known = touched & ~(full.needed & ~inside).any(axis=1)
        rest = np.flatnonzero(touched & ~known)
        ids = np.where(np.repeat(known, np.diff(self.offsets)), full.trial.ids, self.plain)
        relaxed: Bools = np.zeros(len(touched), dtype=bool)
        if len(rest) and inside.sum() > _FEW_RULES:
            self._solve(rest, inside, full.needed & inside, ids, relaxed, self.broken.copy())
        elif len(rest):
            decodings = self._decode(np.flatnonzero(inside), rest)
            ids[ranges(self.offsets, rest)[0]] = decodings.ids
            relaxed[rest] = decodings.relaxed
        return Trial(ids, np.flatnonzero(touched), relaxed)


def plain_ids(labels: Labels, lattices: Lattices, *, threads: int = 0, options: Mapping[str, Any] | None = None) -> Ids:
    """Return the best labels without rules, end to end; -1 where scores leave no path."""
    decoder = Decoder(labels, **{"on_infeasible": "relax", **(options or {})})
    return decoder.decode_batch(lattices, threads=threads).ids


class DocumentTrials:
    """A decoder of documents for any part of the rules; broken (D, R) and relaxed (D,) are about documents.

    cuts (D + 1): the first sequence of each document.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        labels: Labels,
        lattices: Lattices,
        given: Sequence[Given] | None,
        plain: Ids,
        cuts: Sequence[int],
        *,
        threads: int = 0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.rules, self.labels, self.plain, self.threads = rules, labels, plain, threads
        self._options = {"on_infeasible": "relax", **(options or {})}
        values: Sequence[Given] = [{}] * len(lattices) if given is None else given
        self._givens = [list(values[low:high]) for low, high in pairwise(cuts)]
        self._lattices = [[lattices[b] for b in range(low, high)] for low, high in pairwise(cuts)]
        ends = offsets_of(lattices)
        labellings = [plain[low:high].tolist() for low, high in pairwise(ends)]
        self.broken = broken_in_documents(rules, labellings, labels, values, cuts)

    def best(self, chosen: Sequence[int]) -> Trial:
        """Decode with the rules of these numbers."""
        decoder = Decoder(self.labels, [self.rules[r] for r in chosen], **self._options)
        decodings = decoder.decode_documents(self._lattices, self._givens, self.threads)
        ids = [
            np.full(len(x), -1, np.int32) if d.unanswered is not None else y
            for d, sentences in zip(decodings, self._lattices, strict=True)
            for x, y in zip(sentences, d.ids, strict=True)
        ]
        flat = np.concatenate([np.zeros(0, np.int32), *ids])
        return Trial(flat, np.arange(len(ids)), np.array([d.relaxed for d in decodings], dtype=bool))


def broken_in_documents(
    rules: Sequence[Rule],
    labellings: Sequence[Sequence[int]],
    labels: Labels,
    given: Sequence[Given],
    cuts: Sequence[int],
) -> Bools:
    """Return (D, R): which rules each document breaks, in one of its sentences or as a whole. labellings: ids."""
    broken = np.zeros((len(cuts) - 1, len(rules)), dtype=bool)
    for d, (low, high) in enumerate(pairwise(cuts)):
        ids, values = labellings[low:high], given[low:high]
        broken[d] = [count_in_document(rule, ids, labels, values) > 0 for rule in rules]
    return broken


# ---- conditions on tokens, evaluated once for many decoders ---------------------------------------------------------


def token_places(rule: Rule) -> list[TokenPlace]:
    """Return the conditions on tokens that a rule has for its positions."""
    sources = [place.source for place in rule.places() if type(place) is Place]
    return [source for source in sources if isinstance(source, TokenPlace)]


def with_positions(rule: Rule, key_of: Callable[[TokenPlace], str]) -> Rule:
    """Replace the conditions on tokens in a rule by positions that are given by these names.

    >>> from bridle.rules import parse
    >>> print(with_positions(parse("(fix A at tokens /x/) or (present B)"), lambda place: "x"))
    (fix A at given x) or (present B)
    """
    changed: dict[str, Any] = {}
    for field in fields(rule):
        value = getattr(rule, field.name)
        if isinstance(value, Rule):
            changed[field.name] = with_positions(value, key_of)
        elif type(value) is Place and isinstance(value.source, TokenPlace):
            changed[field.name] = Place(GivenValue(key_of(value.source)))
    return replace(rule, **changed) if changed else rule


def positions_of(places: Sequence[TokenPlace], offsets: Offsets, given: Sequence[Given] | None) -> list[Positions]:
    """Find where each condition on tokens holds in each sequence, by the kernels that decode.

    Labels are sets of conditions: the best labelling under `allow (sets with the condition) at (the condition)`.
    """
    positions: list[Positions] = []
    for low in range(0, len(places), _AT_ONCE):
        part = places[low : low + _AT_ONCE]
        bits = np.arange(1 << len(part))
        names = [str(y) for y in bits.tolist()]
        rules = [allow([names[y] for y in bits[bits >> k & 1 == 1]], at=place) for k, place in enumerate(part)]
        scores = np.zeros((int(offsets[-1]), len(bits)), dtype=np.float32)
        scores -= sum(bits >> k & 1 for k in range(len(part)))  # as few as the rules leave
        ids = Decoder(names, rules).decode_batch(Batch(scores, offsets), given, threads=1).ids
        for k in range(len(part)):
            tokens = np.flatnonzero(ids >> k & 1)
            cuts = np.searchsorted(tokens, offsets)
            local = (tokens - np.repeat(offsets[:-1], np.diff(cuts))).tolist()
            positions.append([local[a:b] for a, b in pairwise(cuts.tolist())])
    return positions
