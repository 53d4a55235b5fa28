"""Rules mined from labels: counts, what is found, what is not, what is said about it."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from bridle import Decoder, Labels, Lattice
from bridle import rules as r
from bridle.errors import BridleError, FeatureError, LabelError, ModelError
from bridle.learn.candidates import KINDS, Limits
from bridle.learn.counted import Counted
from bridle.learn.redundant import _automata, implied
from bridle.learn.relational import ALL, RelationalRules
from bridle.lint_automata import Questions
from bridle.rules.base import Rule, Soft
from strategies import random_labels, seeds

TEXTS = [",", ".", "1984", "pp", "A.", "Foo", "-", "12-14"]


def random_data(rng: Generator, labels: Labels, count: int, stay: float = 0.0) -> Counted:
    """Labels drawn at random, each kept with a probability for the next token; empty sequences among them."""
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


@pytest.mark.parametrize("kind", ALL)
def test_counts_are_those_of_the_rules(kind: str) -> None:
    seen = 0
    for rng in seeds(25, key=71):
        labels = random_labels(rng, 5)
        train = random_data(rng, labels, 30, stay=0.5)
        other = random_data(rng, labels, 30, stay=0.5)  # wrong labellings are counted with the same functions
        for one in KINDS[kind](train, Limits(confidence=0.7, support=2)):
            seen += 1
            for data in (train, other):
                given = [{"tokens": x} for x in lists(data)[0]]
                wanted = [
                    not one.rule.holds(y, labels, about) for y, about in zip(lists(data)[1], given, strict=True)
                ]
                assert one.broken(data).tolist() == wanted, one.rule
            assert not (one.broken(train) & ~one.speaks).any(), f"{one.rule} is broken where it does not speak"
            assert one.log_tail <= 0
    assert seen > 20


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
    r.allow(r.tokens(r"\D?\d{4}\D?"), ["DATE"]),
    r.around(r.tokens(r"\-"), left="PAGES", right="PAGES"),
]


def planted(rng: Generator, count: int, noise: float) -> tuple[list[list[str]], list[list[str]]]:
    """Random segments that obey PLANTED; then some sequences get a few labels at random."""
    labels = Labels(NAMES)
    X: list[list[str]] = []
    y: list[list[str]] = []
    while len(X) < count:
        names = ["AUTHOR", *rng.choice(NAMES, size=rng.integers(1, 8), p=[0.06, 0.19, *[0.125] * 6]).tolist()]
        tokens: list[str] = []
        out: list[str] = []
        for name in names:
            words = [str(w) for w in rng.choice(["the", "Of", "And", "x1", "is"], size=rng.integers(1, 4))]
            if name == "PAGES" and rng.random() < 0.6:
                words = ["p1", "-", "p7"]
            if name == "DATE" and rng.random() < 0.7:
                words = ["1999"]
            tokens += words
            out += [name] * len(words)
        if all(rule.holds(out, labels, {"tokens": tokens}) for rule in PLANTED):
            X.append(tokens)
            y.append(out)
    for k in rng.choice(count, size=round(noise * count), replace=False).tolist():
        for t in rng.integers(len(y[k]), size=3).tolist():
            y[k][t] = str(rng.choice(NAMES))
    return X, y


def follows(rule: Rule, rules: list[Rule], labels: Labels) -> bool:
    """By automata; rules about tokens must be there as they are."""
    parts = _automata(rule, labels)
    return implied(parts, [p for one in rules for p in _automata(one, labels)], Questions()) if parts else rule in rules


@pytest.mark.parametrize("select", ["cover", "all"])
def test_finds_what_was_planted_and_little_else(select: Any) -> None:
    X, y = planted(np.random.default_rng(5), 700, noise=0.03)
    miner = RelationalRules(select=select, penalty=None).fit(X, y)
    missed = [str(rule) for rule in PLANTED if not follows(rule, miner.rules_, miner.labels_)]
    others = [str(rule) for rule in miner.rules_ if not follows(rule, PLANTED, miner.labels_)]
    assert missed == []
    assert len(others) <= 2, others
