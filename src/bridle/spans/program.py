"""The best selection under rules as an integer program, solved by HiGHS.

    maximise   sum of gain(c) x(c) - penalties         x(c) is 0 or 1: is candidate c chosen?
    crossing   x(c) + x(d) <= 1                         for candidates that must not be chosen together
    covered    x(c) <= u(g) <= sum of x(c)              over the candidates c that hold stretch g of a token
    outside    o(p) = 1                                 if no stretch of piece p is covered, but what is next to it is
    automata   flow from state to state over take(e, s) and skip(e, s);  sum over s of take(e, s) = x(e) or o(e)

Items are read in order of start, longer ones first. An automaton has columns only for items that can change its state,
and a rule that counts is one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.deadline import NEVER, Deadline, OutOfTime
from bridle.engines.highs import IntegerProgram, Solver
from bridle.lattice import Scores
from bridle.rules.base import Rule, Soft
from bridle.spans.lattice import Ints
from bridle.spans.readers import Reader

Terms = list[tuple[int, float]]  # columns with their factors
_MOST_ROWS = 2_000_000  # about a gigabyte


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Stretches of text between neighbouring boundaries, and the pieces of tokens that they make."""

    held: list[list[int]]  # of each stretch, the candidates that hold it
    parts: Ints  # (P, 2)  the stretches of each piece: first, and the one after the last
    cut: npt.NDArray[np.bool_]  # (P, 2)  does the piece begin, end inside a token? Then a span is next to it

    def uncovered(self, chosen: Iterable[int]) -> list[int]:
        """The pieces that a choice leaves as items."""
        some = set(chosen)
        covered = np.array([any(c in some for c in its) for its in self.held] + [False], dtype=bool)
        before = np.concatenate([[0], np.cumsum(covered)])
        first, last = self.parts[:, 0], self.parts[:, 1]
        free = before[last] == before[first]
        free &= ~self.cut[:, 0] | covered[np.maximum(first - 1, 0)]
        free &= ~self.cut[:, 1] | covered[last]
        return [int(p) for p in np.flatnonzero(free)]


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """What the solver found."""

    chosen: list[int] | None  # candidates; None: none found
    bound: float
    proved: bool
    infeasible: bool = False


@dataclass(slots=True, eq=False)
class Program:
    """Columns and rows while they are gathered; the first columns are the candidates."""

    gains: Scores  # (N,)
    deadline: Deadline = NEVER
    costs: list[float] = field(default_factory=list)  # of each column
    upper: list[float] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    rows: list[tuple[float, float, Terms]] = field(default_factory=list)  # low <= terms <= high

    def __post_init__(self) -> None:
        for gain in self.gains.tolist():
            self.column(gain if gain > -np.inf else 0.0, 1.0 if gain > -np.inf else 0.0, whole=1)

    def column(self, gain: float = 0.0, upper: float = 1.0, whole: int = 0) -> int:
        """A new column from 0 to `upper`."""
        self.costs.append(gain)
        self.upper.append(upper)
        self.whole.append(whole)
        return len(self.costs) - 1

    def row(self, low: float, high: float, terms: Terms) -> None:
        """A new row. Raises OutOfTime if it is too late, or if there are too many."""
        self.deadline.check()
        if len(self.rows) >= _MOST_ROWS:
            raise OutOfTime
        self.rows.append((low, high, terms))

    def exclude(self, groups: Iterable[Sequence[int]]) -> None:
        """At most one candidate of each group."""
        for group in groups:
            self.row(-np.inf, 1.0, [(c, 1.0) for c in group])

    def pieces(self, pieces: Pieces) -> list[int]:
        """Columns that say which pieces of tokens are items."""
        covered = []
        for held in pieces.held:
            u = self.column()
            for c in held:
                self.row(0.0, np.inf, [(u, 1.0), (c, -1.0)])
            self.row(-np.inf, 0.0, [(u, 1.0), *((c, -1.0) for c in held)])
            covered.append(u)
        out = []
        for (first, last), (left, right) in zip(pieces.parts.tolist(), pieces.cut.tolist(), strict=True):
            o = self.column()
            beside = [covered[g] for g, next_to in ((first - 1, left), (last, right)) if next_to]
            for u in covered[first:last]:
                self.row(-np.inf, 1.0, [(o, 1.0), (u, 1.0)])
            for u in beside:
                self.row(-np.inf, 0.0, [(o, 1.0), (u, -1.0)])
            inside = [(u, 1.0) for u in covered[first:last]]
            self.row(1.0 - len(beside), np.inf, [(o, 1.0), *inside, *((u, -1.0) for u in beside)])
            out.append(o)
        return out

    # ---- rules ----------------------------------------------------------------------------------------------------

    def rule(self, rule: Rule, readers: Sequence[Reader], items: Sequence[int], label: Ints) -> None:
        """A rule by its automata. items: the column of each item."""
        once = self.column(-rule.penalty, whole=1) if isinstance(rule, Soft) and rule.per == "sequence" else -1
        for reader in readers:
            price = rule.penalty if isinstance(rule, Soft) and once < 0 else None
            if reader.sum is not None:
                self._count(reader, items, label, price, once)
            else:
                self._flow(reader, items, price, once)

    def _count(self, reader: Reader, items: Sequence[int], label: Ints, price: float | None, once: int) -> None:
        assert reader.sum is not None
        counted, limit, sense = reader.sum
        terms: Terms = [(items[e], 1.0) for e in np.flatnonzero(counted[label]).tolist()]
        sign, most = (1.0, max(len(terms) - limit, 0)) if sense == "<=" else (-1.0, limit)  # violations at most
        if price is not None:
            terms.append((self.column(-price, float(max(most, 0))), -sign))
        elif once >= 0:
            terms.append((once, -sign * most))
        self.row(*((-np.inf, float(limit)) if sense == "<=" else (float(limit), np.inf)), terms)

    def _flow(self, reader: Reader, items: Sequence[int], price: float | None, once: int) -> None:
        hard = price is None and once < 0
        automaton = reader.automaton

        def way(violations: int) -> int | None:
            """A column for a step with so many violations, or for the end; None: it is not allowed."""
            if violations and hard:
                return None
            return self.column(-violations * price if violations and price is not None else 0.0)

        arriving: dict[int, Terms] = {0: []}  # what flows into each state
        begun = False
        for e in np.flatnonzero(reader.matters).tolist():
            after: dict[int, Terms] = {}
            taken, broken = list[int](), list[int]()
            for s, terms in arriving.items():
                at = reader.table[e], s, reader.column[e]
                violations, to = int(automaton.violations[at]), int(automaton.step[at])
                skip, take = self.column(), way(violations)
                after.setdefault(s, []).append((skip, 1.0))
                leaving = [(skip, -1.0)]
                if take is not None:
                    after.setdefault(to, []).append((take, 1.0))
                    leaving.append((take, -1.0))
                    taken.append(take)
                    broken += [take] * (violations > 0)
                source = 0.0 if begun or s else -1.0
                self.row(source, source, [*terms, *leaving])
            begun = True
            self.row(0.0, 0.0, [(items[e], -1.0), *((take, 1.0) for take in taken)])
            if broken and once >= 0:
                self.row(-np.inf, 0.0, [(once, -1.0), *((take, 1.0) for take in broken)])
            arriving = after
        self._ends(automaton.final, arriving, begun, way, once)

    def _ends(self, final: Any, arriving: dict[int, Terms], begun: bool, way: Any, once: int) -> None:
        """What shows when everything has been read."""
        broken = []
        for s, terms in arriving.items():
            violations = int(final[s])
            end = way(violations)
            source = 0.0 if begun or s else -1.0
            self.row(source, source, [*terms, *([] if end is None else [(end, -1.0)])])
            broken += [end] * (violations > 0 and end is not None)
        if broken and once >= 0:
            self.row(-np.inf, 0.0, [(once, -1.0), *((end, 1.0) for end in broken)])

    # ---- solving --------------------------------------------------------------------------------------------------

    def solve(self) -> Solved:
        """Solve the program that was gathered."""
        rows = [(low, high, terms) for low, high, terms in self.rows if terms or not low <= 0.0 <= high]
        if any(not terms for *_, terms in rows):
            return Solved(None, -np.inf, True, infeasible=True)
        if not self.costs:  # which the solver would call neither solved nor infeasible
            return Solved([], 0.0, True)
        entries = [entry for *_, terms in rows for entry in terms]
        program = IntegerProgram(
            cost=np.array(self.costs),
            upper=np.array(self.upper),
            integer=np.array(self.whole, dtype=bool),
            low=np.array([low for low, *_ in rows]),
            high=np.array([high for _, high, _ in rows]),
            start=np.cumsum([0, *(len(terms) for *_, terms in rows)]),
            index=np.array([column for column, _ in entries], dtype=np.int32),
            value=np.array([factor for _, factor in entries], dtype=np.float64),
            sense="maximise",
        )
        solution = Solver().solve(program, self.deadline)
        chosen = None if solution.x is None else np.flatnonzero(solution.x[: len(self.gains)] > 0.5).tolist()
        infeasible = solution.status == "infeasible"
        return Solved(chosen, solution.bound, infeasible or solution.status == "optimal", infeasible)
