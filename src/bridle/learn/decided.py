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
    """Labels of those tokens of many sequences on which rules decide.

    Attributes
    ----------
    ids : array of int, shape (N,)
        Label id of each token, end to end; -1 where nothing is decided.
    offsets : array of int, shape (B + 1,)
        Where each of the B sequences begins, and N at the end.
    labels : Labels
        The labels.
    """

    ids: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    labels: Labels

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def share(self) -> float:
        """Share of the tokens that are decided."""
        return float((self.ids >= 0).mean()) if len(self.ids) else 0.0

    def names(self) -> list[list[str | None]]:
        """List the labels by name.

        Returns
        -------
        list of list of str or None
            Per sequence a label per token; None where nothing is decided.
        """
        names: list[str | None] = [*self.labels.names, None]
        flat = [names[y] for y in self.ids.tolist()]
        cuts = self.offsets.tolist()
        return [flat[a:b] for a, b in pairwise(cuts)]

    def constrain(self, batch: Batch, labels: Labels | None = None) -> Batch:
        """Leave each decided token only its label, for any engine.

        Parameters
        ----------
        batch : Batch
            Scores of the same sequences.
        labels : Labels, optional
            Labels of the scores, if they differ.

        Returns
        -------
        Batch
            A copy in which all other labels of decided tokens are impossible.

        Raises
        ------
        LatticeError
            If the scores belong to other sequences or labels.
        LabelError
            If the scores lack a decided label.
        """
        if not np.array_equal(batch.offsets, self.offsets):
            raise LatticeError("the lattices belong to other sequences", got="other lengths", wanted="those decided on")
        of = self.labels if labels is None else labels
        try:
            number = np.array([of.id(name) for name in self.labels.names], dtype=np.int64)
        except LabelError as error:
            raise LabelError("the lattices lack a decided label", got=error.got, wanted=error.wanted) from None
        if batch.n_labels != len(of):
            raise LatticeError("the lattices have other labels", got=batch.n_labels, wanted=len(of))
        sure = np.flatnonzero(self.ids >= 0)
        unary = batch.unary.copy()
        kept = unary[sure, number[self.ids[sure]]]
        unary[sure] = -np.inf
        unary[sure, number[self.ids[sure]]] = kept
        return replace_unary(batch, unary)

    def words(self, k: int, longest: int, begin: str = "B") -> Iterator[tuple[int, int]]:
        """List the spans of one sequence that may be words.

        A token decided to be `begin` begins a word; one decided to be anything else does not.

        Parameters
        ----------
        k : int
            Number of the sequence, from 0.
        longest : int
            Maximum number of tokens in a word.
        begin : str, default "B"
            Label of the first token of a word.

        Yields
        ------
        tuple of int
            A span (start, end), end not included.
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
    return Batch(unary, batch.offsets, batch.pairwise, batch.start, batch.end)._with_steps(batch.steps)
