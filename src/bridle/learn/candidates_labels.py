"""Kinds of rules that look at labels only: neighbours, order, ends, counts, company."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations
from typing import Literal

import numpy as np

from bridle import rules as r
from bridle.labels import Bools
from bridle.learn.candidates import Candidate, Check, Limits, Shares, kind, mean, tail_of
from bridle.learn.chance import change_odds, log_binomial, log_hypergeometric, segment_counts
from bridle.learn.counted import Counted, Ints


def _segment_names(data: Counted) -> range:
    return range(len(data.names) - (data.outside is not None))


@kind("adjacency")
def _adjacency(data: Counted, limits: Limits) -> Iterator[Candidate]:
    """After a comes b; never b right after a; the scheme's own grammar."""
    if data.labels.scheme not in (None, "IO"):
        yield _well_formed(data)
    a_of, b_of, owner = data.changes
    U = len(data.names)
    leaving, entering = np.bincount(a_of, minlength=U), np.bincount(b_of, minlength=U)
    pairs = np.zeros((U, U), dtype=np.int64)
    np.add.at(pairs, (a_of, b_of), 1)
    odds = change_odds(leaving, entering)
    sources = data.tally(a_of, owner) > 0  # (U, K)
    for a, b in permutations(range(U), 2):
        speaks = sources[a] & data.present[b]
        if speaks.sum() < limits.support:
            continue  # whether they ever meet is asked under "exclusion"
        tail = log_binomial(int(leaving[a] - pairs[a, b]), int(leaving[a]), float(1 - odds[a, b]))
        rule = r.forbid_transition(data.names[a], data.names[b])
        yield Candidate(rule, "adjacency", speaks, _steps(a, b), tail, 1.5)
    for a in range(U):
        if not leaving[a]:
            continue
        b = int(pairs[a].argmax())
        name, other = data.names[a], data.names[b]
        for rule, broken, cost in (
            (r.immediately_followed_by(name, [name, other]), _leaves_for_another(a, b, strict=False), 1.4),
            (r.immediately_followed_by(name, other), _leaves_for_another(a, b, strict=True), 1.2),
        ):
            speaks = data.present[a]
            yield Candidate(rule, "adjacency", speaks, broken, tail_of(data, speaks, broken, odds[a, b], U - 1), cost)


def _steps(a: int, b: int) -> Check:
    return lambda data: data.follows.get((a, b), np.zeros(len(data), dtype=bool))


def _leaves_for_another(a: int, b: int, *, strict: bool) -> Check:
    """Is an a followed by something else than b (or, if not strict, than a), or by nothing?"""

    def check(data: Counted) -> Bools:
        after = np.append(data.name_of[1:], -1)
        fine = ~data.at_end & ((after == b) | (after == a if not strict else False))
        return data.any_of((data.name_of == a) & ~fine)

    return check


def _well_formed(data: Counted) -> Candidate:
    step, first, last = data.labels.allowed

    def check(data: Counted) -> Bools:
        before = np.roll(data.ids, 1)
        fine = np.where(data.at_start, first[data.ids], step[before, data.ids]) & (last[data.ids] | ~data.at_end)
        return data.any_of(~fine)

    share = np.bincount(data.ids, minlength=len(data.labels)) / max(len(data.ids), 1)
    speaks = data.lengths > 0
    p = mean((share @ first) * (share @ step @ share) ** np.maximum(data.lengths - 1.0, 0), speaks)
    return Candidate(r.well_formed(), "adjacency", speaks, check, tail_of(data, speaks, check, float(p)), 0.5)


@kind("precedence")
def _precedence(data: Counted, limits: Limits) -> Iterator[Candidate]:
    """Every a has some b later on."""
    shares = Shares.of(data)
    for a, b in permutations(_segment_names(data), 2):
        speaks, both = data.present[a], data.present[a] & data.present[b]
        order = mean(data.segments[b] / np.maximum(data.segments[a] + data.segments[b], 1), both)
        p = mean(shares.company(data, a, b, touching=False), speaks) * order
        broken = _not_later(a, b)
        rule = r.followed_by(data.names[a], data.names[b])
        yield Candidate(rule, "precedence", speaks, broken, tail_of(data, speaks, broken, p), 1.3)


def _not_later(a: int, b: int) -> Check:
    return lambda data: data.present[a] & (data.last[b] < data.last[a])


@kind("presence")
def _presence(data: Counted, limits: Limits) -> Iterator[Candidate]:
    """No b before an a; where that is broken too often, the first a before the first b."""
    for a, b in permutations(_segment_names(data), 2):
        speaks = data.present[a] & data.present[b]
        sizes, n = np.unique(data.segments[[a, b]][:, speaks], axis=1, return_counts=True)
        odds = [1 / math.comb(int(i + j), int(i)) for i, j in sizes.T]
        p = float(np.average(odds, weights=n)) if len(odds) else 1.0
        broken = _too_early(a, b)
        rule = r.before(data.names[a], data.names[b])
        yield Candidate(rule, "presence", speaks, broken, tail_of(data, speaks, broken, p), 1.0)
        if (speaks & broken(data)).sum() > (1 - limits.confidence) * speaks.sum():
            p = mean(data.segments[a] / np.maximum(data.segments[a] + data.segments[b], 1), speaks)
            broken, rule = _first_too_early(a, b), r.first_before(data.names[a], data.names[b])
            yield Candidate(rule, "presence", speaks, broken, tail_of(data, speaks, broken, p, 2), 1.1)


def _first_too_early(a: int, b: int) -> Check:
    return lambda data: data.present[a] & data.present[b] & (data.first[b] < data.first[a])


def _too_early(a: int, b: int) -> Check:
    return lambda data: data.first[b] < data.last[a]


@kind("ends")
def _ends(data: Counted, limits: Limits) -> Iterator[Candidate]:
    """The first label, the last label: one of a few."""
    some = data.lengths > 0
    n_tokens = data.tally(data.name_of, data.owner)
    for make, end in ((r.starts_with, "at_start"), (r.ends_with, "at_end")):
        there = data.name_of[getattr(data, end)]
        names = _smallest(np.bincount(there, minlength=len(data.names)), limits, float(some.sum()))
        broken = _other_end(names, end)
        by_tokens = n_tokens[names].sum(axis=0) / np.maximum(data.lengths, 1)
        by_segments = data.segments[names].sum(axis=0) / np.maximum(data.segments.sum(axis=0), 1)
        p = max(mean(by_tokens, some), mean(by_segments, some))
        rule = make([data.names[u] for u in names])
        tail = tail_of(data, some, broken, p, len(data.names) * limits.names)
        yield Candidate(rule, "ends", some, broken, tail, 0.9 + 0.2 * (len(names) - 1))


def _smallest(counts: Ints, limits: Limits, total: float) -> list[int]:
    """The fewest names that cover the wanted share, most frequent first; not more than there may be."""
    order = np.argsort(-counts, kind="stable")[: limits.names]
    enough = np.flatnonzero(np.cumsum(counts[order]) >= limits.confidence * total)
    return [int(u) for u in (order[: enough[0] + 1] if len(enough) else order) if counts[u] > 0]


def _other_end(names: list[int], end: str) -> Check:
    return lambda data: data.any_of(getattr(data, end) & ~np.isin(data.name_of, names))


_Word = Literal["at most", "at least", "exactly"]
_COUNTS = {"at most": r.at_most, "at least": r.at_least, "exactly": r.exactly}


@kind("count")
def _count(data: Counted, limits: Limits) -> Iterator[Candidate]:
    """So many segments: at most, at least, exactly; the tightest number that the data bear."""
    shares, numbers = Shares.of(data), range(1, limits.numbers + 1)
    size = data.segments.sum(axis=0)
    apart = data.labels.scheme in (None, "IO")
    everywhere = np.ones(len(data), dtype=bool)
    for a in _segment_names(data):
        share = float(shares.segments[a])
        first, longest = max(share, float(shares.tokens[a])), int(size.max(initial=0))
        odds = segment_counts(share, first, longest, limits.numbers, apart=apart)[size]  # (K, c)
        tight: list[tuple[_Word, Bools, list[int]]] = [
            ("at most", data.present[a], [*numbers]),
            ("at least", everywhere, [*reversed(numbers)]),
            ("exactly", everywhere, [*numbers]),
        ]
        for word, speaks, ks in tight:
            good = {k: int((speaks & ~_miscounted(a, word, k)(data)).sum()) for k in ks}
            fits = [k for k in ks if good[k] >= limits.confidence * speaks.sum()]
            k = fits[0] if fits else max(good, key=lambda k: good[k])
            if word == "at most":
                p = odds[:, 1 : k + 1].sum(axis=1) / np.maximum(odds[:, 1:].sum(axis=1), 1e-9)
            else:
                p = odds[:, k:].sum(axis=1) if word == "at least" else odds[:, k]
            broken, rule = _miscounted(a, word, k), _COUNTS[word](k, of=data.names[a])
            tail = tail_of(data, speaks, broken, mean(p, speaks), limits.numbers)
            yield Candidate(rule, "count", speaks, broken, tail, 0.9 if word == "exactly" else 1.0)


def _miscounted(a: int, word: _Word, k: int) -> Check:
    def check(data: Counted) -> Bools:
        c = data.segments[a]
        bad: Bools = c != k if word == "exactly" else c > k if word == "at most" else c < k
        return bad

    return check


@kind("implication")
def _implication(data: Counted, limits: Limits) -> Iterator[Candidate]:
    """If a occurs, so does b."""
    shares, total = Shares.of(data), len(data)
    n = data.present.sum(axis=1)
    for a, b in permutations(_segment_names(data), 2):
        speaks, broken = data.present[a], _alone(a, b)
        both = int((data.present[a] & data.present[b]).sum())
        by_room = tail_of(data, speaks, broken, mean(shares.company(data, a, b, touching=False), speaks))
        by_margin = log_hypergeometric(both, total, int(n[b]), int(n[a]), tail="upper")
        rule = r.if_present(data.names[a], then=data.names[b])
        yield Candidate(rule, "implication", speaks, broken, max(by_room, by_margin), 1.2)


def _alone(a: int, b: int) -> Check:
    return lambda data: data.present[a] & ~data.present[b]


@kind("exclusion")
def _exclusion(data: Counted, limits: Limits) -> Iterator[Candidate]:
    """a and b never occur together."""
    shares, total = Shares.of(data), len(data)
    n = data.present.sum(axis=1)
    for a, b in permutations(_segment_names(data), 2):
        if (n[a], a) > (n[b], b):
            continue  # the rarer one asks
        speaks, broken = data.present[a], _together(a, b)
        both = int((data.present[a] & data.present[b]).sum())
        by_room = tail_of(data, speaks, broken, mean(1 - shares.company(data, a, b, touching=True), speaks))
        by_margin = log_hypergeometric(both, total, int(n[b]), int(n[a]), tail="lower")
        rule = ~(r.present(data.names[a]) & r.present(data.names[b]))
        yield Candidate(rule, "exclusion", speaks, broken, max(by_room, by_margin), 1.4)


def _together(a: int, b: int) -> Check:
    return lambda data: data.present[a] & data.present[b]
