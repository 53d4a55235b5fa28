"""Record batches of blocks, from sequences that were read one by one and from buffers that kernels have filled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from bridle.bulk.base import COMMENTS, GIVEN, GOLD, ID, OWN, TOKENS, Block
from bridle.data.examples import Example
from bridle.data.limits import MOST_KEYS
from bridle.errors import FileError
from bridle.extras import needed

_TEXT, _INTEGER, _OTHER = 1, 2, 3  # kinds of ids; 0: there is none


def arrow(name: str = "pyarrow") -> Any:
    """PyArrow, or a module of it."""
    return needed(name, "arrow", "batches need PyArrow", FileError)


class Pieces:
    """The rows of a block while it is read. Columns that a file has once are in all of its further batches."""

    def __init__(self, where: str, missing: str | None) -> None:
        self.where, self.missing = where, missing
        self.errors: dict[int, str] = {}
        self.left_out: dict[str, int] = {}
        self._names: dict[str, None] = {TOKENS: None}
        self._pieces: list[tuple[int, dict[str, Any]]] = []
        self._rows: list[dict[str, Any]] = []  # that were read one by one
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, example: Example) -> None:
        """Add a sequence."""
        self._rows.append(_values(example, self.missing))
        self._count += 1

    def fail(self, error: FileError, name: Any = None) -> None:
        """Add a row that could not be read, with its id, so that it can be found."""
        self.errors[self._count] = str(error)
        self._rows.append({} if name is None else {ID: name})
        self._count += 1

    def extend(self, count: int, arrays: Mapping[str, Any]) -> None:
        """Add rows as arrays. Ids are a pair: texts, and the kind of each."""
        if count:
            self._flush()
            self._append(count, dict(arrays))
            self._count += count

    def block(self, end: int, share: float) -> Block:
        """All rows so far; they are forgotten."""
        self._flush()
        kinds = {ID: arrow().string(), GIVEN: arrow().string()}
        arrays = {}
        for name in self._ordered():
            parts = [piece.get(name) for _, piece in self._pieces]
            if name == ID:
                arrays[name] = _ids([part for part in parts if part is not None], self._pieces)
            else:
                kind = kinds.get(name, strings_type())
                arrays[name] = _joined(parts, [count for count, _ in self._pieces], kind)
        batch = arrow().RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
        made = Block(batch, end, share, self.errors, self.left_out)
        self.errors, self.left_out, self._pieces, self._count = {}, {}, [], 0
        return made

    def _ordered(self) -> list[str]:
        others = [name for name in self._names if name not in OWN]
        return [name for name in (ID, TOKENS, *others, GOLD, GIVEN, COMMENTS) if name in self._names]

    def _append(self, count: int, arrays: dict[str, Any]) -> None:
        self._names.update(dict.fromkeys(arrays))
        if len(self._names) > MOST_KEYS + len(OWN):
            raise FileError(
                "the sequences of this file have too many columns",
                got=f"{len(self._names):,}",
                wanted=f"at most {MOST_KEYS:,}",
                cause="Does each sequence have keys of its own?",
                where=self.where,
            )
        self._pieces.append((count, arrays))

    def _flush(self) -> None:
        """Turn the sequences that were read one by one into arrays."""
        some, self._rows = self._rows, []
        if not some:
            return
        columns: dict[str, list[Any]] = {}
        for k, row in enumerate(some):
            for name, value in row.items():
                columns.setdefault(name, [None] * len(some))[k] = value
        pa, kinds = arrow(), {GIVEN: arrow().string()}
        made: dict[str, Any] = {}
        for name, values in columns.items():
            if name == ID:
                made[ID] = _typed(values)
            else:
                made[name] = pa.array(values, kinds.get(name, strings_type()))
        self._append(len(some), made)


def strings_type() -> Any:
    """The type of columns: lists of strings."""
    return arrow().list_(arrow().string())


def string_array(ends: bytes, data: bytes, whole: bytes | None = None) -> Any:
    """Strings, from the buffers of a kernel. whole: 0 for a null."""
    pa = arrow()
    count = len(ends) // 4 - 1
    return pa.Array.from_buffers(pa.string(), count, [_bits(whole), pa.py_buffer(ends), pa.py_buffer(data)])


def list_array(rows: bytes, values: Any, known: bytes | None = None) -> Any:
    """Lists of strings, from the buffers of a kernel. known: 0 for a null."""
    pa = arrow()
    buffers = [_bits(known), pa.py_buffer(rows)]
    return pa.Array.from_buffers(strings_type(), len(rows) // 4 - 1, buffers, children=[values])


def without(values: Any, missing: str | None) -> Any:
    """Strings with null in place of those that stand for a missing one."""
    if missing is None:
        return values
    pc = arrow("pyarrow.compute")
    gaps = pc.equal(values, missing)
    return pc.if_else(gaps, None, values) if pc.any(gaps).as_py() else values


def typed_ids(array: Any) -> tuple[Any, Any]:
    """Ids of a column of any type: texts, and the kind of each."""
    pa = arrow()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    is_text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    if is_text or (pa.types.is_integer(array.type) and array.type != pa.uint64()):
        return array.cast(pa.string()), np.full(len(array), _TEXT if is_text else _INTEGER, np.uint8)
    return _typed(array.to_pylist())


def _typed(values: list[Any]) -> tuple[Any, Any]:
    return arrow().array([*map(_text, values)], arrow().string()), np.array([*map(_kind, values)], np.uint8)


def own_name(name: str) -> str:
    """The name of a column of a file in a batch, where some names have a meaning of their own."""
    return f"{name}_" if name in OWN else name


def _bits(flags: bytes | None) -> Any:
    if flags is None or (array := np.frombuffer(flags, np.uint8)).all():
        return None
    return arrow().py_buffer(np.packbits(array != 0, bitorder="little").tobytes())


def _joined(parts: list[Any], counts: list[int], kind: Any) -> Any:
    pa = arrow()
    filled = [pa.nulls(n, kind) if part is None else part for part, n in zip(parts, counts, strict=True)]
    return filled[0] if len(filled) == 1 else pa.concat_arrays(filled) if filled else pa.nulls(0, kind)


def _ids(parts: list[Any], pieces: list[tuple[int, dict[str, Any]]]) -> Any:
    """Ids as integers if all of them are, otherwise as text."""
    texts = [piece[ID][0] if ID in piece else None for _, piece in pieces]
    made = _joined(texts, [count for count, _ in pieces], arrow().string())
    kinds = np.unique(np.concatenate([part[1] for part in parts])) if parts else np.zeros(0)
    return made.cast(arrow().int64()) if _INTEGER in kinds and {_INTEGER, 0}.issuperset(kinds.tolist()) else made


def _kind(name: Any) -> int:
    if name is None:
        return 0
    if isinstance(name, str):
        return _TEXT
    is_integer = isinstance(name, int) and not isinstance(name, bool) and -(1 << 63) <= name < 1 << 63
    return _INTEGER if is_integer else _OTHER


def _text(name: Any) -> str | None:
    return name if name is None or isinstance(name, str) else json.dumps(name)


def _values(example: Example, missing: str | None) -> dict[str, Any]:
    """The values of a row."""
    (_, tokens), *others = example.columns.items()
    made: dict[str, Any] = {TOKENS: tokens, **{own_name(name): column for name, column in others}}
    if example.labels is not None:
        made[GOLD] = [None if label is None or label == missing else label for label in example.labels]
    if example.id is not None:
        made[ID] = example.id
    if example.given:
        made[GIVEN] = json.dumps(dict(example.given))
    if example.comments:
        made[COMMENTS] = list(example.comments)
    return made
