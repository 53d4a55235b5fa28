"""Regular expressions over tokens: RE2 matches what Python's `re` matches, or says that it cannot."""

from __future__ import annotations

import re
import sys
import time
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from bridle import Decoder, Labels, Lattice, RuleError
from bridle import rules as r
from bridle.learn.candidates import TOKEN_CLASSES
from bridle.rules import patterns
from bridle.rules.lint import lint
from bridle.rules.patterns import LONGEST, matcher, may_explode
from stopwatch import Stopwatch
from strategies import seeds

# Letters, digits, marks and blanks of several scripts; case pairs that are not one to one; half a surrogate pair.
CHARACTERS = "aAbkKzZ09_-. \n\t\x85éÉßẞſKİıµμΣσς٣७Ⅷ²中\u00a0\u3000\u0301\u200d😀𐐀𐐨\ud800"
ATOMS = [
    *("a", "k", "é", "ß", "σ", "0", "_", "-", r"\.", ".", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\n"),
    *("[a-z]", "[^a-z]", r"[\w-]", r"[^\W\d_]", r"[\s_]", "[À-ÿ]", "[^k]", "[σ中]", r"\u00e9", r"[\ud800-\udfff]"),
    *("(?i:k)", "(?i:[a-z])", "(?i:[^k])", "(?i:ß)", "(?i:σ)", "(?i:µ)", "(?i:İ)", "(?i:\U00010400)", r"(?a:\w)"),
    *(r"(?a:\d)", "(?s:.)", r"(?i:[^\Wé])", "(?ai:k)", "(?ai:[k-m])"),
]


def random_pattern(rng: Generator, depth: int, boundaries: bool) -> str:
    kind = int(rng.integers(7)) if depth else 0
    if kind <= 1:
        return ATOMS[int(rng.integers(len(ATOMS)))]
    if kind == 2 and boundaries:
        return (r"\b", r"\B", "^", "(?m:^)", "(?m:$)")[int(rng.integers(5))]
    parts = [random_pattern(rng, depth - 1, boundaries) for _ in range(int(rng.integers(1, 4)))]
    if kind <= 3:
        return "(?:" + "|".join(parts) + ")"
    if kind == 4:
        counts = ("*", "+", "?", "*?", "{2}", "{1,2}", "{0}")
        return f"({parts[0]}){counts[int(rng.integers(len(counts)))]}"
    return "".join(parts)


def random_texts(rng: Generator) -> list[str]:
    sizes = rng.integers(0, 5, size=60)
    return ["".join(CHARACTERS[int(k)] for k in rng.integers(len(CHARACTERS), size=size)) for size in sizes]


@pytest.mark.parametrize("boundaries", [False, True])
def test_both_engines_match_the_same_tokens(boundaries: bool) -> None:
    result = 0
    for rng in seeds(120, key=5 + boundaries):
        pattern = random_pattern(rng, 3, boundaries)
        texts = [
            text for text in random_texts(rng) if text or r"\B" not in pattern
        ]  # Python 3.14 changed \B of nothing
        wanted = [re.fullmatch(pattern, text) is not None for text in texts]
        assert [bool(matcher((pattern, "re2"))(text)) for text in texts] == wanted, pattern
        result += sum(wanted)
    assert result > 300


def every_character() -> list[str]:
    return [chr(code) for code in range(sys.maxunicode + 1)]


@pytest.mark.slow
@pytest.mark.parametrize("pattern", [r"\d", r"\w", r"\s", r".", r"(?i)[a-zß]", r"(?i)[^kσ]", r"\bx?.\b", r"(?a)\W"])
def test_both_engines_agree_on_every_character(pattern: str) -> None:
    matching, fullmatch = matcher((pattern, "re2")), re.compile(pattern).fullmatch
    assert [c for c in every_character() if bool(matching(c)) != bool(fullmatch(c))] == []


@pytest.mark.slow
def test_both_engines_agree_on_the_case_of_every_character() -> None:
    every = every_character()
    cased = [c for c in every if c.lower() != c or c.upper() != c]
    assert len(cased) > 2500 and max(cased) < chr(0x20000)  # what rules/patterns.py takes for granted
    text = "".join(every)
    for c in cased[::7]:
        pattern = f"(?i){c}"
        wanted = set(re.findall(pattern, text))
        assert {d for d in wanted if matcher((pattern, "re2"))(d)} == wanted
        assert not any(matcher((pattern, "re2"))(d) for d in "xX1é" if d not in wanted)


@pytest.mark.parametrize(
    "pattern, yes, no",
    [
        ("^a$|^b$", ["a", "b"], ["a\n", "ab", ""]),
        (r"\Aa\Z", ["a"], ["a\n"]),
        ("(?x) a  b # and a comment", ["ab"], ["a b"]),
        ("(?P<name>a)(?:b)", ["ab"], ["a"]),
        (r"\N{BULLET}\x41\u00e9\U0001F600\101", ["•Aé😀A"], ["•Aé😀B"]),
        ("a||b", ["a", "", "b"], ["ab"]),
        ("(?s)a.b", ["a\nb"], ["ab"]),
        (r"[]a^\-]+", ["]a^-"], ["b"]),
        ("(?m)a$\n^b", ["a\nb"], ["ab"]),
        ("(|a)*", ["", "aaa"], ["b"]),
        (r".*\bЖук\b.*", ["Жук", "(Жук)", "a Жук."], ["Жуки", "0Жук0", "аЖук"]),
        (r".*\b0é0\b.*", ["0é0"], ["é", "00é00"]),
    ],
)
def test_patterns_by_example(pattern: str, yes: list[str], no: list[str]) -> None:
    for engine in ("re2", "re"):
        matching = matcher((pattern, engine))  # type: ignore[arg-type]
        assert [text for text in yes + no if matching(text)] == yes


@pytest.mark.parametrize(
    "pattern, named",
    [
        ("(?=a)a", "look-ahead"),
        ("(?<!a)b", "negative look-ahead"),
        (r"(a)\1", "back-reference"),
        ("(a)?(?(1)b|c)", "conditional group"),
        ("(?>a+)b", "atomic group"),
        ("a++b", "possessive repeat"),
        ("a$\n?", "in the middle"),
        (r"\b(?a:\b)", "flag for ASCII"),
        ("a{2000}", "too large"),
        ("((a{100}){100}){9}", "too large"),
    ],
)
def test_what_needs_another_engine_says_so(pattern: str, named: str) -> None:
    with pytest.raises(RuleError, match=re.escape(named)) as caught:
        r.tokens(pattern)
    error = caught.value
    assert error.got is not None and error.wanted is not None and error.cause is not None
    assert 'engine="re"' in error.cause and "by re" in error.cause
    rule = r.fix("A", r.tokens(pattern, engine="re"))
    assert r.parse(str(rule)) == rule and str(rule).endswith(" by re")


def test_bad_arguments() -> None:
    with pytest.raises(RuleError, match="unknown engine"):
        r.tokens("a", engine="pcre")  # type: ignore[arg-type]
    with pytest.raises(RuleError, match="65,536"):
        r.tokens("a" * (LONGEST + 1))
    with pytest.raises(RuleError, match="invalid regular expression"):
        r.tokens("(", engine="re")


def test_the_engine_is_part_of_the_rule() -> None:
    plain, chosen = (r.fix("A", r.tokens("a/b", engine=engine)) for engine in ("re2", "re"))  # type: ignore[arg-type]
    assert plain != chosen and str(plain) == r"fix A at tokens /a\/b/" and str(chosen) == str(plain) + " by re"
    assert r.parse('fix A at tokens "a/b" by re') == chosen
    assert r.parse("around tokens /,/ by re from A to B") == r.around(r.tokens(",", engine="re"), left="A", right="B")
    with pytest.raises(RuleError, match="'re'"):
        r.parse("fix A at tokens /a/ by re2")


def test_many_patterns_are_matched_together() -> None:
    every = [*TOKEN_CLASSES.values(), r"\b\w+\b", r"(?=a).*", r"\ba.*"]
    engines = ["re" if "?=" in pattern else "re2" for pattern in every]
    matching = matcher(*zip(every, engines, strict=True))  # type: ignore[arg-type]
    for text in ("1999", "(1999)", "Äpfel", "a", "A.", "http://x", "", "12-14,", "\ud800"):
        assert sorted(matching(text)) == [k for k, p in enumerate(every) if re.fullmatch(p, text)]


def test_patterns_that_are_too_large_together_are_matched_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs: list[tuple[str, Any]] = [(pattern, "re2") for pattern in (r"\w{60}", r"\d{60}", r"\W{60}a*", r".{60}\w{60}")]
    together = matcher(*pairs)
    matcher.cache_clear()
    monkeypatch.setattr(patterns, "_MEMORY_OF_ALL", 1 << 16)
    apart = matcher(*pairs)
    matcher.cache_clear()
    for text in ("é" * 60, "1" * 60, "-" * 60 + "aa", "-" * 60 + "x" * 60, ""):
        assert (
            sorted(together(text))
            == sorted(apart(text))
            == [k for k, (p, _) in enumerate(pairs) if re.fullmatch(p, text)]
        )


def test_a_decoder_uses_the_engine_that_was_chosen() -> None:
    rules = [r.parse(r"fix B at tokens /(?!00)\d{5}/ by re"), r.parse(r"fix C at tokens /\d{4}/")]
    lattice = Lattice(np.array([[3.0, 0, 0]] * 3))
    decoding = Decoder(Labels(["A", "B", "C"]), rules).decode(lattice, {"tokens": ["60201", "00201", "1999"]})
    assert decoding.labels == ["B", "A", "C"]


def test_no_expression_takes_exponential_time() -> None:
    """Python's `re` takes 2 ** 26 steps for this token, whatever the time limit is."""
    decoder = Decoder(Labels(["A", "B"]), [r.fix("B", r.tokens("(a+)+$"))], time_limit=0.1)
    lattice = Lattice(np.zeros((2, 2)))
    begin = time.process_time()
    assert decoder.decode(lattice, {"tokens": ["a" * 26 + "!", "a" * 26]}).labels[1] == "B"
    assert decoder.decode(lattice, {"tokens": ["a" * 1_000_000 + "!", "a" * 1_000_000]}).labels[1] == "B"
    assert time.process_time() - begin < 2


# ---- expressions that may take exponential time ----------------------------------------------------------------------

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
    result = lint(["fix A at tokens /(a+)+$/", "fix A at tokens /(a+)+$/ by re", r"fix A at tokens /(?!0)\d+/ by re"])
    output = [finding for finding in result if finding.code == "backtracking"]
    assert [(finding.line, finding.level) for finding in output] == [(2, "warning")]
    assert "/(a+)+$/" in output[0].message and "time limit" in output[0].message
