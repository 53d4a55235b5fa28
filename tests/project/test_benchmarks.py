"""Problems for the general solvers of the benchmarks mean the same as the rules."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from bridle import Labels
from bridle import rules as r
from bridle.rules.base import Rule, Soft

LABELS = Labels(["O", "A", "B", "C"], scheme="IO")
RULES: list[Rule] = [
    r.exactly(1, of="A"),
    r.before("A", "B"),
    r.if_present("A", then="C"),
    r.followed_by("B", "C"),
    ~(r.present("A") & r.present("C")),
    r.forbid_transition("A", "B"),
    r.length("B", at_most=2),
    r.label_at(1, "A") | r.label_at(-1, "B"),
    r.fix("C", r.tokens("x")),
    r.no_duplicates(of=["A", "B"]),
]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_tables_cost_what_rules_cost(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    tables_of = importlib.import_module("rule_tables").tables_of
    rng = np.random.default_rng(1)
    for _ in range(40):
        n = int(rng.integers(2, 8))
        y, given = rng.integers(0, 4, n).tolist(), {"tokens": rng.choice(["x", "y", "z"], n).tolist()}
        for item in (rule, rule.soft(1.5), rule.soft(1.5, per="violation")):
            cost = 0.0
            for table in tables_of([item], LABELS, given, n):
                s = 0
                for t, label in enumerate(y):
                    cost += table.price[t, s, label]
                    s = table.after[t, s, label]
            count = item.violations(y, LABELS, given)
            assert cost == pytest.approx(item.cost(count) if isinstance(item, Soft) else np.inf if count else 0.0)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the peak of memory is known")
def test_memory_does_not_grow_with_the_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """benchmarks/memory.py, in short: caches are not full yet, but no decode leaves kilobytes behind."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    outcome = importlib.import_module("memory").run(20_000)
    assert outcome.decodes >= 20_000 and outcome.end - outcome.warm < 40, outcome
