"""The ASGI application of a service: endpoints and pages of the explorer."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import msgspec
from starlette.middleware.cors import CORSMiddleware

from bridle.serve.endpoints import ENDPOINTS, Endpoint, Site, State, describe_api
from bridle.serve.errors import HttpError, too_large
from bridle.serve.guard import BODY, App, Guard, Receive, Scope, Send, respond, while_connected
from bridle.serve.labelstudio import Corrections
from bridle.serve.limits import Limits
from bridle.serve.service import Service

STATE = "bridle.state"  # key of the state of the model in the scope

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
_encode = msgspec.json.Encoder().encode
_LONE_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]")


def create_app(
    services: Service | Sequence[Service],
    *,
    load: Callable[[], Sequence[Service]] | None = None,
    corrections: Corrections | None = None,
    token: str | None = None,
    origins: Sequence[str] = (),
    hosts: Collection[str] | None = None,
    requests: int | None = None,
    log_requests: bool = False,
) -> App:
    """Create the ASGI application of one or several services.

    Parameters
    ----------
    services : Service or sequence of Service
        Models, their rules and limits; the first one answers requests that name none.
    load : callable, optional
        Makes the services again from their files, for ``POST /reload`` and SIGHUP.
    corrections : Corrections, optional
        The file that takes annotations of Label Studio.
    token : str, optional
        Token that requests must send; by default none.
    origins : sequence of str, optional
        Other sites whose pages may call the server (CORS); by default none.
    hosts : collection of str, optional
        Names by which the server may be called; None allows any.
    requests : int, optional
        Requests at the same time; further ones get the status 503, except for /health, /ready and /metrics.
    log_requests : bool, default False
        Whether the logger ``bridle.serve`` gets a line for each request.

    Returns
    -------
    ASGI application
        Run it with any ASGI server. Its attribute `state` is the `Site`.
    """
    services = [services] if isinstance(services, Service) else list(services)
    pages = _static_pages(files("bridle.serve") / "static")
    made_pages = {
        "/": pages["index.html"],
        "/docs": _list_endpoints(),
        "/openapi.json": Page.of(describe_api(services[0]), ".json"),
    }
    paths = tuple(dict.fromkeys([*(each.path for each in ENDPOINTS), *made_pages]))
    site = Site(services, paths, load=load, corrections=corrections, has_token=token is not None)
    limits = services[0].limits
    routes: dict[str, tuple[str, App]] = {each.path: (each.method, _JsonEndpoint(each, limits)) for each in ENDPOINTS}
    routes |= {path: ("GET", page) for path, page in made_pages.items()}
    routes |= {f"/static/{name}": ("GET", page) for name, page in pages.items()}
    router = _Router(routes, site)
    guarded: Any = Guard(
        router,
        limits,
        site.metrics,
        token=token,
        hosts=hosts,
        requests=requests,
        log_requests=log_requests,
        is_stopping=lambda: site.is_stopping,
    )
    guarded = _Paths(guarded, site)
    if origins:
        guarded = CORSMiddleware(
            guarded, allow_origins=list(origins), allow_methods=["GET", "POST"], allow_headers=["authorization"]
        )
    guarded.state = site
    app: App = guarded
    return app


class _Paths:
    """An application that gets the state of a model in the scope, and the path without version and model.

    ``/v1/tag`` and ``/tag`` are the same; ``/v1/models/NAME/tag`` names a model.
    """

    def __init__(self, app: App, site: Site) -> None:
        self._app, self.state = app, site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path: str = scope["path"]
            state: State | None = self.state.default
            if path.startswith("/v1/"):
                path = path.removeprefix("/v1")
                if path.startswith("/models/"):
                    name, _, rest = path.removeprefix("/models/").partition("/")
                    path, state = f"/{rest}", self.state.states.get(name)
            scope = {**scope, "path": path, STATE: state}
        await self._app(scope, receive, send)


class _JsonEndpoint:
    """An endpoint as an ASGI application that reads and writes JSON."""

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        self._handle, self._content_type = endpoint.handle, endpoint.content_type.encode()
        self._max_lists = limits.tokens + limits.sequences + 1000
        self._decode: Callable[[bytes], Any] | None = None
        if endpoint.request is not None:
            self._decode = msgspec.json.Decoder(endpoint.request).decode

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = None if self._decode is None else parse_body(self._decode, await scope[BODY](), self._max_lists)
        answer = await while_connected(receive, self._handle(scope[STATE], request))
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


class _Router:
    """An application that finds the endpoint or page of a path, and ends the threads when the server stops."""

    def __init__(self, routes: Mapping[str, tuple[str, App]], site: Site) -> None:
        self._routes, self._site = routes, site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for stage in ("startup", "shutdown"):
                await receive()
                if stage == "shutdown":
                    self._site.close()
                await send({"type": f"lifespan.{stage}.complete"})
            return
        if scope[STATE] is None:
            wanted = "a model that GET /models lists"
            raise HttpError(404, "unknown-model", "there is no such model", wanted=wanted)
        path, used = scope["path"], scope["method"]
        if path not in self._routes:
            wanted = "a path that GET /docs lists"
            raise HttpError(404, "not-found", "there is no such path", got=path, wanted=wanted)
        method, app = self._routes[path]
        if used != method and (used, method) != ("HEAD", "GET"):
            wanted = "GET, HEAD" if method == "GET" else method
            raise HttpError(405, "method", f"{path} has no such method", got=used, wanted=wanted)
        await app(scope, receive, send)


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
