"""`search`: lazy folding, Lagrangian bounds and best-first search (search/search.h); what `auto` uses beyond masks."""

from __future__ import annotations

from dataclasses import dataclass

from bridle.arrays import is_integer
from bridle.decoding.problem import bad_option
from bridle.engines import NativeEngine


@dataclass(frozen=True)
class Search(NativeEngine):
    """Exact search that looks at rules only where they are violated.

    Parameters
    ----------
    max_product_states : int, default 64
        Violated rules are folded into the lattice while their product automaton has at most this many states, from 1
        to 4096. The answers do not depend on it, only the time.
    max_group_states : int, default 128
        States of the product automaton of such a group (see `decompose_after`), from 1 to 4096.
    decompose_after : int, default 500
        States that best-first search may look at before the rules are decomposed into groups, whose bounds are better
        but take longer. The answers do not depend on it either.

    Raises
    ------
    EngineError
        If an option is bad.

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
    native_options = ("max_product_states", "max_group_states", "decompose_after")
    counters = ("rounds", "passes", "expansions", "states", "active", "multipliers")
    max_product_states: int = 64
    max_group_states: int = 128
    decompose_after: int = 500

    def __post_init__(self) -> None:
        if not is_integer(self.max_product_states, 1, 4096):
            raise bad_option("max_product_states", self.max_product_states, "an integer from 1 to 4096")
        if not is_integer(self.max_group_states, 1, 4096):
            raise bad_option("max_group_states", self.max_group_states, "an integer from 1 to 4096")
        if not is_integer(self.decompose_after, 0, 2**62):
            raise bad_option("decompose_after", self.decompose_after, "an integer >= 0")
