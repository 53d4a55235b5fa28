"""Connections that send nothing, or half of their headers, are closed; those in use are not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from bridle.serve import server
from bridle.serve.guard import respond
from stopwatch import patience

REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n"
LARGE = 20_000_000  # bytes: more than the kernel holds


async def small(_scope: Any, _receive: Any, send: Any) -> None:
    await respond(send, 200, b"{}")


async def large(_scope: Any, _receive: Any, send: Any) -> None:
    await respond(send, 200, bytes(LARGE))


async def reading(_scope: Any, receive: Any, send: Any) -> None:
    while (message := await receive()).get("more_body"):
        continue
    if message["type"] != "http.disconnect":
        await respond(send, 200, b"{}")


async def opened(state: ServerState, most: int = 100, app: Any = small) -> asyncio.Server:
    config = uvicorn.Config(app, lifespan="off", access_log=False, timeout_keep_alive=30)
    waiting: dict[Any, Any] = {}
    loop = asyncio.get_running_loop()

    def protocol() -> server.Connection:
        return server.Connection(waiting, most, config=config, server_state=state, app_state={}, _loop=loop)

    return await loop.create_server(protocol, "127.0.0.1", 0)


def test_headers_must_come_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.3)

    async def talk() -> None:
        state = ServerState()
        async with await opened(state) as listener:
            port = listener.sockets[0].getsockname()[1]
            for sent in (b"", REQUEST, REQUEST + b"\r\n", REQUEST + b"\r\n" + REQUEST):  # the last two get an answer
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(sent)
                answer = await asyncio.wait_for(reader.read(), patience(10))  # until it is closed
                assert answer.count(b"200 OK") == (b"\r\n\r\n" in sent)
                writer.close()
            assert not state.connections

    asyncio.run(talk())


def test_a_slow_client_gets_all_of_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.1)

    async def talk() -> int:
        async with await opened(ServerState(), app=large) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.sockets[0].getsockname()[1])
            writer.write(REQUEST + b"\r\n")
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(0.5)
            answer = await asyncio.wait_for(reader.readexactly(LARGE), patience(10))
            writer.close()
            return len(answer)

    assert asyncio.run(talk()) == LARGE


def test_half_of_a_body_gives_way_too() -> None:
    async def talk() -> None:
        async with await opened(ServerState(), most=2, app=reading) as listener:
            port = listener.sockets[0].getsockname()[1]
            streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
            for _, writer in streams:
                writer.write(REQUEST + b"Content-Length: 9\r\n\r\n{")
                await writer.drain()
            streams.append(await asyncio.open_connection("127.0.0.1", port))
            assert await asyncio.wait_for(streams[0][0].read(), patience(10)) == b""
            streams[1][1].write(b" " * 8)
            await asyncio.wait_for(streams[1][0].readuntil(b"{}"), patience(10))
            for _, writer in streams:
                writer.close()

    asyncio.run(talk())


def test_the_one_that_waits_longest_gives_way() -> None:
    async def talk() -> None:
        state = ServerState()
        async with await opened(state, most=3) as listener:
            port = listener.sockets[0].getsockname()[1]
            streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            streams[0][1].write(REQUEST + b"\r\n")  # no longer the one that waits longest
            await asyncio.wait_for(streams[0][0].readuntil(b"{}"), patience(10))
            streams.append(await asyncio.open_connection("127.0.0.1", port))
            assert await asyncio.wait_for(streams[1][0].read(), patience(10)) == b""
            for reader, writer in (streams[0], *streams[2:]):
                writer.write(REQUEST + b"\r\n")
                await asyncio.wait_for(reader.readuntil(b"{}"), patience(10))
            for _, writer in streams:
                writer.close()

    asyncio.run(talk())
