"""Rules mined from labels: counts, what is found, what is not, what is said about it."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Literal

import numpy as np
import pytest
from numpy.random import Generator

from bridle import Decoder, Labels, Lattice
from bridle import rules as r
from bridle.errors import BridleError, FeatureError, GivenError, LabelError, ModelError
from bridle.learn.candidates import KINDS, Limits
from bridle.learn.counted import Counted
from bridle.learn.relational import RelationalRules, automata_of, implied
from bridle.rules import parse
from bridle.rules.base import Rule, Soft
from bridle.rules.lint_automata import Questions
from strategies import random_labels, seeds

TEXTS = [",", ".", "1984", "pp", "A.", "Foo", "-", "12-14"]


def random_data(rng: Generator, labels: Labels, count: int, stay: float = 0.0) -> Counted:
    """Random labels, each kept with a probability for the next token; empty sequences among them."""
    lengths = rng.integers(0, 9, size=count)
    ids = rng.integers(len(labels), size=int(lengths.sum()))
    for t in np.flatnonzero(rng.random(len(ids)) < stay):
        ids[t] = ids[t - 1]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Counted(labels, ids.astype(np.int64), offsets, [str(t) for t in rng.choice(TEXTS, size=len(ids))])


def lists(data: Counted) -> tuple[list[list[str]], list[list[str]]]:
    """X and y of all sequences."""
    names, tokens = data.labels.names, data.tokens or ()
    spans = [range(a, b) for a, b in zip(data.offsets, data.offsets[1:], strict=False)]
    return [[tokens[t] for t in span] for span in spans], [[names[data.ids[t]] for t in span] for span in spans]


@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_those_of_the_rules(kind: str) -> None:
    seen = 0
    for rng in seeds(25, key=71):
        labels = random_labels(rng, 5)
        train = random_data(rng, labels, 30, stay=0.5)
        other = random_data(rng, labels, 30, stay=0.5)  # wrong labellings are counted with the same functions
        for item in KINDS[kind](train, Limits(confidence=0.7, support=2)):
            seen += 1
            for data in (train, other):
                given = [{"tokens": x} for x in lists(data)[0]]
                wanted = [not item.rule.holds(y, labels, about) for y, about in zip(lists(data)[1], given, strict=True)]
                assert item.broken(data).tolist() == wanted, item.rule
            assert not (item.broken(train) & ~item.applies).any(), f"{item.rule} is broken where it does not apply"
            assert item.log_tail <= 0
    assert seen > 20


@pytest.mark.parametrize("names", [["A", "B", "my mark"], ["O", "B-A", "I-A", "B-D", "I-D"]])
def test_changes_over_marks_with_a_label_of_their_own(names: list[str]) -> None:
    """Fersini et al. (2012), equation 19: the delimiter is a label, behind which a first-order model forgets."""
    labels, printed = Labels(names), set[str]()
    mark = next(name for name in ("my mark", "D") if name in (*labels.names, *labels.type_of))
    for rng in seeds(20, key=73):
        random = random_data(rng, labels, 40, stay=0.3)
        of_mark = [labels.type_of[i] == mark or labels.names[i] == mark for i in random.ids]
        texts = [str(rng.choice([",", ".", "-"])) if is_mark else "word" for is_mark in of_mark]
        data = Counted(labels, random.ids, random.offsets, texts)
        _, y = lists(data)
        for item in KINDS["change"](data, Limits(confidence=0.7, support=2)):
            if "matches" in str(item.rule):
                printed.add(str(item.rule))
                assert item.broken(data).tolist() == [not item.rule.holds(labelling, labels) for labelling in y]
                assert not (item.broken(data) & ~item.applies).any()
        data = Counted(labels, random.ids, random.offsets, ["word"] * len(texts))  # no label is one of marks
        assert not any("matches" in str(item.rule) for item in KINDS["change"](data, Limits(0.7, 2)))
    quoted = f"'{mark}'" if " " in mark else mark
    assert f'not (matches ".* A {quoted}+ A .*")' in printed
    assert {parse(rule) for rule in printed}


# ---- rules that were planted ----------------------------------------------------------------------------------------

NAMES = ["AUTHOR", "TITLE", "DATE", "PAGES", "NOTE", "EDITOR", "VENUE", "URL"]
PLANTED = [
    r.starts_with("AUTHOR"),
    r.exactly(1, of="TITLE"),
    r.at_most(1, of="DATE"),
    r.at_most(2, of="NOTE"),
    r.before("AUTHOR", "TITLE"),
    r.before("TITLE", "PAGES"),
    r.followed_by("EDITOR", "VENUE"),
    r.if_present("PAGES", then="VENUE"),
    ~(r.present("URL") & r.present("PAGES")),
    r.forbid_transition("TITLE", "NOTE"),
    r.allow(["DATE"], r.tokens(r"\D?\d{4}\D?")),
    r.around(r.tokens("/"), left="PAGES", right="PAGES"),
]
TRUE_TOO = [r.allow(["PAGES"], r.tokens("/"))]  # how tokens are made makes it true; it may be found


@cache
def obedient(count: int, seed: int) -> tuple[list[list[str]], list[list[str]]]:
    """Random segments that obey PLANTED."""
    rng, labels = np.random.default_rng(seed), Labels(NAMES)
    early = ["AUTHOR", "AUTHOR", "AUTHOR", "DATE", "NOTE", "EDITOR", "VENUE", "URL"]
    late = ["DATE", "PAGES", "PAGES", *["NOTE"] * 4, "EDITOR", "VENUE", "VENUE", "URL"]
    X: list[list[str]] = []
    y: list[list[str]] = []
    while len(X) < count:
        before, after = rng.choice(early, size=rng.integers(0, 7)), rng.choice(late, size=rng.integers(0, 10))
        names = ["AUTHOR", *before.tolist(), "TITLE", *after.tolist()]
        if not all(rule.holds(names, labels) for rule in PLANTED if not rule.places()):
            continue
        tokens: list[str] = []
        out: list[str] = []
        for name in names:
            words = [str(w) for w in rng.choice(["the", "Of", "And", "x1", "is"], size=rng.integers(1, 4))]
            if name in ("PAGES", "DATE") and rng.random() < 0.6:
                words = ["p1", "/", "p7"] if name == "PAGES" else ["1999"]
            tokens += words
            out += [name] * len(words)
        X.append(tokens)
        y.append(out)
    return X, y


def planted(count: int, seed: int, noise: float) -> tuple[list[list[str]], list[list[str]]]:
    """Return obedient sequences, but some get three random labels."""
    X, clean = obedient(count, seed)
    y, rng = [list(labels) for labels in clean], np.random.default_rng(seed)
    for k in rng.choice(count, size=round(noise * count), replace=False).tolist():
        for t in rng.integers(len(y[k]), size=3).tolist():
            y[k][t] = str(rng.choice(NAMES))
    return X, y


def follows(rule: Rule, rules: list[Rule], labels: Labels) -> bool:
    """By automata; rules about tokens are required as they are."""
    parts, others = automata_of(rule, labels), [part for rule in rules for part in automata_of(rule, labels)]
    return implied(parts, others, Questions()) if parts else rule in rules


@pytest.mark.slow
@pytest.mark.parametrize(("select", "seed"), [("cover", 1), ("all", 2)])
def test_finds_what_was_planted_and_little_else(select: Literal["cover", "all"], seed: int) -> None:
    X, y = planted(600, seed, noise=0.03)
    miner = RelationalRules(select=select, penalty=None).fit(X, y)
    missed = [str(rule) for rule in PLANTED if not follows(rule, miner.rules_, miner.labels_)]
    others = [str(rule) for rule in miner.rules_ if not follows(rule, PLANTED + TRUE_TOO, miner.labels_)]
    assert missed == []
    assert len(others) <= 2, others


@pytest.mark.parametrize("seed", range(12))
def test_random_labels_give_no_rules(seed: int) -> None:
    """Even shares or uneven ones, single labels or runs, short sequences or long ones."""
    rng = np.random.default_rng([9, seed])
    m = int(rng.integers(2, 8))
    shares, stay = rng.dirichlet(np.full(m, [0.3, 1, 5][seed % 3])), [0, 0.6][seed % 2]
    X: list[list[str]] = []
    y: list[list[str]] = []
    for _ in range(200):
        n = int(rng.integers(1, [3, 25][int(rng.random() < 0.7)]))
        drawn = [f"L{k}" for k in rng.choice(m, size=n, p=shares)]
        for t in range(1, n):
            drawn[t] = drawn[t - 1] if rng.random() < stay else drawn[t]
        X.append([str(text) for text in rng.choice(TEXTS, size=n)])
        y.append(drawn)
    miner = RelationalRules(select="all").fit(X, y)
    assert [str(item) for item in miner.learned_] == []
    assert "may be due to chance" in miner.report_.dropped
    assert "0 rules kept" in str(miner.report_)


# ---- what comes out -------------------------------------------------------------------------------------------------

ORDER = [["A", "B", "B"], ["A", "A", "B"], ["A", "B"], ["A", "C", "B"]] * 10


def test_penalties_and_evidence_come_from_the_counts() -> None:
    y = [*ORDER, ["B", "A"]]
    (result,) = [
        item
        for item in RelationalRules(["presence"], min_confidence=0.9).fit(None, y).learned_
        if "A before B" in str(item)
    ]
    assert (result.held, result.of, result.support, result.exceptions) == (40, 41, 41, 1)
    assert isinstance(result.rule, Soft)
    assert result.rule.penalty == pytest.approx(-math.log(1.5 / 42), abs=1e-3)
    hard = RelationalRules(["presence"], min_confidence=0.9, penalty=None).fit(None, y)
    assert not any(isinstance(rule, Soft) for rule in hard.rules_)


def test_the_most_useful_rules_come_first_and_are_numbered() -> None:
    X, y = planted(150, 0, noise=0)
    miner = RelationalRules().fit(X, y)
    assert miner.powers_ == sorted(miner.powers_, reverse=True)
    few = RelationalRules(max_rules=3).fit(X, y)
    assert few.rules_ == miner.rules_[:3]
    report = miner.report_
    assert sum(report.candidates.values()) == sum(report.kept.values()) + sum(report.dropped.values())
    assert [power for _, power in report.clauses] == sorted((p for _, p in report.clauses), reverse=True)
    assert {text for rules, _ in report.clauses for text in rules} == {str(item.hard().rule) for item in miner.learned_}


def test_the_same_data_give_the_same_rules() -> None:
    X, y = planted(150, 0, noise=0.03)
    assert RelationalRules(seed=4).fit(X, y).rules_ == RelationalRules(seed=4).fit(X, y).rules_


def test_rules_can_be_decoded_with() -> None:
    X, y = planted(150, 0, noise=0)
    miner = RelationalRules(penalty=None).fit(X, y)
    decoder = Decoder(miner.labels_, miner.rules_, on_infeasible="relax")
    scores = Lattice(np.random.default_rng(1).normal(size=(len(X[0]), len(NAMES))))
    decoding = decoder.decode(scores, {"tokens": X[0]})
    assert all(rule.holds(decoding.labels, miner.labels_, {"tokens": X[0]}) for rule in miner.rules_)


def test_wrong_labellings_of_a_model_steer_the_choice() -> None:
    """Only what separates them is picked."""
    y = [["A", "B", "C"], ["A", "C"], ["A", "B", "B", "C"]] * 15
    wrong = [[[*reversed(labels)], labels] for labels in y]
    picked = RelationalRules(penalty=None).fit(None, y, wrong=wrong)
    assert 0 < len(picked.rules_) < len(RelationalRules(penalty=None, select="all").fit(None, y).rules_)
    assert picked.report_.wrong == len(y)
    assert picked.report_.separated == 1.0
    none = RelationalRules(penalty=None).fit(None, y, wrong=[[labels] for labels in y])
    assert none.rules_ and none.report_.wrong == 0  # nothing to choose by: all stay
    with pytest.raises(LabelError, match="another length"):
        RelationalRules().fit(None, y, wrong=[[["A"]]] * len(y))
    with pytest.raises(LabelError, match="do not fit y"):
        RelationalRules().fit(None, y, wrong=[])


def test_segments_of_a_scheme_are_the_names_in_rules() -> None:
    y = [["B-X", "I-X", "O", "B-Y"], ["B-X", "B-Y", "I-Y"], ["B-X", "I-X", "I-X", "O"]] * 20
    miner = RelationalRules(penalty=None, select="all").fit(None, y)
    assert miner.labels_.scheme == "BIO"
    assert "well formed" in [str(rule) for rule in miner.rules_]
    assert all("B-" not in str(rule) for rule in miner.rules_)


def test_tokens_come_from_columns_lists_or_given_values() -> None:
    X, y = planted(60, 0, noise=0)
    texts = [
        [str(rule) for rule in miner.rules_]
        for miner in (
            RelationalRules(["tokens"]).fit(X, y),
            RelationalRules(["tokens"]).fit([{"word": x} for x in X], y),
            RelationalRules(["tokens"], column="form").fit([{"form": x} for x in X], y),
            RelationalRules(["tokens"]).fit(None, y, given=[{"tokens": x} for x in X]),
        )
    ]
    assert texts[0] and texts.count(texts[0]) == 4


# ---- bad input ------------------------------------------------------------------------------------------------------


def test_too_little_data_give_no_rules_and_a_reason() -> None:
    for y in ([["A", "B"]], [["A", "B"], ["C", "B"], ["B"]]):
        miner = RelationalRules().fit(None, y)
        assert miner.learned_ == [] and miner.rules_ == []
        assert miner.report_.dropped["apply to too few sequences"] > 0
        assert miner.report_.skipped == ("change", "tokens")
        assert "without tokens" in str(miner.report_)


@pytest.mark.parametrize(
    ("X", "y", "error"),
    [
        (None, [], LabelError),
        (None, [["A"], ["A"]], LabelError),
        (None, [["A", 3]], LabelError),
        (None, "AB", LabelError),
        ([["x"]], [["A", "B"]], LabelError),
        ([["x", "y"]], [["A", "B"], ["A"]], LabelError),
        (["xy"], [["A", "B"]], FeatureError),
        ([{"pos": ["x", "y"]}], [["A", "B"]], FeatureError),
    ],
)
def test_bad_data_are_typed_errors(X: Any, y: Any, error: type[BridleError]) -> None:
    with pytest.raises(error) as caught:
        RelationalRules().fit(X, y)
    assert caught.value.got is not None and caught.value.wanted is not None


@pytest.mark.parametrize(
    "settings",
    [
        {"kinds": ["colour"]},
        {"kinds": "count"},
        {"select": "best"},
        {"penalty": "odds"},
        {"min_support": 0},
        {"min_confidence": 1.5},
        {"significance": 0},
        {"min_power": None},
        {"max_rules": 0},
        {"wrong": 2.5},
        {"seed": -1},
    ],
)
def test_bad_settings_are_typed_errors(settings: Any) -> None:
    miner = RelationalRules(**settings)  # the constructor only stores
    with pytest.raises(ModelError) as caught:
        miner.fit(None, ORDER)
    four = caught.value.wanted is not None or " must be " in caught.value.what  # what says it already
    assert caught.value.got is not None and four


def test_kinds_of_tokens_without_tokens_are_an_error() -> None:
    with pytest.raises(ModelError, match="need tokens"):
        RelationalRules(["tokens"]).fit(None, ORDER)
    with pytest.raises(GivenError, match="given"):
        RelationalRules().fit(None, ORDER, given=[{}])


def test_settings_follow_scikit_learn() -> None:
    miner = RelationalRules(min_support=7)
    assert miner.get_params()["min_support"] == 7
    assert RelationalRules(**miner.get_params()).get_params() == miner.get_params()
    assert miner.set_params(select="all").select == "all"
    assert repr(miner) == "RelationalRules(min_support=7, select='all')"
    with pytest.raises(ModelError, match="unknown setting"):
        miner.set_params(colour=1)
    assert miner.fit(None, ORDER) is miner
