"""SpanDecoder: rules about single words become scores, an engine takes the rest; words come with their proof."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Literal

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
from bridle.decoding.result import (
    STATUSES,
    PackedRows,
    Status,
    clash_seconds,
    infeasible,
    penalty_of,
    proves_infeasible,
    status_of,
    violations_of,
)
from bridle.decoding.threads import SMALLEST, in_threads, over_parts, thread_count
from bridle.engines import Plan
from bridle.errors import EngineError, Infeasible, LimitReached
from bridle.labels import UNTYPED, Labels
from bridle.rules.base import Rule
from bridle.rules.compiled import CompiledRules
from bridle.rules.conditions import Tokens
from bridle.rules.loading import as_rules
from bridle.spans import ilp
from bridle.spans.lattice import Ints, PackedSpans, SpanLattice

Given = Mapping[str, Any]
ENGINES = ("auto", "ilp", "product", "search", "viterbi")


@dataclass(frozen=True, eq=False)
class SpanDecoding:
    """The best words of one sequence under the rules, with their proof.

    Attributes
    ----------
    words : list of (int, int)
        Start and end of each word, left to right; the end is not included.
    arcs : array of int32, shape (w,)
        Their numbers in the lattice.
    ids : array of int32, shape (w,)
        Their label ids.
    labels : list of str
        Their labels, by names.
    score : float
        Lattice score minus penalty.
    penalty : float
        What violated soft rules cost.
    violated : list of (Rule, int)
        Soft rules that are violated, with how often.
    bound : float
        No path under the rules scores higher.
    optimal : bool
        Do bound and score meet?
    engine : str
        The engine that found it.
    stats : dict
        What the engine counted.
    label_set : Labels
        The labels that `ids` are numbers of.
    status : {"optimal", "limit", "infeasible", "nothing_found"}
        As in `Decoding`. Without an answer there are no words.

    Examples
    --------
    >>> import bridle
    >>> lattice = bridle.SpanLattice(3, [(0, 1), (0, 2), (1, 3), (2, 3)], [1, 4, 3, 1], characters="abc")
    >>> d = bridle.SpanDecoder(rules=['forbid WORD at tokens "ab"']).decode(lattice)
    >>> d.words, lattice.texts(d.arcs), d.score, d.bound
    ([(0, 1), (1, 3)], ['a', 'bc'], 4.0, 4.0)
    """

    words: list[tuple[int, int]]
    arcs: Ints  # (w,)
    ids: Ints  # (w,)
    score: float
    penalty: float
    violated: list[tuple[Rule, int]]
    bound: float
    optimal: bool
    engine: str
    stats: dict[str, Any]
    label_set: Labels = field(repr=False)
    status: Status = "optimal"

    @property
    def labels(self) -> list[str]:
        """The label of each word."""
        return [self.label_set.names[y] for y in self.ids]

    def __len__(self) -> int:
        return len(self.words)


class SpanDecodings(PackedRows[SpanDecoding]):
    """The decodings of a batch, in order. They are packed arrays; a `SpanDecoding` is created when you index them.

    Attributes
    ----------
    scores, bounds : arrays of float, shape (B,)
        As in `SpanDecoding`.
    optimal : array of bool, shape (B,)
        As in `SpanDecoding`.
    status : array of str, shape (B,)
        As in `SpanDecoding`.

    Examples
    --------
    >>> import bridle
    >>> lattice = bridle.SpanLattice(2, [(0, 2), (0, 1), (1, 2)], [3, 1, 1])
    >>> decodings = bridle.SpanDecoder().decode_batch([lattice] * 3)
    >>> len(decodings), decodings.scores.tolist(), decodings[2].words
    (3, [3.0, 3.0, 3.0], [(0, 2)])
    """

    def __init__(self, decoder: SpanDecoder, lattices: Sequence[SpanLattice], packed: PackedSpans) -> None:
        self._decoder, self._lattices, self._packed = decoder, lattices, packed
        self.scores, self.bounds = packed.score, packed.bound
        self.optimal = packed.status == OPTIMAL

    def __len__(self) -> int:
        return len(self._packed.n)

    @property
    def status(self) -> npt.NDArray[np.str_]:
        """The status of each sequence."""
        return np.asarray(STATUSES[self._packed.status])

    def _row(self, k: int) -> SpanDecoding:
        p = self._packed
        arcs = p.path[p.offsets[k] : p.offsets[k] + p.length[k]]
        stats = p.stats[k] if p.stats else {"rounds": int(p.counters[k, 0]), "states": int(p.counters[k, 1])}
        counts, status = p.violations[k].tolist(), status_of(int(p.status[k]))
        return _decoding(
            self._decoder, self._lattices[k], arcs, float(p.score[k]), counts, float(p.bound[k]), status, stats
        )


def _decoding(
    decoder: SpanDecoder,
    lattice: SpanLattice,
    arcs: Ints,
    score: float,
    counts: list[int],
    bound: float,
    status: Status,
    stats: dict[str, Any],
    engine: str | None = None,
) -> SpanDecoding:
    violated = violations_of(decoder.rules, counts)
    return SpanDecoding(
        [(a, b) for a, b in lattice.spans[arcs].tolist()],
        arcs,
        lattice.labels[arcs],
        score,
        penalty_of(violated),
        violated,
        bound,
        status == "optimal",
        engine or decoder.plan.engine,
        stats,
        decoder.labels,
        status,
    )


class SpanDecoder:
    """Find the best words under the rules.

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
        make = partial(SpanDecoder, **asdict(self.limits), on_infeasible=self.on_infeasible)
        return make, (self.labels, self.rules, self.engine)

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
            values = None if given is None else given[low:high]
            return self._solve(lattices[low:high], values, stop, first=low, many=count > 1)

        if self.plan.engine == "ilp":  # which programs are joined may decide ties: chunks that do not depend on threads
            chunks = [(low, min(low + SMALLEST, count)) for low in range(0, max(count, 1), SMALLEST)]
            packed = PackedSpans.joined(over_parts(solve, chunks, workers))
        else:
            packed = PackedSpans.joined(in_threads(solve, count, workers))
        decodings = SpanDecodings(self, lattices, packed)
        for b in np.flatnonzero(packed.status > LIMIT).tolist() if self.on_infeasible == "raise" else ():
            left = deadline.left if count == 1 else None  # of the time for one sequence
            status, bound = int(packed.status[b]), float(packed.bound[b])
            error = self._failure(status, bound, lattices[b], None if given is None else given[b], left)
            if isinstance(error, (LimitReached, Infeasible)):
                error.decodings = decodings
            raise error.at(sequence=b) if count > 1 else error
        return decodings

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
        status, bound, ranked = problem.k_best_spans(*words, 0, most, current_stop())
        if status != OPTIMAL:
            raise self._failure(status, bound, lattice, given, deadline.left)
        decodings, engine = [], "search" if self.beyond else "viterbi"
        for path, score in ranked:
            arcs = np.array(path, dtype=np.int32)
            ids, values = lattice.labels[arcs], dict(given or {})
            if self._needs_texts:
                values["tokens"] = lattice.texts(arcs)
            counts = [rule.violations(ids, self.labels, values) for rule in self.rules]
            decodings.append(_decoding(self, lattice, arcs, score, counts, score, "optimal", {}, engine))
        return decodings

    def _bind(
        self, lattices: Sequence[SpanLattice], given: Sequence[Given] | None, *, first: int = 0, many: bool = False
    ) -> tuple[PackedSpans, _native.Problem]:
        packed = PackedSpans.of(lattices, self.labels, len(self.rules), first)
        if self._needs_texts:
            given = [{**(given[b] if given else {}), "tokens": x.texts_of(x.spans)} for b, x in enumerate(lattices)]
        return packed, packed.bind(self._compiled, given, first=first, many=many)

    def _solve(
        self,
        lattices: Sequence[SpanLattice],
        given: Sequence[Given] | None,
        stop: _native.Stop | None,
        *,
        first: int = 0,
        many: bool = False,
    ) -> PackedSpans:
        packed, problem = self._bind(lattices, given, first=first, many=many)
        if self.plan.engine != "ilp":
            packed.decode(problem, stop, lazy=self.plan.engine != "product")
            return packed
        words = packed.n, packed.offsets, packed.spans, packed.scores
        packed.fill(ilp.solve(*words, time_limit=self.limits.time_limit))
        if (late := packed.status == NOTHING_FOUND).any():  # a bound costs next to nothing
            plain = self._bind(lattices, given, first=first, many=many)[0]
            plain.decode(problem, stop, lazy=True)
            packed.bound[late] = np.minimum(packed.bound[late], plain.bound[late])
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
            return proves_infeasible(int(other._solve([lattice], [given or {}], current_stop()).status[0]))

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
