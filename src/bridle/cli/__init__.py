"""The command line: parse, call, print. What it does is written elsewhere; a command is imported when it is called."""

from bridle.cli.base import app

__all__ = ["app"]
