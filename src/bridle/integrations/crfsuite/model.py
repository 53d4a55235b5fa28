"""Models of CRFsuite as models of Bridle."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from bridle import _native
from bridle.errors import ModelError, shown
from bridle.features.plain import LARGEST as LARGEST_VALUE
from bridle.features.plain import PlainFeatures
from bridle.integrations.crfsuite import file
from bridle.integrations.crfsuite.file import Contents, Weights
from bridle.labels import Labels, Scheme, scheme_of
from bridle.lattice import LARGEST
from bridle.models.crf import CRF
from bridle.models.linear import Linear
from bridle.models.training import Progress

_SCALARS = (np.bool_, *(np.dtype(code).type for code in "bhilqBHILQefg"))  # that the kernel reads; float64 is a float


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
    return model_of(file.read(path), scheme)


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
    """Make a model of weights that you have, for example of a CRFsuite model that was exported to JSON.

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
    found = Contents({}, list(known.names), list(attributes), state, (before, after, _weights(transitions)))
    return model_of(found, scheme)


def _check_names(features: Mapping[tuple[str, str], float]) -> None:
    if not isinstance(features, Mapping):
        raise ModelError("weights are not a dict", got=shown(features), wanted="{('w=cat', 'N'): 2.0}, for example")
    for key in features:
        if not (isinstance(key, tuple) and len(key) == 2 and all(isinstance(name, str) for name in key)):
            cause = "JSON has no pairs: split its keys."
            raise ModelError("a weight has no pair of names", got=shown(key), wanted="('w=cat', 'N')", cause=cause)


def _weights(features: Mapping[tuple[str, str], float]) -> Weights:
    try:
        found = np.array([float(weight) for weight in features.values()], dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        got = shown(list(features.values()))
        raise ModelError("a weight is not a number", got=got, wanted=f"numbers of at most {LARGEST:g}") from None
    if not (np.abs(found) <= LARGEST).all():
        bad = found[~(np.abs(found) <= LARGEST)][0]
        raise ModelError("a weight is not a finite number", got=f"{bad:g}", wanted=f"at most {LARGEST:g}")
    return found


def model_of(contents: Contents, scheme: str | None = "auto") -> CRF:
    """The model that a file holds; see `load`."""
    m = len(contents.labels)
    made = CRF(features=None, scheme=scheme)
    chosen = scheme_of(contents.labels) if scheme == "auto" else scheme
    made.labels_ = Labels(contents.labels, cast(Scheme | None, chosen))
    made.features_ = PlainFeatures.of(contents.attributes)
    pairwise = np.zeros((m, m))
    before, after, weights = contents.transition
    pairwise[before, after] = weights
    pairwise.setflags(write=False)  # lattices borrow it
    made.linear_ = Linear.of_pairs(*contents.state, len(contents.attributes), m, pairwise)
    made.progress_ = Progress(why="trained elsewhere")
    made.n_weights_ = len(contents.state[0]) + len(weights)
    made.notes_ = {"crfsuite": contents.header} if contents.header else {}
    return made


@dataclass(frozen=True, slots=True)
class Info:
    """What a model consists of, as `pycrfsuite.Tagger.info` tells it.

    Attributes
    ----------
    header : dict of str
        What the header of the model file says; empty for a model that was trained by Bridle.
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


def info_of(model: CRF) -> Info:
    """What a model over ready-made features consists of."""
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


def kernel_of(model: CRF) -> _native.FeatureTagger:
    """The model for the kernel, which looks up the bytes of attributes."""
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
    """An attribute as CRFsuite has it."""
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a character, that no bytes are decoded to
        return name.encode("utf-8", "surrogatepass")
