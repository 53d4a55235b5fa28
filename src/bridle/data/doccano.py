"""`doccano`: JSON lines as doccano exports and imports them, with a text and its labelled spans.

    {"id": 1, "text": "Ann Lee left.", "label": [[0, 7, "PER"]]}

Exports of projects with relations are read as well; relations are skipped and counted::

    {"text": "Ann Lee left.", "entities": [{"start_offset": 0, "end_offset": 7, "label": "PER"}], "relations": []}

In some exports, the key of the text is `data`. A text without `label`, `labels` or `entities` is not labelled. Other
keys are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from bridle.data.examples import Example
from bridle.data.jsonl import json_kind, json_line, json_lines
from bridle.data.source import Source, located
from bridle.data.standoff import Span, Standoff, list_in, span_in, text_in
from bridle.errors import Argument, FileError, shown

_WANTED = '{"text": "...", "label": [[0, 3, "PER"], ...]}'
_KEYS = ("label", "labels", "entities")  # of spans: as doccano writes them now, wrote them once, with relations


@dataclass(frozen=True, kw_only=True)
class Doccano(Standoff):
    """Texts with spans, as doccano exports them."""

    name = "doccano"
    streams = True
    shared: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")

    @classmethod
    def looks_like(cls, head: str) -> bool:
        return json_kind(head) == cls.name

    def read(self, source: Source) -> Iterator[Example]:
        for number, record in json_lines(source, self.encoding, _WANTED):
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
        made: dict[str, Any] = {"text": text} if example.id is None else {"id": example.id, "text": text}
        if example.labels is not None:
            made["label"] = [[span.start, span.end, span.label] for span in spans]
        yield json_line(example, made)


def _span(value: Any) -> Span:
    if isinstance(value, list):
        if len(value) != 3:
            raise FileError("not a span", got=shown(value), wanted='[0, 3, "PER"]')
        return Span(*value)
    return span_in(value, "start_offset", "end_offset")
