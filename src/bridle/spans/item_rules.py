"""Rules about spans as rules about items: every place becomes a list of items that comes with the sequence.

A position means the items that hold it. `same_label` over a span of positions means the items that begin inside it.
`length` is about the tokens of a span: it forbids the label at the items of another length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from bridle.errors import BridleError, RuleError
from bridle.labels import Labels
from bridle.rules.base import Rule, named
from bridle.rules.counts import Length
from bridle.rules.positions import Forbid
from bridle.rules.refer import Given, Place, Tokens
from bridle.spans.document import Document
from bridle.spans.items import OUTSIDE
from bridle.spans.lattice import Ints


class ItemRules:
    """Rules about spans, rewritten. `rules[k]` is about items what `originals[k]` is about spans."""

    def __init__(self, originals: Sequence[Rule]) -> None:
        self.originals = tuple(originals)
        self._places: list[tuple[str, Rule, Place]] = []  # key, the rule as it was written, its place
        self._lengths: list[tuple[str, Rule, Length]] = []
        self.rules: tuple[Rule, ...] = tuple(self._rewritten(rule, rule) for rule in self.originals)
        self.needs_texts = any(isinstance(p.source, Tokens) for rule in self.rules for p in rule.places())

    def _rewritten(self, value: Any, original: Rule) -> Any:
        if isinstance(value, Length):
            self._lengths.append((key := f"_length_{len(self._lengths)}", original, value))
            return Forbid(value.of, Place(Given(key)))
        if isinstance(value, Place) and not isinstance(value.source, Tokens):
            self._places.append((key := f"_place_{len(self._places)}", original, value))
            return Place(Given(key))
        if isinstance(value, Rule):
            parts = {f.name: self._rewritten(getattr(value, f.name), original) for f in fields(value)}
            return replace(value, **parts)
        return value

    def given(
        self, document: Document, start: Ints, end: Ints, labels: Labels, given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What comes with a sequence of items that hold these positions."""
        out = {key: value for key, value in given.items() if key != "tokens"}
        for key, rule, place in self._places:
            with named(rule):
                at = np.zeros(document.n + 1, dtype=np.int64)
                at[place.positions(document.n, given)] = 1
            if place.tied:
                out[key] = np.flatnonzero(at[start]).tolist()
            else:
                before = np.concatenate([[0], np.cumsum(at)])
                out[key] = np.flatnonzero(before[end] > before[start]).tolist()
        for key, rule, length in self._lengths:
            with named(rule):
                _check_inside(length, labels, given)
            sizes = document.sizes(start, end)
            wrong = sizes < (length.at_least or 0)
            if length.at_most is not None:
                wrong = wrong | (sizes > length.at_most)
            out[key] = np.flatnonzero(wrong).tolist()
        return out

    def about_spans(self, error: BridleError) -> BridleError:
        """An error about one of the rewritten rules, told of the rule as it was written."""
        if isinstance(error.rule, Rule) and error.rule not in self.originals and error.rule in self.rules:
            error.rule = self.originals[self.rules.index(error.rule)]
        return error


def _check_inside(length: Length, labels: Labels, given: Mapping[str, Any]) -> None:
    if any(OUTSIDE in ids for ids in length.of.resolve(labels, given)):
        raise RuleError(
            "the length of what no span holds cannot be limited",
            got="O",
            wanted="labels of spans",
            cause="length() is about the tokens of a chosen span.",
        )
