"""Impact: what rules did to a data set adds up what explanations say, also where rules clash or a limit comes first."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from io import StringIO
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import bridle
from bridle import Decoder, Labels, Lattice
from bridle import rules as r
from bridle.engines import Beam
from bridle.explain.impact import Impact, impact
from bridle.explain.page import impact_page
from bridle.explain.terminal import show_impact
from bridle.explain.words import impact_rows, shares

AB = Labels(["A", "B", "C"])


def printed(result: Impact, ids: Sequence[Any], **options: Any) -> str:
    out = StringIO()
    show_impact(result, ids, Console(file=out, width=80), **options)
    return out.getvalue()


def some_data(count: int = 30) -> tuple[Decoder, list[Lattice], list[list[str]]]:
    rng = np.random.default_rng(1)
    rules = [
        r.at_most(1, of="A"),
        r.before("A", "B"),
        r.present("C").soft(1.0),
        r.forbid("B").soft(0.3, per="violation"),
        r.at_most(99, of="A"),
    ]
    lattices = [Lattice(rng.normal(size=(int(rng.integers(0, 7)), 3)) * 2) for _ in range(count)]
    gold = [[AB.names[y] for y in rng.integers(0, 3, len(lattice))] for lattice in lattices]
    return Decoder(AB, rules), lattices, gold


def right(labels: list[str], gold: list[str]) -> int:
    return sum(a == b for a, b in zip(labels, gold, strict=True))


def test_the_impact_adds_up_what_explanations_say() -> None:
    decoder, lattices, gold = some_data()
    steps: list[tuple[int, int]] = []
    impacts = impact(decoder, lattices, gold=gold, threads=1, watch=lambda *step: steps.append(step))
    explanation = [decoder.explain(lattice) for lattice in lattices]
    assert steps == [(k, 5) for k in range(1, 6)]
    assert impacts.sequences == 30 and impacts.tokens == sum(map(len, lattices))
    assert [c.sequence for c in impacts.changes] == [b for b, item in enumerate(explanation) if item.changed]
    assert [c.tokens for c in impacts.changes] == [len(item.changed) for item in explanation if item.changed]
    assert impacts.right_plain == sum(right(item.plain.labels, y) for item, y in zip(explanation, gold, strict=True))
    assert impacts.right == sum(right(item.best.labels, y) for item, y in zip(explanation, gold, strict=True))
    for one_rule in impacts.rules:
        effects = [
            (b, effect) for b, item in enumerate(explanation) for effect in item.effects if effect.rule is one_rule.rule
        ]
        gains = [
            right(explanation[b].best.labels, gold[b]) - right(effect.without.labels, gold[b])
            for b, effect in effects
            if effect.without is not None
        ]
        assert one_rule.broken == sum(effect.broken_by_plain > 0 for _, effect in effects)
        assert one_rule.changed == len(gains)
        assert one_rule.price == pytest.approx(sum(effect.price for _, effect in effects))
        assert one_rule.charged == pytest.approx(
            sum(c.cost for item in explanation for c in item.charged if c.rule is one_rule.rule)
        )
        assert (one_rule.helped, one_rule.hurt) == (sum(g > 0 for g in gains), sum(g < 0 for g in gains))
        assert one_rule.tokens == sum(gains)
    assert [t.changed for t in impacts.rules] == sorted((t.changed for t in impacts.rules), reverse=True)
    assert impacts.rules[0].changed and (impacts.unproved, impacts.unanswered) == ((), ())
    assert impacts.helped[0].gain == max(c.gain or 0 for c in impacts.changes)
    assert impacts.hurt[0].gain == min(c.gain or 0 for c in impacts.changes)
    assert impacts.dearest[0].cost == max(c.cost for c in impacts.changes)


def test_the_impact_without_gold() -> None:
    decoder, lattices, _ = some_data()
    impacts = impact(decoder, lattices, threads=1)
    assert impacts.right is None and impacts.helped == [] and impacts.rules[0].helped is None
    assert impacts.dearest and "helped" not in impact_rows(impacts)[0]


def test_the_impact_with_gold_labels_that_the_model_lacks() -> None:
    impacts = impact(Decoder(AB, [r.forbid("A")]), [Lattice([[1.0, 0, 0]])], gold=[["Z"]])
    assert (impacts.right, impacts.right_plain, impacts.changes[0].gain) == (0, 0, 0)


def test_the_impact_relaxes_what_cannot_hold() -> None:
    decoder = Decoder(AB, [r.present("A"), r.forbid("A", at=0)])
    impacts = impact(decoder, [Lattice([[1.0, 0, 0]]), Lattice([[1.0, 0, 0]] * 2)])
    assert impacts.relaxed == (0,)


def test_the_impact_of_nothing() -> None:
    assert impact(Decoder(AB, [r.forbid("A")]), []).rules[0].changed == 0
    impacts = impact(Decoder(AB), [Lattice(np.zeros((2, 3)))], gold=[["A", "A"]])
    assert impacts.rules == ()
    for text in (printed(impacts, ["a"]), impact_page(impacts, ["a"], title="t").html().partition("</style>")[2]):
        assert "1 sequence, 2 tokens. Pass --rules FILE to see the effect of rules." in " ".join(text.split())
        assert "changed" not in text and "rules\n" not in text and "<table" not in text


def test_the_impact_leaves_out_what_a_limit_stopped() -> None:
    """A beam of one path goes for A and cannot turn back; one sequence of many must not end it all."""
    decoder = Decoder(AB, [r.fix("B", -1), r.forbid_transition("A", "B")], engine=Beam(width=1))
    lost, fine = Lattice([[1.0, 0, 0], [0, 0, 0]]), Lattice([[0, 0, 1.0], [0, 0, 1.0]])
    gold = [["C", "B"]] * 70
    impacts = impact(decoder, [lost if b in (3, 50) else fine for b in range(70)], gold=gold, threads=1)
    assert impacts.unanswered == (3, 50) and (impacts.sequences, impacts.tokens) == (68, 136)
    assert (impacts.right_plain, impacts.right, len(impacts.changes)) == (68, 136, 68)
    assert "Left out: 2 sequences in which a limit was reached before any labelling was found." in shares(impacts)
    assert impacts.to_dict(range(70))["unanswered"] == [3, 50]
    page = impact_page(impacts, range(70), title="t").html()
    assert "<h2>Left out: a limit was reached before any labelling was found</h2>" in page
    assert re.search(r"left out +3, 50 *\n", printed(impacts, range(70)))


def test_the_impact_tells_what_is_not_proved() -> None:
    rng = np.random.default_rng(0)
    labels = Labels([f"F{k}" for k in range(12)])
    hard = Lattice(rng.normal(size=(60, 12)) * 2, rng.normal(size=(12, 12)))
    rules = [*(r.at_most(1, of=name) for name in labels), r.before("F1", "F0")]
    impacts = impact(Decoder(labels, rules, max_states=1), [hard, Lattice(np.zeros((1, 12)))], threads=1)
    assert impacts.unproved == (0,) and {impact.unproved for impact in impacts.rules} == {1}
    prices = [row[-2] for row in impact_rows(impacts)[1]]
    assert prices[0].startswith("about ") and all(text == "?" or text.startswith("about ") for text in prices)
    assert "In 1 sequence a limit was reached before the proof; better labels may exist." in shares(impacts)
    built = impacts.to_dict(["a", "b"])
    assert built["unproved"] == ["a"] and built["rules"][0]["unproved"] == 1
    assert "A limit was reached before the proof" in impact_page(impacts, ["a", "b"], title="t").html()
    assert re.search(r"not proved +a *\n", printed(impacts, ["a", "b"]))


def test_a_rule_that_is_there_twice_is_charged_once_each() -> None:
    rule = r.forbid("A").soft(1.0)
    impacts = impact(Decoder(AB, [rule, rule]), [Lattice([[9.0, 0, 0]])])
    assert [t.charged for t in impacts.rules] == [1.0, 1.0]


def test_rules_that_did_most_come_first() -> None:
    """By what they changed, then by how often they were broken, then by price."""
    rules = [r.forbid("C", at=2), r.forbid("C", at=1), r.forbid("A").soft(0.5), r.forbid("A", at=0).soft(0.1)]
    impacts = impact(Decoder(AB, rules), [Lattice([[9.0, 0, 0], [0, 1, 4], [0, 2, 5]]), Lattice([[9.0, 0, 0]] * 3)])
    assert [str(t.rule).split("  ")[0] for t in impacts.rules] == [
        "forbid C at 2",
        "forbid C at 1",
        "forbid A",
        "forbid A at 0",
    ]
    cheap = [r.forbid("A", at=2).soft(0.5), r.forbid("A", at=0).soft(0.1)]
    often = impact(Decoder(AB, cheap), [Lattice([[9.0, 0, 0]] * 2 + [[0, 1, 0]]), Lattice([[9.0, 0, 0]] * 3)])
    assert [(t.changed, t.broken, t.price) for t in often.rules] == [(0, 2, pytest.approx(0.2)), (0, 1, 0.5)]
    dearer = impact(Decoder(AB, rules[:2]), [Lattice([[9.0, 0, 0], [0, 1, 9], [0, 2, 5]])])
    assert [str(t.rule) for t in dearer.rules] == ["forbid C at 1", "forbid C at 2"]


def test_one_sequence_is_no_sequences() -> None:
    impacts = impact(Decoder(AB, [r.forbid("A")]), [Lattice([[1.0, 0, 0]])], gold=[["B"]])
    output = shares(impacts)
    assert output[0] == "1 sequence, 1 token. The rules changed 1 sequence (100.0%) and 1 token (100.0%)."
    assert "Helped 1 sequence," in output[1]


def test_a_rule_that_does_not_fit_is_named_as_it_was_written() -> None:
    with pytest.raises(bridle.RuleError, match=r"sequence 1: .*\(in the rule: forbid A at 1\)"):
        impact(Decoder(AB, [r.forbid("A", at=1)]), [Lattice(np.zeros((2, 3))), Lattice(np.zeros((1, 3)))])


def test_gold_that_does_not_fit() -> None:
    with pytest.raises(bridle.LabelError, match="gold does not fit"):
        impact(Decoder(AB), [Lattice(np.zeros((2, 3)))], gold=[["A"]])


@pytest.fixture(scope="module")
def found_impact() -> Impact:
    decoder, lattices, gold = some_data()
    return impact(decoder, lattices, gold=gold, threads=1)


def test_the_impact_in_the_terminal_and_on_a_page(found_impact: Impact) -> None:
    ids = [f"s{b}" for b in range(30)]
    text = printed(found_impact, ids, look="bridle explain " + "x" * 90)
    assert "30 sequences" in text and f"s{found_impact.helped[0].sequence} (+" in text and "x" * 90 in text
    assert all(len(line) <= 80 for line in text.splitlines() if "explain one sequence" not in line)
    page = impact_page(found_impact, ids, title="All", look="bridle explain ...").html()
    assert "Most helped sequences" in page and f"<td>s{found_impact.hurt[0].sequence}</td>" in page
    for one_rule in found_impact.rules:
        assert str(one_rule.rule).split("  [")[0] in text and str(one_rule.rule) in page
    assert json.loads(json.dumps(found_impact.to_dict(ids)))["changes"][0]["id"] in ids
