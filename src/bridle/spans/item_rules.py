"""Rules about spans as rules about items: every place becomes a list of items that comes with the sequence.

A position means the items that hold it, and a condition on tokens the items that hold such a token; but an expression
or a list without context is about the whole text of an item. `same_label` over a span of positions means the items that
begin inside it.
`length` is about the tokens of a span: it forbids the label at the items of another length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.errors import BridleError, RuleError
from bridle.labels import Labels
from bridle.rules.base import Rule, named
from bridle.rules.conditions import TOKENS, Given, TokenPlace, Tokens, TokensIn
from bridle.rules.counts import Length
from bridle.rules.equal import SameLabelForEqual
from bridle.rules.positions import Forbid
from bridle.rules.references import Place
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
        if isinstance(value, SameLabelForEqual):
            wanted, cause = "a rule about labels, positions or tokens(...)", "Decode token by token to use this rule."
            raise RuleError("spans cannot be compared token by token", got=str(original), wanted=wanted, cause=cause)
        if isinstance(value, Length):
            self._lengths.append((key := f"_length_{len(self._lengths)}", original, value))
            return Forbid(value.of, Place(Given(key)))
        if isinstance(value, Place) and not (isinstance(value.source, Tokens) and about_items(value)):
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
        out = {key: value for key, value in given.items() if key != TOKENS}
        for key, rule, place in self._places:
            with named(rule):
                if isinstance(place.source, TokensIn) and about_items(place):
                    lookup = place.source.phrases.lookup(place.source.ignoring)
                    out[key] = [k for k, text in enumerate(document.texts(start, end)) if text in lookup]
                    continue
                at = _positions(place, document, given)
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


def about_items(place: Place) -> bool:
    """Is a condition on tokens about the text of an item? Otherwise it is about the tokens that the item holds."""
    return isinstance(place.source, Tokens | TokensIn) and place.source.column is None


def _positions(place: Place, document: Document, given: Mapping[str, Any]) -> npt.NDArray[np.int64]:
    """(n + 1,) 1 at the positions that a place means."""
    at = np.zeros(document.n + 1, dtype=np.int64)
    if not isinstance(place.source, TokenPlace):
        at[place.positions(document.n, given)] = 1
        return at
    if TOKENS in place.columns:
        given = {**given, TOKENS: document.texts(document.starts, document.ends)}
    for k in place.positions(len(document.starts), given):
        at[document.starts[k] : document.ends[k]] = 1
    return at


def _check_inside(length: Length, labels: Labels, given: Mapping[str, Any]) -> None:
    if any(OUTSIDE in ids for ids in length.of.resolve(labels, given)):
        raise RuleError(
            "`length` cannot be applied to O, the part that no span covers",
            got="O",
            wanted="labels of spans",
            cause="length() is about the tokens of a chosen span.",
        )
