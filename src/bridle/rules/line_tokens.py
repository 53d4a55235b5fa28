r"""The tokens of a line of a .rules file: words, marks, "quotations" and /expressions/; a comment ends the line."""

from __future__ import annotations

import re
from typing import NamedTuple

from bridle.errors import RuleSyntaxError, shown

_TOKEN = re.compile(
    r"""\s*(?:(?P<comment>\#.*)|"(?P<quoted>(?:[^"\\]|\\.)*)"|/(?P<regex>(?:[^/\\]|\\.)*)/
        |(?P<mark>[,()\[\]])|(?P<word>[^\s,()\[\]"\#]+))""",
    re.VERBOSE,
)


class Token(NamedTuple):
    """A token; `text` is what stands between quotation marks or slashes, as it is written."""

    kind: str  # quoted, regex, mark, word
    text: str


class Tokens(NamedTuple):
    """The tokens of a line."""

    tokens: list[Token]
    comment: str  # what follows the first #, with it; "" if there is none
    places: list[tuple[int, int]]  # where each token begins and ends


def scan(line: str) -> Tokens:
    """Cut a line into tokens."""
    tokens, places, comment = [], [], ""
    at, end = 0, len(line.rstrip())
    while at < end:
        found = _TOKEN.match(line, at)
        if found is None:
            rest = shown(line[at:].strip())
            raise RuleSyntaxError("a quotation mark is missing", got=rest, wanted="a closed quotation")
        kind, at = found.lastgroup or "", found.end()
        if kind == "comment":
            comment = found[kind].rstrip()
        else:
            tokens.append(Token(kind, found[kind]))
            places.append((found.start(kind) - (kind in ("quoted", "regex")), at))
    return Tokens(tokens, comment, places)
