"""Open, read and write files of labelled sequences, and find the files that paths, folders and patterns stand for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatch
from glob import glob, has_magic
from pathlib import Path
from typing import Any

from bridle.data.base import Format, format_named, plain_path
from bridle.data.detection import Guess, format_guessed, guess_format, has_suffix
from bridle.data.examples import Example, Examples
from bridle.data.huggingface import Folder, is_saved
from bridle.data.source import Source
from bridle.errors import Argument, FileError, shown

Place = str | os.PathLike[str]


def read(path: Place, format: str | None = None, **options: Any) -> Examples:
    """Read labelled sequences, one after the other.

    Parameters
    ----------
    path : str or path
        The file; ``"-"`` is standard input. Files packed with gzip or zstd (this
        needs PyArrow) are decompressed. A folder written by ``save_to_disk`` of
        Hugging Face ``datasets`` works as well.
    format : str, optional
        One of `formats`; None detects it by the suffix or the first lines.
    **options
        Options of the format, such as `columns` and `label` of ``"conll"``. Text formats have `encoding`. All have
        `missing`, the text of an unknown label (``"?"``): such labels are None; and `map`, new names of labels, such as
        ``{"PERS": "PER"}``.

    Returns
    -------
    Examples
        An iterator of `Example`, which reads the file as you go.

    Raises
    ------
    FileError
        If the file cannot be read, the format cannot be told, or there is no such option. While you iterate: if the
        file is not of the format, with the line.
    FeatureError
        While you iterate: if tokens of a record or a row are not strings, or its columns differ in length.

    Examples
    --------
    >>> from pathlib import Path
    >>> import tempfile
    >>> from bridle.data import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "train.txt")
    ...     _ = path.write_text("He PRP B-NP\\nleft VBD B-VP\\n")
    ...     for example in read(path, "conll", columns=["word", "pos", "chunk"]):
    ...         print(example.columns["word"], example.labels)
    ['He', 'left'] ['B-NP', 'B-VP']
    """
    saved = format in (None, "arrow") and isinstance(path, (str, os.PathLike)) and Path(path).is_dir()
    source = Folder(path) if saved else Source(path)
    try:
        name = format or ("arrow" if saved else format_guessed(source.name, source))
        chosen = format_named(name, options)
        return Examples(chosen.grouped(chosen.read(source)), source, chosen.name, chosen.missing, chosen.map)
    except BaseException:
        source.close()
        raise


def opened(path: Place, format: str | None, options: dict[str, Any]) -> tuple[Source, Format]:
    """Open a file whose format is known or detected, to be read in blocks."""

    def choose(guess: Guess) -> tuple[str, dict[str, Any]]:
        if format is None and guess.format is None:
            raise guess.error or FileError("the format of this file is unknown")
        return format or str(guess.format), options

    return opened_chosen(path, choose, format)


def opened_chosen(
    path: Place, choose: Callable[[Guess], tuple[str, dict[str, Any]]], usual: str | None = None
) -> tuple[Source, Format]:
    """Open a file whose format and options depend on its first lines, to be read in blocks. Works for pipes too.

    usual: the format to prefer if a file could have several.
    """
    source = Folder(path) if Path(path).is_dir() else Source(path)
    source.waits = source.total is not None  # what comes through a pipe is handed on at once
    try:
        guess = Guess("arrow", True) if isinstance(source, Folder) else guess_format(source, source.beginning(), usual)
        name, options = choose(guess)
        return source, format_named(name, options)
    except BaseException:
        source.close()
        raise


def read_chosen(
    path: Place, choose: Callable[[Guess], tuple[str, dict[str, Any]]], usual: str | None = None
) -> Examples:
    """Read a file whose format and options depend on its first lines. Works for pipes too.

    usual: the format to prefer if a file could have several.
    """
    source, chosen = opened_chosen(path, choose, usual)
    return Examples(chosen.grouped(chosen.read(source)), source, chosen.name, chosen.missing, chosen.map)


def load(path: Place, format: str | None = None, **options: Any) -> tuple[list[dict[str, list[str]]], list[list[Any]]]:
    """Read all sequences of a file, as models take them.

    Parameters
    ----------
    path : str or path
        The file; ``"-"`` is standard input.
    format : str, optional
        One of `formats`; None detects it by the suffix or the first lines.
    **options
        Options of the format.

    Returns
    -------
    X : list of dict of str to list of str
        The columns of each sequence, without that of the labels.
    y : list of list of str
        Its labels, None where one is missing.

    Raises
    ------
    FileError
        As `read`; or if a sequence has no labels. Texts of an annotation tool without annotations are
        skipped.
    """
    xs, ys = list[dict[str, list[str]]](), list[list[Any]]()
    known: dict[str, str] = {}  # equal strings are kept once
    once = known.setdefault
    with read(path, format, **options) as examples:
        for example in examples.labelled():
            xs.append({name: list(map(once, column, column)) for name, column in example.columns.items()})
            labels = example.labels or ()
            ys.append([label if label is None else once(label, label) for label in labels])
    return xs, ys


def write(path: Place | None, examples: Iterable[Example], format: str | None = None, **options: Any) -> None:
    """Write labelled sequences, one after the other.

    The file is written under another name in the same folder and renamed at the end; an existing file stays until then.
    If writing fails, the lines so far are kept as NAME.part, except for gzipped and binary formats.

    Parameters
    ----------
    path : str, path or None
        The file; None or ``"-"`` is standard output. A file whose name ends in ``.gz`` or ``.zst``
        is compressed.
    examples : iterable of Example
        The sequences.
    format : str, optional
        One of `formats`; None detects it by the suffix.
    **options
        Options of the format.

    Raises
    ------
    FileError
        If the format is unknown, a sequence cannot be written in it, the file cannot be written, or another process is
        writing it.
    """
    place = plain_path(path)
    if format is None and place is None:
        raise FileError(
            "the format is not known", got="standard output", wanted="{argument}", argument=Argument("format")
        )
    chosen: Format = format_named(format or format_guessed(str(place)), options)
    chosen.save(place, map(chosen.without_gaps, _checked(examples)))


def _checked(examples: Iterable[Example]) -> Iterator[Example]:
    for example in examples:
        if not isinstance(example, Example):
            raise FileError("not a sequence", got=type(example).__name__, wanted="bridle.data.Example")
        yield example


MANIFEST = "_manifest"  # how the names of files begin that a run keeps for itself


def files(paths: Place | Iterable[Place]) -> list[str]:
    """List the files that paths, folders and patterns stand for, each once.

    Of a folder, all files with a known suffix are taken, also those in folders below, in the order of their names;
    hidden files and manifests are not. ``"-"`` is standard input.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    names: dict[str, str] = {}
    for path in paths:
        for name in _expanded(path):
            names.setdefault(name if name == "-" else os.path.realpath(name), name)
    return list(names.values())


def check_places(paths: Iterable[Place], out: str, shard: str) -> None:
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


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Check whether `glob` would find a path with these parts."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[k:], pattern[1:]) for k in range(len(parts) + 1))
    return bool(parts) and fnmatch(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _expanded(path: Place) -> Iterator[str]:
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
