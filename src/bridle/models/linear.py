"""Linear: the weights of a model, where they lie (`Layout`, `EdgeLayout`), and the scores that they give.

    unary[t][y]   = sum over attributes a of token t of  value * weight(a, y)
    step[t][i][j] = pairwise[i][j] + sum over edge attributes a of token t of  weight(a, i, j)

A attributes    m labels (i, then j)    W slots of weights    E slots of label bigrams together with the text
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.arrays import not_a_score
from bridle.errors import BridleError, ModelError, ModelFileError
from bridle.features import Encoded, Features, TemplateFeatures
from bridle.labels import MOST_LABELS
from bridle.lattice import LARGEST, Batch, Scores, Steps

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Vector = npt.NDArray[np.float64]
Weights = tuple[Vector, Vector | None, Vector | None]  # attributes (W), label bigrams (m, m), those with the text (E)
Kind = Literal["raw", "softmax"]

FULL = 5  # a list for more than a fifth of all labels is slower than a full row
MOST_EDGES = 2**32 - 1  # slots of label bigrams together with the text
MOST_EDGE_LABELS = 1024  # with them, tables of labels x labels are made for every token


def width_of(m: int) -> int:
    """Return the number of slots of a full row: m, rounded up to whole vectors."""
    return -(-m // _native.ROW_WIDTH) * _native.ROW_WIDTH


def check_labels(m: int) -> None:
    """Raise `ModelError` if labels do not fit into 16 bits."""
    if m > MOST_LABELS:
        raise ModelError("there are too many labels", got=m, wanted=f"at most {MOST_LABELS:,}")


@dataclass(frozen=True, eq=False)
class _Slots:
    """Places of weights, in a row for each attribute."""

    m: int
    begin: Ints  # (A + 1)

    def __reduce__(self) -> tuple[Any, ...]:  # without what is cached for the kernels
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    @property
    def size(self) -> int:
        """Number of slots."""
        return int(self.begin[-1])

    @cached_property
    def attribute(self) -> Ints:
        """The attribute of each slot."""
        return np.repeat(np.arange(len(self.begin) - 1), np.diff(self.begin))


@dataclass(frozen=True, eq=False)
class EdgeLayout(_Slots):
    """Slots of the weights that templates such as ``label[-1] word[0]`` make."""

    pair: npt.NDArray[np.int32]  # (E) i * m + j, rising for each attribute

    @cached_property
    def native(self) -> _native.EdgeRows:
        """The layout for the kernels."""
        return _native.EdgeRows(self.m, self.begin, self.pair)

    @classmethod
    def of(cls, encoded: Encoded, y: npt.NDArray[np.int32], m: int, pairs: str) -> EdgeLayout:
        """Lay out weights: "seen", of what occurs together where both labels are known, or "all"."""
        assert encoded.edges is not None
        edges, square = encoded.edges, m * m
        if m > MOST_EDGE_LABELS:
            raise ModelError(
                "there are too many labels for templates with label[-1] beside other places",
                got=f"{m:,}",
                wanted=f"at most {MOST_EDGE_LABELS:,}",
                cause="Write label[-1] on a line of its own.",
            )
        if pairs == "all":
            if edges.size * square > MOST_EDGES:
                raise ModelError(
                    "there are too many weights of label bigrams",
                    got=f"{edges.size:,} features x {m} x {m} labels",
                    wanted=f"at most {MOST_EDGES:,}",
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
    def _of_sorted(cls, attribute: Ints, pair: npt.NDArray[np.integer], n_attributes: int, m: int) -> EdgeLayout:
        begin = np.zeros(n_attributes + 1, dtype=np.int64)
        np.cumsum(np.bincount(attribute, minlength=n_attributes), out=begin[1:])
        return cls(m, begin, pair.astype(np.int32))

    def part(self, slot: Ints) -> tuple[npt.NDArray[np.bool_], EdgeLayout]:
        """Select slots: which attributes are left, and the slots of those."""
        kept = np.zeros(len(self.begin) - 1, dtype=bool)
        kept[self.attribute[slot]] = True
        number = np.cumsum(kept) - 1
        return kept, self._of_sorted(number[self.attribute[slot]], self.pair[slot], int(kept.sum()), self.m)

    def steps(self, encoded: Encoded, weights: npt.NDArray[np.float32], stop: _native.Stop) -> Steps:
        """Compute what the tokens add to transition scores."""
        assert encoded.edges is not None
        most = min(int(np.diff(self.begin)[encoded.edges.attrs].sum()), encoded.n_tokens * self.m**2)
        indptr = np.empty(encoded.n_tokens + 1, dtype=np.int64)
        pair, score = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.float32)
        count = self.native.sum(encoded.native_edges(), weights, indptr, pair, score, stop)
        steps = Steps(indptr, pair[:count], score[:count])
        steps.check_scores()
        return steps

    @classmethod
    def restored(
        cls, arrays: Mapping[str, Array], n_attributes: int, m: int
    ) -> tuple[EdgeLayout, npt.NDArray[np.float32]]:
        """Restore slots and weights from a file; refuse arrays that do not fit together: the kernels trust them."""
        begin, pair, weights = (np.ascontiguousarray(arrays[f"edges.{name}"]) for name in ("begin", "pair", "weights"))
        fits = (
            [array.dtype.name for array in (begin, pair, weights)] == ["int64", "int32", "float32"]
            and begin.shape == (n_attributes + 1,)
            and begin[0] == 0
            and bool((np.diff(begin) >= 0).all())
            and pair.shape == weights.shape == (begin[-1],)
            and (not pair.size or 0 <= int(pair.min()) <= int(pair.max()) < m * m)
            and bool(np.isfinite(weights).all())
            and m <= MOST_EDGE_LABELS
        )
        if fits:  # each pair of an attribute once: rising within it
            rising = np.diff(pair) > 0
            rising[begin[(begin > 0) & (begin < len(pair))] - 1] = True
            fits = bool(rising.all())
        if not fits:
            raise ModelFileError(
                "the weights of label bigrams do not fit together", wanted="weights of these attributes"
            )
        return cls(m, begin, pair), weights


def refuse_edges(features: Features, model: str) -> None:
    """Raise `ModelError` if templates have ``label[-1]`` beside other places: only a CRF has weights for them."""
    if isinstance(features, TemplateFeatures) and features.templates.edges:
        raise ModelError(
            f"a {model} takes no templates with label[-1] beside other places",
            got=f"label[-1] {features.templates.edges[0]}",
            wanted="templates of the text alone, or a CRF",
            cause="Only a CRF scores pairs of labels together with the text.",
        )


@dataclass(frozen=True, eq=False)
class Layout(_Slots):
    """Slots of the weights: for each attribute a full row, one weight per label, or a list of the labels it has."""

    label: npt.NDArray[np.uint16]  # (W)
    free: npt.NDArray[np.uint8] | None  # (W) may it be learned? None: every slot may
    edges: EdgeLayout | None = None  # slots of label bigrams together with the text; None: there are none

    @cached_property
    def native(self) -> _native.Rows:
        """The layout for the kernels."""
        return _native.Rows(self.m, self.begin, self.label, self.free)

    @property
    def n_weights(self) -> int:
        """Number of slots that may be learned."""
        return self.size if self.free is None else int(self.free.sum())

    @classmethod
    def seen(cls, examples: _native.Examples, n_attributes: int, m: int) -> Layout:
        """Lay out pairs of attribute and label that occur together in training."""
        check_labels(m)
        words = -(-m // 64)
        bits = np.zeros((n_attributes, words), dtype=np.uint64)
        _native.seen_pairs(examples, words, bits)
        pieces = [np.zeros((2, 0), np.int64)]
        for low in range(0, n_attributes, 65536):
            piece = np.unpackbits(bits[low : low + 65536].view(np.uint8), axis=1, bitorder="little")[:, :m]
            attribute, label = np.nonzero(piece)
            pieces.append(np.stack([attribute + low, label]))
        attribute, label = np.concatenate(pieces, axis=1)
        return cls._of_sorted(attribute, label, n_attributes, m)

    @classmethod
    def all_pairs(cls, n_attributes: int, m: int) -> Layout:
        """Lay out every attribute with every label."""
        check_labels(m)
        width = width_of(m)
        label = np.tile(np.arange(width, dtype=np.uint16), n_attributes)
        free = None if width == m else (label < m).astype(np.uint8)
        return cls(m, np.arange(n_attributes + 1, dtype=np.int64) * width, label, free)

    def with_rows(self, attributes: Ints) -> Layout:
        """Lay out these attributes with every label, and the others as here."""
        free = np.arange(self.size) if self.free is None else np.flatnonzero(self.free)
        attribute = np.concatenate([self.attribute[free], np.repeat(attributes, self.m)])
        label = np.concatenate([self.label[free].astype(np.int64), np.tile(np.arange(self.m), len(attributes))])
        return replace(self.of_pairs(attribute, label, len(self.begin) - 1, self.m), edges=self.edges)

    @classmethod
    def of_pairs(cls, attribute: Ints, label: npt.NDArray[np.integer], n_attributes: int, m: int) -> Layout:
        """Lay out these pairs of attribute and label."""
        check_labels(m)
        pairs = np.unique(attribute * m + label)
        return cls._of_sorted(pairs // m, pairs % m, n_attributes, m)

    @classmethod
    def _of_sorted(cls, attribute: Ints, label: Ints, n_attributes: int, m: int) -> Layout:
        count = np.bincount(attribute, minlength=n_attributes)
        full = count * FULL > m
        begin = np.zeros(n_attributes + 1, dtype=np.int64)
        np.cumsum(np.where(full, width_of(m), count), out=begin[1:])
        before = np.cumsum(count) - count
        slot = begin[attribute] + np.where(full[attribute], label, np.arange(len(label)) - before[attribute])
        labels, free = np.zeros(int(begin[-1]), dtype=np.uint16), np.zeros(int(begin[-1]), dtype=np.uint8)
        labels[slot], free[slot] = label, 1
        return cls(m, begin, labels, None if free.all() else free)


@dataclass(frozen=True, eq=False)
class Linear:
    """Weights of attributes and of label bigrams: what training ends with and tagging begins with.

    Weights that are trained here are rounded to single precision; those of other systems can be in double.
    """

    layout: Layout
    weights: Array  # (W) float32, or float64
    pairwise: Scores | None  # (m, m)
    edges: npt.NDArray[np.float32] | None = None  # (E) of label bigrams together with the text

    @classmethod
    def of(cls, layout: Layout, weights: Vector, pairwise: Vector | None, edges: Vector | None = None) -> Linear:
        """Round learned weights to single precision; raise `ModelError` if one is not finite."""
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

    def weights_by_label(self) -> tuple[Ints, Array]:
        """Return the label and the value of each weight; label bigrams together with the text follow the others."""
        layout = self.layout
        if layout.edges is None or self.edges is None:
            return layout.label.astype(np.int64), self.weights
        labels = np.concatenate([layout.label, layout.edges.pair % layout.m]).astype(np.int64)
        return labels, np.concatenate([self.weights, self.edges])

    @classmethod
    def of_pairs(
        cls,
        attribute: Ints,
        label: npt.NDArray[np.integer],
        weights: Array,
        n_attributes: int,
        m: int,
        pairwise: Scores | None,
    ) -> Linear:
        """Lay out weights of pairs of attribute and label, each pair once, in any order; they keep their precision."""
        layout = Layout.of_pairs(attribute, label, n_attributes, m)
        laid = np.zeros(layout.size, dtype=weights.dtype)
        # The slots that are set stand in the order of attributes, and of labels within each of them.
        free = np.arange(layout.size) if layout.free is None else np.flatnonzero(layout.free)
        laid[free] = weights[np.argsort(attribute * m + label)]
        return cls(Layout(m, layout.begin, layout.label, None), laid, pairwise)

    def scores(
        self,
        encoded: Encoded,
        kind: Kind = "raw",
        stop: _native.Stop | None = None,
        errors: dict[int, BridleError] | None = None,
    ) -> Batch:
        """Score encoded sequences; `errors` takes those of single sequences, without it the first is raised."""
        unary = np.empty((int(encoded.offsets[-1]), self.layout.m), dtype=self.weights.dtype)
        rows, stop = self.layout.native, stop or _native.Stop()
        if unary.dtype == np.float32:
            rows.score(encoded.native(), self.weights, unary, stop)
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
            owners = np.searchsorted(encoded.offsets, bad, side="right") - 1
            for t, b in zip(bad.tolist(), owners.tolist(), strict=True):
                begin = int(encoded.offsets[b])
                errors.setdefault(b, not_a_score("unary", unary[begin:], (t - begin, int(np.abs(unary[t]).argmax()))))
            unary[bad] = 0.0
        return Batch._unchecked(unary, encoded.offsets, self.pairwise, None, None, None, None, steps)

    def pruned(self, features: Features) -> Linear:
        """Drop weights that are zero, and from `features` the attributes that have no others."""
        slot = np.flatnonzero(self.weights)
        attribute, label = self.layout.attribute[slot], self.layout.label[slot]
        kept = np.zeros(len(self.layout.begin) - 1, dtype=bool)
        kept[attribute] = True
        features.keep(kept)
        number, count = np.cumsum(kept) - 1, int(kept.sum())
        short = Linear.of_pairs(number[attribute], label, self.weights[slot], count, self.layout.m, self.pairwise)
        if self.edges is None or self.layout.edges is None:
            return short
        assert isinstance(features, TemplateFeatures)
        slot = np.flatnonzero(self.edges)
        kept, edges = self.layout.edges.part(slot)
        features.keep_edges(kept)
        return replace(short, layout=replace(short.layout, edges=edges), edges=self.edges[slot])

    def arrays(self) -> dict[str, Array]:
        """Return the arrays for a model file."""
        layout = self.layout
        arrays: dict[str, Array] = {"weights.begin": layout.begin, "weights.label": layout.label}
        arrays["weights"] = self.weights
        if self.pairwise is not None:
            arrays["pairwise"] = self.pairwise
        if self.edges is not None and layout.edges is not None:
            arrays |= {"edges.begin": layout.edges.begin, "edges.pair": layout.edges.pair, "edges.weights": self.edges}
        return arrays

    @classmethod
    def restored(cls, arrays: Mapping[str, Array], n_attributes: int, m: int, n_edges: int | None = None) -> Linear:
        """Restore weights from a file; refuse arrays that do not fit together, since the kernels trust them."""
        names = ("weights.begin", "weights.label", "weights")
        begin, label, weights = (np.ascontiguousarray(arrays[name]) for name in names)
        dtypes = [array.dtype.name for array in (begin, label, weights)]
        pairwise, count = arrays.get("pairwise"), np.diff(begin)
        fits = (
            dtypes in (["int64", "uint16", "float32"], ["int64", "uint16", "float64"])
            and begin.shape == (n_attributes + 1,)
            and begin[0] == 0
            and bool((count >= 0).all())
            and label.shape == weights.shape == (begin[-1],)
            and bool(((count <= m) | (count == width_of(m))).all())
            and (not label.size or int(label.max()) < m)
            and bool(np.isfinite(weights).all())
            and (pairwise is None or (pairwise.shape == (m, m) and pairwise.dtype == np.float64))
            and (pairwise is None or bool((np.abs(pairwise) <= LARGEST).all()))
        )
        if not fits:
            raise ModelFileError("the weights do not fit together", wanted="weights of these attributes and labels")
        layout, edges = (None, None) if n_edges is None else EdgeLayout.restored(arrays, n_edges, m)
        pairwise = None if pairwise is None else np.ascontiguousarray(pairwise)
        return cls(Layout(m, begin, label, None, layout), weights, pairwise, edges)
