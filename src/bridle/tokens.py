"""What a word is in text of any script: letters, digits, _ and the marks that go with them.

The `\\w` of Python's `re` leaves combining marks out, so it would cut vowel signs off the letters of Indic scripts, and
accents off decomposed letters (`e` and U+0301). Joiners within a word (U+200C, U+200D) do not cut it either.
"""

from __future__ import annotations

import unicodedata
from functools import cache

_LATIN = r"0-9A-Za-z_\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f"


@cache
def word(alone: str = "") -> str:
    """The regular expression of a word. alone: ranges of characters that are in none.

    >>> import re
    >>> re.findall(word(), "cafe\\u0301, हिन्दी")
    ['café', 'हिन्दी']
    """
    kept = (c for c in map(chr, range(0x300, 0x20000)) if unicodedata.category(c) in ("Mn", "Mc"))
    marks = "".join(kept) + "\u200c\u200d"
    letter = rf"[^\W{alone}]"
    # first: most words of Latin script, found faster
    return rf"[{_LATIN}]++(?![\w{marks}])|{letter}+(?:[{marks}]+{letter}*)*"
