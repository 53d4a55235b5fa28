"""Tight rows: lowerings whose relaxation is strong (see linear.py for the alphabet)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bridle.rules.base import Rule, Sets, flags, union
from bridle.rules.boolean import And, Iff, Implies, Not, Or
from bridle.rules.counts import AtLeast, AtMost, Exactly, NoDuplicates
from bridle.rules.linear_program import INF, Case, Floats, Ints, join, rows
from bridle.rules.neighbours import Around, ForbidTransition, ImmediatelyFollowedBy, SameLabel, WellFormed
from bridle.rules.order import Before, EndsWith, FollowedBy, IfPresent, Present, StartsWith
from bridle.rules.positions import Allow, Fix, Forbid, LabelAt


@rows("tight", AtMost, AtLeast, Exactly, NoDuplicates)
def _counted(case: Case) -> bool:
    """One row: the sum of the counted edges against the limit.

    Where one payment buys all that is too much, the row is weak (a fraction of the payment goes far): better a flow.
    """
    p, parts, high, slack = case.program, [], [], []
    once = case.price is not None and case.per == "sequence"
    for r, automaton in enumerate(case.rule.automata(case.sets, case.labels)):
        if automaton.count is None:
            return False
        edges, limit, sign = automaton.counted(), automaton.count.limit, 1 if automaton.count.sense == "<=" else -1
        if once and sign > 0 and limit <= 2:
            return False
        targets = edges.any(axis=0)
        apart = not edges[:-1][targets][:, targets].any()  # two in a row cannot count
        parts.append((r, np.flatnonzero(edges[p.src, p.dst]), sign))
        high.append(sign * limit)
        slack.append(max(0, ((p.n + 1) // 2 if apart else p.n) - limit) if sign > 0 else limit)
    return not parts or case.at_most(*join(*parts), high, slack=slack, units=True)


@rows(
    "tight",
    Forbid,
    Allow,
    Fix,
    LabelAt,
    ForbidTransition,
    WellFormed,
    ImmediatelyFollowedBy,
    SameLabel,
    StartsWith,
    EndsWith,
)
def _masked(case: Case) -> bool:
    """Edges that a mask excludes are 0, or have their own price."""
    p, mask = case.program, case.rule.mask(case.sets, case.labels)
    if mask is None:
        return False
    here = flags(case.positions(), p.n)[p.pos]
    bad = np.zeros(len(p.pos), np.intp)
    if mask.token is not None:
        bad += here & ~mask.token[p.dst]
    if mask.first is not None:
        bad += (p.pos == 0) & ~mask.first[p.dst]
    if mask.last is not None:
        bad += (p.pos == p.n - 1) & ~mask.last[p.dst]
    inner = slice(p.m, None)
    if mask.step is not None:
        bad[inner] += ~mask.step[p.src[inner], p.dst[inner]]
    if mask.tied:
        bad[inner] += here[inner] & ~case.labels.same_type[p.src[inner], p.dst[inner]]
    col = np.flatnonzero(bad)
    if case.price is None:
        p.edge_upper[col] = 0.0
    elif case.per == "violation":
        p.edge_price[col] += case.price * bad[col]
    else:
        at, row = np.unique(p.pos[col], return_inverse=True)
        case.at_most(row.reshape(-1), col, 1.0, np.zeros(len(at)))
    return True


@rows("tight", Present)
def _present(case: Case) -> bool:
    _, col = case.program.into(case.flag(0))
    return case.at_most(np.zeros_like(col), col, -1.0, [-1.0])


@rows("tight", IfPresent)
def _if_present(case: Case) -> bool:
    """v[t, a] <= w  for all t;  w <= sum of v[., b]."""
    p, a, b = case.program, case.flag(0), case.flag(1)
    (at_a, from_a), (_, from_b) = p.into(a & ~b), p.into(b)
    w = p.columns(1)
    p.rows(*join((at_a, from_a, 1.0), (np.arange(p.n), w, -1.0)), -INF, np.zeros(p.n))
    return case.at_most(*join((0, w, 1.0), (0, from_b, -1.0)), [0.0])


@rows("tight", FollowedBy)
def _followed_by(case: Case) -> bool:
    """q[t]: some b at t or later.  q[t] <= q[t+1] + v[t, b];  v[t, a] <= q[t+1]."""
    p = case.program
    (at_a, from_a), (at_b, from_b) = p.into(case.flag(0)), p.into(case.flag(1))
    q, t = p.columns(p.n), np.arange(p.n)
    p.rows(*join((t, q, 1.0), (t[:-1], q[1:], -1.0), (at_b, from_b, -1.0)), -INF, np.zeros(p.n))
    return case.at_most(*join((at_a, from_a, 1.0), (t[:-1], q[1:], -1.0)), np.zeros(p.n))


@rows("tight", Before)
def _before(case: Case) -> bool:
    """seen[t]: some b at t or before.  seen[t] >= seen[t-1], v[t, b];  v[t, a] + seen[t-1] <= 1."""
    p = case.program
    (at_a, from_a), (at_b, from_b) = p.into(case.flag(0)), p.into(case.flag(1))
    seen, t = p.columns(p.n), np.arange(p.n)
    p.rows(*join((t, seen, -1.0), (at_b, from_b, 1.0)), -INF, np.zeros(p.n))
    p.rows(*join((t[1:] - 1, seen[1:], -1.0), (t[1:] - 1, seen[:-1], 1.0)), -INF, np.zeros(p.n - 1))
    late = at_a > 0
    entries = join((at_a[late] - 1, from_a[late], 1.0), (t[:-1], seen[:-1], 1.0))
    return case.at_most(*entries, np.ones(p.n - 1), by=t[:-1])


@rows("tight", Around)
def _around(case: Case) -> bool:
    """No wrong label beside a delimiter."""
    p, wrong = case.program, (~case.flag(0), ~case.flag(1))
    asked = [(d, t + k, wrong[k > 0]) for d, t in enumerate(case.positions()) for k in (-1, 1) if 0 <= t + k < p.n]
    found = [np.flatnonzero((p.pos == t) & bad[p.dst]) for _, t, bad in asked]
    if case.price is None:
        for col in found:
            p.edge_upper[col] = 0.0
    elif asked:
        entries = join(*((r, col, 1.0) for r, col in enumerate(found)))
        case.at_most(*entries, np.zeros(len(asked)), by=[d for d, _, _ in asked])
    return True


@dataclass(frozen=True, slots=True, eq=False)
class _Truth:
    """An expression that is 1 when something is true and 0 when not: sum of coef * col, plus `constant`."""

    col: Ints
    coef: Floats
    constant: float = 0.0

    def __invert__(self) -> _Truth:
        return _Truth(self.col, -self.coef, 1.0 - self.constant)


@rows("tight", And, Or, Not, Implies, Iff)
def _formula(case: Case) -> bool:
    """RY 4.2: any Boolean function over labels as linear rows, here with one column for each inner part (Tseitin)."""
    if not _plain(case.rule):
        return False
    some = _clause(case, case.rule, True)  # one of these is true
    entries = join((0, np.zeros(0, np.intp), 0.0), *((0, e.col, -e.coef) for e in some))
    return case.at_most(*entries, [sum(e.constant for e in some) - 1.0])


def _plain(rule: Rule) -> bool:
    """Is it made of `label_at` and `present` only?"""
    match rule:
        case LabelAt() | Present():
            return True
        case Not(inner):
            return _plain(inner)
        case And(a, b) | Or(a, b) | Implies(a, b) | Iff(a, b):
            return _plain(a) and _plain(b)
    return False


def _clause(case: Case, rule: Rule, want: bool) -> list[_Truth]:
    """Expressions of which at least one is true exactly when the rule is true (or, if not `want`, false)."""
    match rule, want:
        case Not(inner), _:
            return _clause(case, inner, not want)
        case (Or(a, b), True) | (And(a, b), False):
            return _clause(case, a, want) + _clause(case, b, want)
        case Implies(a, b), True:
            return _clause(case, a, False) + _clause(case, b, True)
        case Iff(a, b), _:
            both = _equal(case, _any(case, _clause(case, a, True)), _any(case, _clause(case, b, True)))
            return [both if want else ~both]
        case Present(names), True:
            return _stands(case, names.resolve(case.labels, case.given), range(case.program.n))
        case LabelAt(at, names), False:
            found = _stands(case, names.resolve(case.labels, case.given), at.positions(case.program.n, case.given))
            return [~e for e in found]
    return [~_any(case, _clause(case, rule, not want))]


def _stands(case: Case, sets: Sets, positions: range | list[int]) -> list[_Truth]:
    """v[t, y] of some labels at some positions."""
    at, col = case.program.into(flags(union(sets), case.program.m))
    return [_Truth(col[at == t], np.ones(np.count_nonzero(at == t))) for t in positions]


def _any(case: Case, parts: list[_Truth]) -> _Truth:
    """z = 1 exactly when one of the parts is."""
    if len(parts) <= 1:
        return parts[0] if parts else _Truth(np.zeros(0, np.intp), np.zeros(0))
    p, z = case.program, case.program.columns(1)
    sum_of_all = [(0, e.col, -e.coef) for e in parts]
    each = [(r, e.col, e.coef) for r, e in enumerate(parts, start=1)]
    own = (np.arange(len(parts) + 1), z, np.append(1.0, -np.ones(len(parts))))
    high = [sum(e.constant for e in parts), *(-e.constant for e in parts)]
    p.rows(*join(own, *sum_of_all, *each), -INF, np.array(high))
    return _Truth(z, np.ones(1))


def _equal(case: Case, a: _Truth, b: _Truth) -> _Truth:
    """z = 1 exactly when a = b:  z <= 1 - a + b,  z <= 1 + a - b,  z >= a + b - 1,  z >= 1 - a - b."""
    p, z = case.program, case.program.columns(1)
    signs = np.array([[1, 1, -1], [1, -1, 1], [-1, 1, 1], [-1, -1, -1]])  # of z, a, b
    entries = [(r, e.col, k * e.coef) for r, (_, *ks) in enumerate(signs) for k, e in zip(ks, (a, b), strict=True)]
    high = np.array([1.0, 1.0, 1.0, -1.0]) - signs[:, 1] * a.constant - signs[:, 2] * b.constant
    p.rows(*join((np.arange(4), z, signs[:, 0]), *entries), -INF, high)
    return _Truth(z, np.ones(1))
