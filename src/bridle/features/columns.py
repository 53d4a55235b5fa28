"""Sequences as users have them, turned into columns packed end to end.

A sequence is a mapping {"word": [...], "pos": [...]}, a list of token texts, or a list of one mapping per token. Many
of them are a list, or a table or a column of lists (see frames.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from bridle import frames
from bridle.errors import BridleError, FeatureError, shown


@dataclass(frozen=True, slots=True, eq=False)
class Packed(Sequence[Mapping[str, Sequence[str]]]):
    """Columns of many sequences, end to end. Models take them as X, without an object for each token."""

    texts: Mapping[str, Sequence[str]]  # column -> (N) strings: a list, or Texts
    offsets: npt.NDArray[np.int64]  # (B + 1) from 0

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, k: int) -> Mapping[str, Sequence[str]]: ...
    @overload
    def __getitem__(self, k: slice) -> Packed: ...
    def __getitem__(self, k: int | slice) -> Mapping[str, Sequence[str]] | Packed:
        low, high, _ = (k if isinstance(k, slice) else slice(*_one(k, len(self)))).indices(len(self))
        offsets = self.offsets[low : max(low, high) + 1]
        texts = {name: column[int(offsets[0]) : int(offsets[-1])] for name, column in self.texts.items()}
        return Packed(texts, offsets - offsets[0]) if isinstance(k, slice) else {n: list(x) for n, x in texts.items()}


_STRINGS = frozenset({str})


def _one(k: int, count: int) -> tuple[int, int]:
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
    lengths, empty = [], dict.fromkeys(names, ())
    for k, x in enumerate(sequences):
        if errors is not None and k in errors:
            rows.append(empty)
            lengths.append(0)
            continue
        try:
            row = x if isinstance(x, Mapping) and all(name in x for name in names) else columns_of(x, names, main, k)
            lengths.append(_length(row, names, k) if names else length_of(x, k))
            rows.append(row)
        except FeatureError as error:
            if errors is None:
                raise
            errors[k] = error
            rows.append(empty)
            lengths.append(0)
    texts = {name: list(chain.from_iterable([row[name] for row in rows])) for name in names}
    offsets = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return Packed(texts, offsets)


def _length(row: Mapping[str, Sequence[str]], names: Sequence[str], k: int) -> int:
    """The number of tokens of a sequence, whose columns must be lists of strings of the same length."""
    first = -1
    for name in names:
        column = row[name]
        if type(column) is not list:
            _check_column(k, name, column)
        if set(map(type, column)) - _STRINGS:
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
    """The error for a token that is null."""
    return FeatureError(f"a token in {name!r} is null", got="null", wanted="a string, which may be empty")


def not_a_string(token: Any, name: str = "tokens") -> FeatureError:
    """The error for a token that is not a string."""
    if frames.is_missing(token):
        return null_token(name)
    cause = frames.NAMELESS if isinstance(token, (list, tuple)) else "Numbers and None must be turned into text first."
    return FeatureError("a token is not a string", got=shown(token), wanted="str", cause=cause)


def sequences_of(X: Any) -> Sequence[Any]:
    """X as a list of sequences: all that models are given comes through here. A generator or a string is none."""
    if isinstance(X, (list, tuple, Packed)):
        return X
    found: Sequence[Any] = frames.rows(X)
    if isinstance(found, (str, bytes, Mapping)) or not hasattr(found, "__len__"):
        raise FeatureError(
            "X is not a list of sequences",
            got=type(X).__name__,
            wanted="a list with one entry per sequence",
            cause="Collect it first: X.collect()." if hasattr(X, "collect") else "One sequence? Pass [sequence].",
        )
    return found


def names_in(x: Any) -> list[str] | None:
    """The names of the columns of a sequence; none if it is a list of texts, None if it has no columns."""
    if isinstance(x, Mapping):
        return [str(name) for name in x]
    if isinstance(x, (str, bytes)) or not hasattr(x, "__len__") or not len(x):
        return None
    if isinstance(x[0], Mapping):
        return [str(name) for name in x[0]]
    return [] if isinstance(x[0], str) else None


def length_of(x: Any, k: int) -> int:
    """The number of tokens of sequence k."""
    column = next(iter(x.values()), ()) if isinstance(x, Mapping) else x
    _check_column(k, "the tokens", column)
    return len(column)


def _check_column(k: int, name: str, column: Any) -> None:
    if isinstance(column, (str, bytes)) or not hasattr(column, "__len__"):
        cause = f"{name!r} should be a list with one text per token."
        if isinstance(column, str):
            cause += " Of a table with one row per token, bridle.frames.sequences makes sequences."
        raise _not_columns(k, column, cause)


def columns_of(x: Any, names: Sequence[str], main: str, k: int) -> Mapping[str, Sequence[str]]:
    """One sequence as columns; k is its number, for messages."""
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
        raise _not_columns(k, x, "A sentence must be cut into tokens first.")
    if len(x) and all(isinstance(token, Mapping) for token in x):
        rows: list[Any] = [columns_of(token, names, main, k) for token in x]
        return {name: [row[name] for row in rows] for name in names}
    if len(names) > 1 and len(x):
        lists = isinstance(x[0], (list, tuple))
        raise _not_columns(k, x, frames.NAMELESS if lists else f"The templates need the columns {', '.join(names)}.")
    return dict.fromkeys(names, x)


def names_of_columns(x: Any) -> list[str]:
    """The columns that a sequence has; none if it is a list of texts."""
    if isinstance(x, Mapping):
        return list(x)
    return list(x[0]) if len(x) and isinstance(x[0], Mapping) else []


def column_of(x: Any, name: str) -> Sequence[str] | None:
    """One column of a sequence, or None if it has no such column."""
    if isinstance(x, Mapping):
        found: Sequence[str] | None = x.get(name)
        return found
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
