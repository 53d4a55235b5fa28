"""Read, label and write at the same time: a thread reads, several label, and the caller gets results in order.

    items -> memory -> threads -> (item, result), in the order of the items

No more than `memory` bytes of items are under way, so input of any length needs the same memory. The first items are
worked on by the caller: small inputs need no threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from itertools import islice
from queue import Empty, Full, Queue
from typing import Generic, TypeVar

from bridle._native import Stop

TICK = 0.25  # seconds that the caller waits at most before it can report progress
Item = TypeVar("Item")
Result = TypeVar("Result")


class Memory:
    """Bytes that items share. An item that is larger than all of them gets in alone."""

    def __init__(self, size: int) -> None:
        self.size, self.used = size, 0
        self._changed = threading.Condition()

    def take(self, size: int, stop: Stop) -> bool:
        """Wait until there are so many; False if `stop` was set."""
        with self._changed:
            while not stop.is_set():
                if self.used == 0 or self.used + size <= self.size:
                    self.used += size
                    return True
                self._changed.wait(TICK)
        return False

    def give(self, size: int) -> None:
        """Give bytes back."""
        with self._changed:
            self.used -= size
            self._changed.notify_all()


def pipelined(
    items: Iterator[Item],
    work: Callable[[Item, Stop | None], Result],
    size: Callable[[Item], int],
    *,
    threads: int,
    memory: int,
) -> Iterator[tuple[Item, Result] | None]:
    """Work on items in threads; close the iterator to stop all of them.

    Parameters
    ----------
    items : generator
        It runs in a thread of its own after the first two items, and is closed there.
    work : callable
        Called as ``work(item, stop)``; if `stop` is set, it should raise soon, as kernels do. None: nobody will.
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
    >>> results = pipelined(numbers, lambda n, stop: n * n, lambda n: 8, threads=2, memory=1000)
    >>> [pair[1] for pair in results if pair is not None]
    [0, 1, 4, 9, 16]
    """
    try:
        for item in islice(items, 2):
            yield item, work(item, None)
        for item in islice(items, 1):
            yield from _Threads(item, items, work, size, threads, memory).results()
    finally:
        with suppress(ValueError):  # a reader that hangs is still in it
            items.close()  # type: ignore[attr-defined]  # a generator


class _Threads(Generic[Item, Result]):
    """The threads of `pipelined`."""

    def __init__(
        self,
        first: Item,
        items: Iterator[Item],
        work: Callable[[Item, Stop | None], Result],
        size: Callable[[Item], int],
        threads: int,
        memory: int,
    ) -> None:
        self._first, self._items, self._work, self._size = first, items, work, size
        self._memory, self._stop = Memory(memory), Stop()
        # what is read and not yet written: enough for every thread to have something to do
        self._queue: Queue[tuple[Item, Future[Result]] | BaseException | None] = Queue(2 * threads + 2)
        self._pool = ThreadPoolExecutor(threads, "bridle-tag")
        self._reader = threading.Thread(target=self._read, name="bridle-read", daemon=True)

    def results(self) -> Iterator[tuple[Item, Result] | None]:
        """Yield items with their results, in order."""
        self._reader.start()
        try:
            while (entry := self._next()) is not None:
                if isinstance(entry, BaseException):
                    raise entry
                if isinstance(entry, str):
                    yield None
                    continue
                item, future = entry
                while (result := _ready(future)) is None:
                    yield None
                yield item, result[0]
                self._memory.give(self._size(item))
        finally:
            self._stop.set()
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._reader.join(TICK)  # a reader that waits for input must not keep the caller

    def _next(self) -> tuple[Item, Future[Result]] | BaseException | str | None:
        try:
            return self._queue.get(timeout=TICK)
        except Empty:
            return "not yet"

    def _read(self) -> None:
        """Read items; whatever happens is handed on to the caller."""
        end: BaseException | None = None
        try:
            item: Item | None = self._first
            while item is not None and self._memory.take(self._size(item), self._stop):
                self._put((item, self._pool.submit(self._work, item, self._stop)))
                item = next(self._items, None)
        except BaseException as error:
            end = error
        finally:
            self._items.close()  # type: ignore[attr-defined]  # a generator
        self._put(end)

    def _put(self, entry: tuple[Item, Future[Result]] | BaseException | None) -> None:
        while not self._stop.is_set():
            try:
                self._queue.put(entry, timeout=TICK)
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
