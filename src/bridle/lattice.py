"""Lattices: the scores of one sequence, and batches of them packed without padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bridle.errors import LatticeError

Scores = npt.NDArray[np.float64]
AnyScores = npt.NDArray[np.float32] | Scores


LARGEST = 1e290  # of a score or a penalty: their sums must stay finite


def as_scores(name: str, values: npt.ArrayLike, shape: tuple[int | None, ...], meaning: str) -> AnyScores:
    """A float array of the wanted shape (None: any length) without NaN and +inf. float32 stays float32."""
    try:
        array = np.asarray(values)
        if array.dtype.kind == "c":
            raise TypeError  # numpy would drop the imaginary part
        if array.dtype not in (np.float32, np.float64):
            array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise LatticeError(f"{name} is not an array of numbers", got=type(values).__name__, wanted="floats") from None
    fits = array.ndim == len(shape) and all(w in (None, s) for w, s in zip(shape, array.shape, strict=True))
    if not fits:
        wanted = "(" + ", ".join("any" if s is None else str(s) for s in shape) + ")"
        raise LatticeError(
            f"{name} has a wrong shape",
            got=array.shape,
            wanted=f"{wanted} ({meaning})",
            cause="Scores of one sequence are (positions, labels); did you pass a batch or a transpose?",
        )
    # NaN is the maximum of anything that holds it; most arrays are done after two plain passes.
    fine = not array.size or (float(array.max()) <= LARGEST and float(array.min()) >= -LARGEST)
    if not fine and (wrong := np.argwhere(~((np.abs(array) <= np.float64(LARGEST)) | (array == -np.inf)))).size:
        bad = wrong[0]
        where = "[" + ", ".join(str(int(i)) for i in bad) + "]"
        raise LatticeError(
            f"{name}{where} is not a score",
            got=float(array[tuple(bad)]),
            wanted=f"a number from -{LARGEST:g} to {LARGEST:g}, or -inf for what is impossible",
            cause="An overflow or a log of a negative number upstream?",
        )
    return np.ascontiguousarray(array)


def _pairwise(values: npt.ArrayLike, steps: int, m: int) -> AnyScores:
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
    """Many sequences packed without padding: sequence k has the tokens offsets[k] .. offsets[k+1]-1."""

    unary: AnyScores  # (N, m)  all tokens of all sequences
    offsets: npt.NDArray[np.int64]  # (sequences + 1,)
    pairwise: AnyScores | None = None  # (m, m), shared by all
    start: AnyScores | None = None  # (m,)
    end: AnyScores | None = None  # (m,)

    def __init__(
        self,
        unary: npt.ArrayLike,
        offsets: npt.ArrayLike,
        pairwise: npt.ArrayLike | None = None,
        start: npt.ArrayLike | None = None,
        end: npt.ArrayLike | None = None,
    ) -> None:
        put = object.__setattr__
        u = as_scores("unary", unary, (None, None), "tokens of all sequences x labels")
        total, m = u.shape
        if m == 0:
            raise LatticeError("unary has no labels", got=u.shape, wanted="at least one column")
        cuts = _whole_numbers("offsets", offsets)
        if cuts.ndim != 1 or len(cuts) < 1 or cuts[0] != 0 or cuts[-1] != total or (cuts[1:] < cuts[:-1]).any():
            raise LatticeError(
                "offsets do not cut the tokens into sequences",
                got=f"{cuts.tolist()[:6]}..." if cuts.size > 6 else cuts.tolist(),
                wanted=f"rising numbers from 0 to {total}",
                cause="offsets has one entry more than there are sequences: [0, n0, n0 + n1, ...].",
            )
        put(self, "unary", u)
        put(self, "offsets", cuts)
        put(self, "pairwise", None if pairwise is None else as_scores("pairwise", pairwise, (m, m), "labels x labels"))
        put(self, "start", None if start is None else as_scores("start", start, (m,), "labels"))
        put(self, "end", None if end is None else as_scores("end", end, (m,), "labels"))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_labels(self) -> int:
        return int(self.unary.shape[1])

    def part(self, low: int, high: int) -> Batch:
        """Sequences low .. high-1, without a copy."""
        made = object.__new__(Batch)
        tokens = slice(int(self.offsets[low]), int(self.offsets[high]))
        cuts = self.offsets[low : high + 1] - self.offsets[low]
        values = (self.unary[tokens], cuts, self.pairwise, self.start, self.end)
        for name, value in zip(("unary", "offsets", "pairwise", "start", "end"), values, strict=True):
            object.__setattr__(made, name, value)
        return made

    def __getitem__(self, k: int) -> Lattice:
        """Sequence k as a Lattice."""
        if not -len(self) <= k < len(self):
            raise IndexError(f"sequence {k} of {len(self)}")
        k %= len(self)
        return Lattice(self.unary[self.offsets[k] : self.offsets[k + 1]], self.pairwise, self.start, self.end)


Lattices = Batch | Sequence[Lattice]


def subset(lattices: Lattices, chosen: npt.NDArray[np.integer]) -> Lattices:
    """Some sequences of a batch, in this order."""
    if not isinstance(lattices, Batch):
        return [lattices[k] for k in chosen.tolist()]
    lengths = np.diff(lattices.offsets)[chosen]
    cuts = np.concatenate([[0], np.cumsum(lengths)])
    tokens = np.arange(cuts[-1]) + np.repeat(lattices.offsets[chosen] - cuts[:-1], lengths)
    return Batch(lattices.unary[tokens], cuts, lattices.pairwise, lattices.start, lattices.end)
