"""Active learning: the sequences to label next are those whose labels would teach a model most.

    gain(x) = sum over the tokens t of x, with words w, of h(t) sqrt(c(w)) / 2^s(w)

    h(t)  entropy of the label, in nats, under the rules (soft ones as factors)
    c(w)  number of tokens with this word in all sequences
    s(w)  number of suggested sequences with this word

The sequence with the largest gain is suggested, s is updated, and so on. A gain can only fall, so most are not computed
again. A frequent word that the model is unsure of teaches it about many sequences, but only once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.decoding.decoder import Decoder, Given
from bridle.features import TemplateFeatures, sequences_of
from bridle.frames import Sequences, Table
from bridle.lattice import Lattices
from bridle.learn.evidence import violations
from bridle.models.checks import count_of, given_of
from bridle.models.tagger import Tagger
from bridle.rules.base import Rule

Floats = npt.NDArray[np.float64]

_AT_ONCE = 4096  # sequences
_WORDS = 3  # of a sequence that are named
_CERTAIN = 1e-6  # nats, or fewer


@dataclass(frozen=True, slots=True)
class Suggested:
    """A sequence to label next.

    Attributes
    ----------
    index : int
        Its number among the unlabelled sequences, from 0.
    uncertainty : float
        The sum of the entropies of its labels under the rules, in nats.
    words : tuple of int
        The tokens whose labels would teach most, at most three, the most important one first.
    conflicts : tuple of Rule
        The rules that the labels of the model alone break.
    """

    index: int
    uncertainty: float
    words: tuple[int, ...]
    conflicts: tuple[Rule, ...] = ()


def suggest(
    model: Tagger,
    X: Sequences,
    n: int = 20,
    rules: Iterable[Rule | str] = (),
    *,
    given: Sequence[Given] | Table | None = None,
    threads: int = 0,
) -> list[Suggested]:
    """Choose the sequences to label next: those whose labels would teach the model most.

    They have many tokens whose labels are uncertain under the rules, of words that are frequent in `X` and that the
    other suggested sequences lack.

    Parameters
    ----------
    model : Tagger
        A trained model.
    X : list
        Sequences without labels, as for `predict`.
    n : int, default 20
        Number of sequences to suggest. After labelling them, train again and ask again.
    rules : iterable of Rule or str
        The rules that you use with the model. What they decide is not uncertain.
    given : list of mapping, optional
        Values that the rules refer to, one mapping per sequence.
    threads : int
        Number of threads; 0 means all cores.

    Returns
    -------
    list of Suggested
        The most useful sequence first; fewer than `n` if `X` has fewer.

    Raises
    ------
    FeatureError
        If the features cannot be computed from `X`.
    GivenError
        If `given` lacks a value that a rule refers to.

    Examples
    --------
    >>> import bridle
    >>> from bridle.learn import suggest
    >>> X, y = [["the", "cat", "sleeps"], ["a", "dog", "runs"]], [["D", "N", "V"]] * 2
    >>> model = bridle.CRF(features=["word[0]", "label[-1]"]).fit(X, y)
    >>> [s.index for s in suggest(model, [["the", "cat", "runs"], ["my", "old", "cat"]], 1)]
    [1]
    """
    count_of("n", n)
    sequences, decoder = sequences_of(X), model.decoder(rules, on_infeasible="relax")
    values = model.given(sequences, decoder, given_of(given))
    entropies = _entropies(model, decoder, sequences, values, threads)
    gains = _Gains(entropies, [_words(model, x) for x in sequences])
    suggested = []
    for b in gains.best(n):
        labels = model.predict([sequences[b]])
        broken = violations(decoder.rules, labels, model.labels_, None if values is None else [values[b]], threads=1)[0]
        conflicts = tuple(rule for rule, count in zip(decoder.rules, broken, strict=True) if count)
        suggested.append(Suggested(b, float(entropies[b].sum()), gains.tokens(b), conflicts))
    return suggested


def _entropies(
    model: Tagger, decoder: Decoder, sequences: Sequence[Any], given: Sequence[Given] | None, threads: int
) -> list[Floats]:
    """Compute the entropies of the labels of each sequence."""
    entropies: list[Floats] = []
    for low in range(0, len(sequences), _AT_ONCE):
        batch = model.lattices(sequences[low : low + _AT_ONCE], threads=threads)
        tables = label_probabilities(decoder, batch, None if given is None else given[low : low + _AT_ONCE], threads)
        entropies += [-(p * np.log(np.maximum(p, np.finfo(np.float64).tiny))).sum(axis=1) for p in tables]
    return entropies


def label_probabilities(
    decoder: Decoder, lattices: Lattices, given: Sequence[Given] | None, threads: int
) -> list[Floats]:
    """Compute the probabilities of labels under the rules, soft ones as factors; without rules if all is impossible."""
    tables = decoder.marginals_batch(lattices, given, threads, soft="factor")
    if impossible := [b for b, p in enumerate(tables) if np.isnan(p).any()]:
        plain = Decoder(decoder.labels).marginals_batch([lattices[b] for b in impossible], None, threads)
        for b, p in zip(impossible, plain, strict=True):
            tables[b] = p
    return tables


def _words(model: Tagger, x: Any) -> list[str]:
    features = model.features_
    return (
        [token.lower() for token in features.tokens(x)] if isinstance(features, TemplateFeatures) else [*map(repr, x)]
    )


class _Gains:
    """The gains of sequences, besides those that are already suggested."""

    def __init__(self, entropies: Sequence[Floats], words: Sequence[Sequence[str]]) -> None:
        numbers: dict[str, int] = {}
        self._ids = [np.array([numbers.setdefault(word, len(numbers)) for word in x], dtype=np.intp) for x in words]
        counts = np.bincount(np.concatenate([np.zeros(0, dtype=np.intp), *self._ids]), minlength=len(numbers))
        self._values = [h * np.sqrt(counts[ids]) for h, ids in zip(entropies, self._ids, strict=True)]
        self._factor = np.ones(len(numbers))  # 1 / 2^s

    def _gain(self, b: int) -> float:
        return float(self._values[b] @ self._factor[self._ids[b]])

    def best(self, n: int) -> list[int]:
        """Choose n sequences, one after the other."""
        heap = [(-self._gain(b), b) for b in range(len(self._values))]
        heapq.heapify(heap)
        chosen: list[int] = []
        while heap and len(chosen) < n:
            _, b = heapq.heappop(heap)
            now = (-self._gain(b), b)
            if heap and now > heap[0]:
                heapq.heappush(heap, now)
                continue
            chosen.append(b)
            self._factor[np.unique(self._ids[b])] /= 2
        return chosen

    def tokens(self, b: int) -> tuple[int, ...]:
        """Return the tokens of a sequence that add most to its gain."""
        values = self._values[b]
        order = np.argsort(-values, kind="stable")
        return tuple(int(t) for t in order[:_WORDS] if values[t] > _CERTAIN)
