"""Rules as text: what is printed is read back the same; .rules files and what can be wrong in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

import bridle.rules as r
from bridle import CRF, Decoder, Labels
from bridle.errors import BridleError, FileError, RuleError, RuleSyntaxError
from bridle.rules.base import Rule
from bridle.rules.loading import load_lines
from strategies import odd_names, penalties, random_labels, random_rule, random_soft, seeds, token_patterns

# ---- there and back ---------------------------------------------------------------------------------------------


def reads_back(rule: Rule) -> None:
    text = str(rule)
    assert "\n" not in text and "\r" not in text
    assert r.parse(text) == rule
    assert r.parse(f'  {text}   # held in 3/4 of "all" [penalty 7] # so') == rule
    assert str(r.parse(text)) == text


def test_random_rules_read_back() -> None:
    for rng in seeds(600):
        labels, n = random_labels(rng), int(rng.integers(0, 6))
        rule, _ = random_rule(rng, labels, n, depth=3)
        reads_back(random_soft(rng, rule) if rng.random() < 0.3 else rule)


names = odd_names | st.lists(odd_names, min_size=1, max_size=3)


@pytest.mark.slow
@for_all(names, names)
def test_odd_names_read_back(a: Any, b: Any) -> None:
    for rule in (
        r.forbid(a),
        r.forbid(a, at=[0, -1]),
        r.allow(a),
        r.allow(a, 1),
        r.fix(a, 2),
        r.label_at(-1, a),
        r.forbid_transition(a, b),
        r.at_most(1, a),
        r.at_least(2, a, "tokens"),
        r.exactly(0, a, "tokens"),
        r.no_duplicates(a),
        r.length(a, at_least=1),
        r.length(a, at_most=2),
        r.length(a, at_least=1, at_most=2),
        r.present(a),
        r.if_present(a, then=b),
        r.immediately_followed_by(a, b),
        r.followed_by(a, b),
        r.around(0, left=a, right=b),
        r.starts_with(a),
        r.ends_with(b),
        r.before(a, b),
        ~r.before(a, b),
        r.present(a) >> r.forbid(b),
        r.forbid(b).iff(r.present(a)),
        (r.present(a) | r.forbid(b, at=r.given("at"))).soft(1.5, per="violation"),
        r.at_most(1, [r.given("of"), "of"]),
    ):
        reads_back(rule)


@for_all(token_patterns)
def test_odd_token_expressions_read_back(pattern: str) -> None:
    reads_back(r.fix("A", r.tokens(pattern)))
    reads_back(r.around(r.tokens(pattern), left="A", right="tokens").soft(0.1))


@for_all(penalties, st.sampled_from(["sequence", "violation"]))
def test_odd_penalties_read_back(penalty: float, per: Any) -> None:
    reads_back(r.present("A").soft(penalty, per))


@pytest.mark.parametrize("pattern", ["O* A+", "", "'a b' \"c\"", '"\\"', "A\n B", r"\\"])
def test_label_expressions_read_back(pattern: str) -> None:
    try:
        rule = r.matches(pattern)
    except RuleSyntaxError:
        assert "\\" in pattern  # no expression, so there is nothing to read back
    else:
        reads_back(rule)


def test_empty_places_read_back() -> None:
    reads_back(r.fix("A", []))
    reads_back(r.same_label([]))
    reads_back(r.well_formed())
    reads_back(r.same_label([(0, 2), (4, 4)]))
    reads_back(r.label_at(r.given("is"), "is"))
    reads_back(r.forbid(r.given("at"), at=r.given("at")))


TEXTS: list[tuple[str, Rule]] = [
    ("at most 1 segment of TITLE", r.at_most(1, of="TITLE")),
    ("at most 2 segments of A, B", r.at_most(2, of=["A", "B"])),
    ("at least 1 token of A", r.at_least(1, of="A", count="tokens")),
    ("AUTHOR before TITLE  [penalty 2.3]", r.before("AUTHOR", "TITLE").soft(2.3)),
    ("A before B  [penalty 1.0 per violation]", r.before("A", "B").soft(1, per="violation")),
    ("if FIRST then LAST", r.if_present("FIRST", then="LAST")),
    ("label at given verb is O", r.label_at(r.given("verb"), "O")),
    ("forbid A then B", r.forbid_transition("A", "B")),
    ("forbid A, given core at 0, -1", r.forbid(["A", r.given("core")], at=[0, -1])),
    (r"fix ZIP at tokens /\d{5}/", r.fix("ZIP", r.tokens(r"\d{5}"))),
    (r"fix A at tokens /a\/b/", r.fix("A", r.tokens("a/b"))),
    ('forbid "at", "two words", "#"', r.forbid(["at", "two words", "#"])),
    ("same label over 4:7, 9:12", r.same_label([(4, 7), (9, 12)])),
    ("same label over nowhere", r.same_label([])),
    ('matches "O* A0+ (O|A1)*"', r.matches("O* A0+ (O|A1)*")),
    ("length of A at least 1 at most 3", r.length("A", at_least=1, at_most=3)),
    ("(present A) implies (label at 0 is O)", r.present("A") >> r.label_at(0, "O")),
    ("not (present A)", ~r.present("A")),
    ("well formed", r.well_formed()),
]


@pytest.mark.parametrize("text, rule", TEXTS)
def test_text_by_example(text: str, rule: Rule) -> None:
    assert str(rule) == text
    assert r.parse(text) == rule


@pytest.mark.parametrize(
    "text, rule",
    [
        ("present A and present B or present C", (r.present("A") & r.present("B")) | r.present("C")),
        ("not present A and present B", ~r.present("A") & r.present("B")),
        ("present A implies present B implies present C", r.present("A") >> (r.present("B") >> r.present("C"))),
        (
            "present A or present B implies present C iff forbid D",
            ((r.present("A") | r.present("B")) >> r.present("C")).iff(r.forbid("D")),
        ),
        ("((present A))", r.present("A")),
        ("not not present A", ~~r.present("A")),
        ("at  most\t1   segments  of A ,B", r.at_most(1, of=["A", "B"])),
        ("present A[penalty 2]", r.present("A").soft(2)),
        ("present A [penalty 1e-3 per sequence] # why", r.present("A").soft(0.001)),
        ("present A/B # a label with a slash, 3/4", r.present("A/B")),
        ("present B-PER#x", r.present("B-PER")),
        ('present "B-PER"', r.present("B-PER")),
        (r'present "a\\b\"c"', r.present('a\\b"c')),
        ('fix A at tokens "x"', r.fix("A", r.tokens("x"))),
    ],
)
def test_other_ways_to_write(text: str, rule: Rule) -> None:
    assert r.parse(text) == rule


# ---- what is no rule --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, got, wanted",
    [
        ("", "the end of the line", "a rule"),
        ("# only a comment", "the end of the line", "a rule"),
        ("at most", "the end of the line", "an integer"),
        ("at most one segment of A", "'one segment of A'", "an integer"),
        ("at most 1 word of A", "'word of A'", "'segment'"),
        ("A befor B", "'befor B'", "'before'"),
        ("A before", "the end of the line", "a label name"),
        ("A before at", "'at'", "a label name"),
        ("A before B C", "'C'", "the end of the rule"),
        ("A before B [penalty]", "']'", "a number"),
        ("A before B [penalty x]", "'x ]'", "a number"),
        ("A before B [penalty 1 per token]", "'token ]'", "'violation' or 'sequence'"),
        ("A before B [penalty 1", "the end of the line", "']'"),
        ("(present A", "the end of the line", "')'"),
        ("present A)", "')'", "the end of the rule"),
        ("present A and", "the end of the line", "a rule"),
        ("not", "the end of the line", "a rule"),
        ("fix A at x", "'x'", "an integer"),
        ("fix A at 0,", "the end of the line", "an integer"),
        ("fix A at tokens x", "'x'", "between slashes"),
        ("same label over 3", "'3'", "4:7"),
        ("matches A", "'A'", "in quotation marks"),
        ('present "A', "'\"A'", "a closed quotation"),
        ("present A [penalty 1] and present B", "'and present B'", "the end of the rule"),
    ],
)
def test_what_is_no_rule(text: str, got: str, wanted: str) -> None:
    with pytest.raises(RuleSyntaxError) as caught:
        r.parse(text)
    assert caught.value.got == got
    assert wanted in str(caught.value.wanted)


@pytest.mark.parametrize(
    "text",
    [
        "at most -1 segments of A",
        "present A [penalty -1]",
        "present A [penalty nan]",
        "present A [penalty inf]",
        "same label over 7:4",
        "fix A at tokens /(/",
        "length of A at least 0",
        'present ""',
        "fix A at given x-y",
        'matches "(A"',
        "(" * 4000 + "present A" + ")" * 4000,
        "not " * 4000 + "present A",
        f"at most {'9' * 5000} segments of A",
        f"same label over 0:{'9' * 5000}",
    ],
)
def test_rules_that_cannot_be(text: str) -> None:
    with pytest.raises(RuleError) as caught:
        r.parse(text)
    assert caught.value.what and caught.value.got is not None and caught.value.wanted is not None


@for_all(st.text(alphabet='AB (),[]"/\\#:1-\n', max_size=20) | st.text(max_size=12))
def test_any_text_is_a_rule_or_a_typed_error(text: str) -> None:
    for line in (text, f"forbid {text}", f"fix A at {text}", f"matches {text}", f"present A {text}"):
        try:
            rule = r.parse(line)
        except BridleError as error:
            assert str(error)
        else:
            reads_back(rule)


# ---- files ------------------------------------------------------------------------------------------------------

FILE = """# Rules for references

at most 1 segment of TITLE
AUTHOR before TITLE                    [penalty 2.3]   # held in 348/350 of "all"
  fix ZIP at tokens /\\d{5}#/  # 5 digits
present "#"
label at given verb is O #
"""


def test_a_file_is_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "my.rules"
    path.write_text(FILE, encoding="utf-8")
    lines = load_lines(path)
    assert [line.number for line in lines] == [3, 4, 5, 6, 7]
    assert [line.comment for line in lines] == ["", 'held in 348/350 of "all"', "5 digits", "", ""]
    assert lines[2].rule == r.fix("ZIP", r.tokens(r"\d{5}#")) and lines[3].rule == r.present("#")
    assert r.load(path) == r.load(str(path)) == [line.rule for line in lines]
    assert r.parse_lines(FILE.split("\n"), str(path)) == lines
    assert {line.file for line in lines} == {str(path)} and lines[0].where == f"{path}:3"


@pytest.mark.parametrize("written", [FILE.replace("\n", "\r\n"), FILE.rstrip(), "\ufeff" + FILE, FILE + "\n\n  \n"])
def test_line_ends_and_byte_order_mark(tmp_path: Path, written: str) -> None:
    path = tmp_path / "my.rules"
    path.write_bytes(written.encode())
    assert load_lines(path) == r.parse_lines(FILE.split("\n"), str(path))


def test_saved_rules_are_loaded_the_same(tmp_path: Path) -> None:
    path = tmp_path / "all.rules"
    rules = [random_rule(rng, random_labels(rng), 4)[0] for rng in seeds(100, key=1)]
    rules += [r.present(["\u2028", "\x85", "a\nb", "é", "\t"]), r.fix("A", r.tokens("a\nb")), r.forbid("\ufeff")]
    path.write_text("".join(f"{rule}\n" for rule in rules), encoding="utf-8")
    assert r.load(path) == rules


def test_an_empty_file_has_no_rules(tmp_path: Path) -> None:
    path = tmp_path / "no.rules"
    for text in ("", "\n\n", "# nothing yet"):
        path.write_text(text)
        assert r.load(path) == []


def test_bad_lines_are_all_reported_with_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "bad.rules"
    path.write_text('present A\nA befor B\n\npresent "A\npresent B [penalty -1]\nmatches "(A"  # open\n')
    with pytest.raises(RuleSyntaxError) as caught:
        r.load(path)
    error = caught.value
    assert (error.file, error.line) == (str(path), 2)
    output = re.findall(rf"^{re.escape(str(path))}:(\d+): ", str(error), flags=re.MULTILINE)
    assert output == ["2", "4", "5", "6"]
    assert error.got is not None and error.wanted is not None


def test_quotation_marks_are_advised_only_where_they_help() -> None:
    def cause(text: str) -> str | None:
        with pytest.raises(RuleSyntaxError) as caught:
            r.parse(text)
        return caught.value.cause

    assert cause("present not") == 'Put a label of that name in quotation marks: "not".'
    assert r.parse('present "not"') == r.present("not")
    for text in ("what", "at most 1 segment of"):
        assert cause(text) is None


def test_a_decoder_takes_sentences() -> None:
    decoder = Decoder(Labels(["O", "A"]), [r.present("O"), "forbid A [penalty 2]"])
    assert decoder.rules == (r.present("O"), r.forbid("A").soft(2))
    with pytest.raises(RuleSyntaxError, match="not a rule: 'forbid'"):
        Decoder(Labels(["O", "A"]), ["forbid"])
    model = CRF(features=["word[0]"], iterations=1).fit([["a", "b"]], [["O", "A"]])
    assert model.predict([["a", "b"]], ["forbid A"]) == [["O", "O"]]


def test_many_bad_lines_are_counted() -> None:
    with pytest.raises(RuleSyntaxError, match=r"and 14 more$") as caught:
        r.parse_lines(["?"] * 20)
    assert str(caught.value).startswith("1: not a rule: '?'")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    latin = tmp_path / "latin.rules"
    latin.write_bytes("present Ä".encode("latin-1"))
    for path, got in [
        (tmp_path / "none.rules", "No such file"),
        (tmp_path, "directory"),
        (latin, "byte 0xc4"),
        ("a\0b", "null"),
    ]:
        with pytest.raises(FileError) as caught:
            r.load(path)
        assert got in str(caught.value.got) and caught.value.wanted is not None
        assert str(caught.value.where).removesuffix(":1") == str(path)
    for text, output in (
        (b"present A\npresent \xc4", ":2: not UTF-8"),
        ("present A".encode("utf-16"), "may be UTF-16"),
    ):
        latin.write_bytes(text)
        with pytest.raises(FileError, match=output):
            r.load(latin)
