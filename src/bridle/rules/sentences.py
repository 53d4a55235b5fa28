"""The sentences of rules, as each kind of rule brings them (`Rule.text`): words, and slots {field:type}.

    "at most {k:int} {count:unit} of {of:names}"

text.py reads rules by them, printing.py prints rules by them; what stands between quotation marks is escaped here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from functools import cache
from typing import NamedTuple

from bridle.rules.base import Rule
from bridle.rules.boolean import And, Iff, Implies, Or, _Pair

# from the tightest to the loosest
PAIRS: dict[str, Callable[[Rule, Rule], _Pair]] = {"and": And, "or": Or, "implies": Implies, "iff": Iff}
WORDS = {"not", *PAIRS, "given", "tokens", "penalty", "per", "nowhere"}
# Words of sentences that were added later. Files may have labels with these names and no quotation marks, which go on
# to mean what they did; new ones are printed between quotation marks.
LATER = {"first", "for", "equal", "ignoring", "case", "include"}


class Slot(NamedTuple):
    """A place in a sentence that a field of the rule fills."""

    field: str
    type: str


class Sentence(NamedTuple):
    """One way to write a kind of rule."""

    kind: type[Rule]
    pieces: list[str | Slot]
    words: frozenset[str]  # those among the pieces


@cache
def sentences() -> list[Sentence]:
    """All sentences, cut into words and slots."""
    made = []
    for kind in Rule.kinds:
        for text in kind.text:
            pieces = [Slot(*w[1:-1].split(":")) if w[0] == "{" else w for w in text.split()]
            made.append(Sentence(kind, pieces, frozenset(w for w in pieces if isinstance(w, str))))
    return made


@cache
def quoted_words() -> Set[str]:
    """Words that are printed between quotation marks where they are label names."""
    return WORDS.union(LATER, *(sentence.words for sentence in sentences()))


@cache
def reserved() -> Set[str]:
    """Words that are label names only in quotation marks."""
    return quoted_words() - LATER


_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}  # a rule stays on one line
_MEANT = {"n": "\n", "r": "\r"}


def quote(text: str) -> str:
    """Text between quotation marks."""
    return '"' + re.sub(r'[\\"\n\r]', lambda found: _ESCAPED[found[0]], text) + '"'


def unquote(text: str) -> str:
    """What stands between quotation marks."""
    return re.sub(r"\\(.)", lambda found: _MEANT.get(found[1], found[1]), text, flags=re.DOTALL)


def shown_name(name: str) -> str:
    """A name as it is read: between quotation marks unless it is a plain word."""
    plain = re.fullmatch(r"[^\s,()\[\]\"#/]+", name) and name not in quoted_words()
    return name if plain else quote(name)


def unslash(text: str) -> str:
    """What stands between slashes."""
    return text.replace(r"\/", "/")
