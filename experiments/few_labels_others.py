"""Other ways that were tried for `few-labels`, and gained too little to become a part of the library.

CoDL (Chang, Ratinov & Roth 2007), twice: the K best labellings of each unlabelled sequence under the rules are learned
as labels; scores become GAMMA of those without text and 1 - GAMMA of those.

Clusters of words (W words of the text, at least LEAST times):

    P = max(0, log p(w, c) / (p(w) p(c)))      c: neighbours at -2 .. 2, and the tenth of the sequence
    P = U S V' (DIMENSIONS);  rows of U sqrt(S), of length 1, in k-means with 24 and 96 means

The numbers of the clusters are two more columns, with templates at the token and beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle import Batch
from bridle.features import FEATURE_SETS
from bridle.models import CRF
from experiments.few_labels_data import Few, Sample

CODL, CLUSTERS, CLUSTERS_TEXT = "CoDL", "clusters of words", "clusters, text and rules"
OTHERS = (CODL, CLUSTERS, CLUSTERS_TEXT)
K, GAMMA, CODL_ROUNDS = 3, 0.9, 2
WORDS, LEAST, DIMENSIONS, MEANS, KMEANS_ROUNDS = 3000, 3, 50, (24, 96), 30
Floats = npt.NDArray[np.float64]
Sequences = list[dict[str, list[str]]]


def measure_others(few: Few, sample: Sample, options: dict[str, Any]) -> dict[str, float]:
    """Measure all on one sample, decoded under the rules, in percent."""
    X, y, text, test, rules = sample.few.X, sample.few.y, sample.text, sample.test.X, few.rules
    in_text = few.given(text)
    relaxed: dict[str, Any] = {"given": few.given(test), "on_infeasible": "relax"}
    labels = _codl(few, sample, options)
    clusters = Clusters([*X, *text])
    wider = [*FEATURE_SETS[few.features].templates.splitlines(), *clusters.templates]
    options = {**options, "features": wider}
    X, text, test = (clusters.added_to(part) for part in (X, text, test))
    plain = CRF(**options).fit(X, y)
    both = CRF(**options).fit(X, y, unlabelled=text, rules=rules, unlabelled_given=in_text)
    guesses = labels, plain.predict(test, rules, **relaxed), both.predict(test, rules, **relaxed)
    return {name: few.right(sample, guess) for name, guess in zip(OTHERS, guesses, strict=True)}


def _codl(few: Few, sample: Sample, options: dict[str, Any]) -> list[list[str]]:
    X, y, text, test = sample.few.X, sample.few.y, sample.text, sample.test.X
    first = CRF(**options).fit(X, y)
    decoder = first.decoder(few.rules, on_infeasible="relax")
    in_text, in_test = (first.given(part, decoder, few.given(part)) for part in (text, test))
    own, tested = first.lattices(text), first.lattices(test)
    current, final = own, tested
    for _ in range(CODL_ROUNDS):
        best = [
            (x, d.labels)
            for b, x in enumerate(text)
            for d in decoder.k_best(current[b], K, None if in_text is None else in_text[b])
        ]
        other = CRF(**options, c1=0.0, c2=0.1 * K)
        other.fit([*X, *(x for x, _ in best)], [*y, *(labels for _, labels in best)])
        current, final = _mixed(own, other.lattices(text)), _mixed(tested, other.lattices(test))
    return decoder.decode_batch(final, in_test).labels


def _mixed(a: Batch, b: Batch) -> Batch:
    assert a.pairwise is not None and b.pairwise is not None
    return Batch(GAMMA * a.unary + (1 - GAMMA) * b.unary, a.offsets, GAMMA * a.pairwise + (1 - GAMMA) * b.pairwise)


class Clusters:
    """Clusters of the words of sequences, as columns."""

    def __init__(self, X: Sequences) -> None:
        sequences = [[word.lower() for word in x["word"]] for x in X]
        count = Counter(word for words in sequences for word in words)
        known = [word for word, n in count.most_common(WORDS) if n >= LEAST]
        self._number = {word: k for k, word in enumerate(known)}
        vectors = self._vectors(sequences)
        self._clusters = {f"cluster{k}": _k_means(vectors, k) for k in MEANS}
        self.templates = [f"{name}[{at}]" for name in self._clusters for at in (-1, 0, 1)]

    def _vectors(self, sequences: Sequence[Sequence[str]]) -> Floats:
        contexts: dict[tuple[Any, str], int] = {}
        pairs: Counter[tuple[int, int]] = Counter()
        for words in sequences:
            names = [word if word in self._number else "" for word in words]
            padded = ["<", "<", *names, ">", ">"]
            for t, name in enumerate(names):
                around = [(at, padded[t + 2 + at]) for at in (-2, -1, 1, 2)]
                for context in (*around, ("tenth", str(10 * t // len(names)))) if name else ():
                    pairs[self._number[name], contexts.setdefault(context, len(contexts))] += 1
        table = np.zeros((len(self._number), len(contexts)))
        table[tuple(np.array([*pairs]).T)] = [*pairs.values()]
        with np.errstate(divide="ignore"):
            expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
            u, s, _ = np.linalg.svd(np.maximum(np.log(table / expected), 0), full_matrices=False)
        vectors = u[:, :DIMENSIONS] * np.sqrt(s[:DIMENSIONS])
        return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9))

    def added_to(self, X: Sequences) -> Sequences:
        """Return sequences with a column for each number of clusters."""
        return [{**x, **{name: self._named(x["word"], ids) for name, ids in self._clusters.items()}} for x in X]

    def _named(self, words: Sequence[str], ids: npt.NDArray[np.intp]) -> list[str]:
        numbers = (self._number.get(word.lower()) for word in words)
        return ["-" if number is None else str(ids[number]) for number in numbers]


def _k_means(vectors: Floats, k: int) -> npt.NDArray[np.intp]:
    rng, nearest = np.random.default_rng(0), np.zeros(len(vectors), dtype=np.intp)
    means = vectors[rng.permutation(len(vectors))[:k]]
    for _ in range(KMEANS_ROUNDS):
        nearest = (vectors @ means.T - (means**2).sum(axis=1) / 2).argmax(axis=1)
        means = np.stack(
            [vectors[nearest == j].mean(axis=0) if (nearest == j).any() else mean for j, mean in enumerate(means)]
        )
    return nearest
