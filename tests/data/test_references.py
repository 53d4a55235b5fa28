"""The embedded references and the program that makes them: facts, styles, labels that obey what is true."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
import unicodedata
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.data import read, write
from bridle.data.references import LABELS, STYLES, Record, Reference, cite, records, references, split, tokenise
from bridle.errors import BridleError
from bridle.rules.text import parse


def maker() -> Any:
    """Import tools/references/make.py."""
    path = Path(__file__).parents[2] / "tools" / "references" / "make.py"
    result = importlib.util.spec_from_file_location("make_references", path)
    assert result is not None and result.loader is not None
    module = sys.modules["make_references"] = importlib.util.module_from_spec(result)
    result.loader.exec_module(module)
    return module


make = maker()
FACTS = make.records()
WORKS = {work.key: work for work in records()}
ALL = [cite(work, style) for style in STYLES for work in records()]
PINNED = "af3dec4c7b138e86"  # changes with any token or label of any reference, and with the order

NEEDS = {
    "article": {"venue", "volume"},
    "paper": {"venue"},
    "book": {"publisher"},
    "chapter": {"venue", "publisher"},
    "thesis": {"publisher"},
    "report": {"publisher", "number"},
}
MAY = {
    "article": {"number", "pages"},
    "paper": {"acronym", "series", "volume", "pages", "publisher", "place"},
    "book": {"place", "edition"},
    "chapter": {"pages", "place"},
    "thesis": {"place"},
    "report": {"place"},
}


def test_the_file_is_what_the_program_writes() -> None:
    assert make.table().encode() == make.OUT.read_bytes()
    assert tuple(make.STYLES) == STYLES


# ---- the records ----------------------------------------------------------------------------------------------------


def test_there_are_many_works_of_all_kinds() -> None:
    kinds = Counter(work.kind for work in FACTS)
    assert len(FACTS) >= 220
    assert kinds["paper"] >= 100 and kinds["article"] >= 60 and kinds["book"] >= 30
    assert min(kinds[kind] for kind in ("chapter", "thesis", "report")) >= 5
    assert {int(work.year) // 10 for work in FACTS} == set(range(193, 203))
    assert set(range(1, 10)) == {len(work.authors) for work in FACTS}


def test_no_work_is_there_twice() -> None:
    assert len(WORKS) == len(records()) == len(FACTS)
    plain = Counter(re.sub("[- ]", "", work.title.casefold()) for work in FACTS)
    assert [title for title, count in plain.items() if count > 1] == []


def test_records_are_well_formed() -> None:
    for work in FACTS:
        filled = {field.name for field in fields(work) if getattr(work, field.name)}
        always = {"key", "kind", "authors", "title", "year"} | NEEDS[work.kind]
        assert always <= filled <= always | MAY[work.kind]
        assert re.fullmatch(r"[a-z]+\d{4}[a-z]?", work.key) and work.year in work.key
        assert 1936 <= int(work.year) <= 2023
        assert re.fullmatch(r"|\d+", work.volume)
        assert re.fullmatch(r"|2nd|3rd|[4-9]th", work.edition)
        if work.kind == "article":
            assert re.fullmatch(r"|\d+(-\d+)?", work.number)
        if work.pages:
            first, _, last = work.pages.partition("-")
            assert int(first) <= int(last or first) < int(first) + 200
        for text in (work.title, work.venue, work.publisher, work.place, *map(str, work.authors)):
            assert text == text.strip() and "  " not in text and unicodedata.is_normalized("NFC", text)
        assert not work.title.endswith(".") and not re.search('[“”"<>{}]', work.title + work.venue)
        for author in work.authors:
            assert author.given and author.family and author.suffix in ("", "Jr.")
            assert re.fullmatch(r"[^\W\d_a-z].*|(de|van|von) [^\W\d_a-z].*", author.family)
            assert all(re.fullmatch(r"\w\.(-\w\.)*", initial) for initial in author.initials)


# ---- the styles -----------------------------------------------------------------------------------------------------

PRINTED = {
    ("lamport1978", "acm"): "Lamport, L. 1978. Time, clocks, and the ordering of events in a distributed system. "
    "Commun. ACM 21, 7, 558–565.",
    ("kocher1999", "apa"): "Kocher, P., Jaffe, J., & Jun, B. (1999). Differential power analysis. In Advances in "
    "Cryptology: CRYPTO ’99, Lecture Notes in Computer Science (Vol. 1666, pp. 388–397). Springer.",
    ("knuth1997", "bibtex"): "Donald E. Knuth. The Art of Computer Programming, Volume 1: Fundamental Algorithms. "
    "Addison-Wesley, Reading, MA, third edition, 1997.",
    ("karp1972", "chicago"): "Karp, Richard M. “Reducibility among Combinatorial Problems.” In Complexity of Computer "
    "Computations, 85–103. New York, NY: Plenum Press, 1972.",
    ("sussman1975", "ieee"): "G. J. Sussman and G. L. Steele Jr., “Scheme: An interpreter for extended lambda "
    "calculus,” MIT Artificial Intelligence Laboratory, Tech. Rep. AIM-349, 1975.",
    ("vaswani2017", "ieee"): "A. Vaswani et al., “Attention is all you need,” in Adv. Neural Inf. Process. Syst., "
    "vol. 30, 2017, pp. 5998–6008.",
    ("whitten1999", "lncs"): "Whitten, A., Tygar, J.D.: Why Johnny can’t encrypt: A usability evaluation of PGP 5.0. "
    "In: Proceedings of the 8th USENIX Security Symposium, pp. 169–184. USENIX Association, Berkeley (1999)",
    ("gentry2009b", "mla"): "Gentry, Craig. A Fully Homomorphic Encryption Scheme. 2009. Stanford University, PhD "
    "dissertation.",
    ("brooks1987", "vancouver"): "Brooks FP Jr. No silver bullet: Essence and accidents of software engineering. "
    "Computer. 1987;20(4):10-19.",
}


@pytest.mark.parametrize(("key", "style"), PRINTED)
def test_a_style_prints_as_it_does_in_print(key: str, style: str) -> None:
    assert cite(WORKS[key], style).text == PRINTED[key, style]


def test_every_style_is_tried() -> None:
    assert len(STYLES) >= 7
    assert {style for _, style in PRINTED} == set(STYLES)


@pytest.mark.parametrize("style", STYLES)
def test_tokens_are_those_of_the_text(style: str) -> None:
    for built in (built for built in ALL if built.style == style):
        assert list(built.tokens) == tokenise(built.text)
        assert "".join(built.tokens) == built.text.replace(" ", "")
        assert len(built.tokens) == len(built.labels)
        assert not re.search(r"  |\.\.|,,| [,.;:)]|\( |[{}<>]|^\W|None", built.text), built.text
    assert {label for built in ALL if built.style == style for label in built.labels} == set(LABELS)


def test_raw_text_is_cut_as_the_references_are(tmp_path: Path) -> None:
    """So a model that was trained on them can be used on text; tagged text gives them back, too."""
    (tmp_path / "raw").write_text("\n".join(built.text for built in ALL), encoding="utf-8")
    cut = read(tmp_path / "raw", "text", tokens="references")
    assert [x.tokens for x in cut] == [list(built.tokens) for built in ALL]
    write(tmp_path / "tagged", references(count=50), format="tagged", outside="O")
    back = read(tmp_path / "tagged", "tagged", outside="O", tokens="references")
    assert [(x.tokens, x.labels) for x in back] == [(list(x.tokens), list(x.labels)) for x in references(count=50)]


def said(key: str, style: str) -> dict[str, str]:
    """The text of each field as its tokens have it, without blanks and marks."""
    built = cite(WORKS[key], style)
    return {
        label: re.sub(r"\W", "", "".join(t for t, y in zip(built.tokens, built.labels, strict=True) if y == label))
        for label in LABELS
    }


@pytest.mark.parametrize("style", STYLES)
def test_a_field_holds_what_the_record_says(style: str) -> None:
    for work in FACTS:
        result = said(work.key, style)
        assert result["TITLE"].casefold() == re.sub(r"\W", "", work.title).casefold()
        assert result["DATE"] == work.year
        assert re.sub(r"\W", "", work.authors[0].family) in result["AUTHOR"]
        assert re.sub(r"\D", "", result["PAGES"]) == re.sub(r"\D", "", work.pages)
        assert bool(result["VENUE"]) == bool(work.venue)
        if work.kind in ("book", "chapter", "thesis", "report"):
            assert re.sub(r"\W", "", work.publisher) in result["PUBLISHER"]
        if work.kind == "article":
            assert result["VOLUME"].startswith((work.volume, f"vol{work.volume}"))


RULES = """
no duplicates of AUTHOR, TITLE, VENUE, VOLUME, PAGES, PUBLISHER, DATE
AUTHOR before TITLE
TITLE before VENUE
TITLE before PUBLISHER
VENUE before VOLUME
VENUE before PAGES
starts with AUTHOR
exactly 1 segment of AUTHOR
exactly 1 segment of TITLE
exactly 1 segment of DATE
if PAGES then VENUE
"""


@pytest.mark.parametrize("text", RULES.strip().splitlines())
def test_gold_obeys_what_is_true_of_references(text: str) -> None:
    rule = parse(text)
    broken = [built.text for built in ALL if not rule.holds(built.labels, LABELS)]
    assert broken == []


def test_styles_differ_in_where_the_date_stands() -> None:
    early = parse("DATE before TITLE")
    kept = {style: {early.holds(x.labels, LABELS) for x in ALL if x.style == style} for style in STYLES}
    assert {style for style in STYLES if kept[style] == {True}} == {"acm", "apa"}
    assert {style for style in STYLES if kept[style] == {False}} == set(STYLES) - {"acm", "apa"}


names = st.builds(
    make.Author,
    st.sampled_from(["Li", "Knuth", "van Rossum", "Tjong Kim Sang", "O’Neil", "Al-Fares", "Černocký", "Do"]),
    st.sampled_from(["Yi", "Donald E.", "Jean-Paul", "C. A. R.", "J Strother", "Łukasz"]),
    st.sampled_from(["", "Jr."]),
)


def printed(work: Any, style: str) -> Reference:
    """A reference to a work that the file may not have."""
    texts = tuple(make.marked(pieces(work)) for pieces in make.STYLES.values())
    return cite(Record(work.key, work.kind, work.year, work.title, texts), style)


@given(st.lists(names, min_size=1, max_size=12), st.sampled_from(FACTS), st.sampled_from(STYLES))
def test_any_authors_can_be_cited(authors: list[Any], work: Any, style: str) -> None:
    built = printed(replace(work, authors=tuple(authors)), style)
    known = cite(WORKS[work.key], style)
    assert list(built.tokens) == tokenise(built.text)
    assert [x.type for x in LABELS.segments(built.labels)] == [x.type for x in LABELS.segments(known.labels)]
    assert [y for y in built.labels if y not in ("AUTHOR", "O")] == [
        y for y in known.labels if y not in ("AUTHOR", "O")
    ]


@given(st.text())
def test_no_letter_is_lost_between_tokens(text: str) -> None:
    assert "".join(tokenise(text)) == "".join(text.split())


# ---- the functions --------------------------------------------------------------------------------------------------


def test_examples_are_style_by_style_and_the_same_works_in_each() -> None:
    built = references("ieee", "acm", count=5, seed=3)
    keys = [str(example.id).partition("/") for example in built]
    assert [style for _, _, style in keys] == ["ieee"] * 5 + ["acm"] * 5
    assert [key for key, _, _ in keys[:5]] == [key for key, _, _ in keys[5:]]
    assert list(built[0].columns) == ["word"]
    assert built[0].labels == cite(WORKS[keys[0][0]], "ieee").labels
    assert [str(x.id).partition("/")[2] for x in references(count=2)] == [s for s in STYLES for _ in range(2)]
    assert references("ieee", "acm", count=5, seed=3) == built != references("ieee", "acm", count=5, seed=4)


def test_a_smaller_count_is_the_head_of_a_larger_one() -> None:
    assert references("mla", count=30)[:7] == references("mla", count=7)


def test_a_split_shares_no_work() -> None:
    train, test = split(100, seed=5)
    assert len(train) == 100 and len(train) + len(test) == len(records())
    assert {work.key for work in train} | {work.key for work in test} == set(WORKS)
    ids = {str(example.id).partition("/")[0] for example in references("lncs", of=test)}
    assert ids == {work.key for work in test}


def test_references_are_the_same_everywhere() -> None:
    order = [str(example.id) for example in references("acm", seed=1)]
    text = "\n".join([*order, *(f"{x.text} {' '.join(x.tokens)} {' '.join(x.labels)}" for x in ALL)])
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == PINNED


def test_an_unknown_style_is_named_with_the_known_ones() -> None:
    for wrong in (lambda: references("acm", "harvard"), lambda: cite(records()[0], "harvard")):
        with pytest.raises(BridleError) as caught:
            wrong()
        assert "'harvard'" in str(caught.value) and "chicago" in str(caught.value) and caught.value.cause


@pytest.mark.parametrize("count", [-1, 10_000, 2.5, "3"])
def test_a_count_that_cannot_be(count: int) -> None:
    for wrong in (lambda: references("acm", count=count), lambda: split(count)):
        with pytest.raises(BridleError, match=re.escape(repr(count))) as caught:
            wrong()
        assert str(len(records())) in str(caught.value) and caught.value.cause
