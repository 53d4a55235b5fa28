"""Rules as linear rows over the edges of the trellis: the programs of Roth & Yih (2005) and Fersini et al. (2012).

    x[t, i, j] = 1   label i is at t-1 and label j at t; start edges x[0, start, j]; end edges after the last token
    v[t, y] = sum over i of x[t, i, y]   label y is at t: an expression over the edges that enter it
    minimise  price - score  over columns in [0, upper], every row a limit  lower <= sum coefficient * column <= upper

    n positions (t)    m labels (i, then j; y)    S automaton states (s)    E edges that enter a token

Two formulations: "paper", the inequalities as printed, and "tight", rows whose relaxation is stronger. A lowering may
decline (return False, nothing added): "paper" then falls back on "tight", and that on the flow through the rule's
automaton, which takes every rule. Law: for each labelling the rows have a solution exactly when the hard rules hold,
and the cheapest solution costs what the soft rules cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bridle.automata import CountingAutomaton
from bridle.labels import Labels
from bridle.rules import linear_paper, linear_tight  # noqa: F401  (they register their rows)
from bridle.rules.base import Rule, Soft, named
from bridle.rules.linear_program import INF, Case, Floats, Formulation, Ints, Program, join, rows
from bridle.rules.linear_program import TABLE as _TABLE

__all__ = ["Floats", "Formulation", "Program", "lower", "rows"]


def lower(program: Program, rule: Rule, labels: Labels, given: Mapping[str, Any], formulation: Formulation) -> None:
    """Add a rule, hard or soft, to a program of at least one token."""
    soft = rule if isinstance(rule, Soft) else None
    with named(rule):
        for part in rule.conjuncts() if soft is None else (soft.rule,):
            sets = tuple(names.resolve(labels, given) for names in part.names())
            case = Case(program, part, labels, given, sets)
            if soft is not None:
                case = replace(case, price=soft.penalty, per=soft.per)
            for name in ("paper", "tight") if formulation == "paper" else ("tight",):
                make = _TABLE.get((type(part), name))
                if make is not None and make(case):
                    break
            else:
                _flow(case)


# The fallback: a unit flow through the states of the rule's automaton.


def _flow(case: Case) -> None:
    """f[t, s, y] = 1: token t is read in state s and has label y. Violations have a price; a hard rule has none."""
    p, rule = case.program, case.rule
    marks = [0] * p.n
    for k, place in enumerate(rule.places()):
        for t in place.positions(p.n, case.given):
            marks[t] |= 1 << k
    kinds = sorted(set(marks))
    table = [kinds.index(mark) for mark in marks]
    automata = rule.tables(case.sets, case.labels, tuple(kinds))
    shared = case.price is not None and case.per == "sequence" and len(automata) > 1  # several automata, one payment
    sigma = p.columns(1, case.price) if shared and case.price is not None else None
    for automaton in automata:
        broken = _flow_of(case, automaton.by_label(), table, 0.0 if shared else case.price)
        if sigma is not None:
            cols = np.append(broken, sigma)
            p.rows(np.zeros(len(cols), np.intp), cols, np.append(np.ones(len(broken)), -1.0), -INF, np.zeros(1))


def _flow_of(case: Case, automaton: CountingAutomaton, table: list[int], price: float | None) -> Ints:
    """The flow of one automaton; returns the columns that break the rule."""
    p = case.program
    n, m = p.n, p.m
    step, violations = automaton.step[table].astype(np.intp), automaton.violations[table]  # (n, S, m)
    violations[-1] += automaton.final[step[-1]]
    states = automaton.n_states
    if price is not None and case.per == "sequence":  # the first violation pays and leads to a state that is free
        step = np.concatenate([np.where(violations > 0, states, step), np.full((n, 1, m), states)], axis=1)
        violations = np.concatenate([np.minimum(violations, 1), np.zeros((n, 1, m), violations.dtype)], axis=1)
        states += 1
    entered = p.edge_upper[: len(p.pos)] > 0
    arcs = np.zeros((n, m), bool)
    arcs[p.pos[entered], p.dst[entered]] = True
    arcs = arcs[:, None, :] & ((violations == 0) if price is None else np.ones_like(violations, bool))
    reached = np.zeros(states, bool)
    reached[0] = True
    for after, taken in zip(step, arcs, strict=True):  # (S, m) each
        taken &= reached[:, None]
        reached = np.zeros(states, bool)
        reached[after[taken]] = True
    t, s, y = np.nonzero(arcs)
    count = violations[t, s, y]
    f = p.columns(len(t), count * (price or 0.0))
    entering = p.pos * m + p.dst
    p.rows(*join((t * m + y, f, 1.0), (entering, np.arange(len(entering)), -1.0)), np.zeros(n * m), np.zeros(n * m))
    inner, later = t < n - 1, t > 0
    node, col, coef = join(
        ((t[inner] + 1) * states + step[t, s, y][inner], f[inner], 1.0), (t[later] * states + s[later], f[later], -1.0)
    )
    used, row = np.unique(node, return_inverse=True)
    p.rows(row.reshape(-1), col, coef, 0.0, np.zeros(len(used)))
    return np.asarray(f[count > 0])
