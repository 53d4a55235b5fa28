"""A real server in a process of its own: many clients at once, a stop that loses nothing, Ctrl-C."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest

import bridle
from bridle.serve.service import embedded_rules
from commands import Cli
from serving import long_search, service_of
from stopwatch import patience

pytestmark = pytest.mark.slow
TEXTS = ["Knuth, D. E.: The TeXbook. Addison-Wesley, 1984.", "Lamport, L.: LaTeX. Addison-Wesley, 1986.", "x"]


class Server:
    """`bridle serve` on a free port."""

    def __init__(self, run: Cli, *words: object) -> None:
        self.process: subprocess.Popen[bytes] = run.start("serve", *words, "--port", "0")
        assert self.process.stderr is not None
        self.said = list[str]()
        for line in self.process.stderr:
            self.said.append(line.decode())
            if match := re.search(r"http://127\.0\.0\.1:(\d+)/", self.said[-1]):
                self.port = int(match[1])
                break
        else:
            pytest.fail("".join(self.said))
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        self.said.extend(line.decode() for line in self.process.stderr)

    def post(self, path: str, body: Any, connection: HTTPConnection | None = None) -> tuple[int, Any]:
        """A request; by default on a connection of its own."""
        used = connection or HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            used.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = used.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            if connection is None:
                used.close()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop; its exit code."""
        self.process.send_signal(how)
        code = self.process.wait(30)
        self.close()
        return code

    def close(self) -> None:
        """End it, whatever it does, and close its pipes."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join(10)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("serve") / "refs.bridle"
    tagger = service_of().tagger
    tagger.save(path, notes=tagger.notes_)
    path.with_suffix(".rules").write_text(embedded_rules(), encoding="utf-8")
    return path


@pytest.fixture
def server(run: Cli, model: Path) -> Iterator[Server]:
    built = Server(run, model, "--rules", model.with_suffix(".rules"))
    yield built
    built.close()


def expected(model: Path) -> dict[str, list[str]]:
    """Return the labels by the library."""
    service = service_of()
    rules = bridle.rules.load(model.with_suffix(".rules"))
    labels = service.tagger.predict(service.split_all(TEXTS), rules, on_infeasible="relax")
    return dict(zip(TEXTS, labels, strict=True))


def test_many_clients_get_their_own_answers(server: Server, model: Path) -> None:
    wanted = expected(model)

    def client(number: int) -> int:
        with closing(HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
            for k in range(20):
                some = [TEXTS[(number + k + j) % 3] for j in range(1 + k % 4)]
                status, answer = server.post("/tag", {"texts": some}, connection)
                assert status == 200
                assert [outcome["labels"] for outcome in answer["results"]] == [wanted[text] for text in some]
                if k % 5 == 0:
                    assert server.post("/tag", {"texts": some, "rules": "nonsense"}, connection)[0] == 422
        return 1

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(client, range(16))) == 16
    assert server.stop() == 0
    assert len(server.said) == 2, server.said


@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_stop_answers_what_is_in_flight(server: Server, model: Path, how: signal.Signals, code: int) -> None:
    wanted = expected(model)
    answers, refused, wrong, go_on = [0], [0], list[Any](), threading.Event()
    go_on.set()

    def client() -> None:
        while go_on.is_set():
            try:
                status, answer = server.post("/tag", {"texts": TEXTS})
            except (ConnectionError, TimeoutError):  # the server does not listen any more
                refused[0] += 1
                return
            except HTTPException as error:  # half of an answer, or none to a request that was taken
                wrong.append(error)
                return
            if status == 503:
                refused[0] += 1
            elif [outcome["labels"] for outcome in answer["results"]] == [wanted[text] for text in TEXTS]:
                answers[0] += 1
            else:
                wrong.append(answer)

    threads = [threading.Thread(target=client) for _ in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    begun = time.perf_counter()
    assert server.stop(how) == code
    assert time.perf_counter() - begun < patience(5)
    go_on.clear()
    for thread in threads:
        thread.join(10)
    assert answers[0] > 10 and refused[0] and not wrong
    assert "Traceback" not in "".join(server.said)


def test_long_work_is_answered_before_the_end_and_a_second_ctrl_c_does_not_wait(run: Cli, model: Path) -> None:
    with closing(Server(run, model, "--seconds", "4")) as server, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.post, "/tag", long_search(2))
        time.sleep(0.5)
        assert server.stop(signal.SIGINT) == 130
        status, result = answer.result(30)
        assert status == 200 and len(result["results"]) == 2
        assert {outcome["status"] for outcome in result["results"]} <= {"limit", "nothing_found"}  # their time was up
    with closing(Server(run, model, "--seconds", "4")) as server, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.post, "/tag", long_search(20))
        time.sleep(0.5)
        server.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert server.process.poll() is None
        begun = time.perf_counter()
        assert server.stop(signal.SIGINT) == 130
        assert time.perf_counter() - begun < patience(1)
        assert isinstance(answer.exception(30), (ConnectionError, HTTPException))


def test_a_port_that_is_taken(run: Cli, model: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        completed = run("serve", model, "--port", taken.getsockname()[1])
    assert completed.exit_code == 2 and "cannot listen" in completed.stderr and "--port 0" in completed.stderr


@pytest.mark.slow
def test_work_that_takes_too_long_is_stopped_and_holds_up_nobody(run: Cli, model: Path) -> None:
    """Under the rules of the server, too. A stop while such work comes to its end is a clean one."""
    words = ["Knuth", ",", "D.", "TeX", ".", "1984", "“", "”"]
    choose = random.Random(0).choices
    long = {"tokens": [choose(words, k=2000) for _ in range(100)]}
    server = Server(run, model, "--rules", model.with_suffix(".rules"), "--seconds", "1")
    assert server.post("/tag", long)[0] == 504
    begun = time.perf_counter()
    assert server.post("/tag", {"texts": TEXTS})[0] == 200
    assert time.perf_counter() - begun < patience(1)
    assert server.post("/tag", long)[0] == 504
    assert server.stop() == 0
    assert "terminate called" not in "".join(server.said)


def test_a_client_that_closes_its_connection_stops_its_work(server: Server) -> None:
    body = json.dumps(long_search(60)).encode()
    lines = ["POST /tag HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    head = "".join(f"{line}\r\n" for line in [*lines, ""])
    for _ in range(8):  # twice as many as there are threads for such work
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(head.encode() + body)
            time.sleep(0.3)
    easy = {"texts": TEXTS, "rules": ["present AUTHOR"]}
    assert server.post("/tag", easy)[0] == 200  # a thread is free, long before the time of the others is up
    with closing(HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
        connection.request("GET", "/metrics")
        assert b'bridle_requests_total{path="/tag",status="499"} 8' in connection.getresponse().read()
    assert server.stop() == 0


def test_a_stop_does_not_wait_for_work_whose_time_is_up(run: Cli, model: Path) -> None:
    """A rule that takes long to compile, and the server gets the signal to stop meanwhile."""
    parts = [f"(at most {k + 5} tokens of TITLE) or (at least {k + 7} tokens of AUTHOR)" for k in range(60)]
    server = Server(run, model, "--seconds", "1")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.post, "/rules/check", {"rules": "\n".join(parts)})
        time.sleep(0.5)
        begun = time.perf_counter()
        assert server.stop() == 0
        assert time.perf_counter() - begun < patience(5)  # it is the time of the request that it takes
        assert answer.result(30)[0] == 504
    assert "Traceback" not in "".join(server.said)


def test_a_signal_loads_models_and_rules_again(run: Cli, model: Path, tmp_path: Path) -> None:
    """Requests go on meanwhile, and none is lost; a rule that cannot be read leaves the old ones."""
    rules = tmp_path / "my.rules"
    rules.write_text("forbid VENUE\n", encoding="utf-8")
    server = Server(run, model, "--rules", rules, "--access-log", "--log-format", "json")
    try:
        before = server.post("/tag", {"texts": TEXTS})[1]["rules"]
        rules.write_text("forbid AUTHOR\n", encoding="utf-8")
        server.process.send_signal(signal.SIGHUP)
        ends = time.monotonic() + patience(20)
        while (answer := server.post("/v1/models/refs/tag", {"texts": TEXTS}))[1]["rules"] == before:
            assert answer[0] == 200 and time.monotonic() < ends
        rules.write_text("nonsense\n", encoding="utf-8")
        server.process.send_signal(signal.SIGHUP)
        while not any("cannot load again" in line for line in server.said):
            assert server.post("/tag", {"texts": TEXTS})[1]["rules"] == answer[1]["rules"]
            assert time.monotonic() < ends
        assert server.stop() == 0
        lines = [json.loads(line) for line in server.said[2:]]
        assert {line["level"] for line in lines} == {"info", "warning", "error"}
        assert any(line.get("path") == "/tag" and line["status"] == 200 for line in lines)
    finally:
        server.close()


# ---- attacks --------------------------------------------------------------------------------------------------------


def resident(process: subprocess.Popen[bytes], name: str = "VmRSS") -> int:
    """Return the memory of a process in bytes."""
    status = Path(f"/proc/{process.pid}/status")
    if not status.exists():
        pytest.skip("needs /proc")
    match = re.search(rf"{name}:\s+(\d+) kB", status.read_text())
    return int(match[1]) << 10 if match else 0


def seconds_of_health(server: Server) -> float:
    """Ask for /health on a new connection; return the seconds until the answer.

    They are those of the clock or, if they are fewer, of the processors in which the server worked: on a busy machine
    it waits for other processes, too.
    """
    begun, worked = time.perf_counter(), processor_seconds(server.process)
    with closing(HTTPConnection("127.0.0.1", server.port, timeout=10)) as connection:
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
    return min(time.perf_counter() - begun, processor_seconds(server.process) - worked)


def processor_seconds(process: subprocess.Popen[bytes]) -> float:
    """Return the processor time of a process."""
    stat = Path(f"/proc/{process.pid}/stat")
    if not stat.exists():
        pytest.skip("needs /proc")
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_memory_of_compiled_rules_is_bounded(run: Cli, model: Path) -> None:
    """Requests with new labels and a rule about neighbours, whose tables have a number for each pair of labels."""
    limits = ("--max-compiled", "100MB", "--sequence-memory", "100MB", "--max-body", "8MB")
    most = 100_000_000 + 100_000_000 + 60_000_000  # kept, at work, and the rest
    server = Server(run, model, *limits)
    try:
        assert "100MB for compiled rules, 100MB for data, 100MB for each sequence at work" in server.said[0]
        assert server.post("/tag", {"texts": TEXTS})[0] == 200
        before = resident(server.process)

        def attack(number: int, count: int) -> tuple[int, Any]:
            labels = [f"{number}-{k}" for k in range(count)]
            rules = [f"forbid {labels[0]} then {labels[1]}"]
            body = {"labels": labels, "rules": rules, "sequences": [{"unary": [[0.0] * count] * 2}]}
            return server.post("/decode", body)

        status, answer = attack(0, 8000)
        assert (status, answer["error"]["wanted"]) == (422, "at most 1,767")  # labels: 32 bytes for each pair
        with ThreadPoolExecutor(1) as pool:  # 73 MB each, all together more than 800 MB
            attacks = [pool.submit(attack, number, 1700) for number in range(12)]
            while not all(each.done() for each in attacks):
                assert seconds_of_health(server) < patience(0.1)
                assert resident(server.process) - before < most
        assert [each.result()[0] for each in attacks] == [200] * 12
        assert resident(server.process, "VmHWM") - before < most
    finally:
        server.close()


def test_connections_that_send_nothing_shut_nobody_out(run: Cli, model: Path) -> None:
    """A thousand idle connections, and a thousand that have sent half of their headers."""
    server, idle = Server(run, model), list[socket.socket]()
    try:
        for k in range(2000):
            idle.append(socket.create_connection(("127.0.0.1", server.port), timeout=10))
            if k % 2:
                idle[-1].sendall(b"POST /tag HTTP/1.1\r\nHost: local")
            if k % 100 == 99:
                assert seconds_of_health(server) < patience(0.1)
        assert server.post("/tag", {"texts": TEXTS})[0] == 200
        closed = sum(_is_closed(connection) for connection in idle)
        assert 900 <= closed < 1500, "the oldest gave way"
    finally:
        for connection in idle:
            connection.close()
        server.close()


def _is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
