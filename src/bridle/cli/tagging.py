"""`bridle tag`: sequences in, the same with labels out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import bridle
from bridle.cli.bars import Bar
from bridle.cli.base import OnInfeasible, app, ended, keep, on_screen, warn
from bridle.cli.options import (
    FORMATS,
    TheEngine,
    TheLimit,
    TheMemory,
    TheOut,
    TheProgress,
    TheRules,
    TheThreads,
    bytes_of,
)
from bridle.cli.reading import (
    Reader,
    TheColumns,
    TheFormat,
    TheLabel,
    TheOptions,
    reader_of,
    reading,
    rules_for,
    settings_of_format,
)
from bridle.cli.stream import Record, Stream, Work, to_json
from bridle.data import Example, Examples, Lines, Pace
from bridle.data.base import Format, format_named, plain_path
from bridle.data.standoff import Standoff, segments_of
from bridle.decoding.decoder import Decoder
from bridle.decoding.problem import MOST_MEMORY
from bridle.decoding.segments import segment_probabilities
from bridle.errors import BridleError, FileError, ModelError
from bridle.lattice import Lattice
from bridle.models import Tagger

# formats without a head or a foot, of which lines are written as soon as they are there
STREAMED = ("conll", "conllu", "slashed", "segmented", "segments", "tagged", "spans", "doccano")
# formats whose output is the same by default; whose spans may have probabilities; that show gold beside guess
_ALIKE = ("conll", "slashed", "segmented", "jsonl", "spans", "doccano", "labelstudio", "brat", "csv", "tsv")
_WITH_SCORES = ("spans", "labelstudio")
_WITH_GOLD = ("conll", "csv", "tsv")
_LOADED_BACK = (
    "spans",
    "doccano",
    "labelstudio",
    "brat",
    "csv",
    "tsv",
)  # with the options of the input, or of the training
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
            "--to", metavar="NAME", autocompletion=FORMATS, help="conll, jsonl, spans, csv, ... Default: by the input."
        ),
    ] = None,
    to_option: Annotated[
        list[str] | None,
        typer.Option("--to-option", metavar="KEY=VALUE", help="An option of the format of the output; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines: the same as --to jsonl.")] = False,
    k: Annotated[
        int | None, typer.Option("--k", metavar="N", min=1, help="The N best labellings, as JSON lines.")
    ] = None,
    scores: Annotated[
        bool,
        typer.Option(
            "--scores", help="Probabilities: of each span (--to spans, labelstudio), or of each token's label (jsonl)."
        ),
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
    missing. Plain text (--format text) is cut into tokens as the text of the training data was. The output has one more
    column, or is JSON lines with --json, --k or --scores, or spans of characters with --to spans, doccano, labelstudio
    or brat. What is read is written as soon as it is labelled, so that files of any size and streams without an end
    need the same memory.

    \b
    Examples:
      bridle tag chunks.bridle test.txt -o tagged.txt --rules my.rules
      cat refs.txt | bridle tag refs.bridle --json | jq .labels
      bridle tag chunks.bridle test.txt --k 3
      bridle tag names.bridle notes.txt --format text --to spans --scores

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
    before = Reader.noted(tagger.notes_, "missing")
    reader = reader_of(format, columns, label, option, before)
    obeyed = [] if rules is None else rules_for(rules, tagger)
    memory = MOST_MEMORY if max_memory is None else bytes_of(max_memory)
    decoder = Decoder(
        tagger.labels_, obeyed, engine, time_limit=time_limit, max_memory=memory, on_infeasible=on_infeasible.value
    )
    made = _output("jsonl" if as_json or k is not None else to, (reader, before), tagger, to_option, scores)
    if made is None and to not in (None, "jsonl", "json"):
        wanted = "--to jsonl" if as_json or k is not None else f"--to jsonl, {', '.join(_WITH_SCORES)}"
        raise ModelError("--json, --k and --scores make JSON lines", got=f"--to {to}", wanted=wanted)
    stream = Stream(decoder, k, "labels" if made is not None and not scores else "all")
    if made is not None and made.name not in STREAMED:
        opened = (reading(reader, path, progress, "tagging", out) for path in data or ["-"])
        made.save(plain_path(out), _tagged(opened, stream, tagger, threads, made, scores))
        ended(stream.tally)
        return
    pace = Pace(sequences=1, most=4096)  # the first answer comes at once
    with Lines(out, warn, on_screen) as lines:
        for path in data or ["-"]:
            with reading(reader, path, progress, "tagging", out) as (examples, bar):
                while some := examples.take(pace.sequences, pace.tokens):  # at most a chunk of them is held
                    begun = time.perf_counter()
                    records, wrong = stream.records(work_of(some, tagger, decoder, threads, stream.tally.sequences))
                    if made is None:
                        lines.write(
                            _json(example, record, tagger, decoder if scores else None)
                            for example, record in zip(some, records, strict=False)  # an error may have left fewer
                        )
                    else:
                        lines.write(
                            list(made.text(_answered(some, records, tagger, made, decoder if scores else None)))
                        )
                    if wrong is not None:
                        raise wrong
                    bar()
                    pace.took(time.perf_counter() - begun)
    ended(stream.tally)


def _tagged(
    opened: Iterable[AbstractContextManager[tuple[Examples, Bar]]],
    stream: Stream,
    tagger: Tagger,
    threads: int,
    made: Format,
    scores: bool,
) -> Iterator[Example]:
    """Examples with their labels, for a format that is not written line by line."""
    for file in opened:
        with file as (examples, bar):
            while some := examples.take(1024, 1 << 16):
                work = work_of(some, tagger, stream.decoder, threads, stream.tally.sequences)
                records, wrong = stream.records(work)
                yield from _answered(some, records, tagger, made, stream.decoder if scores else None)
                if wrong is not None:
                    raise wrong
                bar()


def _answered(
    some: list[Example], records: list[Record], tagger: Tagger, made: Format, decoder: Decoder | None
) -> list[Example]:
    """Examples with the labels of their records, of which an error may have left fewer, as a format wants them."""
    found = list[Example]()
    for example, record in zip(some, records, strict=False):
        labels, columns = record["labels"], example.columns
        if isinstance(made, Standoff):  # a text without an answer has no spans
            found.append(_with_spans(example, record, tagger, made, decoder))
            continue
        if made.name in _WITH_GOLD and example.labels is not None:  # gold beside guess, as bridle eval reads them
            columns = {**columns, "gold": example.labels}
        labels = [_MISSING] * len(example) if labels is None else labels
        found.append(replace(example, columns=columns, labels=labels))
    return found


def _with_spans(example: Example, record: Record, tagger: Tagger, made: Standoff, decoder: Decoder | None) -> Example:
    """An example with the labels of its record; with a decoder, with the probabilities of its spans too."""
    labels = record["labels"]
    if labels is None or decoder is None or record.get("relaxed"):
        return replace(example, labels=labels)
    lattice, given = work_of([example], tagger, decoder, 1).scores(0)
    try:
        found = segment_probabilities(decoder, lattice, labels, segments_of(labels, made.scheme), given)
    except BridleError as error:  # a limit, for example
        raise error.at(where=example.where) from None
    return replace(example, labels=labels, probabilities=[round(p, 6) for p in found])


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


def _output(
    to: str | None, readers: tuple[Reader, Reader], tagger: Tagger, options: list[str] | None, scores: bool
) -> Format | None:
    """The format of the output; None: JSON lines. readers: of the input, and of the training data."""
    reader = readers[0]
    name = to or (reader.format if reader.format in _ALIKE else None)
    if name is None:
        name = "segmented" if tagger.labels_.scheme == "BMES" and reader.format == "text" else "conll"
    if name in ("jsonl", "json") or (scores and name not in _WITH_SCORES):
        return None
    if name == "text":
        raise FileError("the output cannot have this format", got=name, wanted="a format that has labels")
    asked = settings_of_format(options, "--to-option") if options else {}
    for known in readers if name in _LOADED_BACK else ():
        if name == known.format:
            asked = known.options | asked
    made = format_named(name, asked)
    # O is never a span, whatever the scheme of the model is
    return replace(made, scheme=tagger.labels_.scheme or "IO") if isinstance(made, Standoff) else made


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
