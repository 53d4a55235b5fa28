"""Input of a peer: the rules of a sequence as plain indices, and the edges of its trellis. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Answer = tuple[float, list[int]]  # score, ids


class NoAnswerError(RuntimeError):
    """A peer that found no optimum."""


@dataclass(frozen=True)
class Facts:
    """The rules of one sequence as indices."""

    at_most_one: tuple[int, ...] = ()  # labels with at most one segment each
    at_least_one: tuple[int, ...] = ()  # one of these labels occurs; empty: no such rule
    tied: tuple[int, ...] = ()  # positions that repeat the label before
    verb: int | None = None  # this position is label 0
    frame: tuple[int, ...] | None = None  # only these labels occur

    def allowed(self, n: int, m: int) -> npt.NDArray[np.bool_]:
        """(n, m) which labels the token rules leave."""
        table = np.ones((n, m), dtype=bool)
        if self.frame is not None:
            table[:] = False
            table[:, list(self.frame)] = True
        if self.verb is not None:
            table[self.verb] = np.arange(m) == 0
        return table


def score(unary: Floats, pairwise: Floats | None, ids: list[int]) -> float:
    """The score of a labelling, for all peers alike."""
    y = np.asarray(ids)
    total = float(unary[np.arange(len(y)), y].sum())
    return total if pairwise is None else total + float(pairwise[y[:-1], y[1:]].sum())


class Edges:
    """A path problem: one variable per edge. An edge into the first token comes from m, the start."""

    def __init__(self, unary: Floats, pairwise: Floats | None, facts: Facts | None) -> None:
        """With `facts`, edges that the token rules or tied positions make impossible are left out."""
        n, m = unary.shape
        allowed = np.ones((n, m), dtype=bool) if facts is None else facts.allowed(n, m)
        keep = allowed[:-1, :, None] & allowed[1:, None, :]
        if facts is not None and facts.tied:
            keep[np.array(facts.tied) - 1] &= np.eye(m, dtype=bool)
        t, i, j = np.nonzero(keep)
        first = np.flatnonzero(allowed[0])
        gain = unary[t + 1, j]
        if pairwise is not None:
            gain = gain + pairwise[i, j]
        self.n, self.m = n, m
        self.at: Ints = np.concatenate([np.zeros_like(first), t + 1])
        self.before: Ints = np.concatenate([np.full_like(first, m), i])
        self.label: Ints = np.concatenate([first, j])
        self.gain: Floats = np.concatenate([unary[0, first], gain])

    def __len__(self) -> int:
        return len(self.at)

    def ids(self, on: npt.NDArray[np.bool_]) -> list[int]:
        """The labelling of the edges that are on."""
        y = np.zeros(self.n, dtype=np.int64)
        y[self.at[on]] = self.label[on]
        return y.tolist()
