"""`segments`: one segment per line, its text and its label, and an empty line after each sequence (US50).

9112 |1
Mendenhall Mall Road, |3
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bridle.data import limits
from bridle.data.base import Format
from bridle.data.examples import Example
from bridle.data.markup import check_tokens, runs_of
from bridle.data.source import Source
from bridle.data.tokenizer import TOKENS, Tokens, tokens_of
from bridle.errors import FileError

_SEGMENT = re.compile(r".*\S \|[^\s|]+")  # not the row of a table


@dataclass(frozen=True, kw_only=True)
class Segments(Format):
    """Segments with their labels.

    Parameters
    ----------
    separator : str, default "|"
        Separator of text and label; the last one of a line counts.
    tokens : {"blanks", "words", "punctuation", "references", "characters"}, default "blanks"
        How to split text: at blanks; into words of letters and digits, without other characters; also at
        punctuation, where each mark is a token; like the references that ship with Bridle; or into characters.
    missing : str or None, default "?"
        Text of an unknown label; None if there is no such text.
    encoding : str, default "utf-8"
        Encoding of the input; the output is always UTF-8.
    """

    name = "segments"
    streams = True
    gaps = "never"
    cuts = True

    separator: str = "|"
    tokens: Tokens = "blanks"

    def __post_init__(self) -> None:
        self.check(tokens=TOKENS)
        if not isinstance(self.separator, str) or not self.separator.strip():
            raise FileError("segments: `separator` is not valid", got=repr(self.separator), wanted="such as '|'")

    @classmethod
    def looks_like(cls, head: str) -> bool:
        lines = [line for line in head.split("\n") if line.strip()]
        return bool(lines) and all(" |" in line.strip() and line.rpartition("|")[2].strip() for line in lines)

    @classmethod
    def surely(cls, head: str) -> bool:
        lines = [line.rstrip() for line in head.split("\n") if line.strip()]
        return bool(lines) and all(map(_SEGMENT.fullmatch, lines))

    def read(self, source: Source) -> Iterator[Example]:
        words, labels, begun, size = list[str](), list[str](), 0, 0
        for number, line in source.lines(self.encoding):
            if not line.strip():
                if words:
                    yield Example({"word": words}, labels, where=f"{source.name}:{begun}")
                words, labels, begun, size = [], [], 0, 0
                continue
            text, mark, label = (part.strip() for part in line.rpartition(self.separator))
            if not mark or not label:
                raise source.error(
                    number, "a segment without a label", got=repr(line[:60]), wanted=f"text {self.separator}label"
                )
            found = tokens_of(text, self.tokens)
            begun, size = begun or number, size + len(line)
            if size > limits.LONGEST or number - begun > limits.MOST_LINES:
                raise source.too_long(begun, size, number - begun)
            words += found
            labels += [label] * len(found)
        if words:
            yield Example({"word": words}, labels, where=f"{source.name}:{begun}")

    def lines(self, example: Example) -> Iterable[str]:
        if example.labels is None:
            raise example.error("a sequence has no labels", got="tokens only", wanted="labels for all segments")
        check_tokens(example, str.split)
        for label, words in runs_of(example):
            if not label or label.strip() != label or self.separator in label or set(label) & set("\n\r\0"):
                raise example.error("a label cannot be written", got=repr(label), wanted=f"no {self.separator!r} in it")
            yield f"{' '.join(words)} {self.separator}{label}"
        yield ""
