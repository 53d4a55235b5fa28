"""Model files: named arrays plus one JSON object, with checksums; reading one runs no code.

    bytes      what
    0..7       magic: 0x89 "BRIDLE" newline
    8..11      format version
    12..15     h, the length of the header                        numbers are little-endian, without sign
    16..47     SHA-256 of bytes 0..15 and of the header
    48..48+h   header, JSON in UTF-8 without blanks:
               {"kind": ..., "head": {...}, "arrays": [{"name", "dtype", "shape", "offset", "length", "sha256"}, ...]}
    data       the arrays, little-endian, rows first, each at the next multiple of 64

`offset` counts from where the data starts, itself a multiple of 64. The arrays are in the order of the header with
zeros between them and nothing after them, so every byte of the file is either checked or known: arrays cannot overlap,
and one changed byte is found. All sizes are compared with the file's own size before anything is allocated.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import stat
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

from bridle.atomic import replacing
from bridle.errors import BridleError, ModelFileError

Array = npt.NDArray[Any]

MAGIC = b"\x89BRIDLE\n"
VERSION = 1
DTYPES = ("uint8", "uint16", "int32", "int64", "uint64", "float32", "float64")
ALIGN = 64
LARGEST_HEADER = 1 << 24  # bytes; parsed JSON takes many times its length, so what is large belongs into an array

_PREFIX = struct.Struct("<8sII32s")
_CHECKED = 16  # bytes of the prefix that the header's checksum covers
_MOST_AXES = 32  # what every NumPy can have
UNFIT = (
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    RecursionError,
    BridleError,
)  # what parts of a file that do not fit raise
_JSON = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))
_KEYS = {"name": str, "dtype": str, "shape": list, "offset": int, "length": int, "sha256": str}
_LOOKS_LIKE = {
    b"PK\x03\x04": "a zip archive, such as npz or what PyTorch saves",
    b"\x93NUMPY": "one NumPy array (npy)",
    b"\x1f\x8b": "a gzip file",
    b"\x89HDF": "an HDF5 file",
    b"lCRF": "a CRFsuite model",
    **{bytes([0x80, protocol]): "a pickle, which could run any code and is never loaded" for protocol in range(2, 6)},
}


@dataclass(frozen=True, slots=True)
class Stored:
    """The content of a model file."""

    kind: str  # what kind of model it is
    head: dict[str, Any]  # the JSON object
    arrays: dict[str, Array]  # read-only


# ---- writing --------------------------------------------------------------------------------------------------------


def save(path: str | os.PathLike[str], kind: str, head: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a model file. It gets its name when all is on the disk; until then an earlier file of that name stays."""
    parts = _parts(kind, head, arrays)
    try:
        mode = Path(path).stat().st_mode
    except (OSError, TypeError, ValueError):
        mode = stat.S_IFREG  # there is none yet, or it is no path, which is told below
    if not stat.S_ISREG(mode):
        wanted = "a file name in a folder with room"
        raise ModelFileError("cannot write this file", got="a folder or a device", wanted=wanted, where=str(path))
    with replacing(path, error=ModelFileError, flush_to="disk") as file:
        for part in parts:
            file.write(part)


def to_bytes(kind: str, head: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """Return the bytes that `save` would write."""
    return b"".join(_parts(kind, head, arrays))


def _parts(kind: str, head: Mapping[str, Any], arrays: Mapping[str, Array]) -> list[bytes | memoryview]:
    """Return the pieces of a model file."""
    if not isinstance(kind, str) or not kind:
        raise ModelFileError("a model has no kind", got=repr(kind), wanted="a string", cause="Arguments swapped?")
    packed = {name: _little(name, array) for name, array in arrays.items()}
    entries, at = [], 0
    for name, array in packed.items():
        at += -at % ALIGN
        entries.append(
            {
                "name": name,
                "dtype": array.dtype.name,
                "shape": list(array.shape),
                "offset": at,
                "length": array.nbytes,
                "sha256": hashlib.sha256(_raw(array)).hexdigest(),
            }
        )
        at += array.nbytes
    header = _to_json({"kind": kind, "head": dict(head), "arrays": entries})
    if len(header) > LARGEST_HEADER:
        raise ModelFileError(
            "the header is too large",
            got=f"{len(header):,} bytes",
            wanted=f"at most {LARGEST_HEADER:,}",
            cause="Long lists belong into arrays.",
        )
    checked = _PREFIX.pack(MAGIC, VERSION, len(header), b"")[:_CHECKED]
    out: list[bytes | memoryview] = [checked + hashlib.sha256(checked + header).digest() + header]
    at = len(out[0])
    for array in (np.zeros(0, np.uint8), *packed.values()):
        out += [bytes(-at % ALIGN), _raw(array)]
        at += -at % ALIGN + array.nbytes
    return out


def _little(name: object, array: object) -> Array:
    """Convert an array to what is stored."""
    if not isinstance(name, str) or not name:
        raise ModelFileError("an array has no name", got=repr(name), wanted="a string", cause="Name it in the dict.")
    if not isinstance(array, np.ndarray) or array.dtype.name not in DTYPES:
        got = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise ModelFileError(
            f"array {name!r} cannot be stored",
            got=got,
            wanted=f"an array of {', '.join(DTYPES)}",
            cause="Convert it first, and text to the bytes of its UTF-8.",
        )
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _raw(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _to_json(value: dict[str, Any]) -> bytes:
    """Convert to strict JSON: no NaN, no infinity, no keys but strings, no half characters."""
    try:
        _check_keys(value)
        return _JSON.encode(value).encode()
    except (TypeError, ValueError, RecursionError) as error:  # ValueError: UnicodeEncodeError and huge numbers too
        raise ModelFileError(
            "the head of a model is not JSON",
            got=str(error),
            wanted="dicts with strings as keys, lists, strings, finite numbers, true, false, null",
            cause="NumPy values, NaN, sets and keys that are not strings must be converted first.",
        ) from None


def _check_keys(value: object) -> None:
    """Raise TypeError if a key is not a string: json.dumps would turn it into a string without a word."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r}")
            _check_keys(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _check_keys(inner)


def _no_place(path: object, error: Exception) -> ModelFileError:
    return ModelFileError(
        "not a valid file name", got=f"{path!r} ({error})", wanted="the name of a file", cause="A wrong name?"
    )


# ---- reading --------------------------------------------------------------------------------------------------------


Read = TypeVar("Read")
Longest = Mapping[str, tuple[int, str]]  # by the name of an array: what no axis exceeds, and what is wrong otherwise


def open_file(path: str | os.PathLike[str], longest: Longest = MappingProxyType({})) -> Stored:
    """Read a model file and check every byte of it. longest: sizes that are refused before anything is allocated."""
    return read_from(path, partial(_read, shown=str(path), longest=longest))


def is_model(path: str | os.PathLike[str]) -> bool:
    """Check whether a file begins as model files do: a model, deterministic rules, a checkpoint."""
    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def read_from(path: str | os.PathLike[str], read: Callable[[IO[bytes], int], Read]) -> Read:
    """Open a file and call `read(file, its size)`; what cannot be opened, or is too large, raises ModelFileError."""
    size = 0
    try:
        try:
            mode = (place := Path(path)).stat().st_mode
        except (TypeError, ValueError) as error:
            raise _no_place(path, error) from None
        if not stat.S_ISREG(mode):  # opening a pipe would wait for a writer
            raise OSError(errno.EINVAL, "a folder or a device")
        with place.open("rb", buffering=1 << 13) as file:
            size = os.fstat(file.fileno()).st_size
            return read(file, size)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _no_place(path, error) from None
        missing = isinstance(error, FileNotFoundError)
        raise ModelFileError(
            "cannot read this file",
            got=error.strerror or error,
            wanted="a model file",
            where=str(path),
            cause="A misspelled name, or another folder?" if missing else "Is it a file, and may you read it?",
        ) from None
    except MemoryError:
        raise ModelFileError(
            "this file is too large",
            got=f"{size:,} bytes",
            wanted="what fits into memory",
            cause="Too little memory.",
            where=str(path),
        ) from None


def unusable(
    error: Exception, path: str | os.PathLike[str], what: str, writer: str, cause: str | None = None
) -> ModelFileError:
    """Return the error of a file whose parts raised `UNFIT` while `what` was put together from them."""
    got = str(error).splitlines()[0] if str(error) else repr(error)
    return ModelFileError(
        f"this file holds no {what} that can be used",
        got=got,
        wanted=f"what {writer} writes",
        cause=cause,
        where=str(path),
    )


def from_bytes(data: bytes, longest: Longest = MappingProxyType({})) -> Stored:
    """Read what `to_bytes` wrote; trust it no more than a file."""
    return _read(BytesIO(data), len(data), "a model in memory", longest)


def _read(file: IO[bytes], size: int, shown: str, longest: Longest) -> Stored:
    n = _PREFIX.size
    start = file.read(n)
    if not start.startswith(MAGIC):
        raise _no_model(start, shown)
    if len(start) < n:
        raise _cut(shown, len(start), n)
    _, version, length, checksum = _PREFIX.unpack(start)
    if version != VERSION:
        newer = version > VERSION
        raise ModelFileError(
            "unknown format version",
            got=version,
            wanted=VERSION,
            where=shown,
            cause="Was it written by a newer Bridle? Then install that version." if newer else "The file is damaged.",
        )
    if length > min(LARGEST_HEADER, size - n):
        raise _cut(shown, size, n + length) if length <= LARGEST_HEADER else _altered(shown, "the header's length")
    header = file.read(length)
    if hashlib.sha256(start[:_CHECKED] + header).digest() != checksum:
        raise _altered(shown, "the header")
    try:  # only as `_to_json` writes it: no NaN, no infinity, no half characters, no key twice
        value = json.loads(header.decode())
        if _JSON.encode(value).encode() != header:
            raise ValueError("it is not in the form that `save` writes")
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise _wrong(shown, "the header is not JSON", reason[:200]) from None
    match value:
        case {"kind": str() as kind, "head": dict() as head, "arrays": list() as entries} if len(value) == 3 and kind:
            pass
        case _:
            raise _wrong(shown, "the header has other parts", repr(value)[:200])
    data, end = n + length + -(n + length) % ALIGN, _check_entries(entries, longest, shown)
    if data + end != size:
        raise _cut(shown, size, data + end)
    return Stored(kind, head, _arrays(file, data, entries, shown))


def _check_entries(entries: list[dict[str, Any]], longest: Longest, shown: str) -> int:
    """Return where the last array ends, if each is described correctly and begins at the next multiple of 64."""
    end, seen = 0, {""}
    for entry in entries:
        if not isinstance(entry, dict) or {key: type(part) for key, part in entry.items()} != _KEYS:
            raise _wrong(shown, "an array is not described as it should be", repr(entry)[:200])
        shape, name = entry["shape"], repr(entry["name"])[:80]
        if entry["name"] in seen:
            raise _wrong(shown, "arrays without a name, or with the same one", name)
        if entry["dtype"] not in DTYPES:
            raise _wrong(shown, f"array {name} has an unknown type", repr(entry["dtype"])[:80])
        width, sound = np.dtype(entry["dtype"]).itemsize, all(type(n) is int and 0 <= n < 1 << 63 for n in shape)
        # NumPy counts like this, zeros left out
        if not sound or len(shape) > _MOST_AXES or math.prod(max(n, 1) for n in shape) * width >= 1 << 63:
            raise _wrong(shown, f"array {name} has an impossible shape", repr(shape)[:200])
        if entry["name"] in longest and max(shape, default=0) > longest[entry["name"]][0]:
            raise _wrong(shown, longest[entry["name"]][1], f"an array of {shape}")
        if entry["length"] != math.prod(shape) * width or entry["offset"] != end + -end % ALIGN:
            raise _wrong(shown, f"array {name} is not where, or not as long as, it should be", repr(entry)[:200])
        end = entry["offset"] + entry["length"]
        seen.add(entry["name"])
    return end


def _arrays(file: IO[bytes], data: int, entries: list[dict[str, Any]], shown: str) -> dict[str, Array]:
    """Read the arrays in order; between them are only zeros (fewer than 64: the sizes were checked)."""
    arrays: dict[str, Array] = {}
    gap = file.read(data - file.tell())
    for entry in entries:
        gap += file.read(data + entry["offset"] - file.tell())
        dtype = np.dtype(entry["dtype"])
        array: Array = np.empty(entry["shape"], dtype=dtype.newbyteorder("<"))
        raw = array.reshape(-1).view(np.uint8).data
        if file.readinto(raw) != len(raw):  # type: ignore[attr-defined]
            raise _cut(shown, file.tell(), data + entry["offset"] + len(raw))
        if hashlib.sha256(raw).hexdigest() != entry["sha256"]:
            raise _altered(shown, f"array {entry['name']!r}")
        arrays[entry["name"]] = array.astype(dtype, copy=False)
        arrays[entry["name"]].setflags(write=False)
    if any(gap):
        raise _altered(shown, "the space between two arrays")
    return arrays


# ---- messages -------------------------------------------------------------------------------------------------------


def _no_model(start: bytes, shown: str) -> ModelFileError:
    if start and MAGIC.startswith(start):
        return _cut(shown, len(start), _PREFIX.size)
    begins = f"a file that begins with {start[:8]!r}" if start else "an empty file"
    looks = next((name for sign, name in _LOOKS_LIKE.items() if start.startswith(sign)), begins)
    return ModelFileError(
        "this is not a Bridle model",
        got=looks,
        wanted="a file that Bridle saved",
        cause="Convert it first: bridle convert." if start.startswith(b"lCRF") else "Is it the right file?",
        where=shown,
    )


def _cut(shown: str, got: int, wanted: int) -> ModelFileError:
    return ModelFileError(
        "this file has the wrong length",
        got=f"{got:,} bytes",
        wanted=f"{wanted:,} bytes",
        where=shown,
        cause="Was a copy or a download interrupted?" if got < wanted else "Was something appended to it?",
    )


def _altered(shown: str, what: str) -> ModelFileError:
    return ModelFileError(
        "this file is damaged",
        got=f"{what} with another checksum or other bytes",
        wanted="the bytes that were saved",
        cause="Was it edited, or sent as text? Copy it again.",
        where=shown,
    )


def _wrong(shown: str, what: str, got: str) -> ModelFileError:
    return ModelFileError(
        what,
        got=got,
        wanted="a header as `save` writes it",
        where=shown,
        cause="The checksum is right, so it was not written by Bridle; do not trust it.",
    )
