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
from bridle.serve.checking import check_rules, list_sentences, run_test_cases
from bridle.serve.data_cache import DataCache, evaluate_rules
from bridle.serve.errors import HttpError
from bridle.serve.jobs import Jobs
from bridle.serve.lanes import Job, Lane
from bridle.serve.loop_schemas import (
    CurvesAnswer,
    CurvesRequest,
    JobAnswer,
    JobQuestion,
    JobRequest,
    OpenRequest,
    RulesFile,
    SaveRequest,
    SuggestAnswer,
    SuggestRequest,
)
from bridle.serve.metrics import TYPE, Metrics
from bridle.serve.schemas import (
    CheckAnswer,
    DataAnswer,
    DataRequest,
    DecodeRequest,
    EvaluateAnswer,
    EvaluateRequest,
    ExplainAnswer,
    ExplainRequest,
    Failure,
    HealthAnswer,
    ModelAnswer,
    ModelsAnswer,
    PredictAnswer,
    PredictRequest,
    ReadyAnswer,
    RulesText,
    SentencesAnswer,
    SetupAnswer,
    TagAnswer,
    TagRequest,
    TestAnswer,
    WebhookAnswer,
)
from bridle.serve.service import Service
from bridle.serve.suggesting import suggest_rules
from bridle.serve.workspace import Workspace, read_model

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
        self.service, self.site, self.metrics = service, site, site.metrics
        self.data, self.jobs = DataCache(service), Jobs()
        lane = partial(Lane, max_waiting=service.limits.waiting, after=service.measure)
        batches = partial(lane, run=tagging.run_tagging, batch_size=BATCH_TOKENS, on_batch=self.metrics.count_batch)
        self.server_rules = batches("server_rules", threads=thread_count(service.threads))
        self.request_rules = batches("request_rules", threads=WORKERS)
        self.others = lane("others", _call, threads=WORKERS)
        self.lanes = (self.server_rules, self.request_rules, self.others)

    async def call(self, work: Callable[[], Any]) -> Any:
        """Call a function in a thread."""
        return await self.others.submit(work, self.service.limits.seconds)

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
    """A path and a method."""

    method: str
    path: str
    summary: str
    handle: Handler
    answer: Any  # a struct, or str for plain text
    request: Any = None  # a struct; None without a body
    errors: tuple[int, ...] = ()  # statuses besides those of all endpoints
    content_type: str = "application/json"


async def _tag(state: State, request: TagRequest) -> Any:
    service = state.service
    trusted = service.book.find(request.rules, request.rule_set) is not None
    lane = state.server_rules if trusted else state.request_rules
    size = len(request.texts or request.tokens or request.columns or ()) * _SEQUENCE_TOKENS
    return await lane.submit(tagging.TagWork(service, request, state.metrics), service.limits.seconds, size)


def _in_thread(function: Callable[[Service, Any], Any]) -> Handler:
    async def handle(state: State, request: Any) -> Any:
        return await state.call(partial(function, state.service, request))

    return handle


async def _upload(state: State, request: DataRequest) -> Any:
    return await state.call(lambda: state.data.add(request).answer)


async def _sample(state: State, _request: None) -> Any:
    sample = state.data.sample()
    return await state.call(lambda: sample.answer)


async def _evaluate(state: State, request: EvaluateRequest) -> Any:
    service, data = state.service, state.data.get(request.data)

    def evaluate() -> Any:
        rules = service.book.read(request.rules, request.rule_set)
        return evaluate_rules(service, data, rules, request.budget)

    return await state.call(evaluate)


async def _suggest(state: State, request: SuggestRequest) -> Any:
    data = None if request.data is None else state.data.get(request.data)

    def suggest() -> Any:
        rules = state.service.book.read(request.rules, request.rule_set)
        return suggest_rules(state.service, request, rules, None if data is None else data.gold)

    return await state.call(suggest)


async def _curves(state: State, request: CurvesRequest) -> Any:
    data = state.data.get(request.data)

    def draw() -> Any:
        rules = state.service.book.read(request.rules, request.rule_set)
        return tuning.draw_curves(state.service, data, rules, request.lines, request.budget)

    return await state.call(draw)


async def _start_job(state: State, request: JobRequest) -> Any:
    workspace_of(state.service)
    service, data = state.service, state.data.get(request.data)
    rules = service.book.read(request.rules, request.rule_set)

    def work(say: Callable[[str], None]) -> Any:
        if request.kind == "learn":
            return tuning.learn_more(service, data, rules, say)
        if request.line is not None:
            return tuning.tune_line(service, data, rules, request.line, say)
        return tuning.tune_all(service, data, rules, say)

    return state.jobs.start(work).describe()


async def _ask_job(state: State, request: JobQuestion) -> Any:
    job = state.jobs.get(request.job)
    if request.stop:
        job.stop()
    return job.describe()


async def _read_rules(state: State, _request: None) -> Any:
    return await state.call(workspace_of(state.service).read)


async def _save_rules(state: State, request: SaveRequest) -> Any:
    return await state.call(partial(workspace_of(state.service).save, request))


async def _open_model(state: State, request: OpenRequest) -> Any:
    workspace, old = workspace_of(state.service), state.service

    def open_model() -> Any:
        tagger = read_model(request)
        name = request.name.removesuffix(".bridle") or "model"
        return Service(tagger, name, limits=old.limits, threads=old.threads, workspace=workspace)

    service = await asyncio.to_thread(open_model)
    state.site.use([service])
    return service.describe()


def workspace_of(service: Service) -> Workspace:
    """Return the workspace of a service; raise if it has none."""
    if service.workspace is None:
        what, wanted = "this server writes no files and learns no rules", "bridle explore, on your own machine"
        raise HttpError(403, "workspace", what, wanted=wanted)
    return service.workspace


async def _sentences(state: State, _request: None) -> Any:
    return list_sentences(state.service)


async def _model(state: State, _request: None) -> Any:
    return state.service.describe()


async def _health(state: State, _request: None) -> Any:
    return HealthAnswer("UP", state.service.name)


async def _metrics(state: State, _request: None) -> Any:
    return state.metrics.text().encode()


async def _ready(state: State, _request: None) -> Any:
    return ReadyAnswer("READY", list(state.site.states))


async def _models(state: State, _request: None) -> Any:
    return ModelsAnswer([each.service.describe() for each in state.site.states.values()])


async def _reload(state: State, _request: None) -> Any:
    if not state.site.has_token:
        wanted = "bridle serve --token, or the signal SIGHUP"
        raise HttpError(403, "reload", "only servers with a token reload for a request", wanted=wanted)
    return ReadyAnswer("READY", await asyncio.to_thread(state.site.reload))


async def _setup(state: State, _request: Any) -> Any:
    return SetupAnswer(labelstudio.model_version(state.service))


async def _webhook(state: State, request: Any) -> Any:
    if (corrections := state.site.corrections) is None:
        return WebhookAnswer("ignored")
    event = parse_event(bytes(request))
    return await state.call(lambda: WebhookAnswer("stored" if corrections.store(event) else "ignored"))


def parse_event(body: bytes) -> dict[str, Any]:
    """Parse an event of Label Studio."""
    event = msgspec.json.decode(body)
    return event if isinstance(event, dict) else {}


_WORK = (413, 429, 504)
_NAMED = (404, *_WORK)
_UNREAD = msgspec.Raw  # a body that is not parsed
ENDPOINTS = (
    Endpoint("POST", "/tag", "Label texts or tokens.", _tag, TagAnswer, TagRequest, _NAMED),
    Endpoint(
        "POST",
        "/decode",
        "Label sequences by their scores.",
        _in_thread(tagging.decode_scores),
        TagAnswer,
        DecodeRequest,
        _NAMED,
    ),
    Endpoint(
        "POST",
        "/explain",
        "Explain the labels of a sequence.",
        _in_thread(tagging.explain_labels),
        ExplainAnswer,
        ExplainRequest,
        _NAMED,
    ),
    Endpoint("POST", "/rules/check", "Check rules.", _in_thread(check_rules), CheckAnswer, RulesText, _WORK),
    Endpoint(
        "POST", "/rules/test", "Run the test cases in rules.", _in_thread(run_test_cases), TestAnswer, RulesText, _WORK
    ),
    Endpoint("GET", "/sentences", "List the sentences that rules are written with.", _sentences, SentencesAnswer),
    Endpoint("POST", "/data", "Upload data to show and to evaluate rules on.", _upload, DataAnswer, DataRequest, _WORK),
    Endpoint("GET", "/data/sample", "Get the data of the server.", _sample, DataAnswer, errors=(404, 429, 504)),
    Endpoint("POST", "/evaluate", "Evaluate rules on data.", _evaluate, EvaluateAnswer, EvaluateRequest, _NAMED),
    Endpoint("POST", "/suggest", "Suggest rules that repair a label.", _suggest, SuggestAnswer, SuggestRequest, _NAMED),
    Endpoint("POST", "/curves", "Measure penalties of rules.", _curves, CurvesAnswer, CurvesRequest, _NAMED),
    Endpoint(
        "POST", "/jobs", "Begin to tune or to learn rules.", _start_job, JobAnswer, JobRequest, (403, 409, *_NAMED)
    ),
    Endpoint("POST", "/jobs/state", "Ask how far a job is, or stop it.", _ask_job, JobAnswer, JobQuestion, (404,)),
    Endpoint("GET", "/rules/file", "Get the .rules file.", _read_rules, RulesFile, errors=(403, 404, 429, 504)),
    Endpoint("POST", "/rules/save", "Save the .rules file.", _save_rules, RulesFile, SaveRequest, (403, 409, *_NAMED)),
    Endpoint("POST", "/model/open", "Use another model.", _open_model, ModelAnswer, OpenRequest, (403, 413)),
    Endpoint("GET", "/model", "Describe the model, the rules and the limits.", _model, ModelAnswer),
    Endpoint("GET", "/health", "Report that the server is up.", _health, HealthAnswer),
    Endpoint("GET", "/ready", "Report that the models are loaded.", _ready, ReadyAnswer),
    Endpoint("GET", "/models", "Describe all models.", _models, ModelsAnswer),
    Endpoint("POST", "/reload", "Load models and rules again.", _reload, ReadyAnswer, errors=(403, 409, 422)),
    Endpoint("GET", "/metrics", "Get counters in the text format of Prometheus.", _metrics, str, content_type=TYPE),
    Endpoint(
        "POST",
        "/predict",
        "Label tasks of Label Studio.",
        _in_thread(labelstudio.predict),
        PredictAnswer,
        PredictRequest,
        _WORK,
    ),
    Endpoint("POST", "/setup", "Get the version of the model, for Label Studio.", _setup, SetupAnswer, _UNREAD),
    Endpoint("POST", "/webhook", "Store the annotation of an event of Label Studio.", _webhook, WebhookAnswer, _UNREAD),
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
