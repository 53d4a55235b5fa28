"""References to well-known works of computer science, in eight styles, every token labelled.

To test on works and styles that a model has not seen::

    from bridle.data import references

    known, unknown = references.split(150)
    train = references.references("acm", "ieee", of=known)
    test = references.references("chicago", of=unknown)

Labels: AUTHOR (with commas, "and" and "et al."), TITLE, VENUE (journal, proceedings, series, or the book around a
chapter), VOLUME (volume and number with their words; the number of a report), PAGES, PUBLISHER (or school; with its
place), DATE, and O for everything else. references.tsv has all of them; tools/references/make.py writes it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from bridle.data.examples import Example
from bridle.data.tokenizer import tokenize, tokens_of
from bridle.errors import FileError
from bridle.labels import Labels

__all__ = ["LABELS", "STYLES", "Record", "Reference", "cite", "records", "references", "split", "tokenise"]

LABELS = Labels(["O", "AUTHOR", "TITLE", "VENUE", "VOLUME", "PAGES", "PUBLISHER", "DATE"], scheme="IO")
STYLES = ("acm", "apa", "bibtex", "chicago", "ieee", "lncs", "mla", "vancouver")
_PIECE = re.compile(r"\{([A-Z]+) ([^}]*)\}|([^{]+)")  # {LABEL text}, or text outside of fields


@dataclass(frozen=True, slots=True)
class Record:
    """A work; `records` lists them.

    Attributes
    ----------
    key : str
        Short name, such as ``"lamport1978"``.
    kind : str
        "article", "paper", "book", "chapter", "thesis" or "report".
    year : str
        Year of publication.
    title : str
        Title in title case.
    """

    key: str
    kind: str
    year: str
    title: str
    _texts: tuple[str, ...] = field(repr=False)  # in each of the styles, with marks around labels


@dataclass(frozen=True, slots=True)
class Reference:
    """A work in one citation style; `cite` makes it.

    Attributes
    ----------
    key : str
        Key of the work.
    style : str
        Name of the style.
    tokens, labels : tuple of str
        The tokens, cut by `tokenise`, and their labels.
    text : str
        The whole reference.
    """

    key: str
    style: str
    tokens: tuple[str, ...]
    labels: tuple[str, ...]
    text: str


@cache
def records() -> tuple[Record, ...]:
    """List the works that come with Bridle.

    Returns
    -------
    tuple of Record
        All works, by year.

    Examples
    --------
    >>> records()[0].title
    'On Computable Numbers, with an Application to the Entscheidungsproblem'
    """
    lines = (files("bridle.data") / "references.tsv").read_text(encoding="utf-8").splitlines()[1:]
    rows = (line.split("\t") for line in lines)
    return tuple(Record(key, kind, year, title, tuple(texts)) for key, kind, year, title, *texts in rows)


def tokenise(text: str) -> list[str]:
    """Cut text into words, numbers and marks; initials and known abbreviations keep their dot.

    Parameters
    ----------
    text : str
        A reference.

    Returns
    -------
    list of str
        Its tokens.

    Examples
    --------
    >>> tokenise("D.E. Knuth et al. In: Proc. X, 3(4), pp. 1--10.")
    ['D.', 'E.', 'Knuth', 'et', 'al.', 'In', ':', 'Proc.', 'X', ',', '3', '(', '4', ')', ',', 'pp.', '1--10', '.']
    """
    return tokens_of(text, "references")


def cite(record: Record, style: str) -> Reference:
    """Format a work in a citation style, with labels.

    Parameters
    ----------
    record : Record
        The work.
    style : str
        One of `STYLES`.

    Returns
    -------
    Reference
        Text, tokens and labels.

    Raises
    ------
    FileError
        If there is no such style.

    Examples
    --------
    >>> work = next(work for work in records() if work.key == "lamport1978")
    >>> cite(work, "ieee").text
    'L. Lamport, “Time, clocks, and the ordering of events in a distributed system,” Commun. ACM, vol. 21, no. 7, pp. 558–565, 1978.'
    >>> list(zip(cite(work, "ieee").tokens, cite(work, "ieee").labels))[:5]
    [('L.', 'AUTHOR'), ('Lamport', 'AUTHOR'), (',', 'O'), ('“', 'O'), ('Time', 'TITLE')]
    """  # noqa: E501
    _check_styles([style])
    text, owners = "", list[str]()  # the label of each character
    for label, labelled, outside in _PIECE.findall(record._texts[STYLES.index(style)]):
        text += labelled or outside
        owners += [label or "O"] * len(labelled or outside)
    tokens, starts = tokenize(text, "references")
    return Reference(record.key, style, tuple(tokens), tuple(owners[start] for start in starts), text)


def references(
    *styles: str, count: int | None = None, seed: int = 0, of: Sequence[Record] | None = None
) -> list[Example]:
    """Make labelled references, style by style: the same works, in the same order, in each.

    Parameters
    ----------
    *styles : str
        Names of `STYLES`; all of them by default.
    count : int, optional
        Number of works, the first ones after a shuffle; None means all.
    seed : int, default 0
        Seed of the shuffle.
    of : sequence of Record, optional
        The works to choose from; None means all.

    Returns
    -------
    list of Example
        Each with the column ``word``, and the key and style of the work as `id`.

    Raises
    ------
    FileError
        If there is no such style, or `count` exceeds the number of works.

    Examples
    --------
    >>> [example.id.split("/")[1] for example in references("acm", "mla", count=2)]
    ['acm', 'acm', 'mla', 'mla']
    """
    _check_styles(styles)
    works, _ = _shuffled(records() if of is None else of, count, seed)
    cited = [cite(work, style) for style in styles or STYLES for work in works]
    return [Example({"word": x.tokens}, x.labels, id=f"{x.key}/{x.style}") for x in cited]


def split(count: int, seed: int = 0) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
    """Split the works in two, so that no work is in both parts.

    Parameters
    ----------
    count : int
        Number of works in the first part.
    seed : int, default 0
        Seed of the shuffle.

    Returns
    -------
    tuple of tuple of Record
        `count` works, and all the others.

    Raises
    ------
    FileError
        If `count` exceeds the number of works.

    Examples
    --------
    >>> train, test = split(150)
    >>> len(train), set(train) & set(test)
    (150, set())
    """
    return _shuffled(records(), count, seed)


def _shuffled(works: Sequence[Record], count: int | None, seed: int) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
    if count is not None and not (isinstance(count, int) and 0 <= count <= len(works)):
        raise FileError(
            "`count` exceeds the number of works",
            got=f"count={count!r}",
            wanted=f"a number from 0 to {len(works)}",
            cause="`count` counts works; each gives one reference in each style.",
        )
    mixed = list(works)
    random.Random(seed).shuffle(mixed)
    end = len(mixed) if count is None else count
    return tuple(mixed[:end]), tuple(mixed[end:])


def _check_styles(styles: Sequence[str]) -> None:
    for style in styles:
        if style not in STYLES:
            raise FileError(
                "unknown style of references",
                got=repr(style),
                wanted=f"one of {', '.join(STYLES)}",
                cause='A misspelled name? Styles are separate arguments: references("acm", "ieee").',
            )
