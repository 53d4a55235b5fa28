"""`text`: plain text, one sequence per line, cut into tokens; there are no labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from bridle.data.base import Format
from bridle.data.examples import Example
from bridle.data.markup import TOKENS, Cutter, check_tokens
from bridle.data.source import Source

_CUTS: dict[str, Cutter] = {**TOKENS, "characters": re.compile(r"\S")}


@dataclass(frozen=True, kw_only=True)
class Text(Format):
    """Lines of text.

    Parameters
    ----------
    tokens : {"blanks", "words", "punctuation", "references", "characters"}, default "blanks"
        Where to cut text: at blanks; into words, letters and digits without the rest; at punctuation too, each mark
        a token; as the references that come with Bridle are cut (initials and known abbreviations keep their dot,
        time-sharing and 1--10 stay whole); or into characters.
    column : str, default "word"
        Name of the column of the tokens.
    encoding : str, default "utf-8"
        Encoding of what is read; what is written is always UTF-8.
    """

    name = "text"
    suffixes: ClassVar[tuple[str, ...]] = (".raw",)

    tokens: Literal["blanks", "words", "punctuation", "references", "characters"] = "blanks"
    column: str = "word"

    def __post_init__(self) -> None:
        self.check(tokens=tuple(_CUTS))

    def read(self, source: Source) -> Iterator[Example]:
        for number, line in source.lines(self.encoding):
            if tokens := _CUTS[self.tokens].findall(line):
                yield Example({self.column: tokens}, where=f"{source.name}:{number}")

    def lines(self, example: Example) -> Iterable[str]:
        check_tokens(example, _CUTS[self.tokens].findall)
        yield ("" if self.tokens == "characters" else " ").join(example.tokens)
