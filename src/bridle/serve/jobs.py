"""Work that takes longer than a request: it runs in a thread, says how far it is, and can be stopped."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from bridle import _native
from bridle.deadline import stopping
from bridle.serve.errors import HttpError, as_http_error
from bridle.serve.schemas import Error, Request, RulesRequest
from bridle.serve.tuning import LearnResult, TuneResult

_STOP_SECONDS = 5.0  # that a job which has been stopped may take to end
_log = logging.getLogger("bridle.serve")


class JobRequest(RulesRequest, kw_only=True):
    """Work on labelled data: tune all rules, tune the rule of a line, or learn rules."""

    kind: Literal["tune", "learn"]
    data: str
    line: int | None = None


class JobQuestion(Request, kw_only=True):
    """A job that POST /jobs started, and whether it has to stop."""

    job: str
    stop: bool = False


class JobAnswer(Struct):
    """State of a job; `message` says what it does at the moment."""

    job: str
    state: Literal["running", "done", "failed", "stopped"]
    message: str
    seconds: float
    result: TuneResult | LearnResult | None = None
    error: Error | None = None


class BackgroundJob:
    """Work in a thread of its own."""

    def __init__(self, work: Callable[[Callable[[str], None]], Any]) -> None:
        self.key, self._work = secrets.token_hex(8), work
        self._stop, self._begun = _native.Stop(), time.monotonic()
        self._ended: float | None = None
        self._message, self._result = "", None
        self._error: HttpError | None = None
        self._thread = threading.Thread(target=self._run, name="bridle-serve-job", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """True until it has ended."""
        return self._ended is None

    @property
    def is_stopping(self) -> bool:
        """True if it has been told to stop."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Make it end soon."""
        self._stop.set()

    def join(self, seconds: float) -> bool:
        """Wait until it has ended; return False if it is still running after this time."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _say(self, text: str) -> None:
        self._message = text

    def _run(self) -> None:
        try:
            with stopping(self._stop):
                self._result = self._work(self._say)
        except KeyboardInterrupt:
            self._error = HttpError(499, "stopped", "the work was stopped")
        except Exception as error:
            self._error = as_http_error(error)
            if self._error.status == 500:
                _log.exception("a job failed")
        finally:
            self._ended = time.monotonic()

    def describe(self) -> JobAnswer:
        """Return how far it is, or its result."""
        seconds = (self._ended or time.monotonic()) - self._begun
        if self.is_running:
            return JobAnswer(self.key, "running", self._message, seconds)
        if self._error is not None:
            state: Literal["stopped", "failed"] = "stopped" if self._error.code == "stopped" else "failed"
            return JobAnswer(self.key, state, self._message, seconds, error=self._error.to_struct())
        return JobAnswer(self.key, "done", self._message, seconds, self._result)


class Jobs:
    """The job of a model: one at a time; it can be asked for until the next one starts."""

    def __init__(self) -> None:
        self._job: BackgroundJob | None = None
        self._lock = threading.Lock()

    def start(self, work: Callable[[Callable[[str], None]], Any]) -> BackgroundJob:
        """Start a job, unless another one is running."""
        with self._lock:
            job = self._job
            if job is not None and job.is_running and not (job.is_stopping and job.join(_STOP_SECONDS)):
                wanted = "one job at a time: wait for it, or stop it"
                raise HttpError(409, "busy", "another job is running", wanted=wanted)
            self._job = BackgroundJob(work)
            return self._job

    def get(self, key: str) -> BackgroundJob:
        """Return the job that was started last, if it has this key."""
        if self._job is None or self._job.key != key:
            wanted = "the job that POST /jobs started last"
            raise HttpError(404, "unknown-job", "unknown job", got=repr(key), wanted=wanted)
        return self._job

    def close(self) -> None:
        """Stop the job."""
        if self._job is not None:
            self._job.stop()

    def join(self, seconds: float) -> bool:
        """Wait until the job has ended."""
        return self._job is None or self._job.join(seconds)
