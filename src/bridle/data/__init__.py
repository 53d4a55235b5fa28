"""Reading and writing files: labelled sequences in many formats, scores (npz, JSON lines), and lines of output.

A format is one file with a subclass of `Format`, which is found automatically.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from bridle.data.base import formats
from bridle.data.blocks import Pace
from bridle.data.examples import Example, Examples
from bridle.data.files import load, read, write
from bridle.data.output import Lines
from bridle.data.scores import Chunk, ScoreFile, open_scores, save_scores
from bridle.data.splitting import split_indices

for _module in iter_modules(__path__):
    if _module.name not in ("references", "pairing"):  # they are no formats, and loaded when they are needed
        import_module(f"{__name__}.{_module.name}")

__all__ = [
    "Chunk",
    "Example",
    "Examples",
    "Lines",
    "Pace",
    "ScoreFile",
    "formats",
    "load",
    "open_scores",
    "read",
    "save_scores",
    "split_indices",
    "write",
]
