"""Decided tokens: what deterministic rules say of sequences, and how others use it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bridle.errors import LabelError, LatticeError
from bridle.labels import Labels
from bridle.lattice import Batch

UNDECIDED = -1


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """The labels of some tokens of many sequences."""

    ids: npt.NDArray[np.int32]  # (N) label, or -1: undecided
    offsets: npt.NDArray[np.int64]  # (B + 1) tokens of sequence b
    labels: Labels

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def share(self) -> float:
        """The share of tokens that are decided."""
        return float((self.ids >= 0).mean()) if len(self.ids) else 0.0

    def names(self) -> list[list[str | None]]:
        """The labels by name; None where nothing is decided."""
        names: list[str | None] = [*self.labels.names, None]
        flat = [names[y] for y in self.ids.tolist()]
        cuts = self.offsets.tolist()
        return [flat[a:b] for a, b in pairwise(cuts)]

    def constrain(self, batch: Batch, labels: Labels | None = None) -> Batch:
        """Lattices in which decided tokens have one label left, for any engine. labels: those of the lattices."""
        if not np.array_equal(batch.offsets, self.offsets):
            raise LatticeError("the lattices are of other sequences", got="other lengths", wanted="those decided on")
        of = self.labels if labels is None else labels
        try:
            number = np.array([of.id(name) for name in self.labels.names], dtype=np.int64)
        except LabelError as error:
            raise LabelError("a decided label is none of the lattices'", got=error.got, wanted=error.wanted) from None
        if batch.n_labels != len(of):
            raise LatticeError("the lattices have other labels", got=batch.n_labels, wanted=len(of))
        sure = np.flatnonzero(self.ids >= 0)
        unary = batch.unary.copy()
        kept = unary[sure, number[self.ids[sure]]]
        unary[sure] = -np.inf
        unary[sure, number[self.ids[sure]]] = kept
        return replace_unary(batch, unary)

    def words(self, k: int, longest: int, begin: str = "B") -> Iterator[tuple[int, int]]:
        """Spans (start, end) of sequence k that may be words, at most `longest` tokens long.

        A token decided to be `begin` begins a word; one decided to be anything else does not.
        """
        b = self.labels.id(begin)
        ids = self.ids[self.offsets[k] : self.offsets[k + 1]].tolist()
        n = len(ids)
        for start in range(n):
            if ids[start] not in (UNDECIDED, b) and start:
                continue
            for end in range(start + 1, min(start + longest, n) + 1):
                if end == n or ids[end] in (UNDECIDED, b):
                    yield start, end
                if end < n and ids[end] == b:
                    break


def replace_unary(batch: Batch, unary: npt.NDArray[np.floating]) -> Batch:
    """The same lattices with other unary scores."""
    return Batch(unary, batch.offsets, batch.pairwise, batch.start, batch.end)
