"""References to well-known works of computer science, in eight styles, every token labelled.

    from bridle.data import references

    known, unknown = references.split(150)
    train = references.references("acm", "ieee", of=known)
    test = references.references("chicago", of=unknown)      # other works, in a style that no model has seen

A reference is made from a record, so its labels are right by construction. Labels: AUTHOR (with commas, "and" and "et
al."), TITLE, VENUE (journal, proceedings, series, or the book around a chapter), VOLUME (volume and number with their
words; the number of a report), PAGES, PUBLISHER (or school; with its place), DATE, and O for what stands in between.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from bridle.data.examples import Example
from bridle.data.references import styles as _styles
from bridle.data.references.parts import printed, tokenise
from bridle.data.references.works import Author, Record, records
from bridle.errors import FileError
from bridle.labels import Labels

LABELS = Labels(["O", "AUTHOR", "TITLE", "VENUE", "VOLUME", "PAGES", "PUBLISHER", "DATE"], scheme="IO")
STYLES: tuple[str, ...] = tuple(_styles.STYLES)

__all__ = [
    "LABELS", "STYLES", "Author", "Record", "Reference", "cite", "records", "references", "split", "tokenise",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reference:
    """A work as one style prints it."""

    key: str  # of the record
    style: str
    tokens: tuple[str, ...]  # n; tokenise(text)
    labels: tuple[str, ...]  # n
    text: str


def cite(record: Record, style: str) -> Reference:
    """A work in a style.

    >>> work = next(work for work in records() if work.key == "lamport1978")
    >>> cite(work, "ieee").text
    'L. Lamport, “Time, clocks, and the ordering of events in a distributed system,” Commun. ACM, vol. 21, no. 7, pp. 558–565, 1978.'
    >>> list(zip(cite(work, "ieee").tokens, cite(work, "ieee").labels))[:5]
    [('L.', 'AUTHOR'), ('Lamport', 'AUTHOR'), (',', 'O'), ('“', 'O'), ('Time', 'TITLE')]
    """  # noqa: E501
    _check_styles([style])
    text, tokens, labels = printed(_styles.STYLES[style](record))
    return Reference(record.key, style, tuple(tokens), tuple(labels), text)


def references(
    *styles: str, count: int | None = None, seed: int = 0, of: Sequence[Record] | None = None
) -> list[Example]:
    """Labelled references, style by style; all styles if none is named. The same works, in the same order, in each.

    count: so many works, the first ones after a shuffle with the seed; None: all.
    of: the works to choose from; None: all there are.

    >>> [example.id.split("/")[1] for example in references("acm", "mla", count=2)]
    ['acm', 'acm', 'mla', 'mla']
    """
    _check_styles(styles)
    chosen, _ = _shuffled(records() if of is None else of, count, seed)
    return [
        Example({"word": made.tokens}, made.labels, id=f"{made.key}/{made.style}")
        for style in styles or STYLES
        for made in (cite(work, style) for work in chosen)
    ]


def split(count: int, seed: int = 0) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
    """So many works, and all the others: no work is in both.

    >>> train, test = split(150)
    >>> len(train), set(train) & set(test)
    (150, set())
    """
    return _shuffled(records(), count, seed)


def _shuffled(works: Sequence[Record], count: int | None, seed: int) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
    """The first `count` works after a shuffle, and the others."""
    if count is not None and not (isinstance(count, int) and 0 <= count <= len(works)):
        raise FileError(
            "there are not as many works", got=f"count={count!r}", wanted=f"a number from 0 to {len(works)}",
            cause="`count` counts works; each gives one reference in each style.",
        )  # fmt: skip
    mixed = list(works)
    random.Random(seed).shuffle(mixed)
    cut = len(mixed) if count is None else count
    return tuple(mixed[:cut]), tuple(mixed[cut:])


def _check_styles(styles: Sequence[str]) -> None:
    for style in styles:
        if style not in STYLES:
            raise FileError(
                "unknown style of references", got=repr(style), wanted=f"one of {', '.join(STYLES)}",
                cause="A misspelt name? Styles are separate arguments: references(\"acm\", \"ieee\").",
            )  # fmt: skip
