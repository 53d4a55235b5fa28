"""SpanSelector: the best set of candidate spans under rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from bridle.deadline import Deadline
from bridle.decoding.problem import INFEASIBLE, LIMIT, MOST_MEMORY, Limits, bad_option
from bridle.decoding.result import clash_seconds, infeasible, penalty_of, proves_infeasible, status_of, violations_of
from bridle.errors import BridleError, EngineError, Infeasible, LimitReached
from bridle.rules.base import Rule
from bridle.rules.loading import as_rules
from bridle.spans.candidates import ScoreKind, candidates_of, checked_probability
from bridle.spans.choosing import CompiledSelector, Overlap, best_without_rules
from bridle.spans.document import check_inside, document_of
from bridle.spans.item_rules import ItemRules
from bridle.spans.items import Task
from bridle.spans.labels import Labelled, SpanLabels, check_names, label_ids, labels_in
from bridle.spans.selection import Choice, Selection

Given = Mapping[str, Any]
Unanswered = Infeasible | LimitReached | None
_MOST_REMEMBERED = 1024  # labels that were met, if they were not told


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
        for name, value, wanted in (
            ("overlap", overlap, ("forbid", "nest")),
            ("scores", scores, ("log_odds", "probability")),
            ("on_infeasible", on_infeasible, ("raise", "skip")),
        ):
            if value not in wanted:
                raise bad_option(name, value, " or ".join(map(repr, wanted)))
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
            With ``on_infeasible="raise"``, for the first text without an answer (``error.sequence``), when all are
            done: ``error.decodings`` holds all of them.

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
            its_text, its_tokens = (None if some is None else some[b] for some in (text, tokens))
            its_given = None if given is None else given[b]
            try:
                selection, error = self._select(spans[b], its_text, its_tokens, its_given or {})
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

    def _select(self, spans: Any, text: str | None, tokens: Any, given: Given) -> tuple[Selection, Unanswered]:
        try:
            return self._answer(spans, text, tokens, given)
        except MemoryError:
            raise EngineError(
                "memory ran out while spans were chosen",
                got=f"max_memory={self.limits.max_memory:,} bytes",
                wanted="a lower max_memory, or fewer candidates",
                cause="The process may have less memory than max_memory allows for one text.",
            ) from None

    def _answer(self, spans: Any, text: str | None, tokens: Any, given: Given) -> tuple[Selection, Unanswered]:
        deadline = Deadline.after(self.limits.time_limit)
        candidates = candidates_of(spans, self.scores, self.threshold)
        if text is None and tokens is None:
            tokens = given.get("tokens")
        error, check = None, check_inside if tokens is None else document_of  # both raise
        if not self.rules and self.labels is None:  # nothing to compile
            check_names(candidates.labels)
            check(text, tokens, candidates.end)
            choice = best_without_rules(candidates, self.overlap, deadline)
            names = [candidates.labels[k] for k in choice.indices]
        else:
            compiled = self._for_labels(candidates.labels, given)
            ids = label_ids(candidates.labels, compiled.labels.names)
            if self.rules:
                task = Task(document_of(text, tokens, candidates.end), candidates, ids, given)
                choice = compiled.best(task, deadline)
                if choice.status > LIMIT:
                    error = self._failure(choice, task, compiled.labels, deadline)
            else:
                check(text, tokens, candidates.end)
                choice = best_without_rules(candidates, self.overlap, deadline)
            names = [compiled.labels.names[y] for y in ids[choice.indices].tolist()]
        violated = violations_of(self.rules, choice.violations)
        return Selection(
            [candidates.span(k, name) for k, name in zip(choice.indices, names, strict=True)],
            choice.indices,
            choice.score,
            penalty_of(violated),
            violated,
            choice.bound,
            status_of(choice.status),
            choice.engine,
            choice.stats,
        ), error

    def _for_labels(self, names: Labelled, given: Given) -> CompiledSelector:
        """The rules, compiled for these labels. Labels that were not told are remembered."""
        compiled = self._compiled
        if compiled is not None and self.labels is not None:
            return compiled
        check_names(names)
        wanted = {*names, *labels_in(self.rules, given)}
        if compiled is None or not wanted <= set(compiled.labels.names):
            if compiled is not None and len(compiled.labels) + len(wanted) <= _MOST_REMEMBERED:
                wanted |= set(compiled.labels.names[1:])
            compiled = self._compiled = self._compile(tuple(sorted(wanted)))
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

        def impossible(rules: Sequence[Rule], seconds: float | None) -> bool | None:
            limits = Limits(seconds, max_memory=self.limits.max_memory)
            other = CompiledSelector(labels, ItemRules(rules), self.overlap, limits)
            return proves_infeasible(other.best(task, Deadline.after(seconds)).status)

        seconds = clash_seconds(self.limits, deadline.left)
        return infeasible(self.rules, impossible, {}, "selection", instead="skip", seconds=seconds)


def _restored(rules: Sequence[Rule], labels: tuple[str, ...] | None, options: dict[str, Any]) -> SpanSelector:
    """A selector as it was before it was pickled."""
    return SpanSelector(rules, labels, **options)


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
    >>> found = bridle.select(spans, ["present DATE"], scores="probability")
    >>> [(s.start, s.end, s.label) for s in found.spans], found.optimal
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
