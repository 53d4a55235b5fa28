"""Decoder: lower the rules, plan, run an engine, return labellings with their proof."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.decoding.marginals import Probability, marginals, probability
from bridle.decoding.problem import (
    INFEASIBLE,
    LIMIT,
    NOTHING_FOUND,
    OPTIMAL,
    Answers,
    Options,
    Problem,
    check_given,
    offsets_of,
)
from bridle.decoding.result import Decoding, Decodings
from bridle.decoding.threads import cores, in_threads
from bridle.engines import Engine, engine_named, solve_one
from bridle.errors import Argument, EngineError, Infeasible, LatticeError, LimitReached
from bridle.explain import Explanation, explain
from bridle.labels import Labels
from bridle.lattice import Batch, Lattice, Scores
from bridle.rules.base import Rule, Soft
from bridle.rules.files import as_rules
from bridle.rules.lower import Lowering

Given = Mapping[str, Any]


@dataclass(frozen=True)
class Plan:
    """Which engine answers, and why."""

    engine: str
    why: str


class Decoder:
    """Finds the best labelling that obeys the rules.

    >>> import bridle
    >>> labels = bridle.Labels(["O", "A0", "A1"], scheme="IO")
    >>> decoder = bridle.Decoder(labels, rules=[bridle.rules.at_most(1, of="A0")])
    >>> d = decoder.decode(bridle.Lattice([[0, 2, 0], [1, 0, 0], [0, 3, 1]]))
    >>> d.labels, d.score, d.optimal
    (['A0', 'A0', 'A0'], 5.0, True)

    A string among the rules is read as a sentence: "at most 1 segment of A0".
    time_limit (seconds) and max_states limit the work on each sequence; what is found by then comes with a true bound.
    on_infeasible: "raise", or "relax" to the fewest violations of hard rules. For single engines: width (beam), tau and
    stage (two_stage), formulation (ilp), seed (relax: the order of rules), max_product_states (search: fold broken rules into
    the lattice while their product has so few states).
    """

    def __init__(
        self,
        labels: Labels,
        rules: Iterable[Rule | str] = (),
        engine: str = "auto",
        *,
        time_limit: float | None = None,
        max_states: int | None = None,
        on_infeasible: Literal["raise", "relax"] = "raise",
        width: int = 8,
        tau: float = 0.9,
        stage: Literal["native", "ilp"] = "native",
        formulation: Literal["tight", "paper"] = "tight",
        seed: int = 0,
        max_product_states: int = 64,
    ) -> None:
        if not isinstance(labels, Labels):
            labels = Labels(labels)
        self.labels, self.rules = labels, as_rules(rules)
        self.engine, self.on_infeasible = engine, on_infeasible
        _check_options(time_limit, max_states, on_infeasible, width, tau, stage, formulation, seed, max_product_states)
        self.options = Options(time_limit, max_states, width, tau, stage, formulation, seed, max_product_states)
        self._lowering = Lowering(self.labels, self.rules)
        self.plan = self._plan()
        self._engine: Engine = engine_named(self.plan.engine)
        self._engine.accept(self.rules, self._lowering.absorbed)

    def __repr__(self) -> str:
        return f"Decoder({len(self.labels)} labels, {len(self.rules)} rules, engine={self.plan.engine!r})"

    @cached_property
    def required_inputs(self) -> frozenset[str]:
        """What the rules want of `given`: "tokens", and the names in given(...)."""
        places = {key for rule in self.rules for place in rule.places() for key in place.keys}
        names = (item for rule in self.rules for field in rule.names() for item in field.items)
        return frozenset(places | {item.key for item in names if not isinstance(item, str)})

    def _plan(self) -> Plan:
        if self.engine != "auto":
            return Plan(self.engine, "you asked for it")
        beyond = [rule for rule, mask in zip(self.rules, self._lowering.absorbed, strict=True) if not mask]
        if not beyond:
            why = "every rule is a mask on labels and transitions" if self.rules else "there are no rules"
            return Plan("viterbi", why)
        more = f" and {len(beyond) - 1} more" if len(beyond) > 1 else ""
        return Plan("search", f"masks cannot express: {beyond[0]}{more}")

    # ---- decoding -------------------------------------------------------------------------------------------------

    def decode(self, lattice: Lattice, given: Given | None = None) -> Decoding:
        """The best labelling of one sequence."""
        _check_lattice(lattice)
        return self.decode_batch([lattice], None if given is None else [given], threads=1)[0]

    def decode_batch(
        self, lattices: Sequence[Lattice] | Batch, given: Sequence[Given] | None = None, threads: int = 0
    ) -> Decodings:
        """The best labellings of many sequences, in order. threads=0: all cores. The answers do not depend on it."""
        if not whole(threads, 0):
            raise EngineError("threads is not a number of threads", got=repr(threads), wanted="0 (all cores) or more")
        offsets = offsets_of(lattices)
        count = len(lattices)
        check_given(given, count)
        answers = Answers.blank(int(offsets[-1]), count, len(self.rules), len(self._engine.counters))

        def solve(low: int, high: int, stop: _native.Stop) -> list[dict[str, Any]]:
            some = lattices.part(low, high) if isinstance(lattices, Batch) else lattices[low:high]
            its = None if given is None else given[low:high]
            part = answers.part(low, high, offsets)
            self._engine.solve(Problem(self._lowering, some, its, self.options, first=low, stop=stop), part)
            return part.stats

        for stats in in_threads(solve, count, int(threads) or cores()):
            answers.stats += stats
        grid = _grid(lattices)
        out = Decodings(answers, offsets, self.rules, self.labels, self.plan.engine, self._engine.stats, grid)
        if answers.status.max(initial=OPTIMAL) <= LIMIT:
            return out
        for b in np.flatnonzero(answers.status > LIMIT).tolist():
            if answers.status[b] == NOTHING_FOUND:
                raise _nothing_found(self.plan.engine, b, count, float(answers.bound[b]))
            one, its = lattices[b], {} if given is None else given[b]
            if self.on_infeasible == "relax" and self._possible(one):
                out.replace(b, self._relaxed(one, its))
            else:
                raise self._infeasible(one, its, b if count > 1 else None)
        return out

    def k_best(self, lattice: Lattice, k: int, given: Given | None = None) -> list[Decoding]:
        """The k best distinct labellings under the rules, best first; fewer if there are fewer.

        The `bound` of each holds for all labellings but those that stand before it.
        """
        if not whole(k, 1):
            raise EngineError("k is not a number of labellings", got=repr(k), wanted="1 or more")
        problem = self._problem(lattice, given).native(absorb=True)
        found = problem.k_best(0, min(int(k), 2**31 - 1), self.options.native)
        if not found:
            raise self._infeasible(lattice, given or {}, None)
        out = []
        for path, score, status in found:
            if status == NOTHING_FOUND:
                raise _nothing_found("search", 0, 1, math.inf)
            ids = np.array(path, dtype=np.int32)
            violated = [(rule, v) for rule in self.rules if (v := rule.violations(ids, self.labels, given))]
            cost = sum(rule.cost(v) for rule, v in violated if isinstance(rule, Soft))
            proved = status == OPTIMAL
            bound = score if proved else math.inf
            out.append(Decoding(ids, score, float(cost), violated, bound, proved, "search", {}, self.labels))
        return out

    # ---- probabilities --------------------------------------------------------------------------------------------

    def marginals(self, lattice: Lattice, given: Given | None = None) -> Scores:
        """(n, m): the probability of each label at each position, given that all hard rules hold.

        The model is p(y) ~ exp(score(y)); soft rules are no part of it.
        """
        return marginals(self._problem(lattice, given), self._infeasible)

    def probability(self, lattice: Lattice, given: Given | None = None) -> Probability:
        """How probable it is under the model that all hard rules hold, and each rule by itself."""
        return probability(self._problem(lattice, given), self._infeasible)

    def explain(self, lattice: Lattice, given: Given | None = None) -> Explanation:
        """Why this labelling: which rules bit, what each cost, the best labelling without it."""
        return explain(self, lattice, given)

    # ---- inside ---------------------------------------------------------------------------------------------------

    def with_rules(self, rules: Iterable[Rule | str], **changes: Any) -> Decoder:
        """The same decoder with other rules."""
        options = {name: getattr(self.options, name) for name in ("time_limit", "max_states", "width", "tau", "stage",
                                                                  "formulation", "seed", "max_product_states")}
        return Decoder(
            self.labels, rules, **{"engine": self.engine, "on_infeasible": self.on_infeasible, **options, **changes}
        )

    def _problem(self, lattice: Lattice, given: Given | None) -> Problem:
        _check_lattice(lattice)
        check_given(None if given is None else [given], 1)
        return Problem(self._lowering, [lattice], None if given is None else [given], self.options)

    def _possible(self, lattice: Lattice) -> bool:
        """Has the lattice any path at all?"""
        problem = Problem(Lowering(self.labels, ()), [lattice], None, self.options)
        return bool(solve_one("viterbi", problem).score[0] > -math.inf)

    def _infeasible(self, lattice: Lattice, given: Given, sequence: int | None) -> Infeasible:
        """Find a minimal set of hard rules that cannot hold together: leave out each that is not needed."""
        if not self._possible(lattice):
            return Infeasible(
                "the lattice has no path", got="-inf on every labelling", wanted="one with a finite score",
                cause="A position where all labels are -inf, or transitions that cannot join; no rule is to blame.",
                sequence=sequence,
            )
        clash = list(dict.fromkeys(rule for rule in self.rules if not isinstance(rule, Soft)))
        limit = Options(time_limit=self.options.time_limit)  # a rule of which it is not known in time stays in
        for rule in list(clash):
            fewer = [other for other in clash if other is not rule]
            problem = Problem(Lowering(self.labels, fewer), [lattice], [given], limit)
            if solve_one("search", problem).status[0] == INFEASIBLE:
                clash = fewer
        return Infeasible(
            "no labelling obeys the hard rules", got=f"{len(clash)} that clash: " + "; ".join(map(str, clash)),
            wanted="rules that can hold together (and with the -inf scores of the lattice)",
            cause="Leave one of them out, make it soft, or decode with {argument}.",
            clash=clash, sequence=sequence, argument=Argument("on_infeasible", "relax"),
        )

    def _relaxed(self, lattice: Lattice, given: Given) -> Decoding:
        """The labelling that breaks the hard rules the fewest times; of those, the one that scores best."""
        # Dearer than all that scores and soft rules can make up for: an automaton counts at most n + 1 violations.
        parts = [self.rules[k] for k in self._problem(lattice, given).parts_of(absorb=False)]
        most = sum(rule.penalty for rule in parts if isinstance(rule, Soft)) * (len(lattice) + 1)
        dear = 1.0 + _range(lattice) + most
        rules: list[Rule] = [
            rule if isinstance(rule, Soft) else rule.soft(dear, per="violation") for rule in self.rules
        ]
        found = self.with_rules(rules, engine="search", on_infeasible="raise").decode(lattice, given)
        violated, broken = [], 0
        for rule, v in found.violated:
            at = rules.index(rule)
            violated.append((self.rules[at], v))
            broken += 0 if isinstance(self.rules[at], Soft) else v
        cost = sum(rule.cost(v) for rule, v in violated if isinstance(rule, Soft))
        return replace(
            found, score=found.score + dear * broken, bound=found.bound + dear * broken, penalty=float(cost),
            violated=violated, relaxed=True,
        )


def _grid(lattices: Sequence[Lattice] | Batch) -> tuple[int, npt.NDArray[np.int64]] | None:
    """Of a padded batch: its length, and where each sequence begins."""
    if not isinstance(lattices, Batch) or lattices.first is None or lattices.length is None:
        return None
    return lattices.length, lattices.first % max(lattices.length, 1)


def _check_lattice(lattice: Lattice) -> None:
    if not isinstance(lattice, Lattice):
        cause = "Pass bridle.Lattice(scores)." if isinstance(lattice, (np.ndarray, list)) else None
        raise LatticeError("this is not a lattice", got=type(lattice).__name__, wanted="bridle.Lattice", cause=cause)


def _range(lattice: Lattice) -> float:
    """No two labellings of finite score are further apart."""

    def spread(scores: Any) -> float:
        if scores is None or scores.size == 0:
            return 0.0
        finite = np.where(np.isfinite(scores), scores, np.nan)
        with np.errstate(all="ignore"):
            return float(np.nanmax(finite) - np.nanmin(finite)) if np.isfinite(scores).any() else 0.0

    n = len(lattice)
    return (
        sum(spread(row) for row in lattice.unary)
        + n * spread(lattice.pairwise)
        + spread(lattice.start)
        + spread(lattice.end)
    )


def _nothing_found(engine: str, b: int, count: int, bound: float) -> LimitReached:
    return LimitReached(
        f"engine {engine!r} stopped before it found a labelling that obeys the rules", bound=bound,
        got="no labelling", wanted="a higher time_limit, max_states or width", sequence=b if count > 1 else None,
    )


def whole(value: object, low: int, high: float = math.inf) -> bool:
    """Is it a whole number in this range?"""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(low <= value <= high)


def _check_options(
    time_limit: Any, max_states: Any, on_infeasible: str, width: int, tau: float, stage: str, formulation: str,
    seed: int, max_product_states: int,
) -> None:
    def fail(name: str, got: object, wanted: str) -> EngineError:
        return EngineError(f"bad option {name}", got=repr(got), wanted=wanted)

    if time_limit is not None and not (isinstance(time_limit, (int, float)) and time_limit >= 0):
        raise fail("time_limit", time_limit, "seconds >= 0, or None")
    if max_states is not None and not whole(max_states, 1, 2**63 - 1):
        raise fail("max_states", max_states, "a whole number >= 1, or None")
    if on_infeasible not in ("raise", "relax"):
        raise fail("on_infeasible", on_infeasible, "'raise' or 'relax'")
    if not whole(seed, 0, 2**64 - 1):
        raise fail("seed", seed, "a whole number from 0 to 2**64 - 1")
    if not whole(width, 1, 2**31 - 1):
        raise fail("width", width, "a whole number >= 1")
    if not whole(max_product_states, 1, 4096):
        raise fail("max_product_states", max_product_states, "a whole number from 1 to 4096")
    if not (isinstance(tau, (int, float)) and 0 <= tau <= 1):
        raise fail("tau", tau, "a number from 0 to 1")
    if stage not in ("native", "ilp"):
        raise fail("stage", stage, "'native' or 'ilp'")
    if formulation not in ("tight", "paper"):
        raise fail("formulation", formulation, "'tight' or 'paper'")
