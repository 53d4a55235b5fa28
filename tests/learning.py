"""Random examples with gold labels: sparse ones with slow twins of what the kernels of training compute, noisy ones.

N tokens (t)    A attributes (a)    m labels (y)    W slots
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from bridle import _native
from bridle.features import Encoded
from bridle.features.columns import EdgeAttributes
from bridle.models.linear import Layout, width_of
from bridle.models.task import Task

Floats = npt.NDArray[np.float64]
Data = tuple[list[Any], list[list[str]]]  # X and y
LAYOUTS = ("seen", "all", "lists")
_N_EDGES = 4  # attributes of edges


@dataclass(frozen=True)
class Case:
    """Random examples, and the weights' places, with the twins of what the kernels compute from them."""

    encoded: Encoded
    y: npt.NDArray[np.int32]
    layout: Layout

    @cached_property
    def joined(self) -> _native.Joined:
        return _native.Joined(self.layout.native, self.encoded.native(self.y))

    @cached_property
    def bundles(self) -> _native.Bundles:
        return _native.Bundles(self.layout.native, self.encoded.native(self.y))

    def expected(
        self, w: Floats, pair: Floats | None, parts: list[tuple[int, int]], single: bool = False
    ) -> tuple[float, Floats, Floats | None]:
        """Return log Z of some sequences, and the counts of weights and label bigrams, by the kernel."""
        weights = np.zeros(self.bundles.n_slots, dtype=np.float32 if single else np.float64)
        weights[: len(w)] = w
        self.bundles.extend(weights, 0, len(self.bundles))
        counts, into = np.zeros(self.bundles.n_slots), None if pair is None else np.zeros_like(pair)
        log_z = sum(self.bundles.expected(weights, pair, a, b, counts, into, _native.Stop()) for a, b in parts)
        assert not counts[len(w) :].any()
        return float(log_z), counts[: len(w)], into

    @cached_property
    def slot(self) -> npt.NDArray[np.int64]:
        """(A, m) where the weight of an attribute and a label lies; -1: nowhere."""
        begin, m = self.layout.begin, self.layout.m
        result = np.full((len(begin) - 1, m), -1)
        for a, (low, high) in enumerate(itertools.pairwise(begin.tolist())):
            full = high - low == width_of(m)
            result[a, np.arange(m) if full else self.layout.label[low:high]] = np.arange(low, low + m if full else high)
        return result

    def entries(self, t: int) -> list[tuple[int, float]]:
        """Attributes of token t with their values."""
        low, high = self.encoded.indptr[t : t + 2].tolist()
        values = np.ones(high - low) if self.encoded.values is None else self.encoded.values[low:high]
        return list(zip(self.encoded.attrs[low:high].tolist(), values.tolist(), strict=True))

    def unary(self, w: npt.NDArray[Any]) -> Floats:
        """(N, m) scores."""
        table = np.append(w, 0.0)[self.slot].astype(np.float64)  # the slot -1 is the zero at the end
        out = np.zeros((self.encoded.n_tokens, self.layout.m))
        for t in range(len(out)):
            for a, value in self.entries(t):
                out[t] += value * table[a]
        return out

    def add(self, into: Floats, t: int, shares: dict[int, float], free: str) -> None:
        """into[slot] += value * share of the label; "only": not where weights are pinned."""
        for a, value in self.entries(t):
            for label, share in shares.items():
                s = self.slot[a, label]
                if s >= 0 and (free == "any" or self.layout.free is None or self.layout.free[s]):
                    into[s] += value * share

    @property
    def parts(self) -> list[tuple[int, int]]:
        return list(itertools.pairwise(self.encoded.offsets.tolist()))


def random_case(
    rng: Generator,
    m: int,
    *,
    kind: str,
    shortest: int = 0,
    longest: int = 5,
    values: str = "any",
    sequences: int = 3,
) -> Case:
    """Tokens with 0 to 4 of 7 attributes, some of them twice; sequences may be empty."""
    lengths = rng.integers(shortest, longest + 1, sequences)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 5, offsets[-1]))]).astype(np.int64)
    attrs = rng.integers(0, 7, indptr[-1]).astype(np.int32)
    some = rng.normal(size=indptr[-1]).astype(np.float32)
    if values == "whole":
        some = np.round(2 * some)
    encoded = Encoded(offsets, indptr, attrs, None if rng.random() < 0.5 else some)
    y = rng.integers(0, m, offsets[-1]).astype(np.int32)
    return Case(encoded, y, _layout(rng, encoded, y, m, kind))


def template_case(rng: Generator, m: int, tokens: int) -> Case:
    """As templates make them: a pair of columns implies each of them. Attributes 0-2, 3-5 and their 9 pairs 6-14."""
    offsets = np.array([0, tokens // 2, tokens // 2, tokens], dtype=np.int64)
    a, b = rng.integers(0, 3, tokens), rng.integers(0, 3, tokens)
    attrs = np.stack([a, 3 + b, 6 + 3 * a + b], axis=1).astype(np.int32)
    encoded = Encoded(offsets, np.arange(0, 3 * tokens + 1, 3, dtype=np.int64), attrs.ravel())
    y = rng.integers(0, m, tokens).astype(np.int32)
    return Case(encoded, y, Layout.seen(encoded.native(y), 15, m))


def _layout(rng: Generator, encoded: Encoded, y: npt.NDArray[np.int32], m: int, kind: str) -> Layout:
    if kind == "seen":
        return Layout.seen(encoded.native(y), 7, m)
    if kind == "all":
        return Layout.all_pairs(7, m)
    most = min(m, width_of(m) - 1)  # one more would be a full row
    rows = [np.sort(rng.permutation(m)[: rng.integers(0, most + 1)]) for _ in range(7)]
    begin = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return Layout(m, begin, np.concatenate(rows).astype(np.uint16), None)


def random_task(case: Case, rng: Generator) -> Task:
    """Return the examples as a task to learn from, with or without label bigrams."""
    m, pairs = case.layout.m, str(rng.choice(["seen", "all"]))
    return Task.of(case.encoded, case.y, (7, m), pairs, bigram=bool(rng.random() < 0.7))


def random_edges(rng: Generator, m: int, *, sequences: int = 3, longest: int = 4) -> tuple[Case, Task]:
    """Tokens with 0 to 3 of 4 attributes of edges, maybe one of them twice; the first of a sequence has none."""
    case = random_case(rng, m, kind="seen", sequences=sequences, longest=longest)
    count = rng.integers(0, 4, case.encoded.n_tokens)
    count[case.encoded.offsets[:-1][np.diff(case.encoded.offsets) > 0]] = 0
    indptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    attrs = rng.integers(0, _N_EDGES, indptr[-1]).astype(np.int32)
    old = case.encoded
    encoded = Encoded(old.offsets, old.indptr, old.attrs, old.values, EdgeAttributes(indptr, attrs, _N_EDGES))
    pairs = str(rng.choice(["seen", "all"]))
    task = Task.of(encoded, case.y, (7, m), pairs, bigram=bool(rng.random() < 0.7))
    return Case(encoded, case.y, task.layout), task


def steps_of(task: Task, pair: Floats | None, weights: Floats) -> Floats:
    """(N, m, m) transition scores to each token, weight by weight."""
    layout, edges, m = task.layout.edges, task.encoded.edges, task.m
    assert layout is not None and edges is not None
    out = np.zeros((task.encoded.n_tokens, m, m)) + (0.0 if pair is None else pair)
    for t in range(len(out)):
        for a in edges.attrs[edges.indptr[t] : edges.indptr[t + 1]].tolist():
            for s in range(layout.begin[a], layout.begin[a + 1]):
                out[t, layout.pair[s] // m, layout.pair[s] % m] += weights[s]
    return out


def pinned(task: Task) -> npt.NDArray[np.bool_]:
    """(W, or W + m * m) which weights stay 0, in the order of the likelihood's vector."""
    free = [np.ones(task.layout.size) if task.layout.free is None else task.layout.free]
    if task.pair_free is not None:
        free.append(task.pair_free.ravel())
    return np.asarray(np.concatenate(free) == 0)


def noisy(rng: Generator, count: int, share: float) -> Data:
    """Six signs per token; the first of them that is on decides. A share of the labels is wrong."""
    on = rng.random((count, 6)) < 0.4
    label = np.where(on.any(axis=1), on.argmax(axis=1) % 3, 2)
    wrong = rng.random(count) < share
    label[wrong] = rng.integers(0, 3, int(wrong.sum()))
    X = [[f"f{k}" for k in np.flatnonzero(row)] + ["bias"] for row in on]
    return [X[k : k + 5] for k in range(0, count, 5)], [[f"L{y}" for y in label[k : k + 5]] for k in range(0, count, 5)]
