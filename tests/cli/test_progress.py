"""Progress on stderr: a bar on a terminal, a line now and then in a pipe."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from bridle.cli import progress
from bridle.cli.progress import ProgressBar


class Clock:
    """A clock that tests set."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def terminals(monkeypatch: pytest.MonkeyPatch, *, stderr: bool, stdout: bool = False) -> io.StringIO:
    """Say which streams are terminals; returns what bars are drawn on."""
    drawn = io.StringIO()
    monkeypatch.setattr(progress, "on_terminal", lambda stream: stderr if stream is sys.stderr else stdout)
    monkeypatch.setattr("rich.console.Console", lambda **_: Console(file=drawn))
    return drawn


def test_a_pipe_gets_a_line_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    terminals(monkeypatch, stderr=False)
    with ProgressBar(None, "training") as bar:
        for clock.now in range(1, 36):
            bar(int(clock.now), 500, "loss 1")
            bar.say("c1 0")
    assert capsys.readouterr().err.splitlines() == [f"  training:  {k}/500  loss 1" for k in (10, 20, 30)]
    with ProgressBar(True, "tagging") as bar:
        for k in range(11):
            clock.now += 0.2
            bar(100 * k, 1000)
            bar.say(f"step {k}")
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "step" in line] == [f"  step {k}" for k in range(11)]
    assert "  tagging:  0%" in lines and lines[-1] == "  tagging:  100%"
    with ProgressBar(False, "tagging") as bar:
        clock.now += 100
        bar(1, 2)
        bar.say("no")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("asked", "out", "stdout", "wait"),
    [(None, None, False, 1.0), (None, "file", True, 1.0), (None, None, True, None), (True, None, True, 0.0),
     (False, "file", False, None)],
)  # fmt: skip
def test_a_terminal_gets_a_bar_unless_the_data_goes_there(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, asked: bool | None, out: str | None, stdout: bool, wait: float | None
) -> None:
    drawn = terminals(monkeypatch, stderr=True, stdout=stdout)
    with ProgressBar(asked, "reading", out) as bar:
        clock.now = 0.9
        bar(1, 10)
        assert (wait == 0.0) is (bar._bar is not None)
        clock.now = 1.1
        bar(9, 10)
        bar(10, 10)
    assert bar.visible is (wait is not None) and ("reading" in drawn.getvalue()) is bar.visible
    if bar.visible:
        assert bar._bar.tasks[0].completed == 10  # the last step is drawn, too


def test_a_bar_needs_a_step(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    terminals(monkeypatch, stderr=True)
    with ProgressBar(True, "reading") as bar:
        pass
    assert bar._bar is None and capsys.readouterr().err == ""
