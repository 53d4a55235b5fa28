"""Arrow arrays as blocks, without an object per token, and outcomes as Arrow arrays.

    list<string>, large_list, fixed_size_list, list_view; of string, large_string, string_view, dictionaries of these
    a text per row, which is split into tokens
    list<list<number>>: scores, tokens x labels

What is wrong with a row is an error of that row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.errors import BridleError, FeatureError, GivenError, LatticeError, clipped
from bridle.extras import needed
from bridle.features.columns import null_token
from bridle.lattice import LARGEST
from bridle.tagging.block import INTEGER, NO_ID, TEXT, Column, Ids
from bridle.tagging.figures import FIGURES
from bridle.tagging.labelling import Outcomes
from bridle.texts import Offsets, Texts

MOST_TOKENS, MOST_ROWS = 1 << 16, 4096  # that are decoded at a time
Errors = dict[int, BridleError]  # of rows, by their number
Split = Callable[[str], tuple[Sequence[str], Sequence[int]]]  # tokens of a text, and where each begins


def arrow(name: str = "pyarrow") -> Any:
    """Import PyArrow, or a module of it."""
    return needed(name, "arrow", "Arrow tables need PyArrow")


# ---- types ----------------------------------------------------------------------------------------------------------


def is_kind(kind: Any, *names: str) -> bool:
    """Check whether a type is one of these. Old versions of PyArrow do not know all of them."""
    types = arrow().types
    return any(check(kind) for name in names if (check := getattr(types, f"is_{name}", None)) is not None)


def is_text(kind: Any) -> bool:
    """Check whether a column of this type holds one text per row."""
    if is_kind(kind, "dictionary"):
        kind = kind.value_type
    return is_kind(kind, "string", "large_string", "string_view")


def is_list(kind: Any) -> bool:
    """Check whether a column of this type holds a list per row."""
    return is_kind(kind, "list", "large_list", "fixed_size_list", "list_view", "large_list_view")


def is_texts(kind: Any) -> bool:
    """Check whether a column of this type holds a list of texts per row. If all are empty, it may be of null."""
    return is_kind(kind, "null") or (is_list(kind) and (is_text(kind.value_type) or is_kind(kind.value_type, "null")))


def is_object(kind: Any) -> bool:
    """Check whether a column of this type holds names with values: a struct, a map, or JSON."""
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


def texts_of(array: Any, name: str, errors: Errors, *, is_valid: bool = False) -> Column:
    """Read lists of texts; rows that are null, or have a token that is null or not text, get an error.

    is_valid: Arrow has checked the array, all of it.
    """
    values, offsets = lists_of(array, name, errors)
    if is_kind(values.type, "dictionary") and values.dictionary.null_count:
        values = _decoded(values)  # so that it counts its nulls
    texts, wrong = _strings_of(values, name, is_valid)
    for t, error in wrong.items():
        errors.setdefault(int(np.searchsorted(offsets, t, side="right")) - 1, error)
    known, whole = (x.is_valid().to_numpy(zero_copy_only=False) if x.null_count else None for x in (array, values))
    return Column(texts, offsets, known, whole)


def ids_of(array: Any, name: str, *, is_valid: bool = False) -> Ids:
    """Read ids of any type."""
    if not (is_text(array.type) or is_kind(array.type, "integer")):
        return Ids.of(array.to_pylist())
    kind = TEXT if is_text(array.type) else INTEGER
    texts, _ = _strings_of(array if kind == TEXT else array.cast(arrow().string()), name, is_valid)
    kinds = np.full(len(array), kind, np.uint8)
    kinds[nulls(array) if array.null_count else slice(0)] = NO_ID
    return Ids(texts, kinds)


def _strings_of(values: Any, name: str, is_valid: bool = False) -> tuple[Texts, Errors]:
    """The texts of an array of strings, and which of them are null or not UTF-8."""
    if is_kind(values.type, "dictionary") and is_valid and not (values.null_count or values.dictionary.null_count):
        texts, wrong = _strings_of(values.dictionary, name, is_valid)
        numbers = values.indices.to_numpy()
        return texts.take(numbers if numbers.dtype == np.int32 else numbers.astype(np.int64)), wrong
    values = _plain_text(values)
    offsets, buffer = _text_offsets(values), values.buffers()[2]
    data = np.frombuffer(b"" if buffer is None else buffer, dtype=np.uint8)
    if not is_valid and (not 0 <= offsets[0] <= offsets[-1] <= len(data) or (np.diff(offsets) < 0).any()):
        raise _broken(name)
    texts, wrong = Texts(data, offsets), dict[int, BridleError]()
    if values.null_count:
        wrong = {int(t): null_token(name) for t in nulls(values)}
    if not (is_valid or _is_utf8(values)):
        wrong |= {t: _no_text(name) for t in range(len(texts)) if t not in wrong and not _decodes(texts, t)}
    return texts, wrong


def lists_of(array: Any, name: str, errors: Errors) -> tuple[Any, Offsets]:
    """The items of the lists of all rows, end to end, and where each row begins. Rows that are null get an error."""
    pa = arrow()
    if is_kind(array.type, "null"):
        array = array.cast(pa.list_(pa.string()))
    if array.null_count:
        errors |= {row: _null_row(name) for row in nulls(array).tolist() if row not in errors}
    if is_kind(array.type, "fixed_size_list"):
        width = array.type.list_size
        if (array.offset + len(array)) * width > len(array.values):
            raise _broken(name)
        values = array.values.slice(array.offset * width, len(array) * width)
        return values, np.arange(len(array) + 1, dtype=np.int64) * width
    if is_kind(array.type, "list_view", "large_list_view"):  # in any order, and more than once
        sizes = np.where(array.is_null().to_numpy(zero_copy_only=False), 0, _numbers(array.sizes))
        begins = _numbers(array.offsets)
        if ((sizes < 0) | ((sizes > 0) & ((begins < 0) | (begins + sizes > len(array.values))))).any():
            raise _broken(name)
        return array.flatten(), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    offsets = _numbers(array.offsets) if len(array) else np.zeros(1, dtype=np.int64)
    if not 0 <= offsets[0] <= offsets[-1] <= len(array.values) or (np.diff(offsets) < 0).any():
        raise _broken(name)
    return array.values.slice(offsets[0], offsets[-1] - offsets[0]), offsets - offsets[0]


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
    """Return the rows of an array that are null."""
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


# ---- running text, values and scores --------------------------------------------------------------------------------


def split_text(array: Any, name: str, split: Split, errors: Errors) -> tuple[Column, tuple[Any, Any]]:
    """Split running text into tokens; with the first character of each token, and the one after its last."""
    texts, wrong = _strings_of(array, name)
    null = set(nulls(array).tolist()) if array.null_count else set()
    errors |= {row: _null_row(name) if row in null else error for row, error in wrong.items() if row not in errors}
    tokens: list[str] = []
    begins: list[int] = []
    offsets = [0]
    for row in range(len(texts)):
        if row not in errors:
            words, starts = split(texts[row])
            tokens += words
            begins += starts
        offsets.append(len(tokens))
    first = np.array(begins, dtype=np.int32)
    last = first + np.fromiter(map(len, tokens), dtype=np.int32, count=len(tokens))
    return Column(tokens, np.array(offsets, dtype=np.int64)), (first, last)


def given_of(array: Any, name: str, errors: Errors) -> list[Mapping[str, Any]]:
    """Read the values of each row by name: from a struct, a map, or JSON; nulls are left out."""
    objects: list[Mapping[str, Any]] = []
    for row, value in enumerate(array):
        try:
            objects.append(_object_of(value.as_py(), name))
            continue
        except GivenError as error:
            wrong = error
        except (ValueError, OverflowError) as error:  # no UTF-8, or a time that Python does not have
            got = clipped(str(error), 200)
            wrong = GivenError(f"{name!r} has a value that cannot be read", got=got, wanted="plain values")
        objects.append({})
        errors.setdefault(row, wrong)
    return objects


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


def scores_of(array: Any, name: str, m: int, errors: Errors) -> tuple[npt.NDArray[Any], Offsets]:
    """Read scores of m labels: (N, m) float32 or float64, and where each row begins. Rows at fault have no tokens."""
    pa = arrow()
    if is_kind(array.type, "null") or is_kind(array.type.value_type, "null"):
        array = array.cast(pa.large_list(pa.large_list(pa.float64())))
    tokens, offsets = lists_of(array, name, errors)
    missing: Errors = {}
    values, cuts = lists_of(tokens, name, missing)
    wrong = {t: _no_score(f"the scores of a token in {name!r} are null", "null", "numbers") for t in missing}
    for t in np.flatnonzero(np.diff(cuts) != m).tolist():
        got = f"{cuts[t + 1] - cuts[t]} numbers"
        wrong.setdefault(t, _no_score(f"a token in {name!r} has another number of scores", got, f"{m}, one per label"))
    flat = _flat(values)
    for at in _bad(values, flat):
        t = int(np.searchsorted(cuts, at, side="right")) - 1
        got = "null" if not values[at].is_valid else str(float(flat[at]))
        wanted = "numbers; -inf for a label that is impossible"
        wrong.setdefault(t, _no_score(f"a score in {name!r} is not a number to count with", got, wanted))
    for t, error in wrong.items():
        errors.setdefault(int(np.searchsorted(offsets, t, side="right")) - 1, error)
    if not errors:
        return flat.reshape(-1, m), offsets
    kept = np.ones(len(array), dtype=bool)
    kept[list(errors)] = False
    lengths = np.diff(offsets)
    starts = cuts[np.flatnonzero(np.repeat(kept, lengths))]
    rows = flat[starts[:, None] + np.arange(m)] if len(starts) else flat[:0].reshape(0, m)
    return rows, np.concatenate([[0], np.cumsum(lengths * kept)])


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
    """Return the rows whose numbers are missing, not a number, or too large."""
    if not values.null_count and _native.first_bad(flat, LARGEST) == len(flat):
        return []
    bad = ~((np.abs(flat.astype(np.float64)) <= LARGEST) | (flat == -np.inf))
    if values.null_count:
        bad[nulls(values)] = True
    return list(map(int, np.flatnonzero(bad)))


def _no_score(what: str, got: str, wanted: str) -> LatticeError:
    return LatticeError(what, got=got, wanted=wanted)


def _broken(name: str) -> FeatureError:
    return FeatureError(
        f"the column {name!r} is damaged",
        got="offsets that do not rise, or that lie outside of its data",
        wanted="a valid Arrow array",
        cause="table.validate(full=True) says more.",
    )


def _null_row(name: str) -> FeatureError:
    return FeatureError(f"{name!r} is null", got="null", wanted="a list of tokens, which may be empty")


def _no_text(name: str) -> FeatureError:
    return FeatureError(f"a token in {name!r} is not UTF-8", got="other bytes", wanted="text in UTF-8")


def list_array(column: Column) -> Any:
    """Make an array of lists of strings, which shares its bytes with the column."""
    pa = arrow()
    values, rows = string_array(column.texts, column.whole), pa.py_buffer(column.offsets.astype(np.int32))
    return pa.Array.from_buffers(pa.list_(pa.string()), len(column), [_bits(column.known), rows], children=[values])


def string_array(strings: Sequence[str], whole: Any = None) -> Any:
    """Make an array of strings, which shares their bytes; those that are not whole are null."""
    pa, texts = arrow(), Texts.of(strings)
    data = texts.data[texts.offsets[0] : texts.offsets[-1]]
    ends = np.subtract(texts.offsets, texts.offsets[0], dtype=np.int32, casting="unsafe")
    return pa.Array.from_buffers(pa.string(), len(texts), [_bits(whole), pa.py_buffer(ends), pa.py_buffer(data)])


def _bits(flags: Any) -> Any:
    return None if flags is None or flags.all() else arrow().py_buffer(np.packbits(flags, bitorder="little"))


# ---- outcomes -------------------------------------------------------------------------------------------------------

Output = Literal["labels", "spans", "ids"]
OUTPUTS: tuple[Output, ...] = ("labels", "spans", "ids")


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns that are added to a table."""

    output: Output = "labels"
    figures: tuple[str, ...] = ()
    prefix: str = ""

    def fields(self, chars: bool) -> list[Any]:
        """Make the fields. chars: do spans say where they are in a text?"""
        pa = arrow()
        span = [("start", pa.int32()), ("end", pa.int32()), ("label", pa.string())]
        span += [("start_char", pa.int32()), ("end_char", pa.int32())] if chars else []
        kinds = {"labels": pa.list_(pa.string()), "ids": pa.list_(pa.int32()), "spans": pa.list_(pa.struct(span))}
        columns: list[tuple[str, Any]] = [(self.output, kinds[self.output])]
        columns += [(name, FIGURES[name].kind(pa)) for name in self.figures]
        columns += [("status", pa.string()), ("error", pa.string())]
        return [pa.field(self.prefix + name, kind) for name, kind in columns]

    def arrays(self, outcomes: Outcomes, chars: bool = False) -> list[Any]:
        """Make the columns of the sequences of a block."""
        pa = arrow()
        columns = [{"labels": _labels, "ids": _ids, "spans": _spans}[self.output](outcomes, chars)]
        columns += [FIGURES[name].array(pa, outcomes) for name in self.figures]
        names, which = statuses_of(outcomes)
        messages: Any = pa.nulls(len(outcomes), pa.string())
        if outcomes.errors:
            messages = pa.array([_message(outcomes, row) for row in range(len(outcomes))], pa.string())
        return [*columns, string_array(Texts.of(names).take(which)), messages]


def statuses_of(outcomes: Outcomes) -> tuple[list[str], npt.NDArray[np.int32]]:
    """The statuses that occur, and which of them each sequence has."""
    status, first = outcomes.status, outcomes.status[:1]
    if (status == first).all():  # as nearly always; to sort them takes longer
        return first.tolist(), np.zeros(len(status), np.int32)
    names, which = np.unique(status, return_inverse=True)
    return names.tolist(), which.astype(np.int32)


def _message(outcomes: Outcomes, row: int) -> str | None:
    error = outcomes.errors.get(row)
    if error is None:
        return None
    error.sequence = None  # the row says where it is
    return str(error)


def _listed(outcomes: Outcomes, values: Any, offsets: npt.NDArray[np.int32]) -> Any:
    pa, there = arrow(), outcomes.labelled
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=None if there.all() else pa.array(~there))


def _labels(outcomes: Outcomes, _chars: bool) -> Any:
    names = Texts.of(outcomes.label_set.names)
    return _listed(outcomes, string_array(names.take(outcomes.ids)), outcomes.offsets)


def _ids(outcomes: Outcomes, _chars: bool) -> Any:
    return _listed(outcomes, arrow().array(outcomes.ids), outcomes.offsets)


def _spans(outcomes: Outcomes, chars: bool) -> Any:
    pa = arrow()
    first, last, row = outcomes.segments
    begin = outcomes.offsets[row]
    types = pa.array(outcomes.label_set.span_labels.type_of).take(pa.array(outcomes.ids[first]))
    columns = {"start": pa.array(first - begin), "end": pa.array(last - begin), "label": types}
    if chars and outcomes.chars is not None:
        begins, ends = (outcomes.per_label(places) for places in outcomes.chars)
        columns |= {"start_char": pa.array(begins[first]), "end_char": pa.array(ends[last - 1])}
    counts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(outcomes)))]).astype(np.int32)
    return _listed(outcomes, pa.StructArray.from_arrays(list(columns.values()), list(columns)), counts)
