"""Texts of users, made fit to be shown, and columns of text."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence

_BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # change the direction of text
_BREAKS = "\u2028\u2029"


def clean(text: str, keep: str = "") -> str:
    """Replace what neither a file nor a terminal can show: control characters, halves of characters.

    >>> clean("a\\x1b[31mb\\n"), clean("a\\n", keep="\\n")
    ('a�[31mb�', 'a\\n')
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in keep or not _is_control(c, "\ufffe\uffff") else "\ufffd" for c in text)


def visible(text: str, keep: str = "") -> str:
    """Escape what would steer a terminal: control characters, changes of direction.

    Terminal output of what users or files have named goes through this; data that goes to files and pipes does not.

    >>> visible("a\\x1b[31mb\\r\\n"), visible("a\\tb\\x9b", keep="\\t"), visible("\\u202egnp.exe")
    ('a\\\\x1b[31mb\\\\r\\\\n', 'a\\tb\\\\x9b', '\\\\u202egnp.exe')
    """
    if text.isascii() and text.isprintable():
        return text
    steers = _BIDI + _BREAKS
    return "".join(c if c in keep or not _is_control(c, steers) else c.encode("unicode_escape").decode() for c in text)


def _is_control(c: str, more: str) -> bool:
    return unicodedata.category(c) in ("Cc", "Cs") or c in more


def cut(text: str, most: int) -> str:
    """Shorten a text to `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def counted(count: int, noun: str) -> str:
    """Format a count with its noun.

    >>> counted(1, "label"), counted(1500, "token")
    ('1 label', '1,500 tokens')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Format rows of equally many cells as lines; columns in `left` are flush left, the others flush right.

    >>> aligned([["name", "F1"], ["PER", "90.00"]])
    ['name     F1', 'PER   90.00']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(row, widths, strict=True)
        lines.append("  ".join(x.ljust(w) if c in left else x.rjust(w) for c, (x, w) in enumerate(cells)).rstrip())
    return lines
