"""Span selection beside the greedy searches that people use: GLiNER's own, and spaCy's `filter_spans`.

    python benchmarks/span_selection.py [--sizes 100 1000 10000] [--texts 200]

Candidates are random: two per word, up to twelve words long, ten labels, probabilities from 0.5 to 1. All sides get the
same ones as the Python objects that they take. GLiNER needs an environment of its own; a peer that is not installed is
named, and left out. Every selection of Bridle's goes to the judge.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import bridle
from measure import best_of, told, where

LABELS = [f"L{k}" for k in range(10)]
RULES = ["no duplicates of L0", "at most 3 segments of L1", "L2 before L3", "present L4", "length of L5 at most 8"]
Peer = Callable[[list[bridle.Span]], Callable[[], list[Any]]]  # prepared candidates -> a run that gives chosen ones


def random_spans(rng: np.random.Generator, count: int) -> list[bridle.Span]:
    """Candidates over count / 2 words."""
    n = max(20, count // 2)
    start = rng.integers(0, n - 12, count)
    end = start + rng.integers(1, 13, count)
    label, score = rng.integers(0, len(LABELS), count), rng.uniform(0.5, 1.0, count)
    rows = zip(start.tolist(), end.tolist(), label.tolist(), score.tolist(), strict=True)
    return [bridle.Span(a, b, LABELS[y], p) for a, b, y, p in rows]


def gliner() -> Peer:
    """Highest score first, as GLiNER decodes; it includes the end."""
    from gliner.decoding.decoder import Span, SpanDecoder

    search = SpanDecoder(None).greedy_search
    return lambda spans: partial(search, [Span(s.start, s.end - 1, s.label, s.score) for s in spans], True)


def spacy() -> Peer:
    """Longest first, as spaCy filters."""
    from spacy.tokens import Doc, Span
    from spacy.util import filter_spans
    from spacy.vocab import Vocab

    def prepare(spans: list[bridle.Span]) -> Callable[[], list[Any]]:
        doc = Doc(Vocab(), words=["w"] * max(s.end for s in spans))
        return partial(filter_spans, [Span(doc, s.start, s.end, s.label) for s in spans])

    return prepare


def peers() -> dict[str, Peer]:
    """Those that are installed."""
    peers = {}
    for name, make in (("GLiNER greedy_search", gliner), ("spaCy filter_spans", spacy)):
        try:
            peers[name] = make()
        except ImportError as missing:
            print(f"{name}: not measured, {missing}")
    return peers


def times(sizes: list[int], greedy: dict[str, Peer]) -> None:
    """Milliseconds of one call, best of several, alternating."""
    rng = np.random.default_rng(5)
    selector = bridle.SpanSelector(labels=LABELS, scores="probability")
    ruled = bridle.SpanSelector(RULES, LABELS, scores="probability")
    nested = bridle.SpanSelector(RULES, LABELS, scores="probability", overlap="nest")
    for size in sizes:
        spans = random_spans(rng, size)
        columns = {name: np.array([getattr(s, name) for s in spans]) for name in ("start", "end", "score")}
        columns["label"] = np.array([LABELS.index(s.label) for s in spans])
        runs: dict[str, Callable[[], Any]] = {
            "select, a list of spans": partial(bridle.select, spans, scores="probability"),
            "SpanSelector, arrays": partial(selector.select, columns),
            f"SpanSelector, {len(RULES)} rules, arrays": partial(ruled.select, columns),
            f"SpanSelector, {len(RULES)} rules, nested, arrays": partial(nested.select, columns),
            **{name: prepare(spans) for name, prepare in greedy.items()},
        }
        for name, result in (("forbid", ruled.select(spans)), ("nest", nested.select(spans))):
            assert result.optimal
            assert bridle.check_selection(spans, RULES, result, overlap=name, scores="probability").ok
        print(f"\n{size:,} candidates")
        for name, seconds in zip(runs, best_of(9 if size <= 1000 else 3, *runs.values()), strict=True):
            print(f"  {name:48} {seconds * 1e3:10.3f} ms")


def quality(count: int, texts: int, greedy: dict[str, Peer]) -> None:
    """In how many texts greedy search misses the best selection, and by how much of its score."""
    rng = np.random.default_rng(6)
    worse, lost = dict.fromkeys(greedy, 0), dict.fromkeys(greedy, 0.0)
    for _ in range(texts):
        spans = random_spans(rng, count)
        gain = {(s.start, s.end): -math.inf for s in spans}
        for s in spans:  # of equal spans the best: filter_spans sees no scores
            gain[s.start, s.end] = max(gain[s.start, s.end], math.log(s.score / (1 - s.score)))
        best = bridle.select(spans, scores="probability").score
        for name, prepare in greedy.items():
            inclusive = name.startswith("GLiNER")
            score = sum(gain[s.start, s.end + inclusive] for s in prepare(spans)())
            worse[name] += score < best - 1e-9
            lost[name] += 1 - score / best
    for name in greedy:
        print(f"{name}: below the best in {worse[name] / texts:.1%} of {texts} texts with {count} candidates,", end=" ")
        print(f"by {lost[name] / texts:.1%} of the score on average")


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000, 10_000], metavar="N")
    parser.add_argument("--texts", type=int, default=200, metavar="N")
    chosen = parser.parse_args()
    greedy = peers()
    times(chosen.sizes, greedy)
    print()
    quality(100, chosen.texts, greedy)
    print(told(where()))


if __name__ == "__main__":
    main()
