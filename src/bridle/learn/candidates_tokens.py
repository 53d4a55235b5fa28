"""Kinds of rules that look at the texts of tokens: labels around marks, labels of tokens that look alike."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from bridle import rules as r
from bridle.labels import Bools
from bridle.learn.candidates import Candidate, Check, Limits, Shares, kind, mean, tail_of
from bridle.learn.counted import Counted, Ints

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
