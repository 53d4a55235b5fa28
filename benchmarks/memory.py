"""Does memory grow while decoders work? Very many decodes with random values that come with the sequences.

    python benchmarks/memory.py [--decodes 1000000] [--json benchmarks/out/memory.json]

Three decoders with hard and soft rules; label sets, spans, positions and token texts are random for each sequence,
so that every cache meets more than it may keep. Nine of ten sequences are decoded in batches, the others one by one.
Memory is what the process has resident after a fifth of the decodes, when caches are full, and at the end. Exit code 1
if it has grown by 5 % or more.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bridle
from bridle import rules as r
from bridle.rules.base import Rule

MOST = 0.05  # growth
WARM = 0.2  # of the decodes, before memory is measured
BATCH = 90  # sequences, and 10 more one by one

ROLES = [f"A{k}" for k in range(12)]
WORDS = [f"word{k}" for k in range(5000)]


@dataclass(frozen=True)
class Outcome:
    """Measured memory, in MB."""

    decodes: int
    warm: float
    end: float
    seconds: float

    @property
    def growth(self) -> float:
        return self.end / self.warm - 1


def resident() -> float:
    """MB that the process has in memory."""
    gc.collect()
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * 4096 / 1e6
    import resource  # elsewhere: the largest that there was

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def _some(rng: random.Random, names: list[str]) -> list[str]:
    """A set of labels: mostly one of a few that come again and again."""
    if rng.random() < 0.9:
        return names[: rng.randint(1, len(names) - 1)]
    return rng.sample(names, rng.randint(1, len(names) - 1))


def _spans(rng: random.Random, n: int) -> list[tuple[int, int]]:
    begin = rng.randrange(n)
    return [(begin, rng.randint(begin, n)) for _ in range(rng.randint(0, 2))]


def _tokens(rng: random.Random, n: int) -> list[str]:
    new = [f"{rng.randrange(10**9)}", "x" * rng.randint(1, 400), f"Name{rng.randrange(10**6)},"]
    return [rng.choice(new) if rng.random() < 0.3 else rng.choice(WORDS) for _ in range(n)]


def _roles(rng: random.Random, n: int) -> dict[str, Any]:
    return {"verb": rng.randrange(n), "frame": _some(rng, ROLES), "phrases": _spans(rng, n)}


def _texts(rng: random.Random, n: int) -> dict[str, Any]:
    return {"tokens": _tokens(rng, n), "spot": rng.randrange(n), "phrases": _spans(rng, n)}


def _order(rng: random.Random, n: int) -> dict[str, Any]:
    return {"early": _some(rng, ROLES), "late": rng.choice(ROLES), "few": _some(rng, ROLES[:6])}


def decoders() -> list[tuple[bridle.Decoder, Callable[[random.Random, int], dict[str, Any]]]]:
    """Decoders, and what comes with a sequence of n tokens."""
    roles = bridle.Labels(["O", "V", *ROLES], scheme="IO")
    frames: list[Rule] = [
        r.fix("V", r.given("verb")),
        r.at_most(1, of="V", count="tokens"),
        r.allow(["O", "V", r.given("frame")]),
        r.no_duplicates(of=r.given("frame")),
        r.same_label(r.given("phrases")).soft(1.0),
        r.at_most(2, of=r.given("frame")).soft(0.7, per="violation"),
    ]
    fields = bridle.Labels(["O", "B-X", "I-X", "B-Y", "I-Y"], scheme="BIO")
    texts: list[Rule] = [
        r.well_formed(),
        r.forbid("X", at=r.tokens(r"\d{7,}")),
        r.fix("O", r.tokens(r"Name\d*00,")).soft(2.0),
        r.around(r.tokens(r"x{3,}"), left="X", right="Y").soft(0.5),
        (r.label_at(r.given("spot"), "X") | r.present("Y")).soft(1.5),
        r.same_label(r.given("phrases")).soft(0.3),
        r.before("X", "Y").soft(0.8),
    ]
    order: list[Rule] = [
        r.before(r.given("early"), r.given("late")).soft(0.6),
        r.at_least(1, of=r.given("few")),
        r.followed_by(r.given("late"), r.given("few")).soft(0.4, per="violation"),
        r.length(r.given("few"), at_most=2),
    ]
    return [
        (bridle.Decoder(roles, frames), _roles),
        (bridle.Decoder(fields, texts), _texts),
        (bridle.Decoder(roles, order), _order),
    ]


def run(decodes: int, *, warm: float = WARM, tell: Callable[[str], None] = lambda line: None) -> Outcome:
    """Decode so many sequences and compare memory before and after."""
    rng, scores = random.Random(1), np.random.default_rng(1)
    begin, done, at_first, next_line = time.perf_counter(), 0, 0.0, 0.0
    kinds = decoders()
    while done < decodes:
        for decoder, given_of in kinds:
            lattices, givens = [], []
            for _ in range(BATCH + 10):
                n = rng.randint(2, 9)
                lattices.append(bridle.Lattice(scores.normal(size=(n, len(decoder.labels)))))
                givens.append(given_of(rng, n))
            decoder.decode_batch(lattices[:BATCH], givens[:BATCH], threads=1)
            for lattice, given in zip(lattices[BATCH:], givens[BATCH:], strict=True):
                with suppress(bridle.Infeasible):  # some of them are
                    decoder.decode(lattice, given)
            done += len(lattices)
        if not at_first and done >= warm * decodes:
            at_first = resident()
        if done >= next_line * decodes:
            tell(f"{done:>9,} decodes  {resident():7.1f} MB")
            next_line += 0.1
    return Outcome(done, at_first, resident(), time.perf_counter() - begin)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decodes", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    outcome = run(chosen.decodes, tell=lambda line: print(line, flush=True))
    fine = outcome.growth < MOST
    verdict = "fine" if fine else f"the target is below {MOST:.0%}"
    print(
        f"{outcome.decodes:,} decodes in {outcome.seconds:.0f} s: {outcome.warm:.1f} MB after {WARM:.0%} of them, "
        f"{outcome.end:.1f} MB at the end, {outcome.growth:+.1%} ({verdict})"
    )
    if chosen.json:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(asdict(outcome), indent=2) + "\n", encoding="utf-8")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
