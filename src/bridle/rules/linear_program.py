"""The integer program that rules add rows to, and the register of their lowerings (see linear.py for the alphabet)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle.deadline import NEVER, Deadline
from bridle.errors import EngineError, RuleError
from bridle.labels import Bools, Labels
from bridle.rules.base import Rule, Sets
from bridle.rules.references import flags, union

Formulation = Literal["tight", "paper"]
Ints = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]
INF = np.inf
# What a program and its relaxation take per entry of the matrix. Branching may take more: that is not bounded.
BYTES, SECONDS = 300, 1.5e-7


class Program:
    """A growing integer program: flat blocks of columns and rows. It begins as the trellis, a unit flow (RY fig. 2)."""

    def __init__(self, n: int, m: int, deadline: Deadline = NEVER, max_memory: int = 1_000_000_000) -> None:
        self._deadline, self._most, self._size = deadline, max_memory // BYTES, f"{n:,} tokens x {m:,} x {m:,} labels"
        self.n_entries = 0  # of the matrix, those of one place counted each
        self._fits(2 * (n - 1) * m * m)
        t, i, j = np.indices((n - 1, m, m)).reshape(3, -1)
        labels = np.arange(m)
        self.n, self.m = n, m
        self.pos: Ints = np.concatenate([np.zeros(m, np.intp), t + 1])  # (E,) position that an edge enters
        self.src: Ints = np.concatenate([np.full(m, m), i])  # (E,) label before; m: the start
        self.dst: Ints = np.concatenate([labels, j])  # (E,) label at the position
        self.n_columns, self.n_rows = len(self.pos) + m, 0
        self.edge_upper: Floats = np.ones(self.n_columns)  # (E + m,) the last m: end edges
        self.edge_price: Floats = np.zeros(self.n_columns)
        self._uppers, self._prices = [self.edge_upper], [self.edge_price]
        self._integers: list[Bools] = [np.ones(self.n_columns, bool)]
        self._row: list[Ints] = []
        self._col: list[Ints] = []
        self._coef: list[Floats] = []
        self._lows: list[Floats] = []
        self._highs: list[Floats] = []
        here, ends = self.pos * m + self.dst, len(self.pos) + labels
        leaves = (self.pos[m:] - 1) * m + self.src[m:]
        self.rows(  # what enters a node leaves it
            np.concatenate([here, leaves, (n - 1) * m + labels]),
            np.concatenate([np.arange(self.n_columns - m), np.arange(m, self.n_columns - m), ends]),
            np.repeat([1.0, -1.0], [len(here), len(leaves) + m]),
            np.zeros(n * m),
            np.zeros(n * m),
        )
        self.rows(np.repeat([0, 1], m), np.concatenate([labels, ends]), 1.0, np.ones(2), np.ones(2))

    def columns(self, count: int, price: npt.ArrayLike = 0.0, *, upper: float = 1.0, integer: bool = False) -> Ints:
        """Add columns; return their numbers. Not `integer`: the edges force them to be integers."""
        self._fits(count)
        self._uppers.append(np.full(count, upper))
        self._prices.append(np.broadcast_to(np.asarray(price, dtype=np.float64), count))
        self._integers.append(np.full(count, integer))
        self.n_columns += count
        return np.arange(self.n_columns - count, self.n_columns)

    def rows(self, row: Ints, col: Ints, coef: npt.ArrayLike, low: npt.ArrayLike, high: Floats) -> None:
        """Add len(high) rows; entry e puts coef[e] on column col[e] of row row[e], counted from 0 within this call."""
        self._fits(len(col))
        self.n_entries += len(col)
        self._row.append(row + self.n_rows)
        self._col.append(col)
        self._coef.append(np.broadcast_to(np.asarray(coef, dtype=np.float64), col.shape))
        self._lows.append(np.broadcast_to(np.asarray(low, dtype=np.float64), high.shape))
        self._highs.append(high)
        self.n_rows += len(high)

    def _fits(self, more: int) -> None:
        """Raise if there is no memory or time for so many more entries."""
        if self.n_entries + more > self._most:
            raise EngineError(
                "the linear program of a sequence is too large",
                got=self._size,
                wanted=f"at most {self._most:,} entries, for about {BYTES} bytes each within max_memory",
                cause="Use the engine 'search', fewer labels, or a higher max_memory.",
            )
        self._deadline.check(SECONDS * more)

    def into(self, labels: Bools) -> tuple[Ints, Ints]:
        """Return the edges into labels, (m,) or (n, m) flags: their positions and their columns."""
        col = np.flatnonzero(labels[self.dst] if labels.ndim == 1 else labels[self.pos, self.dst])
        return self.pos[col], col

    @property
    def upper(self) -> Floats:
        return np.concatenate(self._uppers)

    @property
    def price(self) -> Floats:
        return np.concatenate(self._prices)

    @property
    def integer(self) -> Bools:
        return np.concatenate(self._integers)

    @property
    def limits(self) -> tuple[Floats, Floats]:
        """Lower and upper limit of each row."""
        return np.concatenate(self._lows), np.concatenate(self._highs)

    def matrix(self) -> tuple[Ints, Ints, Floats]:
        """Return the row-wise sparse matrix: starts (rows,), columns, coefficients; equal places are added up."""
        row, col, coef = np.concatenate(self._row), np.concatenate(self._col), np.concatenate(self._coef)
        place = row * self.n_columns + col
        order = np.argsort(place, kind="stable")
        place, coef = place[order], coef[order]
        new = np.append(True, place[1:] != place[:-1])
        if not new.all():
            coef = np.add.reduceat(coef, np.flatnonzero(new))
            place = place[new]
        if not coef.all():
            place, coef = place[coef != 0], coef[coef != 0]
        return np.searchsorted(place, np.arange(self.n_rows) * self.n_columns), place % self.n_columns, coef


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One rule to be lowered into a program."""

    program: Program
    rule: Rule  # without its price
    labels: Labels
    given: Mapping[str, Any]
    sets: tuple[Sets, ...]
    price: float | None = None  # None: hard
    per: Literal["sequence", "violation"] = "sequence"

    def flag(self, k: int) -> Bools:
        """Return (m,) flags of the labels in the k-th label field of the rule."""
        return flags(union(self.sets[k]), self.program.m)

    def into(self, k: int) -> tuple[Ints, Ints]:
        """Return the edges into these labels: their positions and their columns."""
        return self.program.into(self.flag(k))

    def positions(self) -> list[int]:
        """Return the positions of the rule's place; all, if it has none."""
        places = self.rule.places()
        return places[0].positions(self.program.n, self.given) if places else list(range(self.program.n))

    def at_most(
        self,
        row: Ints,
        col: Ints,
        coef: npt.ArrayLike,
        high: npt.ArrayLike,
        *,
        slack: npt.ArrayLike = 1.0,
        by: npt.ArrayLike | None = None,
        units: bool = False,
    ) -> bool:
        """Add rows  sum <= high  that a soft rule may exceed for its price; to be called once per rule.

        slack (R,)  by how much at most      by (R,)  the violation that a row belongs to; None: the rule is broken once
        units       each unit above `high` is a violation
        """
        p, top = self.program, np.asarray(high, dtype=np.float64)
        coefs = np.broadcast_to(np.asarray(coef, dtype=np.float64), col.shape)
        if self.price is not None and len(top):
            most = np.broadcast_to(np.asarray(slack, dtype=np.float64), top.shape)
            each = self.per == "violation"
            if each and units:
                pay, most = p.columns(len(top), self.price, upper=INF), np.ones_like(most)
            else:
                of = np.asarray(by, dtype=np.intp) if each and by is not None else np.zeros(len(top), np.intp)
                pay = p.columns(int(of.max()) + 1, self.price, integer=bool(most.max() > 1))[of]
            row, col = np.concatenate([row, np.arange(len(top))]), np.concatenate([col, pay])
            coefs = np.concatenate([coefs, -most])
        p.rows(row, col, coefs, -INF, top)
        return True


Lowering = Callable[[Case], bool]
TABLE: dict[tuple[type[Rule], str], Lowering] = {}


def rows(formulation: Formulation, *kinds: type[Rule]) -> Callable[[Lowering], Lowering]:
    """Register a lowering of some kinds of rules."""

    def register(make: Lowering) -> Lowering:
        for kind in kinds:
            if TABLE.setdefault((kind, formulation), make) is not make:
                raise RuleError(f"a second {formulation!r} lowering of {kind.__name__}", got=make.__name__)
        return make

    return register


def join(*parts: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]) -> tuple[Ints, Ints, Floats]:
    """Join entries (row, col, coef) of several sums."""
    row, col, coef = zip(*(np.broadcast_arrays(*part) for part in parts), strict=True)
    return np.concatenate(row).astype(np.intp), np.concatenate(col).astype(np.intp), np.concatenate(coef).astype(float)
