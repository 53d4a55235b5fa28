"""Presidio: overlapping results of recognisers, resolved under rules.

`AnalyzerEngine.analyze` returns the results of all recognisers, and results of different types can overlap. `resolve`
chooses the best set without overlaps under your rules, exactly. It does not import Presidio.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, Literal, TypeVar

from bridle.errors import LabelError, LatticeError, shown
from bridle.rules import Rule
from bridle.rules.loading import as_rules
from bridle.spans import SpanSelector

Result = TypeVar("Result")  # presidio_analyzer.RecognizerResult


def resolve(
    results: Iterable[Result],
    text: str,
    rules: Iterable[Rule | str] = (),
    *,
    labels: Iterable[str] | None = None,
    threshold: float = 0.1,
    overlap: Literal["forbid", "nest"] = "forbid",
    given: Mapping[str, Any] | None = None,
    on_infeasible: Literal["raise", "skip"] = "raise",
    time_limit: float | None = None,
) -> list[Result]:
    """Choose the best results of a Presidio analyzer that do not overlap, under rules.

    Parameters
    ----------
    results : iterable of RecognizerResult
        Results of ``AnalyzerEngine.analyze``, or of single recognisers.
    text : str
        The text that was analysed.
    rules : iterable of Rule or str
        Rules for the chosen results. Labels are entity types, positions are characters, and `tokens` matches the text
        of a result.
    labels : iterable of str, optional
        Entity types that rules can name: ``analyzer.get_supported_entities()``, and those of recognisers that you pass
        to ``analyze``. Needed by rules, so that a misspelled type is an error. Results can have other types, too.
    threshold : float, default 0.1
        The score from which on a result is worth choosing. Weaker ones are chosen only if a rule asks for them, so
        analyse with ``score_threshold=0`` where rules may.
    overlap : {"forbid", "nest"}, default "forbid"
        Whether a result may lie inside another.
    given : mapping, optional
        Values that the rules refer to by `given`.
    on_infeasible : {"raise", "skip"}, default "raise"
        What to do when no choice obeys the hard rules: raise an error, or return nothing.
    time_limit : float, optional
        Seconds.

    Returns
    -------
    list of RecognizerResult
        The chosen ones of `results`, in text order.

    Raises
    ------
    Infeasible
        If no choice obeys the hard rules; it names a minimal set of rules that clash.
    LabelError
        If a rule names an entity type that is not among `labels`, or there are rules without `labels`.
    LatticeError
        If `results` are something else, or do not fit the text.
    """
    known = None if labels is None else tuple(labels)
    selector = _selector(as_rules(rules), known, threshold, overlap, on_infeasible, time_limit)
    wanted = "what AnalyzerEngine.analyze returned"
    if not isinstance(results, Iterable):
        raise LatticeError("results are not a list", got=shown(results), wanted=wanted)
    listed = list(results)
    try:
        spans = list(map(attrgetter("start", "end", "entity_type", "score"), listed))
    except AttributeError as error:
        raise LatticeError("this is not a RecognizerResult", got=shown(error.obj), wanted=wanted) from None
    return [listed[k] for k in selector.select(spans, text=text, given=given).indices]


@lru_cache(maxsize=16)
def _selector(
    rules: tuple[Rule, ...],
    labels: tuple[str, ...] | None,
    threshold: float,
    overlap: Literal["forbid", "nest"],
    on_infeasible: Literal["raise", "skip"],
    time_limit: float | None,
) -> SpanSelector:
    """Return a selector, whose rules are checked and compiled once for all texts."""
    if rules and labels is None:
        raise LabelError(
            "rules need the entity types that they can name",
            got="no labels",
            wanted="labels=analyzer.get_supported_entities()",
            cause="Without them, a misspelled type would be a rule about nothing.",
        )
    if rules:
        SpanSelector(rules, labels)  # raises if a rule names another type
    return SpanSelector(
        rules,
        overlap=overlap,
        scores="probability",
        threshold=threshold,
        on_infeasible=on_infeasible,
        time_limit=time_limit,
    )
