"""Engines: one file per way to decode. A file that defines a subclass of `Engine` with a name is found by itself."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from bridle.engines.base import Engine, engine_named, engine_names, solve_one

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["Engine", "engine_named", "engine_names", "solve_one"]
