"""The labels of spans, and of what no span holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from bridle.automata import compile_regex
from bridle.errors import LabelError
from bridle.labels import Labels
from bridle.rules.base import Rule, named
from bridle.rules.boolean import Matches
from bridle.rules.refer import Given, Names, label_names


class SpanLabels(Labels):
    """The labels of spans, and O for what is outside. Every span is a segment of its own."""

    def __init__(self, names: Sequence[str]) -> None:
        if "O" in names:
            raise LabelError(
                "a span has the label 'O'", got="'O'", wanted="another name", cause="O stands for what no span holds."
            )
        super().__init__(("O", *names))
        self.scheme = "spans"  # type: ignore[assignment]  # not one that labels of tokens can have

    def _split(self, name: str) -> tuple[str, str]:
        return ("", name) if name == self.outside else ("S", name)

    def __reduce__(self) -> tuple[Any, ...]:
        return SpanLabels, (self.names[1:],)


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
