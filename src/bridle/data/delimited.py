"""`csv` and `tsv`: a row per token, and column names in the first row."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from bridle.data import limits
from bridle.data.base import Format
from bridle.data.detection import names_columns
from bridle.data.examples import Example
from bridle.data.source import Source, TextSource, located
from bridle.errors import Argument, FileError, shown

_MARKS: dict[str, Any] = {
    "cause": "Is a quotation mark part of a token? Pass {argument} if cells are not quoted.",
    "argument": Argument("quote", None),
}


@dataclass(frozen=True, kw_only=True)
class Delimited(Format):
    """A row per token, and column names in the first row.

    Sequences are separated by empty rows, or by a column that identifies them (`sequence`), which may be filled only in
    the first row of each::

        sentence,word,pos,label
        s1,He,PRP,B-NP
        ,left,VBD,B-VP
        s2,She,PRP,B-NP

    is read with `sequence="sentence"`. A file of tab-separated columns is `tsv` if its first line names tokens and
    labels (`word` or `token`, and `label`, `tag`, `ner` or a similar name), and `conll` otherwise.

    Parameters
    ----------
    tokens : str, default "word"
        Name of the column of the tokens; they become the column ``word``.
    label : str or None, default "label"
        Name of the column of the labels; a file without it, and empty cells, have no labels.
    sequence : str, optional
        Name of the column that identifies the sequence of a row. A new value begins a new sequence; an empty cell
        continues the previous one. None: empty rows separate sequences.
    columns : list of str, optional
        Columns to read in addition to these; None reads all.
    delimiter : str, default "," or a TAB
        The character between cells, such as ``";"``.
    quote : str or None, default '"'
        Quotation mark around cells that contain delimiters or line breaks, as in Python's csv module; None: no quoting.
    """

    with_gold = True
    gap = "\n\n"

    tokens: str = "word"
    label: str | None = "label"
    sequence: str | None = None
    columns: Sequence[str] | None = None
    delimiter: str = ","
    quote: str | None = '"'

    def __post_init__(self) -> None:
        super().__post_init__()
        if (
            not isinstance(self.delimiter, str)
            or len(self.delimiter) != 1
            or self.delimiter in ("\r", "\n", self.quote)
        ):
            wanted = "such as ';', other than `quote`"
            raise FileError("`delimiter` must be a single character", got=shown(self.delimiter), wanted=wanted)
        if self.quote is not None and (not isinstance(self.quote, str) or len(self.quote) != 1):
            raise FileError("`quote` must be a single character", got=shown(self.quote), wanted="'\"', or None")

    @property
    def dialect(self) -> dict[str, Any]:
        """The options of Python's csv module."""
        quoting = csv.QUOTE_NONE if self.quote is None else csv.QUOTE_MINIMAL
        return {"delimiter": self.delimiter, "quotechar": self.quote, "quoting": quoting, "strict": True}

    # ---- reading ----------------------------------------------------------------------------------------------------

    def read(self, source: Source) -> Iterator[Example]:
        rows, header = self._rows(source), list[str]()
        for _, row in rows:
            if any(row):
                header = row
                break
        if not header:
            return
        with located(f"{source.name}:1"):
            names = self._names(header)
        kept, at = [header.index(name) for name in names], list[list[str]]()
        gold = header.index(self.label) if self.label in header else None
        apart = None if self.sequence is None else header.index(self.sequence)
        begun, size, name = 0, 0, ""
        for number, row in rows:
            if any(row) and len(row) != len(header):
                got, wanted = f"{len(row)} cells", f"{len(header)}, as many as names in the first row"
                raise source.error(number, "a row has a different number of cells", got=got, wanted=wanted, **_MARKS)
            new = row[apart] if apart is not None and any(row) else ""
            if at and (not any(row) or (new and new != name)):
                yield self._example(source, begun, names, kept, gold, at, name)
                at, size = [], 0
            name = new or name
            if not any(row):
                continue
            if not row[kept[0]]:
                raise source.error(
                    number, "a token has no text", got="a cell without text", wanted=f"a {self.tokens!r}"
                )
            begun, size = begun if at else number, size + sum(map(len, row))
            if size > limits.LONGEST or len(at) >= limits.MOST_LINES:
                raise source.too_long(begun, size, len(at))
            at.append(row)
        if at:
            yield self._example(source, begun, names, kept, gold, at, name)

    def _rows(self, source: Source) -> Iterator[tuple[int, list[str]]]:
        """Each row with the number of its last line; an empty line is a row without cells."""
        rows = csv.reader((line + "\n" for _, line in source.lines(self.encoding)), **self.dialect)
        while True:
            try:
                row = next(rows, None)
            except csv.Error as error:
                raise source.error(
                    max(rows.line_num, 1),
                    "not a table",
                    got=str(error),
                    wanted=f"cells with {self.delimiter!r} between them",
                    **_MARKS,
                ) from None
            if row is None:
                return
            yield rows.line_num, row

    def boundaries(self, text: str, starts: Sequence[int], firsts: Sequence[int]) -> list[int]:
        """The first row belongs to no sequence; a cell may have several lines."""
        begins, end = dict[int, int](), 0
        for last, _ in replace(self, encoding="utf-8")._rows(TextSource("", text)):
            begins[last - 1], end = starts[end], last
        return [*(begins[first] for first in firsts), len(text)]

    def _names(self, header: list[str]) -> list[str]:
        """The columns to read, that of the tokens first."""
        if len(header) > limits.MOST_KEYS or len(set(header)) < len(header):
            wanted = f"each name once, at most {limits.MOST_KEYS:,}"
            raise FileError("the first row does not name columns", got=shown(header), wanted=wanted)
        if (
            len(header) == 1
            and header[0] != self.tokens
            and (mark := next(filter(header[0].__contains__, ";\t,|"), ""))
        ):
            raise FileError(
                "the first row has only one cell",
                got=shown(header[0]),
                wanted=f"names with {self.delimiter!r} between them",
                cause="Pass {argument} if that separates the cells.",
                argument=Argument("format", "tsv") if mark == "\t" else Argument("delimiter", mark),
            )
        for option, name in (("tokens", self.tokens), ("sequence", self.sequence)):
            if name is not None and name not in header:
                raise FileError(
                    "the column does not exist",
                    got=", ".join(map(repr, header))[:200],
                    wanted=repr(name),
                    cause="Pass {argument} if it has another name; the first row names the columns.",
                    argument=Argument(option),
                )
        others = [name for name in header if name not in (self.tokens, self.label, self.sequence)]
        if "word" in others and self.tokens != "word":
            raise FileError("two columns would have the name 'word'", got=repr(self.tokens), wanted="tokens='word'")
        if missing := sorted(set(self.columns or ()) - {*others, self.tokens}):
            raise FileError("the column does not exist", got=", ".join(others)[:200], wanted=repr(missing[0]))
        return [self.tokens, *(name for name in others if self.columns is None or name in self.columns)]

    def _example(
        self,
        source: Source,
        line: int,
        names: list[str],
        kept: list[int],
        gold: int | None,
        rows: list[list[str]],
        name: str,
    ) -> Example:
        labels = None if gold is None else [row[gold] for row in rows]
        if labels is not None and not all(labels):
            if any(labels):
                wanted = "a label for each token of a sequence, '?' if it is not known; or for none of them"
                raise source.error(line, "a token has no label", got=shown(rows[labels.index("")]), wanted=wanted)
            labels = None
        columns = {column: [row[k] for row in rows] for column, k in zip(["word", *names[1:]], kept, strict=True)}
        return Example(columns, labels, where=f"{source.name}:{line}", id=name or None)

    # ---- writing ----------------------------------------------------------------------------------------------------

    def text(self, examples: Iterable[Example]) -> Iterator[str]:
        names = list[str]()
        for number, example in enumerate(examples):
            first, *more = example.columns
            columns_here = [*([self.sequence] if self.sequence else []), self.tokens, *more]
            if example.labels is not None and self.label is not None:
                columns_here.append(self.label)
            if not names:
                names = columns_here
                yield from self._written(example, [names])
            if columns_here != names:
                got, wanted = ", ".join(columns_here), ", ".join(names)
                raise example.error("a sequence has other columns than the first", got=got, wanted=wanted)
            if len(set(names)) < len(names):
                raise example.error("columns have the same name", got=", ".join(names), wanted="each name once")
            if not len(example) or not all(example.tokens):
                what = "an empty sequence" if not len(example) else "an empty token"
                raise example.error(f"{what} cannot be written as {self.name}", got="no text", wanted="some text")
            columns = [example.columns[column] for column in (first, *more)]
            if example.labels is not None and self.label is not None:
                columns.append(example.known_labels)
            if self.sequence:
                columns.insert(0, [str(number if example.id is None else example.id)] * len(example))
            yield from self._written(example, zip(*columns, strict=True))
            if not self.sequence:
                yield ""

    def _written(self, example: Example, rows: Iterable[Iterable[str]]) -> list[str]:
        lines = list[str]()
        sink: Any = type("Sink", (), {"write": staticmethod(lines.append)})
        out = csv.writer(sink, lineterminator="\r\n", **self.dialect)  # cells with either of the two are quoted
        for row in rows:
            cells = list(row)
            if bad := [cell for cell in cells if not isinstance(cell, str) or "\r" in cell or "\0" in cell]:
                raise example.error("a cell cannot be written", got=shown(bad[0]), wanted="text without \\r and NUL")
            try:
                out.writerow(cells)
            except csv.Error as error:
                raise example.error("a cell cannot be written", got=str(error), wanted="another `quote`") from None
        return [line[:-2] for line in lines]


@dataclass(frozen=True, kw_only=True)
class Csv(Delimited):
    """A row per token, cells separated by commas, and column names in the first row."""

    name = "csv"
    suffixes: ClassVar[tuple[str, ...]] = (".csv",)


@dataclass(frozen=True, kw_only=True)
class Tsv(Delimited):
    """A row per token, cells separated by TABs, and column names in the first row."""

    name = "tsv"

    delimiter: str = "\t"

    @classmethod
    def looks_like(cls, head: str) -> bool:
        return names_columns(head)
