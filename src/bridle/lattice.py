"""Lattices: the scores of one sequence, and batches of them packed without padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.arrays import (
    LARGEST,
    AnyScores,
    Scores,
    as_array,
    as_integers,
    as_pairwise,
    as_scores,
    check_shape,
    check_square,
    extents,
    first_bad,
    not_a_score,
    own_scores,
    ranges,
)
from bridle.errors import LatticeError

__all__ = ["LARGEST", "AnyScores", "Batch", "Lattice", "Lattices", "Scores", "Steps", "as_array", "as_scores", "subset"]


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """Scores of one sequence of n tokens over m labels; -inf means impossible.

    The score of a labelling y is a sum, usually of log-probabilities or of the logits of a network::

        score(y) = start[y0] + sum unary[t, yt] + sum pairwise[y(t-1), yt] + end[y(n-1)]

    Parameters
    ----------
    unary : array of float, shape (n, m)
        Score of each label at each position.
    pairwise : array of float, shape (m, m) or (n - 1, m, m), optional
        Score of label j directly after label i, ``pairwise[i, j]``; with three axes, one table per step.
    start, end : array of float, shape (m,), optional
        Score of each label at the first and at the last position.

    Raises
    ------
    LatticeError
        If shapes do not fit together, or a score is NaN, +inf or beyond 1e290.

    See Also
    --------
    Batch : Many sequences in one array.

    Notes
    -----
    NumPy arrays, lists and tensors (torch, JAX, TensorFlow) are taken. A lattice owns its scores: it copies them and
    keeps the copy read-only. Read-only arrays are not copied.

    Examples
    --------
    >>> import bridle
    >>> lattice = bridle.Lattice([[2, 0], [1, 1]], pairwise=[[0, 1], [0, 0]])
    >>> lattice
    Lattice(2 positions x 2 labels, pairwise)
    >>> lattice.score([0, 1])  # 2 + 1 + pairwise[0, 1]
    4.0
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
        u = own_scores("unary", unary, (None, None), "positions x labels")
        n, m = u.shape
        if m == 0:
            raise LatticeError("unary has no labels", got=u.shape, wanted="at least one column")
        put(self, "unary", u)
        put(self, "pairwise", None if pairwise is None else as_pairwise(pairwise, max(n - 1, 0), m))
        put(self, "start", None if start is None else own_scores("start", start, (m,), "labels", shared=True))
        put(self, "end", None if end is None else own_scores("end", end, (m,), "labels", shared=True))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.unary, self.pairwise, self.start, self.end)

    def __len__(self) -> int:
        return int(self.unary.shape[0])

    @property
    def n_labels(self) -> int:
        """Number of labels, m."""
        return int(self.unary.shape[1])

    def __repr__(self) -> str:
        extra = [name for name in ("pairwise", "start", "end") if getattr(self, name) is not None]
        return f"Lattice({len(self)} positions x {self.n_labels} labels{''.join(', ' + e for e in extra)})"

    def score(self, ids: Sequence[int] | npt.NDArray[np.integer]) -> float:
        """Compute the score of one labelling.

        Parameters
        ----------
        ids : sequence of int, length n
            A label id per position; `Labels.ids` makes them of names.

        Returns
        -------
        float
            The sum of all its scores, without penalties of rules; -inf if it is impossible.

        Raises
        ------
        LatticeError
            If there are more or fewer ids than positions, or one is not the id of a label.
        """
        y, n = np.asarray(ids), len(self)
        if y.shape != (n,):
            raise LatticeError("a labelling has another length than its lattice", got=y.shape, wanted=f"({n},)")
        if n == 0:
            return 0.0
        if y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= self.n_labels:
            raise LatticeError(
                "a labelling contains an invalid label id",
                got=y.tolist() if n <= 12 else f"{y.tolist()[:12]}...",
                wanted=f"integers 0 .. {self.n_labels - 1}",
                cause="Convert names to ids with Labels.ids().",
            )
        total = float(self.unary[np.arange(n), y].sum(dtype=np.float64))
        if self.pairwise is not None and n > 1:
            steps = (
                self.pairwise[y[:-1], y[1:]]
                if self.pairwise.ndim == 2
                else self.pairwise[np.arange(n - 1), y[:-1], y[1:]]
            )
            total += float(steps.sum(dtype=np.float64))
        if self.start is not None:
            total += float(self.start[y[0]])
        if self.end is not None:
            total += float(self.end[y[-1]])
        return total


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Additions to transition scores, token by token, for the tokens of many sequences end to end.

    A model with templates such as ``label[-1] word[0]`` has transition scores that differ from token to token, but
    mostly in few of the m x m pairs of labels. So only these are kept; tables are made for some sequences at a time.

    Attributes
    ----------
    indptr : array of int, shape (N + 1,)
        Where the additions of each token begin; the first token of a sequence has none.
    pair : array of int, shape (K,)
        The pair of labels, ``i * m + j`` for label j after label i; each once per token.
    score : array of float32, shape (K,)
        The addition.
    """

    indptr: npt.NDArray[np.int64]
    pair: npt.NDArray[np.int32]
    score: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Join the steps of parts of the tokens, in order."""
        before = np.cumsum([0, *(part.indptr[-1] for part in parts)])
        cuts = [part.indptr[1:] + start for part, start in zip(parts, before, strict=False)]
        return cls(
            np.concatenate([[0], *cuts]).astype(np.int64),
            np.concatenate([part.pair for part in parts]),
            np.concatenate([part.score for part in parts]),
        )

    def part(self, low: int, high: int) -> Self:
        """Return the steps of tokens low .. high-1, without a copy of the scores."""
        begin, end = self.indptr[[low, high]].tolist()
        return type(self)(self.indptr[low : high + 1] - begin, self.pair[begin:end], self.score[begin:end])

    def subset(self, tokens: npt.NDArray[np.integer]) -> Self:
        """Return the steps of some tokens, in this order."""
        at, indptr = ranges(self.indptr, tokens)
        return type(self)(indptr, self.pair[at], self.score[at])

    def tables(self, pairwise: AnyScores | None, low: int, high: int, m: int) -> Scores:
        """Return (high - low, m, m): the scores of transitions to tokens low .. high-1, with those of `pairwise`."""
        out = np.empty((max(high - low, 0), m, m))
        if len(out):
            base = None if pairwise is None else np.ascontiguousarray(pairwise, dtype=np.float64)
            _native.fill_steps(base, self.indptr, self.pair, self.score, low, out)
        return out

    def check(self, n_tokens: int, m: int) -> None:
        """Raise `LatticeError` if the kernels could not read the arrays."""
        fits = (
            [a.dtype.name for a in (self.indptr, self.pair, self.score)] == ["int64", "int32", "float32"]
            and self.indptr.shape == (n_tokens + 1,)
            and self.indptr[0] == 0
            and bool((np.diff(self.indptr) >= 0).all())
            and self.pair.shape == self.score.shape == (self.indptr[-1],)
            and (not self.pair.size or 0 <= int(self.pair.min()) <= int(self.pair.max()) < m * m)
        )
        if not fits:
            raise LatticeError("the steps do not fit the tokens", wanted="additions for pairs of labels, per token")
        self.check_scores()

    def check_scores(self) -> None:
        """Raise `LatticeError` if an addition is infinite."""
        if _native.first_bad(self.score, LARGEST) < self.score.size or np.isneginf(self.score).any():
            raise LatticeError("an addition to transition scores is not a score", wanted="finite numbers")


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Many sequences in one array, packed end to end or padded.

    Packed, sequence k has the rows ``offsets[k]`` to ``offsets[k + 1] - 1`` of `unary`. For padded scores see
    `from_padded`: there the rows of sequence k begin at ``first[k]``, and offsets count tokens as if they were packed.
    The scores are borrowed, not copied: do not change them while they are in use.

    Parameters
    ----------
    unary : array of float, shape (N, m)
        Scores of the N tokens of all sequences.
    offsets : array of int, shape (B + 1,)
        Where each of the B sequences begins, and N at the end: ``[0, n0, n0 + n1, ...]``.
    pairwise : array of float, shape (m, m), optional
        Scores of transitions, shared by all sequences.
    start, end : array of float, shape (m,), optional
        Scores of first and last labels, shared by all sequences.

    Raises
    ------
    LatticeError
        If shapes do not fit together, `offsets` does not divide the tokens into sequences, or a score is not a number.

    Examples
    --------
    >>> import bridle
    >>> batch = bridle.Batch([[2, 0], [0, 1], [0, 3]], offsets=[0, 2, 3])
    >>> len(batch), batch[0]
    (2, Lattice(2 positions x 2 labels))
    >>> bridle.Decoder(bridle.Labels(["O", "X"])).decode_batch(batch).labels
    [['O', 'X'], ['X']]
    """

    unary: AnyScores  # (rows, m)
    offsets: npt.NDArray[np.int64]  # (sequences + 1,)
    pairwise: AnyScores | None = None  # (m, m), shared by all
    start: AnyScores | None = None  # (m,)
    end: AnyScores | None = None  # (m,)
    first: npt.NDArray[np.int64] | None = None  # (sequences,)  None: packed
    length: int | None = None  # T of (B, T, m), if it was padded
    steps: Steps | None = None  # additions to pairwise, if it depends on the tokens

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
        cuts = as_integers("offsets", offsets)
        if cuts.ndim != 1 or len(cuts) < 1 or cuts[0] != 0 or cuts[-1] != total or (cuts[1:] < cuts[:-1]).any():
            raise LatticeError(
                "`offsets` must divide the tokens into sequences",
                got=f"{cuts.tolist()[:6]}..." if cuts.size > 6 else cuts.tolist(),
                wanted=f"increasing integers from 0 to {total}",
                cause="offsets has one entry more than there are sequences: [0, n0, n0 + n1, ...].",
            )
        values = (u, cuts, *_shared(u.shape[1], pairwise, start, end), None, None, None)
        for name, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, name, value)

    @classmethod
    def _unchecked(cls, *values: Any) -> Batch:
        """Return a batch of values that are known to be right, field by field."""
        batch = object.__new__(cls)
        for name, value in zip(cls.__slots__, values, strict=True):
            object.__setattr__(batch, name, value)
        return batch

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
        """Take sequences that are padded to one length, as networks give them.

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
        pairwise, start, end : array of float, optional
            Scores of transitions (m, m), first and last labels (m,), shared by all sequences.

        Returns
        -------
        Batch
            ``decoder.decode_batch(batch).padded()`` gives the labels back as (B, T).

        Raises
        ------
        LatticeError
            If shapes do not fit, a length is beyond T, a mask has holes, or the score of a token is not a number.

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
        check_shape(
            "scores",
            grid,
            (None, None, None),
            "sequences x tokens x labels",
            "Are the labels the last axis, and the sequences the first?",
        )
        count, length, m = grid.shape
        sizes, begin = extents(count, length, lengths, mask)
        offsets = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(sizes, out=offsets[1:])
        rows = np.ascontiguousarray(grid).reshape(count * length, m)
        first = np.arange(count, dtype=np.int64) * length + begin
        if first_bad(rows) is not None:  # padding may hold anything
            for k, (low, size) in enumerate(zip(first.tolist(), sizes.tolist(), strict=True)):
                if (bad := first_bad(rows[low : low + size])) is not None:
                    raise not_a_score("scores", grid, (k, int(begin[k]) + bad // m, bad % m))
        return cls._unchecked(rows, offsets, *_shared(m, pairwise, start, end), first, length, None)

    def _with_steps(self, steps: Steps | None) -> Batch:
        """Return the batch with additions to its transition scores."""
        return self._unchecked(*(getattr(self, name) for name in self.__slots__[:-1]), steps)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._unchecked, tuple(getattr(self, name) for name in self.__slots__)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_labels(self) -> int:
        """Number of labels, m."""
        return int(self.unary.shape[1])

    def part(self, low: int, high: int) -> Batch:
        """Take some sequences that follow each other, without a copy.

        Parameters
        ----------
        low, high : int
            The first sequence, and the one after the last.

        Returns
        -------
        Batch
            Sequences `low` to ``high - 1``.
        """
        if (low, high) == (0, len(self)):
            return self
        cuts = self.offsets[low : high + 1] - self.offsets[low]
        shared = (self.pairwise, self.start, self.end)
        if self.first is not None:
            return self._unchecked(self.unary, cuts, *shared, self.first[low:high], self.length, None)
        begin, end = self.offsets[[low, high]].tolist()
        steps = None if self.steps is None else self.steps.part(begin, end)
        return self._unchecked(self.unary[begin:end], cuts, *shared, None, None, steps)

    def rows(self, k: int) -> AnyScores:
        """Show the unary scores of one sequence.

        Parameters
        ----------
        k : int
            Number of the sequence, from 0.

        Returns
        -------
        array of float, shape (n, m)
            A view, not a copy.
        """
        begin = int(self.offsets[k] if self.first is None else self.first[k])
        return self.unary[begin : begin + int(self.offsets[k + 1] - self.offsets[k])]

    def __getitem__(self, k: int) -> Lattice:
        """Sequence k as a Lattice."""
        if not -len(self) <= k < len(self):
            raise IndexError(f"sequence {k} of {len(self)}")
        k %= len(self)
        low, high = self.offsets[[k, k + 1]].tolist()
        pairwise = self.pairwise
        if self.steps is not None and high - low > 1:
            pairwise = self.steps.tables(pairwise, low + 1, high, self.n_labels)
        return Lattice(self.rows(k), pairwise, self.start, self.end)


def _shared(
    m: int, pairwise: npt.ArrayLike | None, start: npt.ArrayLike | None, end: npt.ArrayLike | None
) -> tuple[AnyScores | None, AnyScores | None, AnyScores | None]:
    """Check the scores that all sequences of a batch share."""
    if m == 0:
        raise LatticeError("unary has no labels", got="no columns", wanted="at least one column")
    if pairwise is not None:
        check_square(m)
    return (
        None if pairwise is None else own_scores("pairwise", pairwise, (m, m), "labels x labels", shared=True),
        None if start is None else own_scores("start", start, (m,), "labels", shared=True),
        None if end is None else own_scores("end", end, (m,), "labels", shared=True),
    )


Lattices = Batch | Sequence[Lattice]


def subset(lattices: Lattices, chosen: npt.NDArray[np.integer]) -> Lattices:
    """Return some sequences of a batch, in this order."""
    if not isinstance(lattices, Batch):
        return [lattices[k] for k in chosen.tolist()]
    lengths = np.diff(lattices.offsets)[chosen]
    cuts = np.concatenate([[0], np.cumsum(lengths)])
    begin = lattices.offsets[:-1] if lattices.first is None else lattices.first
    tokens = np.arange(cuts[-1]) + np.repeat(begin[chosen] - cuts[:-1], lengths)
    batch = Batch(lattices.unary[tokens], cuts, lattices.pairwise, lattices.start, lattices.end)
    return batch if lattices.steps is None else batch._with_steps(lattices.steps.subset(tokens))
