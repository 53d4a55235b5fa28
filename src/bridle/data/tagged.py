"""`tagged`: text with tags around its segments, as in the Cora, ParsCit and AnyStyle reference lists.

    <author> A. Cau, </author> <title> Formalising Dijkstra's strategy. </title> <date> 1992. </date>

There are three layouts, detected by the first lines: one sequence per line; <NEWREFERENCE> after each line; or
<sequence> ... </sequence> elements of XML. The file need not be well-formed: a tag that is never closed (such as
<br>) is skipped and counted, a bare & is an &, and entities (&amp;) become characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bridle.data import limits
from bridle.data.examples import Example
from bridle.data.markup import (
    TAG,
    Markup,
    Record,
    check_tags,
    check_tokens,
    escaped,
    runs_of,
    sequence_element,
    unescaped,
)
from bridle.data.source import Source
from bridle.data.tokenizer import TOKENS, Tokens, tokens_of

NEW = "<NEWREFERENCE>"


@dataclass(frozen=True, kw_only=True)
class Tagged(Markup):
    """Segments in tags; the label of a token is the name of the tag around it.

    Parameters
    ----------
    tokens : {"blanks", "words", "punctuation", "references", "characters"}, default "blanks"
        How to split text: at blanks; into words of letters and digits, without other characters; also at
        punctuation, where each mark is a token; like the references that ship with Bridle; or into characters.
    outside : str, optional
        Label of text outside tags; None drops it and counts its characters.
    sequence : str, default "sequence"
        Element of a sequence, in XML.
    on_error : {"raise", "skip"}, default "raise"
        Raise at a sequence that is not well-formed, or skip and count it.
    missing : str or None, default "?"
        Text of an unknown label; None if there is no such text.
    encoding : str, default "utf-8"
        Encoding of the input; the output is always UTF-8.
    """

    name = "tagged"
    streams = True
    cuts = True

    tokens: Tokens = "blanks"
    outside: str | None = None
    sequence: str = "sequence"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check(tokens=TOKENS)

    @classmethod
    def looks_like(cls, head: str) -> bool:
        segment = re.match(r"\s*<([^\W\d][\w-]*)>[^<]*</\1>", head)
        return head.lstrip().startswith(NEW) or bool(segment) or sequence_element(head) == "sequence"

    def read(self, source: Source) -> Iterator[Example]:
        for record in self.records(source):
            words, labels = list[str](), list[str]()
            for label, text in self.pieces(source, record.text):
                found = tokens_of(unescaped(text), self.tokens)
                words += found
                labels += [label] * len(found)
            if words:
                yield Example({"word": words}, labels, where=f"{source.name}:{record.line}")
            else:
                self.wrong(source, record.line, "no tagged text", got=repr(record.text[:60]), wanted="<tag> ... </tag>")

    def records(self, source: Source) -> Iterator[Record]:
        """The text of each sequence."""
        start = source.opening(self.encoding).lstrip()
        if start.startswith(NEW):
            begun, parts, size = 0, list[str](), 0
            for line, text in source.lines(self.encoding):
                if text.strip() == NEW:
                    if parts:
                        yield Record(begun, "\n".join(parts))
                    begun, parts, size = 0, [], 0
                elif text.strip():
                    begun, size = begun or line, size + len(text)
                    if size > limits.LONGEST or line - begun > limits.MOST_LINES:
                        raise source.too_long(begun, size, line - begun)
                    parts.append(text)
            if parts:
                yield Record(begun, "\n".join(parts))
        elif start.startswith("<?xml") or sequence_element(start) == self.sequence:
            yield from self.elements(source, self.sequence)
        else:
            yield from (Record(line, text) for line, text in source.lines(self.encoding) if text.strip())

    def pieces(self, source: Source, text: str) -> Iterator[tuple[str, str]]:
        """Label and text of each segment. A tag ends at the next end tag of its name; without one, it is left out."""
        last = {tag["name"]: tag.start() for tag in TAG.finditer(text) if tag["end"]}
        at, label, alone = 0, "", 0  # label: of the tag that is open; alone: tags without a partner
        for tag in TAG.finditer(text):
            (end, name), (start, after) = tag.group("end", "name"), tag.span()
            if label and name == label and end:
                yield label, TAG.sub(" ", text[at:start])
                label = ""
            elif label:
                continue
            else:
                if at < start:
                    yield from self.between(source, text[at:start])
                if not end and last.get(name, -1) > start:
                    label = name
                else:
                    alone += 1
            at = after
        source.leave_out("tags without a partner", alone)
        yield from self.between(source, text[at:])

    def between(self, source: Source, text: str) -> Iterator[tuple[str, str]]:
        """Text outside tags."""
        if self.outside is not None:
            yield self.outside, text
        else:
            source.leave_out("characters outside tags", len("".join(text.split())))

    def lines(self, example: Example) -> Iterable[str]:
        check_tokens(example, str.split)
        parts = list[str]()
        for label, words in runs_of(example, self.outside):
            text = escaped(" ".join(words))
            if label == self.outside or example.labels is None:
                parts.append(text)
            else:
                check_tags(example, [label])
                parts.append(f"<{label}> {text} </{label}>")
        yield " ".join(parts)
