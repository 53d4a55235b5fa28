"""Costs of tagging on N cores: a model with five measured figures.

    processes   seconds = start-up + tokens / (N * busy)
    threads     seconds = start-up + tokens * max((serial + (1 - serial) / N) / busy, 1 / limit)

    busy        tokens per second of a core while the other core of the machine works too: half of what two processes do
    serial      share of the work of one process that one thread does at a time. Two processes and one process with two
                threads use the same two cores. What the cores do to each other (caches, memory, shared units) slows
                both, and the ratio of their rates leaves Amdahl's share.
    limit       tokens per second of the one thread that reads, or of the one that writes, whichever is slower. On two
                cores they work beside the tagging; on many, the tagging waits for them.

Processes have a part of the input each and share nothing, so their line is straight. That holds as long as there are
many more files or partitions than processes, and the storage is fast enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Use = Literal["one core", "two processes", "two threads"]
USES: tuple[Use, ...] = ("one core", "two processes", "two threads")
FORMATS = ("parquet", "jsonl", "conll")  # of files
OLD = "by stdin"  # how version 0.1 read the files of the baseline


@dataclass(frozen=True)
class Costs:
    """Measured figures of one way to tag."""

    startup: float  # seconds from the start of a process to its first answer
    single: float  # tokens per second of a process on one core
    two: float  # of two processes, each on a core of its own, together
    threads: float  # of one process with two threads on two cores
    limit: float = float("inf")  # of the thread of a process that reads or writes

    @property
    def busy(self) -> float:
        """Tokens per second of a core that is not alone."""
        return self.two / 2

    @property
    def serial(self) -> float:
        """Share of the work of a process that is never done by two threads at a time, from 0 to 1."""
        return min(max(self.two / self.threads - 1, 0.0), 1.0)

    def process_rate(self, cores: int) -> float:
        """Tokens per second of a process for each core; measured for one and two cores."""
        return self.single if cores == 1 else cores * self.busy

    def thread_rate(self, cores: int) -> float:
        """Tokens per second of one process with a thread for each core; measured for one and two cores."""
        if cores == 1:
            return self.single
        return min(self.busy / (self.serial + (1 - self.serial) / cores), max(self.limit, self.threads))

    def seconds(self, tokens: float, cores: int) -> float:
        """Seconds of processes on all cores."""
        return self.startup + tokens / self.process_rate(cores)

    def seconds_of_threads(self, tokens: float, cores: int) -> float:
        """Seconds of one process on all cores."""
        return self.startup + tokens / self.thread_rate(cores)


def rate_of(rates: Iterable[dict[str, Any]], unit: str = "tokens_per_second", **wanted: Any) -> float | None:
    """The figure of the one case with these properties; None if it was not measured."""
    figures = [rate[unit] for rate in rates if all(rate[name] == value for name, value in wanted.items())]
    return None if not figures or figures[0] is None else float(figures[0])


def costs_of(sections: dict[str, Any], way: str = "parquet", *, rules: bool = True) -> Costs | None:
    """The costs of a way of tagging references, if both the rates and the start-up were measured."""
    if "rate" not in sections or "startup" not in sections:
        return None
    rates = [rate_of(sections["rate"]["rates"], name="references", way=way, rules=rules, use=use) for use in USES]
    single, two, threads = rates
    if single is None or two is None or threads is None:
        return None
    limit = limit_of(sections["rate"].get("limits", {}).get(way, {}))
    return Costs(sections["startup"]["command"]["seconds"], single, two, threads, limit)


def limit_of(threads: dict[str, float]) -> float:
    """Tokens per second of the busiest thread that does not tag, from the seconds per token of all threads."""
    others = [seconds for name, seconds in threads.items() if not re.search("tag|worker", name) and seconds > 0]
    return 1 / max(others) if others else float("inf")


def told_time(seconds: float) -> str:
    """A time for people: 0.84 s, 75 s, 12 min, 3.4 h."""
    if seconds < 120:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def told_rate(rate: float | None) -> str:
    """A rate for people: 1.34 million, 215,000; nothing if there is none."""
    if rate is None:
        return ""
    return f"{rate / 1e6:.2f} million" if rate >= 1e6 else f"{round(rate, -3):,.0f}"
