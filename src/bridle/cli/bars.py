"""Bars that show how far a command is; they stay out of pipes and files."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


class Source(Protocol):
    """What is read, and how far."""

    @property
    def total(self) -> int | None:
        """All there is."""

    @property
    def done(self) -> Callable[[], int]:
        """How much has been read."""


def on_terminal(stream: IO[Any] | None) -> bool:
    """Does somebody look at it? A stream may be closed."""
    return stream is not None and stream.isatty()


def shown(asked: bool | None) -> bool:
    """Is progress to be told? On a terminal, unless the options say otherwise."""
    return on_terminal(sys.stderr) if asked is None else asked


@contextmanager
def progress_bar(asked: bool | None, source: Source, out: str | None, doing: str = "decoding") -> Iterator[Bar]:
    """A bar on stderr: when asked for, or after a second if stderr is a terminal that shows nothing else."""
    step = Bar(source, doing)
    free = on_terminal(sys.stderr) and (out not in (None, "-") or not on_terminal(sys.stdout))
    if asked is True or (asked is None and free):
        step.wait = 0.0 if asked else 1.0
    try:
        yield step
        if step.bar is not None:
            step()  # the last step may have been some time ago
    finally:
        if step.bar is not None:
            step.bar.stop()


@dataclass
class Bar:
    """Moves the bar; makes it when it is time."""

    source: Source
    doing: str
    wait: float = float("inf")  # seconds before it is shown
    begun: float = field(default_factory=time.monotonic)
    bar: Progress | None = None

    def __call__(self) -> None:
        if time.monotonic() - self.begun < self.wait:
            return
        if self.bar is None:
            parts = (TextColumn(self.doing), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
            self.bar = Progress(*parts, console=Console(stderr=True))
            self.bar.add_task("", total=self.source.total)
            self.bar.start()
        self.bar.update(self.bar.task_ids[0], completed=self.source.done())
