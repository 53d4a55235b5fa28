"""The audit of rules: its figures are those of plain decoding and scoring, done for each set of rules from scratch."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bridle
from bridle import rules as r
from bridle.errors import FileError, GivenError, LabelError, LatticeError, ModelError
from bridle.learn.auditing import COLUMNS, Audit, Figures, audit, audit_model, hints
from bridle.models import CRF
from bridle.report import score
from bridle.rules.base import Rule

LABELS = bridle.Labels(["O", "A", "B"], "IO")
RULES: list[Rule] = [
    r.at_most(1, of="A"),
    r.before("A", "B").soft(1.5),
    r.starts_with("A"),
    r.forbid_transition("B", "A").soft(0.5),
    r.at_least(2, of="B", count="tokens"),
    r.ends_with("O"),
]


def problem(seed: int, count: int = 12) -> tuple[list[bridle.Lattice], list[list[str]]]:
    """Whole scores would tie; of two best labellings either may be found."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, count)
    gold = [[LABELS.names[y] for y in rng.integers(0, 3, n)] for n in lengths]
    return [bridle.Lattice(rng.normal(size=(n, 3))) for n in lengths], gold


def slow(rules: list[Rule], lattices: list[bridle.Lattice], gold: list[list[str]]) -> Figures:
    decodings = bridle.Decoder(LABELS, rules, on_infeasible="relax").decode_batch(lattices)
    scores = score(gold, [decoding.labels for decoding in decodings], "IO")
    return Figures(scores.accuracy, scores.segments.f1, sum(decoding.relaxed for decoding in decodings))


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.sets(st.integers(0, len(RULES) - 1)))
def test_figures_are_those_of_decoding_everything(seed: int, chosen: set[int]) -> None:
    lattices, gold = problem(seed)
    rules = [RULES[k] for k in sorted(chosen)]
    result = audit(rules, gold, LABELS, lattices=lattices, threads=1)
    assert result.none == slow([], lattices, gold)
    assert result.all == slow(rules, lattices, gold)
    assert sorted(row.number for row in result.audited) == list(range(len(rules)))
    plain = [decoding.labels for decoding in bridle.Decoder(LABELS).decode_batch(lattices)]
    for row in result.audited:
        assert row.rule == rules[row.number]
        assert row.alone == slow([row.rule], lattices, gold)
        assert row.without == slow([x for k, x in enumerate(rules) if k != row.number], lattices, gold)
        assert row.gold == pytest.approx(np.mean([row.rule.holds(y, LABELS) for y in gold]))
        assert row.plain == pytest.approx(np.mean([row.rule.holds(y, LABELS) for y in plain]))


def test_rules_that_gain_most_come_first() -> None:
    lattices, gold = problem(5, 40)
    result = audit(RULES, gold, LABELS, lattices=lattices)
    gains = [gain for _, gain in result.gains()]
    assert gains == sorted(gains, reverse=True) and len(set(gains)) > 2
    table = result.lines()
    assert [line.endswith(str(row.rule)) for line, row in zip(table[-len(RULES) :], result.audited, strict=True)] == [
        True
    ] * len(RULES)
    assert "relaxed" in table[2] and table[0] == "40 sequences, 6 rules"


def test_plain_data() -> None:
    lattices, gold = problem(6)
    result = audit(RULES[:2], gold, LABELS, lattices=lattices)
    document = json.loads(json.dumps(result.to_dict()))
    assert [tuple(rule[name] for name in COLUMNS) for rule in document["rules"]] == result.rows()
    assert result.none is not None and document["none"]["f1"] == result.none.f1
    row = result.audited[0]
    assert row.alone is not None and result.rows()[0][4] == row.alone.f1 - result.none.f1


def test_relaxed_sequences_are_counted() -> None:
    lattices, gold = problem(7)
    short = sum(len(item) == 1 for item in gold)
    result = audit([r.at_least(2, of="B", count="tokens")], gold, LABELS, lattices=lattices)
    assert result.all is not None and result.all.relaxed == short > 0
    assert result.rows()[0][6] == short and result.rows()[0][9] == 0


def test_without_scores_only_what_holds_is_told() -> None:
    _, gold = problem(8)
    result = audit(RULES, gold, LABELS)
    shares = [row.gold for row in result.audited]
    assert shares == sorted(shares, reverse=True)
    assert result.none is None and result.rows()[0][3:] == (None,) * 7
    assert "F1" not in "\n".join(result.lines())
    guesses = [["A"] * len(item) for item in gold]
    seen = {row.number: row.plain for row in audit(RULES, gold, LABELS, guesses=guesses).audited}
    assert seen[2] == 1.0 and seen[5] == 0.0


def test_leaving_out_can_be_spared() -> None:
    lattices, gold = problem(9)
    result = audit(RULES, gold, LABELS, lattices=lattices, leave_out="none")
    assert all(row.without is None and row.alone is not None for row in result.audited)
    assert "among" not in "\n".join(result.lines())


def test_gold_may_hold_labels_that_the_lattices_have_not() -> None:
    lattices = [bridle.Lattice([[1, 0, 0], [0, 1, 0]])]
    result = audit([r.starts_with("A")], [["C", "A"]], LABELS, lattices=lattices)
    assert result.none == Figures(0.5, 0.5 * 4 / 3) and result.audited[0].gold == 0.0


def test_no_rules_and_no_sequences() -> None:
    lattices, gold = problem(10)
    result = audit([], gold, LABELS, lattices=lattices)
    assert result.all == result.none and result.rows() == [] and len(result.lines()) == 3
    assert audit(RULES, [], LABELS, lattices=[]).audited[0].gold == 1.0


def test_a_model_and_its_sequences() -> None:
    X = [["the", "man", "x"], ["a", "man"]] * 4
    y = [["A", "B", "O"], ["A", "B"]] * 4
    model = CRF("perceptron", features=["word[0]"], iterations=3).fit(X, y)
    rules: list[Rule] = [r.fix("O", r.tokens("man")), r.ends_with(r.given("last"))]
    result = audit_model(rules, model, X, y, given=[{"last": ["B", "O"]}] * 8)
    assert result.none is not None and result.none.accuracy == 1.0
    assert result.audited[-1].rule == rules[0] and result.audited[-1].gold == 0.0
    assert result.audited[-1].alone == Figures(0.6, 16 / 36)  # 8 of 16 guessed and 20 gold runs


def test_bad_input() -> None:
    lattices, gold = problem(11)
    with pytest.raises(LabelError, match="gold does not fit"):
        audit(RULES, gold[1:], LABELS, lattices=lattices)
    with pytest.raises(LabelError, match="guesses do not fit"):
        audit(RULES, gold, LABELS, guesses=gold[1:])
    with pytest.raises(LatticeError, match="cannot be combined"):
        audit(RULES, gold, LABELS, lattices=lattices, guesses=gold)
    with pytest.raises(ModelError, match="leave_out"):
        audit(RULES, gold, LABELS, leave_out="some")  # type: ignore[arg-type]
    with pytest.raises(GivenError, match="tokens"):
        audit([r.fix("A", r.tokens("x"))], gold, LABELS)
    with pytest.raises(LabelError, match="'C'"):
        audit([r.present("C")], gold, LABELS)


# ---- drawing --------------------------------------------------------------------------------------------------------


def example() -> Audit:
    gold = problem(12, 30)[1]
    return audit([*RULES, r.forbid(["$x$", "A"], at=0)], gold, bridle.Labels(["O", "A", "B", "$x$"]))


def test_bars_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))  # it keeps a list of fonts somewhere
    pytest.importorskip("matplotlib.figure")
    example().plot(tmp_path / "gains.svg")
    assert (tmp_path / "gains.svg").read_text(encoding="utf-8").startswith("<?xml")
    for bad in ("gains.nothing", "no/where.png"):
        with pytest.raises(FileError, match=r"cannot (draw|write) this file"):
            example().plot(tmp_path / bad)


def test_without_matplotlib_drawing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules: Any = sys.modules
    monkeypatch.setitem(modules, "matplotlib", None)
    monkeypatch.setitem(modules, "matplotlib.figure", None)
    with pytest.raises(FileError, match=r"pip install 'bridle-nlp\[plot\]'"):
        example().plot(tmp_path / "gains.svg")


def test_hints_name_the_order_that_was_meant() -> None:
    """Only where gold breaks the rule often, and obeys the other one more often."""
    labels = bridle.Labels(["O", "A", "B"])
    gold = [["A", "B", "A"]] * 3 + [["B", "A"]]
    rules = [r.before("A", "B").soft(2), r.before("B", "A"), r.before("O", "A"), r.present("B"), r.present("O")]
    result = hints(audit(rules, gold, labels), gold, labels)
    assert [(str(hint.instead), hint.gold, hint.gold_instead) for hint in result] == [
        ("first A before first B  [penalty 2.0]", 0.0, 0.75)
    ]
    assert result[0].to_dict()["rule"] == "A before B  [penalty 2.0]"


def test_documents_are_audited_as_documents() -> None:
    lattices = [bridle.Lattice([scores]) for scores in ([0, 3, 0], [0, 1, 1.4], [0, 0, 2])]
    given, gold = [{"tokens": ["Paris"]}] * 3, [["A"], ["A"], ["B"]]
    rule = r.in_document(r.same_label_for_equal())
    result = audit([rule], gold, LABELS, given=given, lattices=lattices, groups=["x", "x", "y"])
    (row,) = result.audited
    assert (row.gold, row.plain) == (1.0, 0.5)  # of two documents
    assert result.none is not None and result.all is not None
    assert (result.none.accuracy, result.all.accuracy) == (pytest.approx(2 / 3), 1.0)
    clash = [r.in_document(r.present("A")), r.forbid("A")]
    both = audit(clash, gold, LABELS, given=given, lattices=lattices, groups=["x", "x", "y"])
    assert both.all is not None and both.all.relaxed == 2
    apart = audit([rule], gold, LABELS, given=given, lattices=lattices)
    assert apart.audited[0].plain == 1.0  # every sequence is a document of one
