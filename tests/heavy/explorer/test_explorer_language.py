"""The language of .rules files in the browser: the modules are imported in a page, and called from here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import asdict

from bridle.errors import RuleSyntaxError
from bridle.rules.text import quote, quoted_name, scan, unquote
from bridle.serve.checking import sentence_forms

LABELS = ["O", "AUTHOR", "TITLE", "DATE", "my label", "case"]
SENTENCES = [asdict(form) for form in sentence_forms(["AUTHOR", "TITLE"])]
KNOWN = {"labels": LABELS, "types": ["AUTHOR", "TITLE", "DATE"], "sentences": SENTENCES}
Call = Callable[..., Any]


@pytest.fixture(scope="module")
def call(browser: Any, address: str) -> Iterator[Call]:
    """`call("language.js", "piecesOf", line, LANGUAGE)`: a function of a module; LANGUAGE is made in the page."""
    page = browser.new_page()
    page.goto(f"{address}static/language.js")

    def made(module: str, name: str, *args: object) -> Any:
        return page.evaluate(
            """async ([module, name, args, known]) => {
                const { createLanguage } = await import("./language.js");
                const stands = { "LANGUAGE": createLanguage(known), "NO LANGUAGE": createLanguage() };
                const made = (await import(`./${module}`))[name](...args.map((one) => stands[one] ?? one));
                return made === undefined ? null : made;
            }""",
            [module, name, list(args), KNOWN],
        )

    yield made
    page.close()


def pieces(call: Call, line: str) -> list[tuple[str, str]]:
    result = call("language.js", "piecesOf", line, "LANGUAGE")
    assert "".join(piece["text"] for piece in result) == line
    return [(piece["kind"], piece["text"]) for piece in result if piece["kind"] != "space"]


def kinds(call: Call, line: str) -> str:
    return " ".join(kind for kind, _ in pieces(call, line))


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("", ""),
        ("   ", ""),
        ("# a comment", "comment"),
        ("present AUTHOR", "keyword label"),
        ("present AUTOR # why", "keyword unknown comment"),
        ('present "my label", TITLE', "keyword label mark label"),
        ('present "no such label"', "keyword quoted"),
        ("at most 2 segments of DATE", "keyword keyword number keyword keyword label"),
        ("present case", "keyword label"),  # the model has a label of that name
        ("first AUTHOR before first TITLE", "keyword label keyword keyword label"),
        (r"fix DATE at tokens /a b\/#/", "keyword label keyword keyword regex"),
        ("fix DATE at pos /NNP/ after tokens /x/", "keyword label keyword value regex keyword keyword regex"),
        ('fix DATE at tokens among "AUTHOR", "x"', "keyword label keyword keyword keyword quoted mark quoted"),
        ("same label over 4:7", "keyword keyword keyword number"),
        ("forbid O at 0, -1", "keyword label keyword number mark number"),
        ('matches "AUTHOR+"', "keyword quoted"),
        ("label at given verb is O", "keyword keyword keyword value keyword label"),
        ("AUTHOR before TITLE  [penalty 2.3 per violation] # c", "label keyword label penalty comment"),
        ("present AUTHOR [penalty", "keyword label penalty"),
        ("not (present O) and present O", "connective mark keyword label mark connective keyword label"),
        ("include my.rules # c", "keyword path comment"),
        ('include "my own.rules"', "keyword path"),
        (r'example "a \" b" has AUTHOR "AUTHOR", DATE "b"', "keyword quoted keyword label quoted mark label quoted"),
        ('example "a" is nothing', "keyword quoted keyword keyword"),
        ("# off: AUTHOR before TITLE [penalty 2]", "off"),
        ("# off:", "comment"),
        ('present "AUTHOR', "keyword open"),
        ("fix O at tokens /abc", "keyword label keyword keyword open"),
        ("present 日本, שלום", "keyword unknown mark unknown"),
        ("<script>alert(1)</script>", "unknown mark number mark unknown"),
    ],
)
def test_pieces_of_a_line(call: Call, line: str, wanted: str) -> None:
    assert kinds(call, line) == wanted


def test_without_a_model_no_label_is_unknown(call: Call) -> None:
    result = call("language.js", "piecesOf", "present X", "NO LANGUAGE")
    assert [piece["kind"] for piece in result] == ["keyword", "space", "label"]


LINES = [
    *(item["example"] for item in SENTENCES),
    r'fix DATE at tokens /(a|b)\/ #[/]/ by re  [penalty 3] # "x',
    'example "a \\\\ b" has X "[penalty 2]"  #[penalty 3]',
    "A#B",
    "a/b/c /d/e",
    '"quoted""again"/re//x/',
    "  \t tabs\tand  spaces\t",
    'not "closed',
]


def test_tokens_are_those_of_the_library(call: Call) -> None:
    for line in LINES:
        try:
            cut = scan(line)
            wanted = [(token.kind, *place) for token, place in zip(cut.tokens, cut.extents, strict=True)]
            if cut.comment:
                wanted.append(("comment", line.index(cut.comment), len(line.rstrip())))
        except RuleSyntaxError:
            wanted = None
        result = [(token["kind"], token["start"], token["end"]) for token in call("language.js", "tokensOf", line)]
        if wanted is None:
            assert result[-1][0] == "open"
        else:
            assert result == wanted, line


def test_quotation_marks_are_those_of_the_library(call: Call) -> None:
    for text in ["plain", 'a "b"', "back\\slash", "line\nbreak\r", "", "a b", "case", "at", "a/b", "a#b", "日本"]:
        assert call("language.js", "quote", text) == quote(text)
        assert call("language.js", "unquote", quote(text)) == unquote(quote(text)[1:-1]) == text
        assert call("language.js", "shownName", text, "LANGUAGE") == quoted_name(text)


@pytest.mark.parametrize(
    ("before", "line", "after"),
    [
        ("present A\npresent B", 2, "present A\n# off: present B"),
        ("present A\n# off: present B", 2, "present A\npresent B"),
        ("  A before B [penalty 2] # c", 1, "# off:   A before B [penalty 2] # c"),
        ("# a comment", 1, "# a comment"),
        ("", 1, ""),
        ("present A", 7, "present A"),
    ],
)
def test_toggle(call: Call, before: str, line: int, after: str) -> None:
    assert call("rules_text.js", "toggle", before, line) == after
    if after != before:
        assert call("rules_text.js", "toggle", after, line) == before


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("present A", 2.3, "present A  [penalty 2.3]"),
        ("present A   # why", 1, "present A  [penalty 1]   # why"),
        ("present A [penalty 2]", 3.5, "present A [penalty 3.5]"),
        ("present A    [penalty 2]   # why", 3.5, "present A    [penalty 3.5] # why"),
        ("present A    [penalty 10.5] # why", 3, "present A    [penalty 3]    # why"),
        ("present A [penalty 2 per violation]", 0.30000000000000004, "present A [penalty 0.3 per violation]"),
        ("present A  [penalty 2]", None, "present A"),
        ("present A  [penalty 2]  # why", None, "present A               # why"),
        ("present A", None, "present A"),
        ("# off: present A [penalty 2]", 1, "# off: present A [penalty 1]"),
        ('fix A at tokens "[penalty 2]"', 1, 'fix A at tokens "[penalty 2]"  [penalty 1]'),
        (r"fix A at tokens /[#\/]/ # [penalty 9]", 1, r"fix A at tokens /[#\/]/  [penalty 1]   # [penalty 9]"),
        ("# present A", 1, "# present A"),
        ('example "x" is nothing', 1, 'example "x" is nothing'),
    ],
)
def test_set_penalty(call: Call, before: str, value: float | None, after: str) -> None:
    assert call("rules_text.js", "setPenalty", f"first\n{before}\nlast", 2, value) == f"first\n{after}\nlast"


def test_new_penalty_stands_below_the_others(call: Call) -> None:
    text = "present A\nA before B          [penalty 3]  # c\n"
    assert call("rules_text.js", "setPenalty", text, 1, 2).split("\n")[0] == "present A           [penalty 2]"


def test_fix_changes_or_deletes_its_line(call: Call) -> None:
    text = "one\ntwo\nthree"
    assert call("rules_text.js", "applyFix", text, {"line": 2, "replacement": "2"}) == "one\n2\nthree"
    assert call("rules_text.js", "applyFix", text, {"line": 2, "replacement": None}) == "one\nthree"
    assert call("rules_text.js", "applyFix", text, {"line": 0, "replacement": None}) == text


def test_comments_in_and_out(call: Call) -> None:
    text = "present A\n\n  present B\n# c"
    commented = call("rules_text.js", "toggleComments", text, 1, 3)
    assert commented == "# present A\n\n#   present B\n# c"
    assert call("rules_text.js", "toggleComments", commented, 1, 3) == text
    assert call("rules_text.js", "toggleComments", "# off: present A", 1, 1) == "present A"


def test_added_examples_have_their_place(call: Call) -> None:
    def add(text: str, example: str, *spans: tuple[str, str]) -> str:
        listed = [{"label": label, "text": phrase} for label, phrase in spans]
        return str(call("rules_text.js", "addExample", text, example, listed, "LANGUAGE"))

    item = add("present A\n\n", 'a "b"\nc', ("my label", 'a "b"'), ("DATE", "c"))
    assert item == 'present A\n\nexample "a \\"b\\"\\nc" is "my label" "a \\"b\\"", DATE "c"\n'
    two = add(item + "present B\n", "x")
    assert two == item + 'example "x" is nothing\n' + "present B\n"
    assert add(two, "x", ("DATE", "x")) == two.replace("is nothing", 'is DATE "x"')
    assert add("", "x") == 'example "x" is nothing\n'
    assert add('example "x" is DATE "x"   # why', "x") == 'example "x" is nothing  # why'


def proposed(call: Call, text: str, at: int | None = None) -> list[str]:
    result = call("completions.js", "complete", text, len(text) if at is None else at, "LANGUAGE")
    return [] if result is None else [option["insert"].strip() for option in result["options"]]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("A", "AUTHOR"),
        ("at m", "most"),
        ("dup", "no duplicates of AUTHOR"),
        ("at most 1 segment of t", "TITLE"),
        ("at most 1 segment of MY", '"my label"'),
        ("no duplicates of AUTHOR, ", "AUTHOR"),
        ("AUTHOR b", "before"),
        ("AUTHOR, TITLE f", "followed by"),
        ("fix DATE a", "at"),
        ("fix DATE at ", "tokens //"),
        ("present DATE [p", "penalty"),
        ("present DATE [penalty 3 ", "per violation]"),
        ("(wel", "well formed"),
        ("(well formed) i", "implies"),
        ("not pres", "present AUTHOR"),
        ('example "x" ', "has"),
        ('example "x" has T', "TITLE"),
        ("present DATE\nstarts w", "with"),
    ],
)
def test_completions(call: Call, text: str, first: str) -> None:
    assert proposed(call, text)[0] == first


@pytest.mark.parametrize(
    "text", ["# pre", "present A # pre", 'matches "AU', "fix DATE at tokens /AU", 'present "my label"']
)
def test_no_completions_in_comments_and_quotations(call: Call, text: str) -> None:
    assert proposed(call, text) == []


def test_every_sentence_is_found_and_goes_on(call: Call) -> None:
    for sentence in SENTENCES:
        example = sentence["example"]
        assert example in proposed(call, ""), example
        if any(mark in example for mark in '(["'):  # formulas, penalties, and quotations, in which nothing is completed
            continue
        words = example.split()
        for k in range(1, len(words)):
            if not words[k][0].isalpha() or words[k - 1] in ("tokens", "ignoring"):
                continue  # numbers, expressions; "ignoring case", which the sentence does not have
            result = proposed(call, " ".join(words[:k]) + " " + words[k][:1])
            units = {"segment": "segments"}.get(words[k], words[k])
            assert any(item.startswith(units) for item in result), (words[: k + 1], result)


def test_difference_is_one_replacement(call: Call) -> None:
    for before, after in [
        ("abc", "abc"),
        ("abc", "axc"),
        ("aa", "aaa"),
        ("aaa", "aa"),
        ("", "x"),
        ("x", ""),
        ("ab", "ba"),
    ]:
        result = call("history.js", "difference", before, after)
        end = result["at"] + len(result["removed"])
        assert before[: result["at"]] + result["added"] + before[end:] == after
        assert before[result["at"] : end] == result["removed"]
