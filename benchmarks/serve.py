"""`bridle serve` under load, on loopback: rate against the library, times, memory, wrong or lost answers, a clean stop.

    python benchmarks/serve.py [--seconds 60] [-o docs/results]

mixed       64 connections, 1 to 16 texts per request, short and long ones, one bad request in twenty
full        64 connections, 256 texts per request
single      single texts of 40 tokens, as fast as 64 connections go; the server has one core, the clients another
half        the same at half of that rate
stop        SIGTERM while 64 connections send mixed requests

The model and the rules are those of `bridle demo`. Every answer is compared with that of the library. The clients are a
process of their own and share the cores with the server; the library is called in this process when the server is idle,
on the same texts in large batches, from text to names of labels. Exit code 1 if an answer is wrong or lost.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from itertools import cycle
from pathlib import Path
from threading import Event, Thread
from typing import Any

os.environ.setdefault("BRIDLE_SIMD", "avx2")  # the same tier everywhere; before the library is loaded

import bridle
from bridle.data import references
from bridle.decoding.threads import cores
from bridle.demo import UNSEEN
from bridle.serve import RuleText
from bridle.serve.service import Service, embedded_model, embedded_rules, embedded_sample
from bridle.tagging import Block, tag

HERE = Path(__file__).parent
CONNECTIONS, FULL, LONG, LENGTH = 64, 256, 6, 40
BAD = ('{"texts": ["a"], "rules": "nonsense"}', '{"texts": 1}', '{"texts": ["a"], "k": 0}')
Work = list[dict[str, Any]]


class Server:
    """`bridle serve`, watched."""

    def __init__(self, model: Path) -> None:
        words = [sys.executable, "-m", "bridle", "serve", str(model), "--rules", str(model.with_suffix(".rules"))]
        self.process = subprocess.Popen([*words, "--port", "0"], stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        match = next((match for line in self.process.stderr if (match := re.search(r":(\d+)/ ", line))), None)
        assert match is not None, "it did not start"
        self.port = int(match[1])

    def rss(self) -> float:
        """Resident memory in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def use(self, chosen: set[int]) -> None:
        """Run on these cores only."""
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), chosen)

    def stop(self) -> tuple[int, float]:
        """Ask it to stop; exit code, and seconds that it took."""
        begun = time.perf_counter()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60), time.perf_counter() - begun


class Bench:
    """The texts, what the library says of them, and the parts of the benchmark."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.random = folder, random.Random(0)
        tagger = embedded_model()
        self.service = Service(tagger, default=RuleText.from_text(embedded_rules(), tagger.labels_))
        self.decoder = self.service.decoder(self.service.default)
        short = [str(example.text) for example in embedded_sample()]
        long = [str(self._long_text()) for _ in range(60)]
        tokens = dict(zip(short, self.service.split_all(short), strict=True))
        self.single = [text for text in short if abs(len(tokens[text]) - LENGTH) <= 4]
        self.texts = [*short, *long]
        labels = self.library(self.texts)
        sizes = map(len, labels)
        self.known = {text: (its, size) for text, its, size in zip(self.texts, labels, sizes, strict=True)}
        self.model = folder / "refs.bridle"
        tagger.save(self.model, notes=tagger.notes_)
        self.model.with_suffix(".rules").write_text(embedded_rules(), encoding="utf-8")

    def _long_text(self) -> str:
        """Several references in one text: about 150 to 300 tokens."""
        works, style = self.random.sample(references.records(), LONG), self.random.choice(UNSEEN)
        return " ".join(references.cite(work, style).text for work in works)

    def library(self, texts: list[str]) -> list[list[str]]:
        """From texts to names of labels, without a server."""
        return self.service.tagger.decode(self.service.split_all(texts), self.decoder, threads=0).labels

    def rate(self, work: Work, seconds: float = 3.0) -> float:
        """Tokens per second of the library on the texts of some work, in batches of some thousand tokens."""
        texts = [text for request in work if request["status"] == 200 for text in json.loads(request["body"])["texts"]]
        batches = [texts[k : k + 1024] for k in range(0, len(texts), 1024)][:8]
        total, begun, rounds = 0, time.perf_counter(), cycle(batches)
        while time.perf_counter() - begun < seconds:
            total += sum(map(len, self.library(next(rounds))))
        return total / (time.perf_counter() - begun)

    def single_milliseconds(self) -> float:
        """Processor time of the library for a single text, from text to names of labels: the best of 30 for each

        What other processes do to the caches makes some of them slower.
        """
        best = dict.fromkeys(self.single, sys.maxsize)
        for _ in range(30):
            for text in self.single:
                begun = time.process_time_ns()
                block = Block(1, sequences=self.service.split_all([text]))
                _ = tag(block, self.service.tagger, self.decoder).labels
                best[text] = min(best[text], time.process_time_ns() - begun)
        return sum(best.values()) / len(best) / 1e6

    def request(self, texts: list[str]) -> dict[str, Any]:
        """A request, and what its answer should be."""
        labels = [self.known[text][0] for text in texts]
        tokens = sum(self.known[text][1] for text in texts)
        return {"body": json.dumps({"texts": texts}), "status": 200, "labels": labels, "tokens": tokens}

    def mixed(self) -> Work:
        """Requests of all sizes, and bad ones among them."""
        requests = [
            self.request(self.random.choices(self.texts, k=self.random.choice((1, 1, 2, 4, 16)))) for _ in range(950)
        ]
        requests += [{"body": self.random.choice(BAD), "status": 422, "labels": None, "tokens": 0} for _ in range(50)]
        self.random.shuffle(requests)
        return requests

    def clients(self, server: Server, work: Work, seconds: float, rate: float = 0.0) -> subprocess.Popen[str]:
        """Start the clients."""
        path = self.folder / "work.json"
        path.write_text(json.dumps(work), encoding="utf-8")
        words = [
            sys.executable,
            str(HERE / "serve_load.py"),
            str(server.port),
            str(path),
            str(seconds),
            str(CONNECTIONS),
        ]
        return subprocess.Popen([*words, str(rate)] if rate else words, stdout=subprocess.PIPE, text=True)

    def part(
        self, server: Server, work: Work, seconds: float, rate: float = 0.0, chosen: set[int] | None = None
    ) -> dict[str, Any]:
        """Run a part, with the clients on some cores: what they found, memory and processor time of the server."""
        ended, memory = Event(), list[float]()

        def watch() -> None:
            while not ended.wait(0.25):
                memory.append(server.rss())

        watcher, before = Thread(target=watch), server.cpu()
        process = self.clients(server, work, seconds, rate)
        if chosen:
            os.sched_setaffinity(process.pid, chosen)
        watcher.start()
        out, _ = process.communicate()
        ended.set()
        watcher.join()
        figures: dict[str, Any] = json.loads(out)
        third = max(len(memory) // 3, 1)
        figures["rss_after_a_third"], figures["rss_at_the_end"] = memory[third - 1], memory[-1]
        figures["server_cpu"] = (server.cpu() - before) / figures["took"]
        return figures


def run(seconds: float, folder: Path, only: str) -> dict[str, Any]:
    """All parts, or those with single texts."""
    bench = Bench(folder)
    mixed, full = bench.mixed(), [bench.request(bench.random.choices(bench.texts, k=FULL)) for _ in range(64)]
    single = [bench.request([text]) for text in bench.single]
    figures: dict[str, Any] = {
        "simd": bridle.simd().tier,
        "cores": cores(),
        "processor": processor(),
        "seconds": seconds,
    }
    figures["single_milliseconds"] = bench.single_milliseconds()
    server = Server(bench.model)
    bench.part(server, mixed, 2)  # warm
    for name, work in (("mixed", mixed), ("full", full)) if only == "all" else ():
        figures[name] = bench.part(server, work, seconds)
        figures[name]["library"] = bench.rate(work)
        figures[name]["share"] = figures[name]["tokens_per_second"] / figures[name]["library"]
    usable = os.sched_getaffinity(0)
    first, *others = [{core} for core in sorted(usable)]
    server.use(first)
    most = bench.part(server, single, max(seconds / 6, 2), chosen=(others or [first])[0])
    rate = most["answers"] / most["took"] / 2
    figures["single"] = {"requests_per_second": 2 * rate, **most}
    half = bench.part(server, single, seconds, rate, chosen=(others or [first])[0])
    figures["half"] = {"requests_per_second": rate, **half}
    server.use(usable)
    if only == "single":
        server.stop()
        return figures
    clients = bench.clients(server, mixed, 5)
    time.sleep(2.5)
    code, took = server.stop()
    out, _ = clients.communicate()
    figures["stop"] = {"exit_code": code, "stopped_after": took, **json.loads(out)}
    return figures


def processor() -> str:
    """The name of the processor."""
    path = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*:\s*(.+)", path.read_text(encoding="utf-8")) if path.is_file() else []
    return names[0] if names else "unknown"


def page(figures: dict[str, Any]) -> str:
    """The figures as a page."""
    rows = []
    for name in ("mixed", "full", "single", "half", "stop"):
        part = figures[name]
        share = f"{100 * part['share']:.0f} %" if "share" in part else ""
        memory = f"{part['rss_after_a_third']:.0f}, {part['rss_at_the_end']:.0f}" if "rss_at_the_end" in part else ""
        cpu = f"{part['server_cpu']:.2f}" if "server_cpu" in part else ""
        times = f"{1000 * part['p50']:.1f} | {1000 * part['p99']:.1f}"
        counts = f"{part['answers']:,} | {part['wrong']} | {part['lost']}"
        rows.append(f"| {name} | {part['tokens_per_second']:,.0f} | {share} | {times} | {memory} | {cpu} | {counts} |")
    half, stop, simd, alone = (figures[name] for name in ("half", "stop", "simd", "single_milliseconds"))
    heads = ["part", "tokens per second", "of the library", "p50 in ms", "p99 in ms", "MB after a third and at the end"]
    heads += ["cores of the server", "answers", "wrong", "lost"]
    return f"""# The HTTP service under load

`python benchmarks/serve.py --seconds {figures["seconds"]:g}` on {figures["cores"]} cores of {figures["processor"]},
vector instructions {simd} (`BRIDLE_SIMD`). {CONNECTIONS} connections on loopback; clients and server share the
cores, but for *single* and *half*. The library is called directly in the same run on the same texts, in large batches
on all cores, from text to names of labels. Every answer was compared with the library's.

| {" | ".join(heads)} |
{"|---" * len(heads)}|
{chr(10).join(rows)}

- *mixed*: 1 to 16 texts per request, short and long ones; one bad request in twenty, of which
  {figures["mixed"]["refused_as_expected"]:,} got their status.
- *full*: {FULL} texts per request.
- *single*: one text of about {LENGTH} tokens per request, as fast as the connections go. The server runs on one core,
  the clients on another. The library alone takes {alone:.2f} ms of processor time for such a text.
- *half*: the same at half of that rate, {half["requests_per_second"]:,.0f} requests per second, sent when due,
  whether or not answers have come.
- *stop*: SIGTERM under the load of *mixed*. The server ended with exit code {stop["exit_code"]} after
  {stop["stopped_after"]:.2f} s; {stop["turned_away"]} connections were turned away.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each of the large parts")
    parser.add_argument("-o", "--out", type=Path, help="folder for serve.md and serve.json")
    parser.add_argument("--only", choices=("all", "single"), default="all", help="single: single texts; prints JSON")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = run(asked.seconds, Path(folder), asked.only)
    if asked.only == "single":
        print(json.dumps(figures, indent=1))
        return int(any(figures[name]["wrong"] or figures[name]["lost"] for name in ("single", "half")))
    print(json.dumps(figures, indent=1) if asked.out is None else page(figures))
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / "serve.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        (asked.out / "serve.md").write_text(page(figures), encoding="utf-8")
    parts = [figures[name] for name in ("mixed", "full", "single", "half", "stop")]
    return int(any(part["wrong"] or part["lost"] for part in parts) or figures["stop"]["exit_code"] != 0)


if __name__ == "__main__":
    sys.exit(main())
