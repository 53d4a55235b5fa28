"""Split text into tokens with their offsets: `text.startswith(token, start)` holds for every token.

blanks         at white space
words          letters and digits with their combining marks, without other characters
punctuation    words, and each other character as a token
references     like the references that ship with Bridle: initials and known abbreviations keep their dot
characters     each character except white space

In scripts without blanks between words (Chinese, Japanese, Thai), a run of letters is one word: use `characters`.
"""

from __future__ import annotations

import re
from array import array
from functools import cache
from typing import Literal

from bridle.texts import word_pattern

Tokens = Literal["blanks", "words", "punctuation", "references", "characters"]
TOKENS: tuple[Tokens, ...] = ("blanks", "words", "punctuation", "references", "characters")


_PLAIN = {"blanks": r"\S+", "words": r"\w+", "punctuation": r"\w+|[^\w\s]", "characters": r"\S"}


@cache
def _cutter(how: Tokens, ascii: bool) -> re.Pattern[str]:
    """The regular expression that finds the tokens of a text; for ASCII, a simpler one finds the same faster."""
    if how == "references":
        from bridle.data.references.parts import TOKEN  # they are loaded when they are needed

        return TOKEN
    if ascii or how not in ("words", "punctuation"):
        return re.compile(_PLAIN[how])
    return re.compile(word_pattern() if how == "words" else rf"{word_pattern()}|[^\w\s]")


def tokens_of(text: str, how: Tokens) -> list[str]:
    """The tokens of a text, without offsets."""
    return _cutter(how, text.isascii()).findall(text)


def tokenize(text: str, how: Tokens = "punctuation") -> tuple[list[str], array[int]]:
    """Split a text into tokens.

    Parameters
    ----------
    text : str
        Any text.
    how : {"blanks", "words", "punctuation", "references", "characters"}, default "punctuation"
        How to split: at blanks; into words of letters and digits, without other characters; also at punctuation, where
        each mark is a token; like the references that ship with Bridle (initials and known abbreviations keep a dot,
        time-sharing and 1--10 are single tokens); or into characters.

    Returns
    -------
    tokens : list of str
        The tokens.
    starts : array of int
        Where each begins.

    Examples
    --------
    >>> tokens, starts = tokenize("Knuth, D. E.: The TeXbook", "references")
    >>> tokens, list(starts)
    (['Knuth', ',', 'D.', 'E.', ':', 'The', 'TeXbook'], [0, 5, 7, 10, 12, 14, 18])
    """
    pattern = _cutter(how, text.isascii())
    # an array of numbers: eight bytes each, where a list of pairs would take more memory than a long text itself
    return pattern.findall(text), array("q", map(re.Match.start, pattern.finditer(text)))
