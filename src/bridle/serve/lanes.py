"""Lanes: threads that do the work of requests. A free thread takes all waiting jobs as one batch.

    event loop                         thread
    submit(work) --> [ job job job ] -->   run([job, job, job])
       await future  <---------------------  one call back into the loop for all of them

A full queue rejects requests. A request whose time is up, or whose client has disconnected, is answered at once. Its
job is dropped if it has not begun; otherwise it is stopped as soon as every job of its batch is abandoned, by a `Stop`
that kernels and loops in Python check (`bridle.deadline`). So no job holds a thread longer than a request may take.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from bridle import _native
from bridle.deadline import stopping
from bridle.serve.errors import HttpError


class Job:
    """The work of one request."""

    __slots__ = ("_batch", "abandoned", "answer", "error", "future", "loop", "size", "work")

    def __init__(self, work: Any, size: int = 1) -> None:
        self.work, self.size = work, size  # input of `Lane.run`; estimated number of tokens
        self.answer: Any = None
        self.error: Exception | None = None
        self.abandoned = False  # True if no client waits for the answer
        self._batch: tuple[Sequence[Job], _native.Stop] | None = None  # the jobs of its batch, and their stop
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()

    def abandon(self) -> None:
        """Mark the job as abandoned; stop its batch if all jobs of that are."""
        self.abandoned = True
        self._stop_if_all_abandoned()

    def join_batch(self, jobs: Sequence[Job], stop: _native.Stop) -> None:
        """Set the batch that the job is part of."""
        self._batch = jobs, stop
        self._stop_if_all_abandoned()  # it may have been abandoned just before

    def _stop_if_all_abandoned(self) -> None:
        if self._batch is not None and all(job.abandoned for job in self._batch[0]):
            self._batch[1].set()

    def resolve(self) -> None:
        """Set the result of the future, in the event loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.answer)


def run_for(jobs: Sequence[Job], work: Callable[[], None]) -> None:
    """Call a function for jobs until all of them are abandoned; an exception becomes the error of all of them."""
    stop = _native.Stop()
    for job in jobs:
        job.join_batch(jobs, stop)
    if stop.is_set():
        return
    try:
        with stopping(stop):
            work()
    except BaseException as error:  # KeyboardInterrupt: the work was stopped
        shown = error if isinstance(error, Exception) else HttpError(504, "time", "the work was stopped")
        for job in jobs:
            job.error = job.error or shown


class Lane:
    """Threads with a queue of jobs.

    ``run(jobs)`` sets the `answer` or `error` of each job of a batch; an exception becomes the error of all of them. A
    batch is complete when the sizes of its jobs add up to `batch_size`; 0 means one job per batch. At most
    `max_waiting` jobs can wait. ``on_batch(n)`` is called with the number of jobs of each batch,
    ``after()`` in the same thread when it has been answered.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[Sequence[Job]], None],
        *,
        threads: int = 1,
        max_waiting: int = 256,
        batch_size: int = 0,
        on_batch: Callable[[int], None] = lambda _: None,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        self.name, self.max_waiting, self._run = name, max_waiting, run
        self._batch_size, self._on_batch, self._after = batch_size, on_batch, after
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._threads, self._running, self._is_closed = threads, 0, False
        self._lock = threading.Lock()  # of the number of running threads: a lane is closed in another thread
        self._started = list[threading.Thread]()

    @property
    def waiting(self) -> int:
        """Number of waiting jobs."""
        return self._queue.qsize()

    async def submit(self, work: Any, seconds: float, size: int = 1) -> Any:
        """Queue some work and wait for its answer."""
        if self.waiting >= self.max_waiting:
            what, cause = "too many requests are waiting", "Try again in a moment."
            got, wanted = f"{self.waiting:,}", f"fewer than {self.max_waiting:,}"
            raise HttpError(429, "busy", what, got=got, wanted=wanted, cause=cause)
        job = Job(work, size)
        with self._lock:
            self._start()
            self._queue.put(job)
            if self._is_closed:
                self._end()
        try:
            async with asyncio.timeout(seconds):
                return await job.future
        except TimeoutError:
            job.abandon()
            what, cause = "the request took too long", "Send fewer or shorter sequences at once, or simpler rules."
            got, wanted = f"more than {seconds:g} seconds", "an answer in time"
            raise HttpError(504, "time", what, got=got, wanted=wanted, cause=cause) from None
        except asyncio.CancelledError:
            job.abandon()
            raise

    def close(self) -> None:
        """End the threads after the waiting jobs. Those of a request that comes later end after its job."""
        with self._lock:
            self._is_closed = True
            self._end()

    def join(self, seconds: float) -> bool:
        """Wait until all threads have ended; return False if one is still running after this time."""
        ends = time.monotonic() + seconds
        for thread in self._started:
            thread.join(max(0.0, ends - time.monotonic()))
        return not any(thread.is_alive() for thread in self._started)

    def _start(self) -> None:
        for k in range(self._running, self._threads):
            thread = threading.Thread(target=self._work, name=f"bridle-serve-{self.name}-{k}", daemon=True)
            self._started.append(thread)
            thread.start()
        self._running = self._threads

    def _end(self) -> None:
        for _ in range(self._running):
            self._queue.put(None)
        self._running = 0

    def _work(self) -> None:
        ended = False
        while not ended:
            jobs, ended = self._next_batch()
            jobs = [job for job in jobs if not job.abandoned]
            if jobs:
                self._on_batch(len(jobs))
                run_for(jobs, partial(self._run, jobs))
                _resolve(jobs)
                self._after()

    def _next_batch(self) -> tuple[list[Job], bool]:
        """Wait for a batch of jobs; also return True if the thread is to end after it."""
        job = self._queue.get()
        if job is None:
            return [], True
        jobs, size = [job], job.size
        while size < self._batch_size:
            try:
                job = self._queue.get_nowait()
            except Empty:
                break
            if job is None:
                return jobs, True
            jobs.append(job)
            size += job.size
        return jobs, False


def _resolve(jobs: Sequence[Job]) -> None:
    """Resolve all jobs in one call into the event loop."""

    def resolve_all() -> None:
        for job in jobs:
            job.resolve()

    with suppress(RuntimeError):  # the event loop has ended
        jobs[0].loop.call_soon_threadsafe(resolve_all)
