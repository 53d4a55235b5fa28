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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bridle.automata import CountingAutomaton
from bridle.labels import Labels
from bridle.rules.base import Rule, Sets, Soft, named
from bridle.rules.boolean import And, Iff, Implies, Not, Or
from bridle.rules.counts import AtLeast, AtMost, Exactly, NoDuplicates
from bridle.rules.linear_program import INF, TABLE, Case, Floats, Formulation, Ints, Program, join, rows
from bridle.rules.order import Before, EndsWith, FollowedBy, IfPresent, Present, StartsWith
from bridle.rules.positions import (
    Allow,
    Around,
    Fix,
    Forbid,
    ForbidTransition,
    ImmediatelyFollowedBy,
    LabelAt,
    SameLabel,
    WellFormed,
)
from bridle.rules.references import flags, union

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
                make = TABLE.get((type(part), name))
                if make is not None and make(case):
                    break
            else:
                _flow(case)


# ---- the fallback: a unit flow through the states of the rule's automaton --------------------------------------------


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
    """Add the flow of one automaton; return the columns that break the rule."""
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


# ---- rows as printed in the papers of Roth & Yih (RY) and Fersini et al. ---------------------------------------------


@rows("paper", Forbid, Allow, Fix, LabelAt)
def _paper_token(case: Case) -> bool:
    """RY ex. 1: the right labels of a token sum to 1."""
    p, mask, at = case.program, case.rule.mask(case.sets, case.labels), case.positions()
    if mask is None or mask.token is None:
        return False
    pos, col = p.into(flags(at, p.n)[:, None] & mask.token)
    return case.at_most(np.searchsorted(at, pos), col, -1.0, -np.ones(len(at)), by=np.arange(len(at)))


@rows("paper", AtMost, NoDuplicates)
def _paper_no_duplicates(case: Case) -> bool:
    """RY ex. 2: m (n-1-i) x[i, a, b] <= sum over y, j > i of 1 - x[j, y, a], for i >= 1 and b other than a."""
    p, rule = case.program, case.rule
    if isinstance(rule, AtMost) and (rule.k, rule.count, len(union(case.sets[0]))) != (1, "segments", 1):
        return False
    names = [sorted(ids) for ids in case.sets[0]]
    begins = case.labels.begins
    runs = all(len(a) == 1 and begins[:, a[0]].sum() == p.m and not begins[a[0], a[0]] for a in names)
    if not runs or (case.price is not None and case.per == "violation"):
        return False
    i, others = np.arange(1, max(p.n - 1, 1)), p.m - 1
    parts, per_name = [], len(i) * others
    for k, (a,) in enumerate(names):
        b = np.delete(np.arange(p.m), a)
        row = k * per_name + np.arange(per_name).reshape(len(i), others)  # (i, b)
        heads = p.m + (i[:, None] - 1) * p.m**2 + a * p.m + b
        parts.append((row.ravel(), heads.ravel(), np.repeat(p.m * (p.n - 1.0 - i), others)))
        tails = np.flatnonzero(p.dst == a)
        at, which = np.nonzero(p.pos[tails] > i[:, None])
        parts.append((row[at].ravel(), np.repeat(tails[which], others), np.ones(len(at) * others)))
    left = np.tile(np.repeat(p.n - 1.0 - i, others), len(names))
    return not parts or case.at_most(*join(*parts), p.m * left, slack=left)


@rows("paper", IfPresent)
def _paper_if_present(case: Case) -> bool:
    """RY ex. 3: v[t, a] <= sum of v[., b], for all t."""
    p, a, b = case.program, case.flag(0), case.flag(1)
    (at_a, from_a), (_, from_b) = p.into(a & ~b), p.into(b)
    everywhere = (np.repeat(np.arange(p.n), len(from_b)), np.tile(from_b, p.n), -1.0)
    return case.at_most(*join((at_a, from_a, 1.0), everywhere), np.zeros(p.n))


@rows("paper", SameLabel)
def _paper_same_label(case: Case) -> bool:
    """RY ex. 4: binary v[t, l];  (q - p) v[p, l] <= sum of v[t, l] over t = p+1 .. q, for each span p .. q."""
    if case.price is not None and case.per == "violation":
        return False
    p, tied = case.program, np.array(case.positions(), dtype=np.intp)
    kind = np.unique(case.labels.same_type, axis=0, return_inverse=True)[1].reshape(-1)  # (m,) type of each label
    kinds = int(kind.max()) + 1
    tokens = np.unique(np.concatenate([tied - 1, tied]))
    col = np.flatnonzero(flags(tokens.tolist(), p.n)[p.pos])
    node = np.searchsorted(tokens, p.pos[col]) * kinds + kind[p.dst[col]]
    v = p.columns(len(tokens) * kinds, integer=True)
    p.rows(*join((np.arange(len(v)), v, 1.0), (node, col, -1.0)), 0.0, np.zeros(len(v)))
    span = np.cumsum(~np.isin(tied - 1, tied)) - 1  # number of the span that a tied position belongs to
    first = tied[~np.isin(tied - 1, tied)] - 1
    size = np.bincount(span, minlength=len(first)).astype(float)
    each = np.arange(kinds)
    head = (np.arange(len(first) * kinds), (np.searchsorted(tokens, first)[:, None] * kinds + each).ravel())
    tail = ((span[:, None] * kinds + each).ravel(), (np.searchsorted(tokens, tied)[:, None] * kinds + each).ravel())
    entries = join((head[0], v[head[1]], np.repeat(size, kinds)), (tail[0], v[tail[1]], -1.0))
    return case.at_most(*entries, np.zeros(len(first) * kinds), slack=np.repeat(size, kinds))


@rows("paper", AtLeast, Present)
def _paper_some(case: Case) -> bool:
    """RY ex. 5: at most n-1 tokens are outside the set."""
    p, inside = case.program, case.flag(0)
    if isinstance(case.rule, AtLeast):
        begins = case.labels.begins[:-1][~inside][:, inside].all()  # to enter the set is to begin a segment of it
        if case.rule.k != 1 or not (case.rule.count == "tokens" or begins):
            return False
    _, col = p.into(~inside)
    return case.at_most(np.zeros_like(col), col, 1.0, [p.n - 1.0])


@rows("paper", ImmediatelyFollowedBy)
def _paper_immediately_followed_by(case: Case) -> bool:
    """Fersini (17): v[t, a] <= v[t+1, b]."""
    p = case.program
    (at_a, from_a), (at_b, from_b) = case.into(0), case.into(1)
    later = at_b > 0
    entries = join((at_a, from_a, 1.0), (at_b[later] - 1, from_b[later], -1.0))
    return case.at_most(*entries, np.zeros(p.n), by=np.arange(p.n))


@rows("paper", FollowedBy)
def _paper_followed_by(case: Case) -> bool:
    """Fersini (18), from the next position on: v[t, a] <= sum of v[u, b] over u > t."""
    p = case.program
    (at_a, from_a), (at_b, from_b) = case.into(0), case.into(1)
    t, which = np.nonzero(at_b > np.arange(p.n)[:, None])
    return case.at_most(*join((at_a, from_a, 1.0), (t, from_b[which], -1.0)), np.zeros(p.n))


@rows("paper", Around)
def _paper_around(case: Case) -> bool:
    """Fersini (19): 2 <= v[t-1, left] + v[t+1, right] at each delimiter t (1 at the ends of the sequence)."""
    p, at = case.program, np.array(case.positions(), dtype=np.intp)
    (at_left, left), (at_right, right) = case.into(0), case.into(1)
    d, which = np.nonzero(at_left == at[:, None] - 1)
    e, other = np.nonzero(at_right == at[:, None] + 1)
    needed = (at > 0).astype(float) + (at < p.n - 1)
    entries = join((d, left[which], -1.0), (e, right[other], -1.0))
    return case.at_most(*entries, -needed, slack=needed, by=np.arange(len(at)))


@rows("paper", StartsWith, EndsWith)
def _paper_end(case: Case) -> bool:
    """Fersini (20), one row for each of its two rules: v[0, a] >= 1; v[n-1, b] >= 1."""
    at, col = case.into(0)
    col = col[at == (0 if isinstance(case.rule, StartsWith) else case.program.n - 1)]
    return case.at_most(np.zeros_like(col), col, -1.0, [-1.0])


@rows("paper", Before)
def _paper_before(case: Case) -> bool:
    """Fersini (21), the sentence: m t v[t, a] <= sum over y, u < t of 1 - x[u, y, b]."""
    p = case.program
    (at_a, from_a), (at_b, from_b) = case.into(0), case.into(1)
    t = np.arange(p.n)
    late, which = np.nonzero(at_b < t[:, None])
    entries = join((at_a, from_a, p.m * at_a), (late, from_b[which], 1.0))
    return case.at_most(*entries, p.m * t, slack=t, by=t)


# ---- tight rows: lowerings whose relaxation is strong ----------------------------------------------------------------


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
    _, col = case.into(0)
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
    (at_a, from_a), (at_b, from_b) = case.into(0), case.into(1)
    q, t = p.columns(p.n), np.arange(p.n)
    p.rows(*join((t, q, 1.0), (t[:-1], q[1:], -1.0), (at_b, from_b, -1.0)), -INF, np.zeros(p.n))
    return case.at_most(*join((at_a, from_a, 1.0), (t[:-1], q[1:], -1.0)), np.zeros(p.n))


@rows("tight", Before)
def _before(case: Case) -> bool:
    """seen[t]: some b at t or before.  seen[t] >= seen[t-1], v[t, b];  v[t, a] + seen[t-1] <= 1."""
    p = case.program
    (at_a, from_a), (at_b, from_b) = case.into(0), case.into(1)
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
    beside = [(d, t + k, wrong[k > 0]) for d, t in enumerate(case.positions()) for k in (-1, 1) if 0 <= t + k < p.n]
    columns = [np.flatnonzero((p.pos == t) & bad[p.dst]) for _, t, bad in beside]
    if case.price is None:
        for col in columns:
            p.edge_upper[col] = 0.0
    elif beside:
        entries = join(*((r, col, 1.0) for r, col in enumerate(columns)))
        case.at_most(*entries, np.zeros(len(beside)), by=[d for d, _, _ in beside])
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
    clause = _clause(case, case.rule, True)  # at least one of these is true
    entries = join((0, np.zeros(0, np.intp), 0.0), *((0, e.col, -e.coef) for e in clause))
    return case.at_most(*entries, [sum(e.constant for e in clause) - 1.0])


def _plain(rule: Rule) -> bool:
    """Return whether a rule is made of `label_at` and `present` only."""
    match rule:
        case LabelAt() | Present():
            return True
        case Not(inner):
            return _plain(inner)
        case And(a, b) | Or(a, b) | Implies(a, b) | Iff(a, b):
            return _plain(a) and _plain(b)
    return False


def _clause(case: Case, rule: Rule, want: bool) -> list[_Truth]:
    """Return expressions of which at least one is true exactly when the rule is true (or, if not `want`, false)."""
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
            positions = at.positions(case.program.n, case.given)
            return [~e for e in _stands(case, names.resolve(case.labels, case.given), positions)]
    return [~_any(case, _clause(case, rule, not want))]


def _stands(case: Case, sets: Sets, positions: range | list[int]) -> list[_Truth]:
    """Return v[t, y] of some labels at some positions."""
    at, col = case.program.into(flags(union(sets), case.program.m))
    return [_Truth(col[at == t], np.ones(np.count_nonzero(at == t))) for t in positions]


def _any(case: Case, parts: list[_Truth]) -> _Truth:
    """z = 1 exactly when one of the parts is."""
    if len(parts) <= 1:
        return parts[0] if parts else _Truth(np.zeros(0, np.intp), np.zeros(0))
    p, z = case.program, case.program.columns(1)
    sum_of_all = [(0, e.col, -e.coef) for e in parts]
    each = [(r, e.col, e.coef) for r, e in enumerate(parts, start=1)]
    of_z = (np.arange(len(parts) + 1), z, np.append(1.0, -np.ones(len(parts))))
    high = [sum(e.constant for e in parts), *(-e.constant for e in parts)]
    p.rows(*join(of_z, *sum_of_all, *each), -INF, np.array(high))
    return _Truth(z, np.ones(1))


def _equal(case: Case, a: _Truth, b: _Truth) -> _Truth:
    """z = 1 exactly when a = b:  z <= 1 - a + b,  z <= 1 + a - b,  z >= a + b - 1,  z >= 1 - a - b."""
    p, z = case.program, case.program.columns(1)
    signs = np.array([[1, 1, -1], [1, -1, 1], [-1, 1, 1], [-1, -1, -1]])  # of z, a, b
    entries = [(r, e.col, k * e.coef) for r, (_, *ks) in enumerate(signs) for k, e in zip(ks, (a, b), strict=True)]
    high = np.array([1.0, 1.0, 1.0, -1.0]) - signs[:, 1] * a.constant - signs[:, 2] * b.constant
    p.rows(*join((np.arange(4), z, signs[:, 0]), *entries), -INF, high)
    return _Truth(z, np.ones(1))
