"""A lane: threads that do the work of requests. What waits when a thread is free is done together, in one batch.

    event loop                         thread
    ask(job) --> [ job job job ] -->   run([job, job, job])
       await future  <-----------------  one call back into the loop for all of them

A full queue turns requests away. A request whose time is up gets its answer at once. If its work has begun, it is asked
to stop (`Job.on_give_up`); if not, it is dropped.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from bridle.serve.problems import HttpError, late


class Job:
    """The work of one request."""

    __slots__ = ("_loop", "answer", "error", "future", "given_up", "on_give_up", "size", "work")

    def __init__(self, work: Any, size: int = 1) -> None:
        self.work, self.size = work, size  # what `run` understands; about how many tokens it has
        self.answer: Any = None
        self.error: Exception | None = None
        self.given_up = False
        self.on_give_up: Callable[[], None] | None = None
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()

    def give_up(self) -> None:
        """Nobody waits for the answer any more."""
        self.given_up = True
        if (tell := self.on_give_up) is not None:
            tell()

    def check(self) -> None:
        """Raise if nobody waits any more; long work asks now and then."""
        if self.given_up:
            raise HttpError(504, "time", "the work was stopped")

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
        self._threads = [
            threading.Thread(target=self._work, name=f"bridle-serve-{name}-{k}", daemon=True) for k in range(threads)
        ]
        for thread in self._threads:
            thread.start()

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
        """End the threads, when they have done what is waiting."""
        for _ in self._threads:
            self._queue.put(None)

    def _work(self) -> None:
        while True:
            jobs, ended = self._taken()
            alive = [job for job in jobs if not job.given_up]
            if alive:
                self._seen(alive)
                try:
                    self._run(alive)
                except BaseException as error:  # also KeyboardInterrupt, which a kernel raises that was told to stop
                    told = error if isinstance(error, Exception) else HttpError(504, "time", "the work was stopped")
                    for job in alive:
                        job.error = job.error or told
                _resolve(alive)
            if ended:
                return

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
