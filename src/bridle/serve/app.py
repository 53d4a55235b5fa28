"""The ASGI application of a service: endpoints, pages of the explorer, and uvicorn to run them."""

from __future__ import annotations

import gc
import hashlib
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Collection, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import FrameType
from typing import Any

import msgspec
import uvicorn
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route, Router

from bridle.errors import BridleError
from bridle.interrupts import INTERRUPTED, stop_at_once
from bridle.serve.endpoints import ENDPOINTS, Endpoint, State, describe_api
from bridle.serve.errors import HttpError, too_large
from bridle.serve.guard import BODY, App, Guard, Receive, Scope, Send, respond, while_connected
from bridle.serve.service import Service

GRACE = 2.0  # seconds beyond the time of a request for sending answers
TURN = 0.0005  # seconds for which a thread keeps the interpreter while the event loop waits for it
CONTENT_TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".ico": b"image/x-icon",
    ".js": b"text/javascript; charset=utf-8",
    ".json": b"application/json",
    ".png": b"image/png",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
}
_BACKLOG = 1024
_encode = msgspec.json.Encoder().encode
_LONE_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]")


def create_app(
    service: Service,
    *,
    token: str | None = None,
    origins: Sequence[str] = (),
    hosts: Collection[str] | None = None,
) -> App:
    """Create the ASGI application of a service.

    Parameters
    ----------
    service : Service
        The model, rules and limits.
    token : str, optional
        Token that requests must bring; by default none.
    origins : sequence of str, optional
        Other sites whose pages may call the server (CORS); by default none.
    hosts : collection of str, optional
        Names by which the server may be called; None allows any.

    Returns
    -------
    ASGI application
        Run it with any ASGI server. Its attribute `state` is the `State`.
    """
    pages = _static_pages(files("bridle.serve") / "static")
    made_pages = {
        "/": pages["index.html"],
        "/docs": _list_endpoints(),
        "/openapi.json": Page.of(describe_api(service), ".json"),
    }
    state = State(service, tuple(dict.fromkeys([*(each.path for each in ENDPOINTS), *made_pages])))
    routes = [Route(each.path, _JsonEndpoint(each, state), methods=[each.method]) for each in ENDPOINTS]
    routes += [Route(path, page, methods=["GET"]) for path, page in made_pages.items()]
    routes += [Route(f"/static/{name}", page, methods=["GET"]) for name, page in pages.items()]
    router = _ErrorRouter(Router(routes, redirect_slashes=False, lifespan=partial(_lifespan, state=state)))
    guarded: Any = Guard(
        router, service.limits, state.metrics, token=token, hosts=hosts, is_stopping=lambda: state.is_stopping
    )
    if origins:
        guarded = CORSMiddleware(
            guarded, allow_origins=list(origins), allow_methods=["GET", "POST"], allow_headers=["authorization"]
        )
    guarded.state = state
    app: App = guarded
    return app


class _JsonEndpoint:
    """An endpoint as an ASGI application that reads and writes JSON."""

    def __init__(self, endpoint: Endpoint, state: State) -> None:
        self._state, self._handle, self._content_type = state, endpoint.handle, endpoint.content_type.encode()
        self._max_lists = state.service.limits.tokens + state.service.limits.sequences + 1000
        self._decode: Callable[[bytes], Any] | None = None
        if endpoint.request is not None:
            self._decode = msgspec.json.Decoder(endpoint.request).decode

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = None if self._decode is None else parse_body(self._decode, await scope[BODY](), self._max_lists)
        answer = await while_connected(receive, self._handle(self._state, request))
        await respond(send, 200, answer if isinstance(answer, bytes) else _encode(answer), self._content_type)


def parse_body(decode: Callable[[bytes], Any], body: bytes, max_lists: int) -> Any:
    """Parse a body. The number of lists is limited, because a million empty ones would block the event loop."""
    if len(body) > max_lists and (lists := body.count(b"[")) > max_lists:
        raise too_large("lists", "the request has too many lists", lists, max_lists)
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        what, wanted = "the request does not fit", "what GET /openapi.json describes"
        raise HttpError(422, "bad-value", what, got=str(error), wanted=wanted) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if _LONE_SURROGATE.search(body):
            what, wanted = "a string has half of a surrogate pair", "text that UTF-8 can hold"
            raise HttpError(422, "surrogate", what, got=str(error), wanted=wanted) from None
        raise HttpError(400, "not-json", "the body is not JSON", got=str(error), wanted="JSON in UTF-8") from None


class _ErrorRouter:
    """Starlette's router, with errors of Bridle for unknown paths and methods."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self  # makes the router raise instead of sending a page of its own
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


# ---- pages ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Page:
    """A file in memory with its type and entity tag, as an ASGI application."""

    body: bytes
    content_type: bytes
    tag: bytes

    @classmethod
    def of(cls, body: bytes, suffix: str) -> Page:
        """Make a page of some bytes."""
        return cls(body, CONTENT_TYPES[suffix], b'"' + hashlib.sha256(body).hexdigest()[:32].encode() + b'"')

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the page, or status 304 if the client has it."""
        headers = [(b"cache-control", b"no-cache"), (b"etag", self.tag)]
        cached = next((value for name, value in scope["headers"] if name == b"if-none-match"), b"")
        status, body = 200, b"" if scope["method"] == "HEAD" else self.body
        if self.tag in [tag.strip() for tag in cached.split(b",")]:
            status, body = 304, b""
        else:
            size = str(len(self.body)).encode()
            headers = [(b"content-type", self.content_type), (b"content-length", size), *headers]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _static_pages(folder: Traversable, prefix: str = "") -> dict[str, Page]:
    """Read all files of a folder, by their paths."""
    pages = dict[str, Page]()
    for path in folder.iterdir():
        suffix = "." + path.name.rpartition(".")[2]
        if path.is_dir():
            pages |= _static_pages(path, f"{prefix}{path.name}/")
        elif suffix in CONTENT_TYPES:
            pages[prefix + path.name] = Page.of(path.read_bytes(), suffix)
    return pages


def _list_endpoints() -> Page:
    """Make the page that lists the endpoints."""
    rows = "".join(
        f"<tr><td>{each.method}</td><td><code>{each.path}</code></td><td>{escape(each.summary)}</td></tr>"
        for each in ENDPOINTS
    )
    text = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Bridle: endpoints</title>
<link rel="stylesheet" href="static/style.css">
<main>
<h1>Endpoints</h1>
<p>The complete description is <a href="openapi.json">openapi.json</a> (OpenAPI 3.1).
The explorer is <a href="./">here</a>.</p>
<table><tr><th>method</th><th>path</th><th>description</th></tr>{rows}</table>
</main>
</html>
"""
    return Page.of(text.encode(), ".html")


# ---- running --------------------------------------------------------------------------------------------------------


def run(
    service: Service,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    origins: Sequence[str] = (),
    hosts: Collection[str] | None = None,
    connections: int = 1000,
    log: str = "warning",
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve until SIGTERM or Ctrl-C. Requests in flight are answered; a second Ctrl-C ends the process at once.

    Parameters
    ----------
    service : Service
        The service.
    host, port : str, int
        Address to listen on; port 0 takes a free one.
    token, origins, hosts : optional
        As in `create_app`.
    connections : int, default 1000
        Connections and requests at the same time; further ones get the status 503.
    log : str, default "warning"
        Level of the log; "info" also logs each request.
    ready : callable, optional
        Called with the address when the server listens.

    Raises
    ------
    BridleError
        If the address cannot be used.
    KeyboardInterrupt
        If Ctrl-C ended it.
    """
    app: Any = create_app(service, token=token, origins=origins, hosts=hosts)
    with _listen(host, port) as listener, _switch_interval(TURN):
        config = uvicorn.Config(
            app,
            log_level=log,
            access_log=log in ("info", "debug"),
            ws="none",
            lifespan="on",
            server_header=False,
            limit_concurrency=connections,
            timeout_graceful_shutdown=int(service.limits.seconds + GRACE) + 1,
        )
        server = _Server(config, lambda: setattr(app.state, "is_stopping", True))
        name = f"[{host}]" if ":" in host else host
        gc.collect()
        gc.freeze()  # collections need not visit the model
        ready(f"http://{name}:{listener.getsockname()[1]}")
        server.run(sockets=[listener])
        if not app.state.join(GRACE):  # Python cannot end while a thread is in a kernel that does not check its stop
            sys.stderr.flush()
            os._exit(INTERRUPTED if server.interrupted else 0)
    if server.interrupted:
        raise KeyboardInterrupt


class _Server(uvicorn.Server):
    """A server that ends with exit code 0 after SIGTERM; `interrupted` is True after Ctrl-C."""

    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_stop, self.interrupted = on_stop, False

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._on_stop()
        self.should_exit = True
        if sig == signal.SIGINT:
            self.interrupted = True
            stop_at_once()


@contextmanager
def _switch_interval(seconds: float) -> Generator[None, None, None]:
    """Shorten the turns of threads from 5 ms: answers wait for the turn of a thread that decodes."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextmanager
def _listen(host: str, port: int) -> Generator[socket.socket, None, None]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(_BACKLOG)
        except (OSError, OverflowError) as error:
            got = getattr(error, "strerror", None) or str(error)
            cause = "Is another server running there? --port 0 takes a free port." if port else None
            what = f"cannot listen on {host}:{port}"
            raise BridleError(what, got=got, wanted="a free port of this machine", cause=cause) from None
        yield listener
