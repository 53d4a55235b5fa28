"""Labelled sequences in and out: `read`, `load`, `write`.

from bridle.data import read, load, write

for example in read("train.txt.gz", "conll", columns=["word", "pos", "chunk"]):
    print(example.columns["word"], example.labels)
X, y = load("train.txt.gz", "conll", columns=["word", "pos", "chunk"])
write("train.jsonl", read("train.txt.gz", "conll"))
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

from bridle.data.base import Format, format_guessed, format_named, plain_path
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
        The file; ``"-"`` is standard input. Files packed by gzip are unpacked. Also a folder that ``save_to_disk`` of
        Hugging Face ``datasets`` wrote.
    format : str, optional
        One of `formats`; None tells it from the suffix or from how the file begins.
    **options
        Options of the format, such as `columns` and `label` of ``"conll"``. Text formats have `encoding`.

    Returns
    -------
    Examples
        An iterator of `Example`, which reads the file as you go.

    Raises
    ------
    FileError
        If the file cannot be read, the format cannot be told, or there is no such option. While you iterate: if the
        file is not of the format, with the line.

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
        chosen = format_named("arrow" if saved else format or format_guessed(source.name, source), options)
    except BaseException:
        source.close()
        raise
    return Examples(chosen.read(source), source, chosen.name)


def load(path: Path, format: str | None = None, **options: Any) -> tuple[list[dict[str, list[str]]], list[list[str]]]:
    """Read all sequences of a file, as models take them.

    Parameters
    ----------
    path : str or path
        The file; ``"-"`` is standard input.
    format : str, optional
        One of `formats`; None tells it from the suffix or from how the file begins.
    **options
        Options of the format.

    Returns
    -------
    X : list of dict of str to list of str
        The columns of each sequence, without that of the labels.
    y : list of list of str
        Its labels.

    Raises
    ------
    FileError
        As `read`; or if a sequence has no labels. Texts of an annotation tool that nobody has annotated yet are passed
        over.
    """
    xs, ys = list[dict[str, list[str]]](), list[list[str]]()
    known: dict[str, str] = {}  # equal strings are kept once
    once = known.setdefault
    with read(path, format, **options) as examples:
        for example in examples.labelled():
            xs.append({name: list(map(once, column, column)) for name, column in example.columns.items()})
            labels = example.labels or ()
            ys.append(list(map(once, labels, labels)))
    return xs, ys


def write(path: Path | None, examples: Iterable[Example], format: str | None = None, **options: Any) -> None:
    """Write labelled sequences as they come.

    The file is written under another name beside its place and renamed when all is done; an earlier file of that name
    stays until then. If it fails, lines so far are kept as NAME.part, but not of packed or binary formats.

    Parameters
    ----------
    path : str, path or None
        The file; None or ``"-"`` is standard output. A name that ends in ``.gz`` is packed.
    examples : iterable of Example
        The sequences.
    format : str, optional
        One of `formats`; None tells it from the suffix.
    **options
        Options of the format.

    Raises
    ------
    FileError
        If the format is not known, a sequence cannot be written in it, the file cannot be written, or somebody else is
        writing it.
    """
    place = plain_path(path)
    if format is None and place is None:
        raise FileError(
            "the format is not known", got="standard output", wanted="{argument}", argument=Argument("format")
        )
    chosen: Format = format_named(format or format_guessed(str(place)), options)
    chosen.save(place, _checked(examples))


def _checked(examples: Iterable[Example]) -> Iterator[Example]:
    for example in examples:
        if not isinstance(example, Example):
            raise FileError("this is no sequence to write", got=type(example).__name__, wanted="bridle.data.Example")
        yield example
