"""Test cases in .rules files: a text, and segments that a model under the rules must find in it.

    example "Knuth, D. The TeXbook. 1984" has AUTHOR "Knuth, D.", DATE "1984"
    example "Knuth, D. The TeXbook. 1984" is AUTHOR "Knuth, D.", TITLE "The TeXbook", DATE "1984"
    example "See above." is nothing

`has`: these segments are among those found. `is`: these and no others. Phrases are found from left to right, each
after the one before. learn/examples.py runs them.

No rule begins like this: after a label called `example`, a quotation is possible only behind a comma.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, get_args

from bridle.errors import RuleSyntaxError, shown
from bridle.rules.line_tokens import Token, scan
from bridle.rules.quotation import ADVICE, has_curly, straightened
from bridle.rules.sentences import quote, shown_name, unquote

Kind = Literal["has", "is"]
EXAMPLE = re.compile(
    r'\s*example(?:\s*"|\s+[“”„‟‘‚‛])'
)  # a line that is a test case, or meant to be one: no rule begins so
_SUCH_AS = 'example "Knuth, The TeXbook" has AUTHOR "Knuth", TITLE "The TeXbook"'


@dataclass(frozen=True, slots=True)
class RuleExample:
    """A test case; `parse_example(str(example))` reads it again.

    Raises
    ------
    RuleSyntaxError
        If the text, a label or a phrase is empty, or `has` comes without segments.
    """

    text: str
    kind: Kind
    spans: tuple[tuple[str, str], ...]  # label, phrase

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise RuleSyntaxError("unknown kind of test case", got=shown(self.kind), wanted="'has' or 'is'")
        if not self.text.strip():
            raise RuleSyntaxError("the text of a test case is empty", got=shown(self.text), wanted="a text")
        if self.kind == "has" and not self.spans:
            raise RuleSyntaxError("a test case names no segments", got="'has' alone", wanted=_SUCH_AS)
        for label, phrase in self.spans:
            if not label or not phrase.strip():
                got = f"{shown_name(label)} {quote(phrase)}"
                raise RuleSyntaxError("a label or a phrase of a test case is empty", got=got, wanted=_SUCH_AS)

    def __str__(self) -> str:
        spans = ", ".join(f"{shown_name(label)} {quote(phrase)}" for label, phrase in self.spans)
        return f"example {quote(self.text)} {self.kind} {spans or 'nothing'}"

    def renamed(self, label: str, other: str) -> RuleExample:
        """The test case with another name for a label."""
        return replace(self, spans=tuple((other if name == label else name, phrase) for name, phrase in self.spans))

    def missing(self) -> str | None:
        """What is wrong with the phrases: one does not occur in the text, or not after the one before it."""
        at = 0
        for k, (_, phrase) in enumerate(self.spans):
            found = self.text.find(phrase, at)
            if found < 0 and phrase not in self.text:
                return f"the text of the test case does not contain {quote(phrase)}"
            if found < 0:
                before = quote(self.spans[k - 1][1])
                return f"{quote(phrase)} does not occur after {before} in the text; name segments in order"
            at = found + len(phrase)
        return None


@dataclass(frozen=True, slots=True)
class ExampleLine:
    """A test case of a file, and its line."""

    example: RuleExample
    number: int  # from 1
    comment: str
    file: str | None = None

    @property
    def where(self) -> str:
        """The place, as in ``my.rules:3``."""
        return f"line {self.number}" if self.file is None else f"{self.file}:{self.number}"


def parse_example(line: str) -> RuleExample:
    """Read a test case.

    >>> parse_example('example "to Bonn" has CITY "Bonn"').spans
    (('CITY', 'Bonn'),)
    """
    return parse_example_line(line)[0]


def parse_example_line(line: str) -> tuple[RuleExample, str]:
    """The test case on a line, and its comment."""
    try:
        return _parsed(line)
    except RuleSyntaxError as error:
        meant = straightened(line, _parsed)
        if meant is not None:
            error.cause, error.suggestion = f"{ADVICE} Did you mean: {meant}", meant
        elif has_curly(line):
            error.cause = f"{ADVICE} {error.cause}" if error.cause else ADVICE
        raise


def _parsed(line: str) -> tuple[RuleExample, str]:
    tokens, comment, _ = scan(line)
    return _Reader(tokens).example(), comment[1:].strip()


class _Reader:
    """Reads the tokens of a test case from left to right."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens, self.at = tokens, 0

    def example(self) -> RuleExample:
        self.take("word", "the word example", "example")
        text = unquote(self.take("quoted", "the text in quotation marks"))
        kind: Kind = "has" if self.take("word", "'has' or 'is'", "has", "is") == "has" else "is"
        if kind == "is" and self.tokens[self.at :] == [Token("word", "nothing")]:
            return RuleExample(text, kind, ())
        spans = [self.span()]
        while self.at < len(self.tokens):
            self.take("mark", "a comma, or the end of the line", ",")
            spans.append(self.span())
        return RuleExample(text, kind, tuple(spans))

    def span(self) -> tuple[str, str]:
        kind = "quoted" if self.kind() == "quoted" else "word"
        label = self.take(kind, 'a label and a phrase, such as TITLE "The TeXbook"')
        phrase = unquote(self.take("quoted", f"a phrase of the text in quotation marks, after the label {label}"))
        return (unquote(label) if kind == "quoted" else label), phrase

    def kind(self) -> str:
        return self.tokens[self.at].kind if self.at < len(self.tokens) else ""

    def take(self, kind: str, wanted: str, *texts: str) -> str:
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        if token is None or token.kind != kind or (texts and token.text not in texts):
            rest = " ".join(one.text for one in self.tokens[self.at : self.at + 6])
            raise RuleSyntaxError(
                "not a test case",
                got=repr(rest) if rest else "the end of the line",
                wanted=wanted,
                cause=f"A test case is written like this: {_SUCH_AS}",
            )
        self.at += 1
        return token.text
