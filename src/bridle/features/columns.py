"""Columns: sequences as users have them, packed end to end; their strings as numbers; the attributes of their tokens.

A sequence is a mapping {"word": [...], "pos": [...]}, a list of token texts, or a list of one mapping per token. Many
of them are a list, or a table or a column of lists (see frames.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from bridle import _native, frames
from bridle.arrays import ranges
from bridle.errors import BridleError, FeatureError, shown
from bridle.texts import Bytes, Offsets, Texts

Ids = npt.NDArray[np.int32]
Arrays = dict[str, npt.NDArray[np.generic]]


# ---- sequences ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Packed(Sequence[Mapping[str, Sequence[str]]]):
    """Columns of many sequences, end to end. Models take them as X, without an object for each token."""

    texts: Mapping[str, Sequence[str]]  # column -> (N) strings: a list, or Texts
    offsets: Offsets  # (B + 1) from 0

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, k: int) -> Mapping[str, Sequence[str]]: ...
    @overload
    def __getitem__(self, k: slice) -> Packed: ...
    def __getitem__(self, k: int | slice) -> Mapping[str, Sequence[str]] | Packed:
        low, high, _ = (k if isinstance(k, slice) else slice(*_bounds(k, len(self)))).indices(len(self))
        offsets = self.offsets[low : max(low, high) + 1]
        texts = {name: column[int(offsets[0]) : int(offsets[-1])] for name, column in self.texts.items()}
        return Packed(texts, offsets - offsets[0]) if isinstance(k, slice) else {n: list(x) for n, x in texts.items()}


def _bounds(k: int, count: int) -> tuple[int, int]:
    if not -count <= k < count:
        raise IndexError(f"sequence {k} of {count}")
    return k % count, k % count + 1


def pack(
    sequences: Sequence[Any], names: Sequence[str], main: str, errors: dict[int, BridleError] | None = None
) -> Packed:
    """Pack the columns called `names` of all sequences; a bare list of texts is the column `main`.

    errors: takes what is wrong with single sequences, which are empty then; None: the first error is raised.
    """
    if isinstance(sequences, Packed):
        if any(name not in sequences.texts for name in names):
            columns_of(sequences.texts, names, main, 0)  # which says what is missing
        return sequences
    sequences = sequences_of(sequences)
    rows: list[Mapping[str, Sequence[str]]] = []
    lengths: list[int] = []
    empty: Mapping[str, Sequence[str]] = dict.fromkeys(names, ())
    for k, x in enumerate(sequences):
        row, length = empty, 0
        try:
            if errors is None or k not in errors:
                whole = isinstance(x, Mapping) and all(name in x for name in names)
                columns = x if whole else columns_of(x, names, main, k)
                length = _length(columns, names, k) if names else length_of(x, k)
                row = columns
        except FeatureError as error:
            if errors is None:
                raise
            errors[k] = error
        rows.append(row)
        lengths.append(length)
    texts = {name: list(chain.from_iterable([row[name] for row in rows])) for name in names}
    return Packed(texts, np.array([0, *accumulate(lengths)], dtype=np.int64))


def _length(row: Mapping[str, Sequence[str]], names: Sequence[str], k: int) -> int:
    """Return the number of tokens of a sequence; its columns must be lists of strings of the same length."""
    first = -1
    for name in names:
        column = row[name]
        if type(column) is not list:
            _check_column(k, name, column)
        if set(map(type, column)) - {str}:
            for token in column:
                if not isinstance(token, str):
                    raise not_a_string(token, name).at(sequence=k)
        if first < 0:
            first = len(column)
        elif len(column) != first:
            raise FeatureError(
                "the columns differ in length",
                got=f"{len(column)} in {name!r}",
                wanted=f"{first}, as in {names[0]!r}",
                cause="Every column has one text per token.",
                sequence=k,
            )
    return first


def null_token(name: str) -> FeatureError:
    """Return the error for a token that is null."""
    return FeatureError(f"a token in {name!r} is null", got="null", wanted="a string, which may be empty")


def not_a_string(token: Any, name: str = "tokens") -> FeatureError:
    """Return the error for a token that is not a string."""
    if frames.is_missing(token):
        return null_token(name)
    cause = "Numbers and None must be turned into text first."
    if isinstance(token, (list, tuple)):
        cause = frames.NAMELESS
    elif isinstance(token, np.ndarray):
        cause = "Vectors are for a network; decode the scores that it gives labels with bridle.Decoder."
    return FeatureError("a token is not a string", got=shown(token), wanted="str", cause=cause)


def sequences_of(X: Any) -> Sequence[Any]:
    """Convert X to a list of sequences; raise `FeatureError` if it is a generator or a string."""
    if isinstance(X, (list, tuple, Packed)):
        return X
    sequences: Sequence[Any] = frames.rows(X)
    is_list = hasattr(sequences, "__getitem__") and hasattr(sequences, "__len__")
    if isinstance(sequences, (str, bytes, Mapping)) or not is_list:
        cause = "One sequence? Pass [sequence]."
        if hasattr(X, "collect") or isinstance(X, (Iterator, Set)):
            cause = f"Collect it first: {'X.collect()' if hasattr(X, 'collect') else 'list(X)'}."
        wanted = "a list with one entry per sequence"
        raise FeatureError("X is not a list of sequences", got=type(X).__name__, wanted=wanted, cause=cause)
    return sequences


def names_in(x: Any) -> list[str] | None:
    """Return the names of the columns of a sequence; none if it is a list of texts, None if it has no columns."""
    if isinstance(x, Mapping):
        return [str(name) for name in x]
    if isinstance(x, (str, bytes)) or not hasattr(x, "__len__") or not len(x):
        return None
    first = next(iter(x))
    if isinstance(first, Mapping):
        return [str(name) for name in first]
    return [] if isinstance(first, str) else None


def length_of(x: Any, k: int) -> int:
    """Return the number of tokens of sequence k."""
    column = next(iter(x.values()), ()) if isinstance(x, Mapping) else x
    _check_column(k, "the tokens", column)
    return len(column)


def _check_column(k: int, name: str, column: Any) -> None:
    if isinstance(column, (str, bytes)) or not hasattr(column, "__len__") or hasattr(column, "columns"):
        cause = f"{name!r} should be a list with one text per token."
        if isinstance(column, str):
            cause += " Of a table with one row per token, bridle.frames.sequences makes sequences."
        raise _not_columns(k, column, cause)


def columns_of(x: Any, names: Sequence[str], main: str, k: int) -> Mapping[str, Sequence[str]]:
    """Return one sequence as columns; k is its number, for messages."""
    if isinstance(x, Mapping):
        missing = [name for name in names if name not in x]
        if missing:
            raise FeatureError(
                f"there is no column {missing[0]!r}",
                got=", ".join(map(repr, x)) or "no columns",
                wanted=", ".join(map(repr, names)),
                cause=frames.renamed_by_step(missing[0], x)
                or "The templates use it; does the column have another name?",
                sequence=k,
            )
        return x
    if isinstance(x, (str, bytes)) or not hasattr(x, "__len__"):
        raise _not_columns(k, x, "A sentence must be cut into tokens first, for example by text.split().")
    if len(x) and all(isinstance(token, Mapping) for token in x):
        rows: list[Any] = [columns_of(token, names, main, k) for token in x]
        return {name: [row[name] for row in rows] for name in names}
    if len(names) > 1 and len(x):
        lists = isinstance(next(iter(x)), (list, tuple))
        raise _not_columns(k, x, frames.NAMELESS if lists else f"The templates need the columns {', '.join(names)}.")
    return dict.fromkeys(names, x)


def column_of(x: Any, name: str) -> Sequence[str] | None:
    """Return one column of a sequence, or None if it has no such column."""
    if isinstance(x, Mapping):
        column: Sequence[str] | None = x.get(name)
        return column
    if len(x) and all(isinstance(token, Mapping) and name in token for token in x):
        return [token[name] for token in x]
    return None if len(x) else []


def _not_columns(k: int, got: Any, cause: str) -> FeatureError:
    if frames.is_missing(got):
        cause = "The cell is empty: leave the row out, or put an empty list there."
    return FeatureError(
        "templates cannot be applied to this sequence",
        got=shown(got),
        sequence=k,
        wanted='{"word": [...], "pos": [...]}, a list of texts, or a list of one dict per token',
        cause=cause,
    )


# ---- strings --------------------------------------------------------------------------------------------------------


def texts_of(texts: Sequence[str]) -> Texts:
    """Convert texts to what the kernels take."""
    if isinstance(texts, Texts):
        return texts
    try:
        return Texts.of(texts)
    except TypeError:
        raise not_a_string(next(text for text in texts if not isinstance(text, str))) from None


@dataclass(frozen=True, eq=False)
class Interned:
    """Strings with numbers 0, 1, ... in the order of first appearance; -1 is a string that is not there."""

    native: _native.Strings = field(default_factory=_native.Strings)

    def __len__(self) -> int:
        return len(self.native)

    def add(self, texts: Sequence[str]) -> Ids:
        """Return the numbers of texts; new texts get new numbers."""
        numbers, packed = np.empty(len(texts), dtype=np.int32), texts_of(texts)
        self.native.add(packed.data, packed.offsets, None, numbers)
        return numbers

    def find(self, texts: Sequence[str]) -> Ids:
        """Return the numbers of texts."""
        return self.look_up(texts)[1]

    def look_up(self, texts: Sequence[str]) -> tuple[Texts, Ids]:
        """Return texts as the kernels take them, and their numbers."""
        packed = texts_of(texts)
        numbers = np.empty(len(packed.offsets) - 1, dtype=np.int32)
        self.native.find(packed.data, packed.offsets, numbers)
        return packed, numbers

    def same(self, other: Interned) -> bool:
        """Return True if both have the same strings with the same numbers."""
        if self is other:
            return True
        (data, offsets), (other_data, other_offsets) = self._all(), other._all()
        return np.array_equal(offsets, other_offsets) and np.array_equal(data, other_data)

    def _all(self) -> tuple[Bytes, Offsets]:
        data, offsets = np.empty(self.native.n_bytes, dtype=np.uint8), np.zeros(len(self) + 1, dtype=np.int64)
        self.native.dump(data, offsets[1:])
        return data, offsets

    def texts(self) -> list[str]:
        """Return all strings, by number."""
        try:
            return Texts(*self._all()).tolist()
        except UnicodeDecodeError:  # from a file that something else has written
            return [text.decode("utf-8", "replace") for text in _bytes(*self._all())]

    def arrays(self, name: str) -> Arrays:
        """Return the arrays for a file; nulls and line feeds within strings are escaped there."""
        data, offsets = self._all()
        if np.isin(data, (0, 10)).any():
            escaped = [text.replace(b"\0", b"\0\0").replace(b"\n", b"\0n") for text in _bytes(data, offsets)]
            data, offsets = _packed(escaped)
        return {f"{name}bytes": data, f"{name}ends": offsets[1:]}

    @classmethod
    def restored(cls, name: str, arrays: Arrays) -> Interned:
        """Restore from the arrays of a file."""
        strings = cls()
        data, ends = arrays[f"{name}bytes"], arrays[f"{name}ends"]
        fits = data.dtype == np.uint8 and ends.dtype == np.int64 and data.ndim == ends.ndim == 1
        offsets = np.append(0, ends) if fits else np.zeros(1, dtype=np.int64)
        fits = fits and offsets[-1] == len(data) and bool((np.diff(offsets) >= 0).all())
        if fits:
            if not data.all():
                packed: Any = data
                plain = [re.sub(b"\0(.)", _unescaped, text, flags=re.DOTALL) for text in _bytes(packed, offsets)]
                data, offsets = _packed(plain)
            strings.native.add(np.ascontiguousarray(data), offsets, None, np.empty(len(ends), dtype=np.int32))
        if not fits or len(strings.native) != len(ends):
            raise FeatureError(f"the strings of {name.rstrip('.')!r} do not fit together", wanted="each string once")
        return strings


def _bytes(data: npt.NDArray[np.generic], offsets: Offsets) -> list[bytes]:
    whole = data.tobytes()
    return [whole[low:high] for low, high in pairwise(offsets.tolist())]


def _packed(texts: list[bytes]) -> tuple[Bytes, Offsets]:
    return np.frombuffer(b"".join(texts), dtype=np.uint8), np.cumsum([0, *map(len, texts)], dtype=np.int64)


def _unescaped(match: re.Match[bytes]) -> bytes:
    return b"\n" if match[1] == b"n" else b"\0"


# ---- attributes -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class EdgeAttributes:
    """Attributes of templates with `label[-1]` beside other places; the first token of a sequence has none."""

    indptr: Offsets  # (N + 1) attributes of token t
    attrs: Ids  # (indptr[N])
    size: int  # attributes that there are: 0 .. size-1

    def part(self, tokens: Offsets) -> EdgeAttributes:
        """Select tokens, in this order."""
        rows, indptr = ranges(self.indptr, tokens)
        return EdgeAttributes(indptr, self.attrs[rows], self.size)

    def keep(self, number: Ids, size: int) -> EdgeAttributes:
        """Give attributes new numbers, 0 .. size-1; leave out those whose number is negative."""
        return EdgeAttributes(*_kept(self.indptr, self.attrs, number)[:2], size)


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """Attributes of all tokens of many sequences, packed end to end."""

    offsets: Offsets  # (B + 1) tokens of sequence b
    indptr: Offsets  # (N + 1) attributes of token t
    attrs: Ids  # (indptr[N])
    values: npt.NDArray[np.float64] | None = None  # the same; None: all are 1
    edges: EdgeAttributes | None = None  # None: no template asks for them

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_tokens(self) -> int:
        """Number of tokens of all sequences."""
        return int(self.offsets[-1])

    def native(self, y: Ids | None = None) -> _native.Examples:
        """Convert for the kernels, with gold labels if there are any."""
        values = None if self.values is None else self.values.astype(np.float32)
        return _native.Examples(self.offsets, self.indptr, self.attrs, values, y)

    def native_edges(self, y: Ids | None = None) -> _native.Examples:
        """Convert the attributes of edges for the kernels."""
        assert self.edges is not None
        return _native.Examples(self.offsets, self.edges.indptr, self.edges.attrs, None, y)

    def part(self, chosen: Offsets) -> Encoded:
        """Select sequences, in this order."""
        tokens, offsets = ranges(self.offsets, chosen)
        rows, indptr = ranges(self.indptr, tokens)
        values = None if self.values is None else self.values[rows]
        return Encoded(offsets, indptr, self.attrs[rows], values, self.edges and self.edges.part(tokens))

    def keep(self, number: Ids) -> Encoded:
        """Give attributes new numbers; leave out those whose number is negative."""
        indptr, attrs, kept = _kept(self.indptr, self.attrs, number)
        values = None if self.values is None else self.values[kept]
        return Encoded(self.offsets, indptr, attrs, values, self.edges)


def numbers_of_kept(kept: npt.NDArray[np.bool_]) -> Ids:
    """Number the attributes that are kept from 0 on; -1 for the others."""
    return np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)


def _kept(indptr: Offsets, attrs: Ids, number: Ids) -> tuple[Offsets, Ids, npt.NDArray[np.bool_]]:
    """Renumber rows of attributes, without those whose number is negative; the mask of those that are left."""
    new = number[attrs]
    kept = new >= 0
    before = np.zeros(len(kept) + 1, dtype=np.int64)
    np.cumsum(kept, out=before[1:])
    return before[indptr], new[kept], kept
