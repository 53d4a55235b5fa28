"""Why a sequence has no answer: a minimal set of hard rules that cannot hold together, or a limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bridle.deadline import Deadline
from bridle.decoding.problem import INFEASIBLE, NOTHING_FOUND, TOO_LARGE, Limits, Problem
from bridle.engines import Search, solve_one
from bridle.errors import Argument, Infeasible, LimitReached
from bridle.lattice import Lattice
from bridle.rules.base import Rule, Soft
from bridle.rules.compiled import CompiledRules

if TYPE_CHECKING:
    from bridle.decoding.decoder import Decoder


PATIENCE = 5.0  # seconds that the search for a minimal clash may take if the decoder has no time limit


def infeasible(
    rules: Sequence[Rule],
    impossible: Callable[[Sequence[Rule], float | None], bool | None],
    no_path: dict[str, Any],
    what: str = "labelling",
    *,
    instead: str = "relax",
    seconds: float,
) -> Infeasible:
    """The error for rules that no labelling obeys.

    Parameters
    ----------
    rules : sequence of Rule
    impossible : callable
        Is it proved, within so many seconds, that no labelling obeys some of the rules? None: that is not known.
    no_path : dict
        The parts of the message if even without rules there is none.
    what : str
        What rules are obeyed by.
    instead : str
        The value of `on_infeasible` that would give an answer.
    seconds : float
        What all of it may take. Rules that are not known by then to be needless stay in.
    """
    deadline = Deadline.after(seconds)
    if impossible((), deadline.left):  # one best path without rules
        return Infeasible(**no_path)
    clash = list(dict.fromkeys(rule for rule in rules if not isinstance(rule, Soft)))
    minimal = True
    for rule in list(clash) if len(clash) > 1 else ():  # leave out each that is not needed
        fewer = [other for other in clash if other is not rule]
        needless = None if deadline.passed() else impossible(fewer, deadline.left)
        if needless:
            clash = fewer
        minimal = minimal and needless is not None
    late = (
        ""
        if minimal
        else (" The time limit was reached before every rule was shown to be necessary, so the set may not be minimal.")
    )
    many = "1 rule that cannot hold" if len(clash) == 1 else f"{len(clash)} rules that contradict each other"
    return Infeasible(
        f"no {what} obeys the hard rules",
        got=f"{many}: " + "; ".join(map(str, clash)),
        wanted="rules that can hold together (and with the -inf scores of the lattice)",
        cause="Remove one of them, make it soft, or decode with {argument}." + late,
        argument=Argument("on_infeasible", instead),
        clash=clash,
        minimal=minimal,
    )


def infeasible_on(
    decoder: Decoder, lattice: Lattice, given: Mapping[str, Any] | None, seconds: float | None = None
) -> Infeasible:
    """The error for a lattice on which no labelling obeys the hard rules of a decoder.

    seconds: what naming the rules that clash may take; None: the decoder's time limit.
    """

    def impossible(rules: Sequence[Rule], time_limit: float | None) -> bool | None:
        limits = Limits(time_limit, max_memory=decoder.limits.max_memory)
        compiled = CompiledRules(decoder.labels, rules, limits.native())
        problem = Problem(compiled, [lattice], None if given is None else [given])
        return known(int(solve_one(Search(), problem, limits).status[0]))

    return infeasible(
        decoder.rules,
        impossible,
        {
            "what": "the lattice has no path",
            "got": "-inf on every labelling",
            "wanted": "one with a finite score",
            "cause": "Either all labels of a position are -inf, or no allowed transitions connect the positions. "
            "The rules are not the cause.",
        },
        seconds=patience(decoder.limits) if seconds is None else seconds,
    )


def patience(limits: Limits) -> float:
    """What the search for a minimal clash may take, in seconds."""
    return PATIENCE if limits.time_limit is None else limits.time_limit


def known(status: int) -> bool | None:
    """Does a status say that no labelling obeys the rules? None: it says nothing."""
    return None if status in (NOTHING_FOUND, TOO_LARGE) else status == INFEASIBLE


def nothing_found(engine: str, bound: float) -> LimitReached:
    """The error for a limit that came before any labelling was found."""
    last = "width" if engine == "beam" else "max_memory"
    return LimitReached(
        f"engine {engine!r} stopped before it found a labelling that obeys the rules",
        bound=bound,
        got="no labelling",
        wanted=f"a higher time_limit, max_states or {last}",
    )
