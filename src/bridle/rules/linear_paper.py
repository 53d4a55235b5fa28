"""Rows as printed in the papers of Roth & Yih (RY) and Fersini et al. (see linear.py for the alphabet)."""

from __future__ import annotations

import numpy as np

from bridle.rules.base import flags, union
from bridle.rules.counts import AtLeast, AtMost, NoDuplicates
from bridle.rules.linear_program import Case, join, rows
from bridle.rules.neighbours import Around, ImmediatelyFollowedBy, SameLabel
from bridle.rules.order import Before, EndsWith, FollowedBy, IfPresent, Present, StartsWith
from bridle.rules.positions import Allow, Fix, Forbid, LabelAt


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
    (at_a, from_a), (at_b, from_b) = p.into(case.flag(0)), p.into(case.flag(1))
    later = at_b > 0
    entries = join((at_a, from_a, 1.0), (at_b[later] - 1, from_b[later], -1.0))
    return case.at_most(*entries, np.zeros(p.n), by=np.arange(p.n))


@rows("paper", FollowedBy)
def _paper_followed_by(case: Case) -> bool:
    """Fersini (18), from the next position on: v[t, a] <= sum of v[u, b] over u > t."""
    p = case.program
    (at_a, from_a), (at_b, from_b) = p.into(case.flag(0)), p.into(case.flag(1))
    t, which = np.nonzero(at_b > np.arange(p.n)[:, None])
    return case.at_most(*join((at_a, from_a, 1.0), (t, from_b[which], -1.0)), np.zeros(p.n))


@rows("paper", Around)
def _paper_around(case: Case) -> bool:
    """Fersini (19): 2 <= v[t-1, left] + v[t+1, right] at each delimiter t (1 at the ends of the sequence)."""
    p, at = case.program, np.array(case.positions(), dtype=np.intp)
    (at_left, left), (at_right, right) = p.into(case.flag(0)), p.into(case.flag(1))
    d, which = np.nonzero(at_left == at[:, None] - 1)
    e, other = np.nonzero(at_right == at[:, None] + 1)
    asked = (at > 0).astype(float) + (at < p.n - 1)
    entries = join((d, left[which], -1.0), (e, right[other], -1.0))
    return case.at_most(*entries, -asked, slack=asked, by=np.arange(len(at)))


@rows("paper", StartsWith, EndsWith)
def _paper_end(case: Case) -> bool:
    """Fersini (20), one row for each of its two rules: v[0, a] >= 1; v[n-1, b] >= 1."""
    at, col = case.program.into(case.flag(0))
    col = col[at == (0 if isinstance(case.rule, StartsWith) else case.program.n - 1)]
    return case.at_most(np.zeros_like(col), col, -1.0, [-1.0])


@rows("paper", Before)
def _paper_before(case: Case) -> bool:
    """Fersini (21), the sentence: m t v[t, a] <= sum over y, u < t of 1 - x[u, y, b]."""
    p = case.program
    (at_a, from_a), (at_b, from_b) = p.into(case.flag(0)), p.into(case.flag(1))
    t = np.arange(p.n)
    late, which = np.nonzero(at_b < t[:, None])
    entries = join((at_a, from_a, p.m * at_a), (late, from_b[which], 1.0))
    return case.at_most(*entries, p.m * t, slack=t, by=t)
