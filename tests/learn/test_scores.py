"""Scores of any model in place of a model: what they take, what they refuse, and that rules come out the same."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridle import Batch, LabelError, Labels, Lattice, ModelError
from bridle.data import save_scores
from bridle.errors import BridleError, FileError, LatticeError
from bridle.learn import FittedRules, Scores, cross_fit, fit_rules, tune_rules
from tests.learn.test_fitted import data, model

LABELS = ["A", "B"]
LOGITS = [[[2, 0], [0, 1]], [[0, 3], [1, 1], [0, 2]]]
WORDS = [["a", "b"], ["c", "d", "e"]]


def padded(arrays: list[Any], value: float = np.nan) -> Any:
    grid = np.full((len(arrays), max(map(len, arrays)), len(LABELS)), value)
    for row, array in zip(grid, arrays, strict=True):
        row[: len(array)] = array
    return grid


@pytest.mark.parametrize(
    "logits",
    [
        LOGITS,
        [np.array(x, dtype=np.float32) for x in LOGITS],
        [Lattice(x) for x in LOGITS],
        Batch([row for x in LOGITS for row in x], [0, 2, 5]),
        padded(LOGITS),
    ],
    ids=["lists", "arrays", "lattices", "batch", "padded"],
)
def test_scores_of_many_kinds(logits: Any) -> None:
    scores = Scores(LABELS, logits, WORDS)
    assert [scores.lattices[b].unary.tolist() for b in range(2)] == LOGITS
    assert repr(scores) == "Scores(2 sequences, 2 labels, model)" and len(scores) == 2
    assert scores.fingerprint == Scores(LABELS, scores.lattices).fingerprint != Scores(["A", "C"], LOGITS).fingerprint


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    grid = torch.tensor(padded(LOGITS, 0.0), requires_grad=True)
    assert Scores(LABELS, grid.detach(), WORDS).lattices[0].unary.tolist() == LOGITS[0]
    tensors = [torch.tensor(x) for x in LOGITS]
    assert Scores(LABELS, tensors).lattices[1].unary.tolist() == LOGITS[1]


@pytest.mark.parametrize(
    ("error", "arguments", "options"),
    [
        (LatticeError, (LABELS, [[[1, 2, 3]]]), {}),
        (LatticeError, (LABELS, [Lattice([[1, 2, 3]])]), {}),
        (LatticeError, (LABELS, [[1, 2]]), {}),
        (LatticeError, (LABELS, [[[np.nan, 1]]]), {}),
        (LatticeError, (LABELS, padded(LOGITS)), {}),  # whose lengths are not known
        (LatticeError, (LABELS, LOGITS, [["a", "b"], ["c"]]), {}),
        (LatticeError, (LABELS, LOGITS, [["a", "b"]]), {}),
        (LabelError, (["A", "A"], LOGITS), {}),
        (ModelError, (LABELS, LOGITS), {"folds": [0]}),
        (ModelError, (LABELS, LOGITS), {"folds": [0.5, 1]}),
        (ModelError, (LABELS, LOGITS), {"folds": [1, 1]}),
        (BridleError, (LABELS, LOGITS), {"given": [{}]}),
    ],
)
def test_scores_that_do_not_fit(error: type[Exception], arguments: Any, options: Any) -> None:
    with pytest.raises(error):
        Scores(*arguments, **options)


# ---- one road for models and scores ---------------------------------------------------------------------------------


@lru_cache
def scores_and_gold() -> tuple[Scores, list[list[str]]]:
    X, y = data("train")
    known = model().cross_fit(X, y)
    return Scores(known.labels, known.lattices(), [x["word"] for x in X], folds=known.fold), y


@lru_cache
def from_scores() -> FittedRules:
    scores, y = scores_and_gold()
    return fit_rules(scores, y, threads=1)


def test_the_scores_of_a_model_give_the_rules_of_the_model() -> None:
    mine, own = from_scores(), fit_rules(model(), *data("train"), threads=1)
    assert mine.rules == own.rules != [] and mine.exact == own.exact and mine.source == own.source == "cross-fitted"
    assert mine.fingerprint == scores_and_gold()[0].fingerprint and mine.notes == ()


def test_written_rules_are_tuned_for_scores() -> None:
    scores, y = scores_and_gold()
    written = ["exactly 1 segment of DATE", r"fix DATE at tokens /(19|20)\d\d/", "DATE before AUTHOR"]
    mine = tune_rules(scores, written, y, threads=1)
    own = tune_rules(model(), written, *data("train"), threads=1)
    assert mine.tuned == own.tuned and mine.figures == own.figures and mine.best == own.best == "tuned"


def test_steeper_scores_give_the_same_rules() -> None:
    """The scale is fitted: a network that is three times as sure of itself pays three times as much."""
    scores, y = scores_and_gold()
    steep = [Lattice(3 * np.asarray(x.unary), 3 * np.asarray(x.pairwise)) for x in scores.lattices]
    result = fit_rules(Scores(scores.labels, steep, scores.X, folds=scores.folds), y, threads=1)
    plain = {str(item.learned.hard().rule): item.learned.rule for item in from_scores().priced}
    assert result.scale == pytest.approx(from_scores().scale / 3, rel=0.05)
    assert {str(item.learned.hard().rule) for item in result.priced} == set(plain)
    for item in result.priced:
        mine, other = item.learned.rule, plain[str(item.learned.hard().rule)]
        assert mine.penalty == pytest.approx(3 * other.penalty, rel=0.1)  # type: ignore[attr-defined]


def test_doubts_are_told() -> None:
    scores, y = scores_and_gold()
    right = [10 * np.eye(len(scores.labels))[scores.labels.ids(labels)] for labels in y]
    result = fit_rules(Scores(scores.labels, right, scores.X), y, rules=["present DATE"], threads=1)
    assert "are right on 100.00% of the tokens" in result.notes[0] and "note: the scores" in "\n".join(result.lines())
    folds = np.arange(len(y)) % 2
    twice = Scores(scores.labels, [right[0]] * len(y), [scores.X[0]] * len(y), folds=folds)  # type: ignore[index]
    result = fit_rules(twice, [y[0]] * len(y), rules=["present DATE"], threads=1)
    assert result.notes[0].startswith("140 of 140 sequences are also in another fold")
    useless = Scores(scores.labels, [-10 * x for x in right], scores.X)
    assert any("scale of the scores is at its bound" in note for note in fit_rules(useless, y, threads=1).notes)


def test_arguments_that_have_no_effect_on_scores() -> None:
    scores, y = scores_and_gold()
    for options in ({"given": [{}] * len(y)}, {"cross_fit": 3}):
        with pytest.raises(ModelError, match="no effect with Scores"):
            fit_rules(scores, y, **options)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="no effect with Scores"):
        fit_rules(scores, data("train")[0], y)
    with pytest.raises(LabelError, match="differ in length"):
        fit_rules(scores, y[:-1])
    with pytest.raises(LabelError, match="list of label lists"):
        fit_rules(model(), data("train")[0])


# ---- other frameworks -----------------------------------------------------------------------------------------------


def test_cross_fitting_of_any_framework() -> None:
    seen: list[set[str]] = []

    def train(X: list[Any], y: list[Any]) -> set[str]:
        assert len(X) == len(y)
        return {words[0] for words in X}

    def score(known: set[str], X: list[Any]) -> Any:
        seen.append({words[0] for words in X} & known)
        return [np.full((len(words), 2), float(len(known))) for words in X]

    X = [[f"w{k % 10}", "x"] for k in range(40)]  # each sequence comes four times
    scores = cross_fit(train, score, X, [["B", "A"]] * 40, folds=3)
    assert seen == [set()] * 3 and scores.labels.names == ("A", "B")
    assert scores.folds is not None and len(set(scores.folds.tolist())) == 3
    assert [x.unary[0, 0] for x in (scores.lattices[k] for k in range(40))] == [
        10 - len({k % 10 for k in range(40) if scores.folds[k] == fold}) for fold in scores.folds
    ]
    grouped = cross_fit(train, score, X, [["B", "A"]] * 40, groups=[k % 10 < 5 for k in range(40)], labels=["B", "A"])
    assert grouped.labels.names == ("B", "A") and len(set(grouped.folds.tolist())) == 2  # type: ignore[union-attr]


def test_cross_fitting_that_cannot_be() -> None:
    X, y = WORDS, [["A", "B"], ["A", "A", "B"]]
    for bad in ({"folds": 1}, {"seed": -1}, {"train": 3}, {"watch": 3}, {"X": X[:1], "y": y[:1]}):
        arguments: dict[str, Any] = {"train": lambda X, y: 0, "score": lambda model, X: LOGITS, "X": X, "y": y, **bad}
        with pytest.raises(ModelError):
            cross_fit(**arguments)
    with pytest.raises(LabelError, match="differ in length"):
        cross_fit(lambda X, y: 0, lambda model, X: LOGITS, X, y[:1])
    with pytest.raises(LatticeError, match="do not fit the tokens"):
        cross_fit(lambda X, y: 0, lambda model, X: LOGITS, X, y)


# ---- files ----------------------------------------------------------------------------------------------------------


def test_files_of_folds(tmp_path: Path) -> None:
    paths = [tmp_path / f"fold{k}.jsonl" for k in range(2)]
    for k, (path, logits) in enumerate(zip(paths, LOGITS, strict=True)):
        save_scores(path, [Lattice(logits)], labels=LABELS, givens=[{"tokens": WORDS[k], "verb": k}])
    scores = Scores.load(paths)
    assert scores.folds is not None and scores.folds.tolist() == [0, 1] and scores.X == WORDS
    assert scores.given == [{"verb": 0}, {"verb": 1}]
    assert Scores.load(paths[:1], [["a", "b"]]).folds is None
    save_scores(paths[0], [Lattice(LOGITS[0])], labels=LABELS, ids=[1])  # ids say the places
    save_scores(paths[1], [Lattice(LOGITS[1])], labels=LABELS, ids=[0])
    assert [len(Scores.load(paths).lattices[b]) for b in range(2)] == [3, 2]


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    path, other = tmp_path / "s.npz", tmp_path / "t.npz"
    np.savez(path, unary=np.zeros((2, 2)), tokens=np.array(["a", "b"]))
    with pytest.raises(LabelError, match="do not name their labels"):
        Scores.load([path])
    assert Scores.load([path], labels=LABELS).X == [["a", "b"]]
    with pytest.raises(FileError, match="other tokens") as wrong:
        Scores.load([path], [["a", "c"]], labels=LABELS)
    assert "sequence 0" in str(wrong.value)
    np.savez(other, unary=np.zeros((2, 2)), labels=np.array(["A", "C"]))
    with pytest.raises(LabelError, match="differ in their labels"):
        Scores.load([other], labels=Labels(LABELS))
