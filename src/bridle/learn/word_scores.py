"""Scores of possible words: by the labels of their characters, and by how often words occur.

score(c_s .. c_e) = characters(s, e) + own[length][wc(c_s .. c_e)] + left[wc(c_(s-1) c_s)] + right[wc(c_e c_(e+1))]
characters(s, e)  = S[s]  or  B[s] + M[s+1] + ... + M[e-1] + E[e]        (BMES; with IB: B[s] + I[s+1] + ... + I[e])
wc(w)             = floor(5 log count(w)) + 1;  0: never seen            a weight for each value
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Spans = list[tuple[int, int]]
LENGTHS = 4  # of words that have weights of counts of their own; the last is for all longer ones
ROLES = {"BMES": ("S", "B", "M", "E"), "IB": ("B", "B", "I", "I")}  # of a word: alone, first, inside, last
Scheme = Literal["BMES", "IB"]


def spans_of(words: Iterable[str]) -> Spans:
    """Return start and end of each word."""
    ends = np.cumsum([0, *map(len, words)]).tolist()
    return list(pairwise(ends))


def labels_of(words: Iterable[str], scheme: Literal["BMES", "IB"]) -> list[str]:
    """Return a label for each character."""
    alone, first, inside, last = ROLES[scheme]
    return [y for w in words for y in (alone if len(w) == 1 else first + inside * (len(w) - 2) + last)]


def word_scores(
    unary: npt.NDArray[np.floating[Any]],
    names: Sequence[str],
    longest: int,
    scheme: Literal["BMES", "IB"] = "BMES",
) -> Floats:
    """(n, L): score words by the labels of their characters; [s, k] is the word of k + 1 characters that starts at s.

    -inf beyond the end, and where a label is unknown.
    """
    n, roles = len(unary), ROLES[scheme]
    alone, first, inside, last = (
        unary[:, names.index(y)].astype(np.float64) if y in names else np.full(n, -np.inf) for y in roles
    )
    long = roles[2] in names
    out = np.full((n, min(longest, n if long else 2, n)), -np.inf)  # without M no word has three characters
    before = np.concatenate([[0.0], np.cumsum(inside)]) if long else np.zeros(n + 1)
    if n:
        out[:, 0] = alone
    for k in range(1, out.shape[1]):
        s = np.arange(n - k)
        out[: n - k, k] = first[s] + (before[s + k] - before[s + 1]) + last[s + k]
    return out


@dataclass(frozen=True, slots=True)
class WordValues:
    """The values of wc that a sentence asks for, each as the number of a weight."""

    at: Ints  # (k, 2) a start and a length - 1, of the possible words that were seen
    own: Ints  # (k,)
    between: Ints  # (n + 1,) of the two characters around each boundary; -1 at both ends


AllValues = Sequence[WordValues | None]  # of each sentence; None: there are no counts


class WordCounts:
    """Counts of words, and the values of wc that sentences ask for."""

    def __init__(self, counts: Mapping[str, int], size: int, longest: int) -> None:
        self.counts, self.longest = dict(counts), longest
        self.size = size  # values of wc, and one for no neighbour
        self.parts = {word[:k] for word in counts for k in range(1, len(word) + 1)}  # beginnings of words

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]], longest: int) -> WordCounts:
        """Count words."""
        counts = Counter(word for words in sentences for word in words)
        return cls(counts, value_of(max(counts.values(), default=0)) + 2, longest)

    def ask(self, text: str, but: Mapping[str, int] | None = None) -> WordValues:
        """Look a sentence up; but: counts to leave out, those of its own words."""
        n, counts, parts, most = len(text), self.counts, self.parts, self.size - 2
        left_out = but or {}
        at: list[tuple[int, int]] = []
        own: list[int] = []
        for s in range(n):
            for k in range(min(self.longest, n - s)):
                word = text[s : s + k + 1]
                if word not in parts:
                    break
                count = counts.get(word, 0) - left_out.get(word, 0)
                if count > 0:
                    at.append((s, k))
                    own.append(min(value_of(count), most))
        pairs = (text[s - 1 : s + 1] for s in range(1, n))
        inside = [min(value_of(counts.get(pair, 0) - left_out.get(pair, 0)), most) for pair in pairs]
        cells = np.array(at, dtype=np.int32).reshape(-1, 2)
        return WordValues(cells, np.array(own, dtype=np.int32), np.array([-1, *inside, -1], dtype=np.int32))

    def added(self, table: Floats, values: WordValues, weights: Floats) -> Floats:
        """Add to the scores of words those of their counts."""
        own, (left, right) = weights[:LENGTHS], weights[LENGTHS:]  # the last weights of left and right stay 0
        n, width = table.shape
        length = np.minimum(np.arange(width), LENGTHS - 1)
        ends = np.minimum(np.arange(n)[:, None] + np.arange(1, width + 1), n)
        out: Floats = table + left[values.between[:n]][:, None] + right[values.between[ends]] + own[length, 0]
        start, more = values.at[fits := values.at[:, 1] < width].T
        out[start, more] += own[length[more], values.own[fits]] - own[length[more], 0]
        return out


def value_of(count: int) -> int:
    """Return wc of a word that occurs so many times."""
    return math.floor(5 * math.log(count)) + 1 if count > 0 else 0


class CountWeights:
    """Weights of counts that move with mistakes, and their mean."""

    def __init__(self, size: int) -> None:
        self.now, self.total = np.zeros((LENGTHS + 2, size)), np.zeros((LENGTHS + 2, size))

    def update(self, values: WordValues, gold: Spans, guess: Spans, step: int) -> None:
        """Move towards the gold words, away from those that were guessed."""
        own = {(s, k): value for (s, k), value in zip(values.at.tolist(), values.own.tolist(), strict=True)}
        last = len(values.between) - 1
        for by, words in ((1.0, set(gold) - set(guess)), (-1.0, set(guess) - set(gold))):
            for s, e in words:
                cells = [(min(e - s, LENGTHS) - 1, own.get((s, e - s - 1), 0))]
                cells += [(LENGTHS, int(values.between[s]))] if s > 0 else []
                cells += [(LENGTHS + 1, int(values.between[e]))] if e < last else []
                for cell in cells:
                    self.now[cell] += by
                    self.total[cell] += by * step

    def mean(self, steps: int) -> Floats:
        """Return the mean over all steps."""
        return self.now - self.total / max(steps, 1)
