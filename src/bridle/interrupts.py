"""Ctrl-C while the command line is imported: there is nothing to lose yet, and a traceback would not help."""

from __future__ import annotations

import os
import signal

INTERRUPTED = 130  # exit code


def stop_at_once() -> None:
    """From now on Ctrl-C ends the process with one line."""
    signal.signal(signal.SIGINT, _stop)


def stop_as_usual() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt again, if `stop_at_once` was called."""
    if signal.getsignal(signal.SIGINT) is _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _stop(*_: object) -> None:
    os.write(2, b"bridle: interrupted\n")
    os._exit(INTERRUPTED)
