"""SpanSelector: the best set of candidate spans under rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.deadline import Deadline
from bridle.decoding.clash import infeasible, known, patience
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
from bridle.decoding.result import penalty_of, status_of, violations_of
from bridle.errors import BridleError, Infeasible, LimitReached
from bridle.labels import Labels
from bridle.rules.base import Rule
from bridle.rules.compiled import CompiledRules
from bridle.rules.files import as_rules
from bridle.spans.candidates import Candidates, ScoreKind, candidates_of, label_ids
from bridle.spans.document import Document, document_of
from bridle.spans.item_rules import ItemRules
from bridle.spans.items import item_graph
from bridle.spans.labels import SpanLabels, labels_in
from bridle.spans.lattice import Ints
from bridle.spans.selection import Selection

Overlap = Literal["forbid", "nest"]
Given = Mapping[str, Any]
_MOST_REMEMBERED = 1024  # labels that were met, if they were not told


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What an engine found of one sequence."""

    indices: list[int]  # of candidates, in text order
    score: float
    bound: float
    status: int
    violations: list[int]  # (R,)
    engine: str
    stats: dict[str, Any]


class SpanSelector:
    """Chooses the best set of candidate spans under rules, exactly.

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
        Seconds per sequence.
    max_memory : int
        Bytes per sequence, as in `Decoder`.

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
        for name, value, wanted in (
            ("overlap", overlap, ("forbid", "nest")),
            ("scores", scores, ("log_odds", "probability")),
            ("on_infeasible", on_infeasible, ("raise", "skip")),
        ):
            if value not in wanted:
                raise bad_option(name, value, " or ".join(map(repr, wanted)))
        if not (isinstance(threshold, (int, float, np.floating)) and 0 < threshold < 1):
            raise bad_option("threshold", threshold, "a probability between 0 and 1")
        self.rules = as_rules(rules)
        self.labels = None if labels is None else tuple(labels)
        self.overlap, self.scores, self.threshold, self.on_infeasible = overlap, scores, float(threshold), on_infeasible
        self.limits = Limits(time_limit, max_memory=max_memory)
        self._items = ItemRules(self.rules)
        self._compiled: Compiled | None = None if self.labels is None else self._compile(self.labels)

    def __repr__(self) -> str:
        return f"SpanSelector({len(self.rules)} rules, overlap={self.overlap!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        options = {
            "overlap": self.overlap,
            "scores": self.scores,
            "threshold": self.threshold,
            "on_infeasible": self.on_infeasible,
            "time_limit": self.limits.time_limit,
            "max_memory": self.limits.max_memory,
        }
        return _restored, (self.rules, self.labels, options)

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
            If candidates, text and tokens do not fit together.

        Examples
        --------
        >>> from bridle import SpanSelector
        >>> selector = SpanSelector([r"fix ZIP at tokens /\\d{5}/"], scores="probability")
        >>> selector.select([(9, 14, "ZIP", 0.3), (0, 8, "CITY", 0.8)], text="Evanston 60201").spans
        [Span(start=0, end=8, label='CITY', score=0.8), Span(start=9, end=14, label='ZIP', score=0.3)]
        """
        selection, error = self._select(spans, text, tokens, given or {})
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
            With ``on_infeasible="raise"``, for the first text without an answer (``error.sequence``), when all have been
            looked at: ``error.decodings`` holds all of them.

        Examples
        --------
        >>> from bridle import SpanSelector
        >>> found = SpanSelector(["at most 1 segment of X"]).select_batch([[(0, 1, "X", 1.0)], []])
        >>> [len(one) for one in found]
        [1, 0]
        """
        count = len(spans)
        for name, values in (("text", text), ("tokens", tokens), ("given", given)):
            if values is not None and (isinstance(values, str) or len(values) != count):
                raise bad_option(name, f"{len(values)} values", f"one for each of the {count} texts")
        out, first = list[Selection](), None
        for b in range(count):
            its = (None if values is None else values[b] for values in (text, tokens, given))
            a_text, a_tokens, a_given = its
            try:
                selection, error = self._select(spans[b], a_text, a_tokens, a_given or {})
            except BridleError as problem:
                raise problem.at(sequence=b) from None
            out.append(selection)
            if error is not None and first is None:
                first = error.at(sequence=b)
        if first is not None and self.on_infeasible == "raise":
            first.decodings = out
            raise first
        return out

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _select(
        self, spans: Any, text: str | None, tokens: Any, given: Given
    ) -> tuple[Selection, Infeasible | LimitReached | None]:
        deadline = Deadline.after(self.limits.time_limit)
        candidates = candidates_of(spans, self.scores, self.threshold)
        if text is None and tokens is None:
            tokens = given.get("tokens")
        compiled = self._for_labels(candidates, given)
        ids = label_ids(candidates.labels, compiled.ids, compiled.labels.names[1:])
        if self.rules:
            document = document_of(text, tokens, candidates.end)
            document.check(candidates.end)
            choice = compiled.best(document, candidates, ids, given, deadline)
        else:
            choice = best_without_rules(candidates, self.overlap)
        error = None
        if choice.status > LIMIT:
            error = self._failure(choice, candidates, ids, compiled, text, tokens, given, deadline)
        names = compiled.labels.names
        chosen = [candidates.span(k, names[ids[k]]) for k in choice.indices]
        violated = violations_of(self.rules, choice.violations)
        status = status_of(choice.status)
        made = Selection(
            chosen,
            choice.indices,
            choice.score,
            penalty_of(violated),
            violated,
            choice.bound,
            status,
            choice.engine,
            choice.stats,
        )
        return made, error

    def _for_labels(self, candidates: Candidates, given: Given) -> Compiled:
        """The rules, compiled for the labels of these candidates."""
        compiled = self._compiled
        if self.labels is not None:
            assert compiled is not None
            return compiled
        wanted = {name for name in set(candidates.labels) if isinstance(name, str)} | labels_in(self.rules, given)
        if compiled is None or not wanted <= compiled.ids.keys():
            if compiled is not None and len(compiled.ids) + len(wanted) <= _MOST_REMEMBERED:
                wanted |= compiled.ids.keys() - {"O"}
            compiled = self._compiled = self._compile(tuple(sorted(wanted)))
        return compiled

    def _compile(self, names: tuple[str, ...]) -> Compiled:
        return Compiled(SpanLabels(names), self._items, self.overlap, self.limits)

    def _failure(
        self,
        choice: Choice,
        candidates: Candidates,
        ids: Ints,
        compiled: Compiled,
        text: str | None,
        tokens: Any,
        given: Given,
        deadline: Deadline,
    ) -> Infeasible | LimitReached:
        if choice.status != INFEASIBLE:
            return LimitReached(
                "the search stopped before it found spans that obey the rules",
                bound=choice.bound,
                got="no choice",
                wanted="a higher time_limit or max_memory",
            )
        document = document_of(text, tokens, candidates.end)

        def impossible(rules: Sequence[Rule], seconds: float | None) -> bool | None:
            limits = Limits(seconds, max_memory=self.limits.max_memory)
            other = Compiled(compiled.labels, ItemRules(rules), self.overlap, limits)
            return known(other.best(document, candidates, ids, given, Deadline.after(seconds)).status)

        left = deadline.left
        return infeasible(
            self.rules,
            impossible,
            {},
            "choice of spans",
            instead="skip",
            seconds=patience(self.limits) if left is None else left,
        )


class Compiled:
    """Rules for some labels, in the kernels' hands."""

    def __init__(self, labels: SpanLabels, items: ItemRules, overlap: Overlap, limits: Limits) -> None:
        self.labels, self.items, self.overlap, self.limits = labels, items, overlap, limits
        self.ids = {name: k for k, name in enumerate(labels.names)}
        try:
            self._rules = CompiledRules(labels, items.rules, limits.native(), absorb="words")
        except BridleError as error:
            raise items.about_spans(error) from None

    def best(self, document: Document, candidates: Candidates, ids: Ints, given: Given, deadline: Deadline) -> Choice:
        """The best choice under the rules."""
        try:
            return self._by_folding(document, candidates, ids, given)
        except BridleError as error:
            raise self.items.about_spans(error) from None

    def _by_folding(self, document: Document, candidates: Candidates, ids: Ints, given: Given) -> Choice:
        """Disjoint spans: the best path through items, rules folded in as they are broken."""
        graph = item_graph(document, candidates.start, candidates.end, ids, candidates.gains)
        values = self.items.given(document, graph.start, graph.end, self.labels, given)
        offsets = np.array([0, len(graph.label)], dtype=np.int64)
        native, bound, gains = self._rules.native("words"), None, graph.gains
        if native.depends:
            texts = document.texts(graph.start, graph.end) if self.items.needs_texts else None
            bound = self._rules.bind(native, offsets, [values], many=False, texts=texts)
            gains = _without_forbidden(gains, graph.label, cast("npt.NDArray[np.uint64] | None", bound.allowed))
        problem = _native.Problem(native, bound, gains, offsets, None, [(None, None, None)], None)
        path, length = np.zeros(len(graph.label), dtype=np.int32), np.zeros(1, dtype=np.int32)
        score, upper, status = np.full(1, -np.inf), np.full(1, np.inf), np.zeros(1, dtype=np.uint8)
        violations = np.zeros((1, len(self.items.rules)), dtype=np.int32)
        counters = np.zeros((1, _native.N_COUNTERS), dtype=np.int64)
        n = np.array([graph.n], dtype=np.int32)
        problem.decode_spans(
            n, graph.nodes, graph.label, True, _native.Stop(), path, length, score, upper, status, violations, counters
        )
        chosen = path[: length[0]]
        indices = (chosen[chosen >= graph.first] - graph.first).tolist()
        stats = {"rounds": int(counters[0, 0]), "states": int(counters[0, 1])}
        return Choice(
            indices, float(score[0]), float(upper[0]), int(status[0]), violations[0].tolist(), "search", stats
        )


def best_without_rules(candidates: Candidates, overlap: Overlap) -> Choice:
    """The best choice, by a dynamic program over intervals."""
    chosen = _native.best_intervals(candidates.start, candidates.end, candidates.gains, overlap == "nest")
    score = float(candidates.gains[chosen].sum())
    return Choice(chosen, score, score, OPTIMAL, [], "intervals", {})


def _without_forbidden(gains: Any, label: Ints, allowed: npt.NDArray[np.uint64] | None) -> Any:
    """Arcs whose label is not among the allowed ones, (A, words of bits), become impossible; silent ones stay."""
    if allowed is None:
        return gains
    y = np.maximum(label, 0)
    bits = allowed[np.arange(len(allowed)), y >> 6] >> (y & 63).astype(np.uint64)
    return np.where((bits & np.uint64(1)).astype(bool) | (label < 0), gains, -np.inf)


def _restored(rules: Sequence[Rule], labels: tuple[str, ...] | None, options: dict[str, Any]) -> SpanSelector:
    """A selector as it was before it was pickled."""
    return SpanSelector(rules, labels, **options)


def select(
    spans: Any,
    rules: Iterable[Rule | str] = (),
    *,
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
    overlap, scores, threshold, on_infeasible, time_limit
        As in `SpanSelector`.
    text, tokens, given
        As in `SpanSelector.select`.

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
    >>> found = bridle.select(spans, ["present DATE"], scores="probability")
    >>> [(s.start, s.end, s.label) for s in found.spans], found.optimal
    ([(0, 1, 'PER'), (2, 3, 'ORG'), (4, 5, 'DATE')], True)
    """
    selector = SpanSelector(
        rules, overlap=overlap, scores=scores, threshold=threshold, on_infeasible=on_infeasible, time_limit=time_limit
    )
    return selector.select(spans, text=text, tokens=tokens, given=given)
