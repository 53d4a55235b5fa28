"""The files that paths, folders and patterns stand for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from glob import glob, has_magic
from pathlib import Path

from bridle.data.base import has_suffix
from bridle.errors import FileError, shown

MANIFEST = "_manifest"  # how the names of files begin that a run keeps for itself
_SAVED = ("state.json", "dataset_dict.json")  # what a folder has that `save_to_disk` of datasets wrote


def files(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """List the files that paths, folders and patterns stand for, each once.

    Of a folder, all files with a known suffix are taken, also those in folders below, in the order of their names;
    hidden files and manifests are not. ``"-"`` is standard input.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    found: dict[str, str] = {}
    for path in paths:
        for name in _expanded(path):
            found.setdefault(name if name == "-" else os.path.realpath(name), name)
    return list(found.values())


def check_places(paths: Iterable[str | os.PathLike[str]], out: str, shard: str) -> None:
    """Raise if a later call would read the output: its shards, with names such as `shard`, would be inputs then."""
    place = Path(out).resolve() / shard
    for name in (os.fspath(path) for path in paths):
        if name == "-" or is_saved(name):
            continue
        given = Path(name).resolve()
        pattern = has_magic(name) and _matches(place.parts, Path(name).absolute().parts)
        if pattern or (given.is_dir() and place.is_relative_to(given)):
            got, wanted = f"{out} in {name}", "a folder outside of the input"
            raise FileError("the output would be read as input", got=got, wanted=wanted)


def is_saved(path: str) -> bool:
    """Check whether it is a folder that `save_to_disk` of datasets wrote."""
    return path != "-" and any(Path(path, name).is_file() for name in _SAVED)


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Check whether `glob` would find a path with these parts."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[k:], pattern[1:]) for k in range(len(parts) + 1))
    return bool(parts) and fnmatch(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _expanded(path: str | os.PathLike[str]) -> Iterator[str]:
    if not isinstance(path, (str, os.PathLike)) or "\0" in (name := os.fspath(path)):
        raise FileError("not a path", got=shown(path), wanted="a file, a folder, a pattern, or '-'")
    if name == "-" or (Path(name).exists() and not Path(name).is_dir()) or is_saved(name):
        yield name
    elif Path(name).is_dir():
        below = [file for file in _below(Path(name)) if has_suffix(file)]
        if not below:
            what, wanted = "the folder has no files that Bridle can read", "files with the suffix of a format"
            raise FileError(what, got="none with a known suffix", wanted=wanted, where=name)
        yield from below
    elif has_magic(name):
        hits = sorted(file for file in glob(name, recursive=True) if not Path(file).is_dir())  # noqa: PTH207
        if not hits:
            raise FileError("no file matches this pattern", got=repr(name), wanted="a pattern that matches a file")
        yield from hits
    else:
        what, wanted = "cannot read this file", "a file, a folder or a pattern"
        raise FileError(what, got="No such file or directory", wanted=wanted, where=name)


def _below(folder: Path) -> Iterator[str]:
    """The files below a folder, in the order of their names."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", MANIFEST)):
            continue
        if is_saved(str(path)):
            yield str(path)
        elif path.is_dir():
            yield from _below(path)
        elif path.is_file():
            yield str(path)
