"""L-BFGS, and OWL-QN for an L1 term: minimise F(w) = f(w) + c1 |w|_1, one iteration per call, exactly resumable.

    s_i = w' - w,  y_i = f'(w') - f'(w)     the last `memory` steps, and how much each changed the gradient
    p   = the gradient of F; where w_j = 0, the slope nearest to 0 among those on both sides of the kink:
            p_j = f'_j + c1 sign(w_j)                    where w_j != 0
            p_j = f'_j - min(max(f'_j, -c1), c1)         where w_j = 0

Direction d = -H p by the two-loop recursion (Nocedal 1980), i from the newest pair to the oldest, then back:
    q = p;        alpha_i = s_i.q / s_i.y_i,   q <- q - alpha_i y_i
    r = gamma q,  gamma = s.y / y.y of the newest pair
                  beta_i  = y_i.r / s_i.y_i,   r <- r + (alpha_i - beta_i) s_i
    d = -r
q and r are sums of p and the pairs, so the loops run on coefficients and on the products s_i.y_j, y_i.y_j, s_i.p, y_i.p
(Chen et al. 2014). The history is thus read twice per iteration, not four times, and each pass does all it can: the new
pair with its products, the direction with its slope and the first point to try.

Step a along d:
    c1 = 0   strong Wolfe:  F(w + a d) <= F(w) + FTOL a p.d  and  |f'(w + a d).d| <= GTOL |p.d|
    c1 > 0   orthant-wise (Andrew & Gao 2007): d_j = 0 where d_j p_j >= 0;
             w' = w + a d, but w'_j = 0 where it would leave the orthant of w (of -p where w_j = 0);
             halve a until  F(w') <= F(w) + FTOL p.(w' - w)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.decoding.threads import over_parts
from bridle.errors import ModelError

Array = npt.NDArray[Any]
Vector = npt.NDArray[np.float64]
Evaluate = Callable[[Vector], tuple[float, Vector]]
Why = Literal["converged", "line search failed"]
BLOCK = _native.VECTOR_BLOCK

FTOL, GTOL = 1e-4, 0.9
EPSILON = 1e-5  # converged: |p| < EPSILON max(1, |w|)
TRIALS = 20  # evaluations per line search
THREAD_SIZE = 1 << 17  # numbers that are worth a thread
TINY = float(np.finfo(np.float64).eps)
SINGLE = 1 << 16  # weights from which on the history, most of the memory, is kept in single precision: it only guides


class Lbfgs:
    """A minimisation under way; each `step()` is one iteration.

    `evaluate(w)` gives f and its gradient. It must neither alter nor keep `w`; the gradient may be a buffer that the
    next call overwrites. If it raises, the minimisation stays where the last step left it and can go on from there.

    >>> bowl = Lbfgs(lambda w: (float((w - 3) @ (w - 3)), 2 * (w - 3)), np.zeros(2), c1=1.0)
    >>> while bowl.step():
    ...     pass
    >>> bowl.why, bowl.w
    ('converged', array([2.5, 2.5]))
    """

    w: Vector  # (d,)  the best point so far
    loss: float  # F(w), the L1 term included
    gradient_norm: float  # |p|
    iteration: int  # steps taken
    evaluations: int  # calls of `evaluate`
    why: Why | None  # why the last `step()` returned False

    def __init__(self, evaluate: Evaluate, w: Vector, *, c1: float = 0.0, memory: int = 6, threads: int = 1) -> None:
        if not (math.isfinite(c1) and c1 >= 0):
            raise ModelError("`c1` must be a non-negative number", got=str(c1))
        if memory < 1:
            raise ModelError("L-BFGS needs a history", got=f"memory={memory}", wanted="1 pair or more")
        if np.ndim(w) != 1:
            raise ModelError("the weights are not a vector", got=f"shape {np.shape(w)}", wanted="one dimension")
        self.w = np.array(w, dtype=np.float64)
        self._evaluate, self._c1, self._memory, self._threads = evaluate, float(c1), int(memory), threads
        self.iteration, self.evaluations, self.why = 0, 0, None
        size = len(self.w)
        self._trial, self._d = np.empty(size), np.empty(size)
        kind = np.float32 if size >= SINGLE else np.float64
        self._s, self._y = np.empty((memory, size), kind), np.empty((memory, size), kind)
        self._aimed: float | None = None  # the step that the trial point is at already
        self._order: list[int] = []  # rows of _s and _y in use, the oldest first
        self._sy, self._yy = np.zeros((memory, memory)), np.zeros((memory, memory))
        self._trial[:] = self.w
        self.loss, gradient = self._call()
        self._g = np.array(gradient)  # f'(w)
        self._p = np.empty(size) if c1 else self._g
        self._refresh()
        if not (math.isfinite(self.loss) and math.isfinite(self.gradient_norm)):
            raise ModelError(
                "the loss or its gradient is not finite at the start",
                got=f"loss {self.loss}, |gradient| {self.gradient_norm}",
                wanted="finite numbers",
                cause="Is a feature value or a first weight infinite?",
            )

    def step(self) -> bool:
        """Do one iteration. False: nothing was done, as no progress is possible; `why` says why not."""
        self.why = None
        if self.gradient_norm < EPSILON * max(1.0, self._w_norm):
            self.why = "converged"
            return False
        while True:
            slope = self._aim()
            point = self._search_orthant() if self._c1 else self._search_wolfe(slope)
            if point is not None:
                self._accept(*point)
                return True
            if not self._order or -slope <= TINY * abs(self.loss):
                self.why = "line search failed"
                return False
            self._order.clear()  # the history misleads: try once more, straight downhill

    def state(self) -> dict[str, Array]:
        """Return copies of all that is needed to go on: plain arrays, to be kept in a file and given to `resume`."""
        return {
            "w": self.w.copy(),
            "gradient": self._g.copy(),
            "steps": self._s[self._order],  # (pairs, d)
            "changes": self._y[self._order],  # (pairs, d)
            "numbers": np.array([self.loss, self._c1]),
            "counts": np.array([self._memory, self.iteration, self.evaluations], dtype=np.int64),
        }

    @classmethod
    def resume(cls, evaluate: Evaluate, state: Mapping[str, Array], *, threads: int = 1) -> Self:
        """Go on from a `state()`, without an evaluation; the next steps are those of an uninterrupted run."""
        try:
            w, g, s, y = (np.asarray(state[key]) for key in ("w", "gradient", "steps", "changes"))
            (loss, c1), (memory, iteration, evaluations) = state["numbers"], state["counts"]
        except (KeyError, ValueError) as error:
            raise ModelError("this is not a state of L-BFGS", got=repr(error), wanted="what state() returned") from None
        if g.shape != w.shape or s.shape != y.shape or s.shape[1:] != w.shape or len(s) > memory:
            raise ModelError(
                "the parts of this state do not fit together",
                wanted="what state() returned",
                got=f"w {w.shape}, gradient {g.shape}, steps {s.shape}, changes {y.shape}, memory {memory}",
            )
        self = cls(lambda _: (float(loss), g), w, c1=float(c1), memory=int(memory), threads=threads)
        self._evaluate, self.loss = evaluate, float(loss)
        self.iteration, self.evaluations = int(iteration), int(evaluations)
        for k in range(len(s)):
            self._s[k], self._y[k] = s[k], y[k]
            self._order.append(k)
            self._multiply()
        return self

    # ---- direction --------------------------------------------------------------------------------------------------

    @np.errstate(all="ignore")  # products of a bad history may overflow; the slope shows it
    def _aim(self) -> float:
        """Set the direction; return its slope p.d, below 0."""
        if self._order:
            sp, yp = self._multiply()
            used = np.ix_(self._order, self._order)
            of_p, of_s, of_y = _two_loop(self._sy[used], self._yy[used], sp, yp)
            slope = aim(
                [of_p, *of_s, *of_y],
                self._p,
                [*self._rows(self._s), *self._rows(self._y)],
                self.w,
                self._first(),
                d=self._d,
                there=self._trial,
                threads=self._threads,
            )
            self._aimed = self._first()
            if self._c1:
                for b in _blocks(self._d):
                    self._d[b][self._d[b] * self._p[b] >= 0] = 0
                slope = product(self._d, self._p, self._threads)
            if math.isfinite(slope) and slope < 0:
                return slope
            self._order.clear()
        np.negative(self._p, out=self._d)
        self._aimed = None
        return -self.gradient_norm * self.gradient_norm

    def _multiply(self) -> tuple[Vector, Vector]:
        """Fill in the products of the newest pair with all; return the products of all with p."""
        k, newest = len(self._order), self._order[-1]
        rows = products([*self._rows(self._s), *self._rows(self._y)], self._y[newest], self._p, self._threads)
        self._sy[self._order, newest] = rows[:k, 0]
        self._yy[self._order, newest] = self._yy[newest, self._order] = rows[k:, 0]
        return rows[:k, 1], rows[k:, 1]

    def _rows(self, table: Array) -> list[Array]:
        return [table[k] for k in self._order]

    # ---- line search ------------------------------------------------------------------------------------------------

    def _first(self) -> float:
        """Return the first step to try: 1 with a history; without it, a move of length 1, as the scale is not known."""
        return 1.0 if self._order else 1.0 / self.gradient_norm

    def _search_wolfe(self, slope: float) -> tuple[float, Vector] | None:
        """Find the loss and the gradient at a point of the line that obeys the strong Wolfe conditions.

        `low` is the best point that decreases enough, `high` the other end of an interval that holds a good step; cubic
        interpolation inside it, and beyond `low` as long as there is no other end.
        """
        start = low = before = _Point(0.0, self.loss, slope)
        high: _Point | None = None
        step = self._first()
        for _ in range(TRIALS):
            loss, gradient = self._try(step)
            here = _Point(step, loss, product(gradient, self._d, self._threads))
            if not here.finite or loss >= low.loss or loss > start.loss + FTOL * step * slope:
                high = here
            elif abs(here.slope) <= -GTOL * slope:
                return loss, gradient
            else:
                if here.slope * ((high.step if high else math.inf) - low.step) >= 0:
                    high = low
                before, low = low, here
            if high is None:
                step = _beyond(before, low)
                continue
            if abs(high.step - low.step) * -slope <= TINY * abs(start.loss):
                break  # what is left to gain is less than the loss can show
            step = _between(low, high)
        if low is start:
            return None
        return (loss, gradient) if here is low else self._try(low.step)

    def _search_orthant(self) -> tuple[float, Vector] | None:
        """Find the loss and the gradient at a point of the orthant that decreases enough."""
        step = self._first()
        for _ in range(TRIALS):
            loss, gradient = self._try(step)
            gain = product(self._p, self._trial, self._threads) - product(self._p, self.w, self._threads)  # below 0
            finite = math.isfinite(loss) and math.isfinite(product(gradient, self._d, self._threads))
            if finite and loss < self.loss and loss <= self.loss + FTOL * gain:
                return loss, gradient
            if -gain <= TINY * abs(self.loss):
                break
            step *= 0.5 if finite else 0.1
        return None

    def _try(self, step: float) -> tuple[float, Vector]:
        """Compute F, and the gradient of f, at w + step d, within the orthant if there is an L1 term."""
        if step != self._aimed or self._c1:
            combine([1.0, step], [self.w, self._d], out=self._trial, threads=self._threads)
        self._aimed = step
        if self._c1:
            for b in _blocks(self.w):
                there = self._trial[b]
                there[there * np.sign(np.where(self.w[b] != 0, self.w[b], -self._p[b])) <= 0] = 0
        return self._call()

    def _call(self) -> tuple[float, Vector]:
        """Compute F, and the gradient of f, at the trial point."""
        self.evaluations += 1
        loss, gradient = self._evaluate(self._trial)
        if np.shape(gradient) != self.w.shape:
            raise ModelError("the gradient has a wrong shape", got=np.shape(gradient), wanted=self.w.shape)
        if self._c1:
            loss += self._c1 * sum(float(np.abs(self._trial[b]).sum()) for b in _blocks(self._trial))
        return float(loss), np.asarray(gradient, dtype=np.float64)

    # ---- update -----------------------------------------------------------------------------------------------------

    def _accept(self, loss: float, gradient: Vector) -> None:
        """Move to the trial point and take the pair into the history."""
        if len(self._order) == self._memory:
            del self._order[0]
        row = next(k for k in range(self._memory) if k not in self._order)
        sy, yy, gg, ww = take_step(self._trial, self.w, gradient, self._g, self._s[row], self._y[row], self._threads)
        self.w, self._trial, self._aimed = self._trial, self.w, None
        if sy > TINY * yy:  # otherwise H would not stay positive definite
            self._order.append(row)
        self.loss = loss
        self.iteration += 1
        if self._c1:
            return self._refresh()
        self.gradient_norm, self._w_norm = math.sqrt(gg), math.sqrt(ww)
        return None

    def _refresh(self) -> None:
        """Compute everything that follows from w and the gradient of f."""
        if self._c1:
            for b in _blocks(self.w):
                w, g = self.w[b], self._g[b]
                self._p[b] = g + np.where(w != 0, self._c1 * np.sign(w), -g.clip(-self._c1, self._c1))
        self.gradient_norm = math.sqrt(product(self._p, self._p, self._threads))
        self._w_norm = math.sqrt(product(self.w, self.w, self._threads))


def _two_loop(sy: Vector, yy: Vector, sp: Vector, yp: Vector) -> tuple[float, Vector, Vector]:
    """Return the coefficients of p, of the s_i and of the y_i in d; sy, yy (k, k); sp, yp (k,); oldest pair first."""
    k = len(sp)
    alpha, ahead = np.zeros(k), np.zeros(k)  # ahead_i = alpha_i - beta_i
    for i in reversed(range(k)):
        alpha[i] = (sp[i] - sy[i, i + 1 :] @ alpha[i + 1 :]) / sy[i, i]
    gamma = float(sy[-1, -1] / yy[-1, -1])
    for i in range(k):
        beta = (gamma * (yp[i] - yy[i] @ alpha) + sy[:i, i] @ ahead[:i]) / sy[i, i]
        ahead[i] = alpha[i] - beta
    return -gamma, -ahead, gamma * alpha


# ---- points on a line -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Point:
    """A step along the line, with the loss and the slope there."""

    step: float
    loss: float
    slope: float

    @property
    def finite(self) -> bool:
        return math.isfinite(self.loss) and math.isfinite(self.slope)


def _lowest(a: _Point, b: _Point) -> float:
    """Return where the cubic through two points with their slopes has its minimum; nan if it has none."""
    u = a.slope + b.slope - 3 * (b.loss - a.loss) / (b.step - a.step)
    square = u * u - a.slope * b.slope
    if not square >= 0:
        return math.nan
    v = math.copysign(math.sqrt(square), b.step - a.step)
    below = b.slope - a.slope + 2 * v
    return b.step - (b.step - a.step) * (b.slope + v - u) / below if below else math.nan


def _between(low: _Point, high: _Point) -> float:
    """Return a step inside the interval, a tenth of it off either end."""
    width = high.step - low.step
    if not high.finite:
        return low.step + 0.1 * width
    share = (_lowest(low, high) - low.step) / width
    return low.step + width * (min(max(share, 0.1), 0.9) if math.isfinite(share) else 0.5)


def _beyond(before: _Point, low: _Point) -> float:
    """Return a step past `low`, where the loss still falls: by half up to four times as much as the last step."""
    width = low.step - before.step
    share = (_lowest(before, low) - low.step) / width
    return low.step + width * (min(max(share, 0.5), 4.0) if share > 0 else 4.0)


# ---- long vectors ---------------------------------------------------------------------------------------------------

# Each vector is read once, in threads. The bits do not depend on the number of threads: whole blocks go to a thread,
# and sums are those of blocks, added in order of the blocks.


def _blocks(v: Vector) -> Iterator[slice]:
    return (slice(a, a + BLOCK) for a in range(0, len(v), BLOCK))


def _over(size: int, vectors: int, threads: int, sums: int, work: Callable[[int, int, Vector], None]) -> Vector:
    """(sums,): work(low, high, out) writes the sums of block k into out[k]. vectors: how many are read."""
    blocks = -(-size // BLOCK)
    out = np.zeros((max(blocks, 1), sums))
    parts = max(1, min(threads, size * vectors // THREAD_SIZE))
    at = [blocks * k // parts for k in range(parts + 1)]
    over_parts(lambda low, high, _: work(low, high, out), list(pairwise(at)), threads)
    return reduce(np.add, out)


def product(a: Vector, b: Vector, threads: int = 1) -> float:
    """a . b"""
    return float(_over(len(a), 2, threads, 1, lambda low, high, out: _native.product(a, b, low, high, out))[0])


def combine(shares: Sequence[float], rows: Sequence[Vector], *, out: Vector, threads: int = 1) -> None:
    """out = sum of share x row; out may be one of the rows."""
    factors = np.array(shares, dtype=np.float64)
    _over(len(out), len(rows), threads, 0, lambda low, high, _: _native.combine(factors, list(rows), low, high, out))


def gradient_of(
    counts: Sequence[Vector], gold: Vector, w: Vector, decay: float, *, out: Vector, threads: int = 1
) -> tuple[float, float]:
    """out = sum of the counts - gold + decay x w; returns w . gold and w . w."""
    sums = _over(
        len(w),
        len(counts) + 3,
        threads,
        2,
        lambda low, high, into: _native.gradient_of(list(counts), gold, w, decay, low, high, out, into),
    )
    return float(sums[0]), float(sums[1])


def take_step(
    there: Vector, w: Vector, gradient: Vector, g: Vector, s: Array, y: Array, threads: int = 1
) -> tuple[float, float, float, float]:
    """s = there - w, y = gradient - g, g = gradient; returns s . y, y . y, g . g and there . there."""
    sums = _over(
        len(w), 6, threads, 4, lambda low, high, into: _native.take_step(there, w, gradient, g, s, y, low, high, into)
    )
    return float(sums[0]), float(sums[1]), float(sums[2]), float(sums[3])


def products(rows: Sequence[Array], change: Array, p: Vector, threads: int = 1) -> Vector:
    """(rows, 2): the products of each row with `change` and with `p`."""
    sums = _over(
        len(p),
        len(rows),
        threads,
        2 * len(rows),
        lambda low, high, into: _native.products(list(rows), change, p, low, high, into),
    )
    return sums.reshape(len(rows), 2)


def aim(
    shares: Sequence[float],
    p: Vector,
    rows: Sequence[Array],
    w: Vector,
    step: float,
    *,
    d: Vector,
    there: Vector,
    threads: int = 1,
) -> float:
    """d = shares[0] x p + sum of share x row, there = w + step x d; returns d . p."""
    factors = np.array(shares, dtype=np.float64)
    return float(
        _over(
            len(p),
            len(rows) + 3,
            threads,
            1,
            lambda low, high, into: _native.aim(factors, p, list(rows), w, step, low, high, d, there, into),
        )[0]
    )
