"""Columns of Arrow tables as Bridle reads them: texts without an object per token, and which rows cannot be read.

list<string>, large_list, fixed_size_list, list_view; of string, large_string, string_view, dictionaries of these
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bridle.data.tokenizer import Tokens, tokenize
from bridle.errors import BridleError, FeatureError, GivenError, clipped
from bridle.extras import needed
from bridle.texts import Offsets, Texts

LONGEST = 65_536  # bytes of a token
MOST_TOKENS, MOST_ROWS = 1 << 16, 4096  # that are decoded at a time
Errors = dict[int, BridleError]  # of rows, by their number
Chars = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]  # (N) the first character of each token, the one after it


def arrow() -> Any:
    """PyArrow."""
    return needed("pyarrow", "arrow", "Arrow tables need PyArrow")


# ---- types ----------------------------------------------------------------------------------------------------------


def is_kind(kind: Any, *names: str) -> bool:
    """Is a type one of these? Old versions of PyArrow do not know all of them."""
    types = arrow().types
    return any(check(kind) for name in names if (check := getattr(types, f"is_{name}", None)) is not None)


def is_text(kind: Any) -> bool:
    """Does a column of this type hold one text per row?"""
    if is_kind(kind, "dictionary"):
        kind = kind.value_type
    return is_kind(kind, "string", "large_string", "string_view")


def is_list(kind: Any) -> bool:
    """Does a column of this type hold a list per row?"""
    return is_kind(kind, "list", "large_list", "fixed_size_list", "list_view", "large_list_view")


def is_texts(kind: Any) -> bool:
    """Does a column of this type hold a list of texts per row? If all are empty, it may be of null."""
    return is_kind(kind, "null") or (is_list(kind) and (is_text(kind.value_type) or is_kind(kind.value_type, "null")))


def is_object(kind: Any) -> bool:
    """Does a column of this type hold names with values: a struct, a map, or JSON?"""
    return is_kind(kind, "struct", "map", "null") or is_text(kind)


# ---- parts ----------------------------------------------------------------------------------------------------------


def parts_of(array: Any) -> Iterator[tuple[int, int]]:
    """Rows low .. high-1 that are worked on at a time: a bounded number of tokens, unless a single row has more."""
    rows, low = len(array), 0
    if not rows:  # an array without rows may have no buffers
        return
    ends = np.cumsum(_weights(array))
    while low < rows:
        full = int(np.searchsorted(ends, (ends[low - 1] if low else 0) + MOST_TOKENS, side="right"))
        high = min(max(full, low + 1), low + MOST_ROWS, rows)
        yield low, high
        low = high


def _weights(array: Any) -> npt.NDArray[np.int64]:
    """About how many tokens each row has."""
    kind = array.type
    if is_kind(kind, "list", "large_list"):
        return np.diff(_numbers(array.offsets))
    if is_kind(kind, "fixed_size_list"):
        return np.full(len(array), kind.list_size, dtype=np.int64)
    if is_kind(kind, "list_view", "large_list_view"):
        return _numbers(array.sizes)
    if is_kind(kind, "string", "large_string"):
        return np.diff(_text_offsets(array)) // 4
    return np.full(len(array), 64, dtype=np.int64)


def _numbers(array: Any) -> npt.NDArray[np.int64]:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.int64)


# ---- lists of texts -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextColumn:
    """Some rows of a column of lists of texts."""

    texts: Texts  # (N) of all tokens, end to end
    offsets: Offsets  # (B + 1) from 0
    errors: Errors  # rows that cannot be read; the tokens of others may be used

    @classmethod
    def of(cls, array: Any, name: str, longest: int = LONGEST) -> TextColumn:
        """The rows of an array. longest: bytes of a token."""
        values, offsets, errors = lists_of(array, name)
        texts, wrong = _texts_of(values, name)
        sizes = np.diff(texts.offsets)
        wrong |= {t: _too_long(name, int(sizes[t])) for t in np.flatnonzero(sizes > longest).tolist()}
        for t, error in wrong.items():
            errors.setdefault(int(np.searchsorted(offsets, t, side="right")) - 1, error)
        return cls(texts, offsets, errors)


def _texts_of(values: Any, name: str) -> tuple[Texts, Errors]:
    """The texts of an array of strings, and which of them are null or not UTF-8."""
    values = _plain_text(values)
    offsets, buffer = _text_offsets(values), values.buffers()[2]
    data = np.frombuffer(b"" if buffer is None else buffer, dtype=np.uint8)
    if not 0 <= offsets[0] <= offsets[-1] <= len(data) or (np.diff(offsets) < 0).any():
        raise _broken(name)
    texts = Texts(data, offsets)
    wrong: Errors = {int(t): _null_token(name) for t in nulls(values)} if values.null_count else {}
    if not _is_utf8(values):
        wrong |= {t: _no_text(name) for t in range(len(texts)) if t not in wrong and not _decodes(texts, t)}
    return texts, wrong


def lists_of(array: Any, name: str) -> tuple[Any, Offsets, Errors]:
    """The items of the lists of all rows, end to end, where each row begins, and rows that are null."""
    pa = arrow()
    if is_kind(array.type, "null"):
        array = array.cast(pa.list_(pa.string()))
    if is_kind(array.type, "fixed_size_list"):
        width, errors = array.type.list_size, _null_rows(array, name)
        if (array.offset + len(array)) * width > len(array.values):
            raise _broken(name)
        values = array.values.slice(array.offset * width, len(array) * width)
        return values, np.arange(len(array) + 1, dtype=np.int64) * width, errors
    if is_kind(array.type, "list_view", "large_list_view"):  # in any order, and more than once
        sizes = np.where(array.is_null().to_numpy(zero_copy_only=False), 0, _numbers(array.sizes))
        begins = _numbers(array.offsets)
        if ((sizes < 0) | ((sizes > 0) & ((begins < 0) | (begins + sizes > len(array.values))))).any():
            raise _broken(name)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return array.flatten(), offsets, _null_rows(array, name)
    offsets = _numbers(array.offsets) if len(array) else np.zeros(1, dtype=np.int64)
    if not 0 <= offsets[0] <= offsets[-1] <= len(array.values) or (np.diff(offsets) < 0).any():
        raise _broken(name)
    values = array.values.slice(offsets[0], offsets[-1] - offsets[0])
    return values, offsets - offsets[0], _null_rows(array, name)


def _null_rows(array: Any, name: str) -> Errors:
    return {row: _null_row(name) for row in nulls(array).tolist()} if array.null_count else {}


def _plain_text(values: Any) -> Any:
    """Strings whose bytes lie end to end."""
    pa = arrow()
    if is_kind(values.type, "string", "large_string"):
        return values
    return values.cast(pa.large_string()) if not is_kind(values.type, "dictionary") else _plain_text(_decoded(values))


def _decoded(values: Any) -> Any:
    return _plain_text(values.dictionary).take(values.indices)


def _text_offsets(values: Any) -> Offsets:
    """(N + 1) where each string begins among the bytes."""
    buffer, wide = values.buffers()[1], is_kind(values.type, "large_string")
    if buffer is None or not len(values):
        return np.zeros(1, dtype=np.int64)
    begins = np.frombuffer(buffer, dtype=np.int64 if wide else np.int32)
    return begins[values.offset : values.offset + len(values) + 1].astype(np.int64)


def nulls(array: Any) -> npt.NDArray[np.int64]:
    """Where an array is null."""
    return np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))


def _is_utf8(values: Any) -> bool:
    try:
        values.validate(full=True)
    except arrow().ArrowInvalid:
        return False
    return True


def _decodes(texts: Texts, t: int) -> bool:
    try:
        texts.data[texts.offsets[t] : texts.offsets[t + 1]].tobytes().decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


class Column(Protocol):
    """Rows that have so many tokens each."""

    @property
    def offsets(self) -> Offsets: ...


def check_lengths(columns: Mapping[str, Column], errors: Errors) -> None:
    """Add errors for rows whose columns differ in length."""
    (first, main), *others = columns.items()
    for name, column in others:
        ours, theirs = np.diff(main.offsets), np.diff(column.offsets)
        for row in np.flatnonzero(ours != theirs).tolist():
            got, wanted = f"{theirs[row]} in {name!r}", f"{ours[row]}, as in {first!r}"
            cause = "Every column has one text per token."
            errors.setdefault(row, FeatureError("the columns differ in length", got=got, wanted=wanted, cause=cause))


# ---- running text, and values ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Places:
    """Where the tokens of rows are in the texts that they come from."""

    begins: npt.NDArray[np.int32]  # (N) the first character of each token in its row
    ends: npt.NDArray[np.int32]  # (N) the one after its last
    offsets: Offsets  # (B + 1) tokens of each row

    def between(self, low: int, high: int) -> Chars:
        """Those of the tokens of rows low .. high-1."""
        tokens = slice(self.offsets[low], self.offsets[high])
        return self.begins[tokens], self.ends[tokens]


def split_text(array: Any, name: str, how: Tokens) -> tuple[TextColumn, Places]:
    """Rows of running text, split into tokens."""
    texts, errors = _texts_of(array, name)
    errors |= _null_rows(array, name)
    tokens: list[str] = []
    begins: list[int] = []
    offsets = [0]
    for row in range(len(texts)):
        if row not in errors:
            found, starts = tokenize(texts[row], how)
            longest = max((len(token.encode()) for token in found if 4 * len(token) > LONGEST), default=0)
            if longest > LONGEST:
                errors[row] = _too_long(name, longest)
            else:
                tokens += found
                begins += starts
        offsets.append(len(tokens))
    first = np.array(begins, dtype=np.int32)
    last = first + np.fromiter(map(len, tokens), dtype=np.int32, count=len(tokens))
    column = TextColumn(Texts.of(tokens), np.array(offsets, dtype=np.int64), errors)
    return column, Places(first, last, column.offsets)


def given_of(array: Any, name: str) -> tuple[list[Mapping[str, Any]], Errors]:
    """The values of each row by name: from a struct, a map, or JSON; nulls are left out."""
    found: list[Mapping[str, Any]] = []
    errors: Errors = {}
    for row, value in enumerate(array):
        try:
            found.append(_object_of(value.as_py(), name))
        except GivenError as error:
            found.append({})
            errors[row] = error
        except (ValueError, OverflowError) as error:  # no UTF-8, or a time that Python does not have
            found.append({})
            got = clipped(str(error), 200)
            errors[row] = GivenError(f"{name!r} has a value that cannot be read", got=got, wanted="plain values")
    return found, errors


def _object_of(value: Any, name: str) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise GivenError(f"{name!r} is not JSON", got=str(error)[:200], wanted='{"verb": 3}') from None
    elif isinstance(value, list):  # a map
        value = dict(value)
    if value is not None and not isinstance(value, dict):
        raise GivenError(f"{name!r} has no names", got=clipped(value, 200), wanted='{"verb": 3}')
    return {} if value is None else {key: x for key, x in value.items() if x is not None}


def select(arrays: Mapping[str, Any], rows: Sequence[int] | npt.NDArray[np.int64]) -> dict[str, Any]:
    """Some rows of arrays."""
    at = arrow().array(rows, type=arrow().int64())
    return {name: _takeable(array).take(at) for name, array in arrays.items()}


def _takeable(array: Any) -> Any:
    """The same in a type of which PyArrow can take some rows: it cannot of views of strings."""
    pa, kind = arrow(), array.type
    if is_kind(kind, "string_view"):
        return array.cast(pa.large_string())
    if is_kind(kind, "list", "large_list", "fixed_size_list") and is_kind(kind.value_type, "string_view"):
        return array.cast(pa.large_list(pa.large_string()))
    return array


# ---- errors ---------------------------------------------------------------------------------------------------------


def _broken(name: str) -> FeatureError:
    return FeatureError(
        f"the column {name!r} is damaged",
        got="offsets that do not rise, or that lie outside of its data",
        wanted="a valid Arrow array",
        cause="table.validate(full=True) says more.",
    )


def _null_row(name: str) -> FeatureError:
    return FeatureError(f"{name!r} is null", got="null", wanted="a list of tokens, which may be empty")


def _null_token(name: str) -> FeatureError:
    return FeatureError(f"a token in {name!r} is null", got="null", wanted="a string, which may be empty")


def _too_long(name: str, size: int) -> FeatureError:
    return FeatureError(
        f"a token in {name!r} is too long",
        got=f"{size:,} bytes",
        wanted=f"at most {LONGEST:,}",
        cause="Is it a text that was not split into tokens?",
    )


def _no_text(name: str) -> FeatureError:
    return FeatureError(f"a token in {name!r} is not UTF-8", got="other bytes", wanted="text in UTF-8")
