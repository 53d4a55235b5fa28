"""SpanSelector: the best set of candidate spans under rules.

Without rules, a dynamic program over intervals. Under rules, the best path through items, into which rules are folded
when it breaks them; spans that may nest are arcs that hold others. Where folding takes too much: an integer program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from bridle.deadline import Deadline, OutOfTime, current_stop
from bridle.decoding.problem import (
    INFEASIBLE,
    LIMIT,
    MOST_MEMORY,
    NOTHING_FOUND,
    OPTIMAL,
    TOO_LARGE,
    Limits,
    bad_option,
)
from bridle.decoding.result import (
    Status,
    clash_seconds,
    infeasible,
    penalty_of,
    proves_infeasible,
    status_of,
    violations_of,
)
from bridle.errors import BridleError, EngineError, Infeasible, LimitReached
from bridle.lattice import Scores
from bridle.rules.base import Rule
from bridle.rules.compiled import CompiledRules
from bridle.rules.loading import as_rules
from bridle.spans.candidates import (
    Candidates,
    ScoreKind,
    Span,
    SpanLabels,
    SpanNames,
    candidates_of,
    check_inside,
    check_names,
    checked_probability,
    document_of,
    label_ids,
    labels_in,
)
from bridle.spans.items import ItemRules, Task, item_graph
from bridle.spans.lattice import PackedSpans
from bridle.spans.program import Choice, SelectionProblem, best_intervals

Given = Mapping[str, Any]
Overlap = Literal["forbid", "nest"]
_MOST_LABELS = 1024  # that are remembered, if `labels` is not given
_MOST_STATES = 1 << 14  # of folded rules. Measured with 1,000 candidates: from there on the integer program is faster


@dataclass(frozen=True, eq=False)
class Selection:
    """The best spans under the rules, with their proof. `select` and `SpanSelector` make it.

    Attributes
    ----------
    spans : list of Span
        The chosen spans in text order, of nested ones the outer first. Scores are those of the candidates.
    indices : list of int
        Which candidates they are.
    score : float
        Sum of the log-odds of the chosen spans, minus penalty; choosing nothing scores 0. -inf if there is no answer.
    penalty : float
        What violated soft rules cost.
    violated : list of (Rule, int)
        Soft rules that are violated, with how often.
    bound : float
        No choice under the rules scores higher.
    optimal : bool
        Do bound and score meet?
    status : {"optimal", "limit", "infeasible", "nothing_found"}
        As in `Decoding`. Without an answer there are no spans.
    engine : {"intervals", "search", "ilp"}
        What found it: a dynamic program without rules, the same with rules folded in, or an integer program.
    stats : dict
        What the engine counted.

    Examples
    --------
    >>> import bridle
    >>> selection = bridle.select([(0, 2, "ORG", 1.5), (1, 3, "PER", 2.0), (4, 5, "PER", 0.5)])
    >>> selection.indices, selection.score, selection.bound
    ([1, 2], 2.5, 2.5)
    """

    spans: list[Span]
    indices: list[int]
    score: float
    penalty: float
    violated: list[tuple[Rule, int]]
    bound: float
    status: Status
    engine: str
    stats: dict[str, Any]

    @property
    def optimal(self) -> bool:
        """True if bound and score meet."""
        return self.status == "optimal"

    def __len__(self) -> int:
        return len(self.spans)

    def __iter__(self) -> Iterator[Span]:
        return iter(self.spans)


class CompiledSelector:
    """Rules compiled for a set of labels."""

    def __init__(self, labels: SpanLabels, items: ItemRules, overlap: Overlap, limits: Limits) -> None:
        self.labels, self.items, self.nested = labels, items, overlap == "nest"
        folding = Limits(limits.time_limit, _MOST_STATES, limits.max_memory)
        try:
            self._rules = CompiledRules(labels, items.rules, folding.native(), absorb="words")
        except BridleError as error:
            raise items.about_spans(error) from None

    def best(self, task: Task, deadline: Deadline) -> Choice:
        """Find the best choice under the rules."""
        try:
            folded = self._fold(task)
            if folded.status in (OPTIMAL, INFEASIBLE) or deadline.passed():
                return folded
            try:
                problem = SelectionProblem(task, self.items, self.labels, deadline, nested=self.nested)
            except OutOfTime:
                return folded
            return problem.best(deadline, folded)
        except BridleError as error:
            raise self.items.about_spans(error) from None

    def _fold(self, task: Task) -> Choice:
        """Find the best path through items, with rules folded in as they are broken."""
        graph = item_graph(task)
        values = self.items.given(task.document, graph.start, graph.end, self.labels, task.given)
        texts = task.document.texts(graph.start, graph.end) if self.items.needs_texts else None
        n, offsets = np.array([graph.n], dtype=np.int32), np.array([0, len(graph.label)], dtype=np.int64)
        packed = PackedSpans(n, offsets, graph.nodes, graph.label, graph.gains, len(self.items.rules))
        problem = packed.bind(self._rules, [values], many=False, texts=texts)
        extents = np.stack([graph.start, graph.end], axis=1) if self.nested else None
        packed.decode(problem, current_stop(), lazy=True, extents=extents)
        arcs, status, bound = packed.path[: packed.length[0]], int(packed.status[0]), float(packed.bound[0])
        return Choice(
            (arcs[arcs >= graph.first] - graph.first).tolist(),
            float(packed.score[0]),
            bound if bound < np.inf else _positive_sum(graph.gains),
            NOTHING_FOUND if status == TOO_LARGE else status,
            packed.violations[0].tolist(),
            "search",
            {"rounds": int(packed.counters[0, 0]), "states": int(packed.counters[0, 1])},
        )


def _best_without_rules(candidates: Candidates, nested: bool, deadline: Deadline) -> Choice:
    """Find the best choice by a dynamic program; of disjoint spans if time is up before nested ones are compared."""
    chosen, status = best_intervals(candidates, nested, deadline), OPTIMAL
    if chosen is None:
        chosen, status = best_intervals(candidates, nested=False) or [], LIMIT
    score = float(candidates.gains[chosen].sum())
    bound = score if status == OPTIMAL else max(score, _positive_sum(candidates.gains))
    return Choice(chosen, score, bound, status, [], "intervals", {})


def _positive_sum(gains: Scores) -> float:
    """Return a score that no choice exceeds."""
    return float(np.maximum(gains, 0.0).sum())


class SpanSelector:
    """Choose the best set of candidate spans under rules, exactly.

    Parameters
    ----------
    rules : iterable of Rule or str
        What must hold of the chosen spans; see the page on span selection for what each kind of rule means.
    labels : iterable of str, optional
        All labels that candidates and rules may have. Without them, any label is fine.
    overlap : {"forbid", "nest"}, default "forbid"
        Chosen spans share no position; or they may lie inside one another, but not cross and not be equal.
    scores : {"log_odds", "probability"}, default "log_odds"
        What the scores of candidates are. A span adds its log-odds to the total, minus those of the threshold.
    threshold : float, default 0.5
        The probability from which on a span is worth choosing.
    on_infeasible : {"raise", "skip"}, default "raise"
        What to do when no choice obeys the hard rules, or none was found in time: raise an error, or give a `Selection`
        without spans whose status says so.
    time_limit : float, optional
        Seconds per text. When they are over, the best selection found so far is the answer; without rules there always
        is one.
    max_memory : int
        Bytes per text, as in `Decoder`.

    Raises
    ------
    RuleError, LabelError
        If a rule cannot be applied to spans, or names a label that is not among `labels`.
    EngineError
        If an option has another value.

    Examples
    --------
    Two neighbouring spans of one label are two; the second best TOTAL is left out:

    >>> from bridle import SpanSelector
    >>> selector = SpanSelector(["exactly 1 segment of TOTAL", "DATE before TOTAL"])
    >>> selector.select([(0, 1, "TOTAL", 1.0), (1, 2, "TOTAL", 2.0), (3, 4, "DATE", -0.5)]).spans
    [Span(start=1, end=2, label='TOTAL', score=2.0)]
    """

    def __init__(
        self,
        rules: Iterable[Rule | str] = (),
        labels: Iterable[str] | None = None,
        *,
        overlap: Overlap = "forbid",
        scores: ScoreKind = "log_odds",
        threshold: float = 0.5,
        on_infeasible: Literal["raise", "skip"] = "raise",
        time_limit: float | None = None,
        max_memory: int = MOST_MEMORY,
    ) -> None:
        for name, value, choices in (
            ("overlap", overlap, ("forbid", "nest")),
            ("scores", scores, ("log_odds", "probability")),
            ("on_infeasible", on_infeasible, ("raise", "skip")),
        ):
            if value not in choices:
                raise bad_option(name, value, " or ".join(map(repr, choices)))
        self.rules = as_rules(rules)
        self.labels = None if labels is None else tuple(labels)
        self.overlap, self.scores, self.on_infeasible = overlap, scores, on_infeasible
        self.threshold = checked_probability("threshold", threshold)
        self.limits = Limits(time_limit, max_memory=max_memory)
        self._items = ItemRules(self.rules)
        self._compiled = None if self.labels is None else self._compile(self.labels)

    def __repr__(self) -> str:
        return f"SpanSelector({len(self.rules)} rules, overlap={self.overlap!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        options = {name: getattr(self, name) for name in ("overlap", "scores", "threshold", "on_infeasible")}
        limits: dict[str, Any] = {"time_limit": self.limits.time_limit, "max_memory": self.limits.max_memory}
        return partial(SpanSelector, **options, **limits), (self.rules, self.labels)

    def select(
        self, spans: Any, *, text: str | None = None, tokens: Any = None, given: Given | None = None
    ) -> Selection:
        """Choose the best spans of one text.

        Parameters
        ----------
        spans : list
            Candidates in any order: tuples (start, end, label, score), objects with these attributes, or columns (a
            mapping, a structured array or a data frame with start, end, label and score). The end is not included.
        text : str, optional
            The text. Positions are its characters if there are no `tokens`.
        tokens : list, optional
            The tokens: strings, or pairs (start, end) of positions in `text`. Positions are then tokens.
        given : mapping, optional
            Values that the rules refer to by `given`.

        Returns
        -------
        Selection

        Raises
        ------
        Infeasible
            If no choice obeys the hard rules; it names a minimal set of rules that clash.
        LimitReached
            If the time limit came before any choice was found.
        LatticeError
            If candidates, text and tokens do not fit together, or if rules would read more than ten million positions.
        EngineError
            If the machine's memory does not suffice.

        Examples
        --------
        >>> from bridle import SpanSelector
        >>> selector = SpanSelector([r"fix ZIP at tokens /\\d{5}/"], scores="probability")
        >>> selector.select([(9, 14, "ZIP", 0.3), (0, 8, "CITY", 0.8)], text="Evanston 60201").spans
        [Span(start=0, end=8, label='CITY', score=0.8), Span(start=9, end=14, label='ZIP', score=0.3)]
        """
        selection, error = self._select(spans, text, tokens, given)
        if error is not None and self.on_infeasible == "raise":
            raise error
        return selection

    def select_batch(
        self,
        spans: Sequence[Any],
        *,
        text: Sequence[str] | None = None,
        tokens: Sequence[Any] | None = None,
        given: Sequence[Given] | None = None,
    ) -> list[Selection]:
        """Choose the best spans of many texts, in order.

        Parameters
        ----------
        spans : sequence
            The candidates of each text.
        text, tokens, given : sequence, optional
            One per text, each as in `select`.

        Returns
        -------
        list of Selection

        Raises
        ------
        Infeasible, LimitReached
            With ``on_infeasible="raise"``, for the first text without an answer (``error.sequence``), when all are
            done: ``error.decodings`` holds all of them.

        Examples
        --------
        >>> from bridle import SpanSelector
        >>> selections = SpanSelector(["at most 1 segment of X"]).select_batch([[(0, 1, "X", 1.0)], []])
        >>> [len(selection) for selection in selections]
        [1, 0]
        """
        count = len(spans)
        for name, values in (("text", text), ("tokens", tokens), ("given", given)):
            if values is not None and (isinstance(values, str) or len(values) != count):
                raise bad_option(name, f"{len(values)} values", f"one for each of the {count} texts")
        selections, first = list[Selection](), None
        for b in range(count):
            args: list[Any] = [None if values is None else values[b] for values in (text, tokens, given)]
            try:
                selection, error = self._select(spans[b], *args)
            except BridleError as error:
                raise error.at(sequence=b) from None
            selections.append(selection)
            if error is not None and first is None:
                first = error.at(sequence=b)
        if first is not None and self.on_infeasible == "raise":
            first.decodings = selections
            raise first
        return selections

    def _select(
        self, spans: Any, text: str | None, tokens: Any, given: Given | None
    ) -> tuple[Selection, Infeasible | LimitReached | None]:
        """Select spans; if there is no answer, return the error, too."""
        try:
            return self._answer(spans, text, tokens, given or {})
        except MemoryError:
            raise EngineError(
                "memory ran out while spans were chosen",
                got=f"max_memory={self.limits.max_memory:,} bytes",
                wanted="a lower max_memory, or fewer candidates",
                cause="The process may have less memory than max_memory allows for one text.",
            ) from None

    def _answer(
        self, spans: Any, text: str | None, tokens: Any, given: Given
    ) -> tuple[Selection, Infeasible | LimitReached | None]:
        deadline = Deadline.after(self.limits.time_limit)
        candidates, error = candidates_of(spans, self.scores, self.threshold), None
        if text is None and tokens is None:
            tokens = given.get("tokens")
        if self.rules or self.labels is not None:
            compiled = self._compiled_for(candidates.labels, given)
            ids = label_ids(candidates.labels, compiled.labels.names)
        else:  # nothing to compile
            check_names(candidates.labels)
            compiled = None
        if self.rules and compiled is not None:
            task = Task(document_of(text, tokens, candidates.end), candidates, ids, given)
            choice = compiled.best(task, deadline)
            if choice.status > LIMIT:
                error = self._failure(choice, task, compiled.labels, deadline)
        else:
            (check_inside if tokens is None else document_of)(text, tokens, candidates.end)  # both raise
            choice = _best_without_rules(candidates, self.overlap == "nest", deadline)
        names = candidates.labels if compiled is None else [compiled.labels.names[y] for y in ids.tolist()]
        violated = violations_of(self.rules, choice.violations)
        return Selection(
            [candidates.span(k, names[k]) for k in choice.indices],
            choice.indices,
            choice.score,
            penalty_of(violated),
            violated,
            choice.bound,
            status_of(choice.status),
            choice.engine,
            choice.stats,
        ), error

    def _compiled_for(self, names: SpanNames, given: Given) -> CompiledSelector:
        """Return the rules compiled for these labels; without `labels`, those of earlier texts are remembered."""
        compiled = self._compiled
        if compiled is not None and self.labels is not None:
            return compiled
        check_names(names)
        needed = {*names, *labels_in(self.rules, given)}
        if compiled is None or not needed <= set(compiled.labels.names):
            if compiled is not None and len(compiled.labels) + len(needed) <= _MOST_LABELS:
                needed |= set(compiled.labels.names[1:])
            compiled = self._compiled = self._compile(tuple(sorted(needed)))
        return compiled

    def _compile(self, names: tuple[str, ...]) -> CompiledSelector:
        return CompiledSelector(SpanLabels(names), self._items, self.overlap, self.limits)

    def _failure(self, choice: Choice, task: Task, labels: SpanLabels, deadline: Deadline) -> Infeasible | LimitReached:
        if choice.status != INFEASIBLE:
            return LimitReached(
                "the search stopped before it found spans that obey the rules",
                bound=choice.bound,
                got="no selection",
                wanted="a higher time_limit or max_memory",
            )

        def impossible(rules: Sequence[Rule], seconds: float) -> bool | None:
            limits = Limits(seconds, max_memory=self.limits.max_memory)
            other = CompiledSelector(labels, ItemRules(rules), self.overlap, limits)
            return proves_infeasible(other.best(task, Deadline.after(seconds)).status)

        seconds = clash_seconds(self.limits, deadline.left)
        return infeasible(self.rules, impossible, {}, "selection", instead="skip", seconds=seconds)


def select(
    spans: Any,
    rules: Iterable[Rule | str] = (),
    *,
    labels: Iterable[str] | None = None,
    overlap: Overlap = "forbid",
    scores: ScoreKind = "log_odds",
    threshold: float = 0.5,
    text: str | None = None,
    tokens: Any = None,
    given: Given | None = None,
    on_infeasible: Literal["raise", "skip"] = "raise",
    time_limit: float | None = None,
) -> Selection:
    """Choose the best set of candidate spans under rules, exactly.

    For many texts make a `SpanSelector`, which compiles the rules once.

    Parameters
    ----------
    spans : list
        Candidates in any order, as in `SpanSelector.select`.
    rules : iterable of Rule or str
        What must hold of the chosen spans.
    labels : iterable of str, optional
        All labels that candidates and rules may have. Without them, a misspelled label in a rule is a label that no
        candidate has.
    overlap, scores, threshold
        As in `SpanSelector`.
    text, tokens, given
        As in `SpanSelector.select`.
    on_infeasible, time_limit
        As in `SpanSelector`.

    Returns
    -------
    Selection

    Raises
    ------
    Infeasible, LimitReached, LatticeError, LabelError, RuleError, EngineError
        As in `SpanSelector`.

    Examples
    --------
    Greedy search would take the long span first. A rule brings back a span below the threshold:

    >>> import bridle
    >>> spans = [(0, 3, "PER", 0.8), (0, 1, "PER", 0.7), (2, 3, "ORG", 0.7), (4, 5, "DATE", 0.2)]
    >>> selection = bridle.select(spans, ["present DATE"], scores="probability")
    >>> [(s.start, s.end, s.label) for s in selection.spans], selection.optimal
    ([(0, 1, 'PER'), (2, 3, 'ORG'), (4, 5, 'DATE')], True)
    """
    selector = SpanSelector(
        rules,
        labels,
        overlap=overlap,
        scores=scores,
        threshold=threshold,
        on_infeasible=on_infeasible,
        time_limit=time_limit,
    )
    return selector.select(spans, text=text, tokens=tokens, given=given)
