"""The best selection under rules by integer programs that grow: rules enter when the best selection so far breaks them.

    maximise   sum of gain(c) x(c) - penalties         x(c) is 0 or 1: is candidate c chosen?
    crossing   x(c) + x(d) <= 1                         for candidates that must not be chosen together
    covered    x(c) <= u(g) <= sum of x(c)              over the candidates c that hold stretch g of a token
    outside    o(p) = 1                                 if no stretch of piece p is covered, but what is next to it is
    automata   flow from state to state over take(e, s) and skip(e, s);  sum over s of take(e, s) = x(e) or o(e)

Items are read in order of start, longer ones first. An automaton has columns only for items that can change its state,
and a rule that counts is one row. The problem with fewer rules bounds the whole: when its best selection breaks none of
the others, it is the answer.

    N candidates (c)    E items that may occur (e), in the order in which they are read    m labels    S states (s)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.automata import CountingAutomaton, LazyAutomaton
from bridle.deadline import NEVER, Deadline, OutOfTime, current_stop
from bridle.decoding.problem import INFEASIBLE, LIMIT, NOTHING_FOUND, OPTIMAL
from bridle.engines.highs import IntegerProgram, Solver, Status
from bridle.errors import EngineError
from bridle.labels import Labels
from bridle.lattice import Scores
from bridle.rules.base import Rule, Soft, named
from bridle.rules.conditions import Tokens
from bridle.rules.patterns import matcher
from bridle.spans.candidates import Candidates
from bridle.spans.items import OUTSIDE, ItemRules, Task, boundaries, pieces
from bridle.spans.lattice import Ints

Terms = list[tuple[int, float]]  # columns with their factors
_MOST_ROWS = 2_000_000  # about a gigabyte
_MOST_HELD = 5_000_000  # pairs of a candidate and a stretch that it holds: as entries of rows, about 400 megabytes
_NEAR = 1e-5  # how far the solver's bound may be from the score that it proves, relative to its size


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Result of an engine for one text."""

    indices: list[int]  # of candidates, in text order
    score: float
    bound: float
    status: int
    violations: list[int]  # (R,)
    engine: str
    stats: dict[str, Any]


class SelectionProblem:
    """Candidates and rules of one text, ready for integer programs."""

    def __init__(self, task: Task, rules: ItemRules, labels: Labels, deadline: Deadline, *, nested: bool) -> None:
        document, candidates = task.document, task.candidates
        self.candidates, self.rules, self.nested = candidates, rules.rules, nested
        cuts, inside = boundaries(document, candidates.start, candidates.end)
        first, last = pieces(document, cuts)
        self.pieces = _Pieces(
            _holders(candidates, cuts, deadline), np.stack([first, last], 1), np.stack([inside[first], inside[last]], 1)
        )
        start, end = np.concatenate([candidates.start, cuts[first]]), np.concatenate([candidates.end, cuts[last]])
        self.order = np.lexsort((-end, start))  # (E,)  items as they are read: candidates, then pieces, by number
        self.at = np.empty(len(self.order), dtype=np.int64)  # (E,)  where each is in that order
        self.at[self.order] = np.arange(len(self.order))
        start, end = start[self.order].astype(np.int32), end[self.order].astype(np.int32)
        self.label = np.concatenate([task.ids, np.full(len(first), OUTSIDE, np.int32)])[self.order].astype(np.int32)
        self.outside = self.order >= len(candidates)
        values = rules.given(document, start, end, labels, task.given)
        texts = document.texts(start, end) if rules.needs_texts else []
        self.automata = [_item_automata(rule, self.label, labels, values, texts) for rule in self.rules]

    def best(self, deadline: Deadline, start: Choice) -> Choice:
        """Find the best selection, by as few rules as it takes; start: the result of an engine that a limit stopped."""
        gains, active = self.candidates.gains, set[int]()
        best = Choice([], -np.inf, np.inf, NOTHING_FOUND, [0] * len(self.rules), "ilp", {"programs": 0, "rules": 0})
        if start.score > -np.inf:
            best = replace(best, indices=start.indices, score=start.score, violations=start.violations, status=LIMIT)
        chosen = best_intervals(self.candidates, self.nested, deadline)
        if chosen is None:
            return replace(best, bound=start.bound)
        solved = _Solved(chosen, float(gains[chosen].sum()), "optimal")
        while True:
            if solved.status == "infeasible":
                return replace(best, bound=-np.inf, status=INFEASIBLE)
            bound = min(best.bound, solved.bound)
            if solved.chosen is None:
                return replace(best, bound=bound)
            counts = self._violations(solved.chosen)
            total = float(gains[solved.chosen].sum())
            proved = solved.status == "optimal"
            if proved:
                relaxed = total - sum(self._price(r, counts[r]) for r in active)
                _certify(relaxed, solved.bound)
                bound = min(best.bound, relaxed)
            score = total - sum(self._price(r, v) for r, v in enumerate(counts))
            if score > best.score:
                indices = sorted(solved.chosen, key=lambda c: self.at[c])
                best = replace(best, indices=indices, score=score, status=LIMIT, violations=counts)
            new = {r for r, v in enumerate(counts) if v and r not in active and self._price(r, v) > 0}
            if not new:
                bound, status = (best.score, OPTIMAL) if proved else (bound, LIMIT)
                return replace(best, bound=bound, status=status)
            best = replace(best, bound=bound)
            active |= new
            try:
                solved = self._program(active, deadline).solve()
            except OutOfTime:
                return best
            best.stats.update(programs=best.stats["programs"] + 1, rules=len(active))

    def _price(self, number: int, violations: int) -> float:
        rule = self.rules[number]
        return rule.cost(violations) if isinstance(rule, Soft) else np.inf if violations else 0.0

    def _violations(self, chosen: Sequence[int]) -> list[int]:
        uncovered = [len(self.candidates) + p for p in self.pieces.uncovered(chosen)]
        items = sorted(int(self.at[k]) for k in [*chosen, *uncovered])
        return [sum(automaton.violations(items) for automaton in automata) for automata in self.automata]

    def _program(self, active: set[int], deadline: Deadline) -> _Program:
        program = _Program(self.candidates.gains, deadline)
        program.exclude(_crossing(self.candidates) if self.nested else _sharing(self.pieces.held))
        read_outside = any(bool((a.matters & self.outside).any()) for r in active for a in self.automata[r])
        outside = program.add_pieces(self.pieces) if read_outside else [-1] * len(self.pieces.parts)
        columns = np.concatenate([np.arange(len(self.candidates)), np.array(outside, dtype=np.int64)])
        items = columns[self.order].tolist()
        for r in sorted(active):
            program.add_rule(self.rules[r], self.automata[r], items, self.label)
        return program


def best_intervals(candidates: Candidates, nested: bool, deadline: Deadline = NEVER) -> list[int] | None:
    """Find the best selection without rules by a dynamic program over intervals; None: not before the deadline."""
    start, end, gains, left = candidates.start, candidates.end, candidates.gains, deadline.left
    return _native.best_intervals(start, end, gains, nested, -1.0 if left is None else left, current_stop())


def _certify(value: float, bound: float) -> None:
    """Raise an error if rounding in the solver spoiled its proof."""
    if not abs(value - bound) <= _NEAR * (1.0 + abs(value)):
        raise EngineError(
            "the solver did not prove its selection to be the best",
            got=bound,
            wanted=value,
            cause="Scores of very different sizes?",
        )


def _holders(candidates: Candidates, cuts: Ints, deadline: Deadline) -> list[list[int]]:
    """List the candidates that hold each stretch between neighbouring boundaries.

    Raises OutOfTime if it is too late, or if there are too many.
    """
    first, last = np.searchsorted(cuts, candidates.start), np.searchsorted(cuts, candidates.end)
    possible = np.flatnonzero(candidates.gains > -np.inf)
    if int((last - first)[possible].sum()) > _MOST_HELD:
        raise OutOfTime
    held: list[list[int]] = [[] for _ in range(len(cuts) - 1)]
    for c in possible.tolist():
        deadline.check()
        for g in range(first[c], last[c]):
            held[g].append(c)
    return held


def _sharing(held: list[list[int]]) -> Iterator[Sequence[int]]:
    """Yield groups of candidates that share a place."""
    yield from dict.fromkeys(tuple(candidates) for candidates in held if len(candidates) > 1)


def _crossing(candidates: Candidates) -> Iterator[Sequence[int]]:
    """Yield pairs of candidates that cross, and groups of equal ones."""
    order = np.lexsort((-candidates.end, candidates.start))
    order = order[candidates.gains[order] > -np.inf]
    start, end = candidates.start[order], candidates.end[order]
    last = np.searchsorted(start, end, "left")  # those that start before it ends
    first = np.searchsorted(start, start, "right")  # ... and after it starts
    for k in range(len(order)):
        others: npt.NDArray[np.intp] = first[k] + np.flatnonzero(end[first[k] : last[k]] > end[k])
        yield from ((int(order[k]), int(order[j])) for j in others)
    equal: dict[tuple[int, int], list[int]] = {}
    for k in order.tolist():
        equal.setdefault((int(candidates.start[k]), int(candidates.end[k])), []).append(k)
    yield from (group for group in equal.values() if len(group) > 1)


# ---- automata over items --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _ItemAutomaton:
    """An automaton of a rule, and the input that each item is to it."""

    automaton: CountingAutomaton
    table: Ints  # (E,)  which table (mark) the automaton uses at each item
    column: Ints  # (E,)  which class the label of each item has
    matters: npt.NDArray[np.bool_]  # (E,)  can the item change its state, or break it?
    sum: tuple[npt.NDArray[np.bool_], int, Literal["<=", ">="]] | None  # it only counts these labels, up to a limit

    def violations(self, items: Sequence[int]) -> int:
        """Count the violations of these items, in order."""
        state, total = 0, 0
        for e in items:
            at = self.table[e], state, self.column[e]
            total += int(self.automaton.violations[at])
            state = int(self.automaton.step[at])
        return total + int(self.automaton.final[state])


def _item_automata(
    rule: Rule, label: Ints, labels: Labels, given: Mapping[str, Any], texts: list[str]
) -> list[_ItemAutomaton]:
    """Build the automata of a rule about items; texts: of all items, if a rule reads them."""
    automata = []
    with named(rule):
        for part in (rule.rule,) if isinstance(rule, Soft) else rule.conjuncts():
            sets = tuple(names.resolve(labels, given) for names in part.names())
            marks = np.zeros(len(label), dtype=np.int64)
            for k, place in enumerate(part.places()):
                if isinstance(place.source, Tokens):
                    matches = matcher((place.source.pattern, place.source.engine))
                    at = [e for e, text in enumerate(texts) if matches(text)]
                else:
                    at = place.positions(len(label), given)
                marks[at] |= 1 << k
            kinds, table = np.unique(np.append(marks, 0), return_inverse=True)
            tables = kinds.tolist(), table[:-1].astype(np.int32)
            automata += [_item_automaton(lazy, label, len(labels), *tables) for lazy in part.automata(sets, labels)]
    return automata


def _item_automaton(lazy: LazyAutomaton, label: Ints, m: int, marks: list[int], table: Ints) -> _ItemAutomaton:
    automaton = CountingAutomaton.build(lazy, m, marks)
    column = automaton.class_of[label].astype(np.int32)
    still = (automaton.step == np.arange(automaton.n_states)[None, :, None]) & (automaton.violations == 0)
    matters = ~still.all(axis=1)[table, column]
    total = None
    if lazy.count is not None and lazy.classes is not None:
        edges = lazy.counted()  # (m + 1, m)
        if (edges == edges[0]).all():
            total = edges[0], lazy.count.limit, lazy.count.sense
    return _ItemAutomaton(automaton, table, column, matters, total)


# ---- columns and rows -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Pieces:
    """Stretches of text between neighbouring boundaries, and the pieces of tokens that they make."""

    held: list[list[int]]  # of each stretch, the candidates that hold it
    parts: Ints  # (P, 2)  the stretches of each piece: first, and the one after the last
    cut: npt.NDArray[np.bool_]  # (P, 2)  does the piece begin, end inside a token? Then a span is next to it

    def uncovered(self, chosen: Iterable[int]) -> list[int]:
        """Return the pieces that a choice leaves as items."""
        members = set(chosen)
        covered = np.array([not members.isdisjoint(held) for held in self.held] + [False], dtype=bool)
        before = np.concatenate([[0], np.cumsum(covered)])
        first, last = self.parts[:, 0], self.parts[:, 1]
        free = before[last] == before[first]
        free &= ~self.cut[:, 0] | covered[np.maximum(first - 1, 0)]
        free &= ~self.cut[:, 1] | covered[last]
        return [int(p) for p in np.flatnonzero(free)]


class _Solved(NamedTuple):
    """Solution of a program."""

    chosen: list[int] | None  # candidates; None: infeasible, or none found in time
    bound: float
    status: Status


@dataclass(slots=True, eq=False)
class _Program:
    """Columns and rows while they are gathered; the first columns are the candidates."""

    gains: Scores  # (N,)
    deadline: Deadline
    costs: list[float] = field(default_factory=list)  # of each column
    upper: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    rows: list[tuple[float, float, Terms]] = field(default_factory=list)  # low <= terms <= high

    def __post_init__(self) -> None:
        for gain in self.gains.tolist():
            self.column(gain if gain > -np.inf else 0.0, 1.0 if gain > -np.inf else 0.0, integer=True)

    def column(self, gain: float = 0.0, upper: float = 1.0, *, integer: bool = False) -> int:
        """Add a column from 0 to `upper`, and return its number."""
        self.costs.append(gain)
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.costs) - 1

    def row(self, low: float, high: float, terms: Terms) -> None:
        """Add a row; raise OutOfTime if it is too late, or if there are too many."""
        self.deadline.check()
        if len(self.rows) >= _MOST_ROWS:
            raise OutOfTime
        self.rows.append((low, high, terms))

    def exclude(self, groups: Iterable[Sequence[int]]) -> None:
        """Allow at most one candidate of each group."""
        for group in groups:
            self.row(-np.inf, 1.0, [(c, 1.0) for c in group])

    def add_pieces(self, pieces: _Pieces) -> list[int]:
        """Add columns that say which pieces of tokens are items, and return their numbers."""
        covered = []
        for held in pieces.held:
            u = self.column()
            for c in held:
                self.row(0.0, np.inf, [(u, 1.0), (c, -1.0)])
            self.row(-np.inf, 0.0, [(u, 1.0), *((c, -1.0) for c in held)])
            covered.append(u)
        columns = []
        for (first, last), (left, right) in zip(pieces.parts.tolist(), pieces.cut.tolist(), strict=True):
            o = self.column()
            beside = [covered[g] for g, next_to in ((first - 1, left), (last, right)) if next_to]
            for u in covered[first:last]:
                self.row(-np.inf, 1.0, [(o, 1.0), (u, 1.0)])
            for u in beside:
                self.row(-np.inf, 0.0, [(o, 1.0), (u, -1.0)])
            inside = [(u, 1.0) for u in covered[first:last]]
            self.row(1.0 - len(beside), np.inf, [(o, 1.0), *inside, *((u, -1.0) for u in beside)])
            columns.append(o)
        return columns

    def add_rule(self, rule: Rule, automata: Sequence[_ItemAutomaton], items: Sequence[int], label: Ints) -> None:
        """Add the rows of a rule; items: the column of each item."""
        soft = isinstance(rule, Soft)
        once = self.column(-rule.penalty, integer=True) if isinstance(rule, Soft) and rule.per == "sequence" else -1
        price = rule.penalty if isinstance(rule, Soft) and once < 0 else None
        for automaton in automata:
            if automaton.sum is not None:
                self._add_count(*automaton.sum, items, label, price, once)
            else:
                self._add_flow(automaton, items, price, once, hard=not soft)

    def _add_count(
        self,
        counted: npt.NDArray[np.bool_],
        limit: int,
        sense: Literal["<=", ">="],
        items: Sequence[int],
        label: Ints,
        price: float | None,
        once: int,
    ) -> None:
        terms: Terms = [(items[e], 1.0) for e in np.flatnonzero(counted[label]).tolist()]
        sign, most = (1.0, max(len(terms) - limit, 0)) if sense == "<=" else (-1.0, limit)  # violations at most
        if price is not None:
            terms.append((self.column(-price, float(max(most, 0))), -sign))
        elif once >= 0:
            terms.append((once, -sign * most))
        self.row(*((-np.inf, float(limit)) if sense == "<=" else (float(limit), np.inf)), terms)

    def _add_flow(
        self, item: _ItemAutomaton, items: Sequence[int], price: float | None, once: int, *, hard: bool
    ) -> None:
        automaton = item.automaton

        def edge(violations: int) -> int | None:
            """Add a column for a step with so many violations, or for the end; None: it is not allowed."""
            if violations and hard:
                return None
            return self.column(-violations * price if violations and price is not None else 0.0)

        def charge(broken: list[int]) -> None:
            if broken and once >= 0:
                self.row(-np.inf, 0.0, [(once, -1.0), *((column, 1.0) for column in broken)])

        arriving: dict[int, Terms] = {0: []}  # columns that flow into each state
        source = -1.0  # of the start state, before the first item
        for e in np.flatnonzero(item.matters).tolist():
            after: dict[int, Terms] = {}
            taken, broken = list[int](), list[int]()
            for s, terms in arriving.items():
                at = item.table[e], s, item.column[e]
                violations, to = int(automaton.violations[at]), int(automaton.step[at])
                skip, take = self.column(), edge(violations)
                after.setdefault(s, []).append((skip, 1.0))
                leaving = [(skip, -1.0)]
                if take is not None:
                    after.setdefault(to, []).append((take, 1.0))
                    leaving.append((take, -1.0))
                    taken.append(take)
                    broken += [take] * (violations > 0)
                self.row(source, source, [*terms, *leaving])
            source = 0.0
            self.row(0.0, 0.0, [(items[e], -1.0), *((take, 1.0) for take in taken)])
            charge(broken)
            arriving = after
        broken = []
        for s, terms in arriving.items():
            violations = int(automaton.final[s])
            end = edge(violations)
            self.row(source, source, [*terms, *([] if end is None else [(end, -1.0)])])
            broken += [end] if violations > 0 and end is not None else []
        charge(broken)

    def solve(self) -> _Solved:
        """Solve the program that was gathered."""
        rows = [(low, high, terms) for low, high, terms in self.rows if terms or not low <= 0.0 <= high]
        if any(not terms for *_, terms in rows):
            return _Solved(None, -np.inf, "infeasible")
        if not self.costs:  # which the solver would call neither solved nor infeasible
            return _Solved([], 0.0, "optimal")
        entries = [entry for *_, terms in rows for entry in terms]
        program = IntegerProgram(
            cost=np.array(self.costs),
            upper=np.array(self.upper),
            integer=np.array(self.integer),
            low=np.array([low for low, *_ in rows]),
            high=np.array([high for _, high, _ in rows]),
            start=np.cumsum([0, *(len(terms) for *_, terms in rows)]),
            index=np.array([column for column, _ in entries], dtype=np.int32),
            value=np.array([factor for _, factor in entries], dtype=np.float64),
            sense="maximise",
        )
        solution = Solver().solve(program, self.deadline)
        chosen = None if solution.x is None else np.flatnonzero(solution.x[: len(self.gains)] > 0.5).tolist()
        return _Solved(chosen, solution.bound, solution.status)
