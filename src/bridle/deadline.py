"""A point in time by which a call must be over."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass


class OutOfTime(Exception):  # noqa: N818
    """The deadline has passed; whoever set it answers with what there is."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in time, on the clock of `time.perf_counter`; by default never."""

    at: float = math.inf

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """The deadline of a call that begins now; None: it may take as long as it likes."""
        return cls() if seconds is None else cls(time.perf_counter() + seconds)

    @property
    def left(self) -> float | None:
        """Seconds that are left, not below 0; None: no limit."""
        return None if self.at == math.inf else max(self.at - time.perf_counter(), 0.0)

    def passed(self, ahead: float = 0.0) -> bool:
        """Is it over, or will it be when something that takes `ahead` seconds is done?"""
        return self.at < math.inf and time.perf_counter() + ahead >= self.at

    def check(self, ahead: float = 0.0) -> None:
        """Raise `OutOfTime` if it has passed, or will have."""
        if self.passed(ahead):
            raise OutOfTime


NEVER = Deadline()
