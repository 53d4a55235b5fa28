"""Where weights lie: for each attribute a full row, one weight per label, or a list of those labels it was seen with.

A attributes    m labels    W slots; a full row has `width` slots (m rounded up to whole vectors)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.errors import ModelError
from bridle.labels import MOST_LABELS
from bridle.models.edges import EdgeLayout

Bools = npt.NDArray[np.bool_]
FULL = 5  # a list for more than a fifth of all labels is slower than a full row


@dataclass(frozen=True, eq=False)
class Layout:
    """Slots of the weights."""

    m: int
    begin: npt.NDArray[np.int64]  # (A + 1)
    label: npt.NDArray[np.uint16]  # (W)
    free: npt.NDArray[np.uint8] | None  # (W) may it be learned? None: every slot may
    edges: EdgeLayout | None = None  # slots of label bigrams together with the text; None: there are none

    @cached_property
    def native(self) -> _native.Rows:
        """The same for the kernels."""
        return _native.Rows(self.m, self.begin, self.label, self.free)

    def __reduce__(self) -> tuple[Any, ...]:
        return Layout, (self.m, self.begin, self.label, self.free, self.edges)

    @property
    def size(self) -> int:
        """Slots in all."""
        return int(self.begin[-1])

    @property
    def n_weights(self) -> int:
        """Slots that may be learned."""
        return self.size if self.free is None else int(self.free.sum())

    @cached_property
    def attribute(self) -> npt.NDArray[np.int64]:
        """(W) whose slot it is."""
        return np.repeat(np.arange(len(self.begin) - 1), np.diff(self.begin))


def width_of(m: int) -> int:
    """Slots of a full row."""
    return -(-m // _native.ROW_WIDTH) * _native.ROW_WIDTH


def seen(examples: _native.Examples, n_attributes: int, m: int) -> Layout:
    """Only pairs of attribute and label that occur together in training."""
    check_labels(m)
    words = -(-m // 64)
    bits = np.zeros((n_attributes, words), dtype=np.uint64)
    _native.seen_pairs(examples, words, bits)
    return _of_bits(bits, m)


def all_pairs(n_attributes: int, m: int) -> Layout:
    """Every attribute with every label."""
    width = width_of(m)
    label = np.tile(np.arange(width, dtype=np.uint16), n_attributes)
    free = None if width == m else (label < m).astype(np.uint8)
    return Layout(m, np.arange(n_attributes + 1, dtype=np.int64) * width, label, free)


def of_pairs(attribute: npt.NDArray[np.int64], label: npt.NDArray[np.integer], n_attributes: int, m: int) -> Layout:
    """These pairs."""
    check_labels(m)
    pairs = np.unique(attribute * m + label)
    return _of_sorted(pairs // m, pairs % m, n_attributes, m)


def _of_bits(bits: npt.NDArray[np.uint64], m: int) -> Layout:
    pieces = [_members(bits[low : low + 65536], m) for low in range(0, len(bits), 65536)]
    for k, piece in enumerate(pieces):
        piece[0] += k * 65536
    attribute, label = np.concatenate(pieces or [np.zeros((2, 0), np.int64)], axis=1)
    return _of_sorted(attribute, label, len(bits), m)


def _of_sorted(attribute: npt.NDArray[np.int64], label: npt.NDArray[np.int64], n_attributes: int, m: int) -> Layout:
    """Pairs in order, each once."""
    count = np.bincount(attribute, minlength=n_attributes)
    full = count * FULL > m
    begin = np.zeros(n_attributes + 1, dtype=np.int64)
    np.cumsum(np.where(full, width_of(m), count), out=begin[1:])
    before = np.cumsum(count) - count
    slot = begin[attribute] + np.where(full[attribute], label, np.arange(len(label)) - before[attribute])
    labels = np.zeros(int(begin[-1]), dtype=np.uint16)
    free = np.zeros(int(begin[-1]), dtype=np.uint8)
    labels[slot], free[slot] = label, 1
    return Layout(m, begin, labels, None if free.all() else free)


def _members(bits: npt.NDArray[np.uint64], m: int) -> npt.NDArray[np.int64]:
    """(2, pairs): the attributes and labels whose bit is set."""
    found = np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little")[:, :m]
    return np.array(np.nonzero(found), dtype=np.int64)


def check_labels(m: int) -> None:
    """A label must fit into 16 bits."""
    if m > MOST_LABELS:
        raise ModelError("there are too many labels", got=m, wanted=f"at most {MOST_LABELS:,}")
