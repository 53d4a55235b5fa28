"""What a format is: a frozen dataclass whose fields are its options, which reads a source and makes lines of examples.

A file in this folder that defines a subclass of `Format` with a name is found by itself.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from inspect import cleandoc
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from bridle.atomic import replacing
from bridle.data.examples import Example
from bridle.data.output import Lines
from bridle.data.source import Source
from bridle.errors import Argument, FileError, shown

_FORMATS: dict[str, type[Format]] = {}
_TOKENS = {"word", "words", "token", "tokens"}  # what columns are called
_LABELS = {"label", "labels", "tag", "tags", "ner", "ner_tag", "ner_tags", "pos", "pos_tag", "pos_tags", "chunk", "bio"}
_PARAMETERS = "\n\nParameters\n----------\n"


@dataclass(frozen=True, kw_only=True)
class Format:
    """The base of all formats; its fields are the options.

    Parameters
    ----------
    encoding : str, default "utf-8"
        Encoding of what is read; what is written is always UTF-8.
    """

    name: ClassVar[str] = ""
    suffixes: ClassVar[tuple[str, ...]] = ()  # of files that are surely of this format
    shared: ClassVar[tuple[str, ...]] = ()  # suffixes that belong to another format; how a file begins tells them apart
    cuts: ClassVar[bool] = False  # does it cut text into tokens, with an option `tokens` that says how?
    encoding: str = "utf-8"

    def __init_subclass__(cls) -> None:
        if cls.name in _FORMATS and _FORMATS[cls.name].__module__ != cls.__module__:
            raise TypeError(f"two formats are called {cls.name!r}")
        if "name" in cls.__dict__:
            _FORMATS[cls.name] = cls
        if cls.__doc__ and "encoding :" not in cls.__doc__:  # the options of its base are told there, once
            own, base = cleandoc(cls.__doc__), cleandoc(cls.__bases__[0].__doc__ or "")
            cls.__doc__ = own + ("\n" if _PARAMETERS in own else _PARAMETERS) + base.partition(_PARAMETERS)[2]

    @classmethod
    def looks_like(cls, head: str) -> bool:
        """May a file that begins so be of this format? `head` ends with a whole line if the file goes on."""
        return False

    @classmethod
    def misfit(cls, head: str) -> str:
        """Why a file that begins so is not of this format: a sentence, or ""."""
        return ""

    def read(self, source: Source) -> Iterator[Example]:
        """The sequences of a source."""
        raise NotImplementedError

    def lines(self, example: Example) -> Iterable[str]:
        """The lines that stand for one sequence."""
        raise NotImplementedError

    def text(self, examples: Iterable[Example]) -> Iterator[str]:
        """All lines of a file."""
        for example in examples:
            if not len(example):
                raise example.error(
                    f"an empty sequence cannot be written as {self.name}",
                    got="no tokens",
                    wanted="a token at least",
                    cause="jsonl and parquet have room for empty sequences.",
                )
            try:
                yield from self.lines(example)
            except (TypeError, AttributeError):
                raise example.error("a sequence holds what is no text", wanted="strings in all columns") from None

    def save(self, path: str | None, examples: Iterable[Example]) -> None:
        """Write a file (.gz: packed), or to standard output (None)."""
        lines = self.text(examples)
        if path is not None and path.endswith(".gz"):
            with (
                replacing(path, patience=0.0) as file,
                gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed,
            ):
                while some := list(islice(lines, 4096)):
                    packed.write(_encoded("".join(line + "\n" for line in some)))
            return
        with Lines(path) as out:
            while some := list(islice(lines, 4096)):
                _encoded("".join(some))
                out.write(some)

    def check(self, **choices: Sequence[str | None]) -> None:
        """Raise if an option is none of its words."""
        for option, words in choices.items():
            if (value := getattr(self, option)) not in words:
                raise FileError(
                    f"`{option}` has an unknown value",
                    got=repr(value),
                    wanted=" or ".join(map(repr, words)),
                    argument=Argument(option, value),
                )


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        got = f"U+{ord(text[error.start]):04X} in {text[max(error.start - 20, 0) : error.start]!r}..."
        raise FileError("a string cannot be written as UTF-8", got=got, wanted="text without surrogates") from None


def formats() -> list[str]:
    """List the formats of labelled sequences.

    Returns
    -------
    list of str
        Their names, sorted.

    Examples
    --------
    >>> from bridle.data import formats
    >>> "conll" in formats() and "jsonl" in formats()
    True
    """
    return sorted(_FORMATS)


def format_named(name: str, options: dict[str, Any]) -> Format:
    """The format of this name with these options."""
    if not isinstance(name, str) or name not in _FORMATS:
        raise FileError(
            "unknown format", got=repr(name), wanted=_near(str(name), formats()), argument=Argument("format", name)
        )
    kind = _FORMATS[name]
    known = sorted(field.name for field in fields(kind))
    for option in options:
        if option not in known:
            raise FileError(f"format {name!r} has no such option", got=repr(option), wanted=_near(option, known))
    return kind(**options)


def _near(name: str, known: list[str]) -> str:
    near = get_close_matches(name.lower(), known, n=1)
    return repr(near[0]) if near else "one of " + ", ".join(known)


def format_guessed(path: str, source: Source | None = None) -> str:
    """The name of the format of a file, from its suffix or, if there is a source to read, from how it begins."""
    suffix = Path(path.removesuffix(".gz")).suffix.lower()
    found = [name for name, kind in _FORMATS.items() if suffix in kind.suffixes]
    misfit = ""
    rivals = [name for name, kind in _FORMATS.items() if suffix in kind.shared]
    text = _beginning(source) if source is not None and (rivals or not found) else ""
    if found and text:
        found = [name for name in rivals if _FORMATS[name].looks_like(text)] or found
    elif not found and source is not None:
        if not text.strip():
            return "conll"  # nothing is in it: all formats read it alike
        likely = {name: kind for name, kind in _FORMATS.items() if kind.looks_like(text)}
        # a special kind of a format that fits as well: CoNLL-U is CoNLL too
        special = {base for kind in likely.values() for base in kind.__mro__[1:]}
        found = [name for name, kind in likely.items() if kind not in special]
        misfit = "" if found else _FORMATS["conll"].misfit(text)  # what most files are meant to be
    if len(found) == 1:
        return found[0]
    raise FileError(
        "cannot tell the format of this file",
        where=source.name if source else path,
        got=f"what may be {' or '.join(sorted(found))}" if found else f"the suffix {suffix!r}",
        wanted=f"{{argument}}, one of {', '.join(formats())}",
        cause=misfit or None,
        argument=Argument("format"),
    )


def _beginning(source: Source) -> str:
    """How a file begins: whole lines, if it goes on."""
    head = source.head()
    text = head.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
    return text[: text.rindex("\n") + 1] if len(head) >= 1 << 16 and "\n" in text else text


def names_columns(head: str) -> bool:
    """Does a file begin with names of columns, with TABs between, that of tokens and that of labels among them?"""
    cells = {cell.strip().lower() for cell in head.lstrip("\n").partition("\n")[0].split("\t")}
    return bool(cells & _TOKENS) and bool(cells & _LABELS)


def plain_path(path: str | os.PathLike[str] | None) -> str | None:
    """A path as a string; None for standard output."""
    if path is None or path == "-":
        return None
    if not isinstance(path, (str, os.PathLike)) or "\0" in (name := os.fspath(path)):
        raise FileError("this is no path", got=shown(path), wanted="a path, or None for standard output")
    return name
