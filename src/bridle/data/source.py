"""Sources of sequences: a file or standard input, plain or packed, read as bytes or as numbered lines of text.

A source is read block by block and counts the bytes; its errors name file and line.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import sys
import zlib
from codecs import IncrementalDecoder, getincrementaldecoder
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Literal, cast

from bridle.data import limits
from bridle.errors import Argument, BridleError, FileError, shown
from bridle.extras import needed

BLOCK = 1 << 18  # bytes read at once
PACKED = (".gz", ".zst")  # suffixes of packed files
_MARKS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}  # how they begin
_MODEL = b"\x89BRIDLE\n"  # how binary files of Bridle begin (models/files.py)
_ZEROS = bytes(4)  # a gzip file that ends with a size of 0, unless zeros follow it, is empty


def _stdin() -> IO[bytes]:
    """Open standard input with a buffer of its own: the interpreter, at its end, waits for readers of `sys.stdin`."""
    try:
        return io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False))
    except (OSError, ValueError, AttributeError):  # it was replaced by something that is no file
        return sys.stdin.buffer


class Source:
    """An open file of sequences. `left_out` and `changed` count what a reader skipped or changed on purpose."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise FileError("not a path", got=shown(path), wanted="a path, or '-' for standard input")
        self.name = "<stdin>" if path == "-" else os.fspath(path)  # what messages call it
        self.total: int | None = None  # bytes, if known
        self.left_out: dict[str, int] = {}
        self.changed: dict[str, int] = {}
        self.done = 0  # bytes that have been read
        self._ahead = b""
        self.waits = True  # may `head` wait for what has not come in yet?
        self._closes = path != "-"
        self.codec: str | None = None  # compression
        self.is_plain = False  # are places of the file places of the data?
        try:
            # closed by `close`: it lives as long as its reader
            self.raw = cast(io.BufferedReader, Path(path).open("rb") if self._closes else _stdin())  # noqa: SIM115
            if self._closes and stat.S_ISREG((status := os.fstat(self.raw.fileno())).st_mode):
                self.total = status.st_size
            elif not hasattr(self.raw, "peek"):
                self.raw = io.BufferedReader(self.raw)
            head = self.raw.peek(len(_MODEL))[: len(_MODEL)]
        except (OSError, ValueError, AttributeError) as error:  # a null in the path; no standard input
            self.close()
            raise self.unreadable(error) from None
        if head == _MODEL:
            self.close()
            raise FileError(
                "this is a model, not a file of sequences",
                got="a binary file of Bridle",
                wanted="labelled sequences or text",
                cause="Models have an argument or option of their own; --help names it.",
                where=self.name,
            )
        self.codec = next((codec for mark, codec in _MARKS.items() if head.startswith(mark)), None)
        # what has come in through a pipe is handed on at once; gzip gives its pieces too small for that
        self._grab: Callable[[int], bytes]
        self._grab = self.raw.read1 if self.codec is None else self._unpacked(self.codec).read
        self.is_plain = self.codec is None and self.total is not None

    def _unpacked(self, codec: str) -> IO[bytes]:
        """The stream behind gzip or zstd. PyArrow unpacks without holding the GIL."""
        if codec == "gzip" and (find_spec("pyarrow") is None or self._may_be_padded()):
            return cast(IO[bytes], gzip.GzipFile(fileobj=self.raw))
        try:
            pa = needed("pyarrow", "arrow", "files packed with zstd need PyArrow", FileError)
        except BridleError as error:
            self.close()
            raise error.at(where=self.name) from None
        return cast(IO[bytes], pa.CompressedInputStream(pa.PythonFile(self.raw, mode="r"), codec))

    def _may_be_padded(self) -> bool:
        """Check whether zeros may follow the gzipped data, which PyArrow does not skip."""
        if self.total is None or self.total < len(_ZEROS):
            return False
        self.raw.seek(-len(_ZEROS), os.SEEK_END)
        end = self.raw.read()
        self.raw.seek(0)
        return end == _ZEROS

    def unreadable(self, error: Exception) -> FileError:
        """The error for a file that cannot be opened or read to its end."""
        packed = self.codec is not None
        return FileError(
            "cannot read this file",
            got=getattr(error, "strerror", None) or str(error) or type(error).__name__,
            wanted=f"a complete {self.codec} file" if packed else "a file that can be read",
            cause="It is cut off or damaged." if packed else None,
            where=self.name,
        )

    def error(self, line: int, what: str, **parts: Any) -> FileError:
        """An error about one line."""
        return FileError(what, where=f"{self.name}:{line}", **parts)

    def too_long(self, begun: int, characters: int, lines: int) -> FileError:
        """The error for a sequence that began on a line and is too long."""
        return self.error(
            begun,
            "a sequence is too long",
            got=f"{characters:,} characters on {lines:,} lines so far",
            wanted=f"at most {limits.LONGEST:,} characters on {limits.MOST_LINES:,} lines",
            cause="Are separators of sequences missing, or does the file have another format?",
        )

    def line_too_long(self, number: int, characters: int) -> FileError:
        """The error for a line that is too long."""
        return self.error(
            number,
            "a line is too long",
            got=f"{characters:,} characters so far",
            wanted=f"at most {limits.LONGEST:,}",
            cause="Does the file have another format?",
        )

    def leave_out(self, what: str, count: int = 1) -> None:
        """Count something that was skipped."""
        if count:
            self.left_out[what] = self.left_out.get(what, 0) + count

    def change(self, what: str) -> None:
        """Count something that was changed."""
        self.changed[what] = self.changed.get(what, 0) + 1

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if getattr(self, "_closes", False) and hasattr(self, "raw"):
            self.raw.close()

    __del__ = close

    def head(self, size: int = 1 << 16) -> bytes:
        """The first bytes, decompressed; they will be read again."""
        ahead = b""
        while len(ahead) < size and (self.waits or not ahead) and (block := self.take(size)):
            ahead += block
        self._ahead = ahead
        return ahead

    def beginning(self) -> str:
        """The first lines as text in UTF-8, whatever they are: complete ones, if the file continues."""
        head = self.head()
        text = head.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
        goes_on = len(head) >= 1 << 16 or not self.waits
        return text[: text.rindex("\n") + 1] if goes_on and "\n" in text else text

    def opening(self, encoding: str) -> str:
        """The first bytes as text; invalid bytes are left out."""
        _decoder(encoding)
        return self.head().decode(encoding, "ignore").removeprefix("\ufeff")

    def blocks(self) -> Iterator[bytes]:
        """All bytes, decompressed."""
        while block := self.take(BLOCK):
            yield block

    def skip(self, size: int, lines: int) -> int:
        """Leave out bytes; the number of lines up to there, or -1 if it is not known. lines: up to here."""
        if self.is_plain and self.total is not None and size >= len(self._ahead):
            at = self.raw.tell() - len(self._ahead) + size
            if at > self.total:
                raise self.shorter(f"{self.total:,} bytes", f"at least {at:,}")
            self._ahead = b""
            self.raw.seek(at)
            return -1
        done = 0
        while done < size:
            if not (block := self.take(min(size - done, BLOCK))):
                raise self.shorter(f"{done:,} bytes", f"at least {size:,}")
            block, self._ahead = block[: size - done], block[size - done :] + self._ahead
            done += len(block)
            lines += block.count(b"\n")
        return lines

    def shorter(self, got: str, wanted: str) -> FileError:
        """The error for a file that is shorter than when it was read before."""
        cause = "Has the file changed since the run began? Begin again, without resuming."
        return FileError("this file is shorter than before", got=got, wanted=wanted, cause=cause, where=self.name)

    def take(self, size: int) -> bytes:
        """The next bytes, at most about `size`, beginning with those that `head` returned; none at the end."""
        if self._ahead:
            block, self._ahead = self._ahead, b""
            return block
        try:
            block = self._grab(size)
            self.done = self.raw.tell() if self.total is not None else self.done + len(block)
        except (OSError, EOFError, zlib.error) as error:
            raise self.unreadable(error) from None
        return block

    def transcode(self, encoding: str) -> None:
        """Hand on what has not been taken yet as UTF-8."""
        decoder, ahead, grab, before, line = _decoder(encoding), self._ahead, self._grab, 0, 1

        def transcoded(size: int) -> bytes:
            nonlocal ahead, before, line
            text, block = "", b"-"
            while block and not text:
                block, ahead = ahead or grab(size), b""
                before += len(block)
                try:
                    text = decoder.decode(block, not block)
                except UnicodeError as error:
                    raise self.no_text(error, encoding, line, before) from None
            line += text.count("\n")
            return text.encode("utf-8", "surrogatepass")

        self._ahead, self._grab, self.is_plain = b"", transcoded, False

    def lines(self, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
        """Each line with its number; line ends (LF or CRLF) and a byte-order mark are removed."""
        for number, lines in self.runs(encoding):
            yield from enumerate(lines, number)

    def runs(
        self, encoding: str = "utf-8", cut: Literal["lines", "anywhere"] = "lines"
    ) -> Iterator[tuple[int, list[str]]]:
        """Lists of lines, each with the number of its first line; cut="anywhere": blocks of text as they are read."""
        decoder, block = _decoder(encoding), b"-"
        number, held, size = 1, list[str](), 0
        before, began = 0, False  # bytes before the block; has any text come?
        while block:
            block = self.take(BLOCK)
            try:
                text = decoder.decode(block, not block)
            except UnicodeError as error:
                raise self.no_text(error, encoding, number, before + len(block)) from None
            before += len(block)
            if text and not began:
                text, began = text.removeprefix("\ufeff"), True
            if (nul := text.find("\0")) >= 0:
                raise self.nul(number + text.count("\n", 0, nul))
            if cut == "anywhere":
                yield number, [text]
                number += text.count("\n")
                continue
            end = text.rfind("\n")
            if end >= 0:
                whole = "".join((*held, text[:end]))
                if "\r" in whole:
                    whole = whole.replace("\r\n", "\n").removesuffix("\r")
                lines = whole.split("\n")
                yield number, lines
                number += len(lines)
                held, size = [], 0
            held.append(text[end + 1 :])
            size += len(held[-1])
            if size > limits.LONGEST:
                raise self.line_too_long(number, size)
        if tail := "".join(held).removesuffix("\r"):
            yield number, [tail]

    def nul(self, line: int) -> FileError:
        """The error for a NUL on a line."""
        return self.error(
            line,
            "a NUL character",
            got="a zero byte",
            wanted="text",
            argument=Argument("encoding", "utf-16"),
            cause="Is it a binary file, or UTF-16? Pass {argument} for that.",
        )

    def no_text(self, error: UnicodeError, encoding: str, line: int, end: int) -> FileError:
        """The error for bytes that are not in the encoding. end: the number of bytes read, including these."""
        if not isinstance(error, UnicodeDecodeError):
            return self.error(line, f"not {encoding}", got=str(error), wanted=encoding)
        at = end - len(error.object) + error.start
        marked = not at and error.object[:2] in (b"\xff\xfe", b"\xfe\xff")  # a byte-order mark
        maybe = "Is it UTF-16? Pass {argument}."
        if not marked:
            maybe = "Is it in another encoding? Pass {argument}, for example."
        return self.error(
            line + error.object[: error.start].decode(encoding, "ignore").count("\n"),
            f"not {encoding}",
            got=f"byte 0x{error.object[error.start]:02x} at byte {at:,} of the file ({error.reason})",
            wanted=encoding,
            cause=maybe,
            argument=Argument("encoding", "utf-16" if marked else "latin-1"),
        )


class TextSource(Source):
    """A text that is read as a file with this name would be. Nothing is opened, and nothing is unpacked."""

    def __init__(self, name: str, text: str) -> None:
        data = text.encode()
        self.name, self.total, self.waits = name, len(data), True
        self.left_out, self.changed = {}, {}
        self.done, self._ahead, self._closes, self.codec, self.is_plain = 0, b"", True, None, True
        self.raw = io.BufferedReader(cast(io.RawIOBase, io.BytesIO(data)))
        self._grab = self.raw.read1


@contextmanager
def located(where: str) -> Iterator[str]:
    """Add a place of the file to errors of the block."""
    try:
        yield where
    except BridleError as error:
        error.at(where=where)
        raise


def _decoder(encoding: str) -> IncrementalDecoder:
    try:
        with suppress(UnicodeError):
            b" ".decode(encoding)  # a codec that makes no text of bytes (hex, zip) fails here
        return getincrementaldecoder(encoding)()
    except (LookupError, TypeError, ValueError):
        raise FileError("unknown encoding", got=repr(encoding), wanted="such as 'utf-8' or 'latin-1'") from None
