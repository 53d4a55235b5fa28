"""What a line of a .rules file should be instead, for findings of the linter that have an obvious remedy."""

from __future__ import annotations

import re
from contextlib import suppress

from bridle.errors import BridleError
from bridle.rules.base import Rule
from bridle.rules.line_tokens import scan
from bridle.rules.sentences import quote, shown_name, unquote
from bridle.rules.text import parse


def with_comment(sentence: str, line: str) -> str:
    """A sentence with the comment of the line that it replaces, if it has none of its own.

    >>> with_comment("A before B", "A befor B # an order")
    'A before B  # an order'
    """
    comment, own = _comment(line), _comment(sentence)
    return f"{sentence}  {comment}" if comment and not own else sentence


def _comment(line: str) -> str:
    with suppress(BridleError):  # the line may be what is wrong
        return scan(line).comment
    return ""


def renamed(line: str, name: str, other: str) -> str | None:
    """The line with another name for a label; None if the name cannot be found in the text.

    >>> renamed("AUTHOR before TITEL  # not TITEL", "TITEL", "TITLE")
    'AUTHOR before TITLE  # not TITEL'
    """
    expression = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    made = line
    tokens, _, places = scan(line)
    for (kind, text), (begin, end) in zip(reversed(tokens), reversed(places), strict=True):
        said = unquote(text) if kind == "quoted" else text
        if kind not in ("quoted", "word"):
            continue
        if said == name:
            made = made[:begin] + shown_name(other) + made[end:]
        elif kind == "quoted":  # as in: matches "O* TITEL+"
            made = made[:begin] + quote(expression.sub(lambda _: other, said)) + made[end:]
    with suppress(BridleError):
        parse(made)
        return made if made != line else None
    return None


def linear(rule: Rule) -> str | None:
    """The rule with RE2 instead of Python's re, if RE2 reads its expressions."""
    with suppress(BridleError):
        return str(parse(re.sub(r'([/"]) by re\b', r"\1", str(rule))))
    return None
