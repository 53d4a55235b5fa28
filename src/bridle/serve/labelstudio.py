"""The protocol of Label Studio's ML backends: predictions obey the rules.

    POST /predict  {"tasks": [{"id": 1, "data": {"text": "..."}}], "label_config": "<View>...</View>"}
      ->           {"results": [{"model_version": ..., "score": 0.9, "result": [regions]}]}

Scores are the model's own probabilities, without rules: a label that a rule forced would be certain given that rule.
The score of a task is the smallest of them, minus 1 if a rule changed a label, so that these tasks rank first. The
names of the tags come from the labelling configuration. Tasks must contain their texts; nothing is downloaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from html import unescape
from itertools import compress, zip_longest
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from bridle.atomic import append, replacing
from bridle.deadline import check_stopped
from bridle.errors import FileError, shown
from bridle.serve.errors import HttpError
from bridle.serve.schemas import Number, Span
from bridle.serve.service import NO_RULES, Service
from bridle.serve.tagging import request_error, to_spans
from bridle.tagging import Block, tag
from bridle.tagging.figures import Want, probabilities_of

_COMMENT = re.compile(r"<!--(?:.*?-->|.*)", re.DOTALL)  # an unclosed comment extends to the end
_TAG = re.compile(r"<(Labels|Label|Text)\b([^<>]*+)>")
_MAX_NAME = 200  # characters of a name in the configuration; answers repeat it
_ATTRIBUTE = re.compile(r"""([A-Za-z_]\w*+)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")


class PredictRequest(Struct):
    """Tasks of Label Studio; other fields are ignored."""

    tasks: list[dict[str, Any]]
    label_config: str | None = None


class Prediction(Struct, kw_only=True):
    """Regions of a task.

    `probability` is that of its least probable token under the model alone, `probability_with_rules` given the hard
    rules. `score` is the former, minus 1 if a rule changed a label.
    """

    model_version: str
    score: Number
    result: list[dict[str, Any]]
    probability: Number = None
    probability_with_rules: Number = None
    changed_by_rules: bool = False


class PredictAnswer(Struct):
    """One prediction per task."""

    results: list[Prediction]


class SetupAnswer(Struct):
    """Version of the model, as Label Studio shows it."""

    model_version: str


class WebhookAnswer(Struct):
    """Acknowledgement of an event: was its annotation stored, or removed? The server does not train models."""

    status: Literal["stored", "removed", "ignored"]


@dataclass(frozen=True, slots=True)
class Tags:
    """Names of the tags of a labelling configuration, and the key of the text in the data of a task."""

    from_name: str = "label"
    to_name: str = "text"
    key: str = "text"
    labels: frozenset[str] = frozenset()  # that annotators can choose; empty if the configuration lists none

    @classmethod
    def of(cls, config: str | None, known: Collection[str] = ()) -> Tags:
        """Parse a configuration. Of several <Labels>, choose the one with the most known labels.

        >>> Tags.of('<View><Labels name="ner" toName="t"/><Text name="t" value="$body"/></View>')
        Tags(from_name='ner', to_name='t', key='body', labels=frozenset())
        """
        groups = list[tuple[dict[str, str], set[str]]]()
        texts = list[dict[str, str]]()
        for name, attributes in _TAG.findall(_COMMENT.sub("", config or "")):
            values = _parse_attributes(attributes)
            if name == "Labels":
                groups.append((values, set()))
            elif name == "Text":
                texts.append(values)
            elif groups and "value" in values:
                groups[-1][1].add(values["value"])
        none: tuple[dict[str, str], set[str]] = {}, set()
        labels, names = max(groups, key=lambda group: len(group[1].intersection(known)), default=none)
        target = labels.get("toName")
        text = next((values for values in texts if values.get("name") == target), texts[0] if texts else {})
        if text.get("valueType") == "url":
            what, wanted = "the texts of the tasks are addresses", "texts in the tasks; nothing is downloaded"
            raise HttpError(422, "task", what, got='valueType="url"', wanted=wanted)
        key = text.get("value", "$text").removeprefix("$")
        return cls(labels.get("name", "label"), target or text.get("name", "text"), key or "text", frozenset(names))


def _parse_attributes(text: str) -> dict[str, str]:
    return {name: unescape(double or single)[:_MAX_NAME] for name, double, single in _ATTRIBUTE.findall(text)}


def model_version(service: Service) -> str:
    """Return the version of the model and its rules, as Label Studio shows it."""
    return f"{service.name}-{service.fingerprint}-{service.default.fingerprint[:8]}"


def predict(service: Service, request: PredictRequest) -> PredictAnswer:
    """Label the texts of tasks under the rules of the server. A task without a text gets no regions."""
    service.check_text()
    tags = Tags.of(request.label_config, service.span_labels.types)
    values = [_text(task, tags.key) for task in request.tasks]
    if request.tasks and all(text is None for text in values):
        got, wanted = shown(request.tasks[0].get("data")), f'{{"data": {{"{tags.key}": "..."}}}}'
        raise HttpError(422, "task", "no task has a text", got=got, wanted=wanted)
    texts = [text or "" for text in values]
    pairs = [service.split(text) for text in texts]
    sequences = [tokens for tokens, _ in pairs]
    service.limits.check_sequences(sequences)
    block = Block(len(sequences), sequences=sequences)
    ruled = tag(block, service.tagger, service.decoder(service.book.default), want=["segment_probabilities"])
    if (error := request_error(ruled, 0, len(block))) is not None:
        raise error
    without_rules = service.decoder(service.book.sets[NO_RULES])
    want: list[Want] = ["probabilities", "segment_probabilities"]  # by the model alone, of the labels under the rules
    plain = tag(block, service.tagger, without_rules, want=want, of=ruled.decodings)
    assert ruled.segment_probabilities is not None and plain.segment_probabilities is not None
    predictions, version = [], model_version(service)
    for b, (labels, (_, offsets)) in enumerate(zip(ruled.decodings.labels, pairs, strict=True)):
        check_stopped()
        spans = to_spans(labels, service.span_labels, offsets, texts[b])
        changed = np.not_equal(labels, plain.decodings.labels[b] if labels else labels)
        regions = [
            _region(f"span{k}", span, tags, own, both, changed)
            for k, (span, own, both) in enumerate(
                zip_longest(spans, plain.segment_probabilities[b] or (), ruled.segment_probabilities[b] or ())
            )
            if not tags.labels or span.label in tags.labels
        ]
        doubts = [region["score"] for region in regions if "score" in region]
        if changed.any():
            doubts += np.array(probabilities_of(plain, b) or [])[changed].round(6).tolist()
        lowest = min(doubts, default=None)
        ruled_chances = [region["meta"]["probability_with_rules"] for region in regions if "meta" in region]
        predictions.append(
            Prediction(
                model_version=version,
                score=lowest - 1 if lowest is not None and changed.any() else lowest,
                result=regions,
                probability=lowest,
                probability_with_rules=min(filter(None, ruled_chances), default=None),
                changed_by_rules=bool(changed.any()),
            )
        )
    return PredictAnswer(predictions)


def _text(task: dict[str, Any], key: str) -> str | None:
    data = task.get("data")
    text = data.get(key) if isinstance(data, dict) else None
    return text if isinstance(text, str) else None


def _region(
    name: str, span: Span, tags: Tags, own: float | None, both: float | None, changed: npt.NDArray[np.bool_]
) -> dict[str, Any]:
    """Return a segment with its probability, without rules and with them."""
    figures: dict[str, Any] = {}
    if own is not None:
        ruled = None if both is None else round(both, 6)
        by_rules = bool(changed[span.start_token : span.end_token].any())
        figures = {"score": round(own, 6), "meta": {"probability_with_rules": ruled, "changed_by_rules": by_rules}}
    return {
        "id": name,
        "from_name": tags.from_name,
        "to_name": tags.to_name,
        "type": "labels",
        **figures,
        "value": {"start": span.start, "end": span.end, "text": span.text, "labels": [span.label]},
    }


# ---- POST /webhook --------------------------------------------------------------------------------------------------


class Corrections:
    """A file of annotated tasks, one JSON object per line, which the format `labelstudio` reads.

    A task that is annotated again replaces its line; one that is deleted, or whose annotation is, loses it. The file is
    on the disk before the event is acknowledged.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._lock, self._keys = path, Lock(), dict[str, None]()
        try:
            append(path, b"")  # raises at once if it cannot be written
            lines = path.read_bytes().splitlines(keepends=True)
            self._keys = dict.fromkeys(_key_of(json.loads(line)) for line in lines if line.strip())
            if lines and not lines[-1].endswith(b"\n"):  # of an editor
                append(path, b"\n")
        except OSError as error:
            raise FileError("cannot read corrections", got=str(error.strerror), where=str(path)) from None
        except (ValueError, AttributeError):
            wanted = "a file that --corrections wrote, or none"
            raise FileError("not a file of corrections", got="other lines", wanted=wanted, where=str(path)) from None

    def take(self, event: Mapping[str, Any]) -> Literal["stored", "removed", "ignored"]:
        """Store the annotation of an event, or remove those that were deleted."""
        action = str(event.get("action"))
        try:
            if action in _DELETED:
                return "removed" if self._remove(event, _DELETED[action]) else "ignored"
            return "stored" if self._store(event) else "ignored"
        except FileError as error:  # not the client's fault: status 500, and the log of the server says what
            raise OSError(str(error)) from error

    def _store(self, event: Mapping[str, Any]) -> bool:
        annotation, task = event.get("annotation"), event.get("task")
        if event.get("action") not in _ANNOTATED or not isinstance(annotation, dict) or not isinstance(task, dict):
            return False
        result = annotation.get("result") or []
        if not isinstance(result, list):
            return False
        annotations = [{**annotation, "result": result}]
        record = {
            "id": task.get("id"),
            "project": _project_of(event),
            "data": task.get("data"),
            "annotations": annotations,
        }
        line, key = json.dumps(record, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n", _key_of(record)
        with self._lock:
            if key not in self._keys:
                append(self.path, line)
            else:
                self._rewrite(lambda old: _key_of(old) != key, line)
            self._keys[key] = None
        return True

    def _remove(self, event: Mapping[str, Any], of: Literal["annotations", "tasks"]) -> bool:
        deleted = event.get(of)
        ids = [each.get("id") for each in deleted if isinstance(each, dict)] if isinstance(deleted, list) else []
        project = _project_of(event)

        def stays(record: dict[str, Any]) -> bool:
            items = [record] if of == "tasks" else record["annotations"]
            return record.get("project") != project or all(item.get("id") not in ids for item in items)

        with self._lock:
            return self._rewrite(stays)

    def _rewrite(self, stays: Callable[[dict[str, Any]], bool], more: bytes = b"") -> bool:
        """Keep some of the lines and add another one; return whether a line was left out."""
        lines = [line for line in self.path.read_bytes().splitlines(keepends=True) if line.strip()]
        records = [json.loads(line) for line in lines]
        kept = [stays(record) for record in records]
        if all(kept) and not more:
            return False
        with replacing(self.path, flush_to="disk") as file:
            file.writelines(compress(lines, kept))
            file.write(more)
        self._keys = dict.fromkeys(map(_key_of, compress(records, kept)))
        return not all(kept)


_ANNOTATED = ("ANNOTATION_CREATED", "ANNOTATION_UPDATED")
_DELETED: dict[str, Literal["annotations", "tasks"]] = {"ANNOTATIONS_DELETED": "annotations", "TASKS_DELETED": "tasks"}


def _project_of(event: Mapping[str, Any]) -> Any:
    project = event.get("project")
    return project.get("id") if isinstance(project, dict) else None


def _key_of(record: Mapping[str, Any]) -> str:
    return json.dumps([record.get("project"), record.get("id")])
