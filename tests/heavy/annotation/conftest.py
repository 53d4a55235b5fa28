"""Servers of annotation tools: ports, waiting, answers."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest


def command(variable: str, name: str) -> str:
    """Find the command of a tool; skip the test without it."""
    path = os.environ.get(variable) or shutil.which(name)
    if not path:
        pytest.skip(f"needs {name}: make test-annotation-tools")
    return path


def free_port() -> int:
    """Find a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def until(done: Callable[[], Any], seconds: float = 120) -> Any:
    """Call a function until it returns something; a server that does not answer yet is asked again."""
    ends = time.monotonic() + seconds
    while True:
        try:
            if result := done():
                return result
        except httpx.TransportError:
            pass
        assert time.monotonic() < ends, "it took too long"
        time.sleep(0.2)


def ok(answer: httpx.Response) -> Any:
    """Return the JSON of an answer that has to be a success."""
    assert answer.is_success, f"{answer.request.url}: {answer.status_code} {answer.text[:500]}"
    return answer.json()
