"""Model files and checkpoints, altered and signed again: they give answers or a ModelFileError, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bridle
from bridle import CRF, LocalTagger
from bridle import rules as r
from bridle.errors import ModelFileError
from bridle.learn import ConstrainedTagger, DeterministicRules
from bridle.learn.segmenter import Segmenter
from bridle.models import files
from bridle.models.files import Stored
from bridle.models.training import Progress
from mutations import complaints

X = [["the", "cat", "sat"], ["a", "dog", "ran"], ["the", "dog", "sat", "down"]] * 2
Y = [["O", "B-A", "B-B"], ["O", "B-A", "I-A"], ["O", "B-A", "B-B", "O"]] * 2
KINDS: dict[str, Any] = {
    "crf": lambda n: CRF(features=["word[0]", "word[-1] word[0]", "suffix2[0]", "label[-1]"], iterations=n),
    "edges": lambda n: CRF(features=["word[0]", "label[-1] word[0]", "label[-1]"], iterations=n),
    "edges, perceptron": lambda n: CRF("perceptron", features=["word[0]", "label[-1] shape[0]"], iterations=n),
    "owl-qn": lambda n: CRF(features=["word[0]"], iterations=n, c1=0.1, pairs="all"),
    "ibt": lambda n: CRF(algorithm="ibt", features=["word[0]"], iterations=n, rules=(r.at_most(1, of="A"),)),
    "plain": lambda n: LocalTagger(iterations=n),
    "winnow": lambda n: LocalTagger("winnow", features=["word[0]"], iterations=n),
}
PLAIN = [[[word] for word in x] for x in X]


def data(name: str) -> Any:
    return PLAIN if name == "plain" else X


@pytest.mark.parametrize("name", KINDS)
def test_altered_models(tmp_path: Path, name: str) -> None:
    path, xs = tmp_path / "m", data(name)
    KINDS[name](3).fit(xs, Y).save(path)

    def use(path: Path) -> None:
        model = bridle.load(path)
        model.predict(xs[:3], [r.present("A")], on_infeasible="relax")
        assert repr(model) and model.features_.names() is not None

    assert complaints(files.open_file(path), path, use, range(60)) == []


@pytest.mark.parametrize("name", KINDS)
def test_altered_checkpoints(tmp_path: Path, name: str) -> None:
    path, xs = tmp_path / "c", data(name)
    dev = xs[:2], Y[:2]
    KINDS[name](2).fit(xs, Y, checkpoint=path, every=1, dev=dev)
    stored = files.open_file(path)
    identity = stored.head.pop("identity")  # other settings or data are told as such

    def use(path: Path) -> None:
        result = files.open_file(path)
        files.save(path, result.kind, {**result.head, "identity": identity}, result.arrays)
        KINDS[name](4).fit(xs, Y, resume=path, dev=dev).predict(xs[:2])

    assert complaints(stored, path, use, range(60)) == []


def test_altered_deterministic_rules(tmp_path: Path) -> None:
    path = tmp_path / "d"
    DeterministicRules(cutoff=1, threshold=0.5).fit(X, Y).save(path)
    stored = files.open_file(path)
    assert complaints(stored, path, lambda p: list(DeterministicRules.load(p).lines()), range(60)) == []


def test_altered_constrained_taggers(tmp_path: Path) -> None:
    path = tmp_path / "d"
    ConstrainedTagger(iterations=2).fit(X, Y).save(path)
    assert complaints(files.open_file(path), path, lambda p: bridle.load(p).predict(X), range(60)) == []


def test_altered_segmenters(tmp_path: Path) -> None:
    path = tmp_path / "s"
    sentences = [["ab", "c", "d"], ["c", "ab"], ["d", "abc"]] * 4
    Segmenter(iterations=2, prune=DeterministicRules("characters", cutoff=1)).fit(sentences).save(path)
    assert complaints(files.open_file(path), path, lambda p: Segmenter.load(p).segment("abcd"), range(60)) == []


# ---- one by one -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "array", "value"),
    [
        ("crf", "state.w", np.nan),
        ("crf", "state.steps", np.inf),
        ("crf", "state.numbers", -1.0),
        ("crf", "state.counts", -1),
        ("crf", "state.counts", 1 << 40),  # pairs of history: all memory and more
        ("crf", "best.w", np.inf),
        ("crf", "best.w", 1e300),
        ("ibt", "state.at", -1),  # a seed of random numbers must not be negative
        ("ibt", "state.sum", np.nan),
    ],
)
def test_values_of_a_checkpoint(tmp_path: Path, name: str, array: str, value: float) -> None:
    path, dev = tmp_path / "c", (X[:2], Y[:2])
    KINDS[name](2).fit(X, Y, checkpoint=path, every=1, dev=dev)
    stored = files.open_file(path)
    changed = np.array(stored.arrays[array])
    changed.reshape(-1)[-1 if array == "state.numbers" else 0] = value
    files.save(path, stored.kind, stored.head, {**stored.arrays, array: changed})
    with pytest.raises(ModelFileError, match="no state to go on from that can be used") as caught:
        KINDS[name](4).fit(X, Y, resume=path, dev=dev)
    assert caught.value.where == str(path) and caught.value.got and caught.value.wanted and caught.value.cause


def test_weights_that_training_does_not_have(tmp_path: Path) -> None:
    """A full row has slots for labels that were not seen, and for none at all."""
    path, dev = tmp_path / "c", (X[:2], Y[:2])
    KINDS["winnow"](2).fit(X, Y, checkpoint=path, every=1, dev=dev)
    stored = files.open_file(path)
    for name in ("best.w", "state.w", "state.sum"):
        changed = np.ones_like(stored.arrays[name])
        files.save(path, stored.kind, stored.head, {**stored.arrays, name: changed})
        with pytest.raises(ModelFileError, match="does not have is not zero"):
            KINDS["winnow"](4).fit(X, Y, resume=path, dev=dev)


@pytest.mark.parametrize(
    "change",
    [
        {"iteration": "2"},
        {"iteration": 2.0},
        {"iteration": -2},
        {"losses": [1.0]},
        {"losses": [1.0, "x"]},
        {"losses": [1.0, 10**400]},
        {"losses": None},
        {"best_iteration": 3},
        {"best_iteration": None},
        {"best_score": "good"},
        {"best_score": [1]},
        {"best_accuracy": [1]},
        {"why": 3},
        {"measure": 3},
        {"more": 1},
    ],
)
def test_impossible_progress_is_refused(change: dict[str, Any]) -> None:
    fine = {"iteration": 2, "losses": [2.0, 1], "best_score": 0.5, "best_iteration": 1, "why": None, "measure": "f1"}
    assert Progress.restored(fine) == Progress(**fine)  # type: ignore[arg-type]
    with pytest.raises((TypeError, ValueError)):
        Progress.restored({**fine, **change})


def test_the_best_weights_and_their_score_come_together(tmp_path: Path) -> None:
    path, dev = tmp_path / "c", (X[:2], Y[:2])
    KINDS["crf"](2).fit(X, Y, checkpoint=path, every=1, dev=dev)
    stored: Stored = files.open_file(path)
    without = {name: array for name, array in stored.arrays.items() if not name.startswith("best.")}
    files.save(path, stored.kind, stored.head, without)
    with pytest.raises(ModelFileError, match="best weights and their score"):
        KINDS["crf"](4).fit(X, Y, resume=path, dev=dev)
