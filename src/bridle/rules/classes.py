"""Labels that a rule does not have to distinguish: they share a class, and automata have one column per class.

m labels (y)    C classes (c)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bridle.automata import Classes, LazyAutomaton
from bridle.errors import RuleError
from bridle.labels import Bools, Labels

_MOST = 4096  # classes: what is made of them has C x C cells


def by_sets(m: int, *sets: frozenset[int]) -> Classes:
    """(m,): labels that lie in the same ones of some sets share a class."""
    classes = np.zeros(m, dtype=np.uint16)
    for k, ids in enumerate(sets):
        classes[list(ids)] |= 1 << k
    return classes


def joint(automata: Sequence[LazyAutomaton]) -> Classes | None:
    """(m,): labels that all of these automata read alike share a class; None if one of them does not know."""
    if not automata or any(automaton.classes is None for automaton in automata):
        return None
    columns = np.stack([automaton.classes for automaton in automata if automaton.classes is not None])
    return np.unique(columns, axis=1, return_inverse=True)[1].reshape(-1).astype(np.uint16)


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """How labels make segments, as far as segments of some labels are concerned."""

    inside: Bools  # (C,)  is the class among these labels?
    begins: Bools  # (C + 1, C)  does a segment begin at class j just after class i? The last row: at the start


def by_segments(ids: frozenset[int], labels: Labels) -> tuple[Classes, Segments]:
    """Classes (m,) of labels for segments of some labels, and how they make them.

    What matters of a label: is it among them, which type has it, does it always begin or end a segment. Labels of
    other types are one class: next to any of these labels, a segment begins.
    """
    classes = np.zeros(len(labels), dtype=np.uint16)
    kinds = {kind: k for k, kind in enumerate(dict.fromkeys(labels.kinds[y] for y in sorted(ids)))}
    members = [y for kind in kinds for y in labels.by_kind[kind]]
    others = len(members) < len(labels)
    number: dict[tuple[int, bool, bool, bool], int] = {}
    for y in members:
        what = (kinds[labels.kinds[y]], y in ids, labels.first[y], labels.last[y])
        classes[y] = number.setdefault(what, len(number) + others)
    if len(number) > _MOST:
        raise RuleError(
            "a rule counts segments of too many labels together",
            got=f"{len(number):,} kinds of labels",
            wanted=f"at most {_MOST:,}",
            cause="Count tokens, or split the rule.",
        )
    return classes, _segments(tuple(number), others)


def by_tokens(ids: frozenset[int], labels: Labels) -> tuple[Classes, Segments]:
    """The same where every token of these labels counts as a segment."""
    classes = np.zeros(len(labels), dtype=np.uint16)
    others = len(ids) < len(labels)
    classes[list(ids)] = others
    return classes, _segments(((0, True, True, True),) if ids else (), others)


@lru_cache(maxsize=32)
def _segments(kinds: tuple[tuple[int, bool, bool, bool], ...], others: bool) -> Segments:
    rows = [(-1, False, False, False)] * others + list(kinds) + [(-2, False, False, True)]  # and the start
    kind, inside, first, last = np.array(rows, dtype=np.int64).T
    begins = (kind[:, None] != kind) | (first > 0) | (last > 0)[:, None]
    return Segments(inside[:-1] > 0, begins[:, :-1])
