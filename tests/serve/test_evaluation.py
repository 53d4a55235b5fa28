"""Effects of rules on labelled sequences: the same figures as decoding with each set of rules and `score`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.random import Generator

from bridle import rules as r
from bridle.data import references
from bridle.decoding.decoder import Decoder
from bridle.errors import GivenError, LabelError
from bridle.labels import Labels
from bridle.lattice import Batch
from bridle.learn import audit
from bridle.models import CRF
from bridle.report import score
from bridle.rules.base import Rule
from bridle.rules.loading import parse_lines
from bridle.serve.evaluation import EvaluateAnswer, GoldData, Quality, evaluate
from strategies import random_labels, random_rule, seeds

Gold = list[list[Any]]


def quality(gold: Gold, guessed: Sequence[Sequence[str]], scheme: str | None) -> Quality:
    result = score(gold, guessed, scheme)
    return Quality(result.accuracy, result.segments.f1, result.exact)


def close(item: Quality | None, other: Quality | None) -> bool:
    return item is not None and other is not None and np.allclose(list(astuple(item)), list(astuple(other)), atol=1e-12)


def astuple(item: Quality) -> tuple[float, float, float]:
    return item.accuracy, item.f1, item.all_right


def slow(rules: list[Rule], labels: Labels, batch: Batch, gold: Gold, given: list[dict[str, Any]]) -> dict[str, Any]:
    """Evaluate the plain way: decode everything with every set of rules, judge in Python."""

    def decoded(some: list[Rule]) -> list[list[str]]:
        return Decoder(labels, some, on_infeasible="relax").decode_batch(batch, given, threads=1).labels

    def broken(rule: Rule, labellings: list[list[str]]) -> int:
        pairs = zip(labellings, given, strict=True)
        return sum(rule.violations(labels.ids(y), labels, its) > 0 for y, its in pairs)

    plain, best = decoded([]), decoded(rules)
    without = [decoded(rules[:k] + rules[k + 1 :]) for k in range(len(rules))]

    def right(labellings: list[list[str]]) -> list[int]:
        return [sum(map(str.__eq__, g, y)) for g, y in zip(gold, labellings, strict=True)]

    gains = [after - before for before, after in zip(right(plain), right(best), strict=True)]
    return {
        "none": quality(gold, plain, labels.scheme),
        "all": quality(gold, best, labels.scheme),
        "alone": [quality(gold, decoded([rule]), labels.scheme) for rule in rules],
        "without": [quality(gold, ys, labels.scheme) for ys in without],
        "rule_changed": [sum(a != b for a, b in zip(best, ys, strict=True)) for ys in without],
        "plain": [broken(rule, plain) for rule in rules],
        "best": [broken(rule, best) for rule in rules],
        "gold": [broken(rule, gold) for rule in rules],
        "changed": [b for b, (x, y) in enumerate(zip(plain, best, strict=True)) if x != y],
        "improved": [b for b, gain in enumerate(gains) if gain > 0],
        "worse": [b for b, gain in enumerate(gains) if gain < 0],
    }


def check(result: EvaluateAnswer, wanted: dict[str, Any]) -> None:
    assert result.complete
    assert close(result.none, wanted["none"]) and close(result.all, wanted["all"])
    for k, rule in enumerate(result.rules):
        assert (rule.plain, rule.best, rule.gold) == (wanted["plain"][k], wanted["best"][k], wanted["gold"][k])
        assert close(rule.alone, wanted["alone"][k]) and close(rule.without, wanted["without"][k])
        assert rule.changed == wanted["rule_changed"][k]
    assert result.changed == wanted["changed"]
    assert (result.improved, result.worse) == (wanted["improved"], wanted["worse"])


def random_problem(rng: Generator) -> tuple[list[Rule], Labels, Batch, Gold, list[dict[str, Any]]]:
    """Continuous scores, so that nothing ties; rules that hold for all lengths."""
    labels, m = Labels(["O", "A", "B", "C"], "IO"), 4
    sizes = rng.integers(1, 7, size=12)
    batch = Batch(rng.normal(size=(int(sizes.sum()), m)), np.cumsum([0, *sizes]), rng.normal(size=(m, m)))
    gold = [[labels.names[y] for y in rng.integers(m, size=n)] for n in sizes]
    given = [{"tokens": [str(t) for t in rng.integers(3, size=n)], "pos": ["N"] * n} for n in sizes]
    pool = [
        "at most 1 segment of A",
        "at most 1 token of A, B  [penalty 0.7 per violation]",
        "present B  [penalty 0.4]",
        "A before B",
        "starts with A, B  [penalty 1.5]",
        "fix C at tokens /1/  [penalty 0.8]",
        "forbid A at tokens /[02]/ after tokens /1/",
        "(present C) implies (present A)",
        "(fix A at tokens /2/) or (present B)",
        "same label for equal tokens  [penalty 0.3]",
        "forbid B at pos /X/",
        "no duplicates of A, C",
    ]
    chosen = rng.permutation(pool)[: int(rng.integers(1, 6))]
    return [r.parse(str(line)) for line in chosen], labels, batch, gold, given


def test_figures_are_those_of_decoding_with_every_set_of_rules() -> None:
    for rng in seeds(40, key=71):
        rules, labels, batch, gold, given = random_problem(rng)
        data = GoldData(labels, batch, gold, given)
        wanted = slow(rules, labels, batch, gold, given)
        check(evaluate(rules, data), wanted)
        check(evaluate(rules, data), wanted)  # from what it remembers


def test_every_scheme_and_any_rules_as_audit_finds_them() -> None:
    for rng in seeds(40, key=72):
        labels, given, sizes = random_labels(rng), dict[str, Any](), [4] * 6
        m = len(labels)
        rules = [random_rule(rng, labels, 4, given)[0] for _ in range(3)]
        batch = Batch(rng.normal(size=(24, m)), np.cumsum([0, *sizes]))
        gold = [[labels.names[y] for y in rng.integers(m, size=n)] for n in sizes]
        result = evaluate(rules, GoldData(labels, batch, gold, [given] * 6))
        output = audit(rules, gold, labels, given=[given] * 6, lattices=batch, threads=1)
        assert output.none is not None and output.all is not None and result.none is not None and result.all is not None
        assert (result.none.f1, result.all.f1) == (output.none.f1, output.all.f1)
        assert (result.none.accuracy, len(result.relaxed)) == (output.none.accuracy, output.all.relaxed)
        for row in output.audited:
            item = result.rules[row.number]
            assert item.gold == round(6 * (1 - row.gold)) and item.plain == round(6 * (1 - (row.plain or 0.0)))
            assert item.alone is not None and row.alone is not None and item.alone.f1 == row.alone.f1
            assert (
                item.without is not None and row.without is not None and item.without.accuracy == row.without.accuracy
            )


LABELS = Labels(["O", "A", "B"], "IO")
SCORES = Batch(np.array([[0.0, 2, 1], [3, 0, 1], [0, 1.5, 1], [0, 1, 0.4], [0, 0.2, 0.1]]), [0, 3, 5])


def test_gold_with_labels_that_the_model_lacks_or_that_are_missing() -> None:
    rule = r.at_most(1, of="A")
    result = evaluate([rule], GoldData(LABELS, SCORES, [["A", "O", "X"], ["A", "A"]]))
    assert result.none == quality([["A", "O", "X"], ["A", "A"]], [["A", "O", "A"], ["A", "A"]], "IO")
    gold: Gold = [["A", None, "B"], [None, None]]
    result = evaluate([rule, r.present("B")], GoldData(LABELS, SCORES, gold))
    assert result.none == quality(gold, [["A", "O", "A"], ["A", "A"]], "IO")
    assert result.all == quality(gold, [["A", "O", "B"], ["A", "B"]], "IO")
    assert [rule.gold for rule in result.rules] == [0, 0]  # no sequence is labelled as a whole
    assert (result.improved, result.sequences, result.tokens) == ([0], 2, 5)


def test_without_gold() -> None:
    result = evaluate([r.at_most(1, of="A"), r.parse("present B  [penalty 0.05]")], GoldData(LABELS, SCORES))
    assert result.none is None and result.all is None and result.improved == result.worse == []
    assert [(rule.gold, rule.alone, rule.without) for rule in result.rules] == [(None, None, None)] * 2
    assert [(rule.plain, rule.best, rule.changed) for rule in result.rules] == [(1, 0, 1), (2, 1, 0)]
    assert result.changed == [0] and result.broken == [0, 1]


def test_no_rules_and_no_sequences() -> None:
    result = evaluate([], GoldData(LABELS, SCORES, [["A", "O", "A"], ["A", "A"]]))
    assert result.none == result.all == Quality(1.0, 1.0, 1.0) and result.rules == result.changed == []
    empty = Batch(np.zeros((0, 3)), [0])
    result = evaluate([r.present("A")], GoldData(LABELS, empty, []))
    assert (result.sequences, result.all, result.rules[0].gold) == (0, Quality(0.0, 0.0, 0.0), 0)


def test_rules_that_cannot_hold_are_relaxed() -> None:
    rules = [r.forbid("A"), r.present("A"), r.present("B")]
    data = GoldData(LABELS, SCORES, [["A", "O", "B"], ["A", "B"]])
    result = evaluate(rules, data)
    assert result.relaxed == [0, 1]
    check(result, slow(rules, LABELS, SCORES, [["A", "O", "B"], ["A", "B"]], [{}, {}]))


def test_a_budget_that_is_over_leaves_out_single_rules() -> None:
    rules = [r.at_most(1, of="A"), r.present("B")]
    data = GoldData(LABELS, SCORES, [["A", "O", "B"], ["A", "B"]])
    result, whole = evaluate(rules, data, budget=0), evaluate(rules, data, budget=60)
    assert (result.complete, whole.complete) == (False, True)
    assert [(rule.alone, rule.without, rule.changed) for rule in result.rules] == [(None, None, None)] * 2
    assert (result.none, result.all, result.changed) == (whole.none, whole.all, whole.changed)
    assert [(rule.gold, rule.plain, rule.best) for rule in result.rules] == [
        (rule.gold, rule.plain, rule.best) for rule in whole.rules
    ]
    again = evaluate(rules, data, budget=0)  # nothing is left to be tried
    assert again.complete and again.rules == whole.rules
    assert not evaluate(rules[:1], data, budget=0).complete  # other rules


def test_data_remembers_a_bounded_number_of_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["fix A at tokens /a/", "fix B at tokens /b/  [penalty 1]", "present B", "fix A at tokens /a/"]
    rules, given = [r.parse(line) for line in lines], [{"tokens": ["a", "b", "c"]}, {"tokens": ["b", "a"]}]
    gold: Gold = [["A", "O", "B"], ["A", "B"]]
    usual = evaluate(rules, GoldData(LABELS, SCORES, gold, given))
    monkeypatch.setattr("bridle.serve.evaluation._MAX_RULES", 1)
    data = GoldData(LABELS, SCORES, gold, given)
    for _ in range(2):
        assert replace(evaluate(rules, data), seconds=0) == replace(usual, seconds=0)


def test_what_does_not_fit_is_an_error() -> None:
    with pytest.raises(LabelError, match="gold does not fit the lattices"):
        GoldData(LABELS, SCORES, [["A"], ["A", "B"]])
    with pytest.raises(LabelError, match="does not fit the scheme BIO"):
        GoldData(Labels(["O", "B-A", "I-A"], "BIO"), SCORES, [["O", "O", "strange"], ["O", "O"]])
    with pytest.raises(GivenError, match="fix A at tokens /x/") as caught:
        evaluate([r.parse("(fix A at tokens /x/) or (present B)")], GoldData(LABELS, SCORES))
    assert "present B" in str(caught.value)


def test_references() -> None:
    """The sample of the explorer, with its rules."""
    known, unknown = references.split(12, 0)
    train = references.references("acm", of=known)
    test = references.references("ieee", "mla", of=unknown)[:120]
    model = CRF(features="fields", c2=0.1, iterations=20).fit(
        [dict(e.columns) for e in train], [e.known_labels for e in train]
    )
    text = (files("bridle.demo") / "references.rules").read_text(encoding="utf-8")
    rules = [line.rule for line in parse_lines(text.splitlines())]
    batch = model.lattices([e.columns for e in test])
    gold: Gold = [list(e.known_labels) for e in test]
    given: list[dict[str, Any]] = [{"tokens": list(e.tokens)} for e in test]
    result = evaluate(rules, GoldData(model.labels_, batch, gold, given))
    check(result, slow(rules, model.labels_, batch, gold, given))
    assert result.all is not None and result.none is not None and result.all.f1 > result.none.f1
