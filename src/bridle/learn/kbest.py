"""Labellings that compete with gold, and which rules each of them breaks: what penalties are learned from.

For every sequence: gold, the k best labellings of the model, and those that are best under penalties met on the way.
A sum over these stands for the sum over all labellings.

    B sequences (b)    C candidates of all sequences, those of a sequence side by side (c)    R rules (r)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.decoding.problem import Limits, Problem
from bridle.decoding.threads import in_threads
from bridle.labels import Labels
from bridle.lattice import Lattice
from bridle.learn.weights import counter
from bridle.models.checks import count_of_threads
from bridle.rules.base import Rule, Soft
from bridle.rules.compiled import CompiledRules

Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
K = 30


class Candidates:
    """Candidate labellings of sequences, with their scores and the rules that they break."""

    owner: npt.NDArray[np.int64]  # (C,)  whose candidate it is; rising
    first: npt.NDArray[np.int64]  # (B,)  the first candidate of each sequence, which is gold
    score: Floats  # (C,)
    paid: npt.NDArray[np.float32]  # (C, R)  how often each rule is paid for; 0 or 1 for a rule paid once per sequence

    def __init__(
        self,
        labels: Labels,
        lattices: Sequence[Lattice],
        gold: Sequence[Ids],
        rules: Sequence[Rule],
        given: Sequence[Mapping[str, Any]] | None,
        *,
        k: int = K,
        threads: int = 0,
    ) -> None:
        self.labels, self.lattices, self.given = labels, lattices, given
        self._count = counter(rules, labels, threads=threads)
        self._once = np.array([not isinstance(rule, Soft) or rule.per == "sequence" for rule in rules], dtype=bool)
        self._known: list[dict[bytes, tuple[float, npt.NDArray[np.float32]]]] = [{} for _ in lattices]
        self._pack()
        self.add(enumerate(gold))
        self.add(_k_best(labels, lattices, k, count_of_threads(threads)))

    def __len__(self) -> int:
        return len(self._known)

    @property
    def n_rules(self) -> int:
        """R."""
        return len(self._once)

    def add(self, found: Iterable[tuple[int, Ids]]) -> int:
        """Take labellings in, each with the number of its sequence; how many of them were new."""
        new: dict[tuple[int, bytes], Ids] = {}
        for b, ids in found:
            key = np.ascontiguousarray(ids, dtype=np.int32)
            if key.tobytes() not in self._known[b]:
                new[b, key.tobytes()] = key
        if new:
            owners = [b for b, _ in new]
            ids, offsets = np.concatenate([*new.values()]), np.cumsum([0, *map(len, new.values())]).astype(np.int64)
            broken = self._count(ids, offsets, None if self.given is None else [self.given[b] for b in owners])
            paid = np.where(self._once, np.minimum(broken, 1), broken).astype(np.float32)
            for (b, path), labelling, row in zip(new, new.values(), paid, strict=True):
                self._known[b][path] = self.lattices[b].score(labelling), row
            self._pack()
        return len(new)

    def _pack(self) -> None:
        sizes = [len(some) for some in self._known]
        self.owner = np.repeat(np.arange(len(sizes)), sizes)
        self.first = np.cumsum([0, *sizes[:-1]]) if sizes else np.zeros(0, dtype=np.int64)
        pairs = [pair for some in self._known for pair in some.values()]
        self.score = np.array([score for score, _ in pairs])
        self.paid = np.array([row for _, row in pairs], dtype=np.float32).reshape(len(pairs), self.n_rules)


def _k_best(labels: Labels, lattices: Sequence[Lattice], k: int, threads: int) -> Iterable[tuple[int, Ids]]:
    """The k best labellings of each sequence by scores alone."""
    compiled = CompiledRules(labels, [], Limits().native())

    def part(low: int, high: int, stop: _native.Stop) -> list[tuple[int, Ids]]:
        problem = Problem(compiled, lattices[low:high], None, first=low, many=True, stop=stop).native()
        found = problem.k_best_all(k, np.arange(high - low), stop)
        return [(low + b, np.array(path, dtype=np.int32)) for b, best in enumerate(found) for path, *_ in best]

    return [pair for some in in_threads(part, len(lattices), threads) for pair in some]
