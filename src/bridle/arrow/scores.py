"""Scores in columns of Arrow tables: lists of lists of numbers, tokens x labels, read where they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.arrow.reading import Errors, arrow, is_kind, is_list, lists_of, nulls
from bridle.errors import LatticeError
from bridle.lattice import LARGEST
from bridle.texts import Offsets


def wrong_type(kind: Any, m: int) -> str | None:
    """The type of a column of scores of m labels, if this type can never be one."""
    wanted = f"list<list<float>> or list<fixed_size_list<float, {m}>>"
    if is_kind(kind, "null"):
        return None
    inner = kind.value_type if is_list(kind) else None
    if inner is None or not (is_list(inner) or is_kind(inner, "null")):
        return wanted
    if is_kind(inner, "null"):
        return None
    if is_kind(inner, "fixed_size_list") and inner.list_size != m:
        return f"{wanted}: {m} labels"
    return None if is_kind(inner.value_type, "floating", "integer", "null") else wanted


@dataclass(frozen=True, slots=True)
class ScoreColumn:
    """Some rows of a column of scores."""

    unary: npt.NDArray[Any]  # (N, m) float32 or float64; of no use if there are errors
    offsets: Offsets  # (B + 1) from 0
    errors: Errors  # rows that cannot be read

    @classmethod
    def of(cls, array: Any, name: str, m: int) -> ScoreColumn:
        """The rows of an array, for m labels."""
        pa = arrow()
        if is_kind(array.type, "null") or is_kind(array.type.value_type, "null"):
            array = array.cast(pa.large_list(pa.large_list(pa.float64())))
        tokens, offsets, errors = lists_of(array, name)
        values, cuts, missing = lists_of(tokens, name)
        wrong = {t: _error(f"the scores of a token in {name!r} are null", "null", "numbers") for t in missing}
        for t in np.flatnonzero(np.diff(cuts) != m).tolist():
            got = f"{cuts[t + 1] - cuts[t]} numbers"
            wrong.setdefault(t, _error(f"a token in {name!r} has another number of scores", got, f"{m}, one per label"))
        flat = _flat(values)
        for at in _bad(values, flat):
            t = int(np.searchsorted(cuts, at, side="right")) - 1
            got = "null" if not values[at].is_valid else str(float(flat[at]))
            wanted = "numbers; -inf for a label that is impossible"
            wrong.setdefault(t, _error(f"a score in {name!r} is not a number to count with", got, wanted))
        for t, error in wrong.items():
            errors.setdefault(int(np.searchsorted(offsets, t, side="right")) - 1, error)
        return cls(flat[:0].reshape(0, m) if errors else flat.reshape(-1, m), offsets, errors)


def _flat(values: Any) -> npt.NDArray[Any]:
    """Numbers where they are, if they are float or double."""
    pa = arrow()
    if not is_kind(values.type, "float32", "float64"):
        values = values.cast(pa.float32() if is_kind(values.type, "float16") else pa.float64(), safe=False)
    buffer, dtype = values.buffers()[1], np.float32 if is_kind(values.type, "float32") else np.float64
    if buffer is None:
        return np.zeros(0, dtype=dtype)
    return np.frombuffer(buffer, dtype=dtype)[values.offset : values.offset + len(values)]


def _bad(values: Any, flat: npt.NDArray[Any]) -> list[int]:
    """Where numbers are missing, not a number, or too large."""
    if not values.null_count and _native.first_bad(flat, LARGEST) == len(flat):
        return []
    bad = ~((np.abs(flat.astype(np.float64)) <= LARGEST) | (flat == -np.inf))
    if values.null_count:
        bad[nulls(values)] = True
    return list(map(int, np.flatnonzero(bad)))


def _error(what: str, got: str, wanted: str) -> LatticeError:
    return LatticeError(what, got=got, wanted=wanted)
