"""What a running server has beside its service: lanes of threads, counters, data that was sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from bridle.decoding.threads import thread_count
from bridle.serve import tagging
from bridle.serve.batching import Job, Lane
from bridle.serve.data_cache import DataCache
from bridle.serve.metrics import Metrics
from bridle.serve.service import Service

TOGETHER = 32_768  # tokens that are decoded at once, about
WORKERS = 4  # threads for rules that requests bring along: one that takes long does not hold up the others
_encode = msgspec.json.Encoder().encode


class State:
    """The lanes and counters of a server.

    Three lanes, so that what strangers send does not hold up what the server was set up for: requests under the rules
    of the server, in batches; requests that bring rules along, in batches; and everything else.
    """

    def __init__(self, service: Service, paths: tuple[str, ...]) -> None:
        self.service, self.metrics, self.is_stopping = service, Metrics(paths), False
        self.data = DataCache(service)
        waiting = service.limits.waiting
        cores = thread_count(service.threads)
        self.own = Lane("own", tagging.run, threads=cores, waiting=waiting, together=TOGETHER, seen=self._seen)
        self.brought = Lane(
            "brought", tagging.run, threads=WORKERS, waiting=waiting, together=TOGETHER, seen=self._seen
        )
        self.others = Lane("others", _call, threads=WORKERS, waiting=waiting)
        self.lanes = (self.own, self.brought, self.others)
        self.metrics.gauges = {lane.name: lambda lane=lane: lane.waiting for lane in self.lanes}  # type: ignore[misc]

    def _seen(self, jobs: Sequence[Job]) -> None:
        self.metrics.batch(len(jobs))

    async def call(self, work: Callable[[], Any]) -> Any:
        """Do some work in a thread."""
        return await self.others.ask(work, self.service.limits.seconds)

    def close(self) -> None:
        """End the threads."""
        for lane in self.lanes:
            lane.close()

    def join(self, seconds: float) -> bool:
        """Wait for threads that were told to end; have they? One that is deep in a kernel may need a moment."""
        ends = time.monotonic() + seconds
        joined = [lane.join(max(0.0, ends - time.monotonic())) for lane in self.lanes]
        return all(joined)


def _call(jobs: Sequence[Job]) -> None:
    for job in jobs:
        answer = job.work()
        # here, not in the event loop: a large one would hold up all others
        job.answer = answer if isinstance(answer, bytes) else _encode(answer)
