"""The command line as tests call it, in this process or in one of its own; `conftest.py` makes it the fixture `run`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import bridle

Result = Any  # what CliRunner.invoke returns: exit_code, stdout, stderr, output


@dataclass(frozen=True)
class Cli:
    """`run("decode", path)` is `bridle decode PATH`, with or without some words in front of all others."""

    first: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, *args: object, stdin: str | bytes | None = None, **more: Any) -> Result:
        """Call it in this process."""
        from bridle import cli  # most tests need no commands

        words = [*self.first, *map(str, args)]
        return CliRunner(env=self.env).invoke(cli.app, words, input=stdin, prog_name="bridle", **more)

    def ok(self, *args: object, code: int = 0, **more: Any) -> Result:
        """Run a command line whose exit code is known."""
        result = self(*args, **more)
        assert result.exit_code == code, result.output
        return result

    def stdout(self, *args: object, **more: Any) -> str:
        """Return what a command line prints."""
        return str(self.ok(*args, **more).stdout)

    def start(self, *args: object, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[bytes]:
        """Start it in a process of its own, with the Bridle that is tested."""
        path = os.pathsep.join([str(Path(bridle.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "bridle", *self.first, *map(str, args)]
        environment = {**os.environ, "PYTHONPATH": path, **self.env, **(env or {})}
        return subprocess.Popen(command, env=environment, **{"stderr": subprocess.PIPE, **options})
