"""The endpoints: what each takes, what it answers, and how. Routes and the OpenAPI description are made from this."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from bridle.serve import checking, labelstudio
from bridle.serve.data_cache import figures
from bridle.serve.explaining import explain
from bridle.serve.metrics import TYPE
from bridle.serve.schemas import DecodeRequest, ExplainAnswer, ExplainRequest, TagAnswer, TagRequest
from bridle.serve.schemas_rules import (
    CheckAnswer,
    DataAnswer,
    DataRequest,
    EvaluateAnswer,
    EvaluateRequest,
    RulesText,
    SentencesAnswer,
    TestAnswer,
)
from bridle.serve.schemas_server import (
    HealthAnswer,
    ModelAnswer,
    PredictAnswer,
    PredictRequest,
    SetupAnswer,
    WebhookAnswer,
)
from bridle.serve.scores import decode
from bridle.serve.state import State
from bridle.serve.tagging import TagWork

_TOKENS = 32  # of a sequence, about: how much work a request is is known before its texts are split


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path and a method."""

    method: str
    path: str
    summary: str
    handle: Callable[[State, Any], Awaitable[Any]]
    answer: Any  # a struct, or str for plain text
    request: Any = None  # a struct; None: there is no body
    errors: tuple[int, ...] = ()  # statuses beside those that all have
    kind: str = "application/json"


async def _tag(state: State, request: TagRequest) -> Any:
    service = state.service
    own = service.book.own(request.rules, request.rule_set) is not None
    lane = state.own if own else state.brought
    size = len(request.texts or request.tokens or request.columns or ()) * _TOKENS
    return await lane.ask(TagWork(service, request, state.metrics), service.limits.seconds, size)


async def _decode(state: State, request: DecodeRequest) -> Any:
    return await state.call(partial(decode, state.service, request))


async def _explain(state: State, request: ExplainRequest) -> Any:
    return await state.call(partial(explain, state.service, request))


async def _check(state: State, request: RulesText) -> Any:
    return await state.call(partial(checking.check, state.service, request))


async def _test(state: State, request: RulesText) -> Any:
    return await state.call(partial(checking.test, state.service, request))


async def _data(state: State, request: DataRequest) -> Any:
    return await state.call(lambda: state.data.add(request).answer)


async def _sample(state: State, _request: None) -> Any:
    sample = state.data.sample()
    return await state.call(lambda: sample.answer)


async def _evaluate(state: State, request: EvaluateRequest) -> Any:
    service, data = state.service, state.data.get(request.data)

    def measured() -> Any:
        rules = service.book.read(request.rules, request.rule_set)
        return figures(service, data, rules, request.budget)

    return await state.call(measured)


async def _predict(state: State, request: PredictRequest) -> Any:
    return await state.call(partial(labelstudio.predict, state.service, request))


async def _setup(state: State, _request: dict[str, Any]) -> Any:
    return SetupAnswer(labelstudio.model_version(state.service))


async def _webhook(_state: State, _request: dict[str, Any]) -> Any:
    return WebhookAnswer("ignored")


async def _sentences(state: State, _request: None) -> Any:
    return checking.sentences(state.service)


async def _model(state: State, _request: None) -> Any:
    return ModelAnswer(**state.service.describe())


async def _health(state: State, _request: None) -> Any:
    return HealthAnswer("UP", state.service.name)


async def _metrics(state: State, _request: None) -> Any:
    return state.metrics.text().encode()


_WORK = (413, 429, 504)
_NAMED = (404, *_WORK)
_Any = msgspec.Raw  # it is not looked at
ENDPOINTS = (
    Endpoint("POST", "/tag", "Label texts or tokens.", _tag, TagAnswer, TagRequest, _NAMED),
    Endpoint("POST", "/decode", "Label sequences by their scores.", _decode, TagAnswer, DecodeRequest, _NAMED),
    Endpoint("POST", "/explain", "Explain the labels of a sequence.", _explain, ExplainAnswer, ExplainRequest, _NAMED),
    Endpoint("POST", "/rules/check", "Check rules.", _check, CheckAnswer, RulesText, _WORK),
    Endpoint("POST", "/rules/test", "Run the test cases in rules.", _test, TestAnswer, RulesText, _WORK),
    Endpoint("GET", "/sentences", "List the sentences that rules are written with.", _sentences, SentencesAnswer),
    Endpoint(
        "POST", "/data", "Send data, to look at it and to measure rules on it.", _data, DataAnswer, DataRequest, _WORK
    ),
    Endpoint("GET", "/data/sample", "Get the data of the server itself.", _sample, DataAnswer, errors=(404, 429, 504)),
    Endpoint("POST", "/evaluate", "Measure rules on data.", _evaluate, EvaluateAnswer, EvaluateRequest, _NAMED),
    Endpoint("GET", "/model", "Describe the model, the rules and the limits.", _model, ModelAnswer),
    Endpoint("GET", "/health", "Say that the server is up.", _health, HealthAnswer),
    Endpoint("GET", "/metrics", "Counters in the text format of Prometheus.", _metrics, str, kind=TYPE),
    Endpoint("POST", "/predict", "Label tasks of Label Studio.", _predict, PredictAnswer, PredictRequest, _WORK),
    Endpoint("POST", "/setup", "Tell Label Studio the version of the model.", _setup, SetupAnswer, _Any),
    Endpoint("POST", "/webhook", "Take note of events of Label Studio.", _webhook, WebhookAnswer, _Any),
)
