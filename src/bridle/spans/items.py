"""What rules read when spans are chosen: items, and the graph whose paths are all choices of disjoint spans.

A chosen span is one item, with its label. What no chosen span holds of a token is an item with the label O, one for each
unbroken piece. White space outside of spans is no item. Items are ordered by start, longer ones first.

    boundaries that lie inside a token have two nodes: "a span has just ended" and "a span begins now". Between them, and
    over white space, lead silent arcs, which no rule reads; pieces of tokens lead from the first kind to the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from bridle.errors import EngineError
from bridle.lattice import Scores
from bridle.spans.document import Document
from bridle.spans.lattice import Ints

OUTSIDE = 0  # the id of O
_MOST_PIECES = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class ItemGraph:
    """Arcs: first the A - N that are no candidates, then the N candidates."""

    n: int  # nodes 0 .. n
    nodes: Ints  # (A, 2)
    label: Ints  # (A,)  -1: silent
    gains: Scores  # (A,)
    start: Ints  # (A,)  positions that the arc holds
    end: Ints  # (A,)
    first: int  # the arc of candidate 0


def item_graph(document: Document, start: Ints, end: Ints, label: Ints, gains: Scores) -> ItemGraph:
    """The graph over some candidates."""
    if document.by_token:
        each = np.arange(document.n + 1, dtype=np.int32)
        return _joined(document.n, each[:-1], each[1:], np.zeros(document.n, np.int32), each[:-1], each[1:],
                       start, end, label, gains, start, end)  # fmt: skip
    cuts, inside = boundaries(document, start, end)
    into = (np.arange(len(cuts)) + np.concatenate([[0], np.cumsum(inside)[:-1]])).astype(np.int32)  # a span has ended
    out = (into + inside).astype(np.int32)  # a span begins
    opening, closing = pieces(document, cuts, inside)
    quiet = np.flatnonzero(gaps_outside(document, cuts))
    split = np.flatnonzero(inside)
    from_node = np.concatenate([_leaving(into, out, inside, opening), into[split], out[quiet]])
    to_node = np.concatenate([out[closing], out[split], into[quiet + 1]])
    kind = np.concatenate([np.zeros(len(opening), np.int32), np.full(len(split) + len(quiet), -1, np.int32)])
    low = np.concatenate([cuts[opening], cuts[split], cuts[quiet]])
    high = np.concatenate([cuts[closing], cuts[split], cuts[quiet + 1]])
    first, last = np.searchsorted(cuts, start), np.searchsorted(cuts, end)
    return _joined(int(out[-1]), from_node, to_node, kind, low, high, out[first], into[last], label, gains, start, end)


def boundaries(document: Document, start: Ints, end: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """All positions where a token or a candidate begins or ends, and which of them lie inside a token."""
    ends = np.array([0, document.n], dtype=np.int32)
    cuts = np.unique(np.concatenate([ends, document.starts, document.ends, start, end])).astype(np.int32)
    token = np.searchsorted(document.starts, cuts, "right") - 1
    inside = token >= 0
    inside[inside] = (document.starts[token[inside]] < cuts[inside]) & (cuts[inside] < document.ends[token[inside]])
    return cuts, inside


def pieces(document: Document, cuts: Ints, inside: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
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


def gaps_outside(document: Document, cuts: Ints) -> npt.NDArray[np.bool_]:
    """Which stretches between neighbouring boundaries belong to no token."""
    token = np.searchsorted(document.starts, cuts[:-1], "right") - 1
    held = token >= 0
    held[held] = cuts[:-1][held] < document.ends[token[held]]
    return np.asarray(~held)


def _leaving(into: Ints, out: Ints, inside: npt.NDArray[np.bool_], at: Ints) -> Ints:
    """Where pieces begin: inside a token, only just after a span."""
    return np.where(inside[at], into[at], out[at]).astype(np.int32)


def _joined(
    n: int, from_node: Ints, to_node: Ints, kind: Ints, low: Ints, high: Ints,
    first: Ints, last: Ints, label: Ints, gains: Scores, start: Ints, end: Ints,
) -> ItemGraph:  # fmt: skip
    count = len(from_node)
    nodes = np.empty((count + len(start), 2), dtype=np.int32)
    nodes[:count, 0], nodes[:count, 1], nodes[count:, 0], nodes[count:, 1] = from_node, to_node, first, last
    return ItemGraph(
        n,
        nodes,
        np.concatenate([kind, label]).astype(np.int32, copy=False),
        np.concatenate([np.zeros(count), gains]),
        np.concatenate([low, start]).astype(np.int32, copy=False),
        np.concatenate([high, end]).astype(np.int32, copy=False),
        count,
    )
