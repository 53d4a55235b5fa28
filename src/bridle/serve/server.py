"""Run a service with uvicorn: connections that send nothing are closed and give way to others, signals stop it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bridle.errors import BridleError
from bridle.interrupts import INTERRUPTED, stop_at_once
from bridle.serve.app import create_app
from bridle.serve.service import Service

GRACE = 2.0  # seconds beyond the time of a request for sending answers
TURN = 0.0005  # seconds for which a thread keeps the interpreter while the event loop waits for it
HEADER_SECONDS = 10.0  # from the connection, or the last answer, to the end of the headers of a request
IDLE_SECONDS = 5  # that a connection may be idle after an answer
RESERVE = 64  # connections beyond the limit, so that there is one for /health
_BACKLOG = 1024


class Connection(HttpToolsProtocol):
    """A connection that must send headers in time; the one that waits longest gives way if there are too many.

    Clients that open connections and send nothing, or half of their headers, cannot exclude others.
    """

    def __init__(self, waiting: dict[Connection, asyncio.TimerHandle], most: int, **options: Any) -> None:
        super().__init__(**options)
        self._waiting, self._most = waiting, most  # waiting: shared by all connections, the oldest first

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give it some time to send headers; close another one if there are too many."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > self._most:
            oldest = next(iter(self._waiting))
            if oldest is not self or len(self.connections) > self._most + RESERVE:
                oldest.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._end_wait()
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        """Begin the request."""
        self._end_wait()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete):
            self._wait()

    def abort(self) -> None:
        """Close it at once."""
        self._end_wait()
        self.transport.abort()
        self.connections.discard(self)

    def _wait(self) -> None:
        self._end_wait()
        self._waiting[self] = self.loop.call_later(HEADER_SECONDS, self.abort)

    def _end_wait(self) -> None:
        if (timer := self._waiting.pop(self, None)) is not None:
            timer.cancel()


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
        Connections and requests at the same time. If there are more connections, those that have sent no request
        are closed, the oldest first; further requests get the status 503, except for /health, /ready and /metrics.
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
    app: Any = create_app(service, token=token, origins=origins, hosts=hosts, requests=connections)
    _allow_files(connections + RESERVE + 256)
    with _listen(host, port) as listener, _switch_interval(TURN):
        config = uvicorn.Config(
            app,
            log_level=log,
            access_log=log in ("info", "debug"),
            ws="none",
            lifespan="on",
            server_header=False,
            http=partial(Connection, {}, connections),  # type: ignore[arg-type]  # called like the class
            timeout_keep_alive=IDLE_SECONDS,
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


def _allow_files(count: int) -> None:
    """Raise the limit of open files of this process if it is lower; a connection is one."""
    with suppress(ImportError, OSError, ValueError):  # Windows has none
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY and soft < count:
            most = count if hard == resource.RLIM_INFINITY else min(count, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


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
