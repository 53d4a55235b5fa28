"""A server as tests call it: in this process, without a socket, on the embedded references."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from typing import Any

import httpx

from bridle.serve import Limits, RuleText, Service, create_app
from bridle.serve.service import embedded_model, embedded_rules, embedded_sample

JSON = {"content-type": "application/json"}


def service_of(**limits: Any) -> Service:
    """The embedded references, with other limits if they are given."""
    if not _KEPT:
        _KEPT.extend([embedded_model(), embedded_sample()])
    tagger, sample = _KEPT
    strict = RuleText.from_text("forbid VENUE\n", tagger.labels_)
    default = RuleText.from_text(embedded_rules(), tagger.labels_)
    return Service(tagger, "references", default, {"strict": strict}, Limits(**limits), sample)


_KEPT: list[Any] = []  # the model and the sample: training takes a while


def long_search(sequences: int) -> dict[str, Any]:
    """A request for /tag whose search does not close: 50 words of 40 tokens each are packed into labels.

    Each sequence takes all of its time, a fifth of the time of the request, however fast the machine is.
    """
    types = [label for label in service_of().labels if label != "O"]
    rules = [f"at most {81 + k} tokens of {name}" for k, name in enumerate(types)]
    return {
        "tokens": [[f"w{k % 50}" for k in range(2000)]] * sequences,
        "rules": ["same label for equal tokens", *rules],
    }


class Client:
    """Calls an application."""

    def __init__(self, service: Service, **options: Any) -> None:
        self.service = service
        self.app: Any = create_app(service, **options)

    def post(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """One request with a body; bytes are sent as they are."""
        return self.together([("POST", path, body, more)])[0]

    def get(self, path: str, **more: Any) -> httpx.Response:
        """One request without a body."""
        return self.together([("GET", path, None, more)])[0]

    def ok(self, path: str, body: Any = None) -> Any:
        """The JSON of a request that must succeed."""
        answer = self.get(path) if body is None else self.post(path, body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def error(self, path: str, body: Any, status: int, code: str) -> dict[str, Any]:
        """The error of a request that must fail."""
        answer = self.post(path, body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
        error: dict[str, Any] = answer.json()["error"]
        assert error["what"] and set(error) == PARTS
        return error

    def in_turn(self, calls: Sequence[tuple[str, str, Any, dict[str, Any]]]) -> list[httpx.Response]:
        """Requests one after the other, to a server that goes on between them."""
        return self.together(calls, in_turn=True)

    def together(
        self, calls: Sequence[tuple[str, str, Any, dict[str, Any]]], *, in_turn: bool = False
    ) -> list[httpx.Response]:
        """Requests at the same time."""

        async def all_of_them() -> list[httpx.Response]:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
                if in_turn:
                    return [await self._call(client, *call) for call in calls]
                return await asyncio.gather(*(self._call(client, *call) for call in calls))

        return asyncio.run(all_of_them())

    @staticmethod
    async def _call(
        client: httpx.AsyncClient, method: str, path: str, body: Any, more: dict[str, Any]
    ) -> httpx.Response:
        if isinstance(body, bytes):
            more = {"content": body, "headers": {**JSON, **more.pop("headers", {})}, **more}
        elif body is not None:
            more = {"json": body, **more}
        return await client.request(method, path, **more)

    async def leave(self, path: str, body: Any, goes: threading.Event) -> list[int]:
        """A client that sends a request and goes away at some moment; the statuses that were sent to it."""
        messages = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
        statuses = list[int]()

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            await asyncio.to_thread(goes.wait, 60)
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "headers": headers,
            "query_string": b"",
            "root_path": "",
        }
        await self.app(scope, receive, send)
        return statuses


PARTS = {"code", "what", "got", "wanted", "cause", "where", "sequence", "rule", "line"}
