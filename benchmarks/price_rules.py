"""Pricing rules against a model: how long it takes, step by step.

    python benchmarks/price_rules.py --data DIR [--sequences N] [--rules N] [--json benchmarks/out/price_rules.json]

References of AnyStyle (DIR/citations-anystyle), 1,500 of them, and 100 candidate rules by default: a CRF is trained,
its training data is scored by cross-fitting, candidates are found, and penalties are learned, tested and compared with
no rules. What is timed is all but the training of the model itself. Exit code 2: data are missing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import repository  # noqa: F401  (it makes `experiments` importable)
from bridle.learn import RelationalRules, fit_rules
from bridle.models import CRF
from experiments import Run
from experiments.citations import anystyle
from measure import told, where

OUT = Path(__file__).parent / "out"


def main() -> None:
    """Time all steps once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("BRIDLE_DATA"))
    parser.add_argument("--sequences", type=int, default=1500)
    parser.add_argument("--rules", type=int, default=100, help="candidates; the first of those that are found")
    parser.add_argument("--json", type=Path, default=OUT / "price_rules.json")
    args = parser.parse_args()
    if args.data is None or not (Path(args.data) / "citations-anystyle").is_dir():
        print("price_rules: no citations-anystyle in --data", file=sys.stderr)
        sys.exit(2)
    whole = anystyle(Run(Path(args.data)), "blanks")
    data = whole.part(range(0, len(whole), max(len(whole) // args.sequences, 1))[: args.sequences])
    model = CRF(features="fields", c1=0.03, c2=0.03).fit(data.X, data.y)
    seconds: dict[str, float] = {}
    clock = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal clock
        now = time.perf_counter()
        seconds[name], clock = now - clock, now

    scores = model.cross_fit(data.X, data.y)
    lap("cross-fitting, 4 folds")
    miners = (RelationalRules(select="all", penalty=None, min_confidence=share) for share in (0.95, 0.9, 0.8))
    mined = (learned.hard().rule for miner in miners for learned in miner.fit(data.X, data.y).learned_)
    candidates = list(dict.fromkeys(mined))[: args.rules]
    lap("finding candidates")
    fitted = fit_rules(model, data.X, data.y, rules=candidates, cross_fit=scores)
    lap("prices, tests, comparison")
    seconds["all"] = sum(seconds.values())
    print(told(where()))
    print(f"{len(data):,} references, {fitted.candidates} candidate rules, {len(fitted.rules)} kept")
    for name, took in seconds.items():
        print(f"{name:30} {took:7.1f} s")
    print(fitted.lines()[1])
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps({"where": where(), "seconds": seconds, "fit": fitted.to_dict()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
