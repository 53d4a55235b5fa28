r"""Conditions on tokens as text: how text.py reads them and printing.py prints them.

    place       condition [after condition] [before condition]
    condition   first token | last token | column pattern | column phrases
    column      tokens, a word or "a quotation"
    pattern     /\d{5}/ or "\\d{5}", [by re]
    phrases     in "cities.txt" or among "New York", "Boston", [ignoring case]

No word is reserved for them: a word is a column if a pattern or phrases follow it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from bridle.errors import RuleError
from bridle.phrases import Ignoring, PhraseList, list_of, read_list
from bridle.rules.conditions import Condition, EndToken, TokenPlace, Tokens, TokensIn, in_context, parts_of
from bridle.rules.inputs import TOKENS
from bridle.rules.sentences import quote, shown_name, unquote, unslash

ReadList = Callable[[str], PhraseList]  # the name of a file, as a rule has it -> its phrases
_NUMBER = re.compile(r"-?\d+")


def lists_in(folder: str | Path | None) -> ReadList:
    """What reads the lists that rules name, each once; from no folder: what says how to have them read."""

    @cache
    def read(name: str) -> PhraseList:
        if folder is None:
            raise RuleError(
                "a rule names a list in a file, and files are not read here",
                got=f"in {quote(name)}",
                wanted=f"rules.parse(sentence, folder=...), the folder of {quote(name)}",
                cause='Load a .rules file with rules.load(path), or write the phrases: among "New York", "Boston".',
            )
        return read_list(Path(folder, name), name)

    return read


# ---- reading --------------------------------------------------------------------------------------------------------


class Reader(Protocol):
    """What reads a line of rules: its tokens, pairs of kind and text, and how far it is."""

    tokens: Any
    at: int
    read_list: ReadList

    def miss(self, wanted: str) -> Exception: ...
    def next_is(self, kind: str, *texts: str) -> bool: ...
    def take(self, kind: str, *texts: str, wanted: str | None = None) -> str: ...
    def listed(self, item: Callable[[], Any]) -> list[Any]: ...


def condition_is_next(reader: Reader) -> bool:
    """Does a condition on tokens follow?"""
    word, follows = (*reader.tokens[reader.at : reader.at + 2], ("", ""), ("", ""))[:2]
    if word == ("word", TOKENS) or _is_end(word, follows):
        return True
    named = word[0] == "quoted" or (word[0] == "word" and not _NUMBER.fullmatch(word[1]))
    return named and (follows[0] in ("regex", "quoted") or follows in (("word", "in"), ("word", "among")))


def _is_end(word: tuple[str, str], follows: tuple[str, str]) -> bool:
    return word in (("word", "first"), ("word", "last")) and follows == ("word", "token")


def read_token_place(reader: Reader) -> TokenPlace:
    """A condition, with those on the neighbours."""
    here, context = _read_condition(reader), dict[str, Condition]()
    while any(role not in context and reader.next_is("word", role) for role in ("after", "before")):
        role = reader.take("word")
        context[role] = _read_condition(reader)
    return in_context(here, **context)


def _read_condition(reader: Reader) -> Condition:
    if not condition_is_next(reader):
        raise reader.miss("a condition such as tokens /[A-Z].*/")
    (kind, text), *follows = reader.tokens[reader.at : reader.at + 2]
    if follows and _is_end((kind, text), follows[0]):
        reader.at += 2
        return EndToken("first" if text == "first" else "last")
    reader.at += 1
    column = unquote(text) if kind == "quoted" else text
    return _read_rest(reader, None if column == TOKENS else column)


def _read_rest(reader: Reader, column: str | None) -> Condition:
    """What is asked of a column."""
    if reader.next_is("word", "in", "among"):
        if reader.take("word") == "in":
            wanted = "the name of a file in quotation marks"
            phrases = reader.read_list(unquote(reader.take("quoted", wanted=wanted)))
        else:
            wanted = "a phrase in quotation marks"
            phrases = list_of(reader.listed(lambda: unquote(reader.take("quoted", wanted=wanted))))
        return TokensIn(phrases, _read_ignoring(reader), column)
    if reader.next_is("quoted"):
        pattern = unquote(reader.take("quoted"))
    else:
        pattern = unslash(reader.take("regex", wanted="an expression between slashes"))
    if not reader.next_is("word", "by"):
        return Tokens(pattern, column=column)
    reader.at += 1
    reader.take("word", "re")
    return Tokens(pattern, "re", column)


def _read_ignoring(reader: Reader) -> Ignoring:
    if not reader.next_is("word", "ignoring"):
        return None
    reader.at += 1
    reader.take("word", "case")
    return "case"


# ---- printing -------------------------------------------------------------------------------------------------------


def shown_token_place(place: TokenPlace) -> str:
    """A place as it is read."""
    parts = ((role, _shown(condition)) for role, condition in parts_of(place).items())
    return " ".join(text if role == "here" else f"{role} {text}" for role, text in parts)


def _shown(condition: Condition) -> str:
    if isinstance(condition, EndToken):
        return f"{condition.end} token"
    column = TOKENS if condition.column is None else shown_name(condition.column)
    if _NUMBER.fullmatch(column):
        column = quote(column)
    if isinstance(condition, Tokens):
        slashed = re.sub(r"(\\.)|/", lambda found: found[1] or r"\/", condition.pattern, flags=re.DOTALL)
        exact = unslash(slashed) == condition.pattern and not re.search(r"[\n\r]", slashed)
        by = "" if condition.engine == "re2" else f" by {condition.engine}"
        return f"{column} /{slashed}/{by}" if exact else f"{column} {quote(condition.pattern)}{by}"
    name, ignoring = condition.phrases.name, "" if condition.ignoring is None else f" ignoring {condition.ignoring}"
    if name is not None:
        return f"{column} in {quote(name)}{ignoring}"
    return f"{column} among {', '.join(map(quote, condition.phrases.phrases()))}{ignoring}"
