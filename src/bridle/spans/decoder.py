"""SpanDecoder: rules about single words become scores, an engine takes the rest; words come with their proof."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.arrays import is_integer
from bridle.deadline import Deadline, current_stop
from bridle.decoding.problem import (
    LIMIT,
    MOST_MEMORY,
    NOTHING_FOUND,
    OPTIMAL,
    TOO_LARGE,
    Limits,
    bad_option,
    check_given,
)
from bridle.decoding.result import clash_seconds, infeasible, proves_infeasible, violations_of
from bridle.decoding.threads import SMALLEST, in_threads, over_parts, thread_count
from bridle.engines import Plan
from bridle.errors import EngineError, Infeasible, LimitReached
from bridle.labels import UNTYPED, Labels
from bridle.rules.base import Rule
from bridle.rules.compiled import CompiledRules
from bridle.rules.conditions import Tokens
from bridle.rules.loading import as_rules
from bridle.spans import ilp
from bridle.spans.lattice import SpanLattice
from bridle.spans.packed import PackedSpans
from bridle.spans.result import SpanDecoding, SpanDecodings, span_decoding

Given = Mapping[str, Any]

ENGINES = ("auto", "ilp", "product", "search", "viterbi")


class SpanDecoder:
    """Finds the best words under the rules.

    Parameters
    ----------
    labels : Labels or iterable of str, optional
        The labels of words; without them, all words have one.
    rules : iterable of Rule or str
        Rules without positions, or with ``tokens(regex)``, which matches the text of a word.
    engine : {"auto", "viterbi", "search", "product", "ilp"}, default "auto"
        "viterbi" takes hard rules about single words; "search" folds in only the rules that a best path violates, until
        none is left, "product" all at once; "ilp" is the integer program of Zhao & Marcus (2012), section 3.3, for hard
        rules about single words. All are exact.
    time_limit, max_states, max_memory
        As in `Decoder`.
    on_infeasible : {"raise", "skip"}, default "raise"
        What to do when no path obeys the hard rules, or none was found in time: raise an error, or give a
        `SpanDecoding` without words whose status says so.

    Raises
    ------
    EngineError
        If a rule or an option does not suit word lattices.

    Examples
    --------
    >>> from bridle import SpanLattice
    >>> lattice = SpanLattice(2, [(0, 2), (0, 1), (1, 2)], [3, 1, 1])
    >>> d = SpanDecoder().decode(lattice)
    >>> d.words, d.labels, d.score, d.optimal
    ([(0, 2)], ['WORD'], 3.0, True)
    """

    def __init__(
        self,
        labels: Labels | Iterable[str] | None = None,
        rules: Iterable[Rule | str] = (),
        engine: str = "auto",
        *,
        time_limit: float | None = None,
        max_states: int | None = None,
        max_memory: int = MOST_MEMORY,
        on_infeasible: Literal["raise", "skip"] = "raise",
    ) -> None:
        if on_infeasible not in ("raise", "skip"):
            raise bad_option("on_infeasible", on_infeasible, "'raise' or 'skip'")
        self.on_infeasible = on_infeasible
        self.labels = labels if isinstance(labels, Labels) else Labels([UNTYPED] if labels is None else labels)
        self.rules = as_rules(rules)
        for rule in self.rules:
            for place in rule.places():
                if not (isinstance(place.source, Tokens) and place.source.column is None):
                    raise EngineError(
                        "word lattices take no rules about positions",
                        got=str(rule),
                        wanted="tokens(regex), or no place",
                        cause="The words are not known in advance. Use tokens(regex): it matches the text of a word.",
                    )
        self.limits = Limits(time_limit, max_states, max_memory)
        self._compiled = CompiledRules(self.labels, self.rules, self.limits.native(), absorb="words")
        self._needs_texts = any(rule.places() for rule in self.rules)
        self.engine, self.plan = engine, self._plan(engine)

    def __repr__(self) -> str:
        return f"SpanDecoder({len(self.labels)} labels, {len(self.rules)} rules, engine={self.plan.engine!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.labels, self.rules, self.engine, self.limits, self.on_infeasible)

    @property
    def beyond(self) -> tuple[Rule, ...]:
        """Rules that are more than a mask on single words."""
        single = self._compiled.absorbed("words")
        return tuple(rule for rule, mask in zip(self.rules, single, strict=True) if not mask)

    def _plan(self, engine: str) -> Plan:
        if engine not in ENGINES:
            raise EngineError("unknown engine for word lattices", got=repr(engine), wanted=", ".join(ENGINES))
        if engine == "auto":
            if self.beyond:
                return Plan("search", "masks cannot express", tuple(self.beyond[:1]))
            return Plan("viterbi", "every rule is about single words" if self.rules else "there are no rules")
        if engine in ("viterbi", "ilp") and self.beyond:
            raise EngineError(
                f"engine {engine!r} takes only hard rules about single words",
                got=str(self.beyond[0]),
                wanted="forbid, allow, fix and similar rules",
                cause="Use engine='auto'.",
            )
        return Plan(engine, "you selected it")

    # ---- decoding -------------------------------------------------------------------------------------------------

    def decode(self, lattice: SpanLattice, given: Given | None = None) -> SpanDecoding:
        """Find the best words of one sequence.

        Parameters
        ----------
        lattice : SpanLattice
        given : mapping, optional
            Label names that the rules refer to.

        Returns
        -------
        SpanDecoding

        Raises
        ------
        Infeasible
            If no path obeys the hard rules; it names a minimal set of rules that clash.
        LimitReached
            If a limit was reached before any path was found.

        Examples
        --------
        >>> from bridle import SpanLattice
        >>> lattice = SpanLattice(2, [(0, 2), (0, 1), (1, 2)], [3, 1, 1])
        >>> SpanDecoder(rules=["at least 2 tokens of WORD"]).decode(lattice).words
        [(0, 1), (1, 2)]
        """
        return self.decode_batch([lattice], None if given is None else [given], threads=1)[0]

    def decode_batch(
        self, lattices: Sequence[SpanLattice], given: Sequence[Given] | None = None, threads: int = 0
    ) -> SpanDecodings:
        """Find the best words of many sequences, in order.

        engine="ilp" without a time limit solves neighbours as one program: of paths that tie it may choose another than
        one by one, and in `stats` the seconds of a program are shared by columns.

        Parameters
        ----------
        lattices : sequence of SpanLattice
        given : sequence of mappings, optional
            One per sequence.
        threads : int, default 0
            Number of threads; 0 is all cores. The answers do not depend on it.

        Returns
        -------
        SpanDecodings

        Raises
        ------
        Infeasible, LimitReached
            With ``on_infeasible="raise"``, for the first sequence without an answer (``error.sequence``), when the
            whole batch has been decoded: ``error.decodings`` holds all of it.

        Examples
        --------
        >>> from bridle import SpanLattice
        >>> lattices = [SpanLattice(2, [(0, 2), (0, 1), (1, 2)], scores) for scores in ([3, 1, 1], [3, 2, 2])]
        >>> [d.words for d in SpanDecoder().decode_batch(lattices)]
        [[(0, 2)], [(0, 1), (1, 2)]]
        """
        workers = thread_count(threads)
        check_given(given, count := len(lattices))
        deadline = Deadline.after(self.limits.time_limit)

        def solve(low: int, high: int, stop: _native.Stop) -> PackedSpans:
            its = None if given is None else given[low:high]
            return self._solve(lattices[low:high], its, stop, first=low, many=count > 1)

        if self.plan.engine == "ilp":  # which programs are joined may decide ties: chunks that do not depend on threads
            chunks = [(low, min(low + SMALLEST, count)) for low in range(0, max(count, 1), SMALLEST)]
            packed = PackedSpans.joined(over_parts(solve, chunks, workers))
        else:
            packed = PackedSpans.joined(in_threads(solve, count, workers))
        found = SpanDecodings(self, packed)
        for b in np.flatnonzero(packed.status > LIMIT).tolist() if self.on_infeasible == "raise" else ():
            left = deadline.left if count == 1 else None  # of the time for one sequence
            status, bound = int(packed.status[b]), float(packed.bound[b])
            error = self._failure(status, bound, lattices[b], None if given is None else given[b], left)
            if isinstance(error, (LimitReached, Infeasible)):
                error.decodings = found
            raise error.at(sequence=b) if count > 1 else error
        return found

    def k_best(self, lattice: SpanLattice, k: int, given: Given | None = None) -> list[SpanDecoding]:
        """Find the k best paths under the rules: two paths differ if their arcs do.

        Parameters
        ----------
        lattice : SpanLattice
        k : int
            How many.
        given : mapping, optional
            As in `decode`.

        Returns
        -------
        list of SpanDecoding
            Best first; fewer if there are fewer.

        Raises
        ------
        Infeasible, LimitReached
            As in `decode`.

        Examples
        --------
        >>> from bridle import SpanLattice
        >>> lattice = SpanLattice(2, [(0, 2), (0, 1), (1, 2)], [3, 1, 1])
        >>> [(d.words, d.score) for d in SpanDecoder().k_best(lattice, 5)]
        [([(0, 2)], 3.0), ([(0, 1), (1, 2)], 2.0)]
        """
        if not is_integer(k, 1):
            raise EngineError("`k` must be a positive integer", got=repr(k), wanted="1 or more")
        deadline = Deadline.after(self.limits.time_limit)
        packed, problem = self._bind([lattice], None if given is None else [given])
        words, most = (packed.n, packed.spans, packed.label), min(int(k), 2**31 - 1)
        status, bound, found = problem.k_best_spans(*words, 0, most, current_stop())
        if status != OPTIMAL:
            raise self._failure(status, bound, lattice, given, deadline.left)
        out, engine = [], "search" if self.beyond else "viterbi"
        for path, score in found:
            arcs = np.array(path, dtype=np.int32)
            ids, values = lattice.labels[arcs], dict(given or {})
            if self._needs_texts:
                values["tokens"] = lattice.texts(arcs)
            violated = violations_of(self.rules, [rule.violations(ids, self.labels, values) for rule in self.rules])
            out.append(span_decoding(self.labels, lattice, arcs, score, violated, score, "optimal", engine, {}))
        return out

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _bind(
        self, lattices: Sequence[SpanLattice], given: Sequence[Given] | None, *, first: int = 0, many: bool = False
    ) -> tuple[PackedSpans, _native.Problem]:
        """The lattices with single-word rules as -inf, and all other rules in the kernels' hands."""
        packed = PackedSpans(lattices, self.labels, len(self.rules), first)
        if self._needs_texts:
            given = [{**(given[b] if given else {}), "tokens": x.texts_of(x.spans)} for b, x in enumerate(lattices)]
        rules, bound = self._compiled.native("words"), None
        if rules.depends:
            bound = self._compiled.bind(rules, packed.offsets, given, first=first, many=many)
            packed.forbid(cast("npt.NDArray[np.uint64] | None", bound.allowed))
        return packed, _native.Problem(rules, bound, packed.scores, packed.offsets, None, [(None, None, None)], None)

    def _solve(
        self,
        lattices: Sequence[SpanLattice],
        given: Sequence[Given] | None,
        stop: _native.Stop,
        *,
        first: int = 0,
        many: bool = False,
    ) -> PackedSpans:
        packed, problem = self._bind(lattices, given, first=first, many=many)
        if self.plan.engine == "ilp":
            limit = self.limits.time_limit
            words = packed.n, packed.offsets, packed.spans, packed.scores
            packed.fill(ilp.solve(*words, time_limit=limit))
            if (late := packed.status == NOTHING_FOUND).any():  # a bound costs next to nothing
                plain = self._bind(lattices, given, first=first, many=many)[0]
                _decode(plain, problem, True, stop)
                packed.bound[late] = np.minimum(packed.bound[late], plain.bound[late])
            return packed
        _decode(packed, problem, self.plan.engine != "product", stop)
        return packed

    def _failure(
        self, status: int, bound: float, lattice: SpanLattice, given: Given | None, seconds: float | None
    ) -> EngineError | LimitReached | Infeasible:
        if status == TOO_LARGE:
            return EngineError(
                f"engine {self.plan.engine!r} cannot hold the intersection of the lattice with these rules",
                got=f"{len(self.beyond)} rules",
                wanted="fewer states than max_states or max_memory allows",
            )
        if status == NOTHING_FOUND:
            return LimitReached(
                f"engine {self.plan.engine!r} stopped before it found what obeys the rules",
                bound=bound,
                got="no path",
                wanted="a higher time_limit, max_states or max_memory",
            )

        def impossible(rules: Sequence[Rule], time_limit: float | None) -> bool | None:
            other = SpanDecoder(self.labels, rules, time_limit=time_limit, max_memory=self.limits.max_memory)
            return proves_infeasible(
                int(other._solve([lattice], [given or {}], current_stop() or _native.Stop()).status[0])
            )

        return infeasible(
            self.rules,
            impossible,
            {
                "what": "the lattice has no path",
                "got": f"{len(lattice)} possible words that do not join",
                "wanted": f"words that hold each of the {lattice.n} characters once",
                "cause": "Either no possible word covers a character, or its scores are -inf. "
                "The rules are not the cause.",
            },
            "path",
            instead="skip",
            seconds=clash_seconds(self.limits, seconds),
        )


def _decode(packed: PackedSpans, problem: _native.Problem, lazy: bool, stop: _native.Stop) -> None:
    """Let the kernels find the best paths."""
    problem.decode_spans(
        packed.n,
        packed.spans,
        packed.label,
        lazy,
        stop,
        packed.path,
        packed.length,
        packed.score,
        packed.bound,
        packed.status,
        packed.violations,
        packed.counters,
    )


def _restored(
    labels: Labels, rules: Sequence[Rule], engine: str, limits: Limits, on_infeasible: Literal["raise", "skip"]
) -> SpanDecoder:
    """A decoder as it was before it was pickled."""
    return SpanDecoder(
        labels,
        rules,
        engine,
        time_limit=limits.time_limit,
        max_states=limits.max_states,
        max_memory=limits.max_memory,
        on_infeasible=on_infeasible,
    )
