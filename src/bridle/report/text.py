"""Texts of users, made fit to be shown."""

from __future__ import annotations

import unicodedata


def clean(text: str, keep: str = "") -> str:
    """The text without what neither a file nor a terminal can show: control characters, halves of characters.

    >>> clean("a\\x1b[31mb\\n"), clean("a\\n", keep="\\n")
    ('a�[31mb�', 'a\\n')
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in keep or _shows(c) else "\ufffd" for c in text)


def _shows(c: str) -> bool:
    return unicodedata.category(c) not in ("Cc", "Cs") and c not in "\ufffe\uffff"


def cut(text: str, most: int) -> str:
    """The text, or its beginning."""
    return text if len(text) <= most else text[: most - 1] + "…"
