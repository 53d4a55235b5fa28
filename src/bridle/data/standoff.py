"""Formats with a text and spans of characters: `spans` and `doccano`, and the base of `brat` and `labelstudio`.

    text    "Ann Lee left."        spans   (0, 7, PER)
    tokens  Ann    Lee    left  .
    labels  B-PER  I-PER  O     O

Offsets count characters (code points), as Python does. Spans in the output have the offsets of the text that was read.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, ClassVar, Literal, NamedTuple

from bridle.data.base import Format
from bridle.data.examples import Example
from bridle.data.jsonl import json_kind, json_line, json_lines
from bridle.data.source import Source, located
from bridle.data.tokenizer import Tokens, tokenize
from bridle.errors import Argument, FileError, LabelError, clipped, shown
from bridle.labels import Labels, Scheme, Segment

OUTSIDE = "O"
SCHEMES: tuple[Scheme, ...] = ("IO", "BIO", "BIOES", "BMES")
_MAYBE_UTF16 = "Does the tool count UTF-16 units, as JavaScript does? Pass {argument}."
_WITHIN = ("begins or ends within a token", "begin or end within a token")
# tags of a segment of one token; the first, the inner ones and the last of a longer one
_TAGS = {"BIO": ("B", "B", "I", "I"), "BIOES": ("S", "B", "I", "E"), "BMES": ("S", "B", "M", "E")}


class Span(NamedTuple):
    """A labelled span of characters."""

    start: int
    end: int
    label: str
    probability: float | None = None
    quote: str | None = None  # what the file says that they are


@dataclass(frozen=True, kw_only=True)
class Standoff(Format):
    """The base of formats with spans of characters.

    Parameters
    ----------
    tokens : {"blanks", "words", "punctuation", "references", "characters"}, default "punctuation"
        How to split text, as in the format ``text``. With the default, each punctuation mark is a token, so nearly all
        spans that people annotate begin and end with a token.
    scheme : {"IO", "BIO", "BIOES", "BMES"}, default "BIO"
        Tagging scheme of the labels. IO cannot distinguish two adjacent spans of the same label from a single span.
    on_mismatch : {"widen", "raise", "skip"}, default "widen"
        A span that begins or ends within a token is widened to that token, is an error, or is skipped and counted.
    on_overlap : {"raise", "skip"}, default "raise"
        A span that overlaps a previous one is an error, or is skipped and counted.
    units : {"characters", "utf-16"}, default "characters"
        What offsets count: characters, as in Python, or UTF-16 units, as in JavaScript, where an emoji counts as two.
    """

    blank = False  # a text without an answer has no spans

    gaps = "never"
    cuts: ClassVar[bool] = True

    tokens: Tokens = "punctuation"
    scheme: Scheme = "BIO"
    on_mismatch: Literal["widen", "raise", "skip"] = "widen"
    on_overlap: Literal["raise", "skip"] = "raise"
    units: Literal["characters", "utf-16"] = "characters"

    # ---- spans into labels ------------------------------------------------------------------------------------------

    def example(
        self, source: Source, where: str, text: str, spans: Iterable[Span] | None, name: Any = None
    ) -> Example | None:
        """The sequence of a text; None if it has no tokens. spans: None if it is not labelled."""
        tokens, starts = tokenize(text, self.tokens)
        if not tokens:
            source.leave_out("texts without tokens")
            return None
        labels = None
        if spans is not None:
            labels = [OUTSIDE] * len(tokens)
            for start, end, label in self._aligned(source, text, tokens, starts, spans):
                labels[start:end] = segment_labels(label, end - start, self.scheme)
        return Example({"word": tokens}, labels, {}, (), where, name, text, starts)

    def _aligned(
        self, source: Source, text: str, tokens: Sequence[str], starts: Sequence[int], spans: Iterable[Span]
    ) -> Iterator[Segment]:
        """The tokens of each span, in the order of the text."""
        reached, taken = 0, 0  # the end of the last span; the token after it
        for span in sorted(self.checked(text, spans), key=lambda span: (span.start, -span.end)):
            if span.start < reached:
                self.pass_over(source, "on_overlap", ("overlaps another one", "overlap others"), text, span)
                continue
            first = max(bisect_right(starts, span.start) - 1, 0)
            if starts[first] + len(tokens[first]) <= span.start:
                first += 1
            end = bisect_left(starts, span.end)
            if first >= end:
                self.pass_over(source, "on_mismatch", ("has no tokens", "have no tokens"), text, span)
                continue
            if starts[first] < span.start or starts[end - 1] + len(tokens[end - 1]) > span.end:
                if self.on_mismatch != "widen":
                    self.pass_over(source, "on_mismatch", _WITHIN, text, span)
                    continue
                if first < taken:
                    self.pass_over(source, "on_mismatch", ("shares a token", "share a token with others"), text, span)
                    continue
                source.change("spans: widened to complete tokens")
            reached, taken = span.end, end
            yield Segment(first, end, span.label)

    def checked(self, text: str, spans: Iterable[Span], places: Sequence[int] | None = None) -> Iterator[Span]:
        """Yield spans in characters of the text; raise `FileError` if one is not valid. places: if already known."""
        places = self.places(text) if places is None else places
        for span in spans:
            start, end, label = span[:3]
            if not isinstance(label, str) or not label:
                raise FileError("a span has no label", got=shown(label), wanted="a name")
            if label == OUTSIDE and self.scheme == "IO":
                raise FileError(
                    "a span cannot have this label", got=repr(label), wanted="another name, or scheme='BIO'"
                )
            if not all(isinstance(x, int) and not isinstance(x, bool) for x in (start, end)):
                raise FileError(
                    "the offsets of a span must be integers", got=shown((start, end)), wanted="such as 0 and 3"
                )
            if not 0 <= start <= end <= places[-1]:
                raise FileError(
                    "a span is outside of its text",
                    got=shown(f"{start} to {end}"),
                    wanted=f"0 <= start <= end <= {len(text):,}, the length of the text",
                    argument=Argument("units", "utf-16"),
                    cause=None if text.isascii() or self.units == "utf-16" else _MAYBE_UTF16,
                )
            if self.units != "characters":
                ends = bisect_left(places, start), bisect_left(places, end)
                if (places[ends[0]], places[ends[1]]) != (start, end):
                    got, wanted = f"{start} to {end}", "offsets of complete characters"
                    raise FileError("a span begins or ends within a character", got=got, wanted=wanted)
                span = span._replace(start=ends[0], end=ends[1])
            if span.quote is not None and not _covers(text, span, span.quote):
                raise FileError(
                    "a span does not match its text",
                    got=f"{shown(text[span.start : span.end])} at {start} to {end}",
                    wanted=shown(span.quote),
                    argument=Argument("units", "utf-16"),
                    cause=_MAYBE_UTF16 if not text.isascii() else "Are offsets counted from 0?",
                )
            yield span

    def places(self, text: str) -> Sequence[int]:
        """Return the begin of each character, in the units of offsets, and the total length."""
        if self.units == "characters" or not text or max(text) < "\U00010000":
            return range(len(text) + 1)
        return array("q", accumulate((1 + (c > "\uffff") for c in text), initial=0))

    def pass_over(
        self,
        source: Source,
        option: Literal["on_mismatch", "on_overlap"],
        what: tuple[str, str],  # of one span; of several
        text: str,
        span: Span,
    ) -> None:
        """Raise, or count a span as left out."""
        if getattr(self, option) == "raise":
            raise FileError(
                f"a span {what[0]}",
                got=f"{clipped(text[span.start : span.end], 60)!r}, {span.start} to {span.end}, {span.label}",
                wanted="spans of complete tokens that do not overlap",
                cause="Pass {argument} to leave such spans out.",
                argument=Argument(option, "skip"),
            )
        source.leave_out(f"spans that {what[1]}")

    # ---- labels into spans ------------------------------------------------------------------------------------------

    def spans(self, example: Example) -> tuple[str, list[Span]]:
        """The text of a sequence and its spans; without a text, the tokens separated by blanks."""
        tokens, text, starts = example.tokens, example.text, example.starts
        if text is None or starts is None:
            text, starts = " ".join(tokens), list(accumulate((len(token) + 1 for token in tokens), initial=0))
        if example.labels is None:
            return text, []
        try:
            segments = segments_of(example.known_labels, self.scheme)
        except LabelError as error:
            raise example.error(
                "labels do not fit the scheme",
                got=error.got,
                wanted=f"labels of the scheme {self.scheme}",
                cause="Pass {argument} for the scheme that they have.",
                argument=Argument("scheme", "IO"),
            ) from None
        chances = example.probabilities if example.probabilities is not None else [None] * len(segments)
        if len(chances) != len(segments):
            raise example.error(
                "the numbers of segments and probabilities differ", got=len(chances), wanted=len(segments)
            )
        places = self.places(text)
        return text, [
            Span(places[start], places[end], label, chance, text[start:end])
            for (a, b, label), chance in zip(segments, chances, strict=True)
            for start, end in [(starts[a], starts[b - 1] + len(tokens[b - 1]))]
        ]


def segment_labels(label: str, n: int, scheme: Scheme) -> list[str]:
    """The labels of a segment of n tokens."""
    if scheme == "IO" or n < 1:
        return [label] * n
    alone, first, inner, last = _TAGS[scheme]
    tags = [alone] if n == 1 else [first, *[inner] * (n - 2), last]
    return [f"{tag}-{label}" for tag in tags]


def segments_of(labels: Sequence[str], scheme: Scheme) -> list[Segment]:
    """The segments of labels under a scheme, to be written; O is not a segment."""
    return _labels(frozenset(labels), scheme).segments(labels)


@lru_cache(maxsize=1024)
def _labels(names: frozenset[str], scheme: Scheme) -> Labels:
    return Labels(sorted(names | {OUTSIDE}), scheme)


def _covers(text: str, span: Span, quote: str) -> bool:
    """Check whether a span matches its text, apart from white space, which tools write in different ways."""
    if span.end - span.start > 2 * len(quote) + 100:  # so that no more is compared than the file has
        return False
    covered = text[span.start : span.end]
    return covered == quote or _bare(covered) == _bare(quote)


def _bare(text: str) -> str:
    return "".join(text.replace("\\n", " ").split())


def text_in(record: Mapping[str, Any], key: str) -> str:
    """The text of a record."""
    text = record.get(key)
    if not isinstance(text, str):
        raise FileError(
            "there is no text" if key not in record else "the text must be a string",
            got=", ".join(map(repr, record))[:200] or "no keys" if key not in record else shown(text),
            wanted=f"the key {key!r} with a string",
        )
    return text


def list_in(record: Mapping[str, Any], key: str) -> list[Any]:
    """The list under a key of a record."""
    values = record.get(key)
    if not isinstance(values, list):
        raise FileError(f"{key!r} must be a list", got=shown(values), wanted="[...]")
    return values


def span_in(record: Any, start: str = "start", end: str = "end", label: str = "label", quote: str = "text") -> Span:
    """The span of an object with these keys."""
    if not isinstance(record, dict) or not {start, end, label} <= record.keys():
        raise FileError("not a span", got=shown(record), wanted=f'{{"{start}": 0, "{end}": 3, "{label}": ...}}')
    said = record.get(quote)
    return Span(record[start], record[end], record[label], None, said if isinstance(said, str) else None)


_WANTED = '{"text": "...", "spans": [{"start": 0, "end": 3, "label": "PER"}, ...]}'


@dataclass(frozen=True, kw_only=True)
class Spans(Standoff):
    """One JSON object per line, with a text and its spans of characters.

        {"id": "n1", "text": "Ann Lee left.", "spans": [{"start": 0, "end": 7, "label": "PER", "text": "Ann Lee"}]}

    `start` and `end` count characters of `text`; `end` is after the last one. Without `spans` the text is not labelled.
    A span is written with its own `text` and, if a model computed it, its `probability`. Neither is required for
    reading, but a `text` must be equal to the text between the offsets.
    """

    name = "spans"
    streams = contiguous = True
    shared: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")

    @classmethod
    def looks_like(cls, head: str) -> bool:
        return json_kind(head) == cls.name

    def read(self, source: Source) -> Iterator[Example]:
        for number, record in json_lines(source, self.encoding, _WANTED):
            with located(f"{source.name}:{number}") as where:
                text, spans = text_in(record, "text"), None
                if "spans" in record:
                    spans = [span_in(span) for span in list_in(record, "spans")]
                elif other := record.keys() & {"label", "labels", "entities"}:
                    cause, argument = "Is it a doccano file? Pass {argument}.", Argument("format", "doccano")
                    got, wanted = repr(min(other)), "the key 'spans'"
                    raise FileError("there are no spans", got=got, wanted=wanted, cause=cause, argument=argument)
                if example := self.example(source, where, text, spans, record.get("id")):
                    yield example

    def lines(self, example: Example) -> Iterable[str]:
        text, spans = self.spans(example)
        record: dict[str, Any] = {"text": text} if example.id is None else {"id": example.id, "text": text}
        if example.labels is not None:
            record["spans"] = [
                {"start": span.start, "end": span.end, "label": span.label, "text": span.quote}
                | ({} if span.probability is None else {"probability": span.probability})
                for span in spans
            ]
        yield json_line(example, record)


_DOCCANO = '{"text": "...", "label": [[0, 3, "PER"], ...]}'
_KEYS = ("label", "labels", "entities")  # of spans: as doccano writes them now, wrote them once, with relations


@dataclass(frozen=True, kw_only=True)
class Doccano(Standoff):
    """JSON lines as doccano exports and imports them, with a text and its labelled spans.

        {"id": 1, "text": "Ann Lee left.", "label": [[0, 7, "PER"]]}

    Exports of projects with relations are read as well; relations are skipped and counted::

        {"text": "Ann Lee left.", "entities": [{"start_offset": 0, "end_offset": 7, "label": "PER"}], "relations": []}

    In some exports, the key of the text is `data`. A text without `label`, `labels` or `entities` is not labelled.
    Other keys are skipped.
    """

    name = "doccano"
    streams = contiguous = True
    shared: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")

    @classmethod
    def looks_like(cls, head: str) -> bool:
        return json_kind(head) == cls.name

    def read(self, source: Source) -> Iterator[Example]:
        for number, record in json_lines(source, self.encoding, _DOCCANO):
            with located(f"{source.name}:{number}") as where:
                other = "text" not in record and isinstance(record.get("data"), str)
                text, keys = text_in(record, "data" if other else "text"), [key for key in _KEYS if key in record]
                if len(keys) > 1:
                    raise FileError("the line has spans under two keys", got=" and ".join(keys), wanted="one of them")
                if not keys and "annotations" in record:
                    cause = "Its labels are numbers. Export it as JSONL with the names of labels."
                    raise FileError("an old export of doccano", got="'annotations'", wanted="'label'", cause=cause)
                if not keys and "spans" in record:
                    cause, argument = "Does it have the format spans? Pass {argument}.", Argument("format", "spans")
                    what, wanted = "there are no labels", "the key 'label'"
                    raise FileError(what, got="'spans'", wanted=wanted, cause=cause, argument=argument)
                spans = [_span(span) for span in list_in(record, keys[0])] if keys else None
                source.leave_out("relations", len(list_in(record, "relations")) if record.get("relations") else 0)
                if example := self.example(source, where, text, spans, record.get("id")):
                    yield example

    def lines(self, example: Example) -> Iterable[str]:
        text, spans = self.spans(example)
        record: dict[str, Any] = {"text": text} if example.id is None else {"id": example.id, "text": text}
        if example.labels is not None:
            record["label"] = [[span.start, span.end, span.label] for span in spans]
        yield json_line(example, record)


def _span(value: Any) -> Span:
    if isinstance(value, list):
        if len(value) != 3:
            raise FileError("not a span", got=shown(value), wanted='[0, 3, "PER"]')
        return Span(*value)
    return span_in(value, "start_offset", "end_offset")
