"""Tromble & Eisner's relaxation (their fig. 2), written with OpenFst through pywrapfst.

The lattice is an acceptor in the tropical semiring; constraint automata are built once when they are static and per
sequence, and only when violated, when they are not; the lattice is intersected with violated ones only.
Arc labels are label ids + 1, because 0 is epsilon.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from trellis import Answer, Facts, Floats, NoAnswerError, score


def _acceptor(states: int, arcs: list[tuple[int, int, int]], final: list[int]) -> Any:
    """An unweighted automaton from (from, label, to); it starts in state 0."""
    import pywrapfst as fst

    automaton = fst.VectorFst()
    automaton.add_states(states)
    automaton.set_start(0)
    free = fst.Weight.one("tropical")
    for a, y, b in arcs:
        automaton.add_arc(a, fst.Arc(y + 1, y + 1, free, b))
    for s in final:
        automaton.set_final(s, free)
    automaton.arcsort("ilabel")
    return automaton


@cache
def _at_most_one(k: int, m: int) -> Any:
    """No segment of k yet; inside one; after it."""
    others = [y for y in range(m) if y != k]
    arcs = [(0, k, 1), (1, k, 1), *((s, y, s and 2) for s in range(3) for y in others)]
    return _acceptor(3, arcs, [0, 1, 2])


@cache
def _at_least_one(wanted: tuple[int, ...], m: int) -> Any:
    arcs = [(0, y, int(y in wanted)) for y in range(m)] + [(1, y, 1) for y in range(m)]
    return _acceptor(2, arcs, [1])


@cache
def _frame(frame: tuple[int, ...]) -> Any:
    return _acceptor(1, [(0, y, 0) for y in frame], [0])


def _verb(verb: int, n: int, m: int) -> Any:
    arcs = [(t, y, t + 1) for t in range(n) for y in (range(m) if t != verb else (0,))]
    return _acceptor(n + 1, arcs, [n])


def _candidates(tied: tuple[int, ...], n: int, m: int) -> Any:
    """Their fig. 5: a chain that splits by label where the next token has to agree with this one."""
    arcs: list[tuple[int, int, int]] = []
    marked = set(tied)
    size, at = 1, [0] * m  # the state that label y reads from; one for all labels outside a span
    for t in range(n):
        if t + 1 in marked:
            after = list(range(size, size + m))
            size += m
        else:
            after = [size] * m
            size += 1
        arcs += [(at[y], y, after[y]) for y in range(m)]
        at = after
    return _acceptor(size, arcs, [at[0]])


def _violated(y: list[int], facts: Facts, left: set[Any], n: int, m: int) -> Iterator[Any]:
    """Automata of the rules that a path breaks, each at most once over the whole relaxation."""
    for k in facts.at_most_one:
        if ("one", k) in left and sum(y[t] == k and (t == 0 or y[t - 1] != k) for t in range(n)) > 1:
            left.discard(("one", k))
            yield _at_most_one(k, m)
    if "any" in left and facts.at_least_one and not any(label in facts.at_least_one for label in y):
        left.discard("any")
        yield _at_least_one(facts.at_least_one, m)
    if "tied" in left and any(y[t] != y[t - 1] for t in facts.tied):
        left.discard("tied")
        yield _candidates(facts.tied, n, m)
    if "verb" in left and facts.verb is not None and y[facts.verb] != 0:
        left.discard("verb")
        yield _verb(facts.verb, n, m)
    if "frame" in left and facts.frame is not None and not set(y) <= set(facts.frame):
        left.discard("frame")
        yield _frame(facts.frame)


def _best(lattice: Any) -> list[int]:
    """Labels of the best path. A shortest path numbers its states from the end."""
    import pywrapfst as fst

    path = fst.shortestpath(lattice)
    state = path.start()
    if state < 0:
        raise NoAnswerError("the lattice is empty")
    labels = []
    while True:
        arc = next(iter(path.arcs(state)), None)
        if arc is None:
            return labels
        labels.append(arc.ilabel - 1)
        state = arc.nextstate


def pynini_relax(unary: Floats, pairwise: Floats | None, facts: Facts) -> Answer:
    """Best path; intersect with what it violates; again until nothing is violated. No pairwise scores."""
    import pywrapfst as fst

    assert pairwise is None
    n, m = unary.shape
    lattice = fst.VectorFst()
    lattice.add_states(n + 1)
    lattice.set_start(0)
    lattice.set_final(n)
    for t, row in enumerate((-unary).tolist()):
        for y, cost in enumerate(row):
            lattice.add_arc(t, fst.Arc(y + 1, y + 1, cost, t + 1))  # in label order, so the lattice is sorted as it is
    left: set[Any] = {("one", k) for k in facts.at_most_one} | {"any", "tied", "verb", "frame"}
    while True:
        y = _best(lattice)
        broken = list(_violated(y, facts, left, n, m))
        if not broken:
            return score(unary, pairwise, y), y
        for automaton in broken:
            lattice = fst.intersect(lattice, automaton)
