"""Candidate rules: kinds of rules, each proposing candidates with their counts and their odds by chance.

A kind is one function: it goes over the names (or tokens) of the data and yields candidates. A candidate applies to
some sequences and is broken in some of those. Its tail is the probability that so few are broken when labels are drawn
with no memory: segments one after another, whose order, neighbours and company mean nothing, as many as the sequence
has. Where the data chose a number or a set for a rule, the tail is multiplied by how many there were to choose from.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Literal

import numpy as np

from bridle import rules as r
from bridle.labels import Bools
from bridle.learn.counted import Counted, Ints
from bridle.learn.statistics import Floats, change_odds, log_binomial, log_hypergeometric, segment_counts
from bridle.rules.base import Rule

Check = Callable[[Counted], Bools]  # (K,) which sequences break a rule


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A rule that may be true."""

    rule: Rule
    kind: str
    speaks: Bools  # (K,)
    broken: Check
    log_tail: float  # log of the probability that chance alone does so well
    cost: float  # how much there is to read


@dataclass(frozen=True, slots=True)
class Limits:
    """How far kinds look."""

    confidence: float  # the share of sequences that obey, wanted where a number or a set is chosen
    support: int  # sequences in which a rule must speak
    numbers: int = 4  # the largest count
    names: int = 3  # the largest set of labels
    delimiters: int = 30  # the most frequent marks


Kind = Callable[[Counted, Limits], Iterator[Candidate]]
KINDS: dict[str, Kind] = {}
OF_TOKENS: set[str] = set()  # kinds that look at the texts of tokens


def kind(name: str, *, sees: Literal["labels", "tokens"] = "labels") -> Callable[[Kind], Kind]:
    """Adds a kind under its name."""

    def add(propose: Kind) -> Kind:
        KINDS[name] = propose
        if sees == "tokens":
            OF_TOKENS.add(name)
        return propose

    return add


def tail_of(data: Counted, speaks: Bools, broken: Check, p: float, choices: int = 1) -> float:
    """log P(so many sequences obey), each with probability p, times the choices there were."""
    spoke, bad = int(speaks.sum()), int(broken(data).sum())
    return min(0.0, log_binomial(spoke - bad, spoke, min(max(p, 0.0), 1.0)) + math.log(choices))


def mean(values: Floats, where: Bools) -> float:
    """The mean over some sequences; 1, the odds of what cannot fail, if there are none."""
    return float(values[where].mean()) if where.any() else 1.0


@dataclass(frozen=True, slots=True)
class Shares:
    """What the null model knows."""

    segments: Floats  # (U,) of all segments
    tokens: Floats  # (U,) of all tokens
    size: Floats  # (K,) segments in each sequence

    @classmethod
    def of(cls, data: Counted) -> Shares:
        per_name = data.segments.sum(axis=1)
        tokens = np.bincount(data.name_of, minlength=len(data.names))
        size = data.segments.sum(axis=0)
        return cls(per_name / max(per_name.sum(), 1), tokens / max(tokens.sum(), 1), size.astype(np.float64))

    def company(self, data: Counted, a: int, b: int, *, touching: bool) -> Floats:
        """(K,): P(b occurs) in what room the segments of a leave. touching: as if b could be next to itself."""
        room = 1 - self.segments[a] - (0 if touching else self.segments[b])
        share = min(self.segments[b] / room, 1.0) if room > 0 else 1.0
        chance: Floats = 1 - (1 - share) ** np.maximum(self.size - data.segments[a], 0)
        return chance


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


# Kinds of tokens, as expressions over the whole text.
TOKEN_CLASSES = {
    "four digits": r"\D?\d{4}\D?",
    "number": r"\d+\W*",
    "digits inside": r".*\d.*",
    "range": r"\W*\d+\W+\d+\W*",
    "capitals": r"[A-Z]{2,}\W*",
    "initial": r"[A-Z]\.\W*",
    "capitalised": r"[A-Z][a-z]+\W*",
    "small letters": r"[a-z]+\W*",
    "comma at the end": r".+,",
    "stop at the end": r".+\.",
    "colon at the end": r".+:",
    "bracket": r".*[()\[\]].*",
    "quote": r".*[\"'`“”].*",
    "address": r".*(://|@|www\.).*",
}


@kind("change", sees="tokens")
def _change(data: Counted, limits: Limits) -> Iterator[Candidate]:
    """A mark is between these labels and those."""
    left, right, has_left, has_right = _neighbours(data)
    for mark in _marks(data, limits):
        pattern = re.escape(mark)
        here = data.matching(pattern)
        total = float(data.any_of(here).sum())
        sides = []
        for side, has in ((left, has_left), (right, has_right)):
            at = here & has
            pairs = np.unique(np.stack([side[at], data.owner[at]]), axis=1)[0]  # a name once per sequence
            sides.append(np.bincount(pairs, minlength=len(data.names)))
        speaks = data.any_of(here & (has_left | has_right))
        if not all(side.any() for side in sides):
            continue
        orders = [np.argsort(-side, kind="stable")[: limits.names].tolist() for side in sides]
        best: tuple[list[int], list[int]] = (orders[0], orders[1])
        for i, j in sorted(product(range(1, limits.names + 1), repeat=2), key=sum):
            sets = orders[0][:i], orders[1][:j]
            if total - _not_around(pattern, *sets)(data).sum() >= limits.confidence * total:
                best = sets
                break
        fine_left, fine_right = np.isin(left, best[0]), np.isin(right, best[1])
        both = has_left & has_right
        p_both = mean((fine_left & fine_right).astype(np.float64), both)
        p_one = max(mean(fine_left.astype(np.float64), has_left), mean(fine_right.astype(np.float64), has_right))
        p = mean(np.where(data.any_of(here & both), p_both, p_one), speaks)
        broken = _not_around(pattern, *best)
        before, after = ([data.names[u] for u in side] for side in best)
        rule = r.around(r.tokens(pattern), left=before, right=after)
        cost = 1.3 + 0.2 * (len(best[0]) + len(best[1]) - 2)
        choices = (len(data.names) * limits.names) ** 2
        yield Candidate(rule, "change", speaks, broken, tail_of(data, speaks, broken, p, choices), cost)


def _neighbours(data: Counted) -> tuple[Ints, Ints, Bools, Bools]:
    """(N,) the names before and after each token, and whether there is one."""
    return np.roll(data.name_of, 1), np.roll(data.name_of, -1), ~data.at_start, ~data.at_end


def _not_around(pattern: str, lefts: list[int], rights: list[int]) -> Check:
    def check(data: Counted) -> Bools:
        left, right, has_left, has_right = _neighbours(data)
        wrong = (has_left & ~np.isin(left, lefts)) | (has_right & ~np.isin(right, rights))
        return data.any_of(data.matching(pattern) & wrong)

    return check


def _marks(data: Counted, limits: Limits) -> list[str]:
    """Tokens without letters and digits that occur in enough sequences, the most frequent first."""
    where: dict[str, set[int]] = {}
    for text, k in zip(data.tokens or (), data.owner.tolist(), strict=True):
        if text and not any(c.isalnum() for c in text):
            where.setdefault(text, set()).add(k)
    often = [mark for mark, ks in where.items() if len(ks) >= limits.support]
    return sorted(often, key=lambda mark: (-len(where[mark]), mark))[: limits.delimiters]


@kind("tokens", sees="tokens")
def _tokens(data: Counted, limits: Limits) -> Iterator[Candidate]:
    """Tokens that look like this carry one of a few labels."""
    shares = Shares.of(data)
    marks = [re.escape(mark) for mark in _marks(data, limits)]
    for pattern in (*TOKEN_CLASSES.values(), *marks):
        here = data.matching(pattern)
        speaks = data.any_of(here)
        if not here.any():
            continue
        names = _covering(data, here, limits)
        p = float(shares.tokens[names].sum())
        broken = _not_allowed(pattern, names)
        rule = r.allow([data.names[u] for u in names], r.tokens(pattern))
        tail = tail_of(data, speaks, broken, p, len(data.names) * limits.names)
        yield Candidate(rule, "tokens", speaks, broken, tail, 1.1 + 0.2 * (len(names) - 1))


def _covering(data: Counted, here: Bools, limits: Limits) -> Sequence[int]:
    """The fewest names, most frequent first, with which enough sequences have all these tokens right."""
    counts = np.bincount(data.name_of[here], minlength=len(data.names))
    order = [int(u) for u in np.argsort(-counts, kind="stable")[: limits.names] if counts[u]]
    total = data.any_of(here).sum()
    for size in range(1, len(order) + 1):
        wrong = data.any_of(here & ~np.isin(data.name_of, order[:size])).sum()
        if total - wrong >= limits.confidence * total:
            return order[:size]
    return order


def _not_allowed(pattern: str, names: Sequence[int]) -> Check:
    return lambda data: data.any_of(data.matching(pattern) & ~np.isin(data.name_of, names))
