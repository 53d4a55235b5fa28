"""What rules read when spans are chosen: items, and the graph whose paths are all selections of disjoint spans.

A chosen span is one item, with its label. What no chosen span holds of a token is an item with the label O, one for
each unbroken piece. White space outside spans is not an item. Items are ordered by start, longer ones first.

Boundaries are nodes, items are arcs. A boundary inside a token has two nodes: "a span has just ended" and "a span
begins now"; pieces of tokens lead from the first kind to the second, so that no two of them meet. Silent arcs, which no
rule reads, lead over white space, and from a span that ended inside a token to one that begins there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.errors import EngineError
from bridle.lattice import Scores
from bridle.spans.candidates import Candidates
from bridle.spans.document import Document
from bridle.spans.lattice import Ints

OUTSIDE = 0  # the id of O
_MOST_PIECES = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What there is to choose from in one text."""

    document: Document
    candidates: Candidates
    ids: Ints  # (N,)  their labels
    given: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class ItemGraph:
    """Arcs: first those that are not candidates, then the N candidates."""

    n: int  # nodes 0 .. n
    nodes: Ints  # (A, 2)
    label: Ints  # (A,)  -1: silent
    gains: Scores  # (A,)
    start: Ints  # (A,)  positions that the arc holds
    end: Ints  # (A,)
    first: int  # the arc of candidate 0


def item_graph(task: Task) -> ItemGraph:
    """The graph over the candidates of one text."""
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
    """All positions where a token or a candidate begins or ends, and which of them lie inside a token."""
    ends = np.array([0, document.n], dtype=np.int32)
    cuts = np.unique(np.concatenate([ends, document.starts, document.ends, start, end])).astype(np.int32)
    token = np.searchsorted(document.starts, cuts, "right") - 1
    inside = token >= 0
    inside[inside] = (document.starts[token[inside]] < cuts[inside]) & (cuts[inside] < document.ends[token[inside]])
    return cuts, inside


def pieces(document: Document, cuts: Ints) -> tuple[Ints, Ints]:
    """All pieces of tokens that may be left uncovered, as pairs of boundaries (numbers of cuts)."""
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
    """Which stretches between neighbouring boundaries belong to no token: white space."""
    token = np.searchsorted(document.starts, cuts[:-1], "right") - 1
    held = token >= 0
    held[held] = cuts[:-1][held] < document.ends[token[held]]
    return np.asarray(~held)
