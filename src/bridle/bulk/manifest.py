"""The manifest of a run: what it was asked for, and a line for each shard that is finished.

    {"bridle": "1.0", "model": "2c5d...", "rules": "77ab...", "options": {...}, "inputs": [{"path": ..., ...}]}
    {"shard": "part-00000.parquet", "rows": 5000, ..., "begin": [0, 0], "end": [0, 5000], "ids": "09c4...", ...}
    {"shard": "part-00001.parquet", ...}
    {"finished": {"shards": 2, "rows": 9000, ...}}

A line is added and flushed to the disk after its shard has its name. So a shard without a line is not part of the run,
and the last line says where to go on. A line that a killed process did not complete is cut off. While a run writes, it
holds a lock on the file, which ends with its process.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from bridle.errors import Argument, FileError, shown

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

NAME = "_manifest.jsonl"
TOLD = 3  # messages of failed rows that are kept
Place = tuple[int, int]  # the number of an input, and where a block of it ends


@dataclass(frozen=True, slots=True)
class Counts:
    """What some rows hold. Counts of different rows can be added."""

    rows: int = 0
    tokens: int = 0
    bytes: int = 0  # of the file
    ids: int = 0  # checksum of the ids, of any order: see `checksum`
    status: Mapping[str, int] = field(default_factory=dict)  # rows by status
    errors: tuple[str, ...] = ()  # the first messages of rows that failed

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.rows + other.rows,
            self.tokens + other.tokens,
            self.bytes + other.bytes,
            (self.ids + other.ids) % 2**64,
            dict(Counter(self.status) + Counter(other.status)),
            (*self.errors, *other.errors)[:TOLD],
        )

    def to_json(self) -> dict[str, Any]:
        """What the manifest holds."""
        return {**asdict(self), "ids": f"{self.ids:016x}", "status": dict(self.status), "errors": list(self.errors)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Counts:
        """The counts in a line of a manifest."""
        numbers = (int(record["rows"]), int(record["tokens"]), int(record["bytes"]), int(str(record["ids"]), 16))
        status = {str(name): int(count) for name, count in record["status"].items()}
        return cls(*numbers, status, tuple(map(str, record["errors"])))


@dataclass(frozen=True, slots=True)
class Shard:
    """A finished shard."""

    name: str  # of the file
    begin: Place
    end: Place  # where the next shard begins
    counts: Counts

    def to_json(self) -> dict[str, Any]:
        """A line of the manifest."""
        return {"shard": self.name, "begin": list(self.begin), "end": list(self.end), **self.counts.to_json()}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Shard:
        """The shard of a line."""
        begin, end = (tuple(map(int, record[key])) for key in ("begin", "end"))
        if len(begin) != 2 or len(end) != 2:
            raise ValueError("no place")
        return cls(str(record["shard"]), begin, end, Counts.from_json(record))


@dataclass(frozen=True)
class Record:
    """What a manifest says.

    Attributes
    ----------
    head : dict
        What the run was asked for; empty if the process was killed before it was written.
    shards : list of Shard
        In the order of the input.
    finished : dict or None
        Counts of the whole run, if it has finished.
    """

    head: dict[str, Any] = field(default_factory=dict)
    shards: list[Shard] = field(default_factory=list)
    finished: dict[str, Any] | None = None

    @property
    def counts(self) -> Counts:
        """Of all shards."""
        return sum((shard.counts for shard in self.shards), Counts())

    @property
    def end(self) -> Place:
        """Where to go on."""
        return self.shards[-1].end if self.shards else (0, 0)

    @classmethod
    def of(cls, data: bytes, where: str) -> tuple[Self, int]:
        """What the bytes of a manifest say, and how many of them are complete lines."""
        found, size = cls(), 0
        for number, line in enumerate(data.splitlines(keepends=True), 1):
            try:
                if not line.endswith(b"\n"):
                    break  # a killed process did not complete it
                found = found.with_line(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError):
                raise FileError(
                    "the manifest of this run is damaged",
                    got=shown(line.decode("utf-8", "replace")),
                    wanted="lines that Bridle wrote",
                    cause="Start again in a new folder.",
                    where=f"{where}:{number}",
                ) from None
            size += len(line)
        return found, size

    def with_line(self, line: dict[str, Any]) -> Self:
        """The same with one more line."""
        if "finished" in line:
            return replace(self, finished=dict(line["finished"]))
        if "shard" in line:
            return replace(self, shards=[*self.shards, Shard.from_json(line)])
        return replace(self, head={**line, "inputs": list(line["inputs"])})


def read(folder: str | os.PathLike[str]) -> Record:
    """The manifest of a folder; it may belong to a run that has not finished."""
    path = Path(folder) / NAME
    try:
        data = path.read_bytes()
    except OSError as error:
        wanted = "a folder that `bridle tag -o FOLDER/` wrote"
        raise FileError("the folder has no manifest", got=error.strerror, wanted=wanted, where=str(path)) from None
    return Record.of(data, str(path))[0]


class Manifest:
    """The manifest of a run that is writing. Nobody else can write into its folder meanwhile.

    Parameters
    ----------
    folder : Path
        Where the shards go; it is made if it does not exist.
    head : dict
        What the run is asked for.
    resume : bool
        Whether to go on with a run that is there.

    Attributes
    ----------
    record : Record
        What it says.
    is_locked : bool
        Whether nobody else can write into the folder; False where files cannot be locked.

    Raises
    ------
    FileError
        If it cannot be written, another process is writing, there is a run and `resume` is False, or the run that is
        there was asked for something else.
    """

    def __init__(self, folder: Path, head: dict[str, Any], *, resume: bool) -> None:
        self.path = folder / NAME
        try:
            _make(folder)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666)
        except OSError as error:
            raise _unwritable(self.path, error) from None
        try:
            self.is_locked = self._lock()
            self.record, size = Record.of(self.path.read_bytes(), str(self.path))
            if not self.record.head:
                if found := sorted(path.name for path in folder.glob("part-*")):
                    wanted = "a folder that is new, empty, or holds a run"
                    what = "the folder holds shards of which its manifest knows nothing"
                    raise FileError(what, got=found[0], wanted=wanted, where=str(folder))
                os.ftruncate(self._file, 0)
                self._add(head)
            elif not resume:
                raise FileError(
                    "the folder already holds a run" + (", which has finished" if self.record.finished else ""),
                    got=f"{len(self.record.shards)} shards",
                    wanted="{argument} to go on with it, or another folder",
                    where=str(folder),
                    argument=Argument("resume", True),
                )
            else:
                _check_same(self.record.head, head, str(folder))
                os.ftruncate(self._file, size)
        except OSError as error:
            self.close()
            raise _unwritable(self.path, error) from None
        except BaseException:
            self.close()
            raise

    def add(self, shard: Shard) -> None:
        """Note a shard that is on the disk."""
        self._add(shard.to_json())

    def finish(self, seconds: float) -> None:
        """Note that all of the input is in the shards."""
        counts = self.record.counts.to_json()
        self._add({"finished": {"shards": len(self.record.shards), **counts, "seconds": round(seconds, 3)}})

    def close(self) -> None:
        """Let others write."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _add(self, line: dict[str, Any]) -> None:
        data, begun = (json.dumps(line) + "\n").encode(), os.fstat(self._file).st_size
        try:
            done = 0
            while done < len(data):
                done += os.write(self._file, data[done:])
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, begun)
            raise _unwritable(self.path, error) from None
        self.record = self.record.with_line(line) if hasattr(self, "record") else Record().with_line(line)

    def _lock(self) -> bool:
        if fcntl is None:
            return False
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileError(
                "another process is writing into this folder",
                got="a run that is going on",
                wanted="one run at a time",
                where=str(self.path.parent),
                cause="Wait until it has finished, or choose another folder.",
            ) from None
        except OSError:  # no locks here
            return False
        return True


def _make(folder: Path) -> None:
    """Make the folder. One without a manifest must be empty: a typing error should not mix shards with other files."""
    folder.mkdir(exist_ok=True)
    if not (folder / NAME).exists() and (others := [x.name for x in folder.iterdir() if not x.name.startswith(".")]):
        raise FileError(
            "the folder holds other files",
            got=", ".join(sorted(others)[:3]) + (", ..." if len(others) > 3 else ""),
            wanted="a folder that is new, empty, or holds a run",
            where=str(folder),
        )


def _unwritable(path: Path, error: OSError) -> FileError:
    return FileError(
        "cannot write the manifest",
        got=error.strerror or error,
        wanted="a writable folder on a disk with space",
        where=str(path),
        cause="The output is a file, not a folder."
        if isinstance(error, (FileExistsError, NotADirectoryError))
        else "Does the folder above it exist, and do you have write permission?",
    )


def _check_same(before: Mapping[str, Any], now: Mapping[str, Any], where: str) -> None:
    """Raise if a run was asked for something else."""
    if before.get("model") != now.get("model"):
        what, got, wanted = "this run was started with another model", now.get("model"), before.get("model")
    elif before.get("rules") != now.get("rules"):
        what, got, wanted = "this run was started with other rules", now.get("rules"), before.get("rules")
    elif changed := list(_changed(before.get("options", {}), now.get("options", {}))):
        what, got, wanted = "this run was started with other options", *_told(changed)
    elif changed := list(_changed(_by_path(before), _by_path(now))):
        what, got, wanted = "the input is not what it was when this run was started", *_told(changed)
    elif [one["path"] for one in before["inputs"]] != [one["path"] for one in now["inputs"]]:
        what, got, wanted = "the inputs have another order", "other files first", "the order of the first call"
    else:
        return
    cause = "Pass what you passed at first, or choose another folder."
    raise FileError(what, got=got, wanted=wanted, where=where, cause=cause)


def _by_path(head: Mapping[str, Any]) -> dict[str, str]:
    return {str(one["path"]): f"{one['size']:,} bytes of {_time(one['mtime_ns'])}" for one in head["inputs"]}


def _time(nanoseconds: int) -> str:
    """A time to the microsecond, in UTC."""
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).isoformat(" ", "microseconds")


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterable[tuple[str, Any, Any]]:
    for name in {**before, **now}:
        if before.get(name) != now.get(name):
            yield name, before.get(name), now.get(name)


def _told(changed: list[tuple[str, Any, Any]]) -> tuple[str, str]:
    """What was got and wanted, for messages: of the first difference."""
    name, before, now = changed[0]
    more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
    return f"{name}: {'nothing' if now is None else now}{more}", f"{'nothing' if before is None else before}"
