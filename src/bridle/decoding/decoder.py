"""Decoder: compile the rules once, choose an engine, return labellings with their proof."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bridle import _native
from bridle.deadline import stopping
from bridle.decoding.clash import infeasible_on
from bridle.decoding.marginals import Probability, marginals, probability
from bridle.decoding.plan import planned
from bridle.decoding.problem import (
    FAILED,
    INFEASIBLE,
    LIMIT,
    MOST_MEMORY,
    RELAXED,
    Answers,
    Limits,
    Objective,
    Problem,
    bad_option,
    check_given,
    check_lattice,
    check_lattices,
    not_a_dict,
    pieces,
)
from bridle.decoding.ranking import k_best
from bridle.decoding.relaxation import relax_infeasible
from bridle.decoding.result import Decoding, Decodings, Unanswered, joined, raise_first, status_of
from bridle.decoding.single import decode_one
from bridle.decoding.threads import in_threads, thread_count
from bridle.engines import Engine, NativeEngine
from bridle.errors import BridleError
from bridle.labels import Labels
from bridle.lattice import Batch, Lattice, Scores
from bridle.rules.base import Rule
from bridle.rules.equal import EqualPlace
from bridle.rules.loading import as_rules

if TYPE_CHECKING:
    from bridle.explain import Explanation

Given = Mapping[str, Any]
OnInfeasible = Literal["raise", "relax", "skip"]
# Some sequences: their scores, what comes with them, the texts of their tokens if those do not, and, by number among
# these sequences, errors of those that cannot be decoded.
Scored = tuple[Batch | Sequence[Lattice], Sequence[Given] | None, Sequence[str] | None, dict[int, BridleError]]


class Decoder:
    """Find the best labelling that obeys the rules.

    Parameters
    ----------
    labels : Labels or iterable of str
        The labels, in the order of the columns of the scores.
    rules : iterable of Rule or str
        Rules, or sentences such as ``"at most 1 segment of A0"``.
    engine : str or Engine, default "auto"
        How to decode: "auto" chooses "viterbi" if all rules are masks and "search" otherwise; both are exact. Pass a
        name, or an engine with its options, such as ``bridle.engines.Beam(width=32)``.
    time_limit : float, optional
        Seconds per sequence, or per call of `k_best`, `marginals`, `probability` and `explain`. The result so far
        comes with a valid bound; 0 leaves time only for the best labelling without rules. Matching the expressions of
        ``tokens(..., engine="re")`` does not count.
    max_states : int, optional
        Maximum number of search states per sequence. Results are as for `time_limit`.
    max_memory : int, default 1_000_000_000
        Bytes of working memory for each sequence, at least 1,000,000, beyond what the best labelling without rules
        takes; k threads take k times as much. If the memory does not suffice, the search is less deep, or its result is
        not proved; sums, and engines that need the whole product of the rules, raise `EngineError`.
    on_infeasible : {"raise", "relax", "skip"}, default "raise"
        What to do if no labelling obeys the hard rules: raise `Infeasible`, return the labelling that violates them the
        fewest times, or return a `Decoding` without labels, whose status says so.

    Raises
    ------
    RuleError
        If a rule is invalid for these labels.
    EngineError
        If an option is invalid, or the engine does not support these rules.

    Examples
    --------
    >>> import bridle
    >>> labels = bridle.Labels(["O", "NAME", "DATE"], scheme="IO")
    >>> scores = bridle.Lattice([[0, 3, 0], [2, 0, 0], [0, 2, 1]])
    >>> bridle.Decoder(labels).decode(scores).labels
    ['NAME', 'O', 'NAME']
    >>> decoder = bridle.Decoder(labels, rules=[bridle.rules.at_most(1, of="NAME")])
    >>> best = decoder.decode(scores)
    >>> best.labels, best.score, best.status
    (['NAME', 'O', 'DATE'], 6.0, 'optimal')
    """

    def __init__(
        self,
        labels: Labels | Iterable[str],
        rules: Iterable[Rule | str] = (),
        engine: str | Engine = "auto",
        *,
        time_limit: float | None = None,
        max_states: int | None = None,
        max_memory: int = MOST_MEMORY,
        on_infeasible: OnInfeasible = "raise",
    ) -> None:
        self._set(labels, rules, engine, Limits(time_limit, max_states, max_memory), on_infeasible)

    def _set(
        self,
        labels: Labels | Iterable[str],
        rules: Iterable[Rule | str],
        engine: str | Engine,
        limits: Limits,
        on_infeasible: OnInfeasible,
    ) -> None:
        if on_infeasible not in ("raise", "relax", "skip"):
            raise bad_option("on_infeasible", on_infeasible, "'raise', 'relax' or 'skip'")
        self.labels = labels if isinstance(labels, Labels) else Labels(labels)
        self.rules, self.engine, self.limits, self.on_infeasible = as_rules(rules), engine, limits, on_infeasible
        self._engine, self.compiled, self.plan = planned(self.labels, self.rules, engine, limits)
        # One sequence goes to the kernel without a batch around it, if there is a kernel and nothing in Python to do.
        self._kernel = -1
        if isinstance(self._engine, NativeEngine) and type(self._engine).solve is NativeEngine.solve:
            self._kernel, self._native = self._engine.kernel, self.compiled.native(self._engine.absorb)

    def __repr__(self) -> str:
        return f"Decoder({len(self.labels)} labels, {len(self.rules)} rules, engine={self.plan.engine!r})"

    @property
    def objective(self) -> Objective:
        """What the engine optimises: "score", or "two_stage" (`Decoding.objective`)."""
        return self._engine.objective

    @cached_property
    def required_inputs(self) -> frozenset[str]:
        """The values that the rules need in `given`: "tokens", other columns, and the names in given(...)."""
        places = {key for rule in self.rules for place in rule.places() for key in place.keys}
        names = (item for rule in self.rules for field in rule.names() for item in field.items)
        return frozenset(places | {item.key for item in names if not isinstance(item, str)})

    @cached_property
    def required_columns(self) -> frozenset[str]:
        """Those of `required_inputs` that are columns, with one text per token; "tokens" are the tokens' own."""
        return frozenset(column for rule in self.rules for place in rule.places() for column in place.columns)

    @cached_property
    def compares_tokens(self) -> bool:
        """Do rules compare the tokens of a sequence with each other, so that they want all texts in `given`?"""
        return any(isinstance(place, EqualPlace) for rule in self.rules for place in rule.places())

    def with_rules(
        self,
        rules: Iterable[Rule | str],
        *,
        engine: str | Engine | None = None,
        time_limit: float | None = None,
        max_states: int | None = None,
        max_memory: int | None = None,
        on_infeasible: OnInfeasible | None = None,
    ) -> Decoder:
        """Make the same decoder with other rules. Parts that both have in common are not compiled again.

        Parameters
        ----------
        rules : iterable of Rule or str
        engine, time_limit, max_states, max_memory, on_infeasible : optional
            As in `Decoder`; by default, those of this decoder.

        Returns
        -------
        Decoder
        """
        limits = Limits(
            self.limits.time_limit if time_limit is None else time_limit,
            self.limits.max_states if max_states is None else max_states,
            self.limits.max_memory if max_memory is None else max_memory,
        )
        made = object.__new__(type(self))
        made.__dict__.update(self._state())
        asked = self.engine if engine is None else engine
        made._set(self.labels, rules, asked, limits, on_infeasible or self.on_infeasible)
        return made

    def _state(self) -> dict[str, Any]:
        """Everything but the parts that are built again."""
        made = {"compares_tokens", "compiled", "plan", "required_columns", "required_inputs"}
        made |= {"_engine", "_kernel", "_native"}
        return {name: value for name, value in self.__dict__.items() if name not in made}

    def __getstate__(self) -> dict[str, Any]:
        return self._state()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._set(self.labels, self.rules, self.engine, self.limits, self.on_infeasible)

    # ---- decoding -------------------------------------------------------------------------------------------------

    def decode(self, lattice: Lattice, given: Given | None = None) -> Decoding:
        """Find the best labelling of one sequence under the rules.

        Parameters
        ----------
        lattice : Lattice
            Scores of the sequence.
        given : mapping, optional
            Values that the rules refer to by name, for example ``{"verb": 3, "tokens": [...]}``.

        Returns
        -------
        Decoding
            Labels with score, bound and the soft rules they violate.

        Raises
        ------
        Infeasible
            If no labelling obeys the hard rules; it names a minimal set of rules that contradict each other.
        LimitReached
            If a limit was reached before any labelling was found.
        GivenError, RuleError
            If a rule refers to a value or a position that the sequence does not have.
        """
        check_lattice(lattice)
        if given is not None and not isinstance(given, Mapping):
            raise not_a_dict(given, None)
        if self._kernel < 0 or lattice.unary.shape[1] != len(self.labels.names):
            its = None if given is None else [given]
            found, _ = self.decode_parts(lambda _low, _high, _stop: ([lattice], its, None, {}), 1, 1)
            raise_first(found, infeasible=self.on_infeasible != "skip")
            return found[0]
        return decode_one(self, lattice, given)

    def decode_batch(
        self,
        lattices: Sequence[Lattice] | Batch,
        given: Sequence[Given] | None = None,
        threads: int = 0,
        *,
        stop: _native.Stop | None = None,
    ) -> Decodings:
        """Find the best labellings of many sequences.

        Parameters
        ----------
        lattices : Batch or sequence of Lattice
        given : sequence of mappings, optional
            One per sequence, as in `decode`.
        threads : int, default 0
            Number of threads; 0 means all cores. The results do not depend on it.
        stop : Stop, optional
            Set it in another thread to end the call, which then raises `KeyboardInterrupt`.

        Returns
        -------
        Decodings
            The decodings in order, with a status for each. Sequences without an answer have no labels
            (``on_infeasible="skip"``, or a limit was reached before the first labelling, or the scores have no path).

        Raises
        ------
        Infeasible, LimitReached
            With ``on_infeasible="raise"``, for the first sequence without an answer (``error.sequence``), after the
            whole batch has been decoded: ``error.decodings`` holds all results. Otherwise neither is raised.
        """
        lattices = check_lattices(lattices)
        check_given(given, count := len(lattices))

        def part(low: int, high: int, _stop: _native.Stop) -> Scored:
            some = lattices.part(low, high) if isinstance(lattices, Batch) else lattices[low:high]
            return some, None if given is None else given[low:high], None, {}

        found, _ = self.decode_parts(part, count, threads, stop=stop)
        with stopping(stop):
            raise_first(found, infeasible=self.on_infeasible == "raise")
        return found

    def decode_parts(
        self,
        scores: Callable[[int, int, _native.Stop], Scored],
        count: int,
        threads: int = 0,
        *,
        stop: _native.Stop | None = None,
        more: Callable[[Problem, Answers], Any] | None = None,
    ) -> tuple[Decodings, list[Any]]:
        """Decode sequences whose scores are made part by part, each in the thread that decodes it.

        Parameters
        ----------
        scores : callable
            ``scores(low, high, stop)`` gives the scores of sequences low .. high-1, what comes with them, the texts
            of their tokens, end to end, where these are not in ``given["tokens"]``, and errors of sequences that
            cannot be decoded, by their number from 0.
        count : int
            Number of sequences.
        threads, stop : optional
            As in `decode_batch`.
        more : callable, optional
            ``more(problem, answers)`` computes what else is wanted of a part.

        Returns
        -------
        Decodings
            One per sequence, also where there is no answer; nothing is raised because of a single sequence.
        list
            What `more` returned, for each part.
        """

        def solve(low: int, high: int, stop: _native.Stop) -> list[tuple[Decodings, Any]]:
            found, many = [], count > 1
            for k, lattices, given, texts, errors in pieces(*scores(low, high, stop)):
                first, rules = low + k, self.compiled
                problem = Problem(rules, lattices, given, first=first, many=many, texts=texts, stop=stop, errors=errors)
                answers = Answers.blank(problem.offsets, len(self.rules), len(self._engine.counters))
                self._engine.solve(problem, self.limits, answers)
                found.append((self._answered(problem, answers), None if more is None else more(problem, answers)))
            return found

        found = list(chain.from_iterable(in_threads(solve, count, thread_count(threads), stop)))
        if len(found) == 1:
            return found[0][0], [found[0][1]]
        return joined([decodings for decodings, _ in found]), [extra for _, extra in found]

    def _answered(self, problem: Problem, answers: Answers) -> Decodings:
        """Answers to a problem, with what is needed to say why there is none; relaxed if that is asked for."""
        relaxed, unanswered, grid, lattices = {}, {}, None, problem.lattices
        errors = problem.errors or {}
        answers.status[list(errors)] = FAILED
        if self.on_infeasible == "relax" and (answers.status == INFEASIBLE).any():
            relaxed = relax_infeasible(problem, self.limits, answers)
        for b in np.flatnonzero((answers.status > LIMIT) & (answers.status < RELAXED)).tolist():
            status, bound, limit = status_of(int(answers.status[b])), float(answers.bound[b]), self.limits.time_limit
            left = None if limit is None or problem.many else max(0.0, limit - float(answers.seconds[b]))
            unanswered[b] = Unanswered(self, lattices[b], problem.all_given(b), status, bound, left)
        if isinstance(lattices, Batch) and lattices.first is not None and lattices.length is not None:
            grid = lattices.length, lattices.first % max(lattices.length, 1)
        return Decodings(self, answers, problem.offsets, unanswered, relaxed, errors, grid)

    def k_best(
        self, lattice: Lattice, k: int, given: Given | None = None, *, stop: _native.Stop | None = None
    ) -> list[Decoding]:
        """Find the k best distinct labellings under the rules.

        Parameters
        ----------
        lattice : Lattice
        k : int
            Number of labellings.
        given : mapping, optional
            As in `decode`.
        stop : Stop, optional
            As in `decode_batch`.

        Returns
        -------
        list of Decoding
            Best first; fewer if there are fewer. The `bound` of each holds for all labellings but those before it.

        Raises
        ------
        Infeasible, LimitReached
            As in `decode`, whatever `on_infeasible` says.
        """
        with stopping(stop):
            return k_best(self, self._problem(lattice, given), k)

    # ---- probabilities and reasons --------------------------------------------------------------------------------

    def marginals(self, lattice: Lattice, given: Given | None = None, *, stop: _native.Stop | None = None) -> Scores:
        """Compute the probability of each label at each position, given that all hard rules hold.

        The model is p(y) ~ exp(score(y)); soft rules are not part of it.

        Parameters
        ----------
        lattice : Lattice
        given : mapping, optional
            As in `decode`.
        stop : Stop, optional
            As in `decode_batch`.

        Returns
        -------
        array of float, shape (n, m)

        Raises
        ------
        Infeasible
            If no labelling obeys the hard rules.
        LimitReached
            If the time limit was reached.
        EngineError
            If the product of all automata is too large.
        """
        blame = partial(infeasible_on, self, lattice, given)
        with stopping(stop):
            return marginals(self._problem(lattice, given), blame, self.limits.time_limit)

    def probability(
        self, lattice: Lattice, given: Given | None = None, *, stop: _native.Stop | None = None
    ) -> Probability:
        """Compute the probability, under the model, that all hard rules hold, and that of each rule alone.

        Parameters
        ----------
        lattice : Lattice
        given : mapping, optional
            As in `decode`.
        stop : Stop, optional
            As in `decode_batch`.

        Returns
        -------
        Probability

        Raises
        ------
        Infeasible
            If the scores leave no path.
        LimitReached
            If the time limit, which is for all sums together, was reached.
        EngineError
            If the product of all automata is too large.
        """
        blame = partial(infeasible_on, self, lattice, given)
        with stopping(stop):
            return probability(self._problem(lattice, given), blame, self.limits.time_limit)

    def explain(self, lattice: Lattice, given: Given | None = None, *, stop: _native.Stop | None = None) -> Explanation:
        """Explain the labelling: which rules changed it, what each one cost, and the best labelling without it.

        Parameters
        ----------
        lattice : Lattice
        given : mapping, optional
            As in `decode`.
        stop : Stop, optional
            As in `decode_batch`.

        Returns
        -------
        Explanation
            Print it, or read `effects`: the rules, the most expensive first. The time limit is for decoding and all
            prices together; the explanation says what was not proved by then.
        """
        with stopping(stop):
            from bridle.explain import explain

            return explain(self, lattice, given)

    def _stats(self, counters: list[int]) -> dict[str, Any]:
        return self._engine.stats(counters)

    def _problem(self, lattice: Lattice, given: Given | None) -> Problem:
        check_lattice(lattice)
        givens = None if given is None else [given]
        check_given(givens, 1)
        return Problem(self.compiled, [lattice], givens)
