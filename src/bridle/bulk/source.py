"""Sources of bytes for blocks: as those of `bridle.data`, also packed with zstd, unpacked without holding the GIL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from bridle.bulk.base import ROWS, SIZE, Block
from bridle.bulk.batches import Pieces, arrow
from bridle.data import limits
from bridle.data.source import BLOCK, GZIP, ZSTD, Source
from bridle.errors import FileError

_MARKS = {GZIP: "gzip", ZSTD: "zstd"}
_ZEROS = bytes(4)  # a gzip file that ends with a size of 0, unless zeros follow it, is empty
_BOM = "\ufeff".encode()


class Packed(Source):
    """A file or standard input, plain, gzipped or packed with zstd."""

    def __init__(self, path: str) -> None:
        self.codec: str | None = None
        super().__init__(path)
        head = self.raw.peek(4)[:4]
        self.codec = next((codec for mark, codec in _MARKS.items() if head.startswith(mark)), None)
        if self.codec == "gzip" and not self._may_be_padded():
            pa = arrow()
            self._grab = pa.CompressedInputStream(pa.PythonFile(self.raw, mode="r"), self.codec).read

    def _may_be_padded(self) -> bool:
        """May there be zeros behind the gzipped data, which PyArrow does not skip?"""
        if self.total is None:
            return False
        self.raw.seek(-len(_ZEROS), os.SEEK_END)
        end = self.raw.read()
        self.raw.seek(0)
        return end == _ZEROS

    def unreadable(self, error: Exception) -> FileError:
        made = super().unreadable(error)
        if self.codec is not None:
            made.wanted, made.cause = f"a complete {self.codec} file", "It is cut off or damaged."
        return made

    def take(self, size: int) -> bytes:
        """The next bytes, at most about `size`; none at the end."""
        return self._read(size)

    def skip(self, size: int) -> int:
        """Leave out bytes at the beginning; the number of lines among them, or -1 if it is not known."""
        if self.codec is None and self.total is not None:
            if size > self.total:
                raise changed(self.name, f"{self.total:,} bytes", f"at least {size:,}")
            self.raw.seek(size)
            return -1
        done = lines = 0
        while done < size:
            if not (block := self.take(min(size - done, BLOCK))):
                raise changed(self.name, f"{done:,} bytes", f"at least {size:,}")
            done += len(block)
            lines += block.count(b"\n")
        return lines


class Text:
    """The text of a file from a place on, of which a window is held; it knows the place in bytes and lines."""

    def __init__(self, path: str, start: int) -> None:
        self.source = Packed(path)
        self.data, self.at, self.final = b"", 0, False  # what is held; the place in it; does nothing come after it?
        self._base = start  # where the data begins in the file
        self._lines, self._counted = 0, 0  # the number of lines (-1: not known) up to a place in the data
        if start:
            try:
                self._lines = self.source.skip(start)
            except BaseException:
                self.close()
                raise

    def more(self, size: int) -> None:
        """Read on; at the end of the file, what is held is `final`."""
        is_first = self._base + len(self.data) == 0
        block = self.source.take(size)
        while is_first and block and len(block) < len(_BOM) and (others := self.source.take(size)):
            block += others
        self._count(self.at)
        self._base += self.at
        self.data, self.final = self.data[self.at :] + block, not block
        self.at = self._counted = 0
        if is_first and block.startswith(_BOM):
            self.at = len(_BOM)

    def place(self, at: int | None = None) -> int:
        """A place of the data, in bytes from the beginning of the file."""
        return self._base + (self.at if at is None else at)

    def line(self, at: int | None = None) -> int:
        """The number of the line at a place of the data, from 1."""
        if self._lines < 0:  # a run was resumed, and nobody has counted yet
            self._lines = self._count_again()
        self._count(self.at)
        return self._lines + 1 + (0 if at is None else self.data.count(b"\n", self.at, at))

    def _count(self, at: int) -> None:
        if self._lines >= 0:
            self._lines += self.data.count(b"\n", self._counted, at)
            self._counted = at

    def _count_again(self) -> int:
        before, left, lines = Packed(self.source.name), self._base, 0
        self._counted = 0
        try:
            while left and (block := before.take(min(left, BLOCK))):
                left, lines = left - len(block), lines + block.count(b"\n")
        finally:
            before.close()
        return lines

    def check_length(self) -> None:
        """Raise if what is held, which is less than a sequence, is more than a sequence can have."""
        size = len(self.data) - self.at
        if size <= limits.MOST_LINES:
            return
        lines, last = self.data.count(b"\n", self.at), self.data.rfind(b"\n", self.at) + 1
        if (tail := self._characters(max(last, self.at))) > limits.LONGEST:
            raise self.source.line_too_long(self.line(max(last, self.at)), tail)
        characters = self._characters(self.at) - lines
        if characters > limits.LONGEST or lines > limits.MOST_LINES:
            raise self.source.too_long(self.line(), characters, lines)

    def _characters(self, at: int) -> int:
        """The number of characters from a place on: bytes without those within a character, which are 0x80 to 0xbf."""
        held = np.frombuffer(self.data, np.int8)[at:]
        return len(held) if len(held) <= limits.LONGEST else len(held) - int(np.count_nonzero(held < -64))

    def decoded(self, end: int) -> str:
        """The text up to a place of the data. Raises if it is not text."""
        data = self.data[self.at : end]
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise self.source.no_text(error, "utf-8", self.line(), self.place(end)) from None
        if (nul := text.find("\0")) >= 0:
            raise self.source.nul(self.line() + text.count("\n", 0, nul))
        return text.removesuffix("\r") if self.final and end == len(self.data) else text

    def left_out(self) -> dict[str, int]:
        """Counts of what has been skipped since the last time."""
        found, self.source.left_out = self.source.left_out, {}
        return found

    @property
    def share(self) -> float:
        """How much of the file has been read, from 0 to 1."""
        left = len(self.data) - self.at if self.source.codec is None else 0
        return min(max(self.source.done() - left, 0) / max(self.source.total or 0, 1), 1.0)

    def close(self) -> None:
        """Close the file."""
        self.source.close()


class TextFile(Protocol):
    """A file of text while it is read."""

    text: Text

    def blocks(self, rows: int) -> Iterator[Block]:
        """Blocks of at most `rows` rows."""
        ...


class TextReader:
    """The base of readers of text."""

    def opened(self, path: str, start: int, size: int) -> TextFile:
        """A file, from a place on."""
        raise NotImplementedError

    def blocks(self, path: str, start: int = 0, *, rows: int = ROWS, size: int = SIZE) -> Iterator[Block]:
        """Blocks of rows."""
        file = self.opened(path, start, size)
        try:
            yield from file.blocks(rows)
        finally:
            file.text.close()


def text_blocks(text: Text, pieces: Pieces, read: Callable[[], bool], size: int) -> Iterator[Block]:
    """Blocks of a text. read: adds the sequences that are held; False if there are not enough rows for a block yet."""
    begun, is_full = 0, False
    while not (text.final and not is_full):
        error: FileError | None = None
        try:
            if not is_full:
                text.check_length()
                text.more(size)
            is_full = read()
        except FileError as wrong:  # what comes before it is handed on
            error = wrong
        # what comes through a pipe is handed on at once
        is_due = error or is_full or text.final or text.source.total is None or text.place() - begun >= size
        if len(pieces) and is_due:
            pieces.left_out = text.left_out()
            yield pieces.block(text.place(), text.share)
            begun = text.place()
        if error is not None:
            raise error


def changed(name: str, got: str, wanted: str) -> FileError:
    """The error for a file that is shorter than when it was read before."""
    cause = "Has the file changed since the run began? Begin again, without resuming."
    return FileError("this file is shorter than before", got=got, wanted=wanted, cause=cause, where=name)
