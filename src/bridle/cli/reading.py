"""How commands read labelled sequences: options, and what a model remembers of them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from bridle.cli.bars import Bar, on_terminal, progress_bar
from bridle.cli.base import warn
from bridle.cli.options import FORMATS, HoldOut
from bridle.data import Example, Examples, read
from bridle.data.base import format_named
from bridle.errors import FileError, ModelFileError, RuleError, shown
from bridle.labels import Labels, Scheme, scheme_of
from bridle.models import Tagger
from bridle.rules.base import Rule
from bridle.rules.files import Line, load_lines, load_priced
from bridle.rules.lint import unknown_labels

TheFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        autocompletion=FORMATS,
        help="conll, jsonl, csv, text, doccano, labelstudio, ...; default: by suffix or look.",
    ),
]
TheColumns = Annotated[
    str | None, typer.Option("--columns", metavar="A,B,...", help="Names of the columns, in order; _ passes one over.")
]
TheLabel = Annotated[
    str | None, typer.Option("--label", metavar="NAME", help="The column of the labels, or its number.")
]
TheOptions = Annotated[
    list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="Another option of the format; repeatable.")
]

# Formats whose markup is the labels: what is to be tagged comes as plain text.
_MARKUP = {"tagged", "parserator", "segments"}
# Options whose value is a list of names, with commas between.
_LISTS = {"columns", "names"}


@dataclass(frozen=True)
class Reader:
    """A format and its options."""

    format: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def open(self, path: str) -> Examples:
        """Open a file, or standard input ("-")."""
        return read(path, self.format, **self.options)

    @property
    def tokens(self) -> str | None:
        """How text is cut into tokens, if the format does so."""
        made = None if self.format is None else format_named(self.format, {})
        return str(self.options.get("tokens", vars(made)["tokens"])) if made is not None and made.cuts else None

    def notes(self) -> dict[str, Any]:
        """What a model keeps of it."""
        return asdict(self)

    @classmethod
    def noted(cls, notes: Mapping[str, Any], labels: Literal["there", "missing"] = "there") -> Reader:
        """How the training data of a model was read; a guess if it does not say.

        labels="missing": how to read what has no labels yet.
        """
        kept = notes.get("reader", {})
        fits = isinstance(kept, dict) and set(kept) <= {"format", "options"}
        if not fits or not isinstance(kept.get("options", {}), dict):
            raise ModelFileError("the model does not say how its data was read", got=shown(kept), wanted="a reader")
        format, options = kept.get("format"), dict(kept.get("options", {}))
        if labels == "missing" and format in _MARKUP:
            return cls("text", {"tokens": options.get("tokens", "blanks")})
        if labels == "missing" and format in ("conll", "conllu") and options.get("columns"):
            options["unlabelled"] = "allow"
        if labels == "missing" and format in ("parquet", "arrow") and options.get("label"):
            options["unlabelled"] = "allow"
        return cls(format, options)

    def settled(self, example: Example) -> Reader:
        """With the columns that a file turned out to have, so that other files must have them too."""
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
    """The reader that the options ask for; what they leave open is as `before`."""
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
            warn(f"tokens={found.tokens} cuts text otherwise than the training data was cut: tokens={before.tokens}")
    return found


def settings_of_format(options: list[str] | None, called: str) -> dict[str, Any]:
    """What KEY=VALUE says, each time."""
    found: dict[str, Any] = {}
    for option in options or []:
        key, is_, value = option.partition("=")
        if not is_:
            raise FileError(f"{called} is no setting", got=repr(option), wanted="KEY=VALUE, such as tokens=words")
        key = key.strip()
        found[key] = [name.strip() for name in value.split(",")] if key in _LISTS else _value(value)
    return found


def _value(text: str) -> str | int | None:
    if text.lower() == "none":
        return None
    return int(text) if text.removeprefix("-").isdigit() else text


def called(path: str) -> str:
    """What messages call a file."""
    return "<stdin>" if path == "-" else path


def at_the_keyboard() -> None:
    """Say that something is waited for on standard input, lest people wait too."""
    if on_terminal(sys.stdin):
        warn("reading what you type; end it with Ctrl-D")


@contextmanager
def reading(
    reader: Reader, path: str, progress: bool | None, doing: str, out: str | None = ""
) -> Iterator[tuple[Examples, Bar]]:
    """Examples of a file, and the bar to move while they are read. What was left out is told."""
    if path == "-":
        at_the_keyboard()
    examples = read(path, reader.format, **reader.options)
    try:
        with progress_bar(progress, examples, out, doing) as bar:
            yield examples, bar
        for what, count in examples.source.left_out.items():
            warn(f"{path}: left out {count:,} {what}")
        for what, count in examples.source.changed.items():
            warn(f"{path}: changed {count:,} {what}")
    finally:
        examples.close()


def split(examples: Sequence[Example]) -> tuple[list[Any], list[list[str]], list[dict[str, Any]]]:
    """X, y and what is given, as models take them."""
    return [e.columns for e in examples], [list(e.labels or ()) for e in examples], [dict(e.given) for e in examples]


def labels_in(gold: Iterable[Iterable[str]], scheme: str | None, extra: Iterable[str] = ()) -> Labels:
    """The labels of data; scheme "auto": the one that they look like."""
    names = sorted({*chain.from_iterable(gold), *extra})
    return Labels(names, cast(Scheme | None, scheme_of(names) if scheme == "auto" else scheme))


def rules_of(path: Path | None, labels: Labels | None) -> list[Rule]:
    """The rules of a file, if there is one. Names that are no labels are told with their lines, all at once.

    labels: None where they are not known yet, but mistakes of other kinds should be told before the data is read.
    """
    return [] if path is None else _known(load_lines(path), path, labels)


def rules_for(path: Path | None, model: Tagger) -> list[Rule]:
    """The rules of a file for a model; a warning if they were priced for another one."""
    if path is None:
        return []
    lines, other = load_priced(path)
    rules = _known(lines, path, model.labels_)
    if other is not None and other != model.fingerprint_:
        warn(
            f"the penalties in {path} were learned for another model ({other}; this one is {model.fingerprint_}); "
            "learn them anew with bridle learn or bridle rules tune"
        )
    return rules


def _known(lines: list[Line], path: Path, labels: Labels | None) -> list[Rule]:
    """The rules of these lines; unless labels are None, all that they name must be known."""
    wrong = [] if labels is None else unknown_labels(lines, labels)
    if wrong:
        more = [f"{path}:{one.line}: {one.message}" for one in wrong[1:]]
        cause = "\n".join([*more, "Are these rules for other data, or other labels?"])
        raise RuleError(wrong[0].message, cause=cause, where=f"{path}:{wrong[0].line}")
    return [line.rule for line in lines]


def tell_unknown(gold: Iterable[str], known: Labels) -> None:
    """Gold labels that a model can never find."""
    if strange := sorted(set(gold).difference(known)):
        more = f" and {len(strange) - 10} more" if len(strange) > 10 else ""
        told = ", ".join(strange[:10]) + more
        warn(f"gold has labels that the model does not know: {told}")


def groups_of(examples: Sequence[Example], hold_out: HoldOut) -> list[str] | None:
    """What is held out together: the sequences of a file, or None, which is each by itself."""
    if hold_out is HoldOut.SEQUENCES:
        return None
    files = [example.where.rpartition(":")[0] or example.where for example in examples]
    if len(set(files)) < 2:
        raise FileError("there is one file only", got="--hold-out files", wanted="two or more files of DATA")
    return files


def read_all(reader: Reader, paths: list[str], progress: bool | None) -> tuple[list[Example], Reader]:
    """All labelled sequences of some files, and the reader with the format it was."""
    found: list[Example] = []
    left_out = Counter[str]()
    for path in paths:
        with reading(reader, path, progress, f"reading {Path(path).name}") as (examples, bar):
            reader = replace(reader, format=examples.format)
            for k, example in enumerate(examples.labelled()):
                found.append(example)
                if k % 1000 == 0:
                    bar()
            left_out.update(examples.left_out)
    if not found:
        names = ", ".join(map(called, paths))
        got = ", ".join(f"{count:,} {what}" for what, count in left_out.items()) or "nothing"
        raise FileError("there are no sequences", got=got, wanted="labelled sequences", where=names)
    return found, reader.settled(found[0])
