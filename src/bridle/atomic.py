"""Files that are whole or not there: written under another name beside their place, then renamed. All writers use this.

While FILE is written it is called FILE.PID-HOST-RANDOM.part. Two writers never share such a file, so their lines cannot
mix. The writer holds a lock (flock) on it, which ends with its process, however that ends:

- A part whose lock is held is being written. Who wants to write the same FILE waits (`patience`), or is refused.
- A part of this host whose lock is free and whose process is gone is what a killed process left. The next writer of the
  same FILE removes it. In a container, where each run may have the same process id, a part with the id of this process
  that this process did not make is one too.
- What is kept on purpose (the lines before Ctrl-C, say) is renamed to FILE.part, or FILE.part.2 if that is taken. It
  belongs to the user: nothing here removes it or writes over it.

Where files cannot be locked (Windows, some network file systems) no writer is refused and nothing is removed; of two
writers the last one wins, with a file that is whole. Parts of other hosts are never removed. Devices and pipes are
written as they are.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import secrets
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedWriter, FileIO
from itertools import count
from pathlib import Path
from typing import IO, Any, Literal, cast

from bridle.errors import FileError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

WAIT = 10.0  # seconds that a file which is written in one go waits for another writer
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_LONGEST = 180  # bytes of a name: most file systems take 255, and something is added
_claims: set[Path] = set()  # parts by which this process holds a place for itself
_own: set[Path] = set()  # parts that this process has made and that may still be there


class Replacement:
    """A file that is being written beside its place.

    A link is followed; a device or a pipe is written as it is. `raw` is the file to write into, without a buffer;
    `part` is its path, None for a device or a pipe. Raises `error` if the file cannot be written, or if a living
    process still writes it after `patience` seconds.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, error: type[FileError] = FileError, patience: float = 0.0
    ) -> None:
        self.path, self.error = path, error
        self.part: Path | None = None
        try:
            self.place = Path(path).resolve()  # a link stays a link
            self._mode = _mode_of(path)
            if (self._mode is not None and not stat.S_ISREG(self._mode)) or _is_descriptor(path):
                self.raw = _opened(Path(path), os.O_WRONLY | os.O_APPEND)
                return
            end = time.monotonic() + patience
            while (writer := self._begin()) is not None:
                if time.monotonic() >= end:
                    raise self._refused(writer)
                time.sleep(0.02)
        except (OSError, TypeError, ValueError, RuntimeError) as failed:  # no path, a NUL in it, links in a circle
            raise self.failed(failed) from None

    def _begin(self) -> int | None:
        """Create the part; return the id of another process if it is writing the same file."""
        with _alone(self.place.parent):
            if (writer := _writer_of(self.place)) is not None:
                return writer
            suffix = f"{os.getpid()}-{_host()}-{secrets.token_hex(4)}"
            part = self.place.with_name(f"{_stem(self.place.name)}.{suffix}.part")
            mode = 0o666 if self._mode is None else stat.S_IMODE(self._mode)  # never more open than what it replaces
            _own.add(part)  # before it is there: another thread may look
            try:
                self.raw = _opened(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            except OSError:
                _own.discard(part)
                raise
            self.part = part
            _lock(self.raw.fileno())
        return None

    def finish(self, flush_to: Literal["cache", "disk"] = "cache") -> None:
        """Rename the part to the file. flush_to="disk": the file survives a power failure."""
        try:
            if flush_to == "disk" and self.part is not None:
                os.fsync(self.raw.fileno())
            self._close()
            if self.part is None:
                return
            if self._mode is not None:
                self.part.chmod(stat.S_IMODE(self._mode))
            os.replace(self.part, self.place)  # noqa: PTH105  (as tests let it fail)
            _own.discard(self.part)
        except OSError as failed:
            raise self.failed(failed) from None
        if flush_to == "disk":
            _sync_folder(self.place.parent)

    def discard(self) -> None:
        """Remove the part."""
        with suppress(OSError):
            self._close()
        if self.part is not None:
            with suppress(OSError):
                self.part.unlink(missing_ok=True)
                _own.discard(self.part)

    def keep(self) -> Path | None:
        """Rename the part to FILE.part, for the user; return its path."""
        self._close()
        if self.part is None:
            return None
        for k in count(1):
            kept = self.place.with_name(_stem(self.place.name) + ".part" + (f".{k}" if k > 1 else ""))
            with suppress(FileExistsError):
                _rename_new(self.part, kept)
                _own.discard(self.part)
                return kept
        return None

    def failed(self, error: Exception) -> FileError:
        """Return the error to raise."""
        return _failure(self.path, error, self.error)

    def _refused(self, writer: int) -> FileError:
        return self.error(
            "another process is writing this file",
            got="another thread of this process" if writer == os.getpid() else f"process {writer}",
            wanted="one writer at a time",
            where=str(self.path),
            cause="Wait until it has finished, or choose another output file.",
        )

    def _close(self) -> None:
        if not self.raw.closed:
            _unlock(self.raw.fileno())  # a forked process may hold the same file open
            self.raw.close()


@contextmanager
def replacing(
    path: str | os.PathLike[str],
    *,
    error: type[FileError] = FileError,
    patience: float = WAIT,
    flush_to: Literal["cache", "disk"] = "cache",
) -> Iterator[IO[bytes]]:
    """Open a binary file that gets its name at the end of the block, or is removed if anything fails."""
    replacement = Replacement(path, error=error, patience=patience)
    try:
        file = BufferedWriter(replacement.raw)
        yield cast(IO[bytes], file)
        file.flush()
        replacement.finish(flush_to)
    except BaseException as failed:  # Ctrl-C too
        replacement.discard()
        if isinstance(failed, OSError):
            raise replacement.failed(failed) from None
        raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file."""
    with replacing(path) as file:
        file.write(text.encode())


def append(path: str | os.PathLike[str], data: bytes) -> None:
    """Add to the end of a file: all or nothing, and on the disk on return. The callers take turns."""
    try:
        with _opened(Path(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT) as raw:
            size = os.fstat(raw.fileno()).st_size
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[raw.write(rest) :]
                os.fsync(raw.fileno())
            except BaseException:  # Ctrl-C too
                raw.truncate(size)
                raise
    except OSError as failed:
        raise _failure(path, failed, FileError) from None


@contextmanager
def claimed(*paths: str | os.PathLike[str] | None) -> Iterator[None]:
    """Hold the places of files that are written later, so that a second run is refused before its work, not after.

    This process can write them; None and "-" are skipped.
    """
    with ExitStack() as stack:
        for path in paths:
            if path is not None and str(path) != "-":
                replacement = Replacement(path)
                stack.callback(replacement.discard)
                if replacement.part is not None:
                    _claims.add(replacement.part)
                    stack.callback(_claims.discard, replacement.part)
        yield


def _failure(path: str | os.PathLike[str], error: Exception, kind: type[FileError]) -> FileError:
    if isinstance(error, OSError) and error.errno != errno.ELOOP:
        full = error.errno in FULL
        return kind(
            "cannot write this file",
            got=error.strerror or error,
            wanted="a file name in a writable folder on a disk with space",
            where=str(path),
            cause="The disk is full." if full else "Does the folder exist, and do you have write permission?",
        )
    got = f"{path!r} ({error})"
    return kind("not a valid file name", got=got, wanted="the name of a file", cause="A wrong name?")


# ---- names ----------------------------------------------------------------------------------------------------------


def _stem(name: str) -> str:
    """Return the beginning of the name of a part; a long file name is cut, with a checksum."""
    if len(os.fsencode(name)) <= _LONGEST:
        return name
    return f"{name[:40]}~{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"


def _host() -> str:
    """Return a short id of this host: folders may be shared over a network."""
    return hashlib.sha256(socket.gethostname().encode("utf-8", "replace")).hexdigest()[:6]


def _mode_of(path: str | os.PathLike[str]) -> int | None:
    try:
        return Path(path).stat().st_mode
    except FileNotFoundError:
        return None


def _is_descriptor(path: str | os.PathLike[str]) -> bool:
    """Return whether a path such as /dev/stdout stands for a file that is already open."""
    return re.match(r"/(dev/(stdout|stderr|fd/)|proc/)", str(path)) is not None


def _opened(path: Path, flags: int, mode: int = 0o666) -> FileIO:
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0), mode)
    try:
        return io.FileIO(descriptor, "wb")
    except OSError:  # a folder
        os.close(descriptor)
        raise


def _rename_new(old: Path, new: Path) -> None:
    """Rename a file, but never over another one."""
    try:
        new.hardlink_to(old)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if new.exists():
            raise FileExistsError(new) from None
        old.rename(new)
        return
    old.unlink()


def _sync_folder(folder: Path) -> None:
    """Flush the new name to the disk, where folders can be opened."""
    with suppress(OSError, AttributeError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# ---- who is writing what --------------------------------------------------------------------------------------------


def _writer_of(place: Path) -> int | None:
    """Return the process that is writing the same file, if any; remove parts of dead processes."""
    if fcntl is None:
        return None
    known = re.compile(re.escape(_stem(place.name)) + r"\.(\d{1,10})-([0-9a-f]{6})-[0-9a-f]{8}\.part")
    writer: int | None = None
    with suppress(OSError), os.scandir(place.parent) as entries:
        for entry in entries:
            part = place.with_name(entry.name)
            if (match := known.fullmatch(entry.name)) is None or part in _claims:
                continue
            if not entry.is_file(follow_symlinks=False):
                continue
            lock = _lock_of(part)
            if lock == "held":
                writer = int(match[1])
            elif lock == "free" and match[2] == _host() and not _alive(int(match[1]), part):
                with suppress(OSError):
                    part.unlink(missing_ok=True)
    return writer


def _lock_of(part: Path) -> Literal["held", "free", "unknown"]:
    """Return whether another process holds the lock of a part."""
    try:
        descriptor = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return "unknown"
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        return "free"
    except BlockingIOError:
        return "held"
    except OSError:  # no locks here
        return "unknown"
    finally:
        os.close(descriptor)


def _alive(process: int, part: Path) -> bool:
    """Return whether the process that created a part may still write it."""
    if process == os.getpid():
        return part in _own
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # of another user
        return True
    return True


def _lock(descriptor: int) -> None:
    if fcntl is not None:
        with suppress(OSError):  # no locks here
            fcntl.flock(descriptor, fcntl.LOCK_EX)


def _unlock(descriptor: int) -> None:
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, if it can be locked, after at most a second of waiting."""
    descriptor: Any = None
    with suppress(OSError, AttributeError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for _ in range(100 if descriptor is not None and fcntl is not None else 0):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:
                break
        yield
    finally:
        if descriptor is not None:
            _unlock(descriptor)
            os.close(descriptor)
