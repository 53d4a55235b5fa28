"""Models from files and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from bridle.errors import Argument, ModelFileError
from bridle.features import FEATURES
from bridle.labels import MOST_SQUARE, Labels
from bridle.models import files
from bridle.models.linear import Linear
from bridle.models.tagger import OTHER_WRITER, Tagger

_LONGEST = {"pairwise": (MOST_SQUARE, "this file has scores of too many label bigrams")}


def load(path: str | Path) -> Tagger:
    """Read a model that was written by `save`.

    Nothing in the file is trusted: no code of it runs, and sizes are checked before memory is allocated.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    Tagger
        A model of the class that was saved, ready to use.

    Raises
    ------
    ModelFileError
        If the file cannot be read, is cut off, altered, of a newer format, or not a model.

    Examples
    --------
    >>> import tempfile, bridle
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     bridle.LocalTagger().fit([[["a"], ["b"]]], [["D", "N"]]).save(f"{folder}/small.bridle")
    ...     bridle.load(f"{folder}/small.bridle").labels_.names
    ('D', 'N')
    """
    return _loaded(files.open_file(path, _LONGEST), str(path))


def from_bytes(data: bytes) -> Tagger:
    """Read a model from what `Tagger.to_bytes` returned. It is trusted no more than a file.

    Parameters
    ----------
    data : bytes
        The content of a model file.

    Returns
    -------
    Tagger
        As from `load`, with the same errors.
    """
    return _loaded(files.from_bytes(data, _LONGEST), "a model in memory")


def unpickled(
    kind: type[Tagger], params: dict[str, Any], data: bytes | None, more: Mapping[str, Any] = MappingProxyType({})
) -> Tagger:
    """Restore a model that was pickled; more: attributes that no file keeps."""
    model = kind(**params) if data is None else _loaded(files.from_bytes(data, _LONGEST), "a model in memory", kind)
    model.__dict__.update(params)  # as they were, not as JSON has them
    model.__dict__.update(more)
    return model


def _loaded(stored: files.Stored, path: str, kind: type[Tagger] | None = None) -> Tagger:
    head, arrays = stored.head, stored.arrays
    if stored.kind == "constrained":  # before 0.3, a ConstrainedTagger had a kind of its own
        head = {"model": "ConstrainedTagger", "n_weights": 0, "notes": {}, **head}
    elif stored.kind != "model":
        cause = None
        if stored.kind == "deterministic":
            cause = "Deterministic rules are for a model: bridle tag MODEL --rules FILE, or decide_with in Python."
        elif stored.kind == "segmenter":
            cause = "For a segmenter, use bridle.Segmenter.load, or bridle tag."
        got, about = f"a file of the kind {stored.kind!r}", Argument("kind", stored.kind)
        raise ModelFileError("this is not a model", got=got, wanted="a model", where=path, cause=cause, argument=about)
    try:
        if head["model"] == "ConstrainedTagger":
            from bridle.models import constrained  # noqa: F401  (it makes itself known; importing it takes long)
        model = (kind or Tagger.kinds[head["model"]])(**head["settings"])
        model.labels_ = Labels(head["labels"], head["scheme"])
        features = model.features_ = FEATURES[head["features"]["kind"]].restored(head["features"], arrays)
        model.linear_ = Linear.restored(arrays, len(features), len(model.labels_.names), features.n_edges)
        model.lists = getattr(features, "lists", None) or None
        seen = model.seen_ = arrays.get("seen")
        if seen is not None and (seen.dtype != np.uint64 or seen.ndim != 1 or bool((seen[1:] <= seen[:-1]).any())):
            raise ValueError("the sketch of the training sequences is not sorted")
        model.n_weights_, model.notes_ = int(head["n_weights"]), dict(head["notes"])
        model._records = head, path
        if "rules" in head:  # of a ConstrainedTagger
            model._restore(head, arrays, path)
    except files.UNFIT as error:
        raise files.unusable(error, path, "model", "Tagger.save", OTHER_WRITER) from None
    return model
