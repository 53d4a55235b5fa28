"""The command line: parse, call, print. What it does is written elsewhere. One file per command, found by itself."""

from importlib import import_module
from pkgutil import iter_modules

from bridle.cli.base import app

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["app"]
