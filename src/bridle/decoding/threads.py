"""Work on a batch in threads: each takes a chunk, prepares it in Python and works on it natively without the GIL."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache
from threading import current_thread
from typing import TypeVar

from bridle import _native
from bridle.checks import is_integer
from bridle.errors import EngineError

T = TypeVar("T")
SMALLEST, LARGEST = 64, 4096  # sequences in a chunk
_NAME = "bridle-worker"


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_count(asked: object) -> int:
    """How many threads were asked for; 0 is all cores."""
    if not is_integer(asked, 0):
        raise EngineError("`threads` must be a non-negative integer", got=repr(asked), wanted="0 (all cores) or more")
    return int(asked) or cores()


def in_threads(work: Callable[[int, int, _native.Stop], T], count: int, threads: int) -> list[T]:
    """work(low, high, stop) over all of 0 .. count-1, in order. Ctrl-C, or an error in one chunk, stops all of them."""
    size = LARGEST if threads == 1 else max(SMALLEST, min(LARGEST, -(-count // (8 * threads))))
    if count <= size:
        return [work(0, count, _native.Stop())]
    # In chunks even with one thread: packing everything at once could not be interrupted.
    return over_parts(work, [(low, min(low + size, count)) for low in range(0, max(count, 1), size)], threads)


def over_parts(work: Callable[[int, int, _native.Stop], T], parts: Sequence[tuple[int, int]], threads: int) -> list[T]:
    """work(low, high, stop) over these parts."""
    stop = _native.Stop()
    inside = current_thread().name.startswith(_NAME)  # work that has threads itself: all of them may be waiting for us
    if threads == 1 or len(parts) == 1 or inside:
        return [work(low, high, stop) for low, high in parts]
    pool = _pool(os.getpid(), threads)
    futures = [pool.submit(work, low, high, stop) for low, high in parts]
    try:
        return [future.result() for future in futures]
    except BaseException:
        stop.set()
        for future in futures:
            future.cancel()
        wait(futures)  # nobody writes into what the caller may throw away
        raise


@lru_cache(maxsize=4)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads that stay: starting them takes longer than many a piece of work. A forked process starts its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix=_NAME)
