"""Time on a machine that others use too: limits of time hold beside a busy one."""

from __future__ import annotations

import time


class Stopwatch:
    """Measures what this process takes, from the moment it is made."""

    def __init__(self) -> None:
        self._clock, self._processor = time.perf_counter(), time.process_time()

    @property
    def seconds(self) -> float:
        """Seconds of the clock or, if they are fewer, of the processors: waiting for other processes does not count."""
        return min(time.perf_counter() - self._clock, time.process_time() - self._processor)


def patience(seconds: float) -> float:
    """Seconds that another process may take for what takes it `seconds` on an idle machine.

    The clock says how much longer than its processor time this process takes at the moment; as other processes come and
    go, the square of this ratio is allowed.
    """
    clock, processor = time.perf_counter(), time.process_time()
    while (used := time.process_time() - processor) < 0.1:
        pass
    ratio = (time.perf_counter() - clock) / used
    return seconds * max(1.0, ratio) ** 2
