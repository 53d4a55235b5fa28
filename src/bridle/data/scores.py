"""Score files: npz, Parquet, Arrow, or JSON lines (plain, gzipped, or from standard input), read in chunks.

One JSON line is one sequence; null, "-inf" and -Infinity instead of a number mean impossible::

    {"id": "s1", "unary": [[0.1, 2.0], [null, 1.0]], "pairwise": [[...], [...]], "start": [...], "end": [...],
     "tokens": ["a", "b"], "given": {"verb": 1}, "labels": ["O", "A0"]}

Only `unary` is required. `labels` names the columns, on the first line or on all. Other keys are skipped.

An npz file has arrays unary (N, m) and, optionally, offsets, pairwise, start, end, labels, tokens. The large arrays are
read row by row from the archive, so memory does not grow with the file. All headers are read and compared before any
data, so a header with a wrong size is detected before anything is allocated. Nothing is ever unpickled. A file has at
most 16,777,216 (2^24) sequences; labels have at most 1,024 characters, tokens 65,536.
"""

from __future__ import annotations

import gzip
import json
import math
import sys
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
import numpy.typing as npt

from bridle.atomic import replacing
from bridle.data import limits
from bridle.data.blocks import Pace
from bridle.data.jsonl import check_keys, near_key
from bridle.data.limits import check_unpacked
from bridle.data.score_tables import ScoreTable
from bridle.errors import BridleError, FileError, LatticeError, shown
from bridle.labels import MOST_LABELS, MOST_SQUARE
from bridle.lattice import Batch, Lattice


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some sequences of a score file that follow each other.

    Attributes
    ----------
    lattices : list of Lattice or Batch
        Their scores.
    givens : list of dict
        Values for rules, for each sequence.
    ids : list
        The id of each in the file; its number if it has none.
    where : list of str
        The place of each in its file, such as ``"scores.jsonl:12"``.
    """

    lattices: list[Lattice] | Batch
    givens: list[dict[str, Any]]
    ids: list[Any]
    where: list[str]

    def __len__(self) -> int:
        return len(self.ids)

    def cut(self, a: int, b: int) -> Chunk:
        """Take some of the sequences.

        Parameters
        ----------
        a, b : int
            The first one, and the one after the last.

        Returns
        -------
        Chunk
            Sequences `a` to ``b - 1``.
        """
        part: list[Lattice] | Batch
        if isinstance(self.lattices, Batch):
            whole, cuts = self.lattices, self.lattices.offsets[a : b + 1]
            part = Batch(whole.unary[cuts[0] : cuts[-1]], cuts - cuts[0], whole.pairwise, whole.start, whole.end)
        else:
            part = self.lattices[a:b]
        return Chunk(part, self.givens[a:b], self.ids[a:b], self.where[a:b])


@dataclass(frozen=True, slots=True)
class ScoreFile:
    """An open score file; `open_scores` makes one.

    It closes after the last chunk, or at the end of a ``with`` block.

    Attributes
    ----------
    labels : tuple of str or None
        Names of the labels, if the file has them.
    chunks : iterator of Chunk
        The sequences, read as you iterate.
    total : int or None
        Total number of bytes (JSON lines) or sequences (npz), if known.
    done : callable
        Returns how many of them have been read.
    close : callable
        Closes the file.
    """

    labels: tuple[str, ...] | None
    chunks: Iterator[Chunk]
    total: int | None
    done: Callable[[], int]
    close: Callable[[], None]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Array = npt.NDArray[Any]
_KEYS = ("id", "unary", "pairwise", "start", "end", "tokens", "given", "labels")
_HEADS = ("pairwise", "start", "end")
_MOST_AXES = 3  # positions x labels x labels


def open_scores(path: str, pace: Pace | None = None, n_labels: int | None = None) -> ScoreFile:
    """Open a file of scores: npz, Parquet, Arrow or JSON lines.

    Parameters
    ----------
    path : str
        The file; ``"-"`` is standard input, with JSON lines. Gzipped files are decompressed.
    pace : Pace, optional
        How many sequences to read at once.
    n_labels : int, optional
        Number of labels, for files that do not name them; tables and sequences without tokens need it.

    Returns
    -------
    ScoreFile
        Iterate over its `chunks`.

    Raises
    ------
    FileError
        If the file cannot be read or is of another format. While you iterate: if a line is wrong.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import bridle
    >>> from bridle.data import open_scores, save_scores
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "scores.jsonl")
    ...     save_scores(path, [bridle.Lattice([[1, 0], [0, 2]])], labels=["O", "A0"])
    ...     with open_scores(str(path)) as file:
    ...         print(file.labels, [len(chunk) for chunk in file.chunks])
    ('O', 'A0') [1]
    """
    pace = pace or Pace()
    if path == "-":
        return _open_lines(sys.stdin.buffer, "<stdin>", pace, n_labels, None)
    file = Path(path)
    try:
        stream = file.open("rb")
        magic = stream.read(6)
        stream.seek(0)
        size = file.stat().st_size
    except (OSError, ValueError) as error:  # ValueError: a null in the path
        raise _unreadable(path, error) from None
    if magic.startswith(b"PK") or file.suffix == ".npz":
        try:
            with _guarded(file):
                archive = _Archive(file, stream, pace)
        except BaseException:
            stream.close()
            raise
        return ScoreFile(archive.labels, archive.chunks(), len(archive.offsets) - 1, lambda: archive.at, stream.close)
    if magic.startswith((b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")):
        stream.close()
        table = ScoreTable(path, magic, n_labels)
        return ScoreFile(table.labels, (Chunk(*part) for part in table), None, lambda: table.at, table.source.close)
    if magic.startswith(b"\x93NUMPY"):
        stream.close()
        wanted, cause = "npz or JSON lines", "numpy.savez(path, unary=array) writes an npz file."
        raise FileError("a single array is not a score file", got="an npy file", wanted=wanted, cause=cause, where=path)
    return _open_lines(stream, path, pace, n_labels, size)


def _unreadable(path: str, error: Exception) -> FileError:
    got, wanted = getattr(error, "strerror", None) or str(error), "an npz, Parquet or Arrow file, or JSON lines"
    return FileError("cannot read this score file", got=got, wanted=wanted, where=path)


def _open_lines(stream: IO[bytes], name: str, pace: Pace, n_labels: int | None, size: int | None) -> ScoreFile:
    reader = _Lines(stream, name, pace, n_labels)
    first = next(reader.items, None)  # the label names may stand on it
    back: Iterable[_Item] = () if first is None else (first,)
    return ScoreFile(reader.labels, reader.chunks(back), size, lambda: reader.read, reader.items.close)


_Item = tuple[Lattice, dict[str, Any], Any, str]  # with its given values, its id and where it stands


class _Lines:
    """Reads sequences from JSON lines."""

    def __init__(self, stream: IO[bytes], name: str, pace: Pace, n_labels: int | None) -> None:
        self.stream, self.name, self.pace, self.n_labels = stream, name, pace, n_labels
        self.labels: tuple[str, ...] | None = None
        self.read = 0  # bytes
        self.shared: dict[str, tuple[Any, Array]] = {}  # the last pairwise, start and end
        self.items = self._items()

    def chunks(self, back: Iterable[_Item]) -> Iterator[Chunk]:
        held = list(back)
        tokens = sum(len(item[0]) for item in held)
        wrong: BridleError | None = None
        while True:
            if len(held) >= self.pace.sequences or tokens >= self.pace.tokens:
                yield _chunk(held)
                held, tokens = [], 0
            try:
                item = next(self.items, None)
            except BridleError as error:  # what stands before the bad line is still good
                item, wrong = None, error
            if item is None:
                break
            held.append(item)
            tokens += len(item[0])
        if held:
            yield _chunk(held)
        if wrong is not None:
            raise wrong

    def _raw(self) -> Generator[bytes, None, None]:
        try:
            peek = getattr(self.stream, "peek", None)
            packed = peek is not None and peek(2)[:2] == b"\x1f\x8b"
            lines: Any = gzip.GzipFile(fileobj=self.stream) if packed else self.stream
            number = 1
            while line := lines.readline(limits.LONGEST_SCORES + 1):
                if len(line) > limits.LONGEST_SCORES:
                    raise FileError(
                        "a line is too long",
                        got=f"more than {limits.LONGEST_SCORES:,} bytes",
                        wanted=f"at most {limits.LONGEST_SCORES:,}",
                        cause="One sequence per line; for larger ones write an npz file.",
                        where=f"{self.name}:{number}",
                    )
                number += 1
                self.read = self.stream.tell() if packed and self.stream.seekable() else self.read + len(line)
                yield line
        except (OSError, EOFError, zlib.error) as error:
            raise _unreadable(self.name, error) from None
        finally:
            if self.stream is not sys.stdin.buffer:
                self.stream.close()

    def _items(self) -> Generator[_Item, None, None]:
        count = 0
        with closing(self._raw()) as lines:
            for number, raw in enumerate(lines, start=1):
                if not raw.strip():
                    continue
                where = f"{self.name}:{number}"
                try:
                    check_keys(line := _parsed(raw, first=number == 1), where)
                    lattice, given, name = self._item(line)
                except BridleError as error:
                    error.at(where=where)
                    raise
                yield lattice, given, count if name is None else name, where
                count += 1

    def _item(self, line: dict[str, Any]) -> tuple[Lattice, dict[str, Any], Any]:
        for key in line:
            if near := near_key(key, _KEYS):
                raise FileError("unknown key", got=repr(key), wanted=repr(near), cause="A misspelled key?")
        if "unary" not in line:
            raise FileError("no scores", got=", ".join(map(repr, line)) or "no keys", wanted="the key 'unary'")
        if (names := line.get("labels")) is not None:
            self._name(names)
        m = len(self.labels) if self.labels is not None else self.n_labels
        unary: Any = line["unary"]
        unary = np.zeros((0, m)) if unary == [] and m else as_array("unary", unary)
        lattice = Lattice(unary, **{key: self._head(key, line.get(key)) for key in _HEADS})
        if m is not None and lattice.n_labels != m:
            raise FileError(
                "the number of columns of unary differs from the number of labels",
                got=lattice.n_labels,
                wanted=m,
                cause="Are the columns in the order of the labels?",
            )
        given = line.get("given") or {}
        if not isinstance(given, dict):
            raise FileError("given is not an object", got=type(given).__name__, wanted='such as {"verb": 3}')
        if (tokens := line.get("tokens")) is not None:
            if not isinstance(tokens, list) or not all(isinstance(x, str) for x in tokens):
                raise FileError("tokens are not a list of strings", got=shown(tokens), wanted='["I", "left", ...]')
            if len(tokens) != len(lattice):
                raise FileError("tokens and unary differ in length", got=len(tokens), wanted=len(lattice))
            given = {"tokens": tokens, **given}
        return lattice, given, line.get("id")

    def _name(self, names: Any) -> None:
        if not isinstance(names, list) or not all(isinstance(x, str) for x in names):
            raise FileError("labels are not a list of names", got=shown(names), wanted='["O", "A0", ...]')
        if self.labels is None:
            self.labels = tuple(names)
        if self.labels != tuple(names):
            raise FileError("the labels change within the file", got=", ".join(names), wanted=", ".join(self.labels))

    def _head(self, key: str, value: Any) -> Array | None:
        """The array of a value; the previous array if nothing changed, so that a batch can share it."""
        if value is None:
            return None
        known = self.shared.get(key)
        if known is None or known[0] != value:
            known = self.shared[key] = (value, as_array(key, value))
        return known[1]


def _chunk(items: list[_Item]) -> Chunk:
    lattices, givens, ids, where = zip(*items, strict=True)
    return Chunk(list(lattices), list(givens), list(ids), list(where))


def _parsed(raw: bytes, first: bool) -> dict[str, Any]:
    try:
        line = json.loads(raw.decode("utf-8-sig" if first else "utf-8"))
    except (ValueError, RecursionError) as error:  # bytes that are not UTF-8, or not JSON
        wanted, cause = '{"unary": [[...], ...], ...} on one line', "One sequence per line; is the file cut off?"
        raise FileError("not a JSON line", got=str(error), wanted=wanted, cause=cause) from None
    if not isinstance(line, dict):
        raise FileError("a line is not an object", got=type(line).__name__, wanted='{"unary": [[...], ...], ...}')
    return line


def as_array(name: str, value: Any) -> Array:
    """Numbers from JSON; null, "-inf" and "-Infinity" are -inf."""
    what, wanted = f"{name} is not an array of numbers", "numbers, null for -inf"
    axes, items = 0, [value]
    while axes < _MOST_AXES and set(map(type, items)) == {list}:
        if len(set(map(len, items))) > 1:
            raise FileError(what, got="lists of different lengths", wanted=wanted)
        axes, items = axes + 1, list(chain.from_iterable(items))
    # NumPy would make strings of all numbers if one is a string, each as long as the longest
    plain = set(map(type, items)) <= {int, float}
    if not plain and (odd := [x for x in items if type(x) not in (int, float) and not _impossible(x)]):
        raise FileError(what, got=shown(odd[0]), wanted=wanted)
    try:
        return np.asarray(value if plain else _numbers(value), dtype=np.float64)
    except (ValueError, OverflowError) as error:
        raise FileError(what, got=str(error), wanted=wanted) from None


def _impossible(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value in ("-inf", "-Infinity"))


def _numbers(value: Any) -> Any:
    return [_numbers(x) for x in value] if isinstance(value, list) else -np.inf if _impossible(value) else float(value)


# ---- writing --------------------------------------------------------------------------------------------------------


def save_scores(
    path: str | Path,
    lattices: Sequence[Lattice] | Batch,
    *,
    labels: Iterable[str] | None = None,
    givens: Sequence[Mapping[str, Any]] | None = None,
    ids: Sequence[Any] | None = None,
) -> None:
    """Write a file of scores, which `open_scores` and ``bridle decode`` read.

    Parameters
    ----------
    path : str or Path
        The file. JSON lines are compressed if its name ends in ``.gz``.
    lattices : sequence of Lattice or Batch
        The scores. Lattices are written as JSON lines, a batch as npz.
    labels : iterable of str, optional
        Names of the labels, in the order of the columns.
    givens : sequence of mapping, optional
        Values for rules, a mapping per sequence. An npz file stores only the tokens.
    ids : sequence, optional
        Ids of the sequences, for JSON lines only. Default: their numbers.

    Raises
    ------
    FileError
        If the file cannot be written. Then an existing file stays, and nothing else is left.
    """
    if isinstance(lattices, Batch):
        arrays = {key: getattr(lattices, key) for key in ("unary", "offsets", *_HEADS)}
        if labels is not None:
            arrays["labels"] = np.array(list(labels))
        if givens is not None and any("tokens" in given for given in givens):
            arrays["tokens"] = np.array([str(x) for given in givens for x in given["tokens"]])
        with replacing(path) as stream:
            np.savez(stream, **{key: value for key, value in arrays.items() if value is not None})
        return
    names = None if labels is None else list(labels)
    with ExitStack() as stack:
        out: Any = stack.enter_context(replacing(path))
        if Path(path).suffix == ".gz":
            out = stack.enter_context(gzip.GzipFile(fileobj=out, mode="wb", filename="", mtime=0))
        for k, lattice in enumerate(lattices):
            line: dict[str, Any] = {"id": k if ids is None else ids[k]}
            if k == 0 and names is not None:
                line["labels"] = names
            for key in ("unary", *_HEADS):
                if (value := getattr(lattice, key)) is not None:
                    line[key] = _listed(value)
            if givens is not None and givens[k]:
                line["given"] = dict(givens[k])
            out.write(json.dumps(line).encode() + b"\n")


def _listed(scores: Array) -> Any:
    numbers: Array = np.where(np.isneginf(scores), None, scores)  # type: ignore[call-overload]
    return numbers.tolist()


# ---- npz ------------------------------------------------------------------------------------------------------------

_HEADERS: dict[Any, Callable[[IO[bytes]], tuple[tuple[int, ...], bool, np.dtype[Any]]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_MOST_SEQUENCES = 1 << 24
_WIDEST = {"labels": 1 << 10, "tokens": 1 << 16}  # characters of a name
_BATCH = 1 << 26  # bytes of a chunk, unless one sequence has more


@contextmanager
def _guarded(path: Path) -> Iterator[None]:
    try:
        yield
    except BridleError as error:
        error.at(where=str(path))
        raise
    except Exception as error:  # zipfile, its unpackers and numpy's header reader raise a dozen kinds on broken files
        got, wanted = str(error) or type(error).__name__, "an npz file as numpy.savez writes it"
        cause = "An incomplete download, a full disk during writing, or another kind of file?"
        raise FileError("cannot read this score file", got=got, wanted=wanted, cause=cause, where=str(path)) from None


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
            raise ValueError(f"{name} have space for {wide:,} characters each, and at most {_WIDEST[name]:,} are read")
        if math.prod(self.shape) * self.dtype.itemsize != info.file_size - self.file.tell():
            raise ValueError(f"array {name!r} is not as large as its shape {shown(self.shape)} says")
        # a number becomes a double; what is packed counts by what it was packed to
        self.width = math.prod(self.shape[1:]) * max(self.dtype.itemsize, 8)  # bytes of a row, at most
        self.packed = info.compress_size if info.compress_type != zipfile.ZIP_STORED else info.file_size
        self.whole: Array | None = None
        self.at = 0

    def take(self, count: int) -> Array:
        """Read the next rows."""
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


class _Archive:
    """Reads an npz file in chunks; everything except the scores themselves is checked before."""

    def __init__(self, path: Path, stream: IO[bytes], pace: Pace) -> None:
        self.path, self.stream, self.pace = path, stream, pace
        self.at = 0  # sequences read
        archive = zipfile.ZipFile(stream)
        held = {name.removesuffix(".npy") for name in archive.namelist()}
        if "unary" not in held:
            got, cause = ", ".join(sorted(held)[:8]) or "no arrays", "numpy.savez(path, unary=...) names the arrays."
            raise FileError("no array 'unary'", got=got, wanted="unary (N, m)", cause=cause)
        arrays = {name: _Rows(archive, name) for name in ("unary", "offsets", *_HEADS, *_WIDEST) if name in held}
        _check_shapes({name: rows.shape for name, rows in arrays.items()})
        n = arrays["unary"].shape[0]
        offsets = arrays["offsets"].all() if "offsets" in arrays else np.array([0, n])
        if offsets.dtype.kind not in "iu" or offsets[0] != 0 or offsets[-1] != n or (offsets[1:] < offsets[:-1]).any():
            raise FileError(
                "`offsets` must divide the tokens into sequences",
                got=shown(offsets[:8].tolist()),
                wanted=f"increasing integers from 0 to {n}",
                cause="It has one entry more than there are sequences: [0, n0, n0 + n1, ...].",
            )
        self.unary, self.tokens, self.offsets = arrays["unary"], arrays.get("tokens"), offsets.astype(np.int64)
        self.heads = {name: arrays[name].all() if name in arrays else None for name in _HEADS}
        self.labels = tuple(arrays["labels"].all().tolist()) if "labels" in arrays else None

    def chunks(self) -> Iterator[Chunk]:
        with self.stream:
            while self.at < len(self.offsets) - 1:
                with _guarded(self.path):
                    chunk = self.next()
                yield chunk

    def next(self) -> Chunk:
        a, total = self.at, len(self.offsets) - 1
        widest = max(rows.width for rows in (self.unary, self.tokens) if rows is not None)
        most = max(min(self.pace.tokens, _BATCH // widest), 1)
        full = int(np.searchsorted(self.offsets, self.offsets[a] + most, side="right")) - 1
        b = min(max(full, a + 1), a + self.pace.sequences, total)
        cuts = self.offsets[a : b + 1] - self.offsets[a]
        unary = self.unary.take(int(cuts[-1]))
        where = [f"{self.path}: sequence {k}" for k in range(a, b)]
        lattices = self._lattices(unary, cuts, where)
        givens: list[dict[str, Any]] = [{} for _ in range(a, b)]
        if self.tokens is not None:
            texts = self.tokens.take(int(cuts[-1])).tolist()
            givens = [{"tokens": texts[cuts[k] : cuts[k + 1]]} for k in range(b - a)]
        self.at = b
        return Chunk(lattices, givens, list(range(a, b)), where)

    def _lattices(self, unary: Array, cuts: Array, where: list[str]) -> list[Lattice] | Batch:
        pairwise = self.heads["pairwise"]
        if pairwise is not None and pairwise.ndim == 3:  # of the only sequence
            return [Lattice(unary, **self.heads)]
        try:
            return Batch(unary, cuts, **self.heads)
        except LatticeError:
            for k, place in enumerate(where):  # say which sequence it is
                try:
                    Lattice(unary[cuts[k] : cuts[k + 1]], **self.heads)
                except LatticeError as error:
                    error.at(sequence=self.at + k, where=place)
                    raise
            raise


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
    fitting: dict[str, list[tuple[int, ...]]]
    fitting = {"labels": [(m,)], "tokens": [(n,)], "start": [(m,)], "end": [(m,)], "pairwise": [(m, m)]}
    if cuts[0] == 2:  # of one sequence they may depend on the position
        fitting["pairwise"].append((max(n - 1, 0), m, m))
    for name in fitting:
        if name in shapes and shapes[name] not in fitting[name]:
            wanted = " or ".join(map(str, fitting[name]))
            raise FileError(f"{name} has a wrong shape", got=shapes[name], wanted=wanted)
