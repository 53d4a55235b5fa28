"""Rules priced against a model: they stay only if they earn it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridle import CRF, Decoder, LabelError, LocalTagger, ModelError, RuleError, rules
from bridle.data import references
from bridle.learn import Comparison, FittedRules, RelationalRules, fit_rules, rules_of
from bridle.learn.judged import Judged
from bridle.learn.pricing import Prices, Pricing, fit_prices
from bridle.models import CrossFit
from bridle.report import score
from bridle.report.significance import compare_scores, log_tail, sign_test
from learning import Data

WEAK = ["lower[0]", "label[-1]"]


@lru_cache
def data(part: str) -> Data:
    known, unknown = references.split(70)
    some = references.references("acm", "lncs", of=known if part == "train" else unknown[:60])
    return [dict(e.columns) for e in some], [list(e.labels or ()) for e in some]


@lru_cache
def model() -> CRF:
    return CRF(features=WEAK, c2=0.1, scheme="IO", threads=1).fit(*data("train"))


@lru_cache
def fitted() -> FittedRules:
    return fit_rules(model(), *data("train"), threads=1)


PRICING: dict[str, Any] = {"l1": 4.0, "significance": 0.1}


def judged(X: Any, y: Any, **options: Any) -> Judged:
    settings: dict[str, Any] = {"scored_by": "auto", "cross_fit": None, "groups": None, "on_unknown": "raise"}
    return Judged.of(model(), X, y, None, **{**settings, **options}, seed=0, threads=1, watch=None)


def exact(result: list[Any]) -> float:
    X, y = data("test")
    return score(y, model().predict(X, result, on_infeasible="relax"), "IO").exact


def test_rules_that_help_are_found_and_help_elsewhere() -> None:
    result = fitted()
    assert result.won and 0 < len(result.rules) < result.candidates
    assert result.source == "cross-fitted" and result.folds == 4 and result.sequences == len(data("train")[0])
    assert result.held_out["quality"] > result.plain["quality"]
    assert result.exact.low > 0 and result.exact.p < 0.05
    assert exact(result.rules) > exact([]) + 0.03
    assert result.fingerprint == model().fingerprint_


def test_the_gain_that_is_foreseen_is_seen_on_other_data() -> None:
    result = fitted()
    assert result.exact.low < exact(result.rules) - exact([])
    assert result.exact.gain == pytest.approx(result.held_out["exact"] - result.plain["exact"])


def test_what_it_says() -> None:
    lines = fitted().lines()
    assert lines[0].startswith(f"priced for model {model().fingerprint_} on 140 sequences in 4 folds, each fold scored")
    assert lines[1].startswith("scale of the scores: ") and "multiple of the likeliest prices: " in lines[1]
    assert "without rules" in lines[2] and "95 % interval" in lines[2]
    kept, p = f"{len(fitted().rules)} rules of {fitted().candidates} candidates", f"{fitted().quality.p:.2g}"
    quality = f"{fitted().plain['quality']:.2%} without rules, {fitted().held_out['quality']:.2%} with rules"
    assert lines[-1] == f"use these {kept}: quality {quality} on held-out sequences (p = {p})"
    output = fitted().to_dict()
    assert output["won"] is True and output["exact"]["gain"] == fitted().exact.gain
    assert all("held in" in str(item) and "better in" in str(item) for item in fitted().priced)


def test_a_good_model_gets_no_rules() -> None:
    X, y = data("train")
    good = CRF(features="fields", c2=0.03, scheme="IO", threads=1).fit(X, y)
    result = fit_rules(good, X, y, threads=1)
    assert not result.won and result.rules == [] and result.learned == []
    assert result.lines()[-1].startswith("use no rules")


def test_rules_that_say_nothing_or_are_wrong_are_left_out() -> None:
    wrong = [rules.parse(text) for text in ("DATE before AUTHOR", "starts with DATE", "at most 9 segments of TITLE")]
    result = fit_rules(model(), *data("train"), rules=wrong, threads=1)
    assert not result.won and result.priced == () and result.dropped == {"add nothing to the model": 3}


def test_given_rules_are_priced() -> None:
    written = ["exactly 1 segment of DATE", rules.parse("starts with AUTHOR").soft(1, per="violation")]
    result = fit_rules(model(), *data("train"), rules=(rule for rule in written), threads=1)
    assert result.won and result.candidates == 2
    first = result.learned[0]
    assert str(first).startswith("exactly 1 segment of DATE  [penalty") and first.held == first.of == 140
    assert all(item.kind == "written" for item in result.learned)


def test_rules_are_paid_for_as_they_were() -> None:
    rule = rules.parse(r"allow PAGES at tokens /\W*\d+\W+\d+\W*/").soft(1, per="violation")
    result = fit_rules(model(), *data("train"), rules=[rule], threads=1)
    assert [item.learned.rule.per for item in result.priced] == ["violation"]  # type: ignore[attr-defined]


def test_groups_of_new_data_are_held_out_together() -> None:
    X, y = data("test")
    groups = [k // 30 for k in range(len(X))]
    scored = judged(X, y, scored_by="model", groups=groups)
    assert all(len(set(scored.fold[k : k + 30].tolist())) == 1 for k in range(0, len(X), 30))


def test_a_miner_of_ones_own() -> None:
    miner = RelationalRules(["count"], select="all", penalty=None, scheme="IO")
    result = fit_rules(model(), *data("train"), rules=miner, threads=1)
    assert {item.learned.kind for item in result.priced} == {"count"} and miner.report_.candidates


def test_new_data_is_scored_by_the_model_itself() -> None:
    result = fit_rules(model(), *data("test"), threads=1)
    assert result.source == "model" and "new to the model" in result.lines()[0]
    forced = fit_rules(model(), *data("test"), scored_by="cross-fitted", threads=1)
    assert forced.source == "cross-fitted"


def test_scores_that_are_there_are_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    X, y = data("train")
    built = model().cross_fit(X, y)
    built.save(tmp_path / "scores")
    monkeypatch.setattr(CRF, "cross_fit", lambda *args, **more: pytest.fail("they are there"))
    again = fit_rules(model(), X, y, cross_fit=CrossFit.load(tmp_path / "scores"), threads=1)
    assert [str(rule) for rule in again.rules] == [str(rule) for rule in fitted().rules]
    with pytest.raises(ModelError, match="other data or settings"):
        fit_rules(model(), X[:-1], y[:-1], cross_fit=built)
    with pytest.raises(ModelError, match="cross_fit"):
        fit_rules(model(), X, y, cross_fit=built, scored_by="model")


def test_scores_of_the_last_cross_fit_are_used_without_training_again(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data("train")
    tuned = CRF(features=WEAK, scheme="IO", threads=1, iterations=20).fit(X, y)
    tuned.cross_fit(X, y)
    monkeypatch.setattr(CRF, "cross_fit", lambda *args, **more: pytest.fail("they are there"))
    assert fit_rules(tuned, X, y, threads=1).source == "cross-fitted"


def test_other_models_can_be_corrected_too() -> None:
    X, y = data("train")
    local = LocalTagger(features=["lower[0]"], iterations=5, scheme="IO").fit(X, y)
    written = ["exactly 1 segment of DATE", "starts with AUTHOR", "at most 1 segment of TITLE"]
    result = fit_rules(local, X, y, rules=written, threads=1)
    assert result.won and result.quality.gain > 0.05


def test_groups_are_held_out_together() -> None:
    X, y = data("train")
    result = fit_rules(model(), X, y, groups=[k % 2 for k in range(len(X))], threads=1)
    assert result.folds == 2


def test_large_data_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridle.learn.judged.MOST", 50)
    output: list[str] = []
    assert fit_rules(model(), *data("train"), threads=1, watch=output.append).sequences == 50
    assert any("looking for rules" in line for line in output) and any("fold 4 of 4" in line for line in output)


@pytest.mark.parametrize(
    ("error", "bad"),
    [
        (ModelError, {"l1": 0}),
        (ModelError, {"significance": -1}),
        (ModelError, {"scored_by": "other"}),
        (ModelError, {"seed": -1}),
        (ModelError, {"threads": 1.5}),
        (ModelError, {"significance": 7}),
        (ModelError, {"watch": 3}),
        (RuleError, {"rules": "starts with A"}),
        (RuleError, {"rules": [1]}),
        (ModelError, {"cross_fit": 1}),
    ],
)
def test_bad_arguments(error: type[Exception], bad: dict[str, Any]) -> None:
    with pytest.raises(error):
        fit_rules(model(), *data("train"), **bad)


def test_bad_data() -> None:
    X, y = data("train")
    with pytest.raises(ModelError, match="not a trained model"):
        fit_rules(3, X, y)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="not been trained"):
        fit_rules(CRF(), X, y)
    with pytest.raises(LabelError, match="differ in length"):
        fit_rules(model(), X, y[:-1])
    with pytest.raises(LabelError, match="differ in length") as wrong:
        fit_rules(model(), *data("test")[:1], [*data("test")[1][:-1], ["O"]], rules=["present DATE"])
    assert wrong.value.sequence == len(data("test")[0]) - 1
    with pytest.raises(LabelError, match="list of label lists"):
        fit_rules(model(), X, None)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="too few sequences"):
        fit_rules(model(), [], [])
    with pytest.raises(LabelError, match="unknown label"):
        fit_rules(model(), X, [["ODD"] * len(item) for item in y])


# ---- comparisons ----------------------------------------------------------------------------------------------------


def test_comparisons() -> None:
    result = Comparison.of([0, 0, 0, 1], [1, 1, 1, 0])
    assert (result.gain, result.better, result.worse) == (0.5, 3, 1)
    assert result.low <= result.gain <= result.high and result.p == sign_test(3, 1)
    assert str(result).startswith("+50.00 points, 95 % interval ")
    same = Comparison.of([1, 0], [1, 0])
    assert (same.gain, same.low, same.high, same.p) == (0, 0, 0, 1)
    assert Comparison.of([], []).gain == 0


def test_intervals_hold_what_they_promise() -> None:
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(200):
        d = rng.choice([-1.0, 0.0, 1.0], 100, p=[0.1, 0.7, 0.2])
        result = Comparison.of(np.zeros(100), d)
        inside += result.low <= 0.1 <= result.high
    assert inside > 180


def test_tails_of_sums() -> None:
    assert np.exp(log_tail(np.array([1.0, -1.0]))) == pytest.approx(0.5)
    assert np.exp(log_tail(np.ones(16))) == pytest.approx(3.17e-5, rel=0.01)  # four standard deviations
    assert log_tail(np.zeros(3)) == pytest.approx(np.log(0.5))


def test_what_is_held_out_is_not_learned_from() -> None:
    X, y = data("train")
    pricing = Pricing(judged(X, y), rules_of(RelationalRules(scheme="IO").fit(X, y).learned_), **PRICING)
    prices = pricing.learn()
    use = pricing.judged.fold != 0
    alone = fit_prices(pricing.competitors, l1=4.0 * use.mean(), start=prices, use=use)
    assert pricing.fold_prices(prices)[0].w == pytest.approx(pricing.significant(alone, use).w)
    free = [replace(prices, w=0 * prices.w)] * 4
    assert compare_scores(pricing.held_out(free), pricing.judged.judge(pricing.judged.plain))["quality"].gain == 0


def test_parts_of_the_data_are_decoded_as_the_whole_is() -> None:
    """Sequences whose plain labels break no rule are not decoded; token conditions are found once."""
    X, y = data("train")
    written = [rules.parse(t) for t in ("exactly 1 segment of DATE", r"fix DATE at tokens /(19|20)\d\d/")]
    pricing = Pricing(judged(X, y), [rule.soft(1) for rule in written], **PRICING)
    prices = Prices(np.array([2.0, 3.0]), 0.5)
    decoder = pricing.judged.scores.labels
    whole = Decoder(decoder, pricing.soft(prices)).decode_batch(
        pricing.judged.scores.lattices, [{"tokens": words} for words in pricing.judged.texts or []], threads=1
    )
    assert [rule.penalty for rule in pricing.soft(prices)] == [4.0, 6.0]
    assert np.array_equal(pricing.decode(prices), whole.ids)
    use = np.arange(len(X)) % 3 == 0
    of_token = np.repeat(use, np.diff(pricing.judged.offsets))
    assert np.array_equal(pricing.decode(prices, use), whole.ids[of_token])
