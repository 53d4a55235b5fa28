"""A lane: threads that do the work of requests. What waits when a thread is free is done together, in one batch.

    event loop                         thread
    ask(job) --> [ job job job ] -->   run([job, job, job])
       await future  <-----------------  one call back into the loop for all of them

A full queue turns requests away. A request whose time is up gets its answer at once. If its work has not begun, it is
dropped; otherwise it is stopped: kernels by their `Stop`, Python code by an exception that is raised in the thread, as
Ctrl-C raises KeyboardInterrupt. So rules that would take minutes to compile hold a thread no longer than a request.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from bridle.serve.problems import HttpError, late

AGAIN = 0.05  # seconds until an exception is raised again: one that hits a destructor is lost


class GivenUp(BaseException):
    """Raised in a thread whose work nobody waits for. Not an `Exception`, so that nothing takes it for an answer."""


class Job:
    """The work of one request."""

    __slots__ = ("_listeners", "_loop", "answer", "error", "future", "given_up", "size", "work")

    def __init__(self, work: Any, size: int = 1) -> None:
        self.work, self.size = work, size  # what `run` understands; about how many tokens it has
        self.answer: Any = None
        self.error: Exception | None = None
        self.given_up = False
        self._listeners: list[Callable[[], None]] = []
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()

    def on_give_up(self, listener: Callable[[], None]) -> None:
        """Call somebody when nobody waits any more; at once, if nobody does."""
        self._listeners.append(listener)
        if self.given_up:
            listener()

    def give_up(self) -> None:
        """Nobody waits for the answer any more."""
        self.given_up = True
        for tell in self._listeners:
            tell()

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something from the event loop after a while; nothing, if it has ended."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.call_later, seconds, call)

    def resolve(self) -> None:
        """Hand over the answer, in the event loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.answer)


class Lane:
    """Threads with a queue in front of them.

    Parameters
    ----------
    name : str
        What it is called in metrics and in the names of its threads.
    run : callable
        ``run(jobs)`` sets `answer` or `error` of each job. What it raises becomes the error of all of them.
    threads : int, default 1
        How many batches are worked on at the same time.
    waiting : int
        Jobs that can wait; further ones are turned away.
    together : int
        A batch is closed when its jobs have this size together; 0: each job is a batch of its own.
    seen : callable, optional
        Hears of each batch: ``seen(jobs)``.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[Sequence[Job]], None],
        *,
        threads: int = 1,
        waiting: int = 256,
        together: int = 0,
        seen: Callable[[Sequence[Job]], None] = lambda _: None,
    ) -> None:
        self.name, self.most_waiting, self._run, self._together, self._seen = name, waiting, run, together, seen
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._threads, self._running = threads, 0
        self._all = list[threading.Thread]()  # that were ever started

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return self._queue.qsize()

    async def ask(self, work: Any, seconds: float, size: int = 1) -> Any:
        """Do some work; its answer."""
        if self.waiting >= self.most_waiting:
            raise HttpError(
                429,
                "busy",
                "too many requests are waiting",
                got=f"{self.waiting:,}",
                wanted=f"fewer than {self.most_waiting:,}",
                cause="Try again in a moment.",
            )
        self._start()
        job = Job(work, size)
        self._queue.put(job)
        try:
            async with asyncio.timeout(seconds):
                return await job.future
        except TimeoutError:
            job.give_up()
            raise late(seconds) from None
        except asyncio.CancelledError:
            job.give_up()
            raise

    def close(self) -> None:
        """End the threads, when they have done what is waiting. The next request starts them again."""
        for _ in range(self._running):
            self._queue.put(None)
        self._running = 0

    def join(self, seconds: float) -> bool:
        """Wait for threads that were told to end; have they?"""
        ends = time.monotonic() + seconds
        for thread in self._all:
            thread.join(max(0.0, ends - time.monotonic()))
        return not any(thread.is_alive() for thread in self._all)

    def _start(self) -> None:
        for k in range(self._running, self._threads):
            thread = threading.Thread(target=self._work, name=f"bridle-serve-{self.name}-{k}", daemon=True)
            self._all.append(thread)
            thread.start()
        self._running = self._threads

    def _work(self) -> None:
        interrupt = _Interrupt()
        ended = False
        while not ended:
            jobs, ended = self._taken()
            alive = [job for job in jobs if not job.given_up]
            if not alive:
                continue
            self._seen(alive)
            with suppress(GivenUp):  # nobody waits for the answers
                self._do(alive, interrupt)
            interrupt.settle()
            _resolve(alive)

    def _do(self, jobs: Sequence[Job], interrupt: _Interrupt) -> None:
        try:
            interrupt.begin(jobs)
            self._run(jobs)
        except GivenUp:
            raise
        except BaseException as error:  # also KeyboardInterrupt, which a kernel raises that was stopped
            told = error if isinstance(error, Exception) else HttpError(504, "time", "the work was stopped")
            for job in jobs:
                job.error = job.error or told

    def _taken(self) -> tuple[list[Job], bool]:
        """What is waiting, at least one job; whether it is time to end."""
        job = self._queue.get()
        if job is None:
            return [], True
        jobs, size = [job], job.size
        while size < self._together:
            try:
                job = self._queue.get_nowait()
            except Empty:
                break
            if job is None:
                return jobs, True
            jobs.append(job)
            size += job.size
        return jobs, False


class _Interrupt:
    """Raises `GivenUp` in its thread when all requests of a batch have given up."""

    def __init__(self) -> None:
        self._thread = ctypes.c_ulong(threading.get_ident())
        self._lock = threading.Lock()
        self._jobs: Sequence[Job] = ()  # what the thread works on

    def begin(self, jobs: Sequence[Job]) -> None:
        """From now on, the thread is stopped when nobody wants the results of these."""
        with self._lock:
            self._jobs = jobs
        for job in jobs:
            job.on_give_up(self._look)

    def settle(self) -> None:
        """From here on nobody raises anything; what was raised and has not arrived is taken back."""
        settled = False
        while not settled:
            try:
                with self._lock:
                    self._jobs = ()
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(self._thread, None)
                settled = True
            except GivenUp:
                continue

    def _look(self) -> None:
        with self._lock:
            jobs = self._jobs
            if jobs and all(job.given_up for job in jobs):
                ctypes.pythonapi.PyThreadState_SetAsyncExc(self._thread, ctypes.py_object(GivenUp))
                jobs[0].later(AGAIN, self._look)


def _resolve(jobs: Sequence[Job]) -> None:
    """Hand over all answers in one call into the event loop."""

    def hand_over() -> None:
        for job in jobs:
            job.resolve()

    try:
        jobs[0]._loop.call_soon_threadsafe(hand_over)
    except RuntimeError:  # the loop has ended: nobody is there to hear it
        return
