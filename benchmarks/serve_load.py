"""The clients of benchmarks/serve.py, in a process of their own: raw sockets, so that they cost little.

    python benchmarks/serve_load.py PORT WORK.json SECONDS CONNECTIONS [RATE]

WORK.json is a list of requests: {"body": ..., "status": 200, "labels": [[...]] or null, "tokens": 40}. Every answer is
compared with the labels. Without RATE, each connection sends its next request when it has its answer. With RATE, so
many requests per second are sent, whether or not answers have come, and times are counted from when a request was due.
Prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec
import uvloop


class Result(msgspec.Struct):
    """Fields of a result that are checked."""

    labels: list[str]


class Answer(msgspec.Struct):
    """Fields of an answer that are checked."""

    results: list[Result]


decode = msgspec.json.Decoder(Answer).decode


@dataclass
class Tally:
    """Counts of the answers to requests."""

    answers: int = 0  # as expected
    tokens: int = 0  # of these
    refused_as_expected: int = 0  # bad requests that got their status
    wrong: int = 0  # other labels, or another status
    lost: int = 0  # half of an answer, or none on a connection that was open
    turned_away: int = 0  # 503 while the server stops, or does not listen any more
    seconds: list[float] = field(default_factory=list)  # of the answers
    first_wrong: str = ""


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> tuple[int, bytes]:
    """Send a request; status and body of its answer."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    return int(head[9:12]), await reader.readexactly(size)


def judge(tally: Tally, wanted: dict[str, Any], status: int, body: bytes, seconds: float) -> None:
    """Compare an answer with what it should be."""
    if status == 503:
        tally.turned_away += 1
    elif status != wanted["status"] or (
        status == 200 and [result.labels for result in decode(body).results] != wanted["labels"]
    ):
        tally.wrong += 1
        tally.first_wrong = tally.first_wrong or f"{status} {body[:300]!r}"
    elif status == 200:
        tally.answers += 1
        tally.tokens += wanted["tokens"]
        tally.seconds.append(seconds)
    else:
        tally.refused_as_expected += 1


async def client(number: int, port: int, work: list[Any], due: Any, tally: Tally) -> None:
    """One connection."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        async for k, begun in due(number):
            wanted, request = work[k % len(work)]
            status, body = await ask(reader, writer, request)
            judge(tally, wanted, status, body, time.perf_counter() - begun)
            if status == 503:
                break
        writer.close()
    except asyncio.IncompleteReadError as error:
        if error.partial:
            tally.lost += 1
        else:  # closed between two requests, as HTTP allows: the request was not taken
            tally.turned_away += 1
    except ConnectionError:
        tally.turned_away += 1


async def load(port: int, work: list[Any], seconds: float, connections: int, rate: float) -> dict[str, Any]:
    """All connections."""
    tally, begun = Tally(), time.perf_counter()
    ends, queue = begun + seconds, asyncio.Queue[tuple[int, float] | None]()

    async def at_once(number: int) -> Any:
        k = number * 7919
        while (now := time.perf_counter()) < ends:
            yield k, now
            k += 1

    async def when_due(_number: int) -> Any:
        while (request := await queue.get()) is not None:
            yield request

    async def schedule() -> None:
        for k in range(int(seconds * rate)):
            due = begun + k / rate
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            queue.put_nowait((k, due))
        for _ in range(connections):
            queue.put_nowait(None)

    due = when_due if rate else at_once
    tasks = [client(number, port, work, due, tally) for number in range(connections)]
    await asyncio.gather(*tasks, *([schedule()] if rate else []))
    took = time.perf_counter() - begun
    times = sorted(tally.seconds) or [0.0]
    shares = {f"p{100 * share:g}": times[min(int(share * len(times)), len(times) - 1)] for share in (0.5, 0.9, 0.99)}
    counts = {key: value for key, value in asdict(tally).items() if key != "seconds"}
    return {**counts, "took": took, "tokens_per_second": tally.tokens / took, **shares, "worst": times[-1]}


def main() -> None:
    port, path, seconds, connections, *rate = sys.argv[1:]
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        listed = json.load(file)
    work = []
    for request in listed:
        body = request["body"].encode()
        lines = ["POST /tag HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
        head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""])
        work.append((request, head.encode() + body))
    run = load(int(port), work, float(seconds), int(connections), float(rate[0]) if rate else 0.0)
    print(json.dumps(uvloop.run(run)))


if __name__ == "__main__":
    main()
