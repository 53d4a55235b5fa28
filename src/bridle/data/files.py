"""Read and write labelled sequences: `read`, `load`, `write`.

from bridle.data import read, load, write

for example in read("train.txt.gz", "conll", columns=["word", "pos", "chunk"]):
    print(example.columns["word"], example.labels)
X, y = load("train.txt.gz", "conll", columns=["word", "pos", "chunk"])
write("train.jsonl", read("train.txt.gz", "conll"))
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from bridle.data.base import (
    Format,
    beginning,
    format_guessed,
    format_kind,
    format_named,
    has_suffix,
    plain_path,
    sure_format,
)
from bridle.data.examples import Example, Examples
from bridle.data.huggingface import Folder
from bridle.data.source import Source
from bridle.errors import Argument, FileError

Path = str | os.PathLike[str]


def read(path: Path, format: str | None = None, **options: Any) -> Examples:
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
        `missing`, the text of an unknown label (``"?"``): such labels are None.

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
    >>> import pathlib, tempfile
    >>> from bridle.data import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.txt")
    ...     _ = path.write_text("He PRP B-NP\\nleft VBD B-VP\\n")
    ...     for example in read(path, "conll", columns=["word", "pos", "chunk"]):
    ...         print(example.columns["word"], example.labels)
    ['He', 'left'] ['B-NP', 'B-VP']
    """
    saved = format in (None, "arrow") and isinstance(path, (str, os.PathLike)) and pathlib.Path(path).is_dir()
    source = Folder(path) if saved else Source(path)
    try:
        chosen = format_named(format or _guessed(source), options)
        return Examples(chosen.read(source), source, chosen.name, chosen.missing)
    except BaseException:
        source.close()
        raise


def opened(path: Path, format: str | None, options: dict[str, Any]) -> tuple[Source, Format]:
    """Open a file whose format is known or detected, to be read in blocks."""
    return opened_chosen(path, lambda guess: (format or _sure(guess), options), format)


def opened_chosen(
    path: Path, choose: Callable[[Guess], tuple[str, dict[str, Any]]], usual: str | None = None
) -> tuple[Source, Format]:
    """Open a file whose format and options depend on its first lines, to be read in blocks. Works for pipes too.

    usual: the format to prefer if a file could have several.
    """
    source = Folder(path) if pathlib.Path(path).is_dir() else Source(path)
    source.waits = source.total is not None  # what comes through a pipe is handed on at once
    try:
        name, options = choose(_guess(source, usual))
        return source, format_named(name, options)
    except BaseException:
        source.close()
        raise


def _sure(guess: Guess) -> str:
    if guess.format is None:
        raise guess.error or FileError("the format of this file is unknown")
    return guess.format


def read_chosen(
    path: Path, choose: Callable[[Guess], tuple[str, dict[str, Any]]], usual: str | None = None
) -> Examples:
    """Read a file whose format and options depend on its first lines. Works for pipes too.

    usual: the format to prefer if a file could have several.
    """
    source, chosen = opened_chosen(path, choose, usual)
    return Examples(chosen.read(source), source, chosen.name, chosen.missing)


@dataclass(frozen=True)
class Guess:
    """The format that a file seems to have."""

    format: str | None  # None: cannot be told
    sure: bool  # its suffix says so, or marks that plain text does not have
    first_line: str = ""
    error: FileError | None = None  # why it cannot be told


def _guess(source: Source, usual: str | None) -> Guess:
    head = beginning(source)
    line = head.lstrip().partition("\n")[0]
    marked = line.startswith(("{", "[", "<", "PAR1", "ARROW1"))  # JSON, markup, tables
    told = marked or has_suffix(source.name)
    sure = told or "\t" in line
    if usual is not None and not told and (seen := sure_format(head)) is not None:
        return Guess(seen, True, line)
    if usual is not None and not told and (not sure or format_kind(usual).looks_like(head)):
        return Guess(usual, sure, line)
    try:
        name = _guessed(source)
    except FileError as error:
        return Guess(None, False, line, error)
    return Guess(name, sure, line)


def _guessed(source: Source) -> str:
    return "arrow" if isinstance(source, Folder) else format_guessed(source.name, source)


def load(path: Path, format: str | None = None, **options: Any) -> tuple[list[dict[str, list[str]]], list[list[Any]]]:
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
        As `read`; or if a sequence has no labels. Texts of an annotation tool that nobody has annotated yet are
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


def write(path: Path | None, examples: Iterable[Example], format: str | None = None, **options: Any) -> None:
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
