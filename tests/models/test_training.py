"""Training that is watched, stopped and resumed; models in files, in other processes and in threads."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bridle
from bridle import rules as r
from bridle.errors import ModelError, ModelFileError
from bridle.models import CRF, LocalTagger, Step, Tagger, files, from_bytes, load
from learning import Data, noisy

MODELS: dict[str, Callable[..., Tagger]] = {
    "lbfgs": lambda **more: CRF(c2=0.1, **{"tolerance": 0.0, **more}),
    "lbfgs with L1": lambda **more: CRF(c1=0.5, c2=0.1, **{"tolerance": 0.0, **more}),
    "perceptron": lambda **more: CRF("perceptron", **more),
    "perceptron, last": lambda **more: CRF("perceptron", average="last", pairs="all", **more),
    "ibt": lambda **more: CRF("ibt", rules=["at most 2 segments of L0"], **more),
    "local": lambda **more: LocalTagger(**more),
    "winnow": lambda **more: LocalTagger("winnow", pairs="seen", **more),
}
DATA, DEV = noisy(np.random.default_rng(0), 150, 0.2), noisy(np.random.default_rng(1), 100, 0.2)


def arrays(model: Tagger) -> dict[str, list[Any]]:
    return {name: array.tolist() for name, array in (model.linear_.arrays() | model.features_.arrays()).items()}


def same(item: Tagger, other: Tagger) -> None:
    """Assert that two models are exactly equal."""
    assert arrays(item) == arrays(other)
    assert item.progress_ == other.progress_
    assert item.labels_ == other.labels_


def stop_at(iteration: int) -> Callable[[Step], None]:
    def watch(step: Step) -> None:
        if step.iteration == iteration:
            raise KeyboardInterrupt

    return watch


# ---- checkpoints ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dev", [None, DEV], ids=["without", "with a development set"])
@pytest.mark.parametrize("name", MODELS)
def test_resumed_training_ends_as_if_nothing_had_happened(name: str, dev: Data | None, tmp_path: Path) -> None:
    make, file = MODELS[name], tmp_path / "checkpoint"
    whole = make(iterations=9).fit(*DATA, dev=dev)
    assert whole.progress_.iteration == 9
    make(iterations=4).fit(*DATA, dev=dev, checkpoint=file, every=2)
    same(make(iterations=9).fit(*DATA, dev=dev, resume=file), whole)
    stopped = make(iterations=9)
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(*DATA, dev=dev, checkpoint=file, every=2, watch=stop_at(7))
    assert (stopped.progress_.iteration, stopped.progress_.why) == (7, "interrupted")
    assert arrays(stopped) == arrays(make(iterations=7).fit(*DATA, dev=dev))
    with pytest.raises(KeyboardInterrupt):  # once more
        make(iterations=9).fit(*DATA, dev=dev, resume=file, checkpoint=file, every=1, watch=stop_at(8))
    same(make(iterations=9).fit(*DATA, dev=dev, resume=file), whole)


@pytest.mark.parametrize("c1", [0.0, 0.01])
def test_resumed_with_many_weights(c1: float, tmp_path: Path) -> None:
    """Vectors that are summed in blocks and in threads."""
    rng = np.random.default_rng(0)
    X = [[[f"f{k}" for k in rng.integers(0, 40_000, 40).tolist()] for _ in range(10)] for _ in range(60)]
    y = [[f"L{k}" for k in rng.integers(0, 3, 10).tolist()] for _ in range(60)]
    make = partial(CRF, c1=c1, c2=0.01, threads=3, tolerance=0.0)
    whole = make(iterations=12).fit(X, y)
    make(iterations=7).fit(X, y, checkpoint=tmp_path / "checkpoint", every=7)
    same(make(iterations=12).fit(X, y, resume=tmp_path / "checkpoint"), whole)


def test_a_checkpoint_at_the_end_is_the_end(tmp_path: Path) -> None:
    file = tmp_path / "checkpoint"
    clean = noisy(np.random.default_rng(0), 60, 0.0)
    whole = LocalTagger(margin=0.0, iterations=200).fit(*clean, checkpoint=file, every=1000)
    assert whole.progress_.why == "every token is right by more than the margin"
    same(LocalTagger(margin=0.0, iterations=200).fit(*clean, resume=file), whole)
    same(LocalTagger(margin=0.0, iterations=1).fit(*clean, resume=file), whole)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("training") / "checkpoint"
    CRF("perceptron", iterations=2).fit(*DATA, dev=DEV, checkpoint=file, every=1)
    return file


OTHER_LABEL = (DATA[0], [[*reversed(DATA[1][0])], *DATA[1][1:]])
OTHER_TOKEN = ([[["f1"], *DATA[0][0][1:]], *DATA[0][1:]], DATA[1])


@pytest.mark.parametrize(
    ("model", "data", "dev", "says"),
    [
        (CRF("perceptron"), OTHER_LABEL, DEV, "data="),
        (CRF("perceptron"), OTHER_TOKEN, DEV, "data="),
        (CRF("perceptron"), DATA, (DEV[0][:9], DEV[1][:9]), "another training"),  # accuracies cannot be compared
        (CRF("perceptron", seed=1), DATA, DEV, "seed=0"),
        (CRF("perceptron", average="last"), DATA, DEV, "average='averaged'"),
        (CRF("perceptron", pairs="all"), DATA, DEV, "pairs='seen'"),
        (CRF(), DATA, DEV, "algorithm='perceptron'"),
        (CRF("ibt", rules=["at most 2 segments of L0"]), DATA, DEV, "rules="),
        (LocalTagger(), DATA, DEV, "model='CRF'"),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(
    checkpoint: Path, model: Tagger, data: Data, dev: Data, says: str
) -> None:
    with pytest.raises(ModelError, match="is a checkpoint of another training") as caught:
        model.fit(*data, dev=dev, resume=checkpoint)
    assert says in str(caught.value)
    assert not hasattr(model, "linear_")


def test_models_and_checkpoints_are_not_mixed_up(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="is not a model"):
        load(checkpoint)
    model = CRF("perceptron", iterations=2).fit(*DATA)
    model.save(tmp_path / "model")
    with pytest.raises(ModelError, match="is not a checkpoint"):
        model.fit(*DATA, resume=tmp_path / "model")
    (tmp_path / "text").write_text("nothing")
    with pytest.raises(ModelFileError, match="is not a Bridle model"):
        model.fit(*DATA, resume=tmp_path / "text")


# ---- watching and stopping ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_the_watcher_sees_every_iteration(name: str) -> None:
    steps: list[Step] = []
    model = MODELS[name](iterations=5).fit(*DATA, dev=DEV, watch=steps.append)
    assert [step.iteration for step in steps] == [1, 2, 3, 4, 5]
    assert [step.loss for step in steps] == model.progress_.losses
    accuracies = [step.score or 0.0 for step in steps]
    assert model.progress_.best_score == max(accuracies) and {step.measure for step in steps} == {"accuracy"}
    assert model.progress_.best_iteration == 1 + accuracies.index(max(accuracies))
    assert [step.best for step in steps] == [k == 0 or a > max(accuracies[:k]) for k, a in enumerate(accuracies)]
    if name != "ibt":  # that one counts what is right under its rules
        assert model.score(*DEV) == pytest.approx(max(accuracies)), "the best model is kept"


def test_patience() -> None:
    """Nothing is known of the tokens of this development set, so no model is better than the first one."""
    dev = ([[["unknown"]]], [["L0"]])
    model = LocalTagger(patience=3).fit(*DATA, dev=dev)
    assert model.progress_.why == "no better on the development set for 3 iterations"
    assert (model.progress_.iteration, model.progress_.best_iteration) == (4, 1)
    assert arrays(model) == arrays(LocalTagger(iterations=1).fit(*DATA))
    with pytest.raises(ModelError, match="patience needs a development set"):
        LocalTagger(patience=3).fit(*DATA)


def test_tolerance_is_a_matter_of_lbfgs() -> None:
    """The mistakes of a perceptron go up and down; that they did not fall for a while says nothing."""
    model = CRF(tolerance=0.01, iterations=200).fit(*DATA)
    assert str(model.progress_.why).startswith("the loss fell by less than 0.01")
    assert 11 <= model.progress_.iteration < 50
    assert CRF("perceptron", iterations=60).fit(*DATA).progress_.iteration == 60


def test_ctrl_c_before_anything_is_learned() -> None:
    model = CRF("perceptron")

    class Interrupted(list[Any]):
        def __len__(self) -> int:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(Interrupted(DATA[0]), DATA[1])
    with pytest.raises(ModelError, match="has not been trained"):
        model.predict(DATA[0])


def test_ctrl_c_keeps_a_model_that_works(tmp_path: Path) -> None:
    model = CRF(iterations=50)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*DATA, watch=stop_at(1))
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").predict(DEV[0]) == model.predict(DEV[0])
    assert load(tmp_path / "model").progress_ == model.progress_


# ---- files, processes, threads --------------------------------------------------------------------------------------


def test_bytes_are_those_of_the_file(tmp_path: Path) -> None:
    model = CRF(iterations=2).fit(*DATA)
    model.save(tmp_path / "model")
    assert model.to_bytes() == (tmp_path / "model").read_bytes()
    assert from_bytes(model.to_bytes()).fingerprint_ == model.fingerprint_
    with pytest.raises(ModelFileError, match="a model in memory: this file has the wrong length"):
        from_bytes(model.to_bytes()[:-1])


WORDS = [["the", "cat"], ["a", "Dog", "ran"], [], ["the", "old", "dog", "ran"]] * 40
TAGS = [["D", "N"], ["D", "N", "V"], [], ["D", "J", "N", "V"]] * 40
TEMPLATES = ["word[0]", "word[-1] word[0]", "suffix2[0]", "label[-1]"]
READER = """
import hashlib, json, sys
from concurrent.futures import ThreadPoolExecutor
import bridle
from bridle import rules as r

def look(model, X):
    batch = model.lattices(X)
    parts = batch.unary.tobytes() + (b"" if batch.pairwise is None else batch.pairwise.tobytes())
    rules = [r.at_most(1, of=model.labels_.names[0])]
    return [hashlib.sha256(parts).hexdigest(), model.predict(X), model.predict(X, rules=rules)]

if __name__ == "__main__":
    asked = json.load(sys.stdin)
    with ThreadPoolExecutor(2) as pool:
        models = [bridle.load(path) for path, _ in asked for _ in range(2)]
        print(json.dumps(list(pool.map(look, models, [X for _, X in asked for _ in range(2)]))))
"""


def test_another_process_finds_the_same(tmp_path: Path) -> None:
    """Scores and labels are exactly equal, with and without rules, in two threads at once."""
    models = {name: (make(iterations=4).fit(*DATA), DEV[0]) for name, make in MODELS.items()}
    for name, algorithm in (("crf", CRF), ("tagger", LocalTagger)):
        models[name] = (algorithm(features=TEMPLATES).fit(WORDS, TAGS), [["the", "cats"], [], ["ran"]])
    asked = []
    for k, (model, X) in enumerate(models.values()):
        model.save(tmp_path / str(k))
        asked.append((str(tmp_path / str(k)), X))
    script = tmp_path / "reader.py"
    script.write_text(READER)
    source = str(Path(bridle.__file__).parents[1])
    answer = subprocess.run(
        [sys.executable, str(script)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": source},
    )
    document = json.loads(answer.stdout)
    for k, (model, X) in enumerate(models.values()):
        batch = model.lattices(X)
        parts = batch.unary.tobytes() + (b"" if batch.pairwise is None else batch.pairwise.tobytes())
        rules = [r.at_most(1, of=model.labels_.names[0])]
        wanted = [hashlib.sha256(parts).hexdigest(), model.predict(X), model.predict(X, rules=rules)]
        assert document[2 * k] == document[2 * k + 1] == wanted


def test_what_a_file_keeps(tmp_path: Path) -> None:
    model = CRF("ibt", features=TEMPLATES, rules=[r.at_most(1, of="V")], iterations=3, cutoff=2, seed=5).fit(
        WORDS, TAGS
    )
    model.save(tmp_path / "model", notes={"corpus": "pets"})
    again = load(tmp_path / "model")
    same(again, model)
    assert type(again) is CRF
    assert (again.n_weights_, again.notes_) == (model.n_weights_, {"corpus": "pets"})
    assert again.get_params() == model.get_params() | {"rules": [str(r.at_most(1, of="V"))]}
    assert again.top_weights(5) == model.top_weights(5)
    assert again.fit(WORDS, TAGS).predict(WORDS) == model.predict(WORDS)


@pytest.mark.parametrize("after", [0, 1, 5])
def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    path, parts = tmp_path / "model", files._parts
    model = CRF("perceptron", iterations=2).fit(*DATA)
    model.save(path)
    before = path.read_bytes()

    def full(*arguments: Any) -> Iterator[Any]:
        yield from parts(*arguments)[:after]
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "_parts", full)
    with pytest.raises(ModelFileError, match="The disk is full"):
        CRF(iterations=2).fit(*DATA).save(path)
    with pytest.raises(ModelFileError, match="The disk is full"):
        CRF(iterations=2).fit(*DATA, checkpoint=path, every=1)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", MODELS)
def test_the_same_seed_gives_the_same_model(name: str) -> None:
    model = MODELS[name](iterations=3, seed=1, threads=2).fit(*DATA)
    same(MODELS[name](iterations=3, seed=1, threads=2).fit(*DATA), model)
    other = MODELS[name](iterations=3, seed=2, threads=2).fit(*DATA)
    assert (arrays(other) == arrays(model)) == name.startswith("lbfgs"), "the order of the examples depends on the seed"


def test_the_number_of_threads_does_not_matter() -> None:
    X = DEV[0] * 20
    model = CRF(iterations=5, threads=1).fit(*DATA)
    wanted, rules = model.predict(X, threads=1), [r.at_most(1, of="L1")]
    unary = model.lattices(X).unary
    for threads in (0, 2, 3, 7):
        assert model.predict(X, threads=threads) == wanted
        assert model.predict(X, rules=rules, threads=threads) == model.predict(X, rules=rules, threads=1)
        assert (model.lattices(X, threads=threads).unary == unary).all()
        trained = CRF(iterations=5, threads=threads).fit(*DATA)
        np.testing.assert_allclose(trained.linear_.weights, model.linear_.weights, rtol=1e-5, atol=1e-6)


# ---- checkpoints that something has altered -------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["lbfgs", "perceptron"])
def test_altered_checkpoints_are_refused(tmp_path: Path, algorithm: Any) -> None:
    """Arrays of other lengths would be read out of bounds by the kernels."""
    from bridle.errors import ModelFileError
    from bridle.models import files

    X, y = [["a", "b"], ["b", "a"]], [["A", "B"], ["B", "A"]]
    model = CRF(algorithm, features=["word[0]"], iterations=4, threads=1)
    model.fit(X, y, checkpoint=tmp_path / "c", every=1)
    kept = files.open_file(tmp_path / "c")
    for name in kept.arrays:
        for array in (kept.arrays[name][:1], np.concatenate([kept.arrays[name]] * 2), None):
            arrays = {k: v for k, v in kept.arrays.items() if k != name}
            if array is not None:
                arrays[name] = np.ascontiguousarray(array)
            if array is not None and array.shape == kept.arrays[name].shape:
                continue
            files.save(tmp_path / "x", "checkpoint", kept.head, arrays)
            with pytest.raises((ModelError, ModelFileError)):
                CRF(algorithm, features=["word[0]"], iterations=9, threads=1).fit(X, y, resume=tmp_path / "x")
    for head in ({}, {"identity": kept.head["identity"]}, {**kept.head, "progress": {"iteration": "x"}}):
        files.save(tmp_path / "x", "checkpoint", head, kept.arrays)
        with pytest.raises((ModelError, ModelFileError)):
            CRF(algorithm, features=["word[0]"], iterations=9, threads=1).fit(X, y, resume=tmp_path / "x")


def test_models_can_be_copied() -> None:
    import copy
    import pickle

    X, y = [["a", "b"], ["b", "a"]], [["A", "B"], ["B", "A"]]
    for model in (CRF(features=["word[0]", "lower[0]"]).fit(X, y), CRF().fit([[["x"], ["y"]]], [["A", "B"]])):
        data = X if model.feature_set_ is not None or model.features != "auto" else [[["x"], ["y"]]]
        for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert again.predict(data) == model.predict(data)
