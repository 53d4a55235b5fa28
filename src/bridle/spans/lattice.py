"""Span lattices: boundaries between characters are nodes, possible words are arcs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bridle.checks import is_integer
from bridle.errors import GivenError, LatticeError
from bridle.lattice import Scores, as_scores

Ints = npt.NDArray[np.int32]
Path = Sequence[int] | npt.NDArray[np.integer]  # arcs, left to right
ScoreWords = Callable[[Ints, Ints], npt.ArrayLike]  # starts (A,), ends (A,) -> (A,), or (A, m): one score per label


@dataclass(frozen=True, slots=True, eq=False)
class SpanLattice:
    """Possible words over n characters and their log-scores; -inf means impossible. Arcs may stand in any order."""

    n: int  # characters
    spans: Ints  # (A, 2)  start and end of each possible word, end not included
    scores: Scores  # (A,)
    labels: Ints  # (A,)    label id of each
    characters: Sequence[str] | None  # (n,)

    def __init__(
        self,
        n: int,
        spans: npt.ArrayLike,
        scores: npt.ArrayLike,
        labels: npt.ArrayLike | None = None,
        characters: Sequence[str] | None = None,
    ) -> None:
        n = _number("n", n, 0)
        pairs = _integers("spans", spans, (-1, 2), "pairs (start, end)")
        bad = np.flatnonzero((pairs[:, 0] < 0) | (pairs[:, 1] > n) | (pairs[:, 0] >= pairs[:, 1]))
        if bad.size:
            raise LatticeError(
                f"span {bad[0]} is no word", got=tuple(pairs[bad[0]].tolist()), wanted=f"0 <= start < end <= {n}",
                cause="The end is not part of the span, as in Python slices.",
            )
        count = len(pairs)
        ids = np.zeros(count) if labels is None else _integers("labels", labels, (-1,), "label ids")
        if len(ids) != count or (count and ids.min() < 0):
            raise LatticeError("labels do not fit the spans", got=f"{len(ids)} ids", wanted=f"{count} ids >= 0")
        if characters is not None and len(characters) != n:
            raise LatticeError("characters have another length than the lattice", got=len(characters), wanted=n)
        put = object.__setattr__
        put(self, "n", n)
        put(self, "spans", np.ascontiguousarray(pairs, dtype=np.int32))
        put(self, "scores", as_scores("scores", scores, (count,), "one per span").astype(np.float64, copy=False))
        put(self, "labels", np.ascontiguousarray(ids, dtype=np.int32))
        put(self, "characters", characters if characters is None or isinstance(characters, str) else tuple(characters))

    @classmethod
    def all_words(
        cls,
        n: int,
        score: ScoreWords | npt.ArrayLike,
        max_length: int | None = None,
        begins: Iterable[int] = (),
        characters: Sequence[str] | None = None,
    ) -> SpanLattice:
        """All n(n+1)/2 words, or those up to max_length and without a known beginning inside.

        score: a function of (starts, ends) with one score per word (A,) or one per word and label (A, m); or a table
        (n, L) or (n, L, m) where [s, k] is the word of k + 1 characters that starts at s.
        """
        table = None if callable(score) else np.asarray(score)
        n = _number("n", n, 0)
        longest = n if max_length is None else _number("max_length", max_length, 1)
        if table is not None:
            if table.ndim not in (2, 3) or len(table) != n:
                raise LatticeError("the table of word scores has a wrong shape", got=table.shape, wanted=f"({n}, any)")
            longest = min(longest, table.shape[1])
        start, more = np.nonzero(np.arange(n)[:, None] + np.arange(min(longest, n)) < n)
        spans = np.stack([start, start + more + 1], axis=1).astype(np.int32)
        fits = ~_crosses(n, spans, begins)
        spans, more = spans[fits], more[fits]
        values = np.asarray(score(spans[:, 0], spans[:, 1]) if callable(score) else table[spans[:, 0], more])  # type: ignore[index]
        if values.ndim != 2:
            return cls(n, spans, values, None, characters)
        m = values.shape[1]
        return cls(n, np.repeat(spans, m, axis=0), values.ravel(), np.tile(np.arange(m), len(spans)), characters)

    def __len__(self) -> int:
        """How many arcs there are."""
        return len(self.spans)

    def __repr__(self) -> str:
        return f"SpanLattice({self.n} characters, {len(self)} possible words)"

    def _path(self, path: Path) -> npt.NDArray[np.intp]:
        arcs = np.asarray(path if len(path) else np.zeros(0, np.intp))
        inside = arcs.ndim == 1 and arcs.dtype.kind in "iu" and bool(((arcs >= 0) & (arcs < len(self))).all())
        at = self.spans[arcs] if inside else np.zeros((0, 2), dtype=np.int32)
        if not inside or not np.array_equal(np.append(at[:, 0], self.n), np.append(0, at[:, 1])):
            raise LatticeError(
                "not a path of this lattice", got=list(path)[:12], wanted=f"arcs that join, from 0 to {self.n}",
                cause="A path is a list of arc numbers; after cut() use the way back.",
            )
        return arcs.astype(np.intp)

    def words(self, path: Path) -> list[tuple[int, int]]:
        """The words of a path (arc numbers), as (start, end)."""
        return [(a, b) for a, b in self.spans[self._path(path)].tolist()]

    def texts(self, path: Path) -> list[str]:
        """The words of a path, as text."""
        return self.texts_of(self.spans[self._path(path)])

    def score(self, path: Path) -> float:
        """The score of a path."""
        return float(self.scores[self._path(path)].sum())

    def cut(self, at: Iterable[int]) -> tuple[SpanLattice, Callable[[Path], npt.NDArray[np.intp]]]:
        """Without the words that cross a boundary where a word is known to begin; and the way back for its paths.

        >>> smaller, back = SpanLattice(2, [(0, 2), (0, 1), (1, 2)], [3, 1, 1]).cut([1])
        >>> len(smaller), back([0, 1]).tolist()
        (2, [1, 2])
        """
        kept = np.flatnonzero(~_crosses(self.n, self.spans, at))
        smaller = SpanLattice(self.n, self.spans[kept], self.scores[kept], self.labels[kept], self.characters)
        return smaller, lambda path: kept[np.asarray(path, dtype=np.intp)]

    def texts_of(self, spans: Ints) -> list[str]:
        """The text of each span."""
        if self.characters is None:
            raise GivenError(
                "the text of words is asked for, but a lattice has no characters", got="characters=None",
                wanted="SpanLattice(..., characters=text)",
            )
        return ["".join(self.characters[a:b]) for a, b in spans.tolist()]


def _number(name: str, value: object, least: int) -> int:
    if not is_integer(value, least, 2**31 - 2):
        what = f"{name} is not a number of characters"
        raise LatticeError(what, got=repr(value), wanted=f"a whole number >= {least}")
    return int(value)


def _integers(name: str, values: npt.ArrayLike, shape: tuple[int, ...], meaning: str) -> npt.NDArray[np.int64]:
    """Whole numbers of a shape (-1: any length)."""
    try:
        array = np.asarray(values)
        if array.size == 0:
            array = np.zeros((0, *shape[1:]), dtype=np.int64)
        if array.dtype.kind in "iu" and array.ndim == len(shape) and array.shape[1:] == shape[1:]:
            return array.astype(np.int64)
    except ValueError:  # ragged lists
        pass
    raise LatticeError(f"{name} are not {meaning}", got=repr(values)[:60], wanted=f"whole numbers, {meaning}")


def _crosses(n: int, spans: Ints, at: Iterable[int]) -> npt.NDArray[np.bool_]:
    """(A,): does a boundary of `at` lie inside the word?"""
    cuts = _integers("boundaries", list(at), (-1,), "boundaries between characters")
    if cuts.size and (cuts.min() < 0 or cuts.max() > n):
        raise LatticeError("a boundary is outside the lattice", got=cuts.tolist()[:12], wanted=f"0 .. {n}")
    flags = np.zeros(n + 2, dtype=np.int64)
    flags[cuts + 1] = 1
    below = np.cumsum(flags)  # below[b]: how many cuts are < b
    return np.asarray(below[spans[:, 1]] > below[spans[:, 0] + 1])
