"""Work on a batch in threads: each takes a chunk, prepares it in Python and decodes it natively without the GIL."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from bridle import _native

T = TypeVar("T")
SMALLEST, LARGEST = 64, 4096  # sequences in a chunk


def in_threads(work: Callable[[int, int, _native.Stop], T], count: int, threads: int) -> list[T]:
    """work(low, high, stop) over all of 0 .. count-1, in order. Ctrl-C, or an error in one chunk, stops all of them."""
    stop = _native.Stop()
    size = LARGEST if threads == 1 else max(SMALLEST, min(LARGEST, -(-count // (8 * threads))))
    if threads == 1 or count <= size:  # in chunks all the same: packing everything at once could not be interrupted
        return [work(low, min(low + size, count), stop) for low in range(0, max(count, 1), size)]
    with ThreadPoolExecutor(min(threads, -(-count // size))) as pool:
        futures = [pool.submit(work, low, min(low + size, count), stop) for low in range(0, count, size)]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            for future in futures:
                future.cancel()
            raise
