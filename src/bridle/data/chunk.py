"""Chunks: some sequences of a score file with all that came with them; and how large a chunk should be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

from bridle.lattice import Batch, Lattice


@dataclass(frozen=True, slots=True)
class Chunk:
    """Sequences that follow each other in a score file."""

    lattices: list[Lattice] | Batch
    givens: list[dict[str, Any]]
    ids: list[Any]  # what the file calls each sequence; its number where it has no name
    where: list[str]  # where each stands: "scores.jsonl:12", "scores.npz: sequence 3"

    def __len__(self) -> int:
        return len(self.ids)

    def cut(self, a: int, b: int) -> Chunk:
        """Sequences a .. b-1 of it."""
        part: list[Lattice] | Batch
        if isinstance(self.lattices, Batch):
            whole, cuts = self.lattices, self.lattices.offsets[a : b + 1]
            part = Batch(whole.unary[cuts[0] : cuts[-1]], cuts - cuts[0], whole.pairwise, whole.start, whole.end)
        else:
            part = self.lattices[a:b]
        return Chunk(part, self.givens[a:b], self.ids[a:b], self.where[a:b])


@dataclass(slots=True)
class Pace:
    """How many sequences to read at once: few at first and when the work is slow, so that answers come soon."""

    sequences: int = 16
    most: int = 1024
    tokens: int = 200_000

    def took(self, seconds: float) -> None:
        """Learn from the last chunk: aim at a quarter of a second up to a whole one."""
        if seconds < 0.25:
            self.sequences = min(2 * self.sequences, self.most)
        elif seconds > 1:
            self.sequences = max(self.sequences // 2, 1)


@dataclass(frozen=True, slots=True)
class ScoreFile:
    """An open score file. Chunks are read as they are asked for; it closes after the last one, or as a `with` ends."""

    labels: tuple[str, ...] | None  # names of the columns, if the file has them
    chunks: Iterator[Chunk]
    total: int | None  # bytes (JSON lines) or sequences (npz) there are
    done: Callable[[], int]  # how many of them have been read
    close: Callable[[], None]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
