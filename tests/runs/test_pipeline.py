"""The pipeline of threads: order, bounds, and how it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from bridle._native import Stop
from bridle.runs.run import Memory, pipelined
from stopwatch import patience


def numbers(n: int) -> Iterator[int]:
    yield from range(n)


def work_threads() -> list[str]:
    return [item.name for item in threading.enumerate() if item.name.startswith(("bridle-tag", "bridle-read"))]


def test_results_come_in_the_order_of_the_items() -> None:
    def work(n: int, stop: Stop) -> int:
        time.sleep(0.002 * (n % 3))
        return n * n

    results = pipelined(numbers(50), work, lambda n: 1, threads=4, memory=100)
    assert [pair for pair in results if pair is not None] == [(n, n * n) for n in range(50)]


def test_few_items_need_no_threads() -> None:
    seen = []
    for pair in pipelined(
        numbers(2), lambda n, stop: threading.current_thread().name, lambda n: 1, threads=4, memory=9
    ):
        assert pair is not None
        seen.append((pair, work_threads()))
    assert seen == [((n, threading.current_thread().name), []) for n in range(2)]


def test_no_more_than_the_memory_is_under_way() -> None:
    read, most = [0], 0

    def items() -> Iterator[int]:
        for n in range(60):
            read[0] += 1
            yield n

    results = pipelined(items(), lambda n, stop: n, lambda n: 10, threads=4, memory=35)
    for done, _ in enumerate(pair for pair in results if pair is not None):
        most = max(most, read[0] - done)
    assert most <= 3 + 1  # what fits, and the one that waits for memory


def test_few_items_more_than_threads_are_under_way() -> None:
    """However much memory there is: long input must not need more than short input."""
    read = [0]

    def items() -> Iterator[int]:
        for n in range(60):
            read[0] += 1
            yield n

    for done, _ in enumerate(pipelined(items(), lambda n, stop: n, lambda n: 1, threads=2, memory=10**9)):
        time.sleep(0.002)  # the reader could read everything meanwhile
        assert read[0] - done <= 2 + 2 + 2  # threads, two that wait, one on each side of the queue


def test_an_item_larger_than_the_memory_gets_in_alone() -> None:
    results = pipelined(numbers(5), lambda n, stop: n, lambda n: 1000, threads=2, memory=10)
    assert [pair for pair in results if pair is not None] == [(n, n) for n in range(5)]


@pytest.mark.parametrize("where", ["read", "work", "caller"])
@pytest.mark.parametrize("at", [0, 1, 20])  # in the caller's thread, and in others
def test_an_error_anywhere_stops_all_and_comes_out_once(where: str, at: int) -> None:
    closed: list[bool] = []

    def items() -> Iterator[int]:
        try:
            for n in range(10**9):
                if where == "read" and n == at:
                    raise KeyError("read")
                yield n
        finally:
            closed.append(True)

    def work(n: int, stop: Stop) -> int:
        if where == "work" and n == at:
            raise KeyError("work")
        return n

    seen: list[int] = []
    with (
        pytest.raises(KeyError, match=where),
        closing(pipelined(items(), work, lambda n: 1, threads=3, memory=50)) as results,
    ):
        for pair in results:
            if where == "caller" and len(seen) == at:
                raise KeyError("caller")
            if pair is not None:
                seen.append(pair[1])
    assert seen == list(range(at)) and closed == [True]
    end = time.monotonic() + patience(1)
    while work_threads() and time.monotonic() < end:
        time.sleep(0.01)
    assert work_threads() == []


def test_work_is_asked_to_stop() -> None:
    begun, stopped = threading.Event(), threading.Event()

    def work(n: int, stop: Stop) -> int:
        if n < 3:
            return n
        begun.set()
        end = time.monotonic() + 30
        while not stop.is_set():
            assert time.monotonic() < end
            time.sleep(0.001)
        stopped.set()
        raise KeyboardInterrupt

    with closing(pipelined(numbers(6), work, lambda n: 1, threads=2, memory=50)) as results:
        pairs = (pair for pair in results if pair is not None)
        assert [next(pairs) for _ in range(3)] == [(n, n) for n in range(3)]
        assert begun.wait(30)
    assert stopped.is_set() and work_threads() == []


def test_waiting_for_memory_ends_with_the_stop() -> None:
    memory, stop = Memory(10), Stop()
    assert memory.take(8, stop)
    stop.set()
    assert not memory.take(8, stop)
    memory.give(8)
    assert memory.used == 0
