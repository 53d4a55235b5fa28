"""`search`: lazy folding, Lagrangian bounds and best-first search (cpp/search.h); what `auto` uses beyond masks."""

from __future__ import annotations

from dataclasses import dataclass

from bridle.checks import is_integer
from bridle.decoding.problem import bad_option
from bridle.engines.base import NativeEngine


@dataclass(frozen=True)
class Search(NativeEngine):
    """Exact search that looks at rules only where they are violated.

    Parameters
    ----------
    max_product_states : int, default 64
        Violated rules are folded into the lattice while their product automaton has at most this many states, from 1
        to 4096. The answers do not depend on it, only the time.

    Raises
    ------
    EngineError
        If the option is bad.

    Examples
    --------
    >>> import bridle
    >>> lattice = bridle.Lattice([[0, 2], [0, 1], [0, 3]])
    >>> engine = bridle.engines.Search(max_product_states=8)
    >>> d = bridle.Decoder(["A", "B"], ["at most 2 tokens of B"], engine).decode(lattice)
    >>> d.labels, d.optimal
    (['B', 'A', 'B'], True)
    """

    name = "search"
    told = ("max_product_states",)
    counters = ("rounds", "passes", "expansions", "states", "active", "multipliers")
    max_product_states: int = 64

    def __post_init__(self) -> None:
        if not is_integer(self.max_product_states, 1, 4096):
            raise bad_option("max_product_states", self.max_product_states, "a whole number from 1 to 4096")
