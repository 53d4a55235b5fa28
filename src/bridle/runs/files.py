"""Label files: `tag_files` writes shards or one file, `check` reads shards again.

A shard is written beside its place, flushed to the disk, renamed, and then noted in the manifest. Whatever ends the
process in between, the manifest says what is finished.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BufferedWriter
from pathlib import Path
from typing import IO, Any, Literal, cast

import numpy as np

from bridle.atomic import Replacement
from bridle.data.base import Format, format_named
from bridle.data.blocks import ROWS, Pace
from bridle.data.detection import format_guessed
from bridle.data.files import check_places, files, opened
from bridle.data.huggingface import is_saved
from bridle.data.output import Lines, deferred_interrupt
from bridle.data.parquet import Parquet
from bridle.errors import Argument, FileError, shown
from bridle.models import Tagger, load
from bridle.rules.base import Rule
from bridle.runs.counts import Counts, RunResult, compare, text_sum
from bridle.runs.manifest import Manifest, Place, Record, Shard, head_of, read
from bridle.runs.run import MEMORY, OnError, Progress, Run, Written
from bridle.tagging.arrow import Layout
from bridle.tagging.block import TEXT, Ids
from bridle.tagging.figures import figures_of

SUFFIXES = {"parquet": ".parquet", "arrow": ".arrow", "jsonl": ".jsonl", "conll": ".conll"}  # of shards
_PART = re.compile(r"part-\d{5,}\.\w+\.\d+-[0-9a-f]{6}-[0-9a-f]{8}\.part")  # as `bridle.atomic` names them


# ---- one file -------------------------------------------------------------------------------------------------------


def write_one(run: Run, path: str | None, format: Format, *, warn: Any = None, show: Any = None) -> None:
    """Write what a run yields into one file, or to standard output (None): line by line, where the format can."""
    if isinstance(format, Parquet) and format.names is None:
        with _TableFile(path, format, Layout(figures=run.figures) if run.figures else None) as table:
            for rows in run:
                table.write(rows)
    elif format.streams:
        with Lines(path, warn, show) as lines:
            for rows in run:
                lines.put(format.encode(rows.block, rows.outcomes, rows.n))
    else:
        format.save(path, (example for rows in run for example in format.labelled(rows.block, rows.outcomes, rows.n)))


class _Bytes(BufferedWriter):
    """A file for a table. Once it is given up, nothing is written any more, so that its writer can be closed."""

    given_up = False

    def write(self, data: Any) -> int:
        """Write some bytes."""
        return memoryview(data).nbytes if self.given_up else super().write(data)


class _TableFile:
    """A file of a table, or standard output (None), while it is written; half of it is of no use."""

    def __init__(self, path: str | None, format: Parquet, layout: Layout | None, schema: Any = None) -> None:
        self.place = None if path is None else Replacement(path)
        self._flush_to: Literal["cache", "disk"] = "cache" if layout is None else "disk"
        self._file = _Bytes(self.place.raw) if self.place is not None else sys.stdout.buffer
        self.table = format.table_writer(cast(IO[bytes], self._file), layout, schema)
        self.size = 0  # bytes of its columns

    def __enter__(self) -> _TableFile:
        return self

    def write(self, rows: Written) -> None:
        """Add rows."""
        try:
            self.size += self.table.write(rows.block, rows.outcomes, rows.n)
        except OSError as error:
            raise (error if self.place is None else self.place.failed(error)) from None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.discard()
            return
        try:
            self.table.close()
            self._file.flush()
        except OSError as error:
            self.discard()
            raise (error if self.place is None else self.place.failed(error)) from None
        except BaseException:
            self.discard()
            raise
        if self.place is not None:
            self.place.finish(self._flush_to)

    def discard(self) -> None:
        """Leave nothing of it."""
        if isinstance(self._file, _Bytes):
            self._file.given_up = True
        with suppress(Exception):  # whatever ended the work is reported, not this
            self.table.close()
        if self.place is not None:
            self.place.discard()


# ---- shards ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShardSize:
    """When a shard is full: at the end of the block that reaches one of both."""

    rows: int = 1 << 62
    bytes: int = 256 * 10**6  # of its columns in memory

    def __post_init__(self) -> None:
        for name in ("rows", "bytes"):
            if not isinstance(value := getattr(self, name), int) or value < 1:
                raise FileError(f"a shard cannot have so many {name}", got=shown(value), wanted="at least 1")


class Shards:
    """A folder of shards part-00000, part-00001, ... with a manifest; `begin` is where to go on."""

    def __init__(
        self, path: str, format: Format, layout: Layout, head: dict[str, Any], size: ShardSize, *, resume: bool
    ) -> None:
        self.path, self.format, self.layout, self.size = Path(path), format, layout, size
        self.manifest = Manifest(self.path, head, resume=resume)
        self.counts = self.manifest.record.counts
        self._file: Any = None
        self._written = Counts()  # of the shard that is being written
        self._bytes = 0
        self._columns: list[str] | None = None
        self._schema: Any = None  # of tables: all shards have the columns of the first one
        try:
            check_files(self.path, self.manifest.record)
            if self.count and isinstance(format, Parquet):
                self._schema = format.schema_of(self.path / self.manifest.record.shards[0].name)
            if self.manifest.record.finished is None:
                self._sweep()
        except BaseException:
            self.manifest.close()
            raise

    @property
    def begin(self) -> Place:
        """Place where the next shard begins."""
        return self.manifest.record.end

    @property
    def count(self) -> int:
        """The number of finished shards."""
        return len(self.manifest.record.shards)

    @property
    def _next(self) -> Path:
        return self.path / f"part-{self.count:05}{SUFFIXES[self.format.name]}"

    def write(self, rows: Written) -> None:
        """Add rows; a shard that is full is finished. Ids are text there."""
        if rows.n < len(rows.block):  # an error comes next; the manifest could only say where the whole block ends
            return
        if rows.block.ids is not None:
            ids = Ids.packed(rows.block.ids)
            ids = Ids(ids.texts, np.full(len(ids), TEXT, np.uint8))
            rows = replace(rows, block=replace(rows.block, ids=ids))
        columns = [*rows.block.columns, *(() if rows.block.gold is None else (":gold",))]
        if self._file is not None and self.format.name == "conll" and columns != self._columns:
            self._commit()  # all lines of a file have the same columns
        if self._file is None:
            self._columns = columns
            with deferred_interrupt():  # between the file's creation and its assignment, nothing would remove it
                if isinstance(self.format, Parquet):
                    self._file = _TableFile(str(self._next), self.format, self.layout, self._schema)
                else:
                    self._file = Lines(str(self._next), flush_to="disk")
        if isinstance(self._file, _TableFile):
            self._file.write(rows)
            self._bytes = self._file.size
        else:
            data = self.format.encode_rows(rows.block, rows.outcomes, rows.n, self.layout)
            self._file.put(data)
            self._bytes += len(data)
        self._written += rows.counts
        self._end = rows.end
        if self._written.rows >= self.size.rows or self._bytes >= self.size.bytes:
            self._commit()

    def finish(self, seconds: float) -> None:
        """Write what is left, and note that the run has finished."""
        if self._file is not None:
            self._commit()
        self.manifest.finish(seconds)

    def stop(self) -> None:
        """Leave finished shards, and nothing of an unfinished one; nothing at all if none is finished."""
        if self._file is not None:
            (self._file if isinstance(self._file, _TableFile) else self._file.file).discard()
            self._file = None
        self._next.unlink(missing_ok=True)  # it could not be noted
        if not self.count:
            self.manifest.withdraw()

    def _commit(self) -> None:
        path = self._next
        with deferred_interrupt():
            self._file.__exit__(None, None, None)
            counts = replace(self._written, bytes=path.stat().st_size)
            self.manifest.add(Shard(path.name, self.begin, self._end, counts))
        if isinstance(self._file, _TableFile):
            self._schema = self._file.table.schema
        self.counts += counts
        self._file, self._written, self._bytes = None, Counts(), 0

    def _sweep(self) -> None:
        """Remove what a killed process left: the next shard, if it was not noted, and parts of shards."""
        self._next.unlink(missing_ok=True)
        if self.manifest.is_locked:  # so no other run is writing them
            for path in self.path.iterdir():
                if _PART.fullmatch(path.name):
                    path.unlink(missing_ok=True)


def check_files(folder: Path, record: Record) -> None:
    """Raise if a shard of a manifest is missing or has another size."""
    for shard in record.shards:
        path = folder / shard.name
        size = path.stat().st_size if path.is_file() else None
        if size != shard.counts.bytes:
            raise FileError(
                "a shard is not what the run has written",
                got="no file" if size is None else f"{size:,} bytes",
                wanted=f"{shard.counts.bytes:,} bytes",
                where=str(path),
                cause="Was it changed or removed? Start again in a new folder.",
            )


def write_shards(
    run: Run,
    out: str,
    format: Format,
    *,
    options: Mapping[str, Any],
    resume: bool,
    size: ShardSize | None = None,
    on_stop: Callable[[Shards], None] | None = None,
) -> RunResult:
    """Write what a run yields into a folder of shards, or go on with one.

    options: all that changes rows of the result, besides the model and the rules; another call must have the same.
    on_stop: called with the shards if an error or Ctrl-C ends it, and some are finished.
    """
    inputs = [{"path": path, "size": length, "mtime_ns": changed} for path, length, changed in run.facts]
    head = head_of(
        run.tagger.fingerprint_, run.decoder.rules, {**options, "to": format.name, "on_error": run.on_error}, inputs
    )
    shards = Shards(out, format, Layout(figures=run.figures), head, size or ShardSize(), resume=resume)
    run.begin, run.before, run.counts, run.ids = shards.begin, shards.counts, shards.counts, "number"
    run.shards = lambda: shards.count
    run.pace.most = min(run.pace.most, shards.size.rows)
    before, begun = shards.counts, time.monotonic()
    facts: dict[str, Any] = {"rows_before": before.rows, "tokens_before": before.tokens, "state": "nothing to do"}
    try:
        if shards.manifest.record.finished is None:
            try:
                for rows in run:
                    shards.write(rows)
                shards.finish(time.monotonic() - begun)
            except BaseException as error:
                shards.stop()
                if shards.count:
                    if on_stop is not None:
                        on_stop(shards)
                    error.add_note(f"{shards.count} finished shards are kept in {out}; call it again to go on.")
                raise
            facts |= {"seconds": time.monotonic() - begun, "state": "finished", "left_out": dict(run.left_out)}
            facts |= {"repeated": run.repeated, "repeated_example": run.repeated_example}
        return RunResult.of(out, shards.counts, shards=shards.count, **facts)
    finally:
        shards.manifest.close()


def is_folder(out: str) -> bool:
    """Check whether a name asks for a folder of shards."""
    return out != "-" and (out.endswith(("/", os.sep)) or Path(out).is_dir())


def format_by_name(out: str) -> str | None:
    """The format that the name of a file or a folder asks for, such as tagged.parquet/; None if it does not."""
    name = out.rstrip("/" + os.sep)
    with suppress(FileError):  # several formats share the suffix
        return format_guessed(name) if Path(name).suffix else None
    return None


def shard_format(to: str | None, out: str, run: Run) -> Format:
    """The format of shards: what is asked for, what the name of the folder says, that of the first input, or Parquet.

    Raises `FileError` if an input cannot be read again after a stop.
    """
    for path, size, _ in run.facts:
        if path == "-" or (not size and not Path(path).is_file() and not is_saved(path)):
            got, wanted = "standard input" if path == "-" else "a pipe or a device", "files, which can be read again"
            raise FileError("a run needs files to read", got=got, wanted=wanted, where=None if path == "-" else path)
    name = "jsonl" if to == "json" else to or format_by_name(out)
    if name is None:
        name = known if (known := run.first_format().name) in SUFFIXES else "parquet"
    if name not in SUFFIXES:
        wanted = "one of " + ", ".join(SUFFIXES)
        raise FileError("the output cannot have this format", got=shown(name), wanted=wanted)
    return format_named(name, {})


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
    scores: bool = False,
    k: int = 1,
    memory: int = MEMORY,
    threads: int = 0,
    on_error: OnError = "row",
    progress: Callable[[Progress], None] | None = None,
    **decoder: Any,
) -> RunResult:
    """Label the sequences of files with a model, optionally under rules; go on where an earlier call was stopped.

    With `resume`, the output is a folder of shards with a manifest. If the process is killed, the same call goes on
    after the last finished shard; no row is lost or doubled. A row without an id gets its number in the run, from 0,
    even if another row has that as its id.

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
    to : str, optional
        Format of the output; by default that of the name `out`, or of the input, or Parquet. Shards are ``"parquet"``,
        ``"arrow"``, ``"jsonl"`` or ``"conll"``.
    resume : bool, default True
        Whether to begin a run that can be resumed, or to go on with one. False writes one file, or shards into a new
        folder if `out` ends with a slash or is a folder.
    shard_size : ShardSize, optional
        When a shard is full; by default at 256 MB before compression. It ends with the block of up to 2048 rows that
        reaches this size.
    scores : bool, default False
        Whether to add score, bound and probabilities, as `bridle.arrow.Tag` does.
    k : int, default 1
        If it is above 1, add the k best labellings.
    memory : int, default 1 GB
        Bytes for rows under way, besides the model.
    threads : int, default 0
        Threads that label; 0 uses all processors.
    on_error : {"row", "raise"}, default "row"
        Whether a row that cannot be labelled is written with the status "error" and its message, or stops the run.
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
    if on_error not in ("row", "raise"):
        argument = Argument("on_error", on_error)
        raise FileError("unknown {argument}", got=shown(on_error), wanted="'row' or 'raise'", argument=argument)
    tagger = model if isinstance(model, Tagger) else load(os.fspath(model))
    named = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    place, reading_options = os.fspath(out), dict(options or {})
    settings = {"on_infeasible": "relax", **decoder}
    run = Run(
        tagger,
        tagger.decoder(rules, **settings),
        files(named),
        lambda path: opened(path, format, reading_options),
        figures_of(scores=scores, k=k > 1),
        k,
        on_error=on_error,
        threads=threads,
        memory=memory,
        progress=progress,
    )
    if resume or is_folder(place):
        shape = shard_format(to, place, run)
        check_places(named, place, f"part-00000.{shape.name}")
        reading = {"format": format, "options": reading_options, "scores": scores, "k": k, **settings}
        return write_shards(run, place, shape, options=reading, resume=resume, size=shard_size)
    begun, name = time.monotonic(), to or format_by_name(place) or run.first_format().name
    write_one(run, place, format_named(name, {}))
    return RunResult.of(place, run.counts, seconds=time.monotonic() - begun, left_out=dict(run.left_out))


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
    name = str(record.head["options"]["to"])
    for shard in record.shards:
        path = str(Path(folder) / shard.name)
        source, format = opened(path, name, {})
        counts = Counts()
        try:
            for block in format.blocks(source, 0, Pace(ROWS)):
                ids = 0
                if block.ids is not None and name != "conll":
                    ids = text_sum(Ids.packed(block.ids).known_texts(len(block)))
                counts += Counts(len(block), ids=ids)
        finally:
            source.close()
        wanted_ids = 0 if name == "conll" else shard.counts.ids
        compare(counts, replace(shard.counts, ids=wanted_ids), path, "a shard has other rows than the manifest says")
    return RunResult.of(where, record.counts, shards=len(record.shards))
