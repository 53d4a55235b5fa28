"""Words over characters (Zhao & Marcus 2012, sections 3.3 and 3.4): their scores, and how word counts are weighed.

    score(c_s .. c_e) = S[s]  or  B[s] + M[s+1] + ... + M[e-1] + E[e]            scores of the characters' labels
                        + own[wc(c_s .. c_e)] + left[wc(c_(s-1) c_s)] + right[wc(c_e c_(e+1))]
    wc(w) = floor(5 log count(w)) + 1;  0: never seen                            a weight for each value

The weights of the counts are learned by an averaged perceptron over the words, the characters' scores standing still;
on sentences that neither those scores nor the counts have seen, as it will be when segmenting.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.spans import SpanDecoder, SpanLattice
from experiments.segmentation_data import Sentence

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Spans = list[tuple[int, int]]


def spans_of(words: Sentence) -> Spans:
    """Start and end of each word."""
    ends = np.cumsum([0, *map(len, words)]).tolist()
    return list(pairwise(ends))


def word_scores(unary: npt.NDArray[np.floating[Any]], names: Sequence[str], longest: int) -> Floats:
    """(n, L): [s, k] is the word of k + 1 characters that starts at s; -inf beyond the end, and of unknown labels."""
    n = len(unary)
    begin, middle, end, single = (
        unary[:, names.index(y)].astype(np.float64) if y in names else np.full(n, -np.inf) for y in "BMES"
    )
    out = np.full((n, min(longest, n if "M" in names else 2, n)), -np.inf)  # without M no word has three characters
    before = np.concatenate([[0.0], np.cumsum(middle)]) if "M" in names else np.zeros(n + 1)
    if n:
        out[:, 0] = single
    for k in range(1, out.shape[1]):
        s = np.arange(n - k)
        out[: n - k, k] = begin[s] + (before[s + k] - before[s + 1]) + end[s + k]
    return out


@dataclass(frozen=True, slots=True)
class Asked:
    """The values of wc that a sentence asks for."""

    own: Ints  # (n, L)
    between: Ints  # (n + 1) of the two characters around each boundary; -1 at both ends


class WordCounts:
    """Weights of word counts."""

    own: Floats
    left: Floats
    right: Floats

    def __init__(self, train: Iterable[Sentence], longest: int) -> None:
        counts = Counter(word for words in train for word in words)
        self.value = {word: math.floor(5 * math.log(count)) + 1 for word, count in counts.items()}
        self.longest = longest
        size = max(self.value.values(), default=0) + 2  # the last one stays 0: there is no such neighbour
        self.own, self.left, self.right = (np.zeros(size) for _ in range(3))

    def ask(self, text: str) -> Asked:
        """Look a sentence up."""
        n, get = len(text), self.value.get
        own = np.zeros((n, min(self.longest, n)), dtype=np.int32)
        for s in range(n):
            for k in range(min(own.shape[1], n - s)):
                own[s, k] = get(text[s : s + k + 1], 0)
        inside = [get(text[s - 1 : s + 1], 0) for s in range(1, n)]
        return Asked(own, np.array([-1, *inside, -1], dtype=np.int32))

    def added(self, table: Floats, asked: Asked) -> Floats:
        """Scores of words with those of their counts."""
        n, width = table.shape
        ends = np.minimum(np.arange(n)[:, None] + np.arange(1, width + 1), n)
        of_counts = self.own[asked.own] + self.left[asked.between[:n]][:, None] + self.right[asked.between[ends]]
        return np.asarray(table + of_counts)

    def fit(
        self, tables: Sequence[Floats], asked: Sequence[Asked], gold: Sequence[Spans], *, rounds: int, seed: int
    ) -> None:
        """Learn the weights; the mean of all that were on the way is kept."""
        decoder = SpanDecoder()
        sums = [np.zeros_like(w) for w in (self.own, self.left, self.right)]
        order, chance = list(range(len(tables))), random.Random(seed)
        for _ in range(rounds):
            chance.shuffle(order)
            for b in order:
                lattice = SpanLattice.all_words(len(tables[b]), self.added(tables[b], asked[b]))
                guess = decoder.decode(lattice).words
                if guess != gold[b]:
                    self._move(asked[b], set(gold[b]) - set(guess), 1.0)
                    self._move(asked[b], set(guess) - set(gold[b]), -1.0)
                for total, w in zip(sums, (self.own, self.left, self.right), strict=True):
                    total += w
        steps = max(rounds * len(order), 1)
        self.own, self.left, self.right = (total / steps for total in sums)

    def _move(self, asked: Asked, words: Iterable[tuple[int, int]], by: float) -> None:
        last = len(asked.between) - 1
        for s, e in words:
            if e - s <= asked.own.shape[1]:
                self.own[asked.own[s, e - s - 1]] += by
            if s > 0:
                self.left[asked.between[s]] += by
            if e < last:
                self.right[asked.between[e]] += by
