"""Word lattices end to end, their arcs in the place of tokens; and what an engine found for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.decoding.problem import INFEASIBLE, LIMIT, NOTHING_FOUND, OPTIMAL
from bridle.engines.highs import ProgramAnswer
from bridle.errors import LatticeError
from bridle.labels import Labels
from bridle.lattice import Scores
from bridle.spans.lattice import Ints, SpanLattice

_ARRAYS = ("n", "spans", "label", "scores", "path", "length", "score", "bound", "status", "violations", "counters")


class PackedSpans:
    """Some lattices, packed, with room for answers."""

    def __init__(self, lattices: Sequence[SpanLattice], labels: Labels, n_rules: int, first: int = 0) -> None:
        for k, lattice in enumerate(lattices):
            if not isinstance(lattice, SpanLattice):
                got = type(lattice).__name__
                raise LatticeError("this is not a word lattice", got=got, wanted="SpanLattice", sequence=first + k)
        self.lattices = lattices
        self.n = np.array([x.n for x in lattices], dtype=np.int32)
        self.offsets = np.concatenate([[0], np.cumsum([len(x) for x in lattices])]).astype(np.int64)
        self.spans = np.concatenate([np.zeros((0, 2), np.int32), *(x.spans for x in lattices)])
        self.label = np.concatenate([np.zeros(0, np.int32), *(x.labels for x in lattices)])
        self.scores = np.concatenate([np.zeros(0), *(x.scores for x in lattices)])
        if self.label.size and (top := int(self.label.max())) >= len(labels):
            raise LatticeError("a word has an unknown label id", got=top, wanted=f"below {len(labels)}")
        count = len(lattices)
        self.path = np.zeros(len(self.label), dtype=np.int32)
        self.length = np.zeros(count, dtype=np.int32)
        self.score, self.bound = np.full(count, -np.inf), np.full(count, np.inf)
        self.status = np.zeros(count, dtype=np.uint8)
        self.violations = np.zeros((count, n_rules), dtype=np.int32)
        self.counters = np.zeros((count, _native.N_COUNTERS), dtype=np.int64)
        self.stats: list[dict[str, Any]] | None = None

    @classmethod
    def joined(cls, parts: list[PackedSpans]) -> PackedSpans:
        """Parts of a batch, put together."""
        made = parts[0]
        if len(parts) == 1:
            return made
        made.lattices = [lattice for part in parts for lattice in part.lattices]
        made.offsets = np.concatenate([[0], np.cumsum([len(lattice) for lattice in made.lattices])]).astype(np.int64)
        for name in _ARRAYS:
            setattr(made, name, np.concatenate([getattr(part, name) for part in parts]))
        if made.stats is not None:
            made.stats = [row for part in parts for row in part.stats or ()]
        return made

    def forbid(self, allowed: npt.NDArray[np.uint64] | None) -> None:
        """Words whose label is not among the allowed ones become impossible."""
        self.scores = without_forbidden(self.scores, self.label, allowed)

    def fill(self, answers: Sequence[ProgramAnswer]) -> None:
        """Take the answers of integer programs."""
        self.stats = [answer.stats for answer in answers]
        for b, answer in enumerate(answers):
            self.bound[b] = answer.bound
            if answer.ids is None:
                self.status[b] = INFEASIBLE if answer.status == "infeasible" else NOTHING_FOUND
                continue
            low = self.offsets[b]
            self.status[b] = OPTIMAL if answer.status == "optimal" else LIMIT
            self.path[low : low + len(answer.ids)], self.length[b] = answer.ids, len(answer.ids)
            self.score[b] = self.scores[low + answer.ids].sum()


def without_forbidden(scores: Scores, label: Ints, allowed: npt.NDArray[np.uint64] | None) -> Scores:
    """Scores (A,) of arcs, -inf where the label is not among the allowed ones, (A, words of bits). Arcs without a label
    (-1), which no rule reads, keep theirs."""
    if allowed is None:
        return scores
    y = np.maximum(label, 0)
    bits = allowed[np.arange(len(allowed)), y >> 6] >> (y & 63).astype(np.uint64)
    return np.where((bits & np.uint64(1)).astype(bool) | (label < 0), scores, -np.inf)
