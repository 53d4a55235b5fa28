"""Curly quotation marks, as word processors write them, in lines whose quotations need straight ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress

from bridle.errors import BridleError

CURLY = "“”„‟‘’‚‛"
ADVICE = "Quotation marks must be straight, not curly as word processors write them."
# What is quoted already, expressions and comments stay as they are.
_PAIRS = re.compile(
    r"""("(?:[^"\\]|\\.)*"|/(?:[^/\\]|\\.)*/|\#.*)|[“”„‟]([^“”„‟"]*)[“”„‟]|(?<!\w)[‘‚‛]([^‘‚‛"]*?)[’‘](?!\w)"""
)
_DOUBLE = str.maketrans(dict.fromkeys("“”„‟", '"'))
_ALL = str.maketrans(dict.fromkeys(CURLY, '"'))


def has_curly(line: str) -> bool:
    """Are there curly quotation marks around something?"""
    return paired(line) != line


def paired(line: str) -> str:
    """The line with straight marks where curly ones stand around something.

    >>> paired('fix A at tokens “it’s”, "“", ‘b’  # “so”')
    'fix A at tokens "it’s", "“", "b"  # “so”'
    """

    def straight(found: re.Match[str]) -> str:
        kept, double, single = found.groups()
        return kept if kept is not None else f'"{double if double is not None else single}"'

    return _PAIRS.sub(straight, line)


def straightened(line: str, read: Callable[[str], object]) -> str | None:
    """The line with straight quotation marks, if `read` takes that."""
    if line.isascii():
        return None
    for made in dict.fromkeys([paired(line), line.translate(_DOUBLE), line.translate(_ALL)]):
        if made != line:
            with suppress(BridleError):
                read(made)
                return made.strip()
    return None
