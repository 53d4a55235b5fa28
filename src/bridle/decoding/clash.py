"""Why a sequence has no answer: a minimal set of hard rules that cannot hold together, or a limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bridle.decoding.problem import INFEASIBLE, Limits, Problem
from bridle.engines import Search, solve_one
from bridle.errors import Argument, Infeasible, LimitReached
from bridle.lattice import Lattice
from bridle.rules.base import Rule, Soft
from bridle.rules.compiled import CompiledRules

if TYPE_CHECKING:
    from bridle.decoding.decoder import Decoder


def infeasible(
    rules: Sequence[Rule], impossible: Callable[[Sequence[Rule]], bool], no_path: dict[str, Any],
    what: str = "labelling",
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


def infeasible_on(decoder: Decoder, lattice: Lattice, given: Mapping[str, Any] | None) -> Infeasible:
    """The error for a lattice on which no labelling obeys the hard rules of a decoder."""
    limits = Limits(time_limit=decoder.limits.time_limit)

    def impossible(rules: Sequence[Rule]) -> bool:
        compiled = CompiledRules(decoder.labels, rules, limits.native())
        problem = Problem(compiled, [lattice], None if given is None else [given])
        return bool(solve_one(Search(), problem, limits).status[0] == INFEASIBLE)

    return infeasible(decoder.rules, impossible, {
        "what": "the lattice has no path", "got": "-inf on every labelling", "wanted": "one with a finite score",
        "cause": "A position where all labels are -inf, or transitions that cannot join; no rule is to blame.",
    })  # fmt: skip


def nothing_found(engine: str, bound: float) -> LimitReached:
    """The error for a limit that came before any labelling was found."""
    return LimitReached(
        f"engine {engine!r} stopped before it found a labelling that obeys the rules", bound=bound,
        got="no labelling", wanted="a higher time_limit, max_states or width",
    )  # fmt: skip
