"""`brat`: a text (FILE.txt) with standoff annotations next to it (FILE.ann)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import ClassVar, Literal

from bridle.data import limits
from bridle.data.examples import Example
from bridle.data.output import Lines
from bridle.data.source import Source, located
from bridle.data.standoff import Span, Standoff
from bridle.errors import FileError, shown

_BOUND = re.compile(r"(T\d{1,18})\t(\S+) (\d{1,18} \d{1,18}(?:;\d{1,18} \d{1,18})*+)(?:\t(.*))?")
_INK = re.compile(r"\S")
_OTHERS = {"R": "relations", "*": "relations", "E": "events", "A": "attributes", "M": "attributes", "#": "notes"}
_OTHERS["N"] = "links to databases"
_CROSSING = ("goes on in the next line", "go on in the next line")


@dataclass(frozen=True, kw_only=True)
class Brat(Standoff):
    """A text (FILE.txt) with standoff annotations next to it (FILE.ann), as the annotation tool brat stores them.

        T1	PER 0 7	Ann Lee

    Name either file. Text-bound annotations (T) are read as spans; those in several parts with text between them are
    skipped, as are relations, events, attributes and notes; all are counted. A text without a FILE.ann is not labelled.
    Each line of the text is a sequence, unless `per="document"`.

    Writing FILE.ann also writes FILE.txt, with a line per sequence. An existing FILE.txt is not changed: the sequences
    are found in it, each at the beginning of a line. So you can load what a model finds in a text next to that text.

    Parameters
    ----------
    per : {"line", "document"}, default "line"
        What a sequence is: a line of the text, or the complete text.
    """

    name = "brat"
    suffixes: ClassVar[tuple[str, ...]] = (".ann",)

    per: Literal["line", "document"] = "line"

    # ---- reading ----------------------------------------------------------------------------------------------------

    def read(self, source: Source) -> Iterator[Example]:
        path = Path(source.name)
        if path.suffix not in (".ann", ".txt"):
            raise FileError("brat needs two files, FILE.txt and FILE.ann", got=path.name, wanted="FILE.ann")
        beside = path.with_suffix(".txt" if path.suffix == ".ann" else ".ann")
        if path.suffix == ".txt" and not beside.exists():
            text, notes = _whole(source, self.encoding), None
        else:
            with closing(Source(beside)) as other:
                text_file, notes_file = (other, source) if path.suffix == ".ann" else (source, other)
                text = _whole(text_file, self.encoding)
                notes = self._noted(notes_file, source, text)
        place, aligned = path.with_suffix(".txt"), replace(self, units="characters")  # as `checked` gave them
        if self.per == "document":
            with located(str(place)) as where:
                if text and (example := aligned.example(source, where, text, notes)):
                    yield example
        else:
            yield from aligned.by_line(source, place, text, notes)

    def _noted(self, file: Source, source: Source, text: str) -> list[Span]:
        """The spans of an annotation file; what is skipped is counted in `source`."""
        spans, places = list[Span](), self.places(text)
        for number, line in file.lines(self.encoding):
            if not line.strip():
                continue
            if kind := _OTHERS.get(line[0]):
                source.leave_out(kind)
                continue
            bound = _BOUND.fullmatch(line)
            if bound is None:
                raise file.error(number, "not an annotation", got=shown(line), wanted="T1<tab>PER 0 7<tab>Ann Lee")
            ends = [int(end) for end in re.findall(r"\d+", bound[3])]
            if ends != sorted(ends):
                raise file.error(number, "offsets are not in order", got=shown(bound[3]), wanted="such as 0 3;4 7")
            with located(f"{file.name}:{number}"):
                parts = list(self.checked(text, _parts(ends, bound[2], bound[4]), places))
            if any(_INK.search(text, a.end, b.start) for a, b in pairwise(parts)):
                source.leave_out("spans in several parts")
            else:
                spans.append(parts[0]._replace(end=parts[-1].end))
            if len(spans) > limits.MOST_LINES:
                raise file.too_long(1, len(text), number)
        return spans

    def by_line(self, source: Source, place: Path, text: str, notes: list[Span] | None) -> Iterator[Example]:
        """A sequence per line. notes: spans of the whole text."""
        lines = text.split("\n")
        starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
        lines = [line.removesuffix("\r") for line in lines]
        spans: dict[int, list[Span]] = {}
        for span in notes or ():
            k = bisect_right(starts, span.start) - 1
            if span.end > starts[k + 1]:
                with located(f"{place}:{k + 1}"):
                    self.pass_over(source, "on_mismatch", _CROSSING, text, span)
            else:
                start, end = (min(x - starts[k], len(lines[k])) for x in span[:2])
                spans.setdefault(k, []).append(Span(start, end, span.label))
        for k, line in enumerate(lines):
            with located(f"{place}:{k + 1}") as where:
                line_spans = None if notes is None else spans.get(k, [])
                if line.strip() and (example := self.example(source, where, line, line_spans)):
                    yield example

    # ---- writing ----------------------------------------------------------------------------------------------------

    def save(self, path: str | None, examples: Iterable[Example]) -> None:
        """Write FILE.ann, and FILE.txt if it does not exist."""
        if path is None or not path.endswith(".ann"):
            raise FileError("brat needs two files, FILE.txt and FILE.ann", got=shown(path), wanted="FILE.ann")
        place = Path(path).with_suffix(".txt")
        known = None
        if place.exists():
            with closing(Source(place)) as source:
                known = _whole(source, self.encoding)
        with ExitStack() as stack:
            texts = None if known is not None else stack.enter_context(Lines(str(place)))
            notes = stack.enter_context(Lines(path))
            at, done, count = 0, 0, 0  # characters before, in the text and in the units of offsets; spans
            for example in examples:
                text, spans = self.spans(example)
                if known is not None:
                    begin = _at_line_start(known, text, at)
                    if begin < 0:
                        wanted = f"the texts that are in {place}, in their order, each at the beginning of a line"
                        cause = "An existing FILE.txt is never changed. Choose another name to write both files."
                        raise example.error("a text is not in FILE.txt", got=shown(text), wanted=wanted, cause=cause)
                    at, done = begin, done + self.places(known[at:begin])[-1]
                notes.write(list(self._notes(example, spans, done, count)))
                line = text if known is not None else text.removesuffix("\n") + "\n"
                if texts is not None:
                    texts.write([line[:-1]])
                at, done, count = at + len(line), done + self.places(line)[-1], count + len(spans)

    def _notes(self, example: Example, spans: list[Span], at: int, count: int) -> Iterator[str]:
        for k, span in enumerate(spans, count + 1):
            if span.label.split() != [span.label]:
                raise example.error("a label cannot be written", got=repr(span.label), wanted="a name without blanks")
            lines, start, parts = (span.quote or "").split("\n"), at + span.start, list[str]()
            for line in lines:  # a part for each that has text
                end = start + self.places(line)[-1]
                parts += [f"{start} {end}"] if line else []
                start = end + 1
            yield f"T{k}\t{span.label} {';'.join(parts)}\t{' '.join(lines)}"


def _parts(ends: list[int], label: str, quote: str | None) -> Iterator[Span]:
    """Each part of a span; a single part has the text that it covers."""
    for a, b in zip(ends[::2], ends[1::2], strict=True):
        yield Span(a, b, label, None, quote if len(ends) == 2 else None)


def _at_line_start(known: str, text: str, at: int) -> int:
    """The next place of a text at the beginning of a line, ignoring white space; -1: none."""
    while (begin := known.find(text, at)) >= 0 and known[known.rfind("\n", 0, begin) + 1 : begin].strip():
        at = known.find("\n", begin) + 1
        if not at:
            return -1
    return begin


def _whole(source: Source, encoding: str) -> str:
    """The complete text of a file."""
    parts, size = list[str](), 0
    for _, (part,) in source.runs(encoding, "anywhere"):
        parts.append(part)
        size += len(part)
        if size > limits.LONGEST:
            raise source.too_long(1, size, 1)
    return "".join(parts)
