"""ASGI middleware in front of the endpoints: host, token, size of the body, security headers, metrics, errors.

It is plain ASGI, without request objects of a framework, because every request passes through it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any

from bridle.serve.errors import HttpError, as_http_error, too_large
from bridle.serve.limits import Limits
from bridle.serve.metrics import Metrics

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY = "bridle.body"  # key of the function in the scope that reads the body
JSON = b"application/json"
_POLICY = "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
SECURITY = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_ASK_FOR_PASSWORD = (b"www-authenticate", b'Basic realm="bridle", charset="UTF-8"')  # browsers show a form
_RETRY = (b"retry-after", b"1")
_WATCH_AFTER = 0.01  # seconds until disconnects are watched for; most requests are shorter
OPEN = ("/health", "/ready")  # paths that need no token, for load balancers
RESERVED = (*OPEN, "/metrics")  # paths that are answered however many requests there are
_REQUEST_ID = b"x-request-id"  # of the client, if it sends one; in the answer and in the log
_GOOD_ID = re.compile(rb"[\w.:-]{1,128}")
_log = logging.getLogger("bridle.serve")


class Guard:
    """Middleware that checks requests before they reach the endpoints, and sends errors as JSON.

    Requests must send `token`, as ``Authorization: Bearer TOKEN`` or as the password of Basic. `hosts` are the allowed
    Host headers, None for any: they keep pages of other sites from reaching a server on localhost (DNS rebinding).
    """

    def __init__(
        self,
        app: App,
        limits: Limits,
        metrics: Metrics,
        *,
        token: str | None = None,
        hosts: Collection[str] | None = None,
        requests: int | None = None,
        log_requests: bool = False,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._app, self._limits, self._metrics, self._is_stopping = app, limits, metrics, is_stopping
        self._log_requests = log_requests
        self._requests = float("inf") if requests is None else requests
        self._reading = self._held = 0  # requests whose bodies are being received; bytes of all bodies
        self._token = None if token is None else token.strip().encode()  # secrets from files end with a line break
        self._hosts = None if hosts is None else frozenset(host.lower().encode() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status, metrics, headers = time.perf_counter(), 0, self._metrics, dict(scope["headers"])
        held = 0  # bytes of its body
        request_id = headers.get(_REQUEST_ID, b"")
        if not _GOOD_ID.fullmatch(request_id):
            request_id = secrets.token_hex(8).encode()

        async def send_secured(message: dict[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *SECURITY, (_REQUEST_ID, request_id)]
            await send(message)

        def hold(size: int) -> None:
            nonlocal held
            held += size
            self._held += size
            _check_size(held, self._limits.body_bytes)
            if self._held > self._limits.all_bodies:
                what, wanted = "the bodies of all requests are too large together", f"{self._limits.all_bodies:,} bytes"
                raise HttpError(503, "busy", what, got=f"{self._held:,} bytes", wanted=wanted)

        metrics.in_flight += 1
        try:
            self._admit(scope, headers)
            scope[BODY] = partial(self._read_body, headers, receive, hold)
            await self._app(scope, receive, send_secured)
        except Exception as error:
            if status:  # the response has begun
                raise
            failure = as_http_error(error)
            if failure.status == 500:
                _log.exception("%s %s (request %s)", scope["method"], scope["path"], request_id.decode())
            await respond(send_secured, failure.status, failure.to_json(), headers=_headers_of(failure))
        finally:
            metrics.in_flight -= 1
            self._held -= held
            seconds = time.perf_counter() - begun
            metrics.count_request(scope["path"], status, seconds)
            if self._log_requests:
                fields = {
                    "request_id": request_id.decode(),
                    "method": scope["method"],
                    "path": scope["path"],
                    "status": status,
                    "milliseconds": round(1000 * seconds, 3),
                    "client": (scope.get("client") or ("",))[0],
                }
                _log.info("%(client)s %(method)s %(path)s %(status)s %(milliseconds)s ms %(request_id)s", fields)

    def _admit(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        if self._is_stopping():
            wanted = "another server, or this one when it is back"
            raise HttpError(503, "stopping", "the server is stopping", wanted=wanted)
        if self._metrics.in_flight - self._reading > self._requests and scope["path"] not in RESERVED:
            got, wanted = f"{self._metrics.in_flight - self._reading:,}", f"at most {self._requests:,}"
            raise HttpError(503, "busy", "too many requests are being answered", got=got, wanted=wanted)
        if self._hosts is not None and _host_name(headers.get(b"host", b"")) not in self._hosts:
            got = headers.get(b"host", b"").decode("latin-1")[:100]
            wanted = "a host that --allow-host names"
            raise HttpError(421, "host", "the server is not known by this name", got=got, wanted=wanted)
        if self._token is not None and scope["path"] not in OPEN:
            token = parse_token(headers.get(b"authorization", b""))
            if not hmac.compare_digest(token, self._token):
                got = "another token" if token else "no token"
                raise HttpError(401, "token", "a token is needed", got=got, wanted="Authorization: Bearer TOKEN")

    async def _read_body(self, headers: dict[bytes, bytes], receive: Receive, hold: Callable[[int], None]) -> bytes:
        """Return the body, which must be declared as JSON. The rest of a body over the limit is not read."""
        size = headers.get(b"content-length", b"0")
        if size.isdigit():
            _check_size(int(size), self._limits.body_bytes)
        kind = headers.get(b"content-type", b"")
        if kind.partition(b";")[0].strip().lower() != JSON:
            got = kind.decode("latin-1")[:100] or "no content type"
            what, wanted = "the body of a request must be JSON", "Content-Type: application/json"
            raise HttpError(415, "content-type", what, got=got, wanted=wanted)
        self._reading += 1
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await _read(receive, hold)
        except TimeoutError:
            got = f"nothing for {self._limits.seconds:g} seconds"
            raise HttpError(408, "body", "the body of the request did not come in time", got=got) from None
        finally:
            self._reading -= 1


async def _read(receive: Receive, hold: Callable[[int], None]) -> bytes:
    parts, more = list[bytes](), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HttpError(400, "body", "the body of the request is cut off", got=f"{sum(map(len, parts)):,} bytes")
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
        hold(len(parts[-1]))
    return b"".join(parts)


async def while_connected(receive: Receive, work: Awaitable[Any]) -> Any:
    """Await some work, and cancel it if the client disconnects. Call it after the body has been read."""
    task = asyncio.current_task()
    watcher: asyncio.Task[None] | None = None
    gone = False

    async def cancel_if_gone() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            continue
        gone = True
        if task is not None:
            task.cancel()

    def start_watching() -> None:
        nonlocal watcher
        watcher = asyncio.create_task(cancel_if_gone())

    timer = asyncio.get_running_loop().call_later(_WATCH_AFTER, start_watching)
    try:
        return await work
    except asyncio.CancelledError:
        if task is None or not gone or task.uncancel():
            raise
        raise HttpError(499, "gone", "the client has gone away") from None  # only the metrics show it
    finally:
        timer.cancel()
        if watcher is not None:
            watcher.cancel()


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise too_large("body", "the body of the request is too large", size, limit)


def _host_name(host: bytes) -> bytes:
    """Return a host without its port."""
    name, colon, port = host.lower().rpartition(b":")
    return name if colon and port.isdigit() else host.lower()


def parse_token(header: bytes) -> bytes:
    """Return the token of an Authorization header: of Bearer, or the password of Basic."""
    scheme, _, value = header.partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip()
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
        except (ValueError, binascii.Error):
            return b""
    return b""


def _headers_of(error: HttpError) -> list[tuple[bytes, bytes]]:
    """Return the headers that belong to the status of an error."""
    if error.status == 405:
        return [(b"allow", str(error.wanted).encode())]
    return {401: [_ASK_FOR_PASSWORD], 429: [_RETRY], 503: [_RETRY]}.get(error.status, [])


async def respond(
    send: Send, status: int, body: bytes, kind: bytes = JSON, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    """Send a response."""
    head = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *(headers or ())]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
