"""Training against CRFsuite: the same data, the same features, the same objective, in one run.

    python benchmarks/train.py --data DIR [--quick] [--repeat N] [--json benchmarks/out/train.json]

Every training runs in a process of its own (chunking.py). Exit code 1 when the two sides did not solve the same
problem: other numbers of weights or iterations, or on a full run a loss or an accuracy that is not the same. A target
of speed or memory that is not met is printed as such; it does not change the exit code, as it depends on the machine.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from chunking import Job, corpus, options, read, run_apart
from versus import Row, Table

Runs = dict[str, dict[str, Any]]


def best(jobs: dict[str, Job], rounds: int) -> Runs:
    """The fastest run of each job; they take turns, so that a slow moment of the machine hits all."""
    fastest: Runs = {}
    for _ in range(rounds):
        for name, job in jobs.items():
            run = run_apart(job)
            print(f"{name}: {len(run['marks'])} iterations, {run['per_iteration']:.3f} s each", file=sys.stderr)
            if name not in fastest or run["per_iteration"] < fastest[name]["per_iteration"]:
                fastest[name] = run
    return fastest


def likelihood(table: Table, runs: Runs, gold: list[list[str]], quick: bool) -> None:
    """Rows about L-BFGS."""
    from bridle.report import score

    single, two, peer = runs["bridle"], runs["bridle, 2 threads"], runs["crfsuite"]
    count = len(peer["marks"])
    double = 10.0 if (os.cpu_count() or 1) > 1 else None
    table.faster("features: from tokens to what a trainer takes in", single["features"], peer["features"])
    table.faster("L-BFGS, seconds per iteration", single["per_iteration"], peer["per_iteration"], 6)
    table.faster("... two threads against CRFsuite's one", two["per_iteration"], peer["per_iteration"], double)
    table.faster(f"L-BFGS, {count} iterations, features apart", single["train"], peer["train"], 6)
    table.faster("... two threads against CRFsuite's one", two["train"], peer["train"], double)
    whole = [run["features"] + run["train"] for run in (single, two, peer)]
    table.faster("... features and all", whole[0], whole[2])
    table.faster("... features and all, two threads", whole[1], whole[2])
    for name, run in (("peak memory", single), ("... two threads", two)):
        ours, theirs = run["peak"], peer["peak"]
        table.rows.append(Row(name, ours, theirs, "MB", ours / theirs, target=1.3, sense="<="))

    ours, theirs = single["losses"][-1], peer["losses"][-1]
    apart = 100 * abs(ours - theirs) / theirs
    loss = Row(f"loss after {count} iterations", ours, theirs, "loss", apart, "%", 0.1, "<=")
    a, b = (score(gold, run["labels"]) for run in (single, peer))
    points = 100 * (a.accuracy - b.accuracy)
    right = Row("test, tokens right", 100 * a.accuracy, 100 * b.accuracy, "%", points, "points", 0.1, "<=")
    x, y = 100 * a.segments.f1, 100 * b.segments.f1
    weights = single["n_weights"], peer["n_weights"]
    table.rows += [
        loss,
        right,
        Row("test, F1 of chunks", x, y, "%", x - y, "points"),
        Row("weights", *weights, "weights", weights[0] / weights[1]),
    ]
    tokens = zip(chain(*single["labels"]), chain(*peer["labels"]), strict=True)
    table.notes.append(f"labels of the test set equal to CRFsuite's: {sum(i == j for i, j in tokens) / a.tokens:.3%}")
    if len(set(weights)) > 1:
        table.wrong.append(f"bridle learns {weights[0]:,} weights, CRFsuite {weights[1]:,}")
    if len(counts := {len(run["marks"]) for run in (single, two, peer)}) > 1:
        table.wrong.append(f"other numbers of iterations: {sorted(counts)}")
    if not quick:  # after a few iterations the two line searches may stand at different points
        table.wrong += [
            f"{row.what}: bridle {row.ours:.4f}, CRFsuite {row.theirs:.4f}" for row in (loss, right) if not row.met
        ]


def perceptron(table: Table, runs: Runs, gold: list[list[str]]) -> None:
    """Rows about the averaged perceptron."""
    from bridle.report import score

    ours, peer = runs["bridle, perceptron"], runs["crfsuite, perceptron"]
    count = len(peer["marks"])
    table.faster("averaged perceptron, seconds per epoch", ours["per_iteration"], peer["per_iteration"], 3)
    table.faster(f"averaged perceptron, {count} epochs, features apart", ours["train"], peer["train"])
    a, b = (100 * score(gold, run["labels"]).accuracy for run in (ours, peer))
    table.rows.append(Row(f"test after {count} epochs, tokens right", a, b, "%", a - b, "points"))


def main() -> int:
    """The command."""
    parser = options("Training: Bridle against CRFsuite.", "train.json")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="rounds of L-BFGS, the best counts")
    chosen = parser.parse_args()
    train, test = corpus(chosen.data)
    table = Table("Training on CoNLL-2000, the same 19 features, c2 = 1; one thread unless it says two")
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        iterations, epochs, limit = (10, 5, 894) if chosen.quick else (100, 10, None)
        job = Job("bridle", "lbfgs", iterations, str(train), str(Path(folder) / "model"), limit, test=str(test))
        other = replace(job, algorithm="perceptron", iterations=epochs)
        runs = best(
            {"bridle": job, "crfsuite": replace(job, side="crfsuite"), "bridle, 2 threads": replace(job, threads=2)},
            max(chosen.repeat, 1),
        )
        runs |= best({"bridle, perceptron": other, "crfsuite, perceptron": replace(other, side="crfsuite")}, 2)
    gold = read(test)[1]  # not before: the peak of a child is at least the size of the process that starts it
    likelihood(table, runs, gold, chosen.quick)
    perceptron(table, runs, gold)
    table.notes += [
        "An iteration is timed from the end of the first to the end of the last, divided by one less.",
        "CRFsuite's time ends before it writes its file. Peak memory: reading, features and training.",
    ]
    table.data = {name: {key: value for key, value in run.items() if key != "labels"} for name, run in runs.items()}
    table.show()
    table.write(chosen.json, quick=chosen.quick, seconds=time.perf_counter() - begin)
    print(f"{time.perf_counter() - begin:.0f} s; figures in {chosen.json}")
    return 1 if table.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
