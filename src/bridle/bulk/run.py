"""Tag files: read, tag and write at the same time, into one file or into shards that a later call can go on with."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import bridle.models
from bridle.bulk.base import OnError
from bridle.bulk.formats import SUFFIXES, reader_for
from bridle.bulk.inputs import check_places, files, format_of
from bridle.bulk.job import MEMORY, Job, OnStop, is_folder
from bridle.bulk.manifest import Counts, read
from bridle.bulk.progress import Progress
from bridle.bulk.rows import checksum
from bridle.bulk.shards import ShardSize, check_files
from bridle.data.base import format_guessed
from bridle.errors import FileError
from bridle.models import Tagger
from bridle.rules.base import Rule


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run has written.

    Attributes
    ----------
    out : str
        The file or the folder.
    rows, tokens : int
        What it holds.
    status : dict
        Rows by status: optimal, limit, relaxed, infeasible, nothing_found, error.
    errors : tuple of str
        The first messages of rows that failed.
    ids : str
        Checksum of the ids, 16 hexadecimal digits; see `checksum`.
    shards : int
        The number of shards; 0 if the output is one file.
    rows_before, tokens_before : int
        What earlier calls had written.
    seconds : float
        Time of this call.
    state : {"finished", "nothing to do"}
        Whether this call has finished the run, or an earlier one had.
    left_out : dict
        Counts of what this call has left out, such as lines with -DOCSTART-, by file and name.
    repeated : int
        Ids that this call has met in more than one input, as far as it remembers them.
    repeated_example : str
        One of them, in words.
    """

    out: str
    rows: int
    tokens: int
    status: Mapping[str, int]
    errors: tuple[str, ...]
    ids: str
    shards: int
    rows_before: int = 0
    tokens_before: int = 0
    seconds: float = 0.0
    state: Literal["finished", "nothing to do"] = "finished"
    left_out: Mapping[tuple[str, str], int] = field(default_factory=dict)
    repeated: int = 0
    repeated_example: str = ""

    @classmethod
    def of(cls, out: str, counts: Counts, **more: Any) -> RunResult:
        """The result with these counts."""
        ids = f"{counts.ids:016x}"
        return cls(out, counts.rows, counts.tokens, counts.status, counts.errors, ids, **more)


def tag_files(
    model: str | os.PathLike[str] | Tagger,
    inputs: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    rules: Iterable[Rule | str] = (),
    format: str | None = None,
    options: Mapping[str, Any] | None = None,
    to: str | None = None,
    resume: bool = True,
    shard_size: ShardSize | None = None,
    memory: int = MEMORY,
    threads: int = 0,
    on_error: OnError = "row",
    progress: Callable[[Progress], None] | None = None,
    **decoder: Any,
) -> RunResult:
    """Label the sequences of files with a model, optionally under rules; go on where an earlier call was stopped.

    With `resume`, the output is a folder of shards with a manifest. If the process is killed, the same call goes on
    after the last finished shard; no row is lost or doubled. Ids are strings in shards. A row without an id gets its
    number in the run, from 0, even if another row has that as its id.

    Parameters
    ----------
    model : path or Tagger
        The model.
    inputs : path or list of paths
        Files, folders, or patterns such as ``"data/*.jsonl"``.
    out : path
        A folder, which is made if it does not exist; without `resume` also a file.
    rules : list of Rule or str, optional
        Rules to obey.
    format : str, optional
        Format of the input, one of `bridle.data.formats`; by default by its suffix or its first lines.
    options : dict, optional
        Options of the format.
    to : {"parquet", "arrow", "jsonl", "conll"}, optional
        Format of the output; by default that of the name `out`, or of the input, or Parquet.
    resume : bool, default True
        Whether to begin a run that can be resumed, or to go on with one. False writes one file, or shards into a new
        folder if `out` ends with a slash or is a folder.
    shard_size : ShardSize, optional
        When a shard is full; by default at 256 MB before compression. It ends with the block of up to 4096 rows that
        reaches this size.
    memory : int, default 1 GB
        Bytes for rows under way, besides the model.
    threads : int, default 0
        Threads that tag; 0 uses all processors.
    on_error : {"row", "raise"}, default "row"
        Whether a row that cannot be tagged is written with the status "error" and its message, or stops the run.
    progress : callable, optional
        Called with a `Progress` after each block of rows, and at least four times a second.
    **decoder
        Options of `Decoder`, such as ``time_limit``. ``on_infeasible`` is ``"relax"`` by default.

    Returns
    -------
    RunResult

    Raises
    ------
    FileError
        If a file cannot be read or written, or `out` holds a run with another model, other rules, options or inputs.
        What is finished stays; call it again to go on.

    Examples
    --------
    >>> import bridle, pathlib, tempfile
    >>> from bridle.bulk import tag_files
    >>> model = bridle.CRF(features="word[0]", c2=1.0).fit([["Ann", "left"]] * 2, [["PER", "O"]] * 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "x.jsonl")
    ...     _ = path.write_text('{"id": "a", "tokens": ["Ann", "left"]}\\n{"id": "b", "tokens": ["we"]}\\n')
    ...     run = tag_files(model, path, pathlib.Path(folder, "tagged"), to="jsonl")
    ...     print(run.rows, run.tokens, dict(run.status))
    ...     print(tag_files(model, path, pathlib.Path(folder, "tagged"), to="jsonl").state)
    2 3 {'optimal': 2}
    nothing to do
    """
    tagger = model if isinstance(model, Tagger) else bridle.models.load(os.fspath(model))
    named = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    paths = files(named)
    place, asked = os.fspath(out), dict(options or {})
    formats = {path: format or format_of(path) for path in paths}
    to = to or format_by_name(place) or next((one for one in formats.values() if one in SUFFIXES), "parquet")
    if resume or is_folder(place):
        check_places(named, place, f"part-00000.{to}")
    job = Job(tagger, list(rules), paths, lambda path: (formats[path], asked), place, to, decoder, on_error)
    return run(job, resume=resume, shard_size=shard_size, memory=memory, threads=threads, progress=progress)


def run(
    job: Job,
    *,
    resume: bool,
    shard_size: ShardSize | None = None,
    memory: int = MEMORY,
    threads: int = 0,
    progress: Callable[[Progress], None] | None = None,
    on_stop: OnStop | None = None,
) -> RunResult:
    """Do a job; see `tag_files`. If it fails, `on_stop` is called with what is left."""
    with job.open(resume=resume, shard_size=shard_size or ShardSize()) as under_way:
        sink, before = under_way.sink, under_way.before
        facts: dict[str, Any] = {"rows_before": before.rows, "tokens_before": before.tokens, "state": "nothing to do"}
        if not under_way.is_finished:
            under_way.do(memory=memory, threads=threads, tell=progress or (lambda _: None), on_stop=on_stop)
            facts |= {"seconds": time.monotonic() - under_way.begun, "state": "finished"}
            facts |= {"left_out": dict(under_way.left_out)}
            facts |= {"repeated": under_way.repeated.count, "repeated_example": under_way.repeated.example}
        return RunResult.of(job.out, sink.counts, shards=sink.shards, **facts)


def check(folder: str | os.PathLike[str]) -> RunResult:
    """Check that the shards of a finished run are what its manifest says.

    All shards are read: their rows are counted, and the checksum of their ids is computed again.

    Parameters
    ----------
    folder : path
        What `tag_files` or ``bridle tag -o FOLDER/`` wrote.

    Returns
    -------
    RunResult
        What the run has written.

    Raises
    ------
    FileError
        If the run has not finished; if a shard is missing, or has other rows than the manifest says.
    """
    record, where = read(folder), os.fspath(folder)
    check_files(Path(folder), record)
    if record.finished is None:
        got, wanted = f"{len(record.shards)} shards", "a run that has finished"
        raise FileError("the run has not finished", got=got, wanted=wanted, cause="Resume it.", where=where)
    format = str(record.head["options"]["to"])
    for shard in record.shards:
        path = str(Path(folder) / shard.name)
        rows, ids = 0, 0
        for block in reader_for(format, on_error="row").blocks(path):  # failed rows have no tokens
            rows += len(block.batch)
            ids += checksum(block.batch.column("id")) if format != "conll" else 0
        if rows != shard.counts.rows or (format != "conll" and ids % 2**64 != shard.counts.ids):
            got = f"{rows:,} rows, checksum {ids % 2**64:016x}"
            wanted = f"{shard.counts.rows:,} rows, checksum {shard.counts.ids:016x}"
            raise FileError("a shard has other rows than the manifest says", got=got, wanted=wanted, where=path)
    return RunResult.of(where, record.counts, shards=len(record.shards))


def format_by_name(out: str) -> str | None:
    """The format that the name of a file or a folder asks for, such as tagged.parquet/; None if it does not."""
    name = out.rstrip("/" + os.sep)
    with suppress(FileError):  # several formats share the suffix
        return format_guessed(name) if Path(name).suffix else None
    return None
