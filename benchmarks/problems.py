"""Seeded input sets: what every side of a comparison decodes.

A `Problem` is labels, rules, a packed batch and what comes with each sequence. Its `facts` say the rules once more as
plain indices, so that a peer can build its model without paying for our rule objects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bridle import rules as r
from bridle.labels import Labels
from bridle.lattice import Batch, Lattice
from bridle.rules import Rule
from trellis import Facts, Floats

ARGUMENTS = ["A0", "A1", "A2", "A3", "A4", "A5"]
SRL_NAMES = [
    *(f"NO DUPLICATE {a}" for a in ARGUMENTS),
    "ARGUMENT CANDIDATES",
    "AT LEAST ONE ARGUMENT",
    "KNOWN VERB POSITION",
    "DISALLOW ARGUMENTS",
]
COMMON = np.array([1.0, 0.3, 0.6, 0.2, -1.0, -1.0, -2.5])  # O and the common roles first
CHUNKS = ["NP", "VP", "PP", "ADVP", "SBAR", "ADJP", "PRT", "CONJP", "INTJ", "LST", "UCP"]


@dataclass(frozen=True)
class Problem:
    """One input set."""

    name: str
    labels: Labels
    rules: list[Rule]
    batch: Batch
    given: list[dict[str, Any]] | None = None
    facts: tuple[Facts, ...] = ()

    def __len__(self) -> int:
        return len(self.batch)

    def take(self, count: int) -> Problem:
        """The first sequences of the set."""
        count = min(count, len(self))
        cuts = self.batch.offsets[: count + 1]
        b = self.batch
        part = Batch(b.unary[: cuts[-1]], cuts, b.pairwise, b.start, b.end)
        given = None if self.given is None else self.given[:count]
        return replace(self, batch=part, given=given, facts=self.facts[:count])

    def tiled(self, times: int) -> Problem:
        """The set behind itself, for batches that take long enough to time."""
        b = self.batch
        cuts = np.concatenate([[0], np.cumsum(np.tile(np.diff(b.offsets), times))])
        many = Batch(np.tile(b.unary, (times, 1)), cuts, b.pairwise, b.start, b.end)
        given = None if self.given is None else self.given * times
        return replace(self, batch=many, given=given, facts=self.facts * times)

    def lattices(self) -> list[Lattice]:
        return [self.batch[k] for k in range(len(self))]

    def givens(self) -> list[dict[str, Any]]:
        return self.given if self.given is not None else [{} for _ in range(len(self))]


def pack(parts: list[Floats], pairwise: Floats | None = None) -> Batch:
    """Sequences behind each other, without padding."""
    offsets = np.concatenate([[0], np.cumsum([len(p) for p in parts])])
    return Batch(np.concatenate(parts), offsets, pairwise)


def log_softmax(scores: Floats) -> Floats:
    top = scores.max(axis=1, keepdims=True)
    return scores - top - np.log(np.exp(scores - top).sum(axis=1, keepdims=True))


def viterbi(unary: Floats, step: Floats | None, first: Floats | None = None, last: Floats | None = None) -> list[int]:
    """Plain best path: one (m, m) addition and one argmax per token. Also the NumPy peer of the BIOES set."""
    n, m = unary.shape
    if step is None:
        return unary.argmax(axis=1).tolist()
    back = np.zeros((n, m), dtype=np.intp)
    into = np.ascontiguousarray(step.T)
    rows, sums = np.arange(m), np.empty((m, m))
    best = unary[0] if first is None else unary[0] + first
    for t in range(1, n):
        np.add(into, best, out=sums)
        sums.argmax(axis=1, out=back[t])
        best = sums[rows, back[t]] + unary[t]
    y = [int((best if last is None else best + last).argmax())]
    for t in range(n - 1, 0, -1):
        y.append(int(back[t, y[-1]]))
    return y[::-1]


# ---- semantic role labelling: the ten rules of Roth & Yih ------------------------------------------------------------


def _sentence(rng: np.random.Generator) -> tuple[int, int, list[tuple[int, int, int]]]:
    """Length, verb and gold segments (start, end, label) of a sentence; the verb is in none of them."""
    n = int(np.clip(rng.normal(19, 6), 8, 35))
    verb = int(rng.integers(1, n - 2))
    taken = [k for k, share in enumerate([0.7, 0.9, 0.4, 0.08, 0.08, 0.02], start=1) if rng.random() < share] or [2]
    left, right = [k for k in taken if k == 1], [k for k in taken if k > 1]
    if len(right) > 1 and rng.random() < 0.15:
        left.append(right.pop())
    gold = []
    for names, low, high in ((left, 0, verb), (right, verb + 1, n)):
        at = low + int(rng.integers(0, 2))
        for k in names:
            size = int(rng.integers(1, 7))
            if at + size <= high:
                gold.append((at, at + size, k))
            at += size + int(rng.integers(0, 3))
    return n, verb, gold


def _candidates(rng: np.random.Generator, n: int, verb: int, gold: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Spans of a parser: the gold ones, parts of them, and some that cut across. None holds the verb."""
    spans = [(a, b) for a, b, _ in gold]
    for _ in range(int(rng.integers(2, 5))):
        if spans and rng.random() < 0.5:
            a, b = spans[int(rng.integers(len(spans)))]
            cut = int(rng.integers(a, b))
            spans.append((cut, b))
        else:
            a = int(rng.integers(0, n - 1))
            b = min(n, a + int(rng.integers(2, 5)))
            crosses = any(a < d and c < b and not (c <= a and b <= d) for c, d, _ in gold)
            if not a <= verb < b and (not crosses or rng.random() < 0.15):
                spans.append((a, b))
    return sorted(set(spans))


def srl(count: int, seed: int = 1) -> Problem:
    """Local classifier scores without pairwise ones; candidates, verb and frame come with the sequence."""
    rng = np.random.default_rng(seed)
    labels = Labels(["O", *ARGUMENTS], scheme="IO")
    rules = [
        *(r.at_most(1, of=a) for a in ARGUMENTS),
        r.same_label(r.given("candidates")),
        r.at_least(1, of=ARGUMENTS),
        r.fix("O", r.given("verb")),
        r.allow(["O", r.given("frame")]),
    ]
    parts, given, facts = [], [], []
    for _ in range(count):
        n, verb, gold = _sentence(rng)
        spans = _candidates(rng, n, verb, gold)
        frame = sorted({1, 2} | {k for _, _, k in gold} | {k for k in range(3, 7) if rng.random() < 0.25})
        y = np.zeros(n, dtype=np.intp)
        for a, b, k in gold:
            y[a:b] = k
        scores = rng.normal(0, 1.35, (n, 7)) + COMMON
        scores[np.arange(n), y] += 4.0
        scores[verb, 0] += 4.0
        for a, b, k in gold:  # part of an argument looks like another one, or like none
            if rng.random() < 0.3:
                cut = int(rng.integers(a, b))
                scores[cut:b, int(rng.choice([0, 1, 2, 3], p=[0.35, 0.25, 0.3, 0.1]))] += 4.0 + rng.normal()
            if rng.random() < 0.15:  # and so does something outside: a second segment of the same role
                at = int(rng.integers(0, n))
                scores[at : at + 2, k] += 5.0
        if rng.random() < 0.04:  # a sentence in which nothing looks like an argument
            scores[:, 0] += 5.0
        parts.append(log_softmax(scores))
        given.append({"verb": verb, "candidates": spans, "frame": [labels.names[k] for k in frame]})
        tied = tuple(sorted({t for a, b in spans for t in range(a + 1, b)}))
        facts.append(Facts((1, 2, 3, 4, 5, 6), (1, 2, 3, 4, 5, 6), tied, verb, (0, *frame)))
    return Problem("srl", labels, rules, pack(parts), given, tuple(facts))


def softened(problem: Problem, seed: int = 5) -> Problem:
    """Return the set with a penalty on every rule instead of a ban."""
    prices = np.random.default_rng(seed).uniform(3, 6, len(problem.rules))
    rules = [rule.soft(round(float(p), 2)) for rule, p in zip(problem.rules, prices, strict=True)]
    return replace(problem, name=f"{problem.name}, soft", rules=rules)


# ---- hard lattices: each label at most one segment ------------------------------------------------------------------


def hard(count: int, seed: int = 2, n: int = 60, noise: float = 0.9) -> Problem:
    """Citation-like: 13 fields, 8 to 13 gold segments, scores so noisy that many best paths come back to a field."""
    rng = np.random.default_rng(seed)
    labels = Labels([f"F{k}" for k in range(13)])
    m = len(labels)
    pairwise = rng.normal(0, 0.5, (m, m)) + 1.0 * np.eye(m)
    parts = []
    for _ in range(count):
        kinds = rng.permutation(m)[: int(rng.integers(8, 14))]
        cuts = np.sort(rng.choice(np.arange(1, n), len(kinds) - 1, replace=False))
        y = np.repeat(kinds, np.diff([0, *cuts, n]))
        scores = rng.normal(0, noise, (n, m))
        scores[np.arange(n), y] += 1.0
        parts.append(scores)
    rules = [r.at_most(1, of=name) for name in labels]
    facts = Facts(tuple(range(m)), (), (), None, None)
    return Problem("hard", labels, rules, pack(parts, pairwise), None, (facts,) * count)


# ---- chunking: nothing violated -------------------------------------------------------------------------------------


def chunk(count: int, seed: int = 3) -> Problem:
    """23 BIO labels with pairwise scores; only sequences whose plain best path obeys every rule are kept."""
    rng = np.random.default_rng(seed)
    labels = Labels(["O", *(f"{tag}-{kind}" for kind in CHUNKS for tag in "BI")], scheme="BIO")
    m = len(labels)
    rules = [
        r.well_formed(),
        r.at_least(1, of=["NP", "VP"]),
        r.if_present("PRT", then="VP"),
        r.at_most(2, of="LST"),
        r.length("CONJP", at_most=5),
        r.before("LST", "SBAR"),
    ]
    share = np.array([0.5, 0.2, 0.15, 0.05, 0.03, 0.02, 0.02, 0.01, 0.01, 0.005, 0.005])
    step, _, _ = labels.allowed
    pairwise = np.where(step, rng.normal(0, 0.4, (m, m)), -8.0)
    parts: list[Floats] = []
    while len(parts) < count:
        n = int(np.clip(rng.normal(24, 8), 4, 60))
        y: list[int] = []
        while len(y) < n:
            if rng.random() < 0.2:
                y.append(0)
                continue
            kind = int(rng.choice(len(CHUNKS), p=share))
            y += [1 + 2 * kind] + [2 + 2 * kind] * int(rng.integers(0, 3))
        y = y[:n]
        scores = rng.normal(0, 0.8, (n, m))
        scores[np.arange(n), y] += 5.0
        best = viterbi(scores, pairwise)
        if all(rule.holds(best, labels) for rule in rules):
            parts.append(scores)
    return Problem("chunk", labels, rules, pack(parts, pairwise))


# ---- BIOES: one very long sequence ----------------------------------------------------------------------------------


def bioes(tokens: int = 128_000, seed: int = 4) -> Problem:
    """Eight types, 33 labels, no pairwise scores: what a neural tagger without a CRF layer gives."""
    rng = np.random.default_rng(seed)
    labels = Labels(["O", *(f"{tag}-T{k}" for k in range(8) for tag in "BIES")], scheme="BIOES")
    scores = rng.normal(0, 1.5, (tokens, len(labels)))
    scores[:, 0] += 3.0
    return Problem("bioes", labels, [r.well_formed()], pack([scores]))
