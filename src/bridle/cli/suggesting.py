"""`bridle suggest`: choose the sequences to label next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import bridle
from bridle.cli import options as opt
from bridle.cli.base import Command, app, json_line, refuse_overwrite, show, warn
from bridle.cli.reading import load_model_rules, make_model_reader, model_inputs, read_unlabelled
from bridle.cli.tagging import output_format
from bridle.data import Example
from bridle.data.base import format_named
from bridle.learn import Suggested
from bridle.learn import suggest as choose
from bridle.models import Tagger
from bridle.report.text import aligned, counted, cut
from bridle.rules.base import Rule

_WIDEST = 60  # characters of a column


@app.command(cls=Command)
def suggest(
    model: opt.ModelArgument,
    data: Annotated[
        list[str],
        typer.Argument(metavar="UNLABELLED", help="Files with sequences; - reads stdin.", show_default=False),
    ],
    rules: Annotated[
        list[Path] | None,
        opt.option("--rules FILE", "Rules that you use with the model; what they decide is certain. Can be repeated."),
    ] = None,
    lenient: opt.LenientOption = False,
    n: Annotated[int, opt.option("-n N", "Number of sequences to suggest.", min=1)] = 20,
    out: Annotated[
        str | None,
        opt.option("-o, --out FILE", "Also write the sequences, most useful first, with predicted labels to correct."),
    ] = None,
    to: Annotated[
        str | None,
        opt.option(
            "--to NAME",
            "Format of FILE. Default: by its suffix, or that of the input.",
            autocompletion=opt.COMPLETE_FORMATS,
        ),
    ] = None,
    format: opt.FormatOption = None,
    columns: opt.ColumnsOption = None,
    label: opt.LabelOption = None,
    option: opt.FormatOptions = None,
    threads: opt.ThreadsOption = 0,
    as_json: opt.JsonOption = False,
    progress: opt.ProgressOption = None,
) -> None:
    """Choose the sequences to label next.

    Their labels would teach the model most: they have many tokens whose labels are uncertain under the rules, of words
    that are frequent in the data and that the other suggested sequences lack. Label them, add them to the training
    data, train again, and ask again.

    \b
    Examples:
      bridle suggest m.bridle heap.txt --rules my.rules
      bridle suggest m.bridle heap.txt --rules my.rules -n 10 -o next.txt
      bridle suggest m.bridle texts.jsonl -n 50 -o tasks.json --to labelstudio

    \b
    The columns are: the place of the sequence; the sum of the entropies of its labels in nats; the tokens whose labels
    would teach most; and the rules that the labels of the model alone break. Labels in UNLABELLED are ignored.

    \b
    Exit codes:
      0    success
      2    bad input or bad usage
      130  stopped by Ctrl-C
    """
    refuse_overwrite(out, model, *data, *(rules or ()))
    tagger = bridle.load(model)
    loaded = load_model_rules(rules, tagger, lenient=lenient)
    reader = make_model_reader(tagger, format, columns, label, option, "missing")
    examples, name = read_unlabelled(reader, data, progress)
    X, _, given = model_inputs(examples)
    suggested = choose(tagger, X, n, loaded, given=given, threads=threads)
    if out is not None:
        first = format_named(name, reader.options if name == reader.format else {})
        shape = output_format(tagger, lambda: first, to, out, None, scores=False)
        shape.save(None if out == "-" else out, map(shape.without_gaps, _labelled(tagger, loaded, examples, suggested)))
    if as_json:
        typer.echo(json_line({"suggested": [_record(s, examples[s.index]) for s in suggested]}))
    elif out != "-":
        show(_table(suggested, examples))
    if out not in (None, "-"):
        warn(f"wrote {counted(len(suggested), 'sequence')} with predicted labels to {out}")


def _labelled(
    tagger: Tagger, rules: Sequence[Rule], examples: Sequence[Example], suggested: Sequence[Suggested]
) -> Iterator[Example]:
    chosen = [examples[s.index] for s in suggested]
    X, _, given = model_inputs(chosen)
    labels = tagger.predict(X, rules, given=given, on_infeasible="relax")
    return (replace(example, labels=its) for example, its in zip(chosen, labels, strict=True))


def _record(suggested: Suggested, example: Example) -> dict[str, Any]:
    return {
        "index": suggested.index,
        "id": example.id,
        "where": example.where,
        "uncertainty": suggested.uncertainty,
        "words": [{"at": at, "token": example.tokens[at]} for at in suggested.words],
        "conflicts": [str(rule) for rule in suggested.conflicts],
    }


def _table(suggested: Sequence[Suggested], examples: Sequence[Example]) -> list[str]:
    rows = [["where", "uncertain", "words", "rules in conflict"]]
    for s in suggested:
        example = examples[s.index]
        words = cut(" ".join(example.tokens[at] for at in s.words), _WIDEST)
        conflicts = cut("; ".join(map(str, s.conflicts)), _WIDEST)
        rows.append([example.where or str(s.index), f"{s.uncertainty:.1f}", words, conflicts])
    return aligned(rows, left=(0, 2, 3))
