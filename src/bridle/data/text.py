"""`text`: plain text, one sequence per line, split into tokens, without labels.

A sequence keeps its line and the offsets of its tokens in it, so spans that a model finds can be written as character
offsets: `bridle tag MODEL notes.txt --format text --to spans`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from bridle.data.base import Format
from bridle.data.examples import Example
from bridle.data.markup import check_tokens
from bridle.data.source import Source
from bridle.data.tokenizer import TOKENS, Tokens, tokenize, tokens_of


@dataclass(frozen=True, kw_only=True)
class Text(Format):
    """Lines of text.

    Parameters
    ----------
    tokens : {"blanks", "words", "punctuation", "references", "characters"}, default "blanks"
        How to split text: at blanks; into words of letters and digits, without other characters; also at
        punctuation, where each mark is a token; like the references that ship with Bridle (initials and known
        abbreviations keep their dot, time-sharing and 1--10 are single tokens); or into characters.
    column : str, default "word"
        Name of the column with the tokens.
    missing : str or None, default "?"
        Text of an unknown label; None if there is no such text.
    encoding : str, default "utf-8"
        Encoding of the input; the output is always UTF-8.
    """

    name = "text"
    cuts = True
    suffixes: ClassVar[tuple[str, ...]] = (".raw",)

    tokens: Tokens = "blanks"
    column: str = "word"

    def __post_init__(self) -> None:
        self.check(tokens=TOKENS)

    def read(self, source: Source) -> Iterator[Example]:
        for number, line in source.lines(self.encoding):
            tokens, starts = tokenize(line, self.tokens)
            if tokens:
                yield Example({self.column: tokens}, where=f"{source.name}:{number}", text=line, starts=starts)

    def lines(self, example: Example) -> Iterable[str]:
        check_tokens(example, lambda text: tokens_of(text, self.tokens))
        yield ("" if self.tokens == "characters" else " ").join(example.tokens)
