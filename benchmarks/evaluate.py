"""Figures of the explorer: what rules do to 500 references, each rule alone and left out, while rules are typed.

    python benchmarks/evaluate.py [--json benchmarks/out/evaluate.json]

The model and the references are those of `bridle demo`; the scores are there before the clock starts. One thread.

first       nothing is known of the rules: their expressions are matched, their violations counted
typing      the penalty or a number of one rule was changed since the last call
budget      the same as first, for a call that may take 0.1 s until it stops to try single rules

Wall time, the median of some calls; `cpu` is the time of the process, which others on the machine do not lengthen.
Exit code 1 if that takes 200 ms of processor time or more, or the figures differ from those of `bridle.learn.audit`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from importlib.resources import files
from itertools import permutations
from pathlib import Path
from typing import Any

import bridle
from bridle.data import Example, references
from bridle.demo import SEEN, UNSEEN, WORKS
from bridle.learn import RelationalRules, audit
from bridle.models import CRF, Tagger
from bridle.rules import forbid_transition
from bridle.rules.base import Rule, Soft
from bridle.rules.loading import parse_lines
from bridle.serve.evaluation import EvaluateAnswer, GoldData, evaluate

SEQUENCES, ROUNDS, TARGET = 500, 7, 0.2


def problem() -> tuple[Tagger, list[Example], list[Rule], list[Rule]]:
    """The model, references that it has not seen, the written rules, and 50 rules."""
    known, unknown = references.split(WORKS, 0)
    train = references.references(*SEEN, of=known)
    test = references.references(*UNSEEN, of=unknown)[:SEQUENCES]
    xs, ys = [dict(example.columns) for example in train], [example.known_labels for example in train]
    model = CRF(features="fields", c2=0.1).fit(xs, ys)
    text = (files("bridle.demo") / "references.rules").read_text(encoding="utf-8")
    written = [line.rule for line in parse_lines(text.splitlines())]
    learned = [rule for rule in RelationalRules(scheme="IO").fit(xs, ys).rules_ if rule not in written]
    pairs = permutations(sorted(model.labels_.types), 2)
    more = [forbid_transition(a, b).soft(0.5) for a, b in pairs]  # learned ones may be fewer
    return model, test, written, [*written, *learned, *more][:50]


def data_of(model: Tagger, test: Sequence[Example], scores: bridle.Batch) -> GoldData:
    """The data without anything remembered but plain decoding."""
    given = [{"tokens": list(example.tokens)} for example in test]
    data = GoldData(model.labels_, scores, [example.known_labels for example in test], given)
    _ = data.plain_counts
    return data


def changed(rules: Sequence[Rule], k: int) -> list[Rule]:
    """The rules with another penalty for one of them."""
    last = rules[-1]
    other = last.rule if isinstance(last, Soft) else last
    return [*rules[:-1], other.soft(1.0 + k / 10)]


def timed(rules: Sequence[Rule], data: GoldData, **options: Any) -> tuple[float, float, EvaluateAnswer]:
    """Wall and processor time of a call."""
    wall, cpu = time.perf_counter(), time.process_time()
    answer = evaluate(rules, data, **options)
    return time.perf_counter() - wall, time.process_time() - cpu, answer


def measured(model: Tagger, test: Sequence[Example], rules: Sequence[Rule]) -> dict[str, Any]:
    """Milliseconds of each case."""
    scores = model.lattices([example.columns for example in test])
    first = [timed(rules, data_of(model, test, scores)) for _ in range(ROUNDS)]
    data = data_of(model, test, scores)
    evaluate(rules, data)
    typing = [timed(changed(rules, k), data) for k in range(ROUNDS)]
    short = [timed(rules, data_of(model, test, scores), budget=0.1) for _ in range(ROUNDS)]
    out: dict[str, Any] = {"rules": len(rules), "same_as_audit": same(first[0][2], model, test, rules, scores)}
    for name, calls in (("first", first), ("typing", typing), ("budget", short)):
        out[name] = 1e3 * statistics.median(call[0] for call in calls)
        out[f"{name}_cpu"] = 1e3 * statistics.median(call[1] for call in calls)
    out["tried_within_budget"] = sum(rule.without is not None for rule in short[-1][2].rules)
    return out


def same(
    answer: EvaluateAnswer, model: Tagger, test: Sequence[Example], rules: Sequence[Rule], scores: bridle.Batch
) -> bool:
    """Are the figures those of `audit`, which was given the rules as they are?"""
    gold = [example.known_labels for example in test]
    given = model.given([example.columns for example in test], model.decoder(rules))
    audited = audit(list(rules), gold, model.labels_, given=given, lattices=scores, threads=1)
    pairs = [(answer.none, audited.none), (answer.all, audited.all)]
    for row in audited.audited:
        figures = answer.rules[row.number]
        pairs += [(figures.alone, row.alone), (figures.without, row.without)]
    return all(a is not None and b is not None and (a.f1, a.accuracy) == (b.f1, b.accuracy) for a, b in pairs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    asked = parser.parse_args()
    print(f"vector instructions: {bridle.simd()}")
    model, test, written, many = problem()
    print(f"{len(test)} references, {sum(map(len, test)):,} tokens, one thread; milliseconds (cpu)")
    rows = [measured(model, test, rules) for rules in (written, many)]
    for row in rows:
        cells = [f"{name} {row[name]:.0f} ({row[f'{name}_cpu']:.0f})" for name in ("first", "typing", "budget")]
        more = f"{row['tried_within_budget']} of {row['rules']} rules tried within the budget"
        print(f"{row['rules']:3} rules: {', '.join(cells)}; {more}; as audit finds: {row['same_as_audit']}")
    if asked.json is not None:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps({"simd": str(bridle.simd()), "rows": rows}, indent=1) + "\n", "utf-8")
    return int(not all(row["same_as_audit"] for row in rows) or rows[0]["first_cpu"] >= 1e3 * TARGET)


if __name__ == "__main__":
    sys.exit(main())
