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

    >>> Author("Steele", "Guy L.", "Jr.").initials
    ('G.', 'L.')
    """

    family: str  # with its particles: "van Rossum"
    given: str
    suffix: str = ""  # "Jr."

    @property
    def initials(self) -> tuple[str, ...]:
        """One per given name; "Jean-Paul" has the one initial "J.-P."."""
        return tuple("-".join(f"{part[0]}." for part in name.split("-")) for name in self.given.split())


@dataclass(frozen=True, slots=True)
class Record:
    """One work. A field that is not known, or that its kind does not have, is ""."""

    key: str
    kind: Kind
    authors: tuple[Author, ...]
    title: str  # in title case
    year: str
    venue: str = ""  # the journal, the proceedings, the book that a chapter stands in
    acronym: str = ""  # of the conference: "SOSP"
    series: str = ""  # that the proceedings are a volume of
    volume: str = ""
    number: str = ""  # of the issue, of the report
    pages: str = ""  # "558-565"
    publisher: str = ""  # or the school of a thesis, the institution of a report
    place: str = ""
    edition: str = ""  # "2nd"


@cache
def records() -> tuple[Record, ...]:
    """All works, in the order of the file: by year.

    >>> records()[0].title
    'On Computable Numbers, with an Application to the Entscheidungsproblem'
    """
    text = (files("bridle.data.references") / "records.tsv").read_text(encoding="utf-8")
    rows: Iterable[dict[str, Any]] = csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    return tuple(Record(**{**row, "authors": _authors(row["authors"])}) for row in rows)


def _authors(names: str) -> tuple[Author, ...]:
    return tuple(Author(*name.split(", ")) for name in names.split("; "))
