"""What stands between the network and the endpoints: host, token, size of the body, headers, counting.

Plain ASGI: a request costs no objects of a framework here.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any

from bridle.serve.limits import Limits
from bridle.serve.metrics import Metrics
from bridle.serve.problems import HttpError, failure, problem_of, stopping, too_large

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY = "bridle.body"  # where endpoints find the function that reads the body of a request
JSON = b"application/json"
_POLICY = "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
SECURITY = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_ASK = (
    b"www-authenticate",
    b'Basic realm="bridle", charset="UTF-8"',
)  # a browser asks for it; Bearer needs no question
_UNWATCHED = 0.01  # seconds until somebody looks whether the client is still there: most requests are shorter
_OPEN = "/health"  # what a load balancer may ask without a token
_log = logging.getLogger("bridle.serve")


class Guard:
    """Checks requests before, and answers errors after, the endpoints.

    Parameters
    ----------
    app : ASGI application
        The endpoints.
    limits : Limits
        How large a body may be, and how long it may take to come.
    metrics : Metrics
        Hears of every request.
    token : str, optional
        What requests must bring, as ``Authorization: Bearer TOKEN``, or as the password of Basic.
    hosts : collection of str, optional
        Names by which the server may be called; None: any. It keeps other sites' pages from reaching a server on
        localhost by a name of theirs (DNS rebinding).
    is_stopping : callable
        Is the server about to stop?
    """

    def __init__(
        self,
        app: App,
        limits: Limits,
        metrics: Metrics,
        *,
        token: str | None = None,
        hosts: Collection[str] | None = None,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._app, self._limits, self._metrics, self._is_stopping = app, limits, metrics, is_stopping
        self._token = None if token is None else token.strip().encode()  # secrets from files end with a line break
        self._hosts = None if hosts is None else frozenset(host.lower().encode() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status, metrics = time.perf_counter(), 0, self._metrics

        async def sent(message: dict[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *SECURITY]
            await send(message)

        metrics.in_flight += 1
        try:
            headers = dict(scope["headers"])
            self._admit(scope, headers)
            scope[BODY] = partial(self._body, headers, receive)
            await self._app(scope, receive, sent)
        except Exception as error:
            if status:  # half of an answer is out
                raise
            if not isinstance(problem := problem_of(error), HttpError) or problem.status == 500:
                _log.exception("%s %s", scope["method"], scope["path"])
            await respond(sent, problem.status, failure(problem), headers=_more(problem))
        finally:
            metrics.in_flight -= 1
            metrics.request(scope["path"], status, time.perf_counter() - begun)

    def _admit(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        if self._is_stopping():
            raise stopping()
        if self._hosts is not None and _name(headers.get(b"host", b"")) not in self._hosts:
            got = headers.get(b"host", b"").decode("latin-1")[:100]
            wanted = "a host that the server was told with --allow-host"
            raise HttpError(421, "host", "the server is not known by this name", got=got, wanted=wanted)
        if self._token is not None and scope["path"] != _OPEN:
            given = token_of(headers.get(b"authorization", b""))
            if not hmac.compare_digest(given, self._token):
                got = "another token" if given else "no token"
                raise HttpError(401, "token", "a token is needed", got=got, wanted="Authorization: Bearer TOKEN")

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """The body, which must be JSON by its type; read piece by piece, so that a large one is not read at all."""
        most = self._limits.body_bytes
        size = headers.get(b"content-length", b"0")
        if size.isdigit() and int(size) > most:
            raise too_large("body", "the body of the request is too large", int(size), most)
        kind = headers.get(b"content-type", b"")
        if kind.partition(b";")[0].strip().lower() != JSON:
            got = kind.decode("latin-1")[:100] or "no content type"
            what, wanted = "the body of a request must be JSON", "Content-Type: application/json"
            raise HttpError(415, "content-type", what, got=got, wanted=wanted)
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await _read(receive, most)
        except TimeoutError:
            got = f"nothing for {self._limits.seconds:g} seconds"
            raise HttpError(408, "body", "the body of the request did not come in time", got=got) from None


async def _read(receive: Receive, most: int) -> bytes:
    message = await receive()
    body = message.get("body", b"")
    if not message.get("more_body"):  # nearly always
        _check_size(len(body), most)
        return bytes(body)
    parts, size = [body], len(body)
    while message.get("more_body"):
        _check_size(size, most)
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HttpError(400, "body", "the body of the request is cut off", got=f"{size:,} bytes")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
    _check_size(size, most)
    return b"".join(parts)


async def while_connected(receive: Receive, work: Awaitable[Any]) -> Any:
    """What some work returns; it is cancelled if the client goes away before. To be called when the body was read."""
    task = asyncio.current_task()
    watch: asyncio.Task[None] | None = None
    gone = False

    async def cancel_if_gone() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            continue
        gone = True
        if task is not None:
            task.cancel()

    def begin() -> None:
        nonlocal watch
        watch = asyncio.create_task(cancel_if_gone())

    timer = asyncio.get_running_loop().call_later(_UNWATCHED, begin)
    try:
        return await work
    except asyncio.CancelledError:
        if task is None or not gone or task.uncancel():
            raise
        raise HttpError(499, "gone", "the client has gone away") from None  # for the counters: nobody reads it
    finally:
        timer.cancel()
        if watch is not None:
            watch.cancel()


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise too_large("body", "the body of the request is too large", size, most)


def _name(host: bytes) -> bytes:
    """A host without its port."""
    name, colon, port = host.lower().rpartition(b":")
    return name if colon and port.isdigit() else host.lower()


def token_of(header: bytes) -> bytes:
    """The token of an Authorization header: of Bearer, or the password of Basic."""
    scheme, _, value = header.partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip()
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
        except (ValueError, binascii.Error):
            return b""
    return b""


def _more(problem: HttpError) -> list[tuple[bytes, bytes]]:
    """Headers that belong to a status."""
    if problem.status == 405:
        return [(b"allow", str(problem.wanted).encode())]
    return {401: [_ASK], 429: [(b"retry-after", b"1")], 503: [(b"retry-after", b"1")]}.get(problem.status, [])


async def respond(
    send: Send, status: int, body: bytes, kind: bytes = JSON, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    """Send an answer."""
    most = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *(headers or ())]
    await send({"type": "http.response.start", "status": status, "headers": most})
    await send({"type": "http.response.body", "body": body})
