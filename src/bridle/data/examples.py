"""Labelled sequences as values, and the iterator that reads them from a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Protocol, Self, cast

from bridle.data.source import Source
from bridle.errors import Argument, FileError, shown

_TAGS, _OUTSIDE = frozenset("BILMESU"), "O"  # before the type of a segment, as in B-PER


@dataclass(frozen=True, slots=True)
class Example:
    """One sequence: its columns, token by token, and its labels if they are known.

    Parameters
    ----------
    columns : mapping of str to sequence of str
        Columns by name, with a string per token. The first one contains the texts of the tokens, usually ``"word"``.
    labels : sequence of str, optional
        A label per token, None where it is not known.
    given : mapping, optional
        Values for rules that come with the sequence.
    comments : tuple of str, optional
        Comment lines above it in the file.
    where : str, optional
        Where it begins, such as ``"train.txt:12"``.
    id : object, optional
        Its id in the file.
    text : str, optional
        The text that the tokens were cut from.
    starts : sequence of int, optional
        Where each token begins in `text`; required with `text`.
    probabilities : sequence of float, optional
        The probability of each segment of the labels, in order, if a model computed them.
    group : str or int, optional
        The document that it belongs to, if the option `groups` of the format says where to find it.

    Raises
    ------
    FileError
        If there are no columns, they differ in length, or a token is not in the text at its offset.

    Examples
    --------
    >>> from bridle.data import Example
    >>> example = Example({"word": ["He", "left"], "pos": ["PRP", "VBD"]}, ["B-NP", "B-VP"])
    >>> len(example), example.tokens
    (2, ['He', 'left'])

    Cut from a text, its tokens know their places:

    >>> example = Example({"word": ["He", "left"]}, text="He left.", starts=[0, 3])
    >>> example.offsets
    [(0, 2), (3, 7)]
    """

    columns: Mapping[str, Sequence[str]]
    labels: Sequence[str | None] | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    comments: tuple[str, ...] = ()
    where: str = field(default="", compare=False)
    id: Any = None
    text: str | None = None
    starts: Sequence[int] | None = None  # (n)
    probabilities: Sequence[float] | None = None
    group: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping) or not self.columns:
            raise self.error("a sequence has no columns", got=shown(self.columns), wanted="{'word': [...], ...}")
        n = -1
        for name, column in (*self.columns.items(), ("labels", self.labels)):
            if column is None and name == "labels":
                continue
            if type(column) is not list and (isinstance(column, str) or not isinstance(column, Sequence)):
                raise self.error(f"{name!r} must be a list of strings", got=shown(column), wanted="['He', 'left']")
            if n < 0:
                n = len(column)
            if len(column) != n:
                raise self.error(
                    f"{name!r} and the tokens differ in length", got=len(column), wanted=f"{n}, as many as tokens"
                )
        if self.text is not None or self.starts is not None:
            self._check_places()

    def _check_places(self) -> None:
        text, starts, at = self.text, self.starts, 0
        if text is None or starts is None or len(starts) != len(self):
            got = "no text" if text is None else "no starts" if starts is None else f"{len(starts)} starts"
            raise self.error(
                "pass both `text` and `starts`, or neither", got=got, wanted=f"a text and {len(self)} starts"
            )
        for token, start in zip(self.tokens, starts, strict=True):
            if not isinstance(start, int) or start < at or not text.startswith(token, start):
                raise self.error(
                    "a token is not in the text at its offset",
                    got=f"{shown(token)} at {start}",
                    wanted="tokens in the order of the text, each where it begins",
                )
            at = start + len(token)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def tokens(self) -> Sequence[str]:
        """Texts of the tokens: the first column."""
        return next(iter(self.columns.values()))

    @property
    def known_labels(self) -> list[str]:
        """The labels, which must all be known; raises `FileError` if one is missing."""
        if self.labels is None or None in self.labels:
            got = "no labels" if self.labels is None else f"{list(self.labels).count(None)} tokens without a label"
            raise self.error("a label is missing", got=got, wanted="a label for every token")
        return cast(list[str], list(self.labels))

    @property
    def offsets(self) -> list[tuple[int, int]] | None:
        """Begin and end of each token in `text`; None without a text."""
        if self.starts is None:
            return None
        return [(start, start + len(token)) for start, token in zip(self.starts, self.tokens, strict=True)]

    def error(self, what: str, **parts: Any) -> FileError:
        """Make an error about this sequence.

        Parameters
        ----------
        what : str
            What is wrong.
        **parts
            Other fields of the error, such as `got` and `wanted`.

        Returns
        -------
        FileError
            With the place of the sequence in its file.
        """
        return FileError(what, where=self.where or None, **parts)


@dataclass(eq=False)
class Examples(Iterator[Example]):
    """Sequences of a file, read as you iterate; `read` makes one.

    The file closes after the last sequence, or at the end of a ``with`` block.

    Parameters
    ----------
    items : iterator of Example
        The sequences.
    source : Source
        The open file that they come from.
    format : str
        Name of its format.
    missing : str, optional
        Text of a label that is not known; such labels become None.
    map : mapping of str to str, optional
        New names of labels.
    """

    items: Iterator[Example]
    source: Source
    format: str
    missing: str | None = None
    map: Mapping[str, str] | None = None

    @property
    def total(self) -> int | None:
        """Total number of bytes to read; None if unknown."""
        return self.source.total

    @property
    def left_out(self) -> dict[str, int]:
        """Counts, by name, of what the reader has skipped so far."""
        return dict(self.source.left_out)

    @property
    def changed(self) -> dict[str, int]:
        """Counts, by name, of what the reader has changed so far."""
        return dict(self.source.changed)

    def done(self) -> int:
        """Return how much has been read.

        Returns
        -------
        int
            Number of bytes.
        """
        return self.source.done

    def take(self, sequences: int, tokens: int) -> list[Example]:
        """Read some sequences at once.

        Parameters
        ----------
        sequences : int
            Maximum number of sequences.
        tokens : int
            Reading stops when the sequences have this many tokens.

        Returns
        -------
        list of Example
            The next sequences; none at the end of the file.
        """
        taken: list[Example] = []
        for example in islice(self, sequences):
            taken.append(example)
            tokens -= len(example)
            if tokens <= 0:
                break
        return taken

    def labelled(self) -> Iterator[Example]:
        """Iterate over the sequences that have labels.

        Texts of an annotation tool without annotations are skipped and counted in `left_out`.

        Yields
        ------
        Example

        Raises
        ------
        FileError
            At any other sequence without labels.
        """
        for example in self:
            if example.labels is not None:
                yield example
            elif example.text is None:
                raise example.error(
                    "a sequence has no labels",
                    got="tokens only",
                    wanted="a label per token",
                    cause="Is {argument} the right column?",
                    argument=Argument("label"),
                )
            else:
                self.source.leave_out("texts without annotations")

    def close(self) -> None:
        """Close the file; no more sequences are read."""
        self.items = iter(())
        self.source.close()

    def __next__(self) -> Example:
        try:
            return as_known(next(self.items), self)
        except BaseException:  # the end, or an error
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    __del__ = close


class LabelOptions(Protocol):
    """Options about labels that are read."""

    @property
    def missing(self) -> str | None:
        """The text of a label that is not known."""

    @property
    def map(self) -> Mapping[str, str] | None:
        """New names of labels."""


def as_known(example: Example, options: LabelOptions) -> Example:
    """Rename labels, and replace the text of a missing one by None."""
    labels = example.labels
    if labels is None or (not options.map and (options.missing is None or options.missing not in labels)):
        return example
    return replace(example, labels=[known(label, options) for label in labels])


def known(label: str | None, options: LabelOptions) -> str | None:
    """Return the new name of a label; None if it is missing."""
    if label is not None and options.map:
        tag, dash, kind = label.partition("-")
        if label in options.map:
            label = options.map[label]
        elif dash and tag in _TAGS and kind in options.map:
            label = options.map[kind] if options.map[kind] == _OUTSIDE else f"{tag}-{options.map[kind]}"
    return None if label == options.missing else label
