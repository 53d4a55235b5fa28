"""Write src/bridle/data/references.tsv: works of computer science in eight citation styles, each field labelled.

    python tools/references/make.py

records.tsv has the facts: one line is one work, one column is one field of `Record`. A name is "Family, Given" or
"Family, Given, Suffix", names are separated by "; ", and unknown fields are empty. A style prints pieces, each a label
and a text. So labels are right by construction, and nothing is searched for.

    acm        Lamport, L. 1978. Time, clocks, and ... system. Commun. ACM 21, 7, 558–565.     (as in ACM Transactions)
    apa        Lamport, L. (1978). Time, clocks, and ... system. Communications of the ACM, 21(7), 558–565.
    bibtex     Leslie Lamport. Time, clocks, and ... system. Communications of the ACM, 21(7):558--565, 1978.   (plain)
    chicago    Lamport, Leslie. “Time, Clocks, and ... System.” Communications of the ACM 21, no. 7 (1978): 558–565.
    ieee       L. Lamport, “Time, clocks, and ... system,” Commun. ACM, vol. 21, no. 7, pp. 558–565, 1978.
    lncs       Lamport, L.: Time, clocks, and ... system. Commun. ACM 21(7), 558–565 (1978)
    mla        Lamport, Leslie. “Time, Clocks, and ... System.” Communications of the ACM, vol. 21, no. 7, 1978, pp. ...
    vancouver  Lamport L. Time, clocks, and ... system. Commun ACM. 1978;21(7):558-565.

Each field is one run of tokens. Where a style would print a field in two places, one of them is left out, as in most
people's files: plain BibTeX prints "volume 9 of <series>", and a place before the date with the publisher after it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

OUT = Path(__file__).parents[2] / "src" / "bridle" / "data" / "references.tsv"


# ---- works ----------------------------------------------------------------------------------------------------------

Kind = Literal["article", "paper", "book", "chapter", "thesis", "report"]


@dataclass(frozen=True, slots=True)
class Author:
    """A person's name in its parts, such as "Steele", "Guy L." and "Jr."."""

    family: str
    given: str
    suffix: str = ""

    @property
    def initials(self) -> tuple[str, ...]:
        """One initial per given name; "Jean-Paul" has the one initial "J.-P."."""
        return tuple("-".join(f"{part[0]}." for part in name.split("-")) for name in self.given.split())


@dataclass(frozen=True, slots=True)
class Record:
    """A work; a field that is not known, or that its kind does not have, is empty."""

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
    """Return all works of records.tsv, by year.

    >>> records()[0].title
    'On Computable Numbers, with an Application to the Entscheidungsproblem'
    """
    text = (Path(__file__).parent / "records.tsv").read_text(encoding="utf-8")
    rows: Iterable[dict[str, Any]] = csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    return tuple(Record(**{**row, "authors": _authors(row["authors"])}) for row in rows)


def _authors(names: str) -> tuple[Author, ...]:
    return tuple(Author(*name.split(", ")) for name in names.split("; "))


# ---- pieces, names, sentence case, short names ----------------------------------------------------------------------

Piece = tuple[str, str]  # a label, a text

# A word of a title keeps its capital in sentence case if it is a name; words with more capitals, or digits, keep them.
PROPER = frozenset(
    [
        "Amazon",
        "Bayes",
        "Bayou",
        "Boltzmann",
        "Boolean",
        "Borg",
        "Byzantine",
        "Chubby",
        "Cilk",
        "Click",
        "Diffie",
        "Dirichlet",
        "English",
        "Entscheidungsproblem",
        "Ethernet",
        "Fibonacci",
        "Fourier",
        "Gaussian",
        "Gibbs",
        "Google",
        "Haskell",
        "Hellman",
        "Internet",
        "Johnny",
        "Latin",
        "Markov",
        "Net",
        "Neumann",
        "Penn",
        "Treebank",
        "Turing",
        "Volcano",
        "Web",
        "Weil",
        "Wide",
        "World",
    ]
)
# ISO 4, as ACM and IEEE print it; small words are left out.
SHORT = {
    "Academy": "Acad.",
    "Advances": "Adv.",
    "American": "Amer.",
    "Analysis": "Anal.",
    "Annals": "Ann.",
    "Annual": "Annu.",
    "Applications": "Appl.",
    "Architecture": "Archit.",
    "Artificial": "Artif.",
    "Association": "Assoc.",
    "Automation": "Autom.",
    "Biophysics": "Biophys.",
    "Bulletin": "Bull.",
    "Communication": "Commun.",
    "Communications": "Commun.",
    "Computation": "Comput.",
    "Computational": "Comput.",
    "Computer": "Comput.",
    "Computers": "Comput.",
    "Computing": "Comput.",
    "Conference": "Conf.",
    "Construction": "Constr.",
    "Cybernetics": "Cybern.",
    "Development": "Develop.",
    "Discovery": "Discov.",
    "Distributed": "Distrib.",
    "Electrical": "Electr.",
    "Empirical": "Empir.",
    "Engineering": "Eng.",
    "Engineers": "Eng.",
    "European": "Eur.",
    "Experimental": "Exp.",
    "Foundations": "Found.",
    "Functional": "Funct.",
    "Implementation": "Implement.",
    "Informatica": "Inform.",
    "Information": "Inf.",
    "Institute": "Inst.",
    "Intelligence": "Intell.",
    "Interactive": "Interact.",
    "International": "Int.",
    "Journal": "J.",
    "Knowledge": "Knowl.",
    "Language": "Lang.",
    "Languages": "Lang.",
    "Learning": "Learn.",
    "Linguistics": "Linguist.",
    "Machine": "Mach.",
    "Management": "Manage.",
    "Mathematical": "Math.",
    "Mathematics": "Math.",
    "Mathematik": "Math.",
    "Medical": "Med.",
    "National": "Nat.",
    "Natural": "Nat.",
    "Network": "Netw.",
    "Networking": "Netw.",
    "Networks": "Netw.",
    "Numerische": "Numer.",
    "Operating": "Oper.",
    "Optimization": "Optim.",
    "Principles": "Princ.",
    "Proceedings": "Proc.",
    "Processing": "Process.",
    "Programming": "Program.",
    "Psychological": "Psychol.",
    "Psychology": "Psychol.",
    "Recognition": "Recognit.",
    "Representations": "Represent.",
    "Research": "Res.",
    "Retrieval": "Retr.",
    "Review": "Rev.",
    "Royal": "Roy.",
    "Science": "Sci.",
    "Sciences": "Sci.",
    "Security": "Secur.",
    "Series": "Ser.",
    "Society": "Soc.",
    "Software": "Softw.",
    "Statistical": "Statist.",
    "Statistics": "Statist.",
    "Symposium": "Symp.",
    "System": "Syst.",
    "Systems": "Syst.",
    "Technical": "Tech.",
    "Techniques": "Tech.",
    "Technologies": "Technol.",
    "Technology": "Technol.",
    "Transactions": "Trans.",
    "Verification": "Verif.",
}
SMALL = frozenset(["The", "a", "and", "for", "in", "of", "on", "the", "to", "&"])


def fill(template: str, **texts: str) -> list[Piece]:
    """The pieces of a template: {FIELD} is a text with that label, <...> is left out if its fields are empty.

    Names in lower case are not fields: their text is outside, as is the text of the template itself.

    >>> fill("{TITLE}<, {PAGES}>{edition}.", TITLE="A", PAGES="", edition=", 2nd ed")
    [('TITLE', 'A'), ('O', ', 2nd ed'), ('O', '.')]
    """
    pieces = list[Piece]()
    for needs, parts in _parsed(template):
        if not needs or any(texts[name] for name in needs):
            pieces += [(name if name.isupper() else "O", texts[name] if name else text) for name, text in parts]
    return pieces


@cache
def _parsed(template: str) -> list[tuple[list[str], list[tuple[str, str]]]]:
    """The stretches of a template: the fields that it hangs on, and its parts, each a name or a text."""
    stretches = []
    for stretch in re.findall("<[^>]*>|[^<]+", template):
        parts = re.findall(r"{(\w+)}|([^<>{}]+)", stretch)
        stretches.append(([name for name, _ in parts if name and stretch[0] == "<"], parts))
    return stretches


def marked(pieces: Iterable[Piece]) -> str:
    """Return the text of the pieces with marks around labels. No full stop follows another end of a sentence.

    >>> marked([("TITLE", "Why?"), ("O", ". "), ("DATE", "1984"), ("O", ".")])
    '{TITLE Why?} {DATE 1984}.'
    """
    parts, end = list[Piece](), ""
    for label, text in pieces:
        text = text[end + text[:1] in ("..", "?.", "!.", "?,", "!,") :]
        if text:
            parts.append((label, text))
            end = text[-1]
    runs = ((label, "".join(text for _, text in run)) for label, run in groupby(parts, key=itemgetter(0)))
    return "".join(text if label == "O" else f"{{{label} {text}}}" for label, text in runs)


def sentence(title: str) -> str:
    """A title in sentence case: small letters but for the first word, after a colon, and in names.

    >>> sentence("Large-Scale Markov Models for TCP/IP: The Time-Sharing Case")
    'Large-scale Markov models for TCP/IP: The time-sharing case'
    """
    words = title.split(" ")
    starts = [True, *(word[-1] in ":?!" for word in words[:-1])]
    heads = [word.partition("-")[0] if start else "" for word, start in zip(words, starts, strict=True)]
    return " ".join(head + _small(word.removeprefix(head)) for word, head in zip(words, heads, strict=True))


def _small(word: str) -> str:
    """A word in lower case, part by part, unless a part is a name or not a plain capitalised word."""
    return re.sub(
        r"[^\W\d_]+(?:[’'][a-z]+)?",
        lambda part: part[0].lower() if re.sub("[’'].*", "", part[0]) not in PROPER and _plain(part[0]) else part[0],
        word,
    )


def _plain(word: str) -> bool:
    return word == "A" or (len(word) > 1 and word[0].isupper() and word[1:].islower())


def short(name: str) -> str:
    """The short name of a journal or conference.

    >>> short("Proceedings of the 3rd Annual ACM Symposium on Theory of Computing")
    'Proc. 3rd Annu. ACM Symp. Theory Comput.'
    """
    words = [word for word in name.split() if word not in SMALL]
    if len(words) == 1:
        return name
    return " ".join(SHORT.get(word.rstrip(","), word) + word[len(word.rstrip(",")) :] for word in words)


# ---- names ----------------------------------------------------------------------------------------------------------


def full(author: Author) -> str:
    """Guy L. Steele Jr."""
    return " ".join(filter(None, [author.given, author.family, author.suffix]))


def initials_first(author: Author) -> str:
    """G. L. Steele Jr."""
    return " ".join(filter(None, [*author.initials, author.family, author.suffix]))


def family_first(author: Author) -> str:
    """Steele, Guy L., Jr."""
    return ", ".join(filter(None, [author.family, author.given, author.suffix]))


def initials_last(author: Author) -> str:
    """Steele, G. L., Jr."""
    return ", ".join(filter(None, [author.family, " ".join(author.initials), author.suffix]))


def initials_tight(author: Author) -> str:
    """Steele Jr., G.L."""
    family = " ".join(filter(None, [author.family, author.suffix]))
    return ", ".join(filter(None, [family, "".join(author.initials)]))


def initials_bare(author: Author) -> str:
    """Steele GL Jr"""
    letters = "".join(letter for letter in "".join(author.initials) if letter.isalpha())
    return " ".join(filter(None, [author.family, letters, author.suffix.rstrip(".")]))


def listed(
    authors: Sequence[Author],
    name: Callable[[Author], str],
    *,
    rest: Callable[[Author], str] | None = None,
    two: str = ", ",
    last: str = ", ",
    most: int | None = None,
    shown: int = 1,
    others: str = " et al.",
) -> str:
    """Names in a row: the first by `name`, the others by `rest`; more than `most` names are `shown` names and `others`.

    >>> people = [Author("Rivest", "Ronald L."), Author("Shamir", "Adi"), Author("Adleman", "Leonard")]
    >>> listed(people, initials_first, two=" and ", last=", and ")
    'R. L. Rivest, A. Shamir, and L. Adleman'
    >>> listed(people, family_first, most=2, others=", et al.")
    'Rivest, Ronald L., et al.'
    """
    names = [name(author) if k == 0 else (rest or name)(author) for k, author in enumerate(authors)]
    if most is not None and len(names) > most:
        return ", ".join(names[:shown]) + others
    if len(names) < 3:
        return two.join(names)
    return ", ".join(names[:-1]) + last + names[-1]


# ---- styles ---------------------------------------------------------------------------------------------------------

Style = Callable[[Record], list[Piece]]


def acm(work: Record) -> list[Piece]:
    """As in the Transactions of the ACM; the reference format of its newer journals prints the year twice."""
    conference = " ".join([work.venue, *_if(f"({work.acronym} ’{work.year[2:]})", work.acronym)])
    return fill(
        "{AUTHOR} {DATE}. {TITLE}"
        + {
            "article": ". {VENUE}< {VOLUME}><, {PAGES}>.",
            "paper": ". In {VENUE}<, {VOLUME}><. {PUBLISHER}><, {PAGES}>.",
            "chapter": ". In {VENUE}<. {PUBLISHER}><, {PAGES}>.",
            "book": "<, {edition} ed.><. {PUBLISHER}>.",
            "thesis": ". Ph.D. thesis<, {PUBLISHER}>.",
            "report": "<. {VOLUME}><, {PUBLISHER}>.",
        }[work.kind],
        AUTHOR=listed(work.authors, initials_last, two=" and ", last=", and "),
        TITLE=work.title if work.kind in ("book", "thesis") else sentence(work.title),
        VENUE=short(work.venue) if work.kind == "article" else _join(", ", conference, work.series),
        VOLUME=_volume(work, article="{}, {}", paper="Vol. {}", report="Tech. Rep. {}"),
        PAGES=work.pages.replace("-", "–"),
        PUBLISHER=_join(", ", work.publisher, work.place),
        DATE=work.year,
        edition=work.edition,
    )


def apa(work: Record) -> list[Piece]:
    """The seventh edition: no places, and book titles in sentence case too."""
    return fill(
        "{AUTHOR} ({DATE}). {TITLE}"
        + {
            "article": ". {VENUE}<, {VOLUME}><, {PAGES}>.",
            "paper": ". In {VENUE}< ({VOLUME}{comma}{PAGES})><. {PUBLISHER}>.",
            "chapter": ". In {VENUE}< ({PAGES})><. {PUBLISHER}>.",
            "book": "< ({edition} ed.)><. {PUBLISHER}>.",
            "thesis": " [Doctoral dissertation<, {PUBLISHER}>].",
            "report": "< ({VOLUME})><. {PUBLISHER}>.",
        }[work.kind],
        AUTHOR=listed(work.authors, initials_last, two=", & ", last=", & "),
        TITLE=sentence(work.title),
        VENUE=_join(", ", work.venue, work.series),
        VOLUME=_volume(work, article="{}({})", paper="Vol. {}", report="Technical Report No. {}"),
        PAGES=("" if work.kind == "article" else "pp. ") * bool(work.pages) + work.pages.replace("-", "–"),
        PUBLISHER=work.publisher,
        DATE=work.year,
        edition=work.edition,
        comma=", " if work.volume and work.pages else "",
    )


def bibtex(work: Record) -> list[Piece]:
    """Format an entry as the style `plain` of BibTeX does."""
    words = {"2nd": "second", "3rd": "third", "4th": "fourth", "5th": "fifth"}
    return fill(
        "{AUTHOR}. {TITLE}. "
        + {
            "article": "{VENUE}<, {VOLUME}><:{PAGES}>, {DATE}.",
            "paper": "In {VENUE}<, {VOLUME}><, {PAGES}><. {PUBLISHER}>, {DATE}.",
            "chapter": "In {VENUE}<, {PAGES}><. {PUBLISHER}>, {DATE}.",
            "book": "<{PUBLISHER}, ><{edition} edition, >{DATE}.",
            "thesis": "PhD thesis<, {PUBLISHER}>, {DATE}.",
            "report": "<{VOLUME}, ><{PUBLISHER}, >{DATE}.",
        }[work.kind],
        AUTHOR=listed(work.authors, full, two=" and ", last=", and "),
        TITLE=work.title if work.kind in ("book", "thesis") else sentence(work.title),
        VENUE=work.venue,
        VOLUME="" if work.series else _volume(work, article="{}({})", paper="volume {}", report="Technical Report {}"),
        PAGES=("" if work.kind == "article" and work.volume else "pages ") * bool(work.pages)
        + work.pages.replace("-", "--"),
        PUBLISHER=work.publisher if work.kind == "paper" else _join(", ", work.publisher, work.place),
        DATE=work.year,
        edition=words.get(work.edition, work.edition),
    )


def chicago(work: Record) -> list[Piece]:
    """Notes and bibliography, as the bibliography prints it."""
    return fill(
        "{AUTHOR}. "
        + {
            "article": "“{TITLE}.” {VENUE}< {VOLUME}> ({DATE})<: {PAGES}>.",
            "paper": "“{TITLE}.” In {VENUE}<, {VOLUME}><, {PAGES}>. <{PUBLISHER}, >{DATE}.",
            "chapter": "“{TITLE}.” In {VENUE}<, {PAGES}>. <{PUBLISHER}, >{DATE}.",
            "book": "{TITLE}<. {edition} ed.>. <{PUBLISHER}, >{DATE}.",
            "thesis": "“{TITLE}.” PhD diss.<, {PUBLISHER}>, {DATE}.",
            "report": "“{TITLE}.”< {VOLUME}><. {PUBLISHER}>, {DATE}.",
        }[work.kind],
        AUTHOR=listed(
            work.authors, family_first, rest=full, two=", and ", last=", and ", most=10, shown=7, others=", et al."
        ),
        TITLE=work.title,
        VENUE=_join(", ", work.venue, work.series),
        VOLUME=_volume(work, article="{}, no. {}", paper="vol. {}", report="Technical Report {}"),
        PAGES=work.pages.replace("-", "–"),
        PUBLISHER=work.publisher if work.kind in ("thesis", "report") else _join(": ", work.place, work.publisher),
        DATE=work.year,
        edition=work.edition,
    )


def ieee(work: Record) -> list[Piece]:
    """Initials first, titles in quotes, short names of conferences, no publishers of proceedings."""
    return fill(
        "{AUTHOR}, "
        + {
            "article": "“{TITLE},” {VENUE}<, {VOLUME}><, {PAGES}>, {DATE}.",
            "paper": "“{TITLE},” in {VENUE}<, {VOLUME}>, {DATE}<, {PAGES}>.",
            "chapter": "“{TITLE},” in {VENUE}. <{PUBLISHER}, >{DATE}<, {PAGES}>.",
            "book": "{TITLE}<, {edition} ed.>. <{PUBLISHER}, >{DATE}.",
            "thesis": "“{TITLE},” Ph.D. dissertation<, {PUBLISHER}>, {DATE}.",
            "report": "“{TITLE},”< {PUBLISHER},>< {VOLUME},> {DATE}.",
        }[work.kind],
        AUTHOR=listed(work.authors, initials_first, two=" and ", last=", and ", most=6),
        TITLE=work.title if work.kind == "book" else sentence(work.title),
        VENUE=work.venue if work.kind == "chapter" else _join(", ", short(work.venue), *_if("LNCS", work.series)),
        VOLUME=_volume(work, article="vol. {}, no. {}", paper="vol. {}", report="Tech. Rep. {}"),
        PAGES="pp. " * bool(work.pages) + work.pages.replace("-", "–"),
        PUBLISHER=_join(", ", work.publisher, work.place)
        if work.kind in ("thesis", "report")
        else _join(": ", work.place, work.publisher),
        DATE=work.year,
        edition=work.edition,
    )


def lncs(work: Record) -> list[Piece]:
    """Springer's Lecture Notes: a colon after the names, the year in brackets at the end."""
    return fill(
        "{AUTHOR}: {TITLE}"
        + {
            "article": ". {VENUE}< {VOLUME}><, {PAGES}> ({DATE})",
            "paper": ". In: {VENUE}<, {VOLUME}><, {PAGES}><. {PUBLISHER}> ({DATE})",
            "chapter": ". In: {VENUE}<, {PAGES}><. {PUBLISHER}> ({DATE})",
            "book": "<. {PUBLISHER}><, {edition} edn.> ({DATE})",
            "thesis": ". Ph.D. thesis<, {PUBLISHER}> ({DATE})",
            "report": "<. {VOLUME}><, {PUBLISHER}> ({DATE})",
        }[work.kind],
        AUTHOR=listed(work.authors, initials_tight),
        TITLE=work.title if work.kind in ("book", "thesis") else sentence(work.title),
        VENUE=short(work.venue) if work.kind == "article" else _join(". ", work.venue, *_if("LNCS", work.series)),
        VOLUME=_volume(work, article="{}({})", paper="vol. {}", report="Tech. Rep. {}"),
        PAGES=("" if work.kind == "article" else "pp. ") * bool(work.pages) + work.pages.replace("-", "–"),
        PUBLISHER=_join(", ", work.publisher, work.place.partition(",")[0]),  # no states
        DATE=work.year,
        edition=work.edition,
    )


def mla(work: Record) -> list[Piece]:
    """The ninth edition: two names at most, no places."""
    return fill(
        "{AUTHOR}. "
        + {
            "article": "“{TITLE}.” {VENUE}<, {VOLUME}>, {DATE}<, {PAGES}>.",
            "paper": "“{TITLE}.” {VENUE}<, {VOLUME}><, {PUBLISHER}>, {DATE}<, {PAGES}>.",
            "chapter": "“{TITLE}.” {VENUE}<, {PUBLISHER}>, {DATE}<, {PAGES}>.",
            "book": "{TITLE}. <{edition} ed., ><{PUBLISHER}, >{DATE}.",
            "thesis": "{TITLE}. {DATE}<. {PUBLISHER}>, PhD dissertation.",
            "report": "{TITLE}. <{PUBLISHER}, >{DATE}<. {VOLUME}>.",
        }[work.kind],
        AUTHOR=listed(work.authors, family_first, rest=full, two=", and ", most=2, others=", et al."),
        TITLE=work.title,
        VENUE=work.venue,
        VOLUME=""
        if work.series
        else _volume(work, article="vol. {}, no. {}", paper="vol. {}", report="Technical Report {}"),
        PAGES="pp. " * bool(work.pages) + work.pages.replace("-", "–"),
        PUBLISHER=work.publisher,
        DATE=work.year,
        edition=work.edition,
    )


def vancouver(work: Record) -> list[Piece]:
    """As medical journals have it: names without marks, the date before the volume."""
    return fill(
        "{AUTHOR}. {TITLE}"
        + {
            "article": ". {VENUE}. {DATE}<;{VOLUME}><:{PAGES}>.",
            "paper": ". In: {VENUE}<. {PUBLISHER}>; {DATE}<. {PAGES}>.",
            "chapter": ". In: {VENUE}<. {PUBLISHER}>; {DATE}<. {PAGES}>.",
            "book": "<. {edition} ed.><. {PUBLISHER}>; {DATE}.",
            "thesis": " [dissertation]<. {PUBLISHER}>; {DATE}.",
            "report": "<. {PUBLISHER}>; {DATE}<. {VOLUME}>.",
        }[work.kind],
        AUTHOR=listed(work.authors, initials_bare, most=6, shown=6, others=", et al"),
        TITLE=sentence(work.title),
        VENUE=short(work.venue).replace(".", "") if work.kind == "article" else work.venue,
        VOLUME=_volume(work, article="{}({})", paper="", report="Report No.: {}"),
        PAGES=("" if work.kind == "article" else "p. ") * bool(work.pages) + work.pages,
        PUBLISHER=_join(": ", work.place, work.publisher),
        DATE=work.year,
        edition=work.edition,
    )


STYLES: Mapping[str, Style] = {
    "acm": acm,
    "apa": apa,
    "bibtex": bibtex,
    "chicago": chicago,
    "ieee": ieee,
    "lncs": lncs,
    "mla": mla,
    "vancouver": vancouver,
}


def _join(mark: str, *parts: str) -> str:
    """The parts that there are, with a mark in between."""
    return mark.join(filter(None, parts))


def _if(text: str, there: str) -> list[str]:
    """The text if something is there."""
    return [text] if there else []


def _volume(work: Record, *, article: str, paper: str, report: str) -> str:
    """Volume and number as a style writes them; the volume alone is the first half of what an article has."""
    if work.kind == "report":
        return report.format(work.number) if work.number else ""
    if work.kind == "article" and work.number:
        return article.format(work.volume, work.number)
    pattern = article[: article.index("{}") + 2] if work.kind == "article" else paper
    return pattern.format(work.volume) if work.volume else ""


def table() -> str:
    """Return the content of references.tsv: a line per work, with its text in each style and marks around labels."""
    lines = [["key", "kind", "year", "title", *STYLES]]
    for work in records():
        texts = [marked(style(work)) for style in STYLES.values()]
        lines.append([work.key, work.kind, work.year, work.title, *texts])
    return "".join("\t".join(line) + "\n" for line in lines)


if __name__ == "__main__":
    OUT.write_text(table(), encoding="utf-8")
