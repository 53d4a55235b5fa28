"""Suggestions for lines that are not rules: what people write, and that every suggestion is a rule."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle import RuleSyntaxError
from bridle import rules as r
from bridle.errors import RuleError
from bridle.rules.suggestions import STRAIGHT_QUOTES, nearest
from bridle.rules.text import reserved
from strategies import generators, random_labels, random_rule


def cause(line: str) -> str | None:
    with pytest.raises(RuleSyntaxError) as caught:
        r.parse(line)
    return caught.value.cause


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("fix A at tokens “Mr.”", 'fix A at tokens "Mr."'),
        ("fix A at tokens „Mr.“  # „so“", 'fix A at tokens "Mr."  # „so“'),
        ("fix A at tokens ‘Mr.’", 'fix A at tokens "Mr."'),
        ("fix A at tokens “it’s”", 'fix A at tokens "it’s"'),
        ('matches "A B”', 'matches "A B"'),
        ("matches “A B” [penalty=2]", 'matches "A B"  [penalty 2]'),
    ],
)
def test_curly_quotation_marks(line: str, meant: str) -> None:
    with pytest.raises(RuleSyntaxError) as caught:
        r.parse(line)
    assert caught.value.suggestion == meant
    assert caught.value.cause == f"{STRAIGHT_QUOTES} Did you mean: {meant}"


def test_curly_quotation_marks_that_are_not_to_blame() -> None:
    assert cause("A befor B  # “so”") == "Did you mean: A before B"
    assert cause('fix A on tokens "“"') == 'Did you mean: fix A at tokens "“"'
    assert r.parse("forbid A’s") == r.forbid("A’s")


@pytest.mark.parametrize("line", ["include other.rules", 'include "my own.rules"', '  include "x"  # y'])
def test_an_include_that_is_not_allowed_is_not_suggested(line: str) -> None:
    with pytest.raises(RuleSyntaxError, match="no files are included here") as caught:
        r.parse_lines([line])
    assert caught.value.suggestion is None and "Only files include others" in str(caught.value.cause)


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("no duplicate of A", "no duplicates of A"),
        ("no duplicates A, B", "no duplicates of A, B"),
        ("no duplicates of A and B", "no duplicates of A, B"),
        ("at most one segment of A", "at most 1 segment of A"),
        ("at most 2 of A", "at most 2 segments of A"),
        ("at most 1 title", "at most 1 segment of title"),
        ("no more than 1 segment of A", "at most 1 segment of A"),
        ("A at most once", "at most 1 segment of A"),
        ("exactly one segment A", "exactly 1 segment of A"),
        ("Exactly two words of A", "exactly 2 tokens of A"),
        ("A precedes B", "A before B"),
        ("A must come before B", "A before B"),
        ("A befor B  # a comment", "A before B"),
        ("A after B", "B before A"),
        ("the first A before the first B", "first A before first B"),
        ("first A before B", "first A before first B"),
        ("if A, then B", "if A then B"),
        ("A requires B", "if A then B"),
        ("fix A on tokens /x y/", "fix A at tokens /x y/"),
        ("fix A at /[0-9]+/", "fix A at tokens /[0-9]+/"),
        ("begins with A", "starts with A"),
        ("A immediately followed by B", "A next to B"),
        ("wellformed", "well formed"),
        ("matches A B*", 'matches "A B*"'),
        ('matches "A B', 'matches "A B"'),
        ("A before B penalty=2", "A before B  [penalty 2]"),
        ("A before B [penalty=2]", "A before B  [penalty 2]"),
        ("A before B [penalty 2", "A before B  [penalty 2]"),
        ("A before B (penalty 0.5 per violation)", "A before B  [penalty 0.5 per violation]"),
        ("A before B [0.5]", "A before B  [penalty 0.5]"),
        ("(presents A) implies (A befor B)", "(present A) implies (A before B)"),
        ("same labels for identical tokens", "same label for equal tokens"),
        ("at most 1 segment of no", 'at most 1 segment of "no"'),
        ("include my own.rules", 'include "my own.rules"'),
    ],
)
def test_what_people_write(line: str, meant: str) -> None:
    assert cause(line) == f"Did you mean: {meant}"


@pytest.mark.parametrize(
    "line",
    [
        "what",
        "A",
        "A B",
        "stime before etime, if both",
        "present A and present",
        "well",
        "not",
        "(",
        ",",
        "[2]",
        "A A A A",
    ],
)
def test_nothing_is_suggested_where_nothing_is_near(line: str) -> None:
    assert not str(cause(line)).startswith("Did you mean")


_WORDS = st.sampled_from(
    [*sorted(reserved()), "A", "B", "one", "2", ",", "(", ")", "[", "]", '"', "/x/", "penalty=", "must"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_WORDS, max_size=10).map(" ".join) | st.text(max_size=40))
def test_suggestions_always_parse(line: str) -> None:
    meant = nearest(line, r.parse)
    if meant is not None and not meant.startswith("include "):
        assert isinstance(r.parse(meant), r.Rule) and meant.split() != line.split()


@settings(max_examples=60, deadline=None)
@given(generators, st.integers(0, 30), st.sampled_from(["drop", "double", "letter"]))
def test_a_slip_in_a_rule_is_mended_into_a_rule(rng: object, at: int, slip: str) -> None:
    rule, _ = random_rule(rng, random_labels(rng), 3, depth=0)  # type: ignore[arg-type]
    words = str(rule).split(" ")
    k = at % len(words)
    words[k : k + 1] = {"drop": [], "double": [words[k]] * 2, "letter": [words[k] + "x"]}[slip]
    line = " ".join(words)
    try:
        r.parse(line)
    except RuleError as error:
        if error.cause is not None and error.cause.startswith("Did you mean: "):
            assert isinstance(r.parse(error.cause.removeprefix("Did you mean: ")), r.Rule)


@pytest.mark.parametrize(
    "line",
    [
        "a " * 5000,
        "(" * 100 + "x",
        '"' * 500,
        "/" * 399,
        "at most " * 14,
        "x" * 100_000,
        "," * 29,
        "not " * 29 + "A",
        "one of " * 15,
    ],
)
def test_hostile_lines_take_no_time(line: str) -> None:
    begin = time.process_time()
    nearest(line, r.parse)
    assert time.process_time() - begin < 0.5


def test_only_the_first_bad_lines_are_told() -> None:
    with pytest.raises(RuleSyntaxError) as caught:
        r.parse_lines(["A befor B"] * 30)
    causes = [error.cause for error in (caught.value, *caught.value.others)]
    assert causes == ["Did you mean: A before B"] * 20 + [None] * 10


@pytest.mark.parametrize(
    "line",
    ["if A and B then O", "at least 1 segment of A and B", "A before B [penalty .5.]", "A only before B"],
)
def test_no_suggestion_that_means_something_else(line: str) -> None:
    assert cause(line) is None
