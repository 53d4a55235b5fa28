"""A lane: threads that do the work of requests. What waits when a thread is free is done together, in one batch.

    event loop                         thread
    ask(job) --> [ job job job ] -->   run([job, job, job])
       await future  <-----------------  one call back into the loop for all of them

A full queue turns requests away. A request whose time is up gets its answer at once, and so does one whose client has
gone. If its work has not begun, it is dropped; otherwise it is stopped, as soon as nobody waits for any part of it: by
a `Stop`, which kernels and loops in Python look at (`bridle.deadline`). So rules that would take minutes to compile
hold a thread no longer than a request.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from bridle import _native
from bridle.deadline import stopping
from bridle.serve.problems import HttpError, late


class Job:
    """The work of one request."""

    __slots__ = ("_given_up", "_loop", "_shared", "answer", "error", "future", "size", "work")

    def __init__(self, work: Any, size: int = 1) -> None:
        self.work, self.size = work, size  # what `run` understands; about how many tokens it has
        self.answer: Any = None
        self.error: Exception | None = None
        self._given_up = False
        self._shared: tuple[Sequence[Job], _native.Stop] | None = None  # who works with it, and what stops them
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()

    @property
    def given_up(self) -> bool:
        """Does nobody wait for the answer any more?"""
        return self._given_up

    def give_up(self) -> None:
        """Nobody waits for the answer any more; stop the work if nobody waits for that of the others either."""
        self._given_up = True
        self._stop_if_alone()

    def share(self, jobs: Sequence[Job], stop: _native.Stop) -> None:
        """From now on it is worked on together with others, until all of them give up."""
        self._shared = jobs, stop
        self._stop_if_alone()  # it may have given up just before

    def _stop_if_alone(self) -> None:
        if self._shared is not None and all(job.given_up for job in self._shared[0]):
            self._shared[1].set()

    def resolve(self) -> None:
        """Hand over the answer, in the event loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.answer)


def work_for(jobs: Sequence[Job], work: Callable[[], None]) -> None:
    """Do some work for jobs, unless or until all of them have given up. What it raises is the error of all of them."""
    stop = _native.Stop()
    for job in jobs:
        job.share(jobs, stop)
    if stop.is_set():
        return
    try:
        with stopping(stop):
            work()
    except BaseException as error:  # KeyboardInterrupt: the work was stopped
        told = error if isinstance(error, Exception) else HttpError(504, "time", "the work was stopped")
        for job in jobs:
            job.error = job.error or told


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
        ended = False
        while not ended:
            jobs, ended = self._taken()
            waited_for = [job for job in jobs if not job.given_up]
            if waited_for:
                self._seen(waited_for)
                work_for(waited_for, partial(self._run, waited_for))
                _resolve(waited_for)

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


def _resolve(jobs: Sequence[Job]) -> None:
    """Hand over all answers in one call into the event loop."""

    def hand_over() -> None:
        for job in jobs:
            job.resolve()

    try:
        jobs[0]._loop.call_soon_threadsafe(hand_over)
    except RuntimeError:  # the loop has ended: nobody is there to hear it
        return
