"""`bridle tag`: sequences in, the same with labels out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import bridle
from bridle.cli.base import OnInfeasible, app, ended, keep, on_screen, warn
from bridle.cli.options import (
    TheEngine,
    TheLimit,
    TheMemory,
    TheOut,
    TheProgress,
    TheRules,
    TheThreads,
    bytes_of,
    one_of,
)
from bridle.cli.reading import Reader, TheColumns, TheFormat, TheLabel, TheOptions, reader_of, reading, rules_for
from bridle.cli.stream import Record, Stream, Work, to_json
from bridle.data import Example, Lines, Pace
from bridle.data.base import Format, format_named
from bridle.decoding.decoder import Decoder
from bridle.decoding.problem import MOST_MEMORY
from bridle.errors import FileError, ModelError
from bridle.lattice import Lattice
from bridle.models import Tagger

STREAMED = ("conll", "conllu", "slashed", "segmented", "segments", "tagged")  # formats without a head or a foot
OUTPUTS = one_of(lambda: [*STREAMED, "jsonl"])
_MISSING = "_"  # the label of a token whose sequence has no labelling under the rules


@app.command()
def tag(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="What bridle train made.", show_default=False)],
    data: Annotated[
        list[str] | None, typer.Argument(metavar="DATA", help="Sequences; .gz is fine. Default: -, which is stdin.")
    ] = None,
    rules: TheRules = None,
    format: TheFormat = None,
    columns: TheColumns = None,
    label: TheLabel = None,
    option: TheOptions = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="NAME", autocompletion=OUTPUTS, help="conll, jsonl, slashed, ... Default: by the input."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines: the same as --to jsonl.")] = False,
    k: Annotated[
        int | None, typer.Option("--k", metavar="N", min=1, help="The N best labellings, as JSON lines.")
    ] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="JSON lines with score, bound, and the probability of each token's label.")
    ] = False,
    engine: TheEngine = "auto",
    on_infeasible: Annotated[
        OnInfeasible, typer.Option(help="No labelling obeys the hard rules: stop, break the fewest rules, or go on.")
    ] = OnInfeasible.RELAX,
    time_limit: TheLimit = None,
    max_memory: TheMemory = None,
    threads: TheThreads = 0,
    out: TheOut = None,
    progress: TheProgress = None,
) -> None:
    """Label sequences with a model, under rules if you like.

    The input is read as the training data was (--format, --columns and so on change that); a column of labels may be
    missing. The output has one more column, or is JSON lines with --json, --k or --scores. What is read is written as
    soon as it is labelled, so that files of any size and streams without an end need the same memory.

    \b
    Examples:
      bridle tag chunks.bridle test.txt -o tagged.txt --rules my.rules
      cat refs.txt | bridle tag refs.bridle --json | jq .labels
      bridle tag chunks.bridle test.txt --k 3

    \b
    Exit codes:
      0    fine
      1    done, but some sequences are infeasible (skip), relaxed, or had no labelling in time
      2    bad input, bad usage, or the output cannot be written
      3    a sequence has no labelling under the rules (--on-infeasible raise)
      130  interrupted by Ctrl-C; lines written are whole, -o FILE is left as FILE.part
      141  the reader of the output went away
    """
    keep(out, model, rules, *(data or ()))
    tagger = bridle.load(model)
    reader = reader_of(format, columns, label, option, Reader.noted(tagger.notes_, "missing"))
    obeyed = [] if rules is None else rules_for(rules, tagger)
    memory = MOST_MEMORY if max_memory is None else bytes_of(max_memory)
    decoder = Decoder(
        tagger.labels_, obeyed, engine, time_limit=time_limit, max_memory=memory, on_infeasible=on_infeasible.value
    )
    lines_of_json = as_json or k is not None or scores
    if to is not None and to not in ("jsonl", "json") and lines_of_json:
        raise ModelError("--json, --k and --scores make JSON lines", got=f"--to {to}", wanted="--to jsonl")
    made = None if lines_of_json else _output(to, reader, tagger)
    stream = Stream(decoder, k, "all" if made is None else "labels")
    pace = Pace(sequences=1, most=4096)  # the first answer comes at once
    with Lines(out, warn, on_screen) as lines:
        for path in data or ["-"]:
            with reading(reader, path, progress, "tagging", out) as (examples, bar):
                while some := examples.take(pace.sequences, pace.tokens):  # at most a chunk of them is held
                    begun = time.perf_counter()
                    records, wrong = stream.records(work_of(some, tagger, decoder, threads, stream.tally.sequences))
                    lines.write(_lines(some, records, made, tagger, decoder if scores else None))
                    if wrong is not None:
                        raise wrong
                    bar()
                    pace.took(time.perf_counter() - begun)
    ended(stream.tally)


def work_of(some: list[Example], tagger: Tagger, decoder: Decoder, threads: int, first: int = 0) -> Work:
    """Examples to be scored and decoded. One without a name is called by its number, counted from `first`."""
    xs, givens = [example.columns for example in some], [example.given for example in some]

    def scores(b: int) -> tuple[Lattice, Mapping[str, Any] | None]:
        given = tagger.given([xs[b]], decoder, [givens[b]])
        return tagger.lattice(xs[b]), given[0] if given else None

    return Work(
        [first + b if example.id is None else example.id for b, example in enumerate(some)],
        [example.where for example in some],
        lambda n: tagger.decode(xs[:n], decoder, given=givens[:n], threads=threads),
        scores,
    )


def _output(to: str | None, reader: Reader, tagger: Tagger) -> Format | None:
    """The format of the output; None: JSON lines."""
    name = to or (reader.format if reader.format in ("conll", "slashed", "segmented", "jsonl") else None)
    if name is None:
        name = "segmented" if tagger.labels_.scheme == "BMES" and reader.format == "text" else "conll"
    if name in ("jsonl", "json"):
        return None
    made = format_named(name, {})
    if name not in STREAMED:
        raise FileError("the output cannot have this format", got=name, wanted=", ".join([*STREAMED, "jsonl"]))
    return made


def _lines(
    some: list[Example], records: list[Record], made: Format | None, tagger: Tagger, decoder: Decoder | None
) -> list[str]:
    """The lines of examples with their records, of which an error may have left fewer."""
    if made is None:
        return [_json(example, record, tagger, decoder) for example, record in zip(some, records, strict=False)]
    tagged = []
    for example, record in zip(some, records, strict=False):
        labels = record["labels"] if record["labels"] is not None else [_MISSING] * len(example)
        columns = example.columns
        if made.name == "conll" and example.labels is not None:  # gold beside guess, as bridle eval reads them
            columns = {**columns, "gold": example.labels}
        tagged.append(replace(example, columns=columns, labels=labels))
    return list(made.text(tagged))


def _json(example: Example, record: Record, tagger: Tagger, decoder: Decoder | None) -> str:
    """A line of JSON; with a decoder, the probability of each label too."""
    more = {} if decoder is None else {"probability": _probability(example, record, tagger, decoder)}
    others = {name: list(column) for name, column in list(example.columns.items())[1:]}
    if example.labels is not None:
        others["gold"] = list(example.labels)
    return to_json({"id": record["id"], "tokens": list(example.tokens), **others, **record, **more})


def _probability(example: Example, record: Record, tagger: Tagger, decoder: Decoder) -> list[float] | None:
    """Of each label, given that the hard rules hold."""
    if record["labels"] is None or record.get("relaxed"):
        return None
    table = decoder.marginals(*work_of([example], tagger, decoder, 1).scores(0))
    return [round(float(table[t, y]), 6) for t, y in enumerate(tagger.labels_.ids(record["labels"]).tolist())]
