"""Progress of long work, on stderr: a bar on a terminal; in a pipe or a log, a line every ten seconds."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bridle.cli.base import json_line, on_terminal, print_stderr

if TYPE_CHECKING:
    from bridle.runs.run import Progress

_WAIT = 1.0  # seconds before a bar is shown that was not asked for
_EVERY, _EVERY_IF_ASKED = 10.0, 1.0  # seconds between two lines in a pipe; the second one also for JSON
_COUNTED = 1000  # smaller totals are counts, such as iterations; larger ones, such as bytes, are shown as shares


class ProgressBar:
    """Show how far some work is.

    asked : --progress or --no-progress. None: a terminal gets a bar after a second, unless `out` is "-" or None and the
        data goes to the same terminal; a pipe gets a line every ten seconds.
    """

    def __init__(self, asked: bool | None, doing: str, out: str | None = "") -> None:
        self.doing, self._asked = doing, bool(asked)
        self._on_terminal = on_terminal(sys.stderr)
        is_shared = self._on_terminal and out in (None, "-") and on_terminal(sys.stdout)
        self.visible = not is_shared if asked is None else asked
        wait = 0.0 if asked else _WAIT if self._on_terminal else _EVERY
        self._due = time.monotonic() + wait
        self._bar: Any = None
        self._latest: tuple[int, int | None, str] | None = None  # what has not been shown yet

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._latest is not None and (self._asked or self._bar is not None):
            self._show()
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int | None = None, note: str = "") -> None:
        """Note how far the work is, and show it if it is time."""
        if self.visible:
            self._latest = done, total, note
            if time.monotonic() >= self._due:
                self._show()

    def say(self, text: str) -> None:
        """Print what has been done: always on a terminal and with --progress, otherwise if it is time."""
        if self.visible and (self._on_terminal or self._asked or time.monotonic() >= self._due):
            self._due = max(self._due, time.monotonic() + self._pause())
            print_stderr(f"  {text}")

    def _pause(self) -> float:
        return 0.0 if self._on_terminal else _EVERY_IF_ASKED if self._asked else _EVERY

    def _show(self) -> None:
        assert self._latest is not None
        (done, total, note), self._latest = self._latest, None
        if self._on_terminal:
            self._bar = self._bar or _new_bar(self.doing)
            self._bar.update(self._bar.task_ids[0], completed=done, total=total, note=note)
            return
        self._due = time.monotonic() + self._pause()
        share = "" if total is None else f"{done}/{total}" if total < _COUNTED else f"{done / total:.0%}"
        print_stderr("  ".join(part for part in (f"  {self.doing}:", share, note) if part))


class RunProgress(ProgressBar):
    """Show the progress of a run over blocks: in a bar or lines for people, or as lines of JSON, one a second."""

    def __init__(self, asked: bool | None, out: str | None, *, as_json: bool) -> None:
        super().__init__(as_json or asked, "tagging", out)
        self._as_json = as_json
        self._due += _EVERY_IF_ASKED if as_json else 0.0

    def update(self, progress: Progress) -> None:
        """Note how far the run is, and show it if it is time."""
        self._run = progress
        self(int(1000 * progress.share), 1000, f"{progress.rate:,.0f} tokens/s")

    def _show(self) -> None:
        if self._as_json:
            self._latest, self._due = None, time.monotonic() + _EVERY_IF_ASKED
            facts = asdict(self._run).items()
            print_stderr(json_line({key: round(x, 4) if isinstance(x, float) else x for key, x in facts}))
        else:
            super()._show()


def _new_bar(doing: str) -> Any:
    """Return a bar on stderr. Rich takes long to import."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), TextColumn("{task.fields[note]}")
    bar = Progress(doing, *columns, console=Console(stderr=True))
    bar.add_task("", total=None, note="")
    bar.start()
    return bar
