"""The endpoints: what each takes, what it answers, and how. Routes and the OpenAPI description are made from this."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from bridle.serve import checking, schemas
from bridle.serve.explaining import explain
from bridle.serve.metrics import TYPE
from bridle.serve.schemas import ExplainRequest, HealthAnswer, ModelAnswer, RulesText, TagRequest
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
    kind: str = "application/json"
    errors: tuple[int, ...] = ()  # statuses beside those that all have


async def _tag(state: State, request: TagRequest) -> Any:
    service = state.service
    own = service.book.own(request.rules, request.rule_set) is not None
    lane = state.own if own else state.brought
    size = len(request.texts or request.tokens or request.columns or ()) * _TOKENS
    return await lane.ask(TagWork(service, request, state.metrics), service.limits.seconds, size)


async def _explain(state: State, request: ExplainRequest) -> Any:
    return await state.call(partial(explain, state.service, request))


async def _check(state: State, request: RulesText) -> Any:
    return await state.call(partial(checking.check, state.service, request))


async def _test(state: State, request: RulesText) -> Any:
    return await state.call(partial(checking.test, state.service, request))


async def _sentences(state: State, _request: None) -> Any:
    return checking.sentences(state.service)


async def _model(state: State, _request: None) -> Any:
    return ModelAnswer(**state.service.describe())


async def _health(state: State, _request: None) -> Any:
    return HealthAnswer("UP", state.service.name)


async def _metrics(state: State, _request: None) -> Any:
    return state.metrics.text().encode()


_WORK = (413, 422, 429, 504)
ENDPOINTS = (
    Endpoint("POST", "/tag", "Label texts or tokens.", _tag, schemas.TagAnswer, TagRequest, errors=(404, *_WORK)),
    Endpoint(
        "POST",
        "/explain",
        "Explain the labels of one sequence.",
        _explain,
        schemas.ExplainAnswer,
        ExplainRequest,
        errors=(404, *_WORK),
    ),
    Endpoint("POST", "/rules/check", "Check rules.", _check, schemas.CheckAnswer, RulesText, errors=_WORK),
    Endpoint("POST", "/rules/test", "Run the test cases in rules.", _test, schemas.TestAnswer, RulesText, errors=_WORK),
    Endpoint(
        "GET", "/sentences", "List the sentences that rules are written with.", _sentences, schemas.SentencesAnswer
    ),
    Endpoint("GET", "/model", "Describe the model, the rules and the limits.", _model, ModelAnswer),
    Endpoint("GET", "/health", "Say that the server is up.", _health, HealthAnswer),
    Endpoint("GET", "/metrics", "Counters in the text format of Prometheus.", _metrics, str, kind=TYPE),
)
