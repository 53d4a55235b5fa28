"""How commands read labelled sequences: their options, and what a model records about them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from bridle.cli.bars import Bar, on_terminal, progress_bar
from bridle.cli.base import look_at_it, warn
from bridle.cli.options import FORMATS, HoldOut
from bridle.data import Example, Examples, read
from bridle.data.base import format_named
from bridle.errors import FileError, ModelFileError, RuleError, shown
from bridle.labels import Labels, Scheme, scheme_of
from bridle.models import Tagger
from bridle.rules.base import Rule
from bridle.rules.files import Line
from bridle.rules.loading import Loaded, read_files
from bridle.rules.unknown import unknown_labels, without_unknown

TheFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        autocompletion=FORMATS,
        help="Format of the data: conll, jsonl, csv, text, doccano, labelstudio, ... "
        "Default: by the suffix or the first lines.",
    ),
]
TheColumns = Annotated[
    str | None, typer.Option("--columns", metavar="A,B,...", help="Names of the columns, in order; _ skips one.")
]
TheLabel = Annotated[
    str | None, typer.Option("--label", metavar="NAME", help="Name or number of the column with the labels.")
]
TheOptions = Annotated[
    list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="Option of the format; can be repeated.")
]

# Formats whose markup is the labels: data to be tagged is plain text.
_MARKUP = {"tagged", "parserator", "segments"}
_GAPS = "sequences with missing labels"
_MOST_TOLD = 5  # unknown labels, besides the first
# Options whose value is a list of names, separated by commas.
_LISTS = {"columns", "names"}
# Options whose value is text, even if it looks like a number.
_TEXTS = {"missing"}


@dataclass(frozen=True)
class Reader:
    """A format and its options."""

    format: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def open(self, path: str) -> Examples:
        """Open a file, or standard input ("-")."""
        return read(path, self.format, **self.options)

    def read_as(self, format: str) -> Reader:
        """The reader for further files, after a file with this format."""
        return replace(self, format=format)

    @property
    def tokens(self) -> str | None:
        """The tokenizer, if the format contains text."""
        made = None if self.format is None else format_named(self.format, {})
        return str(self.options.get("tokens", vars(made)["tokens"])) if made is not None and made.cuts else None

    def notes(self) -> dict[str, Any]:
        """What a model records about its reader."""
        return {"format": self.format, "options": dict(self.options)}

    @classmethod
    def noted(cls, notes: Mapping[str, Any], labels: Literal["there", "missing"] = "there") -> Reader:
        """The reader of the training data of a model; a default one if the model does not record it.

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
        """The same, for data that may lack the column of the labels."""
        named = {"conll": "columns", "conllu": "columns", "parquet": "label", "arrow": "label"}.get(str(self.format))
        if named is None or not self.options.get(named):
            return self
        return replace(self, options={**self.options, "unlabelled": "allow"})

    def settled(self, example: Example) -> Reader:
        """The same with the columns of a file, which other files must then have too."""
        if self.format != "conll" or self.options.get("columns") is not None:
            return self
        names, label = list(example.columns), self.options.get("label", -1)
        if not isinstance(label, int) or example.labels is None:
            return self
        at = label - 1 if label > 0 else len(names) + 1 + label
        return replace(self, options={**self.options, "columns": [*names[:at], "label", *names[at:]], "label": "label"})


def reader_of(
    format: str | None, columns: str | None, label: str | None, options: list[str] | None, before: Reader | None = None
) -> Reader:
    """The reader that the options ask for; other settings are those of `before`."""
    asked: dict[str, Any] = {}
    if columns is not None:
        asked["columns"] = [name.strip() for name in columns.split(",")]
    if label is not None:
        asked["label"] = _value(label)
    if options:
        asked |= settings_of_format(options, "--option")
    other = before is None or (format is not None and format != before.format)
    found = Reader(format, asked) if before is None or other else Reader(before.format, {**before.options, **asked})
    if before is not None and (other or "tokens" in asked) and found.tokens and before.tokens:
        if "tokens" not in asked:
            return Reader(found.format, {**found.options, "tokens": before.tokens})  # as the model knows them
        if found.tokens != before.tokens:
            warn(
                f"tokens={found.tokens} splits text differently from the training data, "
                f"which used tokens={before.tokens}"
            )
    return found


def settings_of_format(options: list[str] | None, called: str) -> dict[str, Any]:
    """Parse options of the form KEY=VALUE."""
    found: dict[str, Any] = {}
    for option in options or []:
        key, is_, value = option.partition("=")
        if not is_:
            raise FileError(
                f"{called} is not of the form KEY=VALUE", got=repr(option), wanted="KEY=VALUE, such as tokens=words"
            )
        key = key.strip()
        if key in _LISTS:
            found[key] = [name.strip() for name in value.split(",")]
        else:
            found[key] = value if key in _TEXTS and value.lower() != "none" else _value(value)
    return found


def _value(text: str) -> str | int | None:
    if text.lower() == "none":
        return None
    return int(text) if text.removeprefix("-").isdigit() else text


def called(path: str) -> str:
    """The name of a file in messages."""
    return "<stdin>" if path == "-" else path


def at_the_keyboard() -> None:
    """Tell the user that the command is reading from the keyboard."""
    if on_terminal(sys.stdin):
        warn("reading from the keyboard; press Ctrl-D to finish")


@contextmanager
def reading(
    reader: Reader, path: str, progress: bool | None, doing: str, out: str | None = ""
) -> Iterator[tuple[Examples, Bar]]:
    """Examples of a file, and the progress bar to update. At the end, reports what was left out."""
    if path == "-":
        at_the_keyboard()
    examples = reader.open(path)
    try:
        with progress_bar(progress, examples, out, doing) as bar:
            yield examples, bar
        for what, count in examples.source.left_out.items():
            warn(f"{path}: left out {count:,} {what}")
        for what, count in examples.source.changed.items():
            warn(f"{path}: changed {count:,} {what}")
    finally:
        examples.close()


def split(examples: Sequence[Example]) -> tuple[list[Any], list[list[Any]], list[dict[str, Any]]]:
    """X, y (None where a label is missing) and given values, as models take them."""
    return [e.columns for e in examples], [list(e.labels or ()) for e in examples], [dict(e.given) for e in examples]


def given_of(example: Example) -> dict[str, Any]:
    """What rules may refer to: the columns of a sequence, its tokens and its given values."""
    return {**example.columns, "tokens": list(example.tokens), **example.given}


def gold_of(examples: Sequence[Example]) -> list[list[str]]:
    """The labels of sequences that `read_all` has read without gaps."""
    return [example.known_labels for example in examples]


def labels_in(gold: Iterable[Iterable[str | None]], scheme: str | None, extra: Iterable[str] = ()) -> Labels:
    """The labels of data, missing ones aside; scheme "auto": the one that they look like."""
    names = sorted({name for name in (*chain.from_iterable(gold), *extra) if name is not None})
    return Labels(names, cast(Scheme | None, scheme_of(names) if scheme == "auto" else scheme))


def rules_of(paths: Sequence[Path] | None, labels: Labels | None, *, lenient: bool = False) -> list[Rule]:
    """The rules of all files. One error lists all unknown labels with their lines.

    labels: None if they are not known yet, but other mistakes should be reported before the data is read.
    lenient: leave out rules about unknown labels, with a warning; the command then ends with exit code 1.
    """
    return [line.rule for line in known_lines(read_files(paths or ()), labels, lenient=lenient)]


def rules_for(paths: Sequence[Path] | None, model: Tagger, *, lenient: bool = False) -> list[Rule]:
    """The rules of all files for a model; a warning if some were priced for another one."""
    loaded = read_files(paths or ())
    rules = [line.rule for line in known_lines(loaded, model.labels_, lenient=lenient)]
    for file, other in loaded.priced_for.items():
        if other != model.fingerprint_:
            warn(
                f"the penalties in {file} were learned for another model ({other}; this one is {model.fingerprint_}); "
                "learn them again with bridle learn or bridle rules tune"
            )
    return rules


def known_lines(loaded: Loaded, labels: Labels | None, *, lenient: bool = False) -> list[Line]:
    """The rules that were read. Rules about unknown labels are an error or, if lenient, left out."""
    lines = loaded.check()
    if labels is None:
        return lines
    for file, number, text in loaded.again:
        warn(f"{file}:{number}: {text}" if number else f"{file}: {text}")
    if lenient:
        lines, left_out = without_unknown(lines, labels)
        for line, text in left_out:
            warn(f"{line.where}: {text}")
            look_at_it()
    elif wrong := unknown_labels(lines, labels):
        first = {one.name: one for one in reversed(wrong)}  # a name is told once, the advice in any case
        others = [f"{one.line.where}: {one.message}" for name, one in reversed(first.items()) if name != wrong[0].name]
        more = [f"and {len(others) - _MOST_TOLD} more labels"] if len(others) > _MOST_TOLD else []
        advice = "Are these rules for other data, or other labels? --lenient leaves them out."
        cause = "\n".join([*others[:_MOST_TOLD], *more, advice])
        raise RuleError(wrong[0].message, cause=cause, where=wrong[0].line.where)
    return lines


def tell_unknown(gold: Iterable[str | None], known: Labels) -> None:
    """Warn about gold labels that the model does not have."""
    if strange := sorted({name for name in gold if name is not None}.difference(known)):
        more = f" and {len(strange) - 10} more" if len(strange) > 10 else ""
        told = ", ".join(strange[:10]) + more
        warn(f"the data has labels that the model does not know: {told}")


def groups_of(examples: Sequence[Example], hold_out: HoldOut) -> list[str] | None:
    """What is held out together: the sequences of a file; None: each sequence separately."""
    if hold_out is HoldOut.SEQUENCES:
        return None
    files = [example.where.rpartition(":")[0] or example.where for example in examples]
    if len(set(files)) < 2:
        raise FileError(
            "--hold-out files needs two or more files", got="--hold-out files", wanted="two or more files of DATA"
        )
    return files


def read_all(
    reader: Reader,
    paths: list[str],
    progress: bool | None,
    gaps: Literal["leave out", "keep"] = "leave out",
    names: set[str | None] | None = None,
) -> tuple[list[Example], Reader]:
    """All labelled sequences of some files, and the reader with their format.

    gaps: whether to leave out (and count) or to keep sequences with missing labels.
    names: gets the labels of all sequences, including those that are left out.
    """
    found: list[Example] = []
    left_out = Counter[str]()
    for path in paths:
        with reading(reader, path, progress, f"reading {Path(path).name}") as (examples, bar):
            reader = reader.read_as(examples.format)
            for k, example in enumerate(examples.labelled()):
                if names is not None:
                    names.update(example.labels or ())
                if gaps == "keep" or None not in (example.labels or ()):
                    found.append(example)
                else:
                    examples.source.leave_out(_GAPS)
                if k % 1000 == 0:
                    bar()
            left_out.update(examples.left_out)
    if not found:
        files = ", ".join(map(called, paths))
        got = ", ".join(f"{count:,} {what}" for what, count in left_out.items()) or "nothing"
        raise FileError("there are no sequences", got=got, wanted="labelled sequences", where=files)
    if left_out[_GAPS] > len(found):
        warn(
            f"{left_out[_GAPS]:,} of {left_out[_GAPS] + len(found):,} sequences have missing labels, and only "
            f"the other {len(found):,} are used; pass --option missing=none if ? is a label like others"
        )
    return found, reader.settled(found[0])
