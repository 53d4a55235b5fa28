"""The application: which endpoint does what."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route, Router

from bridle.serve.endpoints import ENDPOINTS, Endpoint
from bridle.serve.guard import BODY, App, Guard, Receive, Scope, Send, respond, while_connected
from bridle.serve.openapi import description
from bridle.serve.pages import Page, Static, docs_page
from bridle.serve.problems import HttpError, too_large
from bridle.serve.service import Service
from bridle.serve.state import State

_encode = msgspec.json.Encoder().encode
_HALF_OF_A_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]")


def create_app(
    service: Service,
    *,
    token: str | None = None,
    origins: Sequence[str] = (),
    hosts: Collection[str] | None = None,
) -> App:
    """Make the ASGI application of a service.

    Parameters
    ----------
    service : Service
        The model, rules and limits.
    token : str, optional
        What requests must bring; by default nothing.
    origins : sequence of str, optional
        Other sites whose pages may call the server (CORS); by default none.
    hosts : collection of str, optional
        Names by which the server may be called; None: any.

    Returns
    -------
    ASGI application
        Run it with any ASGI server. Its attribute `state` is the `State`.
    """
    static = Static()
    paths = tuple(dict.fromkeys([one.path for one in ENDPOINTS] + ["/", "/docs", "/openapi.json"]))
    state = State(service, paths)
    rows = [(one.method, one.path, one.summary) for one in ENDPOINTS]
    pages = {"/": static.index, "/docs": docs_page(rows), "/openapi.json": Page.of(description(service), ".json")}
    routes = [Route(one.path, _Json(one, state), methods=[one.method]) for one in ENDPOINTS]
    routes += [Route(path, page, methods=["GET"]) for path, page in pages.items()]
    routes += [Route("/static/{path:path}", static, methods=["GET"])]
    routed = _Routed(Router(routes, redirect_slashes=False, lifespan=partial(_lifespan, state=state)))
    made: Any = Guard(
        routed, service.limits, state.metrics, token=token, hosts=hosts, is_stopping=lambda: state.is_stopping
    )
    if origins:
        made = CORSMiddleware(
            made, allow_origins=list(origins), allow_methods=["GET", "POST"], allow_headers=["authorization"]
        )
    made.state = state
    app: App = made
    return app


class _Json:
    """An endpoint as an ASGI application: bytes in, bytes out."""

    def __init__(self, endpoint: Endpoint, state: State) -> None:
        self._state, self._handle, self._kind = state, endpoint.handle, endpoint.kind.encode()
        self._most_lists = state.service.limits.tokens + state.service.limits.sequences + 1000
        self._decode: Callable[[bytes], Any] | None = None
        if endpoint.request is not None:
            self._decode = msgspec.json.Decoder(endpoint.request).decode

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = None if self._decode is None else decoded(self._decode, await scope[BODY](), self._most_lists)
        answer = await while_connected(receive, self._handle(self._state, request))
        await respond(send, 200, answer if isinstance(answer, bytes) else _encode(answer), self._kind)


def decoded(decode: Callable[[bytes], Any], body: bytes, most_lists: int) -> Any:
    """The request that a body holds. A million empty lists would hold up all others while they are read."""
    if len(body) > most_lists and (lists := body.count(b"[")) > most_lists:
        raise too_large("lists", "the request has too many lists", lists, most_lists)
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        wanted = "what GET /openapi.json describes"
        raise HttpError(422, "bad-value", "the request does not fit", got=str(error), wanted=wanted) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if _HALF_OF_A_PAIR.search(body):
            what = "a string has half of a surrogate pair"
            raise HttpError(422, "surrogate", what, got=str(error), wanted="text that UTF-8 can hold") from None
        raise HttpError(400, "not-json", "the body is not JSON", got=str(error), wanted="JSON in UTF-8") from None


class _Routed:
    """Starlette's router, whose refusals are our errors."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self  # the router then raises where it would send a page of its own
        try:
            await self._router(scope, receive, send)  # type: ignore[arg-type]
        except HTTPException as error:
            path, method = scope["path"], scope["method"]
            if error.status_code == 405:
                wanted = (error.headers or {}).get("Allow", "another method")
                raise HttpError(405, "method", f"{path} has no such method", got=method, wanted=wanted) from None
            wanted = "a path that GET /docs lists"
            raise HttpError(404, "not-found", "there is no such path", got=path, wanted=wanted) from None


@asynccontextmanager
async def _lifespan(_app: object, state: State) -> AsyncIterator[None]:
    yield
    state.close()
