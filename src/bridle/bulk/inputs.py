"""The files of a run: paths, folders and patterns become files, each with its format and a reader of batches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from glob import glob, has_magic
from pathlib import Path
from typing import Any

from bridle.bulk.base import OnError, Reader
from bridle.bulk.conll import ConllReader
from bridle.bulk.examples import ExampleReader
from bridle.bulk.jsonl import JsonLinesReader
from bridle.bulk.source import Packed
from bridle.bulk.tables import TableReader
from bridle.data.base import format_guessed, format_named, has_suffix
from bridle.data.conll import Conll
from bridle.data.jsonl import JsonLines
from bridle.data.parquet import Parquet
from bridle.errors import Argument, FileError, shown

MANIFEST = "_manifest"  # how the names of files begin that a run keeps for itself
_SAVED = ("state.json", "dataset_dict.json")  # what a folder has that `save_to_disk` of datasets wrote


@dataclass(frozen=True, slots=True)
class Input:
    """A file with its reader."""

    path: str
    format: str
    reader: Reader


def inputs(
    paths: Iterable[str | os.PathLike[str]],
    format: str | None = None,
    *,
    on_error: OnError = "raise",
    **options: Any,
) -> list[Input]:
    """Find the files that paths, folders and patterns stand for, and how to read them.

    Parameters
    ----------
    paths : iterable of str or path
        Files; folders, of which all files with a known suffix are taken, in the order of their names, also those in
        folders below; patterns such as ``"in/*.jsonl.gz"`` or ``"in/**/*.parquet"``; or ``"-"``, which is standard
        input. Hidden files and files whose name begins with ``_manifest`` are not taken from folders. A file that is
        found more than once is taken once.
    format : str, optional
        One of `bridle.data.formats`; None detects it for each file by its suffix or its first lines.
    on_error : {"raise", "row"}, default "raise"
        What happens at a sequence that cannot be read: an error, or a row without tokens and a message in
        `Block.errors`.
    **options
        Options of the format.

    Returns
    -------
    list of Input
        Files with their format and reader.

    Raises
    ------
    FileError
        If there is no such file, a pattern or a folder has none, or a format cannot be told.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b.jsonl", "a.jsonl", "_manifest.json"):
    ...         _ = pathlib.Path(folder, name).write_text('{"tokens": ["He", "left"]}')
    ...     found = inputs([folder])
    ...     print([pathlib.Path(one.path).name for one in found], found[0].format)
    ...     print(next(found[0].reader.blocks(found[0].path)).batch.column("tokens").to_pylist())
    ['a.jsonl', 'b.jsonl'] jsonl
    [['He', 'left']]
    """
    made = list[Input]()
    for path in files(paths):
        name = format or format_of(path)
        made.append(Input(path, name, reader_at(path, name, options, on_error)))
    return made


def reader_at(path: str, format: str, options: Mapping[str, Any], on_error: OnError = "raise") -> Reader:
    """The fastest reader of batches for a file with this format, or for a saved folder."""
    reader = reader_of(format, on_error=on_error, **options)
    return ExampleReader(format_named(format, dict(options))) if is_saved(path) else reader


def files(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The files that paths, folders and patterns stand for, each once."""
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    found: dict[str, str] = {}
    for path in paths:
        for one in _expanded(path):
            found.setdefault(one if one == "-" else os.path.realpath(one), one)
    return list(found.values())


def check_places(paths: Iterable[str | os.PathLike[str]], out: str, shard: str) -> None:
    """Raise if a later call would read the output: its shards, with names such as `shard`, would be inputs then."""
    place = Path(out).resolve() / shard
    for one in paths:
        path = os.fspath(one)
        if path == "-" or is_saved(path):
            continue
        given = Path(path).resolve()
        pattern = has_magic(path) and _matches(place.parts, Path(path).absolute().parts)
        if pattern or (given.is_dir() and place.is_relative_to(given)):
            got, wanted = f"{out} in {path}", "a folder outside of the input"
            raise FileError("the output would be read as input", got=got, wanted=wanted)


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Would `glob` find a path with these parts?"""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[k:], pattern[1:]) for k in range(len(parts) + 1))
    return bool(parts) and fnmatch(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def format_of(path: str) -> str:
    """The name of the format of a file, by its suffix or its first lines."""
    if is_saved(path):
        return "arrow"
    source = Packed(path)
    try:
        return format_guessed(source.name, source)
    finally:
        source.close()


def reader_of(format: str, *, on_error: OnError = "raise", **options: Any) -> Reader:
    """The fastest reader of batches for a format with options."""
    if on_error not in ("raise", "row"):
        argument = Argument("on_error", on_error)
        raise FileError(
            "`on_error` has an unknown value", got=repr(on_error), wanted="'raise' or 'row'", argument=argument
        )
    made = format_named(format, options)
    if isinstance(made, Parquet):
        return TableReader(made, on_error)
    if type(made) is Conll and _is_utf8(made.encoding):
        return ConllReader(made, on_error)
    if isinstance(made, JsonLines) and _is_utf8(made.encoding):
        return JsonLinesReader(made, on_error)
    return ExampleReader(made)


def _is_utf8(encoding: object) -> bool:
    return isinstance(encoding, str) and encoding.lower().replace("_", "-") in ("utf-8", "utf8")


def _expanded(path: str | os.PathLike[str]) -> Iterator[str]:
    if not isinstance(path, (str, os.PathLike)) or "\0" in (name := os.fspath(path)):
        raise FileError("not a path", got=shown(path), wanted="a file, a folder, a pattern, or '-'")
    if name == "-" or is_saved(name) or (Path(name).exists() and not Path(name).is_dir()):
        yield name
    elif Path(name).is_dir():
        below = [one for one in _below(Path(name)) if has_suffix(one)]
        if not below:
            what, wanted = "the folder has no files that Bridle can read", "files with the suffix of a format"
            raise FileError(what, got="none with a known suffix", wanted=wanted, where=name)
        yield from below
    elif has_magic(name):
        hits = sorted(one for one in glob(name, recursive=True) if not Path(one).is_dir())  # noqa: PTH207
        if not hits:
            raise FileError("no file matches this pattern", got=repr(name), wanted="a pattern that matches a file")
        yield from hits
    else:
        what, wanted = "cannot read this file", "a file, a folder or a pattern"
        raise FileError(what, got="No such file or directory", wanted=wanted, where=name)


def _below(folder: Path) -> Iterator[str]:
    """The files below a folder, in the order of their names."""
    for one in sorted(folder.iterdir()):
        if one.name.startswith((".", MANIFEST)):
            continue
        if is_saved(str(one)):
            yield str(one)
        elif one.is_dir():
            yield from _below(one)
        elif one.is_file():
            yield str(one)


def is_saved(path: str) -> bool:
    """Is it a folder that `save_to_disk` of datasets wrote?"""
    return path != "-" and any(Path(path, name).is_file() for name in _SAVED)
