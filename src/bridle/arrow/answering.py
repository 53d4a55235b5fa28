"""Rows that can be read, and their answers: decoded together; those that are at fault, apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bridle.arrow.output import Answer, Layout
from bridle.decoding.decoder import Decoder
from bridle.decoding.result import Decoding, Decodings
from bridle.errors import BridleError
from bridle.lattice import Batch, Lattice

Given = Sequence[Mapping[str, Any]] | None


class Readable(Protocol):
    """Rows that can be read: they are scored and decoded, all of them or some."""

    def __len__(self) -> int: ...

    def part(self, low: int, high: int) -> Readable:
        """Rows low .. high-1."""
        ...

    def decode(self) -> Decodings:
        """The best labelling of each row."""
        ...

    def scored(self) -> tuple[Batch, Given]:
        """The scores of all rows, and the values that rules refer to."""
        ...


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked of rows: labels, and what the layout has besides."""

    decoder: Decoder
    layout: Layout
    explain: bool  # do rows without labels have an error?

    def __call__(self, rows: Readable) -> Answer:
        """The answers to some rows; an error means that they cannot be decoded together."""
        nowhere = np.zeros(0, dtype=np.int64)
        if not self.layout.scores and self.layout.k == 1:
            return self._explained(Answer(nowhere, rows.decode()))
        batch, given = rows.scored()
        made = self._explained(Answer(nowhere, self.decoder.decode_batch(batch, given, threads=1)))
        for b, found in enumerate(made.found):
            its = batch[b], None if given is None else given[b]
            probabilities = k_best = None
            try:
                probabilities = self._probabilities(found, *its) if self.layout.scores else None
                k_best = self._k_best(found, *its) if self.layout.k > 1 else None
            except BridleError as error:  # a limit, for example: the labels are there all the same
                made.errors[b] = error
            made.probabilities.append(probabilities)
            made.k_best.append(k_best)
        return made

    def _explained(self, answer: Answer) -> Answer:
        if self.explain:
            answer.errors |= {b: one.error for b, one in answer.found.unanswered.items()}
        return answer

    def _probabilities(
        self, found: Decoding, lattice: Lattice, given: Mapping[str, Any] | None
    ) -> npt.NDArray[np.float64] | None:
        """The probability of each label, given that the hard rules hold; None if they do not."""
        if found.unanswered is not None or found.relaxed:
            return None
        table = self.decoder.marginals(lattice, given)
        return np.asarray(table[np.arange(len(found)), found.ids], dtype=np.float64)

    def _k_best(self, found: Decoding, lattice: Lattice, given: Mapping[str, Any] | None) -> Sequence[Decoding] | None:
        """The k best labellings; of a relaxed one, itself."""
        if found.unanswered is not None:
            return None
        return [found] if found.relaxed else self.decoder.k_best(lattice, self.layout.k, given)


def isolated(rows: Readable, work: Callable[[Readable], Answer]) -> Iterator[tuple[int, int, Answer | BridleError]]:
    """Work on all rows; those that are at fault are left out.

    An error names its row, so that the rows before it and those behind it are tried again, the latter in halves: each
    row is worked on a few times, however many are at fault.
    """
    stack = [(0, len(rows))]
    while stack:
        low, high = stack.pop()
        if low == high:
            continue
        try:
            yield low, high, work(rows if (low, high) == (0, len(rows)) else rows.part(low, high))
            continue
        except BridleError as error:
            if high - low == 1:
                error.sequence = None  # the row says where it is
                yield low, high, error
                continue
            at = error.sequence
            if at is not None and 0 <= at < high - low:
                error.sequence = None
                yield low + at, low + at + 1, error
                middle = (low + at + 1 + high) // 2
                stack += [(middle, high), (low + at + 1, middle), (low, low + at)]
            else:
                middle = (low + high) // 2
                stack += [(middle, high), (low, middle)]
