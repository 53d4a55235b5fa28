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


@dataclass(slots=True)
class Pace:
    """How many sequences to read at once: few at first and when the work is slow, so that results appear soon.

    Parameters
    ----------
    sequences : int, default 16
        Number of sequences of the next chunk.
    most : int, default 1024
        Maximum number of sequences of a chunk.
    tokens : int, default 200000
        A chunk ends when it has this many tokens.
    bytes : int, default 4194304
        Bytes that are read from a file at once.
    """

    sequences: int = 16
    most: int = 1024
    tokens: int = 200_000
    bytes: int = 1 << 22

    def took(self, seconds: float) -> None:
        """Adapt to the last chunk: aim at a quarter of a second to one second.

        Parameters
        ----------
        seconds : float
            Time that it took.
        """
        if seconds < 0.25:
            self.sequences = min(2 * self.sequences, self.most)
        elif seconds > 1:
            self.sequences = max(self.sequences // 2, 1)


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
