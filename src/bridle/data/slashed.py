"""`slashed`: word/tag pairs separated by blanks, one sequence per line; ``1/2/CD`` is ``1/2`` with CD."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from bridle.data.base import Format, are_labels
from bridle.data.examples import Example
from bridle.data.source import Source
from bridle.errors import Argument, FileError

_PIECE = re.compile(r"[^ \t]+")  # other white space, such as U+3000, may be a word


@dataclass(frozen=True, kw_only=True)
class Slashed(Format):
    """Words with their tags.

    Parameters
    ----------
    separator : str, default "/"
        Separator of word and tag; the last one of a pair counts.
    label : {"tag", None}, default "tag"
        None reads words without tags.
    missing : str or None, default "?"
        Text of an unknown label; None if there is no such text.
    encoding : str, default "utf-8"
        Encoding of the input; the output is always UTF-8.
    """

    name = "slashed"
    streams = True

    separator: str = "/"
    label: Literal["tag"] | None = "tag"

    def __post_init__(self) -> None:
        self.check(label=("tag", None))
        if not isinstance(self.separator, str) or not self.separator or set(self.separator) & set(" \t\r\n\0"):
            raise FileError("slashed: `separator` is not valid", got=repr(self.separator), wanted="such as '/' or '_'")

    @classmethod
    def looks_like(cls, head: str) -> bool:
        pieces = head.split()
        return len(pieces) > 1 and all("/" in piece[1:-1] for piece in pieces)

    @classmethod
    def surely(cls, head: str) -> bool:
        tags = [piece.rpartition("/")[2] for piece in head.split()]
        return len(tags) > len(head.split("\n")) and cls.looks_like(head) and are_labels(tags, "lines")

    def read(self, source: Source) -> Iterator[Example]:
        for number, line in source.lines(self.encoding):
            pieces = _PIECE.findall(line)
            if not pieces:
                continue
            where = f"{source.name}:{number}"
            if self.label is None:
                yield Example({"word": pieces}, where=where)
                continue
            words, tags = list[str](), list[str]()
            for piece in pieces:
                word, _, tag = piece.rpartition(self.separator)
                if not word or not tag:
                    raise source.error(
                        number,
                        "a word without a tag",
                        got=repr(piece[:60]),
                        wanted=f"word{self.separator}tag",
                        cause="Another separator? Pass {argument} to read words only.",
                        argument=Argument("label", None),
                    )
                words.append(word)
                tags.append(tag)
            yield Example({"word": words}, tags, where=where)

    def lines(self, example: Example) -> Iterable[str]:
        pieces = list(example.tokens)
        if example.labels is not None:
            pieces = [word + self.separator + tag for word, tag in zip(pieces, example.known_labels, strict=True)]
        for k, piece in enumerate(pieces):
            word, tag = example.tokens[k], "x" if example.labels is None else example.labels[k] or ""
            if not word or not tag or self.separator in tag or set(piece) & set(" \t\r\n\0"):
                raise example.error(
                    "a token cannot be written as word/tag",
                    got=repr(piece[:60]),
                    wanted=f"words and tags without blanks, and tags without {self.separator!r}",
                )
        yield " ".join(pieces)
