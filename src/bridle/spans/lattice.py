"""Span lattices: boundaries between characters are nodes, possible words are arcs; packed for the engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.arrays import Scores, as_array, is_integer, own_scores
from bridle.decoding.problem import INFEASIBLE, LIMIT, NOTHING_FOUND, OPTIMAL
from bridle.engines.highs import ProgramAnswer
from bridle.errors import GivenError, LatticeError, shown
from bridle.labels import Labels
from bridle.rules.compiled import CompiledRules, Givens

Ints = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]
Path = Sequence[int] | npt.NDArray[np.integer]  # arcs, left to right
ScoreWords = Callable[[Ints, Ints], npt.ArrayLike]  # starts (A,), ends (A,) -> (A,), or (A, m): one score per label


@dataclass(frozen=True, slots=True, eq=False)
class SpanLattice:
    """Possible words over n characters, with their scores.

    Boundaries 0 .. n are nodes, possible words are arcs, in any order. A path is a list of arcs, by number, that join
    from 0 to n; its score is the sum of theirs.

    Parameters
    ----------
    n : int
        Number of characters.
    spans : array of int, shape (A, 2)
        Start and end of each possible word; the end is not included.
    scores : array of float, shape (A,)
        Score of each; -inf means impossible.
    labels : array of int, shape (A,), optional
        Label id of each; without them, all have label 0.
    characters : str or sequence of str, length n, optional
        The characters, for rules that refer to the text of a word.

    Raises
    ------
    LatticeError
        If shapes do not fit together, a span lies outside the characters, or a score is NaN, +inf or beyond 1e290.

    Examples
    --------
    >>> lattice = SpanLattice(3, [(0, 1), (0, 2), (1, 3), (2, 3)], [1, 4, 3, 1], characters="abc")
    >>> lattice
    SpanLattice(3 characters, 4 possible words)
    >>> lattice.texts([0, 2]), lattice.score([0, 2])
    (['a', 'bc'], 4.0)
    """

    n: int
    spans: Ints  # (A, 2)
    scores: Scores  # (A,)
    labels: Ints  # (A,)
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
                f"span {bad[0]} is not a word",
                got=tuple(pairs[bad[0]].tolist()),
                wanted=f"0 <= start < end <= {n}",
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
        double = np.asarray(as_array("scores", scores), dtype=np.float64)
        put(self, "scores", own_scores("scores", double, (count,), "one per span"))
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
        """Make the lattice of all words, or of those up to a length.

        Parameters
        ----------
        n : int
            Number of characters.
        score : callable or array of float
            A function of (starts, ends), two arrays of shape (A,), that returns the scores of these words: (A,), or
            (A, m) with one per label. Or a table (n, L) or (n, L, m), where ``[s, k]`` is the word of k + 1
            characters that starts at s.
        max_length : int, optional
            Longest word, in characters. Without it, all n(n+1)/2 words are made, or those of the table.
        begins : iterable of int
            Boundaries where a word is known to begin; words that cross one are left out.
        characters : str or sequence of str, length n, optional
            As in `SpanLattice`.

        Returns
        -------
        SpanLattice

        Raises
        ------
        LatticeError
            If the scores have a wrong shape or value, or a boundary lies outside.

        Examples
        --------
        >>> words = {"new", "york", "newyork"}
        >>> text = "newyork"
        >>> def score(starts, ends):
        ...     return [len(text[a:b]) ** 2 if text[a:b] in words else -1.0 for a, b in zip(starts, ends)]
        >>> lattice = SpanLattice.all_words(7, score, max_length=4, characters=text)
        >>> import bridle
        >>> lattice.texts(bridle.SpanDecoder().decode(lattice).arcs)
        ['new', 'york']
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
        return len(self.spans)

    def __repr__(self) -> str:
        return f"SpanLattice({self.n} characters, {len(self)} possible words)"

    def _path(self, path: Path) -> npt.NDArray[np.intp]:
        arcs = np.asarray(path if len(path) else np.zeros(0, np.intp))
        inside = arcs.ndim == 1 and arcs.dtype.kind in "iu" and bool(((arcs >= 0) & (arcs < len(self))).all())
        at = self.spans[arcs] if inside else np.zeros((0, 2), dtype=np.int32)
        if not inside or not np.array_equal(np.append(at[:, 0], self.n), np.append(0, at[:, 1])):
            raise LatticeError(
                "not a path of this lattice",
                got=list(path)[:12],
                wanted=f"arcs that join, from 0 to {self.n}",
                cause="A path is a list of arc numbers; after cut() use the way back.",
            )
        return arcs.astype(np.intp)

    def words(self, path: Path) -> list[tuple[int, int]]:
        """Return the words of a path.

        Parameters
        ----------
        path : sequence of int
            Numbers of arcs that join, from 0 to n.

        Returns
        -------
        list of (int, int)
            Start and end of each word; the end is not included.

        Raises
        ------
        LatticeError
            If it is not a path of this lattice.

        Examples
        --------
        >>> SpanLattice(2, [(0, 2), (0, 1), (1, 2)], [3, 1, 1]).words([1, 2])
        [(0, 1), (1, 2)]
        """
        return [(a, b) for a, b in self.spans[self._path(path)].tolist()]

    def texts(self, path: Path) -> list[str]:
        """Return the words of a path as text.

        Parameters
        ----------
        path : sequence of int
            Numbers of arcs that join, from 0 to n.

        Returns
        -------
        list of str

        Raises
        ------
        LatticeError
            If it is not a path of this lattice.
        GivenError
            If the lattice was made without `characters`.

        Examples
        --------
        >>> SpanLattice(2, [(0, 2), (0, 1), (1, 2)], [3, 1, 1], characters="ab").texts([1, 2])
        ['a', 'b']
        """
        return self.texts_of(self.spans[self._path(path)])

    def score(self, path: Path) -> float:
        """Compute the score of a path.

        Parameters
        ----------
        path : sequence of int
            Numbers of arcs that join, from 0 to n.

        Returns
        -------
        float
            The sum of the scores of its words.

        Raises
        ------
        LatticeError
            If it is not a path of this lattice.

        Examples
        --------
        >>> SpanLattice(2, [(0, 2), (0, 1), (1, 2)], [3, 1, 1]).score([1, 2])
        2.0
        """
        return float(self.scores[self._path(path)].sum())

    def cut(self, at: Iterable[int]) -> tuple[SpanLattice, Callable[[Path], npt.NDArray[np.intp]]]:
        """Leave out the words that cross boundaries where a word is known to begin.

        Parameters
        ----------
        at : iterable of int
            Boundaries, from 0 to n.

        Returns
        -------
        SpanLattice
            The lattice of the other words.
        callable
            The way back: it turns a path of the smaller lattice into one of this lattice.

        Raises
        ------
        LatticeError
            If a boundary lies outside.

        Examples
        --------
        >>> smaller, back = SpanLattice(2, [(0, 2), (0, 1), (1, 2)], [3, 1, 1]).cut([1])
        >>> len(smaller), back([0, 1]).tolist()
        (2, [1, 2])
        """
        kept = np.flatnonzero(~_crosses(self.n, self.spans, at))
        smaller = SpanLattice(self.n, self.spans[kept], self.scores[kept], self.labels[kept], self.characters)
        return smaller, lambda path: kept[np.asarray(path, dtype=np.intp)]

    def texts_of(self, spans: Ints) -> list[str]:
        """Return the text of spans, whether or not they are words of the lattice.

        Parameters
        ----------
        spans : array of int, shape (k, 2)
            Start and end of each.

        Returns
        -------
        list of str

        Raises
        ------
        GivenError
            If the lattice was made without `characters`.

        Examples
        --------
        >>> lattice = SpanLattice(3, [(0, 3)], [1], characters="abc")
        >>> lattice.texts_of(np.array([(0, 2), (1, 3)]))
        ['ab', 'bc']
        """
        if self.characters is None:
            raise GivenError(
                "the rules need the text of words, but the lattice has no characters",
                got="characters=None",
                wanted="SpanLattice(..., characters=text)",
            )
        return ["".join(self.characters[a:b]) for a, b in spans.tolist()]


def _number(name: str, value: object, least: int) -> int:
    if not is_integer(value, least, 2**31 - 2):
        raise LatticeError(f"invalid value of `{name}`", got=repr(value), wanted=f"an integer >= {least}")
    return int(value)


def _integers(name: str, values: npt.ArrayLike, shape: tuple[int, ...], meaning: str) -> npt.NDArray[np.int64]:
    """Check integers of a shape (-1: any length)."""
    try:
        array = np.asarray(values)
        if array.size == 0:
            array = np.zeros((0, *shape[1:]), dtype=np.int64)
        if array.dtype.kind in "iu" and array.ndim == len(shape) and array.shape[1:] == shape[1:]:
            return array.astype(np.int64)
    except ValueError:  # ragged lists
        pass
    raise LatticeError(f"{name} are not {meaning}", got=shown(values), wanted=f"whole numbers, {meaning}")


def _crosses(n: int, spans: Ints, at: Iterable[int]) -> npt.NDArray[np.bool_]:
    """Mark the words that have a boundary of `at` inside them, (A,)."""
    cuts = _integers("boundaries", list(at), (-1,), "boundaries between characters")
    if cuts.size and (cuts.min() < 0 or cuts.max() > n):
        raise LatticeError("a boundary is outside the lattice", got=cuts.tolist()[:12], wanted=f"0 .. {n}")
    flags = np.zeros(n + 2, dtype=np.int64)
    flags[cuts + 1] = 1
    below = np.cumsum(flags)  # below[b]: how many cuts are < b
    return np.asarray(below[spans[:, 1]] > below[spans[:, 0] + 1])


class PackedSpans:
    """Arcs of B lattices, end to end in the place of tokens, with the answers of an engine."""

    def __init__(self, n: Ints, offsets: Offsets, spans: Ints, label: Ints, scores: Scores, n_rules: int) -> None:
        self.n, self.offsets = n, offsets  # (B,), (B + 1,)
        self.spans, self.label, self.scores = spans, label, scores  # (A, 2), (A,), (A,)
        count = len(n)
        self.path = np.zeros(len(label), dtype=np.int32)
        self.length = np.zeros(count, dtype=np.int32)
        self.score, self.bound = np.full(count, -np.inf), np.full(count, np.inf)
        self.status = np.zeros(count, dtype=np.uint8)
        self.violations = np.zeros((count, n_rules), dtype=np.int32)
        self.counters = np.zeros((count, _native.N_COUNTERS), dtype=np.int64)
        self.stats: list[dict[str, Any]] = []  # of integer programs

    @classmethod
    def of(cls, lattices: Sequence[SpanLattice], labels: Labels, n_rules: int, first: int = 0) -> PackedSpans:
        """Pack lattices; first: the number of the first one, for messages."""
        for k, lattice in enumerate(lattices):
            if not isinstance(lattice, SpanLattice):
                got = type(lattice).__name__
                raise LatticeError("this is not a word lattice", got=got, wanted="SpanLattice", sequence=first + k)
        packed = cls(
            np.array([x.n for x in lattices], dtype=np.int32),
            np.cumsum([0, *map(len, lattices)], dtype=np.int64),
            np.concatenate([np.zeros((0, 2), np.int32), *(x.spans for x in lattices)]),
            np.concatenate([np.zeros(0, np.int32), *(x.labels for x in lattices)]),
            np.concatenate([np.zeros(0), *(x.scores for x in lattices)]),
            n_rules,
        )
        if (top := int(packed.label.max(initial=0))) >= max(len(labels), 1):
            raise LatticeError("a word has an unknown label id", got=top, wanted=f"below {len(labels)}")
        return packed

    def bind(self, compiled: CompiledRules, given: Givens, **options: Any) -> _native.Problem:
        """Bind rules to the arcs: those about single arcs make scores -inf, the others are left to the kernels."""
        rules, bound = compiled.native("words"), None
        if rules.depends:
            bound = compiled.bind(rules, self.offsets, given, **options)
            self._forbid(cast("npt.NDArray[np.uint64] | None", bound.allowed))
        return _native.Problem(rules, bound, self.scores, self.offsets, None, [(None, None, None)], None)

    def _forbid(self, allowed: npt.NDArray[np.uint64] | None) -> None:
        """Make arcs impossible whose label is not allowed, (A, words of bits); rules do not read silent arcs (-1)."""
        if allowed is not None:
            y = np.maximum(self.label, 0)
            bits = allowed[np.arange(len(allowed)), y >> 6] >> (y & 63).astype(np.uint64)
            possible = (bits & np.uint64(1)).astype(bool) | (self.label < 0)
            self.scores = np.where(possible, self.scores, -np.inf)

    def decode(
        self, problem: _native.Problem, stop: _native.Stop | None, *, lazy: bool, extents: Ints | None = None
    ) -> None:
        """Find the best paths; lazy: fold in rules when they are broken. extents: where arcs lie that may nest."""
        answers = self.path, self.length, self.score, self.bound, self.status, self.violations, self.counters
        problem.decode_spans(self.n, self.spans, self.label, lazy, stop or _native.Stop(), *answers, extents)

    def fill(self, answers: Sequence[ProgramAnswer]) -> None:
        """Take the answers of integer programs."""
        self.stats = [answer.stats for answer in answers]
        for b, answer in enumerate(answers):
            self.bound[b] = answer.bound
            if answer.ids is None:
                self.status[b] = INFEASIBLE if answer.status == "infeasible" else NOTHING_FOUND
                continue
            low = self.offsets[b]
            self.status[b] = OPTIMAL if answer.status == "optimal" else LIMIT
            self.path[low : low + len(answer.ids)], self.length[b] = answer.ids, len(answer.ids)
            self.score[b] = self.scores[low + answer.ids].sum()

    @classmethod
    def joined(cls, parts: list[PackedSpans]) -> PackedSpans:
        """Join the parts of a batch, in order."""
        whole = parts[0]
        if len(parts) > 1:
            whole.offsets = np.cumsum(np.concatenate([[0], *(np.diff(part.offsets) for part in parts)]))
            for name in whole.__dict__.keys() - {"offsets", "stats"}:
                setattr(whole, name, np.concatenate([getattr(part, name) for part in parts]))
            whole.stats = [row for part in parts for row in part.stats]
        return whole
