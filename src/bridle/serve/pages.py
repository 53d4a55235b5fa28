"""The files of the explorer, held in memory with their types and tags: a request reads nothing from disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable

from bridle.serve.guard import Receive, Scope, Send
from bridle.serve.problems import HttpError

TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".ico": b"image/x-icon",
    ".js": b"text/javascript; charset=utf-8",
    ".json": b"application/json",
    ".png": b"image/png",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class Page:
    """A file, or a page that was made; an ASGI application."""

    body: bytes
    kind: bytes
    tag: bytes

    @classmethod
    def of(cls, body: bytes, suffix: str) -> Page:
        """The page of some bytes."""
        return cls(body, TYPES[suffix], b'"' + hashlib.sha256(body).hexdigest()[:32].encode() + b'"')

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, or say that the reader has it already."""
        headers = [(b"cache-control", b"no-cache"), (b"etag", self.tag)]
        known = next((value for name, value in scope["headers"] if name == b"if-none-match"), b"")
        if self.tag in [tag.strip() for tag in known.split(b",")]:
            await send({"type": "http.response.start", "status": 304, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        body = b"" if scope["method"] == "HEAD" else self.body
        size = (b"content-length", str(len(self.body)).encode())
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-type", self.kind), size, *headers]}
        )
        await send({"type": "http.response.body", "body": body})


class Static:
    """All files of a folder, by their paths; an ASGI application."""

    def __init__(self, folder: Traversable | None = None) -> None:
        self.pages = dict(_pages(files("bridle.serve") / "static" if folder is None else folder, ""))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file that the path names."""
        name = scope["path_params"]["path"]
        if name not in self.pages:
            raise HttpError(404, "not-found", "there is no such page", got=scope["path"])
        await self.pages[name](scope, receive, send)

    @property
    def index(self) -> Page:
        """The explorer itself."""
        return self.pages.get("index.html") or Page.of(b"<!doctype html><title>Bridle</title>", ".html")


def _pages(folder: Traversable, prefix: str) -> Iterable[tuple[str, Page]]:
    for one in folder.iterdir() if folder.is_dir() else ():
        suffix = "." + one.name.rpartition(".")[2]
        if one.is_dir():
            yield from _pages(one, f"{prefix}{one.name}/")
        elif suffix in TYPES:
            yield prefix + one.name, Page.of(one.read_bytes(), suffix)


def docs_page(rows: Iterable[tuple[str, str, str]]) -> Page:
    """A page that lists the endpoints: method, path, summary."""
    lines = "".join(
        f"<tr><td>{escape(method)}</td><td><code>{escape(path)}</code></td><td>{escape(summary)}</td></tr>"
        for method, path, summary in rows
    )
    text = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Bridle: endpoints</title>
<link rel="stylesheet" href="static/style.css">
<main>
<h1>Endpoints</h1>
<p>The complete description is <a href="openapi.json">openapi.json</a> (OpenAPI 3.1).
The explorer is <a href="./">here</a>.</p>
<table><tr><th>method</th><th>path</th><th>what it does</th></tr>{lines}</table>
</main>
</html>
"""
    return Page.of(text.encode(), ".html")
