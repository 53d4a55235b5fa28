"""Texts of users, made fit to be shown."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def clean(text: str, keep: str = "") -> str:
    """The text without what neither a file nor a terminal can show: control characters, halves of characters.

    >>> clean("a\\x1b[31mb\\n"), clean("a\\n", keep="\\n")
    ('a�[31mb�', 'a\\n')
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in keep or _shows(c) else "\ufffd" for c in text)


_BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # change the direction of text
_BREAKS = "\u2028\u2029"


def visible(text: str, keep: str = "") -> str:
    """The text with escapes in place of what would steer a terminal: control characters, changes of direction.

    Terminal output of what users or files have named goes through this; data that goes to files and pipes does not.

    >>> visible("a\\x1b[31mb\\r\\n"), visible("a\\tb\\x9b", keep="\\t"), visible("\\u202egnp.exe")
    ('a\\\\x1b[31mb\\\\r\\\\n', 'a\\tb\\\\x9b', '\\\\u202egnp.exe')
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in keep or _harmless(c) else c.encode("unicode_escape").decode() for c in text)


def _harmless(c: str) -> bool:
    return unicodedata.category(c) not in ("Cc", "Cs") and c not in _BIDI and c not in _BREAKS


def _shows(c: str) -> bool:
    return unicodedata.category(c) not in ("Cc", "Cs") and c not in "\ufffe\uffff"


def cut(text: str, most: int) -> str:
    """The text, or its beginning."""
    return text if len(text) <= most else text[: most - 1] + "…"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table whose rows have equally many cells.

    >>> aligned([["name", "F1"], ["PER", "90.00"]])
    ['name     F1', 'PER   90.00']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(w) if c == 0 else cell.rjust(w) for c, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
