"""Readers: a format and its options; for a model, those of its training data unless a file shows another format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from bridle.data.base import Format, format_kind, lacks_column
from bridle.data.conll import NAMES
from bridle.data.detection import Guess
from bridle.data.examples import Example, Examples
from bridle.data.files import opened, opened_chosen, read, read_chosen
from bridle.data.source import Source
from bridle.data.standoff import Standoff
from bridle.data.tokenizer import tokens_noted
from bridle.errors import FileError, ModelFileError, shown
from bridle.tagging.labelling import ModelColumns

if TYPE_CHECKING:
    from bridle.models import Tagger

_MARKUP = {"tagged", "parserator", "segments"}  # formats whose markup is the labels: data to be tagged is plain text


@dataclass(frozen=True)
class Reader:
    """A format and its options."""

    format: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def open(self, path: str) -> Examples:
        """Open a file, or standard input ("-")."""
        return read(path, self.format, **self.options)

    def read_as(self, format: str) -> Reader:
        """Return the reader for further files, after a file with this format."""
        return replace(self, format=format)

    @property
    def tokens(self) -> str | None:
        """The tokenizer, if the format contains text."""
        kind: Any = None if self.format is None else format_kind(self.format)
        return str(self.options.get("tokens", kind.tokens)) if kind is not None and kind.cuts else None

    def notes(self) -> dict[str, Any]:
        """Return the facts that a model records about its reader."""
        options = {name: value for name, value in self.options.items() if name != "groups"}  # other data may have none
        return {"format": self.format, "options": options}

    @classmethod
    def noted(cls, notes: Mapping[str, Any], labels: Literal["there", "missing"] = "there") -> Reader:
        """Return the reader of the training data of a model; a default one if the model does not record it.

        labels="missing": the reader for data without labels.
        """
        kept = notes.get("reader", {})
        fits = isinstance(kept, dict) and set(kept) <= {"format", "options"}
        if not fits or not isinstance(kept.get("options", {}), dict):
            raise ModelFileError("the model does not record how to read its data", got=shown(kept), wanted="a reader")
        format, options = kept.get("format"), dict(kept.get("options", {}))
        if labels == "missing" and format in _MARKUP:
            return cls("text", {"tokens": options.get("tokens", "blanks")})
        return cls(format, options).unlabelled() if labels == "missing" else cls(format, options)

    def unlabelled(self) -> Reader:
        """Return the reader for data that may lack the column of the labels."""
        named = {"conll": "columns", "conllu": "columns", "parquet": "label", "arrow": "label"}.get(str(self.format))
        if named is None or not self.options.get(named):
            return self
        return replace(self, options={**self.options, "unlabelled": "allow"})

    def settled(self, example: Example) -> Reader:
        """Return the reader with the columns of a file, which other files must then have too."""
        if self.format != "conll" or self.options.get("columns") is not None:
            return self
        names, label = list(example.columns), self.options.get("label", -1)
        if not isinstance(label, int) or example.labels is None:
            return self
        at = label - 1 if label > 0 else len(names) + 1 + label
        return replace(self, options={**self.options, "columns": [*names[:at], "label", *names[at:]], "label": "label"})

    def with_tokens_of(self, other: Reader) -> Reader:
        """Return the reader with the tokenizer of another one, if the formats of both contain text."""
        if not self.tokens or not other.tokens:
            return self
        return Reader(self.format, {**self.options, "tokens": other.tokens})


def options_of(model: Tagger, format: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with which another format gives the labels and tokens of a model.

    A text with spans is split as the training data was, and its labels get the scheme of the model. options: those of
    the training data.
    """
    known = {"map": options["map"]} if options.get("map") else {}
    if not issubclass(format_kind(format), Standoff):
        return known
    vocabulary = getattr(model.features_, "vocabulary", None)
    tokens = None if vocabulary is None else tokens_noted(model.notes_, vocabulary)
    return {**known, "scheme": model.labels_.scheme or "IO", **({} if tokens is None else {"tokens": tokens})}


@dataclass(frozen=True, kw_only=True)
class ModelReader(Reader):
    """Reads data for a model: in the format of its training data, unless a file clearly has another one.

    The first column gets the name that the tokens had in training.
    """

    asked: Reader  # the settings that the user asks for; its format takes precedence
    model: Tagger
    labels: Literal["there", "missing"] = "there"  # "missing": they may be
    warn_split: Callable[[str], None] = field(compare=False)  # gets the tokenizer if the training data has none
    cuts: list[str] = field(default_factory=list, compare=False)  # tokenizers that were reported

    def open(self, path: str) -> Examples:
        """Open a file. Its columns are checked with the first sequence."""
        if self.asked.format is not None:
            examples = read(path, self.format, **self.options)
        else:
            examples = read_chosen(path, self._chosen, self.format)
        examples.items = self._fitted(examples.items, examples.format)
        return examples

    def opened(self, path: str) -> tuple[Source, Format]:
        """Open a file, to be read in blocks."""
        if self.asked.format is not None:
            return opened(path, self.format, self.options)
        return opened_chosen(path, self._chosen, self.format)

    def read_as(self, format: str) -> Reader:
        """Return the reader for further files, after a file with this format."""
        return self

    def _chosen(self, guess: Guess) -> tuple[str, dict[str, Any]]:
        """Return the format of a file, and its options.

        Warns once if text is split into tokens in a way that the training data does not determine.
        """
        if self.format is None and guess.format is None and guess.error is not None:
            raise guess.error
        reader: Reader = self
        if guess.format not in (None, self.format) and (self.format is None or self._is_other(guess)):
            cut = Reader(guess.format).with_tokens_of(Reader(self.format, self.options)).options
            known = options_of(self.model, str(guess.format), self.options)
            reader = Reader(guess.format, {**cut, **known, **self.asked.options})
            reader = reader.unlabelled() if self.labels == "missing" else reader
            how = reader.tokens
            if how is not None and self.tokens is None and "tokens" not in self.asked.options and how not in self.cuts:
                self.cuts.append(how)
                self.warn_split(how)
        return str(reader.format), reader.options

    def _is_other(self, guess: Guess) -> bool:
        """Return True if a file clearly has another format than the training data."""
        if not guess.sure or guess.format is None or self.format is None:
            return False
        if issubclass(format_kind(guess.format), format_kind(self.format)):  # CoNLL-U is CoNLL too
            ten = len(self.options.get("columns") or NAMES) in (len(NAMES), len(NAMES) + 1)  # with names of one's own
            return guess.format == "conllu" and not ten
        bare = guess.format == "spans" and '"spans"' not in guess.first_line  # a text, which other formats have too
        return not (bare and issubclass(format_kind(self.format), Standoff))

    def _fitted(self, examples: Iterator[Example], format: str) -> Iterator[Example]:
        """Yield the sequences with the names that the model has for their columns."""
        try:
            first = next(examples, None)
        except FileError as error:
            raise self.doubted(error, format) from None
        if first is None:
            return
        columns = ModelColumns.of(self.model)
        names = columns.renamed(list(first.columns))
        if missing := [name for name in columns.needed if name not in names]:
            raise lacks_column(format, missing[0], names, columns.needed, first.where)
        everything = chain([first], examples)
        if names == list(first.columns):
            yield from everything
            return
        for example in everything:
            yield replace(example, columns={names[0]: example.tokens, **dict(list(example.columns.items())[1:])})

    def doubted(self, error: FileError, format: str) -> FileError:
        """Return an error of the first sequence of a file with advice, if the format of the file was detected."""
        if self.asked.format is None and (error.argument is None or error.argument.name not in ("format", "columns")):
            advice = f"It was read as {format}; if it is not, pass --format text, --format conll, ..."
            error.cause = advice if error.cause is None else f"{error.cause} {advice}"
        return error
