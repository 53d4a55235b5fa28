"""The endpoints, the state that they share, and their OpenAPI description."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any

import msgspec

from bridle.decoding.threads import thread_count
from bridle.errors import ModelError
from bridle.serve import labelstudio, tagging, tuning
from bridle.serve.checking import (
    CheckAnswer,
    RulesText,
    SentencesAnswer,
    TestAnswer,
    check_rules,
    list_sentences,
    run_test_cases,
)
from bridle.serve.data_cache import DataAnswer, DataCache, DataRequest, evaluate_rules
from bridle.serve.errors import HttpError
from bridle.serve.evaluation import EvaluateAnswer, EvaluateRequest
from bridle.serve.jobs import JobAnswer, JobQuestion, JobRequest, Jobs
from bridle.serve.labelstudio import PredictAnswer, PredictRequest, SetupAnswer, WebhookAnswer
from bridle.serve.lanes import Job, Lane
from bridle.serve.metrics import TYPE, Metrics
from bridle.serve.schemas import (
    DecodeRequest,
    ExplainAnswer,
    ExplainRequest,
    Failure,
    HealthAnswer,
    ModelAnswer,
    ModelsAnswer,
    ReadyAnswer,
    RulesRequest,
    TagAnswer,
    TagRequest,
)
from bridle.serve.service import RuleText, Service
from bridle.serve.suggesting import SuggestAnswer, SuggestRequest, suggest_rules
from bridle.serve.tuning import CurvesAnswer, CurvesRequest
from bridle.serve.workspace import OpenRequest, RulesFile, SaveRequest, Workspace, read_model

BATCH_TOKENS = 32_768  # tokens that are decoded at once, approximately
WORKERS = 4  # threads for rules of requests, so that a slow one does not block the others
_SEQUENCE_TOKENS = 32  # estimated length of a sequence, before its text is split
_encode = msgspec.json.Encoder().encode


class State:
    """Lanes and uploaded data of one model of a running server.

    There are three lanes, so that requests with rules of their own do not delay those under the rules of the server:
    `server_rules` and `request_rules` label sequences in batches, `others` does everything else.
    """

    def __init__(self, service: Service, site: Site) -> None:
        self.service, self.site = service, site
        self.metrics: Metrics = site.metrics
        self.data: DataCache = DataCache(service)
        self.jobs = Jobs()
        lane = partial(Lane, max_waiting=service.limits.waiting, after=service.measure)
        batches = partial(lane, run=tagging.run_tagging, batch_size=BATCH_TOKENS, on_batch=self.metrics.count_batch)
        self.server_rules = batches("server_rules", threads=thread_count(service.threads))
        self.request_rules = batches("request_rules", threads=WORKERS)
        self.others = lane("others", _call, threads=WORKERS)
        self.lanes = (self.server_rules, self.request_rules, self.others)

    async def call(self, work: Callable[[], Any]) -> Any:
        """Call a function in a thread."""
        return await self.others.submit(work, self.service.limits.seconds)

    def rules_of(self, request: RulesRequest) -> RuleText:
        """Return the rules of a request."""
        return self.service.book.read(request.rules, request.rule_set)

    def close(self) -> None:
        """End the threads."""
        self.jobs.close()
        for lane in self.lanes:
            lane.close()

    def join(self, seconds: float) -> bool:
        """Wait until all threads have ended; return False if one is still running after this time."""
        ends = time.monotonic() + seconds
        joined = [lane.join(max(0.0, ends - time.monotonic())) for lane in (*self.lanes, self.jobs)]
        return all(joined)


class Site:
    """The models of a server, the first of which is the default, and what they share.

    `load` makes the services again from their files, for `reload`; requests in flight keep the model that they have.
    """

    def __init__(
        self,
        services: Sequence[Service],
        paths: tuple[str, ...],
        *,
        load: Callable[[], Sequence[Service]] | None = None,
        corrections: labelstudio.Corrections | None = None,
        has_token: bool = False,
    ) -> None:
        self.metrics, self.is_stopping = Metrics(paths), False
        self.corrections, self.has_token = corrections, has_token
        self._load, self._loading = load, Lock()
        self.states: dict[str, State] = {}
        self.use(services)

    def use(self, services: Sequence[Service]) -> None:
        """Answer requests that come from now on by these models."""
        states = {service.name: State(service, self) for service in services}
        if not services or len(states) < len(services):
            got, wanted = ", ".join(service.name for service in services) or "no models", "models with different names"
            raise ModelError("models of a server need a name each", got=got, wanted=wanted)
        lanes = [state.lanes for state in states.values()]
        self.metrics.gauges = {group[0].name: partial(_waiting, group) for group in zip(*lanes, strict=True)}
        before, self.states = self.states, states
        for state in before.values():
            state.close()

    @property
    def default(self) -> State:
        """The model of requests that name none."""
        return next(iter(self.states.values()))

    def reload(self) -> list[str]:
        """Load models and rules again; an error leaves the old ones in place. Return the names of the models."""
        if self._load is None:
            raise HttpError(409, "reload", "this server cannot load its models again", wanted="bridle serve MODEL")
        with self._loading:
            self.use(self._load())
        return list(self.states)

    def close(self) -> None:
        """End the threads."""
        for state in self.states.values():
            state.close()

    def join(self, seconds: float) -> bool:
        """Wait until all threads have ended; return False if one is still running after this time."""
        ends = time.monotonic() + seconds
        joined = [state.join(max(0.0, ends - time.monotonic())) for state in self.states.values()]
        return all(joined)


def _waiting(lanes: Sequence[Lane]) -> int:
    return sum(lane.waiting for lane in lanes)


def _call(jobs: Sequence[Job]) -> None:
    for job in jobs:
        answer = job.work()
        # encoded here, because encoding a large answer would block the event loop
        job.answer = answer if isinstance(answer, bytes) else _encode(answer)


Handler = Callable[[State, Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path and what answers it: by GET if it takes no body, by POST otherwise."""

    path: str
    summary: str
    handle: Handler
    answer: Any  # a struct, or str for plain text
    request: Any = None  # a struct; None without a body
    errors: tuple[int, ...] = ()  # statuses besides those of all endpoints
    content_type: str = "application/json"
    changes: bool = False  # POST, although it takes no body

    @property
    def method(self) -> str:
        """The method of HTTP."""
        return "POST" if self.request is not None or self.changes else "GET"


def _at_once(function: Callable[[State], Any]) -> Handler:
    """Answer in the event loop; for what takes no time."""

    async def handle(state: State, _request: Any) -> Any:
        return function(state)

    return handle


def _in_thread(function: Callable[[State, Any], Any]) -> Handler:
    async def handle(state: State, request: Any) -> Any:
        return await state.call(partial(function, state, request))

    return handle


def _work(function: Callable[[Service, Any], Any]) -> Handler:
    return _in_thread(lambda state, request: function(state.service, request))


async def _tag(state: State, request: TagRequest) -> Any:
    service = state.service
    trusted = service.book.find(request.rules, request.rule_set) is not None
    lane = state.server_rules if trusted else state.request_rules
    size = len(request.texts or request.tokens or request.columns or ()) * _SEQUENCE_TOKENS
    return await lane.submit(tagging.TagWork(service, request, state.metrics), service.limits.seconds, size)


def _evaluate(state: State, request: EvaluateRequest) -> Any:
    return evaluate_rules(state.data.get(request.data), state.rules_of(request), request.budget)


def _suggest(state: State, request: SuggestRequest) -> Any:
    gold = None if request.data is None else state.data.get(request.data).gold
    return suggest_rules(state.service, request, state.rules_of(request), gold)


def _curves(state: State, request: CurvesRequest) -> Any:
    return tuning.draw_curves(state.data.get(request.data), state.rules_of(request), request.lines, request.budget)


def _start_job(state: State, request: JobRequest) -> Any:
    workspace_of(state)
    data, rules = state.data.get(request.data), state.rules_of(request)
    kinds: dict[str, Callable[..., Any]] = {"learn": tuning.learn_more, "tune": tuning.tune}
    return state.jobs.start(partial(kinds[request.kind], data, rules, request.line)).describe()


async def _ask_job(state: State, request: JobQuestion) -> Any:
    job = state.jobs.get(request.job)
    if request.stop:
        job.stop()
    return job.describe()


async def _open_model(state: State, request: OpenRequest) -> Any:
    workspace, old = workspace_of(state), state.service

    def open_model() -> Service:
        name = request.name.removesuffix(".bridle") or "model"
        return Service(read_model(request), name, limits=old.limits, threads=old.threads, workspace=workspace)

    service = await asyncio.to_thread(open_model)
    state.site.use([service])
    return service.describe()


def workspace_of(state: State) -> Workspace:
    """Return the workspace of a model; raise if it has none."""
    if state.service.workspace is None:
        what, wanted = "this server writes no files and learns no rules", "bridle explore, on your own machine"
        raise HttpError(403, "workspace", what, wanted=wanted)
    return state.service.workspace


async def _reload(state: State, _request: None) -> Any:
    if not state.site.has_token:
        wanted = "bridle serve --token, or the signal SIGHUP"
        raise HttpError(403, "reload", "only servers with a token reload for a request", wanted=wanted)
    return ReadyAnswer("READY", await asyncio.to_thread(state.site.reload))


async def _webhook(state: State, request: Any) -> Any:
    if (corrections := state.site.corrections) is None:
        return WebhookAnswer("ignored")
    event = msgspec.json.decode(bytes(request))

    def take() -> WebhookAnswer:
        return WebhookAnswer(corrections.take(event) if isinstance(event, dict) else "ignored")

    return await state.call(take)


_MODEL = _at_once(lambda state: state.service.describe())
_MODELS = _at_once(lambda state: ModelsAnswer([each.service.describe() for each in state.site.states.values()]))
_HEALTH = _at_once(lambda state: HealthAnswer("UP", state.service.name))
_READY = _at_once(lambda state: ReadyAnswer("READY", list(state.site.states)))
_METRICS = _at_once(lambda state: state.metrics.text().encode())
_SENTENCES = _at_once(lambda state: list_sentences(state.service))
_VERSION = _at_once(lambda state: SetupAnswer(labelstudio.model_version(state.service)))
_SAMPLE = _in_thread(lambda state, _: state.data.sample().answer)
_UPLOAD = _in_thread(lambda state, request: state.data.add(request).answer)
_FILE = _in_thread(lambda state, _: workspace_of(state).read())
_SAVE = _in_thread(lambda state, request: workspace_of(state).save(request))

_BUSY = (413, 429, 504)
_NAMED = (404, *_BUSY)
_UNREAD = msgspec.Raw  # a body that is not parsed
ENDPOINTS = (
    Endpoint("/tag", "Label texts or tokens.", _tag, TagAnswer, TagRequest, _NAMED),
    Endpoint(
        "/decode", "Label sequences by their scores.", _work(tagging.decode_scores), TagAnswer, DecodeRequest, _NAMED
    ),
    Endpoint(
        "/explain",
        "Explain the labels of a sequence.",
        _work(tagging.explain_labels),
        ExplainAnswer,
        ExplainRequest,
        _NAMED,
    ),
    Endpoint("/rules/check", "Check rules.", _work(check_rules), CheckAnswer, RulesText, _BUSY),
    Endpoint("/rules/test", "Run the test cases in rules.", _work(run_test_cases), TestAnswer, RulesText, _BUSY),
    Endpoint("/sentences", "List the sentences that rules are written with.", _SENTENCES, SentencesAnswer),
    Endpoint("/data", "Upload data to show and to evaluate rules on.", _UPLOAD, DataAnswer, DataRequest, _BUSY),
    Endpoint("/data/sample", "Get the data of the server.", _SAMPLE, DataAnswer, errors=(404, 429, 504)),
    Endpoint("/evaluate", "Evaluate rules on data.", _in_thread(_evaluate), EvaluateAnswer, EvaluateRequest, _NAMED),
    Endpoint(
        "/suggest", "Suggest rules that repair a label.", _in_thread(_suggest), SuggestAnswer, SuggestRequest, _NAMED
    ),
    Endpoint("/curves", "Measure penalties of rules.", _in_thread(_curves), CurvesAnswer, CurvesRequest, _NAMED),
    Endpoint(
        "/jobs", "Begin to tune or to learn rules.", _in_thread(_start_job), JobAnswer, JobRequest, (403, 409, *_NAMED)
    ),
    Endpoint("/jobs/state", "Ask how far a job is, or stop it.", _ask_job, JobAnswer, JobQuestion, (404,)),
    Endpoint("/rules/file", "Get the .rules file.", _FILE, RulesFile, errors=(403, 404, 429, 504)),
    Endpoint("/rules/save", "Save the .rules file.", _SAVE, RulesFile, SaveRequest, (403, 409, *_NAMED)),
    Endpoint("/model/open", "Use another model.", _open_model, ModelAnswer, OpenRequest, (403, 413)),
    Endpoint("/model", "Describe the model, the rules and the limits.", _MODEL, ModelAnswer),
    Endpoint("/health", "Report that the server is up.", _HEALTH, HealthAnswer),
    Endpoint("/ready", "Report that the models are loaded.", _READY, ReadyAnswer),
    Endpoint("/models", "Describe all models.", _MODELS, ModelsAnswer),
    Endpoint("/reload", "Load models and rules again.", _reload, ReadyAnswer, errors=(403, 409, 422), changes=True),
    Endpoint("/metrics", "Get counters in the text format of Prometheus.", _METRICS, str, content_type=TYPE),
    Endpoint(
        "/predict", "Label tasks of Label Studio.", _work(labelstudio.predict), PredictAnswer, PredictRequest, _BUSY
    ),
    Endpoint("/setup", "Get the version of the model, for Label Studio.", _VERSION, SetupAnswer, _UNREAD),
    Endpoint("/webhook", "Store the annotation of an event of Label Studio.", _webhook, WebhookAnswer, _UNREAD),
)

# ---- OpenAPI --------------------------------------------------------------------------------------------------------

_STATUS_TEXTS = {
    400: "The body is not JSON.",
    401: "A token is needed.",
    403: "The server was not started in a way that allows this.",
    404: "There is no such model, rule set, data, job or file.",
    405: "The path has no such method.",
    409: "The server cannot do this now: models, a file that was changed, or another job.",
    408: "The body did not come in time.",
    413: "The request is over a limit.",
    415: "The body is not declared as JSON.",
    421: "The server is not known by this name.",
    422: "A value does not fit, or a rule cannot be read.",
    429: "Too many requests are waiting.",
    503: "The server is stopping, or answers too many requests.",
    504: "The request took too long.",
}
_ALWAYS = (401, 405, 421, 503)
_WITH_BODY = (400, 408, 413, 415, 422)


def describe_api(service: Service) -> bytes:
    """Return the OpenAPI description, generated from the structs that requests are checked against."""
    from bridle import __version__

    structs = [struct for each in ENDPOINTS for struct in (each.request, each.answer) if struct not in (None, str)]
    structs = [*dict.fromkeys(structs), Failure]
    schemas, components = msgspec.json.schema_components(structs, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(structs, schemas, strict=True))
    paths: dict[str, Any] = {}
    for each in ENDPOINTS:
        paths.setdefault(each.path, {})[each.method.lower()] = _describe_operation(each, schema_of)
    description = {
        "openapi": "3.1.0",
        "info": {
            "title": "Bridle",
            "version": __version__,
            "summary": "The best labelling of a sequence that obeys your rules.",
            "description": f"Labels sequences with the model {service.name!r}.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }
    return msgspec.json.format(_encode(description), indent=1)


def _describe_operation(endpoint: Endpoint, schema_of: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    media = endpoint.content_type.partition(";")[0]
    schema = {"type": "string"} if endpoint.answer is str else schema_of[endpoint.answer]
    errors = sorted({*_ALWAYS, *endpoint.errors, *(_WITH_BODY if endpoint.request is not None else ())})
    failure = {"content": {"application/json": {"schema": schema_of[Failure]}}}
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": f"{endpoint.method.lower()}{endpoint.path.replace('/', '_')}",
        "responses": {
            "200": {"description": "The answer.", "content": {media: {"schema": schema}}},
            **{str(status): {"description": _STATUS_TEXTS[status], **failure} for status in errors},
        },
    }
    if endpoint.request is not None:
        body = {"application/json": {"schema": schema_of[endpoint.request]}}
        operation["requestBody"] = {"required": True, "content": body}
    return operation
