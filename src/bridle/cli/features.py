"""`bridle features`: list template functions and ready-made sets, and show the features of tokens."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridle.cli import options as opt
from bridle.cli.base import Command, app, json_line, show, show_data, warn
from bridle.cli.reading import make_reader, text_example
from bridle.errors import FileError
from bridle.features import FEATURE_SETS, FUNCTIONS, FeatureSet, Function, choose_features, token_features
from bridle.features.sets import MOST
from bridle.features.templates import nearest

if TYPE_CHECKING:
    from bridle.data import Example
    from bridle.data.reader import Reader
    from bridle.features import Templates

_WIDTH = 100  # of printed text that can be wrapped
_HOW = """A template is a line such as these. Pass a file of templates to bridle train --features FILE:

  word[0]             the token itself
  word[-1] word[0]    the previous token and the token itself, together
  suffix3[0]          a function of the token's text
  lemma.suffix3[0]    the same function of another column
  label[-1]           the label depends on the previous label
"""


@app.command(cls=Command)
def features(
    what: Annotated[
        str | None, typer.Argument(metavar="SET|DATA", help="Ready-made feature set to print, or file with sequences.")
    ] = None,
    text: Annotated[str | None, opt.option("--text TEXT", "Show the features of this text.")] = None,
    asked: Annotated[
        str | None,
        opt.option(
            "--features NAME",
            "Feature set or template file. Default: auto for DATA, ner for --text.",
            autocompletion=opt.COMPLETE_FEATURES,
        ),
    ] = None,
    sequence: Annotated[int, opt.option("--sequence N", "Show sequence number N of DATA, counted from 0.", min=0)] = 0,
    format: opt.FormatOption = None,
    columns: opt.ColumnsOption = None,
    label: opt.LabelOption = None,
    option: opt.FormatOptions = None,
    as_json: opt.JsonOption = False,
) -> None:
    """List feature functions, print a ready-made feature set, or show the features of a text.

    \b
    Examples:
      bridle features
      bridle features ner > my.templates                    (edit it, then run bridle train --features my.templates)
      bridle features --text "Dr. Smith lives in Paris."
      bridle features train.txt --columns word,pos,chunk --features chunking --sequence 3

    \b
    Exit codes:
      0    success
      2    bad input or bad usage
    """
    if text is not None and what is not None:
        raise FileError("SET|DATA and --text cannot be combined", got="both", wanted="one of them")
    if text is None and what is None:
        _overview(as_json)
    elif what in FEATURE_SETS and asked is None:
        _set(FEATURE_SETS[what], as_json)
    else:
        reader = make_reader(format, columns, label, option)
        example, templates = _of_text(text, asked, reader) if what is None else _of_data(what, asked, sequence, reader)
        _tokens(example, templates, as_json)


def _overview(as_json: bool) -> None:
    """Print all functions and sets."""
    if as_json:
        functions = [
            {"name": f.name, "about": f.about, "of": f.of, "tokens": list(f.tokens), "values": list(f.values)}
            for f in FUNCTIONS.values()
        ]
        typer.echo(json_line({"functions": functions, "sets": list(map(_as_dict, FEATURE_SETS.values()))}))
        return
    show([*_HOW.splitlines(), "", "Functions:", ""])
    show(_aligned([(f.name, _example(f), f.about) for f in FUNCTIONS.values()]))
    show(["", "Ready-made sets (bridle features NAME prints one):", ""])
    auto = ("auto", "one of these, chosen by the labels and columns of the training data (the default)")
    show(_aligned([*((feature_set.name, feature_set.about) for feature_set in FEATURE_SETS.values()), auto]))


def _example(function: Function) -> str:
    """Input and output of a function."""
    return f"{' '.join(function.tokens)} -> {' '.join(value or '-' for value in function.values)}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells, in columns."""
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    cells = [[*(f"{cell:{w}}" for cell, w in zip(row, widths, strict=False)), row[-1]] for row in rows]
    return ["  " + "  ".join(row) for row in cells]


def _as_dict(feature_set: FeatureSet) -> dict[str, Any]:
    return {"name": feature_set.name, "about": feature_set.about, "templates": feature_set.templates.splitlines()}


def _set(feature_set: FeatureSet, as_json: bool) -> None:
    """Print a set as a file of templates."""
    if as_json:
        typer.echo(json_line(_as_dict(feature_set)))
    else:
        show_data(f"# {feature_set.name}: {feature_set.about}\n{feature_set.templates}")


def _of_text(text: str | None, features: str | None, reader: Reader) -> tuple[Example, Templates]:
    """Return a text as a sequence, and the templates to use."""
    example = text_example(text or "", reader)
    if features == "auto":
        raise FileError("--features auto needs labelled sequences", got="--text", wanted="--features SET")
    return example, _templates(features or ("characters" if "char" in example.columns else "ner"), example)


def _of_data(path: str, features: str | None, number: int, reader: Reader) -> tuple[Example, Templates]:
    """Return a sequence of a file, and the templates to use."""
    if path != "-" and not Path(path).exists() and path.isidentifier():
        near = nearest(path, FEATURE_SETS)
        raise FileError(
            "neither a feature set nor a file has this name",
            got=repr(path),
            wanted=f"a file, or one of {', '.join(FEATURE_SETS)}",
            cause=f"Did you mean {near!r}?" if near else None,
        )
    auto = features in (None, "auto")
    with reader.open(path) as every:
        examples = list(islice(every, max(MOST, number + 1) if auto else number + 1))
    if number >= len(examples):
        wanted = f"--sequence 0 to {len(examples) - 1}" if examples else "at least one"
        raise FileError("the sequence does not exist", got=f"--sequence {number}", wanted=wanted, where=path)
    if not auto:
        return examples[number], _templates(str(features), examples[number])
    if not all(example.labels for example in examples):
        what, wanted = "--features auto needs labelled sequences", "labelled sequences, or --features SET"
        raise FileError(what, got="sequences without labels", wanted=wanted, where=path)
    chosen = choose_features([example.columns for example in examples], [example.labels or () for example in examples])
    warn(f"features: {chosen}")
    return examples[number], _templates("\n".join(chosen.templates), examples[number])


def _templates(features: str, example: Example) -> Templates:
    from bridle.cli.training_run import load_templates  # it brings models along

    return load_templates(features, list(example.columns))


def _tokens(example: Example, templates: Templates, as_json: bool) -> None:
    """Print the features of each token."""
    features = token_features(templates, example.columns)
    tokens = list(map(str, example.tokens))
    if as_json:
        typer.echo(json_line({"tokens": tokens, "features": features, "templates": str(templates).splitlines()}))
        return
    for token, names in zip(tokens, features, strict=True):
        filled = textwrap.fill("  ".join(names), _WIDTH, initial_indent="  ", subsequent_indent="  ")
        show([token, *filled.splitlines()])
