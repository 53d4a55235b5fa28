"""Written rules on data: hard, soft or off, and a table that shows why."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from bridle import ModelError, RuleError, rules
from bridle.learn import TunedRules, tune_rules
from bridle.learn.tuned import Ways, _best
from bridle.rules import Soft
from tests.learn.test_fitted import data, exact, model

WRITTEN = """present TITLE
exactly 1 segment of DATE  [penalty 1]
DATE before AUTHOR
AUTHOR before TITLE
at most 9 segments of TITLE  [penalty 3]
"""


@lru_cache
def tuned() -> TunedRules:
    written = [line.rule for line in rules.parse_lines(WRITTEN.splitlines())]
    return tune_rules(model(), written, *data("train"), threads=1)


def test_each_rule_gets_its_place() -> None:
    title, exactly, wrong, before, idle = tuned().tuned
    assert before.gold_breaks == 0 and before.choice == "hard" and not isinstance(before.rule, Soft)
    assert wrong.gold_breaks > 100 and wrong.choice == "off" and wrong.rule is None and wrong.effect is None
    assert exactly.choice in ("soft", "hard") and exactly.effect is not None and exactly.effect.gain > 0.02
    assert exactly.model_breaks > exactly.gold_breaks == 0
    assert title.rule is not None
    assert idle.choice == "off" and idle.model_breaks == 0


def test_the_tuned_rules_win_and_help_elsewhere() -> None:
    result = tuned()
    assert result.best == "tuned" and result.gains["tuned"].gain > 0
    assert result.gains["written"].gain < result.gains["tuned"].gain  # one of them is wrong
    assert exact(result.rules) > exact([]) + 0.03


def test_the_verdict_rests_on_figures_of_one_test() -> None:
    result = tuned()
    quality = [f"{result.figures[way]['quality']:.2%}" for way in ("tuned", "none", "written")]
    p = [f"{result.against[way].p:.2g}" for way in ("none", "written")]
    assert result.verdict == (
        f"use the tuned rules: quality {quality[0]} on held-out sequences, "
        f"against {quality[1]} without rules (p = {p[0]}) and {quality[2]} as written (p = {p[1]})"
    )


@pytest.mark.parametrize(
    ("none", "written", "tuned", "best"),
    [
        ([0, 0, 0, 1], [1, 1, 1, 0], [1, 1, 0, 1], "tuned"),  # as good as written, with fewer rules
        ([0, 0, 0, 0], [1, 1, 1, 0], [1, 1, 0, 0], "written"),  # better than tuned, though not significantly
        ([0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], "tuned"),
        ([1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], "none"),
    ],
)
def test_the_best_way_is_the_one_that_scores_highest(
    none: list[float], written: list[float], tuned: list[float], best: str
) -> None:
    assert _best(qualities(none, written, tuned, times=25)) == best


def qualities(*ways: list[float], times: int) -> dict[Ways, Any]:
    return {way: np.tile(values, times) for way, values in zip(get_args(Ways), ways, strict=True)}


def test_few_sequences_must_speak_clearly_against_the_rules_as_written() -> None:
    assert _best(qualities([0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 0, 0], times=1)) == "written"
    assert _best(qualities([1, 1, 1, 1, 1], [0, 0, 0, 0, 0], [1, 1, 1, 0, 0], times=1)) == "none"
    assert _best(qualities([0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 0, 0], times=4)) == "tuned"


def test_a_note_says_that_few_sequences_decide_nothing() -> None:
    X, y = data("train")
    result = tune_rules(model(), ["no duplicates of TITLE", "DATE before TITLE"], X[:6], y[:6], threads=1)
    better = any(f["quality"] > result.figures["written"]["quality"] for f in result.figures.values())
    assert result.best == "written" and better == any("kept" in note for note in result.notes)


def test_rules_that_do_not_help_are_not_recommended() -> None:
    result = tune_rules(model(), [rules.parse("at most 9 segments of TITLE")], *data("train"), threads=1)
    assert result.best == "none" and result.rules == []


def test_the_table_and_the_plot(tmp_path: Path) -> None:
    lines = tuned().lines()
    assert lines[0] == "140 sequences in 4 folds, each fold scored by a model trained on the others; 5 rules"
    assert [line.partition(":")[0] for line in lines[1:4]] == ["no rules", "as written", "tuned"]
    assert lines[4].split()[:2] == ["written", "tuned"] and lines[4].endswith("rule")
    assert lines[7].split()[:2] == ["hard", "off"] and lines[7].endswith("DATE before AUTHOR")
    assert lines[-1] == tuned().verdict
    tuned().plot(tmp_path / "gains.svg")
    assert (tmp_path / "gains.svg").stat().st_size > 1000
    document = json.loads(json.dumps(tuned().to_dict()))
    assert (
        document["best"] == "tuned" and document["rules"][2]["choice"] == "off" and document["rules"][2]["gain"] is None
    )


@pytest.mark.parametrize(
    ("error", "bad"), [(RuleError, {"rules": []}), (RuleError, {"rules": "A"}), (ModelError, {"l1": -1})]
)
def test_bad_arguments(error: type[Exception], bad: dict[str, Any]) -> None:
    with pytest.raises(error):
        tune_rules(model(), **{"rules": [rules.parse("present DATE")], **bad}, X=data("train")[0], y=data("train")[1])
    with pytest.raises(ModelError, match="not a trained model"):
        tune_rules(1, [rules.parse("present DATE")], [], [])  # type: ignore[arg-type]
