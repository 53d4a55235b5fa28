"""Text into tokens, with the place of each: `text.startswith(token, start)` holds for every token that is cut.

blanks         at white space
words          letters and digits, without the rest
punctuation    words, and each other mark by itself
references     as the references that come with Bridle: initials and known abbreviations keep their dot
characters     each character that is no white space
"""

from __future__ import annotations

import re
from array import array
from functools import cache
from typing import Literal

Tokens = Literal["blanks", "words", "punctuation", "references", "characters"]
TOKENS: tuple[Tokens, ...] = ("blanks", "words", "punctuation", "references", "characters")


@cache
def cutter(how: Tokens) -> re.Pattern[str]:
    """The regular expression that finds the tokens of a text."""
    if how == "references":
        from bridle.data.references.parts import TOKEN  # they are loaded when they are needed

        return TOKEN
    plain = {"blanks": r"\S+", "words": r"\w+", "punctuation": r"\w+|[^\w\s]", "characters": r"\S"}
    return re.compile(plain[how])


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
    pattern = cutter(how)
    # an array of numbers: eight bytes each, where a list of pairs would take more memory than a long text itself
    return pattern.findall(text), array("q", map(re.Match.start, pattern.finditer(text)))
