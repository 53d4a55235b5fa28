"""Blocks of sequences from files: the shared code of the readers of all formats.

A format yields blocks (`Format.blocks`) from a place on, and counts that place in units of its own: bytes, rows or
sequences. A sequence that cannot be read is an error of its row; the rows around it are not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bridle.data import limits
from bridle.data.documents import DocumentNames
from bridle.data.examples import Example, LabelOptions, as_known, known
from bridle.data.source import BLOCK, Source
from bridle.errors import BridleError, FileError
from bridle.tagging.block import Block, Column, Ids
from bridle.texts import Texts

if TYPE_CHECKING:
    from bridle.tagging.labelling import Outcomes

ROWS = 2048  # of a block
SIZE = 1 << 22  # bytes of a block, about
ABSENT = "_"  # the label of a token whose sequence has none, where a file must have one
_BOM, _NEW_LINE = "\ufeff".encode(), ord("\n")
_RESERVED = ("id", "tokens", "word", "labels", "gold", "given", "status", "error")  # keys of the output


@dataclass(slots=True)
class Pace:
    """Number of sequences to read at once: few at first and when the work is slow, so that results appear soon.

    Parameters
    ----------
    sequences : int, default 16
        Number of sequences of the next chunk.
    most : int, default 1024
        Maximum number of sequences of a chunk.
    tokens : int, default 200000
        A chunk ends when it has this many tokens.
    bytes : int, default 4194304
        Bytes that are read from a file at once.
    """

    sequences: int = 16
    most: int = 1024
    tokens: int = 200_000
    bytes: int = 1 << 22

    def took(self, seconds: float) -> None:
        """Adapt to the last chunk: aim at a quarter of a second to one second.

        Parameters
        ----------
        seconds : float
            Time that it took.
        """
        if seconds < 0.25:
            self.sequences = min(2 * self.sequences, self.most)
        elif seconds > 1:
            self.sequences = max(self.sequences // 2, 1)


class TextOptions(LabelOptions, Protocol):
    """Options of formats of text."""

    @property
    def encoding(self) -> str:
        """Encoding of the file."""


class Builder:
    """Collects the rows of a block: arrays that kernels have filled, and sequences that were read one by one."""

    def __init__(self, source: Source, options: LabelOptions) -> None:
        self.source, self.options = source, options
        self._pieces: list[tuple[int, dict[str, Any]]] = []  # counts, and columns by name
        self._examples: list[Example] = []  # since the last piece
        self._errors: dict[int, BridleError] = {}
        self._names: dict[str, None] = {}
        self._places: list[Callable[[int], str]] = []
        self.count = 0  # rows so far
        groups = getattr(options, "groups", None)
        self._documents = None if groups is None else DocumentNames(groups)

    def add(self, example: Example) -> None:
        """Add a sequence."""
        self._examples.append(as_known(example, self.options))
        self.count += 1

    def fail(self, error: BridleError, name: Any = None) -> None:
        """Add a row that could not be read, with its id, so that it can be found."""
        self._errors[self.count] = error
        self._examples.append(Example({"": []}, id=name, where=error.where or ""))
        self.count += 1

    def extend(self, count: int, pieces: dict[str, Any], place: Callable[[int], str]) -> None:
        """Add rows as columns; ":id", ":group", ":gold", ":given" and ":comments" are what comes with them."""
        if self._examples:
            self._flush()
        self._names.update(dict.fromkeys(name for name in pieces if not name.startswith(":")))
        if len(self._names) > limits.MOST_KEYS:
            raise FileError(
                "the sequences of this file have too many columns",
                got=f"{len(self._names):,}",
                wanted=f"at most {limits.MOST_KEYS:,}",
                cause="Does each sequence have keys of its own?",
                where=self.source.name,
            )
        self._pieces.append((count, pieces))
        self._places.append(place)
        self.count += count

    def block(self, end: int, left: int = 0) -> Block:
        """Make the block of all rows so far; they are forgotten. left: bytes that were read for the next one."""
        examples = None if self._pieces else self._examples
        if self._examples:
            self._flush()
        parts = self._pieces[0][1] if len(self._pieces) == 1 else self._joined()
        block = Block(
            self.count,
            {name: parts[name] for name in self._names if parts.get(name) is not None},
            errors=self._errors,
            ids=parts.get(":id"),
            given=parts.get(":given"),
            groups=parts.get(":group"),
            gold=parts.get(":gold"),
            comments=parts.get(":comments"),
            examples=examples,
            place=self._places[0] if len(self._places) == 1 else _places(self._pieces, self._places),
            end=end,
            share=min(max(self.source.done - left, 0) / max(self.source.total or 0, 1), 1.0),
            left_out=dict(self.source.left_out),
        )
        if self._documents is not None and block.count:
            block = replace(block, groups=self._documents.of_block(block))
        self.source.left_out.clear()
        self._pieces, self._places, self._errors, self.count = [], [], {}, 0
        return block

    def _joined(self) -> dict[str, Any]:
        """The columns of all pieces, end to end."""
        counts, joined = [count for count, _ in self._pieces], dict[str, Any]()
        for name in (*self._names, ":id", ":group", ":given", ":gold", ":comments"):
            parts = [piece.get(name) for _, piece in self._pieces]
            if all(part is None for part in parts):
                continue
            if name == ":given":
                pairs = zip(parts, counts, strict=True)
                joined[name] = [values for part, count in pairs for values in (part or [{}] * count)]
            else:
                joined[name] = (Ids if name in (":id", ":group") else Column).joined(parts, counts)
        return joined

    def _flush(self) -> None:
        """Pack the sequences that were read one by one."""
        examples, self._examples = self._examples, []
        self.count -= len(examples)
        lists: dict[str, list[Any]] = {}
        for k, example in enumerate(examples):
            for name, column in example.columns.items():
                lists.setdefault(name, [None] * len(examples))[k] = column
        lists.pop("", None)  # of rows that could not be read
        main = next(iter(self._names), None) or next(iter(lists), "word")
        lists.setdefault(main, [None] * len(examples))
        pieces: dict[str, Any] = {
            name: Column.of(columns) for name, columns in sorted(lists.items(), key=lambda x: x[0] != main)
        }
        if any(example.labels is not None for example in examples):
            pieces[":gold"] = Column.of([example.labels for example in examples])
        if any(example.id is not None for example in examples):
            pieces[":id"] = Ids.of(example.id for example in examples)
        if any(example.group is not None for example in examples):
            pieces[":group"] = Ids.of(example.group for example in examples)
        if any(example.given for example in examples):
            pieces[":given"] = [example.given for example in examples]
        if any(example.comments for example in examples):
            pieces[":comments"] = Column.of([example.comments for example in examples])
        self.extend(len(examples), pieces, lambda row: examples[row].where or "")


def _places(pieces: list[tuple[int, Any]], places: list[Callable[[int], str]]) -> Callable[[int], str]:
    """Name the place of a row of several pieces."""
    starts = np.cumsum([0, *(count for count, _ in pieces)])

    def place(row: int) -> str:
        piece = int(np.searchsorted(starts, row, side="right")) - 1
        return places[piece](row - int(starts[piece]))

    return place


# ---- arrays of kernels ----------------------------------------------------------------------------------------------


def flags(array: Any) -> Any:
    """Flags that a kernel has set; None if all are."""
    return None if array.all() else array != 0


def known_labels(column: Column, options: LabelOptions) -> Column:
    """Rename labels, and mark those that stand for a missing one as missing."""
    if options.map:
        rows = (column.row(row) for row in range(len(column)))
        return Column.of([None if row is None else [known(label, options) for label in row] for row in rows])
    if options.missing is None or not isinstance(column.texts, Texts):
        return column
    gaps = column.texts.equal(options.missing)
    if not gaps.any():
        return column
    return replace(column, whole=~gaps if column.whole is None else column.whole & ~gaps)


def label_parts(outcomes: Outcomes, n: int) -> tuple[Any, ...]:
    """Return the labels of the first n sequences for a kernel: each name once, and the one that each token has."""
    decodings, names = outcomes.decodings, Texts.of(outcomes.label_set.names)
    rows, known = decodings.offsets[: n + 1], decodings.answered[:n].view(np.uint8)
    ids = np.maximum(decodings.ids[: rows[-1]], 0)  # those of rows without labels are not read
    return rows, known, names.offsets, None, names.data, ids


def parts_of(columns: Iterable[Column], n: int) -> list[tuple[Any, ...]]:
    """Return the first n rows of columns for a kernel: offsets of rows, rows that are there, offsets of strings,
    strings that are there, bytes, and which string each value is, if there are fewer strings than values."""
    parts: list[tuple[Any, ...]] = []
    for column in columns:
        texts, rows = Texts.of(column.texts), column.offsets[: n + 1]
        known = None if column.known is None else column.known[:n].view(np.uint8)
        whole = None if column.whole is None else column.whole[: rows[-1]].view(np.uint8)
        parts.append((rows, known, texts.offsets[: rows[-1] + 1], whole, texts.data, None))
    return parts


def filled(columns: list[Column], missing: str | None, tokens: Column) -> list[Column]:
    """Put `missing`, if there is such a text, in place of missing strings, and "_" where there is no column."""
    for k, column in enumerate(columns):
        if column.known is not None and column is not tokens:
            lists = [column.row(row) for row in range(len(column))]
            pairs = zip(lists, np.diff(tokens.offsets).tolist(), strict=True)
            columns[k] = column = Column.of([[ABSENT] * n if texts is None else texts for texts, n in pairs])
        if missing is not None and column.whole is not None:
            there = zip(column.texts, column.whole.tolist(), strict=True)
            columns[k] = replace(column, texts=[text if x else missing for text, x in there], whole=None)
    return columns


# ---- text ------------------------------------------------------------------------------------------------------------


class TextReader:
    """A text file while it is read block by block: a window of UTF-8 moves on, and knows its place in bytes and lines.

    A block ends between two sequences; its end is counted in bytes.
    """

    def __init__(self, source: Source, options: TextOptions) -> None:
        self.source, self.builder = source, Builder(source, options)
        self.data, self.at, self.final = b"", 0, False  # the text; the place in it; is it the end of the file?
        self._base = 0  # where the window begins in the file
        self._lines, self._counted = 0, 0  # the number of lines (-1: not known) up to a place in the window
        name = options.encoding
        is_utf8 = isinstance(name, str) and name.lower().replace("_", "-") in ("utf-8", "utf8")
        self._encoding = None if is_utf8 else name
        if not is_utf8:
            source.transcode(name)

    def read(self, rows: int) -> bool:
        """Add sequences of the window to the builder; False if there are not enough rows yet."""
        raise NotImplementedError

    def blocks(self, pace: Pace) -> Iterator[Block]:
        """Yield all blocks from here on."""
        begun, is_full = self.place(), self.at < len(self.data)
        while is_full or not self.final:
            error: BridleError | None = None
            try:
                if not is_full:
                    self.more(pace.bytes)
                is_full = self.read(pace.sequences) and self.at < len(self.data)
            except BridleError as wrong:  # the rows before it are handed on
                error = wrong
            # what comes through a pipe is handed on at once
            is_due = error or is_full or self.final or self.source.total is None or self.place() - begun >= pace.bytes
            if self.builder.count and is_due:
                begun = self.place()
                yield self.builder.block(begun, len(self.data) - self.at if self.source.is_plain else 0)
            if error is not None:
                raise error
        if self.source.left_out:  # behind the last sequence
            yield self.builder.block(self.place())

    def jump(self, start: int) -> None:
        """Move on to a place of the file, in bytes from its beginning."""
        here = self._base + len(self.data)
        if start < here:
            self.at = start - self._base
            return
        self._lines = self.source.skip(start - here, self._lines + _line_ends(self.data, self._counted))
        self._base, self.data, self.at, self._counted = start, b"", 0, 0

    def more(self, size: int) -> None:
        """Read on; at the end of the file, the window is `final`. Raises `FileError` if a sequence is too long."""
        short = min(limits.MOST_LINES, limits.LONGEST)  # bytes that are no sequence that is too long
        if len(self.data) - self.at > short:
            self._check_length()
        is_first = self._base + len(self.data) == 0
        block = self.source.take(size)
        while is_first and block and len(block) < len(_BOM) and (others := self.source.take(size)):
            block += others
        if self._lines >= 0:
            self._lines += _line_ends(self.data, self._counted, self.at)
        self._base += self.at
        source = self.source
        self.data = self.data[self.at :] + block
        ended = source.is_plain and source.total is not None and 0 < source.total <= source.done
        self.final = not block or (ended and len(self.data) <= short)
        self.at = self._counted = 0
        if is_first and block.startswith(_BOM):
            self.at = len(_BOM)

    def place(self) -> int:
        """The current place, in bytes from the beginning of the file."""
        return self._base + self.at

    def line(self) -> int:
        """The number of the current line, from 1."""
        if self._lines < 0:  # a run was resumed, and the lines before have not been counted
            self._lines, self._counted = self._lines_before(self._base), 0
        self._lines += _line_ends(self.data, self._counted, self.at)
        self._counted = self.at
        return self._lines + 1

    def places(self, at: Any) -> Callable[[int], str]:
        """Name the lines of rows of the current window. at: where each row begins in it."""
        data, lines, counted, name, base = self.data, self._lines, self._counted, self.source.name, self._base
        numbers: list[int] = []  # computed when they are first needed

        def place(row: int) -> str:
            if not numbers:
                before, low = (lines, counted) if lines >= 0 else (self._lines_before(base), 0)
                ends = np.flatnonzero(np.frombuffer(data, np.uint8)[low:] == _NEW_LINE) + low
                numbers.extend((np.searchsorted(ends, at) + before + 1).tolist())
            return f"{name}:{numbers[row]}"

        return place

    def _lines_before(self, size: int) -> int:
        """Count the lines of the first bytes of the file, which an earlier call has read."""
        source, lines = Source(self.source.name), 0
        try:
            if self._encoding is not None:
                source.transcode(self._encoding)
            while size > 0 and (block := source.take(min(size, BLOCK))):
                lines += _line_ends(block, 0, size)
                size -= len(block)
        finally:
            source.close()
        return lines

    def _check_length(self) -> None:
        """Raise `FileError` if the window, which has no complete sequence, exceeds the limit for one sequence."""
        lines, last = _line_ends(self.data, self.at), self.data.rfind(b"\n", self.at) + 1
        if (tail := self._characters(max(last, self.at))) > limits.LONGEST:
            raise self.source.line_too_long(self.line() + lines, tail)
        characters = self._characters(self.at) - lines
        if characters > limits.LONGEST or lines > limits.MOST_LINES:
            raise self.source.too_long(self.line(), characters, lines)

    def _characters(self, at: int) -> int:
        """Count characters from a place on: bytes without those within a character, which are 0x80 to 0xbf."""
        held = np.frombuffer(self.data, np.int8)[at:]
        return len(held) if len(held) <= limits.LONGEST else len(held) - int(np.count_nonzero(held < -64))

    def decoded(self, end: int) -> str:
        """The text up to a place of the window. Raises `FileError` if it is not text."""
        data = self.data[self.at : end]
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise self.source.no_text(error, "utf-8", self.line(), self._base + end) from None
        if (nul := text.find("\0")) >= 0:
            raise self.source.nul(self.line() + text.count("\n", 0, nul))
        return text.removesuffix("\r") if self.final and end == len(self.data) else text


def _line_ends(data: bytes, low: int, high: int | None = None) -> int:
    """Count the line ends between two places; `bytes.count` takes several times as long."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8)[low:high] == _NEW_LINE))


# ---- examples -------------------------------------------------------------------------------------------------------


def example_blocks(
    examples: Iterable[Example], source: Source, options: LabelOptions, start: int, pace: Pace
) -> Iterator[Block]:
    """Yield blocks of sequences that are read one by one; the end of a block counts sequences."""
    items, builder = iter(examples), Builder(source, options)
    for passed in range(start):
        if next(items, None) is None:
            raise source.shorter(f"{passed:,} sequences", f"at least {start:,}")
    end, tokens = start, 0
    error: BridleError | None = None
    while error is None:
        try:
            example = next(items, None)
        except BridleError as wrong:
            error, example = wrong, None
        if example is None:
            break
        builder.add(example)
        end, tokens = end + 1, tokens + len(example)
        if builder.count >= pace.sequences or tokens >= pace.tokens:
            yield builder.block(end)
            tokens = 0
    if builder.count or source.left_out:
        yield builder.block(end)
    if error is not None:
        raise error


# ---- rows as examples -----------------------------------------------------------------------------------------------


def output_name(name: str) -> str:
    """Return the key of a column in the output, where some keys have a meaning of their own."""
    return f"{name}_" if name in _RESERVED else name


def examples_of(block: Block, first: int = 0, last: int | None = None) -> Iterator[Example]:
    """Yield the sequences of rows first .. last-1, as they were read."""
    last = block.count if last is None else last
    if block.examples is not None:
        for row, example in enumerate(block.examples[first:last], first):
            group = example.group if block.groups is None else block.groups[row]
            yield replace(example, id=example.id if block.ids is None else block.ids[row], group=group)
        return
    columns = {name: column.part(first, last).lists() for name, column in block.columns.items()}
    gold = None if block.gold is None else block.gold.part(first, last).lists()
    comments = None if block.comments is None else block.comments.part(first, last).lists()
    main = next(iter(columns))
    for k, row in enumerate(range(first, last)):
        texts: dict[str, Any] = {
            name: lists[k] or [] for name, lists in columns.items() if name == main or lists[k] is not None
        }
        yield Example(
            texts,
            None if gold is None else gold[k],
            {} if block.given is None else dict(block.given[row]),
            () if comments is None else tuple(map(str, comments[k] or ())),
            block.where(row) or "",
            None if block.ids is None else block.ids[row],
            group=None if block.groups is None else block.groups[row],
        )


def block_examples(blocks: Iterable[Block], source: Source) -> Iterator[Example]:
    """Yield the sequences of blocks one by one; raise the error of the first row that has one."""
    for block in blocks:
        source.left_out.update(block.left_out)  # which the source counts for blocks that follow, too
        end = min(block.errors, default=block.count)
        yield from examples_of(block, 0, end)
        if end < block.count:
            raise block.errors[end].at(where=block.where(end) or source.name)


def labelled_examples(
    block: Block, outcomes: Outcomes, n: int, *, gold: bool, blank: bool, first: int = 0
) -> Iterator[Example]:
    """Yield the sequences first .. n-1 with their labels.

    gold: labels that the file has become a column beside them. blank: tokens without a label get the label "_". A row
    that could not be read is a token "_".
    """
    probabilities = outcomes.segment_probabilities or [None] * n
    for row, example in enumerate(examples_of(block, first, n), first):
        labels = outcomes.labels[row]
        columns: Mapping[str, Any] = example.columns
        if not len(example) and row in outcomes.errors:
            columns = {name: [ABSENT] for name in block.columns}
            labels = [ABSENT] if blank else None
        elif gold and example.labels is not None:
            columns = {**columns, "gold": ["?" if label is None else label for label in example.labels]}
        if labels is None and blank:
            labels = [ABSENT] * len(next(iter(columns.values())))
        rounded = None if probabilities[row] is None else [round(p, 6) for p in probabilities[row] or ()]
        yield replace(example, columns=columns, labels=labels, probabilities=rounded)
