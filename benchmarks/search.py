"""Search by successive halving beside the whole grid: is the choice as good, and how much time does it save?

    python benchmarks/search.py --data DIR [--only NAME] [--splits N] [--json benchmarks/out/search.json]

c1 x c2 (24 candidates, the default grid of `bridle train --search c1,c2`), on data sets of `bridle reproduce
learned-rules`. Both ways choose by the same measure in the same four folds of the training set. What each chose is
trained on the whole training set and scored on the test set, beside the best and the worst of the grid in the folds.
Seconds are of the processor, in one thread.
Exit code 2: data are missing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import repository  # noqa: F401  (it makes `experiments` importable)
from bridle.models import CRF, halving, search
from bridle.report import score
from experiments import Run
from experiments.learned_rules_data import SETS
from measure import told, where

OUT = Path(__file__).parent / "out"
GRID = {"c1": [0.0, 0.03, 0.1, 0.3], "c2": [0.01, 0.03, 0.1, 0.3, 1.0, 3.0]}


def compared(name: str, run: Run, seed: int) -> dict[str, Any]:
    """One data set: seconds of both ways, and how good what they chose is on the test set."""
    data_set = next(data_set for data_set in SETS if data_set.name == name)
    train, test = data_set.split(run, seed)
    model = CRF(features=data_set.features, seed=seed, threads=1)
    row: dict[str, Any] = {"data": name, "seed": seed, "sequences": len(train.X)}

    def tested(settings: Any) -> float:
        tagger = CRF(features=data_set.features).set_params(**settings).fit(train.X, train.y)
        return 100 * score(test.y, tagger.predict(test.X), tagger.labels_.scheme).segments.f1

    for way in ("halving", "grid"):
        whole = patch.object(halving, "plan_rungs", lambda n, count: [(1, count)])
        begun = time.process_time()
        if way == "grid":
            with whole:
                chosen = search(model, train.X, train.y, GRID, measure="f1")
        else:
            chosen = search(model, train.X, train.y, GRID, measure="f1")
        took = time.process_time() - begun
        row[way] = {"settings": dict(chosen.settings), "seconds": round(took, 1), "test_f1": tested(chosen.settings)}
        if way == "grid":
            folds = {json.dumps(trial.settings): 100 * trial.f1 for trial in chosen.tried}
            ranked = sorted(folds.values())
            row["folds_f1"] = {"grid": ranked[-1], "halving": folds[json.dumps(row["halving"]["settings"])]}
            row["folds_f1"] |= {"median": ranked[len(ranked) // 2], "worst": ranked[0]}
    row["saved"] = round(row["grid"]["seconds"] / row["halving"]["seconds"], 2)
    return row


def main() -> None:
    """Compare on each data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("BRIDLE_DATA"))
    parser.add_argument("--only", action="append", help="a data set; may be repeated")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--json", type=Path, default=OUT / "search.json")
    args = parser.parse_args()
    if args.data is None or not Path(args.data).is_dir():
        print("search: no --data", file=sys.stderr)
        sys.exit(2)
    print(told(where()))
    rows = []
    for name in args.only or [data_set.name for data_set in SETS]:
        for seed in range(args.splits):
            row = compared(name, Run(Path(args.data)), seed)
            rows.append(row)
            ways = "; ".join(
                f"{way} {row[way]['settings']} {row[way]['seconds']:.1f} s, test F1 {row[way]['test_f1']:.2f}, "
                f"folds {row['folds_f1'][way]:.2f}"
                for way in ("halving", "grid")
            )
            spread = f"median {row['folds_f1']['median']:.2f}, worst {row['folds_f1']['worst']:.2f}"
            print(f"{name} {seed} ({row['sequences']}): {ways}; {spread}; {row['saved']}x", flush=True)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
