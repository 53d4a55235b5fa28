"""Decodings: labels never travel bare, they carry their proof."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from bridle.decoding.problem import OPTIMAL, Answers
from bridle.labels import Labels
from bridle.rules.base import Rule, Soft


@dataclass(frozen=True)
class Decoding:
    """The best labelling of one sequence under the rules, and how we know."""

    ids: npt.NDArray[np.int32]  # (n,)
    score: float  # lattice score - penalty
    penalty: float  # what soft rules cost
    violated: list[tuple[Rule, int]]  # soft rules that are broken, with how often (hard ones too, if relaxed)
    bound: float  # no labelling under the rules scores higher
    optimal: bool  # bound and score meet
    engine: str
    stats: dict[str, Any]
    label_set: Labels = field(repr=False)
    relaxed: bool = False  # no labelling obeys all hard rules; this one breaks the fewest

    @cached_property
    def labels(self) -> list[str]:
        """The labelling, by names."""
        return [self.label_set.names[y] for y in self.ids]

    def __len__(self) -> int:
        return len(self.ids)

    def to_dict(self, text: Callable[[Rule], str] = str) -> dict[str, Any]:
        """For JSON, which has no infinity: such a score or bound is None. text: how to print a rule."""
        made: dict[str, Any] = {
            "labels": self.labels,
            "score": self.score if math.isfinite(self.score) else None,
            "penalty": self.penalty,
            "bound": self.bound if math.isfinite(self.bound) else None,
            "optimal": self.optimal,
            "violated": [{"rule": text(rule), "times": times} for rule, times in self.violated],
        }
        return {**made, "relaxed": True} if self.relaxed else made


class Decodings(Sequence[Decoding]):
    """The decodings of a batch, in order. Kept as packed arrays; a Decoding is made when asked for."""

    def __init__(
        self,
        answers: Answers,
        offsets: npt.NDArray[np.int64],
        rules: tuple[Rule, ...],
        labels: Labels,
        engine: str,
        stats: Callable[[Answers, int], dict[str, Any]],
        grid: tuple[int, npt.NDArray[np.int64]] | None = None,  # of a padded batch: T, and where sequences begin
    ) -> None:
        self.ids = answers.ids  # (N,)   of all sequences, end to end
        self.offsets = offsets  # (B + 1,)
        self.scores = answers.score  # (B,)
        self.bounds = answers.bound  # (B,)
        self.optimal = answers.status == OPTIMAL  # (B,)
        self.relaxed = np.zeros(len(offsets) - 1, dtype=bool)  # (B,)
        self._answers, self._rules, self._labels, self._engine, self._stats = answers, rules, labels, engine, stats
        self._replaced: dict[int, Decoding] = {}
        self._grid = grid

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def labels(self) -> list[list[str]]:
        """All labellings, by names, without a Decoding for each."""
        return self._labels.named(self.ids, self.offsets)

    def padded(self, fill: int = -1) -> npt.NDArray[np.int32]:
        """The ids of all labellings as one array, (B, T); `fill` where there is no token.

        T and the places of the tokens are those of the scores if they came from `Batch.from_padded`; otherwise T is the
        length of the longest sequence, and every sequence begins at 0.
        """
        sizes = np.diff(self.offsets)
        length, begin = self._grid or (int(sizes.max(initial=0)), np.zeros(len(self), dtype=np.int64))
        out = np.full((len(self), length), fill, dtype=np.int32)
        at = np.arange(length)
        out[(at >= begin[:, None]) & (at < (begin + sizes)[:, None])] = self.ids
        return out

    @overload
    def __getitem__(self, k: int) -> Decoding: ...
    @overload
    def __getitem__(self, k: slice) -> list[Decoding]: ...
    def __getitem__(self, k: int | slice) -> Decoding | list[Decoding]:
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        if not -len(self) <= k < len(self):
            raise IndexError(f"sequence {k} of {len(self)}")
        k %= len(self)
        if k in self._replaced:
            return self._replaced[k]
        violations = self._answers.violations[k]
        violated = [(self._rules[r], int(violations[r])) for r in np.flatnonzero(violations)]
        return Decoding(
            ids=self.ids[self.offsets[k] : self.offsets[k + 1]],
            score=float(self.scores[k]),
            penalty=sum((rule.cost(v) for rule, v in violated if isinstance(rule, Soft)), 0.0),
            violated=violated,
            bound=float(self.bounds[k]),
            optimal=bool(self.optimal[k]),
            engine=self._engine,
            stats=self._stats(self._answers, k),
            label_set=self._labels,
        )

    def __iter__(self) -> Iterator[Decoding]:
        return (self[k] for k in range(len(self)))

    def replace(self, k: int, decoding: Decoding) -> None:
        """Put a relaxed decoding in the place of one that has none."""
        self._replaced[k] = decoding
        self.ids[self.offsets[k] : self.offsets[k + 1]] = decoding.ids
        self.scores[k], self.bounds[k], self.optimal[k] = decoding.score, decoding.bound, decoding.optimal
        self.relaxed[k] = decoding.relaxed
