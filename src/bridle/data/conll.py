"""`conll`: one token per line, columns separated by TABs or blanks; and `conllu`, a special kind of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal, cast

import numpy as np

from bridle._native import ConllReader, end_of_sequence, write_conll
from bridle.data.base import Format
from bridle.data.blocks import (
    ABSENT,
    ROWS,
    Builder,
    Pace,
    TextReader,
    filled,
    known_labels,
    label_parts,
    parts_of,
)
from bridle.data.detection import DOCSTART, fields_of, has_columns, is_conllu, other_format
from bridle.data.examples import Example
from bridle.data.source import Source
from bridle.errors import Argument, FileError, shown
from bridle.tagging.arrow import Layout
from bridle.tagging.block import Block, Column
from bridle.tagging.labelling import Outcomes
from bridle.texts import Texts

BLANK = " \t"
NAMES = ("id", "word", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")  # of conllu
_FIELD = re.compile(r"[^ \t]+")
_MOST = 10_000  # columns; a line with more is no token
_PREFIX = {"auto": "# ", None: "# "}  # of comments that are written
_MORE, _FULL, _ODD = range(3)  # why a kernel stopped


@dataclass(frozen=True, kw_only=True)
class Conll(Format):
    """One token per line, columns separated by TABs or blanks, an empty line after each sequence.

    The first token line decides for the whole file: if it has a TAB, columns are separated by TABs (and may contain
    blanks or be empty); otherwise they are separated by blanks.

    Comments begin with a hash and a blank, but ``# # B-NP`` is a token of CoNLL-2000. With ``comment="auto"`` such a
    line is::

        TAB file     a comment if it has no TAB or, at the beginning of a sequence, a different number of columns
        blank file   within a sequence: a token; at the beginning of one:
                     a comment if it has a different number of columns than the file;
                     a token if its label has occurred before; otherwise an error, because both are possible.

    With ``comment="# "`` (or another prefix), a line with the prefix at the beginning of a sequence is a comment. After
    a token, it is one in a TAB file if it has no TAB. In a blank file it is one if it has a different number of columns
    or the prefix is longer than a hash. A comment after a token ends the sequence, as an empty line does: in some
    files, only ``#doc`` lines separate sequences. With ``comment=None`` there are no comments.

    Parameters
    ----------
    columns : list of str, optional
        Names of all columns, including that of the labels; ``"_"`` skips one. By default word, column2, ...
    label : str, int or None, default "last"
        Column with the labels: its name, or its number (1 is the first, -1 the last); None if there is none. By default
        the last one if there are two or more.
    comment : str or None, default "auto"
        Which lines are comments: ``"auto"``, a prefix, or None, as described above.
    docstart : {"skip", "keep"}, default "skip"
        What to do with lines that begin with -DOCSTART-.
    separator : {"auto", "tab", "blanks"}, default "auto"
        What separates columns. TABs are written unless it is ``"blanks"``.
    unlabelled : {"refuse", "allow"}, default "refuse"
        Whether the column of the labels may be missing, as in data to be tagged.
    """

    name = "conll"
    with_gold, streams = True, True
    gap = "\n\n"
    suffixes: ClassVar[tuple[str, ...]] = (".conll", ".iob", ".iob2", ".bio", ".bioes")
    ids: ClassVar[bool] = False  # does each line begin with the number of its token?

    columns: Sequence[str] | None = None
    label: str | int | None = "last"
    comment: str | None = "auto"
    docstart: Literal["skip", "keep"] = "skip"
    separator: Literal["auto", "tab", "blanks"] = "auto"
    unlabelled: Literal["refuse", "allow"] = "refuse"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.groups == "docstart":
            object.__setattr__(self, "docstart", "keep")
        if self.groups == "newdoc" and self.comment == "auto":  # which says nothing about `# newdoc` alone
            object.__setattr__(self, "comment", "# ")
        used = list(filter("_".__ne__, self.columns or ()))
        if len(set(used)) < len(used):
            raise FileError("column names repeat", got=", ".join(used), wanted="each name once")
        if self.comment is not None and not (isinstance(self.comment, str) and self.comment.strip(BLANK)):
            raise FileError("`comment` must be a prefix", got=repr(self.comment), wanted="'# ', or None")

    @classmethod
    def looks_like(cls, head: str) -> bool:
        return has_columns(head, list(fields_of(head).values()))

    @classmethod
    def misfit(cls, head: str) -> str:
        widths = {number: len(row) for number, row in fields_of(head).items()}
        first = next(iter(widths), 0)
        for number, width in widths.items():
            if width != widths[first]:
                return f"As {cls.name}: line {number} has {_columns(width)}, line {first} has {widths[first]}."
        return ""

    # ---- reading ----------------------------------------------------------------------------------------------------

    def blocks(self, source: Source, start: int, pace: Pace) -> Iterator[Block]:
        """Yield blocks; a kernel reads sequences about which nothing is unusual, Python the others."""
        return _File(self, source, start).blocks(pace)

    def boundaries(self, text: str, starts: Sequence[int], firsts: Sequence[int]) -> list[int]:
        """Comments belong to the sequence below them."""
        lines, ends = [text[a:b].strip(" \t\r\n") for a, b in pairwise(starts)], list[int]()
        for first, following in pairwise([*firsts, len(lines)]):
            end = next((k for k in range(first, following) if not lines[k]), -1)
            if end < 0:  # the next one follows without an empty line
                end = following
                while end < len(lines) and lines[end - 1].startswith(
                    str(_PREFIX.get(self.comment, self.comment)).strip()
                ):
                    end -= 1
            while end < following and not lines[end]:
                end += 1
            ends.append(starts[end])
        return [0, *ends[:-1], len(text)]

    # ---- writing ----------------------------------------------------------------------------------------------------

    def lines(self, example: Example) -> Iterable[str]:
        columns = [*example.columns.values()]
        if example.labels is not None:
            columns.append(cast(Sequence[str], example.labels))  # `write` has filled gaps
        prefix = str(_PREFIX.get(self.comment, self.comment))
        for line in example.comments:
            if not line.startswith(prefix) or "\n" in line or "\r" in line:
                raise example.error("not a valid comment", got=shown(line, 80), wanted=f"one line, {prefix!r} first")
        between = " " if self.separator == "blanks" else "\t"
        rows = list(zip(*columns, strict=True))
        lines = list(map(between.join, rows))
        self._check_rows(example, rows, lines, prefix)
        return [*example.comments, *lines, ""]

    def encode_rows(self, block: Block, outcomes: Outcomes, n: int, _layout: Layout) -> bytes:
        """As `encode`, for shards, in which a row without tokens is a token "_" too."""
        return self.encode(block, outcomes, n, fill="empty")

    def encode(
        self,
        block: Block,
        outcomes: Outcomes,
        n: int,
        first: int = 0,
        *,
        fill: Literal["failed", "empty"] = "failed",
    ) -> bytes:
        """A kernel writes rows about which nothing is unusual, `lines` the others. A row that failed is a token "_".

        A row that lacks a column of others has "_" there.
        """
        if self.ids:
            return super().encode(block, outcomes, n, first)
        columns = [*block.columns.values(), *(() if block.gold is None else (block.gold,))]
        tokens = columns[0]
        empty = np.flatnonzero(np.diff(tokens.offsets[: n + 1]) == 0).tolist()
        blank = [row for row in empty if fill == "empty" or row in outcomes.errors]
        columns = filled(columns, self.missing, tokens)
        between, alone = " " if self.separator == "blanks" else "\t", self.separator == "auto"
        prefix = str(_PREFIX.get(self.comment, self.comment))
        pieces, at = list[bytes](), 0
        for stop in sorted({*blank, n}):
            parts = [*parts_of(columns, stop), label_parts(outcomes, stop)]
            above = None if block.comments is None else parts_of([block.comments], stop)[0]
            while at < stop:
                text, at = write_conll(parts, above, stop, at, between, True, ABSENT, prefix, alone)
                pieces.append(text)
                if at < stop:
                    pieces.append(super().encode(block, outcomes, at + 1, at))
                    at += 1
            if stop < n:
                pieces.append((between.join([ABSENT] * (len(columns) + 1)) + "\n\n").encode())
                at = stop + 1
        return b"".join(pieces)

    def _check_rows(self, example: Example, rows: list[tuple[str, ...]], lines: list[str], prefix: str) -> None:
        blanks = self.separator == "blanks"
        for row, line in zip(rows, lines, strict=True):
            if blanks:
                whole = "" not in row and len(line.split(" ")) == len(row) and "\t" not in line
            else:
                whole = line.count("\t") == len(row) - 1 and bool(line.strip(BLANK))
                alone = len(row) == 1 and self.separator == "auto"  # a reader would take blanks for separators
                whole = whole and not (alone and (" " in line or line.startswith(prefix)))
            empty = example.labels is not None and not row[-1]
            if not whole or empty or "\n" in line or "\r" in line or "\0" in line:
                raise example.error(
                    "a token cannot be written as one line",
                    got=shown(row, 80),
                    wanted="strings, labels not empty, without line ends, NULs and " + ("blanks" if blanks else "TABs"),
                )


@dataclass(frozen=True, kw_only=True)
class Conllu(Conll):
    """Universal Dependencies, ten TAB columns; ranges (1-2) and empty nodes (1.1) are skipped.

    The columns have names, and every line that begins with # is a comment.

    Parameters
    ----------
    columns : list of str, optional
        Names of the ten columns; ``"_"`` skips one. By default _, word, lemma, upos, xpos, feats, head, deprel,
        deps, misc.
    label : str, int or None, default "xpos"
        Column with the labels: its name or its number; None if there is none.
    comment : str or None, default "#"
        Prefix of comments.
    separator : {"auto", "tab", "blanks"}, default "tab"
        What separates columns.
    """

    name = "conllu"
    with_gold = False
    suffixes: ClassVar[tuple[str, ...]] = (".conllu",)
    ids: ClassVar[bool] = True

    columns: Sequence[str] | None = ("_", *NAMES[1:])
    label: str | int | None = "xpos"
    comment: str | None = "#"
    separator: Literal["auto", "tab", "blanks"] = "tab"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.columns is None or len(self.columns) != len(NAMES):
            raise FileError("conllu: wrong columns", got=self.columns, wanted="ten names; '_' skips one")

    @classmethod
    def looks_like(cls, head: str) -> bool:
        return is_conllu([line for line in head.split("\n") if line.strip()])

    def lines(self, example: Example) -> Iterable[str]:
        """Columns that the sequence does not have are "_"; the labels are in the column `label`."""
        columns = dict(example.columns)
        if "word" not in columns:
            columns["word"] = columns.pop(next(iter(columns)))
        if example.labels is not None:
            if self.label not in NAMES[2:]:
                raise FileError(
                    "conllu: the column of the labels does not exist",
                    got=repr(self.label),
                    wanted=" or ".join(NAMES[2:]),
                )
            columns[str(self.label)] = example.known_labels
        if unknown := [name for name in columns if name not in NAMES]:
            raise example.error("conllu has no such column", got=", ".join(unknown), wanted=", ".join(NAMES))
        n = len(example)
        columns.setdefault("id", [str(k) for k in range(1, n + 1)])
        whole = {name: columns.get(name) or ["_"] * n for name in NAMES}
        return super().lines(Example(whole, None, {}, example.comments, example.where))


class _File(TextReader):
    """A file while it is read: how lines are split, the columns, and which one contains the labels."""

    def __init__(self, format: Conll, source: Source, start: int) -> None:
        super().__init__(source, format)
        self.format = format
        self.prefix = "# " if format.comment == "auto" else "\n" if format.comment is None else format.comment
        # lines that may stand above a sequence begin with one of these
        self.odd = (self.prefix, DOCSTART) if format.docstart == "skip" else (self.prefix,)
        self.tab = None if format.separator == "auto" else format.separator == "tab"
        self.ends = format.comment not in ("auto", None) and not format.ids  # does a comment end a sequence?
        self.width = len(format.columns or ())
        self.names: list[str] = []  # once the width is sure
        self.label = -1  # the column of the labels; -1: none
        self.inputs: list[tuple[str, int]] = []  # the other columns
        self.kernel: ConllReader | None = None  # once the columns are known
        self.number = -1  # the column of the token's number among those that the kernel keeps
        self.seen: set[str] = set()  # values of the column of the labels
        self.comments: list[str] = []  # above the next sequence
        self.doubtful: list[tuple[int, str]] = []  # comments met before anything was known of the file
        self.fits = False  # has a sequence been read?
        self.behind = 0  # bytes of sequences before the start whose labels are not in `seen`

        if start:  # the first sequence says what the columns are
            next(self.blocks(Pace(1)), None)
            self.comments, self.doubtful, self.behind = [], [], start
            self.builder = Builder(source, format)
            source.left_out.clear()
            self.jump(start)

    def read(self, rows: int) -> bool:
        while (left := rows - self.builder.count) > 0:
            if self.kernel is None or self.comments:
                end = end_of_sequence(self.data, self.at, self.final)
                if end <= self.at:
                    if self.final and not self.names and self.doubtful:  # nothing but comments, or perhaps tokens
                        raise self.unclear(*self.doubtful[0])
                    return False
                self._read_sequence(end)
                continue
            stop, self.at, end = self.kernel.read(self.data, self.at, self.final, left)
            self._take(self.kernel)
            if stop == _MORE:
                return False
            if stop == _ODD:
                self._read_sequence(end)
        return True

    def _take(self, kernel: ConllReader) -> None:
        """Add the rows that the kernel has read."""
        count = len(kernel)
        rows, columns, comment_rows, comments, skipped, places = kernel.take()
        if skipped:
            self.source.leave_out(f"{DOCSTART} lines", skipped)
        if not count:
            return
        self.fits = True
        values = [Column(Texts(*column), rows) for column in columns]
        above = Column(Texts(*comments), comment_rows)
        if self.format.ids:
            values, above, places = self._numbered(values, above, places)
            count = len(above)
        pieces: dict[str, Any] = {name: column for (name, _), column in zip(self.inputs, values, strict=False)}
        if self.label >= 0:
            gold = values[len(self.inputs)]
            if self._needs_labels and len(self.seen) < _MOST:
                self.seen.update(gold.texts.distinct()[0])  # type: ignore[attr-defined]
            pieces[":gold"] = known_labels(gold, self.format)
        if above.offsets[-1]:
            pieces[":comments"] = above
        self.builder.extend(count, pieces, self.places(places))

    def _numbered(self, values: list[Column], above: Column, places: Any) -> tuple[list[Column], Column, Any]:
        """Leave out lines whose id is not a number: a range of tokens, or an empty one."""
        numbers = cast(Texts, values[self.number].texts)
        others = np.concatenate([[0], np.cumsum((numbers.data < ord("0")) | (numbers.data > ord("9")))])
        are_tokens = (np.diff(others[numbers.offsets]) == 0) & (np.diff(numbers.offsets) > 0)
        if are_tokens.all():
            return values, above, places
        self.source.leave_out("lines that are not tokens", int(np.count_nonzero(~are_tokens)))
        ends = np.concatenate([[0], np.cumsum(are_tokens)])[values[-1].offsets]
        rows, kept = np.flatnonzero(np.diff(ends)), np.flatnonzero(are_tokens)
        offsets = np.concatenate([[0], ends[1:][rows]])
        lists = above.lists()
        return (
            [Column(cast(Texts, column.texts).take(kept), offsets) for column in values],
            Column.of([lists[row] for row in rows.tolist()]),
            places[rows],
        )

    def _read_sequence(self, end: int) -> None:
        """Read one sequence, and comments above it, line by line; the first one says what the kernel must know."""
        try:
            lines = self.decoded(end).replace("\r\n", "\n").split("\n")
            if self.behind and self._needs_labels and any(line.startswith(self.prefix) for line in lines):
                self._catch_up()
            at, number = 0, self.line()
            if self.ends and (stop := self.comment_between(lines)):
                end = self.at
                for _ in range(stop):
                    end = self.data.index(b"\n", end) + 1
                lines = self.decoded(end).replace("\r\n", "\n").split("\n")
            blank = [k for k, line in enumerate(lines) if not line or (line[0] in BLANK and not line.strip(BLANK))]
            for k in [*blank, len(lines)]:
                if k > at:
                    if not (self.names or lines[at].startswith(self.odd)):
                        self.settle(number + at, lines[at])
                        return  # the kernel reads it
                    if (example := self.example(number + at, lines[at:k])) is not None:
                        self.builder.add(example)
                        self.fits = True
                at = k + 1
        except FileError as error:
            if not self.fits:  # then nothing fits
                raise
            self.builder.fail(error)
            self.comments.clear()
        self.at = end

    def comment_between(self, lines: list[str]) -> int:
        """Return the first line with a comment after a token, which ends the sequence; 0: there is none."""
        tab, width, begun = self.tab, self.width, False
        for k, line in enumerate(lines):
            if not line.strip(BLANK) or (not begun and line.startswith(self.odd)):
                continue
            if not begun and tab is None:
                tab = "\t" in line
            if not begun and not self.names:
                width = width or len(_cut(line, bool(tab)))
            is_long = not "# ".startswith(self.prefix)
            is_comment = "\t" not in line if tab else is_long or len(_cut(line, False)) != width
            if begun and line.startswith(self.prefix) and is_comment:
                return k
            begun = True
        return 0

    @property
    def _needs_labels(self) -> bool:
        """Check whether the labels so far decide if a line is a comment."""
        return not self.tab and self.label >= 0 and self.format.comment == "auto"

    def _catch_up(self) -> None:
        """Note the labels of all sequences before the start."""
        start, self.behind, at = self.behind, 0, 0
        for pace in (Pace(ROWS), Pace(1)):  # the start may be within what is a block now
            source = Source(self.source.name)
            try:
                for block in _File(self.format, source, at).blocks(pace):
                    if block.end > start or len(self.seen) >= _MOST:
                        break
                    self.seen.update(() if block.gold is None else block.gold.texts)
                    at = block.end
            finally:
                source.close()
            if at == start:
                return

    # ---- line by line -----------------------------------------------------------------------------------------------

    def example(self, number: int, lines: list[str]) -> Example | None:
        """Return the sequence of a block of lines; None if the block contains only comments or similar lines."""
        if lines[0].startswith(self.odd):
            k = self.peel(number, lines)
            number, lines = number + k, lines[k:]
        number, rows = self.rows(number, lines)
        columns = list(map(list, zip(*rows, strict=True)))
        if not columns:
            return None
        labels = columns[self.label] if self.label >= 0 else None
        if labels is not None and "" in labels:
            raise self.source.error(number, "a sequence has an empty label", got="''", wanted="a label on each line")
        if not self.tab and labels is not None and len(self.seen) < _MOST:
            self.seen.update(labels)
        comments, self.comments = tuple(self.comments), []
        inputs = {name: columns[k] for name, k in self.inputs}
        return Example(inputs, labels, {}, comments, f"{self.source.name}:{number}")

    def peel(self, number: int, lines: list[str]) -> int:
        """Return how many lines come before the first token; comments among them are kept."""
        known = bool(self.tab), self.width, self.seen
        if not self.names:  # nothing is known yet but the lines below
            tokens = [x for x in lines if not x.startswith(self.odd)]
            tab = self.tab if self.tab is not None else any("\t" in x for x in tokens[:1])
            cut = [_cut(x, tab) for x in tokens]
            known = tab, self.width or len(cut[0] if cut else ""), {row[-1] for row in cut}
        for k, line in enumerate(lines):
            if line.startswith(self.prefix) and self.is_comment(number + k, line, *known):
                self.comments.append(line)
                if not self.names and self.format.comment == "auto":
                    self.doubtful.append((number + k, line))
            elif not line.startswith(DOCSTART) or self.format.docstart == "keep":
                return k
            else:
                self.source.leave_out(f"{DOCSTART} lines")
        return len(lines)

    def rows(self, number: int, lines: list[str]) -> tuple[int, list[list[str]]]:
        """Return the line of the first token, and the fields of each token."""
        first, rows = 0, list[list[str]]()
        for at, line in enumerate(lines, number):
            if not self.names:
                self.settle(at, line)
            row = _cut(line, bool(self.tab))
            if self.tab and len(row) == 1 < self.width and line.startswith(self.prefix):
                self.comments.append(line)
                continue
            if len(row) != self.width:
                known = f": {', '.join(self.names)}" if self.format.columns else ", as in the lines above"
                cause = "Columns are separated by " + ("TABs" if self.tab else "blanks") + " in this file."
                other = other_format(line)
                unlikely = ("conll", "text") if self.tab else ("conll",)
                if len(row) > self.width and other["argument"].value not in unlikely:
                    cause += f" {other['cause']}"
                raise self.source.error(
                    at,
                    "this line has a different number of columns",
                    got=f"{len(row)} in {line[:60]!r}",
                    wanted=f"{self.width}{known}",
                    cause=cause,
                    argument=other["argument"],
                )
            if self.format.ids and not row[0].isdecimal():  # a range of tokens, or an empty one
                self.source.leave_out("lines that are not tokens")
                continue
            first = first or at
            rows.append(row)
        return first, rows

    def is_comment(self, number: int, line: str, tab: bool, width: int, seen: set[str]) -> bool:
        """Check whether a line with the prefix, above a sequence, is a comment. `seen`: labels of tokens."""
        if self.format.comment != "auto" or len(fields := _cut(line, tab)) != width:
            return True
        if tab or fields[self.label] in seen:
            return False
        raise self.unclear(number, line)

    def unclear(self, number: int, line: str) -> FileError:
        return self.source.error(
            number,
            "this line could be a comment or the token '#'",
            got=repr(line[:60]),
            wanted="a line that is clearly one of them",
            cause="Pass {argument} if it is a comment; pass None instead if the file has no comments.",
            argument=Argument("comment", self.prefix),
        )

    def settle(self, number: int, line: str) -> None:
        """Name the columns, as the first token line has them."""
        if self.tab is None:
            self.tab = "\t" in line
        width = len(_cut(line, self.tab))
        if width > _MOST:
            raise self.source.error(
                number,
                "too many columns",
                got=f"{width:,}",
                wanted=f"at most {_MOST:,}",
                cause="Does the file have one sequence per line, instead of one token?",
            )
        names = list(self.format.columns or ["word", *(f"column{k}" for k in range(2, width + 1))])
        label = self.format.label
        if label == "last" and "last" not in names:
            label = -1 if len(names) > 1 else None
        if isinstance(label, bool) or not (label is None or isinstance(label, (str, int))):
            raise FileError("`label` must name a column", got=repr(label), wanted="a name, a number or None")
        if isinstance(label, int) and 0 < abs(label) <= len(names):
            self.label = label - 1 if label > 0 else len(names) + label
        elif isinstance(label, str) and label in names:
            self.label = names.index(label)
        elif label is not None:
            raise self.source.error(
                number,
                "the column of the labels does not exist",
                got=repr(label),
                wanted=f"1 to {len(names)}, -1 to -{len(names)}, or one of {', '.join(names)}",
            )
        if self.format.unlabelled == "allow" and self.label >= 0 and width == len(names) - 1:
            del names[self.label]
            self.label = -1
        self.width = len(names)
        self.inputs = [(name, k) for k, name in enumerate(names) if k != self.label and name != "_"]
        if not self.inputs:
            raise self.source.error(
                number,
                "no column is left for the tokens",
                got=f"{len(names)} in all, labels in {label!r}",
                wanted="a column of words",
            )
        self.names = names
        for at, line in self.doubtful:
            if len(_cut(line, self.tab)) == self.width:
                raise self.unclear(at, line)
        kept = [k for _, k in self.inputs] + [self.label] * (self.label >= 0)
        kept += [0] * (self.format.ids and 0 not in kept)
        slots = [kept.index(k) if k in kept else -1 for k in range(self.width)]  # places among those that are kept
        self.number = kept.index(0) if self.format.ids else -1
        comment, docstart = self.format.comment, self.format.docstart == "skip"
        prefix = "" if comment is None else self.prefix
        self.kernel = ConllReader(self.tab, self.label, slots, prefix, comment != "auto", docstart, self.ends)


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


def _cut(line: str, tab: bool) -> list[str]:
    return line.split("\t") if tab else _FIELD.findall(line)
