"""`spans`: one JSON object per line, with a text and its spans of characters.

    {"id": "n1", "text": "Ann Lee left.", "spans": [{"start": 0, "end": 7, "label": "PER", "text": "Ann Lee"}]}

`start` and `end` count characters of `text`; `end` is after the last one. Without `spans` the text is not labelled. A
span is written with its own `text` and, if a model computed it, its `probability`. Neither is required for reading, but
a `text` must be equal to the text between the offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from bridle.data.examples import Example
from bridle.data.jsonl import json_kind, json_line, json_lines
from bridle.data.source import Source, located
from bridle.data.standoff import Standoff, list_in, span_in, text_in
from bridle.errors import Argument, FileError

_WANTED = '{"text": "...", "spans": [{"start": 0, "end": 3, "label": "PER"}, ...]}'


@dataclass(frozen=True, kw_only=True)
class Spans(Standoff):
    """Texts with spans."""

    name = "spans"
    streams = True
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
        made: dict[str, Any] = {"text": text} if example.id is None else {"id": example.id, "text": text}
        if example.labels is not None:
            made["spans"] = [
                {"start": span.start, "end": span.end, "label": span.label, "text": span.quote}
                | ({} if span.probability is None else {"probability": span.probability})
                for span in spans
            ]
        yield json_line(example, made)
