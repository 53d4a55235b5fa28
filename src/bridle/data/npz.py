"""Score files as npz: arrays unary (N, m) and, optionally, offsets, pairwise, start, end, labels, tokens.

The large arrays are read row by row from the archive, so memory does not grow with the file. All headers are read and
compared before any data, so a header with a wrong size is detected before anything is allocated. Nothing is ever
unpickled. A file has at most 16,777,216 (2^24) sequences; labels have at most 1,024
characters, tokens 65,536.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

from bridle.data.blocks import Pace
from bridle.data.chunk import Chunk, ScoreFile
from bridle.data.limits import check_unpacked
from bridle.errors import BridleError, FileError, LatticeError, shown
from bridle.labels import MOST_LABELS, MOST_SQUARE
from bridle.lattice import Batch, Lattice

Array = npt.NDArray[Any]
T = TypeVar("T")
_NAMES = ("unary", "offsets", "pairwise", "start", "end", "labels", "tokens")
_HEADERS: dict[Any, Callable[[IO[bytes]], tuple[tuple[int, ...], bool, np.dtype[Any]]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}

_MOST_SEQUENCES = 1 << 24
_WIDEST = {"labels": 1 << 10, "tokens": 1 << 16}  # characters of a name
_BATCH = 1 << 26  # bytes of a chunk, unless one sequence has more


class _Rows:
    """One array of an archive, read a few rows at a time."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        info = archive.getinfo(f"{name}.npy")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"array {name!r} is compressed in a way that NumPy does not use")
        self.name, self.file = name, archive.open(info)
        version = np.lib.format.read_magic(self.file)
        if version not in _HEADERS:
            raise ValueError(f"array {name!r} has the unknown format {version}")
        self.shape, self.fortran, self.dtype = _HEADERS[version](self.file)
        if self.dtype.kind not in ("U" if name in ("labels", "tokens") else "fiu"):
            raise ValueError(f"array {name!r} holds {self.dtype}")
        if min(self.shape, default=0) < 0 or max(self.shape, default=0) >= 1 << 62:
            raise ValueError(f"array {name!r} has the shape {shown(self.shape)}")
        if self.dtype.kind == "U" and self.dtype.itemsize > 4 * _WIDEST[name]:
            wide = self.dtype.itemsize // 4
            raise ValueError(f"{name} have room for {wide:,} characters each, and at most {_WIDEST[name]:,} are read")
        if math.prod(self.shape) * self.dtype.itemsize != info.file_size - self.file.tell():
            raise ValueError(f"array {name!r} is not as large as its shape {shown(self.shape)} says")
        # a number becomes a double; what is packed counts by what it was packed to
        self.width = math.prod(self.shape[1:]) * max(self.dtype.itemsize, 8)  # bytes of a row, at most
        self.packed = info.compress_size if info.compress_type != zipfile.ZIP_STORED else info.file_size
        self.whole: Array | None = None
        self.at = 0

    def take(self, count: int) -> Array:
        """The next rows."""
        if self.fortran and self.whole is None:  # stored column by column
            self.check(self.shape[0])
            self.whole = self._read(self.shape[::-1]).T
        self.at += count
        if self.whole is not None:
            return self.whole[self.at - count : self.at]
        self.check(count)
        return self._read((count, *self.shape[1:]))

    def check(self, rows: int) -> None:
        """Raise if this many rows decompress to more than they may."""
        check_unpacked(f"array {self.name!r}", rows * self.width, self.packed)

    def all(self) -> Array:
        self.check(self.shape[0] if self.shape else 1)
        return self._read(self.shape[::-1]).T if self.fortran else self._read(self.shape)

    def _read(self, shape: tuple[int, ...]) -> Array:
        size = math.prod(shape) * self.dtype.itemsize
        data = self.file.read(size)
        if len(data) != size:
            raise ValueError(f"array {self.name!r} ends too early")
        if self.dtype.itemsize == 0:
            return np.zeros(shape, dtype=self.dtype)
        return np.frombuffer(data, dtype=self.dtype).reshape(shape)


def open_npz(path: Path, pace: Pace) -> ScoreFile:
    """Open a score file and check everything except the scores themselves."""
    stream = _guarded(path, lambda: path.open("rb"))
    try:
        return _guarded(path, lambda: _open(path, stream, pace))
    except BaseException:
        stream.close()
        raise


def _guarded(path: Path, work: Callable[[], T]) -> T:
    try:
        return work()
    except BridleError as error:
        error.at(where=str(path))
        raise
    except Exception as error:  # zipfile, its unpackers and numpy's header reader raise a dozen kinds on broken files
        raise FileError(
            "cannot read this score file",
            got=str(error) or type(error).__name__,
            wanted="an npz file as numpy.savez writes it",
            cause="An incomplete download, a full disk during writing, or another kind of file?",
            where=str(path),
        ) from None


def _open(path: Path, stream: IO[bytes], pace: Pace) -> ScoreFile:
    archive = zipfile.ZipFile(stream)
    held = {name.removesuffix(".npy") for name in archive.namelist()}
    if "unary" not in held:
        raise FileError(
            "no array 'unary'",
            got=", ".join(sorted(held)[:8]) or "no arrays",
            wanted="unary (N, m)",
            cause="numpy.savez(path, unary=..., offsets=...) names the arrays.",
        )
    arrays = {name: _Rows(archive, name) for name in _NAMES if name in held}
    _check_shapes({name: rows.shape for name, rows in arrays.items()})
    n = arrays["unary"].shape[0]
    offsets = arrays["offsets"].all() if "offsets" in arrays else np.array([0, n])
    if not _cuts(offsets, n):
        raise FileError(
            "`offsets` must divide the tokens into sequences",
            got=shown(offsets[:8].tolist()),
            wanted=f"increasing integers from 0 to {n}",
            cause="It has one entry more than there are sequences: [0, n0, n0 + n1, ...].",
        )
    small = {name: arrays[name].all() if name in arrays else None for name in ("pairwise", "start", "end")}
    labels = tuple(arrays["labels"].all().tolist()) if "labels" in arrays else None
    reader = _Reader(path, arrays["unary"], offsets.astype(np.int64), small, arrays.get("tokens"), pace)
    return ScoreFile(labels, reader.chunks(stream), len(offsets) - 1, lambda: reader.at, stream.close)


def _check_shapes(shapes: dict[str, tuple[int, ...]]) -> None:
    """Raise unless the arrays fit together."""
    if len(shapes["unary"]) != 2:
        raise FileError("unary has a wrong shape", got=shapes["unary"], wanted="(tokens of all sequences, labels)")
    n, m = shapes["unary"]
    if not 0 < m <= MOST_LABELS:
        raise FileError("unary has no columns, or too many", got=f"{m:,}", wanted=f"1 to {MOST_LABELS:,} labels")
    if "pairwise" in shapes and m > MOST_SQUARE:
        raise FileError("too many labels for pairwise scores", got=f"{m:,} labels", wanted=f"at most {MOST_SQUARE:,}")
    cuts = shapes.get("offsets", (2,))
    if len(cuts) != 1 or not 0 < cuts[0] <= _MOST_SEQUENCES + 1:
        raise FileError(
            "offsets have a wrong shape", got=cuts, wanted=f"(sequences + 1,), at most {_MOST_SEQUENCES:,} sequences"
        )
    wanted: dict[str, list[tuple[int, ...]]] = {
        "labels": [(m,)],
        "tokens": [(n,)],
        "start": [(m,)],
        "end": [(m,)],
        "pairwise": [(m, m)],
    }
    if cuts[0] == 2:  # of one sequence they may depend on the position
        wanted["pairwise"].append((max(n - 1, 0), m, m))
    for name, fitting in wanted.items():
        if name in shapes and shapes[name] not in fitting:
            raise FileError(f"{name} has a wrong shape", got=shapes[name], wanted=" or ".join(map(str, fitting)))


def _cuts(offsets: Array, n: int) -> bool:
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or len(offsets) == 0:
        return False
    return bool(offsets[0] == 0 and offsets[-1] == n and (offsets[1:] >= offsets[:-1]).all())


class _Reader:
    """Reads the rows of the large arrays in order."""

    def __init__(
        self, path: Path, unary: _Rows, offsets: Array, small: dict[str, Array | None], tokens: _Rows | None, pace: Pace
    ) -> None:
        self.path, self.unary, self.offsets, self.tokens, self.pace = path, unary, offsets, tokens, pace
        self.small = small
        self.at = 0  # sequences read

    def chunks(self, stream: IO[bytes]) -> Iterator[Chunk]:
        with stream:
            while self.at < len(self.offsets) - 1:
                yield _guarded(self.path, self.next)

    def next(self) -> Chunk:
        a, total = self.at, len(self.offsets) - 1
        widest = max(rows.width for rows in (self.unary, self.tokens) if rows is not None)
        most = max(min(self.pace.tokens, _BATCH // widest), 1)
        room = int(np.searchsorted(self.offsets, self.offsets[a] + most, side="right")) - 1
        b = min(max(room, a + 1), a + self.pace.sequences, total)
        cuts = self.offsets[a : b + 1] - self.offsets[a]
        unary = self.unary.take(int(cuts[-1]))
        lattices = self.lattices(unary, cuts, total)
        givens: list[dict[str, Any]] = [{} for _ in range(a, b)]
        if self.tokens is not None:
            texts = self.tokens.take(int(cuts[-1])).tolist()
            givens = [{"tokens": texts[cuts[k] : cuts[k + 1]]} for k in range(b - a)]
        self.at = b
        return Chunk(lattices, givens, list(range(a, b)), list(map(self.place, range(a, b))))

    def place(self, k: int) -> str:
        """The place of sequence k, for messages."""
        return f"{self.path}: sequence {k}"

    def lattices(self, unary: Array, cuts: Array, total: int) -> list[Lattice] | Batch:
        pairwise = self.small["pairwise"]
        if total == 1 and pairwise is not None and pairwise.ndim == 3:
            return [Lattice(unary, **self.small)]
        try:
            return Batch(unary, cuts, **self.small)
        except LatticeError:
            for k in range(len(cuts) - 1):  # say which sequence it is
                try:
                    Lattice(unary[cuts[k] : cuts[k + 1]], **self.small)
                except LatticeError as error:
                    error.at(sequence=self.at + k, where=self.place(self.at + k))
                    raise
            raise
