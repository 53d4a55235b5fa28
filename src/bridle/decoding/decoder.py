"""Decoder: compile the rules once, choose an engine, return labellings with their proof."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.arrays import is_integer
from bridle.deadline import Deadline, check_stopped, current_stop, stopping
from bridle.decoding.documents import DecodesDocuments
from bridle.decoding.marginals import Summing
from bridle.decoding.problem import (
    FAILED,
    INFEASIBLE,
    LIMIT,
    MOST_MEMORY,
    NOTHING_FOUND,
    RELAXED,
    TOO_LARGE,
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
from bridle.decoding.result import (
    Decoding,
    Decodings,
    Unanswered,
    decoding_of,
    infeasible_on,
    join_decodings,
    nothing_found,
    raise_first,
    status_of,
)
from bridle.decoding.threads import in_threads, thread_count
from bridle.engines import Engine, NativeEngine, plan_engine
from bridle.errors import BridleError, EngineError
from bridle.labels import Labels
from bridle.lattice import Batch, Lattice
from bridle.rules.base import Rule
from bridle.rules.compiled import Absorb, Givens
from bridle.rules.equal import EqualPlace
from bridle.rules.loading import as_rules

if TYPE_CHECKING:
    from bridle.explain import DocumentExplanation, Explanation

Given = Mapping[str, Any]
OnInfeasible = Literal["raise", "relax", "skip"]
# Some sequences: their scores, what comes with them, the texts of their tokens if those do not, and, by number among
# these sequences, errors of those that cannot be decoded.
Scored = tuple[Batch | Sequence[Lattice], Sequence[Given] | None, Sequence[str] | None, dict[int, BridleError]]
_RELAXED = _native.engine("relaxed")  # fewest violations of hard rules, then the score; both are proved, in this order
_RELAXED_COUNTERS = ("solves", "expansions", "hard_violations", "hard_violations_bound")  # and whether all is proved


class Kernel(NamedTuple):
    """The kernel of a native engine, and the rules compiled for it."""

    number: int
    rules: _native.CompiledRules


class Decoder(Summing, DecodesDocuments):
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
        self._configure(labels, rules, engine, Limits(time_limit, max_states, max_memory), on_infeasible)

    def _configure(
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
        self.resolved_engine, self.compiled, self.plan = plan_engine(self.labels, self.rules, engine, limits)
        # One sequence goes to the kernel without a batch around it, if there is a kernel and nothing in Python to do.
        self.kernel: Kernel | None = None
        chosen = self.resolved_engine
        if isinstance(chosen, NativeEngine) and type(chosen).solve is NativeEngine.solve:
            self.kernel = Kernel(chosen.kernel, self.compiled.native(chosen.absorb))

    def __repr__(self) -> str:
        return f"Decoder({len(self.labels)} labels, {len(self.rules)} rules, engine={self.plan.engine!r})"

    @property
    def objective(self) -> Objective:
        """The objective of the engine: "score", or "two_stage" (`Decoding.objective`)."""
        return self.resolved_engine.objective

    @cached_property
    def required_inputs(self) -> frozenset[str]:
        """Names of the values that the rules need in `given`: "tokens", other columns, and the names in given(...)."""
        places = {key for rule in self.rules for place in rule.places() for key in place.keys}
        names = (item for rule in self.rules for field in rule.names() for item in field.items)
        return frozenset(places | {item.key for item in names if not isinstance(item, str)})

    @cached_property
    def required_columns(self) -> frozenset[str]:
        """Those of `required_inputs` that are columns, with one text per token; "tokens" are the tokens' own."""
        return frozenset(column for rule in self.rules for place in rule.places() for column in place.columns)

    @cached_property
    def compares_tokens(self) -> bool:
        """True if rules compare the tokens of a sequence with each other, so that they need all texts in `given`."""
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
        decoder = object.__new__(type(self))
        decoder.__dict__.update(self.__getstate__())
        engine = self.engine if engine is None else engine
        decoder._configure(self.labels, rules, engine, limits, on_infeasible or self.on_infeasible)
        return decoder

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the parts that are built again."""
        derived = {"compares_tokens", "compiled", "plan", "required_columns", "required_inputs"}
        derived |= {"_document_rules", "kernel", "resolved_engine"}
        return {name: value for name, value in self.__dict__.items() if name not in derived}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._configure(self.labels, self.rules, self.engine, self.limits, self.on_infeasible)

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
        if self.kernel is None or lattice.unary.shape[1] != len(self.labels.names):
            values = None if given is None else [given]
            decodings, _ = self.decode_parts(lambda _low, _high, _stop: ([lattice], values, None, {}), 1, 1)
            raise_first(decodings, infeasible=self.on_infeasible != "skip")
            return decodings[0]
        return self._decode_by(self.kernel, lattice, given)

    def _decode_by(
        self, kernel: Kernel, lattice: Lattice, given: Given | None, seconds: float | None = None
    ) -> Decoding:
        """Decode a sequence by a kernel, within so many seconds; None: within the time limit."""
        try:
            ids, result = run_kernel(kernel, lattice, given, len(self.resolved_engine.counters), seconds)
        except BridleError as error:
            error.sequence = None
            raise
        score, bound, status, counts, counters, spent = result
        if status > LIMIT:
            return without_answer(self, lattice, given, status, bound, spent, counters)
        return decoding_of(self, ids, score, bound, status, counts, self.resolved_engine.stats(counters))

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
            scores = lattices.part(low, high) if isinstance(lattices, Batch) else lattices[low:high]
            return scores, None if given is None else given[low:high], None, {}

        decodings, _ = self.decode_parts(part, count, threads, stop=stop)
        with stopping(stop):
            raise_first(decodings, infeasible=self.on_infeasible == "raise")
        return decodings

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
            parts, many = [], count > 1
            for k, lattices, given, texts, errors in pieces(*scores(low, high, stop)):
                first, rules = low + k, self.compiled
                problem = Problem(rules, lattices, given, first=first, many=many, texts=texts, stop=stop, errors=errors)
                answers = Answers.blank(problem.offsets, len(self.rules), len(self.resolved_engine.counters))
                self.resolved_engine.solve(problem, self.limits, answers)
                parts.append((self._collect(problem, answers), None if more is None else more(problem, answers)))
            return parts

        parts = list(chain.from_iterable(in_threads(solve, count, thread_count(threads), stop)))
        decodings = [part for part, _ in parts]
        return decodings[0] if len(parts) == 1 else join_decodings(decodings), [extra for _, extra in parts]

    def _collect(self, problem: Problem, answers: Answers) -> Decodings:
        """Collect the answers to a problem, relaxed if that is wanted, and the reasons of sequences without one."""
        relaxed, unanswered, grid, lattices = {}, {}, None, problem.lattices
        errors = problem.errors or {}
        if errors:
            answers.status[list(errors)] = FAILED
        if self.on_infeasible == "relax" and INFEASIBLE in answers.status.tobytes():  # faster than to compare
            relaxed = _relax(problem, self.limits, answers)
        all_there = max(answers.status.tobytes(), default=LIMIT) <= LIMIT
        for b in () if all_there else np.flatnonzero((answers.status > LIMIT) & (answers.status < RELAXED)).tolist():
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
        if not is_integer(k, 1):
            raise EngineError("`k` must be a positive integer", got=repr(k), wanted="1 or more")
        with stopping(stop):
            problem, deadline = Problem.of_one(self.compiled, lattice, given), Deadline.after(self.limits.time_limit)
            (ranked,) = problem.native().k_best_all(min(int(k), 2**31 - 1), np.zeros(1, dtype=np.int64), problem.stop)
            if not ranked:
                raise infeasible_on(self, lattice, given, deadline.left)
            if ranked[0][2] == NOTHING_FOUND:
                raise nothing_found("search", ranked[0][3])
            return decodings_of(self, ranked)

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

    def explain_document(
        self, lattices: Batch | Sequence[Lattice], given: Sequence[Given] | None = None
    ) -> DocumentExplanation:
        """Explain the labelling of a document: what each rule cost, and the mentions whose labels others decided.

        Parameters
        ----------
        lattices : Batch or sequence of Lattice
            As in `decode_document`.
        given : sequence of mappings, optional
            One per sentence.

        Returns
        -------
        DocumentExplanation
            Print it, or read `effects` and `mentions`.
        """
        from bridle.explain.documents import explain_document

        return explain_document(self, check_lattices(lattices), given)


def run_kernel(
    kernel: Kernel, lattice: Lattice, given: Given | None, n_counters: int, seconds: float | None = None
) -> tuple[npt.NDArray[np.int32], tuple[Any, ...]]:
    """Decode one sequence by a kernel: ids; score, bound, status, violations, counters, seconds."""
    ids, number, rules = np.empty(len(lattice.unary), dtype=np.int32), kernel.number, kernel.rules
    unary, pairwise, start, end = lattice.unary, lattice.pairwise, lattice.start, lattice.end
    args = rules, number, unary, pairwise, start, end, given, n_counters, ids, seconds, current_stop()
    return ids, _native.decode_one(*args)


def without_answer(
    decoder: Decoder,
    lattice: Lattice,
    given: Given | None,
    status: int,
    bound: float,
    seconds: float,
    counters: Sequence[int] = (),
) -> Decoding:
    """Relax, skip or raise: what the decoder does with a sequence that a kernel found no labelling for."""
    if status == TOO_LARGE:
        raise decoder.resolved_engine.too_large(len(decoder.rules), None)
    if status == INFEASIBLE and decoder.on_infeasible == "relax":
        limit = decoder.limits.time_limit
        kernel, left = Kernel(_RELAXED, decoder.compiled.native("relaxed")), None if limit is None else limit - seconds
        n_counters = len(_RELAXED_COUNTERS) + 1
        ids, result = run_kernel(kernel, lattice, given, n_counters, None if left is None else max(0.0, left))
        score, bound, status, counts, (*numbers, proved), _ = result
        if status == RELAXED:
            stats = dict(zip(_RELAXED_COUNTERS, numbers, strict=True))
            return decoding_of(decoder, ids, score, bound, status, counts, stats, optimal=bool(proved))
    problem = Problem.of_one(decoder.compiled, lattice, given)
    answers = Answers.blank(problem.offsets, len(decoder.rules), len(decoder.resolved_engine.counters))
    answers.bound[0], answers.status[0], answers.seconds[0] = bound, status, seconds
    answers.counters[0, : len(counters)] = counters
    decodings = decoder._collect(problem, answers)
    raise_first(decodings, infeasible=decoder.on_infeasible != "skip")
    return decodings[0]


def _relax(problem: Problem, limits: Limits, answers: Answers) -> dict[int, dict[str, Any]]:
    """Answer the sequences of a problem that are infeasible, unless their scores have no path at all.

    Returns the counters of each of them, and whether it is "optimal": both parts of the objective proved.
    """
    chosen = np.flatnonzero(answers.status == INFEASIBLE)
    smaller = problem.subset(chosen)
    relaxed = Answers.blank(smaller.offsets, len(problem.rules), len(_RELAXED_COUNTERS) + 1)
    left = None if limits.time_limit is None else np.maximum(0.0, limits.time_limit - answers.seconds[chosen])
    smaller.native("relaxed").decode(_RELAXED, smaller.stop, *relaxed.arrays, left)
    late = relaxed.status == NOTHING_FOUND  # a limit was reached first
    answers.status[chosen[late]], answers.bound[chosen[late]] = NOTHING_FOUND, relaxed.bound[late]
    stats = {}
    for k in np.flatnonzero(relaxed.status == RELAXED).tolist():
        b, (low, high) = int(chosen[k]), smaller.offsets[k : k + 2]
        answers.ids[problem.offsets[b] : problem.offsets[b + 1]] = relaxed.ids[low:high]
        answers.score[b], answers.bound[b], answers.status[b] = relaxed.score[k], relaxed.bound[k], RELAXED
        answers.violations[b] = relaxed.violations[k]
        *numbers, proved = relaxed.counters[k].tolist()
        stats[b] = {"optimal": bool(proved), **dict(zip(_RELAXED_COUNTERS, numbers, strict=True))}
    return stats


def decodings_of(decoder: Decoder, ranked: Sequence[tuple[Any, ...]]) -> list[Decoding]:
    """Make decodings of the labellings that a kernel has ranked."""
    decodings = []
    for path, score, status, bound, counts in ranked:
        check_stopped()
        ids = np.array(path, dtype=np.int32)
        decodings.append(decoding_of(decoder, ids, score, bound, status, counts, {}, engine="search"))
    return decodings


class TrainingRules:
    """The rules of a decoder, bound once to sequences that are decoded in each pass of a training by other weights.

    The engine of the decoder must be a kernel, as "auto" is; time limits do not apply.
    """

    def __init__(self, decoder: Decoder, offsets: npt.NDArray[np.int64], givens: Givens) -> None:
        engine = decoder.resolved_engine
        assert isinstance(engine, NativeEngine)
        self._compiled, self._offsets, self._givens, self._relaxed = decoder.compiled, offsets, givens, False
        self.native = _native.TrainingRules(offsets, *self._bound(engine.absorb), engine.kernel)

    def _bound(self, absorb: Absorb) -> tuple[_native.CompiledRules, _native.BoundRules | None]:
        rules = self._compiled.native(absorb)
        return rules, self._compiled.bind(rules, self._offsets, self._givens) if rules.depends else None

    def relax(self) -> bool:
        """Bind the rules for sequences on which they clash, unless that is done; few trainings need it."""
        if self._relaxed:
            return False
        self.native.relax(*self._bound("relaxed"), _RELAXED)
        self._relaxed = True
        return True
