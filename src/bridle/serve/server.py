"""Run a service with uvicorn: connections that send nothing are closed and give way to others, signals stop it."""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from types import FrameType
from typing import Any, Literal

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bridle.errors import BridleError
from bridle.interrupts import INTERRUPTED, stop_at_once
from bridle.serve.app import create_app
from bridle.serve.endpoints import Site
from bridle.serve.labelstudio import Corrections
from bridle.serve.service import Service

GRACE = 2.0  # seconds beyond the time of a request for sending answers
TURN = 0.0005  # seconds for which a thread keeps the interpreter while the event loop waits for it
HEADER_SECONDS = 10.0  # from the connection, or the last answer, to the end of the headers of a request
ANSWER_SECONDS = 60.0  # for taking an answer
IDLE_SECONDS = 5  # that a connection may be idle after an answer
RESERVE = 64  # connections beyond the limit, so that there is one for /health
_BACKLOG = 1024
_log = logging.getLogger("bridle.serve")


class Connection(HttpToolsProtocol):
    """A connection that must send headers and take answers in time; if there are too many, the oldest gives way.

    Clients that open connections and send nothing, or half of a request, cannot exclude others.
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
        """Begin the request. The time for its body is limited where it is read."""
        if (timer := self._waiting.get(self)) is not None:
            timer.cancel()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is complete, and waits for the server; unless it has been refused without its body."""
        super().on_message_complete()
        if not self.cycle.response_complete:
            self._end_wait()

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
        seconds = ANSWER_SECONDS if self.transport.get_write_buffer_size() else HEADER_SECONDS
        self._waiting[self] = self.loop.call_later(seconds, self.abort)

    def _end_wait(self) -> None:
        if (timer := self._waiting.pop(self, None)) is not None:
            timer.cancel()


def run(
    services: Service | Sequence[Service],
    *,
    load: Callable[[], Sequence[Service]] | None = None,
    corrections: Corrections | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    more_ports: int = 0,
    token: str | None = None,
    origins: Sequence[str] = (),
    hosts: Collection[str] | None = None,
    connections: int = 1000,
    log: str = "warning",
    log_format: Literal["text", "json"] = "text",
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve until SIGTERM or Ctrl-C. Requests in flight are answered; a second Ctrl-C ends the process at once.

    Parameters
    ----------
    services : Service or sequence of Service
        Models, their rules and limits.
    load, corrections : optional
        As in `create_app`. SIGHUP loads models and rules again, too.
    host, port : str, int
        Address to listen on; port 0 takes a free one.
    more_ports : int, default 0
        Number of ports after this one that are tried if it is taken.
    token, origins, hosts : optional
        As in `create_app`.
    connections : int, default 1000
        Connections and requests at the same time. If there are more connections, those that have sent no request
        are closed, the oldest first; further requests get the status 503, except for /health, /ready and /metrics.
    log : str, default "warning"
        Level of the log; "info" also logs each request.
    log_format : {"text", "json"}, default "text"
        Lines of the log: text, or JSON objects.
    ready : callable, optional
        Called with the address when the server listens.

    Raises
    ------
    BridleError
        If the address cannot be used.
    KeyboardInterrupt
        If Ctrl-C ended it.
    """
    app: Any = create_app(
        services,
        load=load,
        corrections=corrections,
        token=token,
        origins=origins,
        hosts=hosts,
        requests=connections,
        log_requests=log in ("info", "debug"),
    )
    seconds = app.state.default.service.limits.seconds
    _allow_files(connections + RESERVE + 256)
    with _listen(host, port, more_ports) as listener, _switch_interval(TURN):
        config = uvicorn.Config(
            app,
            log_level=log,
            log_config=_log_config(log, log_format),
            access_log=False,  # the guard logs requests
            ws="none",
            lifespan="on",
            server_header=False,
            http=partial(Connection, {}, connections),  # type: ignore[arg-type]  # called like the class
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=int(seconds + GRACE) + 1,
        )
        server = _Server(config, app.state)
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

    def __init__(self, config: uvicorn.Config, site: Site) -> None:
        super().__init__(config)
        self._site, self.interrupted = site, False

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        if hasattr(signal, "SIGHUP"):
            handlers[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._reload)
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._site.is_stopping = True
        self.should_exit = True
        if sig == signal.SIGINT:
            self.interrupted = True
            stop_at_once()

    def _reload(self, _sig: int, _frame: FrameType | None) -> None:
        threading.Thread(target=self._reload_now, name="bridle-serve-reload", daemon=True).start()

    def _reload_now(self) -> None:
        try:
            _log.warning("loaded again: %s", ", ".join(self._site.reload()))
        except Exception as error:
            _log.error("cannot load again, so the old models and rules stay: %s", error)


def _allow_files(count: int) -> None:
    """Raise the limit of open files of this process if it is lower; a connection is one."""
    with suppress(ImportError, OSError, ValueError):  # Windows has none
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY and soft < count:
            most = count if hard == resource.RLIM_INFINITY else min(count, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class JsonLines(logging.Formatter):
    """Formats records as JSON objects, one per line; the fields of requests become keys."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        line |= record.args if isinstance(record.args, dict) else {"message": record.getMessage()}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def _log_config(level: str, form: str) -> dict[str, Any]:
    """Return the logging configuration of the server: everything goes to stderr."""
    formatter = {"()": JsonLines} if form == "json" else {"format": "%(levelname)s: %(message)s"}
    names = ("uvicorn", "bridle.serve")
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"default": formatter},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "default"}},
        "loggers": {name: {"handlers": ["stderr"], "level": level.upper(), "propagate": False} for name in names},
    }


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
def _listen(host: str, port: int, more_ports: int) -> Generator[socket.socket, None, None]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in range(port, port + more_ports + 1):
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((host, number))
                listener.listen(_BACKLOG)
            except (OSError, OverflowError) as error:
                if getattr(error, "errno", None) == errno.EADDRINUSE and number < port + more_ports:
                    continue
                got = getattr(error, "strerror", None) or str(error)
                cause = "Is another server running there? --port 0 takes a free port." if port else None
                what = f"cannot listen on {host}:{number}"
                raise BridleError(what, got=got, wanted="a free port of this machine", cause=cause) from None
            yield listener
            return
