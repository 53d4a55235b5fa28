"""Which hard rules cannot hold together: a minimal set of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bridle.errors import Argument, Infeasible
from bridle.rules.base import Rule, Soft


def infeasible(
    rules: Sequence[Rule], impossible: Callable[[Sequence[Rule]], bool], no_path: dict[str, Any], what: str = "labelling"
) -> Infeasible:
    """The error for rules that no labelling obeys.

    Parameters
    ----------
    rules : sequence of Rule
    impossible : callable
        Is it proved that no labelling obeys some of the rules?
    no_path : dict
        The parts of the message if even without rules there is none.
    what : str
        What rules are obeyed by.
    """
    if impossible(()):
        return Infeasible(**no_path)
    clash = list(dict.fromkeys(rule for rule in rules if not isinstance(rule, Soft)))
    for rule in list(clash):  # leave out each that is not needed; one that is not known in time to be stays in
        if impossible(fewer := [other for other in clash if other is not rule]):
            clash = fewer
    return Infeasible(
        f"no {what} obeys the hard rules", got=f"{len(clash)} that clash: " + "; ".join(map(str, clash)),
        wanted="rules that can hold together (and with the -inf scores of the lattice)",
        cause="Leave one of them out, make it soft, or decode with {argument}.",
        argument=Argument("on_infeasible", "relax"), clash=clash,
    )  # fmt: skip
