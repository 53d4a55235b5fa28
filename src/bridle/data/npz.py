"""Score files as npz: arrays unary (N, m) and, if need be, offsets, pairwise, start, end, labels, tokens.

The large arrays are read row by row out of the archive, so memory does not grow with the file; and a header that lies
about its size is found out before anything is allocated. Nothing is ever unpickled.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

from bridle.data.chunk import Chunk, Pace, ScoreFile
from bridle.errors import BridleError, FileError, LatticeError
from bridle.lattice import Batch, Lattice

Array = npt.NDArray[Any]
T = TypeVar("T")
_HEADERS: dict[Any, Callable[[IO[bytes]], tuple[tuple[int, ...], bool, np.dtype[Any]]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class _Rows:
    """One array of an archive, read a few rows at a time."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        info = archive.getinfo(f"{name}.npy")
        self.name, self.file = name, archive.open(info)
        version = np.lib.format.read_magic(self.file)
        if version not in _HEADERS:
            raise ValueError(f"array {name!r} has the unknown format {version}")
        self.shape, self.fortran, self.dtype = _HEADERS[version](self.file)
        if self.dtype.kind not in ("U" if name in ("labels", "tokens") else "fiu"):
            raise ValueError(f"array {name!r} holds {self.dtype}")
        if min(self.shape, default=0) < 0:
            raise ValueError(f"array {name!r} has the shape {self.shape}")
        if math.prod(self.shape) * self.dtype.itemsize != info.file_size - self.file.tell():
            raise ValueError(f"array {name!r} is not as large as its shape {self.shape} says")
        self.whole: Array | None = None
        self.at = 0

    def take(self, count: int) -> Array:
        """The next rows."""
        if self.fortran and self.whole is None:  # stored column by column
            self.whole = self._read(self.shape[::-1]).T
        self.at += count
        if self.whole is not None:
            return self.whole[self.at - count : self.at]
        return self._read((count, *self.shape[1:]))

    def all(self) -> Array:
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
    """Open a score file and check all but the scores themselves."""
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
            cause="A cut download, a full disk when it was written, or another kind of file?",
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
    unary = _Rows(archive, "unary")
    if len(unary.shape) != 2:
        raise FileError("unary has a wrong shape", got=unary.shape, wanted="(tokens of all sequences, labels)")
    small = {key: _Rows(archive, key).all() if key in held else None for key in ("pairwise", "start", "end")}
    labels = None
    if "labels" in held:
        names = _strings(_Rows(archive, "labels"), unary.shape[1])
        labels = tuple(names.all().tolist())
    n = unary.shape[0]
    offsets = _Rows(archive, "offsets").all() if "offsets" in held else np.array([0, n])
    if not _cuts(offsets, n):
        raise FileError(
            "offsets do not cut the tokens into sequences",
            got=f"{offsets.tolist()}"[:60],
            wanted=f"rising whole numbers from 0 to {n}",
            cause="It has one entry more than there are sequences: [0, n0, n0 + n1, ...].",
        )
    offsets = offsets.astype(np.int64)
    tokens = _strings(_Rows(archive, "tokens"), n) if "tokens" in held else None
    reader = _Reader(path, unary, offsets, small, tokens, pace)
    return ScoreFile(labels, reader.chunks(stream), len(offsets) - 1, lambda: reader.at, stream.close)


def _cuts(offsets: Array, n: int) -> bool:
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or len(offsets) == 0:
        return False
    return bool(offsets[0] == 0 and offsets[-1] == n and (offsets[1:] >= offsets[:-1]).all())


def _strings(rows: _Rows, length: int) -> _Rows:
    if rows.shape != (length,):
        raise FileError(f"{rows.name} has a wrong shape", got=rows.shape, wanted=f"({length},)")
    return rows


class _Reader:
    """Walks through the rows of the large arrays."""

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
        room = int(np.searchsorted(self.offsets, self.offsets[a] + self.pace.tokens, side="right")) - 1
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
        """Where sequence k stands, for messages."""
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
