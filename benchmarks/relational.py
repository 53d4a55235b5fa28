"""Do learned rules help? Rules mined from labelled references, on a CRF, after Fersini et al. (2012), table 3.

    python benchmarks/relational.py --data DIR [--splits 5] [--tokens blanks] [--json benchmarks/out/relational.json]

Each split puts 350 of the 500 Cora references on the side of training and 150 on the other, equal references always on
one side. Rules and CRF learn from the same 350. `tau` of the two stages and the factor of the tuned penalties are
chosen by accuracy on a fifth of the training data, with rules and a model learned from the other four fifths.

    hard        rules without penalties, the fewest violations where they clash      search
    soft        penalties from counts                                                search
    tuned       the same times a factor                                              search
    two stages  fewest violations among labellings near the best one                 two_stage

(Hard rules in two stages are the same as in search: nothing is left for the second stage.)
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, pstdev
from typing import Any

import numpy as np

import bridle
from bridle import data
from bridle.engines import TwoStage
from bridle.learn.relational import ALL, RelationalRules
from bridle.report import score
from bridle.rules.base import Rule, Soft

TAUS = (0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
FACTORS = (0.1, 0.25, 0.5, 1.0, 2.0)
WAYS = ("hard", "soft", "tuned", "two stages")
Set = tuple[list[Any], list[list[str]]]  # X and y


@dataclass
class Row:
    """One line of the table: figures of all splits."""

    rules: str
    way: str
    figures: dict[str, list[float]] = field(default_factory=dict)

    def add(self, **values: float) -> None:
        """Figures of one split."""
        for name, value in values.items():
            self.figures.setdefault(name, []).append(value)

    def line(self) -> str:
        """As Markdown."""
        shown = [self.rules, self.way, f"{mean(self.figures['n_rules']):.0f}"]
        for name in ("accuracy", "macro_f", "segment_f", "exact"):
            values = [100 * value for value in self.figures[name]]
            shown.append(f"{mean(values):.2f} ± {pstdev(values):.2f}")
        shown += [f"{100 * mean(self.figures[name]):.1f}" for name in ("broken", "gold_broken")]
        return "| " + " | ".join([*shown, f"{mean(self.figures['seconds']):.3f}"]) + " |"


HEAD = (
    "| rules | way | number | accuracy | macro F | segment F1 | exact | % break a rule | % of gold | seconds |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


def split(X: list[Any], y: list[list[str]], share: float, seed: int) -> tuple[Set, Set]:
    """Two sides, the first with about this share; sequences with equal tokens stay together."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for k, x in enumerate(X):
        groups.setdefault(tuple(x["word"]), []).append(k)
    order = list(groups.values())
    first: list[int] = []
    for g in np.random.default_rng(seed).permutation(len(order)).tolist():
        if len(first) + len(order[g]) <= round(share * len(X)):
            first += order[g]
    inside = set(first)
    second = [k for k in range(len(X)) if k not in inside]
    return ([X[k] for k in first], [y[k] for k in first]), ([X[k] for k in second], [y[k] for k in second])


def scaled(rules: Sequence[Rule], factor: float) -> list[Rule]:
    """Soft rules with other penalties."""
    return [rule.rule.soft(factor * rule.penalty) for rule in rules if isinstance(rule, Soft)]


@dataclass
class Side:
    """A trained model, rules of each set, and sequences to try them on."""

    model: Any
    rules: dict[str, list[Rule]]
    X: list[Any]
    y: list[list[str]]

    @classmethod
    def learned(cls, train: Set, test: Set, sets: dict[str, RelationalRules]) -> Side:
        """Model and rules from `train`; all labels of `test` must be known."""
        model = bridle.CRF(features="fields", c1=0.0, c2=1.0).fit(*train)
        return cls(model, {name: miner.fit(*train).rules_ for name, miner in sets.items()}, *test)

    def decode(self, rules: list[Rule], **options: Any) -> tuple[list[list[str]], float]:
        """Labels and seconds; features and scores are made before."""
        decoder = self.model.decoder(rules, on_infeasible="relax", **options)
        batch, given = self.model.lattices(self.X), self.model.given(self.X, decoder)
        begin = time.perf_counter()
        decodings = decoder.decode_batch(batch, given, threads=1)
        return [decoding.labels for decoding in decodings], time.perf_counter() - begin

    def ways(self, name: str, tuned: dict[str, float]) -> dict[str, tuple[list[Rule], dict[str, Any]]]:
        """Rules and options of each way."""
        soft = self.rules[name]
        return {
            "hard": ([rule.rule if isinstance(rule, Soft) else rule for rule in soft], {}),
            "soft": (soft, {}),
            "tuned": (scaled(soft, tuned["factor"]), {}),
            "two stages": (soft, {"engine": TwoStage(tau=tuned["tau"]), "time_limit": 5.0}),
        }

    def tune(self, name: str) -> dict[str, float]:
        """The best tau and factor on these sequences; of equals the most careful one."""

        def accuracy(rules: list[Rule], **options: Any) -> float:
            return score(self.y, self.decode(rules, **options)[0], None).accuracy

        soft = self.rules[name]
        taus = {tau: accuracy(soft, engine=TwoStage(tau=tau), time_limit=5.0) for tau in reversed(TAUS)}
        factors = {factor: accuracy(scaled(soft, factor)) for factor in FACTORS}
        return {"tau": max(taus, key=lambda k: taus[k]), "factor": max(factors, key=lambda k: factors[k])}

    def broken(self, rules: list[Rule], labellings: list[list[str]]) -> float:
        """The share of the sequences that break a rule."""
        pairs = zip(self.X, labellings, strict=True)
        bad = [any(not rule.holds(y, self.model.labels_, {"tokens": x["word"]}) for rule in rules) for x, y in pairs]
        return sum(bad) / len(bad)

    def measure(self, row: Row, rules: list[Rule], judged: list[Rule], **options: Any) -> None:
        """Add the figures of one way to decode; `judged`: the rules whose violations are counted."""
        labels, seconds = self.decode(rules, **options)
        scores = score(self.y, labels, None)
        row.add(
            accuracy=scores.accuracy,
            macro_f=scores.macro.f1,
            segment_f=scores.segments.f1,
            exact=scores.exact,
            broken=self.broken(judged, labels),
            gold_broken=self.broken(judged, self.y),
            seconds=seconds,
            n_rules=len(rules),
        )


def known(train: Set, test: Set) -> Set:
    """Return the part of `test` that has only labels of `train`."""
    names = {label for labels in train[1] for label in labels}
    fine = [k for k, labels in enumerate(test[1]) if names.issuperset(labels)]
    return [test[0][k] for k in fine], [test[1][k] for k in fine]


def miners() -> dict[str, RelationalRules]:
    """Return the learner of each set of rules."""
    return {
        **{kind: RelationalRules([kind]) for kind in ALL},
        "all": RelationalRules(),
        "all, none unselected": RelationalRules(select="all"),
        "all but tokens": RelationalRules([kind for kind in ALL if kind not in ("tokens", "change")]),
    }


def run(X: list[Any], y: list[list[str]], splits: int, rows: dict[tuple[str, str], Row]) -> dict[str, list[Any]]:
    """All rows on all splits; what was tuned."""
    chosen: dict[str, list[Any]] = {}
    for seed in range(splits):
        begin = time.perf_counter()
        train, test = split(X, y, 0.7, seed)
        inner, held = split(*train, 0.8, seed)
        tuning = Side.learned(inner, known(inner, held), miners())
        side = Side.learned(train, known(train, test), miners())
        rows.setdefault(("none", "Viterbi"), Row("none", "Viterbi"))
        side.measure(rows["none", "Viterbi"], [], side.rules["all"])
        for name in side.rules:
            tuned = tuning.tune(name)
            chosen.setdefault(name, []).append(tuned)
            for way, (rules, options) in side.ways(name, tuned).items():
                row = rows.setdefault((name, way), Row(name, way))
                side.measure(row, rules, side.rules[name], **options)
        print(f"split {seed + 1}: {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    return chosen


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Learned rules between labels on Cora: what helps.")
    wanted = "folder that holds citations-cora/tagged_references.txt (default: $BRIDLE_DATA)"
    parser.add_argument("--data", type=Path, default=os.environ.get("BRIDLE_DATA"), metavar="DIR", help=wanted)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--tokens", choices=["blanks", "punctuation"], default="blanks", help="where to cut the text")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "out" / "relational.json", metavar="OUT")
    asked = parser.parse_args()
    if asked.data is None or not (file := Path(asked.data) / "citations-cora" / "tagged_references.txt").is_file():
        print(
            "where is the corpus? --data DIR or BRIDLE_DATA, such that DIR/citations-cora/tagged_references.txt exists",
            file=sys.stderr,
        )
        return 2
    X, y = data.load(file, "tagged", tokens=asked.tokens)
    rows: dict[tuple[str, str], Row] = {}
    begin = time.perf_counter()
    miner = RelationalRules().fit(X, y)
    mining = time.perf_counter() - begin
    chosen = run(X, y, asked.splits, rows)
    took = time.perf_counter() - begin
    print(f"Cora, tokens cut at {asked.tokens}, {asked.splits} splits of {len(X)} references, mean ± deviation\n")
    print(HEAD, *(row.line() for row in rows.values()), sep="\n")
    plain = rows["none", "Viterbi"].figures["accuracy"]
    wins = {
        f"{row.rules}, {row.way}": sum(a > b for a, b in zip(row.figures["accuracy"], plain, strict=True))
        for row in rows.values()
        if row.way != "Viterbi"
    }
    print(f"\nmining all {len(X)} references, {len(miner.labels_)} labels: {mining:.1f} s; {miner.report_}")
    print("better than Viterbi in every split:", "; ".join(k for k, n in wins.items() if n == asked.splits) or "none")
    asked.json.parent.mkdir(exist_ok=True)
    stored = [{"rules": row.rules, "way": row.way, **row.figures} for row in rows.values()]
    kept = {"tokens": asked.tokens, "splits": asked.splits, "seconds": took, "mining_seconds": mining}
    kept |= {"rows": stored, "tuned": chosen}
    asked.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(f"{took:.0f} s; figures in {asked.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
