"""Counters of a server in the text format of Prometheus. Label values come from fixed lists, so memory is bounded."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from threading import Lock

TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
OTHER = "other"  # label of requests to unknown paths


class Histogram:
    """Numbers of values between bounds, and their sum."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str, labels: str = "") -> Iterator[str]:
        """Yield the lines of cumulative buckets, sum and count."""
        total, comma = 0, "," if labels else ""
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels}{comma}le="{bound}"}} {total}'
        braces = f"{{{labels}}}" if labels else ""
        yield f"{name}_sum{braces} {self.sum:.6f}"
        yield f"{name}_count{braces} {total}"


class Metrics:
    """Counters of a server. Requests are counted in the event loop, batches in threads."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.requests: dict[tuple[str, int], int] = {}
        self.seconds = {path: Histogram(SECONDS) for path in (*paths, OTHER)}
        self.batches = Histogram(SIZES)
        self.sequences = self.tokens = self.in_flight = 0
        self.gauges: dict[str, Callable[[], int]] = {}  # numbers of waiting jobs, by lane
        self._lock = Lock()

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """Count a finished request."""
        known = path if path in self.seconds else OTHER
        self.requests[known, status] = self.requests.get((known, status), 0) + 1
        self.seconds[known].add(seconds)

    def count_batch(self, requests: int) -> None:
        """Count a batch of requests that were decoded together."""
        with self._lock:
            self.batches.add(requests)

    def count_sequences(self, sequences: int, tokens: int) -> None:
        """Count labelled sequences and their tokens."""
        with self._lock:
            self.sequences += sequences
            self.tokens += tokens

    def text(self) -> str:
        """Render all counters in the text format of Prometheus."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _head("bridle_requests_total", "counter", "Requests by path and status.")
        for (path, status), count in sorted(self.requests.items()):
            yield f'bridle_requests_total{{path="{path}",status="{status}"}} {count}'
        yield from _head("bridle_request_seconds", "histogram", "Time from the request to its answer.")
        for path, histogram in self.seconds.items():
            if any(histogram.counts):
                yield from histogram.lines("bridle_request_seconds", f'path="{path}"')
        yield from _head("bridle_batch_requests", "histogram", "Requests that were decoded together.")
        yield from self.batches.lines("bridle_batch_requests")
        yield from _head("bridle_sequences_total", "counter", "Sequences that were labelled.")
        yield f"bridle_sequences_total {self.sequences}"
        yield from _head("bridle_tokens_total", "counter", "Tokens that were labelled.")
        yield f"bridle_tokens_total {self.tokens}"
        yield from _head("bridle_requests_in_flight", "gauge", "Requests that are being answered.")
        yield f"bridle_requests_in_flight {self.in_flight}"
        yield from _head("bridle_requests_waiting", "gauge", "Requests that wait for a thread.")
        for lane, count_of in self.gauges.items():
            yield f'bridle_requests_waiting{{lane="{lane}"}} {count_of()}'


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"
