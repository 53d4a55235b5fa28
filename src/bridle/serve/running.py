"""Run the server: uvicorn in this process, with a stop that answers what is in flight."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn

from bridle.errors import BridleError
from bridle.interrupts import INTERRUPTED, stop_at_once
from bridle.serve.app import create_app
from bridle.serve.service import Service

GRACE = 2.0  # seconds beyond the time of a request, for answers to be sent
TURN = 0.0005  # seconds that a thread keeps the interpreter while the event loop waits for it
_BACKLOG = 1024


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
    """Serve until SIGTERM or Ctrl-C; requests in flight are answered, and a second Ctrl-C ends the process at once.

    Parameters
    ----------
    service : Service
        What to serve.
    host, port : str, int
        Where to listen; port 0 takes a free one.
    token, origins, hosts : optional
        As in `create_app`.
    connections : int, default 1000
        Connections and requests at the same time; further ones get the status 503.
    log : str, default "warning"
        Level of the log; "info" also logs each request.
    ready : callable, optional
        Hears the address when the server listens.

    Raises
    ------
    BridleError
        If the address cannot be used.
    KeyboardInterrupt
        If Ctrl-C ended it.
    """
    app: Any = create_app(service, token=token, origins=origins, hosts=hosts)
    with listening(host, port) as at, _turns_of(TURN):
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
        gc.freeze()  # the model stays: collections need not look at it again and again
        ready(f"http://{name}:{at.getsockname()[1]}")
        server.run(sockets=[at])
        if not app.state.join(GRACE):  # work that does not look at its stop: Python cannot end while a kernel is at it
            sys.stderr.flush()
            os._exit(INTERRUPTED if server.interrupted else 0)
    if server.interrupted:
        raise KeyboardInterrupt


class _Server(uvicorn.Server):
    """Ends with exit code 0 after SIGTERM; says whether Ctrl-C was it."""

    def __init__(self, config: uvicorn.Config, stopping: Callable[[], None]) -> None:
        super().__init__(config)
        self._stopping, self.interrupted = stopping, False

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._stopping()
        self.should_exit = True
        if sig == signal.SIGINT:
            self.interrupted = True
            stop_at_once()


@contextmanager
def _turns_of(seconds: float) -> Generator[None, None, None]:
    """Threads take shorter turns than the usual 5 ms: answers wait for the turn of a thread that decodes."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextmanager
def listening(host: str, port: int) -> Generator[socket.socket, None, None]:
    """A socket that listens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    at = socket.socket(family, socket.SOCK_STREAM)
    try:
        at.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            at.bind((host, port))
            at.listen(_BACKLOG)
        except (OSError, OverflowError) as error:
            got = getattr(error, "strerror", None) or str(error)
            cause = "Is another server running there? --port 0 takes a free port." if port else None
            what = f"cannot listen on {host}:{port}"
            raise BridleError(what, got=got, wanted="a free port of this machine", cause=cause) from None
        yield at
    finally:
        at.close()
