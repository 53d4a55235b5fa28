"""Labelled sequences as tables of counts, so that a rule is checked on all of them at once; wrong labellings of them.

K sequences (k)    N tokens in all    m labels (y)    U names in the rules (u)
A name is a segment type (without a scheme: a label) or the outside label.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from bridle.labels import Bools, Labels
from bridle.rules.patterns import matcher

Ints = npt.NDArray[np.int64]
NEVER = np.iinfo(np.int64).max  # the first place of a name that does not occur


@dataclass(frozen=True, eq=False)
class Counted:
    """Labellings of sequences, end to end, with the counts that rules ask for."""

    labels: Labels
    ids: Ints  # (N,)
    offsets: Ints  # (K + 1,)
    tokens: Sequence[str] | None = None  # (N,)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def sequence(self, k: int) -> Ints:
        """(n,): the labels of one sequence."""
        return self.ids[self.offsets[k] : self.offsets[k + 1]]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """(U,): in the order of their labels, the outside label last."""
        tagged = zip(self.called, self.labels.tag_of, strict=True)
        return tuple(dict.fromkeys(name for name, _ in sorted(tagged, key=lambda pair: not pair[1])))

    @cached_property
    def called(self) -> tuple[str, ...]:
        """(m,): the name of each label: its type, or itself where a rule would take the type for another label."""
        kinds = self.labels.type_of
        same = {kind: frozenset(y for y, other in enumerate(kinds) if other == kind) for kind in kinds}
        return tuple(
            kind if self.labels.matching(kind) == same[kind] else name
            for name, kind in zip(self.labels.names, kinds, strict=True)
        )

    @cached_property
    def outside(self) -> int | None:
        """The number of the name that is not a segment type; without a scheme there is none."""
        return len(self.names) - 1 if "" in self.labels.tag_of else None

    @cached_property
    def name_of(self) -> Ints:
        """(N,): the name of each token."""
        number = {name: u for u, name in enumerate(self.names)}
        return np.array([number[name] for name in self.called], dtype=np.int64)[self.ids]

    @cached_property
    def lengths(self) -> Ints:
        """(K,): the number of tokens of each sequence."""
        return np.diff(self.offsets)

    @cached_property
    def owner(self) -> Ints:
        """(N,): the sequence of each token."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @cached_property
    def at_start(self) -> Bools:
        """(N,): the first token of its sequence?"""
        starts = np.zeros(len(self.ids), dtype=bool)
        starts[self.offsets[:-1][self.lengths > 0]] = True
        return starts

    @cached_property
    def at_end(self) -> Bools:
        """(N,): the last token of its sequence?"""
        return np.append(self.at_start[1:], True) if len(self.ids) else self.at_start

    @cached_property
    def begins(self) -> Bools:
        """(N,): does a segment begin at the token? Runs of the outside label count as segments here."""
        before = np.where(self.at_start, len(self.labels), np.roll(self.ids, 1))
        return self.labels.starts(before, self.ids)

    def tally(self, u: Ints, owner: Ints) -> Ints:
        """(U, K): how often each name occurs in pairs of a name and a sequence."""
        shape = (len(self.names), len(self))
        return np.bincount(u * len(self) + owner, minlength=shape[0] * shape[1]).reshape(shape).astype(np.int64)

    @cached_property
    def segments(self) -> Ints:
        """(U, K): segments of each name."""
        return self.tally(self.name_of[self.begins], self.owner[self.begins])

    @cached_property
    def present(self) -> Bools:
        """(U, K): does the sequence have a token of the name?"""
        return self.last >= 0

    @cached_property
    def first(self) -> Ints:
        """(U, K): the first token of each name, counted over all sequences; NEVER if there is none."""
        table = np.full((len(self.names), len(self)), NEVER)
        np.minimum.at(table, (self.name_of, self.owner), np.arange(len(self.ids)))
        return table

    @cached_property
    def last(self) -> Ints:
        """(U, K): the last token of each name; -1 if there is none."""
        table = np.full((len(self.names), len(self)), -1)
        np.maximum.at(table, (self.name_of, self.owner), np.arange(len(self.ids)))
        return table

    @cached_property
    def changes(self) -> tuple[Ints, Ints, Ints]:
        """Changes from a name to another one: the first name, the second one, the sequence."""
        here = np.flatnonzero(~self.at_start & (self.name_of != np.roll(self.name_of, 1)))
        return self.name_of[here - 1], self.name_of[here], self.owner[here]

    @cached_property
    def follows(self) -> dict[tuple[int, int], Bools]:
        """(K,) for pairs of names: is there a change from the first to the second? Only pairs that occur."""
        pairs: dict[tuple[int, int], Bools] = {}
        for a, b, k in zip(*(part.tolist() for part in self.changes), strict=True):
            pairs.setdefault((a, b), np.zeros(len(self), dtype=bool))[k] = True
        return pairs

    def over(self, d: int) -> tuple[Ints, Ints, Ints]:
        """Runs of a name behind a token: the name before, the name behind (-1 at the end), the sequence."""
        if d not in self._over:
            inside = self.name_of == d
            firsts = np.flatnonzero(inside & (self.at_start | ~np.roll(inside, 1)))
            lasts = np.flatnonzero(inside & (self.at_end | ~np.roll(inside, -1)))
            firsts, lasts = (ends[~self.at_start[firsts]] for ends in (firsts, lasts))
            behind = np.where(self.at_end[lasts], -1, np.roll(self.name_of, -1)[lasts])
            self._over[d] = self.name_of[firsts - 1], behind, self.owner[firsts]
        return self._over[d]

    @cached_property
    def _over(self) -> dict[int, tuple[Ints, Ints, Ints]]:
        return {}

    def any_of(self, tokens: Bools) -> Bools:
        """(K,): has a sequence one of these tokens?"""
        return np.bincount(self.owner[tokens], minlength=len(self)) > 0

    def matching(self, pattern: str) -> Bools:
        """(N,): tokens whose text matches the whole of an expression."""
        if pattern not in self._matched:
            fits, (texts, which) = matcher((pattern, "re2")), self._distinct
            self._matched[pattern] = np.array([bool(fits(text)) for text in texts], dtype=bool)[which]
        return self._matched[pattern]

    @cached_property
    def _distinct(self) -> tuple[list[str], Ints]:
        """The different texts of tokens, and the number of that of each token, (N,)."""
        number: dict[str, int] = {}
        which = np.array([number.setdefault(text, len(number)) for text in self.tokens or ()], dtype=np.int64)
        return list(number), which

    @cached_property
    def _matched(self) -> dict[str, Bools]:
        return {}


# ---- wrong labellings ------------------------------------------------------------------------------------------------

# relabel   a segment (or one token) gets another label         merge   a segment gets the label of a neighbour
# swap      two segments exchange their labels                  split   the middle of a segment gets another label
# shift     the border of two neighbours moves by a token or two

Pieces = list[tuple[int, str]]  # length and type of each segment, end to end


def corrupt(data: Counted, number: int, seed: int) -> tuple[Counted, Ints]:
    """Make about `number` wrong labellings by the mistakes that taggers make; return them and their sequences."""
    rng = np.random.default_rng(seed)
    n = len(data)
    each = np.full(n, number // max(n, 1), dtype=np.int64)  # (K,)  as even as can be
    each[rng.permutation(n)[: number - int(each.sum())]] += 1
    wrong: list[list[Ints]] = []
    for k, tries in enumerate(each.tolist()):
        gold = data.sequence(k)
        unique = {gold.tobytes(): gold}
        for _ in range(tries if len(gold) else 0):
            ids = _corrupt(gold, data.labels, rng)
            unique.setdefault(ids.tobytes(), ids)
        wrong.append(list(unique.values())[1:])
    return wrong_labellings(data, wrong)


def wrong_labellings(data: Counted, wrong: list[list[Ints]]) -> tuple[Counted, Ints]:
    """Pack labellings, several per sequence; return them, without those that are right, and their sequences."""
    pairs = [(k, ids) for k, labellings in enumerate(wrong) for ids in labellings if (ids != data.sequence(k)).any()]
    owner = np.array([k for k, _ in pairs], dtype=np.int64)
    offsets = np.cumsum([0, *(len(ids) for _, ids in pairs)]).astype(np.int64)
    tokens, cuts = data.tokens, data.offsets
    texts = None if tokens is None else [t for k in owner for t in tokens[cuts[k] : cuts[k + 1]]]
    ids = np.concatenate([*(ids for _, ids in pairs), np.zeros(0, dtype=np.int64)]).astype(np.int64)
    return Counted(data.labels, ids, offsets, texts), owner


def _corrupt(gold: Ints, labels: Labels, rng: Generator) -> Ints:
    starts = np.flatnonzero(labels.starts(np.append(len(labels), gold[:-1]), gold)).tolist()
    pieces = [(b - a, labels.type_of[gold[a]]) for a, b in pairwise([*starts, len(gold)])]
    ways: list[Callable[[Pieces, Labels, Generator], Pieces]] = [_relabel, _split]
    if len(pieces) > 1:
        ways += [_merge, _swap, _shift]
    way = int(rng.integers(len(ways) + 1))
    if way == len(ways):
        ids = gold.copy()
        ids[rng.integers(len(gold))] = rng.integers(len(labels))
        return ids
    return _labelled(ways[way](pieces, labels, rng), labels)


def _relabel(pieces: Pieces, labels: Labels, rng: Generator) -> Pieces:
    at = int(rng.integers(len(pieces)))
    return [*pieces[:at], (pieces[at][0], _any_type(labels, rng)), *pieces[at + 1 :]]


def _split(pieces: Pieces, labels: Labels, rng: Generator) -> Pieces:
    at = int(rng.integers(len(pieces)))
    size, kind = pieces[at]
    low, high = sorted(rng.integers(size + 1, size=2).tolist())
    parts = [(low, kind), (high - low, _any_type(labels, rng)), (size - high, kind)]
    return [*pieces[:at], *(part for part in parts if part[0]), *pieces[at + 1 :]]


def _merge(pieces: Pieces, labels: Labels, rng: Generator) -> Pieces:
    at = int(rng.integers(len(pieces) - 1))
    (left, before), (right, after) = pieces[at : at + 2]
    return [*pieces[:at], (left + right, before if rng.random() < 0.5 else after), *pieces[at + 2 :]]


def _swap(pieces: Pieces, labels: Labels, rng: Generator) -> Pieces:
    i, j = rng.choice(len(pieces), size=2, replace=False).tolist()
    swapped = list(pieces)
    swapped[i], swapped[j] = (pieces[i][0], pieces[j][1]), (pieces[j][0], pieces[i][1])
    return swapped


def _shift(pieces: Pieces, labels: Labels, rng: Generator) -> Pieces:
    at = int(rng.integers(len(pieces) - 1))
    (left, before), (right, after) = pieces[at : at + 2]
    by = int(np.clip(rng.choice([-2, -1, 1, 2]), -left, right))
    moved = [(left + by, before), (right - by, after)]
    return [*pieces[:at], *(part for part in moved if part[0]), *pieces[at + 2 :]]


def _any_type(labels: Labels, rng: Generator) -> str:
    return labels.type_of[int(rng.integers(len(labels)))]


def _labelled(pieces: Pieces, labels: Labels) -> Ints:
    """Write segments as labels under the scheme; a tag that the label set lacks is replaced by one that it has."""
    ids = {(kind, tag): y for y, (kind, tag) in enumerate(zip(labels.type_of, labels.tag_of, strict=True))}
    any_of = dict(zip(labels.type_of, range(len(labels)), strict=True))
    middle = "M" if labels.scheme == "BMES" else "I"
    closed = labels.scheme in ("BIOES", "BMES")
    out = []
    for size, kind in pieces:
        tags = ["B", *[middle] * (size - 2), "E" if closed else middle][:size] if size > 1 else ["S" if closed else "B"]
        out += [ids.get((kind, tag), any_of[kind]) for tag in tags]
    return np.array(out, dtype=np.int64)
