"""Settings for all tests: repeatable runs, nothing written in the working folder."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.configuration import set_hypothesis_home_dir

from commands import Cli
from strategies import SOAK

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background: Ctrl-C is what some tests are about
    signal.signal(signal.SIGINT, signal.default_int_handler)
set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "bridle-hypothesis")
settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=100)
settings.register_profile(
    "soak", deadline=None, max_examples=5000, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("soak" if SOAK else "repeatable")


@pytest.fixture(scope="session")
def run() -> Cli:
    """The command line: `run("decode", path)` returns what CliRunner does; `run.start(...)` starts a process."""
    return Cli()
