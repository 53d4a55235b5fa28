"""Candidate spans: whatever holds start, end, label and score, as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.arrays import LARGEST, Scores
from bridle.decoding.problem import bad_option
from bridle.errors import LatticeError, shown
from bridle.spans.lattice import Ints

ScoreKind = Literal["log_odds", "probability"]
_COLUMNS = ("start", "end", "label", "score")
_SURE = 1e-9  # a probability nearer to 0 or 1 counts as this far from it


class Span(NamedTuple):
    """A candidate span, or a chosen one.

    Attributes
    ----------
    start, end : int
        The first position, and the one after the last.
    label : str
        What it is a span of.
    score : float
        As you pass it: log-odds, or a probability.
    """

    start: int
    end: int
    label: str
    score: float


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """N candidate spans, checked."""

    start: Ints  # (N,)
    end: Ints  # (N,)
    labels: Sequence[Any] | npt.NDArray[Any]  # (N,)  names, or numbers where the labels are known
    scores: Scores  # (N,)  as they came
    gains: Scores  # (N,)  what choosing each adds to the total

    def __len__(self) -> int:
        return len(self.start)

    def span(self, index: int, name: str) -> Span:
        """One of them, as it came."""
        return Span(int(self.start[index]), int(self.end[index]), name, float(self.scores[index]))


def candidates_of(spans: Any, kind: ScoreKind, threshold: float) -> Candidates:
    """Candidates from tuples, from objects with these attributes, or from columns (mapping, array, data frame)."""
    start, end, labels, scores = _columns(spans)
    first, last = _places("start", start), _places("end", end)
    numbers = _numbers(scores)
    count = len(first)
    if not len(last) == len(labels) == len(numbers) == count:
        sizes = ", ".join(map(str, (count, len(last), len(labels), len(numbers))))
        raise LatticeError("columns of spans have different lengths", got=sizes, wanted="start, end, label, score")
    bad = np.flatnonzero((first < 0) | (first >= last))
    if bad.size:
        raise LatticeError(
            f"span {bad[0]} is not a span",
            got=(int(first[bad[0]]), int(last[bad[0]])),
            wanted="0 <= start < end",
            cause="The end is not part of the span, as in Python slices; GLiNER's own spans include it.",
        )
    return Candidates(first, last, labels, numbers, _gains(numbers, kind, threshold))


def checked_probability(name: str, value: Any) -> float:
    """The value of an option that is a probability, neither 0 nor 1; anything else is an error."""
    if not (isinstance(value, (int, float, np.floating)) and 0 < value < 1):
        raise bad_option(name, value, "a probability between 0 and 1")
    return float(value)


def log_odds(probability: float) -> float:
    """The logarithm of p / (1 - p), with p kept away from 0 and 1."""
    p = min(max(probability, _SURE), 1 - _SURE)
    return float(np.log(p / (1 - p)))


# ---- inside ---------------------------------------------------------------------------------------------------------


def _columns(spans: Any) -> tuple[Any, Any, Any, Any]:
    names = getattr(getattr(spans, "dtype", None), "names", None)
    if isinstance(spans, Mapping) or names or hasattr(spans, "columns"):
        try:
            columns = [spans[name] for name in _COLUMNS]
        except (KeyError, ValueError, TypeError):
            there = ", ".join(map(str, names or getattr(spans, "columns", spans)))
            raise LatticeError("columns of spans are missing", got=there, wanted=", ".join(_COLUMNS)) from None
        numbered = getattr(getattr(columns[2], "dtype", None), "kind", "O") in "iu"
        columns[2] = np.asarray(columns[2]) if numbered else list(columns[2])
        return columns[0], columns[1], columns[2], columns[3]
    if isinstance(spans, (str, bytes)) or not isinstance(spans, Iterable):
        raise LatticeError("candidates are not a list of spans", got=shown(spans), wanted="(start, end, label, score)")
    items = spans if isinstance(spans, (list, tuple)) else list(spans)
    if not items:
        return (), (), (), ()
    try:
        if not isinstance(items[0], (tuple, list)):
            label = "label_" if hasattr(items[0], "label_") else "label"  # spaCy's label is a number, label_ its name
            items = list(map(attrgetter("start", "end", label, "score"), items))
        start, end, labels, scores = zip(*items, strict=True)
    except (TypeError, ValueError, AttributeError):
        raise _odd(items) from None
    return start, end, labels, scores


def _odd(items: Sequence[Any]) -> LatticeError:
    """The error for the first candidate that is none."""
    wanted = "(start, end, label, score), or an object with these attributes"
    for k, item in enumerate(items):
        listed = isinstance(item, (tuple, list))
        if len(item) != 4 if listed else not all(hasattr(item, name) for name in _COLUMNS):
            return LatticeError(f"candidate {k} is not a span with a score", got=shown(item), wanted=wanted)
    return LatticeError("candidates are of different kinds", got=shown(items), wanted=wanted)


def _places(name: str, values: Any) -> Ints:
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        array = np.array(None)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise LatticeError(f"the {name} of a span is not a position", got=shown(values), wanted="whole numbers")
    if array.size and not (array.min() > -(2**31) and array.max() < 2**31):
        raise LatticeError(f"the {name} of a span is too large", got=int(array.max()), wanted="below 2**31")
    return np.ascontiguousarray(array, dtype=np.int32)


def _numbers(values: Any) -> Scores:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    bad = np.flatnonzero(~(array <= LARGEST) | ((array < -LARGEST) & (array != -np.inf)))
    if array.ndim != 1 or bad.size:
        got = shown(values) if array.ndim != 1 else f"{array[bad[0]]} (span {bad[0]})"
        raise LatticeError(
            "the score of a span is not a number",
            got=got,
            wanted=f"numbers up to {LARGEST:g}, or -inf",
            cause="-inf means impossible; to force a span, use a rule.",
        )
    return array


def _gains(scores: Scores, kind: ScoreKind, threshold: float) -> Scores:
    """What choosing a span adds to the total."""
    if kind == "log_odds":
        return scores - log_odds(threshold) if threshold != 0.5 else scores
    bad = np.flatnonzero(~((scores >= 0) & (scores <= 1)))
    if bad.size:
        raise LatticeError(
            f"the score of span {bad[0]} is not a probability",
            got=float(scores[bad[0]]),
            wanted="0 to 1",
            cause="Pass scores='log_odds' for logits, or other scores where 0 means neither for nor against.",
        )
    p = np.clip(scores, _SURE, 1 - _SURE)
    gains: npt.NDArray[np.float64] = np.log(p / (1 - p)) - log_odds(threshold)
    return gains
