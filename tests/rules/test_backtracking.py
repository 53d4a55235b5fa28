"""Which expressions Python's `re` may take exponential time for: by example, and by the clock."""

from __future__ import annotations

import re

import pytest

from bridle.learn.candidates import TOKEN_CLASSES
from bridle.rules.lint import lint
from bridle.rules.patterns import may_explode
from stopwatch import Stopwatch

BAD = [
    *("(a+)+$", "(a*)*b", r"(\w+\s?)+", r"(\w+\w)+", "(a|a?b|ab)*c", r"(a\w*)+!", "(.*,)*x", "(a{1,30}){1,30}b"),
    *("((a|b)+)*", r"(\d+|\w)+;", "(?i:(a|A\\b)*)", "(?:a+b?)+c", "(aa|a)*b", "x+x+y(x+x+)+"),
]
GOOD = [
    *("a+", "(ab)+", r"(\w+\s)+", r"(,\w+)+", "(a*b)*", r"(?!00)\d{5}", r"(\w)\1+", "(a|b)*", "(foo|far|bar)+", ".*.*"),
    *(r"\d{1,3}(,\d{3})*", r"[a-z]+(-[a-z]+)*", "(?>a+)+", "(?:a++)+", "(a?)*", "", r"(?=.*\d)(?=.*[a-z]).{8,}"),
    *(r"([A-Z]\.)+", "x*y*z*", "(a{2}){3}", *TOKEN_CLASSES.values()),
]


@pytest.mark.parametrize("pattern", BAD)
def test_what_may_explode(pattern: str) -> None:
    assert may_explode(pattern)


@pytest.mark.parametrize("pattern", GOOD)
def test_what_cannot(pattern: str) -> None:
    assert not may_explode(pattern)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["(a+)+$", r"(\w+\s?)+", r"(\w+\w)+", "(aa|a)*b"])
def test_it_is_true(pattern: str) -> None:
    """A few letters more take many times as long."""
    seconds = []
    for n in (2, 12, 22):  # the first time compiles the pattern
        watch = Stopwatch()
        assert not re.fullmatch(pattern, "a" * n + "!")
        seconds.append(watch.seconds)
    assert seconds[2] > 10 * seconds[1]


def test_the_linter_warns_where_re_was_chosen() -> None:
    found = lint(["fix A at tokens /(a+)+$/", "fix A at tokens /(a+)+$/ by re", r"fix A at tokens /(?!0)\d+/ by re"])
    told = [finding for finding in found if finding.code == "backtracking"]
    assert [(finding.line, finding.level) for finding in told] == [(2, "warning")]
    assert "/(a+)+$/" in told[0].message and "time limit" in told[0].message
