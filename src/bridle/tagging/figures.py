"""Figures: what a sequence can have beside its labels. A figure of this table is in tables, files and JSON at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from bridle.tagging.labelling import Outcomes

sentence_of = lru_cache(maxsize=1024)(str)  # of a rule: a few rules are broken again and again
Want = Literal["k_best", "probabilities", "segment_probabilities"]


@dataclass(frozen=True)
class Figure:
    """A value of each sequence, with one name on every route."""

    option: Literal["scores", "k"]  # that adds it
    want: Want | None  # the work of `tag` that it needs
    kind: Callable[[Any], Any]  # its type in Arrow; called with the module pyarrow
    array: Callable[[Any, Outcomes], Any]  # its column, likewise; null where there is no value
    value: Callable[[Outcomes, int], Any]  # its value for JSON
    json: Any  # the type of this value, unless it is None


def figures_of(*, scores: bool, k: bool) -> tuple[str, ...]:
    """List the figures that options add."""
    options = {"scores": scores, "k": k}
    return tuple(name for name, figure in FIGURES.items() if options[figure.option])


def want_of(figures: Iterable[str]) -> list[Want]:
    """List the work of `tag` that figures need."""
    return [want for name in figures if (want := FIGURES[name].want) is not None]


def probabilities_of(outcomes: Outcomes, row: int) -> list[float] | None:
    """Return the probabilities of the labels of a sequence; None if it has no labels, or they violate hard rules."""
    if outcomes.probabilities is None or not outcomes.labelled[row]:
        return None
    values = outcomes.probabilities[slice(*outcomes.decodings.offsets[row : row + 2])]
    return None if np.isnan(values).any() else values.tolist()


def _number(values: npt.NDArray[np.float64], row: int) -> float | None:
    return float(values[row]) if math.isfinite(values[row]) else None


def _numbers(pa: Any, outcomes: Outcomes, values: npt.NDArray[np.float64]) -> Any:
    return pa.array(values, mask=~(outcomes.labelled & np.isfinite(values)))


def _probabilities(pa: Any, outcomes: Outcomes) -> Any:
    assert outcomes.probabilities is not None
    values, cuts = outcomes.probabilities, outcomes.decodings.offsets
    gaps = np.add.reduceat(np.append(np.isnan(values), False), np.minimum(cuts[:-1], len(values))) > 0
    there = outcomes.labelled & ~(gaps & (np.diff(cuts) > 0))
    kept = np.repeat(there, np.diff(cuts))
    offsets = np.concatenate([[0], np.cumsum(np.where(there, np.diff(cuts), 0))]).astype(np.int32)
    mask = None if there.all() else pa.array(~there)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values[kept]), mask=mask)


def _ranked(pa: Any) -> Any:
    return pa.list_(pa.struct([("labels", pa.list_(pa.string())), ("score", pa.float64())]))


def _k_best(pa: Any, outcomes: Outcomes) -> Any:
    best = outcomes.k_best or ()
    ranked = [None if x is None else [{"labels": y.labels, "score": y.score} for y in x] for x in best]
    return pa.array(ranked, _ranked(pa))


def _k_best_value(outcomes: Outcomes, row: int) -> Any:
    best = None if outcomes.k_best is None else outcomes.k_best[row]
    return None if best is None else [decoding.to_dict(sentence_of) for decoding in best]


def _score_array(pa: Any, outcomes: Outcomes) -> Any:
    return _numbers(pa, outcomes, outcomes.decodings.scores)


def _bound_array(pa: Any, outcomes: Outcomes) -> Any:
    return _numbers(pa, outcomes, outcomes.decodings.bounds)


def _score_value(outcomes: Outcomes, row: int) -> float | None:
    return _number(outcomes.decodings.scores, row)


def _bound_value(outcomes: Outcomes, row: int) -> float | None:
    return _number(outcomes.decodings.bounds, row)


FIGURES: dict[str, Figure] = {
    "score": Figure("scores", None, lambda pa: pa.float64(), _score_array, _score_value, float),
    "bound": Figure("scores", None, lambda pa: pa.float64(), _bound_array, _bound_value, float),
    "probabilities": Figure(
        "scores", "probabilities", lambda pa: pa.list_(pa.float64()), _probabilities, probabilities_of, list[float]
    ),
    "k_best": Figure("k", "k_best", _ranked, _k_best, _k_best_value, list[dict[str, Any]]),
}
