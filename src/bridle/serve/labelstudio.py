"""The protocol of Label Studio's ML backends: annotators get labels that obey the rules.

    POST /predict  {"tasks": [{"id": 1, "data": {"text": "..."}}], "label_config": "<View>...</View>"}
      ->           {"results": [{"model_version": ..., "score": 0.9, "result": [regions]}]}

The names of the tags come from the labelling configuration. Text is never fetched: a task holds it itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any

from bridle.decoding.decoder import Decoder
from bridle.decoding.result import Decoding
from bridle.decoding.segments import segment_probabilities
from bridle.errors import EngineError, Infeasible, LimitReached, shown
from bridle.serve.problems import HttpError
from bridle.serve.schemas import Span
from bridle.serve.schemas_server import PredictAnswer, Prediction, PredictRequest
from bridle.serve.service import Service
from bridle.serve.tagging import spans_of

_TAG = re.compile(r"<(Labels|Text)\b([^<>]*+)>")
_ATTRIBUTE = re.compile(r"""([A-Za-z_]\w*+)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")


@dataclass(frozen=True, slots=True)
class Tags:
    """What a labelling configuration calls its tags, and the key of the text in the data of a task."""

    from_name: str = "label"
    to_name: str = "text"
    key: str = "text"

    @classmethod
    def of(cls, config: str | None) -> Tags:
        """The tags of a configuration.

        >>> Tags.of('<View><Labels name="ner" toName="t"/><Text name="t" value="$body"/></View>')
        Tags(from_name='ner', to_name='t', key='body')
        """
        found = [(tag, _attributes(text)) for tag, text in _TAG.findall(config or "")]
        labels = next((one for tag, one in found if tag == "Labels"), {})
        wanted = labels.get("toName")
        texts = [one for tag, one in found if tag == "Text"]
        text = next((one for one in texts if one.get("name") == wanted), texts[0] if texts else {})
        key = text.get("value", "$text").removeprefix("$")
        return cls(labels.get("name", "label"), wanted or text.get("name", "text"), key or "text")


def _attributes(text: str) -> dict[str, str]:
    return {name: unescape(double or single) for name, double, single in _ATTRIBUTE.findall(text)}


def model_version(service: Service) -> str:
    """What Label Studio shows as the version of the model."""
    return f"{service.name}-{service.fingerprint}"


def predict(service: Service, request: PredictRequest) -> PredictAnswer:
    """Label the texts of tasks under the rules of the server."""
    service.check_text()
    tags = Tags.of(request.label_config)
    texts = [_text(task, tags.key, k) for k, task in enumerate(request.tasks)]
    cut = [service.split(text) for text in texts]
    sequences = [tokens for tokens, _ in cut]
    service.limits.check_sequences(sequences)
    decoder = service.decoder(service.book.default)
    found = service.tagger.decode(sequences, decoder, threads=service.threads)
    made = []
    for one, tokens, (_, offsets), text in zip(found, sequences, cut, texts, strict=True):
        spans = spans_of(one.labels, service.span_labels, offsets, text)
        chances = _chances(service, decoder, tokens, one, spans)
        regions = [_region(k, span, chance, tags) for k, (span, chance) in enumerate(zip(spans, chances, strict=True))]
        score = min((chance for chance in chances if chance is not None), default=None)
        made.append(Prediction(model_version=model_version(service), score=score, result=regions))
    return PredictAnswer(made)


def _text(task: dict[str, Any], key: str, sequence: int) -> str:
    data = task.get("data")
    text = data.get(key) if isinstance(data, dict) else None
    if not isinstance(text, str):
        got, wanted = shown(data), f'{{"data": {{"{key}": "..."}}}}'
        raise HttpError(422, "task", "a task has no text", got=got, wanted=wanted, sequence=sequence)
    return text


def _chances(
    service: Service, decoder: Decoder, tokens: Sequence[str], one: Decoding, spans: Sequence[Span]
) -> list[float | None]:
    """The probability of each span; None if it cannot be computed."""
    if one.relaxed or not spans:
        return [None] * len(spans)
    given = service.tagger.given([tokens], decoder)
    segments = service.span_labels.segments(one.labels)
    try:
        lattice = service.tagger.lattice(tokens)
        found = segment_probabilities(decoder, lattice, one.labels, segments, None if given is None else given[0])
    except (Infeasible, LimitReached, EngineError):
        return [None] * len(spans)
    return [round(chance, 6) for chance in found]


def _region(k: int, span: Span, chance: float | None, tags: Tags) -> dict[str, Any]:
    score = {} if chance is None else {"score": chance}
    return {
        "id": f"span{k}",
        "from_name": tags.from_name,
        "to_name": tags.to_name,
        "type": "labels",
        **score,
        "value": {"start": span.start, "end": span.end, "text": span.text, "labels": [span.label]},
    }
