"""Read data of any format for a model: detect the format of a file, and check that it has the columns of the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal

from bridle.cli.base import warn
from bridle.cli.reading import Reader, reader_of
from bridle.data import Example, Examples, read
from bridle.data.base import format_kind
from bridle.data.conllu import NAMES
from bridle.data.files import Guess, read_chosen
from bridle.data.standoff import Standoff
from bridle.errors import Argument, FileError
from bridle.models import Tagger


@dataclass(frozen=True, kw_only=True)
class ModelReader(Reader):
    """Reads data for a model: in the format of its training data, unless a file clearly has another one.

    The first column gets the name that the tokens had in training.
    """

    asked: Reader  # what the command line asks for; its format takes precedence
    needed: tuple[str, ...] = ()  # columns that the templates of the model use
    main: str = "word"  # the column of the tokens, in training
    labels: Literal["there", "missing"] = "there"  # "missing": they may be
    cuts: list[str] = field(default_factory=list, compare=False)  # tokenizers that were reported

    def open(self, path: str) -> Examples:
        """Open a file. Its columns are checked with the first sequence."""
        if self.asked.format is not None:
            examples = read(path, self.format, **self.options)
        else:
            examples = read_chosen(path, self._told, self.format)
        examples.items = self._fitted(examples.items, examples.format)
        return examples

    def settled_on(self, path: str) -> Reader:
        """The format and the options for a file; standard input cannot be read twice."""
        if path == "-" or self.asked.format is not None:
            return self
        found = list[Reader]()

        def note(guess: Guess) -> tuple[str, dict[str, Any]]:
            found.append(Reader(*self._chosen(guess)))
            return "text", {}  # nothing is read

        read_chosen(path, note, self.format).close()
        return found[0]

    def read_as(self, format: str) -> Reader:
        """The format of each file is detected separately."""
        return self

    def _chosen(self, guess: Guess) -> tuple[str, dict[str, Any]]:
        """The format of a file, and its options."""
        if self.format is None and guess.format is None and guess.error is not None:
            raise guess.error
        if guess.format is None or (self.format is not None and not self._is_other(guess)):
            return str(self.format), self.options
        cut = reader_of(guess.format, None, None, None, Reader(self.format, self.options)).options
        made = Reader(guess.format, {**cut, **self.asked.options})
        return guess.format, (made.unlabelled() if self.labels == "missing" else made).options

    def _is_other(self, guess: Guess) -> bool:
        """Does a file clearly have another format than the training data?"""
        if not guess.sure or guess.format is None or self.format is None or guess.format == self.format:
            return False
        if issubclass(format_kind(guess.format), format_kind(self.format)):  # CoNLL-U is CoNLL too
            ten = len(self.options.get("columns") or NAMES) in (len(NAMES), len(NAMES) + 1)  # with names of one's own
            return guess.format == "conllu" and not ten
        bare = guess.format == "spans" and '"spans"' not in guess.first_line  # a text, which other formats have too
        return not (bare and issubclass(format_kind(self.format), Standoff))

    def _told(self, guess: Guess) -> tuple[str, dict[str, Any]]:
        """The same. Warns once if text is split into tokens in a way that the training data does not determine."""
        format, options = self._chosen(guess)
        how = Reader(format, options).tokens
        if how is not None and self.tokens is None and "tokens" not in self.asked.options and how not in self.cuts:
            self.cuts.append(how)
            warn(f"text is split at {how}; pass --option tokens=NAME if the training data was split in another way")
        return format, options

    def _fitted(self, examples: Iterator[Example], format: str) -> Iterator[Example]:
        """The same sequences, with the columns that the model needs."""
        try:
            first = next(examples, None)
        except FileError as error:
            if self.asked.format is None and (error.argument is None or error.argument.name != "format"):
                told = f"It was read as {format}; if it is not, pass --format text, --format conll, ..."
                error.cause = told if error.cause is None else f"{error.cause} {told}"
            raise
        if first is None:
            return
        own = next(iter(first.columns))
        renamed = own not in self.needed and self.main in self.needed and self.main not in first.columns
        found = [self.main if renamed else own, *list(first.columns)[1:]]
        if missing := [name for name in self.needed if name not in found]:
            raise self._lacking(first, missing[0], found, format)
        everything = chain([first], examples)
        if not renamed:
            yield from everything
            return
        for example in everything:
            columns = {self.main: example.tokens, **dict(list(example.columns.items())[1:])}
            yield replace(example, columns=columns)

    def _lacking(self, example: Example, missing: str, found: list[str], format: str) -> FileError:
        """The error for data without a column that the model needs."""
        kind = format_kind(format)
        names = ",".join([*self.needed, "label"])
        if format == "conll":
            cause = f"If the file has it, name the columns in their order, such as --columns {names}."
        elif kind.cuts or "columns" not in kind.__dataclass_fields__:
            cause = f"{format} has tokens only. Use a format with more columns, such as --format jsonl, csv or conll."
        else:
            cause = f"Add {missing!r} to the data, a string per token; or train a model that uses {found[0]!r} only."
        return example.error(
            f"the model needs the column {missing!r}",
            got=f"{', '.join(found)} (read as {format})",
            wanted=", ".join(self.needed),
            cause=cause,
            argument=Argument("columns"),
        )


def model_reader(
    tagger: Tagger,
    format: str | None,
    columns: str | None,
    label: str | None,
    options: list[str] | None,
    labels: Literal["there", "missing"] = "there",
) -> ModelReader:
    """How to read data for a model: as the options say, and otherwise in the same way as the training data.

    labels="missing": the data may have no labels.
    """
    before = Reader.noted(tagger.notes_, labels)
    made = reader_of(format, columns, label, options, before)
    made = made.unlabelled() if labels == "missing" else made
    needed = tuple(getattr(tagger.features_, "sources", ()))
    known = tagger.notes_.get("columns")
    listed = [name for name in known if isinstance(name, str)] if isinstance(known, list) else []
    main = listed[0] if listed else needed[0] if needed else "word"
    asked = Reader(format, reader_of(None, columns, label, options).options)
    return ModelReader(made.format, made.options, asked=asked, needed=needed, main=main, labels=labels)
