"""Shared code of formats with tags: elements that span lines, entities, tokens.

This is not an XML parser: such files are often not well-formed, and entities that a file defines are never expanded.
All searches take time proportional to the text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

from bridle.data import limits
from bridle.data.base import Format
from bridle.data.examples import Example
from bridle.data.source import Source
from bridle.errors import Argument

NAME = r"[^\W\d][\w.:-]*+"
ATTRIBUTES = r"""(?:\s++[\w.:-]++\s*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+'))*+\s*+"""
TAG = re.compile(rf"<(?P<end>/?)(?P<name>{NAME}){ATTRIBUTES}/?>")
ASIDE = re.compile(r"<[?!][^<>]*+>")  # <?xml ...?>, <!DOCTYPE ...>, <!-- ... -->
_FIRST = re.compile(
    rf"\s*+(?:{ASIDE.pattern}\s*+)*+(?:<{NAME}{ATTRIBUTES}>\s*+)?<({NAME}){ATTRIBUTES}>\s*+<{NAME}{ATTRIBUTES}>[^<]*+</"
)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{0,30});")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Record(NamedTuple):
    """The text of one sequence, with the line it begins on."""

    line: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Markup(Format):
    """The base of formats with tags.

    Parameters
    ----------
    on_error : {"raise", "skip"}, default "raise"
        Raise at a sequence that is not well-formed, or skip and count it.
    missing : str or None, default "?"
        Text of an unknown label; None if there is no such text.
    encoding : str, default "utf-8"
        Encoding of the input; the output is always UTF-8.
    """

    on_error: Literal["raise", "skip"] = "raise"

    def __post_init__(self) -> None:
        self.check(on_error=("raise", "skip"))

    def wrong(self, source: Source, line: int, what: str, **parts: object) -> None:
        """Raise, or count a sequence as left out."""
        if self.on_error == "raise":
            cause = "Pass {argument} to leave such sequences out."
            raise source.error(line, what, cause=cause, argument=Argument("on_error", "skip"), **parts)
        source.leave_out("sequences that are not well-formed")

    def elements(self, source: Source, element: str) -> Iterator[Record]:
        """The contents of each <element> ... </element>."""
        mark = re.compile(rf"<(/?){re.escape(element)}{ATTRIBUTES}>")
        begun, parts, line, size = 0, list[str](), 1, 0  # begun: the line of the open element, 0 if none is open
        for line, text in source.lines(self.encoding):
            at = 0
            for found in mark.finditer(text):
                piece, at, closes = text[at : found.start()], found.end(), bool(found[1])
                if begun and closes:
                    yield Record(begun, "\n".join((*parts, piece)))
                elif begun:
                    self.wrong(source, line, f"<{element}> within <{element}>", wanted=f"</{element}> before it")
                elif closes:
                    self.wrong(source, line, f"</{element}> without its beginning", wanted=f"<{element}> before it")
                else:
                    self.stray(source, line, piece, element)
                begun, parts, size = 0 if closes else line, [], 0
            if begun:
                size += len(text) - at
                if size > limits.LONGEST or line - begun > limits.MOST_LINES:
                    raise source.too_long(begun, size, line - begun)
                parts.append(text[at:])
            else:
                self.stray(source, line, text[at:], element)
        if begun:
            self.wrong(source, begun, f"<{element}> without its end", got="the end of the file", wanted=f"</{element}>")

    def stray(self, source: Source, line: int, text: str, element: str) -> None:
        """Check that there are only tags between sequences, such as the root element."""
        if text and (rest := TAG.sub("", ASIDE.sub("", text)).strip()):
            self.wrong(source, line, f"text outside of <{element}>", got=repr(rest[:60]), wanted=f"<{element}>")


def unescaped(text: str) -> str:
    """Replace entities by characters; a bare & and names unknown to HTML stay unchanged."""
    return _ENTITY.sub(lambda found: html.unescape(found[0]), text) if "&" in text else text


def escaped(text: str) -> str:
    """Escape text so that `unescaped` restores it, and it does not look like a tag."""
    return text.translate(_ESCAPES)


def sequence_element(head: str) -> str | None:
    """The name of the element of a sequence, if a file begins like XML with one element per sequence."""
    found = _FIRST.match(head)
    return found[1] if found and f"</{found[1]}>" in head else None


def check_tags(example: Example, labels: Iterable[str]) -> None:
    """Raise if a label cannot be the name of a tag."""
    for label in sorted(set(labels)):
        if not re.fullmatch(NAME, label):
            raise example.error(
                "a label cannot be a tag", got=repr(label), wanted="a letter, followed by letters and digits"
            )


def check_tokens(example: Example, split: Callable[[str], Sequence[str]]) -> None:
    """Raise if a token would not be read back as a single token."""
    for token in example.tokens:
        if split(token) != [token] or "\0" in token:
            raise example.error(
                "a token cannot be written as a single token", got=repr(token[:60]), wanted="text without blanks"
            )


def runs_of(example: Example, outside: str | None = None) -> Iterator[tuple[str, list[str]]]:
    """Runs of one label, with their tokens; without labels, one run."""
    labels = example.labels if example.labels is not None else [outside or ""] * len(example)
    for label, run in groupby(zip(labels, example.tokens, strict=True), key=lambda pair: pair[0]):
        yield label, [token for _, token in run]
