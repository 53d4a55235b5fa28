"""`bridle tag`: label sequences with a model."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

import bridle
from bridle.bulk.inputs import files
from bridle.cli.bars import Bar
from bridle.cli.base import OnInfeasible, app, ended, keep, on_screen, warn
from bridle.cli.bulk import (
    Asked,
    Bulk,
    JsonProgress,
    TheOnError,
    TheResume,
    TheRunMemory,
    TheShardSize,
    tag_into_file,
    tag_into_shards,
)
from bridle.cli.matching import model_reader
from bridle.cli.naming import Names
from bridle.cli.options import (
    FORMATS,
    TheEngine,
    TheLenient,
    TheLimit,
    TheMemory,
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
    reading,
    rules_for,
)
from bridle.cli.stream import Record, Stream
from bridle.cli.tagging_output import (
    WITH_SCORES,
    answered,
    format_by_suffix,
    json_lines,
    json_of,
    output_format,
    tagged_examples,
    work_of,
)
from bridle.data import Example, Examples, Lines, Pace
from bridle.data.base import plain_path, save_lines
from bridle.data.source import PACKED
from bridle.decoding.decoder import Decoder
from bridle.decoding.problem import MOST_MEMORY
from bridle.errors import ModelError
from bridle.models import Tagger

# formats without a header or footer, whose lines are written as soon as they are ready
STREAMED = ("conll", "conllu", "slashed", "segmented", "segments", "tagged", "spans", "doccano")


@app.command()
def tag(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model that bridle train wrote.", show_default=False)],
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATA",
            help="Files, folders or patterns ('data/*.jsonl'), also packed (.gz, .zst). Default: -, which reads stdin.",
        ),
    ] = None,
    rules: TheRules = None,
    lenient: TheLenient = False,
    format: TheFormat = None,
    columns: TheColumns = None,
    label: TheLabel = None,
    option: TheOptions = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="NAME",
            autocompletion=FORMATS,
            help="Format of the output: conll, jsonl, spans, csv, ... Default: that of the input.",
        ),
    ] = None,
    to_option: Annotated[
        list[str] | None,
        typer.Option("--to-option", metavar="KEY=VALUE", help="Option of the output format; can be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON lines; the same as --to jsonl.")] = False,
    k: Annotated[
        int | None, typer.Option("--k", metavar="N", min=1, help="Write the N best labellings, as JSON lines.")
    ] = None,
    scores: Annotated[
        bool,
        typer.Option(
            "--scores",
            help="Add probabilities: of each span (--to spans, labelstudio) or of each token's label (jsonl).",
        ),
    ] = False,
    engine: TheEngine = "auto",
    on_infeasible: Annotated[
        OnInfeasible,
        typer.Option(
            help="What to do if no labelling obeys the hard rules: stop, break the fewest rules, or skip the sequence."
        ),
    ] = OnInfeasible.RELAX,
    time_limit: TheLimit = None,
    max_memory: TheMemory = None,
    threads: TheThreads = 0,
    out: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            help="Output file; or a folder for shards, if it ends with a slash, or is one. Default: stdout.",
        ),
    ] = None,
    resume: TheResume = False,
    shard_size: TheShardSize = None,
    memory: TheRunMemory = None,
    on_error: TheOnError = None,
    progress: TheProgress = None,
    json_progress: JsonProgress = False,
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="CLUSTER",
            help="Run on Spark (spark://HOST:PORT, yarn, k8s://..., local[N], local-cluster[N,CORES,MB]) or on Ray "
            "(ray, ray:local, ray:HOST:PORT, ray://HOST:PORT).",
        ),
    ] = None,
    on_option: Annotated[
        list[str] | None,
        typer.Option(
            "--on-option",
            metavar="KEY=VALUE",
            help="Setting of the cluster, such as spark.executor.memory=4g or actors=8, or option of Spark's reader, "
            "such as maxFilesPerTrigger=100; can be repeated.",
        ),
    ] = None,
) -> None:
    """Label sequences with a model, optionally under rules.

    The input is read in the same way as the training data, unless its suffix or its first lines show another format;
    --format, --columns and so on override this. The column of labels may be missing. Plain text (--format text) is
    split into tokens in the same way as the training data.

    The output has one more column. With --json, --k or --scores it is JSON lines; with --to spans, doccano, labelstudio
    or brat, spans of characters. It is written as soon as it is labelled, so files of any size and endless streams need
    the same memory. Sequences keep their ids; sequences without an id are numbered through all files, in shards even if
    another sequence has that number as its id. A file whose name ends in .gz or .zst is packed.

    With -o FOLDER/ or --resume, the output is shards in a folder, part-00000.parquet and so on, with a manifest. If the
    command is stopped or killed, the same command with --resume continues after the last finished shard. In shards,
    each row has its status and, if it failed, an error.

    With --on, a cluster tags Parquet files or JSON lines (files, folders, globs) into a folder of Parquet files. If it
    is stopped or killed, the same command goes on; at the end it compares the rows with those of the input.

    \b
    Examples:
      bridle tag chunks.bridle test.txt -o tagged.txt --rules my.rules
      cat refs.txt | bridle tag refs.bridle --json | jq .labels
      bridle tag chunks.bridle test.txt --k 3
      bridle tag names.bridle notes.txt --format text --to spans --scores
      bridle tag refs.bridle 'data/*.parquet' -o tagged/ --resume
      bridle tag refs.bridle in/*.parquet -o out --on spark://host:7077

    \b
    Exit codes:
      0    success
      1    finished, but some sequences are infeasible (skip), relaxed, failed (--on-error row), or have no labelling:
           time ran out
      2    bad input, bad usage, or the output cannot be written
      3    a sequence has no labelling under the rules (--on-infeasible raise)
      130  interrupted by Ctrl-C; written lines are complete, and -o FILE is kept as FILE.part; shards can be resumed
      141  the reader of the output closed it
    """
    if on is not None:
        from bridle.cli.cluster import tag_on

        tag_on(context)
    bulk = Bulk(resume, shard_size, memory, on_error, json_progress, progress, threads)
    named = data or ["-"]
    shards = bulk.shards(out)  # which have no row twice; otherwise, a file that is named twice is read twice
    data = files(named) if shards else [one for path in named for one in files([path])]
    keep(out, model, *(rules or ()), *data)
    tagger = bridle.load(model)
    reader = model_reader(tagger, format, columns, label, option, "missing")
    readers = reader.settled_on(data[0]), Reader.noted(tagger.notes_, "missing")
    obeyed = [] if not rules else rules_for(rules, tagger, lenient=lenient)
    options: dict[str, Any] = {
        "engine": engine,
        "time_limit": time_limit,
        "max_memory": MOST_MEMORY if max_memory is None else bytes_of(max_memory),
        "on_infeasible": on_infeasible.value,
    }
    decoder = Decoder(tagger.labels_, obeyed, **options)
    asked = Asked(tagger, obeyed, options, named, data, reader, out or "")
    if shards:
        more = {"--k": k is not None, "--scores": scores, "--to-option": bool(to_option)}
        tag_into_shards(bulk, asked, "jsonl" if as_json else to, [name for name, there in more.items() if there])
    to = to if to or as_json or k is not None or scores else format_by_suffix(out)
    made = output_format("jsonl" if as_json or k is not None else to, readers, tagger, to_option, scores)
    if made is None and to not in (None, "jsonl", "json"):
        wanted = "--to jsonl" if as_json or k is not None else f"--to jsonl, {', '.join(WITH_SCORES)}"
        raise ModelError("--json, --k and --scores write JSON lines", got=f"--to {to}", wanted=wanted)
    tag_into_file(bulk, asked, made, plain=not scores and k is None)
    stream = Stream(decoder, k, "labels" if made is not None and not scores else "all")
    names = Names(len(data))
    is_packed = out is not None and out.endswith(PACKED)
    if is_packed or (made is not None and made.name not in STREAMED):
        opened = ((path, reading(reader, path, progress, "tagging", out)) for path in data)
        work = _worked(opened, stream, names, tagger, threads)
        if made is None:
            save_lines(plain_path(out), json_lines(work, tagger, decoder if scores else None))
        else:
            made.save(plain_path(out), tagged_examples(work, tagger, made, decoder if scores else None))
        _ended(stream, names)
    pace = Pace(sequences=1, most=4096)  # the first answer comes at once
    with Lines(out, warn, on_screen) as lines:
        for path in data:
            with reading(reader, path, progress, "tagging", out) as (examples, bar):
                while some := examples.take(pace.sequences, pace.tokens):  # at most a chunk of them is held
                    begun = time.perf_counter()
                    records, wrong = stream.records(work_of(some, tagger, decoder, threads, names.of(some, path)))
                    if made is None:
                        lines.write(
                            json_of(example, record, tagger, decoder if scores else None)
                            for example, record in zip(some, records, strict=False)  # an error may have left fewer
                        )
                    else:
                        lines.write(list(made.text(answered(some, records, tagger, made, decoder if scores else None))))
                    if wrong is not None:
                        raise wrong
                    bar()
                    pace.took(time.perf_counter() - begun)
    _ended(stream, names)


def _ended(stream: Stream, names: Names) -> NoReturn:
    if told := names.told():
        warn(told)
    ended(stream.tally)


def _worked(
    opened: Iterable[tuple[str, AbstractContextManager[tuple[Examples, Bar]]]],
    stream: Stream,
    names: Names,
    tagger: Tagger,
    threads: int,
) -> Iterator[tuple[list[Example], list[Record]]]:
    """Examples and their records, for a file that is not written line by line."""
    for path, file in opened:
        with file as (examples, bar):
            while some := examples.take(1024, 1 << 16):
                work = work_of(some, tagger, stream.decoder, threads, names.of(some, path))
                records, wrong = stream.records(work)
                yield some, records
                if wrong is not None:
                    raise wrong
                bar()
