"""The manifest of a run: what it was asked for, and a line for each shard that is finished.

    {"bridle": "1.0", "by": "files", "model": "2c5d...", "rules": "77ab...", "options": {...}, "inputs": [{...}]}
    {"shard": "part-00000.parquet", "rows": 5000, ..., "begin": [0, 0], "end": [0, 5000], "ids": "09c4...", ...}
    {"shard": "part-00001.parquet", ...}
    {"finished": {"shards": 2, "rows": 9000, ...}}

A line is added and flushed to the disk after its shard has its name. So a shard without a line is not part of the run,
and the last line says where to go on. A line that a killed process did not complete is cut off. While a run writes, it
holds a lock on the file, which ends with its process.

On Spark and Ray, the manifest is the first line alone: which files are complete is in the notes of Spark and Ray.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from bridle.errors import Argument, FileError, shown
from bridle.runs.counts import Counts, arrow

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

NAME = "_manifest.jsonl"
Head = dict[str, Any]
Place = tuple[int, int]  # the number of an input, and where a block of it ends


# ---- folders: on this machine, in HDFS or in an object store ------------------------------------------------------

_PART = ".part"  # how the name of a file ends that is being written


class ArrowFolder:
    """A folder in a file system of PyArrow: a path of this machine, or a URI.

    `names` are those of files and folders in it, in order; none if it does not exist. `write` makes a file that is
    complete or not there, and the folder if needed.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.files, self.inside = arrow("pyarrow.fs").FileSystem.from_uri(path)

    def at(self, name: str) -> str:
        """The path of a file in the file system."""
        return posixpath.join(self.inside, name)

    def names(self) -> list[str]:
        infos = self.files.get_file_info(arrow("pyarrow.fs").FileSelector(self.inside, allow_not_found=True))
        return sorted(info.base_name for info in infos if not info.base_name.endswith(_PART))

    def read(self, name: str) -> bytes:
        with self.files.open_input_stream(self.at(name)) as file:
            return bytes(file.read())

    def write(self, name: str, data: bytes) -> None:
        self.files.create_dir(self.inside, recursive=True)
        with self.files.open_output_stream(self.at(name + _PART)) as file:
            file.write(data)
        self.files.move(self.at(name + _PART), self.at(name))

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self.files.delete_file(self.at(name))


class HadoopFolder:
    """A folder in a file system of Hadoop, through a classic session of Spark.

    Spark has no public way to list and delete files; its `_jvm` is what programs use for that.
    """

    def __init__(self, spark: Any, path: str) -> None:
        self.path = path
        self._fs = spark.sparkContext._jvm.org.apache.hadoop.fs
        self._settings = spark.sparkContext._jsc.hadoopConfiguration()

    @cached_property
    def _files(self) -> Any:
        return self._fs.Path(self.path).getFileSystem(self._settings)

    def _at(self, name: str) -> Any:
        return self._fs.Path(self._fs.Path(self.path), name)

    def names(self) -> list[str]:
        folder = self._fs.Path(self.path)
        statuses = self._files.listStatus(folder) if self._files.exists(folder) else ()
        names = (status.getPath().getName() for status in statuses)
        return sorted(name for name in names if not name.endswith(_PART))

    def read(self, name: str) -> bytes:
        stream = self._files.open(self._at(name))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def write(self, name: str, data: bytes) -> None:
        stream = self._files.create(self._at(name + _PART), True)
        try:
            stream.write(data)
        finally:
            stream.close()
        self._files.rename(self._at(name + _PART), self._at(name))

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self._files.delete(self._at(name), False)


def absolute(path: str | os.PathLike[str]) -> str:
    """Return a URI as it is and a path from the root: workers of a cluster have other working folders."""
    text = os.fspath(path)
    return text if re.match(r"[\w.+-]+:/", text) else os.path.abspath(text)  # noqa: PTH100  (of a pattern too)


Folder = ArrowFolder | HadoopFolder


# ---- what a run was asked for ---------------------------------------------------------------------------------------


def head_of(
    fingerprint: str, rules: Iterable[Any], options: Mapping[str, Any], inputs: Sequence[Any], by: str = "files"
) -> Head:
    """Describe what a run is asked for.

    fingerprint : of the model
    options : all that changes rows of the result
    inputs : mappings, each with its ``path`` and, if it must not change, its ``size`` and ``mtime_ns``
    by : "files", "spark" or "ray"
    """
    texts = [repr(rule) for rule in rules]  # with the phrases of lists, which a sentence names by their file
    head = {
        "bridle": str(getattr(sys.modules.get("bridle"), "__version__", "?")),
        "by": by,
        "model": fingerprint,
        "rules": hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16] if texts else "none",
        "options": dict(options),
        "inputs": list(inputs),
    }
    return dict(json.loads(json.dumps(head, default=str)))  # as it is read again: a tuple is a list then


def check_same(before: Head, now: Head, where: str) -> None:
    """Raise `FileError` with the first difference from the recorded run."""
    old, new = _by_path(before), _by_path(now)
    for what, wanted, got in (
        ("this run was started on something else", before.get("by", "files"), now["by"]),  # 0.2 knew files only
        ("this run was started with another model", before.get("model"), now["model"]),
        ("this run was started with other rules", before.get("rules"), now["rules"]),
        ("this run was started with other options", *_changed(before.get("options", {}), now["options"])),
        ("the input is not what it was when this run was started", *_changed(old, new)),
        (
            "the inputs have another order",
            *next((pair for pair in zip(old, new, strict=False) if len({*pair}) > 1), ("", "")),
        ),
    ):
        if got != wanted:
            cause = "Pass what you passed at first, or choose another folder."
            raise FileError(what, got=got, wanted=wanted, where=where, cause=cause)


def _by_path(head: Head) -> dict[str, str]:
    def facts(size: int, mtime_ns: int) -> str:
        time = datetime.fromtimestamp(mtime_ns / 1e9, UTC).isoformat(" ", "microseconds")
        return f"{size:,} bytes of {time}"

    return {
        str(file["path"]): facts(file["size"], file["mtime_ns"]) if "size" in file else "an input"
        for file in head["inputs"]
    }


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, str]:
    """Return the old and the new value of the first name whose value differs, as texts."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if not names:
        return "", ""
    old, new = ("nothing" if values.get(names[0]) is None else str(values[names[0]]) for values in (before, now))
    more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
    return old, f"{names[0]}: {new}{more}"


def claim(
    notes: Folder, head: Head, out: Folder | None = None, more: Callable[[], Head] = dict[str, Any]
) -> tuple[Head, bool]:
    """Begin a run on a cluster, or go on with it; return its head, and whether it is new.

    The manifest is in `notes`; `out`, if it is another folder, gets the rows. `more` makes entries for the head of a
    new run, which are not compared. `FileError` if the run that is there was asked for something else, or if there
    are files but no manifest.
    """
    if NAME in notes.names():
        before = Record.of(notes.read(NAME), f"{notes.path}/{NAME}")[0].head
        check_same(before, head, notes.path)
        return before, False
    _check_empty((out or notes).names(), (out or notes).path)
    head = {**head, **more()}
    notes.write(NAME, (json.dumps(head) + "\n").encode())
    return head, True


def _check_empty(names: Iterable[str], where: str) -> None:
    """Raise unless a folder without a manifest is empty: a typing error should not mix shards with other files."""
    if others := sorted(name for name in names if not name.startswith(".")):
        got, wanted = ", ".join([*others[:3], "..."][: len(others)]), "a folder that is new, empty, or holds a run"
        raise FileError("the folder holds other files", got=got, wanted=wanted, where=where)


# ---- shards, on this machine ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shard:
    """A finished shard."""

    name: str  # of the file
    begin: Place
    end: Place  # where the next shard begins
    counts: Counts

    def to_json(self) -> dict[str, Any]:
        """Return a line of the manifest."""
        return {"shard": self.name, "begin": list(self.begin), "end": list(self.end), **self.counts.to_json()}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Shard:
        """Read a line of the manifest."""
        begin, end = (tuple(map(int, record[key])) for key in ("begin", "end"))
        if len(begin) != 2 or len(end) != 2:
            raise ValueError("no place")
        return cls(str(record["shard"]), begin, end, Counts.from_json(record))


@dataclass(frozen=True)
class Record:
    """The content of a manifest."""

    head: Head = field(default_factory=dict)  # empty if the process was killed before it was written
    shards: list[Shard] = field(default_factory=list)  # in the order of the input
    finished: dict[str, Any] | None = None  # counts of the whole run, if it has finished

    @property
    def counts(self) -> Counts:
        """Sum the counts of all shards."""
        return sum((shard.counts for shard in self.shards), Counts())

    @property
    def end(self) -> Place:
        """Place to go on from."""
        return self.shards[-1].end if self.shards else (0, 0)

    @classmethod
    def of(cls, data: bytes, where: str) -> tuple[Self, int]:
        """Read the bytes of a manifest; also return how many of them are complete lines."""
        record, size = cls(), 0
        for number, line in enumerate(data.splitlines(keepends=True), 1):
            try:
                if not line.endswith(b"\n"):
                    break  # a killed process did not complete it
                record = record.with_line(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError):
                raise FileError(
                    "the manifest of this run is damaged",
                    got=shown(line.decode("utf-8", "replace")),
                    wanted="lines that Bridle wrote",
                    cause="Start again in a new folder.",
                    where=f"{where}:{number}",
                ) from None
            size += len(line)
        return record, size

    def with_line(self, line: dict[str, Any]) -> Self:
        """Add a line."""
        if "finished" in line:
            return replace(self, finished=dict(line["finished"]))
        if "shard" in line:
            return replace(self, shards=[*self.shards, Shard.from_json(line)])
        return replace(self, head={**line, "inputs": list(line["inputs"])})


def read(folder: str | os.PathLike[str]) -> Record:
    """Read the manifest of a folder of shards; it may belong to a run that has not finished."""
    path = Path(folder) / NAME
    wanted = "a folder that `bridle tag -o FOLDER/` wrote"
    try:
        record = Record.of(path.read_bytes(), str(path))[0]
    except OSError as error:
        raise FileError("the folder has no manifest", got=error.strerror, wanted=wanted, where=str(path)) from None
    if (engine := record.head.get("by", "files")) != "files":
        raise FileError("the folder has no shards", got=f"a run on {engine}", wanted=wanted, where=str(path))
    return record


class Manifest:
    """The manifest of a run that is writing shards on this machine. No other process can write into its folder.

    `folder` is made if it does not exist; `resume` says whether to go on with a run that is there. `record` is what it
    says; `is_locked` is False where files cannot be locked. `FileError` if it cannot be written, another process is
    writing, there is a run and `resume` is False, or the run that is there was asked for something else.
    """

    def __init__(self, folder: Path, head: Head, *, resume: bool) -> None:
        self.path, self.record = folder / NAME, Record()
        try:
            self._made = not folder.exists()
            folder.mkdir(exist_ok=True)
            if not self.path.exists():
                _check_empty((path.name for path in folder.iterdir()), str(folder))
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666)
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            self.is_locked = self._lock()
            self.record, size = Record.of(self.path.read_bytes(), str(self.path))
            if not self.record.head:
                if shards := sorted(path.name for path in folder.glob("part-*")):
                    wanted = "a folder that is new, empty, or holds a run"
                    what = "the folder holds shards of which its manifest knows nothing"
                    raise FileError(what, got=shards[0], wanted=wanted, where=str(folder))
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
                check_same(self.record.head, head, str(folder))
                os.ftruncate(self._file, size)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise self._unwritable(error) from None
            raise

    def add(self, shard: Shard) -> None:
        """Note a shard that is on the disk."""
        self._add(shard.to_json())

    def finish(self, seconds: float) -> None:
        """Note that all of the input is in the shards."""
        counts = self.record.counts.to_json()
        self._add({"finished": {"shards": len(self.record.shards), **counts, "seconds": round(seconds, 3)}})

    def withdraw(self) -> None:
        """Remove it, and the folder if it was made for it, so that another run can begin there."""
        with suppress(OSError):
            self.path.unlink()
            if self._made:
                self.path.parent.rmdir()

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
            raise self._unwritable(error) from None
        self.record = self.record.with_line(line)

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

    def _unwritable(self, error: OSError) -> FileError:
        no_folder = isinstance(error, (FileExistsError, NotADirectoryError))
        return FileError(
            "cannot write the manifest",
            got=error.strerror or error,
            wanted="a writable folder on a disk with space",
            where=str(self.path),
            cause="The output is a file, not a folder."
            if no_folder
            else "Does the folder above it exist, and do you have write permission?",
        )
