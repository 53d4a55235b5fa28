"""Engines: one file per way to decode, each a frozen value with its own options.

Choose one by name, with its usual options, or as a value::

    Decoder(labels, rules, engine="search")
    Decoder(labels, rules, engine=bridle.engines.Beam(width=32))

A file that defines a subclass of `Engine` with a name is registered automatically.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from bridle.engines.base import Engine, engine_named, engine_names, solve_one

for _module in iter_modules(__path__):
    if _module.name in ("highs", "ilp_model"):  # imported with HiGHS when an integer program is solved
        continue
    import_module(f"{__name__}.{_module.name}")

from bridle.engines.beam import Beam  # noqa: E402  (all files are imported by now)
from bridle.engines.ilp import Ilp  # noqa: E402
from bridle.engines.lazy_intersection import LazyIntersection  # noqa: E402
from bridle.engines.product import Product  # noqa: E402
from bridle.engines.search import Search  # noqa: E402
from bridle.engines.two_stage import TwoStage  # noqa: E402
from bridle.engines.viterbi import Viterbi  # noqa: E402

__all__ = [
    "Beam",
    "Engine",
    "Ilp",
    "LazyIntersection",
    "Product",
    "Search",
    "TwoStage",
    "Viterbi",
    "engine_named",
    "engine_names",
    "solve_one",
]
