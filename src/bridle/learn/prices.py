"""Penalties that add to what a model knows: the most likely ones, given the candidates of `kbest.py`.

    p(c) ~ exp(s M(c) - sum over r of w[r] v[r](c))          among the candidates c of a sequence
    minimise  - sum over sequences of log p(gold)  +  l1 sum over r of w[r]        subject to  w >= 0,  s >= least
    penalty of r = w[r] / s                                                        in units of the model's scores

    M score of the model    v[r] how often rule r is paid for    s the model's scale: below 1, it is too sure of itself

All rules are priced together: where two of them say the same, one price is shared out, and what the model knows already
costs nothing. The L1 term keeps a rule out unless it makes gold more likely by what chance alone would hardly do. The
problem is convex; it is solved by accelerated proximal gradient steps (Beck & Teboulle 2009) with restarts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bridle.errors import ModelError
from bridle.learn.kbest import Candidates

Floats = npt.NDArray[np.float64]
LEAST = 0.05  # of the model's scale: without it rules would decide alone
_STEPS, _TOLERANCE = 300, 1e-6
_STEEPEST = 1e30
_TINY = 1e-3  # a weight below this is none


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Weights of rules, and the model's scale."""

    w: Floats  # (R,)
    scale: float

    @classmethod
    def none(cls, n_rules: int) -> Prices:
        """No rule costs anything."""
        return cls(np.zeros(n_rules), 1.0)

    @property
    def penalties(self) -> Floats:
        """(R,): in units of the model's scores."""
        per_score: Floats = self.w / self.scale
        return per_score

    @property
    def kept(self) -> list[int]:
        """Rules that cost something."""
        return np.flatnonzero(self.w > 0).tolist()

    def without(self, r: int) -> Prices:
        """The same, but rule r costs nothing."""
        w = self.w.copy()
        w[r] = 0.0
        return Prices(w, self.scale)


def losses(candidates: Candidates, prices: Prices) -> Floats:
    """(B,): -log p(gold) of each sequence."""
    objective = _Objective(candidates, None)
    return objective.per_sequence(objective.values(prices))[0]


def worth(candidates: Candidates, prices: Prices) -> dict[int, Floats]:
    """For each rule that costs something, (B,): how much -log p(gold) grows when it is free."""
    objective = _Objective(candidates, None)
    values = objective.values(prices)
    full = objective.per_sequence(values)[0]
    free = {r: values + prices.w[r] * candidates.paid[:, r] for r in prices.kept}
    return {r: objective.per_sequence(value)[0] - full for r, value in free.items()}


def fit(
    candidates: Candidates,
    *,
    l1: float,
    start: Prices | None = None,
    use: npt.NDArray[np.bool_] | None = None,  # (B,)  sequences to learn from
    rules: npt.NDArray[np.bool_] | None = None,  # (R,)  rules that may cost something
) -> Prices:
    """The best prices for these candidates."""
    objective = _Objective(candidates, use)
    free = np.ones(candidates.n_rules, dtype=bool) if rules is None else rules
    start = start or Prices.none(candidates.n_rules)
    x = np.append(np.where(free, start.w, 0.0), start.scale * objective.unit)
    lower, shrink = np.append(np.zeros(len(free)), LEAST * objective.unit), np.append(np.full(len(free), l1), 0.0)
    moving = np.append(free, True)
    ahead, momentum, curvature, before = x, 1.0, 1.0, math.inf
    for _ in range(_STEPS):
        loss, gradient = objective(ahead)
        gradient = np.where(moving, gradient, 0.0)
        while True:
            there = np.maximum(ahead - (gradient + shrink) / curvature, lower)
            there = np.where(moving, there, 0.0)
            step = there - ahead
            reached = objective.value(there)
            if reached <= loss + gradient @ step + curvature / 2 * step @ step + 1e-9 * abs(loss):
                break
            if not curvature < _STEEPEST:
                raise ModelError(
                    "penalties cannot be learned from these scores", got=f"loss {loss}", wanted="finite scores"
                )
            curvature *= 2
        total = reached + float(shrink @ there)
        if total > before:  # momentum has carried it too far: start again from where it was good
            ahead, momentum, before = x, 1.0, math.inf
            continue
        following = (1 + math.sqrt(1 + 4 * momentum * momentum)) / 2
        ahead = there + (momentum - 1) / following * (there - x)
        ahead = np.maximum(ahead, lower)
        done = before - total < _TOLERANCE * max(1.0, abs(total))
        x, momentum, before, curvature = there, following, total, curvature * 0.9
        if done:
            break
    return Prices(np.where(x[:-1] > _TINY, x[:-1], 0.0), float(x[-1] / objective.unit))


class _Objective:
    """The loss and its gradient at (w, s unit); `unit` gives scores the size of violations."""

    def __init__(self, candidates: Candidates, use: npt.NDArray[np.bool_] | None) -> None:
        self._owner, self._first, self._score, self._paid = (
            candidates.owner,
            candidates.first,
            candidates.score,
            candidates.paid,
        )
        gaps = self._score - self._score[self._first][self._owner]
        gaps = gaps[np.isfinite(gaps)]
        self.unit = max(float(np.sqrt(np.mean(gaps * gaps))) if len(gaps) else 1.0, 1e-6)
        self._weight = np.ones(len(self._first)) if use is None else use.astype(np.float64)

    def values(self, prices: Prices) -> Floats:
        """(C,): what each candidate scores, penalties taken off."""
        with np.errstate(invalid="ignore"):  # some BLAS kernels raise the flag for unused lanes
            paid = self._paid @ prices.w.astype(np.float32)
        values: Floats = prices.scale * self._score - paid
        return values

    def per_sequence(self, value: Floats) -> tuple[Floats, Floats]:
        """(B,) losses, (C,) probabilities."""
        top = np.maximum.reduceat(value, self._first) if len(self._first) else value
        share = np.exp(value - top[self._owner])
        total = np.add.reduceat(share, self._first) if len(self._first) else share
        return np.log(total) + top - value[self._first], share / total[self._owner]

    def _at(self, x: Floats) -> tuple[Floats, Floats]:
        return self.per_sequence(self.values(Prices(x[:-1], float(x[-1] / self.unit))))

    def value(self, x: Floats) -> float:
        """The loss alone."""
        return float(self._weight @ self._at(x)[0])

    def __call__(self, x: Floats) -> tuple[float, Floats]:
        loss, p = self._at(x)
        slope = p * self._weight[self._owner]
        slope[self._first] -= self._weight
        with np.errstate(invalid="ignore"):  # as in `values`
            by_rule = -(slope.astype(np.float32) @ self._paid).astype(np.float64)
        return float(self._weight @ loss), np.append(by_rule, slope @ self._score / self.unit)
