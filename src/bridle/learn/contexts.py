"""Contexts of deterministic rules (Zhao & Marcus 2012, Table 2), and the few of them that must be looked up.

    a rule is implied if a context that holds wherever its own does is a rule for the same label:
    one with a place less, or with a derived column (morph) in place of the text it is derived from

Whatever rules fire on a token, they decide the same without those that are implied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.features import Encoded, Template, TemplateFeatures
from bridle.features.derived import FIRST
from bridle.features.prepared import Prepared
from bridle.features.templates import Place

Ids = npt.NDArray[np.int32]
Keys = npt.NDArray[np.uint64]


def _grams(columns: Sequence[str]) -> dict[str, list[str]]:
    """Table 2: the token and one neighbour, or both, each as any of the columns."""
    bigrams = [f"{a}[{k}] {b}[{k + 1}]" for k in (-1, 0) for a, b in product(columns, columns)]
    trigrams = [f"{a}[-1] {b}[0] {c}[1]" for a, b, c in product(columns, repeat=3)]
    return {"bigram": bigrams, "trigram": trigrams, "both": bigrams + trigrams}


TEMPLATES = {"words": _grams(["word", "morph"]), "characters": _grams(["char"])}


class Contexts(TemplateFeatures):
    """Attributes that decide labels."""

    _decider: _native.Decider | None = None

    def keep(self, kept: npt.NDArray[np.bool_], encoded: Encoded | None = None) -> Encoded:
        """Forget the other contexts."""
        self._decider = None
        return super().keep(kept, encoded)

    def agreed(self, prepared: Prepared, label: Ids) -> Ids:
        """(N) The label on which all contexts of a token agree, -1 where there is none. label: what each decides."""
        if self._decider is None:
            self._decider = _native.Decider(self._known, np.where(self.implied(label), np.int32(-1), label))
        offsets = prepared.packed.offsets
        out = np.empty(int(offsets[-1]), dtype=np.int32)
        self._decider.decide(self._ids(prepared), offsets, out)
        return out

    def implied(self, label: Ids) -> npt.NDArray[np.bool_]:
        """Which contexts have a more general one that decides the same."""
        of, key = np.empty(len(self), dtype=np.int32), np.empty(len(self), dtype=np.uint64)
        self._known.list(of, key)
        sizes = self._sizes
        known: dict[Template, tuple[npt.NDArray[Any], Keys]] = {}  # numbers and keys, by key
        for k, line in enumerate(self.templates.lines):
            if prod(sizes[place.column] for place in line.places) < 2**64:  # else keys are hashes
                numbers = np.flatnonzero(of == k)
                numbers = numbers[np.argsort(key[numbers])]
                known[line] = numbers, key[numbers]
        out = np.zeros(len(self), dtype=bool)
        for line, (numbers, keys) in known.items():
            for general, ids in self._more_general(line, _cut(keys, [sizes[p.column] for p in line.places])):
                theirs, sought = known.get(general, (of[:0], key[:0]))
                if not len(theirs):
                    continue
                asked = _joined(ids, [sizes[p.column] for p in general.places])
                at = np.minimum(np.searchsorted(sought, asked), len(sought) - 1)
                out[numbers] |= (sought[at] == asked) & (label[theirs[at]] == label[numbers])
        return out

    def _more_general(self, line: Template, ids: list[Keys]) -> Iterator[tuple[Template, list[Keys]]]:
        """Templates that look at less, with the ids that they see."""
        for p, place in enumerate(line.places):
            before, after = line.places[:p], line.places[p + 1 :]
            yield Template(before + after), ids[:p] + ids[p + 1 :]
            for column, table in self._derived.items():
                if self._split[column][0] == place.column:
                    seen = np.concatenate([np.arange(FIRST), table]).astype(np.uint64)[ids[p]]
                    other = Place(column, place.offset)
                    yield Template((*before, other, *after)), [*ids[:p], seen, *ids[p + 1 :]]


def _cut(keys: Keys, sizes: Sequence[int]) -> list[Keys]:
    """The ids that keys were made of."""
    out: list[Keys] = []
    for size in reversed(sizes):
        keys, ids = np.divmod(keys, np.uint64(size))
        out.append(ids)
    return out[::-1]


def _joined(ids: Sequence[Keys], sizes: Sequence[int]) -> Keys:
    """Keys as the kernel makes them."""
    keys = np.zeros_like(ids[0])
    for one, size in zip(ids, sizes, strict=True):
        keys = keys * np.uint64(size) + one
    return keys
