"""A job: what a run is asked for, and how it is done.

blocks of the inputs -> Tag, in several threads -> one file, or shards
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bridle.arrow import Tag
from bridle.bulk.base import Block, OnError
from bridle.bulk.batches import arrow
from bridle.bulk.formats import SUFFIXES
from bridle.bulk.inputs import is_saved, reader_at
from bridle.bulk.pipeline import Pipeline, Stopped
from bridle.bulk.progress import Meter, Progress
from bridle.bulk.rows import Repeated, conformed, for_model, no_rows, with_columns, with_errors, written
from bridle.bulk.shards import Folder, OneFile, ShardSize
from bridle.data import Pace, read
from bridle.decoding.threads import thread_count
from bridle.errors import Argument, BridleError, FileError, shown
from bridle.models import Tagger

MEMORY = 10**9  # bytes
_WEIGHT = 12  # bytes that a byte of input needs on its way: features, scores, output
_LARGEST = 1 << 22  # bytes of a block
_ROWS = 4096  # of a block

FormatOf = Callable[[str], tuple[str, Mapping[str, Any]]]  # the format of a file, and its options
OnStop = Callable[[Folder | OneFile], None]
Facts = dict[str, Any]  # of an input: path, size, time of its last change


class Piece(NamedTuple):
    """A block of one of the inputs."""

    file: int
    block: Block


@dataclass(frozen=True)
class Job:
    """What a run is asked for, apart from what changes none of its rows."""

    tagger: Tagger
    rules: Sequence[Any]
    inputs: Sequence[str]
    format_of: FormatOf
    out: str
    to: str  # the format of the output
    decoder: Mapping[str, Any]  # options of `Decoder`
    on_error: OnError = "row"

    def __post_init__(self) -> None:
        if self.to not in SUFFIXES:
            wanted = "one of " + ", ".join(SUFFIXES)
            raise FileError("the output cannot have this format", got=shown(self.to), wanted=wanted)
        if self.on_error not in ("row", "raise"):
            argument = Argument("on_error", self.on_error)
            raise FileError(
                "unknown {argument}", got=shown(self.on_error), wanted="'row' or 'raise'", argument=argument
            )

    def open(self, *, resume: bool, shard_size: ShardSize) -> Run:
        """Look at inputs and output, and begin or go on; close it in any case."""
        facts = [_facts(path) for path in self.inputs]
        found = self.first_schema() or arrow().schema([("tokens", arrow().list_(arrow().string()))])
        columns = self._columns(found)
        tag = Tag(self.tagger, self.rules, columns=columns, on_error=self.on_error, **self.decoder)
        # the schema of tagged rows: that of the first block, also when a run goes on
        schema = written(tag.schema(for_model(no_rows(found)).schema), self.to)
        if resume or is_folder(self.out):
            return Run(
                self,
                facts,
                tag,
                schema,
                Folder(self.out, self.to, self._head(facts), shard_size, resume=resume),
            )
        if self.on_error == "raise":  # then nothing else refuses long tokens in one file
            tag.longest = sys.maxsize
        return Run(self, facts, tag, schema, OneFile(self.out, self.to, schema))

    def blocks(self, file: int, start: int, rows: int = _ROWS, size: int = _LARGEST) -> Iterator[Block]:
        """Blocks of an input that have rows."""
        path = self.inputs[file]
        format, options = self.format_of(path)
        for block in reader_at(path, format, options, self.on_error).blocks(path, start, rows=rows, size=size):
            if len(block.batch):
                yield block

    def first_schema(self) -> Any:
        """The schema of the first block; None if there are no rows."""
        for file in range(len(self.inputs)):
            for block in self.blocks(file, 0):
                return block.batch.schema
        return None

    def _columns(self, schema: Any) -> dict[str, str] | None:
        """Which column of the model the tokens are, if `Tag` cannot tell: the first column of the input."""
        used = getattr(self.tagger.features_, "sources", ())
        known = self.tagger.notes_.get("columns")
        main = str(known[0]) if isinstance(known, list) and known else ""
        own = self._first_name()
        if own in used:
            return {own: "tokens"}
        return {main: "tokens"} if main in used and main not in schema.names else None

    def _first_name(self) -> str:
        """The name of the first column, in the first input; "" if it cannot be told."""
        path = self.inputs[0]
        format, options = self.format_of(path)
        with suppress(FileError), closing(read(path, format, **options)) as examples:
            return next((name for example in examples for name in example.columns), "")
        return ""

    def _head(self, facts: list[Facts]) -> dict[str, Any]:
        rules = "\n".join(map(repr, self.rules))  # with the phrases of lists, which a sentence names by their file
        reading = [list(self.format_of(path)) for path in self.inputs]
        options = {"to": self.to, "on_error": self.on_error, **self.decoder, "formats": _once(reading)}
        head = {
            "bridle": str(getattr(sys.modules.get("bridle"), "__version__", "?")),
            "model": self.tagger.fingerprint_,
            "rules": hashlib.sha256(rules.encode()).hexdigest()[:16] if self.rules else "none",
            "options": options,
            "inputs": facts,
        }
        return dict(json.loads(json.dumps(head)))  # as it is read again: a tuple is a list then


class Run:
    """A job under way; a context manager."""

    def __init__(self, job: Job, facts: list[Facts], tag: Tag, schema: Any, sink: Folder | OneFile) -> None:
        self.job, self.facts, self.tag, self.schema, self.sink = job, facts, tag, schema, sink
        self.before = sink.counts  # what earlier calls have written
        self.begun = time.monotonic()
        self.repeated = Repeated(job.inputs)
        self.left_out = Counter[tuple[str, str]]()  # what the readers skipped, by file and name

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.sink.close()

    @property
    def is_finished(self) -> bool:
        """Has an earlier call finished it?"""
        return isinstance(self.sink, Folder) and self.sink.manifest.record.finished is not None

    def do(self, *, memory: int, threads: int, tell: Callable[[Progress], None], on_stop: OnStop | None = None) -> None:
        """Read, tag and write what is not written yet. If that fails, `on_stop` is called with what is left."""
        meter = Meter([fact["size"] for fact in self.facts], time.monotonic, self.before)
        try:
            for piece, batch in self._tagged(memory, thread_count(threads), lambda: tell(self._progress(meter))):
                self.repeated.note(batch, piece.file)
                for what, count in piece.block.left_out.items():
                    self.left_out[self.job.inputs[piece.file], what] += count
                self.sink.write(batch, (piece.file, piece.block.end))
                meter.reached(piece.file, piece.block.share)
            self.sink.finish(time.monotonic() - self.begun)
        except BaseException as error:
            self.sink.stop()
            if on_stop is not None:
                on_stop(self.sink)
            if isinstance(self.sink, Folder):
                error.add_note(
                    f"{self.sink.shards} finished shards are kept in {self.job.out}; call it again to go on."
                )
            raise
        meter.share = 1.0
        tell(self._progress(meter))

    def _progress(self, meter: Meter) -> Progress:
        return meter.progress(self.sink.counts, self.sink.shards)

    def _tagged(self, memory: int, threads: int, tick: Callable[[], None]) -> Iterator[tuple[Piece, Any]]:
        """Tagged blocks, in order."""
        size = max(1 << 16, min(_LARGEST, memory // (_WEIGHT * (2 * threads + 2))))
        rows = _ROWS
        if isinstance(self.sink, Folder):
            rows, size = min(rows, self.sink.size.rows), min(size, self.sink.size.bytes)
        with Pipeline(
            self._pieces(rows, size),
            _Tagging(self.tag, self.schema, self.job.inputs),
            lambda piece: _WEIGHT * int(piece.block.batch.nbytes),
            threads=threads,
            memory=memory,
        ) as pipeline:
            try:
                for found in pipeline:
                    if found is not None:
                        piece, batch = found
                        yield piece, conformed(batch, self.schema, self.job.to, self.job.inputs[piece.file])
                    tick()
            except BridleError as error:
                if error.sequence is not None:  # a row of a block; all blocks before it are written
                    error.sequence += self.sink.counts.rows
                raise

    def _pieces(self, rows: int, size: int) -> Iterator[Piece]:
        """Blocks that are not written yet. An input that was changed meanwhile ends the run."""
        first, start = self.sink.begin
        for file in range(first, len(self.job.inputs)):
            for block in self.job.blocks(file, start if file == first else 0, rows, size):
                yield Piece(file, block)
            now, before = _facts(self.job.inputs[file]), self.facts[file]
            if now != before:
                raise FileError(
                    "the input was changed while it was read",
                    got=f"{now['size']:,} bytes",
                    wanted=f"the file of {before['size']:,} bytes that was there at first",
                    where=self.job.inputs[file],
                )


class _Tagging:
    """Tags blocks, in slices that take about half a second, so that a stop does not wait longer."""

    def __init__(self, tag: Tag, schema: Any, inputs: Sequence[str]) -> None:
        self.tag, self.schema, self.inputs = tag, schema, inputs
        self.pace = Pace(sequences=1, most=_ROWS)  # a row may take long

    def __call__(self, piece: Piece, stop: threading.Event) -> Any:
        batch, done, at = with_columns(for_model(piece.block.batch), self.schema), [], 0
        while at < len(batch):
            if stop.is_set():
                raise Stopped
            part, begun = batch.slice(at, self.pace.sequences), time.perf_counter()
            try:
                done.append(self.tag(part))
            except BridleError as error:
                error.at(where=self.inputs[piece.file])
                if error.sequence is not None:
                    error.sequence += at
                raise
            at += len(part)
            self.pace.took(time.perf_counter() - begun)
        made = done[0] if len(done) == 1 else arrow().Table.from_batches(done).combine_chunks().to_batches()[0]
        return with_errors(made, piece.block.errors)


def is_folder(out: str) -> bool:
    """Does a name ask for a folder of shards?"""
    return out.endswith(("/", os.sep)) or Path(out).is_dir()


def _facts(path: str) -> Facts:
    """Facts about an input that change if it is written again."""
    try:
        if is_saved(path):
            found = [one.stat() for one in Path(path).rglob("*")]
        elif not stat.S_ISREG((status := Path(path).stat()).st_mode):
            raise no_file(path)
        else:
            found = [status]
    except (OSError, ValueError) as error:
        got = getattr(error, "strerror", None) or error
        raise FileError("cannot read this file", got=got, wanted="a readable file", where=path) from None
    size, changed = sum(one.st_size for one in found), max(one.st_mtime_ns for one in found)
    return {"path": str(Path(path).absolute()), "size": size, "mtime_ns": changed}


def no_file(path: str) -> FileError:
    """The error for an input that cannot be read twice: looking at its first rows would lose them."""
    got, wanted = "standard input" if path == "-" else "a pipe or a device", "files, which can be read again"
    return FileError("a run needs files to read", got=got, wanted=wanted, where=None if path == "-" else path)


def _once(values: list[Any]) -> list[Any]:
    """Values without repetitions: all files mostly have the same format."""
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found
