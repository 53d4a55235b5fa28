"""Weights of label bigrams together with the text: what templates such as `label[-1] word[0]` make.

    step[t][i][j] = pairwise[i][j] + sum over edge attributes a of token t of  weight(a, i, j)

A edge attributes, each with a list of pairs of labels    m labels (i, then j)    E slots
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.errors import ModelError, ModelFileError
from bridle.features import Encoded, Features, TemplateFeatures
from bridle.steps import Steps

MOST = 2**32 - 1  # slots
MOST_LABELS = 1024  # tables of labels x labels are made for every token


@dataclass(frozen=True, eq=False)
class EdgeLayout:
    """Slots of the weights."""

    m: int
    begin: npt.NDArray[np.int64]  # (A + 1)
    pair: npt.NDArray[np.int32]  # (E) i * m + j, rising for each attribute

    @cached_property
    def native(self) -> _native.EdgeRows:
        """The same for the kernels."""
        return _native.EdgeRows(self.m, self.begin, self.pair)

    def __reduce__(self) -> tuple[Any, ...]:
        return EdgeLayout, (self.m, self.begin, self.pair)

    @property
    def size(self) -> int:
        """Slots in all."""
        return int(self.begin[-1])

    @cached_property
    def attribute(self) -> npt.NDArray[np.int64]:
        """(E) whose slot it is."""
        return np.repeat(np.arange(len(self.begin) - 1), np.diff(self.begin))

    @classmethod
    def of(cls, encoded: Encoded, y: npt.NDArray[np.int32], m: int, pairs: str) -> EdgeLayout:
        """pairs: "seen", only what occurs together in the examples, where both labels are known, or "all"."""
        assert encoded.edges is not None
        edges, square = encoded.edges, m * m
        if m > MOST_LABELS:
            raise ModelError(
                "there are too many labels for templates with label[-1] beside other places",
                got=f"{m:,}",
                wanted=f"at most {MOST_LABELS:,}",
                cause="Write label[-1] on a line of its own.",
            )
        if pairs == "all":
            if edges.size * square > MOST:
                raise ModelError(
                    "there are too many weights of label bigrams",
                    got=f"{edges.size:,} features x {m} x {m} labels",
                    wanted=f"at most {MOST:,}",
                    cause="Use pairs='seen', or a larger cutoff.",
                )
            pair = np.tile(np.arange(square, dtype=np.int32), edges.size)
            return cls(m, np.arange(edges.size + 1, dtype=np.int64) * square, pair)
        before = np.zeros(len(y), dtype=np.int64)
        before[1:] = y[:-1]  # of first tokens, which have no attributes, it is that of another sequence
        counts = np.diff(edges.indptr)
        of_token, known = np.repeat(before * m + y, counts), np.repeat((before >= 0) & (y >= 0), counts)
        seen = np.unique((edges.attrs * np.int64(square) + of_token)[known])
        return cls._of_sorted(seen // square, seen % square, edges.size, m)

    @classmethod
    def _of_sorted(
        cls, attribute: npt.NDArray[np.int64], pair: npt.NDArray[np.integer], n_attributes: int, m: int
    ) -> EdgeLayout:
        """Slots in order, each once."""
        begin = np.zeros(n_attributes + 1, dtype=np.int64)
        np.cumsum(np.bincount(attribute, minlength=n_attributes), out=begin[1:])
        return cls(m, begin, pair.astype(np.int32))

    def part(self, slot: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.bool_], EdgeLayout]:
        """Some of the slots: which attributes are left, and the slots of those."""
        kept = np.zeros(len(self.begin) - 1, dtype=bool)
        kept[self.attribute[slot]] = True
        number = np.cumsum(kept) - 1
        return kept, self._of_sorted(number[self.attribute[slot]], self.pair[slot], int(kept.sum()), self.m)

    def steps(self, encoded: Encoded, weights: npt.NDArray[np.float32], stop: _native.Stop | None = None) -> Steps:
        """What the tokens add to transition scores."""
        assert encoded.edges is not None
        edges = encoded.edges
        most = min(int(np.diff(self.begin)[edges.attrs].sum()), encoded.n_tokens * self.m**2)
        indptr = np.empty(encoded.n_tokens + 1, dtype=np.int64)
        pair, score = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.float32)
        count = self.native.sum(encoded.native_edges(), weights, indptr, pair, score, stop or _native.Stop())
        made = Steps(indptr, pair[:count], score[:count])
        made.check_scores()
        return made


def refuse_edges(features: Features, model: str) -> None:
    """The error of models whose labels do not depend on the one before in this way."""
    if isinstance(features, TemplateFeatures) and features.templates.edges:
        raise ModelError(
            f"a {model} takes no templates with label[-1] beside other places",
            got=f"label[-1] {features.templates.edges[0]}",
            wanted="templates of the text alone, or a CRF",
            cause="Only a CRF scores pairs of labels together with the text.",
        )


def names_of_slots(
    features: Features, layout: EdgeLayout, labels: Sequence[str], slots: npt.NDArray[np.int64]
) -> list[str]:
    """What people call some weights, but for the label: `label[-1]|word[0]=D|cat`."""
    assert isinstance(features, TemplateFeatures)
    before, names = layout.pair[slots] // layout.m, features.edge_names(layout.attribute[slots])
    return [f"label[-1]|{at}={labels[i]}|{values}" for i, (at, values) in zip(before.tolist(), names, strict=True)]


def top_edges(
    features: Features,
    layout: EdgeLayout | None,
    weights: npt.NDArray[np.float32] | None,
    labels: Sequence[str],
    count: int,
) -> list[tuple[str, str, float]]:
    """The largest weights: what they are of, the label, and the weight."""
    if layout is None or weights is None:
        return []
    slots = np.argsort(-np.abs(weights), kind="stable")[:count]
    names, after = names_of_slots(features, layout, labels, slots), (layout.pair[slots] % layout.m).tolist()
    return [(name, labels[j], w) for name, j, w in zip(names, after, weights[slots].tolist(), strict=True)]


def arrays_of(layout: EdgeLayout, weights: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[Any]]:
    """What a file keeps of them."""
    return {"edges.begin": layout.begin, "edges.pair": layout.pair, "edges.weights": weights}


def restored(
    arrays: Mapping[str, npt.NDArray[Any]], n_attributes: int, m: int
) -> tuple[EdgeLayout, npt.NDArray[np.float32]]:
    """The way back; arrays that do not fit together are refused, since the kernels trust them."""
    begin, pair, weights = (np.ascontiguousarray(arrays[f"edges.{name}"]) for name in ("begin", "pair", "weights"))
    fits = (
        [array.dtype.name for array in (begin, pair, weights)] == ["int64", "int32", "float32"]
        and begin.shape == (n_attributes + 1,)
        and begin[0] == 0
        and bool((np.diff(begin) >= 0).all())
        and pair.shape == weights.shape == (begin[-1],)
        and (not pair.size or 0 <= int(pair.min()) <= int(pair.max()) < m * m)
        and bool(np.isfinite(weights).all())
        and m <= MOST_LABELS
    )
    if fits:  # each pair of an attribute once: rising within it
        rising = np.diff(pair) > 0
        rising[begin[(begin > 0) & (begin < len(pair))] - 1] = True
        fits = bool(rising.all())
    if not fits:
        raise ModelFileError("the weights of label bigrams do not fit together", wanted="weights of these attributes")
    return EdgeLayout(m, begin, pair), weights
