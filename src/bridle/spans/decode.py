"""SpanDecoder: rules about single words become scores, an engine takes the rest; words come with their proof."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from bridle import _native
from bridle.decoding.decoder import Plan
from bridle.decoding.problem import INFEASIBLE, LIMIT, NOTHING_FOUND, OPTIMAL, TOO_LARGE, Options, check_given
from bridle.decoding.threads import SMALLEST, in_threads, over_parts
from bridle.errors import EngineError, Infeasible, LatticeError, LimitReached
from bridle.labels import UNTYPED, Labels
from bridle.rules.base import Rule, Soft
from bridle.rules.files import as_rules
from bridle.rules.lower import Lowering
from bridle.rules.refer import Tokens
from bridle.spans import ilp
from bridle.spans.decoding import SpanDecoding
from bridle.spans.lattice import Ints, SpanLattice

Given = Mapping[str, Any]

ENGINES = ("auto", "ilp", "product", "search", "viterbi")


class _Packed:
    """Lattices end to end, their arcs in the place of tokens; and what an engine found for each."""

    def __init__(self, lattices: Sequence[SpanLattice], labels: Labels, n_rules: int) -> None:
        for k, lattice in enumerate(lattices):
            if not isinstance(lattice, SpanLattice):
                raise LatticeError(f"item {k} is not a word lattice", got=type(lattice).__name__, wanted="SpanLattice")
        self.lattices = lattices
        self.n = np.array([x.n for x in lattices], dtype=np.int32)
        self.offsets = np.concatenate([[0], np.cumsum([len(x) for x in lattices])]).astype(np.int64)
        self.spans = np.concatenate([np.zeros((0, 2), np.int32), *(x.spans for x in lattices)])
        self.label = np.concatenate([np.zeros(0, np.int32), *(x.labels for x in lattices)])
        self.scores = np.concatenate([np.zeros(0), *(x.scores for x in lattices)])
        if self.label.size and (top := int(self.label.max())) >= len(labels):
            raise LatticeError("a word has a label that no name stands for", got=top, wanted=f"below {len(labels)}")
        count = len(lattices)
        self.path = np.zeros(len(self.label), dtype=np.int32)
        self.length = np.zeros(count, dtype=np.int32)
        self.score, self.bound = np.full(count, -np.inf), np.full(count, np.inf)
        self.status = np.zeros(count, dtype=np.uint8)
        self.violations = np.zeros((count, n_rules), dtype=np.int32)
        self.counters = np.zeros((count, _native.N_COUNTERS), dtype=np.int64)
        self.stats: list[dict[str, Any]] | None = None

    @classmethod
    def joined(cls, parts: list[_Packed]) -> _Packed:
        """Chunks of a batch, put together."""
        whole = parts[0]
        if len(parts) == 1:
            return whole
        whole.lattices = [lattice for part in parts for lattice in part.lattices]
        whole.offsets = np.concatenate([[0], np.cumsum([len(lattice) for lattice in whole.lattices])]).astype(np.int64)
        for name in (
            "n", "spans", "label", "scores", "path", "length", "score", "bound", "status", "violations", "counters",
        ):  # fmt: skip
            setattr(whole, name, np.concatenate([getattr(part, name) for part in parts]))
        if whole.stats is not None:
            whole.stats = [row for part in parts for row in part.stats or ()]
        return whole


class SpanDecodings(Sequence[SpanDecoding]):
    """The decodings of a batch, in order. Kept as packed arrays; a SpanDecoding is made when asked for."""

    def __init__(self, decoder: SpanDecoder, packed: _Packed) -> None:
        self._decoder, self._packed = decoder, packed
        self.scores, self.bounds = packed.score, packed.bound  # (B,)
        self.optimal = packed.status == OPTIMAL  # (B,)

    def __len__(self) -> int:
        return len(self._packed.n)

    @overload
    def __getitem__(self, k: int) -> SpanDecoding: ...
    @overload
    def __getitem__(self, k: slice) -> list[SpanDecoding]: ...
    def __getitem__(self, k: int | slice) -> SpanDecoding | list[SpanDecoding]:
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        if not -len(self) <= k < len(self):
            raise IndexError(f"sequence {k} of {len(self)}")
        k, p = k % len(self), self._packed
        arcs = p.path[p.offsets[k] : p.offsets[k] + p.length[k]]
        stats = p.stats[k] if p.stats else {"rounds": int(p.counters[k, 0]), "states": int(p.counters[k, 1])}
        violated = [(self._decoder.beyond[r], int(p.violations[k, r])) for r in np.flatnonzero(p.violations[k])]
        bound, optimal, engine = float(p.bound[k]), bool(self.optimal[k]), self._decoder.plan.engine
        return self._decoder.made(p.lattices[k], arcs, float(p.score[k]), violated, bound, optimal, engine, stats)


class SpanDecoder:
    """Finds the best words under the rules.

    Engines: `viterbi` (hard rules about single words), `product` (all rules folded in at once), `search` (only those
    that a best path breaks, until none is left), `ilp` (Zhao & Marcus 3.3; hard rules about single words), `auto`.

    >>> from bridle import SpanLattice
    >>> lattice = SpanLattice(2, [(0, 2), (0, 1), (1, 2)], [3, 1, 1])
    >>> d = SpanDecoder().decode(lattice)
    >>> d.words, d.labels, d.score, d.optimal
    ([(0, 2)], ['WORD'], 3.0, True)
    """

    def __init__(
        self, labels: Labels | Iterable[str] | None = None, rules: Iterable[Rule | str] = (), engine: str = "auto", *,
        time_limit: float | None = None, max_states: int | None = None,
    ) -> None:
        self.labels = labels if isinstance(labels, Labels) else Labels([UNTYPED] if labels is None else labels)
        self.rules = as_rules(rules)
        for rule in self.rules:
            for place in rule.places():
                if not isinstance(place.source, Tokens):
                    raise EngineError(
                        "word lattices take no rules about positions", got=str(rule), wanted="tokens(...), or no place",
                        cause="Which words there are is not known before; tokens(regex) speaks of the text of a word.",
                    )
        if time_limit is not None and not (isinstance(time_limit, (int, float)) and time_limit >= 0):
            raise EngineError("bad option time_limit", got=repr(time_limit), wanted="seconds >= 0, or None")
        if max_states is not None and not (isinstance(max_states, int) and max_states >= 1):
            raise EngineError("bad option max_states", got=repr(max_states), wanted="a whole number >= 1, or None")
        self.options = Options(time_limit=time_limit, max_states=max_states)
        self._tables = _native.TableCache(len(self.labels), None, None, None, None)
        self._masks = Lowering(self.labels, [rule for rule in self.rules if self._single(rule)])
        self._others = Lowering(self.labels, [rule for rule in self.rules if not self._single(rule)])
        self._needs_texts = any(rule.places() for rule in self.rules)
        self.plan = self._plan(engine)

    def __repr__(self) -> str:
        return f"SpanDecoder({len(self.labels)} labels, {len(self.rules)} rules, engine={self.plan.engine!r})"

    @property
    def beyond(self) -> tuple[Rule, ...]:
        """Rules that are more than a mask on single words."""
        return self._others.rules

    def _single(self, rule: Rule) -> bool:
        """Is it a hard rule about single words: is each arc by itself allowed or not?"""
        if isinstance(rule, Soft):
            return False
        for part in rule.conjuncts():
            mask = part.mask(tuple((frozenset(range(len(self.labels))),) for _ in part.names()), self.labels)
            if mask is None or mask.token is None or any(x is not None for x in (mask.step, mask.first, mask.last)):
                return False
        return True

    def _plan(self, engine: str) -> Plan:
        if engine not in ENGINES:
            raise EngineError("unknown engine for word lattices", got=repr(engine), wanted=", ".join(ENGINES))
        if engine == "auto":
            if self.beyond:
                return Plan("search", f"masks cannot express: {self.beyond[0]}")
            return Plan("viterbi", "every rule is about single words" if self.rules else "there are no rules")
        if engine in ("viterbi", "ilp") and self.beyond:
            raise EngineError(
                f"engine {engine!r} takes only hard rules about single words", got=str(self.beyond[0]),
                wanted="forbid, allow, fix and the like", cause="Use engine='auto'.",
            )
        return Plan(engine, "you asked for it")

    # ---- decoding -------------------------------------------------------------------------------------------------

    def decode(self, lattice: SpanLattice, given: Given | None = None) -> SpanDecoding:
        """The best words of one sequence."""
        return self.decode_batch([lattice], None if given is None else [given], threads=1)[0]

    def decode_batch(
        self, lattices: Sequence[SpanLattice], given: Sequence[Given] | None = None, threads: int = 0
    ) -> SpanDecodings:
        """The best words of many sequences, in order. threads=0: all cores. The answers do not depend on it.

        engine="ilp" without a time limit solves neighbours as one program: of paths that tie it may choose another than
        one by one, and in `stats` the seconds of a program are shared by columns.
        """
        if threads < 0:
            raise EngineError("threads is not a number of threads", got=threads, wanted="0 (all cores) or more")
        check_given(given, len(lattices))

        def solve(low: int, high: int, stop: _native.Stop) -> _Packed:
            return self._solve(lattices[low:high], None if given is None else given[low:high], stop, first=low)

        count, workers = len(lattices), threads or os.cpu_count() or 1
        if self.plan.engine == "ilp":  # which programs are joined may decide ties: chunks that do not depend on threads
            chunks = [(low, min(low + SMALLEST, count)) for low in range(0, max(count, 1), SMALLEST)]
            packed = _Packed.joined(over_parts(solve, chunks, workers))
        else:
            packed = _Packed.joined(in_threads(solve, count, workers))
        for b in np.flatnonzero((packed.status != OPTIMAL) & (packed.status != LIMIT)).tolist():
            its, number = {} if given is None else given[b], b if len(lattices) > 1 else None
            raise self._failure(int(packed.status[b]), lattices[b], its, number, float(packed.bound[b]))
        return SpanDecodings(self, packed)

    def k_best(self, lattice: SpanLattice, k: int, given: Given | None = None) -> list[SpanDecoding]:
        """The k best paths under the rules (other arcs, other path), best first; fewer if there are fewer."""
        if k < 1:
            raise EngineError("k is not a number of paths", got=k, wanted="1 or more")
        packed, problem = self._bind([lattice], None if given is None else [given])
        status, found = problem.k_best_spans(
            packed.n, packed.spans, packed.label, 0, min(k, 2**31 - 1), self.options.native
        )
        if status != OPTIMAL:
            raise self._failure(status, lattice, given or {}, None, math.inf)
        out, engine = [], "search" if self.beyond else "viterbi"
        for path, score in found:
            arcs = np.array(path, dtype=np.int32)
            ids, values = lattice.labels[arcs], dict(given or {})
            if self._needs_texts:
                values["tokens"] = lattice.texts(arcs)
            violated = [(rule, v) for rule in self.beyond if (v := rule.violations(ids, self.labels, values))]
            out.append(self.made(lattice, arcs, score, violated, score, True, engine, {}))
        return out

    def made(
        self, lattice: SpanLattice, arcs: Ints, score: float, violated: list[tuple[Rule, int]], bound: float,
        optimal: bool, engine: str, stats: dict[str, Any],
    ) -> SpanDecoding:
        """A decoding from what an engine found."""
        words = [(a, b) for a, b in lattice.spans[arcs].tolist()]
        penalty = sum((rule.cost(v) for rule, v in violated if isinstance(rule, Soft)), 0.0)
        ids = lattice.labels[arcs]
        return SpanDecoding(words, arcs, ids, score, penalty, violated, bound, optimal, engine, stats, self.labels)

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _bind(
        self, lattices: Sequence[SpanLattice], given: Sequence[Given] | None, first: int = 0
    ) -> tuple[_Packed, _native.Problem]:
        """The lattices with single-word rules as -inf, and all other rules in the kernels' hands."""
        packed = _Packed(lattices, self.labels, len(self.beyond))
        if self._needs_texts:
            given = [{**(given[b] if given else {}), "tokens": x.texts_of(x.spans)} for b, x in enumerate(lattices)]
        allowed = self._masks.bind(packed.offsets, given, absorb=True, first=first).allowed
        if allowed is not None:
            bits = allowed[np.arange(len(allowed)), packed.label >> 6] >> (packed.label & 63).astype(np.uint64)
            packed.scores = np.where(bits & np.uint64(1), packed.scores, -np.inf)
        problem = _native.Problem(packed.scores, packed.offsets, None, self._tables)
        problem.add_head(None, False, None, None)
        problem.set_masks(np.zeros(len(lattices), dtype=np.int32), None, 0, None)
        for rule in self.beyond:
            mode = 0 if not isinstance(rule, Soft) else 1 if rule.per == "violation" else 2
            problem.add_rule(mode, rule.penalty if isinstance(rule, Soft) else 0.0)
        for part in self._others.bind(packed.offsets, given, absorb=False, first=first).parts:
            problem.add_part(part.rule, part.automata, part.which, part.marks)
        return packed, problem

    def _solve(
        self, lattices: Sequence[SpanLattice], given: Sequence[Given] | None, stop: _native.Stop, first: int = 0
    ) -> _Packed:
        packed, problem = self._bind(lattices, given, first)
        if self.plan.engine == "ilp":
            self._solve_ilp(packed)
            return packed
        lazy = self.plan.engine != "product"
        problem.decode_spans(
            packed.n, packed.spans, packed.label, lazy, self.options.native, stop,
            packed.path, packed.length, packed.score, packed.bound, packed.status, packed.violations, packed.counters,
        )  # fmt: skip
        return packed

    def _solve_ilp(self, packed: _Packed) -> None:
        packed.stats = []
        answers = ilp.solve(
            packed.n, packed.offsets, packed.spans, packed.scores, time_limit=self.options.time_limit
        )  # fmt: skip
        for b, made in enumerate(answers):
            packed.stats.append(
                {
                    "lp_integral": made.lp_integral, "variables": made.n_variables, "rows": made.n_rows,
                    "build_seconds": made.build_seconds, "solve_seconds": made.solve_seconds,
                }
            )  # fmt: skip
            packed.bound[b] = made.bound
            if made.arcs is None:
                packed.status[b] = INFEASIBLE if made.status == "infeasible" else NOTHING_FOUND
                continue
            low = packed.offsets[b]
            packed.status[b] = OPTIMAL if made.status == "optimal" else LIMIT
            packed.path[low : low + len(made.arcs)], packed.length[b] = made.arcs, len(made.arcs)
            packed.score[b] = packed.scores[low + made.arcs].sum()

    def _failure(
        self, status: int, lattice: SpanLattice, given: Given, sequence: int | None, bound: float
    ) -> EngineError | LimitReached | Infeasible:
        if status == TOO_LARGE:
            return EngineError(
                f"engine {self.plan.engine!r} cannot hold the intersection with these rules",
                got=f"{len(self.beyond)} rules", wanted="fewer states than max_states or memory allows",
                sequence=sequence,
            )
        if status == NOTHING_FOUND:
            return LimitReached(
                f"engine {self.plan.engine!r} stopped before it found what obeys the rules", bound=bound,
                got="no path", wanted="a higher time_limit", sequence=sequence,
            )
        return self._infeasible(lattice, given, sequence)

    def _infeasible(self, lattice: SpanLattice, given: Given, sequence: int | None) -> Infeasible:
        """Find a minimal set of hard rules that cannot hold together: leave out each that is not needed."""

        def impossible(rules: Sequence[Rule]) -> bool:
            packed = SpanDecoder(self.labels, rules)._solve([lattice], [given], _native.Stop())
            return bool(packed.status[0] == INFEASIBLE)

        if impossible(()):
            return Infeasible(
                "the lattice has no path", got=f"{len(lattice)} possible words that do not join",
                wanted=f"words that hold each of the {lattice.n} characters once",
                cause="A character that no possible word holds, or scores of -inf; no rule is to blame.",
                sequence=sequence,
            )
        clash = list(dict.fromkeys(rule for rule in self.rules if not isinstance(rule, Soft)))
        for rule in list(clash):
            if impossible(fewer := [other for other in clash if other is not rule]):
                clash = fewer
        return Infeasible(
            "no path obeys the hard rules", got=f"{len(clash)} that clash: " + "; ".join(map(str, clash)),
            wanted="rules that can hold together (and with the words of the lattice)",
            cause="Leave one of them out, or make it soft.", clash=clash, sequence=sequence,
        )
