"""Scores of sequences by models that have not seen them; which sequences a model has seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle import CRF, LabelError, LocalTagger, ModelError, ModelFileError
from bridle.models import CrossFit, Tagger, files
from bridle.models.folds import folds_of
from bridle.models.task import SKETCH_SIZE, share_seen, sketch_of
from bridle.rules import at_most
from tests.models.test_tuning import WORD, noisy

MODELS: dict[str, Tagger] = {
    "lbfgs": CRF(features=WORD, c2=0.1, iterations=9, threads=1),
    "perceptron": CRF("perceptron", features=WORD, iterations=3),
    "ibt": CRF("ibt", features=WORD, iterations=2, rules=[at_most(2, of="A")]),
    "local": LocalTagger(features=["word[0]"], iterations=3),
}


@pytest.mark.parametrize("name", MODELS)
def test_each_fold_is_scored_by_a_model_of_the_others(name: str) -> None:
    X, y = noisy(24, 0)
    result = MODELS[name].cross_fit(X, y, folds=3)
    assert result.sequences.tolist() == list(range(24)) and set(result.fold.tolist()) == {0, 1, 2}
    lattices = result.lattices()
    for fold in range(3):
        inside = [k for k in range(24) if result.fold[k] != fold]
        twin = type(MODELS[name])(**MODELS[name].get_params()).fit([X[k] for k in inside], [y[k] for k in inside])
        for k in np.flatnonzero(result.fold == fold).tolist():
            theirs = twin.lattice(X[k])
            assert np.allclose(lattices[k].unary, theirs.unary, atol=2e-4), k
            if theirs.pairwise is not None:
                assert np.allclose(lattices[k].pairwise, theirs.pairwise, atol=2e-4)


def test_folds_keep_equal_sequences_together_and_have_equal_sizes() -> None:
    X, y = noisy(30, 1)
    encoded = CRF(features=WORD, c2=1).fit(X, y).features_.encode(X + X)
    folds = folds_of(encoded, 4, seed=0)
    assert np.array_equal(folds.of[:30], folds.of[30:])
    sizes = np.bincount(folds.of)
    assert len(sizes) == 4 and sizes.max() - sizes.min() <= 4
    assert [len(a) + len(b) for a, b in folds] == [60] * 4
    assert not np.array_equal(folds.of, folds_of(encoded, 4, seed=1).of)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.data())
def test_parts_of_encoded_sequences(lengths: list[int], data: st.DataObject) -> None:
    rng = np.random.default_rng(0)
    X = [[[f"a{rng.integers(5)}"] * int(rng.integers(1, 3)) for _ in range(n)] for n in lengths]
    tagger = CRF(c2=1, iterations=1).fit(
        [[["a0"], ["a1"]], [["a2"], ["a3"]], [["a4"]]], [["A", "B"], ["A", "B"], ["A"]]
    )
    whole = tagger.features_.encode(X)
    chosen = data.draw(st.lists(st.sampled_from(range(len(lengths))), unique=True).map(sorted))
    part, wanted = whole.part(np.array(chosen, dtype=np.int64)), tagger.features_.encode([X[k] for k in chosen])
    for name in ("offsets", "indptr", "attrs"):
        assert getattr(part, name).tolist() == getattr(wanted, name).tolist()


def test_a_file_of_scores(tmp_path: Path) -> None:
    X, y = noisy(24, 2)
    result = MODELS["lbfgs"].cross_fit(X, y)
    result.save(tmp_path / "scores")
    again = CrossFit.load(tmp_path / "scores")
    assert again.identity == result.identity and again.labels == result.labels
    assert np.array_equal(again.unary, result.unary) and np.array_equal(again.pairwise, result.pairwise)


@pytest.mark.parametrize(
    "change",
    [
        {"fold": np.array([0, 9], dtype=np.int64)},
        {"offsets": np.array([0, 5, 2], dtype=np.int64)},
        {"unary": np.zeros((3, 3), dtype=np.float32)},
        {"unary": np.full((2, 2), np.nan, dtype=np.float32)},
        {"sequences": np.array([1, 1], dtype=np.int64)},
        {"pairwise": np.zeros((2, 3, 2))},
        {"fold": np.array([-1, 0], dtype=np.int64)},
    ],
    ids=lambda change: "-".join(change),
)
def test_scores_that_do_not_fit_together_are_refused(change: dict[str, Any], tmp_path: Path) -> None:
    arrays = {
        "sequences": np.array([0, 1], dtype=np.int64),
        "fold": np.array([0, 1], dtype=np.int64),
        "unary": np.zeros((2, 2), dtype=np.float32),
        "offsets": np.array([0, 1, 2], dtype=np.int64),
        "pairwise": np.zeros((2, 2, 2)),
    }
    head = {"labels": ["A", "B"], "scheme": None, "identity": {}}
    files.save(tmp_path / "good", "cross-fit", head, arrays)
    assert len(CrossFit.load(tmp_path / "good")) == 2
    files.save(tmp_path / "bad", "cross-fit", head, {**arrays, **change})
    with pytest.raises(ModelFileError):
        CrossFit.load(tmp_path / "bad")
    files.save(tmp_path / "other", "model", head, arrays)
    with pytest.raises(ModelFileError, match="not cross-fitted scores"):
        CrossFit.load(tmp_path / "other")


def test_labels_that_a_model_does_not_know() -> None:
    X, y = noisy(24, 3)
    model = CRF(features=WORD, c2=1, iterations=2).fit(X, y)
    with pytest.raises(LabelError, match="unknown label"):
        model.cross_fit(X, [["C"] * len(item) for item in y])
    with pytest.raises(ModelError, match="invalid value of `folds`"):
        model.cross_fit(X, y, folds=1)
    with pytest.raises(ModelError, match="too few sequences"):
        model.cross_fit(X[:1], y[:1])
    assert model.cross_fit([["w"]] * 8, [["A"], ["B"]] * 4).fold.max() == 3  # nothing tells them apart


def test_what_a_model_has_seen() -> None:
    X, y = noisy(30, 5)
    X = [[*x, f"n{k}"] for k, x in enumerate(X)]  # all different
    y = [[*item, "A"] for item in y]
    model = CRF(features=WORD, c2=1, iterations=1).fit(X, y)
    assert model.share_seen(X) == 1.0 and model.share_seen([["never", "seen"]]) == 0.0
    assert model.share_seen([*X[:5], *([["never", str(k)] for k in range(5)])]) == 0.5
    plain = CRF(c2=1, iterations=1).fit([[["a"], ["b"]]], [["A", "B"]])
    assert plain.share_seen([[["a"], ["b"]], [["b"]]]) == 0.5
    assert plain.share_seen([(("a",), {"b": 1})]) == 1.0  # the same features in another form


def test_a_sketch_tells_the_share_of_large_data() -> None:
    hashes = np.random.default_rng(0).integers(0, 2**63, 40_000).astype(np.uint64)
    sketch = sketch_of(hashes)
    assert len(sketch) == SKETCH_SIZE and bool((np.diff(sketch.astype(object)) > 0).all())
    others = np.random.default_rng(1).integers(0, 2**63, 3_000).astype(np.uint64)
    mixed = np.concatenate([hashes[:1000], others])
    assert share_seen(sketch, mixed) == pytest.approx(0.25, abs=0.05)
    assert share_seen(sketch, mixed[:0]) is None  # nothing to judge by


def test_fingerprints_tell_models_apart() -> None:
    X, y = noisy(24, 4)
    item, same, other = (CRF(features=WORD, c2=c2, iterations=3, threads=1).fit(X, y) for c2 in (1, 1, 0.5))
    assert item.fingerprint_ == same.fingerprint_ != other.fingerprint_
    assert len(item.fingerprint_) == 16
