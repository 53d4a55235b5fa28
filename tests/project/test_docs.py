"""The documentation is true: its code runs, its pages exist, and every kind of rule has one. `make docs` builds it."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

import bridle
import bridle.errors
from bridle import rules
from bridle.data import formats, read, write
from bridle.rules.base import Rule
from bridle.rules.text import parse
from page_blocks import BASH, ROOT, blocks, commands, is_run, run_page

DOCS = ROOT / "docs"
WRITTEN = sorted(
    path.relative_to(ROOT).as_posix()
    for path in DOCS.rglob("*.md")
    if not {"_build", "generated", "results"} & set(path.relative_to(DOCS).parts)
)
RUNS = [name for name in WRITTEN if is_run(name) and "/integrations/" not in name]  # those: tests/heavy/integrations


@cache
def module(name: str) -> ModuleType:
    """A script of the documentation."""
    sys.path.insert(0, str(DOCS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(DOCS))


KINDS = module("rule_kinds").KINDS


# ---- code -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(BASH is None, reason="there is no bash to run the commands with")
@pytest.mark.parametrize("name", RUNS)
def test_a_page_runs(name: str, tmp_path: Path) -> None:
    run_page(name, tmp_path)


def test_code_fits_its_column() -> None:
    """Wider code has to be scrolled sideways; what is printed is as it is."""
    for name in WRITTEN:
        for line in (line for block in blocks("python", name) for line in block.text.splitlines()):
            assert len(line) <= 88 or line.startswith("#> "), f"{name}: {line}"


def test_there_are_seven_tutorials() -> None:
    assert len([name for name in RUNS if "/tutorials/" in name]) == 7


def test_the_script_of_the_million_has_the_rules_of_its_page() -> None:
    script = module("million")
    shown = [output for block in blocks("console", "docs/tutorials/million.md") for _, output in commands(block)]
    assert "\n".join(map(str, script.RULES)) in shown[0]
    decodings = bridle.Decoder(script.LABELS, script.RULES).decode_batch(script.pack(50, seed=0), threads=1)
    assert len(decodings) == 50
    assert decodings.optimal.all()


def test_the_picture_of_the_readme_is_what_its_script_draws() -> None:
    """If the drawing has changed: python docs/picture.py."""
    script = module("picture")
    assert script.PICTURE.read_text(encoding="utf-8") == script.svg()


def test_comments_are_refreshed() -> None:
    old = "print(1)  #> ?\nfor k in range(2):\n    print(k, end='!\\n')\n#> ?\nx = 3\nprint(x)\n#> 4\n#> 5\n"
    new = "print(1)  #> 1\nfor k in range(2):\n    print(k, end='!\\n')\n#> 0!\n#> 1!\nx = 3\nprint(x)\n#> 3\n"
    assert module("refresh").refreshed(old) == new
    assert module("refresh").refreshed(new) == new


# ---- pages of rules -------------------------------------------------------------------------------------------------


def test_every_kind_of_rule_has_a_page() -> None:
    """Every function that makes a rule, and every class that can be written, stands for one of the pages."""
    built = {name for name in rules.__all__ if _returns_a_rule(getattr(rules, name))}
    assert built - {"parse"} == {kind.name for kind in KINDS} - {"formulas", "soft"}
    assert {type(parse(kind.sentence)) for kind in KINDS} >= set(Rule.kinds)


def _returns_a_rule(thing: object) -> bool:
    return inspect.isfunction(thing) and inspect.signature(thing).return_annotation == "Rule"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_call_and_sentence_are_one(kind: object) -> None:
    built = eval(kind.call, {name: getattr(rules, name) for name in rules.__all__})  # type: ignore[attr-defined]
    assert built == parse(kind.sentence)  # type: ignore[attr-defined]
    assert str(built) == kind.sentence  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_page_of_a_rule_has_all_parts(kind: object) -> None:
    pages = module("rule_pages")
    text = pages.page(kind)
    assert ElementTree.fromstring(pages.picture(pages.Subject.of(kind))).tag.endswith("svg")
    picture = f"]({kind.name}.svg)"  # type: ignore[attr-defined]
    for part in ("**When to use it.**", "obeys the rule", "breaks the rule", picture, "## Linear rows"):
        assert part in text


def test_generated_pages_are_up_to_date() -> None:
    """If one is not: python docs/generate.py."""
    assert [path.name for path in module("generate").stale()] == []


def test_shown_rows_are_those_of_the_rule() -> None:
    pages = module("rule_pages")
    subject = pages.Subject.of(next(kind for kind in KINDS if kind.name == "at_most"))
    assert pages.linear_rows(subject, "tight").lines == ("v[0,A] + x[1,O→A] + x[1,B→A] + x[2,O→A] + x[2,B→A] ≤ 1",)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_drawn_automaton_accepts_what_holds(kind: object) -> None:
    """Over all short labellings; a place is a second alphabet."""
    pages = module("rule_pages")
    subject = pages.Subject.of(kind)
    dfa, m = pages.automaton(subject), len(subject.labels)
    given = subject.given(pages.EXAMPLE)
    marked = {t for place in subject.hard.places() for t in place.positions(pages.EXAMPLE, given)}
    for names, violations in pages.labellings(subject).items():
        letters = [y + m * (t in marked) for t, y in enumerate(subject.labels.ids(names))]
        assert dfa.accepts(letters) == (violations == 0)


def test_the_table_of_rules_leads_to_every_page() -> None:
    text = (DOCS / "rules" / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\w+)\]\(generated/(\w+)\.md\) \| .+ \| `(.+?)` \| `(.+?)` \|$", text, re.MULTILINE)
    assert {page for _, page, _, _ in rows} == {kind.name for kind in KINDS}
    for name, page, sentence, call in (tuple(cell.replace("\\|", "|") for cell in row) for row in rows):
        built = eval(call, {name: getattr(rules, name) for name in rules.__all__})
        assert (name, str(built), parse(sentence)) == (page, sentence, built)


def test_every_wish_has_a_rule() -> None:
    """On the page "Which rule do I need?", sentence and call are the same rule."""
    text = re.sub(r"<!--.*?-->", "", (DOCS / "which_rule.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    rows = re.findall(r"^\| [^|`]+ \| `(.+)` \| `(.+)` \|$", text, re.MULTILINE)
    assert len(rows) >= 30
    for sentence, call in (tuple(cell.replace("\\|", "|") for cell in row) for row in rows):
        built = eval(call, {name: getattr(rules, name) for name in rules.__all__})
        assert (str(built), parse(sentence)) == (sentence, built)


def test_a_page_of_a_rule_speaks_of_its_example() -> None:
    pages = module("rule_pages")
    before = pages.Subject.of(next(kind for kind in KINDS if kind.name == "before"))
    assert pages.meaning(before).startswith("Forbid any B before any A.\n")
    assert pages.definition(before) == "Each token with A that has a B somewhere before it is one violation."
    rows = pages.linear_rows(before, "tight")
    assert rows.equation.startswith("seen[t]: some B") and "v[1,B] ≤ seen[1]" in rows.lines


# ---- formats --------------------------------------------------------------------------------------------------------


def test_every_format_has_an_example_or_is_like_one_that_has() -> None:
    pages = module("format_pages")
    assert sorted([*pages.EXAMPLES, *pages.LIKE]) == formats()
    assert set(pages.LIKE.values()) <= set(pages.EXAMPLES)
    text = pages.text()
    assert [name for name in formats() if f"## `{name}`" not in text] == []


@pytest.mark.parametrize("name", module("format_pages").EXAMPLES)
def test_an_example_of_a_format_is_read_back(name: str, tmp_path: Path) -> None:
    """As the page shows it, and once more after it was written."""
    pages = module("format_pages")
    result = pages.example_of(name)
    again = pages.file_for(name, tmp_path)
    write(again, [result], name)
    assert next(read(again, name)) == result
    assert "\n".join(pages.shown(result)) in pages.text()


def test_what_is_read_stands_token_under_token() -> None:
    pages = module("format_pages")
    assert pages.shown(pages.example_of("jsonl")) == [
        "word:    He    left",
        "pos:     PRP   VBD",
        "labels:  B-NP  B-VP",
        "given: {'verb': 1}",
    ]


# ---- results --------------------------------------------------------------------------------------------------------


def test_the_page_of_results_names_all_data() -> None:
    text = (DOCS / "results.md").read_text(encoding="utf-8")
    recipes = (DOCS.parent / "experiments").glob("*.py")
    asked = {folder for path in recipes for folder in re.findall(r'run\.file\("([\w-]+)"', path.read_text())}
    assert len(asked) > 10
    assert asked == set(re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE))


def test_figures_about_harm_are_those_of_the_results() -> None:
    """The table is made by docs/generate.py; what the README and the text around it say is compared here."""
    result = module("gain_table").gains().values()
    signs = {way: [gains[way].sign for gains in result] for way in ("counts", "relative")}
    assert (signs["counts"].count(-1), signs["relative"].count(1), signs["relative"].count(-1), len(result)) == (
        6,
        7,
        0,
        9,
    )
    pages = [" ".join((ROOT / page).read_text(encoding="utf-8").split()) for page in ("README.md", "docs/speed.md")]
    assert all("entirely right on seven, and change nothing on the other two" in text for text in pages)
    assert "it does significant harm on six" in pages[1]
    measured = (DOCS / "integrations" / "usaddress.md").read_text(encoding="utf-8")
    output = " ".join((DOCS / "when_rules_hurt.md").read_text(encoding="utf-8").split())
    right, wrong = re.findall(r"\| each component once \| [\d,]+ \| (\d+), (\d+) \|", measured)[0]
    assert f"corrects {right} parse and breaks {wrong} " in output
    _, soft = re.findall(r"\| \.\.\. with a penalty of 2 \| [\d,]+ \| (\d+), (\d+) \|", measured)[0]
    assert f"breaks {soft} parses of usaddress instead of {wrong}" in output


def test_ratios_are_those_of_the_benchmarks() -> None:
    """Other pages quote the tables of docs/how_it_works.md, some rounded."""
    tables = prose("docs/how_it_works.md").partition("<!-- figures -->")[2]
    measured = [float(item.replace(",", "")) for item in re.findall(r"([\d,]+(?:\.\d+)?)x", tables)]
    quoted = re.findall(r"([\d,.]+\d) times\b", prose("docs/comparison.md"))
    quoted += re.findall(r"\| ([\d,.]+)x[ |]", prose("docs/index.md"))
    quoted += re.findall(r"[ |]([\d,.]+)x\b", prose("docs/speed.md"))
    for rate in re.findall(r"[\d,]{9}", prose("docs/speed.md")):
        assert f"| {rate} tokens/s |" in tables
    assert len(quoted) > 10
    for ratio in quoted:
        digits = len(ratio.partition(".")[2])
        assert ratio in {f"{item:,.{digits}f}" for item in measured}, ratio


# ---- links --------------------------------------------------------------------------------------------------------


MARKDOWN = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", ".github/*.md", "benchmarks/*.md", "docs/**/*.md")
    for path in ROOT.glob(pattern)
    if "_build" not in path.parts
)


def prose(name: str) -> str:
    """A page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@cache
def anchors(name: str) -> set[str]:
    """Return the anchors of a page: its headings, as code-hosting sites and MyST spell them."""
    headings = re.findall(r"^#+ (.+)$", prose(name), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_anchors_are_spelled_as_headings() -> None:
    assert {"how-fast", "three-ways-to-use-it"} <= anchors("docs/integrations/crfsuite.md") | anchors("README.md")


@pytest.mark.parametrize("name", MARKDOWN)
def test_links_lead_somewhere(name: str) -> None:
    """In the repository as it is, without a build: the file exists, and so does the heading."""
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose(name))):
        if re.match(r"https?://", target):
            continue
        file, _, anchor = target.partition("#")
        path = (ROOT / name).parent.joinpath(file).resolve() if file else ROOT / name
        assert path.exists(), f"{name}: {target}"
        if anchor:
            assert anchor in anchors(path.relative_to(ROOT).as_posix()), f"{name}: {target}"


def test_every_public_name_stands_in_the_api() -> None:
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in WRITTEN if name.startswith("docs/api/"))
    output = set(re.findall(r"^\.\. auto\w+:: bridle\.(\w+)", text, re.MULTILINE))  # of a module, some names are enough
    assert "errors" in output  # the whole module
    assert {name for name in bridle.__all__ if not hasattr(bridle.errors, name)} <= output
