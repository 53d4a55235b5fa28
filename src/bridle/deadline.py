"""The deadline of a call, and a `Stop` that another thread may set before it."""

from __future__ import annotations

import math
import time
from contextvars import ContextVar, Token
from dataclasses import dataclass

from bridle import _native

_stop: ContextVar[_native.Stop | None] = ContextVar("bridle_stop", default=None)


class OutOfTime(Exception):  # noqa: N818
    """The deadline has passed; its owner returns the best result so far."""


class stopping:  # noqa: N801 - it reads as a statement: with stopping(stop): ...
    """A context whose work a `Stop` can end: it raises `KeyboardInterrupt`, as with Ctrl-C.

    Kernels take the stop as an argument. Loops in Python that can be long ask `check_stopped()` instead, because an
    argument would have to pass through everything between a call and its loops: parsers, all kinds of rules, automata,
    the linter. Threads that work on parts of a call get its stop by `decoding.threads`.

    None leaves the stop of the work around it in place.

    Examples
    --------
    >>> from bridle._native import Stop
    >>> stop = Stop()
    >>> stop.set()
    >>> with stopping(stop):
    ...     try:
    ...         check_stopped()
    ...     except KeyboardInterrupt:
    ...         print("stopped")
    stopped
    """

    __slots__ = ("_stop", "_token")

    def __init__(self, stop: _native.Stop | None) -> None:
        self._stop = stop

    def __enter__(self) -> None:
        self._token: Token[_native.Stop | None] | None = None if self._stop is None else _stop.set(self._stop)

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _stop.reset(self._token)


def current_stop() -> _native.Stop | None:
    """Return the stop of the work around the call; None: it cannot be stopped."""
    return _stop.get()


def check_stopped() -> None:
    """Raise `KeyboardInterrupt` if the work around the call was stopped."""
    stop = _stop.get()
    if stop is not None and stop.is_set():
        raise KeyboardInterrupt


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in time, on the clock of `time.perf_counter`; by default never."""

    at: float = math.inf

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """Return the deadline of a call that begins now; None: no limit."""
        return cls(math.inf if seconds is None else time.perf_counter() + seconds)

    @property
    def left(self) -> float | None:
        """Seconds that are left, not below 0; None: no limit."""
        return None if self.at == math.inf else max(self.at - time.perf_counter(), 0.0)

    def passed(self, ahead: float = 0.0) -> bool:
        """Return whether it has passed, or will have passed in `ahead` seconds."""
        return self.at < math.inf and time.perf_counter() + ahead >= self.at

    def check(self, ahead: float = 0.0) -> None:
        """Raise `OutOfTime` if it has passed, or will have; `KeyboardInterrupt` if the work was stopped."""
        check_stopped()
        if self.passed(ahead):
            raise OutOfTime


NEVER = Deadline()
