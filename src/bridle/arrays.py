"""Numbers and arrays that users pass, as NumPy, torch, JAX and TensorFlow hold them: converted and checked."""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.errors import LatticeError, shown

Ints = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]
AnyScores = npt.NDArray[np.float32] | Scores

LARGEST = 1e290  # of a score or a penalty: their sums must stay finite
_SHAPE = "Scores of one sequence are (positions, labels); did you pass a batch or a transpose?"


def is_integer(value: object, low: float = -math.inf, high: float = math.inf) -> TypeGuard[int]:
    """Return whether a value is an integer, Python's or NumPy's, from `low` to `high`; truth values are not.

    >>> is_integer(3, 1), is_integer(np.int64(0), 1), is_integer(True), is_integer(2.0)
    (True, False, False, False)
    """
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        return False
    return bool(low <= value <= high)


def as_array(name: str, values: Any) -> npt.NDArray[Any]:
    """Return an array of what NumPy, torch, JAX or TensorFlow hold, without a copy where the memory allows.

    float32 and float64 stay as they are; float16 and bfloat16 (of torch, of ml_dtypes, or as uint16 bits) become
    float32, which holds them exactly; everything else becomes float64.
    """
    if isinstance(values, np.ndarray) and values.dtype in (np.float32, np.float64):
        return values
    try:
        if getattr(values, "requires_grad", False):  # torch: scores of a model under training
            values = values.detach()
        if str(getattr(values, "dtype", "")) == "torch.bfloat16":  # which NumPy does not know
            values = values.view(sys.modules["torch"].uint16)
        plain = isinstance(values, np.ndarray) or hasattr(values, "__array__") or not hasattr(values, "__dlpack__")
        array = np.asarray(values) if plain else np.from_dlpack(values)
        if array.dtype in (np.float32, np.float64):
            return array
        if array.dtype.kind == "c":
            raise TypeError("complex numbers")  # NumPy would drop the imaginary part
        if array.dtype == np.uint16:
            return (array.astype(np.uint32) << 16).view(np.float32)
        if array.dtype == np.float16 or array.dtype.name == "bfloat16":
            return array.astype(np.float32)
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError, BufferError) as error:
        device = str(getattr(values, "device", "cpu"))
        cause = None if "cpu" in device.lower() else f"It is on the device {device}; move it with .cpu()."
        raise LatticeError(
            f"{name} is not an array of numbers", got=type(values).__name__, wanted="floats", cause=cause
        ) from (error if cause else None)


def first_bad(array: AnyScores) -> int | None:
    """Return the flat index of the first element that is not a score, or None."""
    flat: Any = np.ascontiguousarray(array).reshape(-1)
    at = _native.first_bad(flat, LARGEST)
    return None if at == array.size else int(at)


def not_a_score(name: str, array: AnyScores, at: tuple[int, ...]) -> LatticeError:
    """Return the error for a NaN, +inf or a number that is too large."""
    return LatticeError(
        f"{name}[{', '.join(map(str, at))}] is not a score",
        got=float(array[at]),
        wanted=f"a number between -{LARGEST:g} and {LARGEST:g}, or -inf for an impossible label",
        cause="An overflow or a log of a negative number upstream?",
    )


def check_shape(name: str, array: AnyScores, shape: tuple[int | None, ...], meaning: str, cause: str) -> None:
    """Raise `LatticeError` unless the array has the shape (None: any length)."""
    if array.shape == shape:
        return
    fits = array.ndim == len(shape) and all(w in (None, s) for w, s in zip(shape, array.shape, strict=True))
    if not fits:
        wanted = "(" + ", ".join("any" if s is None else str(s) for s in shape) + ")"
        raise LatticeError(f"{name} has a wrong shape", got=array.shape, wanted=f"{wanted} ({meaning})", cause=cause)


def as_scores(name: str, values: npt.ArrayLike, shape: tuple[int | None, ...], meaning: str) -> AnyScores:
    """Return a float array of a shape (None: any length) without NaN and +inf. float32 stays float32."""
    array = np.ascontiguousarray(as_array(name, values))
    if np.ndim(values) == 0:
        array = array.reshape(())  # NumPy makes a vector of it
    check_shape(name, array, shape, meaning, _SHAPE)
    if (bad := first_bad(array)) is not None:
        raise not_a_score(name, array, tuple(map(int, np.unravel_index(bad, array.shape))))
    return array


def own_scores(
    name: str, values: Any, shape: tuple[int | None, ...], meaning: str, *, shared: bool = False
) -> AnyScores:
    """Return a read-only copy of the scores. shared: the array is likely to come again, and is copied once."""
    source, copy = _copies.get(id(values), _NOTHING) if shared else _NOTHING
    known = copy()
    if known is not None and (known is values or (source() is values and _same(known, np.asarray(values)))):
        check_shape(name, known, shape, meaning, _SHAPE)
        return known
    private = isinstance(values, (list, tuple))
    array = as_array(name, values)
    array = as_scores(name, array if private else np.array(array, order="C"), shape, meaning)
    array.setflags(write=False)
    owned = array.view()  # which cannot be owned writable again
    if shared:
        if len(_copies) >= _MOST_COPIES:
            _copies.clear()
        if isinstance(values, np.ndarray):
            _copies[id(values)] = weakref.ref(values), weakref.ref(owned)
        _copies[id(owned)] = weakref.ref(owned), weakref.ref(owned)  # it may come again itself, from a batch
    return owned


_Reference = Callable[[], "npt.NDArray[Any] | None"]  # a weak one: lattices keep the copies
_NOTHING: tuple[_Reference, _Reference] = (lambda: None, lambda: None)
_copies: dict[int, tuple[_Reference, _Reference]] = {}  # by the id of an array: itself, and its copy
_MOST_COPIES = 16


def _same(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    return a.dtype == b.dtype and np.array_equal(a, b)


def check_square(m: int) -> None:
    """Raise `LatticeError` if transition scores would be too large, before anything is copied."""
    if m > _native.MOST_SQUARE:
        raise LatticeError(
            "too many labels for pairwise scores",
            got=f"{m:,} labels",
            wanted=f"at most {_native.MOST_SQUARE:,}",
            cause="Without pairwise scores, you can decode this many labels.",
        )


def as_pairwise(values: npt.ArrayLike, steps: int, m: int) -> AnyScores:
    """Return the scores of transitions: (m, m), or (steps, m, m)."""
    check_square(m)
    try:
        per_step = np.ndim(values) == 3
    except ValueError:  # ragged lists; the check below says so
        per_step = False
    if per_step:
        return own_scores("pairwise", values, (steps, m, m), "positions - 1 x labels x labels")
    return own_scores("pairwise", values, (m, m), "labels x labels", shared=True)


def as_integers(name: str, values: npt.ArrayLike) -> Ints:
    """Return an array of integers."""
    try:
        array = np.asarray(values)
    except ValueError:  # ragged lists
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "iu":
        raise LatticeError(f"{name} must be integers", got=shown(values), wanted="a list of integers")
    return np.ascontiguousarray(array, dtype=np.int64)


def extents(count: int, length: int, lengths: npt.ArrayLike | None, mask: npt.ArrayLike | None) -> tuple[Ints, Ints]:
    """Return the number of tokens of each padded sequence, and where they begin."""
    begin = np.zeros(count, dtype=np.int64)
    if lengths is not None and mask is not None:
        raise LatticeError("`lengths` and `mask` cannot be combined", got="both", wanted="one of them")
    if mask is not None:
        inside = np.asarray(mask)
        if inside.shape != (count, length):
            wanted = f"{(count, length)} (sequences x tokens)"
            raise LatticeError("mask has a wrong shape", got=inside.shape, wanted=wanted)
        inside = inside != 0
        sizes = inside.sum(axis=1, dtype=np.int64)
        if length:
            begin = inside.argmax(axis=1).astype(np.int64)
        at = np.arange(length)
        if (inside != ((at >= begin[:, None]) & (at < (begin + sizes)[:, None]))).any():
            raise LatticeError(
                "the mask has padding between tokens",
                got="tokens on both sides of padding",
                wanted="contiguous tokens in every sequence",
                cause="Is it a mask of sub-words? Choose the scores of whole words first.",
            )
        return sizes, begin
    if lengths is None:
        return np.full(count, length, dtype=np.int64), begin
    sizes = as_integers("lengths", lengths)
    if sizes.shape != (count,):
        raise LatticeError("lengths has a wrong shape", got=sizes.shape, wanted=f"({count},) (sequences)")
    if count and not 0 <= sizes.min() <= sizes.max() <= length:
        wrong = sizes[(sizes < 0) | (sizes > length)][0]
        wanted = f"0 to {length}, the tokens there are"
        raise LatticeError("a length exceeds the number of tokens", got=int(wrong), wanted=wanted)
    return sizes, begin


def ranges(cuts: Ints, chosen: npt.NDArray[np.integer]) -> tuple[Ints, Ints]:
    """Return the rows cuts[k] .. cuts[k + 1] - 1 of some parts k, end to end, and where each part begins among them."""
    lengths = cuts[chosen + 1] - cuts[chosen]
    begin = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return np.arange(begin[-1]) + np.repeat(cuts[chosen] - begin[:-1], lengths), begin
