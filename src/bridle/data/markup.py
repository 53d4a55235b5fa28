"""Formats with tags: `tagged` and `parserator`.

This is not an XML parser: such files are often not well-formed, and entities that a file defines are never expanded.
All searches take time proportional to the text.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import Literal, NamedTuple

from bridle.data import limits
from bridle.data.base import Format
from bridle.data.examples import Example
from bridle.data.source import Source
from bridle.data.tokenizer import Tokens, tokens_of
from bridle.errors import Argument, FileError

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
    """

    on_error: Literal["raise", "skip"] = "raise"

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
            for match in mark.finditer(text):
                piece, at, closes = text[at : match.start()], match.end(), bool(match[1])
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

    def element_boundaries(self, text: str, starts: Sequence[int], firsts: Sequence[int], element: str) -> list[int]:
        """Return where the elements of sequences begin, and where the last one ends."""
        begun, number, ends = -1, iter([*firsts, -1]), list[int]()
        wanted, first = next(number), 0
        for match in re.finditer(rf"<(/?){re.escape(element)}{ATTRIBUTES}>[^\S\n]*+\n?", text):
            if not match[1]:
                begun = match.start()
            elif begun >= 0 and bisect_right(starts, begun) - 1 == wanted:
                first = first if ends else begun
                ends.append(match.end())
                wanted = next(number)
        return [first - len(text[:first]) + len(text[:first].rstrip(" \t")), *ends]

    def stray(self, source: Source, line: int, text: str, element: str) -> None:
        """Check that there are only tags between sequences, such as the root element."""
        if text and (rest := TAG.sub("", ASIDE.sub("", text)).strip()):
            self.wrong(source, line, f"text outside of <{element}>", got=repr(rest[:60]), wanted=f"<{element}>")


def unescaped(text: str) -> str:
    """Replace entities by characters; a bare & and names unknown to HTML stay unchanged."""
    return _ENTITY.sub(lambda entity: html.unescape(entity[0]), text) if "&" in text else text


def escaped(text: str) -> str:
    """Escape text so that `unescaped` restores it, and it does not look like a tag."""
    return text.translate(_ESCAPES)


def sequence_element(head: str) -> str | None:
    """The name of the element of a sequence, if a file begins like XML with one element per sequence."""
    match = _FIRST.match(head)
    return match[1] if match and f"</{match[1]}>" in head else None


def has_segments(head: str) -> bool:
    """Check whether the first line of a file has elements of several names, with others in them or not."""
    names, path = set[str](), list[str]()
    for tag in TAG.finditer(head.lstrip().partition("\n")[0]):
        if not tag["end"]:
            path.append(tag["name"])
        elif path and tag["name"] == path[-1]:
            path.pop()
            names |= set() if path else {tag["name"]}
    return len(names) > 1 and not path


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


NEW = "<NEWREFERENCE>"


@dataclass(frozen=True, kw_only=True)
class Tagged(Markup):
    """Text with tags around its segments, as in the Cora, ParsCit and AnyStyle reference lists.

        <author> A. Cau, </author> <title> Formalising Dijkstra's strategy. </title> <date> 1992. </date>

    There are three layouts, detected by the first lines: one sequence per line; <NEWREFERENCE> after each line; or
    <sequence> ... </sequence> elements of XML. The file need not be well-formed: a tag that is never closed (such as
    <br>) is skipped and counted, a bare & is an &, and entities (&amp;) become characters.

    Parameters
    ----------
    tokens : {"blanks", "words", "punctuation", "references", "characters"}, default "blanks"
        How to split text: at blanks; into words of letters and digits, without other characters; also at
        punctuation, where each mark is a token; like the references that ship with Bridle; or into characters.
    outside : str, optional
        Label of text outside tags; None drops it and counts its characters.
    depth : {"outer", "inner", "path", None}, default None
        Which tags label text within several tags: the outermost one, the innermost one, or all of them, as in
        ``venue/journal``, which is written as tags within each other again. None: such text is an error.
    sequence : str, default "sequence"
        Element of a sequence, in XML.
    on_error : {"raise", "skip"}, default "raise"
        Raise at a sequence that is not well-formed, or skip and count it.
    """

    name = "tagged"
    streams = True
    cuts = True

    tokens: Tokens = "blanks"
    outside: str | None = None
    depth: Literal["outer", "inner", "path"] | None = None
    sequence: str = "sequence"

    @classmethod
    def looks_like(cls, head: str) -> bool:
        segment = re.match(r"\s*<([^\W\d][\w-]*)>[^<]*</\1>", head)
        known = head.lstrip().startswith(NEW) or (cls().is_xml(head) and "<sequence" in head)
        return known or bool(segment) or has_segments(head)

    def read(self, source: Source) -> Iterator[Example]:
        for record in self.records(source):
            words, labels = list[str](), list[str]()
            for label, text in self.pieces(source, record):
                tokens = tokens_of(unescaped(text), self.tokens)
                words += tokens
                labels += [label] * len(tokens)
            if words:
                yield Example({"word": words}, labels, where=f"{source.name}:{record.line}")
            else:
                self.wrong(source, record.line, "no tagged text", got=repr(record.text[:60]), wanted="<tag> ... </tag>")

    def is_xml(self, head: str) -> bool:
        """Check whether a file that begins like this has elements of sequences."""
        first = rf"\s*+(?:{ASIDE.pattern}\s*+)*+(?:<{NAME}{ATTRIBUTES}>\s*+)?<{re.escape(self.sequence)}{ATTRIBUTES}>"
        return head.startswith("<?xml") or re.match(first, head) is not None

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
        elif self.is_xml(start):
            yield from self.elements(source, self.sequence)
        else:
            yield from (Record(line, text) for line, text in source.lines(self.encoding) if text.strip())

    def pieces(self, source: Source, record: Record) -> Iterator[tuple[str, str]]:
        """Label and text of each segment. A tag ends at the next end tag of its name; without one, it is left out."""
        text, tags, ends = record.text, list(TAG.finditer(record.text)), dict[str, int]()
        partner = [len(tags)] * len(tags)  # the number of the next end tag of the same name
        for k in range(len(tags) - 1, -1, -1):
            partner[k] = ends.get(tags[k]["name"], len(tags))
            if tags[k]["end"]:
                ends[tags[k]["name"]] = k
        at, path, closing, alone = 0, list[str](), [len(tags)], 0  # closing: the numbers of the end tags of a path
        for k, tag in enumerate(tags):
            yield from self._labelled(source, path, text[at : tag.start()])
            if k == closing[-1]:
                path.pop()
                closing.pop()
            elif not tag["end"] and partner[k] < closing[-1]:
                if path and self.depth is None:
                    raise self._nested(source, record.line + text.count("\n", 0, tag.start()), path[-1], tag["name"])
                path.append(tag["name"])
                closing.append(partner[k])
            else:
                alone += 1
            at = tag.end()
        source.leave_out("tags without a partner", alone)
        yield from self._labelled(source, path, text[at:])

    def _labelled(self, source: Source, path: list[str], text: str) -> Iterator[tuple[str, str]]:
        """The label of text within some tags, the outermost first."""
        if path:
            yield "/".join(path) if self.depth == "path" else path[-1 if self.depth == "inner" else 0], text
        elif self.outside is not None:
            yield self.outside, text
        else:
            source.leave_out("characters outside tags", len("".join(text.split())))

    def _nested(self, source: Source, line: int, outer: str, inner: str) -> FileError:
        """Make the error for tags within each other."""
        return source.error(
            line,
            "a tag is within another one",
            got=f"<{inner}> in <{outer}>",
            wanted="{argument}, depth=inner or depth=outer",
            cause=f"They label such text {outer + '/' + inner!r}, {inner!r} and {outer!r}.",
            argument=Argument("depth", "path"),
        )

    def boundaries(self, text: str, starts: Sequence[int], firsts: Sequence[int]) -> list[int]:
        """A line, an element, or the lines from <NEWREFERENCE> on."""
        start = text.lstrip()
        if start.startswith(NEW):
            begins = [text.rfind(NEW, 0, starts[first]) for first in firsts]
            return [0, *begins[1:], len(text)]
        if self.is_xml(start):
            return self.element_boundaries(text, starts, firsts, self.sequence)
        return [0, *(starts[first] for first in firsts[1:]), len(text)]

    def lines(self, example: Example) -> Iterable[str]:
        check_tokens(example, str.split)
        parts, path = list[str](), list[str]()
        for label, words in runs_of(example, self.outside):
            is_outside = label == self.outside or example.labels is None
            names = [] if is_outside else label.split("/") if self.depth == "path" else [label]
            check_tags(example, names)
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(path, names, strict=False)))
            parts += [f"</{name}>" for name in reversed(path[same:])] + [f"<{name}>" for name in names[same:]]
            parts.append(escaped(" ".join(words)))
            path = names
        yield " ".join([*parts, *(f"</{name}>" for name in reversed(path))])


_TOKEN = re.compile(rf"\s*+<({NAME}){ATTRIBUTES}>([^<]*+)</\1\s*+>([^<]*+)")


@dataclass(frozen=True, kw_only=True)
class Parserator(Markup):
    """XML with one element per token, the training data of usaddress and other parserator projects.

        <AddressCollection>
          <AddressString><AddressNumber>12</AddressNumber> <StreetName>Elm</StreetName>, <ZipCode>60201</ZipCode>
          </AddressString>
        </AddressCollection>

    Text that follows an element without a blank (the comma above) belongs to its token: the token is `Elm,`, as the
    tools split raw text. Other text between elements has no label; it is dropped and counted.

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
    """

    name = "parserator"

    sequence: str | None = None
    collection: str = "AddressCollection"
    after: Literal["join", "drop"] = "join"

    @classmethod
    def looks_like(cls, head: str) -> bool:
        return sequence_element(head) not in (None, "sequence") and not has_segments(head)

    def read(self, source: Source) -> Iterator[Example]:
        element = self._element(source.opening(self.encoding))
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

    def boundaries(self, text: str, starts: Sequence[int], firsts: Sequence[int]) -> list[int]:
        """The element of each sequence."""
        return self.element_boundaries(text, starts, firsts, self._element(text))

    def _element(self, head: str) -> str:
        return self.sequence or sequence_element(head) or "AddressString"

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
