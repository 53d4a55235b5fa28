"""Items: what rules read when spans are chosen; the graph of all selections of disjoint spans, and rules about items.

A chosen span is one item, with its label. What no chosen span holds of a token is an item with the label O, one for
each unbroken piece. White space outside spans is not an item. Items are ordered by start, longer ones first.

Boundaries are nodes, items are arcs. A boundary inside a token has two nodes: "a span has just ended" and "a span
begins now"; pieces of tokens lead from the first kind to the second, so that no two of them meet. Silent arcs, which no
rule reads, lead over white space, and from a span that ended inside a token to one that begins there.

In rules, a position means the items that hold it, and a condition on tokens the items that hold such a token; but an
expression or a list without context is about the whole text of an item. `same_label` over a span of positions means the
items that begin inside it. `length` is about the tokens of a span: it forbids the label at items of another length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.errors import BridleError, EngineError, RuleError
from bridle.labels import Labels
from bridle.lattice import Scores
from bridle.rules.base import Rule, named
from bridle.rules.conditions import TOKENS, Given, TokenPlace, Tokens, TokensIn
from bridle.rules.counts import Length
from bridle.rules.equal import SameLabelForEqual
from bridle.rules.positions import Forbid
from bridle.rules.references import Place
from bridle.spans.candidates import Candidates, Document
from bridle.spans.lattice import Ints

OUTSIDE = 0  # the id of O
_MOST_PIECES = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """The candidates of one text, with their labels and given values."""

    document: Document
    candidates: Candidates
    ids: Ints  # (N,)  their labels
    given: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class ItemGraph:
    """Nodes and arcs: first the arcs that are not candidates, then the N candidates."""

    n: int  # nodes 0 .. n
    nodes: Ints  # (A, 2)
    label: Ints  # (A,)  -1: silent
    gains: Scores  # (A,)
    start: Ints  # (A,)  positions that the arc holds
    end: Ints  # (A,)
    first: int  # the arc of candidate 0


def item_graph(task: Task) -> ItemGraph:
    """Build the graph over the candidates of one text."""
    document, spans = task.document, task.candidates
    if document.by_token:
        each = np.arange(document.n + 1, dtype=np.int32)
        low, high, label = each[:-1], each[1:], np.zeros(document.n, dtype=np.int32)
        nodes: tuple[npt.NDArray[Any], ...] = (low, high, spans.start, spans.end)
        n = document.n
    else:
        cuts, inside = boundaries(document, spans.start, spans.end)
        ended = np.arange(len(cuts)) + np.cumsum(inside) - inside  # the nodes of each boundary: a span has just ended,
        begins = ended + inside  # a span begins now; one and the same outside of tokens
        first, last = pieces(document, cuts)
        split, quiet = np.flatnonzero(inside), np.flatnonzero(_white(document, cuts))
        leave = np.concatenate([ended[first], ended[split], ended[quiet]])
        reach = np.concatenate([begins[last], begins[split], ended[quiet + 1]])
        low = np.concatenate([cuts[first], cuts[split], cuts[quiet]])
        high = np.concatenate([cuts[last], cuts[split], cuts[quiet + 1]])
        label = np.repeat(np.array([OUTSIDE, -1], dtype=np.int32), [len(first), len(split) + len(quiet)])
        of_start, of_end = np.searchsorted(cuts, spans.start), np.searchsorted(cuts, spans.end)
        nodes, n = (leave, reach, begins[of_start], ended[of_end]), int(begins[-1])
    return ItemGraph(
        n,
        np.stack([np.concatenate(nodes[::2]), np.concatenate(nodes[1::2])], axis=1).astype(np.int32),
        np.concatenate([label, task.ids]),
        np.concatenate([np.zeros(len(label)), spans.gains]),
        np.concatenate([low, spans.start]).astype(np.int32),
        np.concatenate([high, spans.end]).astype(np.int32),
        len(label),
    )


def boundaries(document: Document, start: Ints, end: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return all positions where a token or a candidate begins or ends, and which of them lie inside a token."""
    ends = np.array([0, document.n], dtype=np.int32)
    cuts = np.unique(np.concatenate([ends, document.starts, document.ends, start, end])).astype(np.int32)
    token = np.searchsorted(document.starts, cuts, "right") - 1
    inside = token >= 0
    inside[inside] = (document.starts[token[inside]] < cuts[inside]) & (cuts[inside] < document.ends[token[inside]])
    return cuts, inside


def pieces(document: Document, cuts: Ints) -> tuple[Ints, Ints]:
    """Return all pieces of tokens that may be left uncovered, as pairs of boundaries (numbers of cuts)."""
    first, last = np.searchsorted(cuts, document.starts), np.searchsorted(cuts, document.ends)
    cut = np.flatnonzero(last > first + 1)
    counts = (last - first)[cut]
    if (count := int((counts * (counts + 1) // 2).sum())) > _MOST_PIECES:
        raise EngineError(
            "candidates cut a token into too many pieces",
            got=f"{count:,} pieces",
            wanted=f"at most {_MOST_PIECES:,}",
            cause="A long word that many candidates lie in? Pass tokens=..., one for each part of it.",
        )
    whole = np.flatnonzero(last == first + 1)
    more = [pair for k in cut.tolist() for pair in combinations(range(first[k], last[k] + 1), 2)]
    pairs = np.concatenate([np.stack([first[whole], last[whole]], 1), np.array(more, dtype=np.int64).reshape(-1, 2)])
    return pairs[:, 0].astype(np.int32), pairs[:, 1].astype(np.int32)


def _white(document: Document, cuts: Ints) -> npt.NDArray[np.bool_]:
    """Mark the stretches between neighbouring boundaries that belong to no token: white space."""
    token = np.searchsorted(document.starts, cuts[:-1], "right") - 1
    held = token >= 0
    held[held] = cuts[:-1][held] < document.ends[token[held]]
    return np.asarray(~held)


class ItemRules:
    """Rules about spans (`originals`), rewritten as rules about items (`rules`), in the same order."""

    def __init__(self, originals: Sequence[Rule]) -> None:
        self.originals = tuple(originals)
        self._places: list[tuple[str, Rule, Place]] = []  # key, the rule as it was written, its place
        self._lengths: list[tuple[str, Rule, Length]] = []
        self.rules: tuple[Rule, ...] = tuple(self._rewritten(rule, rule) for rule in self.originals)
        self.needs_texts = any(isinstance(p.source, Tokens) for rule in self.rules for p in rule.places())

    def _rewritten(self, value: Any, original: Rule) -> Any:
        if isinstance(value, SameLabelForEqual):
            raise RuleError(
                "spans cannot be compared token by token",
                got=str(original),
                wanted="a rule about labels, positions or tokens(...)",
                cause="Decode token by token to use this rule.",
            )
        if isinstance(value, Length):
            self._lengths.append((key := f"_length_{len(self._lengths)}", original, value))
            return Forbid(value.of, Place(Given(key)))
        if isinstance(value, Place) and not (isinstance(value.source, Tokens) and _about_items(value)):
            self._places.append((key := f"_place_{len(self._places)}", original, value))
            return Place(Given(key))
        if isinstance(value, Rule):
            parts = {f.name: self._rewritten(getattr(value, f.name), original) for f in fields(value)}
            return replace(value, **parts)
        return value

    def given(
        self, document: Document, start: Ints, end: Ints, labels: Labels, given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Compute the given values of a sequence of items that hold these positions."""
        values = {key: value for key, value in given.items() if key != TOKENS}
        for key, rule, place in self._places:
            with named(rule):
                if isinstance(place.source, TokensIn) and _about_items(place):
                    lookup = place.source.phrases.lookup(place.source.ignoring)
                    values[key] = [k for k, text in enumerate(document.texts(start, end)) if text in lookup]
                    continue
                at = _positions(place, document, given)
            if place.tied:
                values[key] = np.flatnonzero(at[start]).tolist()
            else:
                before = np.concatenate([[0], np.cumsum(at)])
                values[key] = np.flatnonzero(before[end] > before[start]).tolist()
        for key, rule, length in self._lengths:
            with named(rule):
                _check_inside(length, labels, given)
            sizes = document.sizes(start, end)
            wrong = sizes < (length.at_least or 0)
            if length.at_most is not None:
                wrong = wrong | (sizes > length.at_most)
            values[key] = np.flatnonzero(wrong).tolist()
        return values

    def about_spans(self, error: BridleError) -> BridleError:
        """Make an error about a rewritten rule one about the rule as it was written."""
        if isinstance(error.rule, Rule) and error.rule not in self.originals and error.rule in self.rules:
            error.rule = self.originals[self.rules.index(error.rule)]
        return error


def _about_items(place: Place) -> bool:
    """Tell if a condition is about the text of an item; otherwise it is about the tokens that the item holds."""
    return isinstance(place.source, Tokens | TokensIn) and place.source.column is None


def _positions(place: Place, document: Document, given: Mapping[str, Any]) -> npt.NDArray[np.int64]:
    """Return (n + 1,): 1 at the positions of a place."""
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
