"""Linear: weights at work. What training ends with and tagging begins with.

    unary[t][y] = sum over attributes a of token t of  value * weight(a, y)

Transition scores are weights of label bigrams, and what the text adds to them (edges.py).

In single precision, if the weights are. What is trained here is rounded to that; models of others can be in double.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.arrays import not_a_score
from bridle.errors import BridleError, ModelError, ModelFileError
from bridle.features import Encoded
from bridle.lattice import LARGEST, Batch, Scores
from bridle.models import layout as layouts
from bridle.models.edges import arrays_of, restored
from bridle.models.layout import Layout
from bridle.models.task import Vector

Kind = Literal["raw", "softmax"]


@dataclass(frozen=True, eq=False)
class Linear:
    """Weights of attributes and of label bigrams."""

    layout: Layout
    weights: npt.NDArray[Any]  # (W) float32, or float64
    pairwise: Scores | None  # (m, m)
    edges: npt.NDArray[np.float32] | None = None  # (E) of label bigrams together with the text

    @classmethod
    def of(cls, layout: Layout, weights: Vector, pairwise: Vector | None, edges: Vector | None = None) -> Linear:
        """Weights as they were learned, rounded to single precision."""
        with np.errstate(over="ignore"):
            rounded = weights.astype(np.float32)
            of_edges = None if edges is None else edges.astype(np.float32)
        finite = np.isfinite(rounded).all() and (of_edges is None or np.isfinite(of_edges).all())
        if not finite or (pairwise is not None and not (np.abs(pairwise) <= LARGEST).all()):
            raise ModelError(
                "a weight has grown beyond all bounds",
                got="inf or nan",
                wanted="finite weights",
                cause="A smaller rate, smaller feature values, or (CRF) more c2.",
            )
        if pairwise is not None:
            pairwise = pairwise.copy()
            pairwise.setflags(write=False)  # batches borrow it
        return cls(layout, rounded, pairwise, of_edges)

    def scores(
        self,
        encoded: Encoded,
        kind: Kind = "raw",
        stop: _native.Stop | None = None,
        errors: dict[int, BridleError] | None = None,
    ) -> Batch:
        """The lattices of encoded sequences. errors: takes those of single sequences; None: the first is raised."""
        unary = np.empty((int(encoded.offsets[-1]), self.layout.m), dtype=self.weights.dtype)
        rows, stop = self.layout.native, stop or _native.Stop()
        if unary.dtype == np.float32:
            values = None if encoded.values is None else encoded.values.astype(np.float32)
            tokens = _native.Examples(encoded.offsets, encoded.indptr, encoded.attrs, values, None)
            rows.score(tokens, self.weights, unary, stop)
        else:
            rows.score_in_double(encoded.indptr, encoded.attrs, encoded.values, self.weights, unary, stop)
        if kind == "softmax" and unary.size:
            unary -= unary.max(axis=1, keepdims=True)
            unary -= np.log(np.exp(unary).sum(axis=1, keepdims=True))
        steps = None
        if self.edges is not None and self.layout.edges is not None:
            steps = self.layout.edges.steps(encoded, self.edges, stop)
        if _native.first_bad(unary.reshape(-1), LARGEST) < unary.size:
            if errors is None:
                return Batch(unary, encoded.offsets, self.pairwise)  # which says what is wrong
            bad = np.flatnonzero(~(np.abs(unary) <= LARGEST).all(axis=1))
            for t, b in zip(
                bad.tolist(), (np.searchsorted(encoded.offsets, bad, side="right") - 1).tolist(), strict=True
            ):
                begin = int(encoded.offsets[b])
                errors.setdefault(b, not_a_score("unary", unary[begin:], (t - begin, int(np.abs(unary[t]).argmax()))))
            unary[bad] = 0.0
        return Batch._made(unary, encoded.offsets, self.pairwise, None, None, None, None, steps)

    @classmethod
    def of_pairs(
        cls,
        attribute: npt.NDArray[np.int64],
        label: npt.NDArray[np.integer],
        weights: npt.NDArray[Any],
        n_attributes: int,
        m: int,
        pairwise: Scores | None,
    ) -> Linear:
        """Weights of pairs of attribute and label, each pair once, in any order; in the precision that they have."""
        layout = layouts.of_pairs(attribute, label, n_attributes, m)
        laid = np.zeros(layout.size, dtype=weights.dtype)
        # The slots that are set stand in the order of attributes, and of labels within each of them.
        free = np.arange(layout.size) if layout.free is None else np.flatnonzero(layout.free)
        laid[free] = weights[np.argsort(attribute * m + label)]
        return cls(Layout(m, layout.begin, layout.label, None), laid, pairwise)

    def pruned(self) -> tuple[npt.NDArray[np.bool_], Linear]:
        """Without weights that are zero: which attributes are left, and the weights of those."""
        slot = np.flatnonzero(self.weights)
        attribute, label = self.layout.attribute[slot], self.layout.label[slot]
        kept = np.zeros(len(self.layout.begin) - 1, dtype=bool)
        kept[attribute] = True
        new = np.cumsum(kept) - 1
        pairs = (new[attribute], label, self.weights[slot])
        made = Linear.of_pairs(*pairs, int(kept.sum()), self.layout.m, self.pairwise)
        return kept, replace(made, layout=replace(made.layout, edges=self.layout.edges), edges=self.edges)

    def pruned_edges(self) -> tuple[npt.NDArray[np.bool_], Linear]:
        """The same for label bigrams together with the text."""
        assert self.edges is not None and self.layout.edges is not None
        slot = np.flatnonzero(self.edges)
        kept, layout = self.layout.edges.part(slot)
        return kept, replace(self, layout=replace(self.layout, edges=layout), edges=self.edges[slot])

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What a file keeps of it."""
        out: dict[str, npt.NDArray[Any]] = {
            "weights.begin": self.layout.begin,
            "weights.label": self.layout.label,
            "weights": self.weights,
        }
        if self.pairwise is not None:
            out["pairwise"] = self.pairwise
        if self.edges is not None and self.layout.edges is not None:
            out |= arrays_of(self.layout.edges, self.edges)
        return out

    @classmethod
    def restored(
        cls, arrays: Mapping[str, npt.NDArray[Any]], n_attributes: int, m: int, n_edges: int | None = None
    ) -> Linear:
        """The way back; arrays that do not fit together are refused, since the kernels trust them."""
        names = ("weights.begin", "weights.label", "weights")
        begin, label, weights = (np.ascontiguousarray(arrays[name]) for name in names)
        dtypes = [array.dtype.name for array in (begin, label, weights)]
        pairwise = arrays.get("pairwise")
        count, width = np.diff(begin), m + -m % _native.ROW_WIDTH  # of a full row
        fits = (
            dtypes in (["int64", "uint16", "float32"], ["int64", "uint16", "float64"])
            and begin.shape == (n_attributes + 1,)
            and begin[0] == 0
            and bool((count >= 0).all())
            and label.shape == weights.shape == (begin[-1],)
            and bool(((count <= m) | (count == width)).all())
            and (not label.size or int(label.max()) < m)
            and bool(np.isfinite(weights).all())
            and (pairwise is None or (pairwise.shape == (m, m) and pairwise.dtype == np.float64))
            and (pairwise is None or bool((np.abs(pairwise) <= LARGEST).all()))
        )
        if not fits:
            raise ModelFileError("the weights do not fit together", wanted="weights of these attributes and labels")
        layout, edges = (None, None) if n_edges is None else restored(arrays, n_edges, m)
        pairwise = None if pairwise is None else np.ascontiguousarray(pairwise)
        return cls(Layout(m, begin, label, None, layout), weights, pairwise, edges)
