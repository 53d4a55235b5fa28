"""Formats of plain text: `text`, `segmented`, `slashed` and `segments`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

from bridle.data import limits
from bridle.data.base import Format
from bridle.data.detection import is_slashed
from bridle.data.examples import Example
from bridle.data.markup import check_tokens, runs_of
from bridle.data.source import Source
from bridle.data.tokenizer import Tokens, tokenize, tokens_of
from bridle.errors import Argument, FileError


@dataclass(frozen=True, kw_only=True)
class Text(Format):
    """Plain text, one sequence per line, split into tokens, without labels.

    A sequence keeps its line and the offsets of its tokens in it, so spans that a model finds can be written as
    character offsets: `bridle tag MODEL notes.txt --format text --to spans`.

    Parameters
    ----------
    tokens : {"blanks", "words", "punctuation", "references", "characters"}, default "blanks"
        How to split text: at blanks; into words of letters and digits, without other characters; also at
        punctuation, where each mark is a token; like the references that ship with Bridle (initials and known
        abbreviations keep their dot, time-sharing and 1--10 are single tokens); or into characters.
    column : str, default "word"
        Name of the column with the tokens.
    """

    name = "text"
    cuts = True
    suffixes: ClassVar[tuple[str, ...]] = (".raw",)

    tokens: Tokens = "blanks"
    column: str = "word"

    def read(self, source: Source) -> Iterator[Example]:
        for number, line in source.lines(self.encoding):
            tokens, starts = tokenize(line, self.tokens)
            if tokens:
                yield Example({self.column: tokens}, where=f"{source.name}:{number}", text=line, starts=starts)

    def lines(self, example: Example) -> Iterable[str]:
        check_tokens(example, lambda text: tokens_of(text, self.tokens))
        yield ("" if self.tokens == "characters" else " ").join(example.tokens)


@dataclass(frozen=True, kw_only=True)
class Segmented(Format):
    """Words separated by blanks, one sequence per line; the tokens are their characters.

    The labels of a word are these::

        scheme   a word of 1, 2, 3, 4 characters
        BMES     S   BE   BME   BMME
        BI       B   BI   BII   BIII       (IB is another name for BI)
        None     no labels: blanks are dropped, for text that is not segmented yet

    Parameters
    ----------
    scheme : {"BMES", "BI", "IB", None}, default "BMES"
        Labels of the characters of a word; None reads text without labels.
    column : str, default "char"
        Name of the column with the characters.
    """

    name = "segmented"
    streams = contiguous = True
    gaps = "never"

    scheme: Literal["BMES", "BI", "IB"] | None = "BMES"
    column: str = "char"

    def read(self, source: Source) -> Iterator[Example]:
        for number, line in source.lines(self.encoding):
            words = line.split()  # by all white space: bakeoff files use U+3000 too
            if words:
                labels = None if self.scheme is None else list("".join(map(self.labels, map(len, words))))
                yield Example({self.column: list("".join(words))}, labels, where=f"{source.name}:{number}")

    def labels(self, n: int) -> str:
        """The labels of a word of n characters."""
        if self.scheme == "BMES":
            return "S" if n == 1 else "B" + "M" * (n - 2) + "E"
        return "B" + "I" * (n - 1)

    def lines(self, example: Example) -> Iterable[str]:
        if bad := [x for x in example.tokens if len(x) != 1 or x.isspace() or x == "\0"]:
            raise example.error(
                "a token cannot be written", got=repr(bad[0]), wanted="a single character other than white space"
            )
        if example.labels is None:
            yield "".join(example.tokens)
            return
        tags = [label.partition("-")[0] for label in example.known_labels]  # "B-NN": with a type
        if bad := sorted({tag for tag in tags if tag not in tuple("BIMES")}):
            raise example.error("the labels do not form words", got=", ".join(bad)[:60], wanted="B M E S, or B I")
        cuts = [k for k in range(len(tags)) if k == 0 or tags[k] in "BS" or tags[k - 1] in "ES"] + [len(tags)]
        yield " ".join("".join(example.tokens[a:b]) for a, b in pairwise(cuts))


_PIECE = re.compile(r"[^ \t]+")  # other white space, such as U+3000, may be a word


@dataclass(frozen=True, kw_only=True)
class Slashed(Format):
    """Word/tag pairs separated by blanks, one sequence per line; ``1/2/CD`` is ``1/2`` with CD.

    Parameters
    ----------
    separator : str, default "/"
        Separator of word and tag; the last one of a pair counts.
    label : {"tag", None}, default "tag"
        None reads words without tags.
    """

    name = "slashed"
    streams = contiguous = True

    separator: str = "/"
    label: Literal["tag"] | None = "tag"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.separator, str) or not self.separator or set(self.separator) & set(" \t\r\n\0"):
            raise FileError("slashed: `separator` is not valid", got=repr(self.separator), wanted="such as '/' or '_'")

    @classmethod
    def looks_like(cls, head: str) -> bool:
        return is_slashed(head)

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


@dataclass(frozen=True, kw_only=True)
class Segments(Format):
    """One segment per line, its text and its label, and an empty line after each sequence (US50).

    9112 |1
    Mendenhall Mall Road, |3

    Parameters
    ----------
    separator : str, default "|"
        Separator of text and label; the last one of a line counts.
    tokens : {"blanks", "words", "punctuation", "references", "characters"}, default "blanks"
        How to split text: at blanks; into words of letters and digits, without other characters; also at
        punctuation, where each mark is a token; like the references that ship with Bridle; or into characters.
    """

    name = "segments"
    streams = contiguous = True
    gap = "\n\n"
    gaps = "never"
    cuts = True

    separator: str = "|"
    tokens: Tokens = "blanks"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.separator, str) or not self.separator.strip():
            raise FileError("segments: `separator` is not valid", got=repr(self.separator), wanted="such as '|'")

    @classmethod
    def looks_like(cls, head: str) -> bool:
        lines = [line for line in head.split("\n") if line.strip()]
        return bool(lines) and all(" |" in line.strip() and line.rpartition("|")[2].strip() for line in lines)

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
            tokens = tokens_of(text, self.tokens)
            begun, size = begun or number, size + len(line)
            if size > limits.LONGEST or number - begun > limits.MOST_LINES:
                raise source.too_long(begun, size, number - begun)
            words += tokens
            labels += [label] * len(tokens)
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
