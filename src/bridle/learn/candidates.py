"""Candidate rules: each kind of rule is a function that proposes candidates with their counts and odds by chance.

A candidate applies to some sequences and is broken in some of those. Its tail is the probability that so few are broken
when labels are drawn with no memory: segments one after another, whose order, neighbours and company mean nothing, as
many as the sequence has. If a number or a set was chosen by the data, the tail is multiplied by the number of choices.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Literal

import numpy as np
import numpy.typing as npt

from bridle import rules as r
from bridle.labels import Bools
from bridle.learn.counted import Counted, Ints
from bridle.report.significance import Floats, log_binomial, log_hypergeometric
from bridle.rules.base import Rule

Check = Callable[[Counted], Bools]  # (K,) which sequences break a rule


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A rule that may be true."""

    rule: Rule
    kind: str
    applies: Bools  # (K,)  sequences that it is about
    broken: Check
    log_tail: float  # log of the probability that chance alone does so well
    cost: float  # length of its sentence


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the search for candidates."""

    confidence: float  # the share of sequences that must obey a number or a set that is chosen
    support: int  # sequences to which a rule must apply
    numbers: int = 4  # the largest count
    names: int = 3  # the largest set of labels
    delimiters: int = 30  # the most frequent marks


Kind = Callable[[Counted, Limits], Iterator[Candidate]]
KINDS: dict[str, Kind] = {}
OF_TOKENS: set[str] = set()  # kinds that look at the texts of tokens


def kind(name: str, *, sees: Literal["labels", "tokens"] = "labels") -> Callable[[Kind], Kind]:
    """Register a kind of rule under its name."""

    def add(propose: Kind) -> Kind:
        KINDS[name] = propose
        if sees == "tokens":
            OF_TOKENS.add(name)
        return propose

    return add


def _tail(data: Counted, applies: Bools, broken: Check, p: float, choices: int = 1) -> float:
    """Return log P(so many sequences obey), each with probability p, times the number of choices."""
    support, bad = int(applies.sum()), int(broken(data).sum())
    return min(0.0, log_binomial(support - bad, support, min(max(p, 0.0), 1.0)) + math.log(choices))


def _mean(values: Floats, where: Bools) -> float:
    """Return the mean over sequences; 1, the odds of what cannot fail, if there are none."""
    return float(values[where].mean()) if where.any() else 1.0


@dataclass(frozen=True, slots=True)
class _Shares:
    """The null model: shares of the names."""

    segments: Floats  # (U,) of all segments
    tokens: Floats  # (U,) of all tokens
    size: Floats  # (K,) segments in each sequence

    @classmethod
    def of(cls, data: Counted) -> _Shares:
        per_name = data.segments.sum(axis=1)
        tokens = np.bincount(data.name_of, minlength=len(data.names))
        size = data.segments.sum(axis=0)
        return cls(per_name / max(per_name.sum(), 1), tokens / max(tokens.sum(), 1), size.astype(np.float64))

    def company(self, data: Counted, a: int, b: int, *, touching: bool) -> Floats:
        """(K,): P(b occurs) among the segments that are not of a. touching: as if b could be next to itself."""
        rest = 1 - self.segments[a] - (0 if touching else self.segments[b])
        share = min(self.segments[b] / rest, 1.0) if rest > 0 else 1.0
        chance: Floats = 1 - (1 - share) ** np.maximum(self.size - data.segments[a], 0)
        return chance


def _segment_names(data: Counted) -> range:
    return range(len(data.names) - (data.outside is not None))


# ---- kinds that look at labels only ---------------------------------------------------------------------------------


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
        applies = sources[a] & data.present[b]
        if applies.sum() < limits.support:
            continue  # whether they ever meet is a question of "exclusion"
        tail = log_binomial(int(leaving[a] - pairs[a, b]), int(leaving[a]), float(1 - odds[a, b]))
        rule = r.forbid_transition(data.names[a], data.names[b])
        yield Candidate(rule, "adjacency", applies, _changes(a, b), tail, 1.5)
    for a in np.flatnonzero(leaving).tolist():
        b = int(pairs[a].argmax())
        name, other, applies = data.names[a], data.names[b], data.present[a]
        for rule, fine, cost in (
            (r.immediately_followed_by(name, [name, other]), (a, b), 1.4),
            (r.immediately_followed_by(name, other), (b,), 1.2),
        ):
            broken = _not_followed_by(a, fine)
            yield Candidate(rule, "adjacency", applies, broken, _tail(data, applies, broken, odds[a, b], U - 1), cost)


def _changes(a: int, b: int) -> Check:
    return lambda data: data.follows.get((a, b), np.zeros(len(data), dtype=bool))


def _not_followed_by(a: int, fine: Sequence[int]) -> Check:
    def check(data: Counted) -> Bools:
        after = np.append(data.name_of[1:], -1)
        return data.any_of((data.name_of == a) & (data.at_end | ~np.isin(after, fine)))

    return check


def _well_formed(data: Counted) -> Candidate:
    step, first, last = data.labels.allowed

    def check(data: Counted) -> Bools:
        before = np.roll(data.ids, 1)
        fine = np.where(data.at_start, first[data.ids], step[before, data.ids]) & (last[data.ids] | ~data.at_end)
        return data.any_of(~fine)

    share = np.bincount(data.ids, minlength=len(data.labels)) / max(len(data.ids), 1)
    applies = data.lengths > 0
    p = _mean((share @ first) * (share @ step @ share) ** np.maximum(data.lengths - 1.0, 0), applies)
    return Candidate(r.well_formed(), "adjacency", applies, check, _tail(data, applies, check, float(p)), 0.5)


@kind("precedence")
def _precedence(data: Counted, limits: Limits) -> Iterator[Candidate]:
    """Every a has some b later on."""
    shares = _Shares.of(data)
    for a, b in permutations(_segment_names(data), 2):
        applies, both = data.present[a], data.present[a] & data.present[b]
        order = _mean(data.segments[b] / np.maximum(data.segments[a] + data.segments[b], 1), both)
        p = _mean(shares.company(data, a, b, touching=False), applies) * order
        rule, broken = r.followed_by(data.names[a], data.names[b]), _not_later(a, b)
        yield Candidate(rule, "precedence", applies, broken, _tail(data, applies, broken, p), 1.3)


def _not_later(a: int, b: int) -> Check:
    return lambda data: data.present[a] & (data.last[b] < data.last[a])


@kind("presence")
def _presence(data: Counted, limits: Limits) -> Iterator[Candidate]:
    """No b before an a; where that is broken too often, the first a before the first b."""
    for a, b in permutations(_segment_names(data), 2):
        applies = data.present[a] & data.present[b]
        sizes, n = np.unique(data.segments[[a, b]][:, applies], axis=1, return_counts=True)
        odds = [1 / math.comb(int(i + j), int(i)) for i, j in sizes.T]
        p = float(np.average(odds, weights=n)) if len(odds) else 1.0
        rule, broken = r.before(data.names[a], data.names[b]), _too_early(a, b)
        yield Candidate(rule, "presence", applies, broken, _tail(data, applies, broken, p), 1.0)
        if (applies & broken(data)).sum() > (1 - limits.confidence) * applies.sum():
            p = _mean(data.segments[a] / np.maximum(data.segments[a] + data.segments[b], 1), applies)
            rule, broken = r.first_before(data.names[a], data.names[b]), _first_too_early(a, b)
            yield Candidate(rule, "presence", applies, broken, _tail(data, applies, broken, p, 2), 1.1)


def _too_early(a: int, b: int) -> Check:
    return lambda data: data.first[b] < data.last[a]


def _first_too_early(a: int, b: int) -> Check:
    return lambda data: data.present[a] & data.present[b] & (data.first[b] < data.first[a])


@kind("ends")
def _ends(data: Counted, limits: Limits) -> Iterator[Candidate]:
    """The first label, the last label: one of a few."""
    applies = data.lengths > 0
    n_tokens = data.tally(data.name_of, data.owner)
    for make, end in ((r.starts_with, "at_start"), (r.ends_with, "at_end")):
        counts = np.bincount(data.name_of[getattr(data, end)], minlength=len(data.names))
        names = _most_frequent(counts, limits)
        enough = np.flatnonzero(np.cumsum(counts[names]) >= limits.confidence * float(applies.sum()))
        names = names[: enough[0] + 1] if len(enough) else names
        broken = _other_end(names, end)
        by_tokens = n_tokens[names].sum(axis=0) / np.maximum(data.lengths, 1)
        by_segments = data.segments[names].sum(axis=0) / np.maximum(data.segments.sum(axis=0), 1)
        p = max(_mean(by_tokens, applies), _mean(by_segments, applies))
        tail = _tail(data, applies, broken, p, len(data.names) * limits.names)
        rule = make([data.names[u] for u in names])
        yield Candidate(rule, "ends", applies, broken, tail, 0.9 + 0.2 * (len(names) - 1))


def _most_frequent(counts: Ints, limits: Limits) -> list[int]:
    """List the most frequent names, as many as a rule may have."""
    return [int(u) for u in np.argsort(-counts, kind="stable")[: limits.names] if counts[u] > 0]


def _other_end(names: list[int], end: str) -> Check:
    return lambda data: data.any_of(getattr(data, end) & ~np.isin(data.name_of, names))


_Word = Literal["at most", "at least", "exactly"]
_COUNTS = {"at most": r.at_most, "at least": r.at_least, "exactly": r.exactly}


@kind("count")
def _count(data: Counted, limits: Limits) -> Iterator[Candidate]:
    """So many segments: at most, at least, exactly; the tightest number that the data bear."""
    shares, numbers = _Shares.of(data), range(1, limits.numbers + 1)
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
        for word, applies, ks in tight:
            good = {k: int((applies & ~_miscounted(a, word, k)(data)).sum()) for k in ks}
            fits = [k for k in ks if good[k] >= limits.confidence * applies.sum()]
            k = fits[0] if fits else max(good, key=lambda k: good[k])
            if word == "at most":
                p = odds[:, 1 : k + 1].sum(axis=1) / np.maximum(odds[:, 1:].sum(axis=1), 1e-9)
            else:
                p = odds[:, k:].sum(axis=1) if word == "at least" else odds[:, k]
            rule, broken = _COUNTS[word](k, of=data.names[a]), _miscounted(a, word, k)
            tail = _tail(data, applies, broken, _mean(p, applies), limits.numbers)
            yield Candidate(rule, "count", applies, broken, tail, 0.9 if word == "exactly" else 1.0)


def _miscounted(a: int, word: _Word, k: int) -> Check:
    compare = {"exactly": np.not_equal, "at most": np.greater, "at least": np.less}[word]
    return lambda data: np.asarray(compare(data.segments[a], k))


@kind("implication")
def _implication(data: Counted, limits: Limits) -> Iterator[Candidate]:
    """If a occurs, so does b."""
    shares = _Shares.of(data)
    for a, b in permutations(_segment_names(data), 2):
        yield _company(data, shares, r.if_present(data.names[a], then=data.names[b]), "implication", a, b)


@kind("exclusion")
def _exclusion(data: Counted, limits: Limits) -> Iterator[Candidate]:
    """a and b never occur together."""
    shares, n = _Shares.of(data), data.present.sum(axis=1)
    for a, b in permutations(_segment_names(data), 2):
        if (n[a], a) <= (n[b], b):  # it applies to sequences with the rarer of the two
            yield _company(data, shares, ~(r.present(data.names[a]) & r.present(data.names[b])), "exclusion", a, b)


def _company(
    data: Counted, shares: _Shares, rule: Rule, kind: Literal["implication", "exclusion"], a: int, b: int
) -> Candidate:
    """Test whether b comes with a more often, or less often, than by chance: by shares of segments, and by counts."""
    wanted = kind == "implication"
    applies, broken = data.present[a], _alone(a, b) if wanted else _together(a, b)
    odds = shares.company(data, a, b, touching=not wanted)
    by_shares = _tail(data, applies, broken, _mean(odds if wanted else 1 - odds, applies))
    both, (n_a, n_b) = int((applies & data.present[b]).sum()), data.present[[a, b]].sum(axis=1).tolist()
    by_counts = log_hypergeometric(both, len(data), n_b, n_a, tail="upper" if wanted else "lower")
    return Candidate(rule, kind, applies, broken, max(by_shares, by_counts), 1.2 if wanted else 1.4)


def _alone(a: int, b: int) -> Check:
    return lambda data: data.present[a] & ~data.present[b]


def _together(a: int, b: int) -> Check:
    return lambda data: data.present[a] & data.present[b]


# ---- kinds that look at the texts of tokens -------------------------------------------------------------------------

# Classes of tokens, as expressions over the whole text.
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
        applies = data.any_of(here & (has_left | has_right))
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
        p_both = _mean((fine_left & fine_right).astype(np.float64), both)
        p_one = max(_mean(fine_left.astype(np.float64), has_left), _mean(fine_right.astype(np.float64), has_right))
        p = _mean(np.where(data.any_of(here & both), p_both, p_one), applies)
        broken = _not_around(pattern, *best)
        before, after = ([data.names[u] for u in side] for side in best)
        tail = _tail(data, applies, broken, p, (len(data.names) * limits.names) ** 2)
        cost = 1.3 + 0.2 * (len(best[0]) + len(best[1]) - 2)
        yield Candidate(r.around(r.tokens(pattern), left=before, right=after), "change", applies, broken, tail, cost)
    yield from _changes_over_marks(data, limits)


def _changes_over_marks(data: Counted, limits: Limits) -> Iterator[Candidate]:
    """Never from a over marks to b: a first-order model has forgotten a behind a mark with a label of its own."""
    marks, names = data.matching(r"[\W_]+"), [_in_expression(name) for name in data.names]
    for d in _segment_names(data):
        of_d = data.name_of == d
        if not marks[of_d].all() or data.present[d].sum() < limits.support:
            continue
        a_of, b_of, owner = data.over(d)
        pairs = np.zeros((len(data.names), len(data.names) + 1), dtype=np.int64)  # the last column: the end
        np.add.at(pairs, (a_of, b_of), 1)
        leaving, share = pairs.sum(axis=1), pairs.sum(axis=0) / max(pairs.sum(), 1)
        sources = data.tally(a_of, owner) > 0  # (U, K)
        for a, b in product(np.flatnonzero(leaving).tolist(), _segment_names(data)):
            applies = sources[a] & data.present[b]
            if b != d and applies.sum() >= limits.support:
                tail = log_binomial(int(leaving[a] - pairs[a, b]), int(leaving[a]), float(1 - share[b]))
                rule = ~r.matches(f".* {names[a]} {names[d]}+ {names[b]} .*")
                yield Candidate(rule, "change", applies, _changes_over(a, b, d), tail, 1.6)


def _in_expression(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name) else f'"{name}"' if "'" in name else f"'{name}'"


def _changes_over(a: int, b: int, d: int) -> Check:
    def check(data: Counted) -> Bools:
        a_of, b_of, owner = data.over(d)
        return np.bincount(owner[(a_of == a) & (b_of == b)], minlength=len(data)) > 0

    return check


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
    """List tokens without letters and digits that occur in enough sequences, the most frequent first."""
    where: dict[str, set[int]] = {}
    for text, k in zip(data.tokens or (), data.owner.tolist(), strict=True):
        if text and not any(c.isalnum() for c in text):
            where.setdefault(text, set()).add(k)
    often = [mark for mark, ks in where.items() if len(ks) >= limits.support]
    return sorted(often, key=lambda mark: (-len(where[mark]), mark))[: limits.delimiters]


@kind("tokens", sees="tokens")
def _tokens(data: Counted, limits: Limits) -> Iterator[Candidate]:
    """Tokens that look like this carry one of the fewest labels with which enough sequences have them right."""
    shares = _Shares.of(data)
    for pattern in (*TOKEN_CLASSES.values(), *map(re.escape, _marks(data, limits))):
        here = data.matching(pattern)
        if not here.any():
            continue
        applies = data.any_of(here)
        order = _most_frequent(np.bincount(data.name_of[here], minlength=len(data.names)), limits)
        names = order
        for size in range(1, len(order)):
            wrong = _not_allowed(pattern, order[:size])(data).sum()
            if applies.sum() - wrong >= limits.confidence * applies.sum():
                names = order[:size]
                break
        broken = _not_allowed(pattern, names)
        p = float(shares.tokens[names].sum())
        tail = _tail(data, applies, broken, p, len(data.names) * limits.names)
        rule = r.allow([data.names[u] for u in names], r.tokens(pattern))
        yield Candidate(rule, "tokens", applies, broken, tail, 1.1 + 0.2 * (len(names) - 1))


def _not_allowed(pattern: str, names: Sequence[int]) -> Check:
    return lambda data: data.any_of(data.matching(pattern) & ~np.isin(data.name_of, names))


# ---- chance ----------------------------------------------------------------------------------------------------------


def change_odds(leaving: npt.NDArray[np.int64], entering: npt.NDArray[np.int64], rounds: int = 100) -> Floats:
    """Return (U, U): P(b comes next | a ended), by iterative proportional fitting: rows and columns in turn."""
    free = 1.0 - np.eye(len(leaving))
    columns = entering.astype(np.float64)
    for _ in range(rounds):
        rows = leaving / np.maximum(free @ columns, 1e-12)
        columns = entering / np.maximum(free @ rows, 1e-12)
    weights = free * columns
    return np.asarray(weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-12))


def segment_counts(share: float, first: float, longest: int, most: int, *, apart: bool) -> Floats:
    """Return (longest + 1, most + 2): P(c segments of a label | s segments in all), the last column for c > most.

    share: of all segments, those of the label; first: of first segments. apart: two segments of one label never touch
    (they would be one), so a label comes next with probability share / (1 - share) after another label, and never after
    itself.
    """
    after_other = min(share / (1 - share), 1.0) if apart and share < 1 else share
    after_self = 0.0 if apart else share
    table = np.zeros((longest + 1, most + 2))
    table[0, 0] = 1
    other, same = table[0].copy(), np.zeros(most + 2)  # by count, the last segment being of another label, or of this
    for s in range(1, longest + 1):
        enters = first if s == 1 else after_other
        into = other * enters + same * after_self
        other = other * (1 - enters) + same * (1 - after_self)
        same = np.concatenate([[0.0], into[:-1]])
        same[-1] += into[-1]
        table[s] = other + same
    return table
