"""Output of complete lines, even after Ctrl-C, errors, or on a full disk.

A file is written under a temporary name and renamed at the end; `bridle.atomic` describes how.
"""

from __future__ import annotations

import gzip
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from bridle.atomic import FULL, Replacement
from bridle.data.source import PACKED
from bridle.errors import FileError
from bridle.extras import needed


class Lines(AbstractContextManager["Lines"]):
    """Write complete lines to a file or to standard output; a context manager.

    A file gets its name at the end of the ``with`` block; an existing file stays until then. If the block ends with an
    error, the lines so far are kept as NAME.part (NAME.part.2 and so on if that exists), and `kept` is its path. Bridle
    never changes such a file again.

    Parameters
    ----------
    path : str or None
        The file, packed if its name ends in ``.gz`` or ``.zst``; None or ``"-"`` is standard output.
    warn : callable, optional
        Called with a message if the block ends with an error and lines are kept.
    show : callable, optional
        Escapes lines for a terminal, if standard output is one; files and pipes get them unchanged.
    flush_to : {"cache", "disk"}, default "cache"
        "disk": the finished file is there even if the power fails.

    Raises
    ------
    FileError
        If it cannot be written, or if another process or thread is writing it.
    """

    def __init__(
        self,
        path: str | None,
        warn: Callable[[str], None] | None = None,
        show: Callable[[str], str] | None = None,
        flush_to: Literal["cache", "disk"] = "cache",
    ) -> None:
        self.warn, self.flush_to = warn, flush_to
        self._show: Callable[[str], str] | None = None
        self.count = 0  # lines written
        self.kept: Path | None = None  # where the lines are if the work did not end
        self.file: Replacement | None = None
        self._packer: Any = None
        if path is None or path == "-":
            if sys.stdout is None:
                raise FileError("there is no standard output", got="a closed stream", wanted="-o FILE")
            sys.stdout.flush()
            self._show = show if sys.stdout.isatty() else None
            # past Python's buffer: what failed to be written is not written again when the program ends
            self.raw: Any = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
            return
        self.file = Replacement(path)
        self.raw = self.file.raw
        if path.endswith(PACKED):
            self._packer = packing(path, self.raw)

    def write(self, lines: Iterable[str]) -> None:
        """Write lines; a line is written completely or not at all.

        Parameters
        ----------
        lines : iterable of str
            Lines without line ends.

        Raises
        ------
        FileError
            If the disk is full, for example. `count` says how many lines are written.
        """
        self.put("".join(line + "\n" for line in lines).encode())

    def put(self, data: bytes) -> None:
        """Write complete lines in UTF-8.

        Parameters
        ----------
        data : bytes
            The lines, each with its line end.

        Raises
        ------
        FileError
            As `write`.
        """
        if self._show is not None:
            shown = (self._show(line) + "\n" for line in data.decode().split("\n")[:-1])
            data = "".join(shown).encode()
        if self._packer is not None:
            self._packer.write(data)
            self.count += data.count(b"\n")
            return
        done = 0
        with deferred_interrupt():
            try:
                while done < len(data):
                    done += self.raw.write(memoryview(data)[done:])
            except OSError as error:
                whole = data.rfind(b"\n", 0, done) + 1
                if self.file is not None and self.file.part is not None:
                    self.raw.truncate(self.raw.tell() - (done - whole))
                done = whole
                raise (error if isinstance(error, BrokenPipeError) else self._failed(error)) from None
            finally:
                self.count += data.count(b"\n", 0, done)

    def _failed(self, error: OSError) -> FileError:
        if self.file is not None:
            return self.file.failed(error)
        return FileError(
            "cannot write to standard output",
            got=error.strerror or str(error),
            wanted="a disk with space for the output",
            cause="The disk is full." if error.errno in FULL else None,
        )

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self.file is None:
            self.raw.flush()
            return
        try:
            with deferred_interrupt():
                if kind is None:
                    if self._packer is not None:
                        self._packer.close()
                    self.file.finish(self.flush_to)
                elif self.count and self._packer is None:  # a part of a packed file is of no use
                    self.kept = self.file.keep()
                else:
                    self.file.discard()
        except OSError:  # the error that ended the block matters more
            pass
        except FileError:
            self.file.discard()
            raise
        if self.kept is not None and self.warn is not None:
            self.warn(f"{self.count:,} lines were written; they are kept in {self.kept}")


def packing(path: str, file: Any) -> Any:
    """A file that packs what is written into another one, which stays open, as the suffix of a path asks for."""
    if path.endswith(".gz"):
        return gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0, compresslevel=6)
    pa = needed("pyarrow", "arrow", "files packed with zstd need PyArrow", FileError)
    return pa.output_stream(_Kept(file), compression="zstd")


class _Kept:
    """A file that its readers cannot close."""

    def __init__(self, file: Any) -> None:
        self.write, self.flush, self.closed = file.write, file.flush, False

    def close(self) -> None:
        """Leave the file open."""


@contextmanager
def deferred_interrupt() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block; a second Ctrl-C acts at once (the reader may have stopped reading)."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield  # its owner closes it
        return
    interrupted = False

    def note(number: int, frame: Any) -> None:
        nonlocal interrupted
        if interrupted:
            raise KeyboardInterrupt
        interrupted = True

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted:
        raise KeyboardInterrupt
