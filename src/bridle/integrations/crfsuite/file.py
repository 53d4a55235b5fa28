"""Model files of CRFsuite, read without CRFsuite: labels, attributes and weights.

    bytes      what                                                      numbers are little-endian, without sign
    0..47      header: "lCRF", size of the file, "FOMC", version 100, number of features (0 in practice), of labels, of
               attributes; then where features, labels, attributes, and two tables that are not needed here begin
    features   "FEAT", size, count; then 20 bytes each: type (0: attribute and label, 1: two labels), from, to, weight
    labels,    "CQDB", size, flag, 0x62445371, count, where the backward array is, from the beginning of the chunk; it
    attributes holds where each record is, by id; a record is id, length of the key with its NUL, key, NUL

Nothing is trusted: every place, size and count is checked before anything is read or allocated.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.errors import ModelFileError
from bridle.labels import MOST_LABELS, MOST_SQUARE
from bridle.lattice import LARGEST
from bridle.models import files

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
    """What a model file of CRFsuite holds."""

    header: dict[str, str]  # as python-crfsuite's `info` has it
    labels: list[str]  # by id
    attributes: list[str]  # by id; bytes that are not UTF-8 are half characters ("surrogateescape")
    state: tuple[Ids, Ids, Weights]  # attribute, label, weight of each state feature, in the order of the file
    transition: tuple[Ids, Ids, Weights]  # label, next label, weight


def read(path: str | os.PathLike[str]) -> Contents:
    """Read a model file.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    Contents

    Raises
    ------
    ModelFileError
        If it cannot be read, is cut off or altered, or is not a model of CRFsuite.
    """
    return files.read_from(path, lambda file, size: parse(file.read(size), str(path)))


def parse(data: bytes, where: str = "a model in memory") -> Contents:
    """Read the bytes of a model file; see `read`."""
    return _Reader(data, where).contents()


class _Reader:
    """One file, in memory."""

    def __init__(self, data: bytes, where: str) -> None:
        self.data, self.where = data, where

    def contents(self) -> Contents:
        data = self.data
        if not data.startswith(MAGIC[: len(data)]) or not data:
            raise self.wrong("this is not a model of CRFsuite", repr(data[:8]), repr(MAGIC), "Is it the right file?")
        if len(data) < _HEADER.size:
            raise self.cut(len(data), f"at least {_HEADER.size} bytes")
        magic, size, kind, version, n_features, n_labels, n_attributes, *places = _HEADER.unpack_from(data)
        if size > len(data):
            raise self.cut(len(data), f"{size:,} bytes, as it says")
        if size < len(data):
            what = "this file is longer than it says"
            raise self.wrong(what, f"{len(data):,} bytes", f"{size:,}", "Was something appended to it?")
        if (kind, version) != (b"FOMC", VERSION):
            cause = "Bridle reads first-order models (1d) of CRFsuite 0.12 and later."
            what = "this kind of CRFsuite model is not known"
            raise self.wrong(what, f"{kind!r}, version {version}", f"{b'FOMC'!r}, version {VERSION}", cause)
        if not 1 <= n_labels <= min(MOST_LABELS, MOST_SQUARE):
            most = f"1 to {min(MOST_LABELS, MOST_SQUARE):,}"
            raise self.wrong("the number of labels is impossible", f"{n_labels:,}", most)
        found = self.features(places[0], n_labels, n_attributes)
        labels = self.strings("labels", places[1], n_labels)
        for label in labels:
            data = label.encode("utf-8", "surrogateescape")
            if not data or data != label.encode("utf-8", "replace"):
                raise self.wrong("a label is not a name", repr(data), "text in UTF-8, one character at least")
        attributes = self.strings("attributes", places[2], n_attributes)
        counts = {"num_features": n_features, "num_labels": n_labels, "num_attrs": n_attributes}
        names = ("off_features", "off_labels", "off_attrs", "off_labelrefs", "off_attrrefs")
        header = {"magic": magic.decode(), "size": str(size), "type": kind.decode(), "version": str(version)}
        header |= {name: str(count) for name, count in counts.items()}
        header |= {name: f"0x{place:X}" for name, place in zip(names, places, strict=True)}
        state, transition = (found[found["type"] == one] for one in (0, 1))
        return Contents(header, labels, attributes, _columns(state), _columns(transition))

    def features(self, place: int, n_labels: int, n_attributes: int) -> npt.NDArray[Any]:
        self.check("features", place, _FEATURES.size)
        sign, _, count = _FEATURES.unpack_from(self.data, place)
        self.signed("features", sign, b"FEAT")
        self.check("features", place, _FEATURES.size + count * _FEATURE.itemsize)
        found = np.frombuffer(self.data, _FEATURE, count, place + _FEATURES.size)
        state, transition = found["type"] == 0, found["type"] == 1
        sources = np.where(state, n_attributes, n_labels)
        with np.errstate(invalid="ignore"):  # NaN is not among the numbers that are fine
            fine = (state | transition) & (found["source"] < sources) & (found["label"] < n_labels)
            fine &= np.abs(found["weight"]) <= LARGEST
        if not fine.all():
            bad = found[int(fine.argmin())]
            got = f"type {bad['type']}, from {bad['source']} to {bad['label']}, weight {bad['weight']:g}"
            wanted = f"{n_attributes:,} attributes, {n_labels:,} labels, weights of at most {LARGEST:g}"
            raise self.wrong("a feature is impossible", got, wanted)
        key = (found["source"].astype(np.int64) * n_labels + found["label"]) * 2 + found["type"]
        if len(np.unique(key)) < count:
            raise self.wrong("a feature occurs twice", f"{count:,} features", "each once")
        return found

    def strings(self, what: str, place: int, count: int) -> list[str]:
        """The texts of a table, by id."""
        self.check(what, place, _STRINGS.size)
        sign, size, _, order, held, back = _STRINGS.unpack_from(self.data, place)
        self.signed(what, sign, b"CQDB")
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
        """Are there so many bytes?"""
        if place + size > len(self.data):
            got = f"{size:,} bytes at {place:,}"
            raise self.wrong(f"the {what} lie outside the file", got, f"a place within {len(self.data):,} bytes")

    def signed(self, what: str, got: bytes, wanted: bytes) -> None:
        """Does a chunk begin as it should?"""
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
    """The numbers of four bytes that begin at places, which need not be aligned."""
    parts = (chunk[places + k].astype(np.int64) << 8 * k for k in range(4))
    total = np.zeros(len(places), dtype=np.int64)
    for part in parts:
        total += part
    return total
