"""`parserator`: XML with one element per token, the training data of usaddress and other parserator projects.

    <AddressCollection>
      <AddressString><AddressNumber>12</AddressNumber> <StreetName>Elm</StreetName>, <ZipCode>60201</ZipCode></AddressString>
    </AddressCollection>

Text that follows an element without a blank (the comma above) belongs to its token: the token is `Elm,`, as the tools
split raw text. Other text between elements has no label; it is dropped and counted.
"""  # noqa: E501

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from bridle.data.examples import Example
from bridle.data.markup import ATTRIBUTES, NAME, Markup, check_tags, escaped, sequence_element, unescaped
from bridle.data.source import Source

_TOKEN = re.compile(rf"\s*+<({NAME}){ATTRIBUTES}>([^<]*+)</\1\s*+>([^<]*+)")


@dataclass(frozen=True, kw_only=True)
class Parserator(Markup):
    """One element per token; its name is the label.

    Parameters
    ----------
    sequence : str, optional
        Element of a sequence; None detects it from the beginning of the file.
    collection : str, default "AddressCollection"
        Element around all sequences in the output.
    after : {"join", "drop"}, default "join"
        What to do with text that follows an element without a blank: join it to the token, or drop it.
    on_error : {"raise", "skip"}, default "raise"
        Raise at a sequence that is not well-formed, or skip and count it.
    missing : str or None, default "?"
        Text of an unknown label; None if there is no such text.
    encoding : str, default "utf-8"
        Encoding of the input; the output is always UTF-8.
    """

    name = "parserator"

    sequence: str | None = None
    collection: str = "AddressCollection"
    after: Literal["join", "drop"] = "join"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check(after=("join", "drop"))

    @classmethod
    def looks_like(cls, head: str) -> bool:
        return sequence_element(head) not in (None, "sequence")

    def read(self, source: Source) -> Iterator[Example]:
        element = self.sequence or sequence_element(source.opening(self.encoding)) or "AddressString"
        for line, text in self.elements(source, element):
            words, labels, at = list[str](), list[str](), 0
            while token := _TOKEN.match(text, at):
                at = token.end()
                word, after = unescaped(token[2]).strip(), unescaped(token[3])
                if self.after == "join" and after and not after[0].isspace():
                    joined = after.split(maxsplit=1)[0]
                    word, after = word + joined, after.removeprefix(joined)
                source.leave_out("characters outside tags", len("".join(after.split())))
                if word:
                    words.append(word)
                    labels.append(token[1])
                else:
                    source.leave_out("tokens without text")
            if rest := text[at:].lstrip():
                number = line + text.count("\n", 0, len(text) - len(rest))
                self.wrong(source, number, "not well-formed", got=repr(rest[:60]), wanted="<Label>text</Label>")
            elif not words:
                self.wrong(
                    source, line, "the sequence has no tokens", got=repr(text[:60]), wanted="<Label>text</Label>"
                )
            else:
                yield Example({"word": words}, labels, where=f"{source.name}:{line}")

    def text(self, examples: Iterable[Example]) -> Iterator[str]:
        yield f"<{self.collection}>"
        yield from super().text(examples)
        yield f"</{self.collection}>"

    def lines(self, example: Example) -> Iterable[str]:
        if example.labels is None:
            raise example.error("a sequence has no labels", got="tokens only", wanted="labels, which name the elements")
        check_tags(example, example.known_labels)
        element = self.sequence or "AddressString"
        for token in example.tokens:
            if not token.strip() or token.strip() != token or set(token) & set("\n\r\0"):
                raise example.error("a token cannot be written", got=repr(token[:60]), wanted="text on one line")
        pairs = zip(example.labels, example.tokens, strict=True)
        parts = (f"<{label}>{escaped(token)}</{label}>" for label, token in pairs)
        yield f"  <{element}>{' '.join(parts)}</{element}>"
