"""Labelled sequences in and out: `read`, `load`, `write`.

    from bridle.data import read, load, write

    for example in read("train.txt.gz", "conll", columns=["word", "pos", "chunk"]):
        print(example.columns["word"], example.labels)
    X, y = load("train.txt.gz", "conll", columns=["word", "pos", "chunk"])
    write("train.jsonl", read("train.txt.gz", "conll"))
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from bridle.data.base import Format, format_guessed, format_named, plain_path
from bridle.data.examples import Example, Examples
from bridle.data.source import Source
from bridle.errors import Argument, FileError

Path = str | os.PathLike[str]


def read(path: Path, format: str | None = None, **options: Any) -> Examples:
    """Read labelled sequences, one after the other; "-" is standard input, gzip is seen by itself.

    format: one of `formats()`; None: guessed from the suffix, or from how the file begins.
    options: those of the format, such as `columns` and `label` of "conll"; all text formats have `encoding`.
    """
    source = Source(path)
    try:
        chosen = format_named(format or format_guessed(source.name, source), options)
    except BaseException:
        source.close()
        raise
    return Examples(chosen.read(source), source, chosen.name)


def load(
    path: Path, format: str | None = None, **options: Any
) -> tuple[list[dict[str, list[str]]], list[list[str]]]:
    """All sequences of a file as X (columns) and y (labels), as models take them."""
    xs, ys = list[dict[str, list[str]]](), list[list[str]]()
    known: dict[str, str] = {}  # equal strings are kept once
    once = known.setdefault
    with read(path, format, **options) as examples:
        for example in examples:
            if example.labels is None:
                raise example.error(
                    "a sequence has no labels", got="tokens only", wanted="labels for all sequences",
                    cause="Is `label` the right column? `read` takes sequences without labels.",
                )  # fmt: skip
            xs.append({name: list(map(once, column, column)) for name, column in example.columns.items()})
            ys.append(list(map(once, example.labels, example.labels)))
    return xs, ys


def write(path: Path | None, examples: Iterable[Example], format: str | None = None, **options: Any) -> None:
    """Write sequences as they come; to standard output if path is None or "-".

    The file is written aside, as NAME.part, and gets its name when all is done. A name that ends in .gz is packed.
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
