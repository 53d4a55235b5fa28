"""Eight ways to print a reference, each one small function from a work to pieces: (label, text).

acm        Lamport, L. 1978. Time, clocks, and ... system. Commun. ACM 21, 7, 558–565.      (as in ACM Transactions)
apa        Lamport, L. (1978). Time, clocks, and ... system. Communications of the ACM, 21(7), 558–565.
bibtex     Leslie Lamport. Time, clocks, and ... system. Communications of the ACM, 21(7):558--565, 1978.    (plain)
chicago    Lamport, Leslie. “Time, Clocks, and ... System.” Communications of the ACM 21, no. 7 (1978): 558–565.
ieee       L. Lamport, “Time, clocks, and ... system,” Commun. ACM, vol. 21, no. 7, pp. 558–565, 1978.
lncs       Lamport, L.: Time, clocks, and ... system. Commun. ACM 21(7), 558–565 (1978)
mla        Lamport, Leslie. “Time, Clocks, and ... System.” Communications of the ACM, vol. 21, no. 7, 1978, pp. ...
vancouver  Lamport L. Time, clocks, and ... system. Commun ACM. 1978;21(7):558-565.

Each field is one run of tokens. Where a style would tear one in two, that part is left out, as it is in most people's
files: plain BibTeX prints "volume 9 of <series>", and a place before the date with the publisher after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bridle.data.references.parts import (
    Piece,
    family_first,
    fill,
    full,
    initials_bare,
    initials_first,
    initials_last,
    initials_tight,
    listed,
    sentence,
    short,
)
from bridle.data.references.works import Record

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
    """What the style `plain` of BibTeX makes of an entry."""
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
