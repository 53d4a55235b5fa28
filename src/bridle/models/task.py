"""Labelled sequences as users pass them (`Data`), in numbers (`Examples`), and with weights to learn (`Task`).

`class_weight` says how much mistakes on each label weigh in training, as in scikit-learn:

    CRF, lbfgs     softmax-margin (Gimpel & Smith 2010):
                   loss(x, y) = log (sum over y' of  exp(score(y') + sum over t with y'[t] != y[t] of log weight(y[t])))
                                - score(y)
    perceptrons    the update of a token is scaled by the weight of its label

The label of a token must beat the others by the log of its weight more. If all weights are 1, this is the plain loss;
it is as convex as that, and takes no more time. A loss that counts the likelihood of heavy tokens several times was
tried too: it took longer, fitted the training data more closely, and raised recall less.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol, cast

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.arrays import ranges
from bridle.decoding.decoder import Decoder
from bridle.decoding.problem import check_given
from bridle.errors import Argument, LabelError, ModelError, shown
from bridle.features import Encoded, Features, sequences_of
from bridle.labels import MOST_SQUARE, PREFIXES, Labels, Scheme, scheme_of
from bridle.models.checks import (
    Given,
    OnUnknown,
    check_pair,
    given_for,
    given_of,
    ids_of,
    labellings_of,
    names_of,
    of_dev,
    used_sequences,
)
from bridle.models.linear import Array, EdgeLayout, Ints, Layout, Vector, Weights
from bridle.rules.base import Rule

Ids = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint64]
ClassWeight = Mapping[str, float] | Literal["balanced"] | None


# ---- data -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Data:
    """Sequences with labels, as they come to `fit`."""

    X: Sequence[Any]
    y: Sequence[Sequence[str | None]]  # None: the label is missing
    given: Sequence[Given] | None  # values for the rules of training

    @classmethod
    def of(cls, X: Any, y: Any, given: Any = None, name: str = "given") -> Data:
        """Convert tables to lists; raise `GivenError` if given values do not belong to the sequences."""
        data = cls(sequences_of(X), labellings_of(y), given_of(given))
        check_given(data.given, len(data.X), name)
        return data

    @classmethod
    def of_dev(cls, dev: Any, given: Any) -> Data | None:
        """Convert a development set, a pair of X and y, or None."""
        if dev is None:
            return None
        check_pair(dev)
        return cls.of(dev[0], dev[1], given, "dev_given")

    def labels(self, scheme: str | None, more: Sequence[str] | None = None) -> Labels:
        """Return the labels as `labels_of` does; more: labels that the data may lack."""
        names = names_of(self.y)
        if len(self.y) != len(self.X):
            raise LabelError("y and X differ in length", got=f"{len(self.y)} lists", wanted=f"{len(self.X)} of them")
        return labels_of(names, scheme, more)

    def used(self, labels: Labels, on_unknown: OnUnknown) -> Data:
        """Return the data without the sequences that are left out because of unknown labels."""
        return self.part(used_sequences(labels.names, self.y, on_unknown)) if on_unknown == "skip" else self

    def part(self, chosen: Ints) -> Data:
        """Select sequences."""
        at = chosen.tolist()
        return Data([self.X[b] for b in at], [self.y[b] for b in at], select(self.given, chosen))


def labels_of(names: Sequence[str], scheme: str | None, more: Sequence[str] | None = None) -> Labels:
    """Return labels, sorted by name; the scheme "auto" is the one that their names suggest.

    more: labels besides those names; under BIO, BIOES and BMES, a segment type stands for its labels.
    """
    if scheme == "auto":
        scheme = scheme_of([*names, *(more or ())]) or scheme_of(names)
    prefixes = PREFIXES[scheme] if scheme in ("BIO", "BIOES", "BMES") else ()
    known = set(names)
    for name in more or ():
        full = not prefixes or name in (*known, *prefixes, "O") or "-" in name
        known |= {name} if full else {f"{prefix}-{name}" for prefix in prefixes}
    return Labels(sorted(known), cast(Scheme | None, scheme))


def select(given: Sequence[Given] | None, chosen: Ints) -> list[Given] | None:
    """Select the given values of sequences, if there are any."""
    return None if given is None else [given[b] for b in chosen.tolist()]


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Labelled sequences in numbers, with the decoder of training."""

    features: Features
    decoder: Decoder
    encoded: Encoded
    gold: Ids  # (N,)
    given: Sequence[Given] | None

    @classmethod
    def of(cls, data: Data, features: Features, rules: Sequence[Rule], labels: Callable[[], Labels]) -> Examples:
        """Number the features of training data. labels: returns the labels, once the features are known to fit."""
        encoded = features.fit(data.X)
        return cls.numbered(data, features, encoded, Decoder(labels(), rules, on_infeasible="relax"))

    @classmethod
    def numbered(cls, data: Data, features: Features, encoded: Encoded, decoder: Decoder) -> Examples:
        """Number the labels of training data whose features are numbered."""
        gold = ids_of(decoder.labels, data.y, encoded.offsets, missing="allow")
        return cls(features, decoder, encoded, gold, given_for(features, data.X, data.given, decoder))

    def of_dev(self, dev: Data, on_unknown: OnUnknown) -> Examples:
        """Encode a development set as these examples are."""
        with of_dev():
            encoded = self.features.encode(dev.X)
            gold = ids_of(self.labels, dev.y, encoded.offsets, on_unknown, missing="allow")
            given = given_for(self.features, dev.X, dev.given, self.decoder)
        return Examples(self.features, self.decoder, encoded, gold, given)

    @property
    def labels(self) -> Labels:
        """The labels of the decoder."""
        return self.decoder.labels

    def part(self, chosen: Ints) -> Examples:
        """Select sequences, in this order."""
        if len(chosen) == len(self.encoded):
            return self
        tokens, _ = ranges(self.encoded.offsets, chosen)
        return replace(
            self, encoded=self.encoded.part(chosen), gold=self.gold[tokens], given=select(self.given, chosen)
        )

    def fingerprint(self) -> str:
        """Compute a digest that distinguishes training data."""
        digest, encoded = hashlib.sha256(), self.encoded
        edges = () if encoded.edges is None else (encoded.edges.indptr, encoded.edges.attrs)
        for array in (encoded.offsets, encoded.indptr, encoded.attrs, encoded.values, *edges, self.gold):
            if array is not None and array.size:
                digest.update(np.ascontiguousarray(array).data.cast("B"))
        return digest.hexdigest()

    def given_digest(self) -> str:
        """Compute a digest that distinguishes given values."""
        return hashlib.sha256(_canonical(self.given).encode("utf-8", "surrogatepass")).hexdigest()


def _canonical(value: Any) -> str:
    """Return the same text for equal values."""
    if isinstance(value, Mapping):
        return "{" + ",".join(sorted(f"{k!r}:{_canonical(v)}" for k, v in value.items())) + "}"
    if isinstance(value, (set, frozenset)):
        return "<" + ",".join(sorted(map(_canonical, value))) + ">"
    if isinstance(value, (list, tuple, np.ndarray)):
        return "[" + ",".join(map(_canonical, value)) + "]"
    return repr(value.item() if isinstance(value, np.generic) else value)


# ---- sequences that a model has seen --------------------------------------------------------------------------------

# A sketch of the training sequences travels with the model: the smallest SKETCH_SIZE of their hashes. Below the largest
# of these, every training sequence is known, so that the share of other sequences that the model has seen can be told
# from those that fall below.
SKETCH_SIZE = 4096


def hashes_of(features: Features, X: Sequence[Any]) -> Hashes:
    """(B,): hash the texts of each sequence; its features, if tokens have no texts."""
    keys = (features.key(x).encode("utf-8", "surrogatepass") for x in X)
    digests = (hashlib.blake2b(key, digest_size=8).digest() for key in keys)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def sketch_of(hashes: Hashes) -> Hashes:
    """Return the smallest hashes, each once, rising."""
    return np.unique(hashes)[:SKETCH_SIZE]


def share_seen(sketch: Hashes, hashes: Hashes) -> float | None:
    """Estimate which share of the hashes is among those of the sketch; None if there are none to judge by."""
    known = hashes if len(sketch) < SKETCH_SIZE else hashes[hashes <= sketch[-1]]
    return float(np.isin(known, sketch).mean()) if len(known) else None


# ---- task -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Task:
    """Examples with gold labels, over attributes 0 .. A-1 and labels 0 .. m-1, and where their weights lie."""

    encoded: Encoded
    y: Ids  # (N), below 0: the label is not known
    layout: Layout
    pair_free: npt.NDArray[np.uint8] | None  # (m, m) which label bigrams may be learned; None: there are no bigrams

    @classmethod
    def of(cls, encoded: Encoded, y: Ids, sizes: tuple[int, int], pairs: str, bigram: bool) -> Task:
        """Lay out weights. sizes: attributes and labels; pairs: "seen", what occurs together in examples, or "all"."""
        n_attributes, m = sizes
        if bigram and m > MOST_SQUARE:
            raise ModelError(
                "there are too many labels for weights of label bigrams",
                got=f"{m:,}",
                wanted=f"at most {MOST_SQUARE:,}",
                cause="Use a LocalTagger, or templates without label[-1].",
            )
        every = pairs == "all"
        layout = Layout.all_pairs(*sizes) if every else Layout.seen(encoded.native(y), n_attributes, m)
        if encoded.edges is not None:
            layout = replace(layout, edges=EdgeLayout.of(encoded, y, m, pairs))
        if not bigram:
            return cls(encoded, y, layout, None)
        return cls(encoded, y, layout, np.ones((m, m), dtype=np.uint8) if every else _bigrams(encoded, y, m))

    @property
    def m(self) -> int:
        """Number of labels."""
        return self.layout.m

    @cached_property
    def joined(self) -> _native.Joined:
        """Examples and weights for the kernels of training."""
        return _native.Joined(self.layout.native, self.encoded.native(self.y))

    @cached_property
    def bundles(self) -> _native.Bundles:
        """Examples and weights for the likelihood, a sum over all: attributes that come together are one."""
        return _native.Bundles(self.layout.native, self.encoded.native(self.y))

    @cached_property
    def edges(self) -> _native.Edges | None:
        """Label bigrams together with the text, for all kernels of training."""
        if self.layout.edges is None:
            return None
        return _native.Edges(self.layout.edges.native, self.encoded.native_edges(self.y))

    @property
    def n_edges(self) -> int:
        """Number of weights of label bigrams together with the text."""
        return 0 if self.layout.edges is None else self.layout.edges.size

    @property
    def n_weights(self) -> int:
        """Number of weights that may be learned."""
        bigrams = 0 if self.pair_free is None else int(self.pair_free.sum())
        return self.layout.n_weights + bigrams + self.n_edges

    def check_pinned(self, weights: Array, pair: Array | None, edges: Array | None = None) -> None:
        """Raise `ModelError` if a weight that cannot be learned is not zero: kernels and layouts count on that."""
        free = self.layout.free
        loose = free is not None and bool(weights[..., free == 0].any())
        if pair is not None and self.pair_free is not None:
            loose = loose or bool(pair[self.pair_free == 0].any())
        if loose:
            raise ModelError("a weight that this training does not have is not zero", wanted="what training writes")


def _bigrams(encoded: Encoded, y: Ids, m: int) -> npt.NDArray[np.uint8]:
    """(m, m): the label bigrams that occur; beside a label that is not known, all that agree with what is known."""
    inside = np.ones(max(len(y) - 1, 0), dtype=bool)
    inside[encoded.offsets[(encoded.offsets > 0) & (encoded.offsets < len(y))] - 1] = False
    before, after = y[:-1][inside], y[1:][inside]
    free = np.zeros((m, m), dtype=np.uint8)
    both = (before >= 0) & (after >= 0)
    free[before[both], after[both]] = 1
    free[before[(before >= 0) & (after < 0)]] = 1
    free[:, after[(before < 0) & (after >= 0)]] = 1
    if ((before < 0) & (after < 0)).any():
        free[:] = 1
    return free


# ---- learners -------------------------------------------------------------------------------------------------------


class Learner(Protocol):
    """A way to learn weights, one iteration per step."""

    finished: str | None  # why there is nothing left to learn; None: go on

    def step(self) -> float:
        """Do one iteration; return the loss after it."""

    def weights(self) -> Weights:
        """Return what has been learned."""

    def state(self) -> dict[str, Array]:
        """Return all that is needed to go on from here."""

    def restore(self, state: Mapping[str, Array]) -> None:
        """Go on from a state exactly as if nothing had happened; refuse a state that does not fit."""


def check_state(state: Mapping[str, Array], wanted: Mapping[str, Array], *, but: Collection[str] = ()) -> None:
    """Raise `ModelError` if a state does not have the arrays of this training; those in `but` have any length."""
    for name, array in wanted.items():
        stored = state.get(name)
        fits = stored is not None and stored.dtype == array.dtype and (name in but or stored.shape == array.shape)
        if not fits or set(state) != set(wanted):
            raise ModelError(
                f"the state {name!r} is not that of this training",
                got="none" if stored is None else f"{stored.dtype} {stored.shape}",
                wanted=f"{array.dtype} {array.shape}",
                cause="A checkpoint of another version of Bridle, or altered?",
            )
    for name, array in state.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ModelError(f"the state {name!r} is not finite", got="inf or nan", wanted="finite numbers")


# ---- weights of classes ---------------------------------------------------------------------------------------------


def check_class_weight(value: Any) -> None:
    """Raise `ModelError` if these can be no weights of classes, whatever the labels are."""
    if value is None or (isinstance(value, str) and value == "balanced"):
        return
    if not isinstance(value, Mapping):
        raise ModelError(
            "`class_weight` is not a mapping of labels to weights",
            got=shown(value),
            wanted="such as {'PER': 3.0}, 'balanced', or None",
            argument=Argument("class_weight"),
        )
    for name, weight in value.items():
        if not isinstance(name, str):
            raise ModelError("a class of `class_weight` is not a name", got=shown(name), wanted="a label, as text")
        number = isinstance(weight, (int, float, np.integer, np.floating)) and not isinstance(weight, bool)
        if not number or not 0 < weight < math.inf:
            raise ModelError(
                f"the weight of class {name!r} is not positive",
                got=shown(weight),
                wanted="a number above 0",
                cause="To leave tokens out of training, make their labels missing (None)." if weight == 0 else None,
                argument=Argument("class_weight"),
            )


def class_weights(class_weight: ClassWeight, labels: Labels, y: Ids) -> Vector | None:
    """(m): return the weight of each label; None if all are 1. y: gold ids, below 0 where they are not known.

    >>> labels = Labels(["B-PER", "I-PER", "O"], "BIO")
    >>> class_weights({"PER": 3.0, "I-PER": 2.0}, labels, np.zeros(1, np.int32)).tolist()
    [3.0, 2.0, 1.0]
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, str):  # "balanced": tokens / (classes * tokens of the class); a segment type is a class
        kinds = np.array(labels.kinds)
        count = np.bincount(kinds[y[y >= 0]], minlength=int(kinds.max()) + 1)
        weights = (count.sum() / (np.count_nonzero(count) * np.maximum(count, 1)))[kinds]
        return None if (weights == 1).all() else weights
    weights = np.ones(len(labels))
    # Full labels after types, so that they count where both are there.
    for name in sorted(class_weight, key=lambda name: name in labels.names):
        try:
            weights[sorted(labels.matching(name))] = float(class_weight[name])
        except LabelError as error:
            error.what = "`class_weight` names a label that the training data does not have"
            raise
    return None if (weights == 1).all() else weights
