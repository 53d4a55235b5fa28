"""Blocks of `conll` files: a kernel reads sequences about which nothing is unusual, the reader of `bridle.data` others.

So sequences and errors are those of `bridle.data`, at the speed of the kernel. A block ends between two sequences; its
end is counted in bytes of the decompressed file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from bridle._native import ConllReader as Kernel
from bridle._native import end_of_sequence
from bridle.bulk.base import COMMENTS, GOLD, ROWS, TOKENS, Block, OnError
from bridle.bulk.batches import Pieces, list_array, own_name, string_array, without
from bridle.bulk.source import Text, TextFile, TextReader, text_blocks
from bridle.data.conll import BLANK, DOCSTART, MOST, Conll, Table
from bridle.errors import FileError

_MORE, _FULL, _ODD = range(3)  # why the kernel stopped


@dataclass(frozen=True)
class ConllReader(TextReader):
    """Reads `conll` files in UTF-8."""

    format: Conll
    on_error: OnError = "raise"  # what happens at a sequence that has a line which does not fit

    def opened(self, path: str, start: int, size: int) -> TextFile:
        """A file, from a place on."""
        return _File(self, path, start, size)


class _File:
    """A file while it is read."""

    def __init__(self, reader: ConllReader, path: str, start: int, size: int) -> None:
        self.reader, self.path, self.start, self.size = reader, path, start, size
        self.text = Text(path, start)
        self.pieces = Pieces(self.text.source.name, reader.format.missing)
        self.table = reader.format.table(self.text.source)
        self.kernel: Kernel | None = None  # once the table knows the columns
        self.behind = start > 0  # does the table lack labels of sequences before the start?
        if start:
            self.table = self._settled()
            self.kernel = _kernel(self.table)

    def blocks(self, rows: int) -> Iterator[Block]:
        """All blocks."""
        text, pieces = self.text, self.pieces
        yield from text_blocks(text, pieces, lambda: self._read(rows), self.size)
        self.table.finish()
        if left_out := text.left_out():  # behind the last sequence
            pieces.left_out = left_out
            yield pieces.block(text.place(), text.share)

    def _read(self, rows: int) -> bool:
        """Read the sequences that are held, until there are enough rows; False if more text is needed."""
        text = self.text
        while len(self.pieces) < rows:
            if self.kernel is None or self.table.comments:
                end = end_of_sequence(text.data, text.at, text.final)
                if end <= text.at:
                    return False
                self._read_one(end)
                continue
            stop, text.at, end = self.kernel.read(text.data, text.at, text.final, rows - len(self.pieces))
            self._take(self.kernel)
            if stop == _MORE:
                return False
            if stop == _ODD:
                self._read_one(end)
        return True

    def _take(self, kernel: Kernel) -> None:
        """Add the rows that the kernel has read."""
        count = len(kernel)
        rows, columns, comment_rows, comments, skipped = kernel.take()
        self.text.source.leave_out(f"{DOCSTART} lines", skipped)
        if not count:
            return
        table = self.table
        values = [string_array(*column) for column in columns]
        names = [TOKENS, *(own_name(name) for name, _ in table.inputs[1:])]
        arrays = dict(zip(names, (list_array(rows, column) for column in values), strict=False))
        if table.at >= 0:
            if self._needs_labels and len(table.seen) < MOST:
                table.seen.update(values[-1].unique().to_pylist())
            arrays[GOLD] = list_array(rows, without(values[-1], self.reader.format.missing))
        if len(comments[0]) > 4:
            arrays[COMMENTS] = list_array(comment_rows, string_array(*comments))
        self.pieces.extend(count, arrays)

    def _read_one(self, end: int) -> None:
        """Read one sequence, and comments above it, as `bridle.data` does."""
        text, table = self.text, self.table
        try:
            lines = text.decoded(end).replace("\r\n", "\n").split("\n")
            if self.behind and self._needs_labels and any(line.startswith(table.prefix) for line in lines):
                self._catch_up()
            for is_empty, group in groupby(enumerate(lines, text.line()), lambda line: not line[1].strip(BLANK)):
                some = list(group)
                if not is_empty and (example := table.example(some[0][0], [line for _, line in some])) is not None:
                    self.pieces.add(example)
        except FileError as error:
            if self.reader.on_error == "raise" or self.kernel is None:  # then nothing fits
                raise
            self.pieces.fail(error)
            table.comments.clear()
        text.at = end
        if self.kernel is None and table.names:
            self.kernel = _kernel(table)

    @property
    def _needs_labels(self) -> bool:
        """Does it depend on the labels so far whether a line is a comment?"""
        return not self.table.tab and self.table.at >= 0 and self.reader.format.comment == "auto"

    def _settled(self) -> Table:
        """What the first sequence tells about the file."""
        first = _File(self.reader, self.path, 0, self.size)
        try:
            next(first.blocks(1), None)
            return replace(first.table, source=self.text.source, comments=[], doubtful=[])
        finally:
            first.text.close()

    def _catch_up(self) -> None:
        """Note the labels of all sequences before the start."""
        self.behind, at = False, 0
        reader = replace(self.reader, on_error="row")
        for rows in (ROWS, 1):  # the start may be within what is a block now
            if at == self.start or len(self.table.seen) >= MOST:
                return
            for block in reader.blocks(self.path, at, rows=rows, size=self.size):
                if block.end > self.start:
                    break
                labels = block.batch.column(GOLD).flatten().unique().to_pylist()
                self.table.seen.update(self.reader.format.missing or "" if y is None else y for y in labels)
                at = block.end


def _kernel(table: Table) -> Kernel:
    """The kernel for the lines of a file."""
    slots = [-1] * table.width
    for slot, (_, k) in enumerate(table.inputs):
        slots[k] = slot
    if table.at >= 0:
        slots[table.at] = len(table.inputs)
    comment, docstart = table.format.comment, table.format.docstart == "skip"
    prefix = "" if comment is None else table.prefix
    return Kernel(bool(table.tab), table.at, slots, prefix, comment != "auto", docstart)
