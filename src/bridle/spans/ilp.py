"""Word segmentation as an integer linear program (Zhao & Marcus 2012, section 3.3), solved by HiGHS.

    maximise  sum of score(w) x(w)   subject to   sum of x(w) over the words w that hold c = 1, for every character c
              x(w) is 0 or 1
    bound     sum of y(c) + sum over all w of max(0, score(w) - sum of y(c) over the characters of w),  for any y

    B sequences    C columns: the possible words of all    R rows: the characters of all    x (C,)    y (R,) row prices

Every column is a run of ones (a word holds consecutive characters), so the matrix is totally unimodular and the linear
relaxation has whole vertices: it is solved first and its solution is the answer; branching is there for a solver that
should stop elsewhere. Impossible words (-inf, or forbidden by a rule) get no column.

A call of the solver has a price however small the program is. So the programs of several sequences are solved as one,
side by side, up to JOINED columns: they share no row and no column, so the best of all is the best of each. Each is
still proved separately, by the bound that the prices of its own characters give. A joined program that is infeasible
for one, or not whole, or not proved, is solved again one by one; with a time limit, which is per sequence, none is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt

from bridle.deadline import NEVER, Deadline, OutOfTime
from bridle.engines.highs import IntegerProgram, ProgramAnswer, Solver, Status
from bridle.errors import EngineError
from bridle.lattice import Scores
from bridle.spans.lattice import Ints

_SECONDS_TO_LOAD = 2e-7  # per entry of the matrix: handing it to the solver cannot be interrupted
JOINED = 1000  # columns. Measured: with 300 small programs take half as long again; beyond 1000 nothing is gained
Positions = npt.NDArray[np.int64]


def solve(
    n: Ints,
    offsets: Positions,
    spans: Ints,
    scores: Scores,
    *,
    time_limit: float | None = None,
    presolve: Literal["off", "on"] = "off",
) -> list[ProgramAnswer]:
    """Find the words of each sequence with the highest sum of scores that hold each of its characters once.

    n (B,), offsets (B + 1,), spans (A, 2), scores (A,): sequences end to end, as SpanDecoder packs them.
    presolve: HiGHS's own. It finds nothing here that would pay for it: lattices of all words take many times as long.
    """
    programs = _Programs(n, offsets, spans, scores)
    if time_limit is not None:  # a solver that is late is abandoned: each sequence has its own
        return [programs.solve_one(Solver(presolve), k, Deadline.after(time_limit)) for k in range(len(n))]
    solver, answers = Solver(presolve), list[ProgramAnswer]()
    for low, high in programs.groups():
        joined = programs.solve_joined(solver, low, high) if high > low + 1 else None
        answers += joined or [programs.solve_one(solver, k) for k in range(low, high)]
    return answers


class _Programs:
    """The programs of B sequences, end to end."""

    def __init__(self, n: Ints, offsets: Positions, spans: Ints, scores: Scores) -> None:
        began = time.perf_counter()
        self.arcs = np.flatnonzero(np.isfinite(scores))  # (C,)      the arc of each column, all sequences in one
        self.offsets = offsets  # (B + 1,)  where arcs of each begin
        self.columns = np.searchsorted(self.arcs, offsets)  # (B + 1,)  where columns of each begin
        self.rows = np.concatenate([[0], np.cumsum(n)])  # (B + 1,)  where rows of each begin
        self.at = spans[self.arcs] + np.repeat(self.rows[:-1], np.diff(self.columns))[:, None]  # (C, 2)
        self.scores = scores[self.arcs]  # (C,)
        self.seconds = (time.perf_counter() - began) / max(len(self.arcs), 1)  # of each column, so far

    def groups(self) -> Iterator[tuple[int, int]]:
        """Yield groups of neighbours with at most JOINED columns in all, or one with more."""
        low, count = 0, len(self.rows) - 1
        while low < count:
            high = int(np.searchsorted(self.columns, self.columns[low] + JOINED, side="right")) - 1
            high = max(low + 1, min(high, count))
            yield low, high
            low = high

    def solve_joined(self, solver: Solver, low: int, high: int) -> list[ProgramAnswer] | None:
        """Answer sequences low .. high-1 by one program; None if that does not prove every one of them."""
        began, n_columns = time.perf_counter(), self.columns[high] - self.columns[low]
        if n_columns == 0:
            return None
        program = self._program(low, high)
        built = time.perf_counter()
        solution = solver.solve(program, stages="relaxation")
        if solution.x is None or solution.row_duals is None:
            return None
        words, rows = self._words(solution.x, low, high)
        cuts = np.searchsorted(self.at[words, 0], self.rows[low : high + 1])  # where the words of each begin
        values = _sums(self.scores[words], cuts)
        bounds = self._bounds(solution.row_duals, low, high)
        if not _is_path(self.at[words], rows) or not _is_close(values, bounds).all():
            return None
        building = self.seconds + (built - began) / n_columns
        solving = (time.perf_counter() - built) / n_columns
        answers = []
        for k, columns in enumerate(np.split(words, cuts[1:-1]), low):
            count, n = int(self.columns[k + 1] - self.columns[k]), int(self.rows[k + 1] - self.rows[k])
            arcs, value = (self.arcs[columns] - self.offsets[k]).astype(np.int32), float(values[k - low])
            answers.append(ProgramAnswer(arcs, "optimal", value, True, count, n, building * count, solving * count))
        return answers

    def solve_one(self, solver: Solver, k: int, deadline: Deadline = NEVER) -> ProgramAnswer:
        """Answer one sequence by a program of its own."""
        began = time.perf_counter()
        n, count = int(self.rows[k + 1] - self.rows[k]), int(self.columns[k + 1] - self.columns[k])
        if n == 0:
            return ProgramAnswer(np.zeros(0, np.int32), "optimal", 0.0, True)
        if count == 0:
            return ProgramAnswer(None, "infeasible", -np.inf, True, 0, n)
        try:
            program = self._program(k, k + 1, deadline)
        except OutOfTime:
            return ProgramAnswer(None, "limit", np.inf, False, count, n)
        built = time.perf_counter()
        solution = solver.solve(program, deadline)
        status, bound, arcs = solution.status, solution.bound, None
        if solution.row_duals is not None:
            dual = float(self._bounds(solution.row_duals, k, k + 1)[0])
            bound = dual if solution.lp_integral else min(bound, dual)
        if solution.x is not None:
            words, rows = self._words(solution.x, k, k + 1)
            value = float(self.scores[words].sum())
            _certify(self.at[words], rows, value, bound, status)
            bound = value if status == "optimal" else max(bound, value)
            arcs = (self.arcs[words] - self.offsets[k]).astype(np.int32)
        building, solving = built - began + count * self.seconds, time.perf_counter() - built
        return ProgramAnswer(arcs, status, bound, solution.lp_integral, count, n, building, solving)

    def _program(self, low: int, high: int, deadline: Deadline = NEVER) -> IntegerProgram:
        """Build the program of sequences low .. high-1, side by side."""
        at = self.at[self.columns[low] : self.columns[high]] - self.rows[low]
        scores = self.scores[self.columns[low] : self.columns[high]]
        n, count = int(self.rows[high] - self.rows[low]), len(scores)
        lengths = at[:, 1] - at[:, 0]
        deadline.check(_SECONDS_TO_LOAD * int(lengths.sum()))
        start = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.arange(start[-1]) - np.repeat(start[:-1] - at[:, 0], lengths)  # the characters of each word
        ones, each = np.ones(count), np.ones(n)
        matrix = start, rows, np.ones(len(rows))
        return IntegerProgram(scores, ones, ones.astype(bool), each, each, *matrix, "maximise", "columns")

    def _words(self, x: Scores, low: int, high: int) -> tuple[npt.NDArray[np.intp], tuple[int, int]]:
        """Return the columns with x = 1 from left to right, and the rows that they should hold."""
        words = self.columns[low] + np.flatnonzero(x > 0.5)
        return words[np.argsort(self.at[words, 0], kind="stable")], (int(self.rows[low]), int(self.rows[high]))

    def _bounds(self, y: Scores, low: int, high: int) -> Scores:
        """(high - low,): scores that no segmentation of each sequence exceeds; true for any y, tight for the best."""
        first, last = self.columns[low], self.columns[high]
        at = self.at[first:last] - self.rows[low]
        prices = np.add.reduceat(np.append(y, 0.0), at.ravel())[::2]  # sums over each word: y[start:end]
        above = np.maximum(self.scores[first:last] - prices, 0.0)
        return _sums(y, self.rows[low : high + 1]) + _sums(above, self.columns[low : high + 1])


def _sums(values: Scores, cuts: Positions) -> Scores:
    """Sum each part separately: differences of running sums would mix scores of different sizes."""
    owner = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts))
    return np.asarray(np.bincount(owner, weights=values, minlength=len(cuts) - 1), dtype=np.float64)


def _is_path(at: Positions, rows: tuple[int, int]) -> bool:
    """Check that words hold each row once."""
    return bool(np.array_equal(np.append(at[:, 0], rows[1]), np.append(rows[0], at[:, 1])))


def _is_close(value: Scores, bound: Scores) -> npt.NDArray[np.bool_]:
    return np.asarray(np.abs(value - bound) <= 1e-5 * (1.0 + np.abs(value)))


def _certify(at: Positions, rows: tuple[int, int], value: float, bound: float, status: Status) -> None:
    """Raise an error if rounding in the solver spoiled the answer."""
    if not _is_path(at, rows) or not np.isfinite(value):
        raise EngineError(
            "the solver gave words that do not hold each character once",
            got=(at - rows[0]).tolist(),
            wanted="a path",
            cause="Rounding in the solver: scores of very different sizes? Try engine='viterbi'.",
        )
    if status == "optimal" and not _is_close(np.array(value), np.array(bound)):
        raise EngineError(
            "the solver did not prove its words to be the best",
            got=bound,
            wanted=value,
            cause="Scores of very different sizes? Try engine='viterbi'.",
        )
