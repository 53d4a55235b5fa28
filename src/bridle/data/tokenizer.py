"""Text into tokens, with the place of each: `text.startswith(token, start)` holds for every token that is cut.

blanks         at white space
words          letters and digits with the marks that go with them, without the rest
punctuation    words, and each other character by itself
references     as the references that come with Bridle: initials and known abbreviations keep their dot
characters     each character that is no white space

A run of letters of a script without blanks between words (Chinese, Japanese, Thai) is one word: `characters` cuts it.
"""

from __future__ import annotations

import re
from array import array
from functools import cache
from typing import Literal

from bridle.tokens import word

Tokens = Literal["blanks", "words", "punctuation", "references", "characters"]
TOKENS: tuple[Tokens, ...] = ("blanks", "words", "punctuation", "references", "characters")


_PLAIN = {"blanks": r"\S+", "words": r"\w+", "punctuation": r"\w+|[^\w\s]", "characters": r"\S"}


@cache
def _cutter(how: Tokens, ascii: bool) -> re.Pattern[str]:
    """The regular expression that finds the tokens of a text; in ASCII a simple one finds the same sooner."""
    if how == "references":
        from bridle.data.references.parts import TOKEN  # they are loaded when they are needed

        return TOKEN
    if ascii or how not in ("words", "punctuation"):
        return re.compile(_PLAIN[how])
    return re.compile(word() if how == "words" else rf"{word()}|[^\w\s]")


def tokens_of(text: str, how: Tokens) -> list[str]:
    """The tokens of a text, without their places."""
    return _cutter(how, text.isascii()).findall(text)


def tokenize(text: str, how: Tokens = "punctuation") -> tuple[list[str], array[int]]:
    """Cut a text into tokens.

    Parameters
    ----------
    text : str
        Any text.
    how : {"blanks", "words", "punctuation", "references", "characters"}, default "punctuation"
        Where to cut: at blanks; into words, letters and digits without the rest; at punctuation too, each mark a token;
        as the references that come with Bridle are cut (initials and known abbreviations keep their dot, time-sharing
        and 1--10 stay whole); or into characters.

    Returns
    -------
    tokens : list of str
        The tokens.
    starts : array of int
        Where each begins; it ends after as many characters as it has.

    Examples
    --------
    >>> tokens, starts = tokenize("Knuth, D. E.: The TeXbook", "references")
    >>> tokens, list(starts)
    (['Knuth', ',', 'D.', 'E.', ':', 'The', 'TeXbook'], [0, 5, 7, 10, 12, 14, 18])
    """
    pattern = _cutter(how, text.isascii())
    # an array of numbers: eight bytes each, where a list of pairs would take more memory than a long text itself
    return pattern.findall(text), array("q", map(re.Match.start, pattern.finditer(text)))
