"""What a word is in text of any script: letters, digits, _ and the marks that go with them.

The `\\w` of Python's `re` leaves combining marks out, so it would cut vowel signs off the letters of Indic scripts, and
accents off decomposed letters (`e` and U+0301). Joiners within a word (U+200C, U+200D) do not cut it either.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from itertools import groupby

_LATIN = r"0-9A-Za-z_\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f"


@cache
def word(alone: str = "") -> str:
    """The regular expression of a word. alone: ranges of characters that are in none.

    >>> import re
    >>> re.findall(word(), "हिन्दी, भाषा!")
    ['हिन्दी', 'भाषा']
    """
    marks = _marks()
    letter = rf"[^\W{alone}]"
    # first: most words of Latin script, found faster
    return rf"[{_LATIN}]++(?![\w{marks}])|{letter}+(?:[{marks}]+{letter}*)*"


def _marks() -> str:
    """Combining marks and joiners, as ranges: a long list of characters would be gone through one by one."""
    found = [0x200C, 0x200D, *(k for k in range(0x300, 0x20000) if unicodedata.category(chr(k)) in ("Mn", "Mc"))]
    runs = groupby(enumerate(sorted(found)), lambda pair: pair[1] - pair[0])
    each = ([code for _, code in run] for _, run in runs)
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in each)
