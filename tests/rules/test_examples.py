"""Test cases in .rules files: reading, printing, loading, checking."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle import rules
from bridle.decoding.decoder import Decoder
from bridle.errors import RuleSyntaxError
from bridle.labels import Labels
from bridle.rules.lint import lint
from bridle.rules.loading import RuleExample, parse_example, read_files, read_lines
from bridle.rules.suggestions import STRAIGHT_QUOTES
from bridle.rules.text import EXAMPLE

KNUTH = 'example "Knuth, D. The TeXbook. 1984" has AUTHOR "Knuth, D.", DATE "1984"'
LABELS = Labels(["O", "AUTHOR", "TITLE", "DATE"], scheme="IO")

some_text = st.text(min_size=1).filter(str.strip)
some_spans = st.lists(st.tuples(st.text(min_size=1), some_text), min_size=1, max_size=4).map(tuple)
any_example = st.one_of(
    st.builds(RuleExample, some_text, st.sampled_from(["has", "is"]), some_spans),
    st.builds(RuleExample, some_text, st.just("is"), st.just(())),
)


@given(any_example)
def test_what_is_printed_is_read_again(example: RuleExample) -> None:
    line = str(example)
    assert EXAMPLE.match(line) and "\n" not in line and "\r" not in line
    assert parse_example(line) == parse_example(f"  {line}  # {line}") == example


def test_a_line_is_read() -> None:
    spans = (("AUTHOR", "Knuth, D."), ("DATE", "1984"))
    assert parse_example(KNUTH) == RuleExample("Knuth, D. The TeXbook. 1984", "has", spans)
    assert parse_example(r'example "a \"b\"" is nothing') == RuleExample('a "b"', "is", ())
    assert parse_example('example "a" is nothing "a"').spans == (("nothing", "a"),)  # a label of that name


@pytest.mark.parametrize(
    "line",
    [
        "example before TITLE",
        "example, TITLE before DATE",
        'example, "a b" before DATE',
        "present example",
        "example next to has",
        "example followed by has, example",
        'fix TITLE at example "x"',
        'not (example before "has")',
    ],
)
def test_rules_about_a_label_called_example_mean_what_they_did(line: str) -> None:
    assert not EXAMPLE.match(line)
    found = read_lines([line])
    assert not found.examples and not found.wrong
    assert str(found.lines[0].rule) == str(rules.parse(line))


@pytest.mark.parametrize(
    ("line", "got", "wanted"),
    [
        ('example "a b" was X "a"', "'was X a'", "'has' or 'is'"),
        ('example "a b"', "the end of the line", "'has' or 'is'"),
        ('example "a b" has', "the end of the line", "a label and a phrase"),
        ('example "a b" has X', "the end of the line", "after the label X"),
        ('example "a b" has X a', "'a'", "in quotation marks, after the label X"),
        ('example "a b" has X "a" Y "b"', "'Y b'", "a comma"),
        ('example "a b" has X "a",', "the end of the line", "a label and a phrase"),
        ('example "a b" has nothing', "the end of the line", "after the label nothing"),
        ('example "a b" has X ""', 'X ""', "example"),
        ('example " " is nothing', "' '", "a text"),
        ('example "a b', "'\"a b'", "a closed quotation"),
    ],
)
def test_a_bad_line_says_what_was_expected(line: str, got: str, wanted: str) -> None:
    assert EXAMPLE.match(line)
    [error] = read_lines([line], "my.rules").wrong
    assert (error.where, error.got) == ("my.rules:1", got)
    assert wanted in str(error.wanted)


def test_a_test_case_is_no_rule() -> None:
    with pytest.raises(RuleSyntaxError, match="a test case is not a rule"):
        rules.parse(KNUTH)
    with pytest.raises(RuleSyntaxError, match="a test case is not a rule"):
        Decoder(LABELS, [f"  {KNUTH}  # with a comment"])


def test_files_keep_them_apart_from_rules(tmp_path: Path) -> None:
    main, other = tmp_path / "main.rules", tmp_path / "other.rules"
    main.write_text(f"present TITLE\n{KNUTH}  # the first\ninclude other.rules\n", "utf-8")
    other.write_text('starts with AUTHOR\n\nexample "x" is nothing\n', "utf-8")
    found = read_files([main])
    assert [str(line.rule) for line in found.check()] == ["present TITLE", "starts with AUTHOR"]
    assert [(one.file, one.number, one.comment) for one in found.examples] == [
        (str(main), 2, "the first"),
        (str(other), 3, ""),
    ]
    assert found.examples[1].where == f"{other}:3"
    assert list(map(str, rules.load(main))) == ["present TITLE", "starts with AUTHOR"]
    assert [line.number for line in rules.parse_lines([KNUTH, "present TITLE"])] == [2]


def test_the_linter_checks_labels_and_phrases() -> None:
    lines = [
        KNUTH,
        'example "Knuth 1984" has DATE "1984", AUTHOR "Knuth"',
        'example "Knuth 1984" has DATE "1985"',
        'example "a a" has TITLE "a", TITLE "a"',
        'example "a a" has TITLE "a", TITLE "a", TITLE "a"',
        'example "Knuth 1984" has AUTOR "Knuth"',
    ]
    found = [(f.line, f.level, f.code) for f in lint(["present TITLE", *lines], LABELS)]
    assert found == [
        (3, "error", "example-phrase"),
        (4, "error", "example-phrase"),
        (6, "error", "example-phrase"),
        (7, "error", "unknown-label"),
    ]
    messages = [f.message for f in lint(["present TITLE", *lines], LABELS)]
    assert messages[0] == '"Knuth" does not occur after "1984" in the text; name segments in order'
    assert messages[1] == 'the text of the test case does not contain "1985"'
    assert messages[3] == "unknown label 'AUTOR'; did you mean 'AUTHOR'?"


def test_segments_have_types_not_tags() -> None:
    labels = Labels(["O", "B-PER", "I-PER"], scheme="BIO")
    [finding] = lint(["present PER", 'example "Ada" has B-PER "Ada"'], labels)
    assert (finding.code, finding.suggestion) == ("unknown-label", 'example "Ada" has PER "Ada"')
    assert lint(["present PER", 'example "Ada" has PER "Ada"'], labels) == []


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("example “to Bonn” has CITY “Bonn”  # “so”", 'example "to Bonn" has CITY "Bonn"  # “so”'),
        ("example „it’s Bonn“ has CITY ‘Bonn’", 'example "it’s Bonn" has CITY "Bonn"'),
        ('example "the “Bonn”" has CITY “Bonn”', 'example "the “Bonn”" has CITY "Bonn"'),
        ('example "to Bonn” has CITY "Bonn”', 'example "to Bonn" has CITY "Bonn"'),
        ("example “to Bonn” has “Bonn”", None),
    ],
)
def test_curly_quotation_marks(line: str, meant: str | None) -> None:
    with pytest.raises(RuleSyntaxError) as caught:
        rules.parse_lines([line])
    assert caught.value.suggestion == meant
    assert str(caught.value.cause).startswith(STRAIGHT_QUOTES)
