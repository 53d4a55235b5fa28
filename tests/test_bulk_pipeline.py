"""The pipeline of threads: order, bounds, and how it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from bridle.bulk.pipeline import Pipeline, Room, Stopped


def results(pipeline: Pipeline[int, int]) -> list[int]:
    with pipeline as running:
        return [found[1] for found in running if found is not None]


def numbers(n: int) -> Iterator[int]:
    yield from range(n)


def test_results_come_in_the_order_of_the_items() -> None:
    def work(n: int, stop: threading.Event) -> int:
        time.sleep(0.002 * (n % 3))
        return n * n

    assert results(Pipeline(numbers(50), work, lambda n: 1, threads=4, memory=100)) == [n * n for n in range(50)]


def test_no_more_than_the_memory_is_under_way() -> None:
    read, most = [0], 0

    def items() -> Iterator[int]:
        for n in range(60):
            read[0] += 1
            yield n

    with Pipeline(items(), lambda n, stop: n, lambda n: 10, threads=4, memory=35) as running:
        for done, _ in enumerate(found for found in running if found is not None):
            most = max(most, read[0] - done)
    assert most <= 3 + 1  # what fits, and the one that waits for room


def test_an_item_larger_than_the_memory_gets_in_alone() -> None:
    assert results(Pipeline(numbers(5), lambda n, stop: n, lambda n: 1000, threads=2, memory=10)) == list(range(5))


@pytest.mark.parametrize("where", ["read", "work", "caller"])
def test_an_error_anywhere_stops_all_and_comes_out_once(where: str) -> None:
    closed: list[bool] = []

    def items() -> Iterator[int]:
        try:
            for n in range(10**9):
                if where == "read" and n == 20:
                    raise KeyError("read")
                yield n
        finally:
            closed.append(True)

    def work(n: int, stop: threading.Event) -> int:
        if where == "work" and n == 20:
            raise KeyError("work")
        return n

    seen = []
    with pytest.raises(KeyError, match=where), Pipeline(items(), work, lambda n: 1, threads=3, memory=50) as running:
        for found in running:
            if found is not None:
                seen.append(found[1])
            if where == "caller" and len(seen) == 20:
                raise KeyError("caller")
    assert seen == list(range(20)) and closed == [True]
    assert not [one for one in threading.enumerate() if one.name.startswith(("bridle-tag", "bridle-read"))]


def test_work_is_asked_to_stop() -> None:
    stopped = threading.Event()

    def work(n: int, stop: threading.Event) -> int:
        if n == 0:
            return n
        assert stop.wait(30)
        stopped.set()
        raise Stopped

    begun = time.monotonic()
    with Pipeline(numbers(3), work, lambda n: 1, threads=2, memory=50) as running:
        assert next(iter(running)) == (0, 0)
    assert stopped.is_set() and time.monotonic() - begun < 10


def test_waiting_for_room_ends_with_the_stop() -> None:
    room, stop = Room(10), threading.Event()
    assert room.take(8, stop)
    stop.set()
    assert not room.take(8, stop)
    room.give(8)
    assert room.used == 0
