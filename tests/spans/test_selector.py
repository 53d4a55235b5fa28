"""Span selection against enumeration of all legal selections, for every kind of rule; the judge, batches, options."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import bridle
from bridle import SpanSelector, check_selection
from bridle.deadline import Deadline
from bridle.engines import highs
from bridle.errors import EngineError, GivenError, Infeasible, LabelError, LatticeError, LimitReached, RuleError
from bridle.spans.candidates import label_ids
from selections import KINDS, Case, best_of, random_case, selections, value_of
from strategies import seeds

NEAR = 1e-9


def assert_best(case: Case) -> None:
    """The selection is the best by enumeration, or infeasibility is confirmed and the clash is minimal."""
    best = best_of(case)
    selector = SpanSelector(case.rules, overlap=case.overlap)
    if best == -float("inf"):
        with pytest.raises(Infeasible) as raised:
            selector.select(case.spans, **case.places)
        clash = list(raised.value.clash)
        assert best_of(_with(case, clash)) == -float("inf")
        for rule in clash:
            assert best_of(_with(case, [other for other in clash if other is not rule])) > -float("inf")
        return
    result = selector.select(case.spans, **case.places)
    assert result.optimal and result.score == pytest.approx(best, abs=NEAR)
    chosen = tuple(case.spans[k] for k in result.indices)
    assert tuple(sorted(result.indices)) in set(selections(case))
    assert value_of(case, chosen) == pytest.approx(best, abs=NEAR)
    verdict = check_selection(case.spans, case.rules, result, overlap=case.overlap, **case.places)
    assert verdict.complaints == []


def _with(case: Case, rules: list[Any]) -> Case:
    return Case(case.spans, rules, case.given, case.overlap, case.text, case.tokens)


@pytest.mark.parametrize("kind", KINDS)
def test_disjoint_spans_are_those_of_enumeration(kind: str) -> None:
    for by_token in (True, False):
        for rng in seeds(8, key=7000 + 2 * KINDS.index(kind) + by_token):
            assert_best(random_case(rng, kind, "forbid", by_token=by_token))


@pytest.mark.parametrize("kind", KINDS)
def test_nested_spans_are_those_of_enumeration(kind: str) -> None:
    for by_token in (True, False):
        for rng in seeds(6, key=8000 + 2 * KINDS.index(kind) + by_token):
            assert_best(random_case(rng, kind, "nest", by_token=by_token))


@pytest.mark.parametrize("overlap", ["forbid", "nest"])
def test_without_rules_it_is_enumeration_too(overlap: str) -> None:
    for rng in seeds(200, key=9000):
        case = random_case(rng, None, overlap, by_token=bool(rng.integers(2)))
        assert_best(_with(case, []))


@pytest.mark.parametrize("overlap", ["forbid", "nest"])
def test_the_integer_program_agrees_where_folding_is_too_large(overlap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridle.spans.selector._MOST_STATES", 1)
    programs = 0
    for rng in seeds(70, key=9100):
        case = random_case(rng, None, overlap, by_token=bool(rng.integers(2)))
        assert_best(case)
        result = SpanSelector(case.rules, overlap=case.overlap, on_infeasible="skip").select(case.spans, **case.places)
        programs += result.engine == "ilp" and result.stats["programs"] > 0
    assert programs > 10


def test_a_program_that_is_too_large_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridle.spans.selector._MOST_STATES", 1)
    monkeypatch.setattr("bridle.spans.program._MOST_ROWS", 3)
    spans = [(0, 2, "A", 1.0), (1, 3, "A", 2.0), (2, 4, "A", 1.0)]
    with pytest.raises(LimitReached) as raised:
        bridle.select(spans, ["A next to B"])
    assert raised.value.bound >= 0
    result = bridle.select(spans, ["A next to B  [penalty 0.5 per violation]"])
    assert result.status == "limit" and result.score <= result.bound
    assert check_selection(spans, ["A next to B  [penalty 0.5 per violation]"], result).ok


# ---- what spans mean to rules ---------------------------------------------------------------------------------------


def chosen(spans: list[Any], rules: list[Any], **where: Any) -> list[tuple[int, int, str]]:
    return [(s.start, s.end, s.label) for s in bridle.select(spans, rules, **where).spans]


def test_two_neighbouring_spans_of_one_label_are_two_segments() -> None:
    spans = [(0, 1, "A", 1.0), (1, 2, "A", 2.0)]
    assert chosen(spans, []) == [(0, 1, "A"), (1, 2, "A")]
    for rule in ("no duplicates of A", "at most 1 segment of A", "at most 1 token of A"):
        assert chosen(spans, [rule]) == [(1, 2, "A")]


def test_texts_keep_their_spaces() -> None:
    text = "New York and  Newark"
    spans = [(0, 8, "CITY", 2.0), (0, 3, "CITY", 1.0), (14, 20, "CITY", 1.0)]
    rule = r"forbid CITY at tokens /New York/"
    assert chosen(spans, [rule], text=text) == [(0, 3, "CITY"), (14, 20, "CITY")]
    offsets = [(0, 3), (4, 8), (9, 12), (14, 20)]
    by_token = [(0, 2, "CITY", 2.0), (0, 1, "CITY", 1.0), (3, 4, "CITY", 1.0)]
    for tokens, its_text in ((offsets, text), (text.split(), None), (text.split(), text), (np.array(offsets), text)):
        result = chosen(by_token, [rule], tokens=tokens, text=its_text)
        assert result == [(0, 1, "CITY"), (3, 4, "CITY")]
    assert chosen(by_token, [rule], given={"tokens": text.split()}) == [(0, 1, "CITY"), (3, 4, "CITY")]


def test_white_space_is_no_item_and_what_is_left_of_a_word_is() -> None:
    text = "5 kg"
    spans = [(0, 1, "NUMBER", 1.0), (2, 4, "UNIT", -0.5), (3, 4, "UNIT", -0.1)]
    assert chosen(spans, ["NUMBER next to UNIT"], text=text) == [(0, 1, "NUMBER"), (2, 4, "UNIT")]
    # "k" is left of "kg" if only "g" is chosen: it stands between.
    assert chosen(spans, ["forbid NUMBER then UNIT", "present UNIT"], text=text) == [(0, 1, "NUMBER"), (3, 4, "UNIT")]
    assert chosen(spans, ['matches "NUMBER O UNIT"'], text=text) == [(0, 1, "NUMBER"), (3, 4, "UNIT")]


def test_length_counts_tokens() -> None:
    text = "Ada Lovelace, Countess of X"
    spans = [(0, 12, "NAME", 1.0), (0, 27, "NAME", 3.0), (4, 8, "NAME", 0.5)]
    assert chosen(spans, ["length of NAME at most 2"], text=text) == [(0, 12, "NAME")]
    assert chosen(spans, ["length of NAME at most 1"], text=text) == [(4, 8, "NAME")]
    assert chosen([(0, 3, "NAME", 1.0)], ["length of NAME at least 4"]) == []
    with pytest.raises(RuleError, match="cannot be applied to O"):
        chosen(spans, ["length of O at most 2"], text=text)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Don't, e-mail me_2!", 9),  # Don ' t , e - mail me_2 !
        ("Don't, é-mail me_2!", 9),
        ("हिन्दी cafe\u0301", 2),
        ("東京に行く", 5),
        ("ภาษา", 4),
        (" \n\t", 0),
    ],
)
def test_tokens_of_a_text_without_tokens(text: str, tokens: int) -> None:
    assert bridle.select([], ["at most 1 segment of O"], text=text).optimal  # all of it is one run
    rule = f"at most {tokens} tokens of O"
    assert bridle.select([], [rule], text=text).optimal
    if tokens:
        with pytest.raises(Infeasible):
            bridle.select([], [f"at most {tokens - 1} tokens of O"], text=text)


def test_positions_are_the_spans_that_hold_them() -> None:
    spans = [(0, 2, "A", 1.0), (2, 4, "B", 1.0), (1, 3, "C", -1.0)]
    assert chosen(spans, ["label at 1 is C"]) == [(1, 3, "C")]
    assert chosen(spans, ["fix O at -1"]) == [(0, 2, "A")]
    assert chosen(spans, ["allow C, O at given verb"], given={"verb": [0]}) == [(2, 4, "B")]
    assert chosen(spans, ["same label over 0:3"]) == []  # whatever begins or ends inside
    with pytest.raises(RuleError, match="names position 4"):
        chosen(spans, ["fix O at 4"])


def test_nested_spans_are_read_from_outside_in() -> None:
    spans = [(0, 4, "ORG", 1.0), (0, 2, "CITY", 1.0), (3, 4, "CITY", 1.0), (1, 3, "DATE", 5.0)]
    both = {"overlap": "nest"}
    assert chosen(spans, ["forbid DATE"], **both) == [(0, 4, "ORG"), (0, 2, "CITY"), (3, 4, "CITY")]
    assert chosen(spans, ["starts with CITY"], **both) == [(0, 2, "CITY"), (3, 4, "CITY")]
    assert chosen(spans, ["CITY next to CITY, O", "present ORG"], **both) == [(0, 4, "ORG"), (1, 3, "DATE")]
    assert chosen([(0, 1, "A", 1.0), (0, 1, "B", 2.0)], [], **both) == [(0, 1, "B")]  # equal spans do not nest


# ---- input ----------------------------------------------------------------------------------------------------------


@dataclass
class Thing:
    start: int
    end: int
    label_: str
    score: float
    label: int = 7


def test_candidates_of_many_kinds() -> None:
    rows = [(0, 2, "A", 0.9), (1, 3, "B", 0.8), (3, 4, "A", 0.6)]
    start, end, label, score = (list(column) for column in zip(*rows, strict=True))
    table = np.array(rows, dtype=[("start", "i4"), ("end", "i8"), ("label", "U1"), ("score", "f4")])
    columns = {"start": np.array(start), "end": end, "label": np.array(label), "score": np.array(score)}
    numbered = {**columns, "label": np.array([0, 1, 0])}
    selector = SpanSelector(scores="probability")
    for spans in (rows, [bridle.Span(*row) for row in rows], [Thing(*row) for row in rows], table, columns, iter(rows)):
        assert selector.select(spans).indices == [0, 2]
    with_labels = SpanSelector(["present B"], ["A", "B"], scores="probability")
    assert [s.label for s in with_labels.select(numbered).spans] == ["B", "A"]
    assert check_selection(numbered, ["present B"], with_labels.select(numbered), scores="probability").ok
    assert selector.select([]).spans == [] and selector.select([]).score == 0.0


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_labels_by_number_of_any_type(kind: str) -> None:
    names = ("O", *(f"L{k}" for k in range(2**16)))
    most = np.iinfo(kind).max
    last = min(most, len(names) - 2)  # the largest number of the type, where there are that many labels
    for labels in (np.array([0, last], dtype=kind), tuple(np.array([0, last], dtype=kind))):
        assert label_ids(labels, names).tolist() == [1, last + 1]
    if most > last:
        with pytest.raises(LabelError, match=f"unknown label.*{most}"):
            label_ids(np.array([0, most], dtype=kind), names)
    if last < 300:
        columns = {"start": [0], "end": [1], "label": np.array([last], dtype=kind), "score": [1.0]}
        result = SpanSelector(["at most 1 segment of L0"], names[1:301]).select(columns)
        assert [span.label for span in result.spans] == [f"L{last}"]


@pytest.mark.parametrize("labels", [[True], [0, True], [0, np.True_], [1.0], [0, 1.0], [0, "A"], [-1]])
def test_labels_by_number_are_whole_numbers(labels: list[Any]) -> None:
    selector = SpanSelector(labels=["A", "B"])
    for column in (labels, np.array(labels)) if len({*map(type, labels)}) == 1 else (labels,):
        count = len(labels)
        columns = {"start": range(count), "end": range(1, count + 1), "label": column, "score": [1.0] * count}
        with pytest.raises(LabelError, match="unknown label"):
            selector.select(columns)


def test_probabilities_and_thresholds() -> None:
    spans = [(0, 1, "A", 0.0), (1, 2, "A", 1.0), (2, 3, "A", 0.6)]
    assert bridle.select(spans, scores="probability").indices == [1, 2]
    assert bridle.select(spans, scores="probability", threshold=0.7).indices == [1]
    forced = bridle.select(spans, ["exactly 3 segments of A"], scores="probability")
    assert forced.indices == [0, 1, 2] and math.isfinite(forced.score)
    logits = [(0, 1, "A", 0.5), (1, 2, "A", 3.0)]
    assert bridle.select(logits, threshold=0.9).indices == [1]
    assert bridle.select(logits, threshold=0.9).score == pytest.approx(3.0 - math.log(9))


@pytest.mark.parametrize(
    ("spans", "match"),
    [
        ([(0, 1, "A")], "candidate 0 is not a span with a score"),
        ([(0, 1, "A", 1.0), (0, 1, "A")], "candidate 1 is not"),
        ([(0, 1, "A", 1.0), Thing(0, 1, "A", 1.0)], "candidate 1 is not|different kinds"),
        ([(1, 1, "A", 1.0)], "span 0 is not a span"),
        ([(-1, 1, "A", 1.0)], "span 0 is not a span"),
        ([(0.0, 1, "A", 1.0)], "start of a span is not a position"),
        ([(0, 2**40, "A", 1.0)], "too large"),
        ([(0, 1, "A", math.nan)], "score of a span is not a number"),
        ([(0, 1, "A", math.inf)], "score of a span is not a number"),
        ([(0, 1, "A", "high")], "score of a span is not a number"),
        ("text", "not a list of spans"),
        (7, "not a list of spans"),
        ({"start": [0], "end": [1]}, "columns of spans are missing"),
        ({"start": [0], "end": [1, 2], "label": ["A"], "score": [1.0]}, "different lengths"),
        ([(0, 9, "A", 1.0)], "ends outside"),
    ],
)
def test_bad_candidates(spans: Any, match: str) -> None:
    for rules in ([], ["at most 1 segment of A"]):
        with pytest.raises(LatticeError, match=match):
            bridle.select(spans, rules, text="short")


def test_bad_texts_tokens_labels_and_options() -> None:
    spans = [(0, 1, "A", 0.5)]
    rule = ["fix A at tokens /x/"]
    for wrong in (
        {"text": 3},
        {"tokens": "ab"},
        {"tokens": [(0, 1)]},
        {"tokens": [(0, 9)], "text": "ab"},
        {"tokens": [(2, 1)], "text": "ab"},
        {"tokens": ["z"], "text": "ab"},
        {"tokens": [3], "text": "ab"},
    ):
        for rules, labels in ((rule, None), ([], None), ([], ["A"])):  # with or without rules
            with pytest.raises(LatticeError):
                bridle.select(spans, rules, labels=labels, **wrong)
    with pytest.raises(GivenError, match="texts of spans"):
        bridle.select(spans, rule)
    for label in ("O", "", 3, None):
        with pytest.raises(LabelError):
            bridle.select([(0, 1, label, 1.0)], rule, tokens=["x"])
    for label in ("C", 2, -1):
        with pytest.raises(LabelError, match="unknown label"):
            SpanSelector(rule, ["A", "B"]).select([(0, 1, label, 1.0)], tokens=["x"])
    with pytest.raises(LabelError):
        SpanSelector(["present C"], ["A", "B"])
    with pytest.raises(LabelError, match=r"forbid DATES[\s\S]*Did you mean 'DATE'\?"):
        bridle.select([(0, 1, "DATE", 1.0)], ["forbid DATES"], labels=["DATE", "PER"])
    with pytest.raises(LabelError, match="unknown label"):
        bridle.select([(0, 1, "DATES", 1.0)], labels=["DATE", "PER"])
    assert bridle.select([(0, 1, 1, 1.0)], ["present PER"], labels=["DATE", "PER"]).spans[0].label == "PER"
    for option in ({"overlap": "allow"}, {"scores": "logits"}, {"on_infeasible": "relax"}, {"threshold": 1.0}):
        with pytest.raises(EngineError):
            SpanSelector(**option)
    with pytest.raises(LatticeError, match="not a probability"):
        bridle.select([(0, 1, "A", 1.5)], scores="probability")
    with pytest.raises(GivenError, match="missing") as raised:
        bridle.select(spans, ["fix A at given verb"])
    assert str(raised.value.rule) == "fix A at given verb"


# ---- batches, limits, the judge -------------------------------------------------------------------------------------


def test_batches_are_one_by_one() -> None:
    selector = SpanSelector(["fix A at given spot"], on_infeasible="skip")
    spans = [[(0, 1, "A", -1.0)], [(0, 1, "B", 1.0)], [(0, 2, "A", 1.0), (1, 2, "C", 3.0)]]
    given = [{"spot": 0}, {"spot": 0}, {"spot": 1}]
    result = selector.select_batch(spans, given=given)
    assert [item.status for item in result] == ["optimal", "infeasible", "optimal"]
    assert [item.indices for item in result] == [[0], [], [0]]
    for span, some, values in zip(result, spans, given, strict=True):
        again = selector.select(some, given=values)
        assert (again.indices, again.score, again.status) == (span.indices, span.score, span.status)
    with pytest.raises(Infeasible) as raised:
        SpanSelector(["fix A at given spot"]).select_batch(spans, given=given)
    assert raised.value.sequence == 1 and [len(decoding) for decoding in raised.value.decodings] == [1, 0, 1]
    with pytest.raises(EngineError, match="one for each of the 3 texts"):
        selector.select_batch(spans, given=given[:2])
    with pytest.raises(LatticeError) as wrong:
        selector.select_batch([[], [(1, 0, "A", 1.0)]], given=[{"spot": []}] * 2)
    assert wrong.value.sequence == 1


def hard_case() -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(3)
    starts = rng.integers(0, 60, 200)
    spans = [(int(s), int(s + rng.integers(1, 9)), f"L{rng.integers(0, 9)}", float(rng.normal(1, 1))) for s in starts]
    return spans, [f"at most 2 segments of L{k}" for k in range(9)] + ["L0 before L1", "L2 followed by L3"]


@pytest.mark.parametrize("overlap", ["forbid", "nest"])
def test_a_time_limit_leaves_a_true_bound(overlap: Any) -> None:
    spans, rules = hard_case()
    best = bridle.select(spans, rules, overlap=overlap)
    assert best.optimal and check_selection(spans, rules, best, overlap=overlap).ok
    for seconds in (0.0, 0.02):
        result = SpanSelector(rules, overlap=overlap, time_limit=seconds, on_infeasible="skip").select(spans)
        assert result.bound >= best.score - 1e-6
        assert result.status != "infeasible"
        if result.status == "limit":
            assert check_selection(spans, rules, result, overlap=overlap).ok and result.score <= best.score + 1e-6


@pytest.mark.parametrize("overlap", ["forbid", "nest"])
def test_time_that_runs_out_between_relaxation_and_branching_leaves_a_true_bound(
    overlap: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans, rules = hard_case()
    best, solve = bridle.select(spans, rules, overlap=overlap), highs.run

    def late(solver: Any, deadline: Deadline, *, relaxed: bool) -> Any:
        return solve(solver, deadline if relaxed else Deadline.after(0.0), relaxed=relaxed)

    monkeypatch.setattr(highs, "run", late)
    result = SpanSelector(rules, overlap=overlap, on_infeasible="skip").select(spans)
    assert result.bound >= best.score - 1e-6 and result.status in ("limit", "nothing_found")


def test_selectors_and_selections_travel() -> None:
    spans, rules = hard_case()
    selector = SpanSelector(rules, overlap="nest", scores="log_odds", threshold=0.4)
    again = pickle.loads(pickle.dumps(selector))
    result = selector.select(spans[:40])
    assert again.select(spans[:40]).indices == result.indices == pickle.loads(pickle.dumps(result)).indices
    assert repr(again) == "SpanSelector(11 rules, overlap='nest')"


def test_the_judge_sees_what_is_wrong() -> None:
    spans = [(0, 2, "A", 1.0), (1, 3, "A", 2.0), (0, 3, "B", 0.5)]
    rules = ["at most 1 segment of A", bridle.rules.parse("present B  [penalty 1]")]
    result = bridle.select(spans, rules)
    assert check_selection(spans, rules, result).ok
    two = [bridle.Span(*spans[0]), bridle.Span(*spans[1])]
    wrong = replace(result, indices=[0, 1], spans=two, penalty=0.0, violated=[])
    text = " ".join(check_selection(spans, rules, wrong).complaints)
    for part in ("spans 0 and 1 overlap", "the score is 2.0", "the penalty is 1", "hard rule is broken", "violated"):
        assert part in text
    other = replace(result, indices=[0])
    assert "is not candidate 0" in check_selection(spans, rules, other).complaints[0]
    nested = replace(result, indices=[2, 0], spans=[bridle.Span(*spans[2]), bridle.Span(*spans[0])])
    assert not any("overlap" in c for c in check_selection(spans, rules, nested, overlap="nest").complaints)
