"""The works that references are made of: who wrote what, where and when. Facts only, read from records.tsv.

One line is one work, one column is one field of `Record`. A name is "Family, Given" or "Family, Given, Suffix"; between
names stands "; "; what a work does not have, or what nobody is sure of, is left empty.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Kind = Literal["article", "paper", "book", "chapter", "thesis", "report"]


@dataclass(frozen=True, slots=True)
class Author:
    """A person's name in its parts.

    Parameters
    ----------
    family : str
        Family name with its particles: "van Rossum".
    given : str
        Given names.
    suffix : str, default ""
        For example "Jr.".

    Examples
    --------
    >>> Author("Steele", "Guy L.", "Jr.").initials
    ('G.', 'L.')
    """

    family: str
    given: str
    suffix: str = ""

    @property
    def initials(self) -> tuple[str, ...]:
        """One initial per given name; "Jean-Paul" has the one initial "J.-P."."""
        return tuple("-".join(f"{part[0]}." for part in name.split("-")) for name in self.given.split())


@dataclass(frozen=True, slots=True)
class Record:
    """One work. A field that is not known, or that its kind does not have, is "".

    Parameters
    ----------
    key : str
        Short name, such as ``"lamport1978"``.
    kind : {"article", "paper", "book", "chapter", "thesis", "report"}
        What it is.
    authors : tuple of Author
        Who wrote it.
    title : str
        In title case.
    year : str
        When it appeared.
    venue : str
        The journal, the proceedings, the book of a chapter.
    acronym : str
        Of the conference: "SOSP".
    series : str
        That the proceedings are a volume of.
    volume, number : str
        Volume; number of the issue or of the report.
    pages : str
        For example "558-565".
    publisher : str
        Or the school of a thesis, the institution of a report.
    place : str
        Where the publisher is.
    edition : str
        For example "2nd".
    """

    key: str
    kind: Kind
    authors: tuple[Author, ...]
    title: str
    year: str
    venue: str = ""
    acronym: str = ""
    series: str = ""
    volume: str = ""
    number: str = ""
    pages: str = ""
    publisher: str = ""
    place: str = ""
    edition: str = ""


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
    text = (files("bridle.data.references") / "records.tsv").read_text(encoding="utf-8")
    rows: Iterable[dict[str, Any]] = csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    return tuple(Record(**{**row, "authors": _authors(row["authors"])}) for row in rows)


def _authors(names: str) -> tuple[Author, ...]:
    return tuple(Author(*name.split(", ")) for name in names.split("; "))
