"""Chunks: some sequences of a score file with their given values and ids; and how large a chunk should be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

from bridle.lattice import Batch, Lattice


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some sequences of a score file that follow each other.

    Attributes
    ----------
    lattices : list of Lattice or Batch
        Their scores.
    givens : list of dict
        Values for rules, for each sequence.
    ids : list
        The id of each in the file; its number if it has none.
    where : list of str
        The place of each in its file, such as ``"scores.jsonl:12"``.
    """

    lattices: list[Lattice] | Batch
    givens: list[dict[str, Any]]
    ids: list[Any]
    where: list[str]

    def __len__(self) -> int:
        return len(self.ids)

    def cut(self, a: int, b: int) -> Chunk:
        """Take some of the sequences.

        Parameters
        ----------
        a, b : int
            The first one, and the one after the last.

        Returns
        -------
        Chunk
            Sequences `a` to ``b - 1``.
        """
        part: list[Lattice] | Batch
        if isinstance(self.lattices, Batch):
            whole, cuts = self.lattices, self.lattices.offsets[a : b + 1]
            part = Batch(whole.unary[cuts[0] : cuts[-1]], cuts - cuts[0], whole.pairwise, whole.start, whole.end)
        else:
            part = self.lattices[a:b]
        return Chunk(part, self.givens[a:b], self.ids[a:b], self.where[a:b])


@dataclass(frozen=True, slots=True)
class ScoreFile:
    """An open score file; `open_scores` makes one.

    It closes after the last chunk, or at the end of a ``with`` block.

    Attributes
    ----------
    labels : tuple of str or None
        Names of the labels, if the file has them.
    chunks : iterator of Chunk
        The sequences, read as you iterate.
    total : int or None
        Total number of bytes (JSON lines) or sequences (npz), if known.
    done : callable
        Returns how many of them have been read.
    close : callable
        Closes the file.
    """

    labels: tuple[str, ...] | None
    chunks: Iterator[Chunk]
    total: int | None
    done: Callable[[], int]
    close: Callable[[], None]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
