"""Progress bars. They are shown only on terminals."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress


class Source(Protocol):
    """Something that is read, and how much of it has been read."""

    @property
    def total(self) -> int | None:
        """The total size."""

    @property
    def done(self) -> Callable[[], int]:
        """How much has been read."""

    # It may have a method `note` with more to show, such as a rate.


def on_terminal(stream: IO[Any] | None) -> bool:
    """Is this stream a terminal? It may be closed."""
    return stream is not None and stream.isatty()


def shown(asked: bool | None) -> bool:
    """Should progress be shown? On a terminal, unless the options say otherwise."""
    return on_terminal(sys.stderr) if asked is None else asked


def may_show(asked: bool | None, out: str | None) -> bool:
    """May there be a bar? If the options ask for it, or if stderr is a terminal that shows nothing else."""
    if asked is not None:
        return asked
    return on_terminal(sys.stderr) and (out not in (None, "-") or not on_terminal(sys.stdout))


@contextmanager
def progress_bar(asked: bool | None, source: Source, out: str | None, doing: str = "decoding") -> Iterator[Bar]:
    """A bar on stderr: at once if the options ask for it, or after a second if there may be one."""
    step = Bar(source, doing)
    if may_show(asked, out):
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
    """Updates the bar, and creates it after the waiting time."""

    source: Source
    doing: str
    wait: float = float("inf")  # seconds before it is shown
    begun: float = field(default_factory=time.monotonic)
    bar: Progress | None = None

    def __call__(self) -> None:
        if time.monotonic() - self.begun < self.wait:
            return
        if self.bar is None:  # Rich takes long to import
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            more = (TextColumn("{task.description}"),) if hasattr(self.source, "note") else ()
            parts = (TextColumn(self.doing), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), *more)
            self.bar = Progress(*parts, console=Console(stderr=True))
            self.bar.add_task("", total=self.source.total)
            self.bar.start()
        note = self.source.note() if hasattr(self.source, "note") else ""
        self.bar.update(self.bar.task_ids[0], completed=self.source.done(), description=note)
