"""Training under rules: what a pass of inference-based training costs beside one of the plain perceptron.

    python benchmarks/train_rules.py --data DIR [--quick] [--passes N] [--json benchmarks/out/train_rules.json]

Semantic roles as `bridle reproduce srl` learns them, under the five rules of Roth & Yih (2005); DIR holds srl-ewt and
frames. Three learners take turns, pass by pass, with the same features and the same order of sequences:

    perceptron      the structured perceptron, no rules
    ibt             inference-based training: the best labelling under the rules, all of a pass in one kernel
    ibt in Python   the same, one sequence after the other, in a loop in Python

Exit code 2: data are missing; 1: the two ways to train under rules did not learn exactly the same weights.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import repository  # noqa: F401  (it makes `experiments` importable)
from bridle.decoding.decoder import Decoder
from bridle.features import features_of
from bridle.lattice import Lattice
from bridle.models.checks import ids_of
from bridle.models.perceptron import Perceptron
from bridle.models.task import Data, Task
from experiments.srl import five_rules
from experiments.srl_data import Part, frames, propositions
from measure import told, where

OUT = Path(__file__).parent / "out"
NAMES = ("perceptron", "ibt", "ibt in Python")


class InPython(Perceptron):
    """Inference-based training, sequence by sequence."""

    def __init__(self, task: Task, decoder: Decoder, its: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(task, average="averaged", seed=0)
        self.by, self.its = decoder, its

    def step(self) -> float:
        """One pass."""
        return self._ended(sum(map(self._sequence, self._order(len(self._task.encoded)).tolist())), "no mistakes left")

    def _sequence(self, b: int) -> int:
        low, high = self._task.encoded.offsets[b : b + 2].tolist()
        unary = np.empty((high - low, self._task.m))
        self._task.joined.score(low, self._w, unary)
        decoding = self.by.decode(Lattice(unary, self._pair), self.its[b])
        return self._native.perceptron_update(self._task.joined, b, np.array(decoding.ids, dtype=np.int32))


def learners(part: Part) -> dict[str, Perceptron]:
    """All three, on the same data; each has its own decoder."""
    features = features_of("srl")
    encoded = features.fit(part.X)
    labels = Data.of(part.X, part.y).labels("IO")
    gold = ids_of(labels, part.y, encoded.offsets)
    task = Task.of(encoded, gold, (len(features), len(labels)), "seen", features.bigram)
    rules = five_rules(part.roles)
    under = [Decoder(labels, rules, on_infeasible="relax") for _ in range(2)]
    trainers = (
        Perceptron(task, average="averaged", seed=0),
        Perceptron(task, average="averaged", seed=0, decoder=under[0], given=part.given),
        InPython(task, under[1], part.given),
    )
    return dict(zip(NAMES, trainers, strict=True))


def timed(trainers: dict[str, Perceptron], passes: int) -> dict[str, list[float]]:
    """Seconds of each pass; the learners take turns, so that a slow moment of the machine hits all."""
    seconds: dict[str, list[float]] = {name: [] for name in trainers}
    for _ in range(passes):
        for name, learner in trainers.items():
            begin = time.perf_counter()
            learner.step()
            seconds[name].append(time.perf_counter() - begin)
    return seconds


def same(a: Perceptron, b: Perceptron) -> bool:
    """Compare two learners: True if their states are exactly equal."""
    first, second = a.state(), b.state()
    return all(np.array_equal(first[name], second[name]) for name in first)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Training under rules: seconds per pass.")
    wanted = "folder that holds srl-ewt/train.conll.gz and frames/rolesets.tsv.gz (default: $BRIDLE_DATA)"
    parser.add_argument("--data", type=Path, default=os.environ.get("BRIDLE_DATA"), metavar="DIR", help=wanted)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data; rough")
    parser.add_argument("--passes", type=int, default=10, metavar="N", help="passes of each learner, at least 2")
    parser.add_argument("--json", type=Path, default=OUT / "train_rules.json", metavar="OUT", help="file for figures")
    chosen = parser.parse_args()
    data = Path(chosen.data or ".")
    files = data / "srl-ewt" / "train.conll.gz", data / "frames" / "rolesets.tsv.gz"
    for file in files:
        if not file.is_file():
            print(f"{file} is not there; --data DIR or BRIDLE_DATA says where the data are", file=sys.stderr)
            return 2
    part = Part.of(list(propositions(files[0], frames(files[1]))))
    part = part.knowing(part.roles).every(10 if chosen.quick else 1)
    place = where()
    trainers = learners(part)
    seconds = timed(trainers, max(chosen.passes, 2))
    middle = {name: median(times[1:]) for name, times in seconds.items()}  # the first pass finds nothing in caches
    equal = same(trainers["ibt"], trainers["ibt in Python"])
    ratio = middle["ibt in Python"] / middle["ibt"]

    print(f"{len(part.y):,} propositions, {sum(map(len, part.y)):,} tokens, 5 rules\n{told(place)}\n")
    for name, value in middle.items():
        print(f"{name:14}{value:8.3f} s a pass, {value / middle['perceptron']:6.1f} times the plain perceptron's")
    most = middle["ibt in Python"] / middle["perceptron"]
    print(f"\nibt against the loop in Python: {ratio:.1f} times as fast; {most:.1f} times if rules cost nothing")
    print("exactly the same weights" if equal else "WRONG  the two have learned different weights")
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    figures = {"where": place, "quick": chosen.quick, "seconds": seconds, "median": middle, "ratio": ratio}
    chosen.json.write_text(json.dumps({**figures, "same": equal}, indent=1) + "\n", encoding="utf-8")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
