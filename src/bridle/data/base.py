"""The base class of formats: a frozen dataclass whose fields are options; it reads a source and writes examples.

A file in this folder that defines a subclass of `Format` with a name is found automatically.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import cache
from inspect import cleandoc
from itertools import islice
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from bridle.data.blocks import ROWS, Pace, block_examples, example_blocks, labelled_examples
from bridle.data.documents import DocumentNames
from bridle.data.examples import Example
from bridle.data.output import Lines
from bridle.data.source import BLOCK, Source
from bridle.errors import Argument, FileError, shown
from bridle.tagging.arrow import Layout
from bridle.tagging.block import Block
from bridle.tagging.labelling import Outcomes

FORMATS: dict[str, type[Format]] = {}
_PARAMETERS = "\n\nParameters\n----------\n"
_OPTION = re.compile(r"\w+ : .*(?:\n    .*)+")  # in a docstring


@dataclass(frozen=True, kw_only=True)
class Format:
    """The base of all formats; its fields are the options.

    Parameters
    ----------
    missing : str or None, default "?"
        Text of an unknown label; None if there is no such text.
    map : mapping of str to str, optional
        New names of labels that are read, such as ``{"PERS": "PER"}``. A segment type stands for all of its labels.
    encoding : str, default "utf-8"
        Encoding of the input; the output is always UTF-8.
    groups : str, optional
        Where to find the document of each sequence: the name of a column, which has the same value for all its tokens,
        or of a field of its record; ``"docstart"`` if documents begin at -DOCSTART- lines, which are then read as
        sequences; ``"newdoc"`` if they begin at comments such as ``# newdoc``.
    """

    name: ClassVar[str] = ""
    suffixes: ClassVar[tuple[str, ...]] = ()  # of files that are surely of this format
    shared: ClassVar[tuple[str, ...]] = ()  # suffixes that belong to another format; how a file begins tells them apart
    cuts: ClassVar[bool] = False  # does it cut text into tokens, with an option `tokens` that says how?
    gaps: ClassVar[Literal["text", "null", "never"]] = "text"  # how it writes a label that is missing, if it can
    with_gold: ClassVar[bool] = False  # has it a column for gold labels beside predicted ones?
    streams: ClassVar[bool] = False  # can its lines be written as soon as they are ready, without header and footer?
    blank: ClassVar[bool] = True  # does a sequence without labels need some in their place?
    contiguous: ClassVar[bool] = False  # does a sequence reach from its first line to that of the next one?
    gap: ClassVar[str] = "\n"  # how the text of a sequence ends if another one follows
    missing: str | None = "?"
    map: Mapping[str, str] | None = None
    encoding: str = "utf-8"
    groups: str | None = None

    def __init_subclass__(cls) -> None:
        if cls.name in FORMATS and FORMATS[cls.name].__module__ != cls.__module__:
            raise TypeError(f"a format named {cls.name!r} is already registered")
        if "name" in cls.__dict__:
            FORMATS[cls.name] = cls
        # options of its base are described there, once, unless the format has another default or meaning
        text, options = cleandoc(cls.__doc__ or ""), cleandoc(cls.__bases__[0].__doc__ or "").partition(_PARAMETERS)[2]
        others = [option for option in _OPTION.findall(options) if f"\n{option.partition(' ')[0]} : " not in text]
        cls.__doc__ = text + ("\n" if _PARAMETERS in text else _PARAMETERS) + "\n".join(others)

    def __post_init__(self) -> None:
        choices, lists = _checked_options(type(self))  # type: ignore[arg-type]  # classes are hashable
        for option, words in choices.items():
            if (value := getattr(self, option)) not in words:
                raise FileError(
                    f"`{option}` has an unknown value",
                    got=repr(value),
                    wanted=" or ".join(map(repr, words)),
                    argument=Argument(option, value),
                )
        for option in lists:
            names: Any = getattr(self, option)
            is_list = isinstance(names, Sequence) and not isinstance(names, str)
            if names is not None and not (is_list and all(isinstance(name, str) for name in names)):
                wanted = "a list such as ['word', 'pos'], or None"
                raise FileError(f"`{option}` must be a list of names", got=shown(names), wanted=wanted)
        if self.missing is not None and (not isinstance(self.missing, str) or not self.missing.strip()):
            wanted = "a string such as '?', or None"
            raise FileError("`missing` must be a non-empty string", got=shown(self.missing), wanted=wanted)
        if self.map is not None and not (
            isinstance(self.map, Mapping) and all(isinstance(x, str) and x for pair in self.map.items() for x in pair)
        ):
            wanted = "new names by old ones, such as {'PERS': 'PER'}"
            raise FileError("`map` does not map labels to labels", got=shown(self.map), wanted=wanted)

    @classmethod
    def looks_like(cls, head: str) -> bool:
        """Check whether a file that begins like this can have this format. `head` has complete lines."""
        return False

    @classmethod
    def misfit(cls, head: str) -> str:
        """Return a sentence that says why a file that begins like this does not have this format, or ""."""
        return ""

    # A format has one reader: `read`, or `blocks` if a kernel reads it.

    def read(self, source: Source) -> Iterator[Example]:
        """Yield the sequences of a source."""
        unmapped = replace(self, map=None)  # `Examples` renames labels
        return block_examples(unmapped.blocks(source, 0, Pace(ROWS, bytes=BLOCK)), source)

    def blocks(self, source: Source, start: int, pace: Pace) -> Iterator[Block]:
        """Yield blocks of sequences of a source, from a place on where an earlier block ended."""
        return example_blocks(self.read(source), source, self, start, pace)

    def grouped(self, examples: Iterator[Example]) -> Iterator[Example]:
        """Yield sequences with their documents, if the option `groups` asks for them."""
        return examples if self.groups is None else DocumentNames(self.groups).of_examples(examples)

    def labelled(self, block: Block, outcomes: Outcomes, n: int, first: int = 0) -> Iterator[Example]:
        """Yield the sequences first .. n-1 of a block with their labels, as this format writes them."""
        examples = labelled_examples(block, outcomes, n, gold=self.with_gold, blank=self.blank, first=first)
        return map(self.without_gaps, examples)

    def encode(self, block: Block, outcomes: Outcomes, n: int, first: int = 0) -> bytes:
        """Return the lines of sequences first .. n-1 with their labels, for formats without header and footer."""
        return encoded("".join(f"{line}\n" for line in self.text(self.labelled(block, outcomes, n, first))))

    def encode_rows(self, block: Block, outcomes: Outcomes, n: int, _layout: Layout) -> bytes:
        """Return the lines of the first n sequences for a shard, with the columns of the layout if the format can."""
        return self.encode(block, outcomes, n)

    def boundaries(self, text: str, starts: Sequence[int], firsts: Sequence[int]) -> list[int] | None:
        """Return where each sequence begins in the text of a file, with what belongs to it, and where the last ends.

        None: sequences of the file cannot be copied. starts: where each line begins, and the end of the text; firsts:
        the number of the first line of each sequence, from 0.
        """
        return [0, *(starts[first] for first in firsts[1:]), len(text)] if self.contiguous else None

    def lines(self, example: Example) -> Iterable[str]:
        """Return the lines of one sequence."""
        raise NotImplementedError

    def text(self, examples: Iterable[Example]) -> Iterator[str]:
        """Yield all lines of a file."""
        for example in examples:
            if not len(example):
                raise example.error(
                    f"an empty sequence cannot be written as {self.name}",
                    got="no tokens",
                    wanted="at least one token",
                    cause="Use jsonl or parquet for empty sequences.",
                )
            try:
                yield from self.lines(example)
            except (TypeError, AttributeError):
                what = "a sequence contains values that are not strings"
                raise example.error(what, wanted="strings in all columns") from None

    def without_gaps(self, example: Example) -> Example:
        """A sequence to write, with the text `missing` in place of missing labels, unless the format has null."""
        if example.labels is None or None not in example.labels or self.gaps == "null":
            return example
        if self.gaps == "never" or self.missing is None:
            raise example.error(
                "a label is missing",
                got=f"{example.labels.count(None)} tokens without a label",
                wanted=f"a label for every token, because {self.name} cannot represent missing labels"
                if self.gaps == "never"
                else "{argument}, or a label for every token",
                argument=Argument("missing", "?"),
            )
        return replace(example, labels=[self.missing if label is None else label for label in example.labels])

    def save(self, path: str | None, examples: Iterable[Example]) -> None:
        """Write to a file (packed if it ends in .gz or .zst), or to standard output (None)."""
        save_lines(path, self.text(examples))


@cache
def _checked_options(format: type[Format]) -> tuple[dict[str, tuple[str | None, ...]], list[str]]:
    """The options of a format that have a few possible values, and those that are lists of names, by their types."""
    hints, choices, lists = get_type_hints(format), dict[str, tuple[str | None, ...]](), list[str]()
    for name in (field.name for field in fields(format)):
        kinds = get_args(hints[name]) if get_origin(hints[name]) in (Union, UnionType) else (hints[name],)
        if words := [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]:
            choices[name] = (*words, None) if NoneType in kinds else tuple(words)
        elif Sequence[str] in kinds:
            lists.append(name)
    return choices, lists


def save_lines(path: str | None, lines: Iterator[str]) -> None:
    """Write lines to a file (packed if it ends in .gz or .zst), or to standard output (None)."""
    with Lines(path) as out:
        while batch := list(islice(lines, 4096)):
            out.put(encoded("".join(line + "\n" for line in batch)))


def encoded(text: str) -> bytes:
    """A text in UTF-8; raises `FileError` for half a character."""
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
    return sorted(FORMATS)


def format_kind(name: str) -> type[Format]:
    """The class of the format with this name."""
    if not isinstance(name, str) or name not in FORMATS:
        raise FileError(
            "unknown format", got=repr(name), wanted=_near(str(name), formats()), argument=Argument("format", name)
        )
    return FORMATS[name]


def format_named(name: str, options: dict[str, Any]) -> Format:
    """The format with this name and these options."""
    kind = format_kind(name)
    known = sorted(field.name for field in fields(kind))
    for option in options:
        if option not in known:
            raise FileError(f"format {name!r} has no such option", got=repr(option), wanted=_near(option, known))
    return kind(**options)


def _near(name: str, known: list[str]) -> str:
    near = get_close_matches(name.lower(), known, n=1)
    return repr(near[0]) if near else "one of " + ", ".join(known)


def lacks_column(
    format: str, missing: str, there: Sequence[str], needed: Sequence[str], where: str | None
) -> FileError:
    """Make the error for data without a column that a model needs."""
    kind = format_kind(format)
    if format == "conll":
        names = ",".join([*needed, "label"])
        cause = f"If the file has it, name the columns in their order, such as --columns {names}."
    elif kind.cuts or "columns" not in kind.__dataclass_fields__:
        cause = f"{format} has tokens only. Use a format with more columns, such as --format jsonl, csv or conll."
    else:
        cause = f"Add {missing!r} to the data, a string per token; or train a model that uses {there[0]!r} only."
    return FileError(
        f"the model needs the column {missing!r}",
        got=f"{', '.join(there)} (read as {format})",
        wanted=", ".join(needed),
        cause=cause,
        where=where,
        argument=Argument("columns"),
    )


def plain_path(path: str | os.PathLike[str] | None) -> str | None:
    """A path as a string; None for standard output."""
    if path is None or path == "-":
        return None
    if not isinstance(path, (str, os.PathLike)) or "\0" in (name := os.fspath(path)):
        raise FileError("not a path", got=shown(path), wanted="a path, or None for standard output")
    return name
