"""Inputs of span selection: candidate spans, the text that they lie in, and their labels.

Candidates are whatever holds start, end, label and score. Positions are the characters of a text, or tokens.
N candidates    T tokens; token k holds the positions starts[k] .. ends[k] - 1
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.arrays import LARGEST, Scores, is_integer
from bridle.automata import compile_regex
from bridle.decoding.problem import bad_option
from bridle.errors import GivenError, LabelError, LatticeError, shown
from bridle.labels import Labels
from bridle.rules.arcs import Automaton
from bridle.rules.base import Rule, named
from bridle.rules.boolean import Matches
from bridle.rules.conditions import Given
from bridle.rules.references import Names, label_names
from bridle.spans.lattice import Ints
from bridle.texts import word_pattern

ScoreKind = Literal["log_odds", "probability"]
SpanNames = Sequence[Any] | npt.NDArray[Any]  # labels of candidates: names, or numbers where the labels are known
MOST_POSITIONS = 10_000_000  # of one text that rules read
_COLUMNS = ("start", "end", "label", "score")
_SURE = 1e-9  # a probability nearer to 0 or 1 counts as this far from it
# Scripts without spaces between words: every character is a token.
_ALONE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_ASCII = re.compile(r"\w+|[^\w\s]")  # what _token() finds in ASCII, ten times as fast


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
    labels: SpanNames  # (N,)
    scores: Scores  # (N,)  as they came
    gains: Scores  # (N,)  what choosing each adds to the total

    def __len__(self) -> int:
        return len(self.start)

    def span(self, index: int, name: str) -> Span:
        """Return a candidate as it came."""
        return Span(int(self.start[index]), int(self.end[index]), name, float(self.scores[index]))


def candidates_of(spans: Any, kind: ScoreKind, threshold: float) -> Candidates:
    """Read candidates from tuples, objects with these attributes, or columns (mapping, array, data frame)."""
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
    """Return the value of an option that must be a probability, neither 0 nor 1."""
    if not (isinstance(value, (int, float, np.floating)) and 0 < value < 1):
        raise bad_option(name, value, "a probability between 0 and 1")
    return float(value)


def log_odds(probability: float) -> float:
    """Compute the logarithm of p / (1 - p), with p kept away from 0 and 1."""
    p = min(max(probability, _SURE), 1 - _SURE)
    return float(np.log(p / (1 - p)))


def _columns(spans: Any) -> tuple[Any, Any, Any, Any]:
    names = getattr(getattr(spans, "dtype", None), "names", None)
    if isinstance(spans, Mapping) or names or hasattr(spans, "columns"):
        try:
            columns = [spans[name] for name in _COLUMNS]
        except (KeyError, ValueError, TypeError):
            got = ", ".join(map(str, names or getattr(spans, "columns", spans)))
            raise LatticeError("columns of spans are missing", got=got, wanted=", ".join(_COLUMNS)) from None
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
        raise _not_a_span(items) from None
    return start, end, labels, scores


def _not_a_span(items: Sequence[Any]) -> LatticeError:
    """Make the error for the first candidate that is not a span."""
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


# ---- the text -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _token() -> re.Pattern[str]:
    """Match words, with their marks, and every other character but white space."""
    return re.compile(rf"{word_pattern(_ALONE)}|[{_ALONE}]|[^\w\s]")


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """A text, as spans and rules see it."""

    n: int  # positions
    unit: str  # what a position is
    starts: Ints  # (T,)
    ends: Ints  # (T,)
    slice: Callable[[int, int], str] | None  # the text from one position to another; None: it is not known

    @property
    def by_token(self) -> bool:
        """True if positions are tokens."""
        return self.unit == "tokens"

    def sizes(self, start: Ints, end: Ints) -> Ints:
        """Count the tokens that spans touch."""
        counts = np.searchsorted(self.starts, end, "left") - np.searchsorted(self.ends, start, "right")
        return np.asarray(counts, dtype=np.int32)

    def texts(self, start: Ints, end: Ints) -> list[str]:
        """Return the texts of spans."""
        if self.slice is None:
            raise GivenError(
                "the rules need the texts of spans",
                got="neither text nor tokens",
                wanted="text=..., tokens=..., or both",
                cause="Pass them with the candidates.",
            )
        return list(map(self.slice, start.tolist(), end.tolist()))


def document_of(text: str | None, tokens: Any, ends: Ints) -> Document:
    """Make the document that candidate spans with these ends lie in.

    text alone: positions are characters; tokens: positions are tokens; neither: tokens without texts, to the last end.
    """
    check_inside(text, tokens, ends)
    places = text if tokens is None else tokens
    n = len(places) if places is not None else int(ends.max()) if len(ends) else 0
    if n > MOST_POSITIONS:
        raise LatticeError(
            "rules would read too many positions",
            got=f"{n:,}",
            wanted=f"at most {MOST_POSITIONS:,}",
            cause="Are the positions counted from somewhere else? If not, pass the text in parts.",
        )
    if tokens is not None:
        return _of_tokens(text, tokens)
    if text is not None:
        pattern = _ASCII if text.isascii() else _token()
        at = np.array([m.span() for m in pattern.finditer(text)], dtype=np.int32).reshape(-1, 2)
        return Document(len(text), "characters", at[:, 0].copy(), at[:, 1].copy(), lambda a, b: text[a:b])
    each = np.arange(n + 1, dtype=np.int32)
    return Document(n, "tokens", each[:-1], each[1:], None)


def check_inside(text: str | None, tokens: Any, ends: Ints) -> None:
    """Raise `LatticeError` if text or tokens have a wrong type, or if a span ends outside of them."""
    if text is not None and not isinstance(text, str):
        raise LatticeError("text is not a string", got=shown(text), wanted="the text that spans are positions in")
    if isinstance(tokens, (str, bytes)) or not (tokens is None or isinstance(tokens, Sequence | np.ndarray)):
        raise LatticeError("tokens are not a list", got=shown(tokens), wanted="strings, or pairs (start, end)")
    unit, n = ("characters", text) if tokens is None else ("tokens", tokens)
    if n is not None and len(ends) and (last := int(ends.max())) > len(n):
        raise LatticeError(
            f"span {int(ends.argmax())} ends outside",
            got=last,
            wanted=f"at most {len(n)}, the number of {unit}",
            cause="Positions are characters if only `text` is given, and tokens if `tokens` is.",
        )


def _of_tokens(text: str | None, tokens: Sequence[Any]) -> Document:
    items = tokens.tolist() if isinstance(tokens, np.ndarray) else list(tokens)
    each = np.arange(len(items) + 1, dtype=np.int32)
    if all(isinstance(item, str) for item in items):
        if text is None:
            return Document(len(items), "tokens", each[:-1], each[1:], lambda a, b: " ".join(items[a:b]))
        pairs = _locate(text, items)
    else:
        pairs = _pairs(text, items)

    def between(a: int, b: int) -> str:
        assert text is not None
        return text[pairs[a][0] : pairs[b - 1][1]]

    return Document(len(items), "tokens", each[:-1], each[1:], between)


def _pairs(text: str | None, items: Sequence[Any]) -> list[tuple[int, int]]:
    wanted = "pairs (start, end) in order, as positions in `text`"
    if text is None:
        raise LatticeError("offsets of tokens need their text", got="no text", wanted="text=...")
    pairs, last = [], 0
    for item in items:
        try:
            a, b = map(int, item)
        except (TypeError, ValueError):
            raise LatticeError("tokens are neither strings nor offsets", got=shown(item), wanted=wanted) from None
        if not last <= a <= b <= len(text):
            raise LatticeError("offsets of tokens do not fit the text", got=(a, b), wanted=wanted)
        pairs.append((a, b))
        last = b
    return pairs


def _locate(text: str, items: Sequence[str]) -> list[tuple[int, int]]:
    pairs, last = [], 0
    for k, item in enumerate(items):
        at = text.find(item, last)
        if at < 0:
            raise LatticeError(f"token {k} is not in the text", got=shown(item), wanted="tokens of `text`, in order")
        pairs.append((at, last := at + len(item)))
    return pairs


# ---- labels ---------------------------------------------------------------------------------------------------------


class SpanLabels(Labels):
    """The labels of spans, and O for what is outside. Every span is a segment of its own."""

    def __init__(self, names: Sequence[str]) -> None:
        check_names(names)
        super().__init__(("O", *names), None)
        self.scheme = "spans"  # type: ignore[assignment]  # not one that labels of tokens can have

    def _split(self, name: str) -> tuple[str, str]:
        return ("", name) if name == self.outside else ("S", name)

    def __reduce__(self) -> tuple[Any, ...]:
        return SpanLabels, (self.names[1:],)


def check_names(labels: SpanNames) -> None:
    """Raise `LabelError` if a label of a candidate is not a name."""
    for name in set(labels):
        if not isinstance(name, str) or not name or name == "O":
            raise LabelError(
                "the label of a span is not a name",
                got=shown(name),
                wanted="a string; not 'O', which stands for what no span holds",
                cause="Pass labels=[...] to SpanSelector if labels of spans are numbers.",
            )


def label_ids(labels: SpanNames, names: tuple[str, ...]) -> npt.NDArray[np.int32]:
    """Return the ids of labels; names: of all, "O" first. An integer k means the k-th of the others, from 0."""
    ids = {name: k for k, name in enumerate(names) if k}
    numbered = isinstance(labels, np.ndarray) or all(map(is_integer, labels))
    numbers = np.asarray(labels) if numbered and len(labels) else None
    if numbers is not None and numbers.dtype.kind in "iu" and numbers.min() >= 0 and numbers.max() < len(ids):
        return numbers.astype(np.int32) + 1  # in this order: the type of the numbers may end at the last label
    try:
        return np.array([ids[name] for name in labels], dtype=np.int32)
    except (KeyError, TypeError):
        right = range(len(ids)) if numbered else ids.keys()
        wrong = next(name for name in labels if not (numbered or isinstance(name, str)) or name not in right)
        raise LabelError(
            "a span has an unknown label",
            got=shown(wrong),
            wanted="one of " + ", ".join(names[1:13]) + (", ..." if len(names) > 13 else ""),
            cause="A misspelled name, or a different set of labels?",
        ) from None


def labels_in(rules: Iterable[Rule], given: Mapping[str, Any]) -> set[str]:
    """Collect the labels of spans that rules name, in their own words or by given values."""
    names: set[str] = set()
    for rule in rules:
        with named(rule):
            _add_names(rule, given, names)
    return names - {"O"}


def _add_names(value: Any, given: Mapping[str, Any], names: set[str]) -> None:
    if isinstance(value, Names):
        for item in value.items:
            names.update(label_names(item.of(given), item.key) if isinstance(item, Given) else (item,))
    elif isinstance(value, Matches):
        compile_regex(value.pattern, lambda name: names.add(name) or frozenset({0}), 1)  # type: ignore[func-returns-value]
    elif isinstance(value, Automaton):
        names.update(name for field in value.names() for name in field.items if isinstance(name, str))
    elif isinstance(value, Rule):
        for f in fields(value):
            _add_names(getattr(value, f.name), given, names)
