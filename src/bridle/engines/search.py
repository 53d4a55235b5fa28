"""`search`: lazy folding, Lagrangian bounds and best-first search (cpp/search.h); what `auto` uses beyond masks."""

from __future__ import annotations

from bridle.engines.base import NativeEngine


class Search(NativeEngine):
    name = "search"
    counters = ("rounds", "passes", "expansions", "states", "active", "multipliers")
