"""`labelstudio`: tasks of Label Studio, read one by one from a list of JSON objects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from bridle.data import limits
from bridle.data.examples import Example
from bridle.data.jsonl import check_keys, json_kind, json_line
from bridle.data.source import Source, TextSource, located
from bridle.data.standoff import Span, Standoff, list_in, span_in, text_in
from bridle.errors import Argument, FileError, shown

_WANTED = '[{"data": {"text": "..."}, "annotations": [...]}, ...]'
_MARKUP = ("hypertextlabels", "paragraphlabels")  # regions of <HyperText> and <Paragraphs>
_REGION = '{"type": "labels", "value": {"start": 0, "end": 3, "labels": ["PER"]}}'


@dataclass(frozen=True, kw_only=True)
class LabelStudio(Standoff):
    """Label Studio tasks with text regions, as it exports (JSON, JSON-MIN) and imports them.

        [
        {"id": 1, "data": {"text": "Ann Lee left."}, "annotations": [{"result": [{"from_name": "label",
         "to_name": "text", "type": "labels", "value": {"start": 0, "end": 7, "text": "Ann Lee", "labels": ["PER"]}}]}]}
        ]

    The first annotation of each task that was not cancelled is read. Further ones, and results that are not text
    regions, are skipped and counted; regions of `<HyperText>` and `<Paragraphs>` are an error. A task with an empty
    list of annotations is not labelled, whatever a model predicted for it; only a task without such a list, as Bridle
    writes it, is read with its first prediction. You can import the output: each task has one prediction, whose `score`
    is the smallest probability of its regions, so you can sort tasks by it. From the data of a task, only the text is
    kept.

    Parameters
    ----------
    key : str, default "text"
        Key of the text in the data of a task: what follows ``$`` in ``<Text name="text" value="$text"/>``.
    from_name : str, optional
        Name of the tag ``<Labels>``: only its regions are read. None reads those of all these tags, and writes
        ``"label"``.
    to_name : str, optional
        Name of the tag ``<Text>``: only its regions are read. None reads those of all, and writes ``"text"``.
    kind : {"annotations", "predictions"}, optional
        What to read and write; None reads annotations, or predictions of tasks that have no list of annotations, and
        writes predictions.
    model_version : str, default "bridle"
        Model version in written predictions.
    """

    name = "labelstudio"
    shared: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")

    key: str = "text"
    from_name: str | None = None
    to_name: str | None = None
    kind: Literal["annotations", "predictions"] | None = None
    model_version: str = "bridle"

    @classmethod
    def looks_like(cls, head: str) -> bool:
        return json_kind(head) == cls.name

    def read(self, source: Source) -> Iterator[Example]:
        for line, task in json_objects(source, self.encoding, _WANTED):
            with located(f"{source.name}:{line}") as where:
                if example := self.sequence(source, where, task):
                    yield example

    def sequence(self, source: Source, where: str, task: Mapping[str, Any]) -> Example | None:
        """The sequence of a task; None if it has no tokens."""
        if "data" in task:
            data, results = task["data"], self._results(source, task)
        else:
            data, results = task, self._brief(task)
        if not isinstance(data, dict):
            raise FileError("the data of a task is not an object", got=shown(data), wanted='{"text": "..."}')
        spans = None if results is None else list(self._spans(source, results))
        return self.example(source, where, text_in(data, self.key), spans, task.get("id"))

    def boundaries(self, text: str, starts: Sequence[int], firsts: Sequence[int]) -> list[int]:
        """Tasks without labels, which are left out, belong to the sequence before them."""
        source, begins, end = TextSource("", ""), list[int](), 0
        while (at := text.find("{", end)) >= 0:
            task, end = _DECODER.raw_decode(text, at)
            if (example := self.sequence(source, "", task)) is not None and example.labels is not None:
                begins.append(at)
        return [*begins, end]

    def _results(self, source: Source, task: Mapping[str, Any]) -> list[Any] | None:
        """The results of the annotation or prediction of a task; None if it has neither."""
        for kind in ("annotations", "predictions") if self.kind is None else (self.kind,):
            if task.get(kind) is None:
                continue
            entries = list_in(task, kind)
            if kind == "predictions" and (ids := [entry for entry in entries if isinstance(entry, int)]):
                source.leave_out("predictions with only an id", len(ids))
                entries = [entry for entry in entries if not isinstance(entry, int)]
            if bad := [entry for entry in entries if not isinstance(entry, dict)]:
                raise FileError(f"{kind} are not objects", got=shown(bad[0]), wanted='{"result": [...]}')
            kept = [entry for entry in entries if not entry.get("was_cancelled")]
            source.leave_out("cancelled annotations", len(entries) - len(kept))
            source.leave_out(f"further {kind} of a task", len(kept[1:]))
            return list_in(kept[0], "result") if kept else None
        return None

    def _brief(self, task: Mapping[str, Any]) -> list[Any] | None:
        """The results of a task in JSON-MIN: values of regions under the name of the tag."""
        name = self.from_name
        if name is None:
            keys = [key for key in task if key == "label" or _is_brief(task[key])]
            if len(keys) > 1:
                raise FileError(
                    "the task has regions under several names",
                    got=", ".join(map(repr, keys))[:200],
                    wanted="{argument}, the one to read",
                    argument=Argument("from_name", keys[0]),
                )
            name = keys[0] if keys else "label"
        return None if name not in task else [{"type": "labels", "value": value} for value in list_in(task, name)]

    def _spans(self, source: Source, results: list[Any]) -> Iterator[Span]:
        for result in results:
            if not isinstance(result, dict):
                raise FileError("a result is not an object", got=shown(result), wanted=_REGION)
            ours = all(
                wanted in (None, result.get(key, wanted))
                for key, wanted in (("from_name", self.from_name), ("to_name", self.to_name))
            )
            if ours and result.get("type") in _MARKUP:
                raise FileError(
                    "these regions are not plain text",
                    got=f"the type {result['type']!r}",
                    wanted="'labels', that is, regions of <Text>",
                    cause="Offsets into HTML and dialogues cannot be read. Pass {argument} to read only another tag.",
                    argument=Argument("from_name"),
                )
            if result.get("type") != "labels":
                source.leave_out("results that are not text regions")
                continue
            if not ours:
                source.leave_out("regions of other tags")
                continue
            span = span_in(result.get("value"), label="labels")
            names: Any = span.label
            if not isinstance(names, list) or not names:
                raise FileError("a region has no labels", got=shown(names), wanted=_REGION)
            source.leave_out("further labels of a region", len(names) - 1)
            yield span._replace(label=names[0])

    def text(self, examples: Iterable[Example]) -> Iterator[str]:
        """A list with a task per line."""
        yield "["
        before = ""
        for line in super().text(examples):
            if before:
                yield before + ","
            before = line
        if before:
            yield before
        yield "]"

    def lines(self, example: Example) -> Iterable[str]:
        text, spans = self.spans(example)
        task: dict[str, Any] = {} if example.id is None else {"id": example.id}
        task["data"] = {self.key: text}
        if example.labels is not None:
            kind = self.kind or "predictions"
            chances = [span.probability for span in spans if span.probability is not None]
            annotation: dict[str, Any] = {"result": [self._region(k, span) for k, span in enumerate(spans)]}
            if kind == "predictions":
                score = {"score": min(chances)} if chances else {}
                annotation = {"model_version": self.model_version, **score, **annotation}
            task[kind] = [annotation]
        yield json_line(example, task)

    def _region(self, k: int, span: Span) -> dict[str, Any]:
        chance = {} if span.probability is None else {"score": span.probability}
        return {
            "id": f"span{k}",
            "from_name": self.from_name or "label",
            "to_name": self.to_name or "text",
            "type": "labels",
            **chance,
            "value": {"start": span.start, "end": span.end, "text": span.quote, "labels": [span.label]},
        }


def _is_brief(value: Any) -> bool:
    """Check whether these are the values of regions."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(region, dict) and "labels" in region for region in value)
    )


_BLANK = re.compile(r"[ \t\r\n]*+")
_NEAR = 16  # characters: an error so near to the end of what has been read may go away when more is read
_DECODER = json.JSONDecoder()
# What may come at each point, and the point after it.
_NEXT = {
    "begin": {"[": "first", "{": "loose"},
    "loose": {"{": "loose"},  # objects without a list around them
    "first": {"{": "after", "]": "end"},
    "after": {",": "next", "]": "end"},
    "next": {"{": "after"},
    "end": {},
}
_ENDS = ("begin", "loose", "end")  # where a file may end


def json_objects(source: Source, encoding: str, wanted: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects, each with the line it begins on. wanted: the expected form, for messages."""
    pieces = source.runs(encoding, "anywhere")
    text, at, line, state = "", 0, 1, "begin"
    while True:
        begun, at = at, _BLANK.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing too
        line += text.count("\n", begun, at)
        if at == len(text):
            more = next(pieces, None)
            if more is None:
                break
            text, at = more[1][0], 0
            continue
        if text[at] not in _NEXT[state]:
            expected = " or ".join(map(repr, _NEXT[state])) or "the end of the file"
            got = repr(text[at : at + 20])
            raise source.error(line, "not JSON", got=got, wanted=f"{expected}, as in {wanted}")
        state = _NEXT[state][text[at]]
        if text[at] != "{":
            at += 1
            continue
        record, text, at, end = _object(source, pieces, text, at, line, wanted)
        check_keys(record, f"{source.name}:{line}")
        yield line, record
        line += text.count("\n", at, end)
        at = end
    if state not in _ENDS:
        got, cause = "the end of the file", "It is cut off."
        raise source.error(line, "not JSON", got=got, wanted=f"the end of the list, as in {wanted}", cause=cause)


def _object(
    source: Source, pieces: Iterator[tuple[int, list[str]]], text: str, at: int, line: int, wanted: str
) -> tuple[dict[str, Any], str, int, int]:
    """The object at a place of a text, which grows until the object is complete; with the text, its begin and end."""
    while True:
        try:
            record, end = _DECODER.raw_decode(text, at)
            if "\\u" in text[at:end]:
                json.dumps(record, ensure_ascii=False).encode()  # half a character, such as "\ud800", fails
            return record, text, at, end
        except json.JSONDecodeError as error:
            place = line + text.count("\n", at, error.pos)
            wrong = source.error(place, "not JSON", got=error.msg, wanted=wanted, cause="Is the file cut off?")
            if error.pos < len(text) - _NEAR and not error.msg.startswith("Unterminated string"):
                raise wrong from None
        except (ValueError, RecursionError) as error:
            raise source.error(line, "not JSON", got=str(error)[:200], wanted=wanted) from None
        text, at = _longer(source, pieces, text[at:], line, wrong), 0


def _longer(source: Source, pieces: Iterator[tuple[int, list[str]]], text: str, line: int, wrong: FileError) -> str:
    """Double a text, so that the total time stays proportional to the data."""
    parts, size = [text], len(text)
    while size < max(2 * len(text), 1) and (more := next(pieces, None)):
        parts.append(more[1][0])
        size += len(parts[-1])
        if size > 2 * limits.LONGEST:
            got, most = f"{size:,} characters so far", f"at most {limits.LONGEST:,}"
            raise source.error(line, "an object is too long", got=got, wanted=most)
    if size == len(text):
        raise wrong
    return "".join(parts)
