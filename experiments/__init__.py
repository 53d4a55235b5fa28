"""Experiments of the papers, built from public names of the library: one file per recipe, registered automatically."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from experiments.base import Recipe, Run, kept_file, recipe_named

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["Recipe", "Run", "kept_file", "recipe_named"]
