"""One label for equal tokens: what it means, its automata against its definition, its limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bridle
import bridle.rules as r
from bridle import GivenError, Labels, Lattice, RuleError
from bridle.rules.equal import SameLabelForEqual
from strategies import labellings

PLAIN = Labels(["O", "PER", "LOC"])
BIO = Labels(["O", "B-X", "I-X", "B-Y"], "BIO")


@pytest.mark.parametrize(
    ("rule", "labels", "tokens", "y", "violations"),
    [
        (r.same_label_for_equal(), PLAIN, "a b a", "PER O PER", 0),
        (r.same_label_for_equal(), PLAIN, "a b a", "PER O LOC", 1),
        (r.same_label_for_equal(), PLAIN, "a a a a", "PER LOC PER PER", 2),  # against the one before, not all pairs
        (r.same_label_for_equal(), PLAIN, "a b a b", "PER O LOC PER", 2),
        (r.same_label_for_equal(), PLAIN, "a A", "PER LOC", 0),
        (r.same_label_for_equal(case="ignored"), PLAIN, "a A", "PER LOC", 1),
        (r.same_label_for_equal(r.tokens("[A-Z].*")), PLAIN, "a Bo a Bo", "PER O LOC O", 0),
        (r.same_label_for_equal(r.tokens("[A-Z].*")), PLAIN, "a Bo a Bo", "PER O PER LOC", 1),
        (r.same_label_for_equal(), BIO, "a b a", "B-X I-X I-X", 0),  # one type
        (r.same_label_for_equal(), BIO, "a b a", "B-X I-X B-Y", 1),
        (r.same_label_for_equal(), PLAIN, "", "", 0),
        (r.same_label_for_equal(r.tokens("[^_].*", column="name")), PLAIN, "x y x", "PER PER LOC", 1),
        (r.same_label_for_equal(r.tokens("2", column="name")), PLAIN, "x y x", "PER O LOC", 0),
    ],
)
def test_what_it_means(rule: r.Rule, labels: Labels, tokens: str, y: str, violations: int) -> None:
    given = {"tokens": tokens.split(), "name": list("121")[: len(tokens.split())]}
    assert rule.violations(y.split(), labels, given) == violations
    assert r.parse(str(rule)) == rule


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c", "A"]), max_size=5), st.booleans(), st.sampled_from([PLAIN, BIO]))
def test_an_automaton_for_each_group_adds_up(texts: list[str], ignored: bool, labels: Labels) -> None:
    rule = r.same_label_for_equal(case="ignored" if ignored else "exact")
    values = {"tokens": texts}
    marks = [0] * len(texts)
    for k, place in enumerate(rule.places()):
        for t in place.positions(len(texts), values):
            marks[t] |= 1 << k
    tables = rule.tables((), labels, tuple(sorted({0, *marks})))
    keys = [text.lower() if ignored else text for text in texts]
    assert len(tables) == len({key for key in keys if keys.count(key) > 1})
    for y in labellings(len(texts), len(labels)):
        assert sum(item.count_violations(y, marks) for item in tables) == rule.violations(y, labels, values)


@pytest.mark.parametrize("engine", ["search", "product", "lazy_intersection", "ilp"])
def test_engines_find_the_best_labelling(engine: str) -> None:
    """More groups than one product would take, against enumeration over what groups may carry."""
    rng = np.random.default_rng(5)
    texts = [f"w{k % 3}" for k in range(6)]
    lattice, values = Lattice(rng.normal(size=(6, 3)), pairwise=rng.normal(size=(3, 3))), {"tokens": texts}
    for rule in (r.same_label_for_equal(), r.same_label_for_equal().soft(0.7), ~r.same_label_for_equal()):
        decoding = bridle.Decoder(PLAIN, [rule], engine).decode(lattice, values)
        counts = {y: rule.violations(y, PLAIN, values) for y in labellings(6, 3)}
        cost = {y: rule.cost(v) if isinstance(rule, r.Soft) else (np.inf if v else 0.0) for y, v in counts.items()}
        assert decoding.optimal and decoding.score == pytest.approx(max(lattice.score(y) - cost[y] for y in counts))


def test_long_sequences_with_many_groups() -> None:
    rng = np.random.default_rng(6)
    texts = [f"w{k}" for k in rng.integers(0, 20, 60)]
    lattice = Lattice(rng.normal(size=(60, 3)))
    decoding = bridle.Decoder(PLAIN, [r.same_label_for_equal()]).decode(lattice, {"tokens": texts})
    chosen = dict(zip(texts, decoding.labels, strict=True))
    assert decoding.optimal and [chosen[text] for text in texts] == list(decoding.labels)
    sums = {text: sum(lattice.unary[t] for t in range(60) if texts[t] == text) for text in chosen}
    assert decoding.score == pytest.approx(
        sum(max(item) for item in sums.values())
    )  # without pairwise: each text by itself


def test_any_number_of_texts_and_labels() -> None:
    rng = np.random.default_rng(7)
    texts = [f"w{k}" for k in range(300)] * 2
    lattice = Lattice(rng.normal(size=(600, 3)), pairwise=rng.normal(size=(3, 3)) / 4)
    decoding = bridle.Decoder(PLAIN, [r.same_label_for_equal()]).decode(lattice, {"tokens": texts})
    assert decoding.optimal and decoding.labels[:300] == decoding.labels[300:]
    twice = Lattice(lattice.unary[:300] + lattice.unary[300:])  # without transitions: each text by itself
    both = bridle.Decoder(PLAIN, [r.same_label_for_equal()]).decode(Lattice(lattice.unary), {"tokens": texts})
    assert both.score == pytest.approx(twice.unary.max(axis=1).sum())
    many, size = Labels([f"L{k}" for k in range(60)]), (200, 60)
    rule = r.same_label_for_equal().soft(1, per="violation")
    values = {"tokens": [f"w{k}" for k in range(100)] * 2}
    assert bridle.Decoder(many, [rule]).decode(Lattice(rng.normal(size=size)), values).optimal


def test_limits_of_formulas() -> None:
    texts = [f"w{k}" for k in range(256)] * 2
    rule = r.same_label_for_equal() | r.present("PER")
    with pytest.raises(
        RuleError, match=r"too many texts occur more than once in a sequence.*got 256; wanted at most 255"
    ):
        bridle.Decoder(PLAIN, [rule]).decode(Lattice(np.zeros((512, 3))), {"tokens": texts})


def test_bad_arguments() -> None:
    with pytest.raises(RuleError, match="got given\\('x'\\); wanted tokens\\(regex\\)"):
        r.same_label_for_equal(r.given("x"))  # type: ignore[arg-type]
    with pytest.raises(RuleError, match="'exact' or 'ignored'"):
        r.same_label_for_equal(case="lower")
    rule = r.same_label_for_equal()
    with pytest.raises(GivenError, match=r"given\['tokens'\] is missing"):
        rule.violations(["O"], PLAIN)
    with pytest.raises(GivenError, match="differ in length"):
        bridle.Decoder(PLAIN, [rule]).decode(Lattice(np.zeros((2, 3))), {"tokens": ["a"]})
    for make in (lambda: bridle.SpanSelector([rule]), lambda: bridle.SpanSelector([rule | r.present("A")])):
        with pytest.raises(RuleError, match="spans cannot be compared token by token"):
            make()


@pytest.mark.parametrize("tokens", [("a", "b", "a"), np.array(["a", "b", "a"]), ["a", 1, "a"], [1, True, 1]])
def test_tokens_come_in_many_shapes(tokens: object) -> None:
    rule = r.same_label_for_equal()
    assert isinstance(rule, SameLabelForEqual)
    assert rule.violations(["PER", "O", "LOC"], PLAIN, {"tokens": tokens}) == 1
    best = bridle.Decoder(PLAIN, [rule]).decode(Lattice([[0, 2, 0], [1, 0, 0], [0, 0, 1.0]]), {"tokens": tokens})
    assert best.labels == ["PER", "O", "PER"]


def test_models_pass_the_tokens() -> None:
    """`predict` hands texts to the kernels in another way than `decode`; these rules want them together."""
    X = [["Boston", "is", "big"], ["Boston", "won"]] * 5
    model = bridle.CRF(features=["word[0]", "word[1]"], c2=0.1).fit(X, [["LOC", "O", "O"], ["ORG", "O"]] * 5)
    plain = model.predict([["Boston", "won", "Boston", "is"]])
    ruled = model.predict([["Boston", "won", "Boston", "is"]], rules=["same label for equal tokens"])
    assert plain[0][0] != plain[0][2] and ruled[0][0] == ruled[0][2]
