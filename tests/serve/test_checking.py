"""Quick fixes for findings, and sentences for completion."""

from __future__ import annotations

import pytest

from bridle.labels import Labels
from bridle.rules import parse
from bridle.rules.base import Rule
from bridle.rules.lint import lint
from bridle.rules.loading import parse_example
from bridle.serve.checking import QuickFix, quick_fix, sentence_forms

LABELS = Labels(["O", "AUTHOR", "TITLE", "DATE"], scheme="IO")


def fixes(*lines: str) -> list[tuple[str, int, str | None]]:
    """Code, line and replacement of every finding with a fix."""
    result = [(finding, quick_fix(finding, lines)) for finding in lint(lines, LABELS)]
    return [(finding.code, fix.line, fix.replacement) for finding, fix in result if fix is not None]


@pytest.mark.parametrize(
    ("line", "code", "better"),
    [
        ("at most one segment of TITLE  # one", "syntax", "at most 1 segment of TITLE  # one"),
        ("AUTHOR befor TITLE", "syntax", "AUTHOR before TITLE"),
        ("AUTHOR before TITEL # not TITEL", "unknown-label", "AUTHOR before TITLE # not TITEL"),
        ('present "title"', "unknown-label", "present TITLE"),
        ('matches "O* TITEL+ .*"', "unknown-label", 'matches "O* TITLE+ .*"'),
        ("present DATE [penalty 0]", "zero-penalty", None),
        ("fix DATE at tokens /(a+)+b/ by re  # slow", "backtracking", "fix DATE at tokens /(a+)+b/  # slow"),
        ("AUTHOR next to TITLE", "one-token", "AUTHOR next to AUTHOR, TITLE"),
        ('example "to Bonn" has DAT "Bonn" # x', "unknown-label", 'example "to Bonn" has DATE "Bonn"  # x'),
    ],
)
def test_a_fix_replaces_a_line_and_keeps_its_comment(line: str, code: str, better: str | None) -> None:
    assert fixes("# head", line) == [(code, 2, better)]
    if better is not None:
        assert code not in {finding.code for finding in lint([better], LABELS)}


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        ("present TITLE", "present TITLE", "duplicate"),
        ("present TITLE", "present TITLE [penalty 2]", "never-bites"),
        ("at most 1 segment of TITLE", "at most 2 segments of TITLE", "redundant"),
    ],
)
def test_a_line_without_effect_can_be_deleted(first: str, second: str, code: str) -> None:
    assert fixes(first, second) == [(code, 2, None)]
    assert fixes(first) == []


def test_what_has_no_obvious_fix_has_none() -> None:
    assert fixes("forbid TITLE", "present TITLE", "xyz zyx", "present COUNTRYSIDE") == []


def test_titles_are_short_and_say_what_happens() -> None:
    lines = ["present TITLE", "present TITLE", "AUTHOR befor TITLE, DATE  # " + "long " * 30]
    first, second = (fix for finding in lint(lines, LABELS) if (fix := quick_fix(finding, lines)) is not None)
    assert first == QuickFix("Delete this line", 2, None)
    assert second.title.startswith("Change to: AUTHOR before TITLE, DATE") and len(second.title) < 80


def test_a_finding_about_another_text_has_no_fix() -> None:
    [finding] = lint(["", "", "present DATE [penalty 0]"], LABELS)
    assert quick_fix(finding, ["", "", finding.message]) is not None
    assert quick_fix(finding, ["one line"]) is None


@pytest.mark.parametrize("labels", [["AUTHOR", "TITLE"], ["B-A b", 'it\'s "c"'], ["before", "first"], ["X"], []])
def test_examples_of_sentences_can_be_parsed(labels: list[str]) -> None:
    for label in sentence_forms(labels):
        if label.sentence.startswith("example"):
            assert str(parse_example(label.example)) == label.example
        else:
            assert isinstance(parse(label.example), Rule)


def test_every_kind_of_rule_has_a_sentence_with_a_summary() -> None:
    result = sentence_forms()
    assert len(result) >= sum(len(kind.text) for kind in Rule.kinds)
    assert len({item.sentence for item in result}) == len(result)
    for item in result:
        assert item.summary.endswith(".") and "`" not in item.summary and "\n" not in item.summary
    by_sentence = {item.sentence: item for item in result}
    assert by_sentence["at most {k} segments of {labels}"].example == "at most 1 segment of AUTHOR"
    assert by_sentence["{a} before {b}"].summary.startswith("No {b} before an {a};")
