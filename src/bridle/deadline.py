"""A point in time by which a call must be over."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass


class OutOfTime(Exception):  # noqa: N818
    """The deadline has passed; whoever set it answers with what there is."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in time, on the clock of `time.perf_counter`; by default never. Others may stop the work before it."""

    at: float = math.inf
    is_stopped: Callable[[], bool] | None = None  # has another thread given up what this is a part of?

    @classmethod
    def after(cls, seconds: float | None, is_stopped: Callable[[], bool] | None = None) -> Deadline:
        """The deadline of a call that begins now; None: it may take as long as it likes."""
        return cls(math.inf if seconds is None else time.perf_counter() + seconds, is_stopped)

    @property
    def left(self) -> float | None:
        """Seconds that are left, not below 0; None: no limit."""
        return None if self.at == math.inf else max(self.at - time.perf_counter(), 0.0)

    def passed(self, ahead: float = 0.0) -> bool:
        """Is it over, or will it be when something that takes `ahead` seconds is done?"""
        return self.at < math.inf and time.perf_counter() + ahead >= self.at

    def check(self, ahead: float = 0.0) -> None:
        """Raise `OutOfTime` if it has passed, or will have; `KeyboardInterrupt` if the work was stopped."""
        self.check_stopped()
        if self.passed(ahead):
            raise OutOfTime

    def check_stopped(self) -> None:
        """Raise `KeyboardInterrupt` if the work was stopped, whatever the time."""
        if self.is_stopped is not None and self.is_stopped():
            raise KeyboardInterrupt


NEVER = Deadline()
