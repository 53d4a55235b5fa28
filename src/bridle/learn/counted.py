"""Labelled sequences as tables of counts, so that a rule is checked on all of them at once.

K sequences (k)    N tokens in all    m labels (y)    U names in the rules (u)
A name is a segment type (without a scheme: a label) or the outside label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

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
        """(K,)"""
        return np.diff(self.offsets)

    @cached_property
    def owner(self) -> Ints:
        """(N,): the sequence of each token."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @cached_property
    def at_start(self) -> Bools:
        """(N,): the first token of its sequence?"""
        found = np.zeros(len(self.ids), dtype=bool)
        found[self.offsets[:-1][self.lengths > 0]] = True
        return found

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
        """(U, K)"""
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
        """Where a name ends and another one follows: the first name, the second one, the sequence."""
        here = np.flatnonzero(~self.at_start & (self.name_of != np.roll(self.name_of, 1)))
        return self.name_of[here - 1], self.name_of[here], self.owner[here]

    @cached_property
    def follows(self) -> dict[tuple[int, int], Bools]:
        """(K,) for pairs of names: is there a change from the first to the second? Only pairs that occur."""
        found: dict[tuple[int, int], Bools] = {}
        for a, b, k in zip(*(part.tolist() for part in self.changes), strict=True):
            found.setdefault((a, b), np.zeros(len(self), dtype=bool))[k] = True
        return found

    def any_of(self, tokens: Bools) -> Bools:
        """(K,): has a sequence one of these tokens?"""
        return np.bincount(self.owner[tokens], minlength=len(self)) > 0

    def matching(self, pattern: str) -> Bools:
        """(N,): tokens whose text matches the whole of an expression."""
        if pattern not in self._matched:
            fits = matcher((pattern, "re2"))
            known = {text: bool(fits(text)) for text in set(self.tokens or ())}
            found = (known[text] for text in self.tokens or ())
            self._matched[pattern] = np.fromiter(found, dtype=bool, count=len(self.tokens or ()))
        return self._matched[pattern]

    @cached_property
    def _matched(self) -> dict[str, Bools]:
        return {}
