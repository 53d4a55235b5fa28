"""Rules that name labels which are not there."""

from __future__ import annotations

import pytest

import bridle
from bridle import LabelError, Labels
from bridle import rules as r
from bridle.rules.lint import unknown_labels, without_unknown
from bridle.rules.loading import Line
from strategies import labellings

LABELS = Labels(["O", "A", "B"])


def lines(*texts: str) -> list[Line]:
    return r.parse_lines(texts)


def test_the_nearest_label_is_named() -> None:
    labels = Labels(["O", "B-PER", "I-PER"], "BIO")
    found = unknown_labels(lines("present PRE, PER", "forbid X", 'matches "O* Q"', "fix b-per at given verb"), labels)
    assert [(one.line.number, one.message) for one in found] == [
        (1, "unknown label 'PRE'; did you mean 'PER'?"),
        (2, "unknown label 'X'; known: O, B-PER, I-PER, PER"),
        (3, "unknown label 'Q'; known: O, B-PER, I-PER, PER"),
        (4, "unknown label 'b-per'; did you mean 'B-PER'?"),
    ]


@pytest.mark.parametrize("rule", ["present TITEL", "TITEL before A", "fix TITEL at given x", 'matches "TITEL*"'])
def test_python_says_so_too(rule: str) -> None:
    labels = Labels(["O", "A", "TITLE"])
    with pytest.raises(LabelError, match="Did you mean 'TITLE'"):
        bridle.Decoder(labels, [rule])


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("no duplicates of A, X", "no duplicates of A"),
        ("at most 1 segment of A, X  [penalty 2]", "at most 1 segment of A  [penalty 2.0]"),
        ("A, X before B", "A before B"),
        ("first A before first B, X", "first A before first B"),
        ("forbid A then B, X", "forbid A then B"),
        ("forbid A, X at 0", "forbid A at 0"),
        ("length of A, X at most 2", "length of A at most 2"),
        ("X before B", None),
        ("forbid X", None),
        ("present X", None),
        ("present A, X", None),  # could be obeyed by X only, which the model lacks
        ("A next to A, X", None),
        ("allow A, X", None),
        ("if A then X", None),
        ("at least 1 token of A, X", None),
        ("(no duplicates of A, X) or (present B)", None),
        ('matches "[A X]*"', None),
    ],
)
def test_what_is_left_of_a_rule(text: str, left: str | None) -> None:
    kept, told = without_unknown(lines("present A", text), LABELS)
    assert [str(line.rule) for line in kept] == ["present A", *([] if left is None else [left])]
    [(line, why)] = told
    assert line.number == 2 and why.startswith("unknown label 'X'; known: O, A, B; the rule is ")
    assert why.endswith(f"left out: {r.parse(text)}" if left is None else f"read as: {left}")


@pytest.mark.parametrize(
    "text", ["no duplicates of A, X", "A, X before B, X", "forbid A then B, X", "length of A, X at most 1"]
)
def test_a_rule_that_only_forbids_keeps_its_meaning(text: str) -> None:
    """On labellings without X, which are all that a model without it can find."""
    whole, wide = r.parse(text), Labels(["O", "A", "B", "X"])
    [kept], _ = without_unknown(lines(text), LABELS)
    for y in labellings(4, 3):
        assert kept.rule.violations(y, LABELS) == whole.violations(y, wide)


def test_known_names_stay_as_they_are() -> None:
    given = lines("present A", "fix B at given x", "allow given frame")
    assert without_unknown(given, LABELS) == (given, [])
