"""How far a run is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bridle.bulk.manifest import Counts


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is.

    Attributes
    ----------
    rows, tokens : int
        What has been written, including by earlier calls that this one resumed.
    share : float
        Of the input, from 0 to 1.
    rate : float
        Tokens per second, of this call.
    seconds : float
        Time since this call began.
    seconds_left : float or None
        Estimate of the time until the end; None if it is too early for one.
    errors : int
        Rows that failed.
    shard : int
        The number of shards that are finished; 0 if the output is one file.
    """

    rows: int
    tokens: int
    share: float
    rate: float
    seconds: float
    seconds_left: float | None
    errors: int
    shard: int


@dataclass
class Meter:
    """Measures a run."""

    sizes: Sequence[int]  # of the inputs, in bytes
    clock: Callable[[], float]
    before: Counts  # what earlier calls have written
    share: float = 0.0
    _first: float | None = None  # the share where this call began

    def __post_init__(self) -> None:
        self._begun = self.clock()
        if not self.before.rows:
            self._first = 0.0

    def reached(self, file: int, share: float) -> None:
        """A block was written that ends at this share of a file."""
        self.share = max(self.share, self._at(file, share))
        if self._first is None:  # where an earlier call stopped is not known, but it was just before this block
            self._first = self.share

    def _at(self, file: int, share: float) -> float:
        total = sum(self.sizes)
        done = sum(self.sizes[:file]) + (share * self.sizes[file] if file < len(self.sizes) else 0.0)
        return done / total if total else 1.0

    def progress(self, counts: Counts, shards: int) -> Progress:
        """How far it is now."""
        seconds = self.clock() - self._begun
        done = self.share - (self._first or 0.0)
        left = 0.0 if self.share >= 1 else seconds * (1 - self.share) / done if done > 0 else None
        rate = (counts.tokens - self.before.tokens) / seconds if seconds > 0 else 0.0
        errors = counts.status.get("error", 0)
        return Progress(counts.rows, counts.tokens, self.share, rate, seconds, left, errors, shards)
