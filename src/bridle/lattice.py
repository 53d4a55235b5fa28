"""Lattices: the scores of one sequence, and batches of them packed without padding."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.errors import LatticeError
from bridle.labels import MOST_SQUARE

Scores = npt.NDArray[np.float64]
AnyScores = npt.NDArray[np.float32] | Scores


LARGEST = 1e290  # of a score or a penalty: their sums must stay finite


def as_array(name: str, values: Any) -> npt.NDArray[Any]:
    """An array of what NumPy, torch, JAX or TensorFlow hold, without a copy where the memory allows.

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
        cause = None if "cpu" in device.lower() else f"It lies on the device {device}; move it with .cpu()."
        raise LatticeError(
            f"{name} is not an array of numbers", got=type(values).__name__, wanted="floats", cause=cause
        ) from (error if cause else None)


def _first_bad(array: AnyScores) -> int | None:
    """Where (counted flat) something stands that is not a score."""
    flat: Any = np.ascontiguousarray(array).reshape(-1)
    at = _native.first_bad(flat, LARGEST)
    return None if at == array.size else int(at)


def _not_a_score(name: str, array: AnyScores, at: tuple[int, ...]) -> LatticeError:
    return LatticeError(
        f"{name}[{', '.join(map(str, at))}] is not a score",
        got=float(array[at]),
        wanted=f"a number from -{LARGEST:g} to {LARGEST:g}, or -inf for what is impossible",
        cause="An overflow or a log of a negative number upstream?",
    )


def _check_shape(name: str, array: AnyScores, shape: tuple[int | None, ...], meaning: str, cause: str) -> None:
    if array.shape == shape:
        return
    fits = array.ndim == len(shape) and all(w in (None, s) for w, s in zip(shape, array.shape, strict=True))
    if not fits:
        wanted = "(" + ", ".join("any" if s is None else str(s) for s in shape) + ")"
        raise LatticeError(f"{name} has a wrong shape", got=array.shape, wanted=f"{wanted} ({meaning})", cause=cause)


def as_scores(name: str, values: npt.ArrayLike, shape: tuple[int | None, ...], meaning: str) -> AnyScores:
    """A float array of the wanted shape (None: any length) without NaN and +inf. float32 stays float32."""
    array = np.ascontiguousarray(as_array(name, values))
    if np.ndim(values) == 0:
        array = array.reshape(())  # NumPy makes a vector of it
    _check_shape(name, array, shape, meaning,
                 "Scores of one sequence are (positions, labels); did you pass a batch or a transpose?")  # fmt: skip
    if (bad := _first_bad(array)) is not None:
        raise _not_a_score(name, array, tuple(map(int, np.unravel_index(bad, array.shape))))
    return array


def _check_square(m: int) -> None:
    """Raise if transition scores would be too large, before anything is copied."""
    if m > MOST_SQUARE:
        raise LatticeError(
            "pairwise scores are for fewer labels", got=f"{m:,} labels", wanted=f"at most {MOST_SQUARE:,}",
            cause="Leave pairwise out: without it, scores of so many labels can be decoded.",
        )  # fmt: skip


def _pairwise(values: npt.ArrayLike, steps: int, m: int) -> AnyScores:
    _check_square(m)
    try:
        per_step = np.ndim(values) == 3
    except ValueError:  # ragged lists; the check below says so
        per_step = False
    if per_step:
        return as_scores("pairwise", values, (steps, m, m), "positions - 1 x labels x labels")
    return as_scores("pairwise", values, (m, m), "labels x labels")


def _whole_numbers(name: str, values: npt.ArrayLike) -> npt.NDArray[np.int64]:
    try:
        array = np.asarray(values)
    except ValueError:  # ragged lists
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "iu":
        raise LatticeError(f"{name} are not whole numbers", got=repr(values)[:60], wanted="a list of whole numbers")
    return np.ascontiguousarray(array, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """Log-scores of one sequence; -inf means impossible.

    score(y) = start[y0] + sum unary[t, yt] + sum pairwise[y(t-1), yt] + end[y(n-1)]
    """

    unary: AnyScores  # (n, m)  label y at position t
    pairwise: AnyScores | None = None  # (m, m)  label i just before label j, or (n-1, m, m): from t to t+1
    start: AnyScores | None = None  # (m,)    first label
    end: AnyScores | None = None  # (m,)    last label

    def __init__(
        self,
        unary: npt.ArrayLike,
        pairwise: npt.ArrayLike | None = None,
        start: npt.ArrayLike | None = None,
        end: npt.ArrayLike | None = None,
    ) -> None:
        put = object.__setattr__
        u = as_scores("unary", unary, (None, None), "positions x labels")
        n, m = u.shape
        if m == 0:
            raise LatticeError("unary has no labels", got=u.shape, wanted="at least one column")
        put(self, "unary", u)
        put(self, "pairwise", None if pairwise is None else _pairwise(pairwise, max(n - 1, 0), m))
        put(self, "start", None if start is None else as_scores("start", start, (m,), "labels"))
        put(self, "end", None if end is None else as_scores("end", end, (m,), "labels"))

    def __len__(self) -> int:
        return int(self.unary.shape[0])

    @property
    def n_labels(self) -> int:
        return int(self.unary.shape[1])

    def __repr__(self) -> str:
        extra = [name for name in ("pairwise", "start", "end") if getattr(self, name) is not None]
        return f"Lattice({len(self)} positions x {self.n_labels} labels{''.join(', ' + e for e in extra)})"

    def score(self, ids: Sequence[int] | npt.NDArray[np.integer]) -> float:
        """The score of one labelling, given as ids."""
        y, n = np.asarray(ids), len(self)
        if y.shape != (n,):
            raise LatticeError("a labelling has another length than its lattice", got=y.shape, wanted=f"({n},)")
        if n == 0:
            return 0.0
        if y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= self.n_labels:
            raise LatticeError(
                "a labelling holds what is no label id", got=y.tolist() if n <= 12 else f"{y.tolist()[:12]}...",
                wanted=f"whole numbers 0 .. {self.n_labels - 1}", cause="Names become ids by Labels.ids().",
            )  # fmt: skip
        total = float(self.unary[np.arange(n), y].sum(dtype=np.float64))
        if self.pairwise is not None and n > 1:
            steps = self.pairwise[y[:-1], y[1:]] if self.pairwise.ndim == 2 else self.pairwise[
                np.arange(n - 1), y[:-1], y[1:]
            ]
            total += float(steps.sum(dtype=np.float64))
        if self.start is not None:
            total += float(self.start[y[0]])
        if self.end is not None:
            total += float(self.end[y[-1]])
        return total


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Many sequences in one array, packed end to end or padded.

    Packed, sequence k has the tokens offsets[k] .. offsets[k+1]-1. From `from_padded`, the rows of sequence k begin at
    first[k]; offsets count its tokens as if they were packed. The scores are borrowed, not copied: do not change them
    while they are in use.
    """

    unary: AnyScores  # (rows, m)
    offsets: npt.NDArray[np.int64]  # (sequences + 1,)
    pairwise: AnyScores | None = None  # (m, m), shared by all
    start: AnyScores | None = None  # (m,)
    end: AnyScores | None = None  # (m,)
    first: npt.NDArray[np.int64] | None = None  # (sequences,)  None: packed
    length: int | None = None  # T of (B, T, m), if it was padded

    def __init__(
        self,
        unary: npt.ArrayLike,
        offsets: npt.ArrayLike,
        pairwise: npt.ArrayLike | None = None,
        start: npt.ArrayLike | None = None,
        end: npt.ArrayLike | None = None,
    ) -> None:
        u = as_scores("unary", unary, (None, None), "tokens of all sequences x labels")
        total = len(u)
        cuts = _whole_numbers("offsets", offsets)
        if cuts.ndim != 1 or len(cuts) < 1 or cuts[0] != 0 or cuts[-1] != total or (cuts[1:] < cuts[:-1]).any():
            raise LatticeError(
                "offsets do not cut the tokens into sequences",
                got=f"{cuts.tolist()[:6]}..." if cuts.size > 6 else cuts.tolist(),
                wanted=f"rising numbers from 0 to {total}",
                cause="offsets has one entry more than there are sequences: [0, n0, n0 + n1, ...].",
            )
        self._fill(u, cuts, *_shared(u.shape[1], pairwise, start, end), None, None)

    def _fill(self, *values: Any) -> None:
        for name, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, name, value)

    @classmethod
    def _made(cls, *values: Any) -> Batch:
        made = object.__new__(cls)
        made._fill(*values)
        return made

    @classmethod
    def from_padded(
        cls,
        scores: Any,
        lengths: npt.ArrayLike | None = None,
        mask: npt.ArrayLike | None = None,
        *,
        pairwise: npt.ArrayLike | None = None,
        start: npt.ArrayLike | None = None,
        end: npt.ArrayLike | None = None,
    ) -> Batch:
        """Sequences that are padded to one length, as networks give them.

        Parameters
        ----------
        scores : array or tensor, shape (B, T, m)
            Scores of B sequences of up to T tokens. NumPy arrays and whatever has ``__array__`` or ``__dlpack__``
            (torch, JAX, TensorFlow) are taken without a copy if they are contiguous and float32 or float64.
        lengths : array of int, shape (B,), optional
            The number of tokens of each sequence; the rest of its row is padding, whatever it holds.
        mask : array of bool or int, shape (B, T), optional
            Instead of `lengths`: 1 for tokens, 0 for padding, which may stand on either side. Without both, every
            sequence has T tokens.
        pairwise, start, end : array, optional
            Scores of transitions (m, m), first and last labels (m,), shared by all sequences.

        Returns
        -------
        Batch
            ``decoder.decode_batch(batch).padded()`` gives the labels back as (B, T).

        Raises
        ------
        LatticeError
            If shapes do not fit, a length is beyond T, a mask has holes, or a token has a score that is no number.

        Examples
        --------
        >>> import numpy as np, bridle
        >>> scores = np.array([[[2, 0], [0, 1]], [[0, 3], [9, 9]]], dtype=np.float32)
        >>> batch = bridle.Batch.from_padded(scores, lengths=[2, 1])
        >>> bridle.Decoder(bridle.Labels(["O", "X"])).decode_batch(batch).padded()
        array([[ 0,  1],
               [ 1, -1]], dtype=int32)
        """
        grid = as_array("scores", scores)
        _check_shape("scores", grid, (None, None, None), "sequences x tokens x labels",
                     "Are the labels the last axis, and the sequences the first?")  # fmt: skip
        count, length, m = grid.shape
        sizes, begin = _extents(count, length, lengths, mask)
        offsets = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(sizes, out=offsets[1:])
        rows = np.ascontiguousarray(grid).reshape(count * length, m)
        first = np.arange(count, dtype=np.int64) * length + begin
        if _first_bad(rows) is not None:  # padding may hold anything
            for k, (low, size) in enumerate(zip(first.tolist(), sizes.tolist(), strict=True)):
                if (bad := _first_bad(rows[low : low + size])) is not None:
                    raise _not_a_score("scores", grid, (k, int(begin[k]) + bad // m, bad % m))
        return cls._made(rows, offsets, *_shared(m, pairwise, start, end), first, length)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_labels(self) -> int:
        return int(self.unary.shape[1])

    def part(self, low: int, high: int) -> Batch:
        """Sequences low .. high-1, without a copy."""
        if (low, high) == (0, len(self)):
            return self
        cuts = self.offsets[low : high + 1] - self.offsets[low]
        shared = (self.pairwise, self.start, self.end)
        if self.first is not None:
            return self._made(self.unary, cuts, *shared, self.first[low:high], self.length)
        return self._made(self.unary[self.offsets[low] : self.offsets[high]], cuts, *shared, None, None)

    def rows(self, k: int) -> AnyScores:
        """(n, m): the scores of sequence k."""
        begin = int(self.offsets[k] if self.first is None else self.first[k])
        return self.unary[begin : begin + int(self.offsets[k + 1] - self.offsets[k])]

    def __getitem__(self, k: int) -> Lattice:
        """Sequence k as a Lattice."""
        if not -len(self) <= k < len(self):
            raise IndexError(f"sequence {k} of {len(self)}")
        return Lattice(self.rows(k % len(self)), self.pairwise, self.start, self.end)


def _shared(
    m: int, pairwise: npt.ArrayLike | None, start: npt.ArrayLike | None, end: npt.ArrayLike | None
) -> tuple[AnyScores | None, AnyScores | None, AnyScores | None]:
    """The scores that all sequences of a batch share, checked."""
    if m == 0:
        raise LatticeError("unary has no labels", got="no columns", wanted="at least one column")
    if pairwise is not None:
        _check_square(m)
    return (
        None if pairwise is None else as_scores("pairwise", pairwise, (m, m), "labels x labels"),
        None if start is None else as_scores("start", start, (m,), "labels"),
        None if end is None else as_scores("end", end, (m,), "labels"),
    )


def _extents(
    count: int, length: int, lengths: npt.ArrayLike | None, mask: npt.ArrayLike | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """How many tokens each padded sequence has, and where they begin."""
    begin = np.zeros(count, dtype=np.int64)
    if lengths is not None and mask is not None:
        raise LatticeError("lengths and mask say the same thing", got="both", wanted="one of them")
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
                "mask has holes", got="tokens on both sides of padding", wanted="the tokens of a sequence side by side",
                cause="Is it a mask of sub-words? Choose the scores of whole words first.",
            )
        return sizes, begin
    if lengths is None:
        return np.full(count, length, dtype=np.int64), begin
    sizes = _whole_numbers("lengths", lengths)
    if sizes.shape != (count,):
        raise LatticeError("lengths has a wrong shape", got=sizes.shape, wanted=f"({count},) (sequences)")
    if count and not 0 <= sizes.min() <= sizes.max() <= length:
        wrong = sizes[(sizes < 0) | (sizes > length)][0]
        wanted = f"0 to {length}, the tokens there are"
        raise LatticeError("a length is beyond the scores", got=int(wrong), wanted=wanted)
    return sizes, begin


Lattices = Batch | Sequence[Lattice]


def subset(lattices: Lattices, chosen: npt.NDArray[np.integer]) -> Lattices:
    """Some sequences of a batch, in this order."""
    if not isinstance(lattices, Batch):
        return [lattices[k] for k in chosen.tolist()]
    lengths = np.diff(lattices.offsets)[chosen]
    cuts = np.concatenate([[0], np.cumsum(lengths)])
    begin = lattices.offsets[:-1] if lattices.first is None else lattices.first
    tokens = np.arange(cuts[-1]) + np.repeat(begin[chosen] - cuts[:-1], lengths)
    return Batch(lattices.unary[tokens], cuts, lattices.pairwise, lattices.start, lattices.end)
