"""A real server on the embedded references and a real browser. Without Chromium or Playwright these tests are skipped.

In continuous integration a missing Chromium is a failure.

`page` is the explorer in a fresh context. Its test fails on any error in the console, on any exception of a script,
and on any request that leaves this machine. `open_page(...)` makes further pages: other sizes, dark, other addresses.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import bridle
from bridle.data import references
from commands import Cli

WITHIN = 30_000  # milliseconds that a page may take for anything; a machine under load is slow
_ARGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
OpenPage = Callable[..., Any]


def _chromium() -> str:
    """Find Chromium: $BRIDLE_CHROMIUM, or the first of some names on the path."""
    named = os.environ.get("BRIDLE_CHROMIUM")
    result = [named] if named else [shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")]
    return next((path for path in result if path), "")


@contextmanager
def explorer(run: Cli, *words: Any) -> Iterator[str]:
    """Run `bridle explore` with further words; return its address."""
    for package in ("starlette", "uvicorn", "msgspec"):
        pytest.importorskip(package, reason="the explorer needs bridle-nlp[serve]")
    port = () if "--port" in words else ("--port", "0")
    process = run.start("explore", "--no-browser", *port, *words)
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line.decode())
        if match := re.search(r"http://\S+/", lines[-1]):
            break
    else:
        pytest.fail(f"bridle explore did not start: {''.join(lines)}")
    rest = threading.Thread(target=process.stderr.read, daemon=True)  # a full pipe must not stop the server
    rest.start()
    try:
        yield match.group()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=20)
        rest.join(timeout=5)
        process.stderr.close()


@pytest.fixture(scope="session")
def address(run: Cli) -> Iterator[str]:
    """The address of `bridle explore` on the embedded references."""
    with explorer(run) as location:
        yield location


@dataclass(frozen=True)
class Own:
    """A server with a .rules file, and files that are opened in its page."""

    address: str
    rules: Path
    model: Path
    data: Path


@pytest.fixture(scope="session")
def own(run: Cli, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    """`bridle explore my.rules`, a model and a development set of one's own: references in two styles and in others."""
    folder = tmp_path_factory.mktemp("own")
    train = references.references("acm", "lncs", count=40)
    model = bridle.CRF(features="fields", c1=0, c2=0.1)
    model.fit([dict(example.columns) for example in train], [example.known_labels for example in train])
    model.save(folder / "own.bridle")
    rows = [
        {"tokens": list(example.tokens), "labels": list(example.labels or ())}
        for example in references.references("ieee", "mla", count=30)
    ]
    (folder / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "my.rules").write_text("starts with AUTHOR\n", encoding="utf-8")
    with explorer(run, folder / "my.rules") as location:
        yield Own(location, folder / "my.rules", folder / "own.bridle", folder / "dev.jsonl")


@pytest.fixture(scope="module")  # not longer: while it is open, no other test of this process can run an event loop
def browser() -> Iterator[Any]:
    """Chromium, without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="browser tests need the package playwright")
    path = _chromium()
    if not path:
        output = "browser tests need Chromium: install it, or set BRIDLE_CHROMIUM to its path"
        pytest.fail(output) if os.environ.get("CI") else pytest.skip(output)  # .ci/run installs it
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=path, args=list(_ARGS))
        yield opened
        opened.close()


def _context(browser: Any, **options: Any) -> Any:
    """A context of its own: nothing is shared with other tests."""
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"], **options)
    context.set_default_timeout(WITHIN)
    return context


def _watched(page: Any, failures: list[str], expected: str) -> Any:
    """The page, which notes down what must not happen."""

    def said(message: Any) -> None:
        if message.type in ("error", "warning") and not re.search(expected, message.text):
            failures.append(f"console: {message.text}")

    def asked(request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob", "about") and parts.hostname not in ("127.0.0.1", "localhost"):
            failures.append(f"request to {request.url}")

    page.on("console", said)
    page.on("pageerror", lambda error: failures.append(f"exception: {error}"))
    page.on("request", asked)
    return page


def _shown(page: Any, address: str) -> Any:
    page.goto(address)
    page.wait_for_selector("#constrained .token")
    return page


@pytest.fixture
def open_page(browser: Any, address: str) -> Iterator[OpenPage]:
    """`open_page(width=390, dark=True, at="#...")`: the explorer with its first result. Nothing may fail in it.

    `expected`: regular expression of messages in the console that the test provokes.
    """
    contexts: list[Any] = []
    failures: list[str] = []

    def make(
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        at: str = "",
        expected: str = "(?!)",
        server: str = address,
    ) -> Any:
        scheme = "dark" if dark else "light"
        contexts.append(_context(browser, viewport={"width": width, "height": height}, color_scheme=scheme))
        return _shown(_watched(contexts[-1].new_page(), failures, expected), server + at)

    yield make
    for context in contexts:
        context.close()
    assert not failures, "\n".join(failures)


@pytest.fixture(scope="module")
def _window(browser: Any) -> Iterator[tuple[Any, list[str]]]:
    """A page that is loaded again for each test: a new window each time would take longer than most tests."""
    failures: list[str] = []
    context = _context(browser, viewport={"width": 1280, "height": 900})
    yield _watched(context.new_page(), failures, "(?!)"), failures
    context.close()


@pytest.fixture
def page(_window: tuple[Any, list[str]], address: str) -> Iterator[Any]:
    """The explorer, with the result of its first sample text. Nothing may fail in it."""
    window, failures = _window
    if window.url.startswith(address):
        window.evaluate("localStorage.clear()")
    window.goto("about:blank")  # else only the fragment of the address would change
    yield _shown(window, address)
    window.unroute_all()
    result = [*failures]
    failures.clear()
    assert not result, "\n".join(result)
