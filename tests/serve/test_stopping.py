"""Abandoned work ends at once, whatever it is: the client has gone, or the time of the request is up.

It takes about a millisecond of processor time. That of the process is measured from the moment of the stop to the end
of the work, because machines that run tests are busy.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from bridle.serve.lanes import Job
from serving import Client, long_search, service_of

UNDER_WAY = 0.3  # seconds after which work is stopped
SECONDS = 0.15  # of the processor: it takes a few milliseconds, more on a busy machine; work that goes on takes seconds
LABELS = list(service_of().labels)
TYPES = LABELS[1:]
COUNTS = [f"at most {1 + k % 5} segments of {TYPES[k % len(TYPES)]}" for k in range(100)]
PAIRS = [(TYPES[k % len(TYPES)], TYPES[(k + 1) % len(TYPES)]) for k in range(60)]
EITHER = [f"(at most {5 + k} tokens of {a}) or (at least {7 + k} tokens of {b})" for k, (a, b) in enumerate(PAIRS)]
LARGE = [f"(at most {40 + k} tokens of {a}) or (at least {60 + k} tokens of {b})" for k, (a, b) in enumerate(PAIRS)]
SAME = "same label for equal tokens"
LONG = [f"w{k % 50}" for k in range(2000)]
WORK: dict[str, tuple[str, str, Any]] = {
    "kernel": ("request_rules", "/tag", long_search(60)),
    "automata": ("request_rules", "/tag", {"tokens": [["a"]], "rules": LARGE}),
    "patterns": (
        "request_rules",
        "/tag",
        {
            "tokens": [[f"{'x' * 900}{k}" for k in range(1000)]],
            "rules": [f"fix {TYPES[0]} at tokens /(\\w|\\d){{1,{20 + k}}}x{k}/" for k in range(100)],
        },
    ),
    "linter": ("others", "/rules/check", {"rules": "\n".join(EITHER)}),
    "scores": (
        "others",
        "/decode",
        {
            "labels": LABELS,
            "sequences": [{"unary": [[0.1 * (t * y % 7) for y in range(len(LABELS))] for t in range(500)]}] * 60,
            "rules": COUNTS[:60],
            "k": 50,
        },
    ),
    "explanation": ("others", "/explain", {"tokens": LONG, "rules": [SAME, *COUNTS], "k": 20}),
    "figures": ("others", "/evaluate", {"data": "sample", "rules": [*EITHER, *COUNTS]}),
}


class Watched:
    """A lane that tells when its work is well under way, and when it ends."""

    def __init__(self, client: Client, lane: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.under_way, self.ended = threading.Event(), threading.Event()
        chosen = getattr(client.app.state.default, lane)
        run = chosen._run

        def watched(jobs: Sequence[Job]) -> None:
            threading.Timer(UNDER_WAY, self.under_way.set).start()
            try:
                run(jobs)
            finally:
                self.ended.set()

        monkeypatch.setattr(chosen, "_run", watched)

    def spent(self, since: float) -> float:
        """Processor time from a moment to the end of the work."""
        assert self.ended.wait(60)
        return time.process_time() - since


@pytest.mark.parametrize("kind", WORK)
def test_a_client_that_goes_away_stops_its_work(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lane, path, body = WORK[kind]
    client = Client(service_of(seconds=60.0))
    watched = Watched(client, lane, monkeypatch)

    async def leave() -> float:
        goes = threading.Event()
        task = asyncio.create_task(client.leave(path, body, goes))
        await asyncio.to_thread(watched.under_way.wait, 60)
        assert not watched.ended.is_set(), "the work is too short for this test"
        gone = time.process_time()
        goes.set()
        assert await task == [499]
        return watched.spent(gone)

    assert asyncio.run(leave()) < SECONDS
    assert client.app.state.metrics.in_flight == 0
    client.app.state.close()


@pytest.mark.parametrize("kind", ["kernel", "automata", "patterns", "linter", "scores"])  # others end by themselves
def test_a_request_whose_time_is_up_stops_its_work(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lane, path, body = WORK[kind]
    client = Client(service_of(seconds=2 * UNDER_WAY))
    watched = Watched(client, lane, monkeypatch)
    assert client.post(path, body).status_code == 504
    late = time.process_time()
    assert watched.spent(late) < SECONDS
    client.app.state.close()


def test_a_client_that_stays_gets_its_answer_however_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(service_of())
    run = client.app.state.default.server_rules._run

    def slowly(jobs: Sequence[Job]) -> None:
        time.sleep(0.1)
        run(jobs)

    monkeypatch.setattr(client.app.state.default.server_rules, "_run", slowly)
    assert client.ok("/tag", {"texts": ["Knuth, D. The TeXbook. 1984"]})["results"][0]["status"] == "optimal"
    client.app.state.close()
