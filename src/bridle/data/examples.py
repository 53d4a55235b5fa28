"""Labelled sequences as values, and the iterator that reads them out of a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from bridle.data.source import Source
from bridle.errors import FileError


@dataclass(frozen=True, slots=True)
class Example:
    """One sequence: its columns, token by token, and its labels if they are known.

    >>> example = Example({"word": ["He", "left"], "pos": ["PRP", "VBD"]}, ["B-NP", "B-VP"])
    >>> len(example), example.tokens
    (2, ['He', 'left'])
    """

    columns: Mapping[str, Sequence[str]]  # name -> n strings; the first is the token's text (usually "word")
    labels: Sequence[str] | None = None  # n names
    given: Mapping[str, Any] = field(default_factory=dict)  # what comes with the sequence for rules
    comments: tuple[str, ...] = ()  # lines that stood above it
    where: str = field(default="", compare=False)  # "train.txt:12" of its first token
    id: Any = None  # what the file calls it

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping) or not self.columns:
            raise self.error("a sequence has no columns", got=repr(self.columns)[:60], wanted="{'word': [...], ...}")
        n = -1
        for name, column in (*self.columns.items(), ("labels", self.labels)):
            if column is None and name == "labels":
                continue
            if type(column) is not list and (isinstance(column, str) or not isinstance(column, Sequence)):
                raise self.error(f"{name!r} is no list of strings", got=repr(column)[:60], wanted="['He', 'left']")
            if n < 0:
                n = len(column)
            if len(column) != n:
                raise self.error(
                    f"{name!r} and the tokens differ in length", got=len(column), wanted=f"{n}, as many as tokens"
                )

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def tokens(self) -> Sequence[str]:
        """The texts of the tokens: the first column."""
        return next(iter(self.columns.values()))

    def error(self, what: str, **parts: Any) -> FileError:
        """An error about this sequence."""
        return FileError(what, where=self.where or None, **parts)


class Examples(Iterator[Example]):
    """Sequences, read as they are asked for. The file closes after the last one, or as a `with` ends.

    `format` is the name of the format; `total` is how many bytes there are, if that is known; `done()` how many of them
    have been read; `left_out` counts, by name, what was passed over because an option says so.
    """

    def __init__(self, items: Iterator[Example], source: Source, format: str) -> None:
        self._items, self._source, self.format = items, source, format

    @property
    def total(self) -> int | None:
        """All there is to read; None: nobody knows."""
        return self._source.total

    @property
    def left_out(self) -> dict[str, int]:
        """What was passed over so far."""
        return dict(self._source.left_out)

    def done(self) -> int:
        """How much has been read."""
        return self._source.done()

    def close(self) -> None:
        """Read no more."""
        self._items = iter(())
        self._source.close()

    def __next__(self) -> Example:
        try:
            return next(self._items)
        except BaseException:  # the end, or an error
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
