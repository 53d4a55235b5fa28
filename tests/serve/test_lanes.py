"""Requests that arrive together are decoded together; abandoned work is stopped."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from bridle.deadline import check_stopped, current_stop
from bridle.serve.errors import HttpError
from bridle.serve.lanes import Job, Lane
from serving import Client, long_search, service_of
from stopwatch import Stopwatch, patience


def doubled(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.answer = 2 * job.work


def test_what_waits_is_done_together_in_order() -> None:
    sizes, begun, gate = list[int](), threading.Event(), threading.Event()

    def run(jobs: Sequence[Job]) -> None:
        begun.set()
        gate.wait(5)
        sizes.append(len(jobs))
        doubled(jobs)

    async def ask() -> list[Any]:
        lane = Lane("test", run, batch_size=100)
        first = asyncio.create_task(lane.submit(1, 5))
        await asyncio.to_thread(begun.wait, 5)
        others = [asyncio.create_task(lane.submit(k, 5, size=30)) for k in range(2, 8)]
        while lane.waiting < 6:
            await asyncio.sleep(0)
        gate.set()
        result = [await task for task in (first, *others)]
        lane.close()
        return result

    assert asyncio.run(ask()) == [2, 4, 6, 8, 10, 12, 14]
    assert sizes == [1, 4, 2]  # a batch is full when it has 100 tokens


def test_a_request_that_comes_after_the_end_leaves_no_thread() -> None:
    """A request that came before a reload may arrive at a lane that was closed."""
    lane = Lane("test", doubled, threads=3)

    async def ask() -> list[int]:
        answers = [await lane.submit(1, 5)]
        lane.close()
        return [*answers, await lane.submit(2, 5), await lane.submit(3, 5)]

    assert asyncio.run(ask()) == [2, 4, 6]
    assert lane.join(patience(5))


def test_a_full_queue_turns_requests_away() -> None:
    begun, gate = threading.Event(), threading.Event()

    def run(jobs: Sequence[Job]) -> None:
        begun.set()
        gate.wait(5)
        doubled(jobs)

    async def ask() -> tuple[list[Any], int]:
        lane = Lane("test", run, max_waiting=2)
        tasks = [asyncio.create_task(lane.submit(0, 5))]
        await asyncio.to_thread(begun.wait, 5)
        tasks += [asyncio.create_task(lane.submit(k, 5)) for k in range(1, 4)]
        while lane.waiting < 2:
            await asyncio.sleep(0)
        gate.set()
        result = await asyncio.gather(*tasks, return_exceptions=True)
        lane.close()
        return [item for item in result if isinstance(item, int)], sum(isinstance(item, HttpError) for item in result)

    assert asyncio.run(ask()) == ([0, 2, 4], 1)


def test_python_code_that_nobody_waits_for_is_stopped() -> None:
    ended = threading.Event()

    def run(jobs: Sequence[Job]) -> None:
        if jobs[0].work:
            doubled(jobs)
            return
        try:
            while True:
                check_stopped()
        finally:
            ended.set()

    async def ask() -> Any:
        lane = Lane("test", run)
        with pytest.raises(HttpError) as error:
            await lane.submit(0, 0.02)
        assert error.value.status == 504
        after = await lane.submit(21, 5)  # the only thread is free again
        lane.close()
        return after

    assert asyncio.run(ask()) == 42
    assert ended.is_set()


def test_a_batch_is_stopped_when_nobody_waits_for_any_part_of_it() -> None:
    begun, gate, stopped = threading.Event(), threading.Event(), list[bool]()

    def run(jobs: Sequence[Job]) -> None:
        if len(jobs) == 1:  # holds the thread until the others wait
            begun.set()
            gate.wait(5)
            return
        stop = current_stop()
        assert stop is not None
        jobs[0].abandon()
        stopped.append(stop.is_set())
        jobs[1].abandon()
        stopped.append(stop.is_set())
        check_stopped()

    async def ask() -> None:
        lane = Lane("test", run, batch_size=100)
        first = asyncio.create_task(lane.submit(0, 5))
        await asyncio.to_thread(begun.wait, 5)
        others = [asyncio.create_task(lane.submit(k, 5)) for k in range(2)]
        while lane.waiting < 2:
            await asyncio.sleep(0)
        gate.set()
        await first
        for task in others:
            with pytest.raises(HttpError, match="stopped"):
                await task
        lane.close()

    asyncio.run(ask())
    assert stopped == [False, True]


def test_what_was_abandoned_before_its_turn_is_dropped() -> None:
    done = list[int]()

    gate = threading.Event()

    def run(jobs: Sequence[Job]) -> None:
        gate.wait(5)
        done.extend(job.work for job in jobs)
        doubled(jobs)

    async def ask() -> None:
        lane = Lane("test", run)
        first = asyncio.create_task(lane.submit(1, 5))
        late = asyncio.create_task(lane.submit(2, 0.005))
        last = asyncio.create_task(lane.submit(3, 5))
        with pytest.raises(HttpError):
            await late
        gate.set()
        assert (await first, await last) == (2, 6)
        lane.close()

    asyncio.run(ask())
    assert done == [1, 3]


def test_an_error_is_that_of_its_job() -> None:
    def run(jobs: Sequence[Job]) -> None:
        raise ValueError("odd")

    async def ask() -> None:
        lane = Lane("test", run)
        with pytest.raises(ValueError, match="odd"):
            await lane.submit(1, 5)
        with pytest.raises(ValueError, match="odd"):
            await lane.submit(1, 5)  # the thread is still there
        lane.close()

    asyncio.run(ask())


# ---- with the model -------------------------------------------------------------------------------------------------


def batches(client: Client) -> tuple[int, int]:
    """Return the number of batches, and of requests in them."""
    text = client.get("/metrics").text
    count, total = (re.search(rf"bridle_batch_requests_{name} (\S+)", text) for name in ("count", "sum"))
    assert count is not None and total is not None
    return int(count[1]), int(float(total[1]))


def test_requests_that_arrive_together_are_one_batch_and_get_their_own_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client(replace(service_of(seconds=300), threads=1))  # requests wait for the last of them
    sample = [list(example.tokens) for example in client.service.sample[:61]]
    alone = [client.ok("/tag", {"tokens": [tokens]}) for tokens in sample]
    before = batches(client)
    lane, begun = client.app.state.default.server_rules, threading.Event()
    run = lane._run

    def run_when_the_others_wait(jobs: Sequence[Job]) -> None:
        if not begun.is_set():
            begun.set()
            ends = time.monotonic() + 300
            while len(jobs) + lane.waiting < 61 and time.monotonic() < ends:
                time.sleep(0.001)
        run(jobs)

    monkeypatch.setattr(lane, "_run", run_when_the_others_wait)
    result = client.together([("POST", "/tag", {"tokens": [tokens]}, {}) for tokens in sample])
    after = batches(client)
    assert [item.json() for item in result] == alone
    assert after[1] - before[1] == 61 and after[0] - before[0] <= 2  # the first ones, and those that came meanwhile
    client.app.state.close()


def test_one_bad_request_does_not_spoil_its_batch() -> None:
    client = Client(service_of())
    good = {"texts": ["Knuth, D. The TeXbook. 1984"]}
    bad = [{"texts": ["a"], "k": 999}, {"columns": [{"pos": []}]}, {"texts": ["a"], "rules": "nonsense"}, {"texts": 1}]
    bodies = [good, *bad] * 8
    result = client.together([("POST", "/tag", body, {}) for body in bodies])
    wanted = client.ok("/tag", good)
    assert [item.status_code for item in result] == [200, 422, 422, 422, 422] * 8
    assert all(item.json() == wanted for item in result[::5])
    client.app.state.close()


def test_a_sequence_that_lacks_what_a_rule_reads_fails_alone() -> None:
    client = Client(service_of())
    rules, main = ["fix AUTHOR at pos /N/"], client.service.main
    good = {"columns": [{main: ["Knuth"], "pos": ["N"]}] * 2, "rules": rules}
    bad = {"columns": [{main: ["Knuth"], "pos": ["N"]}, {main: ["Knuth"]}], "rules": rules}
    results = client.together([("POST", "/tag", body, {}) for body in [good, bad] * 5])
    assert [outcome.status_code for outcome in results] == [200] * 10
    assert all(
        [result["labels"] for result in outcome.json()["results"]] == [["AUTHOR"]] * 2 for outcome in results[::2]
    )
    for outcome in results[1::2]:
        fine, failed = outcome.json()["results"]
        assert fine["labels"] == ["AUTHOR"] and failed["status"] == "error" and failed["error"]["code"] == "given"
    none = {"columns": [{main: ["Knuth"]}], "rules": rules}  # if no sequence can be labelled, the request has an error
    assert client.error("/tag", none, 422, "given")["sequence"] == 0
    client.app.state.close()


@pytest.mark.parametrize("path", ["/tag", "/explain", "/decode"])
def test_hostile_rules_do_not_outlive_their_request(path: str) -> None:
    client = Client(service_of(seconds=0.3, rule_parts=100))
    pairs = [(a, b) for a in client.service.labels for b in client.service.labels]
    rule = " or ".join(
        f"(at least {10 + k} tokens of {a} and at most 5 segments of {b})" for k, (a, b) in enumerate(pairs[:30])
    )
    names = list(client.service.labels)
    body: dict[str, Any] = {
        "/tag": {"tokens": [["a"] * 50]},
        "/explain": {"tokens": ["a"] * 50},
        "/decode": {"labels": names, "sequences": [{"unary": [[0.0] * len(names)] * 50}]},
    }[path]
    easy = ("POST", path, {**body, "rules": ["present AUTHOR"]}, {})
    hostile, *others = client.in_turn([("POST", path, {**body, "rules": [rule]}, {}), *[easy] * 5])
    assert (hostile.status_code, hostile.json()["error"]["code"]) == (504, "time")
    assert others[-1].status_code == 200, others[-1].text  # alone, compiling the rule takes many times 0.3 seconds
    client.app.state.close()


@pytest.mark.slow
def test_kernels_that_nobody_waits_for_are_stopped() -> None:
    client = Client(service_of(seconds=1.0))
    hard = long_search(60)
    easy = ("POST", "/tag", {"texts": ["a"], "rules": ["present AUTHOR"]}, {})
    watch = Stopwatch()
    result = client.in_turn([("POST", "/tag", hard, {}), easy, easy])  # 60 sequences, 0.2 seconds each if not stopped
    assert [item.status_code for item in result[::2]] == [504, 200]
    assert watch.seconds < 4
    client.app.state.close()
