"""The laws of rules: every form of a rule says the same of every labelling; and what each kind means, by example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given as for_all

import bridle.rules as r
from bridle.automata import CountingAutomaton
from bridle.errors import GivenError, LabelError, RuleError
from bridle.labels import Labels
from bridle.rules.base import Mask, Rule, Soft
from bridle.rules.boolean import Formula
from strategies import (
    BOOLEAN_KINDS,
    RULE_KINDS,
    Values,
    labellings,
    random_labels,
    random_rule,
    random_soft,
    rules_and_values,
    seeds,
)

# ---- the laws ---------------------------------------------------------------------------------------------------


def marks_of(rule: Rule, n: int, given: Values) -> list[int]:
    """Place k of the rule sets bit k of the positions it names."""
    places = [place.positions(n, given) for place in rule.places()]
    return [sum((t in at) << k for k, at in enumerate(places)) for t in range(n)]


def sets_of(rule: Rule, labels: Labels, given: Values) -> Any:
    return tuple(names.resolve(labels, given) for names in rule.names())


def machines_of(rule: Rule, labels: Labels, n: int, given: Values) -> tuple[list[CountingAutomaton], list[int]]:
    marks = marks_of(rule, n, given)
    occur = sorted(set(marks)) or [0]
    automata = rule.automata(sets_of(rule, labels, given), labels)
    return [CountingAutomaton.build(automaton, len(labels), occur) for automaton in automata], marks


def mask_allows(mask: Mask, rule: Rule, y: Sequence[int], labels: Labels, given: Values) -> bool:
    """Apply the definition of base.Mask to a labelling, word by word."""
    n = len(y)
    if n == 0:
        return True
    places = rule.places()
    at = places[0].positions(n, given) if places else list(range(n))
    return (
        (mask.first is None or bool(mask.first[y[0]]))
        and (mask.last is None or bool(mask.last[y[-1]]))
        and (mask.step is None or all(mask.step[y[t - 1], y[t]] for t in range(1, n)))
        and (mask.token is None or all(mask.token[y[t]] for t in at))
        and (not mask.tied or all(labels.same_type[y[t - 1], y[t]] for t in at))
    )


def check_laws(labels: Labels, n: int, rule: Rule, given: Values) -> None:
    automata, marks = machines_of(rule, labels, n, given)
    mask = rule.mask(sets_of(rule, labels, given), labels)
    parts = rule.conjuncts()
    for y in labellings(n, len(labels)):
        truth = rule.violations(y, labels, given)
        case = (str(rule), labels, y, given)
        assert truth >= 0, case
        assert sum(automaton.count_violations(y, marks) for automaton in automata) == truth, case
        assert rule.holds(y, labels, given) == (truth == 0), case
        assert mask is None or mask_allows(mask, rule, y, labels, given) == (truth == 0), case
        assert all(part.holds(y, labels, given) for part in parts) == (truth == 0), case
    assert r.parse(str(rule)) == rule
    assert hash(r.parse(str(rule))) == hash(rule)


@pytest.mark.parametrize("kind", sorted(RULE_KINDS))
def test_all_forms_of_a_rule_agree(kind: str) -> None:
    for rng in seeds(60, key=sorted(RULE_KINDS).index(kind)):
        labels, n = random_labels(rng), int(rng.integers(0, 5))
        rule, given = random_rule(rng, labels, n, kind=kind)
        check_laws(labels, n, rule, given)


@for_all(rules_and_values(n_max=3))
def test_all_forms_agree_on_drawn_rules(case: tuple[Labels, int, Rule, Values]) -> None:
    check_laws(*case)


def test_every_kind_of_rule_is_generated() -> None:
    formulas = {kind.__name__ for pair in Formula.__subclasses__() for kind in (pair, *pair.__subclasses__())}
    assert set(RULE_KINDS) == {kind.__name__ for kind in Rule.kinds} | (formulas - {"Pair"})
    assert len({kind.__name__ for kind in Rule.kinds}) == len(Rule.kinds)
    for kind in RULE_KINDS:
        rng = np.random.default_rng(1)
        assert type(random_rule(rng, random_labels(rng), 3, kind=kind)[0]).__name__ == kind


def test_soft_rules_count_like_their_rule() -> None:
    for rng in seeds(200, key=100):
        labels, n = random_labels(rng), int(rng.integers(0, 4))
        rule, given = random_rule(rng, labels, n)
        soft = random_soft(rng, rule)
        assert (soft.names(), soft.places()) == (rule.names(), rule.places())
        assert soft.mask(sets_of(soft, labels, given), labels) is None  # a mask would make it hard
        automata, marks = machines_of(soft, labels, n, given)
        for y in labellings(n, len(labels)):
            count = rule.violations(y, labels, given)
            assert soft.violations(y, labels, given) == count == sum(x.count_violations(y, marks) for x in automata)
            times = count if soft.per == "violation" else int(count > 0)
            assert soft.cost(count) == soft.penalty * times
        assert r.parse(str(soft)) == soft


def test_formulas_are_truth_functions() -> None:
    for rng in seeds(200, key=101):
        labels, n = random_labels(rng), int(rng.integers(0, 4))
        a, given = random_rule(rng, labels, n, depth=1)
        b, _ = random_rule(rng, labels, n, given, depth=1)
        for y in labellings(n, len(labels)):
            p, q = a.holds(y, labels, given), b.holds(y, labels, given)
            output = [rule.violations(y, labels, given) for rule in (a & b, a | b, a >> b, a.iff(b), ~a)]
            assert output == [int(not truth) for truth in (p and q, p or q, q or not p, p == q, not p)]


def test_machines_without_places_are_also_yes_no_automata() -> None:
    for rng in seeds(300, key=102):
        labels, n = random_labels(rng), int(rng.integers(0, 5))
        rule, given = random_rule(rng, labels, n, depth=1)
        if rule.places():
            continue
        automata, _ = machines_of(rule, labels, n, given)
        dfas = [automaton.dfa() for automaton in automata]
        for y in labellings(n, len(labels)):
            assert all(dfa.accepts(y) for dfa in dfas) == rule.holds(y, labels, given)


@pytest.mark.parametrize("kind", ["AtMost", "AtLeast", "Exactly", "NoDuplicates"])
def test_count_rules_are_one_row_and_know_their_room(kind: str) -> None:
    """violations = what the sum of the counted edges is above or below the limit; room = what is left of the limit."""
    for rng in seeds(80, key=103):
        labels, n = random_labels(rng), int(rng.integers(0, 5))
        rule, given = random_rule(rng, labels, n, kind=kind)
        m = len(labels)
        automata = rule.automata(sets_of(rule, labels, given), labels)
        for lazy in automata:
            automaton, count = CountingAutomaton.build(lazy, m), lazy.count
            assert count is not None and automaton.count is count and automaton.room is not None
            edges, classes = lazy.counted(), len(count.edges[0])
            assert count.edges.shape == (classes + 1, classes) and edges.shape == (m + 1, m) and edges.dtype == bool
            assert automaton.step.shape[2] == classes <= m and set(automaton.class_of.tolist()) == set(range(classes))
            sign = 1 if count.sense == "<=" else -1
            assert automaton.room[0] == sign * count.limit
            for y in labellings(n, m):
                s, total = 0, 0
                for before, now in zip((m, *y), y, strict=False):
                    left = sign * automaton.room[s]
                    edge = int(edges[before, now])
                    s = int(automaton.step[0, s, automaton.class_of[now]])
                    assert sign * automaton.room[s] == max(0, left - edge)  # one less, until nothing is left
                    total += edge
                over = total - count.limit if count.sense == "<=" else count.limit - total
                assert automaton.count_violations(y) == max(0, over)


def test_only_count_rules_have_a_row() -> None:
    for rng in seeds(200, key=104):
        labels = random_labels(rng)
        rule, given = random_rule(rng, labels, 3)
        rows = [automaton.count is not None for automaton in rule.automata(sets_of(rule, labels, given), labels)]
        counts = type(rule).__name__ in ("AtMost", "AtLeast", "Exactly", "NoDuplicates")
        assert all(row == counts for row in rows)  # none, if it has no names: each of nothing at most once


# ---- what each kind means ---------------------------------------------------------------------------------------

PLAIN = Labels(["O", "A", "B", "C"])
IO = Labels(["O", "A", "B"], "IO")
BIO = Labels(["O", "B-X", "I-X", "B-Y", "I-Y"], "BIO")
BIOES = Labels(["O", "B-X", "I-X", "E-X", "S-X"], "BIOES")

MEANINGS: list[tuple[Rule, Labels, str, int]] = [
    (r.forbid("A"), PLAIN, "A O A", 2),
    (r.forbid("A", at=-1), PLAIN, "A O A", 1),
    (r.forbid(["A", "B"], at=[0, 1]), PLAIN, "A B A", 2),
    (r.forbid("X"), BIO, "B-X I-X O I-Y", 2),
    (r.allow(["A", "B"], 1), PLAIN, "O B O", 0),
    (r.allow(["A", "B"], 1), PLAIN, "B O B", 1),
    (r.allow("O"), PLAIN, "O B B", 2),
    (r.fix("A", 0), PLAIN, "A O", 0),
    (r.fix("A", [0, -1]), PLAIN, "O O", 2),
    (r.fix("A", [1, -1]), PLAIN, "O O", 1),  # the same position twice is one position
    (r.label_at(0, "X"), BIO, "I-X O", 0),
    (r.forbid_transition("A", "B"), PLAIN, "A B A B", 2),
    (r.forbid_transition("A", "A"), PLAIN, "A A A", 2),
    (r.well_formed(), BIO, "B-X I-X O I-X I-Y", 2),
    (r.well_formed(), BIO, "I-X", 1),
    (r.well_formed(), BIOES, "B-X O", 1),
    (r.well_formed(), BIOES, "E-X S-X B-X", 2),
    (r.well_formed(), PLAIN, "A B", 0),
    (r.at_most(1, of="A"), PLAIN, "A A O A", 1),
    (r.at_most(1, of="A", count="tokens"), PLAIN, "A A O A", 2),
    (r.at_most(1, of=["A", "B"]), PLAIN, "A B A", 2),
    (r.at_most(1, of="X"), BIO, "B-X B-X I-X", 1),
    (r.at_most(1, of="X"), BIO, "B-X I-X O I-X", 1),  # I-X out of place begins a segment
    (r.at_most(0, of="O"), IO, "O O A O", 2),
    (r.at_least(2, of="A"), PLAIN, "A A", 1),
    (r.at_least(2, of="A", count="tokens"), PLAIN, "A A", 0),
    (r.at_least(1, of=["A", "B"]), PLAIN, "O B", 0),
    (r.at_least(3, of="A"), PLAIN, "", 3),
    (r.exactly(1, of="A"), PLAIN, "O", 1),
    (r.exactly(1, of="A"), PLAIN, "A O A O A", 2),
    (r.no_duplicates(["A", "B"]), PLAIN, "A B A B", 2),
    (r.no_duplicates(["A", "B"]), PLAIN, "A B O", 0),
    (r.no_duplicates("X"), BIOES, "S-X S-X S-X", 2),
    (r.length("A", at_least=2), PLAIN, "A O A A", 1),
    (r.length("A", at_most=2), PLAIN, "A A A O A A A", 2),
    (r.length("X", at_most=1), BIO, "B-X B-X I-X B-Y I-Y", 1),
    (r.length("A", at_least=3, at_most=1), PLAIN, "A O A A O A A A", 3),  # no length fits: one each
    (r.present("A"), PLAIN, "O A", 0),
    (r.present("A"), PLAIN, "", 1),
    (r.if_present("A", then="B"), PLAIN, "A A", 1),
    (r.if_present("A", then="B"), PLAIN, "B A", 0),
    (r.if_present("A", then="B"), PLAIN, "O", 0),
    (r.same_label((0, 3)), PLAIN, "A A B B", 1),
    (r.same_label((0, 3)), BIO, "B-X I-X B-X O", 0),  # one type
    (r.same_label([(0, 2), (2, 4)]), PLAIN, "A A B B", 0),
    (r.same_label([(0, 3), (1, 3)]), PLAIN, "A B C", 2),  # a change inside two spans is one change
    (r.immediately_followed_by("A", "B"), PLAIN, "A B A", 1),
    (r.immediately_followed_by("A", "B"), PLAIN, "A A B", 1),
    (r.followed_by("A", "B"), PLAIN, "A O B", 0),
    (r.followed_by("A", "B"), PLAIN, "A B A A", 1),
    (r.followed_by("A", "A"), PLAIN, "A A", 1),
    (r.around(1, left="A", right="B"), PLAIN, "A O B", 0),
    (r.around(1, left="A", right="B"), PLAIN, "B O A", 1),
    (r.around([0, 2], left="A", right="B"), PLAIN, "O B A", 1),
    (r.around(0, left="A", right="B"), PLAIN, "O", 0),  # a neighbour that does not exist is not asked for
    (r.starts_with("A"), PLAIN, "O A", 1),
    (r.starts_with(["O", "A"]), PLAIN, "O A", 0),
    (r.starts_with("A"), PLAIN, "", 0),
    (r.ends_with("A"), PLAIN, "O A", 0),
    (r.ends_with("X"), BIO, "B-X B-Y", 1),
    (r.ends_with("A"), PLAIN, "", 0),
    (r.before("A", "B"), PLAIN, "A B A A", 2),
    (r.before("A", "B"), PLAIN, "A A B", 0),
    (r.before("A", "B"), PLAIN, "B", 0),
    (r.matches("O* A+ (O|B)*"), PLAIN, "O A A B O", 0),
    (r.matches("O* A+ (O|B)*"), PLAIN, "O B A", 1),
    (r.matches("O* X{2}"), BIO, "O B-X I-X", 0),
    (r.matches("[^A]*"), PLAIN, "", 0),
    (r.present("A") >> r.label_at(0, "O"), PLAIN, "A O", 1),
    (r.present("A").iff(r.present("B")), PLAIN, "A O", 1),
    (~r.at_most(1, of="A"), PLAIN, "A O A O A", 0),
]


@pytest.mark.parametrize("rule, labels, y, count", MEANINGS, ids=[f"{m[0]} | {m[2]}" for m in MEANINGS])
def test_meaning(rule: Rule, labels: Labels, y: str, count: int) -> None:
    assert rule.violations(y.split(), labels) == count
    assert rule.violations(labels.ids(y.split()), labels) == count


def test_given_values_and_tokens() -> None:
    y = ["O", "A", "A", "B"]
    assert r.label_at(r.given("verb"), "O").holds(y, PLAIN, {"verb": 0})
    assert not r.label_at(r.given("verb"), "O").holds(y, PLAIN, {"verb": [0, -1]})
    assert r.same_label(r.given("candidates")).violations(y, PLAIN, {"candidates": [(0, 2), (1, 4)]}) == 2
    assert r.same_label(r.given("candidates")).holds(y, PLAIN, {"candidates": []})
    assert r.at_least(1, of=r.given("frame")).violations(y, PLAIN, {"frame": []}) == 1
    assert r.forbid(["O", r.given("core")]).violations(y, PLAIN, {"core": ["A", "O"]}) == 3
    texts = {"tokens": ["12345", "a12345", "1234", "54321"]}
    assert r.fix("A", r.tokens(r"\d{5}")).violations(y, PLAIN, texts) == 2  # the whole token, not a part of it
    assert r.fix("A", r.tokens(r"\d{5}")).violations(y, PLAIN, {"tokens": [1, 2, 3, 12345]}) == 1


# ---- errors -----------------------------------------------------------------------------------------------------


def _check(rule: Rule, given: Values | None = None) -> Any:
    return lambda: rule.holds(["O", "A", "B"], PLAIN, given)


BAD: list[tuple[Any, type[Exception], str]] = [
    (_check(r.forbid("Z")), LabelError, "in the rule: forbid Z"),
    (_check(r.matches("Z*")), LabelError, "'Z'"),
    (_check(r.fix("A", 3)), RuleError, "position 3"),
    (_check(r.fix("A", -4)), RuleError, "-3 .. 2"),
    (_check(r.same_label((1, 4))), RuleError, "a sequence of 3 tokens"),
    (_check(r.fix("A", r.given("verb"))), GivenError, "nothing"),
    (_check(r.fix("A", r.given("verb")), {"noun": 1}), GivenError, "noun"),
    (_check(r.fix("A", r.given("verb")), {"verb": "x"}), RuleError, r"given\['verb'\]"),
    (_check(r.fix("A", r.given("verb")), {"verb": 1.0}), RuleError, "an integer"),
    (_check(r.fix("A", r.given("verb")), {"verb": None}), RuleError, "an integer"),
    (_check(r.fix("A", r.given("verb")), {"verb": np.array(1.5)}), RuleError, "an integer"),
    (_check(r.fix("A", r.given("verb")), {"verb": 7}), RuleError, r"given\['verb'\] names position 7"),
    (_check(r.same_label(r.given("s")), {"s": [(0, 9)]}), RuleError, r"given\['s'\]"),
    (_check(r.same_label(r.given("s")), {"s": [(2, 1)]}), RuleError, "start <= end"),
    (_check(r.same_label(r.given("s")), {"s": 3}), RuleError, "pairs"),
    (_check(r.same_label(r.given("s")), {"s": [{1, 2, 3}]}), RuleError, "pairs"),
    (_check(r.forbid(r.given("f")), {"f": 3}), GivenError, "name"),
    (_check(r.forbid(r.given("f")), {"f": [0]}), GivenError, "name"),
    (_check(r.forbid(r.given("f")), {"f": ["Z"]}), LabelError, "'Z'"),
    (_check(r.fix("A", r.tokens("x"))), GivenError, "tokens"),
    (_check(r.fix("A", r.tokens("x")), {"tokens": ["x"]}), GivenError, "differ in length"),
    (_check(r.fix("A", r.tokens("x")), {"tokens": 3}), GivenError, "list of strings"),
    (lambda: r.forbid([]), RuleError, "empty list"),
    (lambda: r.forbid(""), RuleError, "name"),
    (lambda: r.forbid(3), RuleError, "name"),
    (lambda: r.forbid({"A": 1}), RuleError, "name"),
    (lambda: r.fix("A", "0"), RuleError, "positions"),
    (lambda: r.fix("A", True), RuleError, "positions"),
    (lambda: r.same_label((2, 1)), RuleError, "spans"),
    (lambda: r.same_label((-2, 1)), RuleError, "spans"),
    (lambda: r.given("two words"), RuleError, "plain name"),
    (lambda: r.given(3), RuleError, "plain name"),  # type: ignore[arg-type]
    (lambda: r.tokens("("), RuleError, "regular expression"),
    (lambda: r.tokens(b"x"), RuleError, "regular expression"),  # type: ignore[arg-type]
    (lambda: r.at_most(-1, of="A"), RuleError, ">= 0"),
    (lambda: r.at_most(1.5, of="A"), RuleError, "an integer"),  # type: ignore[arg-type]
    (lambda: r.at_most(True, of="A"), RuleError, "invalid value"),
    (lambda: r.at_most(1, of="A", count="words"), RuleError, "segments"),  # type: ignore[arg-type]
    (lambda: r.length("A"), RuleError, "needs a limit"),
    (lambda: r.length("A", at_least=0), RuleError, ">= 1"),
    (lambda: r.matches("(A"), RuleError, r"'\)'"),
    (lambda: r.matches(3), RuleError, "must be a string"),  # type: ignore[arg-type]
    (lambda: r.present("A").soft(-1), RuleError, "must be"),
    (lambda: r.present("A").soft(float("nan")), RuleError, "must be"),
    (lambda: r.present("A").soft(float("inf")), RuleError, "must be"),
    (lambda: r.present("A").soft("dear"), RuleError, "must be"),  # type: ignore[arg-type]
    (lambda: r.present("A").soft(1, per="token"), RuleError, "per"),  # type: ignore[arg-type]
    (lambda: r.present("A").soft(1).soft(1), RuleError, "already soft"),
    (lambda: r.present("A").soft(1) & r.present("B"), RuleError, "only hard rules"),
    (lambda: r.present("A") | "B", RuleError, "only hard rules"),  # type: ignore[operator]
    (lambda: r.present("A") and r.present("B"), RuleError, "a rule has no truth value"),
]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_bad_rules_are_typed_errors(case: int) -> None:
    make, kind, text = BAD[case]
    with pytest.raises(kind, match=text) as caught:
        make()
    error: Any = caught.value
    assert type(error) is kind or kind is RuleError
    assert error.what and error.got is not None and error.wanted is not None


def test_an_automaton_that_grows_too_large_says_so() -> None:
    rule = r.at_most(20_000, of="A")
    with pytest.raises(RuleError, match="too large"):
        machines_of(rule, PLAIN, 1, {})


def test_rules_are_values() -> None:
    assert r.forbid(["A", "A", "B"]) == r.forbid(("A", "B"))
    assert r.forbid("A") != r.forbid("A", at=0)
    assert len({r.before("A", "B"), r.before("A", "B"), r.before("B", "A")}) == 2
    assert isinstance(r.present("A").soft(np.float32(0.5)), Soft)
    assert type(r.present("A").soft(np.float32(0.5)).penalty) is float
    assert (r.present("A") & r.present("B") & r.forbid("C")).conjuncts() == (
        r.present("A"),
        r.present("B"),
        r.forbid("C"),
    )
    assert set(BOOLEAN_KINDS) < set(RULE_KINDS)
