"""The protocol of Label Studio's ML backends: predictions obey the rules.

    POST /predict  {"tasks": [{"id": 1, "data": {"text": "..."}}], "label_config": "<View>...</View>"}
      ->           {"results": [{"model_version": ..., "score": 0.9, "result": [regions]}]}

The names of the tags come from the labelling configuration. Tasks must contain their texts; nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any

from bridle.deadline import check_stopped
from bridle.errors import shown
from bridle.serve.errors import HttpError
from bridle.serve.schemas import PredictAnswer, Prediction, PredictRequest, Span
from bridle.serve.service import Service
from bridle.serve.tagging import request_error, to_spans
from bridle.tagging import Block, tag

_COMMENT = re.compile(r"<!--(?:.*?-->|.*)", re.DOTALL)  # an unclosed comment extends to the end
_TAG = re.compile(r"<(Labels|Label|Text)\b([^<>]*+)>")
_MAX_NAME = 200  # characters of a name in the configuration; answers repeat it
_ATTRIBUTE = re.compile(r"""([A-Za-z_]\w*+)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")


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
    rules = hashlib.sha256(service.default.text.encode()).hexdigest()[:8]
    return f"{service.name}-{service.fingerprint}-{rules}"


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
    decoder = service.decoder(service.book.default)
    block = Block(len(sequences), sequences=sequences)
    outcomes = tag(block, service.tagger, decoder, want=["segment_probabilities"])
    if (error := request_error(outcomes, 0, len(block))) is not None:
        raise error
    assert outcomes.segment_probabilities is not None
    predictions, version = [], model_version(service)
    rows = zip(outcomes.decodings.labels, outcomes.segment_probabilities, pairs, texts, strict=True)
    for labels, probabilities, (_, offsets), text in rows:
        check_stopped()
        spans = to_spans(labels, service.span_labels, offsets, text)
        scores: Sequence[float | None] = probabilities or [None] * len(spans)
        kept = [pair for pair in zip(spans, scores, strict=True) if not tags.labels or pair[0].label in tags.labels]
        regions = [_region(k, span, score, tags) for k, (span, score) in enumerate(kept)]
        lowest = min((round(score, 6) for _, score in kept if score is not None), default=None)
        predictions.append(Prediction(model_version=version, score=lowest, result=regions))
    return PredictAnswer(predictions)


def _text(task: dict[str, Any], key: str) -> str | None:
    data = task.get("data")
    text = data.get(key) if isinstance(data, dict) else None
    return text if isinstance(text, str) else None


def _region(k: int, span: Span, score: float | None, tags: Tags) -> dict[str, Any]:
    return {
        "id": f"span{k}",
        "from_name": tags.from_name,
        "to_name": tags.to_name,
        "type": "labels",
        **({} if score is None else {"score": round(score, 6)}),
        "value": {"start": span.start, "end": span.end, "text": span.text, "labels": [span.label]},
    }
