"""Which sequences a model was trained on: a sketch of them that is small enough to travel with the model.

Of the hashes of all training sequences the smallest `SIZE` are kept. Below the largest of these, every training
sequence is known, so that the share of other sequences that the model has seen can be told from those that fall below.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.features import Features

Hashes = npt.NDArray[np.uint64]
SIZE = 4096


def hashes_of(features: Features, X: Sequence[Any]) -> Hashes:
    """(B,): of the texts of each sequence; of its features, if tokens have no texts."""
    keys = (features.key(x).encode("utf-8", "surrogatepass") for x in X)
    digests = (hashlib.blake2b(key, digest_size=8).digest() for key in keys)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def sketch_of(hashes: Hashes) -> Hashes:
    """The smallest, each once, rising."""
    return np.unique(hashes)[:SIZE]


def share_seen(sketch: Hashes, hashes: Hashes) -> float | None:
    """The share of these hashes that is among those the sketch was made of; None: there are none to judge by."""
    known = hashes if len(sketch) < SIZE else hashes[hashes <= sketch[-1]]
    return float(np.isin(known, sketch).mean()) if len(known) else None


def checked_sketch(sketch: npt.NDArray[Any] | None) -> Hashes | None:
    """The sketch that a file holds, if it holds one; ValueError if that is not a sketch."""
    if sketch is not None and (
        sketch.dtype != np.uint64 or sketch.ndim != 1 or bool((sketch[1:] <= sketch[:-1]).any())
    ):
        raise ValueError("the sketch of the training sequences is not sorted")
    return sketch
