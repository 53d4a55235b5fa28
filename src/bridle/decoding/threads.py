"""Work on a batch in threads: each takes a chunk, prepares it in Python and works on it natively without the GIL."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache
from operator import index
from threading import current_thread
from typing import TypeVar

from bridle import _native
from bridle.deadline import check_stopped, current_stop, stopping
from bridle.errors import EngineError

T = TypeVar("T")
SMALLEST, LARGEST = 64, 4096  # sequences in a chunk
_NAME = "bridle-worker"


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_count(threads: object) -> int:
    """Check the option `threads` and return their number; 0 means all cores."""
    count = index(threads) if hasattr(threads, "__index__") and not isinstance(threads, bool) else -1
    if count < 0:
        raise EngineError("`threads` must be a non-negative integer", got=repr(threads), wanted="0 (all cores) or more")
    return count or cores()


def in_threads(
    work: Callable[[int, int, _native.Stop], T], count: int, threads: int, stop: _native.Stop | None = None
) -> list[T]:
    """Call work(low, high, stop) for chunks of 0 .. count-1 and return the results in order.

    Ctrl-C, or an error in one chunk, stops all of them. stop: ends the work when it is set; None: the stop of the
    work around the call.
    """
    size = LARGEST if threads == 1 else max(SMALLEST, min(LARGEST, -(-count // (8 * threads))))
    if count <= size and stop is None:
        return [work(0, count, current_stop() or _native.Stop())]
    # In chunks even with one thread: packing everything at once could not be interrupted.
    return over_parts(work, [(low, min(low + size, count)) for low in range(0, max(count, 1), size)], threads, stop)


def over_parts(
    work: Callable[[int, int, _native.Stop], T],
    parts: Sequence[tuple[int, int]],
    threads: int,
    stop: _native.Stop | None = None,
) -> list[T]:
    """Call work(low, high, stop) for these parts, in threads, and return the results in order."""
    outer = current_stop() if stop is None else stop
    shared = _native.Stop() if outer is None else outer

    def part(low: int, high: int) -> T:
        with stopping(shared):  # a thread of the pool does not know it
            check_stopped()
            return work(low, high, shared)

    inside = current_thread().name.startswith(_NAME)  # work that has threads itself: all of them may be waiting for us
    if threads == 1 or len(parts) == 1 or inside:
        return [part(low, high) for low, high in parts]
    pool = _pool(os.getpid(), threads)
    futures = [pool.submit(part, low, high) for low, high in parts]
    try:
        return [future.result() for future in futures]
    except BaseException as error:
        if outer is None or not isinstance(error, Exception):  # others' work may go on after an error in ours
            shared.set()
        for future in futures:
            future.cancel()
        wait(futures)  # the caller may free what they write into
        raise


@lru_cache(maxsize=4)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Return threads that are kept: starting them is slow. A forked process starts its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix=_NAME)
