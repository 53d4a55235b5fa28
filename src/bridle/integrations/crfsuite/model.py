"""Models of CRFsuite as models of Bridle: model files, estimators of sklearn-crfsuite, and weights.

Model files are read without CRFsuite. Numbers are little-endian and unsigned:

    bytes      content
    0..47      header: "lCRF", size of the file, "FOMC", version 100, number of features (0 in practice), of labels, of
               attributes; then the offsets of features, labels, attributes, and of two tables that are not needed here
    features   "FEAT", size, count; then 20 bytes each: type (0: attribute and label, 1: two labels), from, to, weight
    labels,    "CQDB", size, flag, 0x62445371, count, offset of the backward array in the chunk, which has the offset of
    attributes each record by id; a record is id, length of the key with its NUL, key, NUL

Nothing is trusted: every offset, size and count is checked before anything is read or allocated.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.errors import ModelError, ModelFileError, shown
from bridle.features.plain import LARGEST as LARGEST_VALUE
from bridle.features.plain import PlainFeatures
from bridle.labels import MOST_LABELS, MOST_SQUARE, Labels, Scheme
from bridle.lattice import LARGEST
from bridle.models import files
from bridle.models.crf import CRF
from bridle.models.linear import Linear
from bridle.models.training import Progress

_SCALARS = (np.bool_, *(np.dtype(code).type for code in "bhilqBHILQefg"))  # that the kernel reads; float64 is a float
MAGIC = b"lCRF"
VERSION = 100
_HEADER = struct.Struct("<4sI4sI8I")
_FEATURES = struct.Struct("<4s2I")
_STRINGS = struct.Struct("<4s5I")
_BYTE_ORDER = 0x62445371
_FEATURE = np.dtype([("type", "<u4"), ("source", "<u4"), ("label", "<u4"), ("weight", "<f8")])  # 20 bytes

Ids = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """Contents of a model file of CRFsuite."""

    header: dict[str, str]  # as in `info` of python-crfsuite
    labels: list[str]  # by id
    attributes: list[str]  # by id; bytes that are not UTF-8 become "surrogateescape"
    state: tuple[Ids, Ids, Weights]  # attribute, label, weight of each state feature, in the order of the file
    transition: tuple[Ids, Ids, Weights]  # label, next label, weight


def load(path: str | os.PathLike[str], *, scheme: str | None = "auto") -> CRF:
    """Read a model file of CRFsuite.

    Nothing in the file is trusted, and no code of CRFsuite reads it.

    Parameters
    ----------
    path : path
        A file that CRFsuite, python-crfsuite or sklearn-crfsuite wrote.
    scheme : {"auto", None, "IO", "BIO", "BIOES", "BMES"}, default "auto"
        Tagging scheme of the labels; ``"auto"`` tells it from their names.

    Returns
    -------
    CRF
        A trained model over features that you make yourself: a list of strings or a dict per token, as python-crfsuite
        takes them. Its weights are in double precision, as in the file.

    Raises
    ------
    ModelFileError
        If the file cannot be read, is cut off or altered, or is not a model of CRFsuite.
    LabelError
        If the labels do not fit `scheme`.

    See Also
    --------
    Tagger : The same behind the interface of python-crfsuite.

    Examples
    --------
    ::

        model = crfsuite.load("usaddr.crfsuite")
        model.predict([features], rules=["no duplicates of ZipCode"])
        model.save("usaddr.bridle")
    """
    contents = files.read_from(path, lambda file, size: parse_contents(file.read(size), str(path)))
    return build_model(contents, scheme)


def from_sklearn(estimator: Any, *, scheme: str | None = "auto") -> CRF:
    """Convert an estimator of sklearn-crfsuite.

    Parameters
    ----------
    estimator : sklearn_crfsuite.CRF
        A trained estimator. Its model file is read; nothing is unpickled.
    scheme : {"auto", None, "IO", "BIO", "BIOES", "BMES"}, default "auto"
        As in `load`.

    Returns
    -------
    CRF
        As from `load`.

    Raises
    ------
    ModelError
        If this is not an estimator of sklearn-crfsuite, or it has not been trained.
    ModelFileError
        If its model file cannot be read.

    Examples
    --------
    ::

        estimator = sklearn_crfsuite.CRF(c2=0.1).fit(X, y)
        model = crfsuite.from_sklearn(estimator)
        model.predict(X, rules=["at most 1 segment of PER"])
    """
    path = getattr(getattr(estimator, "modelfile", None), "name", None)
    if path is None:
        raise ModelError(
            "this is not a trained estimator of sklearn-crfsuite",
            got=shown(estimator),
            wanted="sklearn_crfsuite.CRF after fit",
            cause="To read a model file, call load(path).",
        )
    return load(path, scheme=scheme)


def from_weights(
    labels: Sequence[str],
    state_features: Mapping[tuple[str, str], float],
    transitions: Mapping[tuple[str, str], float],
    *,
    scheme: str | None = "auto",
) -> CRF:
    """Build a model from weights, for example from those of a CRFsuite model that was exported to JSON.

    Parameters
    ----------
    labels : list of str
        The labels, in any order.
    state_features : mapping
        Weights by attribute and label, as in `Info`.
    transitions : mapping
        Weights by label and next label.
    scheme : {"auto", None, "IO", "BIO", "BIOES", "BMES"}, default "auto"
        As in `load`.

    Returns
    -------
    CRF
        As from `load`.

    Raises
    ------
    LabelError
        If a weight is that of an unknown label.
    ModelError
        If a weight is not a finite number, or not that of a pair of names.

    Examples
    --------
    >>> model = from_weights(["N", "V"], {("w=cat", "N"): 2.0, ("w=sleeps", "V"): 1.0}, {("N", "V"): 0.5})
    >>> model.predict([[["w=cat"], ["w=sleeps"]]])
    [['N', 'V']]
    """
    known = Labels(labels)
    for weights in (state_features, transitions):
        _check_names(weights)
    attributes = {name: a for a, name in enumerate(dict.fromkeys(name for name, _ in state_features))}
    state = (
        np.array([attributes[name] for name, _ in state_features], dtype=np.int64),
        known.ids([label for _, label in state_features]).astype(np.int64),
        _weights(state_features),
    )
    before, after = (known.ids([pair[k] for pair in transitions]).astype(np.int64) for k in (0, 1))
    contents = Contents({}, list(known.names), list(attributes), state, (before, after, _weights(transitions)))
    return build_model(contents, scheme)


def _check_names(features: Mapping[tuple[str, str], float]) -> None:
    if not isinstance(features, Mapping):
        raise ModelError("weights are not a dict", got=shown(features), wanted="{('w=cat', 'N'): 2.0}, for example")
    for key in features:
        if not (isinstance(key, tuple) and len(key) == 2 and all(isinstance(name, str) for name in key)):
            cause = "JSON has no pairs: split its keys."
            raise ModelError("a weight has no pair of names", got=shown(key), wanted="('w=cat', 'N')", cause=cause)


def _weights(features: Mapping[tuple[str, str], float]) -> Weights:
    try:
        weights = np.array([float(weight) for weight in features.values()], dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        got = shown(list(features.values()))
        raise ModelError("a weight is not a number", got=got, wanted=f"numbers of at most {LARGEST:g}") from None
    if not (np.abs(weights) <= LARGEST).all():
        bad = weights[~(np.abs(weights) <= LARGEST)][0]
        raise ModelError("a weight is not a finite number", got=f"{bad:g}", wanted=f"at most {LARGEST:g}")
    return weights


def build_model(contents: Contents, scheme: str | None = "auto") -> CRF:
    """Build a model from the contents of a file; see `load`."""
    m = len(contents.labels)
    model = CRF(features=None, scheme=scheme)
    model.labels_ = Labels(contents.labels, cast(Scheme | None, scheme))
    model.features_ = PlainFeatures.of(contents.attributes)
    pairwise = np.zeros((m, m))
    before, after, weights = contents.transition
    pairwise[before, after] = weights
    pairwise.setflags(write=False)  # lattices borrow it
    model.linear_ = Linear.of_pairs(*contents.state, len(contents.attributes), m, pairwise)
    model.progress_ = Progress(why="trained elsewhere")
    model.n_weights_ = len(contents.state[0]) + len(weights)
    model.notes_ = {"crfsuite": contents.header} if contents.header else {}
    return model


@dataclass(frozen=True, slots=True)
class Info:
    """Labels, attributes and weights of a model, as `pycrfsuite.Tagger.info` returns them.

    Attributes
    ----------
    header : dict of str
        Header of the model file; empty for a model that was trained by Bridle.
    labels, attributes : dict of str
        Ids by name, as strings.
    transitions : dict of float
        Weights by label and next label; those that are zero are left out.
    state_features : dict of float
        Weights by attribute and label; those that are zero are left out.
    """

    header: dict[str, str]
    labels: dict[str, str]
    attributes: dict[str, str]
    transitions: dict[tuple[str, str], float]
    state_features: dict[tuple[str, str], float]


def collect_info(model: CRF) -> Info:
    """Return labels, attributes and weights of a model over features of the caller."""
    names, attributes, linear = model.labels_.names, model.features_.names(), model.linear_
    slots = np.flatnonzero(linear.weights)
    pairs = zip(linear.layout.attribute[slots].tolist(), linear.layout.label[slots].tolist(), strict=True)
    pairwise = np.zeros((0, 0)) if linear.pairwise is None else linear.pairwise
    return Info(
        dict(model.notes_.get("crfsuite", {})),
        {name: str(y) for y, name in enumerate(names)},
        {name: str(a) for a, name in enumerate(attributes)},
        {(names[i], names[j]): float(pairwise[i, j]) for i, j in np.argwhere(pairwise).tolist()},
        {
            (attributes[a], names[y]): weight
            for (a, y), weight in zip(pairs, linear.weights[slots].tolist(), strict=True)
        },
    )


def build_kernel(model: CRF) -> _native.FeatureTagger:
    """Build the native tagger, which looks up the bytes of attributes."""
    linear, texts = model.linear_, [_bytes(name) for name in model.features_.names()]
    offsets, attributes = np.cumsum([0, *map(len, texts)], dtype=np.int64), _native.Strings()
    numbers = np.empty(len(texts), dtype=np.int32)
    attributes.add(np.frombuffer(b"".join(texts), dtype=np.uint8), offsets, None, numbers)
    if len(attributes) < len(texts):
        raise ModelError(
            "two attributes of the model are the same in UTF-8", got="bytes that are not UTF-8", wanted="text, or bytes"
        )
    return _native.FeatureTagger(
        linear.layout.native,
        attributes,
        np.asarray(linear.weights, dtype=np.float64),
        linear.pairwise,
        model.labels_.names,
        LARGEST_VALUE,
        _SCALARS,
    )


def _bytes(name: str) -> bytes:
    """Return the bytes of an attribute."""
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a surrogate pair that no bytes decode to
        return name.encode("utf-8", "surrogatepass")


# ---- model files ----------------------------------------------------------------------------------------------------


def parse_contents(data: bytes, where: str = "a model in memory") -> Contents:
    """Parse a model file. Raises `ModelFileError` if it is cut off, altered, or not a model of CRFsuite."""
    return _FileReader(data, where).read_contents()


class _FileReader:
    """A model file in memory."""

    def __init__(self, data: bytes, where: str) -> None:
        self.data, self.where = data, where

    def read_contents(self) -> Contents:
        data = self.data
        if not data.startswith(MAGIC[: len(data)]) or not data:
            raise self.wrong("this is not a model of CRFsuite", repr(data[:8]), repr(MAGIC), "Is it the right file?")
        if len(data) < _HEADER.size:
            raise self.cut(len(data), f"at least {_HEADER.size} bytes")
        magic, size, kind, version, n_features, n_labels, n_attributes, *places = _HEADER.unpack_from(data)
        if size > len(data):
            raise self.cut(len(data), f"{size:,} bytes, as it says")
        if size < len(data):
            what = "this file is longer than its header says"
            raise self.wrong(what, f"{len(data):,} bytes", f"{size:,}", "Was something appended to it?")
        if (kind, version) != (b"FOMC", VERSION):
            cause = "Bridle reads first-order models (1d) of CRFsuite 0.12 and later."
            what = "this kind of CRFsuite model is not known"
            raise self.wrong(what, f"{kind!r}, version {version}", f"{b'FOMC'!r}, version {VERSION}", cause)
        if not 1 <= n_labels <= min(MOST_LABELS, MOST_SQUARE):
            most = f"1 to {min(MOST_LABELS, MOST_SQUARE):,}"
            raise self.wrong("the number of labels is impossible", f"{n_labels:,}", most)
        features = self.read_features(places[0], n_labels, n_attributes)
        labels = self.read_strings("labels", places[1], n_labels)
        for label in labels:
            data = label.encode("utf-8", "surrogateescape")
            if not data or data != label.encode("utf-8", "replace"):
                raise self.wrong("a label is not a name", repr(data), "text in UTF-8, one character at least")
        attributes = self.read_strings("attributes", places[2], n_attributes)
        counts = {"num_features": n_features, "num_labels": n_labels, "num_attrs": n_attributes}
        names = ("off_features", "off_labels", "off_attrs", "off_labelrefs", "off_attrrefs")
        header = {"magic": magic.decode(), "size": str(size), "type": kind.decode(), "version": str(version)}
        header |= {name: str(count) for name, count in counts.items()}
        header |= {name: f"0x{place:X}" for name, place in zip(names, places, strict=True)}
        state, transition = (features[features["type"] == kind] for kind in (0, 1))
        return Contents(header, labels, attributes, _columns(state), _columns(transition))

    def read_features(self, place: int, n_labels: int, n_attributes: int) -> npt.NDArray[Any]:
        self.check("features", place, _FEATURES.size)
        sign, _, count = _FEATURES.unpack_from(self.data, place)
        self.check_signature("features", sign, b"FEAT")
        self.check("features", place, _FEATURES.size + count * _FEATURE.itemsize)
        features = np.frombuffer(self.data, _FEATURE, count, place + _FEATURES.size)
        state, transition = features["type"] == 0, features["type"] == 1
        sources = np.where(state, n_attributes, n_labels)
        with np.errstate(invalid="ignore"):  # NaN is not valid
            valid = (state | transition) & (features["source"] < sources) & (features["label"] < n_labels)
            valid &= np.abs(features["weight"]) <= LARGEST
        if not valid.all():
            bad = features[int(valid.argmin())]
            got = f"type {bad['type']}, from {bad['source']} to {bad['label']}, weight {bad['weight']:g}"
            wanted = f"{n_attributes:,} attributes, {n_labels:,} labels, weights of at most {LARGEST:g}"
            raise self.wrong("a feature is impossible", got, wanted)
        key = (features["source"].astype(np.int64) * n_labels + features["label"]) * 2 + features["type"]
        if len(np.unique(key)) < count:
            raise self.wrong("a feature occurs twice", f"{count:,} features", "each once")
        return features

    def read_strings(self, what: str, place: int, count: int) -> list[str]:
        """Return the texts of a table, by id."""
        self.check(what, place, _STRINGS.size)
        sign, size, _, order, held, back = _STRINGS.unpack_from(self.data, place)
        self.check_signature(what, sign, b"CQDB")
        self.check(what, place, size)
        if order != _BYTE_ORDER or held < count or back + 4 * count > size:
            got = f"byte order 0x{order:X}, {held:,} {what}, their list at {back:,} of {size:,} bytes"
            raise self.wrong(f"the table of {what} is damaged", got, f"byte order 0x{_BYTE_ORDER:X}, {count:,} {what}")
        chunk = np.frombuffer(self.data, np.uint8, size, place)
        records = np.frombuffer(self.data, "<u4", count, place + back).astype(np.int64)
        if count and int(records.max()) + 8 > size:
            raise self.wrong(f"the table of {what} is damaged", f"a place at {records.max():,}", f"up to {size:,}")
        ids, lengths = _numbers(chunk, records), _numbers(chunk, records + 4)
        ends = records + 8 + lengths
        # Records do not overlap, so that all keys together are no longer than the table.
        fits = bool((ids == np.arange(count)).all() and (lengths >= 1).all() and (ends <= size).all())
        if not fits or int((8 + lengths).sum()) > size or bool(chunk[ends - 1].any()):
            raise self.wrong(
                f"the table of {what} is damaged", "a text with another number or length", "one per number"
            )
        begins, ends = (records + 8 + place).tolist(), (ends - 1 + place).tolist()
        pairs = zip(begins, ends, strict=True)
        texts = [self.data[begin:end].decode("utf-8", "surrogateescape") for begin, end in pairs]
        if len(set(texts)) < count:
            raise self.wrong(f"the table of {what} is damaged", "a text with two numbers", "each text once")
        return texts

    # ---- messages ---------------------------------------------------------------------------------------------------

    def check(self, what: str, place: int, size: int) -> None:
        """Raise `ModelFileError` if a chunk lies outside the file."""
        if place + size > len(self.data):
            got = f"{size:,} bytes at {place:,}"
            raise self.wrong(f"the {what} lie outside the file", got, f"a place within {len(self.data):,} bytes")

    def check_signature(self, what: str, got: bytes, wanted: bytes) -> None:
        """Raise `ModelFileError` if a chunk begins with a wrong signature."""
        if got != wanted:
            raise self.wrong(f"the {what} are not where they should be", repr(got), repr(wanted))

    def cut(self, got: int, wanted: str) -> ModelFileError:
        return self.wrong("this file is cut off", f"{got:,} bytes", wanted, "Was a copy or a download interrupted?")

    def wrong(self, what: str, got: str, wanted: str, cause: str = "Is the file damaged?") -> ModelFileError:
        return ModelFileError(what, got=got, wanted=wanted, cause=cause, where=self.where)


def _columns(features: npt.NDArray[Any]) -> tuple[Ids, Ids, Weights]:
    weights = np.ascontiguousarray(features["weight"], dtype=np.float64)
    return features["source"].astype(np.int64), features["label"].astype(np.int64), weights


def _numbers(chunk: npt.NDArray[np.uint8], places: Ids) -> Ids:
    """Return the numbers of four bytes that begin at places, aligned or not."""
    parts = [chunk[places + k].astype(np.int64) << 8 * k for k in range(4)]
    return np.asarray(sum(parts))
