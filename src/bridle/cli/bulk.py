"""`bridle tag` over files at full speed: when it does so, its progress, and what it says at the end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from bridle.cli.bars import progress_bar
from bridle.cli.base import OnInfeasible, ended, json_line, look_at_it, tell, warn
from bridle.cli.matching import ModelReader
from bridle.cli.naming import Names
from bridle.cli.options import bytes_of
from bridle.cli.stream import Tally
from bridle.data.base import Format
from bridle.errors import FileError, ModelError

if TYPE_CHECKING:
    from bridle.bulk import Progress, RunResult, ShardSize
    from bridle.bulk.job import Job
    from bridle.bulk.shards import Folder, OneFile
    from bridle.models import Tagger

SMALL = 1 << 20  # bytes of input: for less, importing PyArrow takes longer than the work
EVERY = 1.0  # seconds between two lines of --json-progress
_ONE_FILE = ("conll", "parquet", "arrow")  # formats of one file that have nothing but labels


class OnError(StrEnum):
    """What --on-error takes."""

    ROW, RAISE = "row", "raise"


TheResume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Write shards into the folder -o, or go on with a run that was stopped there. Pass it from the start.",
    ),
]
TheShardSize = Annotated[
    str | None,
    typer.Option(
        "--shard-size",
        metavar="SIZE",
        help="Size of a shard: rows (100000), or bytes before compression (256MB). A shard ends with the block of up "
        "to 4096 rows that reaches it. Default: 256MB.",
    ),
]
TheRunMemory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Memory for all rows that are being read, labelled and written, besides the model; --max-memory is "
        "about the search for a single sequence. Input of less than 1 MB into one file needs less. Default: 1GB.",
    ),
]
TheOnError = Annotated[
    OnError | None,
    typer.Option(
        help="What to do with a sequence that cannot be labelled, such as a null token: write it with the status "
        "error and a message, or stop. Default: row for shards, otherwise raise."
    ),
]
JsonProgress = Annotated[
    bool,
    typer.Option(
        "--json-progress",
        help="Print progress on stderr as a JSON line per second, for scripts: for shards, and for input of 1 MB or "
        "more into one file of conll, Parquet or Arrow.",
    ),
]


@dataclass(frozen=True)
class Bulk:
    """The options of runs over files."""

    resume: bool
    shard_size: str | None
    memory: str | None
    on_error: OnError | None
    json_progress: bool
    progress: bool | None
    threads: int

    def shards(self, out: str | None) -> bool:
        """Is the output a folder of shards?"""
        from bridle.bulk.job import is_folder

        if self.resume and out in (None, "-"):
            raise FileError("--resume needs a folder for its output", got="no -o", wanted="-o FOLDER")
        if self.shard_size is not None and not self.resume and (out in (None, "-") or not is_folder(str(out))):
            got, wanted = f"--shard-size {self.shard_size} with one file", "-o FOLDER/, or --resume"
            raise FileError("the output has no shards", got=got, wanted=wanted)
        return self.resume or (out not in (None, "-") and is_folder(str(out)))


@dataclass(frozen=True)
class Asked:
    """What is asked for, as the library needs it."""

    tagger: Tagger
    rules: Sequence[Any]
    decoder: dict[str, Any]  # options of `Decoder`
    named: Sequence[str]  # files, folders and patterns
    paths: Sequence[str]  # the files that they stand for
    reader: ModelReader
    out: str


def tag_into_shards(bulk: Bulk, asked: Asked, to: str | None, more: Sequence[str]) -> NoReturn:
    """Write a folder of shards, or go on with one. more: options that shards do not have."""
    from bridle.bulk.formats import SUFFIXES
    from bridle.bulk.inputs import check_places, is_saved
    from bridle.bulk.job import no_file
    from bridle.bulk.run import format_by_name

    if more:
        got, wanted = ", ".join(more), "one file for it, such as -o tagged.jsonl"
        raise ModelError("shards hold labels without this", got=got, wanted=wanted)
    for path in asked.paths:
        if path == "-" or not (Path(path).is_file() or is_saved(path)):
            raise no_file(path)
    on_error = bulk.on_error or OnError.ROW
    try:
        with closing(asked.reader.open(asked.paths[0])) as examples:
            next(examples, None)  # it says if the file lacks what the model needs
    except FileError as error:
        lacks_column = error.argument is not None and error.argument.name == "columns"
        if on_error is OnError.RAISE or lacks_column:
            raise  # otherwise the first sequence becomes a row with an error, if the file can be read
    known = asked.reader.settled_on(asked.paths[0]).format
    to = "jsonl" if to == "json" else to or format_by_name(asked.out) or (known if known in SUFFIXES else "parquet")
    check_places(asked.named, asked.out, f"part-00000.{to}")
    _run(bulk, _job(asked, to, on_error))


def tag_into_file(bulk: Bulk, asked: Asked, made: Format | None, plain: bool) -> None:
    """Write one file and exit, if that can be done in blocks of rows; otherwise return.

    made: the format of the output; None: JSON with scores. plain: no other option asks for more than labels.
    """
    possible = plain and made is not None and made.name in _ONE_FILE and _has_defaults(made)
    possible = (
        possible and asked.decoder["on_infeasible"] != OnInfeasible.RAISE
    )  # an error that names lines and clashes
    possible = possible and asked.out not in ("", "-") and _can_be_blocks(asked, made, 0 if bulk.on_error else SMALL)
    if possible and made is not None:
        _run(bulk, _job(asked, made.name, bulk.on_error or OnError.RAISE))
    if bulk.on_error is OnError.ROW:
        raise FileError(
            "--on-error row needs shards here",
            got="one file of this kind",
            wanted="-o FOLDER/, or files of Parquet as input and output",
        )


def _can_be_blocks(asked: Asked, made: Format | None, least: int) -> bool:
    """Are the inputs files that are read in blocks, without anything that only single sequences have?"""
    out = Path(asked.out)
    if find_spec("pyarrow") is None or (out.exists() and not out.is_file()):
        return False
    if not all(Path(path).is_file() for path in asked.paths) or sum(_size(path) for path in asked.paths) < least:
        return False
    from bridle.bulk.formats import SUFFIXES

    if not all(asked.reader.settled_on(path).format in SUFFIXES for path in asked.paths):
        return False
    schema = _job(asked, "parquet", OnError.RAISE).first_schema()
    if schema is None or ("word" in schema.names and made is not None and made.name != "conll"):
        return False  # tables cannot store that column: an error of single sequences says so
    return set(asked.reader.needed) - {asked.reader.main} <= set(schema.names)


def _size(path: str) -> int:
    return Path(path).stat().st_size


def _has_defaults(made: Format) -> bool:
    """Has a format no options of the user?"""
    return all(getattr(made, one.name) == one.default for one in fields(made) if one.name != "unlabelled")


def _job(asked: Asked, to: str, on_error: OnError) -> Job:
    from bridle.bulk.job import Job

    readers: dict[str, Any] = {}

    def format_of(path: str) -> tuple[str, dict[str, Any]]:
        if path not in readers:
            readers[path] = asked.reader.settled_on(path)
        return str(readers[path].format), readers[path].options

    return Job(asked.tagger, asked.rules, asked.paths, format_of, asked.out, to, asked.decoder, on_error.value)


def _run(bulk: Bulk, job: Job) -> NoReturn:
    """Do a job, and exit."""
    from bridle.bulk.job import MEMORY
    from bridle.bulk.run import run

    shown = _Shown()
    with progress_bar(False if bulk.json_progress else bulk.progress, shown, job.out, "tagging") as bar:

        def tell_progress(progress: Progress) -> None:
            shown.progress = progress
            bar()
            if bulk.json_progress and shown.is_due():
                tell(shown.line())

        result = run(
            job,
            resume=bulk.resume,
            shard_size=_shard_size(bulk.shard_size),
            memory=MEMORY if bulk.memory is None else bytes_of(bulk.memory, "memory"),
            threads=bulk.threads,
            progress=tell_progress,
            on_stop=_tell_stop,
        )
    if bulk.json_progress and shown.progress is not None:
        tell(shown.line())
    _ended(result)


class _Shown:
    """What a progress bar shows of a run."""

    total = 1000

    def __init__(self) -> None:
        self.progress: Progress | None = None
        self._told = time.monotonic()

    def done(self) -> int:
        """Thousandths of the input."""
        return 0 if self.progress is None else int(self.progress.share * self.total)

    def note(self) -> str:
        """The rate."""
        return "" if self.progress is None else f"{self.progress.rate:,.0f} tokens/s"

    def line(self) -> str:
        """As JSON."""
        facts = {} if self.progress is None else asdict(self.progress)
        return json_line({key: round(x, 4) if isinstance(x, float) else x for key, x in facts.items()})

    def is_due(self) -> bool:
        """Has it been a second since the last time?"""
        if time.monotonic() - self._told < EVERY:
            return False
        self._told = time.monotonic()
        return True


def _shard_size(size: str | None) -> ShardSize | None:
    from bridle.bulk import ShardSize

    if size is None:
        return None
    if size.strip().isdecimal() and int(size) > 0:
        return ShardSize(rows=int(size))
    return ShardSize(bytes=bytes_of(size, "shard_size"))


def _tell_stop(sink: Folder | OneFile) -> None:
    """Say what is left of a run that was stopped."""
    from bridle.bulk.shards import Folder

    if isinstance(sink, Folder):
        record = sink.manifest.record
        warn(
            f"{len(record.shards):,} finished shards ({record.counts.rows:,} rows) are kept in {sink.path}; "
            "run the same command with --resume to go on"
        )
    elif sink.kept is not None:
        warn(f"{sink.counts.rows:,} sequences were written; they are kept in {sink.kept}")


def _ended(result: RunResult) -> NoReturn:
    """Report what was written, and exit with the matching code."""
    counts = result.status
    tally = Tally(
        result.rows,
        counts.get("infeasible", 0),
        counts.get("relaxed", 0),
        counts.get("nothing_found", 0),
        counts.get("limit", 0),
    )
    for (path, what), count in result.left_out.items():
        warn(f"{path}: left out {count:,} {what}")
    if result.repeated:
        warn(Names(2, result.repeated, result.repeated_example).told())
    if failed := counts.get("error", 0):
        look_at_it()
        more = "; ..." if failed > len(result.errors) else ""
        warn(f"{failed:,} sequences failed and have no labels: {'; '.join(result.errors)}{more}")
    if not result.shards:
        ended(tally)
    what = ", ".join(f"{count:,} {name}" for name, count in counts.items() if name != "optimal")
    about = f"{result.rows:,} rows, {result.tokens:,} tokens" + (f" ({what})" if what else "")
    ids = f"{result.shards:,} shards in {result.out}, checksum of ids {result.ids}"
    if result.state == "nothing to do":
        warn(f"this run has finished already: {about}; {ids}")
    else:
        rate = (result.tokens - result.tokens_before) / max(result.seconds, 1e-9)
        earlier = f", {result.rows_before:,} of the rows by earlier calls" if result.rows_before else ""
        warn(f"{about} in {result.seconds:,.1f} s ({rate:,.0f} tokens/s{earlier}); {ids}")
    raise typer.Exit(1 if tally.infeasible or tally.relaxed or tally.unfound else 0)
