"""What rules do to labelled sequences: the same figures as decoding with each set of rules and `score`."""

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
from bridle.serve.evaluation import GoldData, evaluate
from bridle.serve.schemas import EvaluateAnswer, Quality
from strategies import random_labels, random_rule, seeds

Gold = list[list[Any]]


def quality(gold: Gold, guessed: Sequence[Sequence[str]], scheme: str | None) -> Quality:
    found = score(gold, guessed, scheme)
    return Quality(found.accuracy, found.segments.f1, found.exact)


def close(one: Quality | None, other: Quality | None) -> bool:
    return one is not None and other is not None and np.allclose(list(astuple(one)), list(astuple(other)), atol=1e-12)


def astuple(one: Quality) -> tuple[float, float, float]:
    return one.accuracy, one.f1, one.all_right


def slow(rules: list[Rule], labels: Labels, batch: Batch, gold: Gold, given: list[dict[str, Any]]) -> dict[str, Any]:
    """The same the plain way: decode everything with every set of rules, judge in Python."""

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


def check(found: EvaluateAnswer, wanted: dict[str, Any]) -> None:
    assert found.complete
    assert close(found.none, wanted["none"]) and close(found.all, wanted["all"])
    for k, one in enumerate(found.rules):
        assert (one.plain, one.best, one.gold) == (wanted["plain"][k], wanted["best"][k], wanted["gold"][k])
        assert close(one.alone, wanted["alone"][k]) and close(one.without, wanted["without"][k])
        assert one.changed == wanted["rule_changed"][k]
    assert found.changed == wanted["changed"]
    assert (found.improved, found.worse) == (wanted["improved"], wanted["worse"])


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
        found = evaluate(rules, GoldData(labels, batch, gold, [given] * 6))
        told = audit(rules, gold, labels, given=[given] * 6, lattices=batch, threads=1)
        assert told.none is not None and told.all is not None and found.none is not None and found.all is not None
        assert (found.none.f1, found.all.f1) == (told.none.f1, told.all.f1)
        assert (found.none.accuracy, len(found.relaxed)) == (told.none.accuracy, told.all.relaxed)
        for row in told.audited:
            one = found.rules[row.number]
            assert one.gold == round(6 * (1 - row.gold)) and one.plain == round(6 * (1 - (row.plain or 0.0)))
            assert one.alone is not None and row.alone is not None and one.alone.f1 == row.alone.f1
            assert one.without is not None and row.without is not None and one.without.accuracy == row.without.accuracy


LABELS = Labels(["O", "A", "B"], "IO")
SCORES = Batch(np.array([[0.0, 2, 1], [3, 0, 1], [0, 1.5, 1], [0, 1, 0.4], [0, 0.2, 0.1]]), [0, 3, 5])


def test_gold_with_labels_that_the_model_lacks_or_that_are_missing() -> None:
    rule = r.at_most(1, of="A")
    found = evaluate([rule], GoldData(LABELS, SCORES, [["A", "O", "X"], ["A", "A"]]))
    assert found.none == quality([["A", "O", "X"], ["A", "A"]], [["A", "O", "A"], ["A", "A"]], "IO")
    gold: Gold = [["A", None, "B"], [None, None]]
    found = evaluate([rule, r.present("B")], GoldData(LABELS, SCORES, gold))
    assert found.none == quality(gold, [["A", "O", "A"], ["A", "A"]], "IO")
    assert found.all == quality(gold, [["A", "O", "B"], ["A", "B"]], "IO")
    assert [one.gold for one in found.rules] == [0, 0]  # no sequence is labelled as a whole
    assert (found.improved, found.sequences, found.tokens) == ([0], 2, 5)


def test_without_gold() -> None:
    found = evaluate([r.at_most(1, of="A"), r.parse("present B  [penalty 0.05]")], GoldData(LABELS, SCORES))
    assert found.none is None and found.all is None and found.improved == found.worse == []
    assert [(one.gold, one.alone, one.without) for one in found.rules] == [(None, None, None)] * 2
    assert [(one.plain, one.best, one.changed) for one in found.rules] == [(1, 0, 1), (2, 1, 0)]
    assert found.changed == [0] and found.broken == [0, 1]


def test_no_rules_and_no_sequences() -> None:
    found = evaluate([], GoldData(LABELS, SCORES, [["A", "O", "A"], ["A", "A"]]))
    assert found.none == found.all == Quality(1.0, 1.0, 1.0) and found.rules == found.changed == []
    empty = Batch(np.zeros((0, 3)), [0])
    found = evaluate([r.present("A")], GoldData(LABELS, empty, []))
    assert (found.sequences, found.all, found.rules[0].gold) == (0, Quality(0.0, 0.0, 0.0), 0)


def test_rules_that_cannot_hold_are_relaxed() -> None:
    rules = [r.forbid("A"), r.present("A"), r.present("B")]
    data = GoldData(LABELS, SCORES, [["A", "O", "B"], ["A", "B"]])
    found = evaluate(rules, data)
    assert found.relaxed == [0, 1]
    check(found, slow(rules, LABELS, SCORES, [["A", "O", "B"], ["A", "B"]], [{}, {}]))


def test_a_budget_that_is_over_leaves_out_single_rules() -> None:
    rules = [r.at_most(1, of="A"), r.present("B")]
    data = GoldData(LABELS, SCORES, [["A", "O", "B"], ["A", "B"]])
    found, whole = evaluate(rules, data, budget=0), evaluate(rules, data, budget=60)
    assert (found.complete, whole.complete) == (False, True)
    assert [(one.alone, one.without, one.changed) for one in found.rules] == [(None, None, None)] * 2
    assert (found.none, found.all, found.changed) == (whole.none, whole.all, whole.changed)
    assert [(one.gold, one.plain, one.best) for one in found.rules] == [
        (one.gold, one.plain, one.best) for one in whole.rules
    ]


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
    found = evaluate(rules, GoldData(model.labels_, batch, gold, given))
    check(found, slow(rules, model.labels_, batch, gold, given))
    assert found.all is not None and found.none is not None and found.all.f1 > found.none.f1
