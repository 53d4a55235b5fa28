"""Read, work and write at the same time: a thread reads, several work, and the caller gets results in order.

    items -> room in memory -> threads -> (item, result), in the order of the items

No more than `memory` bytes of items are under way, so input of any length needs the same memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import closing
from queue import Empty, Full, Queue
from typing import Generic, TypeVar

TICK = 0.25  # seconds that the caller waits at most before it can report progress
Item = TypeVar("Item")
Result = TypeVar("Result")


class Stopped(Exception):  # noqa: N818  (no error: somebody asked for it)
    """Work that was under way when the caller stopped."""


class Room:
    """Memory that items share. An item that is larger than all of it gets in alone."""

    def __init__(self, size: int) -> None:
        self.size, self.used = size, 0
        self._changed = threading.Condition()

    def take(self, size: int, stop: threading.Event) -> bool:
        """Wait until there is room; False if `stop` was set."""
        with self._changed:
            while not stop.is_set():
                if self.used == 0 or self.used + size <= self.size:
                    self.used += size
                    return True
                self._changed.wait(TICK)
        return False

    def give(self, size: int) -> None:
        """Give room back."""
        with self._changed:
            self.used -= size
            self._changed.notify_all()


class Pipeline(Generic[Item, Result]):
    """Iterate over items and their results, in order; close it to stop all threads.

    Parameters
    ----------
    items : generator
        What to work on. It runs in a thread of its own, and is closed there.
    work : callable
        Called as ``work(item, stop)`` in several threads. If the event `stop` is set, it should raise `Stopped` soon.
    size : callable
        Bytes of memory that an item and its result need.
    threads : int
        The number of threads that work.
    memory : int
        Bytes that all items under way may need.

    Yields
    ------
    tuple or None
        An item and its result; None if the next one is not ready yet, so that the caller can do something else.

    Examples
    --------
    >>> numbers = (n for n in range(5))
    >>> with Pipeline(numbers, lambda n, stop: n * n, lambda n: 8, threads=2, memory=1000) as pipeline:
    ...     [found[1] for found in pipeline if found is not None]
    [0, 1, 4, 9, 16]
    """

    def __init__(
        self,
        items: Iterator[Item],
        work: Callable[[Item, threading.Event], Result],
        size: Callable[[Item], int],
        *,
        threads: int,
        memory: int,
    ) -> None:
        self._items, self._work, self._size = items, work, size
        self._room, self._stop = Room(memory), threading.Event()
        # what is read and not yet written: enough for every thread to find something to do
        self._queue: Queue[tuple[Item, Future[Result]] | BaseException | None] = Queue(2 * threads + 2)
        self._pool = ThreadPoolExecutor(threads, "bridle-tag")
        self._reader = threading.Thread(target=self._read, name="bridle-read", daemon=True)

    def __enter__(self) -> Pipeline[Item, Result]:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._reader.join(10.0)  # a reader that hangs (a network, say) must not keep the caller

    def __iter__(self) -> Iterator[tuple[Item, Result] | None]:
        while True:
            try:
                found = self._queue.get(timeout=TICK)
            except Empty:
                yield None
                continue
            if found is None:
                return
            if isinstance(found, BaseException):
                raise found
            item, future = found
            while (result := _ready(future)) is None:
                yield None
            yield item, result[0]
            self._room.give(self._size(item))

    def _read(self) -> None:
        """The thread that reads. Whatever happens in it is handed on to the caller."""
        end: BaseException | None = None
        try:
            with closing(self._items):  # type: ignore[type-var]  # a generator
                for item in self._items:
                    if not self._room.take(self._size(item), self._stop):
                        return
                    self._put((item, self._pool.submit(self._work, item, self._stop)))
        except BaseException as error:
            end = error
        self._put(end)

    def _put(self, found: tuple[Item, Future[Result]] | BaseException | None) -> None:
        while not self._stop.is_set():
            try:
                self._queue.put(found, timeout=TICK)
                return
            except Full:
                continue


def _ready(future: Future[Result]) -> tuple[Result] | None:
    """The result of a call; None if it takes longer."""
    try:
        return (future.result(TICK),)
    except NotYet:
        if future.done():  # the call itself raised it
            raise
        return None
