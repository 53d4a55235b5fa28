r"""The tokens of a line of a .rules file: words, marks, "quotations" and /expressions/; a comment ends the line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from bridle.errors import RuleSyntaxError, shown

_TOKEN = re.compile(
    r"""\s*(?:(?P<comment>\#.*)|"(?P<quoted>(?:[^"\\]|\\.)*)"|/(?P<regex>(?:[^/\\]|\\.)*)/
        |(?P<mark>[,()\[\]])|(?P<word>[^\s,()\[\]"\#]+))""",
    re.VERBOSE,
)


class Token(NamedTuple):
    """A token; `text` is what stands between quotation marks or slashes, as it is written."""

    kind: str  # comment, quoted, regex, mark, word
    text: str


def scan(line: str) -> Iterator[tuple[Token, int, int]]:
    """The tokens of a line, comments among them, and where each begins and ends."""
    at, end = 0, len(line.rstrip())
    while at < end:
        found = _TOKEN.match(line, at)
        if found is None:
            rest = shown(line[at:].strip())
            raise RuleSyntaxError("a quotation mark is missing", got=rest, wanted="a closed quotation")
        kind = found.lastgroup or ""
        around = 1 if kind in ("quoted", "regex") else 0
        yield Token(kind, found[kind]), found.start(kind) - around, found.end()
        at = found.end()


def tokens_of(line: str) -> tuple[list[Token], str]:
    """The tokens of a line, and its comment."""
    tokens, comment = [], ""
    for token, _, _ in scan(line):
        if token.kind == "comment":
            comment = token.text[1:].strip()
        else:
            tokens.append(token)
    return tokens, comment
