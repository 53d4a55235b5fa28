"""Data for `few-labels`: small labelled samples, 1,000 unlabelled sequences, a test set, and rules written by hand.

The rules (`few_labels_rules`) say what the documentation of the labels says, as a person would write it down in half an
hour. All soft ones have the same high penalty: with few labels, a model is not sure enough to outweigh a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bridle import data
from bridle.report import score
from bridle.rules import Rule, load
from experiments.addresses import usaddress
from experiments.base import Run
from experiments.citations import anystyle
from experiments.fields import Fields

UNLABELLED, TEST = 1000, 500  # sequences
FOLDER = Path(__file__).with_name("few_labels_rules")


@dataclass(frozen=True, slots=True)
class Sample:
    """Labelled sequences to train with, unlabelled ones, and those to test with."""

    few: Fields
    text: list[dict[str, list[str]]]
    test: Fields
    labels: list[str]  # all of them, as the documentation lists them


@dataclass(frozen=True)
class Few:
    """A data set."""

    name: str
    read: Callable[[Run, int, int], Sample]  # run, labels, number of the sample -> data
    features: str
    f1: bool  # measure by F1 of segments; otherwise by right tokens
    pool: int = 1000  # sequences to choose from, if they are labelled one by one

    @cached_property
    def rules(self) -> list[Rule]:
        """The rules, most of them soft."""
        return load(FOLDER / f"{self.name.lower()}.rules")

    def right(self, sample: Sample, guessed: Sequence[Sequence[str]]) -> float:
        """Measure labels of the test sequences, in percent."""
        scores = score(sample.test.y, guessed)
        return 100 * float(scores.segments.f1 if self.f1 else scores.accuracy)

    def given(self, X: list[dict[str, list[str]]]) -> list[dict[str, Any]]:
        """Return the stretches between punctuation, which a rule about changes of labels asks for."""
        return [
            {"words": _stretches(x["word"])} if any("given words" in str(rule) for rule in self.rules) else {}
            for x in X
        ]


def _stretches(words: list[str]) -> list[tuple[int, int]]:
    inside = [any(map(str.isalnum, word)) for word in words]
    edges = np.flatnonzero(np.diff([False, *inside, False]))
    return [(low, high) for low, high in edges.reshape(-1, 2).tolist() if high - low > 1]


def _ccm(run: Run, name: str) -> Fields:
    path = run.file("citations-cora-ccm", f"citation_{name}.txt.gz")
    X, y = data.load(path, "conll", columns=["word", "label", "_"], label="label")
    return Fields([{"word": list(x["word"])} for x in X], [list(labels) for labels in y])


def _cora(run: Run, labels: int, sample: int) -> Sample:
    whole = _ccm(run, "train.300")
    if labels <= 25:
        few = _ccm(run, f"train.25.{sample}").part(range(labels))
    else:
        few = whole.part(np.random.default_rng(100 + sample).permutation(len(whole))[:labels].tolist())
    return Sample(few, _ccm(run, "unlabeled").X, _ccm(run, "test"), _names(whole))


def _cut(whole: Fields, labels: int, sample: int) -> Sample:
    order = np.random.default_rng(sample).permutation(len(whole)).tolist()
    test, rest = order[:TEST], order[TEST:]
    text = whole.part(rest[-UNLABELLED:]).X
    return Sample(whole.part(rest[:labels]), text, whole.part(test), _names(whole))


def _names(whole: Fields) -> list[str]:
    return sorted(set(chain.from_iterable(whole.y)))


def _conll(path: Path, *columns: str) -> Fields:
    return Fields(*data.load(path, "conll", columns=[*columns, "label"], label="label"))


SETS = (
    Few("Cora", _cora, "fields", False, pool=300),
    Few("usaddress", lambda run, n, k: _cut(usaddress(run, "train"), n, k), "fields", False),
    Few("AnyStyle", lambda run, n, k: _cut(anystyle(run, "blanks"), n, k), "fields", False),
    Few(
        "Wikigold",
        lambda run, n, k: _cut(_conll(run.file("ner-wikigold", "wikigold.conll.txt.gz"), "word"), n, k),
        "ner",
        True,
    ),
    Few(
        "CoNLL-2000",
        lambda run, n, k: _cut(_conll(run.file("chunk-conll2000", "train.txt.gz"), "word", "pos"), n, k),
        "chunking",
        True,
    ),
)
