"""The labels of spans, and of what no span holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.arrays import is_integer
from bridle.automata import compile_regex
from bridle.errors import LabelError, shown
from bridle.labels import Labels
from bridle.rules.base import Rule, named
from bridle.rules.boolean import Matches
from bridle.rules.conditions import Given
from bridle.rules.references import Names, label_names

Labelled = Sequence[Any] | npt.NDArray[Any]  # labels of candidates


class SpanLabels(Labels):
    """The labels of spans, and O for what is outside. Every span is a segment of its own."""

    def __init__(self, names: Sequence[str]) -> None:
        check_names(names)
        super().__init__(("O", *names))
        self.scheme = "spans"  # type: ignore[assignment]  # not one that labels of tokens can have

    def _split(self, name: str) -> tuple[str, str]:
        return ("", name) if name == self.outside else ("S", name)

    def __reduce__(self) -> tuple[Any, ...]:
        return SpanLabels, (self.names[1:],)


def check_names(labels: Labelled) -> None:
    """Raise if a label of a candidate is not a name."""
    for name in set(labels):
        if not isinstance(name, str) or not name or name == "O":
            raise LabelError(
                "the label of a span is not a name",
                got=shown(name),
                wanted="a string; not 'O', which stands for what no span holds",
                cause="Pass labels=[...] to SpanSelector if labels of spans are numbers.",
            )


def label_ids(labels: Labelled, names: tuple[str, ...]) -> npt.NDArray[np.int32]:
    """The ids of labels. names: of all, "O" first; an integer k means the k-th of the others, from 0."""
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
    """All labels of spans that some rules name, in their own words or by what is given."""
    found: set[str] = set()
    for rule in rules:
        with named(rule):
            _add_names(rule, given, found)
    return found - {"O"}


def _add_names(value: Any, given: Mapping[str, Any], found: set[str]) -> None:
    """Collect the labels that a rule, or a part of it, names."""
    if isinstance(value, Names):
        for item in value.items:
            found.update(label_names(item.of(given), item.key) if isinstance(item, Given) else (item,))
    elif isinstance(value, Matches):
        compile_regex(value.pattern, lambda name: found.add(name) or frozenset({0}), 1)  # type: ignore[func-returns-value]
    elif isinstance(value, Rule):
        for f in fields(value):
            _add_names(getattr(value, f.name), given, found)
