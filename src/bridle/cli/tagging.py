"""`bridle tag`: label sequences with a model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any

import typer

from bridle.cli.base import (
    Command,
    Tally,
    app,
    escape_controls,
    exit_by_status,
    mark_warning,
    refuse_overwrite,
    warn,
)
from bridle.cli.options import (
    COMPLETE_FORMATS,
    LIMITS,
    OUTPUT,
    ColumnsOption,
    EngineOption,
    FormatOption,
    FormatOptions,
    GroupsOption,
    LabelOption,
    LenientOption,
    MapOption,
    MemoryOption,
    ModelArgument,
    OnInfeasible,
    OnInfeasibleOption,
    ProgressOption,
    RulesOption,
    ThreadsOption,
    TimeLimitOption,
    parse_size,
)
from bridle.cli.progress import RunProgress
from bridle.cli.reading import (
    ReadCounts,
    announce_keyboard,
    load_model_rules,
    make_model_reader,
    parse_format_options,
    with_map,
)
from bridle.data.base import Format, format_named
from bridle.data.detection import format_guessed, has_suffix
from bridle.data.files import check_places, files
from bridle.data.reader import Reader
from bridle.data.standoff import Standoff
from bridle.decoding.decoder import Decoder
from bridle.decoding.problem import MOST_MEMORY
from bridle.errors import Argument, FileError, ModelError, ModelFileError
from bridle.models import Tagger, load
from bridle.runs.counts import RunResult
from bridle.runs.files import Shards, ShardSize, is_folder, shard_format, write_one, write_shards
from bridle.runs.run import MEMORY, Run
from bridle.tagging.figures import figures_of

# formats that are also the default of the output; whose spans may have probabilities
_ALIKE = ("conll", "slashed", "segmented", "jsonl", "spans", "doccano", "labelstudio", "brat", "csv", "tsv")
_WITH_SCORES = ("jsonl", "spans", "labelstudio")
# formats that are written without the options of the input and of the training data: they get one more column
_WITHOUT_OPTIONS = ("conll", "jsonl", "parquet", "arrow")
_SHARDS, _CLUSTER = "Shards", "Cluster"  # panels of the help


class OnError(StrEnum):
    """Values of --on-error."""

    ROW, RAISE = "row", "raise"


ResumeOption = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Write shards into the folder -o, or go on with a run that was stopped there. Pass it from the start.",
        rich_help_panel=_SHARDS,
    ),
]
ShardSizeOption = Annotated[
    str | None,
    typer.Option(
        "--shard-size",
        metavar="SIZE",
        help="Size of a shard: rows (100000), or bytes before compression (256MB). A shard ends with the block of up "
        "to 2048 rows that reaches it. Default: 256MB.",
        rich_help_panel=_SHARDS,
    ),
]
RunMemoryOption = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Memory for all rows that are being read, labelled and written, besides the model; --max-memory is "
        "about the search for a single sequence. Default: 1GB.",
        rich_help_panel=LIMITS,
    ),
]
OnErrorOption = Annotated[
    OnError | None,
    typer.Option(
        help="What to do with a sequence that cannot be labelled, such as a null token: write it with the status "
        "error and a message, or stop. Default: row for shards (unless --on-infeasible raise), otherwise raise.",
        rich_help_panel=_SHARDS,
    ),
]
JsonProgressOption = Annotated[
    bool,
    typer.Option(
        "--json-progress",
        help="Print progress on stderr as a JSON line per second, and a last one at the end, for scripts.",
        rich_help_panel=OUTPUT,
    ),
]


@app.command(cls=Command)
def tag(
    context: typer.Context,
    model: ModelArgument,
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATA",
            help="Files, folders or patterns ('data/*.jsonl'), also packed (.gz, .zst). Default: -, which reads stdin.",
        ),
    ] = None,
    rules: RulesOption = None,
    lenient: LenientOption = False,
    format: FormatOption = None,
    columns: ColumnsOption = None,
    label: LabelOption = None,
    option: FormatOptions = None,
    map_labels: MapOption = None,
    groups: GroupsOption = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="NAME",
            autocompletion=COMPLETE_FORMATS,
            help="Format of the output: conll, jsonl, spans, csv, ... Default: that of the input.",
        ),
    ] = None,
    to_option: Annotated[
        list[str] | None,
        typer.Option(
            "--to-option",
            metavar="KEY=VALUE",
            help="Option of the output format; can be repeated.",
            rich_help_panel=OUTPUT,
        ),
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
    engine: EngineOption = "auto",
    on_infeasible: OnInfeasibleOption = OnInfeasible.RELAX,
    time_limit: TimeLimitOption = None,
    max_memory: MemoryOption = None,
    threads: ThreadsOption = 0,
    out: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            help="Output file; or a folder for shards, if it ends with a slash, or is one. Default: stdout.",
        ),
    ] = None,
    resume: ResumeOption = False,
    shard_size: ShardSizeOption = None,
    memory: RunMemoryOption = None,
    on_error: OnErrorOption = None,
    progress: ProgressOption = None,
    json_progress: JsonProgressOption = False,
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="CLUSTER",
            help="Run on Spark (spark://HOST:PORT, yarn, k8s://..., local[N], local-cluster[N,CORES,MB]) or on Ray "
            "(ray, ray:local, ray:HOST:PORT, ray://HOST:PORT).",
            rich_help_panel=_CLUSTER,
        ),
    ] = None,
    on_option: Annotated[
        list[str] | None,
        typer.Option(
            "--on-option",
            metavar="KEY=VALUE",
            help="Setting of the cluster, such as spark.executor.memory=4g or actors=8, or option of Spark's reader, "
            "such as maxFilesPerTrigger=100; can be repeated.",
            rich_help_panel=_CLUSTER,
        ),
    ] = None,
) -> None:
    """Label sequences with a model, optionally under rules.

    The input is read in the same way as the training data, unless its suffix or its first lines show another format;
    --format, --columns and so on override this. The column of labels may be missing. Plain text (--format text) is
    split into tokens in the same way as the training data.

    The output has one more column. With --json, --k or --scores it is JSON lines; with --to spans, doccano, labelstudio
    or brat, spans of characters. It is written as soon as it is labelled, so files of any size and endless streams need
    the same memory. Sequences keep their ids; a sequence without an id gets its number among all of them, even if
    another one has that number as its id. A file whose name ends in .gz or .zst is packed.

    With -o FOLDER/ or --resume, the output is shards in a folder, part-00000.parquet and so on, with a manifest. If the
    command is stopped or killed, the same command with --resume continues after the last finished shard. In shards,
    each row has its status and, if it failed, an error.

    A segmenter (bridle train --task segmentation) cuts each line into words, separated by blanks.

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
    named, shards = data or ["-"], resume or (out is not None and is_folder(out))
    if (as_json or k is not None) and to not in (None, "jsonl", "json") and not shards:
        raise ModelError("--json and --k write JSON lines", got=f"--to {to}", wanted="--to jsonl")
    if resume and out in (None, "-"):
        raise FileError("--resume needs a folder for its output", got="no -o", wanted="-o FOLDER")
    if shard_size is not None and not shards:
        got, wanted = f"--shard-size {shard_size} with one file", "-o FOLDER/, or --resume"
        raise FileError("the output has no shards", got=got, wanted=wanted)
    # shards have no row twice; otherwise, a file that is named twice is read twice
    paths = files(named) if shards else [path for name in named for path in files([name])]
    refuse_overwrite(out, model, *(rules or ()), *paths)
    try:
        tagger = load(model)
    except ModelFileError as error:
        if error.argument != Argument("kind", "segmenter"):
            raise
        from bridle.cli.segmenting import tag_segmenter  # importing it takes long

        tag_segmenter(context)
        return
    option = with_map(option, map_labels) if map_labels else option
    if groups is not None:
        option = [*(option or ()), f"groups={groups}"]
        if shards or scores or k is not None:
            got = "--scores or --k" if scores or k is not None else "a folder of shards"
            wanted = "--groups with one output file, without --scores and --k"
            raise FileError("--groups labels whole documents into one file", got=got, wanted=wanted)
    reader = make_model_reader(tagger, format, columns, label, option, "missing")
    if "-" in paths:
        announce_keyboard()
    settings: dict[str, Any] = {
        "engine": engine,
        "time_limit": time_limit,
        "max_memory": MOST_MEMORY if max_memory is None else parse_size(max_memory),
        "on_infeasible": on_infeasible.value,
    }
    best, size = k or 1, None if shard_size is None else _shard_size(shard_size)
    bar = RunProgress(progress, out, as_json=json_progress)
    run = Run(
        tagger,
        Decoder(tagger.labels_, load_model_rules(rules, tagger, lenient=lenient) if rules else (), **settings),
        paths,
        reader.opened,
        figures_of(scores=scores, k=k is not None),
        best,
        on_error=on_error.value
        if on_error
        else "row"
        if shards and on_infeasible is not OnInfeasible.RAISE
        else "raise",
        threads=threads,
        memory=MEMORY if memory is None else parse_size(memory, "memory"),
        progress=bar.update,
    )
    result = None
    with bar:
        if shards:
            shape = shard_format("jsonl" if as_json else to, str(out), run)
            check_places(named, str(out), f"part-00000.{shape.name}")
            asked: dict[str, Any] = {"format": format, "columns": columns, "label": label, "option": option}
            asked |= {"scores": scores, "k": best, **settings}
            result = write_shards(run, str(out), shape, options=asked, resume=resume, size=size, on_stop=_report_stop)
        else:
            to = "jsonl" if as_json or k is not None else to
            shape = output_format(tagger, run.first_format, to, out, to_option, scores=scores)
            if isinstance(shape, Standoff) and scores:
                run.want = ["segment_probabilities"]
            run.ids = "number" if shape.name == "jsonl" else "fill"
            try:
                write_one(run, None if out == "-" else out, shape, warn=warn, show=escape_controls)
            except FileError as error:
                of_input = str(error.where or "").startswith("<stdin>" if paths[0] == "-" else paths[0])
                raise (reader.doubted(error, run.first_format().name) if of_input else error) from None
    _report(run, result)


def output_format(
    tagger: Tagger,
    input_format: Callable[[], Format],
    to: str | None,
    out: str | None,
    options: list[str] | None,
    *,
    scores: bool,
) -> Format:
    """Return the format of the output: of the options, of the name of the file, or that of the input."""
    first = input_format()
    if to is None and not scores and out not in (None, "-") and has_suffix(str(out)):
        with suppress(FileError):  # several formats share the suffix
            to = None if (by_suffix := format_guessed(str(out))) == "text" else by_suffix
    name = "jsonl" if to == "json" else to or (first.name if first.name in _ALIKE else None)
    if name is None:
        name = "segmented" if tagger.labels_.scheme == "BMES" and first.name == "text" else "conll"
    if scores and name not in _WITH_SCORES:
        if to is not None:
            wanted = f"--to {', '.join(_WITH_SCORES)}"
            raise ModelError("--scores writes probabilities", got=f"--to {to}", wanted=wanted)
        name = "jsonl"
    if name == "text":
        raise FileError("the output cannot have this format", got=name, wanted="a format with labels")
    asked = parse_format_options(options, "--to-option") if options else {}
    if name not in _WITHOUT_OPTIONS:
        noted = Reader.noted(tagger.notes_)
        asked = (vars(first) if name == first.name else noted.options if name == noted.format else {}) | asked
    shape = format_named(name, asked)
    # O is never a span, whatever the scheme of the model is
    return replace(shape, scheme=tagger.labels_.scheme or "IO") if isinstance(shape, Standoff) else shape


def _shard_size(size: str) -> ShardSize:
    if size.strip().isdecimal() and int(size) > 0:
        return ShardSize(rows=int(size))
    return ShardSize(bytes=parse_size(size, "shard_size"))


def _report_stop(shards: Shards) -> None:
    """Say what is left of a run that was stopped."""
    warn(
        f"{shards.count:,} finished shards ({shards.counts.rows:,} rows) are kept in {shards.path}; "
        "run the same command with --resume to go on"
    )


def _report(run: Run, result: RunResult | None) -> None:
    """Report what was written, and exit with the matching code. result: of shards."""
    for verb, counts in (("left out", run.left_out), ("changed", run.changed)):
        for (path, what), count in counts.items():
            warn(f"{path}: {verb} {count:,} {what}")
    if run.repeated:
        warn(
            f"sequences in different files have the same id ({run.repeated:,}, such as {run.repeated_example}); "
            "tag the files one by one to distinguish them"
        )
    done = run.counts if result is None else result
    if result is None:
        ReadCounts(run.counts.rows, run.counts.tokens, longest=run.longest).report(run.inputs)
    status = done.status
    if failed := status.get("error", 0):
        mark_warning()
        more = "; ..." if failed > len(done.errors) else ""
        warn(f"{failed:,} sequences failed and have no labels: {'; '.join(done.errors)}{more}")
    elif done.errors:
        mark_warning()
        warn(f"some sequences have labels, but lack probabilities or k best: {'; '.join(done.errors)}")
    tally = Tally(done.rows, status)
    if result is None or not result.shards:
        if status.keys() - {"optimal"}:
            exit_by_status(tally)
        return
    others = ", ".join(f"{count:,} {name}" for name, count in status.items() if name != "optimal")
    about = f"{result.rows:,} rows, {result.tokens:,} tokens" + (f" ({others})" if others else "")
    ids = f"{result.shards:,} shards in {result.out}, checksum of ids {result.ids}"
    if result.state == "nothing to do":
        warn(f"this run has finished already: {about}; {ids}")
    else:
        rate = (result.tokens - result.tokens_before) / max(result.seconds, 1e-9)
        earlier = f", {result.rows_before:,} of the rows by earlier calls" if result.rows_before else ""
        warn(f"{about} in {result.seconds:,.1f} s ({rate:,.0f} tokens/s{earlier}); {ids}")
    raise typer.Exit(1 if tally.has_warnings else 0)
