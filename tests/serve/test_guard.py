"""Between the network and the endpoints: tokens, hosts, sizes, headers, other sites, stopping."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from bridle.serve.guard import SECURITY, parse_token
from serving import JSON, Client, service_of


@pytest.fixture(scope="module")
def guarded() -> Client:
    return Client(service_of(), token="sesame", hosts=["localhost", "[::1]"])


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"anybody:{password}".encode()).decode()


@pytest.mark.parametrize("header", ["Bearer sesame", "bearer sesame", basic("sesame")])
def test_the_token_opens(guarded: Client, header: str) -> None:
    assert guarded.get("/model", headers={"authorization": header}).status_code == 200


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer sesam", "Bearer sesame2", "sesame", "Token sesame", "Basic ???", basic("open")]
)
@pytest.mark.parametrize("path", ["/", "/model", "/metrics", "/openapi.json", "/static/main.js"])
def test_without_the_token_nothing_opens(guarded: Client, path: str, header: str) -> None:
    result = guarded.get(path, headers={"authorization": header} if header else {})
    assert (result.status_code, result.json()["error"]["code"]) == (401, "token")
    assert result.headers["www-authenticate"].startswith("Basic")
    assert "sesame" not in result.text


def test_health_needs_no_token(guarded: Client) -> None:
    assert guarded.get("/health").status_code == 200


def test_a_token_may_have_any_characters() -> None:
    assert parse_token(b"Basic " + base64.b64encode("u:a:b ö".encode())) == "a:b ö".encode()
    assert parse_token(b"Bearer  x y ") == b"x y"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8000", 200),
        ("LOCALHOST:1", 200),
        ("[::1]:80", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("", 421),
    ],
)
def test_only_known_hosts_are_served(guarded: Client, host: str, status: int) -> None:
    assert guarded.get("/health", headers={"host": host}).status_code == status


def test_a_body_is_counted_while_it_comes() -> None:
    client = Client(service_of(body_bytes=1000))
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1000):
            sent += 100
            yield b" " * 100

    answer = client.post("/tag", content=endless(), headers=JSON)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body")
    assert sent < 5000  # the rest was not asked for
    response = client.post("/tag", content=b"{}", headers={**JSON, "content-length": "2000"})
    assert response.status_code == 413


def test_all_bodies_together_are_bounded() -> None:
    client = Client(service_of(body_bytes=1000))
    begun = 0

    async def slow() -> AsyncIterator[bytes]:
        nonlocal begun
        begun += 1
        yield b" " * 900
        while begun < 40:
            await asyncio.sleep(0)
        yield b'{"texts": []}'

    answers = client.together([("POST", "/tag", None, {"content": slow(), "headers": JSON}) for _ in range(40)])
    statuses = [answer.status_code for answer in answers]
    assert (statuses.count(200), statuses.count(503)) == (35, 5)
    assert client.post("/tag", {"texts": []}).status_code == 200  # what was held is free again


def test_a_body_that_does_not_come() -> None:
    client = Client(service_of(seconds=0.05))

    async def slow() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(1)
        yield b"}"

    answer = client.post("/tag", content=slow(), headers=JSON)
    assert (answer.status_code, answer.json()["error"]["code"]) == (408, "body")


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/jsonp", 415),
        ("", 415),
    ],
)
def test_only_json_is_taken(kind: str, status: int) -> None:
    client = Client(service_of())
    assert client.post("/tag", content=b'{"texts": []}', headers={"content-type": kind}).status_code == status


@pytest.mark.parametrize("path", ["/", "/health", "/nothing", "/static/style.css", "/metrics"])
def test_every_answer_has_the_headers(path: str) -> None:
    result = Client(service_of()).get(path)
    for name, value in SECURITY:
        assert result.headers[name.decode()] == value.decode()
    assert "unsafe" not in result.headers["content-security-policy"]
    assert "access-control-allow-origin" not in result.headers
    assert "server" not in result.headers


def test_other_sites_only_if_asked() -> None:
    origin = {"origin": "https://app.example"}
    ask = {**origin, "access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    closed, opened = Client(service_of()), Client(service_of(), origins=["https://app.example"])
    assert closed.together([("OPTIONS", "/tag", None, {"headers": ask})])[0].status_code == 405
    preflight = opened.together([("OPTIONS", "/tag", None, {"headers": ask})])[0]
    assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (200, "https://app.example")
    assert opened.get("/model", headers=origin).headers["access-control-allow-origin"] == "https://app.example"
    assert "access-control-allow-origin" not in opened.get("/model", headers={"origin": "https://evil.example"}).headers
    assert opened.get("/nothing", headers=origin).headers["access-control-allow-origin"] == "https://app.example"


def test_a_server_that_stops_takes_nothing_new() -> None:
    client = Client(service_of())
    client.app.state.is_stopping = True
    result = client.get("/health")
    assert (result.status_code, result.json()["error"]["code"], result.headers["retry-after"]) == (503, "stopping", "1")


def test_what_nobody_expected_is_logged_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(service_of())

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr("bridle.decoding.decoder.Decoder.explain", broken)
    answer = client.post("/explain", {"text": "a"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
    assert "secret" not in answer.text and "a secret" in caplog.text


def test_the_client_that_leaves_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    client = Client(service_of())

    async def leave() -> None:
        transport = httpx.ASGITransport(client.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as caller:
            task = asyncio.create_task(caller.post("/tag", json={"texts": ["a"] * 1000}))
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(leave())
    assert client.ok("/health") and not caplog.text
