"""Score files: npz, or JSON lines (plain, gzipped, or from standard input), read in chunks.

One JSON line is one sequence; null, "-inf" and -Infinity instead of a number mean impossible::

    {"id": "s1", "unary": [[0.1, 2.0], [null, 1.0]], "pairwise": [[...], [...]], "start": [...], "end": [...],
     "tokens": ["a", "b"], "given": {"verb": 1}, "labels": ["O", "A0"]}

Only `unary` is required. `labels` names the columns, on the first line or on all. Other keys are skipped.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np

from bridle.atomic import replacing
from bridle.data import limits
from bridle.data.blocks import Pace
from bridle.data.chunk import Chunk, ScoreFile
from bridle.data.jsonl import check_keys, near_key
from bridle.data.npz import Array, open_npz
from bridle.errors import BridleError, FileError, shown
from bridle.lattice import Batch, Lattice

__all__ = ["Chunk", "ScoreFile", "open_scores", "save_scores"]
_KEYS = ("id", "unary", "pairwise", "start", "end", "tokens", "given", "labels")
_HEADS = ("pairwise", "start", "end")
_MOST_AXES = 3  # positions x labels x labels


def open_scores(path: str, pace: Pace | None = None, n_labels: int | None = None) -> ScoreFile:
    """Open a file of scores, npz or JSON lines.

    Parameters
    ----------
    path : str
        The file; ``"-"`` is standard input, with JSON lines. Gzipped files are decompressed.
    pace : Pace, optional
        How many sequences to read at once.
    n_labels : int, optional
        Number of labels, for files that do not name them; sequences without tokens need it.

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
        stream.close()
        return open_npz(file, pace)
    if magic.startswith(b"\x93NUMPY"):
        stream.close()
        raise FileError(
            "a single array is not a score file",
            got="an npy file",
            wanted="npz or JSON lines",
            cause="numpy.savez(path, unary=array) writes an npz file.",
            where=path,
        )
    return _open_lines(stream, path, pace, n_labels, size)


def _unreadable(path: str, error: Exception) -> FileError:
    return FileError(
        "cannot read this score file",
        got=getattr(error, "strerror", None) or str(error),
        wanted="an npz file or JSON lines",
        where=path,
    )


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
        raise FileError(
            "not a JSON line",
            got=str(error),
            wanted='{"unary": [[...], ...], ...} on one line',
            cause="One sequence per line; is the file cut off?",
        ) from None
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


# ---- writing ----------------------------------------------------------------------------------------------------


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
    made: Array = np.where(np.isneginf(scores), None, scores)  # type: ignore[call-overload]
    return made.tolist()
