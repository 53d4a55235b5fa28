"""Where the rows of a run go: one file, or a folder of shards with a manifest.

A shard is written beside its place, flushed to the disk, renamed, and then noted in the manifest. Whatever ends the
process in between, the manifest says what is finished.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BufferedWriter
from pathlib import Path
from typing import Any, Literal

from bridle.atomic import Replacement
from bridle.bulk.base import COMMENTS, Writer
from bridle.bulk.batches import arrow
from bridle.bulk.formats import SUFFIXES
from bridle.bulk.manifest import Counts, Manifest, Place, Record, Shard
from bridle.bulk.rows import LINES, counted, for_file, for_shards, no_rows, with_ids
from bridle.bulk.writers import compression_of, writer_of
from bridle.errors import FileError, shown

ROWS = 1 << 62  # no limit
SIZE = 256 * 10**6  # bytes of a shard before compression
_PART = re.compile(r"part-\d{5,}\.\w+\.\d+-[0-9a-f]{6}-[0-9a-f]{8}\.part")  # as `bridle.atomic` names them


@dataclass(frozen=True, slots=True)
class ShardSize:
    """When a shard is full: at the end of the block that reaches one of both."""

    rows: int = ROWS
    bytes: int = SIZE  # of its columns in memory

    def __post_init__(self) -> None:
        for name in ("rows", "bytes"):
            if not isinstance(value := getattr(self, name), int) or value < 1:
                raise FileError(f"a shard cannot have so many {name}", got=shown(value), wanted="at least 1")


class _Bytes(BufferedWriter):
    """A file for a writer. Once it is given up, nothing is written any more, so that the writer can be closed."""

    given_up = False

    def write(self, data: Any) -> int:
        """Write some bytes."""
        return memoryview(data).nbytes if self.given_up else super().write(data)


class _Open:
    """A file that is being written."""

    def __init__(self, path: Path, format: str) -> None:
        self.format = format
        self.made = Replacement(path)
        self.file = _Bytes(self.made.raw)
        packed = compression_of(path.name) if format in LINES else None
        self.has_lines = format in LINES and packed is None  # of any use without its end?
        self.writer: Writer = writer_of(format, self.file, compression=packed)
        self.columns: list[str] | None = None  # of the first batch
        self.size = 0  # bytes of the batches
        self.whole = 0  # bytes of the file after the last batch that was written as a whole

    def takes(self, batch: Any) -> bool:
        """Can a batch go into this file? All lines of a `conll` file must have the same columns."""
        return self.format != "conll" or self.columns in (None, _columns_of(batch))

    def write(self, batch: Any) -> None:
        """Add rows."""
        self._try(self.writer.write, batch)
        self.columns = self.columns or _columns_of(batch)
        self.size += batch.nbytes
        if self.has_lines:
            self._try(self.file.flush)
            self.whole = self.made.raw.tell() if self.made.part is not None else 0

    def finish(self, flush_to: Literal["cache", "disk"], none: Any = None) -> int:
        """Give it its name; its size in bytes. none: a batch without rows, which tells the columns of an empty file."""
        if self.columns is None:
            self.write(none)
        self._try(self.writer.close)
        self._try(self.file.flush)
        size = self.made.raw.tell() if self.made.part is not None else 0
        self.made.finish(flush_to)
        return size

    def _try(self, call: Callable[..., None], *args: Any) -> None:
        try:
            call(*args)
        except OSError as error:
            raise self.made.failed(error) from None
        except arrow().ArrowException as error:
            raise FileError("cannot write this file", got=str(error)[:200], where=str(self.made.path)) from None

    def keep(self) -> Path | None:
        """Leave the batches that were written as a whole as FILE.part."""
        self._give_up()
        try:
            if self.made.part is not None:
                self.made.raw.truncate(self.whole)
            return self.made.keep()
        except OSError:  # the error that ended the work matters more
            self.discard()
            return None

    def discard(self) -> None:
        """Leave nothing behind."""
        self._give_up()
        self.made.discard()

    def _give_up(self) -> None:
        self.file.given_up = True
        with suppress(Exception):  # whatever ended the work is told, not this
            self.writer.close()


class OneFile:
    """All rows in one file, which gets its name at the end."""

    begin: Place = (0, 0)

    def __init__(self, path: str, format: str, schema: Any) -> None:
        self.format, self.schema, self.counts = format, schema, Counts()
        self.kept: Path | None = None  # where the rows are if the work did not end
        self._file = _Open(Path(path), format)

    shards = 0

    def write(self, batch: Any, end: Place) -> None:
        """Add tagged rows."""
        self._file.write(for_file(batch, self.format))
        self.counts += counted(batch)

    def finish(self, seconds: float) -> None:
        """Give it its name."""
        self._file.finish("cache", for_file(no_rows(self.schema), self.format))

    def stop(self) -> None:
        """The run ended with an error: complete lines are kept as FILE.part; half a table is of no use."""
        if self._file.has_lines and self.counts.rows:
            self.kept = self._file.keep()
        else:
            self._file.discard()

    def close(self) -> None:
        """Nothing is left to do."""


class Folder:
    """Rows in shards part-00000, part-00001, ... with a manifest; `begin` is where to go on."""

    def __init__(self, path: str, format: str, head: dict[str, Any], size: ShardSize, *, resume: bool) -> None:
        self.path, self.format, self.size = Path(path), format, size
        self.manifest = Manifest(self.path, head, resume=resume)
        self._file: _Open | None = None
        self._counts = Counts()  # of the shard that is being written
        try:
            check_files(self.path, self.manifest.record)
            self._sweep()
        except BaseException:
            self.close()
            raise

    @property
    def begin(self) -> Place:
        """Where the next shard begins."""
        return self.manifest.record.end

    @property
    def counts(self) -> Counts:
        """Of all rows so far."""
        return self._before + self._counts

    @property
    def shards(self) -> int:
        """The number of finished shards."""
        return len(self.manifest.record.shards)

    @property
    def _next(self) -> Path:
        """The shard after the finished ones."""
        return self.path / f"part-{self.shards:05}{SUFFIXES[self.format]}"

    def write(self, batch: Any, end: Place) -> None:
        """Add tagged rows, which end at a place of the input."""
        batch = with_ids(batch, self.counts.rows)
        made = for_shards(batch, self.format)
        if self._file is not None and not self._file.takes(made):
            self._commit()
        if self._file is None:
            self._file = _Open(self._next, self.format)
        self._file.write(made)
        self._counts += counted(batch)
        self._end = end
        if self._counts.rows >= self.size.rows or self._file.size >= self.size.bytes:
            self._commit()

    def finish(self, seconds: float) -> None:
        """Write what is left, and note that the run has finished."""
        if self._file is not None:
            self._commit()
        self.manifest.finish(seconds)

    def stop(self) -> None:
        """The run ended with an error: finished shards stay."""
        if self._file is not None:
            self._file.discard()
            self._file = None

    def close(self) -> None:
        """Let others write."""
        self.manifest.close()

    def _commit(self) -> None:
        file = self._file
        assert file is not None
        size = file.finish("disk")
        name, counts = file.made.place.name, replace(self._counts, bytes=size)
        self.manifest.add(Shard(name, self.begin, self._end, counts))
        self._before += counts
        self._file, self._counts = None, Counts()

    def _sweep(self) -> None:
        """Remove what a killed process left: the next shard, if it was not noted, and parts of shards."""
        self._before = self.manifest.record.counts
        if self.manifest.record.finished is not None:
            return
        self._next.unlink(missing_ok=True)
        if self.manifest.is_locked:  # so nobody is writing them
            for path in self.path.iterdir():
                if _PART.fullmatch(path.name):
                    path.unlink(missing_ok=True)


def _columns_of(batch: Any) -> list[str]:
    """The names of the columns that each line has."""
    return [name for name in batch.schema.names if name != COMMENTS]


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
